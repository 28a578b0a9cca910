"""The shape of a sample of convergence times: luck, skewness, dependence on the start, and random search.

If training were a memoryless search among the C(n,k) supports, its times would be geometric: a fair share of
trials would succeed near t = 0 and all starts would be alike. The functions here measure how far that is from
the truth (section 5.3 and Figure 5.2 of the source). Censored times are `np.inf`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy import stats

from krogh.errors import require
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


@dataclass(frozen=True)
class GeometricTest:
    """Kolmogorov-Smirnov distance to a geometric law."""

    distance: float
    p_value: float  # an upper bound
    trials: int
    censored: int


def geometric_ks(times: ArrayLike, p: float, *, every: int = 1, horizon: float | None = None) -> GeometricTest:
    """Distance sup_t |F_n(t) - F(t)| of times to Geom(p) on {1, 2, ...}, F(t) = 1 - (1-p)^t, and its p-value.

    Random search over supports has p = 1/C(n,k). Where success is looked for only every `every` steps, a
    geometric time is seen rounded up, and so F is taken at multiples of `every`; it would otherwise be
    rejected for the rounding.

    With censored times the supremum is over t <= `horizon` (the budget) or, without one, up to the last
    finite time. The p-value is that of the exact Kolmogorov distribution for a *continuous* law. For a
    discrete law it is conservative (Noether 1963; Conover 1972), and so it is for a supremum over a part of
    the line: under random search Pr[p_value <= a] <= a, so a rejection stands.
    """
    times = as_times(times)
    require_fraction("p", p, closed=True)
    require(p > 0, f"p must be positive; got p={p!r}")
    require(every > 0 and math.isfinite(every), f"every must be a positive number of steps; got every={every!r}")
    finite = np.sort(times[np.isfinite(times)])
    censored = times.size - finite.size
    if horizon is None:
        require(finite.size, f"all {times.size} times are infinite: give the budget as horizon=")
    else:
        late = finite[-1] if finite.size else 0.0
        require(
            late <= horizon < math.inf,
            f"horizon must be finite and at least every finite time, {late:g}; got horizon={horizon!r}",
        )

    def law(looks: Floats) -> Floats:
        """F after so many looks."""
        if p == 1:
            return (looks >= 1).astype(float)
        return -np.expm1(np.maximum(looks, 0) * every * math.log1p(-p))

    steps, counts = np.unique(finite, return_counts=True)
    after = np.cumsum(counts) / times.size
    before = after - counts / times.size
    # Between two steps of F_n only F moves, upwards: the extremes are at a step and at the look before the
    # next.
    gaps = [np.abs(after - law(np.floor(steps / every))), np.abs(before - law(np.ceil(steps / every) - 1))]
    if horizon is not None:
        gaps.append(np.abs([finite.size / times.size - law(np.floor(np.array(horizon / every)))]))
    distance = float(np.max(np.concatenate(gaps)))
    return GeometricTest(distance, float(stats.kstwo.sf(distance, times.size)), int(times.size), int(censored))


def early_luck(times: ArrayLike, *, level: float = 0.95, resamples: int = 1000, seed: int = 0) -> Interval:
    """min T / median T, in [0, 1]: near 0 for a memoryless search, whose luckiest trials succeed at once.

    Of n geometric trials it is about 1/(n log 2). NaN with interval [0, 1] when the median is infinite or 0.
    The interval is a percentile bootstrap; a resample's minimum is never below the sample's, so the lower end
    speaks of the median's error only, and the ratio of the population (which a longer run may lower) is not
    what it covers.
    """
    ordered = np.sort(as_times(times))
    require_resampling(level, resamples, seed)
    ranks = [1, quantile_rank(ordered.size, 0.5)]
    positions = resampled_positions(ordered.size, ranks, resamples, np.random.default_rng(seed))
    columns = np.vstack([np.array(ranks) - 1, positions])
    least, median = ordered[columns].T
    defined = (median > 0) & np.isfinite(median)
    ratio = np.where(defined, np.where(defined, least, 0) / np.where(defined, median, 1), np.nan)
    return percentile_interval(ratio[0], ratio[1:], level, "percentile bootstrap", lowest=0.0, highest=1.0)


def skewness(
    times: ArrayLike,
    *,
    q: float = 0.1,
    log: bool = True,
    level: float = 0.95,
    resamples: int = 1000,
    seed: int = 0,
) -> Interval:
    """Quantile skewness of log T, or of T if not `log`: (Q_{1-q} + Q_q - 2 Q_{1/2}) / (Q_{1-q} - Q_q).

    In [-1, 1]: 0 for a symmetric law, positive for a heavy upper tail. On the log scale a log-normal law has
    0 and random search is negative (-0.22 for an exponential law at q = 0.1). Quantiles are used because a
    third moment cannot be had from censored times, and leaving those out would cut off the very tail in
    question. NaN with interval [-1, 1] when Q_{1-q} is infinite or equals Q_q. (Kelley's coefficient for q =
    0.1, Bowley's for q = 0.25.)
    """
    ordered = np.sort(as_times(times))
    require_fraction("q", q)
    require(q < 0.5, f"q must lie strictly between 0 and 1/2; got q={q!r}")
    require_resampling(level, resamples, seed)
    if log:
        require(ordered[0] > 0, "times must be positive to have a logarithm; got 0 among them")
        ordered = np.log(ordered)
    ranks = [quantile_rank(ordered.size, level_q) for level_q in (q, 0.5, 1 - q)]
    positions = resampled_positions(ordered.size, ranks, resamples, np.random.default_rng(seed))
    low, mid, high = ordered[np.vstack([np.array(ranks) - 1, positions])].T
    defined = np.isfinite(high) & (high > low)
    low, mid, high = (np.where(defined, part, fill) for part, fill in ((low, 0.0), (mid, 0.5), (high, 1.0)))
    # As a difference of two shares of the range: rounding cannot carry it beyond [-1, 1].
    skew = np.where(defined, (high - mid) / (high - low) - (mid - low) / (high - low), np.nan)
    return percentile_interval(skew[0], skew[1:], level, "percentile bootstrap", lowest=-1.0, highest=1.0)


def intraclass_correlation(
    values: ArrayLike, groups: ArrayLike, *, level: float = 0.95, horizon: float | None = None
) -> Interval:
    """ICC(1): the share of the variance of `values` (trials,) that lies between `groups` (trials,).

    Groups may have labels of any type. One-way analysis of variance: (MSB - MSW) / (MSB + (k0-1) MSW) with k0
    = (N - sum n_i^2 / N)/(a - 1), the size of a group when all are equal. The interval comes from F = MSB/MSW
    (Shrout & Fleiss 1979), exact for normal values and equal groups, approximate otherwise. The source takes
    values = log t_c and groups = the shared initialisation.

    Infinite values are left out; with `horizon` (in the units of `values`, e.g. the log of the budget) they
    are set to it instead. The two answers bracket the damage done by failures: report both. NaN with interval
    [-1, 1] when fewer than two groups remain, no group has two members, or nothing varies.
    """
    values, groups = as_floats("values", values), np.asarray(groups)
    require(
        groups.shape == values.shape,
        f"groups must have the shape of values, {values.shape}; got {groups.shape}",
    )
    require_fraction("level", level)
    require(not np.any(np.isneginf(values)), "values must not contain -inf (the log of a time 0)")
    failed = np.isposinf(values)
    method = "one-way ANOVA, F"
    require(horizon is None or math.isfinite(horizon), f"horizon must be finite; got horizon={horizon!r}")
    if failed.any() and horizon is None:
        values, groups = values[~failed], groups[~failed]
        method += f", {failed.sum()} censored dropped"
    elif horizon is not None and failed.any():
        values = np.where(failed, horizon, values)
        method += f", {failed.sum()} censored at {horizon:g}"
    _, member, sizes = np.unique(groups, return_inverse=True, return_counts=True)
    number, total = sizes.size, values.size
    undefined = Interval(math.nan, -1.0, 1.0, level, method)
    if number < 2 or total <= number:
        return undefined
    means = np.bincount(member, weights=values) / sizes
    between = float((sizes * (means - values.mean()) ** 2).sum()) / (number - 1)
    within = float(((values - means[member]) ** 2).sum()) / (total - number)
    rounding = (np.finfo(float).eps * float(np.abs(values).max())) ** 2 * total
    if within <= rounding:
        return undefined if between <= rounding else Interval(1.0, 1.0, 1.0, level, method)
    k0 = (total - float((sizes.astype(float) ** 2).sum()) / total) / (number - 1)
    ratio = between / within
    tail = (1 + level) / 2
    lower = ratio / stats.f.ppf(tail, number - 1, total - number)
    upper = ratio * stats.f.ppf(tail, total - number, number - 1)
    value, low, high = ((r - 1) / (r + k0 - 1) for r in (ratio, lower, upper))
    return Interval(float(value), float(low), float(high), level, method)


def plateau_fraction(steps: ArrayLike, errors: ArrayLike, t_c: ArrayLike, level: float = 0.45) -> Floats:
    """The share of [0, t_c] during which the error exceeds `level`; shape of `t_c`.

    `errors` (..., points) was measured at `steps` (points,), increasing; an error holds until the next
    measurement, and the first one back to 0. `t_c` has the leading shape of `errors`. NaN where `t_c` is
    infinite: a plateau that was never left has no length. 0 where `t_c` is 0. Errors after t_c, and of trials
    without one, may be NaN.
    """
    steps = as_times(steps, "steps")
    require(np.all(np.diff(steps) > 0) and np.isfinite(steps[-1]), f"steps must increase; got {steps.tolist()}")
    errors, t_c = np.asarray(errors, dtype=float), np.asarray(t_c, dtype=float)
    require(
        errors.shape == (*t_c.shape, steps.size),
        f"errors must have shape {(*t_c.shape, steps.size)}, t_c's and then steps'; got {errors.shape}",
    )
    require(np.all(t_c >= 0), f"t_c must be at least 0, and np.inf for a trial that never converged; got {t_c!r}")
    require_fraction("level", level)
    starts, ends = np.concatenate([[0.0], steps[1:]]), np.concatenate([steps[1:], [math.inf]])
    end = np.where(np.isfinite(t_c), t_c, 0.0)[..., None]
    lengths = np.clip(np.minimum(ends, end) - starts, 0.0, None)
    require(not np.any(np.isnan(errors) & (lengths > 0)), "errors must not be NaN before t_c")
    share = (lengths * (errors > level)).sum(axis=-1) / np.where(end[..., 0] > 0, end[..., 0], 1.0)
    return np.where(np.isfinite(t_c), share, np.nan)[()]
