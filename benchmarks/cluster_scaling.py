"""What more Ray workers on this machine are worth, and what handing out work costs.

python benchmarks/cluster_scaling.py [--workers 1 2 4] [--trials 120] [--cohorts 12]

Three tables, each from one run, so that a busy machine is as busy for all of a table's rows:

    waiting     an outside learner that sleeps: four workers do four times the work of one even on two cores
    training    networks: as many workers as there are cores
    overhead    cohorts of about a second each, on one worker, beside the same trials without Ray: what matters is the
                share of the worker's time in which nothing is trained, for other programs on the machine slow both
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Sequence
from contextlib import closing
from typing import Any

import numpy as np

import krogh
from krogh.engine import Trials, Usage, run_cohorts
from krogh.engine.cluster import RayExecutor
from krogh.engine.executor import cores_here
from krogh.models.base import Learner
from krogh.values import data


class Sleeper(Learner):
    """Sleeps, then says 1."""

    seconds: np.ndarray = data(default=0.25)

    kind = "sleeper"

    def fit(self, x: np.ndarray, y: np.ndarray, seed: int) -> Any:
        time.sleep(float(self.seconds))
        return lambda queries: np.ones(len(queries), np.float32)

    def check(self, task: Any) -> None:
        """Anything will do."""

    @classmethod
    def example(cls) -> Any:
        return cls(), krogh.Parity(n=6, k=2)


def sleepers(count: int, seconds: float = 0.25, n: int = 6) -> Trials:
    training = krogh.Training(regime=krogh.FullBatch(m=10), stopping=krogh.Stopping(budget=10, validation=20))
    (cohort,) = krogh.sweep(krogh.Trial(krogh.Parity(n=n, k=2), Sleeper(seconds), training), seed=range(count))
    return cohort


def networks(count: int, n: int = 20) -> Trials:
    stopping = krogh.Stopping(budget=5_000, validation=100, early=False)
    training = krogh.Training(krogh.Sgd(rate=0.1), krogh.Online(batch_size=32), stopping)
    (cohort,) = krogh.sweep(krogh.Trial(krogh.Parity(n=n, k=3), krogh.Mlp(width=100), training), seed=range(count))
    return cohort


def seconds_of(executor: Any, cohorts: Sequence[Trials]) -> tuple[float, Usage]:
    """How long the cohorts take, and what they cost."""
    usage, begun = Usage(), time.perf_counter()
    with closing(executor(cohorts, [np.arange(len(cohort)) for cohort in cohorts], usage=usage)) as records:
        done = sum(len(finished.position) for _, finished in records if finished is not None)
    assert done == sum(map(len, cohorts))
    return time.perf_counter() - begun, usage


def scaling(name: str, make: Any, workers: Sequence[int], trials: int) -> None:
    """A table of the work done by so many workers, in units of what one does."""
    one = None
    print(f"\n{name}: {trials} trials\n\n| workers | seconds | trials per second | times one worker |")
    print("| ---: | ---: | ---: | ---: |")
    for count in workers:
        with RayExecutor(cpus=count) as executor:
            seconds_of(executor, [sleepers(4 * count, 0.5)])  # until all workers are there
            seconds_of(executor, [make(2 * count)])  # and have compiled
            seconds, _ = seconds_of(executor, [make(trials)])
        one = one or seconds * count
        print(f"| {count} | {seconds:.2f} | {trials / seconds:.2f} | {one / seconds:.2f} |", flush=True)


def overhead(count: int) -> None:
    """Cohorts of about a second on one Ray worker, and in this process on one core; the share of the time in which
    nothing is trained, and the time of the one beside that of the other."""
    kinds = {
        "sleeping": [sleepers(4, n=n) for n in range(6, 6 + count)],
        "training": [networks(8, n=n) for n in range(20, 20 + count)],
    }
    print(f"\n| {count} cohorts | repetition | seconds here | not training | one Ray worker | not training | more |")
    print("| --- | ---: | ---: | ---: | ---: | ---: | ---: |")
    with RayExecutor(cpus=1) as executor:
        for name, cohorts in kinds.items():
            for each in (run_cohorts, executor):
                seconds_of(each, cohorts)  # compiled
            for repetition in range(3):
                (here, used), (there, spent) = seconds_of(run_cohorts, cohorts), seconds_of(executor, cohorts)
                idle = [
                    f"{seconds:.2f} | {1 - usage.seconds / seconds:.1%}"
                    for seconds, usage in ((here, used), (there, spent))
                ]
                print(f"| {name} | {repetition + 1} | {' | '.join(idle)} | {there / here - 1:+.1%} |", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 2, 4])
    parser.add_argument("--trials", type=int, default=120)
    parser.add_argument("--cohorts", type=int, default=12)
    given = parser.parse_args()
    os.environ |= {"KROGH_CORES": "1", "NPROC": "1"}  # as a worker has it
    overhead(given.cohorts)
    del os.environ["KROGH_CORES"]
    scaling("waiting", sleepers, given.workers, given.trials)
    scaling("training", networks, [count for count in given.workers if count <= cores_here()], given.trials)
