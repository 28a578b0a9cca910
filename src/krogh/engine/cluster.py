"""Training on a Ray cluster: an executor whose workers may be anywhere.

Shares of cohorts are Ray tasks, each on one core or one GPU of whichever node has it free. What a share finds streams
back as its trials end, so that a lost worker loses only the trials in flight. The driver is the one that counts: it
hands out positions, drops what it has seen already, and hands out again what was lost.

    with RayExecutor() as executor:                    # a cluster of this machine's own, gone at the end
        krogh.lab.study.plan_study(...).run(executor=executor)
    RayExecutor("auto")                                # the cluster that this machine belongs to
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import importlib.util
import itertools
import logging
import os
import signal
import socket
import subprocess
import sys
import threading
import time
import warnings
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

import jax
import numpy as np

from krogh import __version__
from krogh.engine.cohort import Trials
from krogh.engine.devices import cores_here
from krogh.engine.inheriting import Family, Wanted, WeightsOf
from krogh.engine.lane import Finished, Usage, Waiting
from krogh.engine.sending import (
    SENT,
    Piece,
    Source,
    Trained,
    configuration,
    in_words,
    known_template,
    own_modules,
    packed,
    train_pieces,
)
from krogh.engine.shares import CPU, GPU, CohortWork, Lost, Share, next_share
from krogh.errors import ClusterLost, KroghError, require
from krogh.saying import first_line, say

STRIKES = 3  # workers that die of the same trials before they are given up; faults of others in a row, per worker
LOOK_SECONDS = 2.0  # between two looks at what the cluster has
LOST_SECONDS = 30.0  # without an answer, before the cluster is given up; after 60, Ray ends the process
ANSWER_SECONDS = 5.0
HEAD_SECONDS = 20.0  # for a head to say that it is well, which takes it two
SHUTDOWN_SECONDS = 2.0  # for Ray to end; where its processes were ended first, it waits for them
ENDING_SECONDS = 2.0  # for a look that has begun, when a run ends
OPENING_SECONDS = 60.0  # between a head's first answer and its first client
NO_WORKER_SECONDS = 20.0  # without a worker, before that is said
ENVIRONMENT = {
    CPU: {"KROGH_CORES": "1", "NPROC": "1", "JAX_PLATFORMS": "cpu"},  # NPROC: threads of XLA's pool
    GPU: {"JAX_PLATFORMS": ""},
}
"""What a worker's process is told: its share of a node is one core, or one GPU."""

TOKEN = Path("~/.ray/auth_token")
"""Where a machine that has started a local cluster keeps its token."""
TOKEN_HINT = " (one that asks for a token needs RAY_AUTH_MODE=token and the RAY_AUTH_TOKEN of its nodes)"

_RUNS = itertools.count()


@dataclass(frozen=True)
class Setup:
    """What a worker must know before it can read anything else."""

    kind: str
    versions: dict[str, str]
    configuration: dict[str, Any]
    sources: dict[str, Source]


@dataclass(frozen=True)
class Begun:
    """A worker has taken a share."""

    node: str
    pid: int


def train_share(
    setup: Setup, templates: dict[str, list[Any]], pieces: list[Piece], keep_weights: bool
) -> Iterator[Begun | Trained]:
    """The task: train a share and yield what is found. `templates` are references, in lists so that Ray leaves them."""
    import ray

    node = ray.util.get_node_ip_address()
    yield Begun(node, os.getpid())
    here = versions()
    require(
        here == setup.versions,
        f"the worker on {node} has {_listed(here)}, the driver {_listed(setup.versions)}: install the same everywhere",
    )
    for name, value in setup.configuration.items():
        if getattr(jax.config, name) != value:
            jax.config.update(name, value)
    require(
        setup.kind != GPU or jax.local_devices()[0].platform != "cpu",
        f"Ray has a GPU on {node}, but JAX finds none there: install krogh[cuda] on that node, or start it with "
        "--num-gpus 0",
    )
    SENT.add(setup.sources)
    known = {name: known_template(name, functools.partial(ray.get, ref[0])) for name, ref in templates.items()}
    with closing(train_pieces(pieces, known, keep_weights)) as messages:
        yield from messages


