"""Words of regular languages against lists of all words, and answers against their definitions."""

from __future__ import annotations

import itertools
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from krogh.errors import KroghError
from krogh.models import CausalTransformer
from krogh.programs.automata import LANGUAGES, find_language, known_language, words_of_length
from krogh.tasks import Language, RegularLanguage
from krogh.training.losses import LOSSES
from krogh.values import describe, replaced, structure_of

KEY = jax.random.key(3)
MANY = 8192
QUICK = {"xla_backend_optimization_level": 0}
draw = jax.jit(lambda task, size: task.draw(KEY, size), static_argnums=1, compiler_options=QUICK)
judge = jax.jit(lambda task, size: task.test(KEY, size), static_argnums=1, compiler_options=QUICK)


@jax.jit
def read(task, symbols):
    return task.read(symbols).states


def padded(name: str) -> Language:
    """With room for all of the languages here, so that they share programs."""
    return Language.of(name, states=7, symbols=2)


def texts(task: RegularLanguage, symbols) -> list[str]:
    return ["".join(str(symbol) for symbol in row if symbol != task.padding) for row in np.asarray(symbols).tolist()]


@pytest.mark.parametrize("name", ["tomita-3", "(00)*", "brackets-3"])
def test_lengths_are_uniform_and_words_of_a_length_are(name):
    task, automaton = RegularLanguage(padded(name), 2, 8), known_language(name)
    words = texts(task, draw(task, MANY).symbols)
    inside = {
        length: [
            word
            for word in map("".join, itertools.product(automaton.alphabet, repeat=length))
            if automaton.accepts(word)
        ]
        for length in range(2, 9)
    }
    possible = [length for length, own in inside.items() if own]
    expected = {word: MANY / len(possible) / len(inside[length]) for length in possible for word in inside[length]}
    found, counts = np.unique(words, return_counts=True)
    assert set(found) == set(expected), "all words are met, and no others"
    p = stats.chisquare(counts, [expected[word] for word in found]).pvalue
    assert p > 1e-5


def test_states_are_those_of_the_automaton():
    task = RegularLanguage("tomita-3", 1, 9)
    words = draw(task, 64)
    assert np.array_equal(read(task, np.asarray(words.symbols)), words.states)
    least = task.language.automaton
    plain = np.where(np.asarray(words.symbols) == task.padding, -1, np.asarray(words.symbols).astype(np.int64))
    assert np.array_equal(least.run(plain)[:, 1:], words.states)


def can_go_on(automaton, prefix: str, more: int = 8) -> bool:
    """Whether some word of up to `more` further symbols is accepted, by trying all."""
    return any(
        automaton.accepts(prefix + "".join(rest))
        for length in range(more)
        for rest in itertools.product(automaton.alphabet, repeat=length)
    )


@pytest.mark.parametrize("name", ["tomita-2", "tomita-7", "(00)*(11)*", "tomita-6", "(00)*"])
def test_answers_are_what_is_asked(name):
    automaton = known_language(name)
    for labeling in ("next", "prefix", "final"):
        task = RegularLanguage(padded(name), 1, 6, labeling, negatives=True)
        words = draw(task, 24)
        y = np.asarray(task.decode(words).y)
        for text, rows in zip(texts(task, words.symbols), y, strict=True):
            for t in range(1, 7):
                if t > len(text) or (labeling == "final" and t < len(text)):
                    expected = [0.0] * task.outputs
                elif labeling == "next":
                    expected = [1.0 if can_go_on(automaton, text[:t] + a) else -1.0 for a in automaton.alphabet]
                    expected += [0.0] * (2 - len(expected))
                else:
                    sign = 1.0 if automaton.accepts(text[:t]) else -1.0
                    expected = [sign] if labeling == "final" else [-sign, sign]
                assert rows[t - 1].tolist() == expected


@pytest.mark.parametrize("name", LANGUAGES)
def test_the_source_s_rule_asks_for_next_symbols_where_there_is_a_dead_state(name):
    dead = name not in ("tomita-5", "tomita-6", "parity", "(00)*")
    steps, other = (RegularLanguage(name, 1, 12, kind) for kind in ("steps", "next" if dead else "prefix"))
    assert np.array_equal(steps.tables.answers, other.tables.answers)


