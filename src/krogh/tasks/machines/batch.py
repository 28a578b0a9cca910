"""Many inputs of one machine at once: the interpreter as array operations over the inputs, step by step."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from jaxtyping import Int

from krogh.errors import require, require_integer
from krogh.tasks.machines.machine import Machine, Word
from krogh.tasks.machines.running import Trace, off_the_left_end

Words = Sequence[Word] | np.ndarray
BLOCK = 64
"""Steps between two looks at who has halted or left the tape."""


@dataclass(frozen=True, eq=False)
class TraceBatch:
    """The traces of several inputs, arrays [batch, steps + 1]; `halted_at` is −1 where an input does not halt."""

    machine: Machine
    words: tuple[np.ndarray, ...]
    state: Int[np.ndarray, "batch times"]
    symbol: Int[np.ndarray, "batch times"]
    cell: Int[np.ndarray, "batch times"]
    halted_at: Int[np.ndarray, " batch"]

    @property
    def steps(self) -> int:
        """T."""
        return self.state.shape[1] - 1

    @property
    def labels(self) -> Int[np.ndarray, " batch"]:
        """1 accepted, 0 rejected, −1 neither, int8 [batch]."""
        return self.machine.labels[self.state[:, -1]]

    @functools.cached_property
    def written(self) -> Int[np.ndarray, "batch times"]:
        """u_i, the symbol that step i wrote; −1 at time 0."""
        return _shifted(self.machine.write[self.state[:, :-1], self.symbol[:, :-1]], -1)

    @functools.cached_property
    def moved(self) -> Int[np.ndarray, "batch times"]:
        """q_i, the move of step i; 0 at time 0."""
        return _shifted(self.machine.move[self.state[:, :-1], self.symbol[:, :-1]], 0)

    def __len__(self) -> int:
        return len(self.words)

    def __getitem__(self, number: int) -> Trace:
        halted = int(self.halted_at[number])
        arrays = (self.state[number], self.symbol[number], self.cell[number])
        return Trace(self.machine, self.words[number], *arrays, None if halted < 0 else halted)

    def __iter__(self) -> Iterator[Trace]:
        return (self[number] for number in range(len(self)))


class Decisions(NamedTuple):
    """How runs ended: labels (1 accepted, 0 rejected, −1 neither) and steps until halting (−1: none), [batch]."""

    labels: Int[np.ndarray, " batch"]
    halted_at: Int[np.ndarray, " batch"]


def trace_batch(machine: Machine, words: Words, steps: int) -> TraceBatch:
    """Every step of the runs of several inputs, the same as `trace` gives for each."""
    require_integer("steps", steps, 0)
    require(len(words) > 0, "a batch needs at least one word")
    at = _Batch(machine, _encoded(machine, words), steps)
    shape = (steps + 1, len(words))
    state, symbol, cell = (np.empty(shape, np.int32) for _ in range(3))
    state[0], symbol[0], cell[0] = machine.start, at.symbol, 1
    time = 0
    while time < steps and not machine.is_halting[at.state].all():
        count = min(BLOCK, steps - time)
        part = slice(time + 1, time + 1 + count)
        at.advance(state[part], symbol[part], cell[part])
        time += count
    # All have halted: states stay, heads go on to the right over a tape that does not change.
    state[time + 1 :] = at.state
    cell[time + 1 :] = cell[time] + np.arange(1, steps - time + 1)[:, None]
    symbol[time + 1 :] = np.take_along_axis(at.tape, cell[time + 1 :].T + at.margin, axis=1).T
    halted = machine.is_halting[state]
    halted_at = np.where(halted.any(axis=0), halted.argmax(axis=0), -1)
    turned = [np.ascontiguousarray(array.T) for array in (state, symbol, cell)]
    return TraceBatch(machine, tuple(at.words), turned[0], turned[1], turned[2], halted_at)


def decide_batch(machine: Machine, words: Words, steps: int) -> Decisions:
    """How the runs of several inputs end within `steps` steps, without the memory of traces."""
    require_integer("steps", steps, 0)
    encoded = _encoded(machine, words)
    labels = np.full(len(encoded), -1, np.int8)
    halted_at = np.full(len(encoded), -1, np.int64)
    running = np.arange(len(encoded))
    if machine.is_halting[machine.start]:
        labels[:], halted_at[:] = machine.labels[machine.start], 0
        return Decisions(labels, halted_at)
    at = _Batch(machine, encoded, steps)
    time = 0
    while time < steps and len(running):
        count = min(BLOCK, steps - time)
        state, symbol, cell = (np.empty((count, len(running)), np.int32) for _ in range(3))
        at.advance(state, symbol, cell)
        halted = machine.is_halting[state]
        done = halted[-1]
        halted_at[running[done]] = time + 1 + halted.argmax(axis=0)[done]
        labels[running[done]] = machine.labels[at.state[done]]
        time += count
        if done.any():
            running = running[~done]
            at.keep(~done)
    return Decisions(labels, halted_at)


class _Batch:
    """Heads and tapes of several inputs. Column `margin + cell` of a row is a cell of its tape."""

    def __init__(self, machine: Machine, words: list[np.ndarray], steps: int) -> None:
        self.machine, self.words, self.time = machine, words, 0
        longest = max((len(word) for word in words), default=0)
        # A head that leaves a one-way tape is found after its block of steps, before it leaves its own row.
        self.margin = steps if machine.tape == "two-way" else min(BLOCK, steps)
        width = self.margin + max(longest, steps + 1) + 1
        self.tape = np.zeros((len(words), width), np.min_scalar_type(len(machine.alphabet) - 1))
        for row, word in zip(self.tape, words, strict=True):
            row[self.margin + 1 : self.margin + 1 + len(word)] = word
        self.state = np.full(len(words), machine.start, np.int32)
        self.place = np.arange(len(words)) * width + self.margin + 1
        self._tables = [table.ravel() for table in (machine.next_state, machine.write, machine.move)]

    @property
    def symbol(self) -> Int[np.ndarray, " batch"]:
        """The symbols under the heads."""
        return self.tape.ravel()[self.place].astype(np.int32)

    def advance(
        self,
        states: Int[np.ndarray, "count batch"],
        symbols: Int[np.ndarray, "count batch"],
        cells: Int[np.ndarray, "count batch"],
    ) -> None:
        """Fill the arrays with the next steps."""
        next_state, write, move = self._tables
        flat, size = self.tape.reshape(-1), len(self.machine.alphabet)
        before = self.state, self.symbol
        state, symbol = before
        place = self.place
        first = np.arange(len(state)) * self.tape.shape[1] + self.margin
        for step in range(len(states)):
            pair = state * size + symbol
            flat[place] = write[pair]
            place = place + move[pair]
            state = states[step] = next_state[pair]
            symbol = symbols[step] = flat[place]
            cells[step] = place - first
        if self.machine.tape == "one-way" and cells.min() < 0:
            self._refuse(np.vstack([before[0][None], states]), np.vstack([before[1][None], symbols]), cells)
        self.state, self.place, self.time = state, place, self.time + len(states)

    def keep(self, rows: np.ndarray) -> None:
        """Go on with some of the inputs only."""
        cells = self.place - np.arange(len(self.place)) * self.tape.shape[1]
        self.words = [word for word, kept in zip(self.words, rows, strict=True) if kept]
        self.tape, self.state = self.tape[rows], self.state[rows]
        self.place = cells[rows] + np.arange(len(self.words)) * self.tape.shape[1]

    def _refuse(self, states: np.ndarray, symbols: np.ndarray, cells: np.ndarray) -> None:
        """The error for the first head that left a one-way tape."""
        step, row = np.argwhere(cells < 0)[0]
        at = int(states[step, row]), int(symbols[step, row])
        raise off_the_left_end(self.machine, self.words[row], self.time + int(step) + 1, *at)


def _encoded(machine: Machine, words: Words) -> list[np.ndarray]:
    if isinstance(words, np.ndarray) and words.ndim == 2:
        return list(machine.encode(words.ravel()).reshape(words.shape))
    return [machine.encode(word) for word in words]


def _shifted(values: np.ndarray, first: int) -> np.ndarray:
    return np.concatenate([np.full((len(values), 1), first, values.dtype), values], axis=1)
