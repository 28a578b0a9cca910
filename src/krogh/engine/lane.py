"""A lane: the slots of one device, filled from a queue of trials, advanced chunk by chunk.

Between chunks the host reads which trials have ended, hands on their records, and puts waiting trials in
their place. When none wait, running trials are moved together and empty blocks are no longer visited; on a
GPU the last few go on in a smaller block.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections import deque
from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field, fields
from typing import Any

import jax
import numpy as np

from krogh.engine import program
from krogh.engine.checking import CONVERGED, DIVERGED, EMPTY, FAILED, RUNNING
from krogh.engine.cohort import Trials
from krogh.engine.compiling import TUNED_BLOCK, request_program, takes_turns
from krogh.engine.memory import Plan
from krogh.engine.round import State
from krogh.engine.trial import Trial
from krogh.values import shared_of

PATHS = ("xla", "resident", "host")
"""What trains a trial: a program of XLA's, the resident kernel, or a learner on the host."""
CHUNK_SHARE = 0.08
CHUNK_SECONDS = 0.4
FIRST_ROUNDS, FIRST_VISIT = 5, 200  # of a program, and of the kernel
SHORT_ROUND, FEW_ROUNDS = 0.05, 3  # a visit costs a GPU some 30 ms, whatever it trains: of short rounds a few together
RUNG = 8
LEAST_RUNG = 16
TYPICAL_AFTER = 16


@dataclass
class Finished:
    """Records of trials that ended, as columns; `position` is the place in the cohort.

    `snapshots` hold the weights at each of the trials' snapshots [trials, snapshots, ...], NaN where one ended before.
    `path` says what trained them, as a place in `PATHS`; None is XLA.
    """

    position: np.ndarray
    status: np.ndarray
    steps: np.ndarray
    reached: np.ndarray
    error: np.ndarray
    runs: np.ndarray
    loss: np.ndarray
    curves: np.ndarray | None = None
    weights: dict[str, np.ndarray] | None = None
    snapshots: dict[str, np.ndarray] | None = None
    path: np.ndarray | None = None


