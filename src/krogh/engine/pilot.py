"""What training will cost, from training a little: the first seconds of a cohort, on all lanes of this machine.

A pilot compiles the cohort's program and trains trials from all over the cohort in as many slots as the real run would
have, so that what lanes take from each other (caches, cores, a GPU) is part of what is measured. A visit of a lane that
executes e trial-steps and begins b trials takes t ≈ e·(seconds per step) + b·(seconds per trial). On a GPU the last
trials of a cohort take as long as a full block would; so where all trials ended, what they took is kept as it is.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

import numpy as np
import scipy

from krogh.engine.cohort import Trials
from krogh.engine.compiling import request_program
from krogh.engine.executor import HOST, lanes_for
from krogh.engine.inheriting import without_parents
from krogh.engine.lane import Finished, Lane, Usage, Waiting
from krogh.engine.memory import plan
from krogh.engine.outside import OutsideLane
from krogh.engine.start import Inherited
from krogh.models.base import Learner

REFILLS = 64  # of a pilot's slots, at most: who ends early makes room for another, as in a study


@dataclass(frozen=True)
class Pilot:
    """What a pilot of one cohort found; seconds are those of one lane."""

    compile_seconds: float
    step_seconds: float
    trial_seconds: float
    ended: tuple[int, ...]  # steps of the trials that ended
    running: tuple[int, ...]  # steps so far of those that did not
    start_seconds: float = 0.0  # until the lanes could begin
    whole_seconds: float | None = None  # of the cohort, where all of its trials ended
    copies: int = 1  # as often was the cohort trained, beside itself


@dataclass
class _Lane:
    """One lane of a pilot, and what its visits took."""

    lane: Lane | OutsideLane
    usage: Usage
    visits: list[tuple[int, int, float]] = field(default_factory=list)  # trial-steps, trials begun, seconds
    ended: list[int] = field(default_factory=list)
    problem: BaseException | None = None
    pace: float = math.nan  # seconds of a round, once one was trained

    def go(self, waiting: Waiting, deadline: float, together: threading.Barrier) -> None:
        try:
            together.wait()
            while time.perf_counter() < deadline:
                before, executed, started = len(self.lane.in_flight), self.usage.executed_steps, time.perf_counter()
                self.lane.refill(waiting)
                begun = len(self.lane.in_flight) - before
                if not len(self.lane.in_flight):
                    return
                finished = self._advance(deadline)
                seconds = time.perf_counter() - started
                self.visits.append((self.usage.executed_steps - executed, begun, seconds))
                self.ended += [] if finished is None else finished.steps.tolist()
        except BaseException as cause:
            self.problem = cause

    def _advance(self, deadline: float) -> Finished | None:
        """The next chunk; on a CPU, where a round may take seconds, one that ends about when the pilot does."""
        lane, begun = self.lane, time.perf_counter()
        if isinstance(lane, OutsideLane) or lane.device.platform != "cpu":
            return lane.advance()
        left = 1 if math.isnan(self.pace) else int((deadline - begun) / self.pace)
        rounds = lane.whole_probes(max(1, min(lane.rounds, left)))
        finished = lane.advance(rounds)
        self.pace = (time.perf_counter() - begun) / rounds
        return finished

    @property
    def running(self) -> list[int]:
        return [] if isinstance(self.lane, OutsideLane) else self.lane.steps().tolist()


def compile_together(cohorts: Sequence[Trials]) -> list[float]:
    """Compile the cohorts' programs as a study does, several at a time; the seconds after which each was there."""
    begun, ready = time.perf_counter(), list[float]()
    with ThreadPoolExecutor(max(1, len(cohorts))) as waiting:

        def wait(cohort: Trials) -> float:
            template, devices = cohort.template, lanes_for(len(cohort), 0, outside=False)
            size = plan(template, -(-len(cohort) // len(devices)), devices[0])
            request_program(template, size, devices[0])[0].result()
            return time.perf_counter() - begun

        ready += waiting.map(wait, [without_parents(cohort).fitted() for cohort in cohorts])
    return ready


def fly(cohort: Trials, seconds: float, beside: int = 1) -> Pilot:
    """Train some of the cohort's trials for about so many seconds, after compiling their program.

    Trials that would begin with others' weights begin with their own: it takes as long. Where a cohort has one lane of
    an accelerator, so many lanes train there beside one another, as those of several cohorts would.
    """
    inherits, cohort = isinstance(cohort.template.start, Inherited), without_parents(cohort).fitted()
    count, template = len(cohort), cohort.template
    outside = isinstance(template.model, Learner)
    devices = lanes_for(count, 0, outside)
    times = beside if len(devices) == 1 and devices[0].platform not in ("cpu", HOST.platform) else 1
    lanes, wanted, compiled, starting = list[_Lane](), 0, 0.0, 0.0
    for device in devices * times:
        usage = Usage()
        if outside:
            lanes.append(_Lane(OutsideLane(cohort, usage), usage))
            wanted += 4
            continue
        size = plan(template, -(-count // len(devices)), device)
        if not wanted:  # several devices compile beside one another
            begun = time.perf_counter()
            request_program(template, size, device)[0].result()
            compiled = time.perf_counter() - begun
        begun = time.perf_counter()
        lanes.append(_Lane(Lane(cohort, size, device, usage=usage), usage))
        starting += time.perf_counter() - begun
        wanted += size.slots
    positions = np.unique(np.linspace(0, count - 1, min(count, REFILLS * wanted)).round().astype(np.int64))
    order = np.random.default_rng(0).permutation(positions)
    queues = [Waiting(order, len(devices)) for _ in range(times)]
    together, deadline = threading.Barrier(len(lanes)), time.perf_counter() + seconds
    threads = [
        threading.Thread(target=lane.go, args=(queues[place // len(devices)], deadline, together), daemon=True)
        for place, lane in enumerate(lanes)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for lane in lanes:
        if lane.problem is not None:
            raise lane.problem
    visits = [visit for lane in lanes for visit in lane.visits]
    step, trial = _fitted(visits)
    ended = tuple(steps for lane in lanes for steps in lane.ended)
    whole = not inherits and len(ended) == count * times
    return Pilot(
        compiled,
        step,
        trial,
        ended,
        tuple(steps for lane in lanes for steps in lane.running),
        starting,
        sum(seconds for *_, seconds in visits) / times if whole else None,
        times,
    )


def _fitted(visits: Sequence[tuple[int, int, float]]) -> tuple[float, float]:
    """Seconds per trial-step and per trial that explain the visits best, by least squares on relative errors."""
    table = np.array(visits, float).reshape(-1, 3)
    table = table[table[:, 0] > 0]
    if not len(table):
        return math.nan, math.nan
    overall = table[:, 2].sum() / table[:, 0].sum()
    if len(table) < 4 or not 0 < (table[:, 1] > 0).sum() < len(table):
        return float(overall), 0.0
    weight = 1 / np.sqrt(np.maximum(table[:, 2], 1e-6))
    (step, trial), _ = scipy.optimize.nnls(table[:, :2] * weight[:, None], table[:, 2] * weight)
    return (float(step), float(trial)) if step > 0 else (float(overall), 0.0)


def expected_steps(pilot: Pilot, budget: float) -> float:
    """The mean steps of a trial within its budget, by the Kaplan–Meier estimate ∫₀^B P(T > t) dt.

    Beyond the last step that any trial of the pilot reached, those left are taken to go on to the budget.
    """
    times = np.array([*pilot.ended, *pilot.running], float)
    if not len(times):
        return budget
    over = np.array([True] * len(pilot.ended) + [False] * len(pilot.running))
    order = np.lexsort((~over, times))
    left, alive, last, mean = len(times), 1.0, 0.0, 0.0
    for time_, ended in zip(times[order], over[order], strict=True):
        mean += alive * (min(time_, budget) - last)
        last = min(time_, budget)
        alive *= 1 - 1 / left if ended else 1.0
        left -= 1
    return float(mean + alive * max(0.0, budget - last))
