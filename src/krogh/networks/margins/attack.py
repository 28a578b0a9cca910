"""An upper bound on the all-layer margin: a perturbation of the parameters that flips the output.

A network with corrections is flat around its parameters, so that gradients at δ = 0 say nothing. Instead

    1. a random direction (dense, sparse or within one layer), upwards in norm to the *first* flip; and beside it where
       sixty steps against the gradient lead, from the parameters themselves or from close by, if that flips earlier,
    2. narrowed down to the boundary,
    3. again and again: the direction mixed with -∇ of the right output at the boundary, or with its small entries
       dropped; kept if it flips at a smaller norm,
    4. projected gradient descent within a smaller ball, as long as that flips too,
    5. the smallest over all restarts.

Any perturbation that flips bounds the margin, however it was found; it is returned, and checked outside the search.

`trial_perturbations` asks the other way round whether perturbations of a given size ever change an output, random ones
and those that gradients find: a certificate says that none does, and a trial that does would refute it.
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from krogh.errors import KroghError, require, require_integer
from krogh.networks.compiled import Subject
from krogh.networks.margins.search import (
    KINDS,
    LARGE,
    POINTS,
    Landscape,
    Scan,
    directions,
    first_flips,
    landscape,
    narrowed,
    unit_rows,
)
from krogh.theory.programs.margin import Array, Output, Parameters, flips, perturbation_norm

_RATES = (0.02, 0.1, 0.3, 1.0, 10.0)
"""How much of the gradient is mixed into the direction, before adaptation."""
_KEPT = (0.02, 0.1, 0.3)
"""Entries below these shares of the largest are dropped."""
_FRACTIONS = np.array([0.1, 0.4, 0.7, 0.85, 0.95, 0.985, 0.998, 0.9999])
"""Of the present norm, at which a new direction is tried."""
_STEPS = 20
"""Of gradient descent within one ball."""
_WALK = 60
"""Steps against the gradient before the search."""
_STRIDES = (0.003, 0.01, 0.03, 0.1, 0.3, 1.0)
"""Their lengths."""
_AWAY = (0.0, 0.01, 0.1)
"""How far from the parameters walks begin."""

assert len(_FRACTIONS) == POINTS


_BATCH = 64
"""Perturbations of one input at once."""


@dataclass(frozen=True)
class Effort:
    """How thorough an attack is: restarts, rounds of step 3 for each, and how often, at most, the ball shrinks."""

    restarts: int = 12
    refinements: int = 60
    projections: int = 12

    def __post_init__(self) -> None:
        for name, least in (("restarts", 1), ("refinements", 0), ("projections", 0)):
            require_integer(name, getattr(self, name), least)

    @property
    def evaluations(self) -> int:
        """About how often a search runs the network, the walks before it not counted."""
        return self.restarts * (130 + 75 * self.refinements + 60 * self.projections)


@dataclass(frozen=True, eq=False)
class Attack:
    """The smallest perturbation found that flips the output; `radius` is its norm, an upper bound on the margin.

    `radius` is 0, with a perturbation of zeros, where the output is wrong to begin with, and infinite, with none, where
    nothing flipped. `radii` [restarts] are those of the restarts, `kind` says where the best one started.
    """

    radius: float
    perturbation: Parameters | None
    radii: Array
    kind: str


def attack(
    output: Output,
    parameters: Mapping[str, ArrayLike],
    x: Any,
    y: Any,
    *,
    effort: Effort = Effort(),
    scan: Scan = Scan(),
    frozen: Sequence[str] = (),
    seed: int = 0,
    deadline: float = math.inf,
) -> Attack:
    """The search above, for the output on x whose label is y in {0, 1}; parameters named in `frozen` do not move.

    Refinement ends at `deadline`, a time of `time.monotonic`.
    """
    restarts = effort.restarts
    land = landscape(output, parameters, x, y, frozen)
    rng = np.random.default_rng(seed)
    kinds = [restart % len(KINDS) for restart in range(restarts)]
    units = directions(rng, land, kinds)
    if _wrong(land, units):
        return Attack(0.0, land.arrays_of(np.zeros(land.shapes.size)), np.zeros(restarts), "wrong to begin with")
    units, below, above = _first(land, units, scan)
    norms = narrowed(land, units, below, above, rounds=6)
    starts = [KINDS[kind] for kind in kinds]
    walked, reached = _walked(land, np.random.default_rng([seed, 1]), restarts, deadline)
    for ray, place in enumerate(np.argsort(reached)[: max(1, restarts // 3)]):
        worst = int(np.argmax(norms)) if ray else restarts - 1
        if reached[place] < norms[worst]:
            units[worst], norms[worst], starts[worst] = walked[place], reached[place], "gradient"
    strength = np.ones(restarts)
    for _ in range(effort.refinements):
        if time.monotonic() >= deadline:
            break
        units, norms, strength = _refined(land, rng, units, norms, strength)
    units, norms = _projected(land, rng, units, norms, effort.projections, deadline)
    best = int(np.argmin(norms))
    if not math.isfinite(norms[best]):
        return Attack(math.inf, None, norms, "nothing flipped")
    perturbation = _certain(land, norms[best] * units[best], y)
    return Attack(perturbation_norm(perturbation), perturbation, norms, starts[best])


def _walked(land: Landscape, rng: np.random.Generator, rays: int, deadline: float) -> tuple[Array, Array]:
    """Where steps of fixed length against the gradient first flip the output: directions [walks, p], norms [walks].

    Every length from every distance, `rays` at a time (which is what is compiled); infinite where nothing flips. Then
    down to the boundary, for a step may have gone far beyond it.
    """
    walks = [(stride, away) for away in _AWAY for stride in _STRIDES]
    units = directions(rng, land, [0] * len(walks))
    norms = np.full(len(walks), np.inf)
    for start in range(0, len(walks), rays):
        if start and time.monotonic() >= deadline:
            break
        mine = np.minimum(np.arange(start, start + rays), len(walks) - 1)  # all have one shape
        stride, away = np.array(walks)[mine].T
        points, open_ = away[:, None] * units[mine], np.full(rays, True)
        flipped = points
        for step in range(_WALK + 1):
            values, slopes = land.slopes(points)
            first = open_ & ~(values > 0)
            flipped, open_ = np.where(first[:, None], points, flipped), open_ & ~first
            if step == _WALK or not open_.any() or time.monotonic() >= deadline:
                break
            points = points + stride[:, None] * unit_rows(-slopes, units[mine])
        sizes = np.linalg.norm(flipped, axis=1)
        found = unit_rows(flipped, units[mine])
        above = np.where(open_ | ~(sizes > 0), np.inf, sizes)
        units[mine], norms[mine] = found, narrowed(land, found, np.zeros(rays), above, rounds=4)
    return units, norms


def projected_gradient(
    land: Landscape, radius: float, *, restarts: int = 12, steps: int = 60, seed: int = 0
) -> tuple[Array, Array]:
    """The least ±F that gradient descent finds where ‖δ‖ ≤ `radius`, [restarts], and the δ of each, [restarts, p].

    From random points on the sphere, steps of a tenth of the radius against the gradient (in a random direction where
    it vanishes), projected back onto the ball. A value ≤ 0 is a flip.
    """
    require(radius > 0 and math.isfinite(radius), f"radius must be a positive number; got radius={radius!r}")
    require_integer("restarts", restarts, 1)
    require_integer("steps", steps, 1)
    rng = np.random.default_rng(seed)
    units = directions(rng, land, [restart % len(KINDS) for restart in range(restarts)])
    return _descended(land, rng, radius * units, np.full(restarts, radius), steps)


def _wrong(land: Landscape, units: Array) -> bool:
    """Whether the output is wrong without perturbation; `units` only give the shape that is compiled anyway."""
    return not land.values(units, np.zeros((len(units), POINTS)))[0, 0] > 0


def _first(land: Landscape, units: Array, scan: Scan) -> tuple[Array, Array, Array]:
    """The directions, with those that never flip the output turned round, and the bracket of the first flip of each."""
    below, above = first_flips(land, units, scan)
    failed = np.isinf(above)
    if failed.any():
        turned = np.where(failed[:, None], -units, units)
        low, high = first_flips(land, turned, scan)
        units, below, above = turned, np.where(failed, low, below), np.where(failed, high, above)
    return units, below, above


def _refined(
    land: Landscape, rng: np.random.Generator, units: Array, norms: Array, strength: Array
) -> tuple[Array, Array, Array]:
    """One round of step 3: directions [rays, p], their norms at the boundary, and how much gradient is mixed in."""
    usable = np.isfinite(norms)
    now = np.where(usable, norms, 1.0)
    down = unit_rows(-land.slopes(now[:, None] * units)[1], directions(rng, land, [0] * len(units)))
    largest = np.abs(units).max(axis=1, keepdims=True)
    # each candidate is formed only when it is tried: all at once would be many copies of θ
    candidates = [lambda rate=rate: units + (strength * rate)[:, None] * down for rate in _RATES]
    candidates += [lambda share=share: units * (np.abs(units) >= share * largest) for share in _KEPT]
    chosen, first = units.copy(), np.full(len(units), POINTS)
    for candidate in candidates:
        tried = unit_rows(candidate(), units)
        flipped = ~(land.values(tried, now[:, None] * _FRACTIONS) > 0)
        at = np.where(flipped.any(axis=1), flipped.argmax(axis=1), POINTS)
        better = usable & (at < first)
        chosen[better], first[better] = tried[better], at[better]
    better = first < POINTS
    steps = np.concatenate([[0.0], _FRACTIONS, [np.inf]])
    reached = narrowed(land, chosen, steps[first] * now, np.where(better, steps[first + 1] * now, np.inf), rounds=2)
    strength = np.clip(np.where(better, 1.5 * strength, 0.5 * strength), 1e-4, 2.0)
    return chosen, np.where(better, reached, norms), strength


def _projected(
    land: Landscape, rng: np.random.Generator, units: Array, norms: Array, rounds: int, deadline: float
) -> tuple[Array, Array]:
    """Step 4: descent within a ball of 97% of the present norm, for each ray until that no longer flips the output."""
    active = np.isfinite(norms)
    for _ in range(rounds):
        if not active.any() or time.monotonic() >= deadline:
            break
        ball = 0.97 * np.where(active, norms, 1.0)
        values, points = _descended(land, rng, ball[:, None] * units, ball, _STEPS)
        active &= values <= 0
        found = unit_rows(points, units)
        reached = narrowed(
            land, found, np.zeros(len(units)), np.where(active, np.linalg.norm(points, axis=1), np.inf), rounds=3
        )
        units, norms = np.where(active[:, None], found, units), np.where(active, reached, norms)
    return units, norms


def _descended(
    land: Landscape, rng: np.random.Generator, points: Array, radii: Array, steps: int
) -> tuple[Array, Array]:
    """The least value on the way of gradient descent projected onto balls of `radii` [rays], and where it was."""
    least, where = np.full(len(points), np.inf), points
    for step in range(steps + 1):
        values, slopes = land.slopes(points)
        lower = values < least
        least, where = np.where(lower, values, least), np.where(lower[:, None], points, where)
        if step == steps:
            break
        points = points + 0.1 * radii[:, None] * unit_rows(-slopes, directions(rng, land, [0] * len(points)))
        sizes = np.linalg.norm(points, axis=1)
        points = points * np.minimum(1.0, radii / np.where(sizes > 0, sizes, 1.0))[:, None]
    return least, where


def _certain(land: Landscape, vector: Array, y: Any) -> Parameters:
    """The perturbation, made larger by as little as makes it flip when θ + δ is formed outside the search."""
    for excess in (0.0, *(2.0**-k for k in range(50, 10, -1))):
        found = land.arrays_of((1 + excess) * vector)
        if flips(land.output, land.parameters, found, land.x, y):
            return found
    raise KroghError("the flip found by the search is not one outside it; is the output a pure function in float64?")


@dataclass(frozen=True)
class Trials:
    """How many perturbations of norm `radius` were tried, how many of them flipped an output, and the least ±F met.

    A certificate keeps `least` above 0; an output that is ±1 has ±F = 1 without perturbation.
    """

    radius: float
    random: int
    adversarial: int
    flips: int
    least: float


def trial_perturbations(
    subject: Subject, radius: float, *, random: int = 10_000, adversarial: int = 100, steps: int = 30, seed: int = 0
) -> Trials:
    """Perturb all parameters by `radius`, in random directions (dense, sparse, one layer) and by gradient descent.

    Both are spread evenly over the inputs. A descent counts as one trial, with the least value on its way.
    """
    require(radius > 0 and math.isfinite(radius), f"radius must be a positive number; got radius={radius!r}")
    inputs, labels = subject.inputs, subject.labels
    require(len(inputs) == len(labels) > 0, f"give inputs and as many labels; got {len(inputs)} and {len(labels)}")
    require_integer("random", random, 0)
    require_integer("adversarial", adversarial, 0)
    flips, least = 0, math.inf
    shares = [len(part) for part in np.array_split(np.arange(random), len(inputs))]
    attacks = [len(part) for part in np.array_split(np.arange(adversarial), len(inputs))]
    for place, (x, y, count, descents) in enumerate(zip(inputs, labels, shares, attacks, strict=True)):
        land = landscape(subject.output, subject.parameters, x, y)
        rng = np.random.default_rng([seed, place])
        batch = 4 if land.shapes.size >= LARGE else _BATCH
        for start in range(0, count, batch):
            units = directions(rng, land, [(start + k) % len(KINDS) for k in range(batch)])
            values = land.values(units, np.full((batch, 1), radius))[: count - start, 0]
            flips, least = flips + int(np.sum(~(values > 0))), min(least, float(values.min()))
        if descents:
            values, _ = projected_gradient(land, radius, restarts=descents, steps=steps, seed=seed + place)
            flips, least = flips + int(np.sum(~(values > 0))), min(least, float(values.min()))
    return Trials(radius, random, adversarial, flips, least)
