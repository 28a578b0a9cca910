"""Quantiles, rates and survival curves against scipy, brute force and known laws."""

from __future__ import annotations

import math
import time

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy import stats

from krogh.errors import KroghError
from krogh.lab.statistics import (
    Interval,
    bootstrap_quantile,
    percentile_interval,
    proportion,
    quantile,
    quantile_interval,
    resampled_positions,
)
from krogh.lab.survival import ecdf, kaplan_meier, kaplan_meier_quantile

INF = math.inf
# Few distinct values, so that ties and censoring are the rule.
some_times = st.lists(st.sampled_from([0.0, 1.0, 2.0, 3.0, 10.0, INF]), min_size=1, max_size=12)


# --- quantiles ----------------------------------------------------------------------------------------------


@given(some_times, st.floats(0, 1))
def test_quantile_is_the_first_time_at_which_the_ecdf_reaches_q(times, q):
    value = quantile(times, q)
    assert value in times
    share = np.mean(np.array(times) <= value)
    assert share >= q - 1e-9
    earlier = [t for t in times if t < value]
    assert len(earlier) / len(times) < q or (q == 0 and not earlier)


@given(arrays(float, st.integers(1, 30), elements=st.integers(0, 5)), st.sampled_from([0.1, 0.25, 0.5, 0.9, 1.0]))
def test_quantile_agrees_with_numpy_when_nothing_is_censored(times, q):
    assert quantile(times, q) == np.quantile(times, q, method="inverted_cdf")


@pytest.mark.parametrize(
    ("times", "q", "expected"),
    [
        ([5.0], 0.5, 5.0),
        ([INF], 0.5, INF),
        ([1.0, INF], 0.5, 1.0),  # exactly half failed: never the mean of 1 and infinity
        ([1.0, INF, INF], 0.5, INF),
        ([INF, INF, INF], 0.0, INF),
        ([3.0, 3.0, 3.0, INF], 0.75, 3.0),
        (list(range(1, 101)), 0.07, 7.0),  # 100 * 0.07 > 7 in floating point
    ],
)
def test_quantile_on_small_samples(times, q, expected):
    assert quantile(times, q) == expected


def test_resampled_positions_follow_the_law_of_real_resamples():
    """Chi-square of order statistics drawn through Beta variables against literal resampling."""
    size, ranks, draws = 7, [2, 4, 7], 40_000
    quick = resampled_positions(size, ranks, draws, np.random.default_rng(0))
    literal = np.sort(np.random.default_rng(1).integers(size, size=(draws, size)), axis=1)[:, np.array(ranks) - 1]
    assert np.all(np.diff(quick, axis=1) >= 0)
    codes = [positions @ [49, 7, 1] for positions in (quick, literal)]
    table = np.stack([np.bincount(code, minlength=343) for code in codes])
    table = table[:, table.sum(axis=0) >= 20]
    assert stats.chi2_contingency(table).pvalue > 1e-3


def test_bootstrap_of_the_median_has_the_exact_percentiles():
    """With very many resamples the interval is where the binomial law of the resampled rank puts it."""
    times = np.arange(1.0, 42.0)
    interval = bootstrap_quantile(times, resamples=200_000, seed=3)
    below = stats.binom.sf(20, 41, np.arange(1, 42) / 41)  # Pr[resampled median <= j]
    assert interval.value == 21.0
    assert interval.low == np.flatnonzero(below >= 0.025)[0] + 1
    assert interval.high == np.flatnonzero(below >= 0.975)[0] + 1


def test_bootstrap_covers_the_median_of_a_censored_law():
    truth, covered = math.log(2), 0
    rng = np.random.default_rng(5)
    for seed in range(300):
        times = rng.exponential(size=101)
        times[times > 1.0] = INF  # 37% fail
        covered += bootstrap_quantile(times, seed=seed, resamples=400).contains(truth)
    assert 0.91 <= covered / 300 <= 0.99


def test_quantile_interval_covers_at_least_its_level_for_a_discrete_law():
    rng, law = np.random.default_rng(8), stats.geom(0.2)
    for q in (0.1, 0.5, 0.9):
        truth = law.ppf(q)
        hits = [quantile_interval(law.rvs(60, random_state=rng), q).contains(truth) for _ in range(300)]
        assert np.mean(hits) >= 0.94


def test_quantile_interval_has_the_textbook_ranks():
    # n = 20, median, 95%: the 6th and the 15th order statistic, coverage 0.9586.
    interval = quantile_interval(np.arange(1.0, 21.0))
    assert (interval.low, interval.high) == (6.0, 15.0)


@pytest.mark.parametrize("interval", [bootstrap_quantile, quantile_interval])
def test_intervals_of_censored_samples(interval):
    assert interval([INF] * 9).value == INF
    assert interval([INF] * 9).high == INF
    half = interval([1.0, 2.0, 3.0, 4.0, 5.0, INF, INF, INF, INF])
    assert half.value == 5.0 and half.low < 5.0 and half.high == INF
    assert interval([4.0] * 30) == Interval(4.0, 4.0, 4.0, 0.95, interval([4.0] * 30).method)


