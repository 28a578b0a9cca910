"""The ReLU memoriser repeats its values in a box around every point, and its printed form does not."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from krogh.errors import KroghError
from krogh.networks.memoriser import Memoriser, boundedness, injectivity_gap, memoriser, monotonicity_gap

RANDOM = np.random.default_rng(0)


def separated(n: int, dimension: int, gap: float, seed: int) -> np.ndarray:
    """Random points at least `gap` apart in the sup norm, some of them barely."""
    random = np.random.default_rng(seed)
    points = [random.uniform(-1, 1, dimension)]
    while len(points) < n:
        step = random.uniform(-1, 1, dimension)
        step *= gap * random.choice([1.0, 1.5]) / np.max(np.abs(step))
        new = points[random.integers(len(points))] + step
        if min(np.max(np.abs(new - old)) for old in points) >= gap * (1 - 1e-12):
            points.append(new)
    return np.array(points)


def around(points: np.ndarray, delta: float) -> np.ndarray:
    """Each point moved to every corner of its box, to the middles of faces and into the box; [n, moves, d_f]."""
    dimension = points.shape[1]
    corners = np.array(list(itertools.product([-delta, 0.0, delta], repeat=dimension)))
    inside = np.random.default_rng(1).uniform(-delta, delta, (20, dimension))
    return points[:, None] + np.concatenate([corners, inside])[None]


@pytest.mark.parametrize(("n", "dimension"), [(1, 1), (7, 1), (6, 2), (9, 3), (5, 4)])
@pytest.mark.parametrize("gap", [0.4, 2.0, 4.0])
def test_values_are_repeated_in_the_box_around_every_point(n, dimension, gap):
    points, values = separated(n, dimension, gap, n), np.random.default_rng(n).normal(size=n)
    for layers in (2, 3) if dimension == 1 else (3,):
        made = memoriser(points, values, gap / 4, layers)
        moved = around(points, gap / 4)
        found = made(moved.reshape(-1, dimension)).reshape(n, -1)
        np.testing.assert_allclose(found, np.tile(values[:, None], found.shape[1]), rtol=0, atol=1e-11)
        far = made(points + 100.0)
        np.testing.assert_allclose(far, 0, atol=1e-9 if layers == 3 else 1e-10)


def test_between_points_the_value_goes_from_one_to_the_other():
    made = memoriser([[0.0], [4.0]], [1.0, 3.0], 1.0, layers=2)
    x = np.array([[0.0], [1.0], [1.5], [2.0], [2.5], [3.0], [-2.0]])
    np.testing.assert_allclose(made(x), [1, 1, 0.5, 0, 1.5, 3, 0], atol=1e-12)


@pytest.mark.parametrize("dimension", [1, 3])
def test_shapes_entries_and_norms(dimension):
    points, values = separated(6, dimension, 0.8, 3), RANDOM.normal(size=6)
    made = memoriser(points, values, 0.2)
    n, delta = 6, 0.2
    assert made.W1.shape == (dimension + 1, 4 * n * dimension) and made.w.shape == (2 * n,)
    assert made.W2 is not None and made.W2.shape == (4 * n * dimension + 1, 2 * n)
    bounds = made.entry_bounds()
    for name, value in made.parameters.items():
        assert np.max(np.abs(value)) <= bounds[name] * (1 + 1e-12), name
    B = np.max(np.abs(points))
    assert bounds == pytest.approx({"W1": max(5, 5 * B + 2), "W2": 5 * dimension, "w": np.max(np.abs(values))})
    assert np.max(np.abs(made.W1)) > max(1, B) / delta, "the printed bound forgets the biases"
    biases = np.sum(made.W1[-1] ** 2)
    assert np.sum(made.W1**2) == pytest.approx(4 * n * dimension / delta**2 + biases)
    rows = 8 * n * dimension / delta**2
    assert np.sum(made.W2**2) == pytest.approx(rows + n * ((1 - dimension / delta) ** 2 + (dimension / delta) ** 2))
    assert np.sum(made.w**2) == pytest.approx(2 * np.sum(values**2))


def test_the_printed_bump_is_0_at_its_centre_and_not_0_far_away():
    points, values = np.array([[0.0], [2.0]]), np.array([1.0, -2.0])
    printed = memoriser(points, values, 0.5, layers=2, variant="printed")
    one = memoriser([[0.0]], [1.0], 0.5, layers=2, variant="printed")
    np.testing.assert_allclose(one([[0.0], [50.0], [-50.0]]), [0, 1, -1], atol=1e-12)
    assert np.max(np.abs(printed(points) - values)) >= 1
    deep = memoriser(points, values, 0.5, variant="printed")
    assert np.max(np.abs(deep(points) - values)) >= 1
    np.testing.assert_allclose(memoriser(points, values, 0.5)(points), values, atol=1e-12)


def test_a_box_of_half_the_size_misses_what_a_head_may_be_wrong_by():
    """γ-separated points known within γ/4 need δ = γ/4; the source's proofs print γ/8."""
    gamma, points, values = 0.5, np.array([[0.0], [0.5], [1.0]]), np.array([1.0, -1.0, 1.0])
    off = points + gamma / 4
    np.testing.assert_allclose(memoriser(points, values, gamma / 4)(off), values, atol=1e-12)
    assert np.max(np.abs(memoriser(points, values, gamma / 8)(off) - values)) >= 0.99


