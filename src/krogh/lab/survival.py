"""Whole distributions of convergence times under censoring: step functions with a band.

`ecdf` is for trials that share one budget, a failure being `np.inf`; `kaplan_meier` takes trials whose
budgets differ, and is told when each was given up.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy import stats

from krogh.errors import require
from krogh.lab.estimate import Floats, as_times, require_fraction


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
    survival = stats.ecdf(stats.CensoredData.right_censored(times, ~seen)).sf
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
