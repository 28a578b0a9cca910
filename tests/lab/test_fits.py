"""Laws fitted to curves, against scipy, brute force and data whose law is known."""

from __future__ import annotations

import math

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import optimize, stats

from krogh.errors import KroghError
from krogh.lab.claims import Threshold, judge
from krogh.lab.curves import Curve, curve, curves, exact_curve, groups, mean_samples, times_of
from krogh.lab.estimate import exact, mean, mean_time, median_time
from krogh.lab.fits import (
    GROWTHS,
    coarse_scaling,
    compare_growth,
    elbow,
    exponent,
    exponential_law,
    fit_growth,
    growth_evidence,
    law_preference,
    line_bend,
    line_slope,
    power_law,
)
from krogh.lab.frontier import Frontier
from krogh.lab.sample_complexity import crossings

INF = math.inf
SIZES = (10, 15, 20, 30, 40)
LENGTHS = np.array([100.0, 200, 300, 500, 800, 1100])
ALL_LENGTHS = np.array([*range(100, 801, 50), 900.0, 1000, 1100])  # Figure 4.2's
SAMPLES = np.arange(40, 301, 10)
LAWS = {
    "logarithmic": lambda x, a, b: a + b * np.log(x),
    "linear": lambda x, a, b: a + b * x,
    "power": lambda x, a, b: a * x**b,
}


def lognormal_curve(medians, trials=200, spread=0.5, seed=0, statistic=median_time) -> Curve:
    """Log-normal times with the given median at each n."""
    rng = np.random.default_rng(seed)
    return curve(
        {n: statistic(m * rng.lognormal(0, spread, trials), sample=f"{seed}, {n}") for n, m in medians.items()}
    )


def medians_of(times) -> Curve:
    return curve({n: median_time(np.asarray(own, float), sample=f"{n}") for n, own in times.items()})


def counts_along(frontier, trials=40, seed=0, lengths=LENGTHS):
    """{T: {m: (successes, trials)}} with success curves that cross 0.8 at frontier(T)."""
    rng = np.random.default_rng(seed)
    cells = {}
    for length in lengths:
        rates = 1 / (1 + np.exp(-(np.log(SAMPLES / frontier(length)) / 0.1 + math.log(4))))
        hits = rng.binomial(trials, rates)
        cells[int(length)] = {int(m): (int(h), trials) for m, h in zip(SAMPLES, hits, strict=True)}
    return cells


# --- curves ---------------------------------------------------------------------------------------------------


def table() -> pl.DataFrame:
    rows = [
        (k, n, 10 * n * k + seed if seed < 5 or n < 30 else None)
        for k in (3, 2)
        for n in (20, 10, 30)
        for seed in range(12)
    ]
    return pl.DataFrame(rows, schema=["k", "n", "convergence_time"], orient="row")


def test_curves_of_a_table_are_censored_medians_by_group():
    found = curves(table(), by="k", x="n")
    assert list(found) == [3, 2] and found[2].x.tolist() == [10.0, 20.0, 30.0]
    own = times_of(table().filter(k=2, n=20))
    assert found[2].at(20).value == np.sort(own)[5] and found[2].at(20).trials == 12
    assert found[2].at(30).censored and found[2].missing == 1 and len(found[2].reached) == 2
    assert (found[2].trials, found[2].only({10, 30}).trials) == (36, 24)
    assert list(curves(table(), by=("k", "n"), x="n")) == list(groups(table(), ("k", "n")))
    assert list(curves(table(), x="n")) == [()]
    with pytest.raises(KroghError, match="x=7"):
        found[2].at(7)


def test_points_of_curves_are_independent_and_statistics_of_one_curve_are_paired():
    by_k = curves(table(), by="k", x="n", y="n", statistic=mean)  # whatever: names decide
    a, b = by_k[3].at(10), by_k[2].at(10)
    assert (a - b).trials == 24 and (a - by_k[3].at(10)).trials == 12
    times = curves(table(), by="k", x="n")
    assert not np.array_equal(
        times[3].at(10).least - times[3].at(10).value, times[2].at(10).least - times[2].at(10).value
    )


