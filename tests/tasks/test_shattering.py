"""Shattering inputs against the formula, and the pattern that attention to a position reads off."""

from __future__ import annotations

import math

import numpy as np
import pytest

from krogh.errors import KroghError
from krogh.tasks.shattering import binary_digits, shattered_length, shattering_inputs


@pytest.mark.parametrize("length", [1, 2, 3, 4, 8, 11, 64])
def test_inputs_are_points_of_the_circle_with_a_digit(length):
    p = int(math.log2(length))
    X = shattering_inputs(length)
    assert shattered_length(length) == 2**p and X.shape == (p, 2**p, 3) and X.dtype == np.float64
    for i in range(p):
        for t in range(2**p):
            digit = int(format(t, f"0{p}b")[i])
            expected = [math.cos(2 * math.pi * t / 2**p), math.sin(2 * math.pi * t / 2**p), digit]
            assert np.allclose(X[i, t], expected, atol=1e-15)


@pytest.mark.parametrize("length", [2, 8, 128])
def test_heads_that_attend_to_a_position_realise_every_pattern(length):
    """Proposition 4.8: with w_QK = T²(cos, sin, 0) at angle 2πs/T the read-out is bin(s)."""
    X = shattering_inputs(length)
    patterns = set()
    for s in range(length):
        angle = 2 * math.pi * s / length
        scores = X @ (length**2 * np.array([math.cos(angle), math.sin(angle), 0.0]))
        attention = np.exp(scores - scores.max(axis=1, keepdims=True))
        attention /= attention.sum(axis=1, keepdims=True)
        assert (attention[:, s] > 0.999).all()
        pattern = (attention * X[:, :, 2]).sum(axis=1) > 0.5
        assert pattern.tolist() == binary_digits(length)[s].astype(bool).tolist()
        patterns.add(tuple(pattern.tolist()))
    assert len(patterns) == 2 ** len(X) == length


@pytest.mark.parametrize("length", [0, -4])
def test_a_length_below_one_is_refused(length):
    with pytest.raises(KroghError, match=f"length={length}"):
        shattering_inputs(length)
