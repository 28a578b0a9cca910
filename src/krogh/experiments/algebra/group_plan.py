"""How the composition of a group is trained: the source's settings for its groups, automatic ones for any other.

    λ    a hundredth of γ*, one digit: far below where the zero network is optimal
    m    twice what suffices for a network of maximum margin, and ten per irrep: neurons of an irrep of dimension 1
         whose outputs all have one sign cannot cancel their squares, and stay in a local minimum

Rates and steps follow from the exact optimum at λ. Let M be the margin and ρ = Σ‖ω_i‖³ there, ω = (ρ/m)^{1/3} the norm
of one of m neurons, and n = |G|. The rate begins small and is doubled every 200 steps, which makes up for gradients
that vanish like e^{-margin}. Two things bound it:

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
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np

from krogh.engine import Trial
from krogh.errors import require, require_integer
from krogh.models.pair_network import PairNetwork
from krogh.probes.base import Probe
from krogh.tasks.composition import GroupComposition
from krogh.tasks.group_files import READERS
from krogh.tasks.groups import Group, load_group
from krogh.theory.margins import FiniteLambda, MaxMargin, characters_of, finite_lambda, max_margin_group
from krogh.training import NeuronNorm, Online, Piecewise, Population, Regime, Sgd, Stopping, Training, doublings
from krogh.training.presets import MARGIN_PRESETS, MarginPreset

PROPOSED = {"D_5": MarginPreset("D_5", 60, 20_000, 0.05, tuple(range(200, 2401, 200)), 1e-6)}
PRESETS = {name: MARGIN_PRESETS[name] for name in ("S_3", "S_4", "S_5")} | PROPOSED
"""The source's settings (D.2), and one for a dihedral group."""

WEIGHT = 0.01
FEWEST_NEURONS, PER_IRREP, ENOUGH_NEURONS, MOST_NEURONS = 40, 10, 400, 1000
WHOLE = 2**16
"""Up to so many pairs, every step reads all of them; beyond, `BATCH` random ones."""
BATCH = 4096
MANY_SEEDS, FEW_SEEDS = 12, 6
LONG_WORK = 1e12
"""Multiplications of one network's forward passes."""

RATE, EVERY, MOST_DOUBLINGS = 0.05, 200, 60
LARGEST_DECAY = 4e-3
"""Of rate·λ, however flat the optimum is."""
NOISY_DECAY = 1.28e-4
"""The same where steps read random pairs: the source's for S_5."""
RELAXATIONS, LONGEST = 60.0, 75_000
FITTING, PATIENCE, SWOLLEN = 4.0, 1.5, 15.0
HELD_SHARE, END_SHARE = 1 / 2, 1 / 3
"""Of where descent becomes unstable: while networks fit the table, and in the end."""
POINTS = 250


@dataclass(frozen=True, eq=False)
class Plan:
    """One group's training, what theory says of it, and a remark on what it lacks; `preset` if it is a stated one."""

    group: Group
    lam: float
    width: int
    steps: int
    rate: float
    doubled_at: tuple[int, ...]
    batch: int | None
    preset: bool
    best: MaxMargin
    optimum: FiniteLambda
    remark: str

    @property
    def name(self) -> str:
        return self.group.name

    @property
    def final_rate(self) -> float:
        """The rate after the last doubling."""
        return float(self.rate * 2.0 ** len(self.doubled_at))

    @property
    def seeds(self) -> int:
        """How many networks a verdict is given: twelve, or six where each takes minutes on a laptop."""
        pairs = self.group.order**2 if self.batch is None else self.batch
        return FEW_SEEDS if pairs * self.group.order * self.width * self.steps > LONG_WORK else MANY_SEEDS

    def trial(self, probes: tuple[Probe, ...] = ()) -> Trial:
        """A pair network of quadratic neurons that is to learn the group's table; it makes all of its steps."""
        every = check_interval(self.steps)
        regime: Regime = Population() if self.batch is None else Online(self.batch)
        training = Training(
            Sgd(self.rate, schedule=doublings(self.doubled_at)),
            regime,
            Stopping(budget=self.steps, check_every=every, validation="exact", early=False),
            "cross-entropy",
            NeuronNorm(self.lam),
        )
        probe_every = curve_interval(self.steps, every)
        return Trial(
            GroupComposition(self.group), PairNetwork(self.width), training, probes=probes, probe_every=probe_every
        )

    def in_words(self) -> str:
        """The training in a sentence."""
        read = "all pairs" if self.batch is None else f"{self.batch} random pairs"
        doubled = f"doubled {len(self.doubled_at)} times to {self.final_rate:.4g}"
        return (
            f"{self.width} quadratic neurons, λ = {self.lam:g}, {self.steps:,} steps on {read}, rate {self.rate:.3g} "
            f"{doubled}"
        )


