"""Outside learners: trials whose training is a function on the host.

They wait, are handed out and leave records like any others, one at a time on each worker; no program is compiled.
"""

from __future__ import annotations

import time

import jax
import jax.numpy as jnp
import numpy as np

from krogh.engine.checking import CONVERGED, DIVERGED, FAILED, allowed_errors
from krogh.engine.cohort import Trials
from krogh.engine.lane import PATHS, Finished, Usage, Waiting
from krogh.engine.shapes import check_prediction
from krogh.engine.trial import DATA, INIT, Trial
from krogh.models.base import Learner


class OutsideLane:
    """One worker's place for a cohort of outside learners, used as a `Lane` is."""

    def __init__(self, cohort: Trials, usage: Usage):
        self.cohort, self.usage = cohort, usage
        self.in_flight = np.zeros(0, np.int64)

    def refill(self, waiting: Waiting) -> None:
        """Take a trial, if none is there."""
        if not len(self.in_flight):
            self.in_flight = waiting.take(1)

    def advance(self) -> Finished | None:
        """Train and judge it."""
        if not len(self.in_flight):
            return None
        begun = time.perf_counter()
        status, error = train_on_host(self.cohort[int(self.in_flight[0])])
        self.usage.seconds += time.perf_counter() - begun
        self.usage.executed_steps += 1
        self.usage.useful_steps += 1
        finished = Finished(
            position=self.in_flight,
            status=np.array([status], np.int32),
            steps=np.ones(1, np.int32),
            reached=np.array([1 if status == CONVERGED else -1], np.int32),
            error=np.array([error], np.float32),
            runs=np.ones(1, np.int32),
            loss=np.full(1, np.nan, np.float32),
            path=np.array([PATHS.index("host")], np.int8),
        )
        self.in_flight = np.zeros(0, np.int64)
        return finished


def train_on_host(trial: Trial) -> tuple[int, float]:
    """The outcome and the mean error of a trial of an outside learner, by the rule and on the sample of any other."""
    assert isinstance(trial.model, Learner)
    sample = trial.task.decode(trial.training.regime.whole(trial.task, trial.key(DATA)))
    seed = int(jax.random.bits(trial.key(INIT), (), jnp.uint32))
    predictor = trial.model.fit(np.asarray(sample.x), np.asarray(sample.y), seed)
    examples = trial.validation()
    prediction = jnp.asarray(np.asarray(predictor(np.asarray(examples.x)), np.float32))
    check_prediction(trial, prediction, examples)
    errors = np.asarray(trial.task.judge(prediction, examples), np.float64)
    if not np.isfinite(errors).all():
        return DIVERGED, float("nan")
    return CONVERGED if errors.sum() <= float(allowed_errors(trial)) else FAILED, float(errors.mean())
