"""Running a Turing machine: the interpreter, and its full trace (sm-approximation, section 2, T2).

Time i = 0..T. `state[i]`, `symbol[i]` and `cell[i]` are z_i, a_i and l_i: the state, the symbol under the head and the
cell of the head after step i. Step i reads (z_{i−1}, a_{i−1}), writes `written[i]` on cell l_{i−1} and moves by
`moved[i]`. After halting the machine loops with move +1.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from jaxtyping import Int

from krogh.errors import KroghError, require_integer
from krogh.tasks.machines.machine import NOTHING, Machine, Word

PATIENCE = 10
"""A machine that did not halt within T steps is followed up to PATIENCE·T, to say how many it needs."""
CHUNK = 8192


class LeftTheTapeError(KroghError):
    """A move off the left end of a one-way tape."""


class Tape(NamedTuple):
    """A stretch of tape: `symbols[j]` stands on cell `first + j`; all cells outside are blank."""

    first: int
    symbols: Int[np.ndarray, " cells"]

    def content(self) -> Int[np.ndarray, " cells"]:
        """The symbols from the first to the last that is not blank."""
        (marked,) = np.nonzero(self.symbols)
        return self.symbols[marked[0] : marked[-1] + 1] if len(marked) else self.symbols[:0]

    def window(self, first: int, last: int) -> Int[np.ndarray, " cells"]:
        """The symbols on the cells `first` to `last`."""
        cells = np.arange(first, last + 1) - self.first
        inside = (cells >= 0) & (cells < len(self.symbols))
        return np.where(inside, self.symbols[np.clip(cells, 0, len(self.symbols) - 1)], 0).astype(np.int32)


class Run(NamedTuple):
    """Where a run ended: after halting, or after all its steps."""

    machine: Machine
    word: Int[np.ndarray, " m"]
    state: int
    cell: int
    tape: Tape
    halted_at: int | None

    @property
    def label(self) -> int | None:
        """1 accepted, 0 rejected; None where it did not halt or halted without a decision."""
        return decision(self.machine, self.state)

    @property
    def output(self) -> str:
        """What stands on the tape, from the first to the last symbol that is not blank."""
        return self.machine.decode(self.tape.content())


@dataclass(frozen=True, eq=False)
class Trace:
    """Every step of a run; arrays have steps + 1 entries.

    No step comes before time 0: `written[0]` is −1 and `moved[0]` is 0.
    """

    machine: Machine
    word: Int[np.ndarray, " m"]
    state: Int[np.ndarray, " times"]
    symbol: Int[np.ndarray, " times"]
    cell: Int[np.ndarray, " times"]
    halted_at: int | None

    @property
    def steps(self) -> int:
        """T."""
        return len(self.state) - 1

    @functools.cached_property
    def written(self) -> Int[np.ndarray, " times"]:
        """u_i, the symbol that step i wrote."""
        return np.concatenate([[-1], self.machine.write[self.state[:-1], self.symbol[:-1]]]).astype(np.int32)

    @functools.cached_property
    def moved(self) -> Int[np.ndarray, " times"]:
        """q_i, the move of step i."""
        return np.concatenate([[0], self.machine.move[self.state[:-1], self.symbol[:-1]]]).astype(np.int8)

    @property
    def label(self) -> int | None:
        """1 accepted, 0 rejected; None where it did not halt or halted without a decision."""
        return decision(self.machine, int(self.state[-1]))

    def tape_at(self, time: int) -> Tape:
        """The tape after step `time`: the input and the cells the head has been on."""
        require_integer("time", time, 0, self.steps)
        cells = self.cell[: time + 1]
        first, last = min(1, int(cells.min())), max(len(self.word), int(cells.max()))
        symbols = np.zeros(last - first + 1, np.int32)
        symbols[1 - first : 1 - first + len(self.word)] = self.word
        # Assignment with repeated indices keeps the last value, which is the symbol written last.
        symbols[self.cell[:time] - first] = self.written[1 : time + 1]
        return Tape(first, symbols)


class Configuration:
    """A machine at work: its state, its head and its tape."""

    def __init__(self, machine: Machine, word: Word) -> None:
        self.machine = machine
        self.word = machine.encode(word)
        self.state, self.cell, self.time = machine.start, 1, 0
        self.tape = dict(enumerate(self.word.tolist(), start=1))
        self._tables = [table.tolist() for table in (machine.next_state, machine.write, machine.move)]
        self._halting = machine.is_halting.tolist()
        # The margin of a one-way tape is cell 0; on two-way tapes no cell is too far left.
        self._lowest: float = 0 if machine.tape == "one-way" else -np.inf

    @property
    def halted(self) -> bool:
        """Whether the state halts."""
        return self._halting[self.state]

    def advance(self, steps: int) -> tuple[list[int], list[int], list[int]]:
        """Take up to `steps` steps, fewer where the machine halts: states, symbols and cells after each of them."""
        next_state, write, move = self._tables
        halting, lowest, tape = self._halting, self._lowest, self.tape
        state, cell = self.state, self.cell
        symbol = tape.get(cell, 0)
        states: list[int] = []
        symbols: list[int] = []
        cells: list[int] = []
        for _ in range(steps):
            if halting[state]:
                break
            tape[cell] = write[state][symbol]
            before = (state, symbol)
            cell += move[state][symbol]
            if cell < lowest:
                raise off_the_left_end(self.machine, self.word, self.time + len(states) + 1, *before)
            state = next_state[state][symbol]
            symbol = tape.get(cell, 0)
            states.append(state)
            symbols.append(symbol)
            cells.append(cell)
        self.state, self.cell, self.time = state, cell, self.time + len(states)
        return states, symbols, cells


def trace(machine: Machine, word: Word, steps: int) -> Trace:
    """Every step of a run of `steps` steps."""
    require_integer("steps", steps, 0)
    at = Configuration(machine, word)
    first_symbol = at.tape.get(1, 0)
    states, symbols, cells = at.advance(steps)
    rest = steps - at.time
    halted_at = at.time if at.halted else None
    beyond = range(at.cell + 1, at.cell + 1 + rest)
    return Trace(
        machine,
        at.word,
        np.array([machine.start, *states, *[at.state] * rest], np.int32),
        np.array([first_symbol, *symbols, *(at.tape.get(cell, 0) for cell in beyond)], np.int32),
        np.array([1, *cells, *beyond], np.int32),
        halted_at,
    )


def run(machine: Machine, word: Word, steps: int) -> Run:
    """Run until the machine halts, for at most `steps` steps."""
    require_integer("steps", steps, 0)
    at = _follow(machine, word, steps)
    first, last = min(1, at.cell, min(at.tape, default=1)), max(at.cell, max(at.tape, default=1))
    symbols = np.array([at.tape.get(cell, 0) for cell in range(first, last + 1)], np.int32)
    return Run(machine, at.word, at.state, at.cell, Tape(first, symbols), at.time if at.halted else None)


def steps_needed(machine: Machine, word: Word, limit: int) -> int | None:
    """After how many steps the machine halts on a word; None where it does not within `limit`."""
    require_integer("limit", limit, 0)
    at = _follow(machine, word, limit)
    return at.time if at.halted else None


def require_halts(machine: Machine, words: Sequence[Word], steps: int) -> list[int]:
    """The steps each word needs; an error where T is too small says how many a word needs, if it is found out."""
    require_integer("steps", steps, 0)
    needed = [steps_needed(machine, word, steps) for word in words]
    found = [count for count in needed if count is not None]
    if len(found) == len(needed):
        return found
    late = next(word for word, count in zip(words, needed, strict=True) if count is None)
    limit = PATIENCE * max(steps, 1)
    enough = steps_needed(machine, late, limit)
    shown = machine.decode(machine.encode(late))
    if enough is None:
        says = f"nor within {limit}: it may never halt, or needs a larger T"
    else:
        says = f"it needs {enough} steps: take T = {enough} or more"
    raise KroghError(f"T = {steps} is too small: {machine.name!r} does not halt on {shown!r} within T steps; {says}")


def decision(machine: Machine, state: int) -> int | None:
    """What a state decides: 1, 0 or nothing."""
    label = int(machine.labels[state])
    return None if label == NOTHING else label


def off_the_left_end(
    machine: Machine, word: Int[np.ndarray, " m"], time: int, state: int, symbol: int
) -> LeftTheTapeError:
    """The error for a move left from cell 0 of a one-way tape."""
    return LeftTheTapeError(
        f"{machine.name!r} moves off the left end of its one-way tape on the input {machine.decode(word)!r}: "
        f"step {time}, in state {machine.states[state]!r} on {machine.alphabet[symbol]!r}, moves left from cell 0. "
        "Mark the left end on the tape, or take a two-way tape (`tape: two-way`)"
    )


def _follow(machine: Machine, word: Word, steps: int) -> Configuration:
    """The configuration after halting or after `steps` steps, without the memory of a trace."""
    at = Configuration(machine, word)
    while at.time < steps and not at.halted:
        at.advance(min(CHUNK, steps - at.time))
    return at
