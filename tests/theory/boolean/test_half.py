"""Half's spectrum and the threshold's, against enumeration of the cube."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from krogh.errors import KroghError
from krogh.theory.boolean.fourier import fourier_coefficients, preactivations
from krogh.theory.boolean.half import (
    half_coefficient,
    half_coefficient_exact,
    half_spectrum,
    limiting_weight,
    threshold_coefficient,
)
from krogh.theory.boolean.majority import majority_coefficient, majority_coefficient_exact


def at_size(table, size):
    return fourier_coefficients(table)[2**size - 1]


@pytest.mark.parametrize("n", [0, 2, 4, 6, 8])
def test_half_by_enumeration(n):
    table = (preactivations(np.ones(n)) == 0).astype(float)
    for degree in range(n + 1):
        assert half_coefficient(n, degree) == pytest.approx(at_size(table, degree), abs=1e-12)
        assert float(half_coefficient_exact(n, degree)) == half_coefficient(n, degree)


@pytest.mark.parametrize("n", range(1, 10))
def test_thresholds_by_enumeration(n):
    """Odd sets do not see how ties are broken: sign with sign(0) = 0, and twice 1[sum > 0], agree there."""
    sums = preactivations(np.ones(n))
    for degree in range(n + 1):
        assert threshold_coefficient(n, degree) == pytest.approx(at_size(np.sign(sums), degree), abs=1e-12)
        if degree % 2:
            above = 2.0 * (sums > 0)
            assert threshold_coefficient(n, degree) == pytest.approx(at_size(above, degree), abs=1e-12)


def test_the_formula_of_the_lemma():
    for n in (2, 4, 8, 12):
        for t in range(0, n + 1, 2):
            size = Fraction(math.comb(n // 2, t // 2) * math.comb(n, n // 2), math.comb(n, t) * 2**n)
            assert half_coefficient_exact(n, t) == (-1) ** (t // 2) * size
            assert half_coefficient_exact(n, t) == majority_coefficient_exact(n + 1, t + 1)


def test_values_of_the_reference():
    assert [majority_coefficient(9, t) for t in (1, 3, 5)] == [0.2734375, -0.0390625, 0.0234375]
    for s, k in [(9, 2), (13, 4), (21, 6)]:
        ratio = majority_coefficient_exact(s, k + 1) / majority_coefficient_exact(s, k - 1)
        assert ratio == Fraction(-(k - 1), s - k)


@pytest.mark.parametrize("degree", [1, 3, 5, 9])
def test_weights_of_a_level_fall_to_their_limit(degree):
    weights = [half_spectrum(n, degree)["threshold_weight"] for n in (9, 19, 51, 201, 20_001)]
    assert weights == sorted(weights, reverse=True)
    assert limiting_weight(degree) < weights[-1] < 1.01 * limiting_weight(degree)
    assert limiting_weight(degree, "printed") == limiting_weight(degree) / 2
    assert limiting_weight(1) == pytest.approx(2 / math.pi)


def test_the_prediction():
    found = half_spectrum(8, 2)
    assert found["half"] == half_coefficient(8, 2) and found["threshold"] == 0
    assert half_spectrum(8, 2, "printed")["half"] == 2**8 * found["half"], "the lemma is printed without 2^-n"
    assert math.isnan(half_spectrum(9, 2)["half"])


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: half_coefficient(9, 2), r"n must be even for ties to exist; got n=9 \(try 8 or 10\)"),
        (lambda: half_coefficient(8, 9), "degree must be an integer between 0 and 8; got degree=9"),
        (lambda: threshold_coefficient(0, 0), "n must be an integer at least 1"),
        (lambda: limiting_weight(2), "degree must be odd; got degree=2"),
    ],
)
def test_bad_input(call, message):
    with pytest.raises(KroghError, match=message):
        call()