def test_samples_of_online_runs_are_steps_times_batch_with_the_budget_as_horizon():
    found = mean_samples(table(), by="k", x="n", batch_size=64, budget=2000)[2]
    assert found.at(10).value == pytest.approx(64 * times_of(table().filter(k=2, n=10)).mean())
    assert found.at(30).value == INF and found.at(30).horizon == 64 * 2000 and 0 < found.at(30).low < INF


def test_a_curves_places_increase_and_match_its_values():
    with pytest.raises(KroghError, match="one y for each x"):
        Curve(np.array([1.0, 2.0]), (exact(1.0),))
    with pytest.raises(KroghError, match="increase"):
        Curve(np.array([2.0, 1.0]), (exact(1.0), exact(2.0)))
    rows = exact_curve([1, 2], [3, 4]).table("n")
    assert rows.columns == ["n", "value", "low", "high", "trials"] and rows["high"].to_list() == [3.0, 4.0]


# --- laws of log y --------------------------------------------------------------------------------------------


@given(st.floats(-4, 4), st.floats(0.01, 100))
def test_exact_laws_are_recovered(slope, prefactor):
    x = np.array([5.0, 10.0, 20.0, 40.0])
    power = power_law(exact_curve(x, prefactor * x**slope))
    assert (power.exponent.value, power.exponent.low) == pytest.approx((slope, slope), abs=1e-9)
    assert power.prefactor == pytest.approx(prefactor, rel=1e-8)
    assert power.predict(x) == pytest.approx(prefactor * x**slope)
    exponential = exponential_law(exact_curve(x, prefactor * np.exp(slope / 20 * x)))
    assert exponential.exponent.value == pytest.approx(slope / 20, abs=1e-9)
    assert exponential.predict(7.0) == pytest.approx(prefactor * math.exp(slope / 20 * 7))


def test_fits_agree_with_linregress():
    rng = np.random.default_rng(0)
    x = np.array([10.0, 15.0, 20.0, 30.0, 40.0, 60.0])
    y = x**1.7 * rng.lognormal(0, 0.3, size=6)
    for fit, u in ((power_law(exact_curve(x, y)), np.log(x)), (exponential_law(exact_curve(x, y)), x)):
        oracle = stats.linregress(u, np.log(y))
        assert fit.exponent.value == pytest.approx(oracle.slope)
        assert fit.prefactor == pytest.approx(math.exp(oracle.intercept))
        assert fit.r_squared.value == pytest.approx(oracle.rvalue**2)
        assert fit.residual == pytest.approx(np.sum((np.log(y) - oracle.intercept - oracle.slope * u) ** 2))


def test_the_slopes_interval_holds_every_slope_that_its_points_allow():
    found = lognormal_curve({n: n**1.2 for n in (10, 20, 40)}, trials=31)
    slope, (low, high) = power_law(found).exponent, found.ends()
    rng, u = np.random.default_rng(1), np.log(found.x)
    inside = low + rng.uniform(size=low.shape) * (high - low)
    slopes = np.array([stats.linregress(u, np.log(row)).slope for row in inside[:200]])
    assert np.all((slope.least[:200] - 1e-12 <= slopes) & (slopes <= slope.most[:200] + 1e-12))
    assert slope.trials == 93 and slope.contains(1.2)


def test_points_that_were_not_reached_are_dropped_and_counted_or_bound_the_slope():
    gap = exact_curve([10, 20, 80], [100, 400, 6400])
    with_gap = curve({**{x: gap.at(x) for x in (10, 20, 80)}, 40: median_time([INF] * 9, horizon=500.0)})
    fit = power_law(with_gap)
    assert fit.exponent.value == power_law(gap).exponent.value and (fit.points, fit.dropped) == (3, 1)
    bounded = exponent(with_gap)  # 40 lies to the right of the centre
    assert math.isnan(bounded.value) and bounded.high == INF and bounded.low > -INF


