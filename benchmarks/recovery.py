"""How long a study takes to go on after a fault: seconds until the first record that would have been lost.

    python benchmarks/recovery.py            # a table in Markdown

Each line is a study of its own in a temporary folder: processes are started, one of them is killed with SIGKILL or told
to stop with SIGINT, and the clock runs until the store has a record that was not there. What a start of Python and JAX
takes (first line) is part of every restart.
"""

from __future__ import annotations

import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from krogh.lab.store import Store

PROCESS = """
import dataclasses
import sys
import krogh
from krogh.lab import training
from krogh.lab.study import run_study

training.FLUSH_SECONDS = 0.2  # records are seen soon

@dataclasses.dataclass(frozen=True)
class Settings: ...

@krogh.experiment("bench/recovery")
class Recovery(krogh.Experiment):
    '''Networks that never converge.'''

    title, question, source = "Recovery", "How soon?", "nobody"
    scales = {"smoke": Settings()}

    def trials(self, settings):
        training = krogh.Training(krogh.Sgd(1e-6), krogh.Online(8), krogh.Stopping(budget=2000, validation=32))
        return krogh.sweep(krogh.Trial(krogh.Parity(n=8, k=2), krogh.Mlp(16), training), seed=range(100_000))

    def claims(self, tables, say): ...

    def figures(self, tables):
        return ()

run_study(Recovery(), "smoke", sys.argv[1])
"""


def start(out: Path) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-c", PROCESS, str(out)], stderr=subprocess.DEVNULL)


def until_new(store: Store, known: set[str], longest: float = 120.0) -> float:
    """Seconds until the store has a file that was not known."""
    begun = time.monotonic()
    while {path.name for path in store.files()} <= known:
        if time.monotonic() - begun > longest:
            raise SystemExit("nothing came")
        time.sleep(0.01)
    return time.monotonic() - begun


def names(store: Store) -> set[str]:
    return {path.name for path in store.files()}


def first_start(out: Path, store: Store) -> float:
    process = start(out)
    seconds = until_new(store, set())
    process.kill()
    process.wait()
    return seconds


def killed_and_restarted(out: Path, store: Store) -> float:
    process = start(out)
    until_new(store, set())
    process.kill()
    process.wait()
    known = names(store)
    process = start(out)
    seconds = until_new(store, known)
    process.kill()
    process.wait()
    return seconds


def one_of_two(victim: int, number: signal.Signals) -> Callable[[Path, Store], float]:
    def injected(out: Path, store: Store) -> float:
        pair = [start(out)]
        until_new(store, set())
        pair.append(start(out))
        time.sleep(12)  # the second has joined and has work
        pair[victim].send_signal(number)
        pair[victim].wait()
        seconds = until_new(store, names(store))
        for process in pair:
            process.kill()
            process.wait()
        return seconds

    return injected


FAULTS: dict[str, Callable[[Path, Store], float]] = {
    "none: the first record of a new study": first_start,
    "killed and started again": killed_and_restarted,
    "two processes, the leader killed": one_of_two(0, signal.SIGKILL),
    "two processes, the leader interrupted": one_of_two(0, signal.SIGINT),
    "two processes, the other killed": one_of_two(1, signal.SIGKILL),
}


def main() -> None:
    print("| fault | seconds until the next record |\n| --- | --- |")
    for name, inject in FAULTS.items():
        with tempfile.TemporaryDirectory() as folder:
            out = Path(folder)
            print(f"| {name} | {inject(out, Store(out / 'bench' / 'recovery' / 'cohorts')):.1f} |", flush=True)


if __name__ == "__main__":
    main()