@pytest.mark.slow
def test_half_of_the_words_are_outside_and_a_quarter_are_near_misses():
    """Near misses of 0*: one 1 somewhere, its place uniform; other words outside are uniform."""
    task = RegularLanguage("0*|0*1(0|1)*1(0|1)*", 5, 5, "final")  # all but the words with a single 1
    words = texts(task, draw(task, MANY).symbols)
    outside = [word for word in words if word.count("1") == 1]
    assert abs(len(outside) / MANY - 0.5) < 0.02
    assert stats.chisquare(np.unique(outside, return_counts=True)[1]).pvalue > 1e-5, "by symmetry"
    task = RegularLanguage("(0|1)*1(0|1){4}", 8, 8, "final")
    symbols = np.asarray(draw(task, MANY).symbols)
    inside = symbols[:, 3] == 1
    assert abs(inside.mean() - 0.5) < 0.02
    y = np.asarray(task.decode(draw(task, 64)).y)
    assert np.array_equal(y[:, -1, 0], np.where(symbols[:64, 3] == 1, 1, -1)) and not y[:, :-1].any()


@pytest.mark.slow
def test_a_near_miss_is_one_symbol_away_from_a_word():
    task = RegularLanguage("(0101)*", 4, 12, "final")
    automaton, words = known_language("(0101)*"), texts(task, draw(task, 2048).symbols)
    rejected = [word for word in words if not automaton.accepts(word)]

    def near(word: str) -> bool:
        return any(automaton.accepts(word[:t] + a + word[t + 1 :]) for t in range(len(word)) for a in "01")

    share = np.mean([near(word) for word in rejected])
    assert 0.45 < share < 0.65, "half of them, and short uniform ones by chance"
    task = RegularLanguage("(00)*", 1, 8, "final")  # nothing can be replaced: words of odd length
    lengths = [len(word) for word in texts(task, draw(task, 512).symbols)]
    assert {*lengths} == {*range(1, 9)} and abs(np.mean(np.array(lengths) % 2) - 0.5) < 0.1


def test_judged_on_other_lengths():
    task = RegularLanguage("parity", 2, 5, judged=(8, 11))
    assert task.input_shape == (11,)
    trained, judged = ({len(word) for word in texts(task, words(task, 256).symbols)} for words in (draw, judge))
    assert trained == {2, 3, 4, 5} and judged == {8, 9, 10, 11}
    alike = replaced(task, "judged", None)
    assert alike.input_shape == (5,) and replaced(task, "language", "tomita-1").padding == 2


def test_a_mark_before_the_word_is_read_and_not_asked():
    bare, marked = (RegularLanguage("tomita-4", 3, 6, start=start) for start in (False, True))
    one, other = (jax.tree.map(np.asarray, task.decode(draw(task, 16))) for task in (bare, marked))
    assert marked.input_shape == (7,) and marked.symbols == bare.symbols == 3
    assert (other.x[:, 0] == marked.padding).all() and not other.y[:, 0].any()
    assert np.array_equal(other.x[:, 1:], one.x) and np.array_equal(other.y[:, 1:], one.y)
    said = {name: np.asarray(jax.jit(of)(other.x)) for name, of in marked.strategies().items()}
    assert np.array_equal(said["automaton"], other.y) and not said["yes"][:, 0].any()


def test_without_a_mark_a_transformer_with_relative_positions_cannot_count():
    """Of equal symbols all positions have the same answer, whatever the weights."""
    for start in (False, True):
        task = RegularLanguage("(00)*", 6, 6, start=start)
        model, random = CausalTransformer(dimension=4), np.random.default_rng(0)
        shapes = jax.eval_shape(lambda task=task, model=model: model.init(KEY, task))
        params = {name: random.normal(size=leaf.shape).astype(np.float32) for name, leaf in shapes.items()}
        x = task.decode(draw(task, 1)).x
        said = np.asarray(jax.jit(model.predict, compiler_options=QUICK)(params, x))[0, int(start) :]
        assert np.ptp(said, axis=0).max() < 1e-4 if not start else np.ptp(said, axis=0).max() > 1e-2


def test_a_word_is_right_if_all_its_answers_are():
    task = RegularLanguage("tomita-7", 2, 6)
    examples = task.decode(draw(task, 32))
    y = np.asarray(examples.y)
    assert not np.asarray(task.error(0.1 * y, y)).any()
    noise = np.where(y == 0, 7.0, 0.1 * y)
    assert not np.asarray(task.error(noise, y)).any(), "padding is not judged"
    for t in range(2):  # every word has two symbols at least
        wrong = 0.1 * y
        wrong[:, t, 1] *= -1
        assert np.asarray(task.error(wrong, y)).all()
    assert np.asarray(task.error(np.full_like(y, np.nan), y)).all()
    assert np.asarray(task.error(np.zeros_like(y), y)).all()


