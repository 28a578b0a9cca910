"""Scaling laws: how the quantiles of convergence times grow with the size n of the problem.

Two laws are fitted by ordinary least squares on the logarithm of y, as chapter 5 does:

    power        y = a x^b        log y against log x
    exponential  y = a e^{b x}    log y against x

A size whose quantile is infinite (for the median: more than half of the trials failed) is no point of the
curve and is dropped; how many were dropped is part of the result. Where fewer than two points remain the
exponent is NaN with an unbounded interval, which decides nothing, instead of an error that would lose the
rest of a report.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy import stats

from krogh.errors import require, unknown
from krogh.lab.statistics import (
    Floats,
    Interval,
    as_floats,
    as_times,
    percentile_interval,
    quantile_rank,
    require_fraction,
    require_resampling,
    resampled_positions,
)

Law = Literal["power", "exponential"]
Groups = Mapping[Any, ArrayLike]  # {n: times (trials,)}
_ABSCISSA: dict[str, Callable[[Floats], Floats]] = {"power": np.log, "exponential": lambda x: x}


@dataclass(frozen=True)
class Fit:
    """A fitted law. `exponent` is b above (the rate, for an exponential), `prefactor` is a."""

    law: Law
    exponent: Interval
    prefactor: float
    r_squared: float  # of log y; NaN where log y does not vary or fewer than two points remain
    residual: float  # sum of squared residuals of log y
    points: int
    dropped: int  # points left out because y was infinite

    @property
    def aic(self) -> float:
        """Akaike's criterion m log(residual/m) + 6 with Gaussian errors of log y: lower is better."""
        if not self.points:
            return math.nan
        # Exact data leave rounding errors only; without the floor two perfect fits would be told apart by
        # those.
        return self.points * math.log(max(self.residual / self.points, 1e-24)) + 6

    def predict(self, x: ArrayLike) -> Floats:
        """The fitted law at `x`."""
        x = np.asarray(x, dtype=float)
        return self.prefactor * np.exp(self.exponent.value * _ABSCISSA[self.law](x))


class _Lines(NamedTuple):
    """Least-squares lines, one per row; NaN where a row has fewer than two distinct abscissae."""

    slope: Floats
    intercept: Floats
    residual: Floats
    total: Floats
    spread: Floats  # sum of squared deviations of the abscissa
    points: Floats


def _lines(u: Floats, values: Floats) -> _Lines:
    """Regress every row of log `values` (rows, m) on `u` (m,), leaving out infinite values row by row."""
    kept = np.isfinite(values)
    v = np.log(np.where(kept, values, 1.0))
    points = kept.sum(axis=1)
    with np.errstate(invalid="ignore", divide="ignore"):
        du = np.where(kept, u - ((kept * u).sum(axis=1) / points)[:, None], 0.0)
        mean = (kept * v).sum(axis=1) / points
        dv = np.where(kept, v - mean[:, None], 0.0)
        spread = (du**2).sum(axis=1)
        distinct = spread > 1e-24 * (1 + (kept * u**2).sum(axis=1))  # equal abscissae leave rounding errors
        slope = np.where(distinct, (du * dv).sum(axis=1) / spread, np.nan)
        intercept = mean - slope * (kept * u).sum(axis=1) / points
    residual = ((dv - slope[:, None] * du) ** 2).sum(axis=1)
    return _Lines(slope, intercept, residual, (dv**2).sum(axis=1), spread, points)


def _abscissa(law: str, x: Floats) -> Floats:
    if law not in _ABSCISSA:
        raise unknown("law", str(law), _ABSCISSA)
    return _ABSCISSA[law](x)