def test_one_time_says_nothing_distribution_free():
    assert (quantile_interval([7.0]).low, quantile_interval([7.0]).high) == (0.0, INF)


def test_bootstrap_is_reproducible_and_depends_on_its_seed():
    times = np.random.default_rng(0).lognormal(size=1000)
    assert bootstrap_quantile(times, seed=1) == bootstrap_quantile(times, seed=1)
    assert len({bootstrap_quantile(times, seed=seed) for seed in range(10)}) > 3


def test_a_million_times_are_quick_and_the_two_intervals_agree():
    times = np.random.default_rng(0).lognormal(6, 1, size=1_000_000)
    start = time.perf_counter()
    boot, exact = bootstrap_quantile(times), quantile_interval(times)
    assert time.perf_counter() - start < 10  # a literal bootstrap would sort 10^9 numbers
    assert boot.value == exact.value == pytest.approx(math.exp(6), rel=5e-3)
    assert boot.low == pytest.approx(exact.low, rel=1e-3) and boot.high == pytest.approx(exact.high, rel=1e-3)


def test_undefined_draws_only_widen_an_interval():
    draws = np.arange(100.0)
    clean = percentile_interval(50.0, draws, 0.9, "m")
    draws[::10] = np.nan
    some = percentile_interval(50.0, draws, 0.9, "m", lowest=-5.0)
    assert some.low == -5.0 and some.high == INF and clean.low == 4.0 and clean.high == 95.0


# --- rates --------------------------------------------------------------------------------------------------


def test_proportion_agrees_with_the_beta_quantiles_and_wilsons_formula():
    exact = proportion(7, 25)
    assert exact.value == 0.28
    assert exact.low == pytest.approx(stats.beta.ppf(0.025, 7, 19))
    assert exact.high == pytest.approx(stats.beta.ppf(0.975, 8, 18))
    wilson, z = proportion(7, 25, method="wilson"), stats.norm.ppf(0.975)
    centre = (7 + z**2 / 2) / (25 + z**2)
    half = z / (25 + z**2) * math.sqrt(7 * 18 / 25 + z**2 / 4)
    assert (wilson.low, wilson.high) == pytest.approx((centre - half, centre + half))


def test_proportion_at_the_ends():
    none, every = proportion(0, 10), proportion(10, 10)
    assert (none.low, none.high) == (0.0, pytest.approx(1 - 0.025**0.1))
    assert (every.low, every.high) == (pytest.approx(0.025**0.1), 1.0)


@pytest.mark.slow
@given(st.integers(1, 40), st.floats(0.01, 0.99))
def test_clopper_pearson_never_undercovers(trials, rate):
    chance = stats.binom.pmf(np.arange(trials + 1), trials, rate)
    covered = [proportion(s, trials, level=0.9).contains(rate) for s in range(trials + 1)]
    assert chance @ covered >= 0.9 - 1e-9


# --- whole distributions ------------------------------------------------------------------------------------


@given(some_times)
def test_ecdf_counts_and_ends_at_the_success_rate(times):
    curve, given_times = ecdf(times), np.array(times)
    for t in (0.0, 0.5, 1.0, 2.5, 3.0, 10.0, 99.0):
        assert curve.at(t) == pytest.approx(np.mean(given_times <= t))
    assert curve.at(1e9) == pytest.approx(np.mean(np.isfinite(given_times)))
    assert np.all((curve.low <= curve.value) & (curve.value <= curve.high))


def test_ecdf_band_is_simultaneous():
    rng, grid = np.random.default_rng(2), np.linspace(0, 3, 200)
    truth, misses = stats.expon.cdf(grid), 0
    for _ in range(200):
        curve = ecdf(rng.exponential(size=50))
        width = math.sqrt(math.log(40) / 100)
        misses += np.max(np.abs(curve.at(grid) - truth)) > width
    assert misses / 200 <= 0.07


def product_limit(times, observed, t):
    """Kaplan-Meier from its definition, one factor at a time."""
    survival = 1.0
    for at in sorted({u for u, seen in zip(times, observed, strict=True) if seen and u <= t}):
        events = sum(seen and u == at for u, seen in zip(times, observed, strict=True))
        survival *= 1 - events / sum(u >= at for u in times)
    return survival


@given(st.lists(st.tuples(st.sampled_from([0.0, 1.0, 2.0, 3.0, 5.0]), st.booleans()), min_size=1, max_size=12))
def test_kaplan_meier_is_the_product_limit(pairs):
    times, observed = map(list, zip(*pairs, strict=True))
    curve = kaplan_meier(times, observed)
    for t in (0.0, 0.5, 1.0, 2.0, 4.0, 9.0):
        assert curve.at(t) == pytest.approx(product_limit(times, observed, t))
    assert np.all((curve.low >= 0) & (curve.low <= curve.value + 1e-12))
    assert np.all((curve.value <= curve.high + 1e-12) & (curve.high <= 1))


