"""Covers of linear maps: the printed numbers, covers that are built and checked, packings, and the Lagrangian lemma."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from scipy import optimize

from krogh.errors import KroghError
from krogh.theory.attention import covering
from krogh.theory.attention.covering import Part, explicit_log_cover, shape_constant


def greedy_packing(values, scale):
    """How many of the functions (rows of values on all points) can be kept pairwise more than `scale` apart."""
    kept = []
    for row in values:
        if all(np.linalg.norm(row - other, axis=-1).max() > scale for other in kept):
            kept.append(row)
    return len(kept)


def test_linear_covering_is_the_formula():
    found = covering.linear_covering(0.1, 1000, norm=2.0, inputs=0.5)
    assert found["log_covering"] == pytest.approx(36 * 100 * math.log(2 * 42 * 1000 + 1))
    assert covering.linear_covering(0.3, 7)["log_covering"] == pytest.approx(
        36 / 0.09 * math.log(2 * math.ceil(4 / 0.3 + 2) * 7 + 1)
    )
    assert covering.linear_covering(1.0, 10)["log_covering_or_trivial"] == 0
    assert covering.linear_covering(0.99, 10)["log_covering_or_trivial"] > 0


@pytest.mark.parametrize(("dimension", "scale"), [(2, 0.2), (3, 0.4), (5, 0.4)])
def test_linear_covering_is_above_a_packing(dimension, scale):
    """Functions more than 2 eps apart need a centre each, so a packing at 2 eps bounds the cover from below."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal((12, dimension))
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    w = rng.standard_normal((4000, dimension))
    w /= np.linalg.norm(w, axis=1, keepdims=True)
    packed = greedy_packing((w @ x.T)[:, :, None], 2 * scale)
    assert packed >= 8, "a packing of one would say nothing"
    assert math.log(packed) <= covering.linear_covering(scale, 12)["log_covering"]


def test_matrix_covering_is_above_a_packing():
    rng, rows, scale = np.random.default_rng(1), 3, 0.25
    x = rng.standard_normal((10, 2))
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    w = rng.standard_normal((1500, rows, 2)) * rng.exponential(size=(1500, rows, 1))
    w /= np.linalg.norm(w, axis=2).sum(axis=1)[:, None, None]
    packed = greedy_packing(np.einsum("wij,nj->wni", w, x), 2 * scale)
    assert packed >= 10
    assert math.log(packed) <= covering.matrix_covering(scale, 10, rows)["explicit"]


def maurey_cover(radius, dimension, scale):
    """All averages of ceil(B^2/eps^2) vectors out of {0, +-B e_1, ..., +-B e_d}; (centres, d).

    Any point of the ball is the mean of a random such vector, so the average of k draws misses it by at most
    B^2/k in mean square, and some average misses it by no more.
    """
    draws = math.ceil((radius / scale) ** 2)
    atoms = radius * np.concatenate([np.zeros((1, dimension)), np.eye(dimension), -np.eye(dimension)])
    chosen = np.array(list(itertools.combinations_with_replacement(range(2 * dimension + 1), draws)))
    return atoms[chosen].mean(axis=1)


@pytest.mark.parametrize(("dimension", "radius", "scale"), [(2, 1.0, 0.4), (3, 2.0, 1.0), (5, 1.0, 0.6), (4, 3.0, 2.9)])
def test_the_maurey_cover_covers(dimension, radius, scale):
    centres = maurey_cover(radius, dimension, scale)
    numbers = covering.maurey_covering(scale, dimension, radius)
    assert np.abs(centres).sum(axis=1).max() <= radius * (1 + 1e-12), "the cover is proper"
    assert numbers["draws"] == math.ceil(radius**2 / scale**2)
    assert math.log(len(centres)) == pytest.approx(numbers["log_centres"])
    assert math.log(len(np.unique(centres.round(9), axis=0))) <= numbers["log_covering"]
    assert numbers["log_covering"] == pytest.approx(numbers["draws"] * math.log(2 * dimension + 1))
    rng = np.random.default_rng(2)
    points = rng.exponential(size=(800, dimension)) * rng.choice([-1, 1], size=(800, dimension))
    points *= radius * rng.uniform(0.2, 1, size=(800, 1)) ** 0.1 / np.abs(points).sum(axis=1, keepdims=True)
    points = np.concatenate([points, np.full((1, dimension), radius / dimension), np.zeros((1, dimension))])
    distance = np.sqrt(((points[:, None] - centres[None]) ** 2).sum(axis=2)).min(axis=1)
    assert distance.max() <= scale
    assert distance.max() > scale / 8, "the cover is not idly fine"


