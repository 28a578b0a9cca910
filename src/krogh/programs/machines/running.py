"""Running a Turing machine: one input at a time, or many at once, with or without every step kept.

run, steps_needed    to the end of one run; `require_halts` for words that must halt
trace                every step of one run
trace_batch          every step of many runs, and `decide_batch` their ends, as array operations over the inputs

Time i = 0..T. `state[i]`, `symbol[i]` and `cell[i]` are z_i, a_i and l_i: the state, the symbol under the head and the
cell of the head after step i. Step i reads (z_{i−1}, a_{i−1}), writes `written[i]` on cell l_{i−1} and moves by
`moved[i]`. After halting the machine loops with move +1 (sm-approximation, section 2, T2). Where it halts because there
is no instruction (`Machine.gaps`) it does so in the state and on the cell where it is, before any step.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Int

from krogh.errors import KroghError, require, require_integer
from krogh.programs.machines.machine import NOTHING, Machine, Word

FOLLOW_FACTOR = 10
"""A machine that did not halt within T steps is followed up to FOLLOW_FACTOR·T, to say how many it needs."""
CHUNK = 8192
BLOCK = 64
"""Steps of a batch between two looks at who has halted or left the tape."""

Words = Sequence[Word] | np.ndarray


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
        self._stops = machine.stops.tolist()
        # The margin of a one-way tape is cell 0; on two-way tapes no cell is too far left.
        self._lowest: float = 0 if machine.tape == "one-way" else -np.inf

    @property
    def halted(self) -> bool:
        """Whether there is nothing left to do in this state on this symbol."""
        return self._stops[self.state][self.tape.get(self.cell, 0)]

    def advance(self, steps: int) -> tuple[list[int], list[int], list[int]]:
        """Take up to `steps` steps, fewer where the machine halts: states, symbols and cells after each of them."""
        next_state, write, move = self._tables
        stops, lowest, tape = self._stops, self._lowest, self.tape
        state, cell = self.state, self.cell
        symbol = tape.get(cell, 0)
        states: list[int] = []
        symbols: list[int] = []
        cells: list[int] = []
        for _ in range(steps):
            if stops[state][symbol]:
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


def trace(machine: Machine, word: Word, steps: int, *, beyond: bool = True) -> Trace:
    """Every step of a run of `steps` steps; of one that halts earlier, without what is `beyond` only up to there."""
    require_integer("steps", steps, 0)
    at = Configuration(machine, word)
    parts: list[Any] = [np.array([[machine.start], [at.tape.get(1, 0)], [1]], np.int32)]
    while at.time < steps and not at.halted:  # lists of all steps would take five times the memory
        taken = at.advance(min(CHUNK, steps - at.time))
        parts.append([np.array(each, np.int32) for each in taken])
    if beyond and at.time < steps:
        cells = np.arange(at.cell + 1, at.cell + 1 + steps - at.time)
        symbols = [at.tape.get(place, 0) for place in cells.tolist()]
        parts.append((np.full(len(cells), machine.next_state[at.state, at.tape.get(at.cell, 0)]), symbols, cells))
    state, symbol, cell = (np.concatenate(each, dtype=np.int32) for each in zip(*parts, strict=True))
    return Trace(machine, at.word, state, symbol, cell, at.time if at.halted else None)


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
    limit = FOLLOW_FACTOR * max(steps, 1)
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
    halted = machine.stops[state, symbol]
    halted_at = np.where(halted.any(axis=0), halted.argmax(axis=0), -1)
    turned = [np.ascontiguousarray(array.T) for array in (state, symbol, cell)]
    return TraceBatch(machine, tuple(at.words), turned[0], turned[1], turned[2], halted_at)


def decide_batch(machine: Machine, words: Words, steps: int) -> Decisions:
    """How the runs of several inputs end within `steps` steps, without the memory of traces."""
    require_integer("steps", steps, 0)
    encoded = _encoded(machine, words)
    labels = np.full(len(encoded), -1, np.int8)
    halted_at = np.full(len(encoded), -1, np.int64)
    if not len(encoded):
        return Decisions(labels, halted_at)
    at = _Batch(machine, encoded, steps)
    done = machine.stops[at.state, at.symbol]
    halted_at[done], labels[done] = 0, machine.labels[machine.start]
    running = np.flatnonzero(~done)
    at.keep(~done)
    time = 0
    while time < steps and len(running):
        count = min(BLOCK, steps - time)
        state, symbol, cell = (np.empty((count, len(running)), np.int32) for _ in range(3))
        at.advance(state, symbol, cell)
        halted = machine.stops[state, symbol]
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