@functools.cache
def versions() -> dict[str, str]:
    """Versions that must be the same everywhere."""
    return {"krogh": __version__, "jax": jax.__version__, "jaxlib": version("jaxlib")}


def _listed(found: dict[str, str]) -> str:
    return ", ".join(f"{name} {number}" for name, number in found.items())


class RayExecutor:
    """Trains cohorts on a Ray cluster; an `Executor`.

    `address` is that of a running cluster ("auto", "host:port" or "ray://host:port"); without one the cluster that the
    environment names (`RAY_ADDRESS`), or else a new one of this machine alone, with `cpus` cores (all unless given),
    which ends when the executor is closed. Networks learn on GPUs where the cluster has any, unless `gpus` is false;
    outside learners on CPUs. `say` takes a line about whatever happened to workers.
    """

    def __init__(
        self,
        address: str | None = None,
        *,
        cpus: int | None = None,
        gpus: bool = True,
        say: Callable[[str], None] = say,
    ):
        require(
            importlib.util.find_spec("ray") is not None,
            "training on a cluster needs Ray, which is not installed: pip install 'krogh[cluster]'",
        )
        self.address = address or os.environ.get("RAY_ADDRESS") or None
        self.gpus, self.say = gpus, say
        self._cpus, self._own = cpus, False
        self._functions: dict[str, Any] = {}

    def __enter__(self) -> RayExecutor:
        self.connect()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def connect(self) -> None:
        """Join the cluster, or start one; a second time this does nothing."""
        if self._functions:
            return
        if self.address and not ("ray" in sys.modules and sys.modules["ray"].is_initialized()):
            _require_answer(self.address)  # Ray reads when it is imported whether to send a token
        import ray

        require(
            ray.util.client.ray.is_connected()
            or getattr(ray._private.worker.global_worker, "mode", None) != ray.WORKER_MODE,
            "a worker cannot train on the cluster that it belongs to: put what starts training under "
            'if __name__ == "__main__":',
        )
        if not ray.is_initialized():
            _start(self.address, self._cpus)
            self._own = True
        for kind in (CPU, GPU):
            resources: dict[str, Any] = {"num_cpus": 1} if kind == CPU else {"num_cpus": 0, "num_gpus": 1}
            remote: Any = ray.remote(max_calls=0, max_retries=0, **resources)
            task = remote(train_share if _streams() else _whole_share)
            stream: dict[str, Any] = {"num_returns": "streaming"} if _streams() else {}
            self._functions[kind] = task.options(runtime_env={"env_vars": _environment(kind)}, **stream)

    def close(self) -> None:
        """Leave the cluster; one that was started for this ends."""
        import ray

        self._functions = {}
        if self._own:
            self._own = False
            ending = threading.Thread(target=ray.shutdown, daemon=True)
            ending.start()
            ending.join(SHUTDOWN_SECONDS)

    def lose(self) -> None:
        """The cluster is gone: do not ask it for anything again, not even at the end of the process."""
        import ray

        atexit.unregister(ray.shutdown)
        self._functions, self._own = {}, False

    @property
    def device(self) -> str:
        """The cluster in words."""
        self.connect()
        return _in_words()

    def workers(self, kind: str) -> int:
        """How many shares of a kind the cluster can train at once."""
        import ray

        return int(ray.cluster_resources().get(kind, 0))

    def submit(self, kind: str, *arguments: Any) -> Any:
        return self._functions[kind].remote(*arguments)

    def __call__(
        self,
        cohorts: Sequence[Trials],
        positions: Sequence[np.ndarray | Waiting],
        *,
        usage: Usage | None = None,
        keep_weights: bool = False,
        weights_of: WeightsOf | None = None,
    ) -> Generator[tuple[int, Finished | None], None, None]:
        """As `run_cohorts`: (cohort, records) as trials end, (cohort, None) at a cohort's end."""
        self.connect()
        usage = Usage() if usage is None else usage
        family = Family(cohorts, positions, weights_of)

        def train(wanted: list[Wanted]) -> Generator[tuple[int, Finished | None], None, None]:
            return _Run(self, [CohortWork(cohorts[each.place], *each) for each in wanted], usage).records()

        yield from family.trained(train, positions, keep_weights)


