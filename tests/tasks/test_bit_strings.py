"""Languages of bit strings against their definitions in Python, their laws, rules and held-out strings."""

from __future__ import annotations

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from krogh.errors import KroghError
from krogh.tasks.base import Examples
from krogh.tasks.bit_strings import SingleBlip, StringParity, Substring, all_strings

KEY = jax.random.key(5)


def words(bits: int) -> list[str]:
    return ["".join(map(str, row)) for row in all_strings(bits).tolist()]


def test_all_strings_are_there_once():
    assert sorted(words(5)) == ["".join(one) for one in itertools.product("01", repeat=5)]


LANGUAGES = {
    "blip": (SingleBlip(6), lambda word: word.count("1") == 1),
    "parity": (StringParity(6), lambda word: word.count("1") % 2 == 1),
    "substring": (Substring(6), lambda word: "101" in word),
    "several": (Substring(6, ["11", "000"]), lambda word: "11" in word or "000" in word),
    "at most": (Substring(6, "01", most=1), lambda word: word.count("01") <= 1),
    "overlaps": (Substring(6, "11", most=2), lambda word: sum(word[i : i + 2] == "11" for i in range(5)) <= 2),
}


@pytest.mark.parametrize("name", LANGUAGES)
def test_labels_are_membership(name):
    task, inside = LANGUAGES[name]
    assert task.member(all_strings(6)).tolist() == [float(inside(word)) for word in words(6)]


def test_a_string_is_given_as_tokens_between_two_ends():
    task = StringParity(3, eps_x=0.5)
    x = np.asarray(task.decode(np.array([[1, 0, 1]], np.uint8)).x)[0]
    half, rest = 0.25, 0.5 * np.sqrt(3) / 2
    assert np.allclose(x, [[0, 0, 0, 1], [rest, 0, half, 0], [0, rest, half, 0], [rest, 0, half, 0], [0, 0, 0, 1]])


def test_the_law_of_the_lower_bound_gives_a_quarter_to_zeros():
    task = SingleBlip(8)
    strings, p = task.distinct()
    chance = {"".join(map(str, row)): q for row, q in zip(strings.tolist(), p, strict=True)}
    assert sum(chance.values()) == pytest.approx(1) and chance["0" * 8] == pytest.approx(1 / 4)
    assert len(strings) == 1 + 8 + 7 and chance["01000000"] == pytest.approx(2 / 28)
    assert chance["10000000"] == pytest.approx(1 / 28) == chance["00110000"]
    drawn = np.asarray(task.draw(KEY, 1 << 15))
    found, counts = np.unique(drawn, axis=0, return_counts=True)
    assert np.array_equal(found, strings)
    assert np.abs(counts / len(drawn) - p).max() < 0.015
    assert task.population_size is None and SingleBlip(8, law="uniform").population_size == 256
    assert np.allclose(task.baselines()["null_risk"], 0.5)


@pytest.mark.parametrize(
    ("rule", "expected"),
    [("half", [0, 1, 1, 0, 1, 1]), ("third", [0, 1, 1, 0, 1, 1]), ("square", [0.01, 0.36, 0.25, 0.04, 0.49, 0.25])],
)
def test_rules_say_what_a_mistake_is(rule, expected):
    task, truth = StringParity(3, rule=rule), jnp.array([0.0, 0, 0, 1, 1, 1])
    prediction = jnp.array([0.1, 0.6, 0.5, 0.8, 0.3, 0.5])
    found = task.judge(prediction, Examples(truth, truth, truth))
    assert np.allclose(found, expected, atol=1e-6)
    near = task.judge(jnp.array([0.4]), Examples(truth[:1], truth[:1], truth[:1]))
    assert float(near[0]) == pytest.approx({"half": 0.0, "third": 1.0, "square": 0.16}[rule])


def test_held_out_strings_are_never_trained_on():
    task = Substring(6, held=16, split=3)
    number = lambda strings: set((np.asarray(strings, int) @ 2 ** np.arange(6)).tolist())  # noqa: E731
    trained, judged = number(task.dataset(KEY, 48, 48)), number(task.test(KEY, 16))
    assert len(trained) == 48 and len(judged) == 16 and not trained & judged
    assert number(task.draw(KEY, 4000)) == trained
    assert number(Substring(6, held=16, split=4).test(KEY, 16)) != judged
    assert task.population_size is None
    with pytest.raises(KroghError, match=r"16 strings are held out.*validation=17"):
        task.check_test(17)


def test_baselines_count_every_string():
    known = Substring(10).baselines()
    share = np.mean(["101" in word for word in words(10)])
    assert known["null_risk"] == pytest.approx(share) and known["guessing_error"] == pytest.approx(1 - share)
    assert known["label_variance"] == pytest.approx(share * (1 - share))
    assert StringParity(20).baselines() == {}


@pytest.mark.parametrize(
    ("build", "echo"),
    [
        (lambda: StringParity(1), "bits ≥ 2.*bits=1"),
        (lambda: SingleBlip(6, law="blob"), "'blob'; did you mean 'blip'"),
        (lambda: SingleBlip(6, held=3), "equally likely.*held=3"),
        (lambda: Substring(6, "10101010"), "1 to 6 letters; got '10101010'"),
        (lambda: Substring(6, "1a"), "got '1a'"),
        (lambda: Substring(6, ()), "at least one pattern"),
        (lambda: Substring(6, ["11", "11"]), "must not repeat"),
        (lambda: Substring(6, most=-1), "most=-1"),
        (lambda: Substring(6, held=64), "held=64"),
        (lambda: StringParity(4, rule="halves"), "'halves'; did you mean 'half'"),
        (lambda: StringParity(20).population() if StringParity(20).population_size is None else None, "16 bits"),
        (lambda: StringParity(20).distinct(), "bits=20"),
    ],
)
def test_bad_languages_are_refused(build, echo):
    with pytest.raises(KroghError, match=echo):
        build()
