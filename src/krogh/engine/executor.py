"""Running cohorts: lanes on every device, their records as they come.

A lane is a piece of work: one device's share of one cohort. Workers (threads: a compiled program releases the
interpreter while it runs) take lanes in the order of the cohorts, so a device goes on with the next cohort while the
last trials of the present one are still running elsewhere. On a CPU there is a worker per core; on a GPU two per
device, so that one lane's program runs while the other's records are read.

A cohort's trials may also be handed out while it runs (a `Waiting` that is still open): what to train next then
depends on what has been found, and a lane without work makes room for another.
"""

from __future__ import annotations

import itertools
import queue
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import Future
from contextlib import closing
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Protocol

import jax
import numpy as np

from krogh.engine.cohort import Trials
from krogh.engine.compiling import request_program
from krogh.engine.devices import cores_here, devices_here
from krogh.engine.inheriting import Family, Wanted, WeightsOf
from krogh.engine.lane import Finished, Lane, Usage, Waiting
from krogh.engine.memory import Plan, plan
from krogh.engine.outside import OutsideLane
from krogh.engine.shapes import program_key
from krogh.errors import TooLarge
from krogh.models.base import Learner

LANES_PER_GPU = 2
ONE_LANE = 64  # so few trials share one lane of a GPU: halving them would not halve a step's time
PREPARED = {"cpu": 4, "gpu": 32}  # lanes whose programs are compiled ahead
IDLE_SECONDS = 0.02
GRACE_SECONDS = 3.0  # that lanes have to end their chunk where a run is broken off
_OUT_OF_MEMORY = ("RESOURCE_EXHAUSTED", "Out of memory", "out of memory")
_ADDING = threading.Lock()


@dataclass(frozen=True)
class Host:
    """The cores beside an accelerator: where outside learners learn, one on each."""

    platform: str = "host"


HOST = Host()


def lanes_here() -> list[Any]:
    """One entry per worker: the device it uses."""
    devices = devices_here()
    if devices[0].platform == "cpu" and len(devices) == 1:
        return devices * cores_here()
    return [device for device in devices for _ in range(LANES_PER_GPU if device.platform != "cpu" else 1)]


def lanes_for(count: int, place: int, outside: bool) -> list[Any]:
    """The devices among which a cohort is shared: all, or, for few trials, one, the devices taking turns.

    Outside learners leave accelerators alone. Without one, a core's worker takes whatever comes.
    """
    lanes = lanes_here()
    if outside and lanes[0].platform != "cpu":
        return [HOST] * min(count, cores_here())
    few = 1 if lanes[0].platform == "cpu" else ONE_LANE
    devices = list(dict.fromkeys(lanes))
    return [devices[place % len(devices)]] if count <= few else lanes


@dataclass
class _Work:
    """One lane of one cohort: which trials wait for it, and how they are trained."""

    place: int
    cohort: Trials
    waiting: Waiting
    share: int
    device: Any
    size: Plan | None
    memory_limit: int | None
    keep_weights: bool
    programs: set[Future[Any]]  # shared by all lanes of the structure, and gone with the last of them
    usage: Usage = field(default_factory=Usage)
    lane: Lane | OutsideLane | None = None
    program: Future[Any] | None = None

    @property
    def outside(self) -> bool:
        """Whether the trials learn on the host, without a program."""
        return isinstance(self.cohort.template.model, Learner)

    def planned(self) -> Plan:
        if self.size is None:
            self.size = plan(self.cohort.template, self.share, self.device, self.memory_limit)
        return self.size

    def prepare(self) -> None:
        """Ask for the program ahead of time."""
        if self.lane is None and self.program is None and self.waiting.left() and not self.outside:
            self.program, first = request_program(self.cohort.template, self.planned(), self.device)
            self.usage.compilations += first
            self.programs.add(self.program)

    @property
    def ready(self) -> bool:
        """Whether training can begin without waiting for a compilation."""
        return self.outside or self.lane is not None or (self.program is not None and self.program.done())

    def go_on(self, results: queue.Queue[Any], stop: threading.Event, account: Callable[[_Work], None]) -> None:
        """Train until nothing is in flight and nothing waits; what it cost is told with every record."""
        while not stop.is_set():
            if self.lane is None and not self.waiting.left():
                return
            try:
                if self.lane is None and self.outside:
                    self.lane = OutsideLane(self.cohort, self.usage)
                elif self.lane is None:
                    self.lane = Lane(
                        self.cohort, self.planned(), self.device, self.keep_weights, self.usage, self.programs
                    )
                self.lane.refill(self.waiting)
                if not len(self.lane.in_flight):
                    return
                finished = self.lane.advance()
            except jax.errors.JaxRuntimeError as cause:
                self._shrink(cause)
                continue
            account(self)
            if finished is not None:
                hand_over((self.place, finished), results, stop)

    def _shrink(self, cause: Exception) -> None:
        """After running out of memory: the trials in flight go back, and a smaller plan is tried."""
        if not any(sign in str(cause) for sign in _OUT_OF_MEMORY):
            raise cause
        if self.lane is not None:
            self.waiting.add(self.lane.in_flight)
        self.lane = None
        self.usage.splits += 1
        self.size = self.planned().halved()
        if self.size is None:
            raise TooLarge(
                "one trial alone does not fit into the device's memory; make the model, the batch or the "
                "finite sample smaller"
            ) from cause


