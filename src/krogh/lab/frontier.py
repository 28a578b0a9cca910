"""The success frontier found adaptively: the smallest size at which trials succeed with probability p.

A full grid spends most of its trials on sizes where success is certain or hopeless. Here every finished trial updates a
posterior of the success curve, and the next trials go where the frontier may still be. The curves are

    P(success | m) = low + (high - low) S((ln m - ln m_p)/w + o),    o such that P(success | m_p) = p,

with S the logistic, Weibull's or Gompertz's sigmoid, a log-uniform prior on m_p over the candidates and beyond both
ends, widths w from a step to nearly flat, a low above 0 (luck) and a high below 1 (lapses); beside them stand curves
that level off below p, and never reach it. With the logistic alone and one lapse for both ends, a wide search missed
m_p in 6 of 20 simulations of a curve that levels off at 0.85. All sums are over a fixed grid of parameters: no
sampling, no optimiser, nothing to tune.

`Frontier` is one such posterior; `krogh.lab.search` runs several at once. That the interval covers m_p, for curves of
this family and for others, and what a search saves, is measured in tests/lab/test_frontier.py: over 23 curves 99% (the
worst 92%) with 16 trials in flight, at a fifth of the trials of a grid of 16 sizes × 40. An up-down staircase and a
bisection were tried with the same posterior behind them. They cover as well, but for as many trials their intervals
come out 1.3 and 1.6 times as wide, and neither can use many slots at a time.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import scipy
from numpy.typing import ArrayLike, NDArray

from krogh.errors import require, require_integer
from krogh.lab.estimate import Estimate, Floats, as_floats, drawn, levels_of, require_fraction

# The grid of curves. m_p has GRAIN points between neighbouring candidates and END beyond each end.
GRAIN, END, WIDTHS = 4, 6, 8
BELOW, INSIDE, ABOVE = 0.15, 0.6, 0.25  # prior mass of m_p, among the curves that reach p
FLOORS = ((0.02, 0.5), (0.3, 0.25), (0.7, 0.25))  # lowest rate in units of p, and prior; as far up as lapses go down
LAPSES = ((0.02, 0.4), (0.25, 0.25), (0.7, 0.2))  # highest rate is 1 minus so many units of 1 - p, and prior
LOW_CEILINGS = ((0.97, 0.05), (0.88, 0.05), (0.65, 0.05))  # highest rate in units of p when p is not reached, and prior
SHAPES: tuple[tuple[Callable, Callable], ...] = (
    (lambda z: scipy.special.expit(z), lambda r: scipy.special.logit(r)),
    (lambda z: -np.expm1(-np.exp(np.clip(z, -50, 50))), lambda r: math.log(-math.log1p(-r))),  # Weibull's
    (lambda z: np.exp(-np.exp(np.clip(-z, -50, 50))), lambda r: -math.log(-math.log(r))),  # Gompertz's
)
LEAST_CHANCE = 0.01  # when the sizes left hold less of the chance to be the next one to try, there is nothing to try


class _Curves(NamedTuple):
    """The grid of success curves over the candidates."""

    success: Floats  # log P(success), (curves, sizes)
    failure: Floats  # log P(failure), (curves, sizes)
    crossing: Floats  # m_p, (curves,); infinite for a curve that levels off below p
    ends: Floats  # of the piece of the axis that m_p stands for, (2, curves)
    place: NDArray[np.intp]  # the smallest candidate at which p is reached, (curves,); `sizes` when none is
    prior: Floats  # log prior, (curves,)


@lru_cache(maxsize=16)
def curve_grid(sizes: tuple[float, ...], p: float) -> _Curves:
    """The grid of curves over these sizes."""
    logs, count = np.log(sizes), len(sizes)
    gaps, span = np.diff(logs), logs[-1] - logs[0]
    widths = np.geomspace(gaps.min() / 4, span, WIDTHS)
    inner = ((np.arange(GRAIN) + 0.5) / GRAIN * gaps[:, None] + logs[:-1, None]).ravel()
    beyond = (np.arange(END) + 0.5) / END * span
    rising = np.concatenate([logs[0] - beyond / 2, inner, logs[-1] + beyond])
    steps = [np.full(END, span / END / 2), np.repeat(gaps / GRAIN, GRAIN), np.full(END, span / END)]
    half = np.concatenate(steps) / 2
    rising_prior = np.concatenate(
        [np.full(END, BELOW / END), INSIDE * np.repeat(gaps / span / GRAIN, GRAIN), np.full(END, ABOVE / END)]
    )
    flat = np.linspace(logs[0] - span / 4, logs[-1] + span / 4, 2 * count)
    parts = []
    for shape, inverse in SHAPES:
        for floor, floor_prior in FLOORS:
            # A ceiling above p: the parameter is where the curve crosses p. Below p: its middle, for it never does.
            tops = [(1 - lapse * (1 - p), rising, half, rising_prior, prior) for lapse, prior in LAPSES]
            even = np.full(flat.size, 1 / flat.size)
            tops += [(p * share, flat, np.zeros(flat.size), even, prior) for share, prior in LOW_CEILINGS]
            for top, at, reach, prior, top_prior in tops:
                bottom, reaches = floor * p * min(1.0, top / p), top > p
                offset = inverse((p - bottom) / (top - bottom)) if reaches else inverse(0.5)
                z = (logs - at[:, None, None]) / widths[:, None] + offset  # (at, widths, sizes)
                rate = np.clip(bottom + (top - bottom) * shape(z), 1e-9, 1 - 1e-9)
                weight = prior[:, None] * np.full(WIDTHS, floor_prior * top_prior / WIDTHS / len(SHAPES))
                near = at[:, None] + reach[:, None] * [0, -1, 1]
                places = np.exp(near) if reaches else np.full_like(near, math.inf)
                parts.append((rate.reshape(-1, count), np.repeat(places, WIDTHS, axis=0), weight.ravel()))
    rates, places, weights = (np.concatenate(column) for column in zip(*parts, strict=True))
    crossings, ends = places[:, 0], places[:, 1:].T
    return _Curves(np.log(rates), np.log1p(-rates), crossings, ends, np.searchsorted(sizes, crossings), np.log(weights))


class Smallest(NamedTuple):
    """The smallest candidate that reaches p, and the ends of its interval; `inf` is "not reached"."""

    value: float
    low: float
    high: float

    def contains(self, size: float) -> bool:
        return self.low <= size <= self.high


@dataclass(frozen=True)
class Rule:
    """When a search may stop: after `least` trials once the interval of m_p at `level` is narrow, or after `budget`.

    Narrow is an interval whose ends are at most one candidate apart, or within a factor `ratio` of each other. "Not
    reached" is the step after the largest candidate.
    """

    level: float = 0.95
    ratio: float | None = None
    least: int = 12
    budget: int = 160

    def __post_init__(self) -> None:
        require_fraction("level", self.level)
        good = self.ratio is None or 1 <= self.ratio < math.inf
        require(good, f"ratio must be at least 1, or None for one step of the candidates; got ratio={self.ratio!r}")
        require_integer("least", self.least, 1)
        require_integer("budget", self.budget, self.least)


class Frontier:
    """The posterior of m_p, the smallest of `sizes` at which a trial succeeds with probability at least p."""

    def __init__(self, sizes: ArrayLike, p: float = 0.8, *, rule: Rule = Rule(), seed: int = 0) -> None:
        self.sizes = as_floats("sizes", sizes)
        rising = self.sizes.size >= 2 and np.all(np.diff(self.sizes) > 0) and self.sizes[0] > 0
        require(
            rising and np.isfinite(self.sizes[-1]),
            f"sizes must be at least two positive numbers, ascending; got {self.sizes.tolist()}",
        )
        require_fraction("p", p)
        require_integer("seed", seed, 0)
        self.p, self.rule = p, rule
        self.successes, self.failures = np.zeros(self.sizes.size, int), np.zeros(self.sizes.size, int)
        self._places = {size: place for place, size in enumerate(self.sizes.tolist())}
        self._curves = curve_grid(tuple(self.sizes.tolist()), float(p))
        self._log_posterior = self._curves.prior.copy()
        self._chances: Floats | None = None
        self._random = np.random.default_rng(seed)

    # --- what was seen ---

    def observe(self, size: float, success: bool, trials: int = 1) -> None:
        """Take in a finished trial at `size`, or `trials` of them that all ended alike."""
        require(size in self._places, f"size must be one of {self.sizes.tolist()}; got size={size!r}")
        require(isinstance(success, (bool, np.bool_)), f"success must be True or False; got success={success!r}")
        require_integer("trials", trials, 0)
        place = self._places[size]
        (self.successes if success else self.failures)[place] += trials
        likelihood = self._curves.success if success else self._curves.failure
        self._log_posterior += trials * likelihood[:, place]
        self._chances = None

    @property
    def trials(self) -> int:
        return int(self.successes.sum() + self.failures.sum())

    def counts(self) -> dict[float, tuple[int, int]]:
        """{size: (successes, trials)} of the sizes that were tried, as `krogh.lab.sample_complexity` reads them."""
        tried = zip(self.sizes.tolist(), self.successes.tolist(), self.failures.tolist(), strict=True)
        return {size: (hits, hits + misses) for size, hits, misses in tried if hits + misses}

    # --- what it says ---

    def _posterior(self) -> Floats:
        weights = np.exp(self._log_posterior - self._log_posterior.max())
        return weights / weights.sum()

    def chances(self) -> Floats:
        """The posterior of the smallest size that reaches p; (sizes + 1,), the last entry "not reached"."""
        if self._chances is None:
            chances = np.bincount(self._curves.place, self._posterior(), minlength=self.sizes.size + 1)
            self._chances = chances.astype(float)
        return self._chances

    def interval(self, level: float | None = None) -> Smallest:
        """The posterior median of the smallest size that reaches p, and the ends of its central interval.

        On the candidates, `inf` being "not reached". The ends are rounded outwards: they hold at least `level`.
        """
        level = self.rule.level if level is None else level
        require_fraction("level", level)
        tail, up_to, sizes = (1 - level) / 2, np.cumsum(self.chances()), np.append(self.sizes, math.inf)
        low, middle, high = (int(np.searchsorted(up_to, at)) for at in (tail + 1e-12, 0.5, 1 - tail - 1e-12))
        return Smallest(float(sizes[middle]), float(sizes[low]), float(sizes[high]))

    def crossing(self, sample: str = "") -> Estimate:
        """m_p itself, between the sizes too: posterior median and draws; `sample` names the problem.

        A draw is the piece of the axis that a point of the grid stands for, from end to end. `inf` beyond the largest
        size, which it is known to exceed. At or below the smallest it is the smallest, with 0 as the lower end.
        """
        points, weights = self._curves.crossing, self._weights()
        order = np.argsort(points, kind="stable")
        up_to = np.cumsum(weights[order])
        name = f"frontier {sample}"
        places = np.searchsorted(up_to, np.append(levels_of(name, "posterior"), 0.5) - 1e-12)
        chosen = order[np.minimum(places, order.size - 1)]
        values, (lower, upper) = points[chosen], self._curves.ends[:, chosen]
        smallest, largest = float(self.sizes[0]), float(self.sizes[-1])
        most = np.where(values > largest, math.inf, np.maximum(upper, smallest))
        least = np.where(values > largest, largest, np.where(values <= smallest, 0.0, lower))
        middle = math.inf if values[-1] > largest else max(float(values[-1]), smallest)
        rule = f"posterior of {self.sizes.size} sizes, {self.trials} trials"
        return drawn(middle, least[:-1], {name: self.trials}, rule, most=most[:-1], horizon=largest)

    def _weights(self) -> Floats:
        """The posterior of each curve."""
        return self._posterior()

    @property
    def narrow(self) -> bool:
        """Whether the interval is as narrow as the rule wants it."""
        found = self.interval()
        first, last = (np.searchsorted(self.sizes, end) for end in (found.low, found.high))
        by_ratio = self.rule.ratio is not None and found.high <= found.low * self.rule.ratio
        return bool(last - first <= 1 or by_ratio)

    @property
    def done(self) -> bool:
        """Whether the rule allows to stop."""
        return self.trials >= self.rule.budget or (self.trials >= self.rule.least and self.narrow)

    # --- what to try next ---

    def _next_chances(self) -> Floats:
        """How Thompson sampling would choose: draw m_p, then the candidate just below it or the one at or above."""
        chances = self.chances()
        inner = chances[1:-1] / 2
        choice = np.concatenate([inner, [0.0]]) + np.concatenate([[0.0], inner])
        choice[0] += chances[0]
        choice[-1] += chances[-1]
        return choice

    def propose(
        self,
        count: int = 1,
        in_flight: Mapping[float, int] | None = None,
        left: Mapping[float, int] | None = None,
    ) -> list[float]:
        """`count` sizes to try next, while trials `in_flight` = {size: number} have not reported yet.

        Each is drawn in proportion to what its size lacks of its share of all that would then be in flight, so a batch
        is spread as Thompson sampling would spread it and a size is not asked again before it answers. `left` says how
        many trials a size can still have; fewer than `count` come back when none of the sizes left is worth trying.
        """
        require_integer("count", count, 0)
        waiting = np.array([(in_flight or {}).get(size, 0) for size in self.sizes.tolist()], dtype=float)
        room = np.array([math.inf if left is None else left.get(size, 0) for size in self.sizes.tolist()])
        choice, proposed = self._next_chances(), []
        for _ in range(count):
            share = np.where(room > 0, choice, 0.0)
            if share.sum() < LEAST_CHANCE:
                break
            lacking = np.maximum(share / share.sum() * (waiting.sum() + 1) - waiting, 0.0)
            place = int(self._random.choice(self.sizes.size, p=lacking / lacking.sum()))
            waiting[place] += 1
            room[place] -= 1
            proposed.append(float(self.sizes[place]))
        return proposed
