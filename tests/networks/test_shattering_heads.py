"""Heads of unbounded norm realise every pattern on log2 T sequences."""

from __future__ import annotations

import math

import numpy as np
import pytest

from krogh.errors import KroghError
from krogh.networks.sparse_heads import LEAST_ATTENTION, shattering_heads


@pytest.mark.parametrize("p", [1, 2, 3, 8, 10])
def test_every_pattern_occurs(p):
    T = 2**p
    made = shattering_heads(T)
    patterns = made.patterns()
    assert made.inputs.shape == (p, T, 3) and patterns.shape == (T, p)
    for s in range(T):  # bit by bit, from the text of the number
        assert "".join("1" if above else "0" for above in patterns[s]) == format(s, f"0{p}b")
    assert len({tuple(row) for row in patterns}) == 2**p
    own = np.diag(made.attention())
    assert own.min() >= 0.9996 > LEAST_ATTENTION == pytest.approx(0.6148, abs=1e-4)
    assert made.margin() == pytest.approx(0.5, abs=4e-4)
    if T >= 4:
        assert own.min() > 0.999999


@pytest.mark.parametrize("T", [8, 16])
def test_outputs_follow_the_formula(T):
    made = shattering_heads(T)
    found = made.outputs()
    for s in range(T):
        w = T**2 * np.array([math.cos(2 * math.pi * s / T), math.sin(2 * math.pi * s / T), 0.0])
        for i, X in enumerate(made.inputs):
            weights = np.exp(X @ w - T**2)
            weights /= weights.sum()
            assert found[s, i] == pytest.approx(float(weights @ X[:, 2]), abs=1e-12)
            np.testing.assert_allclose(made.attention()[s], weights, atol=1e-12)


def least_scale(T: int, margin: float) -> float:
    """The smallest norm of w_QK whose heads realise every pattern with this margin, by bisection."""
    low, high = 0.0, float(T) ** 2
    while high - low > 1e-2 * high:
        middle = (low + high) / 2
        low, high = (low, middle) if shattering_heads(T, middle).margin() >= margin else (middle, high)
    return high


def test_the_norm_that_a_margin_needs_grows_as_the_square_of_the_length():
    lengths = [8, 16, 32, 64]
    needed = [least_scale(T, LEAST_ATTENTION - 0.5) for T in lengths]
    assert needed[0] < 64
    assert np.polyfit(np.log(lengths), np.log(needed), 1)[0] == pytest.approx(2, abs=0.1)


@pytest.mark.parametrize("scale", [0.5, 1.0, 30.0])
def test_without_a_margin_a_bounded_norm_shatters_too(scale):
    """A bit is above 1/2 near its own ones, however flat the attention: only the margin shrinks."""
    made = shattering_heads(16, scale)
    assert made.holds() and 0 < made.margin() < shattering_heads(16).margin()
    assert shattering_heads(16, 1.0).margin() < 1e-6


def test_other_lengths_use_the_power_of_two_below():
    assert shattering_heads(13).inputs.shape == (3, 8, 3) and shattering_heads(13).holds()
    trivial = shattering_heads(1)
    assert trivial.inputs.shape == (0, 1, 3) and trivial.outputs().shape == (1, 0)


def test_bad_settings_are_refused():
    with pytest.raises(KroghError, match="length"):
        shattering_heads(0)
    with pytest.raises(KroghError, match="scale must be a number greater than 0; got scale=-1"):
        shattering_heads(8, -1)