class _Agenda:
    """The lanes that wait for a worker, those of each device in order; however many wait, only the first are looked at.

    The lanes of a search whose trials are not asked for yet are passed over.
    """

    def __init__(self, work: list[_Work], usage: Usage):
        self._usage = usage
        self._lock = threading.Lock()
        self._work: dict[Any, deque[_Work]] = {}
        for item in work:
            self._work.setdefault(item.device, deque()).append(item)
        self._lanes = Counter(item.place for item in work)  # of each cohort, not ended yet

    def take(self, device: Any) -> _Work | None:
        """The first lane on `device` that can train at once, or that can be closed."""
        with self._lock:
            own = self._work[device]
            for index, item in enumerate(own):
                nothing_left = item.waiting.over
                if nothing_left or (item.waiting.left() and item.ready):
                    del own[index]
                    return item
        return None

    def coming(self, device: Any) -> list[_Work]:
        with self._lock:
            waiting = (item for item in self._work[device] if item.waiting.left())
            return list(itertools.islice(waiting, PREPARED.get(device.platform, 8)))

    def give_back(self, item: _Work, results: queue.Queue[Any]) -> None:
        """Keep a lane whose trials may still come; close one whose trials have all ended."""
        with self._lock:
            if not item.waiting.over:
                self._work[item.device].append(item)
                return
            item.lane = None
            self._lanes[item.place] -= 1
            done = self._lanes[item.place] == 0
            if done:
                del self._lanes[item.place]
        if done:
            results.put((item.place, None))

    def account(self, item: _Work) -> None:
        """Add what a lane cost since it was last asked."""
        with _ADDING:
            self._usage.take_over(item.usage)

    @property
    def over(self) -> bool:
        return not self._lanes


def counted(usage: Usage) -> Usage:
    """What has been added to `usage`, where lanes may be adding; it begins at nothing again."""
    with _ADDING:
        since = Usage()
        since.take_over(usage)
        return since


def _workers(work: Sequence[_Work]) -> list[Any]:
    """The device of each worker: as many as there are lanes for it to take."""
    left = Counter(item.device for item in work)
    workers = []
    for device in [*lanes_here(), *[HOST] * cores_here()]:
        if left[device]:
            workers.append(device)
            left[device] -= 1
    return workers


def _work(agenda: _Agenda, device: Any, results: queue.Queue[Any], stop: threading.Event) -> None:
    try:
        while not stop.is_set() and not agenda.over:
            for coming in agenda.coming(device):
                coming.prepare()
            item = agenda.take(device)
            if item is None:
                stop.wait(IDLE_SECONDS)
                continue
            try:
                item.go_on(results, stop, agenda.account)
            finally:
                agenda.account(item)
            agenda.give_back(item, results)
    except BaseException as cause:
        hand_over(cause, results, stop)
    finally:
        hand_over(None, results, stop)


def hand_over(item: Any, results: queue.Queue[Any], stop: threading.Event) -> None:
    """Put something into the queue, unless everything stops and nobody takes it any more."""
    while True:
        try:
            return results.put(item, timeout=0.2)
        except queue.Full:
            if stop.is_set():
                return


