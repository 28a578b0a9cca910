"""Search and linear algebra as learners of parities."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from scipy.stats import geom

from krogh.errors import KroghError
from krogh.theory.boolean import search as baselines
from krogh.theory.boolean.search import elimination, enumeration, random_search, search_simulation


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


def test_random_search_numbers():
    numbers = random_search(20, 3)
    assert numbers["subsets"] == 1140 and numbers["mean_steps"] == pytest.approx(1140)
    assert numbers["p10_steps"] < numbers["median_steps"] < numbers["mean_steps"] < numbers["p90_steps"]
    assert numbers["median_steps"] == math.ceil(math.log(0.5) / math.log(1 - 1 / 1140))
    assert random_search(5, 5)["mean_steps"] == 1


def test_more_copies_of_search_are_faster_and_the_approximation_close():
    means = [random_search(20, 3, copies)["mean_steps"] for copies in (1, 10, 100, 10**6)]
    assert means == sorted(means, reverse=True) and means[-1] == pytest.approx(1)
    for copies in (10, 100):
        numbers = random_search(20, 3, copies)
        assert numbers["mean_steps"] == pytest.approx(numbers["mean_steps_approximate"], rel=0.06)


def test_numbers_of_subsets_beyond_floats_keep_their_logarithm():
    numbers = random_search(10**6, 5 * 10**5)
    assert numbers["mean_steps"] == math.inf and numbers["log10_subsets"] == pytest.approx(301026.9, abs=0.1)
    assert random_search(10**6, 40)["log10_subsets"] == pytest.approx(math.log10(math.comb(10**6, 40)), rel=1e-12)


def test_success_within_some_steps_is_the_law():
    assert random_search(20, 3, steps=100)["success_within"] == pytest.approx(geom(1 / 1140).cdf(100))
    assert random_search(20, 3, 7, 100)["success_within"] == pytest.approx(geom(1 / 1140).cdf(700))
    assert random_search(10**6, 5 * 10**5, steps=9)["success_within"] == 0
    assert "success_within" not in random_search(20, 3)


@pytest.mark.parametrize("copies", [1, 7, 500])
def test_simulated_search_follows_the_law(copies):
    steps = baselines.simulate_random_search(8, 3, trials=2000, copies=copies, seed=1)
    hypotheses = math.comb(8, 3)
    error = steps.std() / math.sqrt(len(steps)) + 1e-3
    assert abs(steps.mean() - baselines.search_mean(hypotheses, copies)) < 4 * error
    for t in (1, 5, 20):
        expected = float(baselines.search_cdf(t, hypotheses, copies))
        assert abs((steps <= t).mean() - expected) < 4 * math.sqrt(expected * (1 - expected) / 2000) + 1e-9


def test_a_simulation_scatters_around_the_law():
    law, found = random_search(12, 3, 4), search_simulation(12, 3, trials=4000, copies=4)
    for key in ("mean_steps", "p10_steps", "median_steps", "p90_steps"):
        assert found[key] == pytest.approx(law[key], rel=0.15)
    assert found["least_over_median"] == found["least_steps"] / found["median_steps"] < 0.05, "luck comes early"


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


def test_samples_decide_what_enumeration_finds():
    few = [enumeration(12, 3, 8, seed=seed) for seed in range(60)]
    expected = few[0]["others_expected"]
    assert expected == (math.comb(12, 3) - 1) / 2**8
    assert abs(np.mean([each["consistent"] - 1 for each in few]) - expected) < 4 * math.sqrt(expected / 60)
    assert all(each["found"] == (each["consistent"] == 1) and each["errors"] == 0 for each in few)
    noisy = enumeration(12, 3, 300, noise=0.2)
    assert noisy["found"] and noisy["consistent"] == 0 and noisy["best"] == 1 and 30 < noisy["errors"] < 90


def test_elimination_needs_as_many_samples_as_bits_and_none_flipped():
    ranks = [elimination(8, 3, 8, seed=seed) for seed in range(400)]
    full = ranks[0]["full_rank_probability"]
    assert full == pytest.approx(math.prod(1 - 2.0 ** -(i + 1) for i in range(8)))
    assert abs(np.mean([each["rank"] == 8 for each in ranks]) - full) < 4 * math.sqrt(full * (1 - full) / 400)
    assert all(each["found"] == each["unique"] == (each["rank"] == 8) for each in ranks)
    assert elimination(8, 3, 7)["full_rank_probability"] == 0 and not elimination(8, 3, 7)["found"]
    assert not elimination(8, 3, 200, noise=0.1)["consistent"]


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
        (lambda: random_search(3, 4), "n >= k coordinates; got n=3, k=4 \\(try n=4"),
        (lambda: random_search(0, 0), "n must be an integer at least 1; got n=0"),
        (lambda: enumeration(60, 30, 10), "at most 10000000 subsets are tested"),
        (lambda: elimination(10, 3, 10, noise=0.6), "between 0 and 0.5; got noise=0.6"),
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
