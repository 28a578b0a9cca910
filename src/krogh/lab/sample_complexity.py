"""Sample complexity: how many examples training needs, offline and online.

*Offline* a trial keeps m examples and succeeds or fails; many trials at each m of a grid give success rates, and the
sample complexity m_p is where the rate reaches p (chapter 4, A.3.1: p = 0.8 over 40 trials). *Online* a run sees fresh
examples until its test error falls below a threshold, and the samples consumed are themselves the measurement (qSTR,
Figure 1; `krogh.lab.curves.mean_samples`). "Not reached" is a legal value of both: `np.inf`.

Counts are given as {m: (successes, trials)} or {m: booleans (trials,)}. Where a neighbouring size decides as well,
e.g. the width of a network, the same functions apply.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from krogh.errors import KroghError, require, require_integer, unknown
from krogh.lab.curves import Curve, curve
from krogh.lab.estimate import DRAWS, Estimate, Floats, drawn, maximum, rate, require_fraction, stream

Counts = Mapping[Any, Any]  # {size: (successes, trials)} or {size: booleans (trials,)}
Reading = Literal["first", "all larger", "isotonic"]
READINGS = ("first", "all larger", "isotonic")


def run_success(accuracy: ArrayLike, above: float = 0.99) -> NDArray[np.bool_]:
    """Whether a run succeeded: the best accuracy over its evaluations exceeds `above`; (..., evaluations) -> (...).

    The best, not the last (A.3.1). NaN, an evaluation that never took place, is no success.
    """
    require_fraction("above", above)
    return np.any(np.asarray(accuracy, dtype=float) > above, axis=-1)


def trial_success(runs: ArrayLike) -> NDArray[np.bool_]:
    """Whether a trial succeeded in any of its restarts; (..., restarts) booleans -> (...)."""
    runs = np.asarray(runs)
    require(runs.dtype == bool and runs.ndim, f"runs must be booleans (..., restarts); got {runs.dtype} {runs.shape}")
    return np.any(runs, axis=-1)


# --- offline: counts of successes ---------------------------------------------------------------------------


@dataclass(frozen=True)
class Cells:
    """Success counts over a grid of sizes, ascending; all of shape (sizes,)."""

    sizes: Floats
    successes: Floats
    trials: Floats

    @property
    def rates(self) -> Floats:
        return self.successes / self.trials


def as_cells(counts: Counts) -> Cells:
    """Counts checked and sorted by size."""
    require(isinstance(counts, Mapping) and len(counts), f"counts must map sizes to successes; got {counts!r}")
    rows = []
    for size, cell in counts.items():
        number = isinstance(size, (int, float, np.number)) and not isinstance(size, bool)
        require(number and 0 < size < math.inf, f"sizes must be positive numbers; got {size!r}")
        given = np.asarray(cell)
        if given.dtype == bool and given.ndim == 1:
            successes, trials = int(given.sum()), given.size
        elif given.shape == (2,):
            successes, trials = cell  # as given: an array would make 2 of them 2.0
        else:
            raise KroghError(f"counts[{size!r}] must be (successes, trials) or a vector of booleans; got {cell!r}")
        require_integer(f"trials of counts[{size!r}]", trials, 1)
        require_integer(f"successes of counts[{size!r}]", successes, 0, trials)
        rows.append((float(size), float(successes), float(trials)))
    sizes, hits, totals = np.array(sorted(rows)).T
    require(np.all(np.diff(sizes) > 0), f"sizes must differ; got {sizes.tolist()}")
    return Cells(sizes, hits, totals)


def success_rates(counts: Counts, *, sample: str = "") -> Curve:
    """The success rate at each size with its interval (each at 95% by itself)."""
    cells = as_cells(counts)
    rows = zip(cells.sizes, cells.successes, cells.trials, strict=True)
    return curve({m: rate(int(hits), int(trials), sample=f"{sample}, m={m:g}") for m, hits, trials in rows})


def _first(reached: NDArray[np.bool_]) -> NDArray[np.intp]:
    """The place of the first True in each row (..., sizes); the number of sizes where there is none."""
    return np.where(reached.any(axis=-1), reached.argmax(axis=-1), reached.shape[-1])


def _at(sizes: Floats, place: NDArray[np.intp]) -> Floats:
    return np.append(sizes, math.inf)[place]


def smallest_size(counts: Counts, p: float = 0.8, *, and_all_larger: bool = False) -> float:
    """m* = min{m in the grid : rate(m) >= p}, the source's sample complexity; `inf` where no size reaches p.

    With `and_all_larger` every larger size must reach p too. The first hit of noisy rates lies too low and the last
    miss too high; `crossing` estimates what both are after.
    """
    require_fraction("p", p)
    cells = as_cells(counts)
    return float(_smallest(cells, cells.rates, p, and_all_larger))


def _smallest(cells: Cells, rates: Floats, p: float, and_all_larger: bool) -> Floats:
    reached = rates >= p - 1e-12  # 32/40 is 0.8
    if and_all_larger:
        reached = np.logical_and.accumulate(reached[..., ::-1], axis=-1)[..., ::-1]
    return _at(cells.sizes, _first(reached))


def isotonic(rates: ArrayLike, weights: ArrayLike) -> Floats:
    """The non-decreasing rates nearest to `rates` (..., sizes) in squares weighted by `weights` (sizes,).

    By the min-max formula max_{j<=i} min_{k>=i} mean(j..k) (Robertson, Wright & Dykstra 1988, theorem 1.4.4), for all
    rows at once.
    """
    rates, weights = np.asarray(rates, dtype=float), np.asarray(weights, dtype=float)
    count = rates.shape[-1]
    sums = np.cumsum(np.concatenate([np.zeros_like(rates[..., :1]), rates * weights], axis=-1), axis=-1)
    totals = np.cumsum(np.concatenate([[0.0], weights]))
    start, end = np.arange(count)[:, None], np.arange(count)[None, :]
    inside = start <= end
    length = np.where(inside, totals[end + 1] - totals[start], 1.0)
    means = np.where(inside, (sums[..., end + 1] - sums[..., start]) / length, math.inf)
    least = np.minimum.accumulate(means[..., ::-1], axis=-1)[..., ::-1]  # over the ends k >= i
    return np.max(np.where(inside, least, -math.inf), axis=-2)


def _isotonic_crossing(cells: Cells, rates: Floats, p: float) -> Floats:
    """Where the isotonic rates, straight in log m between the sizes, reach p; NaN at or below the smallest size."""
    fitted, logs = isotonic(rates, cells.trials), np.log(cells.sizes)
    place = _first(fitted >= p - 1e-12)
    upper = np.clip(place, 1, len(logs) - 1) if len(logs) > 1 else np.zeros_like(place)
    below, above = (np.take_along_axis(fitted, (upper - back)[..., None], -1)[..., 0] for back in (1, 0))
    inside = (place >= 1) & (place < len(logs))
    share = (p - below) / np.where(inside & (above > below), above - below, 1.0)
    between = np.exp(logs[upper - 1] + share * (logs[upper] - logs[upper - 1]))
    return np.where(inside, np.minimum(between, cells.sizes[upper]), np.where(place == 0, np.nan, math.inf))


def _read(reading: str, cells: Cells, rates: Floats, p: float) -> Floats:
    if reading == "isotonic":
        return _isotonic_crossing(cells, rates, p)
    if reading in ("first", "all larger"):
        return _smallest(cells, rates, p, reading == "all larger")
    raise unknown("reading", str(reading), READINGS)


def crossing(counts: Counts, p: float = 0.8, *, reading: Reading = "isotonic", sample: str = "") -> Estimate:
    """Where the success rate reaches p, with draws from the trials of each cell; `sample` names the row of cells.

    Readings: "first" and "all larger" are `smallest_size`'s rules and stay on the grid; "isotonic" joins the
    non-decreasing regression of the rates by straight lines in log m. A sigmoid in log m is fitted by
    `krogh.lab.frontier`, where it needs lapses: without them one failure in ten at large m moves m_p by 15%.

    Each draw takes every cell's rate from Beta(successes + 1/2, failures + 1/2), the smooth bootstrap of a
    Bernoulli sample: the literal one would find no doubt in a cell of 8 successes out of 8. With 40 trials at 16 sizes
    the isotonic interval covered the crossing of 18 of 19 smooth curves in at least 93% of simulations; where the curve
    levels off at 0.85, just above p, in 86%, for it lies high there. It speaks of sampling error only: between
    neighbouring sizes the straight line is an assumption. The estimate is `inf`, beyond the largest size,
    where p is not reached, and the smallest size where it is reached there already; as nobody looked below, the lower
    end is then 0.
    """
    require_fraction("p", p)
    cells = as_cells(counts)
    misses = cells.trials - cells.successes
    name = f"{sample}, {', '.join(f'{m:g}' for m in cells.sizes)}"
    rates = stream("crossing", name).beta(cells.successes + 0.5, misses + 0.5, size=(DRAWS, cells.sizes.size))
    draws, value = _read(reading, cells, rates, p), float(_read(reading, cells, cells.rates, p))
    smallest, largest = float(cells.sizes[0]), float(cells.sizes[-1])
    value = smallest if math.isnan(value) else value
    below = np.isnan(draws) | (draws <= smallest)
    least = np.where(below, 0.0, np.where(np.isinf(draws), largest, draws))
    most = np.where(below, smallest, draws)
    samples = {name: int(cells.trials.sum())}
    rule = f"{reading} crossing of {cells.sizes.size} cells, Beta draws"
    return drawn(value, least, samples, rule, most=most, horizon=largest)


def crossings(rows: Mapping[Any, Counts], p: float = 0.8, *, reading: Reading = "isotonic", sample: str = "") -> Curve:
    """m_p at each T from `rows` = {T: {m: (successes, trials)}}; `sample` tells these rows from others."""
    return curve({key: crossing(counts, p, reading=reading, sample=f"{sample}{key}") for key, counts in rows.items()})


# --- where more does harm -----------------------------------------------------------------------------------------


class Fall(NamedTuple):
    """The largest drop of a success rate between two sizes, the larger of which does worse."""

    drop: Estimate
    first: float
    second: float


def largest_fall(counts: Counts, *, sample: str = "") -> Fall:
    """max_{m1<m2} (p(m1) - p(m2)) along a row (M7), with an interval that allows for having chosen the pair.

    Its lower end is above 0 where some pair falls although all pairs were looked at; a row that only rises has 0 or
    less as its true value.
    """
    rates = success_rates(counts, sample=sample)
    require(len(rates) > 1, f"a fall is between two sizes; got {len(rates)}")
    pairs = list(itertools.combinations(range(len(rates)), 2))
    first, second = max(pairs, key=lambda pair: rates.y[pair[0]].value - rates.y[pair[1]].value)
    drop = maximum([rates.y[low] - rates.y[high] for low, high in pairs])
    return Fall(drop, float(rates.x[first]), float(rates.x[second]))