@pytest.mark.parametrize("late", [12, 4])
def test_runs_that_did_not_get_there_bound_the_exponent_from_one_side(late):
    """Every completion of the missing value by something above the budget gives a slope inside the interval."""
    runs = {n: np.array([99.0, 100.0, 101.0]) * n for n in (4, 6, 8, 12)}
    runs[late] = np.array([100.0 * late, 100.0 * late, INF])

    def slope(own, horizon=None):
        return exponent(curve({n: mean_time(values, horizon=horizon) for n, values in own.items()}))

    found = slope(runs, 5000.0)
    for beyond in (5000.0, 1e5, 1e9):
        filled = {n: np.where(np.isinf(values), beyond, values) for n, values in runs.items()}
        assert found.contains(slope(filled).value)
    assert (found.high == INF) == (late == 12) and (found.low == -INF) == (late == 4)
    unknown = slope(runs)  # without a budget nothing is known of the value
    assert unknown.low <= found.low and unknown.high >= found.high


def test_too_few_points_decide_nothing():
    for found in (medians_of({n: [INF] * 9 for n in SIZES}), medians_of({10: [1.0] * 9, 20: [INF] * 9})):
        fit, bend = power_law(found), elbow(found)
        for estimate in (fit.exponent, fit.r_squared, bend.difference, law_preference(found)):
            assert math.isnan(estimate.value) and (estimate.low, estimate.high) == (-INF, INF)
        assert fit.dropped == found.missing
    assert exponent(exact_curve([10], [1])).rule == "a slope needs at least two points; got 1"


def test_a_constant_has_slope_zero_and_no_r_squared():
    fit = power_law(exact_curve([10, 20, 40], [7.0, 7.0, 7.0]))
    assert fit.exponent.value == pytest.approx(0, abs=1e-12) and math.isnan(fit.r_squared.value)
    assert judge(fit.r_squared, Threshold(at_least=0.5))[0] == "inconclusive"


def test_the_sharper_law_is_preferred_and_a_draw_is_not():
    ns = (10, 15, 20, 25, 30, 40)
    power = lognormal_curve({n: 0.1 * n**3 for n in ns}, trials=400, spread=0.3)
    exponential = lognormal_curve({n: 10 * math.exp(0.2 * n) for n in ns}, trials=400, spread=0.3)
    assert law_preference(power).low > 2 and law_preference(exponential).high < -2
    residuals = [law(power).residual for law in (exponential_law, power_law)]
    assert law_preference(power).value == pytest.approx(6 * math.log(residuals[0] / residuals[1]))
    assert math.isnan(law_preference(lognormal_curve({10: 1.0, 20: 3.0})).value)


def test_elbow_is_seen_where_there_is_one_and_only_there():
    sizes = (10, 14, 20, 28, 40, 56, 80)
    straight = elbow(lognormal_curve({n: n**1.5 for n in sizes}, trials=1000))
    assert straight.difference.contains(0.0)
    bent = elbow(lognormal_curve({n: n**1.0 if n <= 28 else n**2.0 / 28 for n in sizes}, trials=1000))
    assert bent.points == 7 and bent.lower.contains(1.0) and bent.upper.contains(2.0)
    assert bent.difference.low > 0.5 and bent.difference.contains(1.0) and bent.difference.trials == 7000


def test_elbow_halves_share_the_middle_size_of_an_odd_number():
    three = elbow(exact_curve([10, 20, 40], [10, 20, 80]))
    assert (three.lower.value, three.upper.value) == pytest.approx((1.0, 2.0))
    four = elbow(exact_curve([10, 20, 40, 80], [10, 20, 1000, 4000]))
    assert four.difference.value == pytest.approx(1.0)  # the jump between the halves belongs to neither


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


# --- laws of y itself -----------------------------------------------------------------------------------------