def test_the_strict_rule_wants_answers_within_a_third():
    task = RegularLanguage("tomita-7", 2, 6, "final", strict=True)
    y = np.asarray(task.decode(draw(task, 16)).y)
    for share, right in ((0.66, False), (0.67, True)):
        logit = np.log(share / (1 - share))
        assert np.asarray(task.error(logit * y, y)).any() != right


def test_what_is_not_asked_has_no_slope():
    f, y = jnp.array([0.3, -2.0, 5.0], jnp.float32), jnp.array([1.0, -1.0, 0.0], jnp.float32)
    for name in ("sigmoid-square", "logistic", "hinge"):
        slope = np.asarray(jax.grad(lambda f, loss=LOSSES[name]: loss(f, y).sum())(f))
        assert slope[2] == 0 and (name == "hinge" or (slope[:2] != 0).all())
    sigma = 1 / (1 + np.exp(-np.asarray(f)))
    expected = [(sigma[0] - 1) ** 2, sigma[1] ** 2, 0.0]
    assert np.allclose(LOSSES["sigmoid-square"](f, y), expected, atol=1e-6)


def test_languages_with_the_same_room_share_a_program():
    tasks = [
        RegularLanguage(Language.of(name, states=7, symbols=3), 2, 10, "prefix", negatives=True)
        for name in ("tomita-3", "(00)*", "(0|1|2)*2")
    ]
    assert len({structure_of(task) for task in tasks}) == 1
    leaves = [[(leaf.shape, leaf.dtype) for leaf in jax.tree.leaves(task)] for task in tasks]
    assert len({str(shapes) for shapes in leaves}) == 1
    for task, name in zip(tasks, ("tomita-3", "(00)*", "(0|1|2)*2"), strict=True):
        automaton, words = find_language(name), draw(task, 256)
        y = np.asarray(task.decode(words).y)
        for text, rows in zip(texts(task, words.symbols), y, strict=True):
            assert {*text} <= {*automaton.alphabet}
            assert rows[len(text) - 1].tolist() == ([-1.0, 1.0] if automaton.accepts(text) else [1.0, -1.0])


def test_baselines():
    """All of 1* is in the language; where 000 is forbidden, a word is all right unless it has 00."""
    assert RegularLanguage(padded("tomita-1"), 5, 5, "prefix").baselines() == {"loss_yes": 0.0, "loss_automaton": 0.0}
    found = RegularLanguage(padded("tomita-4"), 5, 5, "next").baselines()
    words = words_of_length(2, 5)
    inside = words[known_language("tomita-4").accept(words)]
    may = [not re.search("00", "".join(map(str, word))) for word in inside]
    assert found["loss_yes"] == pytest.approx(1 - np.mean(may), abs=0.03) and found["loss_automaton"] == 0


def test_bad_input_gets_one_clear_error():
    for given, words in (
        (
            ("(01)*", 3, 3),
            r"no word of the language '\(01\)\*' has a length in 3..3: the nearest length with a word is",
        ),
        (("0101", 5, 9), "nearest length with a word is 4"),
        (("(0", 1, 5), "column 1"),
        (("0*", 5, 4), "from the shortest to the longest; got lengths 5..4"),
        (("0*", 0, 4), "shortest"),
        (("0*", 1, 4, "nxt"), "unknown labeling 'nxt'; did you mean 'next'"),
        (("(0|1)*", 1, 4, "final"), r"no word with a length in 1..4 lies outside the language '\(0|1\)\*': it has all"),
        (("0*", 1, 4, "next", 7), "judged is a pair"),
        (("tomita-8", 1, 4), "unknown language 'tomita-8'"),
    ):
        with pytest.raises(KroghError, match=words):
            RegularLanguage(*given)
    with pytest.raises(KroghError, match="room for 2 and 2"):
        Language.of("tomita-3", states=2)


def test_it_is_described_by_its_automaton():
    shown = describe(RegularLanguage("parity", 2, 5))
    assert shown["language"]["transitions"] == [[0, 1], [1, 0]] and "tables" not in shown
