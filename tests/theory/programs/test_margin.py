"""The all-layer margin and its losses, and the toy chain whose margin is known."""

from __future__ import annotations

import math

import jax
import numpy as np
import pytest
from scipy.optimize import minimize

from krogh.errors import KroghError
from krogh.networks.margins.attack import Effort, attack, projected_gradient
from krogh.networks.margins.search import landscape
from krogh.theory import predict
from krogh.theory.numerics import double_precision
from krogh.theory.programs.margin import (
    _value_and_slope,
    chain_output,
    chain_parameters,
    flips,
    perturbation_norm,
    perturbed,
    plain_margin,
    ramp_loss,
    rounded_enclosure,
    rounded_margin,
    value_at,
    zero_one_loss,
)


def linear(parameters, x):
    return parameters["w"] @ x + parameters["b"]


def linear_margin(w, b, x, y):
    """|w·x + b|/√(‖x‖² + 1) where the label is right, 0 where it is wrong: the distance to a hyperplane."""
    return max(0.0, (2 * y - 1) * (w @ x + b)) / np.sqrt(x @ x + 1)


def test_an_output_of_zero_is_an_error():
    assert zero_one_loss([1.0, -1.0, 0.0, 0.0, 2.0, -3.0], [1, 0, 1, 0, 0, 1]).tolist() == [0, 0, 1, 1, 1, 1]


def test_ramp_loss():
    assert ramp_loss([-1.0, 0.0, 0.05, 0.1, 0.2, 0.3], 0.2).tolist() == [1, 1, 0.75, 0.5, 0, 0]


def test_the_mean_ramp_loss_by_name():
    found = predict("approximation/ramp-loss", margins="0,0.05,0.1,0.4", gamma=0.2)
    assert found == {"loss": pytest.approx((1 + 0.75 + 0.5) / 4), "errors": 0.25, "beyond": 0.25}
    with pytest.raises(KroghError, match="at least 0, one per sample; got"):
        predict("approximation/ramp-loss", margins=(-1.0,), gamma=0.2)


def test_the_ramp_of_the_margin_is_never_below_the_0_1_loss():
    rng = np.random.default_rng(0)
    w, b, x, y = rng.normal(size=3), 0.1, rng.normal(size=(200, 3)), rng.integers(0, 2, 200)
    margins = [linear_margin(w, b, row, label) for row, label in zip(x, y, strict=True)]
    wrong = zero_one_loss(x @ w + b, y)
    assert 0 < wrong.sum() < 200 and np.all(ramp_loss(margins, 0.4) >= wrong)
    assert np.all((np.array(margins) == 0) == (wrong == 1)), "the margin is positive exactly where the label is right"


def test_the_margin_of_a_linear_network_is_a_distance_and_moves_no_faster_than_its_weights():
    rng = np.random.default_rng(1)
    x, y = rng.normal(size=4), 1
    found = []
    for _ in range(5):
        w = rng.normal(size=4)
        w = w if w @ x + 0.3 > 0 else -w
        radius = attack(linear, {"w": w, "b": np.array(0.3)}, x, y, effort=Effort(4, 40)).radius
        assert radius == pytest.approx(linear_margin(w, 0.3, x, y), rel=1e-4) or w @ x + 0.3 <= 0
        found.append((w, radius))
    for w, margin in found:
        for other, another in found:
            assert abs(margin - another) <= np.linalg.norm(w - other) + 1e-6


@pytest.mark.slow
def test_a_flip_at_theta_is_one_at_every_other_theta_that_much_further():
    """The proof that the margin is 1-Lipschitz: δ flips at θ, so δ - (θ' - θ) flips at θ'."""
    parameters = chain_parameters(3, rounded=True)
    rng = np.random.default_rng(2)
    x = np.array(1.0)
    found = attack(chain_output, parameters, x, 1, effort=Effort(4, 5))
    moved = {name: value + 1e-3 * rng.normal(size=value.shape) for name, value in parameters.items()}
    apart = {name: moved[name] - parameters[name] for name in parameters}
    shifted = {name: found.perturbation[name] - apart[name] for name in parameters}
    assert value_at(chain_output, moved, x) > 0 and perturbation_norm(apart) > 1e-3
    slightly = {name: value * (1 + 1e-9) for name, value in shifted.items()}
    assert flips(chain_output, moved, shifted, x, 1) or flips(chain_output, moved, slightly, x, 1)
    assert perturbation_norm(shifted) <= found.radius + perturbation_norm(apart)


def test_perturbations_have_the_names_and_shapes_of_the_parameters():
    parameters = {"w": np.ones(2), "b": np.zeros(())}
    moved = perturbed(parameters, {"w": np.array([0.5, -1.0]), "b": np.array(2.0)})
    assert moved["w"].tolist() == [1.5, 0.0] and moved["b"] == 2.0 and parameters["w"].tolist() == [1.0, 1.0]
    with pytest.raises(KroghError, match="these differ: b"):
        perturbed(parameters, {"w": np.ones(2)})
    with pytest.raises(KroghError, match=r"w has the shape \(2,\) and its perturbation has \(3,\)"):
        perturbed(parameters, {"w": np.ones(3), "b": np.zeros(())})
    assert perturbation_norm({"w": np.array([3.0]), "b": np.array(4.0)}) == 5.0


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: zero_one_loss([1.0], [2]), r"a label is 0 or 1; got \[2.0\]"),
        (lambda: zero_one_loss([1.0], [-1]), "a label is 0 or 1"),
        (lambda: ramp_loss([1.0], 0.0), "gamma must be a positive number; got gamma=0.0"),
        (lambda: ramp_loss([1.0], np.inf), "gamma must be a positive number"),
    ],
)
def test_bad_settings(call, message):
    with pytest.raises(KroghError, match=message):
        call()


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
