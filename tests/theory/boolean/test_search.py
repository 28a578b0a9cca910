"""Search and linear algebra as learners of parities."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from scipy.stats import geom

from krogh.errors import KroghError
from krogh.theory.boolean import search as baselines


def sample(n, support, m, *, seed, flips=0):
    rng = np.random.default_rng(seed)
    x = rng.choice([-1, 1], size=(m, n))
    y = x[:, list(support)].prod(axis=1)
    y[rng.choice(m, flips, replace=False)] *= -1
    return x, y


def test_one_copy_is_geometric():
    law = geom(1 / 120)
    steps = np.arange(1, 400)
    assert np.allclose(baselines.search_cdf(steps, 120), law.cdf(steps))
    assert baselines.search_mean(120) == pytest.approx(120)
    for probability in (0.1, 0.5, 0.9):
        assert baselines.search_quantile(probability, 120) == law.ppf(probability)


@pytest.mark.parametrize("copies", [1, 7, 500])
def test_simulated_search_follows_the_law(copies):
    steps = baselines.simulate_random_search(8, 3, trials=2000, copies=copies, seed=1)
    hypotheses = math.comb(8, 3)
    error = steps.std() / math.sqrt(len(steps)) + 1e-3
    assert abs(steps.mean() - baselines.search_mean(hypotheses, copies)) < 4 * error
    for t in (1, 5, 20):
        expected = float(baselines.search_cdf(t, hypotheses, copies))
        assert abs((steps <= t).mean() - expected) < 4 * math.sqrt(expected * (1 - expected) / 2000) + 1e-9


def test_simulation_is_reproducible_and_starts_at_one():
    first = baselines.simulate_random_search(6, 2, trials=50, seed=3)
    assert np.array_equal(first, baselines.simulate_random_search(6, 2, trials=50, seed=3))
    assert first.min() >= 1
    assert np.array_equal(baselines.simulate_random_search(4, 4, trials=5), np.ones(5))


@pytest.mark.parametrize(("n", "k"), [(7, 3), (10, 1), (6, 6), (18, 4)])
def test_enumeration_finds_exactly_the_consistent_subsets(n, k):
    support = tuple(range(n - k, n))
    x, y = sample(n, support, 5, seed=n)
    found = {tuple(row) for row in baselines.consistent_subsets(x, y, k)}
    expected = {s for s in itertools.combinations(range(n), k) if np.array_equal(x[:, s].prod(axis=1), y)}
    assert found == expected and support in found
    x, y = sample(n, support, 60, seed=n)
    assert baselines.consistent_subsets(x, y, k).tolist() == [list(support)]


def test_enumeration_meets_the_statistical_limit():
    survivors = [len(baselines.consistent_subsets(*sample(12, (1, 4, 9), 8, seed=s), 3)) - 1 for s in range(60)]
    expected = (math.comb(12, 3) - 1) / 2**8
    assert abs(np.mean(survivors) - expected) < 4 * math.sqrt(expected / 60)


def test_the_best_subset_survives_noise_and_the_consistent_one_does_not():
    x, y = sample(12, (2, 5, 6), 200, seed=0, flips=40)
    subsets, errors = baselines.best_subsets(x, y, 3)
    assert subsets.tolist() == [[2, 5, 6]] and errors == 40
    assert baselines.consistent_subsets(x, y, 3).shape == (0, 3)


@pytest.mark.parametrize("n", [1, 7, 8, 9, 40, 70])
def test_elimination_finds_the_support(n):
    support = tuple(sorted(np.random.default_rng(n).choice(n, size=(n + 2) // 3, replace=False).tolist()))
    found = baselines.gaussian_elimination(*sample(n, support, n + 40, seed=n))
    assert found == baselines.Elimination(True, n, True, support)


def test_elimination_with_too_few_samples_fits_them_but_is_not_unique():
    x, y = sample(20, (0, 7, 13), 9, seed=5)
    found = baselines.gaussian_elimination(x, y)
    assert found.consistent and not found.unique and found.rank <= 9 and found.support is not None
    assert np.array_equal(x[:, list(found.support)].prod(axis=1), y)


@pytest.mark.parametrize("seed", range(5))
def test_elimination_fails_under_a_single_flipped_label(seed):
    found = baselines.gaussian_elimination(*sample(12, (1, 3, 8), 120, seed=seed, flips=1))
    assert not found.consistent and found.support is None and not found.unique


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: baselines.simulate_random_search(3, 4, trials=1),
            "k must be an integer between 1 and 3; got k=4",
        ),
        (lambda: baselines.simulate_random_search(60, 30, trials=1), "too many to search"),
        (lambda: baselines.search_quantile(1.0, 10), "probability must be in"),
        (lambda: baselines.gaussian_elimination([[0, 1]], [1]), "must be -1 or \\+1"),
        (lambda: baselines.gaussian_elimination([[1, 1]], [1, 1]), "x of shape \\(m, n\\)"),
        (lambda: baselines.consistent_subsets([[1, 1]], [1], 3), "k must be an integer between 1 and 2"),
        (lambda: baselines.search_mean(10**400), "hypotheses must be an integer"),
    ],
)
def test_bad_input(call, message):
    with pytest.raises(KroghError, match=message):
        call()
