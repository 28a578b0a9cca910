"""The definition of the all-layer margin, and its losses."""

from __future__ import annotations

import numpy as np
import pytest

from krogh.errors import KroghError
from krogh.networks.margins.attack import Effort, attack
from krogh.theory.programs.margin import flips, perturbation_norm, perturbed, ramp_loss, value_at, zero_one_loss


def linear(parameters, x):
    return parameters["w"] @ x + parameters["b"]


def linear_margin(w, b, x, y):
    """|w·x + b|/√(‖x‖² + 1) where the label is right, 0 where it is wrong: the distance to a hyperplane."""
    return max(0.0, (2 * y - 1) * (w @ x + b)) / np.sqrt(x @ x + 1)


def test_an_output_of_zero_is_an_error():
    assert zero_one_loss([1.0, -1.0, 0.0, 0.0, 2.0, -3.0], [1, 0, 1, 0, 0, 1]).tolist() == [0, 0, 1, 1, 1, 1]


def test_ramp_loss():
    assert ramp_loss([-1.0, 0.0, 0.05, 0.1, 0.2, 0.3], 0.2).tolist() == [1, 1, 0.75, 0.5, 0, 0]


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


def test_a_flip_at_theta_is_one_at_every_other_theta_that_much_further(ladder, network):
    """The proof that the margin is 1-Lipschitz: δ flips at θ, so δ - (θ' - θ) flips at θ'."""
    parameters = ladder(4, 3)
    rng = np.random.default_rng(2)
    x = np.ones(4)
    found = attack(network, parameters, x, 1, effort=Effort(4, 5))
    moved = {name: value + 1e-3 * rng.normal(size=value.shape) for name, value in parameters.items()}
    apart = {name: moved[name] - parameters[name] for name in parameters}
    shifted = {name: found.perturbation[name] - apart[name] for name in parameters}
    assert value_at(network, moved, x) > 0 and perturbation_norm(apart) > 1e-3
    slightly = {name: value * (1 + 1e-9) for name, value in shifted.items()}
    assert flips(network, moved, shifted, x, 1) or flips(network, moved, slightly, x, 1)
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
