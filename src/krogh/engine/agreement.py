"""Do two devices train the same? A few steps of the same trials on both, with the programs that a study would use.

A compiler may be wrong on one kind of device, and a network that is trained wrongly often learns all the same, only
later or less often. After few steps rounding has not grown yet, and weights must agree.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from krogh.engine.cohort import Trials
from krogh.engine.lane import Finished, Lane, Waiting
from krogh.engine.memory import Plan, plan

Weights = dict[int, dict[str, np.ndarray]]

STEPS = 20
TRIALS = 4
TOLERANCE = 0.05
"""Of the way that the weights have gone; products of reduced precision stay below a hundredth in this many steps."""


@dataclass(frozen=True)
class Agreement:
    """How far apart the weights of the same trials are on two devices, as a share of the way that they have gone."""

    difference: float
    where: str
    steps: int
    trials: int

    @property
    def agrees(self) -> bool:
        return bool(self.difference <= TOLERANCE)


def agreement(cohort: Trials, device: Any, reference: Any, steps: int = STEPS, trials: int = TRIALS) -> Agreement:
    """Train the cohort's first trials on both devices for about `steps` steps and compare every weight.

        difference = max over trials and arrays of ‖w_device - w_reference‖ / ‖w_reference - w_0‖,

    the largest over the arrays that have moved, with the norm of all of a trial's movement in the denominator where an
    array's own is below a thousandth of it.
    """
    every = cohort.template.training.stopping.check_every
    rounds = max(1, -(-steps // every))
    chosen = np.arange(min(trials, len(cohort)))
    fitted = cohort.fitted()
    _, ours = _trained(fitted, plan(fitted.template, len(cohort), device), device, chosen, rounds)
    begun, theirs = _trained(fitted, Plan(len(chosen), 1), reference, chosen, rounds)
    worst, where = 0.0, ""
    for position in chosen.tolist():
        moved = {name: _norm(theirs[position][name], begun[position][name]) for name in theirs[position]}
        least = 1e-3 * float(np.sqrt(sum(way**2 for way in moved.values())))
        for name, way in moved.items():
            apart = _norm(ours[position][name], theirs[position][name])
            share = apart / max(way, least) if apart else 0.0
            if not share <= worst:  # a NaN is never small
                worst, where = (share if np.isfinite(share) else np.inf), f"{name} of trial {position}"
    return Agreement(worst, where, rounds * every, len(chosen))


def _norm(a: np.ndarray, b: np.ndarray) -> float:
    return float(np.linalg.norm(np.asarray(a, np.float64) - np.asarray(b, np.float64)))


def _trained(cohort: Trials, size: Plan, device: Any, chosen: np.ndarray, rounds: int) -> tuple[Weights, Weights]:
    """The weights of the chosen trials at first and after `rounds` rounds, by position."""
    lane = Lane(cohort, size, device, keep_weights=True)
    lane.refill(Waiting(chosen))
    lane.advance(0)
    begun = lane.weights()
    finished = lane.advance(rounds)
    return begun, lane.weights() | _ended(finished)


def _ended(finished: Finished | None) -> Weights:
    if finished is None or finished.weights is None:
        return {}
    return {
        int(position): {name: leaf[place] for name, leaf in finished.weights.items()}
        for place, position in enumerate(finished.position)
    }
