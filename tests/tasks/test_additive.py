"""The best sums over positions against enumeration and the lower bounds of the source."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from krogh.errors import KroghError
from krogh.tasks.additive import fewest_mistakes, fit_squares, mistakes, position_features, unexplained
from krogh.tasks.bit_strings import SingleBlip, StringParity, all_strings
from krogh.theory.recurrence.additive import parity_floor


def all_thresholds(bits: int, most: int = 3) -> np.ndarray:
    """Every threshold function of few bits, by all small integer weights: [functions, strings]."""
    strings = all_strings(bits)
    weights = np.array(list(itertools.product(range(-most, most + 1), repeat=bits)))
    sums = weights @ strings.T
    levels = np.arange(-most * bits, most * bits + 2) - 0.5
    return np.unique((sums[:, None, :] > levels[None, :, None]).reshape(-1, len(strings)), axis=0)


def test_all_threshold_functions_of_three_bits_are_searched():
    functions = all_thresholds(3)
    assert len(functions) == 104, "as many as there are"
    strings, random = all_strings(3), np.random.default_rng(0)
    for _ in range(8):
        labels, p = random.integers(0, 2, 8), random.dirichlet(np.ones(8))
        best = min(float(p @ (one != labels)) for one in functions)
        found = fewest_mistakes(position_features(strings), labels, p)
        assert found.error == pytest.approx(best, abs=1e-9) and found.exact
        assert mistakes(position_features(strings) @ found.coefficients, labels, p) == pytest.approx(best, abs=1e-9)


@pytest.mark.parametrize("bits", [2, 3, 4])
def test_parity_has_as_many_mistakes_as_enumeration_says(bits):
    task = StringParity(bits)
    labels = np.asarray(task.member(all_strings(bits)))
    best = min(np.mean(one != labels) for one in all_thresholds(bits))
    found = fewest_mistakes(position_features(all_strings(bits)), labels)
    assert found.error == pytest.approx(best) and found.bound == pytest.approx(best) and best >= 0.25
    assert best == pytest.approx(parity_floor(bits)["error_floor"])
    assert unexplained(position_features(all_strings(bits)), labels) == pytest.approx(1.0)
    fitted = fit_squares(position_features(all_strings(bits)), labels)
    assert np.allclose(position_features(all_strings(bits)) @ fitted, 0.5), "the least-squares predictor is constant"


def test_theorem_h1_is_tight():
    """The fewest mistakes on D_L1 have probability 1/4, as 2 - #ones has; distinct strings alone would be easier."""
    task = SingleBlip(8)
    strings, p = task.distinct()
    labels = np.asarray(task.member(strings), np.float64)
    found = fewest_mistakes(position_features(strings), labels, p)
    assert found.error == pytest.approx(0.25) and found.bound == pytest.approx(0.25)
    explicit = 2.0 - strings.sum(axis=1)
    assert mistakes(explicit, labels, p) == pytest.approx(0.25)
    assert fewest_mistakes(position_features(strings), labels).error == pytest.approx(1 / len(strings))
    assert unexplained(position_features(strings), labels, p) == pytest.approx(1.0)
    tokens = np.asarray(task.decode(strings).x)
    assert fewest_mistakes(position_features(tokens), labels, p).error == pytest.approx(0.25), "of tokens as of bits"


def test_features_are_the_monomials_of_each_position():
    x = np.random.default_rng(1).normal(size=(5, 2, 2))
    found = position_features(x, 2)
    expected = [[1, *(f for a, b in one for f in (a, b, a * a, a * b, b * b))] for one in x]
    assert np.allclose(found, expected)


def test_squares_are_weighted():
    x, y, p = np.array([[0], [0], [1]]), np.array([0.0, 1.0, 5.0]), np.array([0.75, 0.25, 1.0])
    assert np.allclose(position_features(x) @ fit_squares(position_features(x), y, p), [0.25, 0.25, 5.0])
    assert unexplained(np.ones((3, 1)), np.ones(3)) == 0.0


def test_bad_searches_are_refused():
    with pytest.raises(KroghError, match="labels must be 0 or 1"):
        fewest_mistakes(np.ones((2, 1)), [0, 2])
    with pytest.raises(KroghError, match=r"at most 600.*got 1024"):
        fewest_mistakes(position_features(all_strings(10)), np.arange(1024) % 2)
    with pytest.raises(KroghError, match="degree=0"):
        position_features(np.ones((2, 2)), 0)
