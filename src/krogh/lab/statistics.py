"""Quantiles and rates of convergence times, with an interval for each, and the tools the siblings share.

A trial that never converged is *censored*: its convergence time is `np.inf`. That is right when all trials
had the same budget and only quantiles are asked for, because an order statistic needs no more than "later
than the others". Trials with different budgets go through `kaplan_meier` in `krogh.lab.survival`.

Scaling laws are fitted in `krogh.lab.fits`; what tells a sample of times from random search is measured in
`krogh.lab.times`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import stats

from krogh.errors import KroghError, require, require_integer, unknown

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Interval:
    """An estimate and its confidence interval. Ends may be infinite; an undefined estimate is NaN."""

    value: float
    low: float
    high: float
    level: float
    method: str

    def contains(self, x: float) -> bool:
        """Whether `x` lies in the closed interval [low, high]."""
        return self.low <= x <= self.high

    def __str__(self) -> str:
        return f"{self.value:.4g} [{self.low:.4g}, {self.high:.4g}]"


# --- checks and tools shared by the sibling modules ---------------------------------------------------------


def as_floats(name: str, values: ArrayLike) -> Floats:
    """`values` as a non-empty vector of floats without NaN, or a `KroghError` that shows what is wrong."""
    try:
        array = np.asarray(values, dtype=float)
    except (TypeError, ValueError):
        raise KroghError(f"{name} must be a sequence of numbers; got {name}={values!r}") from None
    require(array.ndim == 1 and array.size, f"{name} must be a non-empty vector; got shape {array.shape}")
    bad = np.flatnonzero(np.isnan(array))
    if bad.size:
        raise KroghError(f"{name} must not contain NaN; got {name}[{bad[0]}]=nan ({bad.size} of {array.size})")
    return array


def as_times(times: ArrayLike, name: str = "times") -> Floats:
    """Convergence times as a vector in [0, inf]. A negative time (a sentinel such as -1) is refused."""
    array = as_floats(name, times)
    bad = np.flatnonzero(array < 0)
    if bad.size:
        got = f"{name}[{bad[0]}]={array[bad[0]]:g}"
        raise KroghError(f"{name} must be at least 0, and np.inf for a trial that never converged; got {got}")
    return array


def require_fraction(name: str, value: float, *, closed: bool = False) -> None:
    """Require `value` in (0, 1), or in [0, 1] when `closed`."""
    number = isinstance(value, (int, float, np.number)) and not isinstance(value, bool)
    inside = number and (0 <= value <= 1 if closed else 0 < value < 1)
    require(
        inside,
        f"{name} must lie {'in [0, 1]' if closed else 'strictly between 0 and 1'}; got {name}={value!r}",
    )


def require_resampling(level: float, resamples: int, seed: int) -> None:
    """Check the three arguments that every bootstrap takes."""
    require_fraction("level", level)
    require_integer("resamples", resamples, 1)
    require_integer("seed", seed, 0)


def quantile_rank(size: int, q: float) -> int:
    """The rank r in 1..size of the q-quantile, r = max(1, ceil(size q))."""
    # 100 * 0.07 is 7.000000000000001: without the slack the rank would be 8.
    return min(max(math.ceil(size * q * (1 - 1e-12)), 1), size)


def resampled_positions(size: int, ranks: Sequence[int], resamples: int, rng: np.random.Generator) -> NDArray[np.intp]:
    """Where order statistics of bootstrap resamples lie in the sorted sample; shape (resamples, len(ranks)).

    A resample draws positions floor(size U_i) with U_i uniform. Sorting commutes with that monotone map, so
    the order statistic of rank r sits at floor(size U_(r)), and U_(r) is Beta(r, size + 1 - r) for the
    highest rank and U_(s) Beta(r, s - r) for the next lower ones. This is the bootstrap itself, not an
    approximation of it, at a cost that does not depend on `size`. `ranks` are 1-based and ascending.
    """
    uniform, above, columns = np.ones(resamples), size + 1, []
    for rank in reversed(ranks):
        if rank < above:
            uniform = uniform * rng.beta(rank, above - rank, size=resamples)
        columns.append(uniform)
        above = rank
    positions = (size * np.stack(columns[::-1], axis=1)).astype(np.intp)
    return np.minimum(positions, size - 1)


def percentile_interval(
    value: float,
    draws: Floats,
    level: float,
    method: str,
    *,
    lowest: float = -math.inf,
    highest: float = math.inf,
) -> Interval:
    """The percentile bootstrap interval from `draws` (resamples,), by order statistics, rounded outwards.

    A draw on which the statistic is undefined (NaN) counts as `lowest` for the lower end and as `highest` for
    the upper end: it is evidence of ignorance and may only widen the interval.
    """
    rank = max(math.floor(len(draws) * (1 - level) / 2 + 1e-9), 1)
    low = np.sort(np.where(np.isnan(draws), lowest, draws))[rank - 1]
    high = np.sort(np.where(np.isnan(draws), highest, draws))[len(draws) - rank]
    return Interval(float(value), float(low), float(high), level, f"{method}, {len(draws)} resamples")


# --- quantiles ----------------------------------------------------------------------------------------------


def quantile(times: ArrayLike, q: float = 0.5) -> float:
    """The q-quantile of censored times: the smallest t with F_n(t) >= q (numpy's `inverted_cdf`).

    It is always one of the observed times, so nothing is ever averaged with infinity: the median is infinite
    exactly when more than half of the trials failed. For an even number of trials this is the *lower* median.
    """
    times = as_times(times)
    require_fraction("q", q, closed=True)
    position = quantile_rank(times.size, q) - 1
    return float(np.partition(times, position)[position])


def bootstrap_quantile(
    times: ArrayLike, q: float = 0.5, *, level: float = 0.95, resamples: int = 1000, seed: int = 0
) -> Interval:
    """Percentile bootstrap interval of `quantile(times, q)`.

    An end is infinite where enough resamples fail. Chapter 5 uses 100 resamples of the median. The resamples
    are drawn through `resampled_positions`, so a million times cost one sort.
    """
    ordered = np.sort(as_times(times))
    require_fraction("q", q, closed=True)
    require_resampling(level, resamples, seed)
    rank = quantile_rank(ordered.size, q)
    positions = resampled_positions(ordered.size, [rank], resamples, np.random.default_rng(seed))
    return percentile_interval(ordered[rank - 1], ordered[positions[:, 0]], level, "percentile bootstrap")


def quantile_interval(times: ArrayLike, q: float = 0.5, *, level: float = 0.95) -> Interval:
    """Distribution-free interval of the q-quantile by order statistics, covering at least `level` for any
    law.

    With N ~ Bin(n, q), [X_(l), X_(u)] where l is the largest rank with Pr[N < l] <= (1-level)/2 and u the
    smallest with Pr[N >= u] <= (1-level)/2 (David & Nagaraja, Order Statistics, section 7.1). Where the
    sample is too small for such a rank the end is 0 or infinity: no bootstrap says so. An infinite lower end
    reads "beyond the budget".
    """
    ordered = np.sort(as_times(times))
    require_fraction("q", q)
    require_fraction("level", level)
    law = stats.binom(ordered.size, q)
    lower, upper = int(law.ppf((1 - level) / 2)), int(law.ppf((1 + level) / 2)) + 1
    low = ordered[lower - 1] if lower >= 1 else 0.0
    high = ordered[upper - 1] if upper <= ordered.size else math.inf
    value = ordered[quantile_rank(ordered.size, q) - 1]
    return Interval(float(value), float(low), float(high), level, "order statistics")


# --- rates --------------------------------------------------------------------------------------------------


def proportion(
    successes: int,
    trials: int,
    *,
    level: float = 0.95,
    method: Literal["clopper-pearson", "wilson"] = "clopper-pearson",
) -> Interval:
    """A success rate. Clopper-Pearson never covers less than `level`; Wilson is shorter, right on average."""
    require_integer("trials", trials, 1)
    require_integer("successes", successes, 0, trials)
    require_fraction("level", level)
    names: dict[str, Literal["exact", "wilson"]] = {"clopper-pearson": "exact", "wilson": "wilson"}
    if method not in names:
        raise unknown("interval method", str(method), names)
    ci = stats.binomtest(int(successes), int(trials)).proportion_ci(level, method=names[method])
    return Interval(successes / trials, float(ci.low), float(ci.high), level, method)
