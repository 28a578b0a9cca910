"""Processes at work on one study: one leads, the others ask it for trials, and whoever is left goes on.

.members/<name>.json        a number that its owner raises every second, its plan, and which parcel it waits for
         <name>.lock        locked as long as its owner lives
         <name>-<n>.parcel  the trials that were given to a member the n-th time
         leader-<n>         the name of the n-th leader; the last one counts

A folder that all can write is all that they share, on a local disk or on one of a network. No clock is compared with
another's: a member on another machine is taken for dead when its number has stood still for `SILENCE` seconds of the
observer's own time; on the same machine the lock, which the system takes away from a dead process, says so at once.
A member that was taken for dead and wakes up does no harm: its trials are trained twice and kept once.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import threading
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any

from krogh.files import write_atomically
from krogh.saying import say as tell_user

try:
    import fcntl
except ImportError:  # no locks here: the numbers alone tell who lives
    fcntl = None  # type: ignore[assignment]

FOLDER = ".members"
BEAT_SECONDS = 1.0
SILENCE = 30.0
_NAME, _TERM = re.compile(r"[0-9a-f]{12}"), re.compile(r"leader-\d{6}")

Parcel = dict[int, list[int]]
"""Trials that are given away: positions by the place of their cohort."""


class Member:
    """One process among those at work on a study; made by `joined`."""

    def __init__(self, study: Path, plan: str = ""):
        self.folder = study / FOLDER
        self.name = uuid.uuid4().hex[:12]
        self.plan = plan
        self._words: dict[str, Any] = {"machine": _machine(), "plan": plan}
        self._known: dict[str, dict[str, Any]] = {}  # what others said when they could last be read
        self._beats = 0
        self._seen: dict[str, tuple[Any, float]] = {}  # by name: what was read last, and since when it is so
        self._writing = threading.Lock()
        self._lock_file: IO[str] | None = None
        self._led: Path | None = None

    def join(self) -> None:
        self.folder.mkdir(exist_ok=True)
        self._lock_file = (self.folder / f"{self.name}.lock").open("w")
        if fcntl is not None:
            with suppress(OSError):  # a file system without locks
                fcntl.flock(self._lock_file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        self.beat()

    def leave(self) -> None:
        """Take away every trace, so that nobody waits for this one."""
        if self._led is not None:
            self._led.unlink(missing_ok=True)
        self._remove(self.name)
        if self._lock_file is not None:
            self._lock_file.close()
        with suppress(OSError):  # not empty: others are at work
            self.folder.rmdir()

    def beat(self) -> None:
        """Say that this one lives."""
        with self._writing:
            self._beats += 1
            self._write()

    def say(self, **words: Any) -> None:
        """Let the others read something about this one."""
        with self._writing:
            self._words |= words
            self._write()

    def _write(self) -> None:
        content = json.dumps({**self._words, "beat": self._beats})
        write_atomically(self.folder / f"{self.name}.json", content.encode(), parents=False, lasting=False)

    # --- the others ---

    def others(self) -> dict[str, dict[str, Any]]:
        """What the other members that live say of themselves; they may have another plan."""
        there = sorted(path for path in self.folder.glob("*.json") if path.is_file())
        names = [path.stem for path in there if _NAME.fullmatch(path.stem)]
        names = [name for name in names if name != self.name]
        said = {name: self._said(name) for name in names}
        return {name: words for name, words in said.items() if words is not None and self._lives(name, words)}

    def _said(self, name: str) -> dict[str, Any] | None:
        try:
            said = dict(json.loads((self.folder / f"{name}.json").read_text(encoding="utf-8")))
        except FileNotFoundError:
            return None
        except (OSError, TypeError, ValueError, RecursionError):
            # A network that is away for a moment, or what no member has written: whoever lives will be read again.
            return self._known.get(name, {})
        self._known[name] = said
        return said

    def _lives(self, name: str, words: dict[str, Any]) -> bool:
        if words.get("machine") == self._words["machine"] and fcntl is not None:
            with suppress(OSError), (self.folder / f"{name}.lock").open("r+") as file:
                try:
                    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except BlockingIOError:
                    return not self._silent(name, words)  # it may have been stopped, and hold its lock for ever
                return False
        return not self._silent(name, words)

    def _silent(self, key: str, said: Any) -> bool:
        """Whether the same has been read under a name for too long."""
        known, since = self._seen.get(key, (None, 0.0))
        if known != said:
            self._seen[key] = (said, time.monotonic())
            return False
        return time.monotonic() - since > SILENCE

    def forget(self, name: str) -> None:
        """Remove what a dead member left."""
        self._remove(name)

    def _remove(self, name: str) -> None:
        for path in self.folder.glob(f"{name}*"):
            path.unlink(missing_ok=True)

    # --- the leader ---

    def leads(self) -> bool:
        """Whether this one leads; it does from now on if nobody else who lives does."""
        while True:
            terms = self._terms()
            if terms and (alive := self._leader_lives(terms[-1])) is not None:
                return alive
            term = int(terms[-1].name.removeprefix("leader-")) + 1 if terms else 1
            place = self.folder / f"leader-{term:06d}"
            with suppress(FileExistsError), place.open("x", encoding="utf-8") as file:
                file.write(self.name)
                self._led = place
                for old in terms:
                    with suppress(OSError):
                        self._remove(_named_in(old) or old.name)
                    old.unlink(missing_ok=True)
                return True

    def _terms(self) -> list[Path]:
        """Who has led and who leads, in this order."""
        return sorted(path for path in self.folder.glob("leader-*") if _TERM.fullmatch(path.name) and path.is_file())

    def _leader_lives(self, term: Path) -> bool | None:
        """True for this one, False for another that lives, None for one that is dead or gone."""
        try:
            name = _named_in(term)
        except FileNotFoundError:
            return None
        if name == self.name:
            return True
        if not name:  # being written
            return None if self._silent(term.name, name) else False
        words = self._said(name)
        return False if words is not None and self._lives(name, words) else None

    def leader(self) -> dict[str, Any] | None:
        """What the leader says of itself; None if there is none, or if it has just gone."""
        for term in self._terms()[-1:]:
            with suppress(OSError):
                return self._said(_named_in(term)) or None
        return None

    def succeeds(self) -> bool:
        """Whether this one leads, once it is certain whether the one that leads now lives.

        One that lives says so within a second or two; what a dead one left on another machine, or before this one was
        started anew, is believed for `SILENCE` seconds.
        """
        before, begun, told = self.leader(), time.monotonic(), False
        while not self.leads():
            present = self.leader()
            if present is not None and present != before:
                return False
            if not told and time.monotonic() - begun > 3 * BEAT_SECONDS:
                doubt = f"another process may be at work on {self.folder.parent}, or dead"
                tell_user(f"{doubt}: that is known in {SILENCE:g} s")
                told = True
            time.sleep(BEAT_SECONDS / 5)
        return True

    # --- parcels ---

    def give(self, name: str, number: int, parcel: Parcel) -> None:
        """Give trials to a member that waits for its parcel `number`."""
        write_atomically(self._parcel(name, number), json.dumps(parcel).encode(), lasting=False)

    def given(self, name: str, number: int) -> Parcel | None:
        """A member's parcel, if there is one."""
        try:
            parcel = json.loads(self._parcel(name, number).read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return None
        return {int(place): positions for place, positions in parcel.items()}

    def _parcel(self, name: str, number: int) -> Path:
        return self.folder / f"{name}-{number}.parcel"


@contextmanager
def joined(study: Path, plan: str = "") -> Iterator[Member]:
    """Take part in the work on a study; while the block runs, the others see that this process lives.

    Only members of one `plan`, a digest of what is to be trained and kept, work for each other.
    """
    member = Member(study, plan)
    member.join()
    stop = threading.Event()
    thread = threading.Thread(target=_go_on_beating, args=(member, stop), daemon=True)
    thread.start()
    try:
        yield member
    finally:
        stop.set()
        thread.join()
        member.leave()


def _named_in(term: Path) -> str:
    """The name of a leader; none while it is being written, or where something else is written there."""
    name = term.read_text(encoding="utf-8", errors="replace")
    return name if _NAME.fullmatch(name) else ""


def _go_on_beating(member: Member, stop: threading.Event) -> None:
    while not stop.wait(BEAT_SECONDS):
        with contextlib.suppress(OSError):  # a full disk, or a network that is away: the next beat may come through
            member.beat()


def _machine() -> str:
    """What two processes that see each other's locks have in common."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:
        boot = ""
    return f"{os.uname().nodename if hasattr(os, 'uname') else ''} {boot}"