def _in_words() -> str:
    import ray

    nodes = sum(bool(node["Alive"]) for node in ray.nodes())
    has = [f"{count:g} {kind}s" for kind in (GPU, CPU) if (count := ray.cluster_resources().get(kind, 0))]
    return f"Ray, {nodes} node{'s' * (nodes != 1)}: {', '.join(has) or 'none yet'}"


def _whole_share(*arguments: Any) -> list[Begun | Trained]:
    """The task where nothing can be streamed: everything at its end."""
    return list(train_share(*arguments))


def _streams() -> bool:
    """Ray's client, which talks to a cluster from outside, knows no streams."""
    import ray

    return not ray.util.client.ray.is_connected()


def _start(address: str | None, cpus: int | None) -> None:
    """Connect without a word of Ray's on the terminal, and without its taking over SIGTERM."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")  # else a warning
    import ray

    quiet: dict[str, Any] = {"logging_level": logging.ERROR, "log_to_driver": False}
    own: dict[str, Any] = {} if address else {"num_cpus": cpus or cores_here(), "include_dashboard": False}
    before = signal.getsignal(signal.SIGTERM)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of forks that become other programs, and of what is said below
            _until_it_is_up(lambda: ray.init(address=address or "local", **quiet, **own))
    except (ConnectionError, RuntimeError, ValueError, OSError, ImportError) as cause:
        what = f"joined at {address}{TOKEN_HINT}" if address else "started"
        raise KroghError(f"no Ray cluster could be {what}: {first_line(cause)}") from None
    finally:
        with contextlib.suppress(ValueError):  # not in the main thread
            signal.signal(signal.SIGTERM, before)
    # What Ray has to say of dead workers is printed by this function, whatever the level of its log.
    ray._private.worker.print_to_stdstream = lambda *_, **__: None


def _until_it_is_up(join: Callable[[], object]) -> None:
    """Join; a head that has just begun answers a little before its door for clients can let anybody in."""
    deadline = time.monotonic() + OPENING_SECONDS
    while True:
        try:
            join()
            return
        except ConnectionError as cause:
            if "Initialization failure" not in str(cause) or time.monotonic() > deadline:
                raise
        time.sleep(1.0)


def _require_answer(address: str) -> None:
    """Refuse an address where nobody listens: Ray would try for minutes."""
    host, colon, port = address.removeprefix("ray://").rpartition(":")
    if not (colon and port.isdigit()):
        _require_head(address)
        return
    deadline = time.monotonic() + ANSWER_SECONDS
    while True:
        try:
            socket.create_connection((host.strip("[]"), int(port)), timeout=ANSWER_SECONDS).close()
            break
        except ConnectionRefusedError as cause:  # a head that has just begun opens its ports one after the other
            if time.monotonic() > deadline:
                raise KroghError(f"no Ray cluster answers at {address}: {cause.strerror}") from None
            time.sleep(0.5)
        except OSError as cause:
            raise KroghError(f"no Ray cluster answers at {address}: {cause.strerror or cause}") from None
    if address == f"{host}:{port}":
        _require_head(address)
    elif TOKEN.expanduser().exists():
        os.environ.setdefault("RAY_AUTH_MODE", "token")  # its door takes a token that it does not ask for


def _require_head(address: str) -> None:
    """Refuse what listens and is no head: Ray would ask it for minutes, in a call that nothing ends.

    Where a machine has a token, a head that is started there asks for it; Ray's own drivers do not send it unless told.
    """
    health = [sys.executable, "-m", "ray.scripts.scripts", "health-check"]
    health += [] if address == "auto" else ["--address", address]
    try:
        done = subprocess.run(health, capture_output=True, timeout=HEAD_SECONDS)  # what else is wrong, joining says
    except subprocess.TimeoutExpired:
        ports = "a head has port 6379 unless another was chosen, and ray://HOST:10001 is its door for clients"
        raise KroghError(f"something listens at {address}, but no Ray head answers there ({ports})") from None
    if b"AuthenticationError" in done.stderr:
        unsaid = TOKEN.expanduser().exists() and "RAY_AUTH_MODE" not in os.environ and "ray" not in sys.modules
        require(unsaid, f"no Ray cluster could be joined at {address}{TOKEN_HINT}")
        os.environ["RAY_AUTH_MODE"] = "token"


def _environment(kind: str) -> dict[str, str]:
    """What a worker's process is told, with what this one was told and results depend on."""
    flags = [flag for flag in os.environ.get("XLA_FLAGS", "").split() if "host_platform_device_count" not in flag]
    told = {"XLA_FLAGS": " ".join(flags)} if "XLA_FLAGS" in os.environ else {}
    if "KROGH_PATH" in os.environ:
        told["KROGH_PATH"] = os.environ["KROGH_PATH"]
    if os.environ.get("KROGH_CACHE") == "off":
        told["KROGH_CACHE"] = "off"
    return told | ENVIRONMENT[kind]