def test_fewer_draws_would_not_cover():
    """One atom alone, as scale >= radius allows, misses the middle of a face by more than a scale just below it."""
    centres = maurey_cover(1.0, 50, 1.0)
    middle = np.full(50, 1 / 50)
    assert np.linalg.norm(centres - middle, axis=1).min() == pytest.approx(math.sqrt(1 / 50)), (
        "the zero atom is nearest"
    )
    vertex_only = centres[np.linalg.norm(centres, axis=1) > 0]
    assert np.linalg.norm(vertex_only - middle, axis=1).min() > 0.98


@pytest.mark.parametrize(("points", "expected"), [(10**3, 7.7e4), (10**6, 1.13e5)])
def test_matrix_covering_has_the_reference_numbers(points, expected):
    assert covering.matrix_covering(0.1, points, 64)["explicit"] == pytest.approx(expected, rel=5e-3)


def test_matrix_covering_is_the_minimum_over_the_share():
    rng = np.random.default_rng(3)
    for _ in range(40):
        scale, norm, inputs = 10.0 ** rng.uniform(-3, 1), 10.0 ** rng.uniform(-1, 1), 10.0 ** rng.uniform(-1, 1)
        points, rows = 10.0 ** rng.uniform(0, 9), int(rng.integers(1, 500))
        a = np.linspace(0, 1, 20001)[1:-1]
        first, second = a * scale / inputs, (1 - a) * scale
        by_hand = np.ceil(norm**2 / first**2) * math.log(2 * rows + 1) + 36 * (norm * inputs / second) ** 2 * np.log(
            2 * np.ceil(4 * norm * inputs / second + 2) * points + 1
        )
        found, share = covering.matrix_log_cover(norm, inputs, scale, points, rows)
        assert by_hand.min() * 0.99 <= found <= by_hand.min() * (1 + 2e-4)
        assert 0 < share < 1
        first, second = share * scale / inputs, (1 - share) * scale
        again = math.ceil(norm**2 / first**2 * (1 - 1e-12)) * math.log(2 * rows + 1) + float(
            covering.linear_log_cover(norm, inputs, second, points)
        )
        assert found == pytest.approx(again, rel=1e-9), "the share attains the number"


def test_matrix_covering_grows_like_the_logarithm_of_the_points():
    for key in ("shape", "explicit"):
        values = [covering.matrix_covering(0.1, 10**p, 64)[key] for p in range(3, 13)]
        steps = np.diff(values)
        assert (steps > 0).all() and steps.max() / steps.min() < 1.15
    shape = covering.matrix_covering(0.2, 100, 8, norm=3.0, inputs=0.5)["shape"]
    assert shape == pytest.approx((1.5 / 0.2) ** 2 * math.log(800))


def test_the_lagrangian_lemma_against_a_numerical_optimum():
    rng = np.random.default_rng(4)
    for _ in range(30):
        n = rng.integers(1, 5)
        alpha, beta, budget = rng.exponential(size=n), rng.exponential(size=n), rng.exponential() + 0.1
        least, x = covering.lagrangian_split(alpha, beta, budget)
        assert beta @ x == pytest.approx(budget) and (alpha / x**2).sum() == pytest.approx(least)
        objective = lambda logits, a=alpha, b=beta, c=budget: (  # noqa: E731
            (a / (c * np.exp(logits) / np.exp(logits).sum() / b) ** 2).sum()
        )
        found = optimize.minimize(
            objective, np.zeros(n), method="Nelder-Mead", options={"xatol": 1e-10, "fatol": 1e-12}
        )
        assert found.fun >= least * (1 - 1e-9) and found.fun == pytest.approx(least, rel=1e-4)


