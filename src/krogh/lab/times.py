"""Samples of convergence times under censoring: their distribution, and what its shape says of the search behind it.

`ecdf` and `kaplan_meier` are whole distributions, step functions with a band: the first for trials that share one
budget, a failure being `np.inf`; the second for trials whose budgets differ, told when each was given up.

If training were a memoryless search among the C(n,k) supports, its times would be geometric: a fair share of trials
would succeed near t = 0 and all starts would be alike. The other functions measure how far that is from the truth
(section 5.3 and Figure 5.2 of the source): luck, skewness, dependence on the start, the distance to random search.

`first_times` reads times off curves, and `Grokking` sets the time at which a sample is fitted beside the one at which
the task is learned (section B.3.5).
"""

from __future__ import annotations

import functools
import math
import warnings
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import scipy
from numpy.typing import ArrayLike

from krogh.errors import require
from krogh.lab.estimate import (
    Estimate,
    Floats,
    as_floats,
    as_times,
    exact,
    median,
    median_time,
    quantiles,
    require_fraction,
    sample_name,
    tails,
    unknown_estimate,
)


@dataclass(frozen=True)
class StepCurve:
    """A right-continuous step function with a band: `value[i]` holds on [times[i], times[i+1])."""

    times: Floats
    value: Floats
    low: Floats
    high: Floats
    start: float  # the value before times[0]
    level: float
    method: str

    def at(self, t: ArrayLike) -> Floats:
        """The curve at `t`, any shape."""
        steps = np.concatenate([[self.start], self.value])
        return steps[np.searchsorted(self.times, np.asarray(t, dtype=float), side="right")]


def dkw_width(count: int, alpha: ArrayLike) -> Floats:
    """Half the width of a band that holds a whole distribution function with confidence 1-α: √(log(2/α)/(2n))."""
    return np.sqrt(np.log(2 / np.asarray(alpha, float)) / (2 * count))


def ecdf(times: ArrayLike, *, level: float = 0.95) -> StepCurve:
    """The empirical distribution function F_n(t) = #{T_i <= t}/n of times that share one budget.

    Steps at the finite times only, and ends at the success rate. The band is simultaneous over all t,
    half-width sqrt(log(2/(1-level))/(2n)) (Dvoretzky-Kiefer-Wolfowitz with Massart's constant), clipped to
    [0, 1].
    """
    times = as_times(times)
    require_fraction("level", level)
    steps, counts = np.unique(times[np.isfinite(times)], return_counts=True)
    value = np.cumsum(counts) / times.size
    width = float(dkw_width(times.size, 1 - level))
    low, high = np.maximum(value - width, 0), np.minimum(value + width, 1)
    return StepCurve(steps, value, low, high, 0.0, level, "Dvoretzky-Kiefer-Wolfowitz band")


def kaplan_meier(times: ArrayLike, observed: ArrayLike, *, level: float = 0.95) -> StepCurve:
    """The Kaplan-Meier estimate of S(t) = Pr[T > t] = prod_{t_i <= t} (1 - d_i/r_i), budgets free to differ.

    `times` (trials,) is the convergence time where `observed` and the budget that ran out where not; all
    finite. Steps at every distinct time; a trial censored at t is at risk at t. The band is pointwise,
    Greenwood's variance on the log(-log S) scale. Where that is undefined: while no trial has converged (S=1)
    the band is the exact binomial one for none out of those at risk; once S=0 it keeps the last upper end,
    for S cannot rise again.
    """
    times = as_times(times)
    require(
        np.all(np.isfinite(times)),
        "kaplan_meier needs finite times: give the budget and observed=False; got inf",
    )
    seen = np.asarray(observed)
    require(
        seen.dtype == bool and seen.shape == times.shape,
        f"observed must be booleans of shape {times.shape}; got {seen.dtype} of shape {seen.shape}",
    )
    require_fraction("level", level)
    survival = scipy.stats.ecdf(scipy.stats.CensoredData.right_censored(times, ~seen)).sf
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # "undefined at some observations": filled in below
        band = survival.confidence_interval(level, method="log-log")
    steps, value = survival.quantiles, survival.probabilities
    low, high = (np.array(end.probabilities) for end in (band.low, band.high))
    none, over = value == 1, value == 0
    at_risk = times.size - np.searchsorted(np.sort(times), steps)
    tail = ((1 - level) / 2) ** (1 / at_risk)
    low[none], high[none] = tail[none], 1.0
    low[over] = 0.0
    if over.any():  # only the last step can reach zero
        high[-1] = high[-2] if len(steps) > 1 else 1 - tail[-1]
    return StepCurve(steps, value, low, high, 1.0, level, "Kaplan-Meier, Greenwood log-log")


