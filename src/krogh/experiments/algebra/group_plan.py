"""How the composition of a group is trained: the source's settings for its groups, automatic ones for any other.

    λ    a hundredth of γ*, one digit: far below where the zero network is optimal
    m    twice what suffices for a network of maximum margin, and ten per irrep: neurons of an irrep of dimension 1
         whose outputs all have one sign cannot cancel their squares, and stay in a local minimum

Rates and steps follow from the exact optimum at λ (`group_schedule`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path

from krogh.engine import Trial
from krogh.errors import require, require_integer
from krogh.experiments.algebra.group_schedule import RELAXATIONS, check_interval, curve_interval, schedule_of
from krogh.models.pair_network import PairNetwork
from krogh.probes.base import Probe
from krogh.tasks.composition import GroupComposition
from krogh.tasks.group_files import READERS
from krogh.tasks.groups import Group, load_group
from krogh.theory.margins import FiniteLambda, MaxMargin, finite_lambda, max_margin_group
from krogh.training import NeuronNorm, Online, Population, Regime, Sgd, Stopping, Training, doublings
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


@dataclass(frozen=True, eq=False)
class Plan:
    """One group's training, what theory says of it, and remarks on what it lacks; `preset` if it is a stated one."""

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
    remarks: tuple[str, ...]

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
    neurons, remarks = _width(group, best, width, stated)
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
    require_integer("steps", length, 1)
    if batch is not None:
        require_integer("batch", batch, 1)
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
        remarks=remarks,
    )


def _optimum(group: Group, lam: float, collapsing: bool) -> FiniteLambda:
    """The exact optimum at λ; one that is the zero network is refused, with the λ from which on that is so."""
    positive = isinstance(lam, int | float) and 0 < lam < math.inf
    require(positive, f"lam must be a positive number; got lam={lam!r}")
    found = finite_lambda(group, lam)
    require(
        collapsing or not found.zero,
        f"lam must be below {found.threshold:.4g}, from which on the zero network is optimal for {group.name}; got "
        f"lam={lam:g} (try lam={WEIGHT * found.max_margin:.1g})",
    )
    return found


def _width(
    group: Group, best: MaxMargin, width: int | None, stated: MarginPreset | None
) -> tuple[int, tuple[str, ...]]:
    """How many neurons, and what to say where they are fewer than suffice."""
    if width is None and stated is not None:
        width = stated.width
    if width is None:
        ample = max(2 * best.width, PER_IRREP * len(best.irrep_shares), FEWEST_NEURONS)
        wanted = max(best.width, min(ample, ENOUGH_NEURONS))
        width = min(-(-wanted // 10) * 10, MOST_NEURONS)
    require_integer("width", width, 1)
    lacking = (
        f"{width} neurons are fewer than the {best.width} that suffice for a maximum-margin network of {group.name}"
    )
    return width, (f"{lacking} (settable: width={best.width})",) if width < best.width else ()
