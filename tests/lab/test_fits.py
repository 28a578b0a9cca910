"""Scaling laws against scipy and against data whose exponent is known."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from krogh.errors import KroghError
from krogh.lab.fits import (
    coarse_scaling,
    compare_laws,
    elbow,
    exponential_fit,
    law_preference,
    local_slopes,
    power_law_fit,
    scaling_fit,
)

INF = math.inf
SIZES = (10, 15, 20, 30, 40)


def lognormal_groups(medians, trials=200, spread=0.5, seed=0):
    """Log-normal times with the given median at each n."""
    rng = np.random.default_rng(seed)
    return {n: median * rng.lognormal(0, spread, size=trials) for n, median in medians.items()}


# --- lines --------------------------------------------------------------------------------------------------


@given(st.floats(-4, 4), st.floats(0.01, 100))
def test_exact_laws_are_recovered(exponent, prefactor):
    x = np.array([5.0, 10.0, 20.0, 40.0])
    power = power_law_fit(x, prefactor * x**exponent)
    assert power.exponent.value == pytest.approx(exponent, abs=1e-9)
    assert power.prefactor == pytest.approx(prefactor, rel=1e-8)
    assert power.predict(x) == pytest.approx(prefactor * x**exponent)
    exponential = exponential_fit(x, prefactor * np.exp(exponent / 20 * x))
    assert exponential.exponent.value == pytest.approx(exponent / 20, abs=1e-9)
    assert exponential.predict(7.0) == pytest.approx(prefactor * math.exp(exponent / 20 * 7))


def test_fit_agrees_with_linregress():
    rng = np.random.default_rng(0)
    x = np.array([10.0, 15.0, 20.0, 30.0, 40.0, 60.0])
    y = x**1.7 * rng.lognormal(0, 0.3, size=6)
    for fit, u in ((power_law_fit(x, y, level=0.9), np.log(x)), (exponential_fit(x, y, level=0.9), x)):
        oracle = stats.linregress(u, np.log(y))
        half = stats.t.ppf(0.95, 4) * oracle.stderr
        assert fit.exponent.value == pytest.approx(oracle.slope)
        assert fit.prefactor == pytest.approx(math.exp(oracle.intercept))
        assert fit.r_squared == pytest.approx(oracle.rvalue**2)
        assert (fit.exponent.low, fit.exponent.high) == pytest.approx((oracle.slope - half, oracle.slope + half))
        assert fit.residual == pytest.approx(np.sum((np.log(y) - oracle.intercept - oracle.slope * u) ** 2))


def test_student_interval_covers():
    rng, x = np.random.default_rng(1), np.array(SIZES, dtype=float)
    hits = [power_law_fit(x, x**2 * rng.lognormal(0, 0.2, size=5)).exponent.contains(2) for _ in range(400)]
    assert 0.92 <= np.mean(hits) <= 0.98


def test_infinite_points_are_dropped_and_counted():
    with_gap = power_law_fit([10, 20, 40, 80], [100, 400, INF, 6400])
    without = power_law_fit([10, 20, 80], [100, 400, 6400])
    assert with_gap.exponent == without.exponent
    assert (with_gap.points, with_gap.dropped, without.dropped) == (3, 1, 0)


def test_too_few_finite_points_decide_nothing():
    for y in ([INF, INF, INF], [100.0, INF, INF]):
        fit = power_law_fit([10, 20, 30], y)
        assert math.isnan(fit.exponent.value) and math.isnan(fit.r_squared) and math.isnan(fit.prefactor)
        assert (fit.exponent.low, fit.exponent.high) == (-INF, INF)
    two = power_law_fit([10, 20, 30], [100.0, 400.0, INF])
    assert two.exponent.value == pytest.approx(2) and two.exponent.high == INF
    same_x = power_law_fit([7, 7, 7, 30], [1.0, 2.0, 3.0, INF])  # three points, one abscissa
    assert math.isnan(same_x.exponent.value)


def test_a_constant_has_slope_zero_and_no_r_squared():
    fit = power_law_fit([10, 20, 40], [7.0, 7.0, 7.0])
    assert fit.exponent.value == pytest.approx(0, abs=1e-12) and math.isnan(fit.r_squared)


# --- from trials --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("law", "exponent", "medians"),
    [
        ("power", 1.5, {n: 2 * n**1.5 for n in SIZES}),
        ("exponential", 0.2, {n: math.exp(0.2 * n) for n in SIZES}),
    ],
)
def test_scaling_fit_covers_the_exponent(law, exponent, medians):
    hits = []
    for seed in range(200):
        groups = lognormal_groups(medians, trials=101, seed=seed)
        hits.append(scaling_fit(groups, law, resamples=300, seed=seed).exponent.contains(exponent))
    assert 0.91 <= np.mean(hits) <= 0.99


def test_scaling_fit_is_the_fit_to_the_medians():
    groups = lognormal_groups({n: n**1.2 for n in SIZES}, trials=51)
    fit = scaling_fit(groups)
    plain = power_law_fit(list(groups), [np.median(t) for t in groups.values()])
    assert fit.exponent.value == pytest.approx(plain.exponent.value)
    assert fit.r_squared == pytest.approx(plain.r_squared) and fit.aic == pytest.approx(plain.aic)
    assert fit.exponent.low < fit.exponent.value < fit.exponent.high


def test_scaling_fit_matches_a_literal_bootstrap():
    groups = lognormal_groups({n: n**1.2 for n in (10, 20, 40)}, trials=31)
    fast = scaling_fit(groups, resamples=20_000)
    rng, u = np.random.default_rng(9), np.log([10, 20, 40])
    medians = np.stack([np.median(rng.choice(t, (20_000, 31)), axis=1) for t in groups.values()])
    slopes = ((u - u.mean()) @ np.log(medians)) / ((u - u.mean()) ** 2).sum()
    expected = np.quantile(slopes, [0.025, 0.975])
    assert (fast.exponent.low, fast.exponent.high) == pytest.approx(tuple(expected), abs=0.01)


def test_scaling_fit_does_not_depend_on_the_order_of_the_groups():
    groups = lognormal_groups({n: n**1.2 for n in SIZES})
    assert scaling_fit(groups) == scaling_fit(dict(reversed(groups.items())))


def test_sizes_where_most_trials_fail_end_the_curve():
    groups = lognormal_groups({n: n**2.0 for n in (10, 20, 30, 40)})
    groups[40] = np.where(np.arange(200) < 120, INF, groups[40])  # 60% fail: no median
    groups[30] = np.where(groups[30] > np.quantile(groups[30], 0.7), INF, groups[30])  # 30% fail: median stays
    fit = scaling_fit(groups)
    assert (fit.points, fit.dropped) == (3, 1)
    assert fit.exponent.contains(2.0) and math.isfinite(fit.exponent.high)


def test_a_point_that_resamples_may_lose_widens_the_interval():
    groups = lognormal_groups({10: 100.0, 20: 400.0}, trials=21)
    groups[20] = np.where(np.argsort(np.argsort(groups[20])) < 11, groups[20], INF)  # 11 of 21 converge
    fit = scaling_fit(groups)
    assert math.isfinite(fit.exponent.value) and (fit.exponent.low, fit.exponent.high) == (-INF, INF)


def test_everything_censored_is_inconclusive_and_not_an_error():
    groups = {n: [INF] * 5 for n in SIZES}
    fit, bend, laws = scaling_fit(groups), elbow(groups), compare_laws(groups)
    assert math.isnan(fit.exponent.value) and (fit.points, fit.dropped) == (0, 5) and math.isnan(fit.aic)
    assert math.isnan(bend.difference.value) and (bend.difference.low, bend.difference.high) == (-INF, INF)
    assert laws.preferred == "undecided" and bend.points == 0


def test_single_trials_have_a_fit_and_a_point_interval():
    fit = scaling_fit({10: [100.0], 20: [400.0], 40: [1600.0]})
    assert fit.exponent.value == fit.exponent.low == fit.exponent.high == pytest.approx(2)


def test_the_right_law_is_preferred():
    power = compare_laws(lognormal_groups({n: n**2.0 for n in range(10, 60, 10)}, trials=2000))
    exponential = compare_laws(lognormal_groups({n: math.exp(0.2 * n) for n in range(10, 60, 10)}, trials=2000))
    assert power.preferred == "power" and power.delta_aic > 2 and power.power_share > 0.95
    assert exponential.preferred == "exponential" and exponential.power_share < 0.05
    assert exponential.exponential.exponent.value == pytest.approx(0.2, rel=0.02)
    assert power.power.exponent.value == pytest.approx(2.0, rel=0.02)
    assert power.delta_aic == pytest.approx(power.exponential.aic - power.power.aic)


def test_two_points_cannot_choose_a_law():
    laws = compare_laws(lognormal_groups({10: 1.0, 20: 3.0}))
    assert laws.preferred == "undecided" and laws.delta_aic == 0 and math.isnan(laws.power_share)


# --- curvature ----------------------------------------------------------------------------------------------


def test_local_slopes_of_the_calibration_rise():
    """Median t_c of a width-100 ReLU MLP on (n,3)-parities, as calibrated for the elbow of Figure 5.2."""
    middle, slopes = local_slopes([10, 20, 40, 80], [60, 125, 300, 950])
    assert middle == pytest.approx([200**0.5, 800**0.5, 3200**0.5])
    assert slopes == pytest.approx([1.06, 1.26, 1.66], abs=0.01)
    assert local_slopes([80, 10, 20], [950, 60, INF])[1] == pytest.approx([math.log(950 / 60) / math.log(8)])
    assert local_slopes([10, 20], [INF, 5.0])[1].size == 0


def test_elbow_is_seen_where_there_is_one_and_only_there():
    sizes = (10, 14, 20, 28, 40, 56, 80)
    straight = elbow(lognormal_groups({n: n**1.5 for n in sizes}, trials=1000))
    assert straight.difference.contains(0.0)
    bent = elbow(lognormal_groups({n: n**1.0 if n <= 28 else n**2.0 / 28 for n in sizes}, trials=1000))
    assert bent.points == 7
    assert bent.lower.contains(1.0) and bent.upper.contains(2.0)
    assert bent.difference.low > 0.5 and bent.difference.contains(1.0)


def test_elbow_halves_share_the_middle_size_of_an_odd_number():
    three = elbow({10: [10.0], 20: [20.0], 40: [80.0]})
    assert (three.lower.value, three.upper.value) == pytest.approx((1.0, 2.0))
    four = elbow({10: [10.0], 20: [20.0], 40: [1000.0], 80: [4000.0]})
    assert four.difference.value == pytest.approx(1.0)  # the jump between the halves belongs to neither
    assert math.isnan(elbow({10: [10.0], 20: [20.0]}).difference.value)


def test_elbow_covers():
    hits = []
    for seed in range(150):
        groups = lognormal_groups({n: n**1.3 for n in SIZES}, trials=101, seed=seed)
        hits.append(elbow(groups, resamples=300, seed=seed).difference.contains(0.0))
    assert 0.91 <= np.mean(hits) <= 0.99


@given(st.lists(st.floats(1, 1e6), min_size=3, max_size=3))
def test_coarse_scaling_is_the_smallest_valid_exponent(values):
    times = dict(zip((10, 20, 30), values, strict=True))
    law = coarse_scaling(times)
    assert law.c == times[10]
    slack = [law.c * (n - 9) ** law.alpha / t for n, t in times.items() if n > 10]
    assert min(slack) == pytest.approx(1)  # holds everywhere, with equality somewhere


def test_coarse_scaling_under_censoring():
    assert coarse_scaling({10: 50.0, 20: 100.0, 30: INF}).alpha == INF
    nothing = coarse_scaling({10: INF, 20: 100.0})
    assert nothing.c == INF and math.isnan(nothing.alpha)
    assert coarse_scaling({5: 2.0, 6: 4.0}, n0=4).alpha == pytest.approx(1.0)


# --- bad input ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("call", "echo"),
    [
        (lambda: power_law_fit([1, 2], [1.0]), "2 and 1"),
        (lambda: power_law_fit([1, 1], [1.0, 2.0]), r"\[1.0, 1.0\]"),
        (lambda: power_law_fit([0, 1], [1.0, 2.0]), r"\[0.0, 1.0\]"),
        (lambda: power_law_fit([1, 2], [0.0, 2.0]), r"\[0.0, 2.0\]"),
        (lambda: exponential_fit([1, 2], [math.nan, 2.0]), r"y\[0\]=nan"),
        (lambda: scaling_fit({}), "{}"),
        (lambda: scaling_fit([1.0]), r"\[1.0\]"),
        (lambda: scaling_fit({10: [1.0]}), r"\[10.0\]"),
        (lambda: scaling_fit({10: [1.0], 20: []}), r"groups\[20\]"),
        (lambda: scaling_fit({10: [1.0], 20: [0.0]}), r"groups\[20\] contains 0"),
        (lambda: scaling_fit({"a": [1.0], "b": [2.0]}), r"\['a', 'b'\]"),
        (lambda: scaling_fit({10: [1.0], 20: [2.0]}, "powr"), "did you mean 'power'"),
        (lambda: elbow({10: [1.0], 20: [2.0]}, q=2), "q=2"),
        (lambda: local_slopes([1, 1, 2], [1.0, 2.0, 3.0]), "distinct"),
        (lambda: coarse_scaling({20: 1.0, 30: 2.0}), "n=10"),
        (lambda: coarse_scaling({10: 1.0, 5: 2.0}), "n0\\+1=10"),
    ],
)
def test_bad_input_is_echoed(call, echo):
    with pytest.raises(KroghError, match=echo):
        call()


def test_law_preference_tells_the_two_laws_apart():
    rng, ns = np.random.default_rng(0), (10, 15, 20, 25, 30, 40)
    power = {n: 0.1 * n**3 * rng.lognormal(0, 0.3, 400) for n in ns}
    exponential = {n: 10 * np.exp(0.2 * n) * rng.lognormal(0, 0.3, 400) for n in ns}
    assert law_preference(power).low > 2 and law_preference(exponential).high < -2
    assert law_preference(power).value == pytest.approx(compare_laws(power).delta_aic)
    assert not law_preference({n: np.full(5, np.inf) for n in ns}).low > 0