def ks_distance(times: ArrayLike, p: float, *, every: int = 1, horizon: float | None = None) -> Estimate:
    """Distance sup_t |F_n(t) - F(t)| of times to Geom(p) on {1, 2, ...}, F(t) = 1 - (1-p)^t.

    Random search over supports has p = 1/C(n,k). Where success is looked for only every `every` steps, a
    geometric time is seen rounded up, and so F is taken at multiples of `every`; it would otherwise be
    rejected for the rounding. With censored times the supremum is over t <= `horizon` (the budget) or, without one, up
    to the last finite time. The interval is Dvoretzky, Kiefer and Wolfowitz's: F_n is within √(log(2/α)/(2n)) of the
    true law, and so is the distance of the one from that of the other.
    """
    distance = _distance(times, p, every, horizon)
    count = np.asarray(times).size
    # A two-sided band at level 1-2a has ends of one-sided confidence at least 1-a each.
    lower = lambda a: np.maximum(distance - dkw_width(count, 2 * a), 0.0)  # noqa: E731
    upper = lambda a: np.minimum(distance + dkw_width(count, 2 * a), 1.0)  # noqa: E731
    samples = {sample_name(None, times): count}
    return tails(distance, lower, upper, samples, f"Dvoretzky–Kiefer–Wolfowitz, {count} trials")


def geometric_p_value(times: ArrayLike, p: float, *, every: int = 1, horizon: float | None = None) -> float:
    """How often random search would be as far from Geom(p) as these times, at most.

    That of the exact Kolmogorov distribution for a *continuous* law. For a discrete law it is conservative (Noether
    1963; Conover 1972), and so it is for a supremum over a part of the line: under random search
    Pr[p_value <= a] <= a, so a rejection stands.
    """
    return float(scipy.stats.kstwo.sf(_distance(times, p, every, horizon), np.asarray(times).size))


def _distance(times: ArrayLike, p: float, every: int, horizon: float | None) -> float:
    times = as_times(times)
    require_fraction("p", p, closed=True)
    require(p > 0, f"p must be positive; got p={p!r}")
    require(every > 0 and math.isfinite(every), f"every must be a positive number of steps; got every={every!r}")
    finite = np.sort(times[np.isfinite(times)])
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
    return float(np.max(np.concatenate(gaps)))


def early_luck(times: ArrayLike) -> Estimate:
    """min T / median T, in [0, 1]: near 0 for a memoryless search, whose luckiest trials succeed at once.

    Of n geometric trials it is about 1/(n log 2). The minimum is that of these very trials; the interval speaks of the
    median's error only, and the ratio of the population (which a longer run may lower) is not what it covers.
    """
    numbers = as_times(times)
    (middle,) = quantiles(numbers, [0.5], lowest=0.0)
    if not 0 < middle.value < math.inf:
        return unknown_estimate("the median is 0 or infinite")
    return (exact(float(numbers.min())) / middle).clipped(0.0, 1.0)


def skewness(times: ArrayLike, *, q: float = 0.1, log: bool = True) -> Estimate:
    """Quantile skewness of log T, or of T if not `log`: (Q_{1-q} + Q_q - 2 Q_{1/2}) / (Q_{1-q} - Q_q).

    In [-1, 1]: 0 for a symmetric law, positive for a heavy upper tail. On the log scale a log-normal law has
    0 and random search is negative (-0.22 for an exponential law at q = 0.1). Quantiles are used because a
    third moment cannot be had from censored times, and leaving those out would cut off the very tail in
    question. Unknown when Q_{1-q} is infinite or equals Q_q. (Kelley's coefficient for q = 0.1, Bowley's for
    q = 0.25.)
    """
    numbers = as_times(times)
    require_fraction("q", q)
    require(q < 0.5, f"q must lie strictly between 0 and 1/2; got q={q!r}")
    if log:
        require(numbers.min() > 0, "times must be positive to have a logarithm; got 0 among them")
        numbers = np.log(numbers)
    low, middle, high = quantiles(numbers, [q, 0.5, 1 - q])
    if not (math.isfinite(high.value) and high.value > low.value):
        return unknown_estimate("the upper quantile is infinite, or equals the lower one")
    # As a share of the range, which falls with the median and rises with both others: 2(Q_{1-q} - Q_{1/2})/range - 1.
    above, below = high - middle, middle - low
    ends = [_share(above.least, below.most), _share(above.most, below.least)]
    value = float(_share(np.array(above.value), np.array(below.value)))
    return Estimate(value, ends[0], ends[1], low.samples, low.rule).clipped(-1.0, 1.0)