@settings(max_examples=25, deadline=None)
@given(st.sampled_from(GROWTHS), st.floats(0.5, 50), st.floats(0.05, 1.5))
def test_exact_growth_is_recovered(law, a, b):
    fit = fit_growth(exact_curve(LENGTHS, LAWS[law](LENGTHS, a, b)), law)
    assert (fit.a.value, fit.b.value) == pytest.approx((a, b), rel=1e-5)
    assert fit.predict([150.0, 700.0]) == pytest.approx(LAWS[law](np.array([150.0, 700.0]), a, b), rel=1e-6)
    assert fit.r_squared.value == pytest.approx(1, abs=1e-9)


@pytest.mark.parametrize("law", GROWTHS)
def test_growth_agrees_with_scipys_least_squares(law):
    """The power too is fitted on y, not on log y."""
    y = 60 + 0.08 * LENGTHS + np.random.default_rng(3).normal(0, 8, size=6)
    best, _ = optimize.curve_fit(LAWS[law], LENGTHS, y, p0=[10.0, 0.3])
    fit = fit_growth(exact_curve(LENGTHS, y), law)
    assert (fit.a.value, fit.b.value) == pytest.approx(best, rel=1e-4)
    left = ((y - LAWS[law](LENGTHS, *best)) ** 2).sum()
    assert fit.residual == pytest.approx(left)
    assert fit.r_squared.value == pytest.approx(1 - left / ((y - y.mean()) ** 2).sum())


def test_aic_is_the_gaussian_likelihoods():
    y = 20 * np.log(LENGTHS) + np.random.default_rng(0).normal(0, 3, size=6)
    comparison = compare_growth(exact_curve(LENGTHS, y))
    for law, fit in comparison.fits.items():
        scatter = y - fit.predict(LENGTHS)
        log_likelihood = stats.norm.logpdf(scatter, scale=math.sqrt(np.mean(scatter**2))).sum()
        shift = 6 * (1 + math.log(2 * math.pi))  # the same constant for every law
        assert fit.aic + shift == pytest.approx(2 * 3 - 2 * log_likelihood), law
    shares = np.array([comparison.akaike_weights[law] for law in GROWTHS])
    aics = np.array([comparison.fits[law].aic for law in GROWTHS])
    assert shares.sum() == pytest.approx(1)
    assert shares[0] / shares[1] == pytest.approx(math.exp((aics[1] - aics[0]) / 2))


@pytest.mark.parametrize(("law", "a", "b"), [("logarithmic", -40, 25), ("linear", 30, 0.15), ("power", 2.0, 0.75)])
def test_the_law_behind_the_points_is_preferred(law, a, b):
    x = np.linspace(50, 1500, 25)
    y = LAWS[law](x, a, b) + np.random.default_rng(1).normal(0, 1.0, size=25)
    comparison = compare_growth(exact_curve(x, y))
    assert comparison.preferred == law
    assert comparison.akaike_weights[law] > 0.9


def test_laws_within_two_of_each_other_are_undecided():
    """Exactly two of AIC apart is decided, a little less is not (Burnham & Anderson)."""
    x = np.array([100.0, 150.0, 200.0])
    line, bowl = 50 + 0.1 * x, np.array([1.0, -2.0, 1.0])  # off the line by something orthogonal to it
    for size in np.geomspace(0.01, 3, 40):
        comparison = compare_growth(exact_curve(x, line + size * bowl))
        behind = np.sort([fit.aic for fit in comparison.fits.values()])
        assert (comparison.preferred == "undecided") == (behind[1] - behind[0] < 2)
    assert {compare_growth(exact_curve(x, line + s * bowl)).preferred == "undecided" for s in (0.01, 1.0)} == {
        True,
        False,
    }
    two = compare_growth(exact_curve([100, 200], [50, 60]))
    assert two.preferred == "undecided" and math.isnan(two.akaike_weights["linear"])