class Waiting:
    """Positions of the trials that have not started, shared by the lanes.

    All are there from the beginning, or, while it is not `closed`, more are added; `expected` then says how many trials
    are likely to be in flight at a time.
    """

    def __init__(self, positions: np.ndarray, shares: int = 1, *, closed: bool = True, expected: int | None = None):
        self._positions = positions
        self._next = 0
        self.closed = closed
        self.expected = len(positions) if expected is None else expected
        self._added: deque[int] = deque()
        self.shares = shares
        self._lock = threading.Lock()

    def take(self, wanted: int) -> np.ndarray:
        """Up to `wanted` positions, at most one of `shares` equal shares of what is left, so that near the end no
        lane is left with all the work."""
        with self._lock:
            left = len(self._positions) - self._next + len(self._added)
            number = min(wanted, -(-left // self.shares))
            back = [self._added.popleft() for _ in range(min(number, len(self._added)))]
            fresh = self._positions[self._next : self._next + number - len(back)]
            self._next += len(fresh)
            return np.concatenate([np.asarray(back, np.int64), fresh])

    def left(self) -> int:
        """How many wait."""
        with self._lock:
            return len(self._positions) - self._next + len(self._added)

    def give_away(self, wanted: int) -> list[int]:
        """Up to `wanted` of the last positions, to be trained elsewhere; some may come back, so this is open again."""
        with self._lock:
            first = max(self._next, len(self._positions) - wanted)
            given = self._positions[first:].tolist()
            self._positions = self._positions[:first]
            given += [self._added.pop() for _ in range(min(wanted - len(given), len(self._added)))]
            self.closed = self.closed and not given
            return given

    def waiting(self) -> np.ndarray:
        """The positions that wait."""
        with self._lock:
            return np.concatenate([np.asarray(self._added, np.int64), self._positions[self._next :]])

    def add(self, positions: Sequence[int] | np.ndarray) -> None:
        """More trials to train, or trials that must start again."""
        with self._lock:
            self._added.extend(int(position) for position in positions)

    def close(self) -> None:
        """No more will be added."""
        with self._lock:
            self.closed = True

    @property
    def over(self) -> bool:
        """Whether none waits and none will come; asked as one question, since giving away may open it in between."""
        with self._lock:
            return self.closed and self._next >= len(self._positions) and not self._added


@dataclass
class Usage:
    """What training cost: executed steps count every slot of a visited block, useful ones only trials' own."""

    executed_steps: int = 0
    useful_steps: int = 0
    compilations: int = 0
    splits: int = 0
    seconds: float = 0.0

    def take_over(self, other: Usage) -> None:
        """Add what `other` counted, and set it back to nothing."""
        for counted in fields(self):
            setattr(self, counted.name, getattr(self, counted.name) + getattr(other, counted.name))
            setattr(other, counted.name, counted.default)

    @property
    def wasted_share(self) -> float:
        return 1 - self.useful_steps / self.executed_steps if self.executed_steps else 0.0


_PERMUTE = jax.jit(program.permute)

# A large product of a long sum may come out wrong on a CPU while another lane keeps the threads busy (see
# docs/determinism.md): programs that have one take turns.
_ONE_AT_A_TIME = threading.Lock()


@dataclass(eq=False)  # a lane is itself alone, whatever it holds
class Lane:
    """The slots of one device, for one cohort."""

    cohort: Trials
    plan: Plan
    device: Any
    keep_weights: bool = False
    usage: Usage = field(default_factory=Usage)
    programs: set[Future[Any]] = field(default_factory=set)  # held, so that they are not compiled again

    def __post_init__(self) -> None:
        self._rounds = self.whole_probes(FIRST_VISIT if self.plan.resident else FIRST_ROUNDS)
        self._ended_steps = 0
        self._ended = 0
        self._open(self.plan)

    def _open(self, plan: Plan) -> None:
        self.plan = plan
        self._advance = self._request(plan).result()
        self._alone = takes_turns(self._advance, self.device)
        if (rung := self._rung()) is not None:  # ready by the time the last trials need it
            self._request(rung)
        self._positions = np.full(plan.slots, -1, np.int64)
        self._fresh = np.zeros(plan.slots, bool)
        states = jax.eval_shape(lambda: program.empty_states(self.cohort.template, plan.slots))
        blank = jax.tree.map(lambda leaf: np.zeros(leaf.shape, leaf.dtype), states)
        self._states: State = self._put(blank._replace(status=np.full(plan.slots, EMPTY, np.int32)))
        self._trials = self._placed()
        shared = {checksum: found.on(self.device) for checksum, found in shared_of(self.cohort.template).items()}
        self._handed = (shared,) if shared else ()

    def _put(self, tree: Any) -> Any:
        return jax.device_put(tree, self.device)

    def _placed(self) -> Trial:
        """The trials of all slots on the device; an empty slot holds some trial that is not trained."""
        return self._put(self.cohort.take(np.maximum(self._positions, 0)))

    @property
    def in_flight(self) -> np.ndarray:
        """Positions of the trials in the slots."""
        return self._positions[self._positions >= 0]

    def refill(self, waiting: Waiting) -> None:
        """Put waiting trials into empty slots; when none wait, move the running ones together."""
        empty = np.flatnonzero(self._positions < 0)
        new = waiting.take(len(empty)) if len(empty) else np.zeros(0, np.int64)
        if len(new):
            self._positions[empty[: len(new)]] = new
            self._fresh[empty[: len(new)]] = True
            self._trials = self._placed()
        elif len(empty) and self.plan.block > 1:
            self._compact()

    def _request(self, plan: Plan) -> Future[Any]:
        program_, first = request_program(self.cohort.template, plan, self.device)
        self.usage.compilations += first
        self.programs.add(program_)
        return program_

    def _compact(self) -> None:
        """Move the running trials to the first slots, and into a smaller block as soon as its program is there."""
        order = np.argsort(self._positions < 0, kind="stable").astype(np.int32)
        running = len(self.in_flight)
        rung = self._rung()
        if rung is not None and 0 < running <= rung.slots:
            smaller = self._request(rung)
            if smaller.done():
                self._move(order[: rung.slots], rung, smaller.result())
                return
        if not np.array_equal(order, np.arange(self.plan.slots)):
            self._move(order, self.plan, self._advance)

    def _rung(self) -> Plan | None:
        """The smaller block for the last trials; it must save enough to be worth another compilation."""
        size = self.plan.block // RUNG
        return Plan(size, size) if size >= LEAST_RUNG else None

    def _move(self, order: np.ndarray, plan: Plan, advance: Any) -> None:
        self._states = _PERMUTE(self._states, self._put(order))
        self._positions = self._positions[order]
        self.plan, self._advance = plan, advance
        self._fresh = np.zeros(plan.slots, bool)
        self._trials = self._placed()

    def advance(self, rounds: int | None = None) -> Finished | None:
        """Train for a chunk of rounds, or just `rounds` (probes then may miss theirs); the records of the trials that
        ended in it."""
        occupied = np.flatnonzero(self._positions >= 0)
        if not len(occupied):
            return None
        blocks = -(-int(occupied[-1] + 1) // self.plan.block)
        if rounds is not None:
            self._rounds = rounds
        begun = time.perf_counter()
        with _ONE_AT_A_TIME if self._alone else contextlib.nullcontext():
            self._states, executed = self._advance(
                self._trials,
                self._states,
                self._put(self._fresh),
                np.int32(self._rounds),
                np.int32(blocks),
                *self._handed,
            )
            status = np.asarray(self._states.status)
        self._fresh = np.zeros(self.plan.slots, bool)
        elapsed = time.perf_counter() - begun
        self.usage.seconds += elapsed
        self.usage.executed_steps += int(executed) * self.plan.block
        ended = np.flatnonzero((self._positions >= 0) & (status != RUNNING))
        finished = self._harvest(ended) if len(ended) else None
        self._plan_rounds(elapsed)
        return finished

    @property
    def trials(self) -> Trial:
        """The trials of all slots, stacked."""
        return self._trials

    @property
    def states(self) -> State:
        """Where the trials of all slots stand."""
        return self._states

    @property
    def rounds(self) -> int:
        """Rounds of the next chunk."""
        return self._rounds

    def steps(self) -> np.ndarray:
        """Steps so far, over all their runs, of the trials in flight."""
        return (np.asarray(self._states.step) + np.asarray(self._states.earlier))[self._positions >= 0]

    def place(self, weights: dict[str, np.ndarray]) -> None:
        """Let the trials of all slots go on from these weights [slots, ...]."""
        self._states = self._states._replace(params=self._put(weights))

    def weights(self) -> dict[int, dict[str, np.ndarray]]:
        """The present weights of the trials in flight, by position."""
        leaves = {name: np.asarray(leaf) for name, leaf in self._states.params.items()}
        return {
            int(self._positions[slot]): {name: leaf[slot] for name, leaf in leaves.items()}
            for slot in np.flatnonzero(self._positions >= 0)
        }

    def _harvest(self, slots: np.ndarray) -> Finished:
        states = self._states
        names = ("status", "step", "earlier", "attempt", "reached", "error", "loss")
        taken = {name: np.asarray(getattr(states, name))[slots] for name in names}
        finished = Finished(
            position=self._positions[slots],
            status=taken["status"],
            steps=taken["step"] + taken["earlier"],
            reached=taken["reached"],
            error=taken["error"],
            runs=taken["attempt"] + 1,
            loss=taken["loss"],
            curves=np.asarray(states.curve)[slots] if self.cohort.template.probes else None,
            weights={name: np.asarray(leaf)[slots] for name, leaf in states.params.items()}
            if self.keep_weights
            else None,
            snapshots={name: np.asarray(leaf)[slots] for name, leaf in states.snapshots.items()} or None,
            path=np.full(len(slots), PATHS.index("resident" if self.plan.resident else "xla"), np.int8),
        )
        self.usage.useful_steps += int(finished.steps.sum(dtype=np.int64))
        self._ended_steps += int(finished.steps.sum(dtype=np.int64))
        self._ended += len(slots)
        self._positions[slots] = -1
        assert set(np.unique(finished.status)) <= {CONVERGED, FAILED, DIVERGED}
        return finished

    def _plan_rounds(self, elapsed: float) -> None:
        """The next chunk: on a CPU, and where trials run their whole budget, by the clock; else on a GPU a small share
        of a typical trial's length, since on average half a chunk is spent on a trial that has ended."""
        stopping = self.cohort.template.training.stopping
        every = stopping.check_every
        if self.plan.block == 1 or not stopping.early:  # also the kernel's: who ends makes room for another at once
            factor = np.clip(CHUNK_SECONDS / max(elapsed, 1e-4), 0.5, 2.0)
            rounds = int(np.clip(self._rounds * factor, FIRST_ROUNDS, 100_000))
        else:
            typical = self._ended_steps / self._ended if self._ended >= TYPICAL_AFTER else 0.0
            longest = float(np.max(np.asarray(self._states.step), initial=0))
            small = self.device.platform == "gpu" and self.plan.block < TUNED_BLOCK
            least = FEW_ROUNDS if small and elapsed < SHORT_ROUND * self._rounds else 1
            rounds = int(np.clip(CHUNK_SHARE * (typical or longest) / every, least, 10_000))
        self._rounds = self.whole_probes(rounds)

    def whole_probes(self, rounds: int) -> int:
        """At least `rounds` rounds that end with a probe: the program counts rounds from a chunk's beginning."""
        template = self.cohort.template
        per_probe = max(1, template.probe_every // template.training.stopping.check_every)
        return -(-rounds // per_probe) * per_probe
