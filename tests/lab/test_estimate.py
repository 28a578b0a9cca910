"""Estimates: every rule against its textbook form, arithmetic against brute force, pairing against covariance."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy import stats

from krogh.errors import KroghError
from krogh.lab.estimate import (
    DRAWS,
    Estimate,
    drawn,
    exact,
    largest,
    least,
    log,
    maximum,
    mean,
    mean_time,
    median,
    median_time,
    minimum,
    normal,
    quantile,
    quantiles,
    rate,
    share_of,
    tails,
    unknown_estimate,
)

INF = math.inf
# Few distinct values, so that ties and censoring are the rule.
some_times = st.lists(st.sampled_from([0.0, 1.0, 2.0, 3.0, 10.0, INF]), min_size=1, max_size=12)
ends = st.floats(-1e3, 1e3).map(lambda x: round(x, 3))


def held(low: float, high: float) -> Estimate:
    """A number known to lie in [low, high], no more."""
    return Estimate((low + high) / 2, np.array([low]), np.array([high]))


# --- quantiles ------------------------------------------------------------------------------------------------


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


@pytest.mark.parametrize("count", [6, 9, 20, 41, 100])
def test_the_median_has_the_textbook_order_statistics(count):
    """l is the largest rank with Pr[N < l] <= 2.5%, u the smallest with Pr[N >= u] <= 2.5%, N ~ Bin(n, 1/2)."""
    law, ranks = stats.binom(count, 0.5), np.arange(1, count + 1)
    low = ranks[law.cdf(ranks - 1) <= 0.025].max()
    high = ranks[law.sf(ranks - 1) <= 0.025].min()
    found = median(np.random.default_rng(count).permutation(ranks))
    assert (found.low, found.value, found.high) == (low, (count + 1) // 2, high)
    assert found.trials == count


def test_too_few_trials_have_no_interval_and_six_have_their_range():
    assert (median([1.0, 2.0, 3.0, 4.0, 5.0]).low, median([1.0, 2.0, 3.0, 4.0, 5.0]).high) == (-INF, INF)
    five = median([0.2] * 5, lowest=0.0, highest=1.0)
    assert (five.low, five.high) == (0.0, 1.0)
    six = median([3.0, 1.0, 2.0, 6.0, 5.0, 4.0])
    assert (six.low, six.high) == (1.0, 6.0)


def test_medians_of_censored_times():
    never = median_time([INF] * 9, horizon=100.0)
    assert never.censored and (never.low, never.high) == (100.0, INF)  # it lies beyond the budget, for certain
    half = median_time([1.0, 2.0, 3.0, 4.0, 5.0, INF, INF, INF, INF])
    assert half.value == 5.0 and half.low < 5.0 and half.high == INF and not half.censored
    assert (median_time([7.0]).low, median_time([7.0]).high) == (0.0, INF)


def test_quantiles_of_one_sample_are_drawn_together():
    """The counts below two quantiles are multinomial: their correlation is √(p(1-q)/(q(1-p)))."""
    values = np.arange(4000.0)
    low, high = quantiles(values, [0.2, 0.5])
    expected = math.sqrt(0.2 * 0.5 / (0.5 * 0.8))
    assert np.corrcoef(low.least, high.least)[0, 1] == pytest.approx(expected, abs=0.05)
    assert np.all(low.most <= high.most) and (high - low).trials == 4000
    apart = median(values, sample="a") - median(values, sample="b")
    assert apart.high > 2 * (high - high).high and apart.trials == 8000


# --- means ----------------------------------------------------------------------------------------------------


def test_the_mean_has_students_interval():
    values = np.random.default_rng(0).normal(3, 2, size=7)
    found = mean(values)
    half = stats.t.ppf(0.975, 6) * values.std(ddof=1) / math.sqrt(7)
    assert (found.value, found.low, found.high) == pytest.approx(
        (values.mean(), values.mean() - half, values.mean() + half)
    )
    one = mean([4.0])
    assert (one.value, one.low, one.high, one.trials) == (4.0, -INF, INF, 1)
    assert mean([2.0, 2.0, 2.0]).low == 2.0


def test_means_over_the_same_trials_are_paired():
    rng = np.random.default_rng(1)
    before = rng.normal(size=20)
    after = before + 0.1 + 0.01 * rng.normal(size=20)
    paired = mean(after, sample="networks") - mean(before, sample="networks")
    by_hand = mean(after - before)
    assert paired.trials == 20 and (paired.low, paired.high) == pytest.approx((by_hand.low, by_hand.high), rel=0.02)
    apart = mean(after, sample="these") - mean(before, sample="those")
    assert apart.trials == 40 and apart.high - apart.low > 20 * (paired.high - paired.low)


def test_very_many_trials_share_multipliers_without_losing_the_error():
    values = np.random.default_rng(2).exponential(size=20_000)
    found, half = mean(values), 1.96 * values.std() / math.sqrt(20_000)
    assert (found.value - found.low, found.high - found.value) == pytest.approx((half, half), rel=0.01)


def test_mean_times_on_the_logarithmic_scale():
    times = np.array([90.0, 100.0, 130.0, 110.0])
    found = mean_time(times)
    half = stats.t.ppf(0.975, 3) * np.log(times).std(ddof=1) / 2
    assert found.value == times.mean()
    assert (found.low, found.high) == pytest.approx((times.mean() * math.exp(-half), times.mean() * math.exp(half)))


def test_a_run_that_was_not_there_makes_the_mean_infinite_and_bounds_it_from_below():
    found = mean_time([100.0, 110.0, INF], horizon=400.0)
    assert found.censored and found.high == INF and found.horizon == 400.0
    assert 0 < found.low < mean_time([100.0, 110.0, 400.0]).value
    assert mean_time([INF, INF, INF], horizon=400.0).low == 400.0
    assert (mean_time([100.0, INF]).low, mean_time([100.0, INF]).high) == (0.0, INF)


# --- rates, tails, sums -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("hits", "trials"), [(7, 25), (0, 10), (10, 10), (1, 1), (38, 40)])
def test_rates_have_clopper_and_pearsons_interval(hits, trials):
    found = rate(hits, trials, sample="cell")
    oracle = stats.binomtest(hits, trials).proportion_ci(0.95, method="exact")
    assert (found.low, found.high) == pytest.approx((oracle.low, oracle.high), abs=1e-12)
    assert (found.value, found.trials) == (hits / trials, trials)


@pytest.mark.slow
@given(st.integers(1, 40), st.floats(0.01, 0.99))
@settings(max_examples=60, deadline=None)
def test_clopper_pearson_never_undercovers(trials, share):
    chance = stats.binom.pmf(np.arange(trials + 1), trials, share)
    covered = [rate(s, trials, sample="x").contains(share) for s in range(trials + 1)]
    assert chance @ covered >= 0.95 - 1e-9


def test_rates_of_two_cells_are_independent_though_their_counts_agree():
    one, two = (rate(32, 40, sample=name) for name in "ab")
    assert (one - two).trials == 80 and (one - two).low < -0.15 and (one - two).high > 0.15
    assert (one - rate(32, 40, sample="a")).trials == 40


def test_shares_of_flags():
    assert share_of(np.array([True, True, False, True])).value == 0.75
    with pytest.raises(KroghError, match="booleans"):
        share_of(np.array([1, 0]))


def test_any_rule_with_one_sided_ends():
    z = stats.norm.isf
    found = tails(2.0, lambda a: 2 - z(a), lambda a: 2 + z(a), {"s": 5}, "normal")
    assert (found.low, found.high) == pytest.approx((2 - z(0.025), 2 + z(0.025)))
    low, high = found.interval(0.5)
    assert (low, high) == pytest.approx((2 - z(0.25), 2 + z(0.25)))
    many = normal(2.0, 10.0, 100)
    assert (many.low, many.high) == pytest.approx((2 - z(0.025), 2 + z(0.025)))


def test_exact_numbers_are_certain_and_say_how_many_they_are_about():
    assert exact(3.0, 7).exact and (exact(3.0, 7).low, exact(3.0, 7).high, exact(3.0, 7).trials) == (3.0, 3.0, 7)
    assert (largest([1.0, 5.0, 2.0]).value, least([1.0, 5.0, 2.0]).value, largest([1.0, 5.0]).trials) == (5.0, 1.0, 2)
    assert math.isnan(largest([1.0, math.nan]).value) and math.isnan(largest([]).value)
    assert largest([1.0, 5.0], trials=1024).trials == least([1.0], trials=1024).trials == 1024, "inputs executed, say"
    nothing = unknown_estimate("no network")
    assert (nothing.low, nothing.high, nothing.trials) == (-INF, INF, 0)


# --- arithmetic -------------------------------------------------------------------------------------------------


@given(ends, ends, ends, ends, st.floats(0, 1), st.floats(0, 1))
def test_arithmetic_holds_whatever_its_operands_hold(a, b, c, d, s, t):
    """x in [a], y in [b] implies x∘y in [a]∘[b], ends included."""
    one, two = held(min(a, b), max(a, b)), held(min(c, d), max(c, d))
    x = one.low + s * (one.high - one.low)
    y = two.low + t * (two.high - two.low)
    slack = 1e-6 * (1 + abs(x) + abs(y)) ** 2
    found = [(one + two, x + y), (one - two, x - y), (one * two, x * y), (-one, -x), (abs(one), abs(x))]
    found += [(minimum([one, two]), min(x, y)), (maximum([one, two]), max(x, y))]
    found += [(one / two, x / y)] if y else []
    found += [(log(one), math.log(x))] if x > 0 else []
    for estimate, value in found:
        size = slack + 1e-9 * abs(value)
        assert estimate.low - size <= value <= estimate.high + size


@given(ends.filter(lambda x: abs(x) > 0.01), ends.filter(lambda x: abs(x) > 0.01))
def test_arithmetic_of_exact_numbers_is_arithmetic(a, b):
    one, two = exact(a), exact(b)
    for found, value in (
        (one + two, a + b),
        (one - 2, a - 2),
        (3 - one, 3 - a),
        (one * two, a * b),
        (one / two, a / b),
    ):
        assert found.exact and found.value == pytest.approx(value) and found.low == pytest.approx(value)
    assert (1 / one).value == pytest.approx(1 / a)


def test_ratios_of_what_was_not_reached_are_bounded_from_one_side():
    reached, never = mean_time([100.0, 110.0, 120.0]), mean_time([INF] * 3, horizon=1000.0)
    over, under, both = never / reached, reached / never, never / mean_time([INF] * 3, horizon=1000.0)
    assert over.value == INF and over.high == INF and over.low == pytest.approx(1000 / reached.high)
    assert (under.value, under.low) == (0.0, 0.0) and under.high == pytest.approx(reached.high / 1000)
    assert math.isnan(both.value) and (both.low, both.high) == (0.0, INF)


@pytest.mark.parametrize(
    ("above", "below", "ends"),
    [
        ((INF, INF), (INF, INF), (0.0, INF)),
        ((10.0, INF), (INF, INF), (0.0, INF)),
        ((10.0, 20.0), (INF, INF), (0.0, 0.0)),
        ((0.0, 0.0), (5.0, INF), (0.0, 0.0)),
        ((-INF, -INF), (INF, INF), (-INF, 0.0)),
    ],
)
def test_of_two_times_that_never_came_neither_is_the_shorter(above, below, ends):
    a, b = (Estimate(math.nan, *(np.full(3, end) for end in given)) for given in (above, below))
    found = a / b
    assert (set(found.least), set(found.most)) == ({ends[0]}, {ends[1]})


def test_a_denominator_on_either_side_of_zero_says_nothing():
    found = exact(1.0) / held(-1.0, 2.0)
    assert (found.low, found.high) == (-INF, INF)
    touching = exact(1.0) / held(0.0, 2.0)
    assert (touching.low, touching.high) == (0.5, INF)
    assert math.isnan((exact(1.0) / 0.0).value)


def test_arithmetic_keeps_draw_by_draw_what_belongs_together():
    rng = np.random.default_rng(3)
    x = drawn(1.0, rng.normal(1, 0.1, DRAWS), {"s": 5}, "posterior")
    assert ((x * 2) - (x + x)).low == ((x * 2) - (x + x)).high == 0.0
    product = x * mean([1.0, 2.0, 4.0])
    assert product.trials == 8 and product.rule == "posterior; Student's t, 3 trials"


def test_extremes_of_several_estimates():
    groups = [np.random.default_rng(seed).normal(mu, 1, 40) for seed, mu in enumerate((0.0, 0.1, 3.0))]
    means = [mean(own) for own in groups]
    top, bottom = maximum(means), minimum(means)
    assert top.value == groups[2].mean() and top.high == pytest.approx(means[2].high) and top.trials == 120
    risk = mean(groups[2]).interval(1 - 0.05 / 3)[0]  # a third of the risk: any of the three may be the largest
    assert top.low == pytest.approx(risk, rel=1e-2) and top.low < means[2].low
    assert bottom.value == min(own.mean() for own in groups) and bottom.low == pytest.approx(
        min(one.low for one in means)
    )
    assert maximum(means[:1]) is means[0]
    assert (maximum([exact(1.0), exact(3.0)]).low, maximum([exact(1.0), exact(3.0)]).high) == (3.0, 3.0)
    with pytest.raises(KroghError, match="at least one"):
        maximum([])


@pytest.mark.parametrize("estimate", [maximum, minimum, median])
def test_of_nothing_nothing_is_known_and_it_says_why(estimate):
    unknown = estimate([], nothing="no seed converged")
    assert math.isnan(unknown.value) and (unknown.low, unknown.high) == (-math.inf, math.inf)
    assert unknown.rule == "no seed converged" and unknown.trials == 0


def test_undefined_draws_only_widen_an_interval():
    draws = np.arange(1.0, 2000.0)
    clean = drawn(1000.0, draws, {}, "m")
    assert clean.interval(0.9) == (100.0, 1900.0)
    draws[::10] = np.nan
    assert drawn(1000.0, draws, {}, "m").interval(0.9) == (-INF, INF)
    assert drawn(1000.0, draws, {}, "m").clipped(0.0, 5000.0).interval(0.9) == (0.0, 5000.0)


def test_points_lie_in_their_draws():
    found = median(np.random.default_rng(0).exponential(size=30), lowest=0.0)
    points = found.points()
    assert np.all((found.least <= points) & (points <= found.most)) and len(np.unique(points)) > 100


def test_estimates_print_as_numbers_with_their_intervals():
    assert str(exact(510.0)) == "510"
    assert str(held(480.0, 540.0)) == "510 [480, 540]"


def test_the_same_numbers_give_the_same_draws_and_names_give_others():
    values = np.random.default_rng(5).normal(size=9)
    assert np.array_equal(mean(values).least, mean(values).least)
    assert not np.array_equal(mean(values, sample="a").least, mean(values, sample="b").least)


@pytest.mark.parametrize(
    ("call", "echo"),
    [
        (lambda: quantile([]), r"shape \(0,\)"),
        (lambda: quantile([1.0, math.nan]), r"times\[1\]=nan"),
        (lambda: median_time([3.0, -1.0]), r"times\[1\]=-1"),
        (lambda: quantile("fast"), "'fast'"),
        (lambda: quantile([[1.0]]), r"\(1, 1\)"),
        (lambda: quantile([1.0], 1.5), "q=1.5"),
        (lambda: quantiles([1.0], [1.0]), "q=1.0"),
        (lambda: quantiles([1.0], [0.5, 0.2]), r"\[0.5, 0.2\]"),
        (lambda: mean([1.0, 2.0]).interval(95), "level=95"),
        (lambda: rate(5, 4, sample="x"), "successes=5"),
        (lambda: rate(0, 0, sample="x"), "trials=0"),
        (lambda: mean_time([0.0, 1.0]), r"\[0.0, 1.0\]"),
        (lambda: mean_time([5.0], horizon=2.0), "horizon=2.0"),
        (lambda: drawn(1.0, np.ones(7), {}, "m"), r"\(7,\)"),
    ],
)
def test_bad_input_is_echoed(call, echo):
    with pytest.raises(KroghError, match=echo):
        call()
