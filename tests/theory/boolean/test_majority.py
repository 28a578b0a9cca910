"""Majority's spectrum and the gap it opens, against enumeration of the cube."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from krogh.errors import KroghError
from krogh.theory.boolean import fourier as boolean
from krogh.theory.boolean.majority import (
    fourier_gap,
    log_majority_coefficient,
    majority_coefficient,
    majority_coefficient_exact,
    majority_gap,
    majority_spectrum,
    relu_gap,
    support_recovery,
)
from krogh.theory.numerics import log_binomial, log_central_binomial


def coefficient(table, subset):
    return boolean.fourier_coefficients(table)[boolean.subset_mask(subset, len(table).bit_length() - 1)]


def gap(table, support):
    return boolean.fourier_gap(boolean.neighbour_coefficients(table, support), support)


@pytest.mark.parametrize("n", [1, 3, 5, 9, 11])
def test_coefficients_by_enumeration(n):
    table = np.sign(boolean.preactivations(np.ones(n)))
    for degree in range(n + 1):
        exact = coefficient(table, range(degree))
        assert majority_coefficient(n, degree) == pytest.approx(exact, abs=1e-12)
        assert float(majority_coefficient_exact(n, degree)) == majority_coefficient(n, degree)


def test_values_of_the_reference_at_n_11():
    found = {k: majority_spectrum(11, k)["coefficient"] for k in (1, 3, 5, 7)}
    assert found == {1: 0.24609375, 3: -0.02734375, 5: 0.01171875, 7: -0.01171875}


@pytest.mark.parametrize("n", [5, 9])
def test_the_weights_of_all_degrees_sum_to_one(n):
    exact = sum(majority_coefficient_exact(n, k) ** 2 * math.comb(n, k) for k in range(n + 1))
    assert exact == Fraction(1)
    assert sum(majority_spectrum(n, k)["weight"] for k in range(n + 1)) == pytest.approx(1)


@pytest.mark.parametrize("degree", [1, 3, 9, 51])
def test_logarithms_and_fractions_agree_where_they_meet(degree):
    for n in (999, 1001, 1003, 3001):
        exact = majority_coefficient_exact(n, degree)
        assert log_majority_coefficient(n, degree) == pytest.approx(math.log(abs(exact)), rel=1e-12)
        assert majority_coefficient(n, degree) == pytest.approx(float(exact), rel=1e-11)


def test_large_n_neither_overflows_nor_loses_its_limit():
    numbers = majority_spectrum(10**12 + 1, 1)
    assert numbers["weight"] == pytest.approx(2 / math.pi, rel=1e-9)
    assert majority_spectrum(10**6 + 1, 501)["log_magnitude"] < -2000
    late = majority_spectrum(10**9 + 1, 101)
    assert late["weight"] == pytest.approx(late["asymptotic_weight"], rel=0.02)
    assert majority_spectrum(101, 9, "printed")["asymptotic_weight"] == pytest.approx(9 ** (-2 / 3))


def test_log_binomials():
    for n, k in [(10, 3), (50, 50), (3000, 1500), (4000, 17), (1, 0)]:
        assert log_binomial(n, k) == pytest.approx(math.log(math.comb(n, k)), rel=1e-12, abs=1e-12)
    for half in (1, 499, 500, 501, 502, 900):
        exact = math.log(Fraction(math.comb(2 * half, half), 4**half))
        assert log_central_binomial(half) == pytest.approx(exact, rel=1e-12)


@pytest.mark.parametrize("bias", [0.0, 0.9, -0.9])
def test_halfspaces_with_sign_weights_have_half_of_majority_up_to_signs(bias):
    n = 9
    signs = np.random.default_rng(0).choice([-1.0, 1.0], n)
    table = boolean.heaviside(boolean.preactivations(signs, bias))
    for degree in (1, 2, 3, 4, 5):
        expected = majority_spectrum(n, degree)["halfspace_magnitude"]
        expected *= math.copysign(1, majority_coefficient(n, degree)) * signs[:degree].prod()
        assert coefficient(table, range(degree)) == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("n", [5, 9, 13])
def test_gaps_by_enumeration(n):
    maj, relu = (
        np.sign(boolean.preactivations(np.ones(n))),
        boolean.heaviside(boolean.preactivations(np.ones(n))),
    )
    for k in range(1, n):
        assert majority_gap(n, k) == pytest.approx(gap(maj, range(k)), abs=1e-12)
        assert relu_gap(n, k) == pytest.approx(gap(relu, range(k)), abs=1e-12)


@pytest.mark.parametrize("k", [2, 4, 6, 10, 20])
def test_the_lemma_holds_and_the_ratio_is_exact(k):
    for n in (4 * k + 1, 8 * k + 1, 100 * k + 1):
        numbers = fourier_gap(n, k)
        assert numbers["gap"] >= numbers["lower_bound"] > 0
        assert numbers["gap_over_scale"] >= 0.644
        low, high = majority_coefficient_exact(n, k - 1), majority_coefficient_exact(n, k + 1)
        assert abs(low / high) == Fraction(n - k, k - 1)
        assert numbers["ratio"] == pytest.approx(float(abs(low / high)))


def test_the_gap_of_the_lemma_is_smallest_at_k_4():
    smallest = min((fourier_gap(n, k)["gap_over_scale"], k, n) for k in range(2, 42, 2) for n in (4 * k + 1, 8 * k + 1))
    assert smallest[1:] == (4, 17) and smallest[0] == pytest.approx(0.6445, abs=1e-4)


def test_the_gap_shrinks_in_n_and_vanishes_for_odd_k():
    gaps = [fourier_gap(n, 4)["gap"] for n in range(17, 200, 2)]
    assert gaps == sorted(gaps, reverse=True)
    assert fourier_gap(15, 3)["gap"] == 0 and fourier_gap(15, 3)["relu_gap"] == 0
    assert math.isnan(fourier_gap(15, 4)["lower_bound"]), "the lemma says nothing below n = 4k"
    calibrated = {k: fourier_gap(15, k)["relu_gap"] for k in (2, 4, 6)}
    assert calibrated == {k: pytest.approx(v, abs=5e-6) for k, v in {2: 0.09668, 4: 0.00586, 6: 0.00098}.items()}


def test_recovery_samples_recover_the_support():
    n, k, failure, noise = 9, 2, 0.1, 0.1
    m = support_recovery(n, k, failure, noise)["samples"]
    rng = np.random.default_rng(0)
    wrong = 0
    for _ in range(50):
        x = rng.choice([-1.0, 1.0], size=(m, n))
        y = x[:, 4] * x[:, 8] * np.where(rng.random(m) < noise, -1, 1)
        gradient = (y * (x.sum(axis=1) > 0)) @ x / m
        wrong += set(np.argsort(-np.abs(gradient))[:k].tolist()) != {4, 8}
    assert wrong / 50 <= failure


def test_recovery_numbers():
    numbers = support_recovery(101, 4, failure=0.05, gap=0.01)
    assert numbers["samples"] == math.ceil(8 / 0.01**2 * math.log(2 * 101 / 0.05))
    assert support_recovery(101, 4, gap=0.01, noise=0.25)["samples"] == pytest.approx(4 * numbers["samples"], abs=4)
    assert support_recovery(101, 4, gap=0.01, noise=0.5)["samples"] == math.inf
    assert support_recovery(101, 4, gap=0.01, variant="printed")["samples"] == math.ceil(math.log(101) / 0.01**2)
    assert support_recovery(101, 4)["gap"] == relu_gap(101, 4)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: majority_spectrum(10, 3), "n must be odd; got n=10 \\(try 9 or 11\\)"),
        (lambda: majority_spectrum(11, 12), "degree must be an integer between 0 and 11"),
        (lambda: fourier_gap(12, 4), "n must be odd; got n=12"),
        (lambda: fourier_gap(11, 11), "k < n; got n=11, k=11"),
        (lambda: fourier_gap("11", 4), "n must be an integer at least 1; got n='11'"),
        (lambda: log_majority_coefficient(11, 4), "even degree; got degree=4"),
        (lambda: support_recovery(11, 3), "no Fourier gap at n=11, k=3: k is odd"),
        (lambda: support_recovery(11, 8), "no Fourier gap at n=11, k=8: n is below 2k"),
        (lambda: support_recovery(11, 4, gap=0.0), "gap must be a number greater than 0"),
    ],
)
def test_bad_input(call, message):
    with pytest.raises(KroghError, match=message):
        call()
