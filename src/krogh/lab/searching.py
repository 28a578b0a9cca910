"""A search at work: positions of a study handed to the engine as it asks for them, results handed back as they come."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from krogh.engine import Trials
from krogh.engine.checking import CONVERGED
from krogh.engine.lane import Finished, Waiting
from krogh.lab.search import Search


class Searching:
    """Between a search, which knows positions in the study, and the engine, which knows cohorts.

    `waiting` holds for each cohort the trials that were asked for; all are closed once nothing more will be asked for.
    `most` is the largest number of trials that the search may still run.
    """

    def __init__(self, search: Search, cohorts: Sequence[Trials], known: dict[int, bool]):
        self._search = search
        self._firsts = np.concatenate([[0], np.cumsum([len(cohort) for cohort in cohorts])])
        # A problem's trials may all be of one cohort, so each has room for what one problem has in flight.
        flying = min(search.width, search.ahead or max(1, search.width // max(1, len(cohorts))))
        self.waiting = [Waiting(np.zeros(0, np.int64), closed=False, expected=flying) for _ in cohorts]
        first = search.start(known)
        self.most = sum(
            max(0, min(frontier.rule.budget, search.positions) - frontier.trials)
            for name, frontier in search.frontiers.items()
            if not search.over(name)
        )
        self._hand_out(first)

    def report(self, place: int, finished: Finished) -> None:
        """Records of the cohort at `place`."""
        positions = self._firsts[place] + finished.position
        success = finished.status == CONVERGED
        self._hand_out(self._search.report(dict(zip(positions.tolist(), success.tolist(), strict=True))))

    def _hand_out(self, positions: list[int]) -> None:
        homes = np.searchsorted(self._firsts, positions, side="right") - 1
        for position, place in zip(positions, homes, strict=True):
            self.waiting[place].add([position - int(self._firsts[place])])
        if not self._search.in_flight:
            for waiting in self.waiting:
                waiting.close()