def _points(x: ArrayLike, y: ArrayLike) -> tuple[Floats, Floats]:
    """Check x and y: same length, x positive and finite with two distinct values, y positive or infinite."""
    x, y = as_floats("x", x), as_times(y, "y")
    require(x.shape == y.shape, f"x and y must have the same length; got {x.size} and {y.size}")
    require(np.all((x > 0) & np.isfinite(x)), f"x must be positive and finite; got x={x.tolist()}")
    require(np.all(y > 0), f"y must be positive to have a logarithm; got y={y.tolist()}")
    require(np.unique(x).size >= 2, f"a slope needs at least two different x; got x={x.tolist()}")
    return x, y


def _assemble(law: Law, lines: _Lines, exponent: Interval, given: int) -> Fit:
    points, total, residual = int(lines.points[0]), float(lines.total[0]), float(lines.residual[0])
    varies = math.isfinite(residual) and total > 1e-24
    r_squared = 1 - residual / total if varies else math.nan
    return Fit(law, exponent, float(np.exp(lines.intercept[0])), r_squared, residual, points, given - points)


def _fit(law: Law, x: ArrayLike, y: ArrayLike, level: float) -> Fit:
    x, y = _points(x, y)
    require_fraction("level", level)
    lines = _lines(_abscissa(law, x), y[None, :])
    slope, freedom = float(lines.slope[0]), int(lines.points[0]) - 2
    width = math.inf
    if freedom > 0 and math.isfinite(slope):
        error = math.sqrt(lines.residual[0] / freedom / lines.spread[0])
        width = float(stats.t.ppf((1 + level) / 2, freedom)) * error
    low, high = (slope - width, slope + width) if math.isfinite(slope) else (-math.inf, math.inf)
    exponent = Interval(slope, low, high, level, f"Student t, {max(freedom, 0)} dof")
    return _assemble(law, lines, exponent, y.size)


def power_law_fit(x: ArrayLike, y: ArrayLike, *, level: float = 0.95) -> Fit:
    """Fit y = a x^b to points (m,); the interval of b is Student's, from the scatter about the line.

    With two points there is no scatter to see and the interval is unbounded. Use `scaling_fit` when the
    trials behind each point are at hand: it measures their spread instead of assuming one.
    """
    return _fit("power", x, y, level)


def exponential_fit(x: ArrayLike, y: ArrayLike, *, level: float = 0.95) -> Fit:
    """Fit y = a e^{b x}; otherwise as `power_law_fit`."""
    return _fit("exponential", x, y, level)


# --- from the trials themselves -----------------------------------------------------------------------------


def _resampled_quantiles(
    groups: Groups, q: float, level: float, resamples: int, seed: int
) -> tuple[Floats, Floats, Floats]:
    """Sizes (m,) ascending, their q-quantiles (m,), and those of resamples within groups (resamples, m)."""
    require(isinstance(groups, Mapping) and len(groups), f"groups must map sizes to times; got {groups!r}")
    require_fraction("q", q, closed=True)
    require_resampling(level, resamples, seed)
    numbers = all(isinstance(n, (int, float, np.number)) for n in groups)
    require(numbers, f"the keys of groups must be numbers; got {list(groups)!r}")
    samples = {float(n): np.sort(as_times(groups[n], f"groups[{n!r}]")) for n in sorted(groups)}
    streams = np.random.default_rng(seed).spawn(len(samples))
    values, draws = [], []
    for (n, ordered), rng in zip(samples.items(), streams, strict=True):
        require(ordered[0] > 0, f"times must be positive to have a logarithm; groups[{n:g}] contains 0")
        rank = quantile_rank(ordered.size, q)
        values.append(ordered[rank - 1])
        draws.append(ordered[resampled_positions(ordered.size, [rank], resamples, rng)[:, 0]])
    x, y = _points(list(samples), values)
    return x, y, np.stack(draws, axis=1)


def _scaling_fit(law: Law, x: Floats, y: Floats, draws: Floats, level: float) -> tuple[Fit, _Lines]:
    """The fit to (x, y) and the lines through the resampled quantiles of the same points."""
    u, kept = _abscissa(law, x), np.isfinite(y)
    lines, resampled = _lines(u, y[None, :]), _lines(u[kept], draws[:, kept])
    exponent = percentile_interval(lines.slope[0], resampled.slope, level, "percentile bootstrap")
    return _assemble(law, lines, exponent, y.size), resampled


