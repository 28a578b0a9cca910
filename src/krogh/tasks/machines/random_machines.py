"""Random machines: a random total table, drawn again until its runs are proper (sm-approximation, section 2, T2)."""

from __future__ import annotations

import itertools
import math
import string
from collections.abc import Sequence

import numpy as np

from krogh.errors import KroghError, require, require_integer
from krogh.tasks.machines.machine import TAPES, Machine, Word

SYMBOLS = "_" + string.digits + string.ascii_letters
MOST_WORDS = 100_000


def random_machine(
    states: int,
    symbols: int,
    seed: int,
    *,
    tape: str = "one-way",
    halting: float | None = None,
    words: Sequence[Word] | None = None,
    length: int = 3,
    steps: int = 200,
    least_steps: int = 2,
    attempts: int = 10_000,
) -> Machine:
    """A machine with `states` working states and the states accept and reject.

    Every entry of its table halts with probability `halting` (2/(states + 2) where it is not given), to accept or
    reject at even odds, and goes to a random working state otherwise; symbols and moves are uniform. A table is
    drawn again, up to `attempts` times, unless the machine halts within `steps` steps on every one of `words` (all
    words of up to `length` symbols without the blank where none are given), never leaves a one-way tape, and takes
    `least_steps` on one of them. The same arguments give the same machine.
    """
    require_integer("states", states, 1)
    require_integer("symbols", symbols, 2, len(SYMBOLS))
    require_integer("seed", seed, 0)
    require_integer("steps", steps, 1)
    require_integer("attempts", attempts, 1)
    require(tape in TAPES, f"tape must be {TAPES[0]!r} or {TAPES[1]!r}; got tape={tape!r}")
    chance = 2 / (states + 2) if halting is None else halting
    require(0 < chance <= 1, f"halting is a probability above 0; got halting={halting!r}")
    rng = np.random.default_rng(seed)
    name = f"random-{states}-{symbols}-{seed}"
    first = _machine(name, states, tape, *_draw(states, symbols, chance, rng))
    tried = short_words(first, length) if words is None else [first.encode(word).tolist() for word in words]
    lowest = 0.0 if tape == "one-way" else -math.inf
    for _ in range(attempts):
        tables = _draw(states, symbols, chance, rng)
        longest = _longest_run([table.tolist() for table in tables], tried, steps, lowest)
        if longest is not None and longest >= min(least_steps, steps):
            return _machine(name, states, tape, *tables)
    raise KroghError(
        f"none of {attempts} random machines of {states} states and {symbols} symbols halts on all {len(tried)} words "
        f"within {steps} steps and takes {least_steps} on one of them; allow more steps or shorter words, or another "
        f"chance of halting than {chance:.3g}"
    )


def short_words(machine: Machine, length: int) -> list[tuple[int, ...]]:
    """All words of up to `length` input symbols, as numbers, the shorter first."""
    require_integer("length", length, 0)
    letters = len(machine.input_symbols)
    count = sum(letters**size for size in range(length + 1))
    require(count <= MOST_WORDS, f"{machine.name!r} has {count} words of up to {length} symbols; at most {MOST_WORDS}")
    return [word for size in range(length + 1) for word in itertools.product(machine.input_symbols, repeat=size)]


def _draw(
    states: int, symbols: int, chance: float, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Next states (numbers `states` and `states` + 1 halt), symbols to write and moves."""
    shape = (states + 2, symbols)
    working, ends = rng.integers(states, size=shape), rng.integers(states, states + 2, size=shape)
    next_state = np.where(rng.random(shape) < chance, ends, working)
    return next_state, rng.integers(symbols, size=shape), 2 * rng.integers(2, size=shape) - 1


def _machine(name: str, states: int, tape: str, next_state: np.ndarray, write: np.ndarray, move: np.ndarray) -> Machine:
    return Machine(
        name=name,
        states=(*(f"q{number}" for number in range(states)), "accept", "reject"),
        alphabet=tuple(SYMBOLS[: next_state.shape[1]]),
        start=0,
        next_state=next_state,
        write=write,
        move=move,
        accept=(states,),
        reject=(states + 1,),
        tape=tape,
    )


def _longest_run(
    tables: list[list[list[int]]], words: Sequence[Sequence[int]], steps: int, lowest: float
) -> int | None:
    """The most steps any word takes; None where one does not halt or goes to the left of cell `lowest`.

    Most tables are drawn in vain: this plain loop ends with the first bad word.
    """
    next_state, write, move = tables
    states, longest = len(next_state) - 2, 0
    for word in words:
        tape = dict(enumerate(word, start=1))
        state, cell, time = 0, 1, 0
        while state < states:
            if time == steps:
                return None
            symbol = tape.get(cell, 0)
            tape[cell] = write[state][symbol]
            cell += move[state][symbol]
            state = next_state[state][symbol]
            time += 1
            if cell < lowest:
                return None
        longest = max(longest, time)
    return longest
