"""Rates and steps of gradient descent on the table of a group, from what theory says of its optimum.

Let M be the margin and ρ = Σ‖ω_i‖³ at the exact optimum of cross-entropy + λ Σ‖ω_i‖³, ω = (ρ/m)^{1/3} the norm of one
of m neurons there, and n = |G|. The rate begins small and is doubled every 200 steps, which makes up for gradients that
vanish like e^{-margin}. Two things bound it:

    fitting    Networks fit the table after rate·steps of about 4n^1.5 √D: neurons grow at 3eγ‖ω‖ with the bound γ =
               2/(3√(3n)(n-1)√D) of equal weights and an alignment e of 0.4. Then output weights move together, with
               the curvature (4/9)ρ^{4/3}m^{-1/3}/n³ of uniform predictions; ρ is about 15/γ*, for margins of 3 that
               are a fifth of what the norm allows. The rate waits at half of 2/curvature until that is over.
    the end    The rate is a third of 2/curvature at the optimum, about 9λMω · 2max(1, κ), κ = ⅔(Σ_R D^2.5/e / n)²:
               scaling all weights, λ/γ*·‖∇M‖², or output weights moving together. Power iteration finds 0.5 to 1.4
               times as much, on groups of order 6 to 36. Then 1/(3·rate·λ·ω) steps bring imbalances between neurons
               down by a factor e, and sixty times as many are made.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from krogh.errors import require, require_integer
from krogh.tasks.groups import Group
from krogh.theory.margins import FiniteLambda, characters_of
from krogh.training import Piecewise

RATE, EVERY = 0.05, 200
LARGEST_DECAY = 4e-3
"""Of rate·λ, however flat the optimum is."""
NOISY_DECAY = 1.28e-4
"""The same where steps read random pairs: the source's for S_5."""
RELAXATIONS, LONGEST = 60.0, 75_000
FITTING, PATIENCE, SWOLLEN = 4.0, 1.5, 15.0
HELD_SHARE, END_SHARE = 1 / 2, 1 / 3
"""Of where descent becomes unstable: while networks fit the table, and in the end."""
POINTS = 250


class Schedule(NamedTuple):
    """The rate at first, the steps at which it is doubled, and the number of steps."""

    rate: float
    doubled_at: tuple[int, ...]
    steps: int


def schedule_of(
    group: Group,
    optimum: FiniteLambda,
    width: int,
    *,
    noisy: bool = False,
    rate: float | None = None,
    doubled: int | None = None,
    every: int | None = None,
    relaxations: float = RELAXATIONS,
) -> Schedule:
    """Rates and steps for a network of `width` neurons; whoever says how often to double gets no waiting in between."""
    largest = largest_decay(group, optimum, width)
    final = (min(largest, NOISY_DECAY) if noisy else largest) / optimum.lam
    first = RATE if rate is None else rate
    require(0 < first < math.inf, f"rate must be a positive number; got rate={rate!r}")
    if doubled is None:
        doubled = max(0, math.ceil(math.log2(final / first)))
        first = first if rate is not None else min(first, final / 2.0**doubled)
    require_integer("doubled", doubled, 0, 60)
    require_integer("doubled_every", EVERY if every is None else every, 1)
    held, wait = (math.inf, 0) if every is not None else waiting(group, optimum, width)
    before = sum(first * 2.0 ** (number + 1) <= held for number in range(doubled))
    spacing = EVERY if every is None else every
    times = [spacing * (number + 1) + (wait if number >= before else 0) for number in range(doubled)]
    size = 1.0 if optimum.zero else (optimum.rho / width) ** (1 / 3)
    settling = relaxations / (3 * first * 2.0**doubled * optimum.lam * size)
    end = times[-1] if times else 0
    return Schedule(first, tuple(times), min(LONGEST, 1000 * math.ceil((end + settling) / 1000)))


def waiting(group: Group, optimum: FiniteLambda, width: int) -> tuple[float, int]:
    """The rate at which networks fit the table safely, and how many steps to wait there."""
    n, characters = group.order, characters_of(group)
    sizes = characters.dimensions[1:] ** 2 / characters.commutants[1:]
    root = float(sizes @ np.sqrt(characters.dimensions[1:]) / sizes.sum())
    curved = 4 / 9 * (SWOLLEN / optimum.max_margin) ** (4 / 3) * width ** (-1 / 3) / n**3
    held = HELD_SHARE * 2 / curved
    return held, 50 * math.ceil(PATIENCE * FITTING * n**1.5 * root / held / 50)


def curvature(group: Group) -> float:
    """2max(1, κ), κ = ⅔(Σ_R D^2.5/e / |G|)²: the largest curvature over that of scaling all weights, at the optimum."""
    characters = characters_of(group)
    total = float(np.sum(characters.dimensions[1:] ** 2.5 / characters.commutants[1:]))
    return 2.0 * max(1.0, 2 / 3 * (total / group.order) ** 2)


def largest_decay(group: Group, optimum: FiniteLambda, width: int) -> float:
    """The rate times λ in the end: a third of where descent is unstable, at most 0.004."""
    if optimum.zero:
        return LARGEST_DECAY
    size = (optimum.rho / width) ** (1 / 3)
    return min(LARGEST_DECAY, END_SHARE * 2 / (9 * optimum.margin * size * curvature(group)))


def padded_doublings(doubled_at: tuple[int, ...], count: int) -> Piecewise:
    """The same schedule with `count` boundaries, the last of them without effect: schedules of one shape stack."""
    last = doubled_at[-1] if doubled_at else 0
    extra = range(last + 1, last + 1 + count - len(doubled_at))
    factors = 2.0 ** np.minimum(np.arange(count + 1), len(doubled_at))
    return Piecewise(np.array([*doubled_at, *extra], np.int64), factors)


def check_interval(steps: int) -> int:
    """Steps between two checks: at most 100, and a fiftieth of the steps, which it divides."""
    return next(
        every for every in (100, 50, 20, 10, 5, 2, 1) if steps % every == 0 and (every == 1 or steps >= 50 * every)
    )


def curve_interval(steps: int, every: int) -> int:
    """Steps between two points of a curve of at most `POINTS`, whose last one is the end."""
    checks = steps // every
    return every * next(
        stride for stride in range(1, checks + 1) if checks % stride == 0 and checks // stride <= POINTS
    )
