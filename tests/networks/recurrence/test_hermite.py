"""The Hermite weight: its expectation is φ, by Monte Carlo and by quadrature, and its size is the one known."""

from __future__ import annotations

import math

import numpy as np
import pytest

from krogh.errors import KroghError
from krogh.networks.recurrence.hermite import HermiteWeight

SIN = [0, 1, 0, -1 / 6, 0, 1 / 120, 0, -1 / 5040]
CASES = {
    "z": ([0, 1], 1.0, 1.0, 1.0, 3.30),
    "z^2": ([0, 0, 1], 1.0, 1.0, 1.0, 8.08),
    "z^3-z": ([0, -1, 0, 1], 1.0, 1.0, 1.0, 10.5),
    "sin": (SIN, 1.0, 1.0, 1.0, 3.70),
    "other radius": ([0, 1, 0.5], 1.3, 0.7, 2.0, None),
    "with a constant": ([0.4, 1], 1.0, 1.0, 1.0, None),
}
PLACES = np.array([-0.9, -0.3, 0.0, 0.5, 0.95])


def indicator_mean(weight: HermiteWeight, x: float, r: float, shift: float) -> float:
    """E over a grid of α and b; β is integrated out: P(αx + β√(r²-x²) + b + s ≥ 0 | α, b) is a normal distribution's."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(160)
    weights = weights / weights.sum()
    alpha, b = nodes[:, None], weight.spread * nodes[None, :]
    chance = np.vectorize(math.erf)((alpha * x + b + shift) / math.sqrt(2 * (r**2 - x**2))) / 2 + 0.5
    return float(weights @ (chance * weight(alpha, b)) @ weights)


@pytest.mark.parametrize("case", CASES)
def test_hermite_weight_gives_phi_by_monte_carlo(case):
    c, r, spread, gain, size = CASES[case]
    weight, rng, count = HermiteWeight(np.array(c), r, spread, gain), np.random.default_rng(0), 400_000
    alpha, beta, b = rng.standard_normal(count), rng.standard_normal(count), spread * rng.standard_normal(count)
    H = weight(alpha, b)
    if size is not None:
        assert H.std() == pytest.approx(size, rel=0.02)
    for x in PLACES:
        terms = H * (alpha * x + beta * math.sqrt(r**2 - x**2) + b >= 0)
        error = terms.std() / math.sqrt(count)
        assert abs(terms.mean() - np.polynomial.Polynomial(c)(gain * x)) <= 4 * error


@pytest.mark.parametrize("case", [name for name in CASES if name != "with a constant"])
@pytest.mark.parametrize(("r", "shift"), [(None, 0.0), (2.2, 0.0), (1.9, 0.4), (6.0, -0.3)])
def test_response_is_the_mean_under_another_indicator(case, r, shift):
    c, own, spread, gain, _ = CASES[case]
    weight = HermiteWeight(np.array(c), own, spread, gain)
    for x in PLACES:
        expected = indicator_mean(weight, x, own if r is None else r, shift)
        assert float(weight.response(x, r, shift)) == pytest.approx(expected, abs=1e-6)
        if r is None and shift == 0:
            assert float(weight.response(x)) == pytest.approx(np.polynomial.Polynomial(c)(gain * x), abs=1e-9)


def test_clip_bounds_the_weight_and_changes_nothing_inside():
    weight = HermiteWeight(np.array([0.0, 1.0, 1.0]), 1.0, 1.0)
    alpha = np.array([-3.0, 0.5, 1e3])
    assert np.array_equal(weight(alpha[:2], 0.3, clip=0.01), weight(alpha[:2], 0.3))
    first = [10 * math.sqrt(i) + 10 * math.sqrt(math.log(100)) for i in (1, 2)]
    bounded = HermiteWeight(np.array([0.0, 1.0]), 1.0, 1.0)
    assert bounded(1e3, 0.3, clip=0.01) == pytest.approx(bounded(first[0], 0.3))
    assert abs(weight(1e6, 0.3, clip=0.01)) < abs(weight(first[1] * 1.01, 0.3)) < abs(weight(1e6, 0.3))


@pytest.mark.parametrize("name", ["r", "spread", "gain"])
def test_hermite_weight_refuses_sizes_that_are_not_positive(name):
    with pytest.raises(KroghError, match=rf"{name} must be a positive number; got {name}=0"):
        HermiteWeight(np.array([0.0, 1.0]), **{"r": 1.0, "spread": 1.0, "gain": 1.0, name: 0.0})
    with pytest.raises(KroghError, match=r"needs φ\(0\) = 0; got c_0=1"):
        HermiteWeight(np.array([1.0]), 1.0, 1.0).response(0.1)
