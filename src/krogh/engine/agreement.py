"""Do two devices train the same? A few steps of the same trials on both, with the programs that a study would use.

A compiler may be wrong on one kind of device, and a network that is trained wrongly often learns all the same, only
later or less often. After few steps rounding has not grown yet, and the networks must agree.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jax
import numpy as np

from krogh.engine.cohort import Trials
from krogh.engine.inheriting import without_parents
from krogh.engine.lane import Finished, Lane, Waiting
from krogh.engine.memory import Plan, plan
from krogh.errors import require
from krogh.models.base import Learner

ByPosition = dict[int, dict[str, np.ndarray]]
"""Weights of trials, by their positions in the cohort."""

STEPS = 20
TRIALS = 4
TOLERANCE = 0.05
"""Of the effect of an array's training. What products of reduced precision need has not been measured on a GPU yet."""
EXAMPLES = 512
"""Inputs on which predictions are compared."""
LEAST, TINY = 1e-3, 1e-30
"""Arrays that do less than this share of what all do are judged by that share."""


@dataclass(frozen=True)
class Agreement:
    """How much it matters on which device the weights were trained, as a share of what training has changed."""

    difference: float
    where: str
    steps: int
    trials: int

    @property
    def agrees(self) -> bool:
        return bool(self.difference <= TOLERANCE)


def agreement(cohort: Trials, device: Any, reference: Any, steps: int = STEPS, trials: int = TRIALS) -> Agreement:
    """Train the cohort's first trials on both devices for about `steps` steps and compare what every array does.

    With w the reference's weights, w_0 those at first, w_a ← u for w with array a replaced by u, and f the predictions,

        difference = max over trials and arrays a of  ‖f(w_a ← device's) - f(w)‖ / ‖f(w_a ← w_0's) - f(w)‖,

    the denominator at least `LEAST` of ‖f(w_0) - f(w)‖. Weights themselves cannot be compared: on some directions no
    prediction depends, such as a bias of the keys under a softmax, and an optimiser that divides by the size of the
    gradient follows rounding errors there. Trials that begin with others' weights draw their own here.
    """
    network = not isinstance(cohort.template.model, Learner)
    require(network, f"{type(cohort.template.model).__name__} learns on the host: there are no devices to compare")
    cohort = without_parents(cohort)
    every = cohort.template.training.stopping.check_every
    rounds = max(1, -(-steps // every))
    chosen = np.arange(min(trials, len(cohort)))
    fitted = cohort.fitted()
    _, ours = _trained(fitted, plan(fitted.template, len(cohort), device), device, chosen, rounds)
    begun, theirs = _trained(fitted, Plan(len(chosen), 1), reference, chosen, rounds)
    worst, where = 0.0, ""
    with jax.default_device(reference):
        predicted = jax.jit(lambda trial, params: trial.model.predict(params, trial.validation(EXAMPLES).x))
        for position in chosen.tolist():
            trial, after, before = cohort[position], theirs[position], begun[position]
            now = predicted(trial, after)
            least = LEAST * _norm(predicted(trial, before), now)
            for name, weights in ours[position].items():
                apart = _norm(predicted(trial, after | {name: weights}), now)
                way = _norm(predicted(trial, after | {name: before[name]}), now)
                share = apart / max(way, least, TINY) if apart else 0.0
                if not share <= worst:  # a NaN is never small
                    worst, where = (share if np.isfinite(share) else np.inf), f"{name} of trial {position}"
    return Agreement(worst, where, rounds * every, len(chosen))


def _norm(a: Any, b: Any) -> float:
    return float(np.linalg.norm(np.asarray(a, np.float64) - np.asarray(b, np.float64)))


def _trained(cohort: Trials, size: Plan, device: Any, chosen: np.ndarray, rounds: int) -> tuple[ByPosition, ByPosition]:
    """The weights of the chosen trials at first and after `rounds` rounds, by position."""
    lane = Lane(cohort, size, device, keep_weights=True)
    lane.refill(Waiting(chosen))
    lane.advance(0)
    begun = lane.weights()
    finished = lane.advance(rounds)
    return begun, lane.weights() | _ended(finished)


def _ended(finished: Finished | None) -> ByPosition:
    if finished is None or finished.weights is None:
        return {}
    return {
        int(position): {name: leaf[place] for name, leaf in finished.weights.items()}
        for place, position in enumerate(finished.position)
    }