def test_delta_is_a_quarter_of_the_gap_and_at_most_1_unless_given():
    assert memoriser([[0.0], [0.5]], [1.0, 2.0]).delta == 0.125
    assert memoriser([[0.0], [50.0]], [1.0, 2.0]).delta == 1.0
    assert memoriser([[0.0]], [1.0]).delta == 1.0


def test_measures_of_functions():
    points = np.array([[0.0, 1.0], [0.5, -3.0], [0.0, 1.25]])
    assert injectivity_gap(points) == 0.25 and injectivity_gap(points[:1]) == math.inf
    assert boundedness(points) == 3.0
    assert monotonicity_gap([0.0, 2.0, 3.5]) == 1.5 and monotonicity_gap([0.0, 2.0, 1.0]) == -1.0


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"delta": 0.2}, r"4·delta=0\.8 apart .* 0\.5 apart \(try delta=0\.125\)"),
        ({"delta": 0.0}, "delta must be positive and at most 1; got delta=0"),
        ({"delta": 1.5}, "at most 1; got delta=1.5"),
        ({"values": [1.0]}, r"one per point, \(2,\); got the shape \(1,\)"),
        ({"points": [0.0, 0.5]}, r"rows of an array \[n, d_f\]; got the shape \(2,\)"),
        ({"layers": 4}, "2 or 3 layers; got layers=4"),
        ({"points": [[0.0, 0.0], [0.5, 0.5]], "layers": 2}, r"2 coordinates \(try layers=3\)"),
        ({"points": [[0.5], [0.5]]}, "delta must be positive"),
        ({"variant": "mended"}, "variant must be 'printed' or 'repaired'"),
    ],
)
def test_bad_settings_get_one_clear_error(settings, message):
    with pytest.raises(KroghError, match=message):
        memoriser(**{"points": [[0.0], [0.5]], "values": [1.0, 2.0], **settings})


def frobenius(made: Memoriser) -> dict[str, float]:
    return {name: float(np.linalg.norm(value)) for name, value in made.parameters.items()}


def test_norms_grow_as_a_power_of_s_for_symmetric_and_as_2_to_the_s_half_for_general_functions():
    sizes = range(2, 9)
    symmetric, general = [], []
    for s in sizes:
        levels = 1 - 2 * np.arange(s + 1) / s
        symmetric.append(frobenius(memoriser(levels[:, None], np.ones(s + 1), min(1, 2 / s) / 4)))
        cube = 1 - 2.0 * ((np.arange(2**s)[:, None] >> np.arange(s)) & 1)
        general.append(frobenius(memoriser(cube, np.ones(2**s), 0.25)))
    for name, largest in {"W1": 2.0, "W2": 2.0, "w": 1.0}.items():
        found = [each[name] for each in symmetric]
        assert 0 < np.polyfit(np.log(list(sizes)), np.log(found), 1)[0] <= largest, name
    # For general functions the norms are √(2^s) times a polynomial: within 2^s poly(s), and no less than 2^(s/2).
    for s, found in zip(sizes, general, strict=True):
        assert found["W1"] == pytest.approx(math.sqrt(2**s * 138 * s))
        assert found["W2"] == pytest.approx(math.sqrt(2**s * (128 * s + (4 * s - 1) ** 2 + 16 * s**2)))
        assert found["w"] == pytest.approx(math.sqrt(2 * 2**s))
    for name in ("W1", "W2", "w"):
        assert 0.5 - 1e-9 <= np.polyfit(sizes, np.log2([each[name] for each in general]), 1)[0] < 0.85
