"""An adaptive search replayed on trials that were all trained already: what it would have found, and at what cost.

A trial's outcome and its number of steps are its own, whoever asks for it and when. So a search that is told each
recorded outcome after as many units of time as the trial took steps decides as it would have decided at work.
"""

from __future__ import annotations

import heapq
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from krogh.lab.frontier import Frontier, Rule
from krogh.lab.search import Problem, Search


@dataclass(frozen=True)
class Replay:
    """What a replayed search found and what it spent."""

    frontiers: dict[Any, Frontier]
    trials: dict[Any, int]  # by problem
    steps: dict[Any, int]


def stopping_rule(grid: int, precision: float) -> Rule:
    """Stop at an interval one size or a factor `precision` wide, after half of the trials of a grid at the latest."""
    budget = max(1, grid // 2)
    return Rule(ratio=precision, least=min(12, budget), budget=budget)


def frontier_search(
    pools: Mapping[int, Mapping[int, Sequence[int]]], *, p: float, precision: float, in_flight: int, seed: int = 0
) -> Search:
    """A search for m_p of every problem in `pools` = {problem: {m: positions}}, each with `in_flight` trials at a time.

    Where problems have grids of several sizes, half of the largest is what each may spend.
    """
    problems = [Problem(name, {float(m): cell for m, cell in sizes.items()}) for name, sizes in pools.items()]
    grid = max(sum(len(cell) for cell in sizes.values()) for sizes in pools.values())
    rule = stopping_rule(grid, precision)
    return Search(problems, width=in_flight * len(problems), ahead=in_flight, p=p, rule=rule, seed=seed)


def replay(
    pools: Mapping[int, Mapping[int, Sequence[int]]],
    solved: np.ndarray,
    steps: np.ndarray,
    *,
    p: float,
    precision: float,
    in_flight: int,
    seed: int = 0,
) -> Replay:
    """A search for the frontiers of all problems on trials whose success and steps, both by position, are known."""
    return replay_search(
        frontier_search(pools, p=p, precision=precision, in_flight=in_flight, seed=seed), pools, solved, steps
    )


def replay_search(
    search: Search, pools: Mapping[Any, Mapping[Any, Sequence[int]]], solved: np.ndarray, steps: np.ndarray
) -> Replay:
    """A search on trials whose success and steps, both by position, are known."""
    home = {position: name for name, sizes in pools.items() for cell in sizes.values() for position in cell}
    trials, spent = dict.fromkeys(pools, 0), dict.fromkeys(pools, 0)
    clock, running = 0, [(int(steps[position]), position) for position in search.start()]
    heapq.heapify(running)
    while running:
        clock, position = heapq.heappop(running)
        trials[home[position]] += 1
        spent[home[position]] += int(steps[position])
        for following in search.finished(position, bool(solved[position])):
            heapq.heappush(running, (clock + int(steps[following]), following))
    frontiers = {name: search.frontiers[name] for name in pools}
    return Replay(frontiers, trials, spent)
