"""Several success frontiers searched at once, with the slots of a device kept full.

`Search` hands out positions of trials and takes their results in whatever order they come. A trial that succeeds may
end early and one that fails runs to its budget, so the results known at any moment flatter the small sizes: a problem
is decided only when nothing of it is in flight any more, and what is in flight must not be cancelled.

`Dispatcher` puts a search to work: it hands positions of a study to the engine as the search asks for them, and results
back as they come. `krogh.lab.replay` runs one on trials that were all trained already.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from krogh.engine import Trials
from krogh.engine.lane import Waiting
from krogh.errors import require, require_integer
from krogh.lab.frontier import Frontier, Rule


@dataclass(frozen=True)
class Problem:
    """One frontier to find: for each candidate size the positions of trials that can be run there, each once."""

    name: Hashable
    pools: Mapping[float, Sequence[int]]


@dataclass
class _Progress:
    """A problem under way."""

    frontier: Frontier
    pools: dict[float, list[int]]  # by size, the positions not launched yet, the next one last
    owed: list[tuple[float, int]] = field(default_factory=list)  # launched before an interruption, never reported
    waiting: dict[float, int] = field(default_factory=dict)  # by size, how many are in flight
    exhausted: bool = False

    @property
    def flying(self) -> int:
        return sum(self.waiting.values())


class Search:
    """Several frontiers at once, with about `width` trials in flight until every problem is decided.

    `start`, `finished` and `report` answer with positions to run. A problem gets no more trials while its interval is
    narrow, and is `over` once nothing of it is in flight. `ahead` limits what one problem may have in flight: few
    problems on a wide device would otherwise spend their budgets before the first answers come.
    """

    def __init__(
        self,
        problems: Iterable[Problem],
        *,
        width: int,
        p: float = 0.8,
        rule: Rule = Rule(),
        ahead: int | None = None,
        seed: int = 0,
        frontiers: Mapping[Any, Frontier] | None = None,
    ) -> None:
        """`frontiers` are posteriors that know of each other, by the names of the problems."""
        require_integer("width", width, 1)
        require_integer("ahead", width if ahead is None else ahead, 1)
        self.width, self.ahead = width, ahead
        self._progress: dict[Hashable, _Progress] = {}
        self._home: dict[int, tuple[Hashable, float]] = {}
        self._flying: dict[int, None] = {}  # a set that keeps its order
        for place, problem in enumerate(problems):
            require(problem.name not in self._progress, f"two problems are named {problem.name!r}")
            sizes = sorted(problem.pools)
            own = Frontier(sizes, p, rule=rule, seed=seed + place) if frontiers is None else frontiers[problem.name]
            pools = {float(size): list(problem.pools[size])[::-1] for size in sizes}
            self._progress[problem.name] = _Progress(own, pools)
            for size, positions in pools.items():
                for position in positions:
                    require(position not in self._home, f"position {position!r} is in two pools; each can be run once")
                    self._home[position] = (problem.name, size)
        require(self._progress, "a search needs at least one problem")

    @property
    def frontiers(self) -> dict[Hashable, Frontier]:
        return {name: progress.frontier for name, progress in self._progress.items()}

    @property
    def in_flight(self) -> list[int]:
        return list(self._flying)

    @property
    def trials(self) -> int:
        return sum(frontier.trials for frontier in self.frontiers.values())

    @property
    def positions(self) -> int:
        """How many trials the full grid would take."""
        return len(self._home)

    def expected(self, cohorts: int) -> int:
        """How many trials of one of so many cohorts are likely to be in flight: a problem's may all be of one."""
        return min(self.width, self.ahead or max(1, self.width // max(1, cohorts)))

    def _wants(self, progress: _Progress) -> bool:
        """Whether more trials of this problem should be launched, as far as is known."""
        launched = progress.frontier.trials + progress.flying
        if progress.exhausted or launched >= progress.frontier.rule.budget:
            return False
        return self.ahead is None or progress.flying < self.ahead

    def over(self, name: Hashable | None = None) -> bool:
        """Whether the problem, or every problem, is decided or can have no more trials, with nothing in flight."""
        require(name is None or name in self._progress, f"problems are {list(self._progress)}; got {name!r}")
        chosen = [one for each, one in self._progress.items() if name is None or each == name]
        return all(not one.flying and not one.owed and (one.frontier.done or one.exhausted) for one in chosen)

    def start(self, known: Mapping[int, bool] | None = None) -> list[int]:
        """The first positions to run, `known` = {position: success} being there already.

        Positions are launched in the order of their pool. One that has no result although a later one has was in
        flight when an earlier search was interrupted: those come first, for they are failures more often than not.
        """
        for position, success in (known or {}).items():
            require(position in self._home, f"position {position!r} is in no pool of this search")
            name, size = self._home[position]
            self._progress[name].frontier.observe(size, bool(success))
        for progress in self._progress.values():
            for size, pool in progress.pools.items():
                reported = [place for place, position in enumerate(pool) if position in (known or {})]
                if reported:
                    first = reported[0]  # the pool is in reverse: the last one that was launched
                    progress.owed += [(size, each) for each in pool[first:][::-1] if each not in (known or {})]
                    del pool[first:]
        return self._fill()

    def finished(self, position: int, success: bool) -> list[int]:
        """Take in the result of a position in flight; the positions to run in its place."""
        return self.report({position: success})

    def report(self, results: Mapping[int, bool]) -> list[int]:
        """Take in results that came together, {position: success}, before anything new is proposed."""
        for position in results:
            require(position in self._flying, f"position {position!r} is not in flight")
        for position, success in results.items():
            del self._flying[position]
            name, size = self._home[position]
            progress = self._progress[name]
            progress.waiting[size] -= 1
            progress.frontier.observe(size, success)
            progress.exhausted = False
        return self._fill()

    def _launch(self, progress: _Progress, size: float, position: int) -> int:
        self._flying[position] = None
        progress.waiting[size] = progress.waiting.get(size, 0) + 1
        return position

    def _fill(self) -> list[int]:
        launched: list[int] = []
        for progress in self._progress.values():
            while progress.owed and len(self._flying) < self.width:
                launched.append(self._launch(progress, *progress.owed.pop(0)))
        undecided = [one for one in self._progress.values() if not one.frontier.done]
        while len(self._flying) < self.width:
            wanting = [progress for progress in undecided if self._wants(progress)]
            if not wanting:
                break
            progress = min(wanting, key=lambda one: one.flying)
            left = {size: len(pool) for size, pool in progress.pools.items()}
            sizes = progress.frontier.propose(1, progress.waiting, left)
            progress.exhausted = not sizes
            launched += [self._launch(progress, size, progress.pools[size].pop()) for size in sizes]
        return launched


class Dispatcher:
    """Between a search, which knows positions in the study, and the engine, which knows cohorts.

    `waiting` holds for each cohort the trials that were asked for; all are closed once nothing more will be asked for.
    `most` is the largest number of trials that the search may still run. What is in flight is all that can be shared
    with other processes, so each, this one too, has an equal share of it: what is above that is set aside for them.
    """

    def __init__(self, search: Search, cohorts: Sequence[Trials], known: dict[int, bool]):
        self._search = search
        self._firsts = np.concatenate([[0], np.cumsum([len(cohort) for cohort in cohorts])])
        flying = search.expected(len(cohorts))
        self.waiting = [Waiting(np.zeros(0, np.int64), closed=False, expected=flying) for _ in cohorts]
        self._aside: deque[tuple[int, int]] = deque()  # place and position of trials that nobody has yet
        self._here, self._others = 0, 0
        self._lock = threading.RLock()
        first = search.start(known)
        self.most = sum(
            max(0, min(frontier.rule.budget, search.positions) - frontier.trials)
            for name, frontier in search.frontiers.items()
            if not search.over(name)
        )
        self._hand_out(first)

    def report(self, place: int, positions: np.ndarray, success: np.ndarray, *, elsewhere: bool = False) -> None:
        """Which of some trials of the cohort at `place` converged; `elsewhere` are those that were given away."""
        places = self._firsts[place] + positions
        with self._lock:
            self._here -= 0 if elsewhere else len(positions)
            self._hand_out(self._search.report(dict(zip(places.tolist(), success.tolist(), strict=True))))

    def _hand_out(self, positions: list[int]) -> None:
        homes = np.searchsorted(self._firsts, positions, side="right") - 1
        self._aside.extend((place, one - int(self._firsts[place])) for one, place in zip(positions, homes, strict=True))
        self._keep_own_share()
        if not self._search.in_flight:
            for waiting in self.waiting:
                waiting.close()

    def _keep_own_share(self) -> None:
        share = -(-len(self._search.in_flight) // (1 + self._others))
        while self._aside and self._here < share:
            place, position = self._aside.popleft()
            self.waiting[place].add([position])
            self._here += 1

    # --- other processes ---

    def share_with(self, others: int) -> None:
        """So many others take part from now on."""
        with self._lock:
            self._others = others
            self._keep_own_share()

    def give_away(self) -> dict[int, list[int]]:
        """One of the others' part of what is set aside: positions by the place of their cohort."""
        given: dict[int, list[int]] = {}
        with self._lock:
            for _ in range(-(-len(self._aside) // max(1, self._others))):
                place, position = self._aside.popleft()
                given.setdefault(int(place), []).append(position)
        return given

    def take_back(self, place: int, position: int) -> None:
        """A trial that was given away and will not be trained there."""
        with self._lock:
            self._aside.append((place, position))
            self._keep_own_share()

    def nothing_away(self) -> None:
        """All that was given away has come back or has a record; only the search knows whether it goes on."""
