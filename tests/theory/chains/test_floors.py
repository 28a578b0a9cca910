"""Loss floors of the constructions: their formulas by loops, their numbers, and that a floor is one."""

from __future__ import annotations

import numpy as np
import pytest

from krogh.errors import KroghError
from krogh.tasks import MarkovChains
from krogh.theory.chains.floors import best_scale, divergences, induction_frequencies, loss_floors
from krogh.theory.numerics import softmax


def test_frequencies_are_those_of_the_head_s_formula():
    tokens = np.random.default_rng(0).integers(0, 3, (40, 9))
    tokens[0] = [0, 0, 1, 1, 0, 1, 0, 1, 2]  # nothing was ever followed from 2
    found = induction_frequencies(tokens, 3)
    for word, said in zip(tokens.tolist(), found, strict=True):
        before = [word[0], *word[:-1]]
        hits = [x for x, b in zip(word, before, strict=True) if b == word[-1]] or word
        assert np.allclose(said, [hits.count(i) / len(hits) for i in range(3)])


def test_the_best_scale_is_the_best_one():
    random = np.random.default_rng(1)
    logits, truth = random.integers(0, 9, (50, 3)).astype(float), random.dirichlet(np.ones(3), 50)
    floor = best_scale(logits, truth)

    def loss(scale):
        soft = np.exp(scale * logits)
        return np.mean(np.sum(truth * np.log(truth / (soft / soft.sum(axis=1, keepdims=True))), axis=1))

    assert abs(floor.loss - loss(floor.scale)) < 1e-12
    assert all(loss(scale) >= floor.loss - 1e-12 for scale in np.linspace(0, 1, 201))
    assert best_scale(np.ones((2, 3)), truth[:2]).scale == 0.0, "equal logits say nothing"


def test_the_best_scale_is_a_minimum_on_either_side_of_zero():
    random = np.random.default_rng(5)
    f = random.normal(size=(50, 3))
    for sign in (1, -1):
        truth = softmax(sign * 1.7 * f)
        a, loss, _ = best_scale(f, truth)
        assert a == pytest.approx(sign * 1.7, rel=1e-9) and loss == pytest.approx(0.0, abs=1e-12)
    truth = random.dirichlet(np.ones(3), 50)
    a, loss, _ = best_scale(f, truth)
    assert all(divergences(truth, softmax((a + step) * f)).mean() > loss for step in (-0.05, 0.05))
    assert best_scale(np.zeros((4, 2)), np.full((4, 2), 0.5))[:2] == (0.0, pytest.approx(0.0, abs=1e-15))
    a, loss, _ = best_scale(np.eye(2), np.eye(2))
    assert a > 30 and loss < 1e-12, "as far as rounding lets it be seen where the truth is certain"
    with pytest.raises(KroghError, match=r"one shape \[cases, k\]; got \[4, 2\] and \[4, 3\]"):
        best_scale(np.zeros((4, 2)), np.zeros((4, 3)))


NUMBERS = [  # scale and loss of the head, of bigram counts, of unigram counts
    (2, (2.51, 0.0142), (0.038, 0.0232), (0.024, 0.0900)),
    (3, (2.89, 0.0408), (0.062, 0.0647), (0.028, 0.171)),
    (4, (3.21, 0.0680), (0.093, 0.0963), None),
]


@pytest.mark.parametrize("row", NUMBERS[:1])
def test_the_numbers_of_the_reference(row):
    assert_numbers(row, 20_000)


@pytest.mark.slow
@pytest.mark.parametrize("row", NUMBERS)
def test_all_numbers_of_the_reference(row):
    assert_numbers(row, 40_000)


def assert_numbers(row, sequences):
    k, *expected = row
    found = loss_floors(MarkovChains(k), sequences)
    assert found["induction"].loss < found["bigram"].loss < found["unigram"].loss
    for (name, floor), known in zip(found.items(), expected, strict=True):
        if known is not None:
            assert abs(floor.scale - known[0]) < 0.03 * known[0], name
            assert abs(floor.loss - known[1]) < 4.5 * floor.error + 0.02 * known[1], name


def test_floors_of_other_orders_are_refused():
    with pytest.raises(KroghError, match="order=2; got order=3"):
        loss_floors(MarkovChains(2, 20, order=3), 10)