def _share(above: Floats, below: Floats) -> Floats:
    """(above - below)/(above + below) of two lengths: rising in the first, falling in the second."""
    above, below = np.maximum(above, 0.0), np.maximum(below, 0.0)
    with np.errstate(invalid="ignore"):
        share = np.where(np.isinf(above), 1.0, np.where(np.isinf(below), -1.0, (above - below) / (above + below)))
    return np.where(np.isnan(share), 0.0, share)


def intraclass_correlation(values: ArrayLike, groups: ArrayLike, *, horizon: float | None = None) -> Estimate:
    """ICC(1): the share of the variance of `values` (trials,) that lies between `groups` (trials,).

    Groups may have labels of any type. One-way analysis of variance: (MSB - MSW) / (MSB + (k0-1) MSW) with k0
    = (N - sum n_i^2 / N)/(a - 1), the size of a group when all are equal. The interval comes from F = MSB/MSW
    (Shrout & Fleiss 1979), exact for normal values and equal groups, approximate otherwise. The source takes
    values = log t_c and groups = the shared initialisation.

    Infinite values are left out; with `horizon` (in the units of `values`, e.g. the log of the budget) they
    are set to it instead. The two answers bracket the damage done by failures: report both. Unknown when fewer
    than two groups remain, no group has two members, or nothing varies.
    """
    values, groups = as_floats("values", values), np.asarray(groups)
    require(
        groups.shape == values.shape,
        f"groups must have the shape of values, {values.shape}; got {groups.shape}",
    )
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
    undefined = unknown_estimate("the groups do not tell variance between from variance within")
    if number < 2 or total <= number:
        return undefined
    means = np.bincount(member, weights=values) / sizes
    between = float((sizes * (means - values.mean()) ** 2).sum()) / (number - 1)
    within = float(((values - means[member]) ** 2).sum()) / (total - number)
    rounding = (np.finfo(float).eps * float(np.abs(values).max())) ** 2 * total
    if within <= rounding:
        return undefined if between <= rounding else exact(1.0, total)
    k0 = (total - float((sizes.astype(float) ** 2).sum()) / total) / (number - 1)
    ratio = between / within

    def correlation(f: Floats) -> Floats:
        return (f - 1) / (f + k0 - 1)

    law = scipy.stats.f(number - 1, total - number)
    samples = {sample_name(None, values): int(total)}
    lower = lambda a: correlation(ratio / law.isf(a))  # noqa: E731
    upper = lambda a: correlation(ratio / law.ppf(a))  # noqa: E731
    return tails(float(correlation(np.array(ratio))), lower, upper, samples, f"{method}, {total} trials")


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


def first_times(steps: Iterable[ArrayLike], values: Iterable[ArrayLike], *, at_most: float) -> Floats:
    """For each trial the first of its `steps` at which its value is at most `at_most`; ∞ where none is.

    Both hold one sequence per trial (list columns of a table, say), of any lengths; NaN is a value that was not
    measured. The time is that of a look: what happened lies between it and the look before.
    """
    found = []
    for own_steps, own in zip(steps, values, strict=True):
        step, value = np.asarray(own_steps, float), np.asarray(own, float)
        require(step.shape == value.shape, f"a curve has a value for each step; got {value.shape} and {step.shape}")
        reached = np.flatnonzero(value <= at_most)
        found.append(step[reached[0]] if reached.size else math.inf)
    return np.array(found)


