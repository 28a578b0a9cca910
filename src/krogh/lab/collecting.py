"""Training a study's trials: cohort by cohort, what is missing, into the store, with progress."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

import numpy as np

from krogh.engine import Trials, Usage, run_cohort
from krogh.engine.checking import CONVERGED, DIVERGED
from krogh.engine.lane import Finished
from krogh.engine.records import recorded
from krogh.engine.run import prepare
from krogh.lab.store import Store
from krogh.lab.weights import write_weights
from krogh.values import digest

FLUSH_SECONDS = 20.0
FLUSH_ROWS = 200_000
PREPARED = 4  # cohorts whose programs are compiled ahead


@dataclass
class Progress:
    """How far a study is: what a progress display shows."""

    total: int
    done: int = 0
    converged: int = 0
    diverged: int = 0
    steps: int = 0
    resumed: int = 0
    seconds: float = 0.0
    first_done: int = 0
    first_seconds: float = 0.0

    @property
    def steps_per_second(self) -> float:
        return self.steps / self.seconds if self.seconds else 0.0

    @property
    def seconds_left(self) -> float | None:
        """By the pace since the first trial ended: the first compilation says nothing of what follows."""
        fresh = self.done - self.first_done
        return (self.seconds - self.first_seconds) / fresh * (self.total - self.done) if fresh > 0 else None


def train(
    cohorts: list[Trials],
    ids_of: list[np.ndarray],
    store: Store,
    usage: Usage,
    progress: Progress,
    show: Callable[[Progress], None],
    weights_folder: Path | None,
) -> None:
    missing_of = _missing(ids_of, store.ids())
    progress.done = progress.resumed = progress.total - sum(len(missing) for missing in missing_of)
    if progress.done < progress.total:
        show(progress)
    begun, first = time.perf_counter(), 0
    prepared = 1
    for place, (cohort, ids, missing) in enumerate(zip(cohorts, ids_of, missing_of, strict=True)):
        while prepared < min(place + 1 + PREPARED, len(cohorts)):
            usage.compilations += prepare(cohorts[prepared], len(missing_of[prepared]))
            prepared += 1
        key = digest(cohort.structure).hex()
        batches: list[Finished] = []
        rows = 0
        flushed = time.perf_counter()
        records = run_cohort(cohort, missing, usage=usage, keep_weights=weights_folder is not None)
        try:
            for finished in records:
                if weights_folder is not None:
                    write_weights(weights_folder / "weights", ids[finished.position], finished.weights or {})
                batches.append(replace(finished, weights=None))
                progress.done += len(finished.position)
                progress.converged += int((finished.status == CONVERGED).sum())
                progress.diverged += int((finished.status == DIVERGED).sum())
                progress.steps += int(finished.steps.sum(dtype=np.int64))
                progress.seconds = time.perf_counter() - begun
                if not progress.first_seconds:
                    progress.first_done, progress.first_seconds = progress.done, progress.seconds
                show(progress)
                rows += len(finished.position)
                if rows >= FLUSH_ROWS or time.perf_counter() - flushed > FLUSH_SECONDS:
                    store.add_part(key, recorded(cohort, ids, _together(batches), first))
                    batches, rows, flushed = [], 0, time.perf_counter()
        finally:
            records.close()
            if batches:
                store.add_part(key, recorded(cohort, ids, _together(batches), first))
        store.merge(key)
        first += len(cohort)


def _missing(ids_of: list[np.ndarray], present: np.ndarray) -> list[np.ndarray]:
    """For each cohort the positions of the trials to train: not there yet, and a trial asked for twice only once."""
    result = []
    for ids in ids_of:
        _, distinct = np.unique(ids, return_index=True)
        result.append(np.sort(distinct[~np.isin(ids[distinct], present)]))
        present = np.union1d(present, ids)
    return result


def _together(batches: list[Finished]) -> Finished:
    """Records of many batches as one: a table per batch would take more room than the records themselves."""
    columns: dict[str, Any] = {}
    for field in fields(Finished):
        parts = [getattr(batch, field.name) for batch in batches]
        columns[field.name] = None if parts[0] is None else np.concatenate(parts)
    return Finished(**columns)
