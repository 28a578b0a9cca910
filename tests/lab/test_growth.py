"""Laws of growth, exponents and ratios, against scipy, brute force and data whose law is known."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import optimize, stats

from krogh.errors import KroghError
from krogh.lab.claim import judge
from krogh.lab.frontier import Frontier
from krogh.lab.growth import GROWTHS, compare_growth, fit_growth, growth_evidence, growth_exponent
from krogh.lab.measured import Measured, from_counts, from_frontiers, from_runs, points, ratio

INF = math.inf
LENGTHS = np.array([100.0, 200, 300, 500, 800, 1100])
ALL_LENGTHS = np.array([*range(100, 801, 50), 900.0, 1000, 1100])  # Figure 4.2's
SIZES = np.arange(40, 301, 10)
LAWS = {
    "logarithmic": lambda x, a, b: a + b * np.log(x),
    "linear": lambda x, a, b: a + b * x,
    "power": lambda x, a, b: a * x**b,
}


def counts_along(frontier, trials=40, seed=0, lengths=LENGTHS):
    """{T: {m: (successes, trials)}} with success curves that cross 0.8 at frontier(T)."""
    rng = np.random.default_rng(seed)
    cells = {}
    for length in lengths:
        rates = 1 / (1 + np.exp(-(np.log(SIZES / frontier(length)) / 0.1 + math.log(4))))
        hits = rng.binomial(trials, rates)
        cells[int(length)] = {int(m): (int(h), trials) for m, h in zip(SIZES, hits, strict=True)}
    return cells


# --- laws ---------------------------------------------------------------------------------------------------


@settings(max_examples=25, deadline=None)
@given(st.sampled_from(GROWTHS), st.floats(0.5, 50), st.floats(0.05, 1.5))
def test_exact_laws_are_recovered(law, a, b):
    y = LAWS[law](LENGTHS, a, b)
    fit = fit_growth(points(LENGTHS, y), law)
    assert (fit.a.value, fit.b.value) == pytest.approx((a, b), rel=1e-5)
    assert fit.predict([150.0, 700.0]) == pytest.approx(LAWS[law](np.array([150.0, 700.0]), a, b), rel=1e-6)
    assert fit.r_squared == pytest.approx(1, abs=1e-9)


@pytest.mark.parametrize("law", GROWTHS)
def test_fits_agree_with_scipys_weighted_least_squares(law):
    """Coefficients, errors and residual: the power too is fitted on y, not on log y."""
    rng = np.random.default_rng(3)
    weights = rng.uniform(0.2, 3, size=6)
    y = 60 + 0.08 * LENGTHS + rng.normal(0, 8, size=6)
    best, covariance = optimize.curve_fit(LAWS[law], LENGTHS, y, p0=[10.0, 0.3], sigma=weights**-0.5)
    fit = fit_growth(points(LENGTHS, y), law, weights=weights, level=0.9)
    assert (fit.a.value, fit.b.value) == pytest.approx(best, rel=1e-4)
    half = stats.t.ppf(0.95, 4) * np.sqrt(np.diag(covariance))
    assert (fit.a.high - fit.a.value, fit.b.high - fit.b.value) == pytest.approx(half, rel=1e-3)
    scaled = weights / weights.mean()
    left = (scaled * (y - LAWS[law](LENGTHS, *best)) ** 2).sum()
    assert fit.residual == pytest.approx(left)
    assert fit.r_squared == pytest.approx(1 - left / (scaled * (y - np.average(y, weights=scaled)) ** 2).sum())


def test_aic_is_the_gaussian_likelihoods():
    rng = np.random.default_rng(0)
    y = 20 * np.log(LENGTHS) + rng.normal(0, 3, size=6)
    comparison = compare_growth(points(LENGTHS, y))
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
    comparison = compare_growth(points(x, y))
    assert comparison.preferred == law
    assert comparison.akaike_weights[law] > 0.9


def test_too_few_points_decide_nothing():
    two = compare_growth(points([100, 200], [50, 60]))
    assert two.preferred == "undecided" and math.isnan(two.akaike_weights["linear"])
    assert two.fits["linear"].b.value == pytest.approx(0.1) and two.fits["linear"].b.high == INF
    one = fit_growth(points([100, 200], [50, INF]), "linear")
    assert math.isnan(one.b.value) and (one.b.low, one.b.high) == (-INF, INF) and one.missing == 1


# --- evidence -----------------------------------------------------------------------------------------------


def test_evidence_tells_logarithmic_from_linear_growth():
    logarithmic, linear = (
        from_counts(counts_along(frontier, lengths=ALL_LENGTHS), resamples=300)
        for frontier in (lambda length: 25 * math.log(length) - 40, lambda length: 50 + 0.15 * length)
    )
    for measured, verdict in ((logarithmic, "reproduced"), (linear, "not reproduced")):
        evidence = growth_evidence(measured)
        assert judge(evidence, above=0)[1] == verdict, evidence
        fits = compare_growth(measured).fits
        assert evidence.value == pytest.approx(fits["linear"].aic - fits["logarithmic"].aic)
        assert growth_evidence(measured, "linear", "logarithmic").value == pytest.approx(-evidence.value)
    slope = fit_growth(logarithmic, "logarithmic").b
    assert slope.contains(25) and slope.high - slope.low < 10


def test_evidence_is_rarely_wrong_when_the_law_is_logarithmic():
    """40 trials per cell and six lengths: the interval may straddle 0, but must not lie below it."""
    wrong = 0
    for seed in range(25):
        cells = counts_along(lambda length: 12 * math.log(length) + 20, seed=seed)
        wrong += growth_evidence(from_counts(cells, resamples=100, seed=seed)).high < 0
    assert wrong <= 2


def test_a_length_that_was_not_reached_leaves_the_evidence_open():
    cells = counts_along(lambda length: 25 * math.log(length) - 40)
    cells[1100] = {m: (0, 40) for m in cells[1100]}
    measured = from_counts(cells, resamples=50)
    assert measured.missing == 1 and measured.least[-1] == 300
    evidence = growth_evidence(measured)
    assert (evidence.low, evidence.high) == (-INF, INF) and evidence.value > 0
    fit = fit_growth(measured)
    assert (fit.points, fit.missing, fit.b.low, fit.b.high) == (5, 1, -INF, INF)


def test_bootstrap_refits_every_resample():
    rng = np.random.default_rng(2)
    y = 20 * np.log(LENGTHS)
    draws = y + rng.normal(0, 2, size=(200, 6))
    measured = Measured(LENGTHS, y, draws, y, draws)
    slopes = np.sort([stats.linregress(np.log(LENGTHS), row).slope for row in draws])
    fit = fit_growth(measured, level=0.9)
    assert (fit.b.low, fit.b.high) == pytest.approx((slopes[9], slopes[190]))
    unreached = draws.copy()
    unreached[:40, -1] = INF  # a fifth of the resamples: nothing is known of either end
    assert fit_growth(Measured(LENGTHS, y, unreached, y, draws), level=0.9).b.high == INF


def test_weights_by_precision_follow_the_resamples():
    draws = np.random.default_rng(0).normal(100, [[1, 2, 4]], size=(4000, 3))
    measured = Measured(LENGTHS[:3], draws.mean(axis=0), draws, draws.mean(axis=0), draws)
    assert measured.precision() * draws.var(axis=0) == pytest.approx([1, 1, 1])


def test_frontiers_are_measured_by_their_posteriors():
    frontiers = {}
    for length, cells in counts_along(lambda length: 25 * math.log(length) - 40).items():
        frontiers[length] = Frontier(SIZES)
        for m, (hits, trials) in cells.items():
            frontiers[length].observe(m, True, hits)
            frontiers[length].observe(m, False, trials - hits)
    measured = from_frontiers(frontiers, resamples=400)
    assert measured.y == pytest.approx(25 * np.log(LENGTHS) - 40, rel=0.08)
    assert fit_growth(measured).b.contains(25) and growth_evidence(measured).low > 0


# --- exponents ----------------------------------------------------------------------------------------------


def test_growth_exponent_is_the_slope_of_logs_of_means():
    rng = np.random.default_rng(4)
    runs = {n: 100 * n**1.8 * rng.lognormal(0, 0.3, size=5) for n in (4, 6, 8, 10, 12)}
    measured = from_runs(runs, resamples=400)
    slope = stats.linregress(np.log(list(runs)), [math.log(values.mean()) for values in runs.values()]).slope
    interval = growth_exponent(measured)
    assert interval.value == pytest.approx(slope) and interval.contains(1.8)
    medians = growth_exponent(from_runs(runs, statistic="median"))
    slope = stats.linregress(np.log(list(runs)), [math.log(np.median(values)) for values in runs.values()]).slope
    assert medians.value == pytest.approx(slope)
    alone = growth_exponent(points(list(runs), [values.mean() for values in runs.values()]))
    assert alone.value == pytest.approx(interval.value) and alone.method.startswith("Student")


def test_growth_exponents_interval_covers():
    rng, hits = np.random.default_rng(6), 0
    for seed in range(150):
        runs = {n: n**1.3 * rng.lognormal(0, 0.3, size=12) for n in (4, 6, 8, 12)}
        hits += growth_exponent(from_runs(runs, resamples=200, seed=seed)).contains(1.3)
    assert hits / 150 >= 0.88


@pytest.mark.parametrize("late", [12, 4])
def test_runs_that_did_not_get_there_bound_the_exponent_from_one_side(late):
    """Every completion of the missing value by something above the budget gives a slope inside the interval."""
    runs = {n: np.full(3, 100.0 * n) for n in (4, 6, 8, 12)}
    runs[late] = np.array([100.0 * late, 100.0 * late, INF])
    interval = growth_exponent(from_runs(runs, horizon=5000.0, resamples=300))
    assert math.isnan(interval.value)
    for beyond in (5000.0, 1e5, 1e9):
        filled = {n: np.where(np.isinf(values), beyond, values) for n, values in runs.items()}
        assert interval.contains(growth_exponent(from_runs(filled, resamples=10)).value)
    assert (interval.high == INF) == (late == 12) and (interval.low == -INF) == (late == 4)
    unknown = growth_exponent(from_runs(runs, resamples=300))  # without a budget nothing is known of the value
    assert unknown.low <= interval.low and unknown.high >= interval.high


def test_the_mean_of_the_runs_is_infinite_as_soon_as_one_is():
    measured = from_runs({4: [10.0, 20, 30], 8: [10.0, 20, INF]}, horizon=100, resamples=50)
    assert measured.y.tolist() == [20.0, INF] and measured.least == pytest.approx([20, 130 / 3])
    finite = np.isfinite(measured.draws)
    assert np.array_equal(measured.draws[finite], measured.draws_least[finite])
    assert np.all(measured.draws_least <= measured.draws) and not finite[:, 1].all()
    middle = from_runs({4: [10.0, 20, 30], 8: [10.0, 20, INF]}, statistic="median", horizon=100)
    assert middle.y.tolist() == [20.0, 20.0]


# --- ratios -------------------------------------------------------------------------------------------------


def test_ratio_of_means_and_its_bootstrap():
    top, bottom = [30.0, 60.0], [10.0, 20.0]
    over, under = (from_runs({12: values}, resamples=4000) for values in (top, bottom))
    interval = ratio(over, 12, under, level=0.5)
    assert interval.value == pytest.approx(3)
    # All 16 pairs of resamples, each as likely: the quartiles of this list.
    means = [[(x + y) / 2 for x, y in itertools.product(values, repeat=2)] for values in (top, bottom)]
    every = np.sort([x / y for x, y in itertools.product(*means)])
    assert (interval.low, interval.high) == pytest.approx((every[3], every[12]))


def test_ratio_of_two_points_of_one_curve():
    measured = from_counts(counts_along(lambda length: 25 * math.log(length) - 40), resamples=200)
    truth = (25 * math.log(1100) - 40) / (25 * math.log(100) - 40)
    assert ratio(measured, 1100, measured, 100).contains(truth)


def test_ratios_of_what_was_not_reached_are_bounded_from_one_side():
    reached = from_runs({12: [100.0, 110.0, 120.0]}, horizon=1000)
    never = from_runs({12: [INF, INF, INF]}, horizon=1000)
    over = ratio(never, 12, reached)
    assert over.value == INF and over.high == INF and over.low == pytest.approx(1000 / 120)
    assert judge(over, at_least=3)[1] == "reproduced"
    under = ratio(reached, 12, never)
    assert under.value == 0 and under.low == 0 and under.high == pytest.approx(0.12)
    both = ratio(never, 12, never)
    assert math.isnan(both.value) and (both.low, both.high) == (0, INF)
    unknown = ratio(from_runs({12: [INF, INF]}), 12, reached)
    assert (unknown.low, unknown.high) == (0, INF)


def test_ratios_interval_covers():
    rng, hits = np.random.default_rng(9), 0
    for seed in range(500):
        over, under = (
            from_runs({12: scale * rng.lognormal(0, 0.3, size=15)}, resamples=200, seed=seed) for scale in (3.0, 1.0)
        )
        hits += ratio(over, 12, under).contains(3.0)
    assert 0.88 <= hits / 500 <= 0.98


# --- bad input ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("call", "echo"),
    [
        (lambda: points([1, 2], [1]), "2 and 1"),
        (lambda: points([0, 2], [1, 1]), r"x=\[0.0"),
        (lambda: fit_growth(points([1, 2], [1, 1]), "logarithm"), "did you mean 'logarithmic'"),
        (lambda: fit_growth(points([1, 2], [1, 1]), weights=[1, 0]), r"\[1.0, 0.0\]"),
        (lambda: from_runs({}), "{}"),
        (lambda: from_runs({"a": [1]}), "'a'"),
        (lambda: from_runs({4: [0.0]}), "contains 0"),
        (lambda: from_runs({4: [5.0]}, horizon=2), "horizon=2"),
        (lambda: from_runs({4: [5.0]}, statistic="mode"), "mode"),
        (lambda: from_counts({4: {}}), "{}"),
        (lambda: ratio(from_runs({4: [5.0]}), 5, from_runs({4: [5.0]})), "x=5"),
        (lambda: ratio(from_runs({4: [5.0]}, resamples=3), 4, from_runs({4: [5.0]})), "3 and 1000"),
        (lambda: points([4.0], [1.0]).precision(), "none"),
        (lambda: growth_exponent(from_runs({4: [5.0]})), r"x=\[4.0\]"),
        (lambda: growth_exponent(points([4, 5], [1, INF])), "1 points"),
    ],
)
def test_bad_input_is_echoed(call, echo):
    with pytest.raises(KroghError, match=echo):
        call()
