"""Shares of cohorts for the workers of a cluster: how much a worker is given, and what is known of each cohort.

How large a share is: until a cohort's pace is known, a few trials; then as many as last some seconds, less towards the
end, so that no worker is left with all the work. A GPU has whole cohorts or equal parts of them, since its program
depends on their number.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, fields

import jax
import numpy as np

from krogh.engine.cohort import Trials
from krogh.engine.executor import ONE_LANE
from krogh.engine.lane import Finished, Waiting
from krogh.engine.memory import CPU_SLOTS
from krogh.models.base import Learner

CPU, GPU = "CPU", "GPU"
LEAST_SECONDS, MOST_SECONDS = 0.5, 30.0  # of a share; handing one out takes some 5 ms
PIECES = 32  # cohorts in one share
SENT_BYTES = 1 << 28  # of the arrays of one share


@dataclass
class Lost:
    """Trials whose worker died, perhaps because of them."""

    positions: np.ndarray
    strikes: int


@dataclass
class CohortWork:
    """One cohort: what waits of it, what is under way, what has been seen."""

    given: Trials
    place: int
    cohort: Trials
    wanted: np.ndarray | Waiting
    keep_weights: bool
    flying: int = 0
    seconds: float = 0.0
    trials: int = 0
    lost: list[Lost] = field(default_factory=list)
    part: int = 0  # trials in a share for a GPU
    over: bool = False

    def __post_init__(self) -> None:
        wanted = self.wanted
        self.waiting = wanted if isinstance(wanted, Waiting) else Waiting(np.asarray(wanted))
        self.cohort = self.cohort.fitted() if self.waiting.expected else self.cohort
        self.outside = isinstance(self.cohort.template.model, Learner)
        self.seen = np.zeros(len(self.cohort), bool)
        self.over = not self.waiting.expected
        sizes = [leaf.nbytes for leaf in jax.tree.leaves(self.cohort.template)]
        self.most = max(1, SENT_BYTES // max(1, sum(sizes)))

    @property
    def pace(self) -> float | None:
        """Seconds that a worker needs for a trial; None before one has ended."""
        return self.seconds / self.trials if self.trials else None

    @property
    def at_its_end(self) -> bool:
        return not self.lost and not self.flying and self.waiting.over

    def give_back(self, positions: np.ndarray, strikes: int) -> None:
        """Trials without a record whose worker was lost for no fault of theirs; earlier strikes stay."""
        if strikes:
            self.lost.append(Lost(positions, strikes))
        else:
            self.waiting.add(positions)

    def fresh(self, finished: Finished) -> Finished:
        """The records that were not seen before, as arrays of their own, not of Ray's memory."""
        chosen = np.flatnonzero(~self.seen[finished.position])
        self.seen[finished.position] = True
        columns = {column.name: getattr(finished, column.name) for column in fields(finished)}
        return Finished(**jax.tree.map(lambda leaf: np.array(leaf[chosen]), columns))


@dataclass(eq=False)
class Share:
    """A task that was handed out."""

    kind: str
    pieces: list[tuple[CohortWork, np.ndarray]]
    strikes: int = 0
    node: str = ""
    pid: int = 0
    fault: Exception | None = None


def next_share(
    works: Sequence[CohortWork], kind: str, workers: int, under_way: int, typical: float | None = None
) -> Share | None:
    """What the next free worker of `workers` is given, `under_way` shares being out; None if nothing waits.

    `typical` is how long a trial took so far, in seconds, whatever its cohort.
    """
    for work in works:
        if work.lost:
            again = work.lost.pop(0)
            return Share(kind, [(work, again.positions)], again.strikes)
    waiting = [work for work in works if work.waiting.left()]
    if not waiting:
        return None
    pieces = _for_gpu(waiting, workers) if kind == GPU else _for_cpu(waiting, workers, under_way, typical)
    # Another process that shares the study may have been given what waited a moment ago.
    pieces = [(work, positions) for work, positions in pieces if len(positions)]
    return Share(kind, pieces) if pieces else None


def _for_cpu(
    waiting: Sequence[CohortWork], workers: int, under_way: int, typical: float | None
) -> list[tuple[CohortWork, np.ndarray]]:
    """By the clock: a share of what is left, a few trials where the pace of a cohort is not known."""
    left = sum(work.waiting.left() for work in waiting)
    fair = -(-left // max(1, workers - under_way))  # so that whoever is idle has something
    many = len(waiting) >= 4 * workers  # then a share that takes longer than was thought keeps nobody waiting
    pace_of = {work.place: typical if many and work.pace is None else work.pace for work in waiting}
    # A cohort whose pace somebody is finding out already is put off.
    order = sorted(waiting, key=lambda work: (work.pace is None and work.flying > 0, work.place))
    first = order[0]
    if pace_of[first.place] is None:
        few = min(CPU_SLOTS, -(-first.waiting.left() // (2 * workers)))
        size = max(few, -(-left // (4 * workers))) if many else few  # a whole cohort's program is compiled once
        return [(first, first.waiting.take(min(size, first.most)))]
    seconds = sum(work.waiting.left() * (work.pace or typical or 0.0) for work in waiting)
    several = 2 * workers if workers > 1 else 1
    target = float(np.clip(seconds / several, LEAST_SECONDS, MOST_SECONDS))
    pieces: list[tuple[CohortWork, np.ndarray]] = []
    for work in order:
        pace = pace_of[work.place]
        if pace is None or work.keep_weights != first.keep_weights:
            continue
        size = min(int(np.ceil(target / max(pace, 1e-6))), fair, work.most)
        if size < 1 or len(pieces) == PIECES:
            break
        pieces.append((work, work.waiting.take(size)))
        taken = len(pieces[-1][1])
        target, fair = target - taken * pace, fair - taken
    return pieces


def _for_gpu(waiting: Sequence[CohortWork], workers: int) -> list[tuple[CohortWork, np.ndarray]]:
    """Whole cohorts, or equal parts where there are few; several at a time, so that programs are compiled ahead."""
    left = sum(work.waiting.left() for work in waiting)
    many = len(waiting) >= 2 * workers
    pieces: list[tuple[CohortWork, np.ndarray]] = []
    for work in waiting:
        if work.keep_weights != waiting[0].keep_weights:
            continue
        if not work.part or not work.waiting.closed:
            own = work.waiting.left()
            work.part = own if many else max(min(own, ONE_LANE), -(-own // workers))
        pieces.append((work, work.waiting.take(min(work.part, work.most))))
        if len(pieces) == PIECES or sum(len(taken) for _, taken in pieces) * 2 * workers >= left:
            break
    return pieces
