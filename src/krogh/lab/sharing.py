"""A study's trials shared between processes: what the leader gives away, and what the others do with it.

The leader trains from the front of what is missing and gives from the end of it, each time a share of what waits, so
that parcels become small when little is left. Of a search, where little waits, it gives of what is in flight. What
others have trained it reads in the store, as anybody would. A member that died, or says that it is done without a
record, gets nothing lost: its trials wait at the leader again.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import polars as pl

from krogh.engine import Inherited, Trials
from krogh.engine.lane import Waiting
from krogh.files import read_table
from krogh.lab.members import BEAT_SECONDS, Member, Parcel
from krogh.lab.search import Search
from krogh.lab.store import Store

LOOK_SECONDS = 0.2

TookIn = Callable[[int, np.ndarray, pl.DataFrame], None]
"""What is done with others' records: of the cohort at a place, the positions, and their rows."""


def can_be_shared(cohorts: Sequence[Trials]) -> bool:
    """Whether trials may be trained wherever there is room; not where some begin with the weights of others."""
    return not any(isinstance(cohort.template.start, Inherited) for cohort in cohorts)


class Pool(Protocol):
    """Trials that have not begun, of which some may be trained elsewhere: `Queues`, or a search's `Dispatcher`."""

    waiting: list[Waiting]

    def share_with(self, others: int) -> None: ...
    def give_away(self) -> Parcel: ...
    def take_back(self, place: int, position: int) -> None: ...
    def nothing_away(self) -> None: ...