def scaling_fit(
    groups: Groups,
    law: Law = "power",
    *,
    q: float = 0.5,
    level: float = 0.95,
    resamples: int = 1000,
    seed: int = 0,
) -> Fit:
    """Fit a law to the q-quantiles of `groups` = {n: times (trials,)}; bootstrap interval of the exponent.

    Every resample draws the trials of each n again, takes the quantiles and fits them. A point that is
    infinite in the data is dropped throughout; one that is infinite in a resample is dropped there. A
    resample left with fewer than two points widens the interval (see `percentile_interval`). The interval
    speaks of sampling error only: a curve that is no power law has a sharp exponent all the same, which is
    what `r_squared`, `compare_laws` and `elbow` are for.
    """
    x, y, draws = _resampled_quantiles(groups, q, level, resamples, seed)
    return _scaling_fit(law, x, y, draws, level)[0]


def straightness(
    groups: Groups,
    law: Law = "power",
    *,
    q: float = 0.5,
    level: float = 0.95,
    resamples: int = 1000,
    seed: int = 0,
) -> Interval:
    """R² of the law's fit to the q-quantiles, with its interval over resamples of the trials behind each point."""
    x, y, draws = _resampled_quantiles(groups, q, level, resamples, seed)
    fit, lines = _scaling_fit(law, x, y, draws, level)
    with np.errstate(divide="ignore", invalid="ignore"):
        drawn = np.where(lines.total > 1e-24, 1 - lines.residual / lines.total, np.nan)
    return percentile_interval(fit.r_squared, drawn, level, "percentile bootstrap", highest=1.0)


@dataclass(frozen=True)
class LawComparison:
    """A power law against an exponential, on the same points."""

    power: Fit
    exponential: Fit
    delta_aic: float  # exponential.aic - power.aic: positive favours the power law
    power_share: float  # share of bootstrap resamples in which the power law has the smaller residual
    preferred: Literal["power", "exponential", "undecided"]


def compare_laws(
    groups: Groups, *, q: float = 0.5, level: float = 0.95, resamples: int = 1000, seed: int = 0
) -> LawComparison:
    """Which law describes the quantiles better. Both have two parameters, so AIC compares residuals of log y.

    A difference below 2 is *undecided* (Burnham & Anderson 2002, section 2.6), and so are fewer than three
    finite points, through which both laws pass exactly.
    """
    x, y, draws = _resampled_quantiles(groups, q, level, resamples, seed)
    power, power_lines = _scaling_fit("power", x, y, draws, level)
    exponential, exponential_lines = _scaling_fit("exponential", x, y, draws, level)
    delta, share = 0.0, math.nan
    if power.points >= 3:
        delta = exponential.aic - power.aic
        # Resamples that lost points fit both laws exactly and say nothing: half a vote each.
        decided = power_lines.points >= 3
        better = power_lines.residual < exponential_lines.residual
        share = float(np.where(decided, better, 0.5).mean())
    preferred: Literal["power", "exponential", "undecided"]
    preferred = "undecided" if abs(delta) < 2 else "power" if delta > 0 else "exponential"
    return LawComparison(power, exponential, delta, share, preferred)


# --- curvature ----------------------------------------------------------------------------------------------


def law_preference(
    groups: Groups, *, q: float = 0.5, level: float = 0.95, resamples: int = 1000, seed: int = 0
) -> Interval:
    """ΔAIC = AIC(exponential) - AIC(power law) with its interval over resamples: positive favours the power law."""
    x, y, draws = _resampled_quantiles(groups, q, level, resamples, seed)
    comparison = compare_laws(groups, q=q, level=level, resamples=resamples, seed=seed)
    _, power = _scaling_fit("power", x, y, draws, level)
    _, exponential = _scaling_fit("exponential", x, y, draws, level)
    with np.errstate(divide="ignore", invalid="ignore"):
        drawn = power.points * np.log(exponential.residual / power.residual)
    value = comparison.delta_aic if comparison.power.points >= 3 else math.nan
    return percentile_interval(value, np.where(power.points >= 3, drawn, np.nan), level, "percentile bootstrap")


