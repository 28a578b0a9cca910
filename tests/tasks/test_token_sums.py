"""Sums over tokens against plain loops, their moments against sampling and closed forms, and what is refused."""

from __future__ import annotations

import itertools
import math

import jax
import jax.numpy as jnp
import jaxtyping
import numpy as np
import pytest

from krogh.engine import Trial, stack
from krogh.errors import KroghError
from krogh.models.elman import ElmanRnn
from krogh.tasks import LetterCount, LetterPositions, TokenConvolution, TokenSum
from krogh.tasks.series import find_series
from krogh.tasks.token_sequences import draw_tokens
from krogh.tasks.token_sums import SequenceSum, pairs_of, target_weights
from krogh.training import Stopping
from krogh.training.recurrence import practical_training
from krogh.values import structure_of

KEY = jax.random.key(3)


def tokens(count: int, length: int, dx: int) -> np.ndarray:
    return np.asarray(draw_tokens(KEY, count, length - 2, dx))


def loop(task: TokenSum, x: np.ndarray, phi: list[str] | str) -> np.ndarray:
    """Equation 3.1 term by term; x [batch, L-2, dx] holds x*_2 .. x*_{L-1}."""
    weights = np.asarray(task.weights, np.float64)
    _, p, outputs, _ = weights.shape
    names = itertools.repeat(phi) if isinstance(phi, str) else iter(phi)
    total = np.zeros((len(x), task.length + 1, outputs))
    for pair, (i, j) in enumerate(task.pairs):
        for r in range(p):
            for s in range(outputs):
                z = x[:, i - 2] @ weights[pair, r, s]
                a = 1.0 if task.amplitudes is None else float(np.asarray(task.amplitudes)[pair, r, s])
                total[:, j, s] += a * np.asarray(find_series(next(names))(jnp.asarray(z, jnp.float32)))
    return total[:, list(task.places)]


@pytest.mark.parametrize("labels", ["every", "last"])
def test_a_token_sum_is_equation_3_1(labels):
    task = TokenSum.random(6, 4, p=2, outputs=3, seed=2, bias=True, phi="z^3-z", labels=labels)
    x = tokens(9, 6, 4)
    examples = task.of_tokens(x)
    assert examples.truth.shape == ((9, 4, 3) if labels == "every" else (9, 3))
    assert np.allclose(np.asarray(examples.truth).reshape(9, -1, 3), loop(task, x, "z^3-z"), atol=1e-5)


@pytest.mark.slow
def test_every_pair_may_have_its_own_function_and_amplitude():
    menu = ["z", "z^2", "sin(2)", "tanh", "[0.5, 0, 1]", "exp", "cos(3)"]
    names = [menu[place % 7] for place in range(6 * 2)]
    amplitudes = np.random.default_rng(0).normal(size=(6, 2, 1))
    task = TokenSum(length=5, weights=target_weights(6, 2, 1, 3, seed=4), phi=names, amplitudes=amplitudes)
    x = tokens(7, 5, 3)
    assert np.allclose(np.asarray(task.of_tokens(x).truth)[..., None], loop(task, x, names), atol=1e-5)


@pytest.mark.slow
def test_a_label_reads_earlier_tokens_alone():
    task = TokenSum.random(6, 3, phi="z^2")
    x, other = tokens(4, 6, 3), tokens(8, 6, 3)[4:]
    for position in range(2, 6):
        changed = x.copy()
        changed[:, position - 2] = other[:, position - 2]
        same = np.isclose(task.of_tokens(x).truth, task.of_tokens(changed).truth).all(axis=0)
        assert same.tolist() == [j <= position for j in task.places]


def test_a_convolution_depends_on_the_distance_alone():
    task = TokenConvolution.random(6, 3, p=3, outputs=2, seed=5, phi="tanh")
    x = tokens(5, 6, 3)
    W, A = np.asarray(task.weights, float), np.asarray(task.read, float)
    expected = np.zeros((5, 4, 2))
    for place, j in enumerate(range(3, 7)):
        for i in range(2, j):
            expected[:, place] += np.tanh(x[:, i - 2] @ W[j - i - 1].T) @ A[j - i - 1].T
    assert np.allclose(task.of_tokens(x).truth, expected, atol=1e-5)
    weights, amplitudes, names = task.terms()
    pairs = TokenSum(length=6, weights=weights, amplitudes=amplitudes, phi=names)
    assert np.allclose(pairs.of_tokens(x).truth, expected, atol=1e-5)