def test_evidence_tells_logarithmic_from_linear_growth():
    logarithmic, linear = (
        crossings(counts_along(frontier, lengths=ALL_LENGTHS))
        for frontier in (lambda length: 25 * math.log(length) - 40, lambda length: 50 + 0.15 * length)
    )
    for measured, verdict in ((logarithmic, "reproduced"), (linear, "not reproduced")):
        evidence = growth_evidence(measured)
        assert judge(evidence, Threshold(above=0))[0] == verdict, evidence
        fits = compare_growth(measured).fits
        assert evidence.value == pytest.approx(fits["linear"].aic - fits["logarithmic"].aic)
        assert growth_evidence(measured, "linear", "logarithmic").value == pytest.approx(-evidence.value)
        assert evidence.low <= evidence.value <= evidence.high
    slope = fit_growth(logarithmic, "logarithmic").b
    assert slope.contains(25) and slope.high - slope.low < 10 and slope.trials == 18 * 27 * 40


@pytest.mark.slow
def test_evidence_is_rarely_wrong_when_the_law_is_logarithmic():
    """40 trials per cell and six lengths: the interval may straddle 0, but must not lie below it."""
    wrong = sum(
        growth_evidence(crossings(counts_along(lambda length: 12 * math.log(length) + 20, seed=seed))).high < 0
        for seed in range(12)
    )
    assert wrong <= 2


@pytest.mark.slow
def test_straightness_of_a_straight_law_is_not_refuted_by_the_noise_of_its_trials():
    refuted = 0
    for seed in range(10):
        measured = crossings(counts_along(lambda length: 15 * math.log(length) - 5, seed=seed, trials=40))
        refuted += judge(fit_growth(measured).r_squared, Threshold(at_least=0.85))[0] == "not reproduced"
    assert refuted <= 1


def test_a_length_that_was_not_reached_leaves_the_evidence_open():
    cells = counts_along(lambda length: 25 * math.log(length) - 40)
    cells[1100] = {m: (0, 40) for m in cells[1100]}
    measured = crossings(cells)
    assert measured.missing == 1 and measured.at(1100).horizon == 300
    evidence = growth_evidence(measured)
    assert (evidence.low, evidence.high) == (-INF, INF)
    fit = fit_growth(measured)
    assert (fit.points, fit.missing, fit.b.low, fit.b.high) == (5, 1, -INF, INF)


def test_frontiers_make_curves_by_their_posteriors():
    frontiers = {}
    for length, cells in counts_along(lambda length: 25 * math.log(length) - 40).items():
        frontiers[length] = Frontier(SAMPLES)
        for m, (hits, trials) in cells.items():
            frontiers[length].observe(m, True, hits)
            frontiers[length].observe(m, False, trials - hits)
    measured = curve({length: frontier.crossing(f"{length}") for length, frontier in frontiers.items()})
    assert measured.value == pytest.approx(25 * np.log(LENGTHS) - 40, rel=0.08)
    assert fit_growth(measured).b.contains(25) and growth_evidence(measured).low > 0


def test_ratios_of_two_points_of_one_curve():
    measured = crossings(counts_along(lambda length: 25 * math.log(length) - 40))
    truth = (25 * math.log(1100) - 40) / (25 * math.log(100) - 40)
    assert (measured.at(1100) / measured.at(100)).contains(truth)


@pytest.mark.parametrize(
    ("call", "echo"),
    [
        (lambda: fit_growth(exact_curve([1, 2], [1, 1]), "logarithm"), "did you mean 'logarithmic'"),
        (lambda: coarse_scaling({20: 1.0, 30: 2.0}), "n=10"),
        (lambda: coarse_scaling({10: 1.0, 5: 2.0}), "n0\\+1=10"),
        (lambda: coarse_scaling({10: 0.0, 50: 2.0}), "positive"),
    ],
)
def test_bad_input_is_echoed(call, echo):
    with pytest.raises(KroghError, match=echo):
        call()


def test_lines_through_exact_numbers():
    x = np.arange(5.0)
    assert line_slope(x, 3 * x + 1) == pytest.approx(3) and math.isnan(line_slope([1.0], [2.0]))
    assert line_bend(x, 3 * x + 1) == pytest.approx(0, abs=1e-12)
    assert line_bend([0, 1, 2], [0, 0, 3]) == pytest.approx(1 / 3)  # 1.5 x - 0.5 misses the middle by 1