# --- the driver's side of a run ------------------------------------------------------------------------------------


class _Sight:
    """What the cluster has, looked at by a thread: without its head Ray answers nobody, and in the end takes the
    process with it."""

    def __init__(self, executor: RayExecutor):
        self._executor, self._ended, self.lost = executor, threading.Event(), False
        self._look()
        self._thread = threading.Thread(target=self._keep_looking, daemon=True)
        self._thread.start()

    def _look(self) -> None:
        self.workers = {kind: self._executor.workers(kind) for kind in (CPU, GPU)}
        self.device = _in_words()
        self._answered = time.monotonic()

    def _keep_looking(self) -> None:
        while not self._ended.wait(LOOK_SECONDS):
            with contextlib.suppress(Exception):  # no answer, whatever the reason
                self._look()

    def require(self) -> None:
        """Refuse to go on without a cluster."""
        if time.monotonic() - self._answered > LOST_SECONDS:
            self.lost = True
            self._executor.lose()
            raise ClusterLost(
                f"the Ray cluster was lost: its head has not answered for {LOST_SECONDS:g} s; what was finished is "
                "kept, and the same command goes on once the cluster runs again"
            )

    def end(self) -> None:
        """Look no more: asked after it has left a cluster, Ray starts one of its own."""
        self._ended.set()
        if not self.lost:
            self._thread.join(ENDING_SECONDS)


