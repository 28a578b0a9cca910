"""What a table of conjunction trials says about the sample complexity m*(T), as claims (chapter 4, E1 and P7)."""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from krogh.experiments.attention.replay import Replay
from krogh.lab import Claim, claim
from krogh.lab.growth import growth_evidence
from krogh.lab.measured import Measured, ratio
from krogh.lab.sample_complexity import Counts, Crossing, crossing
from krogh.lab.statistics import Floats, Interval, percentile_interval, proportion
from krogh.tasks.consistency import unique_probability
from krogh.theory.predictions.attention_limits import information_floor

FEWEST_TRIALS, FEWEST_LENGTHS, FEWEST_DRAWS = 10, 4, 100
FEWEST_TO_SAVE = 20  # trials per cell: a quarter of a smaller grid is no search
QUARTER = 0.25
SOURCE_POINT = (300, 70.0)  # the only value of m* that the source prints


@dataclass(frozen=True)
class Findings:
    """The sample complexities of a study and what lies behind them; `replays` only where the whole grid was trained."""

    settings: Any
    counts: dict[int, Counts]  # {T: {m: (successes, trials)}}
    measured: Measured
    intervals: dict[int, Interval]  # m* by T
    steps: dict[int, int]  # trained, by T
    replays: list[Replay]

    @property
    def lengths(self) -> list[int]:
        return sorted(self.counts)

    @property
    def trials(self) -> int:
        return sum(trials for cells in self.counts.values() for _, trials in cells.values())

    @property
    def grid_trials(self) -> int:
        """How many the whole grid takes."""
        return sum(len(self.settings.sizes_at(length)) for length in self.settings.lengths) * self.settings.trials

    @property
    def adaptive(self) -> bool:
        return self.settings.method == "adaptive"


