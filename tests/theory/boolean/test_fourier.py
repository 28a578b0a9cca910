"""Fourier analysis on the cube, against sums written out."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from krogh.errors import KroghError
from krogh.theory.boolean import fourier as boolean
from krogh.theory.boolean.majority import relu_gap

quiet = settings(database=None, deadline=None, max_examples=30)


def subsets(n):
    return [s for size in range(n + 1) for s in itertools.combinations(range(n), size)]


def parity_table(subset, n):
    return boolean.cube(n)[:, list(subset)].prod(axis=1)


def test_the_cube_has_the_documented_order():
    points = boolean.cube(3)
    assert points.dtype == np.float64 and points.shape == (8, 3)
    assert points[0].tolist() == [1, 1, 1]
    assert points[1].tolist() == [-1, 1, 1]
    assert points[6].tolist() == [1, -1, -1]


@pytest.mark.parametrize("subset", subsets(4))
def test_parities_have_one_coefficient(subset):
    table = parity_table(subset, 4)
    expected = np.zeros(16)
    expected[boolean.subset_mask(subset, 4)] = 1
    assert np.array_equal(boolean.fourier_coefficients(table), expected)


@quiet
@given(st.integers(0, 6), st.integers(0, 2**32 - 1))
def test_the_transform_is_the_sum_over_the_cube_and_its_own_inverse(n, seed):
    tables = np.random.default_rng(seed).standard_normal((2, 3, 2**n))
    fast = boolean.walsh_hadamard(tables)
    characters = np.stack([parity_table(bits(mask), n) for mask in range(2**n)])
    assert np.allclose(fast, tables @ characters.T)
    assert np.allclose(boolean.walsh_hadamard(fast) / 2**n, tables)
    coefficients = fast / 2**n
    assert np.allclose((coefficients**2).sum(-1), (tables**2).mean(-1)), "Parseval"


def bits(mask):
    return [i for i in range(mask.bit_length()) if mask >> i & 1]


def test_the_input_of_the_transform_is_left_alone():
    table = np.arange(8.0)
    boolean.walsh_hadamard(table)
    assert np.array_equal(table, np.arange(8.0))


@pytest.mark.parametrize("support", [(0,), (1, 3), (0, 2, 4)])
def test_gaps_are_the_definition_written_out(support):
    n, table = 5, np.random.default_rng(1).standard_normal(32)

    def size(subset):
        return abs(np.mean(table * parity_table(subset, n)))

    below = [size(set(support) - {i}) for i in support]
    above = [size(set(support) | {j}) for j in range(n) if j not in support]
    gradient = boolean.neighbour_coefficients(table, support)
    assert np.isclose(boolean.fourier_gap(gradient, support), min(below) - max(above))
    assert np.isclose(boolean.relaxed_gap(gradient, support), max(below) - max(above))
    assert boolean.relaxed_gap(gradient, support) >= boolean.fourier_gap(gradient, support)


@pytest.mark.parametrize("derivative", [boolean.heaviside, np.cos, lambda z: 3 * z**2], ids=["relu", "sine", "cube"])
@pytest.mark.parametrize("bias", [0.0, 0.3])
def test_population_gradients_are_means_over_the_cube(derivative, bias):
    n, support = 7, (1, 2, 5)
    weights = np.random.default_rng(2).standard_normal(n)
    points = boolean.cube(n)
    label = points[:, support].prod(axis=1)
    expected = (label[:, None] * points * derivative(points @ weights + bias)[:, None]).mean(axis=0)
    assert np.allclose(boolean.population_gradient(weights, support, derivative, bias=bias), expected)


@pytest.mark.parametrize("k", [3, 4, 5])
def test_one_quadratic_layer_sees_no_parity_of_more_than_two_bits(k):
    weights = np.random.default_rng(3).standard_normal(8)
    gradient = boolean.population_gradient(weights, range(k), lambda z: 2 * z)
    assert np.abs(gradient).max() < 1e-12
    assert np.abs(boolean.population_gradient(weights, range(2), lambda z: 2 * z)).max() > 0.1


def test_an_unbiased_halfspace_has_no_gradient_for_odd_k():
    weights = np.random.default_rng(4).standard_normal(9)
    assert np.abs(boolean.population_gradient(weights, range(3), boolean.heaviside)).max() < 1e-12


def test_gaps_at_random_weights_are_those_of_their_gradients():
    """Figure B.7 at n = 15: majority's gap at signs and at equal weights, and relaxed gaps that are often positive."""
    signs = boolean.gradient_gap(15, 4, weights="signs", draws=3)
    assert signs["gaps"] == pytest.approx([relu_gap(15, 4)] * 3, abs=1e-12)
    assert signs["all_ones"] == pytest.approx(relu_gap(15, 4), abs=1e-12)
    found = boolean.gradient_gap(9, 2, "sine", "gaussian", bias=0.4, draws=20, seed=3)
    w = np.random.default_rng(3).standard_normal((20, 9))[7] / 3
    gradient = boolean.population_gradient(w, range(2), np.cos, bias=0.4)
    assert found["gaps"][7] == pytest.approx(boolean.fourier_gap(gradient, range(2)))
    assert found["relaxed_gaps"][7] == pytest.approx(boolean.relaxed_gap(gradient, range(2)))
    assert (
        found["relaxed_positive"] == np.mean(np.array(found["relaxed_gaps"]) > 0) > np.mean(np.array(found["gaps"]) > 0)
    )


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: boolean.cube(30), "n must be an integer between 0 and 24; got n=30"),
        (lambda: boolean.walsh_hadamard(np.ones(6)), "has 2\\^n entries; got 6"),
        (lambda: boolean.walsh_hadamard(1.0), "has 2\\^n entries; got 0"),
        (lambda: boolean.subset_mask([0, 0], 3), "no repeated elements; got \\[0, 0\\]"),
        (lambda: boolean.subset_mask([3], 3), "between 0 and 2; got element of the subset=3"),
        (lambda: boolean.fourier_gap(np.ones(3), [0, 1, 2]), "1 to n-1=2 relevant coordinates"),
        (lambda: boolean.fourier_gap(np.ones(3), []), "relevant coordinates"),
        (lambda: boolean.preactivations(np.ones((2, 2))), "a vector; got shape \\(2, 2\\)"),
        (lambda: boolean.neighbour_coefficients(np.ones((2, 4)), [0]), "one table"),
        (lambda: boolean.gradient_gap(30, 3), "n must be an integer between 2 and 24; got n=30"),
        (lambda: boolean.gradient_gap(5, 5), "k < n; got n=5, k=5"),
        (lambda: boolean.gradient_gap(5, 2, activation="tanh"), "activation must be one of relu, sine"),
    ],
)
def test_bad_input(call, message):
    with pytest.raises(KroghError, match=message):
        call()


def test_correlation_with_a_parity():
    x = boolean.cube(5)
    parity = x[:, [0, 2]].prod(axis=1)
    assert boolean.correlation(-3 * parity, (0, 2)) == pytest.approx(-1)
    table = parity + 2 * x[:, 1]
    assert boolean.correlation(table, (0, 2)) == pytest.approx(np.mean(table * parity) / np.sqrt(np.mean(table**2)))
    with pytest.raises(KroghError, match="zero everywhere"):
        boolean.correlation(np.zeros(8), (0,))
