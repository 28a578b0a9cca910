"""Attacks: flips that are flips, first ones, and as small as they are known to be."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
import pytest

from krogh.errors import KroghError
from krogh.networks.margins.attack import Effort, attack, projected_gradient
from krogh.networks.margins.search import Scan, directions, first_flips, landscape, narrowed
from krogh.theory.programs.margin import flips, perturbation_norm

# q: uncorrected, corrected; attacks of the reference on the AND-ladder of width 6, all inputs 1
REFERENCE = {3: (8.4e-2, 3.0e-2), 5: (2.5e-2, 2.8e-2), 9: (1.9e-3, 2.7e-2), 13: (1.3e-4, 2.7e-2), 17: (8.5e-6, 2.7e-2)}


def islands(parameters, x):
    """Wrong between radius 1 and 2 and from 4 on; right elsewhere."""
    radius = jnp.sqrt(jnp.sum(parameters["w"] ** 2) + 1e-30)
    return jnp.where((radius < 1) | ((radius > 2) & (radius < 4)), 1.0, -1.0) * x


def hinge(parameters, x):
    return parameters["a.w"][0] + 0.5 * parameters["b.w"][0] * x


def test_the_first_flip_counts_not_a_later_one():
    found = attack(islands, {"w": np.zeros(3)}, 1.0, 1, effort=Effort(3, 0), scan=Scan(1e-3, 10.0, 1.1))
    assert found.radius == pytest.approx(1, rel=1e-5)
    land = landscape(islands, {"w": np.zeros(3)}, 1.0, 1)
    below, above = first_flips(land, np.eye(3), Scan(0.01, 100.0, 1.5))
    assert np.all((below < 1) & (above >= 1) & (above < 1.5))
    late, _ = first_flips(land, np.eye(3), Scan(2.5, 100.0, 1.5))
    assert np.all(late > 2.5), "a scan that starts beyond an island does not see it"


def test_narrowing_down():
    land = landscape(islands, {"w": np.zeros(3)}, 1.0, 1)
    for rounds in (1, 4):
        reached = narrowed(land, np.eye(3), np.zeros(3), np.full(3, 1.9), rounds)
        assert np.all((reached >= 1) & (reached <= 1 + 1.9 / 9**rounds))
    assert np.isinf(narrowed(land, np.eye(3), np.zeros(3), np.full(3, np.inf), 2)).all()


def test_random_directions():
    parameters = {"f0.W1": np.zeros((40, 10)), "f0.b1": np.zeros(40), "f1.W1": np.zeros((9, 40)), "out.b": np.zeros(1)}
    land = landscape(lambda p, x: p["out.b"][0], parameters, 1.0, 1, frozen=("f1.W1",))
    units = directions(np.random.default_rng(0), land, [0, 1, 2] * 20)
    np.testing.assert_allclose(np.linalg.norm(units, axis=1), 1)
    moved = [land.arrays_of(unit) for unit in units]
    assert all(not np.any(arrays["f1.W1"]) for arrays in moved), "what is frozen does not move"
    assert all(np.count_nonzero(unit) == 441 for unit in units[::3]), "zeros move too"
    assert max(np.count_nonzero(unit) for unit in units[1::3]) <= 90
    single = {tuple(bool(np.any(a[name])) for name in ("f0.W1", "f0.b1", "out.b")) for a in moved[2::3]}
    assert single == {(True, True, False)} or single == {(True, True, False), (False, False, True)}


def test_scans():
    assert Scan(1.0, 8.0, 2.0).norms.tolist() == [1, 2, 4, 8]
    assert Scan(1.0, 7.9, 2.0).norms.tolist() == [1, 2, 4]
    land = landscape(hinge, {"a.w": np.array([1.0]), "b.w": np.zeros(1)}, 1.0, 1)
    _, radii = first_flips(land, directions(np.random.default_rng(0), land, [0] * 20), Scan(0.5, 64.0, 2.0))
    assert set(radii) <= {0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, np.inf} and np.isinf(radii).any()
    assert radii.min() >= 1 / np.sqrt(1.25), "no direction is shorter than the margin"


def test_what_never_flips_and_what_is_wrong_to_begin_with():
    constant = attack(lambda p, x: 1.0 + 0 * p["w"][0], {"w": np.ones(2)}, 0.0, 1, effort=Effort(2, 2))
    assert constant.radius == np.inf and constant.perturbation is None and constant.kind == "nothing flipped"
    wrong = attack(hinge, {"a.w": np.array([-1.0]), "b.w": np.zeros(1)}, 1.0, 1)
    assert wrong.radius == 0 and not np.any(wrong.perturbation["a.w"])
    zero = {"a.w": np.zeros(1), "b.w": np.zeros(1)}
    assert attack(hinge, zero, 1.0, 0).radius == 0 == attack(hinge, zero, 1.0, 1).radius


def test_frozen_parameters_and_both_labels():
    parameters = {"a.w": np.array([-1.0]), "b.w": np.zeros(1)}
    assert attack(hinge, parameters, 1.0, 0, effort=Effort(3, 30)).radius == pytest.approx(1 / np.sqrt(1.25), 1e-4)
    frozen = attack(hinge, parameters, 1.0, 0, effort=Effort(3, 5), frozen=("a.w",))
    assert frozen.radius == pytest.approx(2, rel=1e-6) and frozen.perturbation["a.w"] == 0


@pytest.mark.parametrize(
    "q", [3, pytest.param(5, marks=pytest.mark.slow), *(pytest.param(q, marks=pytest.mark.slow) for q in (9, 13, 17))]
)
def test_the_reference_values_of_the_ladder(ladder, network, q):
    for correction, value in zip((False, True), REFERENCE[q], strict=True):
        parameters = ladder(6, q, correction)
        found = attack(network, parameters, np.ones(6), 1, effort=Effort(6 if q == 3 else 12, 60))
        assert 0.93 * value <= found.radius <= 1.06 * value
        assert found.radius == perturbation_norm(found.perturbation) == pytest.approx(found.radii.min(), rel=1e-6)
        assert flips(network, parameters, found.perturbation, np.ones(6), 1)
        smaller = {name: 0.99 * change for name, change in found.perturbation.items()}
        assert not flips(network, parameters, smaller, np.ones(6), 1)


def test_seeds_and_restarts(ladder, network):
    parameters = ladder(3, 2, False)
    settings = {"effort": Effort(4, 3, 1)}
    one, again = (attack(network, parameters, np.ones(3), 1, seed=7, **settings) for _ in range(2))
    assert one.radius == again.radius and one.radii.shape == (4,)
    other = attack(network, parameters, np.ones(3), 1, seed=8, **settings)
    assert other.radius != one.radius and one.radius <= one.radii.min() * (1 + 1e-6)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: Scan(low=0.0), "0 < low < high"),
        (lambda: Scan(ratio=1.0), r"ratio > 1; got .*ratio=1.0 \(try"),
        (lambda: attack(hinge, {}, 1.0, 1), "no parameters to move"),
        (
            lambda: attack(hinge, {"a.w": np.ones(1)}, 1.0, 1, frozen=("b",)),
            "frozen names a parameter; got 'b', known: a.w",
        ),
        (lambda: attack(hinge, {"a.w": np.ones(1)}, 1.0, 1, frozen=("a.w",)), "at least one parameter must move"),
        (lambda: attack(hinge, {"a.w": np.ones(1)}, 1.0, 3), "a label is 0 or 1"),
        (
            lambda: attack(hinge, {"a.w": np.ones(1)}, 1.0, 1, effort=Effort(restarts=0)),
            "restarts must be an integer at least 1",
        ),
        (
            lambda: projected_gradient(landscape(hinge, {"a.w": np.ones(1)}, 1.0, 1), -1.0),
            "radius must be a positive number",
        ),
    ],
)
def test_bad_settings(call, message):
    with pytest.raises(KroghError, match=message):
        call()