@functools.lru_cache(maxsize=64)
def statistical_threshold(length: int, s: int, p: float = 0.8, draws: int = 400) -> Crossing:
    """The sample size at which a share p of data sets fit one index set only: what trying all would take (P7)."""
    bits = information_floor(length, s)["bits"]
    low, high = max(1, math.floor(bits)), math.ceil(3 * bits) + 4
    sizes = range(low, high + 1, max(1, (high - low) // 16))
    counts = {m: (round(unique_probability(length, s, m, draws) * draws), draws) for m in sizes}
    return crossing(counts, p)


def made_claims(found: Findings, source: str) -> list[Claim]:
    """All claims that the settings allow to make."""
    shared: dict[str, Any] = {"source": source, "trials": found.trials}
    claims = [*_growth(found, shared), *_at_the_source(found, shared), *_floors(found, shared)]
    if found.adaptive:
        return [*claims, _adaptive_cost(found, shared)]
    return [*claims, *_single_cells(found, shared), *_replayed(found, shared)]


def _limits(found: Findings, lengths: int = 1, below: bool = False) -> dict[str, Any]:
    """Whether the trials, and the lengths, can decide anything; `below`: m* must not lie below the smallest size."""
    fewest = found.settings.trials
    if fewest < FEWEST_TRIALS:
        return {"enough": False, "too_small": f"{fewest} trials per cell; a verdict needs {FEWEST_TRIALS}"}
    if len(found.lengths) < lengths:
        return {"enough": False, "too_small": f"{len(found.lengths)} lengths; this needs {lengths}"}
    hidden = [length for length in found.lengths if not found.intervals[length].low > 0] if below else []
    if hidden:
        least = found.settings.sizes_at(hidden[0])[0]
        return {"enough": False, "too_small": f"m* may lie below the smallest size {least} at T = {hidden[0]}"}
    return {"enough": True, "too_small": ""}


def straightness(measured: Measured) -> Interval:
    """R² of the regression of m* on ln T, the squared correlation, with its interval over the resamples.

    Resampling adds the noise of the trials once more, and noise lowers R². So the lower end lies too low, on the side
    of doubt, and the upper end is the basic bootstrap's, as far above the value as the lower end lies below it: most
    grids simulated from an exactly logarithmic law have an R² that their resamples put below 0.85.
    """
    if measured.missing or measured.x.size < 3:
        return Interval(math.nan, 0.0, 1.0, 0.95, "too few points")
    u = np.log(measured.x) - np.log(measured.x).mean()

    def squared(y: Floats) -> Floats:
        centred = y - y.mean(axis=-1, keepdims=True)
        total = (u**2).sum() * (centred**2).sum(axis=-1)
        return np.where(total > 0, (centred @ u) ** 2 / np.where(total > 0, total, 1.0), np.nan)

    whole = np.isfinite(measured.draws).all(axis=1)
    drawn = np.full(measured.draws.shape[0], np.nan)
    drawn[whole] = squared(measured.draws[whole])
    value = float(squared(measured.y))
    ends = percentile_interval(value, drawn, 0.95, "percentile bootstrap", lowest=0.0, highest=1.0)
    high = min(1.0, max(ends.high, 2 * value - ends.low))
    return Interval(value, ends.low, high, 0.95, f"{ends.method}; upper end basic")


def _growth(found: Findings, shared: dict[str, Any]) -> Iterator[Claim]:
    measured, lengths = found.measured, found.lengths
    yield claim(
        "logarithmic-fit",
        f"m*(T) is close to a straight line in log T over {len(lengths)} lengths, T = {lengths[0]} to {lengths[-1]}.",
        statistic="R² of m* on ln T",
        interval=straightness(measured),
        at_least=0.85,
        source_value="m* scales logarithmically with T",
        **_limits(found, FEWEST_LENGTHS, below=True),
        **shared,
    )
    yield claim(
        "logarithmic-not-linear",
        "A logarithm of T describes m*(T) better than a straight line in T.",
        statistic="AIC of the linear fit − AIC of the logarithmic fit",
        interval=growth_evidence(measured),
        above=0.0,
        source_value="logarithmic",
        **_limits(found, FEWEST_LENGTHS, below=True),
        **shared,
    )
    if len(lengths) >= 2:
        small, large = lengths[0], lengths[-1]
        most = 2.0 if small >= 100 else 3.0  # the floors themselves grow by 1.6 from 100 to 1100 and 1.8 from 25 to 200
        floors = [information_floor(length, found.settings.s)["bits"] for length in (small, large)]
        grown = floors[1] / floors[0]
        limits = _limits(found, below=True)
        if limits["enough"] and large < 4 * small:
            limits = {"enough": False, "too_small": f"T grows only from {small} to {large}; this needs a factor 4"}
        yield claim(
            "slow-growth",
            f"m* grows at most {most:g}-fold from T = {small} to {large}, where T grows {large / small:.3g}-fold and "
            f"log2 C(T,{found.settings.s}) {grown:.3g}-fold.",
            statistic=f"m*({large}) / m*({small})",
            interval=ratio(measured, large, measured, small),
            at_most=most,
            source_value="≤ 2 from T = 100 to 1100 (read off a logarithmic law)",
            **limits,
            **shared,
        )


def _at_the_source(found: Findings, shared: dict[str, Any]) -> Iterator[Claim]:
    length, value = SOURCE_POINT
    if length not in found.lengths:
        return
    for name, least, most in (("at-least-60", 60.0, None), ("at-most-90", None, 90.0)):
        yield claim(
            f"at-300-{name}",
            f"At T = 300 a Transformer needs {name.replace('-', ' ')} samples.",
            statistic="m*(300)",
            interval=found.intervals[length],
            at_least=least,
            at_most=most,
            unit="samples",
            source_value=f"≈ {value:g}",
            **_limits(found),
            **shared,
        )


def _least_ratio(over: Floats, over_draws: Floats, under: Floats, under_draws: Floats) -> Interval:
    """The smallest over the lengths of one size divided by another, with its interval over resamples of both."""
    value = float((over / under).min())
    drawn = (over_draws / under_draws[np.random.default_rng(0).permutation(len(under_draws))]).min(axis=1)
    return percentile_interval(value, drawn, 0.95, "percentile bootstrap", lowest=0.0)


def _floors(found: Findings, shared: dict[str, Any]) -> Iterator[Claim]:
    settings, measured, lengths = found.settings, found.measured, found.lengths
    bits = np.array([information_floor(length, settings.s)["bits"] for length in lengths])
    least, least_draws = measured.least, measured.draws_least
    yield claim(
        "above-the-floor",
        f"m* lies above the information floor log2 C(T,{settings.s}) at every length.",
        statistic=f"least m*(T) / log2 C(T,{settings.s}) over T",
        interval=_least_ratio(least, least_draws, bits, np.broadcast_to(bits, least_draws.shape)),
        above=1.0,
        source_value="m ≥ Ω(log C(T,s)) for every learner",
        **_limits(found, below=True),
        **shared,
    )
    brute = [statistical_threshold(length, settings.s, settings.p, settings.draws) for length in lengths]
    enough = {
        "enough": settings.draws >= FEWEST_DRAWS,
        "too_small": f"{settings.draws} draws; this needs {FEWEST_DRAWS}",
    }
    thresholds = np.array([one.interval.value for one in brute])
    limits = _limits(found, below=True)
    yield claim(
        "above-the-statistical-threshold",
        "The Transformer needs more samples than trying all index sets does, at every length.",
        statistic="least m*(T) / threshold of uniqueness over T",
        interval=_least_ratio(least, least_draws, thresholds, np.stack([one.draws for one in brute], axis=1)),
        above=1.0,
        source_value="not measured",
        **(limits if not limits["enough"] else enough),
        **shared,
    )


def _difference(first: tuple[int, int], second: tuple[int, int]) -> Interval:
    """Newcombe's interval of the difference of two success rates, from Wilson's of each."""
    one, two = (proportion(*cell, method="wilson") for cell in (first, second))
    value = one.value - two.value
    low = value - math.hypot(one.value - one.low, two.high - two.value)
    high = value + math.hypot(one.high - one.value, two.value - two.low)
    return Interval(value, low, high, 0.95, "Newcombe")


def _single_cells(found: Findings, shared: dict[str, Any]) -> Iterator[Claim]:
    """The reduced criteria of E1, where the grid holds their cells.

    They ask for ≥ 0.9 at m = 100 at every T ≤ 200 and, at m = 40, ≥ 0.9 at T = 25 and ≤ 0.5 at T = 200. A few dozen
    trials cannot tell 0.9 from 1 in a single cell: the lengths are pooled, and the two rates compared by difference.
    """
    counts = found.counts
    easy = [counts[length][100] for length in found.lengths if length <= 200 and 100 in counts[length]]
    if easy:
        hits, trials = (sum(column) for column in zip(*easy, strict=True))
        lowest = min(solved / number for solved, number in easy)
        yield claim(
            "enough-at-100",
            f"100 samples are enough at the {len(easy)} lengths T ≤ 200 together (the lowest rate is {lowest:.2f}).",
            statistic="success rate at m = 100, T ≤ 200",
            interval=proportion(hits, trials),
            at_least=0.9,
            source_value="well above m* ≈ 70 of T = 300",
            **_limits(found),
            source=shared["source"],
            trials=trials,
        )
    if {25, 200} <= set(counts) and all(40 in counts[length] for length in (25, 200)):
        short, long = counts[25][40], counts[200][40]
        yield claim(
            "threshold-moves",
            f"40 samples are enough at T = 25 ({short[0]} of {short[1]}) and too few at T = 200 "
            f"({long[0]} of {long[1]}).",
            statistic="success rate at T = 25 − success rate at T = 200, m = 40",
            interval=_difference(short, long),
            at_least=0.4,
            source_value="m* grows with T",
            **_limits(found),
            source=shared["source"],
            trials=short[1] + long[1],
        )


def _overlap(one: Interval, two: Interval) -> bool:
    return one.low <= two.high and two.low <= one.high


def _replayed(found: Findings, shared: dict[str, Any]) -> Iterator[Claim]:
    """The adaptive search on the grid's own outcomes, over several of its random streams."""
    replays, lengths = found.replays, found.lengths
    pairs = [(run.frontiers[length].crossing(), found.intervals[length]) for run in replays for length in lengths]
    # An interval without an upper end would agree with anything.
    agreed = sum(_overlap(search, grid) and math.isfinite(search.high) for search, grid in pairs)
    held = sum(search.contains(grid.value) for search, grid in pairs)
    shares = np.array([run.all_trials for run in replays]) / found.trials
    work = np.array([run.all_steps for run in replays]) / max(1, sum(found.steps.values()))
    limits = _limits(found, 2)
    yield claim(
        "adaptive-agrees",
        f"An adaptive search finds the grid's m*: over {len(replays)} searches replayed at {len(lengths)} lengths the "
        f"95% intervals are finite and overlap in {agreed} of {len(pairs)} cases; {held} times the search's holds the "
        f"grid's m*.",
        statistic="share of searches whose interval of m* is finite and overlaps the grid's",
        interval=proportion(agreed, len(pairs)),
        at_least=0.9,
        source_value="the source trained the whole grid",
        **limits,
        **shared,
    )
    if limits["enough"] and found.settings.trials < FEWEST_TO_SAVE:
        few = f"{found.settings.trials} trials per cell; a quarter of them is too few for any search"
        limits = {"enough": False, "too_small": few}
    ends = (float(shares.mean()), float(shares.min()), float(shares.max()))
    yield claim(
        "adaptive-quarter",
        f"It trains {shares.mean() * found.trials:.0f} of the grid's {found.trials:,} trials on average and spends "
        f"{work.mean():.0%} of its {sum(found.steps.values()):,} trial-steps.",
        statistic=f"trials of the search / trials of the grid, mean and range of {len(replays)} replays",
        interval=Interval(*ends, 1.0, "range of the replays"),
        at_most=QUARTER,
        source_value="the source trained the whole grid",
        **limits,
        **shared,
    )


def _adaptive_cost(found: Findings, shared: dict[str, Any]) -> Claim:
    share = found.trials / found.grid_trials
    return claim(
        "adaptive-quarter",
        f"The adaptive search trained {found.trials:,} trials ({sum(found.steps.values()):,} steps) where the grid has "
        f"{found.grid_trials:,}.",
        statistic="trials trained / trials of the grid",
        interval=Interval(share, share, share, 1.0, "counted"),
        at_most=QUARTER,
        source_value="the source trained the whole grid",
        **_limits(found),
        **shared,
    )