class _Run:
    """The cohorts of one generation on their way through the cluster."""

    def __init__(self, executor: RayExecutor, works: list[CohortWork], usage: Usage):
        self._executor, self._works, self._usage = executor, works, usage
        self._running: dict[Any, Share] = {}
        self._sight = _Sight(executor)
        self._ceiling: dict[str, int] = {}
        self._references: dict[int, Any] = {}
        self._setups: dict[str, Any] = {}
        self._name = f"{os.getpid()}-{time.time_ns()}-{next(_RUNS)}"
        self._heard = time.monotonic()
        self._on_cores = 0.0, 0  # seconds and trials
        self._in_vain = 0  # tasks since the last record that ended without one, and not because a worker was lost

    def records(self) -> Generator[tuple[int, Finished | None], None, None]:
        import ray

        trained = [work for work in self._works if not work.over]
        packs = {work.place: packed(work.cohort.template) for work in trained}
        self._sources = own_modules(packs.values())
        self._references = {place: ray.put(pack) for place, pack in packs.items()}
        packs.clear()
        try:
            while True:
                for work in trained:
                    if not work.over and work.at_its_end:
                        work.over = True
                        self._references.pop(work.place)
                        yield work.place, None
                if all(work.over for work in trained):
                    return
                self._sight.require()
                self._hand_out()
                yield from self._arrived()
        finally:
            self._sight.end()
            for handle in () if self._sight.lost else self._running:
                with contextlib.suppress(Exception):
                    ray.cancel(handle, force=True)
            self._running.clear()

    # --- handing out

    def _hand_out(self) -> None:
        seconds, trials = self._on_cores
        typical = seconds / trials if trials else None
        for kind in (CPU, GPU):
            works = [work for work in self._works if not work.over and self._kind(work) == kind]
            most = self._room(kind)
            under_way = sum(share.kind == kind for share in self._running.values())
            # A few more than can run: no worker waits for the driver, and a cluster that grows sees why it should. But
            # what a search asks for goes to whoever is free first; and where memory is what there is too little of,
            # cores are free, and whatever is handed out runs.
            more = 0 if kind in self._ceiling else 1 + most // 4
            while under_way < most + more:
                free = works if under_way < most else [work for work in works if work.waiting.closed]
                share = next_share(free, kind, most, under_way, typical)
                if share is None:
                    break
                self._submit(share)
                under_way += 1

    def _kind(self, work: CohortWork) -> str:
        return GPU if self._executor.gpus and self._sight.workers[GPU] and not work.outside else CPU

    def _room(self, kind: str) -> int:
        return max(1, min(self._sight.workers[kind], self._ceiling.get(kind, self._sight.workers[kind])))

    def _setup(self, kind: str) -> Any:
        import ray

        if kind not in self._setups:
            self._setups[kind] = ray.put(Setup(kind, versions(), configuration(), self._sources))
        return self._setups[kind]

    def _submit(self, share: Share) -> None:
        templates, pieces = {}, []
        for work, positions in share.pieces:
            name = f"{self._name}-{work.place}"
            templates[name] = [self._references[work.place]]
            pieces.append(Piece(work.place, name, work.cohort.varying(positions), positions))
            work.flying += len(positions)
        keep_weights = share.pieces[0][0].keep_weights
        handle = self._executor.submit(share.kind, self._setup(share.kind), templates, pieces, keep_weights)
        self._running[handle] = share

    # --- what comes back

    def _arrived(self) -> Iterator[tuple[int, Finished | None]]:
        import ray

        handles = list(self._running)
        if not handles:
            time.sleep(0.02)  # a search that is thinking
            return
        ready, _ = ray.wait(handles, num_returns=1, timeout=0.2)
        if ready and len(handles) > 1:
            ready, _ = ray.wait(handles, num_returns=len(handles), timeout=0)
        if ready:
            self._heard = time.monotonic()
        elif not self._at_work() and time.monotonic() - self._heard > NO_WORKER_SECONDS:
            self._heard = float("inf")
            kinds = " and ".join(sorted({share.kind for share in self._running.values()}))
            self._executor.say(f"waiting for a free {kinds} ({self._sight.device})")
        for handle in ready:
            yield from self._read(handle, self._running[handle])

    def _at_work(self) -> bool:
        """Whether a worker has taken any share; without streams that is not known, and assumed where there are any."""
        shares = self._running.values()
        return any(share.node or (not _streams() and self._sight.workers[share.kind]) for share in shares)

    def _read(self, handle: Any, share: Share) -> Iterator[tuple[int, Finished | None]]:
        """The next message of a share; at its end, what it lost goes back."""
        import ray

        try:
            reference = next(handle) if _streams() else handle
            messages = ray.get(reference)
        except StopIteration:
            del self._running[handle]
            self._settle(share)
            return
        except ray.exceptions.RayTaskError as cause:
            raise _cause(cause) from cause
        except ray.exceptions.RayError as cause:
            share.fault, messages = cause, []
        for message in messages if isinstance(messages, list) else [messages]:
            yield from self._take_in(message, share)
        if not _streams():
            del self._running[handle]
            self._settle(share)

    def _take_in(self, message: Begun | Trained, share: Share) -> Iterator[tuple[int, Finished | None]]:
        if isinstance(message, Begun):
            share.node, share.pid = message.node, message.pid
            return
        spent = replace(message.usage)
        if message.finished is not None:
            work = next(work for work, _ in share.pieces if work.place == message.place)
            found, self._in_vain = work.fresh(message.finished), 0
            steps = message.finished.steps.sum(dtype=np.int64) - found.steps.sum(dtype=np.int64)
            spent.useful_steps -= int(steps)  # of what had been there before
            trials = len(message.finished.position)
            work.seconds, work.trials = work.seconds + spent.seconds, work.trials + trials
            if share.kind == CPU:
                self._on_cores = self._on_cores[0] + spent.seconds, self._on_cores[1] + trials
        self._usage.take_over(spent)
        if message.finished is not None and len(found.position):
            yield message.place, found

    def _settle(self, share: Share) -> None:
        """A task has ended: trials of it without a record go back."""
        import ray

        crashed = isinstance(share.fault, ray.exceptions.WorkerCrashedError)
        blamed = crashed or (isinstance(share.fault, ray.exceptions.OutOfMemoryError) and self._was_alone(share))
        missing = 0
        for work, positions in share.pieces:
            work.flying -= len(positions)
            without = positions[~work.seen[positions]]
            missing += len(without)
            if not len(without):
                continue
            if not blamed:
                work.give_back(without, share.strikes)
                continue
            strikes = share.strikes + 1
            if strikes >= STRIKES:
                raise KroghError(_given_up(work, without, strikes, share))
            # Smaller and smaller parts, so that the trials that kill workers are found, and the others trained.
            parts = int(np.ceil(np.sqrt(len(without)))) if strikes == 1 else len(without)
            work.lost += [Lost(part, strikes) for part in np.array_split(without, parts)]
        if share.fault is not None or missing:
            self._tell(share, missing)
        losses = ray.exceptions.WorkerCrashedError, ray.exceptions.OutOfMemoryError, ray.exceptions.NodeDiedError
        if missing and not isinstance(share.fault, losses):
            self._in_vain += 1
            why = "they end without a record" if share.fault is None else " ".join(str(share.fault).split())[:500]
            most = STRIKES * (1 + self._room(share.kind))
            require(self._in_vain < most, f"{most} tasks in a row have failed on the cluster: {why}")

    def _was_alone(self, share: Share) -> bool:
        """Whether the memory of its node was this share's: of several, Ray ends the one that began last."""
        others = [other for other in self._running.values() if other.node]
        fewest = self._ceiling.get(share.kind) == 1  # else two kinds on one node would never be blamed
        return fewest or (bool(share.node) and not any(other.node == share.node for other in others))

    def _tell(self, share: Share, missing: int) -> None:
        import ray

        where = f" on {share.node} (process {share.pid})" if share.node else ""
        went = f"{missing} trial{'s' * (missing != 1)} without a record {'go' if missing != 1 else 'goes'} back"
        if isinstance(share.fault, ray.exceptions.OutOfMemoryError):
            under_way = sum(other.kind == share.kind for other in self._running.values())
            self._ceiling[share.kind] = max(1, min(under_way, self._room(share.kind) - 1))
            least = f"from now on at most {self._ceiling[share.kind]} at a time"
            self._executor.say(f"memory ran out, and Ray ended the worker{where}; {went}, {least}")
        elif isinstance(share.fault, ray.exceptions.NodeDiedError):
            self._executor.say(f"a node was lost with the worker{where}; {went}")
        elif isinstance(share.fault, ray.exceptions.WorkerCrashedError):
            self._executor.say(f"the worker{where} died; {went}")
        else:
            cause = "a record was lost" if share.fault is None else first_line(share.fault)
            self._executor.say(f"the worker{where}: {cause}; {went}")


def _cause(fault: Any) -> Exception:
    """What went wrong in a task, as it would have been raised here."""
    cause = fault.cause if isinstance(fault.cause, Exception) else fault
    if isinstance(cause, KroghError):
        return type(cause)(str(cause))
    if isinstance(cause, ImportError):
        return KroghError(f"a worker cannot import what it needs ({cause}): install the same packages on all nodes")
    return cause


def _given_up(work: CohortWork, lost: np.ndarray, strikes: int, share: Share) -> str:
    """Which trials killed their workers."""
    named = [f"{position} (seed {int(np.asarray(work.given[int(position)].seed))})" for position in lost[:5]]
    more = f" and {len(lost) - 5} more" if len(lost) > 5 else ""
    which = f"trial{'s' * (len(lost) != 1)} {', '.join(named)}{more} of cohort {work.place}"
    how = "" if share.fault is None else first_line(share.fault)
    return f"{strikes} workers died of {which}, {in_words(work.given.template)} ({how})"