def plan_of(
    text: str,
    *,
    lam: float | None = None,
    width: int | None = None,
    steps: int | None = None,
    rate: float | None = None,
    doubled: int | None = None,
    doubled_every: int | None = None,
    batch: int | None = None,
    collapsing: bool = False,
    relaxations: float = RELAXATIONS,
) -> Plan:
    """The training of a group given by name or file. What is not given is the stated setting's, or follows from theory.

    A schedule is made for its λ: whoever changes λ or a rate of a stated setting gets rates and steps that fit. A λ at
    which the zero network is optimal is refused, unless networks are meant to collapse. `relaxations` says how long
    neurons are given to settle.
    """
    group = load_group(text)
    require(group.order > 1, f"composition needs a wrong answer; {group.name} has one element (try Z_2)")
    stated = None if Path(text.strip()).suffix.lower() in READERS else PRESETS.get(group.name)
    best = max_margin_group(group)
    chosen = lam if lam is not None else stated.weight if stated else float(f"{WEIGHT * best.value:.1g}")
    optimum = _optimum(group, chosen, collapsing)
    neurons, remark = _width(group, best, width, stated)
    scheduled = (lam, rate, doubled, doubled_every, batch) == (None,) * 5
    if stated is not None and scheduled:
        rate, times, length, batch = stated.rate, stated.doubled_at, stated.steps, stated.batch
    else:
        batch = batch if batch is not None else BATCH if group.order**2 > WHOLE else None
        rate, times, length = schedule_of(
            group,
            optimum,
            neurons,
            noisy=batch is not None,
            rate=rate,
            doubled=doubled,
            every=doubled_every,
            relaxations=relaxations,
        )
    length = length if steps is None else steps
    return Plan(
        group=group,
        lam=chosen,
        width=neurons,
        steps=length,
        rate=rate,
        doubled_at=tuple(time for time in times if time < length),
        batch=batch,
        preset=stated is not None and scheduled and width is None and steps is None,
        best=best,
        optimum=optimum,
        remark=remark,
    )


def _optimum(group: Group, lam: float, collapsing: bool) -> FiniteLambda:
    """The exact optimum at λ; one that is the zero network is refused, with the λ from which on that is so."""
    found = finite_lambda(group, lam)
    require(
        collapsing or not found.zero,
        f"lam must be below {found.threshold:.4g}, from which on the zero network is optimal for {group.name}; got "
        f"lam={lam:g} (try lam={WEIGHT * found.max_margin:.1g})",
    )
    return found


def _width(group: Group, best: MaxMargin, width: int | None, stated: MarginPreset | None) -> tuple[int, str]:
    """How many neurons, and what to say where they are fewer than suffice."""
    if width is None and stated is not None:
        width = stated.width
    if width is None:
        ample = max(2 * best.width, PER_IRREP * len(best.irrep_shares), FEWEST_NEURONS)
        wanted = max(best.width, min(ample, ENOUGH_NEURONS))
        width = min(-(-wanted // 10) * 10, MOST_NEURONS)
    lacking = (
        f"{width} neurons are fewer than the {best.width} that suffice for a maximum-margin network of {group.name} "
        f"(settable: width={best.width})"
    )
    return width, lacking if width < best.width else ""


# --- rates and steps ------------------------------------------------------------------------------------------


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
    if doubled is None:
        doubled = max(0, math.ceil(math.log2(final / first)))
        first = first if rate is not None else min(first, final / 2.0**doubled)
    require_integer("doubled", doubled, 0, MOST_DOUBLINGS)  # a tiny λ asks for more than a float32 can hold
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
