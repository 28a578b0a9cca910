"""The toy chain: closed forms, enclosures and optimisation against each other."""

from __future__ import annotations

import math

import jax
import numpy as np
import pytest
from scipy.optimize import minimize

from krogh.errors import KroghError
from krogh.networks.margins.attack import Effort, attack, projected_gradient
from krogh.networks.margins.search import landscape
from krogh.theory.numerics import double_precision
from krogh.theory.programs.margin import (
    _value_and_slope,
    chain_output,
    chain_parameters,
    flips,
    plain_margin,
    rounded_enclosure,
    rounded_margin,
    value_at,
)

PLAIN = {1: 0.5, 2: 0.4142, 3: 0.3573, 4: 0.3182, 8: 0.2347, 16: 0.1696, 32: 0.1212, 64: 0.0862}
ROUNDED = {1: 0.5, 2: 0.4918, 3: 0.4908, 4: 0.4907, 8: 0.4907, 64: 0.4907}
ROUNDS = ("round.V1", "round.c1", "round.V2", "round.c2")


def as_arrays(perturbation):
    """A perturbation [d, 8] under the names of the chain's parameters."""
    columns = {"chain.W": 0, "round.V1": [1, 2], "round.c1": [3, 4], "round.V2": [5, 6], "round.c2": [7]}
    return {name: perturbation[:, index] for name, index in columns.items()}


@pytest.mark.parametrize(("depth", "value"), PLAIN.items())
def test_plain_values(depth, value):
    found = plain_margin(depth)
    assert found.value == pytest.approx(value, abs=5e-5)
    assert found.value == pytest.approx(np.linalg.norm(found.perturbation), rel=1e-12)
    assert np.prod(1 + found.perturbation) == pytest.approx(0.5, rel=1e-12)


@pytest.mark.parametrize("depth", [2, 3, 5])
def test_plain_values_by_constrained_optimisation(depth):
    rng = np.random.default_rng(depth)
    best = min(
        (
            minimize(
                lambda v: v @ v,
                rng.normal(scale=0.5, size=depth),
                constraints={"type": "ineq", "fun": lambda v: 0.5 - np.prod(1 + v)},
                method="SLSQP",
                options={"ftol": 1e-14},
            )
            for _ in range(10)
        ),
        key=lambda result: result.fun if np.prod(1 + result.x) <= 0.5 + 1e-9 else np.inf,
    )
    assert math.sqrt(best.fun) == pytest.approx(plain_margin(depth).value, rel=1e-5)


@pytest.mark.parametrize(("depth", "value"), ROUNDED.items())
def test_rounded_values_are_proved(depth, value):
    found = rounded_margin(depth)
    assert found.value == pytest.approx(value, abs=5e-5) and found.value >= 1 / 3
    low, high = rounded_enclosure(depth, points=600)
    assert low - 1e-12 <= found.value <= high + 1e-12 and high - low < 1e-3
    assert not np.any(found.perturbation[:, 1:]), "the roundings are frozen"
    parameters = chain_parameters(depth, rounded=True)
    assert flips(chain_output, parameters, as_arrays(found.perturbation * (1 + 1e-9)), 1.0, 1)
    assert not flips(chain_output, parameters, as_arrays(found.perturbation * (1 - 1e-4)), 1.0, 1)


def test_free_roundings_are_attacked_first_and_depth_still_does_not_matter():
    values = [rounded_margin(depth, free=True).value for depth in (1, 2, 3, 4, 8, 64)]
    np.testing.assert_allclose(values, [0.081564, 0.079196, 0.077765, 0.077608, 0.077583, 0.077583], atol=2e-6)
    assert values == sorted(values, reverse=True)
    for depth in (1, 3, 64):
        found = rounded_margin(depth, free=True)
        parameters = chain_parameters(depth, rounded=True)
        assert found.perturbation.shape == (depth, 8)
        assert flips(chain_output, parameters, as_arrays(found.perturbation * (1 + 1e-9)), 1.0, 1)
    # first order at d = 1: 1/2 over the norm of the gradient
    slope = _value_and_slope(np.zeros((1, 8)))[1]
    assert slope[0, 1:] == pytest.approx([3, -3, 3, -3, 2 / 3, 1 / 3, 1], abs=1e-12) and slope[0, 0] == pytest.approx(0)
    assert values[0] == pytest.approx(0.5 / np.linalg.norm(slope), rel=0.01)


def test_the_slope_used_in_optimisation_is_the_gradient_of_the_network():
    rng = np.random.default_rng(0)
    with double_precision():
        for _ in range(2):
            change = 0.2 * rng.normal(size=(3, 8))
            value, slope = _value_and_slope(change)
            moved = {k: v + as_arrays(change)[k] for k, v in chain_parameters(3, rounded=True).items()}
            found, gradient = jax.value_and_grad(lambda p: chain_output(p, 1.0))(moved)
            assert value == pytest.approx(float(found), abs=1e-12)
            for name, part in as_arrays(slope).items():
                np.testing.assert_allclose(gradient[name], part, atol=1e-10)


def test_attacks_reach_the_exact_values():
    plain = attack(chain_output, chain_parameters(8), 1.0, 1, effort=Effort(4, 30))
    assert 1 - 1e-9 <= plain.radius / plain_margin(8).value <= 1.01
    parameters = chain_parameters(4, rounded=True)
    free = attack(chain_output, parameters, 1.0, 1, effort=Effort(6, 60))
    assert 1 - 1e-5 <= free.radius / rounded_margin(4, free=True).value <= 1.05
    frozen = attack(chain_output, parameters, 1.0, 1, effort=Effort(6, 60), frozen=ROUNDS)
    assert 1 - 1e-6 <= frozen.radius / rounded_margin(4).value <= 1.02
    assert all(not np.any(frozen.perturbation[name]) for name in ROUNDS)


@pytest.mark.slow
@pytest.mark.parametrize("depth", [2, 16, 64])
def test_attacks_reach_the_exact_values_at_other_depths(depth):
    plain = attack(chain_output, chain_parameters(depth), 1.0, 1)
    assert 1 - 1e-9 <= plain.radius / plain_margin(depth).value <= 1.01
    parameters = chain_parameters(depth, rounded=True)
    frozen = attack(chain_output, parameters, 1.0, 1, effort=Effort(24, 120), frozen=ROUNDS)
    assert (1 - 1e-6) * rounded_margin(depth).value <= frozen.radius <= 0.5 * (1 + 1e-6)


def test_projected_gradient_finds_nothing_inside_the_margin_and_something_outside():
    land = landscape(chain_output, chain_parameters(4), 1.0, 1)
    inside, _ = projected_gradient(land, 0.97 * plain_margin(4).value, restarts=6)
    outside, where = projected_gradient(land, 1.05 * plain_margin(4).value, restarts=6)
    assert inside.min() > 0 >= outside.min()
    assert np.all(np.linalg.norm(where, axis=1) <= 1.05 * plain_margin(4).value * (1 + 1e-12))


def test_the_chain_itself():
    for rounded in (False, True):
        assert value_at(chain_output, chain_parameters(5, rounded), 1.0) == pytest.approx(0.5, abs=1e-15)
    weights = {"chain.W": np.array([0.9, 0.5, 2.0])}
    assert value_at(chain_output, weights, 1.0) == pytest.approx(0.4)
    with pytest.raises(KroghError, match="depth must be an integer at least 1; got depth=0"):
        rounded_margin(0)