def test_the_lagrangian_lemma_beats_random_points_and_takes_free_parts():
    rng = np.random.default_rng(5)
    alpha, beta = rng.exponential(size=6), rng.exponential(size=6)
    least, _ = covering.lagrangian_split(alpha, beta, 2.0)
    for _ in range(1000):
        x = rng.exponential(size=6)
        x *= 2.0 / (beta @ x)
        assert (alpha / x**2).sum() >= least * (1 - 1e-12)
    same, x = covering.lagrangian_split([*alpha, 0.0, 1.0], [*beta, 1.0, 0.0], 2.0)
    assert same == pytest.approx(least) and x[6] == 0 and x[7] == math.inf
    side, xs = covering.lagrangian_split(alpha[:, None], beta[:, None], np.array([1.0, 2.0]))
    assert side.shape == (2,) and xs.shape == (6, 2) and side[1] == pytest.approx(least)


def test_covers_of_parts_share_the_scale_as_the_lemma_says():
    parts = [Part(2.0, 1.0, 0.5, 10, 4), Part(0.3, 2.0, 1.0, 10, 4), Part(1.0, 0.7, 1.0, 5, None)]
    reach = np.array([1.0, 0.6, 0.7])
    least, _ = covering.lagrangian_split([0.25, 4.0, 0.49], [2.0, 0.3, 1.0], 1.0)
    assert shape_constant(parts) == pytest.approx(least) == pytest.approx((reach ** (2 / 3)).sum() ** 3)


def test_covers_of_parts_are_valid_and_near_the_best():
    """One matrix alone agrees with the exact minimum; two do not beat the best split on a grid, nor miss it by much."""
    scales = np.geomspace(0.01, 0.5, 7)
    one = explicit_log_cover([Part(1.0, 2.0, 0.5, 1000, 16)], scales)
    exact = np.array([covering.matrix_log_cover(2.0, 0.5, e, 1000, 16)[0] for e in scales])
    assert (one >= exact * (1 - 1e-4)).all() and (one <= exact * 1.01).all()
    parts = [Part(2.0, 1.0, 1.0, 100, 8), Part(1.0, 0.3, 1.0, 100, 8)]
    shares = np.linspace(0, 1, 400)[1:-1]
    split = [
        covering.matrix_log_cover(1.0, 1.0, a * 0.1 / 2, 100, 8)[0]
        + covering.matrix_log_cover(0.3, 1.0, (1 - a) * 0.1, 100, 8)[0]
        for a in shares
    ]
    assert min(split) * (1 - 1e-3) <= float(explicit_log_cover(parts, 0.1)) <= min(split) * 1.01
    linear = float(explicit_log_cover([Part(2.0, 1.0, 1.0, 9, None)], 0.1))
    assert linear == pytest.approx(float(covering.linear_log_cover(1.0, 1.0, 0.05, 9)))
    assert float(explicit_log_cover([], 0.1)) == 0


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: covering.linear_covering(0.0, 10), "scale must be a number greater than 0; got scale=0.0"),
        (lambda: covering.linear_covering(0.1, 0), "points must be an integer at least 1"),
        (lambda: covering.matrix_covering(0.1, 5, 0), "rows must be an integer at least 1"),
        (lambda: covering.lagrangian_split([1.0], [-1.0], 1.0), "must not be negative"),
        (lambda: covering.lagrangian_split([1.0], [1.0], 0.0), "budget must be greater than 0"),
        (lambda: covering.lagrangian_split([1.0], [0.0], 1.0), "both a cost and a weight"),
    ],
)
def test_bad_input(call, message):
    with pytest.raises(KroghError, match=message):
        call()
