"""Samples of times: distributions with their bands, and their shape, against definitions and known laws."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from krogh.errors import KroghError
from krogh.lab.estimate import median_time
from krogh.lab.times import (
    Grokking,
    dkw_width,
    early_luck,
    ecdf,
    first_times,
    geometric_p_value,
    intraclass_correlation,
    kaplan_meier,
    ks_distance,
    plateau_fraction,
    predictiveness,
    skewness,
)

INF = math.inf
some_times = st.lists(st.sampled_from([0.0, 1.0, 2.0, 3.0, 10.0, INF]), min_size=1, max_size=12)


# --- distributions ------------------------------------------------------------------------------------------


@given(some_times)
def test_ecdf_counts_and_ends_at_the_success_rate(times):
    curve, given_times = ecdf(times), np.array(times)
    for t in (0.0, 0.5, 1.0, 2.5, 3.0, 10.0, 99.0):
        assert curve.at(t) == pytest.approx(np.mean(given_times <= t))
    assert curve.at(1e9) == pytest.approx(np.mean(np.isfinite(given_times)))
    assert np.all((curve.low <= curve.value) & (curve.value <= curve.high))


def test_ecdf_band_is_simultaneous():
    """The band itself holds the whole true law, before and at every step, in 95% of samples; half of it does not."""
    rng, misses, narrow = np.random.default_rng(2), 0, 0
    for _ in range(300):
        curve = ecdf(rng.exponential(size=50))
        at, before = stats.expon.cdf(curve.times), np.append(stats.expon.cdf(curve.times[1:]), 1.0)
        misses += bool(np.any(curve.low > at) or np.any(curve.high < before - 1e-12))
        low, high = (curve.value + curve.low) / 2, (curve.value + curve.high) / 2
        narrow += bool(np.any(low > at) or np.any(high < before - 1e-12))
    assert misses / 300 <= 0.07 and narrow / 300 > 0.2
    curve = ecdf(np.arange(1.0, 201.0))
    assert curve.high[99] - curve.value[99] == pytest.approx(math.sqrt(math.log(2 / 0.05) / 400))


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


# --- random search ------------------------------------------------------------------------------------------


@given(
    st.lists(st.one_of(st.integers(0, 12), st.just(INF)), min_size=1, max_size=10),
    st.floats(0.01, 1.0),
    st.integers(1, 4),
)
def test_distance_is_the_supremum_over_the_grid(times, p, every):
    times, horizon = np.array(times, dtype=float) * every, 15 * every
    grid = np.arange(0, horizon + 1)
    law = 1 - (1 - p) ** (every * (grid // every))
    gaps = np.abs((times[:, None] <= grid).mean(axis=0) - law)
    assert ks_distance(times, p, every=every, horizon=horizon).value == pytest.approx(gaps.max(), abs=1e-12)
    finite = times[np.isfinite(times)]
    if finite.size:
        upto = gaps[: int(finite.max()) + 1].max()
        assert ks_distance(times, p, every=every).value == pytest.approx(upto, abs=1e-12)


def test_p_value_is_conservative_under_random_search():
    """Times of a random search, looked at every 10 steps and given up at a budget."""
    rng, p = np.random.default_rng(0), 1 / math.comb(10, 3)
    small = 0
    for _ in range(400):
        times = 10 * np.ceil(rng.geometric(p, size=60) / 10)
        times[times > 300] = INF
        small += geometric_p_value(times, p, every=10, horizon=300) <= 0.1
    assert small / 400 <= 0.13


def test_p_value_approaches_the_exact_one_for_a_nearly_continuous_law():
    rng = np.random.default_rng(3)
    small = [geometric_p_value(rng.geometric(1e-4, size=100), 1e-4) <= 0.1 for _ in range(400)]
    assert 0.06 <= np.mean(small) <= 0.14


def test_times_without_early_luck_are_no_random_search():
    times = 400 * np.random.default_rng(0).lognormal(0, 0.5, size=300)
    p = math.log(2) / 400  # same median
    assert geometric_p_value(times, p) < 1e-6 and ks_distance(times, p).trials == 300


def test_without_looking_every_step_the_rounding_would_be_rejected():
    times = 50 * np.ceil(np.random.default_rng(0).geometric(0.02, size=2000) / 50)
    assert geometric_p_value(times, 0.02) < 1e-6 < 0.01 < geometric_p_value(times, 0.02, every=50)


def test_all_censored_needs_the_budget():
    never = ks_distance([INF] * 10, 0.01, horizon=1000)
    assert never.value == pytest.approx(1 - 0.99**1000) and never.trials == 10
    with pytest.raises(KroghError, match="all 10 times are infinite"):
        ks_distance([INF] * 10, 0.01)


def test_a_single_candidate_is_found_at_once():
    assert ks_distance([1.0, 1.0, 1.0], 1).value == 0
    assert ks_distance([2.0, 2.0], 1).value == 1


@pytest.mark.slow
def test_a_million_times():
    times = np.random.default_rng(0).geometric(1e-3, size=1_000_000)
    assert geometric_p_value(times, 1e-3) > 0.01 and geometric_p_value(times, 1.01e-3) < 1e-6


def test_the_distance_has_the_band_of_dvoretzky_kiefer_and_wolfowitz():
    """sup |F_n - F| <= √(log(2/α)/(2n)) with probability 1-α: ends and coverage, not only the formula."""
    times = np.random.default_rng(0).geometric(0.02, size=400).astype(float)
    found, width = ks_distance(times, 0.01), math.sqrt(math.log(2 / 0.05) / 800)
    assert (found.value - found.low, found.high - found.value) == pytest.approx((width, width))
    assert dkw_width(400, 0.05) == pytest.approx(width)
    rng, law = np.random.default_rng(1), np.cumsum(0.02 * 0.98 ** np.arange(4000))
    truth = np.max(np.abs(law - (1 - 0.99 ** np.arange(1, 4001))))
    hits = [ks_distance(rng.geometric(0.02, size=200).astype(float), 0.01).contains(truth) for _ in range(200)]
    assert np.mean(hits) >= 0.95


# --- luck and skewness --------------------------------------------------------------------------------------


def test_early_luck_of_random_search_is_one_over_n_log_two():
    rng = np.random.default_rng(0)
    ratios = [early_luck(rng.exponential(size=101)).value for _ in range(400)]
    assert np.mean(ratios) == pytest.approx(1 / (101 * math.log(2)), rel=0.1)


def test_early_luck_is_min_over_median_with_its_interval():
    times = np.random.default_rng(1).lognormal(6, 0.5, size=301)
    luck, middle = early_luck(times), median_time(times)
    assert luck.value == pytest.approx(times.min() / np.median(times))
    assert (luck.low, luck.high) == pytest.approx((times.min() / middle.high, times.min() / middle.low))


@pytest.mark.parametrize("times", [[INF], [INF, INF, INF], [1.0, INF, INF], [0.0, 0.0]])
def test_early_luck_without_a_median_is_unknown(times):
    luck = early_luck(times)
    assert math.isnan(luck.value) and (luck.low, luck.high) == (-INF, INF)


def test_early_luck_survives_some_failures():
    assert early_luck([50.0, 100.0, 200.0, INF]).value == 0.5


def test_skewness_of_known_laws():
    rng = np.random.default_rng(0)
    lognormal, exponential = rng.lognormal(5, 1, size=200_000), rng.exponential(size=200_000)
    assert skewness(lognormal).contains(0.0) and abs(skewness(lognormal).value) < 0.02
    assert skewness(lognormal, log=False).low > 0.3
    gumbel = np.log(-np.log([0.9, 0.5, 0.1]))  # log-quantiles of an exponential law at 0.1, 0.5, 0.9
    expected = (gumbel[2] + gumbel[0] - 2 * gumbel[1]) / (gumbel[2] - gumbel[0])
    assert expected == pytest.approx(-0.2215, abs=1e-4)
    assert skewness(exponential).value == pytest.approx(expected, abs=0.02)


def test_skewness_under_censoring():
    times = np.random.default_rng(0).lognormal(5, 1, size=2001)
    order = np.sort(times)
    few, many = (np.where(times > order[int(2001 * keep)], INF, times) for keep in (0.95, 0.8))
    assert skewness(few).value == skewness(times).value and skewness(few).high < 1  # the 90th percentile is still seen
    assert math.isnan(skewness(many).value) and (skewness(many).low, skewness(many).high) == (-INF, INF)
    for unknown in ([INF] * 5, [3.0], [3.0] * 9):
        assert math.isnan(skewness(unknown).value)


@given(st.lists(st.floats(0.1, 1e6), min_size=2, max_size=20))
def test_skewness_is_bounded(times):
    skew = skewness(times, q=0.25)
    assert math.isnan(skew.value) or -1 <= skew.low <= skew.value <= skew.high <= 1


# --- initialisation against noise ---------------------------------------------------------------------------


def test_icc_of_shrout_and_fleiss():
    """Their Table 2: six targets, four ratings each, ICC(1,1) = 0.17 with 95% interval [-0.13, 0.72]."""
    ratings = np.array([[9, 2, 5, 8], [6, 1, 3, 2], [8, 4, 6, 8], [7, 1, 2, 6], [10, 5, 6, 9], [6, 2, 4, 7]])
    icc = intraclass_correlation(ratings.ravel(), np.repeat(list("abcdef"), 4))
    assert icc.value == pytest.approx(0.1657, abs=1e-4)
    assert (icc.low, icc.high) == pytest.approx((-0.1329, 0.7226), abs=1e-3)


@pytest.mark.slow
def test_icc_covers_the_share_of_variance():
    rng, hits = np.random.default_rng(0), []
    groups = np.repeat(np.arange(8), 6)
    for _ in range(400):
        values = rng.normal(0, 1, 8)[groups] + rng.normal(0, 1, 48)
        hits.append(intraclass_correlation(values, groups).contains(0.5))
    assert 0.92 <= np.mean(hits) <= 0.98


def test_icc_estimate_is_right_on_average_for_unequal_groups():
    rng, groups = np.random.default_rng(1), np.repeat(np.arange(40), np.tile([2, 3, 5, 10], 10))
    values = [rng.normal(0, 2, 40)[groups] + rng.normal(0, 1, groups.size) for _ in range(200)]
    estimates = [intraclass_correlation(v, groups).value for v in values]
    assert np.mean(estimates) == pytest.approx(0.8, abs=0.02)


def test_icc_of_unequal_groups_uses_the_corrected_size():
    """k0 = (N - Σn_i²/N)/(a-1), not the mean size: worked by hand for groups of 1, 2 and 6."""
    values = np.array([1.0, 4.0, 6.0, 8.0, 9.0, 11.0, 7.0, 10.0, 12.0])
    groups = np.repeat([0, 1, 2], [1, 2, 6])
    means = [1.0, 5.0, 9.5]
    between = (1 * (1 - 68 / 9) ** 2 + 2 * (5 - 68 / 9) ** 2 + 6 * (9.5 - 68 / 9) ** 2) / 2
    within = sum((v - means[g]) ** 2 for v, g in zip(values, groups, strict=True)) / 6
    k0 = (9 - (1 + 4 + 36) / 9) / 2
    expected = (between - within) / (between + (k0 - 1) * within)
    assert intraclass_correlation(values, groups).value == pytest.approx(expected, abs=1e-12)
    assert abs(expected - (between - within) / (between + (3 - 1) * within)) > 0.03  # the mean size would show


def test_icc_with_failures_dropped_or_at_the_horizon():
    values = np.log([690, 790, 700, 1140, 1590, 1200, 800, 850, INF])
    groups = np.repeat([0, 1, 2], 3)
    kept = np.isfinite(values)
    dropped = intraclass_correlation(values, groups)
    assert dropped.value == intraclass_correlation(values[kept], groups[kept]).value
    assert "1 censored dropped" in dropped.rule
    held = intraclass_correlation(values, groups, horizon=math.log(20_000))
    assert held.value < dropped.value and "1 censored at" in held.rule


def test_icc_does_not_depend_on_unit_or_origin():
    rng, groups = np.random.default_rng(2), np.repeat(np.arange(5), 4)
    values = rng.normal(size=20) + groups
    plain, moved = intraclass_correlation(values, groups), intraclass_correlation(7 - 3 * values, groups)
    assert (plain.value, plain.low, plain.high) == pytest.approx((moved.value, moved.low, moved.high))


def test_icc_at_its_ends():
    assert intraclass_correlation([1.0, 1.0, 2.0, 2.0], [0, 0, 1, 1]).value == 1.0
    for values, groups in (
        ([1.0, 2.0], [0, 0]),
        ([1.0, 2.0], [0, 1]),
        ([3.0] * 4, [0, 0, 1, 1]),
        ([INF], [0]),
    ):
        unknown = intraclass_correlation(values, groups)
        assert math.isnan(unknown.value) and (unknown.low, unknown.high) == (-INF, INF)


# --- plateau ------------------------------------------------------------------------------------------------


def test_plateau_fraction_integrates_a_step_curve():
    steps, errors = [0, 10, 20, 30], [0.5, 0.5, 0.3, 0.0]
    assert plateau_fraction(steps, errors, 30.0) == pytest.approx(20 / 30)
    assert plateau_fraction(steps, errors, 15.0) == 1.0
    assert plateau_fraction(steps, errors, 40.0) == 0.5
    assert plateau_fraction(steps, errors, 30.0, level=0.2) == 1.0
    assert plateau_fraction(steps, errors, 0.0) == 0.0
    assert plateau_fraction([10, 20], [0.5, 0.0], 20.0) == 1.0  # the first measurement reaches back to 0
    assert plateau_fraction([0, 10], [0.45, 0.45], 10.0) == 0.0  # strictly above the level


def test_plateau_fraction_of_many_trials_at_once():
    steps = np.arange(0, 50, 10)
    errors = np.array([[0.5, 0.5, 0.5, 0.0, np.nan], [0.5] * 5, [np.nan] * 5])
    shares = plateau_fraction(steps, errors, [30.0, INF, INF])
    assert shares[0] == 1.0 and np.isnan(shares[1:]).all()
    one_by_one = [plateau_fraction(steps, e, t) for e, t in zip(errors, [30.0, INF, INF], strict=True)]
    assert np.array_equal(shares, one_by_one, equal_nan=True)


@given(st.lists(st.floats(0, 1), min_size=2, max_size=8), st.floats(1, 200))
def test_plateau_fraction_is_a_share_and_falls_with_the_level(errors, t_c):
    steps = 10.0 * np.arange(len(errors))
    low, high = (float(plateau_fraction(steps, errors, t_c, level=level)) for level in (0.3, 0.6))
    assert 0 <= high <= low <= 1 + 1e-12


# --- bad input ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("call", "echo"),
    [
        (lambda: kaplan_meier([1.0, INF], [True, False]), "inf"),
        (lambda: kaplan_meier([1.0, 2.0], [True]), r"\(1,\)"),
        (lambda: kaplan_meier([1.0, 2.0], [1, 0]), "int"),
        (lambda: ecdf([1.0], level=1.0), "level=1.0"),
        (lambda: ks_distance([1.0], 0.0), "p=0.0"),
        (lambda: ks_distance([1.0], 1.2), "p=1.2"),
        (lambda: ks_distance([1.0], 0.5, every=0), "every=0"),
        (lambda: ks_distance([9.0], 0.5, horizon=5), "horizon=5"),
        (lambda: early_luck([-1.0]), r"times\[0\]=-1"),
        (lambda: skewness([1.0], q=0.5), "q=0.5"),
        (lambda: skewness([0.0, 1.0]), "0 among them"),
        (lambda: intraclass_correlation([1.0, 2.0], [0]), r"\(1,\)"),
        (lambda: intraclass_correlation([-INF, 2.0], [0, 1]), "-inf"),
        (lambda: intraclass_correlation([1.0, INF], [0, 1], horizon=INF), "horizon=inf"),
        (lambda: plateau_fraction([0, 0], [1, 1], 5.0), r"\[0.0, 0.0\]"),
        (lambda: plateau_fraction([0, 1], [1, 1, 1], 5.0), r"\(3,\)"),
        (lambda: plateau_fraction([0, 1], [1, 1], -1.0), "-1"),
        (lambda: plateau_fraction([0, 1], [0.5, math.nan], 5.0), "NaN before t_c"),
    ],
)
def test_bad_input_is_echoed(call, echo):
    with pytest.raises(KroghError, match=echo):
        call()


# --- fitting a sample and learning the task -------------------------------------------------------------------


def test_first_times_are_those_of_the_first_look_that_will_do():
    steps = [[0, 10, 20, 30], [0, 10], [0, 10, 20]]
    values = [[0.5, 0.2, 0.0, 0.0], [0.5, 0.1], [math.nan, 0.3, 0.3]]
    assert first_times(steps, values, at_most=0.0).tolist() == [20, INF, INF]
    assert first_times(steps, values, at_most=0.3).tolist() == [10, 10, 10]
    with pytest.raises(KroghError, match="a value for each step"):
        first_times([[0, 10]], [[0.5]], at_most=0.0)


def test_grokking_is_read_off_both_times():
    """Two grok, one learns at once, one memorises, one fits nothing."""
    found = Grokking([100, 100, 200, 100, INF], [1000, 500, 200, INF, INF], horizon=2000)
    assert found.fitted.tolist() == [True, True, True, True, False]
    assert found.grokked(3).tolist() == [True, True, False, False, False]
    assert found.fit_time.value == 100 and found.test_time.value == 1000
    assert found.gap.value == 400 and found.ratio.value == 5
    assert found.gap.trials == 4 and found.fit_time.trials == 5


def test_the_intervals_of_a_gap_know_what_never_generalised():
    train, test = np.full(40, 100.0), np.where(np.arange(40) < 25, 1000.0, INF)
    found = Grokking(train, test, horizon=5000)
    assert found.ratio.low == 10 and found.ratio.high == INF and found.ratio.value == 10
    assert Grokking(train, train, horizon=5000).ratio.interval() == (1.0, 1.0)


def test_where_nothing_fits_nothing_is_known_of_a_gap():
    found = Grokking([INF, INF], [INF, 300.0], horizon=1000)
    assert math.isnan(found.gap.value) and "no trial fitted" in found.ratio.rule
    assert not found.grokked(1).any()


def test_a_task_learned_before_its_sample_is_fitted_is_no_grokking():
    found = Grokking([500.0], [250.0], horizon=1000)
    assert found.gap.value == -250 and found.ratio.value == 0.5 and not found.grokked(1).any()


@pytest.mark.parametrize(
    ("train", "test", "horizon", "message"),
    [([1, 2], [1], 10, "both times"), ([1], [20], 10, "at least 20"), ([-1], [2], 10, "train must be at least 0")],
)
def test_times_that_cannot_be_are_refused(train, test, horizon, message):
    with pytest.raises(KroghError, match=message):
        Grokking(train, test, horizon)


# --- what an early measure says of the time ---------------------------------------------------------------------


def test_predictiveness_is_spearmans_correlation_with_failures_last():
    rng = np.random.default_rng(0)
    measure, times = rng.normal(size=30), rng.exponential(size=30)
    assert predictiveness(measure, times).value == pytest.approx(stats.spearmanr(measure, times).statistic)
    late = np.where(times > 1, INF, times)
    bounded = np.where(np.isinf(late), 1e9, late)
    assert predictiveness(measure, late).value == pytest.approx(stats.spearmanr(measure, bounded).statistic)


def test_a_measure_that_decides_the_time_is_told_from_one_that_says_nothing():
    rng = np.random.default_rng(1)
    times = rng.lognormal(size=100)
    told = predictiveness(-times + rng.normal(size=100), times)
    assert told.high < -0.3 and told.trials == 100
    assert predictiveness(rng.normal(size=100), times).contains(0.0)
    assert predictiveness(-times[:5], times[:5]).high > -0.95, "a perfect order of five trials is no certainty"


def test_nothing_is_known_of_constants_and_of_three_trials():
    assert math.isnan(predictiveness([1.0] * 5, [1, 2, 3, 4, 5]).value)
    assert math.isnan(predictiveness([1, 2, 3, 4], [INF] * 4).value)
    assert math.isnan(predictiveness([1, 2, 3], [1, 2, 3]).value)
    with pytest.raises(KroghError, match="a measure and a time"):
        predictiveness([1, 2, 3, 4], [1, 2, 3])