class Queues:
    """All that is missing; a queue stays open while some of it is away, since that may come back."""

    def __init__(self, missing_of: Sequence[np.ndarray], away: set[tuple[int, int]]):
        self.waiting, self._others = list[Waiting](), 0
        for place, missing in enumerate(missing_of):
            own = np.array([one for one in missing.tolist() if (place, one) not in away], np.int64) if away else missing
            self.waiting.append(Waiting(own, closed=len(own) == len(missing), expected=len(missing)))

    def share_with(self, others: int) -> None:
        self._others = others

    def give_away(self) -> Parcel:
        """A share of what waits, from the last cohorts."""
        wanted = -(-sum(waiting.left() for waiting in self.waiting) // (2 * (self._others + 1)))
        parcel: Parcel = {}
        for place in range(len(self.waiting) - 1, -1, -1):
            if wanted > 0 and (positions := self.waiting[place].give_away(wanted)):
                parcel[place] = positions
                wanted -= len(positions)
        return parcel

    def take_back(self, place: int, position: int) -> None:
        self.waiting[place].add([position])

    def nothing_away(self) -> None:
        for waiting in self.waiting:
            waiting.close()


class Crew:
    """The leader's view of the others."""

    def __init__(self, member: Member, store: Store, ids_of: Sequence[np.ndarray], *, searching: bool = False):
        """What an earlier leader gave away is left to those who have it, but for a search, which asks anew."""
        self._member, self._store, self._ids, self.searching = member, store, ids_of, searching
        self._read: set[Path] = set()
        self._given: dict[str, int] = {}  # by member, how many parcels it has got
        self._away: dict[str, dict[int, tuple[int, int]]] = {}  # by member and identity, the place and position
        self._pool: Pool = Queues([], set())
        self.gave = False
        for name, words in self._others().items():
            self._adopt(name, int(words.get("wants", 0)))

    def _others(self) -> dict[str, dict[str, Any]]:
        """Those that live and have the same plan."""
        return {name: words for name, words in self._member.others().items() if words.get("plan") == self._member.plan}

    def _adopt(self, name: str, wants: int) -> None:
        """Get to know a member, and what an earlier leader has given to it."""
        parcel = self._member.given(name, wants)
        self._given[name] = wants + (parcel is not None)
        self._send_away(name, {} if self.searching else parcel or {})

    def _send_away(self, name: str, parcel: Parcel) -> None:
        self._away[name] = {
            int(self._ids[place][position]): (place, position)
            for place, positions in parcel.items()
            for position in positions
        }

    def share(self, pool: Pool) -> list[Waiting]:
        """Give of what is in a pool; what waits in it for this process."""
        self._pool = pool
        return pool.waiting

    def queues(self, missing_of: Sequence[np.ndarray]) -> Queues:
        """What is missing and is not already away."""
        if any(self._away.values()):  # of what an earlier leader gave, some is there already
            left = {(place, one) for place, missing in enumerate(missing_of) for one in missing.tolist()}
            for name, parcel in self._away.items():
                self._away[name] = {identity: home for identity, home in parcel.items() if home in left}
        return Queues(missing_of, {home for parcel in self._away.values() for home in parcel.values()})

    def attend(self, took_in: TookIn) -> None:
        """Take in what others have trained, take back what they will not train, and give to who asks."""
        living = self._others()
        if any(self._away.values()):
            self._take_in(took_in)  # before anything is taken back: who left has written what it had
        for name in [*self._away]:
            if name not in living:
                self._take_back(name)
                self._member.forget(name)
        self._pool.share_with(len(living))
        for name, words in living.items():
            if name not in self._given:
                self._adopt(name, int(words.get("wants", 0)))
            if words.get("wants") == self._given[name]:  # it is done with all that it has got
                self._take_back(name)
                if parcel := self._pool.give_away():
                    self.gave = True
                    self._send_away(name, parcel)
                    self._member.give(name, self._given[name], parcel)
                    self._given[name] += 1
        if not any(self._away.values()):
            self._pool.nothing_away()

    def _take_back(self, name: str) -> None:
        for place, position in self._away.pop(name, {}).values():
            self._pool.take_back(place, position)

    def _take_in(self, took_in: TookIn) -> None:
        new = [path for path in self._store.files() if path not in self._read]
        for path in new:
            try:
                rows = read_table(path, ["id", "outcome", "steps"])
            except FileNotFoundError:  # merged in the meantime: what it held is in another file
                return self._take_in(took_in)
            self._read.add(path)
            for parcel in self._away.values():
                known = rows.filter(pl.col("id").is_in(list(parcel))).unique("id")
                homes = [parcel.pop(identity) for identity in known["id"].to_list()]
                for place in {place for place, _ in homes}:
                    chosen = np.array([own == place for own, _ in homes])
                    positions = np.array([position for own, position in homes if own == place], np.int64)
                    took_in(place, positions, known.filter(chosen))

    def give_up(self) -> None:
        """Train all that is left here."""
        for name in [*self._away]:
            self._take_back(name)
        self._pool.share_with(0)
        self._pool.nothing_away()


@contextmanager
def attending(crew: Crew, took_in: TookIn) -> Iterator[None]:
    """Attend to the crew now and then while the block runs; more often in a search, whose parcels are small."""
    with repeated(lambda: crew.attend(took_in), LOOK_SECONDS if crew.searching else BEAT_SECONDS, crew.give_up):
        yield


class Apprentice:
    """A member that trains what the leader gives to it, until there is no other leader any more."""

    def __init__(self, member: Member, cohorts: Sequence[Trials], search: Search | None = None):
        self._member, most = member, search.expected(len(cohorts)) if search is not None else None
        expected = [len(cohort) if most is None else min(most, len(cohort)) for cohort in cohorts]
        self.waiting = [Waiting(np.zeros(0, np.int64), closed=False, expected=number) for number in expected]
        self._number, self._busy = 0, False
        self._left: set[tuple[int, int]] = set()
        member.say(wants=0)

    def look(self) -> None:
        """See whether there is something to do, or whether this one leads now."""
        if self._busy:
            return
        if self._member.leads():
            self.give_up()
            return
        parcel = self._member.given(self._member.name, self._number)
        if parcel:
            self._busy = True
            self._left = {(place, position) for place, positions in parcel.items() for position in positions}
            for place, positions in parcel.items():
                self.waiting[place].add(positions)

    def give_up(self) -> None:
        """Take nothing more."""
        for waiting in self.waiting:
            waiting.close()

    def done(self, place: int, positions: np.ndarray) -> bool:
        """Take note of trials that ended; whether they were the last of the parcel."""
        self._left -= {(place, position) for position in positions.tolist()}
        return not self._left

    def ask(self) -> None:
        """Ask for the next parcel; the records of the present one must be in the store."""
        self._number += 1
        self._member.say(wants=self._number)
        self._busy = False


@contextmanager
def looking(apprentice: Apprentice) -> Iterator[None]:
    """Look for work now and then while the block runs."""
    with repeated(apprentice.look, LOOK_SECONDS, apprentice.give_up):
        yield


@contextmanager
def repeated(action: Callable[[], None], seconds: float, give_up: Callable[[], None]) -> Iterator[None]:
    """Do something every so many seconds in a thread of its own; after a fault, give up, and raise it at the end."""
    stop, faults = threading.Event(), list[Exception]()

    def repeat() -> None:
        while not stop.wait(seconds):
            try:
                action()
            except OSError:  # somebody left between two looks, or the disk is away: the next time may do
                continue
            except Exception as fault:
                faults.append(fault)
                return give_up()

    thread = threading.Thread(target=repeat, daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()
    for fault in faults:
        raise fault
