"""Error, plateau and SGD guarantee of a disjoint-PolyNet, against enumeration and the reference's values."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from krogh.errors import KroghError
from krogh.theory.boolean import fourier as boolean
from krogh.theory.boolean.disjoint_error import (
    block_law,
    error_lower_bound,
    error_upper_bound,
    network_error,
    polynet_error,
)
from krogh.theory.boolean.disjoint_flow import (
    flow_weights,
    last_time_above,
    plateau,
    polynet_sgd,
    relevant_growth,
    sgd_horizon,
    sgd_rate_scale,
    zero_error_time,
)

quiet = settings(database=None, deadline=None, max_examples=40)


def exact_error(v, u, ties="error"):
    return network_error(v, [block_law(row) for row in np.atleast_2d(u)], ties=ties)


def enumerated_error(v, u):
    """Share of errors over the whole cube: outputs of 0 counted whole, and counted half."""
    k, size = u.shape[0], u.shape[1] + 1
    blocks = boolean.cube(k * size).reshape(-1, k, size)
    output = np.einsum("bki,ki->bk", blocks, np.column_stack([v, u])).prod(axis=1)
    agreement = np.sign(np.round(output, 12)) * blocks[:, :, 0].prod(axis=1)
    return (agreement < 1).mean(), 0.5 * (1 - agreement.mean())


@quiet
@given(st.integers(1, 3), st.integers(2, 4), st.booleans(), st.integers(0, 2**32 - 1))
def test_the_error_is_exact(k, size, lattice, seed):
    rng = np.random.default_rng(seed)
    if lattice:  # ties are common
        v, u = rng.integers(-3, 4, k).astype(float), rng.integers(-2, 3, (k, size - 1)).astype(float)
    else:
        v, u = 2 * rng.standard_normal(k), rng.standard_normal((k, size - 1))
    whole, half = enumerated_error(v, u)
    assert exact_error(v, u) == pytest.approx(whole, abs=1e-12)
    assert exact_error(v, u, ties="fair") == pytest.approx(half, abs=1e-12)


@quiet
@given(st.integers(1, 4), st.integers(2, 12), st.integers(0, 2**32 - 1))
def test_the_repaired_bounds_hold(k, size, seed):
    rng = np.random.default_rng(seed)
    u = rng.standard_normal((k, size - 1))
    v = np.abs(rng.standard_normal(k)) * math.sqrt(size) + 0.01
    error = exact_error(v, u)
    assert error_lower_bound(v, u) <= error + 1e-12
    assert error <= error_upper_bound(v, u) + 1e-12


def test_the_bounds_bite_where_they_should():
    large = polynet_error(10_001, 2, 20.0)
    assert 0.45 < large["at_least"] <= large["error_fair"] <= large["error"]
    small = polynet_error(101, 2, 60.0)
    assert 0 < small["error"] <= small["at_most"] < 1e-6


def test_the_printed_bounds_are_violated_where_the_reference_says():
    above = polynet_error(15, 3, 11.5, "printed")
    assert above["error"] == pytest.approx(2.7e-3, rel=0.02) and above["at_most"] == pytest.approx(4.7e-4, rel=0.02)
    assert above["error"] > above["at_most"]
    below = polynet_error(15, 3, 4.5, "printed")
    assert below["error"] < below["at_least"]
    for v in (4.5, 11.5):
        repaired = polynet_error(15, 3, v)
        assert repaired["at_least"] <= repaired["error"] <= repaired["at_most"]


def test_ties_can_push_the_error_above_one_half():
    assert polynet_error(4, 3, 1.0)["error"] == pytest.approx(0.85, abs=0.005)
    assert polynet_error(4, 3, 1.0)["error_fair"] < 0.5


@pytest.mark.parametrize("size", [5, 6])
def test_zero_error_means_beating_all_irrelevant_weights(size):
    at = polynet_error(size, 3, 1.0)["zero_from"]
    assert polynet_error(size, 3, at * 1.001)["error"] == 0 < polynet_error(size, 3, at * 0.999)["error"]
    assert exact_error([-9.0, 9.0, 9.0], np.ones((3, size - 1))) == 1


def test_the_error_falls_as_the_relevant_weight_grows():
    errors = [polynet_error(40, 3, v)["error_fair"] for v in np.linspace(0.1, 45, 200)]
    assert all(a >= b for a, b in itertools.pairwise(errors))


def test_three_ways_to_the_law_of_a_block_agree():
    nearly = np.ones(12)
    nearly[0] += 1e-9
    for v in (0.5, 2.5, 7.5):
        assert block_law(nearly)(v)[0] == pytest.approx(block_law(np.ones(12))(v)[0], abs=1e-12)
    u = np.random.default_rng(0).standard_normal(36)
    # a weight that hardly matters makes it 37 weights, which are no longer enumerated
    inverted, enumerated = block_law(np.concatenate([u, [1e-9]])), block_law(u)
    for v in (0.0, 0.3, 2.0, 6.0, 12.0):
        assert inverted(v)[0] == pytest.approx(enumerated(v)[0], abs=1e-6)
        assert inverted(v)[1] == 0 and enumerated(v)[1] < 1e-9
    assert block_law([0.0, 0.0])(1.0) == (0.0, 0.0) and block_law([])(0.0) == (0.0, 1.0)


def test_the_law_of_a_block_by_simulation():
    rng = np.random.default_rng(1)
    u = rng.standard_normal(100)
    sums = rng.choice([-1.0, 1.0], size=(20_000, 100)) @ u
    for v in (0.5, 5.0, 15.0):
        flip = block_law(u)(v)[0]
        assert abs((sums > v).mean() - flip) < 4 * math.sqrt(flip / 20_000)


# The reference's table of T(0.49)/T(0) for all-ones weights, and half a unit of its last digit.
TABLE = {
    30: ((0.0, 1e-9), (0.890, 5e-4), (0.963, 5e-4)),
    100: ((0.674, 6e-4), (0.960, 5e-4), (0.9971, 5e-5)),
    300: ((0.860, 5e-4), (0.9877, 5e-5), (0.9992, 5e-5)),
    1000: ((0.910, 5e-4), (0.9956, 5e-5), (0.99985, 5e-6)),
    10000: ((0.9715, 5e-5), (0.99958, 5e-6), (0.9999956, 5e-8)),
}


@pytest.mark.parametrize("size", TABLE)
def test_plateau_table(size):
    for k, (value, digit) in zip((3, 4, 5), TABLE[size], strict=True):
        numbers = plateau(size, k)
        assert numbers["ratio"] == pytest.approx(value, abs=digit)
        assert numbers["guaranteed_ratio"] <= numbers["ratio"] + 1e-12


def test_plateau_closed_form():
    # v = 3 is the last value of the noise below which (Pr[|R| < v])^3 <= 0.02, and t(v) = 1 - 1/v
    assert plateau(100, 3)["ratio"] == pytest.approx((1 - 1 / 3) / (1 - 1 / 99), rel=1e-9)
    assert plateau(100, 3, init="signs") == plateau(100, 3)


def test_plateau_scaling():
    for k, slope in ((3, -0.505), (4, -0.99), (5, -1.53)):
        near, far = (1 - plateau(size, k)["ratio"] for size in (3000, 10000))
        assert math.log(far / near) / math.log(10 / 3) == pytest.approx(slope, abs=0.01)
    assert plateau(1000, 3, gamma=0.001)["ratio"] < plateau(1000, 3)["ratio"] < plateau(1000, 3, gamma=0.1)["ratio"]


def test_gaussian_plateau():
    numbers = [plateau(300, 4, init="gaussian", seed=seed) for seed in range(3)]
    assert all(0.8 < entry["ratio"] < 1 for entry in numbers)
    assert len({entry["ratio"] for entry in numbers}) == 3
    assert numbers[0] == plateau(300, 4, init="gaussian", seed=0)
    assert "guaranteed_ratio" not in numbers[0]


def test_plateau_of_given_weights_brackets_the_level():
    rng = np.random.default_rng(3)
    v, u = np.abs(rng.standard_normal(3)), rng.standard_normal((3, 12))
    end, total = last_time_above(0.4, v, u), zero_error_time(v, u)
    assert 0 < end < total
    for time, low in ((0.999999 * end, True), (1.000001 * end, False)):
        assert (exact_error(flow_weights(time, v), u, ties="fair") >= 0.4) == low
    assert exact_error(flow_weights(1.0001 * total, v), u) == 0 < exact_error(flow_weights(0.999 * total, v), u)


@pytest.mark.parametrize(("size", "k", "value"), [(2, 2, 1.9e5), (2, 3, 4.0e6), (3, 2, 1.1e6), (3, 3, 7.7e7)])
def test_sgd_horizons_of_the_reference(size, k, value):
    numbers = polynet_sgd(size, k)
    assert numbers["horizon"] == pytest.approx(value, rel=0.04)


@pytest.mark.parametrize("variant", ["printed", "repaired"])
@pytest.mark.parametrize(("size", "k", "epsilon", "delta"), [(2, 2, 0.1, 0.1), (10, 3, 0.01, 0.01), (3, 5, 0.3, 0.5)])
def test_the_sgd_proof_goes_through(size, k, epsilon, delta, variant):
    factor = {"printed": 6, "repaired": 48}[variant]

    def demanded(steps):
        return (
            factor * math.log(2 * size * k * steps / delta) * math.log(2 * k / epsilon) * (3 * size - 2) ** (2 * k - 1)
        )

    numbers = polynet_sgd(size, k, epsilon, delta, variant)
    horizon = numbers["horizon"]
    assert horizon >= demanded(horizon) * (1 - 1e-12) and horizon - 1 < demanded(horizon - 1) * (1 + 1e-12)
    assert numbers["relevant_at_least"] >= numbers["relevant_needed"]
    bound = error_upper_bound([numbers["relevant_needed"]] * k, np.full((k, size - 1), 1.5), variant)
    assert bound == pytest.approx(epsilon)
    # Azuma-Hoeffding with steps of 2 * rate_scale: the repaired rate keeps the martingale within 1/2
    chance = 2 * math.exp(-(0.5**2) / (2 * horizon * (2 * numbers["rate_scale"]) ** 2))
    assert (chance <= delta / (size * k * horizon) * (1 + 1e-9)) == (variant == "repaired")


def test_sgd_growth_and_rate():
    horizon = sgd_horizon(3, 2, 0.1, 0.1)
    assert relevant_growth(0, horizon, 3, 2, 0.1) == 0.5
    growth = [relevant_growth(share * horizon, horizon, 3, 2, 0.1) for share in (0.1, 0.5, 1.0)]
    assert growth == sorted(growth)
    assert sgd_rate_scale(horizon, 6, 0.1, "printed") == pytest.approx(2 * sgd_rate_scale(horizon, 6, 0.1))
    assert polynet_sgd(3, 2)["horizon"] > polynet_sgd(3, 2, variant="printed")["horizon"]
    assert polynet_sgd(100, 200)["horizon"] == math.inf


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: polynet_error(1, 3, 1.0), "block_size must be an integer at least 2; got block_size=1"),
        (lambda: polynet_error(5, 3, -1.0), "relevant must be a number greater than 0; got relevant=-1.0"),
        (lambda: exact_error([1.0], np.ones((2, 3))), "2 blocks need as many relevant weights"),
        (
            lambda: exact_error([1.0], [[1.0]], ties="coin"),
            "ties must be 'error' or 'fair'; got ties='coin'",
        ),
        (lambda: error_upper_bound([-1.0], [[1.0]]), "positive product; got \\[-1.0\\]"),
        (lambda: error_lower_bound([1.0], [[0.0]]), "non-zero irrelevant weight"),
        (lambda: block_law([1.0, math.nan]), "finite vector"),
        (lambda: block_law([1.0] + [1e-9] * 60), "too uneven"),
        (lambda: polynet_error(10**6, 100, 1.0), "at most 10\\^7 weights in all"),
        (lambda: plateau(100, 2), "k must be an integer at least 3; got k=2"),
        (lambda: plateau(2, 3), "block_size must be an integer at least 3"),
        (
            lambda: plateau(100, 3, init="zeros"),
            "init must be one of ones, signs, gaussian; got init='zeros'",
        ),
        (lambda: plateau(100, 3, gamma=0.5), "gamma must be a number strictly between 0 and 0.5"),
        (lambda: polynet_sgd(2, 2, delta=0.0), "delta must be a number strictly between 0 and 1"),
        (lambda: relevant_growth(2, 1, 2, 2, 0.1), "between 0 and the horizon 1; got 2"),
    ],
)
def test_bad_input(call, message):
    with pytest.raises(KroghError, match=message):
        call()
