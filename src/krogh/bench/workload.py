"""The standard workload: n = 50, k = 3, width-100 ReLU network, batch 32, hinge, SGD.

A *trial-step* is one minibatch update of one network. Trials here never converge (the rate is tiny), so that every
contestant does the same work for as long as it is asked to.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

import jax
import numpy as np

from krogh.engine import Trial, Trials, Usage, run_cohort, sweep
from krogh.engine.executor import lanes_here
from krogh.engine.lane import Lane, Waiting
from krogh.engine.memory import plan
from krogh.models import Mlp
from krogh.tasks import Parity
from krogh.training import Online, Sgd, Stopping, Training

N, K, WIDTH, BATCH, RATE = 50, 3, 100, 32, 1e-6
LONGEST = 5_000_000  # steps


@dataclass(frozen=True)
class Measured:
    """Trial-steps per second of one contestant."""

    name: str
    speed: float
    trials: int
    note: str = ""


def standard_trial(budget: int, validation: int = 128, rate: float = RATE) -> Trial:
    stopping = Stopping(budget=budget, validation=validation)
    return Trial(Parity(N, K), Mlp(WIDTH), Training(Sgd(rate), Online(BATCH), stopping))


def krogh_alone(seconds: float) -> Measured:
    """One network on one lane, with its checks."""
    return _timed("krogh, one network", 1, seconds)


def krogh_cohort(seconds: float) -> Measured:
    """As many networks as the plan has slots, on every lane, end to end: checks, stopping and records."""
    devices = lanes_here()
    trial = standard_trial(1_000_000)
    slots = sum(plan(trial, 1 << 30, device).slots for device in devices)
    return _timed("krogh, cohort, end to end", slots, seconds)


def krogh_training(seconds: float) -> Measured:
    """One lane's program with every slot running: rounds and checks, no host work between."""
    device = jax.local_devices()[0]
    trial = standard_trial(1_000_000)
    size = plan(trial, 1 << 30, device)
    cohort = sweep(trial, seed=range(size.slots))[0].fitted()
    lane = Lane(cohort, size, device)
    lane.refill(Waiting(np.arange(size.slots)))
    lane.advance(2)
    before, begun = lane.usage.executed_steps, time.perf_counter()
    while time.perf_counter() - begun < seconds:
        lane.advance(20)
    elapsed = time.perf_counter() - begun
    return Measured("krogh, one lane, training and checks", (lane.usage.executed_steps - before) / elapsed, size.slots)


def _timed(name: str, trials: int, seconds: float) -> Measured:
    """Train `trials` trials for about `seconds`: short runs to compile and to learn the speed, then the run."""
    budget = 200
    _speed(sweep(standard_trial(budget), seed=range(trials))[0])
    while True:
        begun = time.perf_counter()
        speed, usage = _speed(sweep(standard_trial(budget), seed=range(trials))[0])
        elapsed = time.perf_counter() - begun
        if elapsed >= seconds / 2 or budget == LONGEST:
            return Measured(name, speed, trials, f"{usage.wasted_share:.1%} wasted")
        budget = int(np.clip(budget * min(8.0, seconds / elapsed), 2 * budget, LONGEST)) // 10 * 10


def _speed(cohort: Trials) -> tuple[float, Usage]:
    usage, steps, begun = Usage(), 0, time.perf_counter()
    for finished in run_cohort(cohort, usage=usage):
        steps += int(finished.steps.sum(dtype=np.int64))
    return steps / (time.perf_counter() - begun), usage