def local_slopes(x: ArrayLike, y: ArrayLike) -> tuple[Floats, Floats]:
    """Geometric midpoints of neighbouring finite points, and the slopes of log y on log x between them."""
    x, y = _points(x, y)
    kept = np.isfinite(y)
    order = np.argsort(x[kept], kind="stable")
    u, v = np.log(x[kept][order]), np.log(y[kept][order])
    require(np.all(np.diff(u) > 0), f"local slopes need distinct x; got x={x.tolist()}")
    return np.exp((u[1:] + u[:-1]) / 2), np.diff(v) / np.diff(u)


@dataclass(frozen=True)
class Elbow:
    """The exponent over the lower and the upper half of n, and how much it grows from one to the other."""

    lower: Interval
    upper: Interval
    difference: Interval  # upper - lower
    points: int


def elbow(groups: Groups, *, q: float = 0.5, level: float = 0.95, resamples: int = 1000, seed: int = 0) -> Elbow:
    """How much the power-law exponent worsens with n: slope of the upper half minus slope of the lower half.

    Figure 5.2 right claims a positive difference. Halves of the sizes whose quantile is finite; with an odd
    number the middle size belongs to both. Fewer than three points have no two slopes, and the difference is
    NaN with an unbounded interval.
    """
    x, y, draws = _resampled_quantiles(groups, q, level, resamples, seed)
    kept = np.isfinite(y)
    u, y, draws = np.log(x[kept]), y[kept], draws[:, kept]
    half = (u.size + 1) // 2
    slopes = [
        (_lines(u[part], y[None, part]).slope[0], _lines(u[part], draws[:, part]).slope)
        for part in (slice(0, half), slice(u.size - half, u.size))
    ]
    (lower, lower_draws), (upper, upper_draws) = slopes
    return Elbow(
        percentile_interval(lower, lower_draws, level, "percentile bootstrap"),
        percentile_interval(upper, upper_draws, level, "percentile bootstrap"),
        percentile_interval(upper - lower, upper_draws - lower_draws, level, "percentile bootstrap"),
        int(u.size),
    )


@dataclass(frozen=True)
class CoarseScaling:
    """The bound t_c(n) <= c (n - n0)^alpha."""

    c: float
    alpha: float
    n0: float


def coarse_scaling(times: Mapping[float, float], n0: float = 9) -> CoarseScaling:
    """The smallest (c, alpha) with t_c(n) <= c (n-n0)^alpha and equality at n = n0+1 (Figure B.5).

    c = t_c(n0+1) and alpha = max over larger n of log(t_c(n)/c)/log(n-n0); the source has n in {10, 20, 30}
    and n0 = 9. `times` maps n to one number, the source's being the 10th percentile over seeds. alpha is
    infinite if a larger n never converged, and NaN if n0+1 did not, for then there is nothing to scale from.
    """
    enough = isinstance(times, Mapping) and n0 + 1 in times and len(times) >= 2
    require(enough, f"coarse_scaling needs t_c at n={n0 + 1} and at one larger n; got {times!r}")
    x, y = _points(list(times), list(times.values()))
    require(np.all(x >= n0 + 1), f"every n must be at least n0+1={n0 + 1}; got n={x.tolist()}")
    c = float(times[n0 + 1])
    larger = x > n0 + 1
    alpha = float(np.max(np.log(y[larger] / c) / np.log(x[larger] - n0))) if math.isfinite(c) else math.nan
    return CoarseScaling(c, alpha, n0)
