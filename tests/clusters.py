"""What tests of clusters share: learners that take their time or kill their worker, a study of them, records as values,
and processes that are found again whatever became of those that started them."""

from __future__ import annotations

import contextlib
import os
import pickle
import shutil
import signal
import socket
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import numpy as np

import krogh
from krogh.engine import Usage
from krogh.models.base import Learner
from krogh.values import data, structure


class Undemanding(Learner):
    """Learns any task, at its own pace."""

    def check(self, task):
        pass

    @classmethod
    def example(cls):
        return cls(), krogh.Parity(n=6, k=2)


class Majority(Undemanding):
    """Guesses what is most frequent, after `seconds`; `fatal` is a seed whose worker dies, each time, or once where
    `mark` names a file to be left behind."""

    seconds: np.ndarray = data(default=0.0)
    fatal: int = structure(default=-1)
    mark: str = structure(default="")

    kind = "majority"

    def fit(self, x, y, seed):
        time.sleep(float(self.seconds))
        if self.fatal == seed and not (self.mark and Path(self.mark).exists()):
            if self.mark:
                Path(self.mark).touch()
            os.kill(os.getpid(), signal.SIGKILL)
        mean = np.sign(y.mean() + 1e-3 * (seed % 7))
        return lambda queries: np.full(len(queries), mean, np.float32)


def learners(count, model=Majority, **fields):
    stopping = krogh.Stopping(accuracy=0.5, budget=10, validation=200)
    training = krogh.Training(regime=krogh.FullBatch(m=21), stopping=stopping)
    (cohort,) = krogh.sweep(krogh.Trial(krogh.Parity(n=6, k=2), model(**fields), training), seed=range(count))
    return cohort


def seed_given(cohort, position):
    """The seed that an outside learner gets in a trial."""
    seeds = []

    class Listening(Majority):
        def fit(self, x, y, seed):
            seeds.append(seed)
            return lambda queries: np.ones(len(queries), np.float32)

    trial = cohort[position]
    krogh.run(krogh.Trial(trial.task, Listening(), trial.training, seed=int(trial.seed)))
    return seeds[0]


def train(executor, cohorts, positions=None, **options):
    """Records by cohort and position down to the last bit, none twice; every cohort ends once, after its records."""
    found, ended, usage = {}, [], Usage()
    everyone = [np.arange(len(cohort)) for cohort in cohorts] if positions is None else positions
    with closing(executor(cohorts, everyone, usage=usage, **options)) as records:
        for place, finished in records:
            assert place not in ended
            if finished is None:
                ended.append(place)
                continue
            for row, position in enumerate(finished.position.tolist()):
                assert (place, position) not in found
                columns = {name: column for name, column in vars(finished).items() if column is not None}
                found[place, position] = pickle.dumps(_row(columns, row))
    assert sorted(ended) == [place for place, wanted in enumerate(everyone) if not isinstance(wanted, int)]
    return found, usage


def _row(column, row):
    return (
        {name: _row(part, row) for name, part in column.items()} if isinstance(column, dict) else column[row].tolist()
    )


# --- a study -------------------------------------------------------------------------------------------------------

EXPERIMENT = '''
from dataclasses import dataclass
import time
import numpy as np
import krogh
from krogh import Experiment, experiment, setting
from krogh.models.base import Learner
from krogh.values import data


class Slow(Learner):
    """Guesses at random after a while."""

    seconds: np.ndarray = data(default=0.3)
    kind = "slow"

    def fit(self, x, y, seed):
        time.sleep(float(self.seconds))
        return lambda queries: np.full(len(queries), np.float32(1 if seed % 2 else -1))

    def check(self, task):
        pass

    @classmethod
    def example(cls):
        return cls(), krogh.Parity(n=6, k=2)


@dataclass(frozen=True)
class Settings:
    seeds: int = setting(12, "seeds")


@experiment("mine/slow")
class Mine(Experiment):
    """Guessing takes its time."""

    title, question, source = "Guessing", "How long does it take?", "own"

    scales = {"smoke": Settings(), "laptop": Settings(), "paper": Settings()}

    def trials(self, settings):
        for n in (5, 6, 7, 8):
            stopping = krogh.Stopping(accuracy=0.5, budget=10, validation=100)
            training = krogh.Training(regime=krogh.FullBatch(m=11), stopping=stopping)
            yield from krogh.sweep(krogh.Trial(krogh.Parity(n=n, k=2), Slow(), training), seed=range(settings.seeds))

    def measure(self, results):
        return {}

    def claims(self, tables, say):
        pass

    def figures(self, tables):
        return []
'''


# --- processes -----------------------------------------------------------------------------------------------------


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("", 0))
        return int(one.getsockname()[1])


class Processes:
    """Processes with a mark in their environment, which whatever they start inherits: Ray's leave their parents."""

    def __init__(self) -> None:
        self.mark = uuid.uuid4().hex
        own = {name: value for name, value in os.environ.items() if not name.startswith("RAY_")}
        beside = {"PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
        token = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": self.mark * 2, "RAY_USAGE_STATS_ENABLED": "0"}
        self.environment = own | beside | token | {"KROGH_TEST_MARK": self.mark}

    def start(self, *command: object, **environment: str) -> subprocess.Popen[str]:
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
        return subprocess.Popen([*map(str, command)], env=self.environment | environment, **pipes)

    def krogh(self, *arguments: object) -> subprocess.Popen[str]:
        return self.start(sys.executable, "-m", "krogh", *arguments)

    def head(self, port: int, *more: object, cpus: int = 2) -> list[int]:
        """Start a head node that answers at a port; returns its processes."""
        before = set(self.alive())
        log = subprocess.DEVNULL
        ray = shutil.which("ray", path=self.environment["PATH"])
        quiet = ("--disable-usage-stats", "--include-dashboard=false", "--block")
        ports = ("--port", port, "--ray-client-server-port", free_port(), "--min-worker-port=0", "--max-worker-port=0")
        command = [ray, "start", "--head", *quiet, *ports, "--num-cpus", cpus, *more]
        head = subprocess.Popen([*map(str, command)], env=self.environment, stdout=log, stderr=log)
        wait_until(lambda: answers(port), 60, lambda: head.poll() is not None and "the head has ended")
        return [pid for pid in self.alive() if pid not in before]

    def alive(self) -> list[int]:
        """The processes with the mark that have not ended."""
        wanted = f"KROGH_TEST_MARK={self.mark}".encode()
        return [pid for pid in _pids() if wanted in _read(pid, "environ").split(b"\0")]

    def kill(self) -> None:
        """At once, and without a chance for any of them to clean up."""
        deadline = time.monotonic() + 30
        while (left := self.alive()) and time.monotonic() < deadline:
            for pid in left:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            time.sleep(0.1)
        assert not left


def _pids() -> list[int]:
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]


def _read(pid: int, what: str) -> bytes:
    try:
        return Path(f"/proc/{pid}/{what}").read_bytes()  # of one that has ended it is empty
    except OSError:
        return b""


def answers(port: int) -> bool:
    try:
        socket.create_connection(("localhost", port), timeout=1).close()
    except OSError:
        return False
    return True


def wait_until(holds, seconds: float, unless=lambda: "") -> None:
    """Wait for a condition; `unless` returns why it is hopeless."""
    deadline = time.monotonic() + seconds
    while not holds():
        assert not (why := unless()), why
        assert time.monotonic() < deadline, f"not within {seconds:g} s"
        time.sleep(0.1)


@contextlib.contextmanager
def processes() -> Iterator[Processes]:
    """Processes that are gone at the end."""
    started = Processes()
    try:
        yield started
    finally:
        started.kill()