@dataclass(frozen=True, eq=False)
class Grokking:
    """When each trial fitted its sample (`train`) and when it had learned the task (`test`); ∞ for never.

    All trials were given up at `horizon`. A trial groks where the second time is much later than the first; it
    memorises where the first is finite and the second is not. The gap and the ratio are those of trials that fitted:
    their medians have distribution-free intervals, with ∞ for what never generalised, and a test before the fit (a
    sample with wrong labels, or a small one for judging) is a gap below 0 and a ratio below 1.
    """

    train: Floats
    test: Floats
    horizon: float
    sample: str | None = None

    def __post_init__(self) -> None:
        for name in ("train", "test"):
            object.__setattr__(self, name, as_times(getattr(self, name), name))
        same = self.train.shape == self.test.shape
        require(same, f"every trial has both times; got {self.train.shape} and {self.test.shape}")
        late = float(np.max(np.concatenate([self.train, self.test]), where=self._finite, initial=0.0))
        require(late <= self.horizon < math.inf, f"horizon must be finite and at least {late:g}; got {self.horizon!r}")

    @property
    def _finite(self) -> np.ndarray:
        return np.isfinite(np.concatenate([self.train, self.test]))

    @property
    def fitted(self) -> np.ndarray:
        """Which trials fitted their sample."""
        return np.isfinite(self.train)

    @functools.cached_property
    def fit_time(self) -> Estimate:
        """The median of t_train."""
        return median_time(self.train, horizon=self.horizon, sample=self.sample)

    @functools.cached_property
    def test_time(self) -> Estimate:
        """The median of t_test."""
        return median_time(self.test, horizon=self.horizon, sample=self.sample)

    @functools.cached_property
    def gap(self) -> Estimate:
        """The median of t_test - t_train over trials that fitted."""
        later = self.test[self.fitted] - self.train[self.fitted]
        return median(later, sample=self.sample, nothing=f"no trial fitted its sample within {self.horizon:g} steps")

    @functools.cached_property
    def ratio(self) -> Estimate:
        """The median of t_test / t_train over trials that fitted, and of looks after the start."""
        chosen = self.fitted & (self.train > 0)
        later, none = (
            self.test[chosen] / self.train[chosen],
            f"no trial fitted its sample within {self.horizon:g} steps",
        )
        return median(later, lowest=0.0, sample=self.sample, nothing=none)

    def grokked(self, factor: float) -> np.ndarray:
        """Which trials fitted, and learned the task no earlier than `factor` times as late."""
        require(factor >= 1, f"factor must be at least 1; got factor={factor!r}")
        return self.fitted & np.isfinite(self.test) & (self.test >= factor * np.where(self.fitted, self.train, 0.0))


def predictiveness(measure: ArrayLike, times: ArrayLike) -> Estimate:
    """Spearman's correlation between a measure at one early moment and the convergence time, over trials.

    A progress measure is one that is not independent of how long a trial still takes (dissertation, §5.5): progress
    that is more advanced ends earlier, so the correlation is negative. Ranks are all that counts, and trials that never
    converged share the last one. The interval is Bonett and Wright's: artanh r is normal with variance
    (1 + r²/2)/(n - 3). Unknown for fewer than four trials, or where nothing varies.
    """
    seen, late = as_floats("measure", measure), as_times(times)
    require(seen.shape == late.shape, f"every trial has a measure and a time; got {seen.shape} and {late.shape}")
    count = seen.size
    if count < 4 or np.ptp(scipy.stats.rankdata(seen)) == 0 or np.ptp(scipy.stats.rankdata(late)) == 0:
        return unknown_estimate("a rank correlation needs four trials whose measures and times differ")
    value = float(np.corrcoef(scipy.stats.rankdata(seen), scipy.stats.rankdata(late))[0, 1])
    spread = math.sqrt((1 + value**2 / 2) / (count - 3))
    most = 1 - 6 / (count**3 - count)  # half of the least that two orders can differ by: a perfect one is no certainty
    middle = np.arctanh(min(max(value, -most), most))
    ends = lambda a, side: np.tanh(middle + side * scipy.stats.norm.isf(a) * spread)  # noqa: E731
    samples = {sample_name(None, np.concatenate([seen, late])): count}
    rule = f"Spearman, Bonett–Wright, {count} trials"
    return tails(value, lambda a: ends(a, -1), lambda a: ends(a, 1), samples, rule)
