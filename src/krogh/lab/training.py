"""Training a study's trials: cohort by cohort, what is missing, into the store, with progress."""

from __future__ import annotations

import contextlib
import math
import threading
import time
from collections.abc import Callable, Generator, Iterable, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from krogh.engine import Trials, Usage, run_cohorts
from krogh.engine.checking import CONVERGED, DIVERGED
from krogh.engine.executor import Executor
from krogh.engine.lane import Finished, Waiting
from krogh.engine.records import record_table
from krogh.errors import require
from krogh.lab.members import Member
from krogh.lab.search import Dispatcher, Search
from krogh.lab.sharing import LOOK_SECONDS, Apprentice, Crew, attending, can_be_shared, looking, repeated
from krogh.lab.store import Store
from krogh.lab.weights import WeightsFolder, write_finished
from krogh.values import digest

FLUSH_SECONDS = 20.0
FLUSH_ROWS = 200_000
MOMENT_SECONDS = 1.0  # within which cohorts that end are written together


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
        self.count(finished.status == CONVERGED, finished.status == DIVERGED, finished.steps)
        self.seconds = seconds
        if not self.first_seconds:
            self.first_done, self.first_seconds = self.done, self.seconds

    def count(self, converged: np.ndarray, diverged: np.ndarray, steps: np.ndarray) -> None:
        """Count trials that ended, here or elsewhere."""
        self.done += len(steps)
        self.converged += int(converged.sum())
        self.diverged += int(diverged.sum())
        self.steps += int(steps.sum(dtype=np.int64))

    def begin(self) -> float:
        """When training began by the clock, had it not paused; the pace is found out anew."""
        self.first_done, self.first_seconds = 0, 0.0
        return time.perf_counter() - self.seconds

    @property
    def steps_per_second(self) -> float:
        return self.steps / self.seconds if self.seconds else 0.0

    @property
    def seconds_left(self) -> float | None:
        """By the pace since the first trial ended: the first compilation says nothing of what follows."""
        fresh = self.done - self.first_done
        return (self.seconds - self.first_seconds) / fresh * (self.total - self.done) if fresh > 0 else None


@dataclass
class Work:
    """What is to be trained and by what, where it goes, what it costs, and who is told of it.

    `spend` is called whenever records have been written.
    """

    cohorts: list[Trials]
    ids: list[np.ndarray]
    store: Store
    progress: Progress
    show: Callable[[Progress], None]
    weights_folder: Path | None = None
    executor: Executor | None = None
    usage: Usage = field(default_factory=Usage)
    spend: Callable[[], None] = lambda: None

    def start(
        self, positions: Sequence[np.ndarray | Waiting], weights_of: WeightsFolder | None = None
    ) -> Generator[tuple[int, Finished | None], None, None]:
        """Train the trials at `positions` of each cohort."""
        keep, train = self.weights_folder is not None, self.executor or run_cohorts
        return train(self.cohorts, positions, usage=self.usage, keep_weights=keep, weights_of=weights_of)