@pytest.mark.parametrize("dx", [2, 3, 4, 6])
@pytest.mark.parametrize("kind", [TokenSum, TokenConvolution])
def test_moments_are_those_of_a_large_sample(dx, kind):
    task = kind.random(5, dx, p=2, outputs=2, seed=1, bias=True, phi="sin(2)")
    truth = np.asarray(task.of_tokens(tokens(40_000, 5, dx)).truth, np.float64)
    mean, variance = task.moments()
    error = np.sqrt(variance / len(truth))
    assert np.all(np.abs(truth.mean(axis=0) - mean) < 4.5 * error + 1e-6)
    assert np.allclose(truth.var(axis=0), variance, rtol=0.04, atol=1e-6)


def test_moments_of_squares_have_a_closed_form():
    """<w, x>² = 3/4 u₁² with u uniform on a circle: mean 3/8, variance (9/16)/8; labels are sums of such."""
    mean, variance = TokenSum.random(5, 3, phi="z^2").moments()
    assert np.allclose(mean[:, 0], 3 / 8 * np.arange(1, 4)) and np.allclose(variance[:, 0], 9 / 128 * np.arange(1, 4))
    found = TokenSum.random(5, 3, phi="z^2").baselines()
    assert found["variance"] == pytest.approx(2 * 9 / 128) and found["null_risk"] > found["variance"]


@pytest.mark.slow
def test_noise_is_of_its_variance_and_no_part_of_the_truth():
    task = TokenSum.random(5, 3, phi="z", noise=0.25)
    drawn = task.batch(KEY, 4000)
    noise = np.asarray(drawn.y - drawn.truth, np.float64)
    assert noise.var() == pytest.approx(0.25, rel=0.05) and abs(noise.mean()) < 0.02
    quiet = TokenSum.random(5, 3, phi="z", noise=0.0).batch(KEY, 50)
    assert np.array_equal(quiet.y, quiet.truth)


def test_targets_noise_and_token_sizes_are_one_cohort():
    def trial(seed: int) -> Trial:
        task = TokenSum.random(5, 3, seed=seed, noise=0.1 * seed, eps_x=1 / (1 + seed))
        training = practical_training(0.3, 8, 5, Stopping(budget=10, error=0.1), labels=3)
        return Trial(task, ElmanRnn(8, reads=3), training, seed=seed)

    assert len(stack([trial(seed) for seed in range(4)])) == 1
    assert structure_of(TokenSum.random(5, 3, phi="z")) != structure_of(TokenSum.random(5, 3, phi="z^2"))


@pytest.mark.parametrize("task", [LetterCount(length=7), LetterPositions(length=7)], ids=["count", "positions"])
def test_letter_tasks_are_sums_over_tokens(task: SequenceSum):
    every = task.decode(task.population())
    known = task.as_sum().of_tokens(task.tokens(task.population().tokens))
    assert np.array_equal(every.x, known.x)
    assert np.allclose(every.truth, known.truth, atol=1e-6)
    assert task.baselines()["variance"] == pytest.approx(np.var(np.asarray(every.truth, float), axis=0).mean())


def test_a_count_is_of_the_letters_before_it_and_zero_where_they_balance():
    task = LetterCount(length=8, scale=4.0)
    truth = np.asarray(task.decode(task.population()).truth)
    for word, row in zip(np.asarray(task.population().tokens), truth, strict=True):
        for place, j in enumerate(range(3, 9)):
            letters = word[: j - 2]
            assert row[place] == ((letters == 1).sum() - (letters == 0).sum()) / 4
    sorted_words = [(word, row[-1]) for word, row in zip(np.asarray(task.population().tokens), truth, strict=True)
                    if list(word) == sorted(word, reverse=True)]  # fmt: skip
    assert len(sorted_words) == 7
    assert [end == 0 for _, end in sorted_words] == [2 * int(word.sum()) == 6 for word, _ in sorted_words]


def test_positions_weigh_equal_letters_differently():
    task = LetterPositions(length=6)
    words = {"aaab": None, "aaba": None}
    for bits, label in zip(np.asarray(task.population().tokens), task.decode(task.population()).truth, strict=True):
        word = "".join("ba"[int(bit)] for bit in bits)
        if word in words:
            words[word] = float(label)
    assert words == {"aaab": 1.0, "aaba": 0.75}


