"""Whether perturbations of a given size ever change an output: random ones, and those that gradients find.

A certificate says that none does; a trial that does would refute it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from krogh.errors import require, require_integer
from krogh.theory.all_layer.attack import projected_gradient
from krogh.theory.all_layer.definition import Output
from krogh.theory.all_layer.search import KINDS, LARGE, directions, landscape

_BATCH = 64
"""Perturbations of one input at once."""


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
    output: Output,
    parameters: Mapping[str, ArrayLike],
    inputs: Sequence[Any],
    labels: Sequence[Any],
    radius: float,
    *,
    random: int = 10_000,
    adversarial: int = 100,
    steps: int = 30,
    seed: int = 0,
) -> Trials:
    """Perturb all parameters by `radius`, in random directions (dense, sparse, one layer) and by gradient descent.

    Both are spread evenly over the inputs. A descent counts as one trial, with the least value on its way.
    """
    require(radius > 0 and math.isfinite(radius), f"radius must be a positive number; got radius={radius!r}")
    require(len(inputs) == len(labels) > 0, f"give inputs and as many labels; got {len(inputs)} and {len(labels)}")
    require_integer("random", random, 0)
    require_integer("adversarial", adversarial, 0)
    flips, least = 0, math.inf
    shares = [len(part) for part in np.array_split(np.arange(random), len(inputs))]
    attacks = [len(part) for part in np.array_split(np.arange(adversarial), len(inputs))]
    for place, (x, y, count, descents) in enumerate(zip(inputs, labels, shares, attacks, strict=True)):
        land = landscape(output, parameters, x, y)
        rng = np.random.default_rng([seed, place])
        batch = 4 if land.shapes.size >= LARGE else _BATCH
        for start in range(0, count, batch):
            units = directions(rng, land, [(start + k) % len(KINDS) for k in range(batch)])
            values = land.values(units, np.full((batch, 1), radius))[: count - start, 0]
            flips, least = flips + int(np.sum(~(values > 0))), min(least, float(values.min()))
        if descents:
            values, _ = projected_gradient(
                output, parameters, x, y, radius, restarts=descents, steps=steps, seed=seed + place
            )
            flips, least = flips + int(np.sum(~(values > 0))), min(least, float(values.min()))
    return Trials(radius, random, adversarial, flips, least)