def test_kaplan_meier_band_is_greenwoods():
    times, observed = (
        np.array([1.0, 2.0, 2.0, 3.0, 3.0, 5.0, 6.0]),
        np.array([1, 1, 0, 1, 0, 0, 1], dtype=bool),
    )
    curve = kaplan_meier(times, observed, level=0.9)
    survival = 6 / 7 * 5 / 6 * 3 / 4
    greenwood = 1 / (7 * 6) + 1 / (6 * 5) + 1 / (4 * 3)
    step = stats.norm.ppf(0.95) * math.sqrt(greenwood) / abs(math.log(survival))
    at = list(curve.times).index(3.0)
    assert curve.value[at] == pytest.approx(survival)
    assert curve.low[at] == pytest.approx(survival ** math.exp(step))
    assert curve.high[at] == pytest.approx(survival ** math.exp(-step))


def test_kaplan_meier_without_differing_budgets_is_one_minus_the_ecdf():
    times = np.random.default_rng(0).geometric(0.02, size=200).astype(float)
    budget, grid = 60.0, np.arange(0.0, 60.0)
    observed = times < budget
    curve = kaplan_meier(np.minimum(times, budget), observed)
    assert curve.at(grid) == pytest.approx(1 - ecdf(np.where(observed, times, INF)).at(grid))


def test_kaplan_meier_at_its_ends():
    never = kaplan_meier([10.0] * 20, [False] * 20)
    assert never.value == [1.0] and never.low == pytest.approx([0.025 ** (1 / 20)]) and never.high == [1.0]
    at_once = kaplan_meier([3.0], [True])
    assert at_once.value == [0.0] and at_once.low == [0.0] and at_once.high == pytest.approx([0.975])
    all_done = kaplan_meier([1.0, 2.0, 3.0], [True] * 3)
    assert all_done.value[-1] == 0.0 and all_done.high[-1] == all_done.high[-2]


def test_kaplan_meier_covers_the_median_under_unequal_budgets():
    rng, covered = np.random.default_rng(11), 0
    for _ in range(200):
        times, budgets = rng.exponential(size=80), rng.uniform(0.3, 2.0, size=80)
        interval = kaplan_meier_quantile(np.minimum(times, budgets), times <= budgets)
        covered += interval.contains(math.log(2))
    assert 0.9 <= covered / 200 <= 0.99


def test_kaplan_meier_quantile_beyond_the_budget_is_infinite_above_and_the_budget_below():
    interval = kaplan_meier_quantile([50.0] * 20, [False] * 20)
    assert (interval.value, interval.low, interval.high) == (INF, 50.0, INF)


@given(some_times.filter(lambda ts: all(map(math.isfinite, ts))), st.sampled_from([0.1, 0.5, 0.9]))
def test_kaplan_meier_quantile_is_the_quantile_when_all_converge(times, q):
    assert kaplan_meier_quantile(times, [True] * len(times), q).value == quantile(times, q)


# --- bad input ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("call", "echo"),
    [
        (lambda: quantile([]), r"shape \(0,\)"),
        (lambda: quantile([1.0, math.nan]), r"times\[1\]=nan"),
        (lambda: quantile([3.0, -1.0]), r"times\[1\]=-1"),
        (lambda: quantile("fast"), "'fast'"),
        (lambda: quantile([[1.0]]), r"\(1, 1\)"),
        (lambda: quantile([1.0], 1.5), "q=1.5"),
        (lambda: quantile_interval([1.0], 1.0), "q=1.0"),
        (lambda: bootstrap_quantile([1.0], level=95), "level=95"),
        (lambda: bootstrap_quantile([1.0], resamples=0), "resamples=0"),
        (lambda: bootstrap_quantile([1.0], seed=-1), "seed=-1"),
        (lambda: proportion(5, 4), "successes=5"),
        (lambda: proportion(0, 0), "trials=0"),
        (lambda: proportion(1, 2, method="wilsen"), "did you mean 'wilson'"),
        (lambda: kaplan_meier([1.0, INF], [True, False]), "inf"),
        (lambda: kaplan_meier([1.0, 2.0], [True]), r"\(1,\)"),
        (lambda: kaplan_meier([1.0, 2.0], [1, 0]), "int"),
        (lambda: ecdf([1.0], level=1.0), "level=1.0"),
    ],
)
def test_bad_input_is_echoed(call, echo):
    with pytest.raises(KroghError, match=echo):
        call()


def test_an_interval_prints_as_a_number_with_its_interval():
    assert str(Interval(510.0, 480.0, INF, 0.95, "m")) == "510 [480, inf]"
