"""Orders in which gates come after what they read, and the cycle where there is none; in time linear in the gates.

`parents` [gates, 2] are node numbers: 0..m-1 are inputs, m+i is gate i, and negative numbers are constants.
"""

from __future__ import annotations

import numpy as np


def topological_order(parents: np.ndarray, inputs: int) -> np.ndarray | None:
    """An order of the gates in which parents come first (the given one where it does); None for a cyclic circuit."""
    gates = len(parents)
    if not gates or bool(np.all(parents < inputs + np.arange(gates)[:, None])):
        return np.arange(gates)
    _, order = _worked_off(parents, inputs)
    return np.array(order) if len(order) == gates else None


def find_cycle(parents: np.ndarray, inputs: int) -> list[int]:
    """Gates of a cyclic circuit each of which reads the next, and the last the first; the least stands first."""
    waiting, _ = _worked_off(parents, inputs)
    # Every gate that still waits reads one that still waits, so a walk along these must come back to itself.
    place = next(place for place, count in enumerate(waiting) if count)
    seen: dict[int, int] = {}
    walk: list[int] = []
    while place not in seen:
        seen[place] = len(walk)
        walk.append(place)
        place = next(int(node) - inputs for node in parents[place] if node >= inputs and waiting[int(node) - inputs])
    cycle = walk[seen[place] :]
    start = cycle.index(min(cycle))
    return cycle[start:] + cycle[:start]


def chain_of(names: list[str]) -> str:
    """A cycle in words: "a reads b reads a"; of a long one the middle is left out."""
    shown = names if len(names) <= 12 else [*names[:6], f"({len(names) - 11} more)", *names[-5:]]
    return " reads ".join([*shown, names[0]])


def _worked_off(parents: np.ndarray, inputs: int) -> tuple[list[int], list[int]]:
    """Gates taken one by one once all that they read are taken: how many each still waits for, and the order."""
    read = (parents.ravel() - inputs).astype(np.int64)
    reader = np.repeat(np.arange(len(parents)), 2)
    inner = read >= 0
    read, reader = read[inner], reader[inner]
    waiting = np.bincount(reader, minlength=len(parents)).tolist()
    starts = np.concatenate([[0], np.cumsum(np.bincount(read, minlength=len(parents)))]).tolist()
    following = reader[np.argsort(read, kind="stable")].tolist()  # from starts[i] on those that read gate i
    order = [place for place, count in enumerate(waiting) if count == 0]
    for place in order:  # grows while it is read
        for follower in following[starts[place] : starts[place + 1]]:
            waiting[follower] -= 1
            if waiting[follower] == 0:
                order.append(follower)
    return waiting, order
