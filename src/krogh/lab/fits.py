"""Laws fitted to curves: how convergence times and sample sizes grow.

Of log y, by ordinary least squares, as chapter 5 does (`power_law`, `exponential_law`):

    power        y = a x^b        log y against log x
    exponential  y = a e^{b x}    log y against x

Of y itself with errors N(0, s²), so that their likelihoods can be compared with one another (`fit_growth`):

    logarithmic  y = a + b ln x      linear  y = a + b x      power  y = a x^b

A slope is linear in its points, so its draws follow from theirs by interval arithmetic, and a point that was not
reached bounds it from one side (`exponent`). What is not monotone (R², differences of AIC) is computed on one number
per draw. The laws of chapter 5 are fitted where the median is finite (`curve.reached`): how many points were dropped is
part of the result. Where fewer than two points remain there is no slope, and nothing is decided.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from krogh.errors import require, unknown
from krogh.lab.curves import Curve
from krogh.lab.estimate import Estimate, Floats, drawn, unknown_estimate

Law = Literal["power", "exponential"]
Growth = Literal["logarithmic", "linear", "power"]
GROWTHS: tuple[Growth, ...] = ("logarithmic", "linear", "power")
_ABSCISSA: dict[str, Callable[[Floats], Floats]] = {"power": np.log, "exponential": lambda x: x}
_LINES: dict[str, Callable[[Floats], Floats]] = {"logarithmic": np.log, "linear": lambda x: x}


def aic(residual: Floats | float, points: int) -> Floats:
    """Akaike's criterion of a law with two parameters and Gaussian errors, m ln(residual/m) + 6: lower is better.

    Exact data leave rounding errors only; without the floor two perfect fits would be told apart by those.
    """
    return points * np.log(np.maximum(np.asarray(residual, float) / points, 1e-24)) + 6


# --- laws of log y --------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Fit:
    """A law fitted to the points that were reached: `exponent` is b above (the rate, for an exponential)."""

    law: Law
    exponent: Estimate
    prefactor: float
    r_squared: Estimate  # of log y
    residual: float  # sum of squared residuals of log y
    points: int
    dropped: int  # points left out because they were not reached

    def predict(self, x: ArrayLike) -> Floats:
        """The fitted law at `x`."""
        return self.prefactor * np.exp(self.exponent.value * _ABSCISSA[self.law](np.asarray(x, dtype=float)))


class _Lines(NamedTuple):
    """Least-squares lines of log y, one per row; NaN where a row has fewer than two points."""

    slope: Floats
    intercept: Floats
    residual: Floats
    total: Floats


def _lines(u: Floats, values: Floats) -> _Lines:
    """Regress every row of log `values` (rows, m) on `u` (m,), leaving out infinite values row by row."""
    kept = np.isfinite(values) & (values > 0)
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
    return _Lines(slope, intercept, residual, (dv**2).sum(axis=1))


def _levers(u: Floats) -> Floats:
    """How the slope of a line depends on each ordinate: slope = Σ lever·v."""
    centred = u - u.mean()
    return np.where(np.abs(centred) < 1e-12, 0.0, centred / (centred**2).sum())


def _slope_of_logs(curve: Curve, u: Floats) -> Estimate:
    """The slope of log y on u, over all points; one that was not reached bounds it from one side."""
    lever, (least, most) = _levers(u), curve.ends()
    values = curve.value

    def slope(at_right: Floats, at_left: Floats) -> Floats:
        """The slope with these y where they raise it, and those where they lower it."""
        with np.errstate(divide="ignore", invalid="ignore"):
            logs = np.log(np.where(lever > 0, at_right, np.where(lever < 0, at_left, 1.0)))
            return np.where(lever == 0, 0.0, lever * logs).sum(axis=-1)

    value = math.nan if not np.all(np.isfinite(values)) else float(slope(values, values))
    rule = f"slope of {len(curve)} points; {curve.y[0].rule.split(',')[0]}"
    return drawn(value, slope(least, most), curve.samples, rule, most=slope(most, least))


def exponent(curve: Curve) -> Estimate:
    """The slope of ln y on ln x by least squares over all points (qSTR, M10).

    A point that was not reached, to the right of the centre, bounds it only from below, one to the left only from
    above: the value is NaN then, and the interval holds every slope that the missing values allow.
    """
    if len(curve) < 2:
        return unknown_estimate(f"a slope needs at least two points; got {len(curve)}")
    return _slope_of_logs(curve, np.log(curve.x))


def _fit(law: Law, curve: Curve) -> Fit:
    reached = curve.reached
    if len(reached) < 2:
        nothing = unknown_estimate(f"{len(reached)} points were reached; a slope needs two")
        return Fit(law, nothing, math.nan, nothing, math.nan, len(reached), len(curve) - len(reached))
    u = _ABSCISSA[law](reached.x)
    lines = _lines(u, reached.value[None, :])
    found = _slope_of_logs(reached, u)
    return Fit(
        law,
        Estimate(float(lines.slope[0]), found.least, found.most, found.samples, found.rule),
        float(np.exp(lines.intercept[0])),
        _r_squared(lines, _lines(u, reached.points()), reached),
        float(lines.residual[0]),
        len(reached),
        len(curve) - len(reached),
    )


def _r_squared(lines: _Lines, resampled: _Lines, curve: Curve) -> Estimate:
    with np.errstate(divide="ignore", invalid="ignore"):
        value, draws = (
            np.where(each.total > 1e-24, 1 - each.residual / each.total, np.nan) for each in (lines, resampled)
        )
    return squared_correlation(float(value[0]), draws, curve)


def squared_correlation(value: float, draws: Floats, curve: Curve) -> Estimate:
    """R² with its draws. Drawing adds the noise of the trials once more, and noise lowers R²: the lower end lies too
    low, on the side of doubt, and the upper end is as far above the value as draws lie from it, on either side."""
    with np.errstate(invalid="ignore"):
        above = np.minimum(1.0, np.maximum(draws, 2 * value - draws))
    above = np.where(np.isnan(above), 1.0, above)
    below = np.where(np.isnan(draws), 0.0, np.clip(draws, 0.0, 1.0))
    return drawn(value, below, curve.samples, f"R² of {len(curve)} points, draws reflected", most=above)


def power_law(curve: Curve) -> Fit:
    """y = a x^b through the points that were reached.

    The exponent's interval speaks of sampling error only: a curve that is no power law has a sharp exponent all the
    same, which is what `r_squared`, `law_preference` and `elbow` are for.
    """
    return _fit("power", curve)


def exponential_law(curve: Curve) -> Fit:
    """y = a e^{b x}; otherwise as `power_law`."""
    return _fit("exponential", curve)


def law_preference(curve: Curve) -> Estimate:
    """ΔAIC = AIC(exponential) - AIC(power law) of log y: positive favours the power law, below 2 is undecided
    (Burnham & Anderson 2002, section 2.6). Fewer than three points decide nothing: both laws pass through two."""
    reached = curve.reached
    if len(reached) < 3:
        return unknown_estimate(f"{len(reached)} points were reached; two laws need three to differ")
    drawn_values = reached.points()
    power, exponential = (
        [_lines(_ABSCISSA[law](reached.x), rows).residual for rows in (reached.value[None, :], drawn_values)]
        for law in ("power", "exponential")
    )
    value, draws = (aic(e, len(reached)) - aic(p, len(reached)) for p, e in zip(power, exponential, strict=True))
    return _evidence(float(value[0]), draws, reached)


def _evidence(value: float, draws: Floats, curve: Curve) -> Estimate:
    """A difference of AIC. Drawing blurs every law, so draws lie nearer to 0 than the value: both ends hold it."""
    rule = f"ΔAIC of {len(curve)} points"
    with np.errstate(invalid="ignore"):
        return drawn(value, np.minimum(draws, value), curve.samples, rule, most=np.maximum(draws, value))


@dataclass(frozen=True)
class Elbow:
    """The exponent over the lower and the upper half of x, and how much it grows from one to the other."""

    lower: Estimate
    upper: Estimate
    difference: Estimate  # upper - lower
    points: int


def elbow(curve: Curve) -> Elbow:
    """How much the power-law exponent worsens with n: slope of the upper half minus slope of the lower half.

    Figure 5.2 right claims a positive difference. Halves of the sizes that were reached; with an odd number the middle
    one belongs to both. Fewer than three points have no two slopes.
    """
    reached = curve.reached
    if len(reached) < 3:
        nothing = unknown_estimate(f"{len(reached)} points were reached; two slopes need three")
        return Elbow(nothing, nothing, nothing, len(reached))
    half = (len(reached) + 1) // 2
    halves = reached.take(range(half)), reached.take(range(len(reached) - half, len(reached)))
    lower, upper = (exponent(part) for part in halves)
    return Elbow(lower, upper, upper - lower, len(reached))


def line_slope(x: ArrayLike, y: ArrayLike) -> float:
    """The slope of the line through points that are not estimated, by least squares; NaN of fewer than two."""
    u, v = np.asarray(x, float), np.asarray(y, float)
    return float(np.polyfit(u, v, 1)[0]) if u.size > 1 else math.nan


def line_bend(x: ArrayLike, y: ArrayLike) -> float:
    """How far the points are from the line through them, at most, as a share of the range of y; 0 on a line."""
    u, v = np.asarray(x, float), np.asarray(y, float)
    left = v - np.polyval(np.polyfit(u, v, 1), u)
    return float(np.abs(left).max() / np.ptp(v))


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
    x, y = np.array(list(times), float), np.array(list(times.values()), float)
    require(np.all(y > 0), f"times must be positive; got {times!r}")
    require(np.all(x >= n0 + 1), f"every n must be at least n0+1={n0 + 1}; got n={x.tolist()}")
    c = float(times[n0 + 1])
    larger = x > n0 + 1
    alpha = float(np.max(np.log(y[larger] / c) / np.log(x[larger] - n0))) if math.isfinite(c) else math.nan
    return CoarseScaling(c, alpha, n0)


# --- laws of y itself -----------------------------------------------------------------------------------------


def _two_parameters(law: str, x: Floats, y: Floats) -> tuple[Floats, Floats, Floats]:
    """a, b and the sum of squared residuals of the law for every row of finite y (rows, points)."""
    if law in _LINES:
        u = _LINES[law](x)
        middle, mean = u.mean(), y.mean(axis=1)
        slope = ((u - middle) * y).sum(axis=1) / ((u - middle) ** 2).sum()
        a = mean - slope * middle
        return a, slope, ((y - a[:, None] - slope[:, None] * u) ** 2).sum(axis=1)
    if law != "power":
        raise unknown("law of growth", str(law), GROWTHS)
    u = np.log(x / np.exp(np.log(x).mean()))  # centred: x^b neither overflows nor underflows

    def residual(power: Floats) -> tuple[Floats, Floats]:
        """The best prefactor for each exponent (rows,), and what it leaves."""
        curve = np.exp(power[:, None] * u)
        prefactor = (curve * y).sum(axis=1) / (curve**2).sum(axis=1)
        return prefactor, ((y - prefactor[:, None] * curve) ** 2).sum(axis=1)

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
    power = (low + high) / 2
    prefactor, left_over = residual(power)
    return prefactor * np.exp(-power * np.log(x).mean()), power, left_over


@dataclass(frozen=True)
class GrowthFit:
    """A fitted law of growth; `a` and `b` as in the head of the module."""

    law: Growth
    a: Estimate
    b: Estimate
    r_squared: Estimate  # of y itself
    residual: float
    points: int
    missing: int  # points left out because they were not reached

    @property
    def aic(self) -> float:
        return float(aic(self.residual, self.points)) if self.points else math.nan

    def predict(self, x: ArrayLike) -> Floats:
        """The fitted law at `x`."""
        at = np.asarray(x, dtype=float)
        return (
            self.a.value * at**self.b.value
            if self.law == "power"
            else self.a.value + self.b.value * _LINES[self.law](at)
        )


def _over_draws(law: str, curve: Curve) -> tuple[Floats, Floats, Floats]:
    """The fit of every draw (draws,); NaN where one has a point that was not reached."""
    draws = curve.points()
    whole = np.isfinite(draws).all(axis=1)
    result = np.full((3, draws.shape[0]), np.nan)
    if whole.any():
        result[:, whole] = _two_parameters(law, curve.x, draws[whole])
    return result[0], result[1], result[2]


def fit_growth(curve: Curve, law: Growth = "logarithmic") -> GrowthFit:
    """Fit a law of growth to the points that were reached, by least squares on y.

    Points that were not reached are left out of the values and make their intervals unbounded: what was left out is
    the part of the curve that grows most. To speak of the range that was reached, measure that range.
    """
    if law not in GROWTHS:
        raise unknown("law of growth", str(law), GROWTHS)
    reached = curve.reached
    if len(reached) < 2:
        nothing = unknown_estimate(f"{len(reached)} points were reached; a law of growth needs two")
        return GrowthFit(law, nothing, nothing, nothing, math.nan, len(reached), curve.missing)
    y = reached.value
    a, b, residual = (float(part[0]) for part in _two_parameters(law, reached.x, y[None, :]))
    total = float(((y - y.mean()) ** 2).sum())
    varies = total > 1e-24 * max(1.0, float((y**2).sum()))
    value = 1 - residual / total if varies else math.nan
    if curve.missing:
        unbounded = np.array([-math.inf]), np.array([math.inf])
        rule = f"{curve.missing} points were not reached"
        whole = [Estimate(part, *unbounded, reached.samples, rule) for part in (a, b, value)]
        return GrowthFit(law, whole[0], whole[1], whole[2], residual, len(reached), curve.missing)
    draws_a, draws_b, left = _over_draws(law, reached)
    spread = reached.points()
    with np.errstate(divide="ignore", invalid="ignore"):
        r_squared = 1 - left / ((spread - spread.mean(axis=1, keepdims=True)) ** 2).sum(axis=1)
    rule = f"least squares over draws of {len(reached)} points"
    return GrowthFit(
        law,
        drawn(a, draws_a, reached.samples, rule),
        drawn(b, draws_b, reached.samples, rule),
        squared_correlation(value, r_squared, reached),
        residual,
        len(reached),
        0,
    )


@dataclass(frozen=True)
class GrowthComparison:
    """The three laws on the same points."""

    fits: dict[Growth, GrowthFit]
    akaike_weights: dict[Growth, float]  # exp(-ΔAIC/2), summing to 1; NaN with fewer than three points
    preferred: Growth | Literal["undecided"]  # the law of lowest AIC, or "undecided" if another is within 2 of it


def compare_growth(curve: Curve) -> GrowthComparison:
    """Fit all three laws. Each has two parameters and the same error model, so AIC compares residuals of y."""
    fits = {law: fit_growth(curve, law) for law in GROWTHS}
    if fits["linear"].points < 3 or math.isnan(fits["linear"].residual):
        return GrowthComparison(fits, dict.fromkeys(GROWTHS, math.nan), "undecided")
    behind = np.array([fits[law].aic for law in GROWTHS])
    behind -= behind.min()
    shares = np.exp(-behind / 2) / np.exp(-behind / 2).sum()
    decided = np.sort(behind)[1] >= 2
    preferred = GROWTHS[int(behind.argmin())] if decided else "undecided"
    return GrowthComparison(fits, dict(zip(GROWTHS, shares.tolist(), strict=True)), preferred)


def growth_evidence(curve: Curve, favoured: Growth = "logarithmic", rival: Growth = "linear") -> Estimate:
    """AIC(rival) - AIC(favoured): positive speaks for `favoured`. Fewer than three points, or one that was not
    reached, decide nothing; a draw in which one was not reached widens the interval."""
    count = len(curve.reached)
    if curve.missing or count < 3:
        return unknown_estimate(f"{count} of {len(curve)} points were reached; two laws need all, and three or more")
    values = [float(_two_parameters(law, curve.x, curve.value[None, :])[2][0]) for law in (rival, favoured)]
    worse, better = (_over_draws(law, curve)[2] for law in (rival, favoured))
    value = float(aic(values[0], count) - aic(values[1], count))
    return _evidence(value, aic(worse, count) - aic(better, count), curve)
