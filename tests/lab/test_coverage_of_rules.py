"""How often 95% intervals hold the truth, for every rule and at the numbers of trials that experiments use.

`pytest -m slow -s tests/lab/test_coverage_of_rules.py` prints the table of docs/statistics.md.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy import stats

from krogh.lab.curves import curve
from krogh.lab.estimate import Estimate, maximum, mean, mean_time, median, median_time, quantiles, rate
from krogh.lab.fits import elbow, exponent, fit_growth, power_law
from krogh.lab.sample_complexity import crossing
from krogh.lab.times import intraclass_correlation, ks_distance, predictiveness, skewness

REPETITIONS = 300
NS = np.array([10, 15, 20, 30, 40])
LAWS: dict[str, tuple[Callable[..., Any], float, float]] = {  # draws, mean, median
    "normal, deviation 20%": (lambda rng, n: rng.normal(1, 0.2, n), 1.0, 1.0),
    "log-normal 0.3": (lambda rng, n: rng.lognormal(0, 0.3, n), math.exp(0.045), 1.0),
    "log-normal 0.6": (lambda rng, n: rng.lognormal(0, 0.6, n), math.exp(0.18), 1.0),
    "exponential": (lambda rng, n: rng.exponential(size=n), 1.0, math.log(2)),
    "1 + exponential": (lambda rng, n: 1 + rng.exponential(size=n), 2.0, 1 + math.log(2)),
}


def covered(make: Callable[[np.random.Generator, str], Estimate], truth: float) -> tuple[float, float]:
    """The share of simulations whose interval holds the truth, and of those whose interval has both ends."""
    rng = np.random.default_rng(0)
    found = [make(rng, f"{number}") for number in range(REPETITIONS)]
    bounded = [math.isfinite(one.low) and math.isfinite(one.high) for one in found]
    return float(np.mean([one.contains(truth) for one in found])), float(np.mean(bounded))


def shown(rule: str, setting: str, share: float, bounded: float = 1.0) -> None:
    note = "" if bounded == 1 else f" ({bounded:.0%} have both ends)"
    print(f"| {rule} | {setting} | {share:.1%}{note} |")


pytestmark = pytest.mark.slow


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("count", [3, 5, 12, 40])
def test_means(law, count):
    draw, truth, _ = LAWS[law]
    plain, _ = covered(lambda rng, name: mean(draw(rng, count), sample=name), truth)
    shown("mean (Student)", f"{law}, {count} trials", plain)
    if not law.startswith("normal"):
        logs, _ = covered(lambda rng, name: mean_time(draw(rng, count), sample=name), truth)
        shown("mean_time (Student of logarithms)", f"{law}, {count} trials", logs)
        assert logs >= 0.88
    if law.startswith("normal"):
        assert 0.93 <= plain <= 0.97


@pytest.mark.parametrize("law", ["log-normal 0.3", "exponential", "1 + exponential"])
@pytest.mark.parametrize("count", [3, 5, 15])
def test_ratios_of_means(law, count):
    draw = LAWS[law][0]

    def make(rng, name):
        return mean_time(3 * draw(rng, count), sample=f"{name}a") / mean_time(draw(rng, count), sample=f"{name}b")

    share, _ = covered(make, 3.0)
    shown("ratio of two mean_times", f"{law}, {count} trials each", share)
    assert share >= 0.91


@pytest.mark.parametrize("law", ["log-normal 0.6", "exponential"])
@pytest.mark.parametrize("count", [5, 6, 12, 40])
def test_medians(law, count):
    draw, _, truth = LAWS[law]
    share, bounded = covered(lambda rng, name: median(draw(rng, count), lowest=0.0, sample=name), truth)
    shown("median (order statistics)", f"{law}, {count} trials", share, bounded)
    assert share >= 0.93 and (count >= 6) == (bounded == 1)


def test_discrete_and_censored_medians():
    law = stats.geom(0.2)
    share, _ = covered(
        lambda rng, name: median_time(law.rvs(60, random_state=rng).astype(float), sample=name), law.ppf(0.5)
    )
    shown("median (order statistics)", "geometric, 60 trials", share)
    assert share >= 0.94

    def censored(rng, name):
        times = rng.exponential(size=101)
        return median_time(np.where(times > 1, np.inf, times), horizon=1.0, sample=name)

    share, _ = covered(censored, math.log(2))
    shown("median (order statistics)", "exponential, 101 trials, 37% censored", share)
    assert share >= 0.94


@pytest.mark.parametrize("count", [20, 40])
def test_ratios_and_extremes_of_medians(count):
    draw, _, _ = LAWS["log-normal 0.6"]

    def ratio(rng, name):
        return median(2 * draw(rng, count), lowest=0.0, sample=f"{name}a") / median(
            draw(rng, count), lowest=0.0, sample=f"{name}b"
        )

    share, _ = covered(ratio, 2.0)
    shown("ratio of two medians", f"log-normal 0.6, {count} trials each", share)
    assert share >= 0.94
    share, _ = covered(
        lambda rng, name: maximum([median(draw(rng, count), sample=f"{name}{part}") for part in "abc"]), 1.0
    )
    shown("largest of three equal medians", f"log-normal 0.6, {count} trials each", share)
    assert share >= 0.94


@pytest.mark.parametrize("p", [0.02, 0.5, 0.9])
@pytest.mark.parametrize("count", [10, 40])
def test_rates(p, count):
    share, _ = covered(lambda rng, name: rate(int(rng.binomial(count, p)), count, sample=name), p)
    shown("rate (Clopper–Pearson)", f"p = {p}, {count} trials", share)
    assert share >= 0.94

    def difference(rng, name):
        hits = rng.binomial(count, [p, p / 2])
        return rate(int(hits[0]), count, sample=f"{name}a") - rate(int(hits[1]), count, sample=f"{name}b")

    share, _ = covered(difference, p / 2)
    shown("difference of two rates", f"p = {p} and {p / 2}, {count} trials each", share)
    assert share >= 0.94


@pytest.mark.parametrize("count", [20, 40])
def test_slopes_of_medians(count):
    def medians(rng, name):
        return curve(
            {n: median_time(n**1.5 * rng.lognormal(0, 0.5, count), sample=f"{name}, {n}") for n in NS.tolist()}
        )

    for words, make, truth in (
        ("exponent of medians", lambda rng, name: power_law(medians(rng, name)).exponent, 1.5),
        ("elbow", lambda rng, name: elbow(medians(rng, name)).difference, 0.0),
    ):
        share, _ = covered(make, truth)
        shown(words, f"5 sizes, {count} trials each", share)
        assert share >= 0.94


@pytest.mark.parametrize("count", [3, 5])
def test_slopes_of_means(count):
    def make(rng, name):
        points = {n: mean_time(n**1.3 * rng.lognormal(0, 0.3, count), sample=f"{name}, {n}") for n in (4, 6, 8, 12)}
        return exponent(curve(points))

    share, _ = covered(make, 1.3)
    shown("exponent of means", f"4 sizes, {count} trials each", share)
    assert share >= 0.94


def test_r_squared_of_an_exactly_straight_law_is_rarely_refuted():
    """R² of the true medians is 1: the interval must reach what noise alone leaves of it."""
    rng, below = np.random.default_rng(0), 0
    for number in range(200):
        points = {t: 40 + 10 * math.log(t) + rng.normal(0, 4, 12) for t in (100, 200, 400, 800, 1100)}
        found = fit_growth(curve({t: mean(values, sample=f"{number}, {t}") for t, values in points.items()}))
        below += found.r_squared.high < 0.95
    shown("R² (draws reflected)", "straight law, 5 points of 12 trials: share not refuted at 0.95", 1 - below / 200)
    assert below / 200 <= 0.05


@pytest.mark.parametrize(("width", "trials"), [(0.12, 40), (0.35, 40), (0.12, 8)])
def test_crossings(width, trials):
    sizes = np.arange(50, 201, 10)
    rates = 1 / (1 + np.exp(-(np.log(sizes) - math.log(85)) / width))

    def make(rng, name):
        hits = rng.binomial(trials, rates)
        return crossing({int(m): (int(h), trials) for m, h in zip(sizes, hits, strict=True)}, sample=name)

    share, bounded = covered(make, 85 * math.exp(width * math.log(4)))
    shown("crossing of 80% (isotonic)", f"logistic of width {width}, 16 cells of {trials}", share, bounded)
    assert share >= 0.9


def test_shapes_of_laws():
    def luck(rng, name):
        low, middle = quantiles(rng.lognormal(0, 0.5, 400), [0.01, 0.5], sample=name)
        return low / middle

    share, _ = covered(luck, math.exp(0.5 * stats.norm.ppf(0.01)))
    shown("ratio of two quantiles of one sample", "log-normal 0.5, 1% and 50% of 400 trials", share)
    assert share >= 0.94
    share, _ = covered(lambda rng, name: skewness(rng.lognormal(0, 1, 300)), 0.0)
    shown("quantile skewness", "log-normal, 300 trials", share)
    assert share >= 0.94
    groups = np.repeat(np.arange(8), 6)
    share, _ = covered(
        lambda rng, name: intraclass_correlation(rng.normal(size=8)[groups] + rng.normal(size=48), groups), 0.5
    )
    shown("intraclass correlation (F)", "normal, 8 groups of 6", share)
    assert 0.92 <= share <= 0.98
    law = np.cumsum(0.02 * 0.98 ** np.arange(4000))
    truth = float(np.max(np.abs(law - (1 - 0.99 ** np.arange(1, 4001)))))
    share, _ = covered(lambda rng, name: ks_distance(rng.geometric(0.02, size=200).astype(float), 0.01), truth)
    shown("distance of laws (Dvoretzky–Kiefer–Wolfowitz)", "geometric, 200 trials", share)
    assert share >= 0.95


@pytest.mark.parametrize("rho", [0.0, -0.4, -0.8])
@pytest.mark.parametrize("count", [10, 20, 50])
def test_rank_correlations(rho, count):
    """Of two normal columns; the truth is Spearman's 6/π·arcsin(ρ/2)."""
    truth, root = 6 / math.pi * math.asin(rho / 2), math.sqrt(1 - rho**2)

    def make(rng: np.random.Generator, name: str) -> Estimate:
        x, noise = rng.normal(size=(2, count))
        return predictiveness(x, np.exp(rho * x + root * noise))

    share, _ = covered(make, truth)
    shown("predictiveness (Bonett–Wright)", f"normal, ρ = {rho}, {count} trials", share)
    assert share >= 0.91