def weights(norm: float = 1.0, count: int = 6) -> np.ndarray:
    return norm * target_weights(count, 1, 1, 3)


@pytest.mark.parametrize(
    ("build", "echo"),
    [
        (lambda: TokenSum(length=5, weights=weights(1.1)), "weights w\\* are unit vectors; got one of norm 1.1"),
        (lambda: TokenSum(length=5, weights=weights(), phi="1+z"), "got '1\\+z'"),
        (lambda: TokenSum(length=5, weights=weights(), phi="cos"), "functions are z, .* got 'cos'"),
        (lambda: TokenSum(length=5, weights=weights(), phi=["z", "z^2"]), "one for each of 6 terms; got 2 functions"),
        (lambda: TokenSum(length=5, weights=weights(count=5)), r"\[6 pairs i < j, p.*got \[5, 1, 1, 3\]"),
        (lambda: TokenSum(length=5, weights=weights(), noise=-1.0), "noise is a variance.*got noise=-1.0"),
        (lambda: TokenSum(length=5, weights=weights(), labels="some"), "unknown labels 'some'"),
        (lambda: TokenSum(length=5, weights=weights(), eps_x=2.0), "at most 1; got eps_x=2.0"),
        (lambda: TokenSum(length=5, weights=weights(), amplitudes=np.ones((2, 1, 1))), "got \\[2, 1, 1\\]"),
        (lambda: TokenSum.of_pairs(5, {(3, 3): weights()[0]}), "i < j; got i=3, j=3"),
        (lambda: TokenSum.of_pairs(5, {(4, 3): weights()[0]}), "i < j; got i=4, j=3"),
        (lambda: TokenSum.of_pairs(5, {(2, 6): weights()[0]}), "2 ≤ i < j ≤ 5, and j a label; got i=2, j=6"),
        (lambda: TokenSum.of_pairs(5, {(2, 3): weights()[0]}), r"got none for \[\(2, 4\), \(3, 4\)"),
        (lambda: TokenSum.random(2, 3), "length must be an integer at least 3; got length=2"),
        (lambda: TokenSum.random(5, 3).of_tokens(1.2 * tokens(2, 5, 3)), "unit sphere; got one of norm 1.2"),
        (lambda: TokenSum.random(5, 3).of_tokens(tokens(2, 6, 3)), r"\[batch, 3, 3\]; got \[2, 4, 3\]"),
        (lambda: TokenConvolution(5, np.ones((3, 2, 3)), np.ones((3, 1, 2))), "rows of W\\* are unit vectors"),
        (
            lambda: TokenConvolution(length=5, weights=target_weights(3, 2, 3), read=np.ones((3, 1, 4))),
            r"\[3 lags, outputs, 2 neurons\]; got \[3, 1, 4\]",
        ),
        (lambda: LetterCount(length=8, scale=0.0), "scale must be a positive number; got scale=0.0"),
        (lambda: LetterCount(length=30).population(), "at most 20 letters can be listed; got 28"),
        (lambda: LetterPositions(5, [1.0, 2.0, 2.0]), "coefficients are distinct"),
        (lambda: LetterPositions(5, [1.0, 2.0]), "one coefficient for each of 3 letters"),
    ],
)  # fmt: skip
def test_what_is_no_token_sum_is_refused(build, echo):
    jaxtyping.config.update("jaxtyping_disable", True)  # as a user sees it, without the checks of the tests
    try:
        with pytest.raises(KroghError, match=echo):
            build()
    finally:
        jaxtyping.config.update("jaxtyping_disable", False)


def test_pairs_are_ordered_by_label_and_given_by_name():
    assert pairs_of(5) == ((2, 3), (2, 4), (3, 4), (2, 5), (3, 5), (4, 5))
    assert pairs_of(5, "last") == ((2, 5), (3, 5), (4, 5))
    given = {pair: weights()[place] for place, pair in enumerate(pairs_of(5))}
    shuffled = dict(reversed(given.items()))
    assert np.array_equal(TokenSum.of_pairs(5, shuffled).weights, weights())
    assert math.prod(np.shape(TokenSum.random(5, 3, p=2, outputs=4).weights)) == 6 * 2 * 4 * 3
    assert not np.asarray(TokenSum.random(5, 3).weights)[..., -1].any(), "no last coordinate unless there is a bias"
