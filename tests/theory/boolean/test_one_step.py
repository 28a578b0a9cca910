"""The one-step theorem's calculator, against the steps of its proof."""

from __future__ import annotations

import math

import numpy as np
import pytest

from krogh.errors import KroghError
from krogh.theory.boolean import fourier as boolean
from krogh.theory.boolean.majority import majority_coefficient
from krogh.theory.boolean.one_step import (
    convex_sgd_bound,
    feature_error,
    good_neuron_width,
    good_pair_probability,
    one_step_theorem,
    smallest_dimension,
)


def test_values_of_the_reference():
    numbers = one_step_theorem(15, 4)
    assert numbers["batch"] == pytest.approx(2e11, rel=0.05)
    assert numbers["iterations"] == pytest.approx(5e12, rel=0.05)
    assert not numbers["n_is_large_enough"]
    assert smallest_dimension(4, 0.1) == pytest.approx(4.5e5, rel=0.02)
    assert smallest_dimension(6, 0.1) == pytest.approx(3.2e6, rel=0.02)


@pytest.mark.parametrize("k", [2, 4, 6])
def test_the_smallest_dimension_is_where_the_condition_starts_to_hold(k):
    n = smallest_dimension(k, 0.1)
    limit = 1 / (8 * k**2)
    assert n % 2 == 1 and feature_error(n, k, 0.1) <= limit < feature_error(n - 2, k, 0.1)
    assert all(feature_error(m, k, 0.1) <= limit for m in (2 * n + 1, 10 * n + 1, 1000 * n + 1))
    assert one_step_theorem(n, k)["n_is_large_enough"] and not one_step_theorem(n - 2, k)["n_is_large_enough"]


@pytest.mark.parametrize(("n", "k", "epsilon"), [(15, 4, 0.1), (1001, 6, 0.01), (453693, 4, 0.1)])
def test_the_proof_goes_through_with_the_repaired_numbers(n, k, epsilon):
    numbers = one_step_theorem(n, k, epsilon)
    width, tau = numbers["width"], numbers["tolerance"]
    inner = epsilon / (64 * k**2 * n)
    # every entry of the first gradient is within tau, except with probability epsilon/8
    assert 2 * width * (n + 1) * math.exp(-numbers["batch"] * tau**2 / 2) <= epsilon / 8
    # every needed good neuron is present, except with probability epsilon/8
    assert (k + 1) * (1 - numbers["good_pair_probability"]) ** (width / 2) <= epsilon / 8
    # the irrelevant weights' noise is within its bound, except with probability eps' over the inputs
    logarithm = math.log(2 * (k + 1) / inner)
    assert tau == pytest.approx(abs(majority_coefficient(n, k - 1)) / (16 * k * math.sqrt(2 * n * logarithm)))
    # the loss of the ideal top layer, then that of SGD on it
    ideal = 16 * inner * k**2 * n
    assert ideal == pytest.approx(epsilon / 4)
    steps, gradient_norm = numbers["iterations"] - 1, 2 * n * math.sqrt(width)
    assert convex_sgd_bound(ideal, numbers["top_norm"], gradient_norm, steps) <= epsilon / 2 * (1 + 1e-12)
    assert numbers["loss_at_most"] == pytest.approx(
        epsilon / 4 + numbers["top_norm"] * gradient_norm / math.sqrt(steps)
    )
    rate = numbers["top_norm"] / (gradient_norm * math.sqrt(steps))
    assert numbers["top_rate"] == pytest.approx(rate)


def test_the_first_step_by_enumeration():
    n, k = 9, 4
    numbers = one_step_theorem(n, k)
    signs = np.random.default_rng(1).choice([-1.0, 1.0], n)
    gradient = boolean.population_gradient(signs, range(k), boolean.heaviside, bias=0.25)
    moved = np.abs(numbers["first_rate"] * gradient)
    assert np.allclose(moved[:k], numbers["relevant_weight"])
    assert np.allclose(moved[k:], numbers["irrelevant_weight"])
    assert numbers["relevant_to_irrelevant"] == pytest.approx((n - k) / (k - 1))
    assert one_step_theorem(21, 4)["relevant_to_irrelevant"] == pytest.approx(17 / 3)
    assert one_step_theorem(51, 4)["relevant_to_irrelevant"] == pytest.approx(47 / 3)


@pytest.mark.parametrize("k", [2, 4])
def test_good_pairs_by_simulation(k):
    rng, pairs = np.random.default_rng(2), 200_000
    w = rng.choice([-1, 1], size=(pairs, k))
    bias = rng.integers(2 * k - 1, size=pairs)
    share = ((w == w[:, :1]).all(axis=1) & (bias == 0)).mean()
    exact = good_pair_probability(k)
    assert abs(share - exact) < 4 * math.sqrt(exact / pairs)
    assert 1.4 < good_pair_probability(k, "printed") / exact < 2


def test_the_printed_theorem():
    numbers = one_step_theorem(15, 4, variant="printed")
    assert numbers["width"] == 2 * math.ceil(4 * 16 * math.log(8 * 4 / 0.1) / 2)
    assert numbers["iterations"] == math.ceil(2**9 * 64 * numbers["width"] * 225 / 0.01)
    logs = math.log(128 * 64 * 15 / 0.1) * math.log(32 * 15 * numbers["width"] / 0.1)
    assert numbers["batch"] == pytest.approx(2**8 * 4 ** (7 / 6) * 15 * math.comb(15, 3) * logs)
    assert one_step_theorem(15, 4, variant="printed", c1=0.5)["batch"] == pytest.approx(2 * numbers["batch"])
    smallest = numbers["smallest_n"]
    assert smallest >= 2**11 * 256 * math.log(128 * 64 * smallest / 0.1) > smallest - 4
    assert good_neuron_width(4, 0.1, "printed") < good_neuron_width(4, 0.1)


def test_monotone_in_everything():
    for key in ("batch", "iterations"):
        assert one_step_theorem(15, 4)[key] < one_step_theorem(31, 4)[key]
        assert one_step_theorem(31, 4)[key] < one_step_theorem(31, 6)[key]
        assert one_step_theorem(15, 4)[key] < one_step_theorem(15, 4, 0.01)[key]
    assert not one_step_theorem(15, 2)["bias_grid_suffices"]
    assert one_step_theorem(10**9 + 1, 100)["batch"] == math.inf
    assert 700 < one_step_theorem(10**9 + 1, 100)["log10_batch"] < 900


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"n": 16, "k": 4}, "n must be odd; got n=16 \\(try 15 or 17\\)"),
        ({"n": 15, "k": 3}, "k must be even; got k=3 \\(try 2 or 4\\)"),
        ({"n": 3, "k": 4}, "k must be less than n; got n=3, k=4"),
        (
            {"n": 15, "k": 4, "epsilon": 0.5},
            "epsilon must be a number strictly between 0 and 0.5; got epsilon=0.5",
        ),
        ({"n": 15, "k": 4, "c1": 0.0}, "c1 must be a number greater than 0"),
        ({"n": 1001, "k": 200}, "up to n=10\\^15 and k=100; got n=1001, k=200"),
    ],
)
def test_bad_input(settings, message):
    with pytest.raises(KroghError, match=message):
        one_step_theorem(**settings)
