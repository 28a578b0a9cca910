"""Training a study's trials: cohort by cohort, what is missing, into the store, with progress."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from krogh.engine import Trials, Usage, run_cohorts
from krogh.engine.checking import CONVERGED, DIVERGED
from krogh.engine.lane import Finished
from krogh.engine.records import record_table
from krogh.lab.search import Dispatcher, Search
from krogh.lab.store import Store
from krogh.lab.weights import WeightsFolder, write_finished
from krogh.values import digest

FLUSH_SECONDS = 20.0
FLUSH_ROWS = 200_000


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

    def add(self, finished: Finished, seconds: float) -> None:
        """Count trials that ended; `seconds` since training began."""
        self.done += len(finished.position)
        self.converged += int((finished.status == CONVERGED).sum())
        self.diverged += int((finished.status == DIVERGED).sum())
        self.steps += int(finished.steps.sum(dtype=np.int64))
        self.seconds = seconds
        if not self.first_seconds:
            self.first_done, self.first_seconds = self.done, self.seconds

    @property
    def steps_per_second(self) -> float:
        return self.steps / self.seconds if self.seconds else 0.0

    @property
    def seconds_left(self) -> float | None:
        """By the pace since the first trial ended: the first compilation says nothing of what follows."""
        fresh = self.done - self.first_done
        return (self.seconds - self.first_seconds) / fresh * (self.total - self.done) if fresh > 0 else None


def train_missing(
    cohorts: list[Trials],
    ids_of: list[np.ndarray],
    store: Store,
    usage: Usage,
    progress: Progress,
    show: Callable[[Progress], None],
    weights_folder: Path | None,
    search: Search | None = None,
) -> None:
    """Train what the store does not hold yet, all cohorts in one go; with a search, only what it asks for."""
    missing_of: list[Any] = _missing(ids_of, store.ids())
    progress.done = progress.resumed = progress.total - sum(len(missing) for missing in missing_of)
    writers = _record_writers(cohorts, ids_of, store, weights_folder)
    for writer, missing in zip(writers, missing_of, strict=True):
        if not len(missing):
            writer.close()
    if search is not None:
        dispatcher = Dispatcher(search, cohorts, _successes(ids_of, store))
        missing_of, progress.total = dispatcher.waiting, progress.done + dispatcher.most
    if progress.done < progress.total:
        show(progress)
    known = None if weights_folder is None else WeightsFolder(weights_folder)
    records = run_cohorts(cohorts, missing_of, usage=usage, keep_weights=weights_folder is not None, weights_of=known)
    begun = time.perf_counter()
    try:
        for place, finished in records:
            if finished is None:
                writers[place].close()
            else:
                writers[place].add(finished)
                if search is not None:
                    dispatcher.report(place, finished)
                for writer in writers:  # also those whose next trials may be a long time coming
                    writer.flush_when_due()
                progress.add(finished, time.perf_counter() - begun)
                show(progress)
    finally:
        records.close()
        for writer in writers:
            writer.flush()
    if search is not None:
        progress.total = progress.done
        show(progress)


def _successes(ids_of: list[np.ndarray], store: Store) -> dict[int, bool]:
    """Of the trials in the store, by their position in the study: whether they converged."""
    ids = np.concatenate([np.zeros(0, np.uint64), *ids_of])
    if not store.files():
        return {}
    known = store.scan(np.unique(ids)).select("id", pl.col("outcome") == "converged").collect()
    by_id = dict(known.iter_rows())
    return {place: by_id[identity] for place, identity in enumerate(ids.tolist()) if identity in by_id}


class _RecordWriter:
    """Records of one cohort on their way into the store."""

    def __init__(self, cohort: Trials, ids: np.ndarray, first: int, store: Store, weights_folder: Path | None):
        self._cohort, self._ids, self._first, self._store = cohort, ids, first, store
        self._weights_folder = weights_folder
        self._key = digest(cohort.structure).hex()
        self._batches: list[Finished] = []
        self._rows, self._flushed = 0, time.perf_counter()

    def add(self, finished: Finished) -> None:
        if self._weights_folder is not None:
            snapshots = self._cohort.template.snapshots
            write_finished(self._weights_folder, self._ids[finished.position], finished, snapshots)
        self._batches.append(replace(finished, weights=None, snapshots=None))
        self._rows += len(finished.position)

    def flush_when_due(self) -> None:
        if self._rows >= FLUSH_ROWS or time.perf_counter() - self._flushed > FLUSH_SECONDS:
            self.flush()

    def flush(self) -> None:
        """Write what has come in since the last time."""
        if self._batches:
            rows = record_table(self._cohort, self._ids, _concatenate(self._batches), self._first)
            self._store.add_part(self._key, rows)
        self._batches, self._rows, self._flushed = [], 0, time.perf_counter()

    def close(self) -> None:
        """All of the cohort's trials have ended."""
        self.flush()
        self._store.merge(self._key)


def _record_writers(
    cohorts: list[Trials], ids_of: list[np.ndarray], store: Store, weights_folder: Path | None
) -> list[_RecordWriter]:
    first, result = 0, []
    for cohort, ids in zip(cohorts, ids_of, strict=True):
        result.append(_RecordWriter(cohort, ids, first, store, weights_folder))
        first += len(cohort)
    return result


def _missing(ids_of: list[np.ndarray], present: np.ndarray) -> list[np.ndarray]:
    """For each cohort the positions of the trials to train: not there yet, and a trial asked for twice only once."""
    result = []
    for ids in ids_of:
        _, distinct = np.unique(ids, return_index=True)
        result.append(np.sort(distinct[~np.isin(ids[distinct], present)]))
        present = np.union1d(present, ids)
    return result


def _concatenate(batches: list[Finished]) -> Finished:
    """Records of many batches as one: a table per batch would take more room than the records themselves."""
    columns: dict[str, Any] = {}
    for field in fields(Finished):
        parts = [getattr(batch, field.name) for batch in batches]
        columns[field.name] = None if parts[0] is None else np.concatenate(parts)
    return Finished(**columns)
