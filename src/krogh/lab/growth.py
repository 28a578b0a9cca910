"""How a sample size grows: logarithmically, linearly or as a power.

    logarithmic   y = a + b ln x
    linear        y = a + b x
    power         y = a x^b

All three are regressions of y itself with errors N(0, s²/weight), so their likelihoods, and with them R², AIC and
Akaike weights, can be compared: a power fitted on log y answers another question (it is where its iteration starts,
and what `growth_exponent` reports). Chapter 4 claims the first law for m*(T), the qSTR paper compares powers.

The points come with the trials behind them (`krogh.lab.measured`), whose resamples give every interval. A point that
was not reached is not dropped in silence: the intervals are as wide as it leaves them.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike
from scipy import stats

from krogh.errors import require, unknown
from krogh.lab.fits import power_law_fit
from krogh.lab.measured import Measured
from krogh.lab.statistics import Floats, Interval, as_floats, percentile_interval, require_fraction

Growth = Literal["logarithmic", "linear", "power"]
_LINES: dict[str, Callable[[Floats], Floats]] = {"logarithmic": np.log, "linear": lambda x: x}
GROWTHS: tuple[Growth, ...] = ("logarithmic", "linear", "power")
UNBOUNDED = (-math.inf, math.inf)


def _two_parameters(law: str, x: Floats, y: Floats, weights: Floats) -> tuple[Floats, Floats, Floats]:
    """a, b and the weighted sum of squared residuals of the law for every row of finite y (rows, points)."""
    if law in _LINES:
        u = _LINES[law](x)
        middle = (weights * u).sum() / weights.sum()
        mean = (weights * y).sum(axis=1) / weights.sum()
        slope = (weights * (u - middle) * y).sum(axis=1) / (weights * (u - middle) ** 2).sum()
        a = mean - slope * middle
        return a, slope, (weights * (y - a[:, None] - slope[:, None] * u) ** 2).sum(axis=1)
    if law != "power":
        raise unknown("law of growth", str(law), GROWTHS)
    u = np.log(x / np.exp(np.log(x).mean()))  # centred: x^b neither overflows nor underflows

    def residual(exponent: Floats) -> tuple[Floats, Floats]:
        """The best prefactor for each exponent (rows,), and what it leaves."""
        curve = np.exp(exponent[:, None] * u)
        prefactor = (weights * curve * y).sum(axis=1) / (weights * curve**2).sum(axis=1)
        return prefactor, (weights * (y - prefactor[:, None] * curve) ** 2).sum(axis=1)

    # The residual along the exponent: the best of a coarse range about the slope of ln y, then golden sections.
    logs = np.log(np.maximum(y, 1e-300))
    start = (u * (logs - logs.mean(axis=1, keepdims=True))).sum(axis=1) / (u**2).sum()
    offsets = np.linspace(-2, 2, 41)
    coarse = np.stack([residual(start + offset)[1] for offset in offsets], axis=1)
    centre = start + offsets[coarse.argmin(axis=1)]
    low, high, golden = centre - 0.1, centre + 0.1, (math.sqrt(5) - 1) / 2
    for _ in range(50):
        left, right = high - golden * (high - low), low + golden * (high - low)
        smaller = residual(left)[1] <= residual(right)[1]
        low, high = np.where(smaller, low, left), np.where(smaller, right, high)
    exponent = (low + high) / 2
    prefactor, left_over = residual(exponent)
    return prefactor * np.exp(-exponent * np.log(x).mean()), exponent, left_over


def _curve(law: str, a: float, b: float, x: Floats) -> Floats:
    return a * x**b if law == "power" else a + b * _LINES[law](x)


@dataclass(frozen=True)
class GrowthFit:
    """A fitted law of growth; `a` and `b` as in the head of the module."""

    law: Growth
    a: Interval
    b: Interval
    r_squared: float  # of y itself, weighted; NaN where y does not vary
    residual: float  # weighted sum of squares
    points: int
    missing: int  # points left out because they were not reached

    @property
    def aic(self) -> float:
        """points × ln(residual/points) + 6, Gaussian errors of y: lower is better, the same points given."""
        return self.points * math.log(max(self.residual / self.points, 1e-24)) + 6 if self.points else math.nan

    def predict(self, x: ArrayLike) -> Floats:
        """The fitted law at `x`."""
        return _curve(self.law, self.a.value, self.b.value, np.asarray(x, dtype=float))


def _weights(measured: Measured, weights: ArrayLike | None) -> Floats:
    given = np.ones(measured.x.size) if weights is None else as_floats("weights", weights)
    good = given.shape == measured.x.shape and np.all(given > 0) and np.all(np.isfinite(given))
    require(good, f"weights must be {measured.x.size} positive numbers; got {given.tolist()}")
    return given / given.mean()


def _student(law: str, a: float, b: float, x: Floats, weights: Floats, residual: float, level: float) -> list[float]:
    """Half-widths of the intervals of a and b from the scatter about the curve; infinite with two points."""
    if x.size <= 2:
        return [math.inf, math.inf]
    if law == "power":
        gradient = np.stack([x**b, a * x**b * np.log(x)], axis=1)
    else:
        gradient = np.stack([np.ones_like(x), _LINES[law](x)], axis=1)
    covariance = np.linalg.pinv((weights[:, None] * gradient).T @ gradient) * residual / (x.size - 2)
    quantile = float(stats.t.ppf((1 + level) / 2, x.size - 2))
    return [quantile * math.sqrt(max(variance, 0.0)) for variance in np.diag(covariance)]


def fit_growth(
    measured: Measured, law: Growth = "logarithmic", *, weights: ArrayLike | None = None, level: float = 0.95
) -> GrowthFit:
    """Fit a law of growth to the points that were reached, by weighted least squares on y.

    The intervals of a and b are percentiles over the resamples, or Student's where there are none. Points that were
    not reached are left out of the estimate and make its intervals unbounded: what was left out is the part of the
    curve that grows most. To speak of the range that was reached, measure that range.
    """
    require_fraction("level", level)
    weights = _weights(measured, weights)
    kept = np.isfinite(measured.y)
    x, y = measured.x[kept], measured.y[kept]
    nothing = Interval(math.nan, *UNBOUNDED, level, "too few points")
    if law not in GROWTHS:
        raise unknown("law of growth", str(law), GROWTHS)
    if np.unique(x).size < 2:
        return GrowthFit(law, nothing, nothing, math.nan, math.nan, int(kept.sum()), measured.missing)
    a, b, residual = (float(part[0]) for part in _two_parameters(law, x, y[None, :], weights[kept]))
    mean = (weights[kept] * y).sum() / weights[kept].sum()
    total = float((weights[kept] * (y - mean) ** 2).sum())
    if measured.missing:
        intervals = [Interval(part, *UNBOUNDED, level, f"{measured.missing} points not reached") for part in (a, b)]
    elif measured.draws.shape[0]:
        drawn_a, drawn_b, _ = _over_draws(law, measured, weights)
        intervals = [
            percentile_interval(part, drawn, level, "percentile bootstrap")
            for part, drawn in ((a, drawn_a), (b, drawn_b))
        ]
    else:
        halves = _student(law, a, b, x, weights[kept], residual, level)
        intervals = [
            Interval(part, part - half, part + half, level, f"Student t, {max(x.size - 2, 0)} dof")
            for part, half in zip((a, b), halves, strict=True)
        ]
    varies = total > 1e-24 * max(1.0, float((weights[kept] * y**2).sum()))
    r_squared = 1 - residual / total if varies else math.nan
    return GrowthFit(law, intervals[0], intervals[1], r_squared, residual, int(kept.sum()), measured.missing)


def _over_draws(law: str, measured: Measured, weights: Floats) -> tuple[Floats, Floats, Floats]:
    """The fit of every resample (resamples,); NaN where one has a point that was not reached."""
    whole = np.isfinite(measured.draws).all(axis=1)
    result = np.full((3, measured.draws.shape[0]), np.nan)
    if whole.any():
        result[:, whole] = _two_parameters(law, measured.x, measured.draws[whole], weights)
    return result[0], result[1], result[2]


@dataclass(frozen=True)
class GrowthComparison:
    """The three laws on the same points."""

    fits: dict[Growth, GrowthFit]
    akaike_weights: dict[Growth, float]  # exp(-ΔAIC/2), summing to 1; NaN with fewer than three points
    preferred: Growth | Literal["undecided"]  # the law of lowest AIC, or "undecided" if another is within 2 of it


def compare_growth(measured: Measured, *, weights: ArrayLike | None = None, level: float = 0.95) -> GrowthComparison:
    """Fit all three laws. Each has two parameters and the same error model, so AIC compares residuals of y."""
    fits = {law: fit_growth(measured, law, weights=weights, level=level) for law in GROWTHS}
    if fits["linear"].points < 3 or math.isnan(fits["linear"].residual):
        return GrowthComparison(fits, dict.fromkeys(GROWTHS, math.nan), "undecided")
    behind = np.array([fits[law].aic for law in GROWTHS])
    behind -= behind.min()
    shares = np.exp(-behind / 2) / np.exp(-behind / 2).sum()
    decided = np.sort(behind)[1] >= 2
    preferred = GROWTHS[int(behind.argmin())] if decided else "undecided"
    return GrowthComparison(fits, dict(zip(GROWTHS, shares.tolist(), strict=True)), preferred)


def growth_evidence(
    measured: Measured,
    favoured: Growth = "logarithmic",
    rival: Growth = "linear",
    *,
    weights: ArrayLike | None = None,
    level: float = 0.95,
) -> Interval:
    """AIC(rival) - AIC(favoured) with its interval over the resamples: positive speaks for `favoured`.

    Needs three points or more and resamples; otherwise, and where a point was not reached, the interval is unbounded
    and decides nothing. A resample in which a point was not reached widens it. Resampling adds the noise of the trials
    once more, which blurs every law: the resamples lie nearer to 0 than the estimate, on the side of doubt.
    """
    weights = _weights(measured, weights)
    fits = [fit_growth(measured, law, weights=weights, level=level) for law in (rival, favoured)]
    count = fits[0].points
    value = fits[0].aic - fits[1].aic if count >= 3 else math.nan
    if measured.missing or count < 3 or not measured.draws.shape[0]:
        return Interval(value, *UNBOUNDED, level, "nothing to resample" if not measured.missing else "not reached")
    worse, better = (_over_draws(law, measured, weights)[2] for law in (rival, favoured))
    floor = 1e-24 * count
    drawn = count * np.log(np.maximum(worse, floor) / np.maximum(better, floor))
    ends = percentile_interval(value, drawn, level, "percentile bootstrap")
    return Interval(value, min(ends.low, value), max(ends.high, value), level, ends.method)


def growth_exponent(measured: Measured, *, level: float = 0.95) -> Interval:
    """The slope of ln y on ln x by least squares (qSTR, M10), with its interval over the resamples.

    The slope is linear in ln y, so a point that was not reached bounds it: one to the right of the centre only from
    below, one to the left only from above. The estimate is NaN then, and the interval holds every slope that the
    missing values allow. Without resamples the interval is Student's.
    """
    require_fraction("level", level)
    require(np.unique(measured.x).size >= 2, f"a slope needs at least two different x; got x={measured.x.tolist()}")
    if not measured.draws.shape[0]:
        require(not measured.missing, f"{measured.missing} points were not reached and there is nothing to resample")
        return power_law_fit(measured.x, measured.y, level=level).exponent
    u = np.log(measured.x) - np.log(measured.x).mean()
    lever = np.where(np.abs(u) < 1e-12, 0.0, u / (u**2).sum())

    def slope(at_right: Floats, at_left: Floats) -> Floats:
        """The slope with these y where they raise it, and those where they lower it."""
        with np.errstate(divide="ignore"):
            logs = np.log(np.where(lever > 0, at_right, np.where(lever < 0, at_left, 1.0)))
        return (lever * logs).sum(axis=-1)

    value = math.nan if measured.missing else float(slope(measured.y, measured.y))
    lower = percentile_interval(value, slope(measured.draws_least, measured.draws), level, "percentile bootstrap")
    upper = percentile_interval(value, slope(measured.draws, measured.draws_least), level, "percentile bootstrap")
    return Interval(value, lower.low, upper.high, level, lower.method)