def run_cohorts(
    cohorts: Sequence[Trials],
    positions: Sequence[np.ndarray | Waiting],
    *,
    usage: Usage | None = None,
    keep_weights: bool = False,
    weights_of: WeightsOf | None = None,
    memory_limit: int | None = None,
    plan_override: Plan | None = None,
) -> Generator[tuple[int, Finished | None], None, None]:
    """Train the trials at `positions` of each cohort; yield (cohort, records) as they end, (cohort, None) at its end.

    Where positions are a `Waiting`, more may be added to it until it is closed. Closing the iterator stops the lanes
    after the chunk in flight; one that takes longer than a few seconds is not waited for. Trials that begin with
    others' weights are trained after those of them that are trained in this call; `weights_of` finds what the rest
    have left.
    """
    usage = Usage() if usage is None else usage
    family = Family(cohorts, positions, weights_of)
    train = partial(_run_together, usage=usage, memory_limit=memory_limit, plan_override=plan_override)
    yield from family.trained(train, positions, keep_weights)


class Executor(Protocol):
    """What trains cohorts: `run_cohorts` on this machine, or another that yields the same."""

    def __call__(
        self,
        cohorts: Sequence[Trials],
        positions: Sequence[np.ndarray | Waiting],
        *,
        usage: Usage | None = None,
        keep_weights: bool = False,
        weights_of: WeightsOf | None = None,
    ) -> Generator[tuple[int, Finished | None], None, None]: ...


def _run_together(
    cohorts: Sequence[Wanted],
    usage: Usage,
    memory_limit: int | None,
    plan_override: Plan | None,
) -> Generator[tuple[int, Finished | None], None, None]:
    """Train cohorts side by side."""
    work: list[_Work] = []
    programs: dict[Any, set[Future[Any]]] = {}
    for place, cohort, wanted, keep_weights in cohorts:
        count = wanted.expected if isinstance(wanted, Waiting) else len(wanted)
        outside = isinstance(cohort.template.model, Learner)
        devices = lanes_for(count, place, outside) if count else []
        on_cpu = bool(devices) and devices[0].platform == "cpu"
        # A CPU's lane trains its slots one after the other: handing out half shares keeps the lanes level.
        shares = len(devices) * (2 if on_cpu else 1)
        waiting = wanted if isinstance(wanted, Waiting) else Waiting(np.asarray(wanted))
        # Of what is all there no lane takes more than its share; what a search asks for goes to all devices.
        waiting.shares = shares if waiting.closed else max(1, len(devices if on_cpu else set(devices)))
        fitted = cohort.fitted() if count else cohort
        share = -(-count // max(1, len(devices)))
        held = programs.setdefault(program_key(fitted.template), set()) if count else set()
        work += [
            _Work(place, fitted, waiting, share, device, plan_override, memory_limit, keep_weights, held)
            for device in devices
        ]
    programs.clear()  # each is held by its lanes alone, and released when the last of them has ended
    if not work:
        return
    agenda = _Agenda(work, usage)
    lanes = _workers(work)
    results: queue.Queue[Any] = queue.Queue(maxsize=4 * len(lanes))
    stop = threading.Event()
    threads = [threading.Thread(target=_work, args=(agenda, device, results, stop), daemon=True) for device in lanes]
    for thread in threads:
        thread.start()
    try:
        yield from _collected(results, len(threads))
    finally:
        stop.set()
        deadline = time.monotonic() + GRACE_SECONDS
        while any(thread.is_alive() for thread in threads) and time.monotonic() < deadline:
            try:
                results.get(timeout=0.05)  # a lane may be waiting to hand over
            except queue.Empty:
                continue


def _collected(results: queue.Queue[Any], running: int) -> Generator[tuple[int, Finished | None], None, None]:
    while running:
        try:
            item = results.get(timeout=0.2)  # an endless wait could not be interrupted
        except queue.Empty:
            continue
        if item is None:
            running -= 1
        elif isinstance(item, BaseException):
            raise item
        else:
            yield item


def run_cohort(cohort: Trials, positions: np.ndarray | None = None, **options: Any) -> Generator[Finished, None, None]:
    """Train the trials at `positions` (all unless given) and yield their records as they end.

    Options are those of `run_cohorts`.
    """
    wanted = np.arange(len(cohort)) if positions is None else np.asarray(positions)
    with closing(run_cohorts([cohort], [wanted], **options)) as records:
        yield from (finished for _, finished in records if finished is not None)