def train_missing(work: Work, search: Search | None = None, member: Member | None = None) -> None:
    """Train what the store does not hold yet, all cohorts in one go; with a search, only what it asks for.

    A `member` that leads gives some of it to others that ask.
    """
    progress, store = work.progress, work.store
    crew = None
    if member is not None and can_be_shared(work.cohorts):
        crew = Crew(member, store, work.ids, searching=search is not None)
    before = store.ids()
    missing_of: list[Any] = _missing(work.ids, before)
    progress.done = progress.resumed = progress.total - sum(len(missing) for missing in missing_of)
    log = _Log(work, merging=True)
    log.merge_ended(place for place, missing in enumerate(missing_of) if not len(missing))
    dispatcher = None
    if search is not None:
        dispatcher = Dispatcher(search, work.cohorts, _successes(work.ids, store))
        missing_of, progress.total = dispatcher.waiting, progress.done + dispatcher.most
    if crew is not None:
        missing_of = crew.share(crew.queues(missing_of) if dispatcher is None else dispatcher)
    if progress.done < progress.total:
        work.show(progress)
    begun, counting = progress.begin(), threading.Lock()

    def take_in(place: int, positions: np.ndarray, rows: pl.DataFrame) -> None:
        """Records that other processes have written."""
        converged = (rows["outcome"] == "converged").to_numpy()
        with counting:
            if dispatcher is not None:
                dispatcher.report(place, positions, converged, elsewhere=True)
            progress.count(converged, (rows["outcome"] == "diverged").to_numpy(), rows["steps"].to_numpy())

    known = None if work.weights_folder is None else WeightsFolder(work.weights_folder)
    records = work.start(missing_of, known)
    with contextlib.ExitStack() as stack:
        stack.callback(log.flush)
        stack.callback(records.close)
        if crew is not None:
            stack.enter_context(attending(crew, take_in))
        stack.enter_context(log.watched())
        stack.callback(log.flush)  # first of all: an interruption leaves little time
        for place, finished in records:
            if finished is None:
                log.close(place)
                continue
            log.add(place, finished)
            with counting:
                if dispatcher is not None:
                    dispatcher.report(place, finished.position, finished.status == CONVERGED)
                progress.add(finished, time.perf_counter() - begun)
            work.show(progress)
    after = store.ids()
    if search is not None:
        progress.total = progress.done
        work.show(progress)
        present = [sum(int(np.isin(ids, there).sum()) for ids in work.ids) for there in (before, after)]
        gone = present[0] + progress.done - progress.resumed - present[1]
    else:
        gone = sum(map(len, _missing(work.ids, after)))
        if gone and crew is not None and crew.gave:  # somebody took trials and left neither them nor records
            return train_missing(work, search, member)
    what = f"{gone:,} trials that were trained are no longer in {store.folder}: something else removed them"
    require(gone <= 0, f"{what}; run the same command again, which trains them again")


def train_given(work: Work, member: Member, search: Search | None = None) -> None:
    """Train what the process that leads gives to this one, until this one leads; the `search` is the leader's."""
    if not work.cohorts or not can_be_shared(work.cohorts):
        while not member.leads():
            time.sleep(LOOK_SECONDS)
        return
    log, progress = _Log(work, merging=False), work.progress
    progress.done = progress.resumed = int(np.isin(np.concatenate(work.ids), work.store.ids()).sum())
    apprentice, begun = Apprentice(member, work.cohorts, search), progress.begin()
    records = work.start(apprentice.waiting)
    with contextlib.ExitStack() as stack:
        stack.callback(log.flush)
        stack.callback(records.close)
        stack.enter_context(looking(apprentice))
        stack.enter_context(log.watched())
        stack.callback(log.flush)
        for place, finished in records:
            if finished is not None:
                log.add(place, finished)
                progress.add(finished, time.perf_counter() - begun)
                if apprentice.done(place, finished.position):
                    log.flush()
                    apprentice.ask()
                work.show(progress)


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
        self.key = digest(cohort.structure).hex()
        self._batches: list[Finished] = []
        self._rows, self._since = 0, 0.0

    def add(self, finished: Finished) -> None:
        if self._weights_folder is not None:
            snapshots = self._cohort.template.snapshots
            write_finished(self._weights_folder, self._ids[finished.position], finished, snapshots)
        if not self._batches:
            self._since = time.perf_counter()
        self._batches.append(replace(finished, weights=None, snapshots=None))
        self._rows += len(finished.position)

    @property
    def due(self) -> bool:
        return self._rows >= FLUSH_ROWS or time.perf_counter() - self._since > FLUSH_SECONDS

    def table(self) -> pl.DataFrame | None:
        """What has come in since the last time."""
        batches = self._batches
        return record_table(self._cohort, self._ids, _concatenate(batches), self._first) if batches else None

    def clear(self) -> None:
        """Hold nothing more: it is written. An interruption before this leaves a second copy, which reading drops."""
        self._batches, self._rows = [], 0

    def flush(self) -> None:
        """Write what has come in since the last time."""
        if (rows := self.table()) is not None:
            self._store.add_part(self.key, rows)
        self.clear()

    def merge(self) -> None:
        """Make one file of all parts."""
        self._store.merge(self.key)


