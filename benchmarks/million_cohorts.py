"""A study of very many cohorts through the real planner and store: seconds and memory per cohort; nothing is trained.

    python benchmarks/million_cohorts.py 1000 10000 100000

Cohorts differ in structure (their batch), each with a few trials; what would train them makes up records instead.
Every phase is that of `krogh run`: identities, what is missing, records into the store, resuming, the study's table. A
time per cohort that grows with their number is work that should not be there. What is left out is measured apart: a
trial of a new structure, which is checked by tracing it, and compiling it.
"""

from __future__ import annotations

import copy
import resource
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

import krogh
from krogh.engine import Trials
from krogh.engine.checking import CONVERGED
from krogh.engine.lane import Finished
from krogh.lab.store import Store
from krogh.lab.study import write_table
from krogh.lab.training import Progress, Work, train_missing
from krogh.values import replaced

TRIALS = 10  # of each cohort
PARTS = 2  # that its records come in


def base() -> krogh.Trial:
    stopping = krogh.Stopping(budget=10_000, validation=128)
    training = krogh.Training(krogh.Sgd(rate=0.1), krogh.Online(1), stopping)
    return krogh.Trial(krogh.Parity(n=30, k=3), krogh.Mlp(width=100), training)


def made_cohorts(count: int) -> list[Trials]:
    """Cohorts of `TRIALS` trials that differ in their batch; they are not traced, as `replaced` would."""
    (template,) = krogh.sweep(base(), seed=range(TRIALS))
    trial = template.template

    def with_batch(size: int) -> krogh.Trial:
        regime, training, changed = copy.copy(trial.training.regime), copy.copy(trial.training), copy.copy(trial)
        object.__setattr__(regime, "batch_size", size)
        object.__setattr__(training, "regime", regime)
        object.__setattr__(changed, "training", training)
        return changed

    return [Trials(with_batch(size), template._stacked, TRIALS) for size in range(1, count + 1)]


def pretending(cohorts: Any, positions: Any, **_: Any) -> Iterator[tuple[int, Finished | None]]:
    """What `run_cohorts` would yield, made up."""
    for place, wanted in enumerate(positions):
        if not len(wanted):
            continue
        for own in np.array_split(np.asarray(wanted), PARTS):
            steps = (10 * (1 + (own * 7919 + place) % 500)).astype(np.int32)
            zero = np.zeros(len(own), np.float32)
            status, runs = np.full(len(own), CONVERGED, np.int32), np.ones(len(own), np.int32)
            yield place, Finished(own, status, steps, steps, zero, runs, zero, path=np.zeros(len(own), np.int8))
        yield place, None


@contextmanager
def timed(what: str, count: int) -> Iterator[None]:
    before, begun, spent = resident(), time.perf_counter(), time.process_time()
    yield
    seconds, spent, more = time.perf_counter() - begun, time.process_time() - spent, resident() - before
    line = f"{seconds:>9.1f} s {1e6 * seconds / count:>9,.0f} µs {1e6 * spent / count:>9,.0f} µs of CPU"
    print(f"  {what:<42}{line} {more / count:>9,.0f} bytes", flush=True)


def resident() -> int:
    """Bytes that this process holds at present."""
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
    except OSError:
        return 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return pages * resource.getpagesize()


def study_of(count: int, folder: Path) -> None:
    print(f"{count:,} cohorts of {TRIALS} trials: seconds, per cohort, memory kept per cohort")
    with timed("cohorts and structures", count):
        cohorts = made_cohorts(count)
    with timed("identities", count):
        ids = [cohort.ids() for cohort in cohorts]

    def train(stop_after: int | None = None) -> Progress:
        progress = Progress(count * TRIALS)

        def broken_off(*given: Any, **options: Any) -> Iterator[tuple[int, Finished | None]]:
            for number, item in enumerate(pretending(*given, **options)):
                if number == stop_after:
                    return
                yield item

        train_missing(Work(cohorts, ids, store, progress, lambda _: None, executor=broken_off))
        return progress

    store = Store(folder / "cohorts")
    with timed("records of the first half into the store", count // 2):
        train(stop_after=count // 2 * (PARTS + 1))
    with timed("resumed: the files are checked", count):
        store.check()
    with timed("resumed: the other half", count - count // 2):
        progress = train()
    assert progress.resumed >= count // 2 * TRIALS and progress.done == count * TRIALS
    with timed("resumed: nothing is missing", count):
        assert train().resumed == count * TRIALS
    with timed("records read", count):
        records = store.scan(np.unique(np.concatenate(ids))).collect()
    assert len(records) == count * TRIALS
    with timed("the study's table", count):
        write_table(folder / "trials.parquet", cohorts, ids, records, {})
    files = store.files()
    size = sum(path.stat().st_size for path in files)
    print(f"  files {len(files):,}; store {size / count / TRIALS:,.1f} bytes per trial", flush=True)


def main(counts: list[int]) -> None:
    begun, some = time.perf_counter(), 50
    for size in range(some):
        replaced(base(), "training.regime.batch_size", 100 + size)
    print(f"making a trial of a new structure: {1e3 * (time.perf_counter() - begun) / some:.1f} ms")
    for count in counts:
        with tempfile.TemporaryDirectory() as folder:
            study_of(count, Path(folder))


if __name__ == "__main__":
    main([int(text) for text in sys.argv[1:]] or [1_000, 10_000])