class _Log:
    """The records of all cohorts on their way into the store; only cohorts that have some are looked at.

    A cohort that has ended is written at once, unless another was a moment ago: then those of that moment share a file.
    """

    def __init__(self, work: Work, *, merging: bool):
        self._writers = _record_writers(work.cohorts, work.ids, work.store, work.weights_folder)
        self._store, self._spend, self._merging = work.store, work.spend, merging
        self._holding: dict[int, None] = {}  # places of the cohorts with records that are not written yet
        self._ended: list[tuple[str, pl.DataFrame]] = []
        self._ended_rows, self._written = 0, -math.inf
        self._lock = threading.RLock()

    def add(self, place: int, finished: Finished) -> None:
        with self._lock:
            self._writers[place].add(finished)
            self._holding[place] = None
            self.write_due()

    def close(self, place: int) -> None:
        """All trials of a cohort have ended."""
        writer = self._writers[place]
        with self._lock:
            if not self._merging or self._store.has_parts(writer.key):
                self._spend()  # before the records: what a process did that dies in between was done
                writer.flush()
                if self._merging:
                    writer.merge()
            elif (rows := writer.table()) is not None:
                self._ended.append((writer.key, rows))
                self._ended_rows += len(rows)
                writer.clear()
            self._holding.pop(place, None)
            self.write_due()

    def merge_ended(self, places: Iterable[int]) -> None:
        """One file each of cohorts that were interrupted after their last trial; others cost nothing."""
        parted = self._store.in_parts()
        for place in places if parted else ():
            if self._writers[place].key in parted:
                self._writers[place].merge()

    def write_due(self) -> None:
        """Write what has waited for long enough."""
        with self._lock:
            due = [held for held in self._holding if self._writers[held].due]  # others may be long in coming
            moment = time.perf_counter() - self._written > MOMENT_SECONDS
            ended = bool(self._ended) and (moment or self._ended_rows >= FLUSH_ROWS)
            if due or ended:
                self._spend()
            for held in due:
                self._writers[held].flush()
                del self._holding[held]
            if ended:
                self._write_ended()

    def watched(self) -> contextlib.AbstractContextManager[None]:
        """While the block runs, what is due is written also when no record comes for a long time."""
        return repeated(self.write_due, MOMENT_SECONDS, lambda: None)

    def _write_ended(self) -> None:
        self._store.add_ended(self._ended)
        self._ended, self._ended_rows, self._written = [], 0, time.perf_counter()

    def flush(self) -> None:
        """Write everything that has come in."""
        with self._lock:
            self._spend()
            self._write_ended()
            for place in self._holding:
                self._writers[place].flush()
            self._holding.clear()


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
    everyone = np.concatenate([np.zeros(0, np.uint64), *ids_of])
    first = np.zeros(len(everyone), bool)
    first[np.unique(everyone, return_index=True)[1]] = True
    wanted = first & ~np.isin(everyone, present)
    ends = np.cumsum([len(ids) for ids in ids_of])
    return [np.flatnonzero(own) for own in np.split(wanted, ends[:-1])] if ids_of else []


def _concatenate(batches: list[Finished]) -> Finished:
    """Records of many batches as one: a table per batch would take more room than the records themselves."""
    columns: dict[str, Any] = {}
    for column in fields(Finished):
        parts = [getattr(batch, column.name) for batch in batches]
        columns[column.name] = None if parts[0] is None else np.concatenate(parts)
    return Finished(**columns)
