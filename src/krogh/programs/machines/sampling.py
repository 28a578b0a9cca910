"""Machines and words at random: tables whose runs are proper, and inputs with labels (sm-approximation, section 2).

random_machine    a random total table, drawn again until the machine halts on short words and stays on its tape (T2)
sample_words      words of a length, uniform, or half accepted and half rejected, with what the machine decides (T4)
short_words       all words up to a length
"""

from __future__ import annotations

import itertools
import math
import string
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Int

from krogh.errors import KroghError, require, require_integer
from krogh.programs.machines.machine import ACCEPT, REJECT, TAPES, Machine, Word
from krogh.programs.machines.running import decide_batch, require_halts

SYMBOLS = "_" + string.digits + string.ascii_letters
MOST_WORDS = 100_000
LISTED = 1 << 14
"""Up to so many words of a length are all listed; of more, words are drawn."""
DRAWN, CHUNK = 1 << 19, 1 << 11
"""Words that are drawn at most until there are enough of both kinds, and at once."""


class ProperRuns(NamedTuple):
    """What the runs of a random machine must be: within `steps` steps on every word, `least_steps` on one of them.

    None may leave a one-way tape. The words are all those of up to `length` symbols without the blank where no `words`
    are given. A table is drawn again up to `attempts` times.
    """

    words: Sequence[Word] | None = None
    length: int = 3
    steps: int = 200
    least_steps: int = 2
    attempts: int = 10_000


def random_machine(
    states: int,
    symbols: int,
    seed: int,
    *,
    tape: str = "one-way",
    halting: float | None = None,
    runs: ProperRuns = ProperRuns(),
) -> Machine:
    """A machine with `states` working states and the states accept and reject, drawn again until its `runs` are proper.

    Every entry of its table halts with probability `halting` (2/(states + 2) where it is not given), to accept or
    reject at even odds, and goes to a random working state otherwise; symbols and moves are uniform. The same arguments
    give the same machine.
    """
    require_integer("states", states, 1)
    require_integer("symbols", symbols, 2, len(SYMBOLS))
    require_integer("seed", seed, 0)
    require_integer("steps", runs.steps, 1)
    require_integer("attempts", runs.attempts, 1)
    require(tape in TAPES, f"tape must be {TAPES[0]!r} or {TAPES[1]!r}; got tape={tape!r}")
    chance = 2 / (states + 2) if halting is None else halting
    require(0 < chance <= 1, f"halting is a probability above 0; got halting={halting!r}")
    rng = np.random.default_rng(seed)
    name = f"random-{states}-{symbols}-{seed}"
    first = _machine(name, states, tape, *_draw(states, symbols, chance, rng))
    words = (
        short_words(first, runs.length) if runs.words is None else [first.encode(word).tolist() for word in runs.words]
    )
    lowest = 0.0 if tape == "one-way" else -math.inf
    for _ in range(runs.attempts):
        tables = _draw(states, symbols, chance, rng)
        longest = _longest_run([table.tolist() for table in tables], words, runs.steps, lowest)
        if longest is not None and longest >= min(runs.least_steps, runs.steps):
            return _machine(name, states, tape, *tables)
    raise KroghError(
        f"none of {runs.attempts} random machines of {states} states and {symbols} symbols halts on all {len(words)} "
        f"words within {runs.steps} steps and takes {runs.least_steps} on one of them; allow more steps or shorter "
        f"words, or another chance of halting than {chance:.3g}"
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


class LabelledWords(NamedTuple):
    """Words int32 [count, length] and what the machine decides on them, int8 [count]: 1 accept, 0 reject."""

    words: Int[np.ndarray, "count length"]
    labels: Int[np.ndarray, " count"]


def sample_words(
    machine: Machine,
    length: int,
    count: int,
    steps: int,
    seed: int,
    balanced: bool = True,
    symbols: Word | None = None,
) -> LabelledWords:
    """`count` random words of a length, with labels; the machine must decide all it meets within `steps` steps.

    Words are made of `symbols` (the input symbols of the machine where none are given). They are uniform and drawn
    with replacement; balanced, half of them are uniform among the accepted words and half among the rejected ones
    (the odd one is of either kind at even odds), in random order.
    """
    require_integer("length", length, 0)
    require_integer("count", count, 1)
    require_integer("seed", seed, 0)
    letters = np.unique(machine.encode(machine.input_symbols if symbols is None else symbols))
    require(len(letters) > 0, f"{machine.name!r} has no symbol to make words of: give `symbols`")
    rng = np.random.default_rng(seed)
    if not balanced:
        words = rng.choice(letters, size=(count, length)).astype(np.int32)
        return LabelledWords(words, _labels(machine, words, steps))
    needed = np.array([count // 2, count // 2])
    needed[rng.integers(2)] += count % 2
    choose = _listed if len(letters) ** length <= LISTED else _drawn
    parts = choose(machine, letters, length, needed, steps, rng)
    order = rng.permutation(count)
    labels = np.repeat(np.array([REJECT, ACCEPT], np.int8), needed)
    return LabelledWords(np.concatenate(parts)[order], labels[order])


def _listed(
    machine: Machine, letters: np.ndarray, length: int, needed: np.ndarray, steps: int, rng: np.random.Generator
) -> list[np.ndarray]:
    """Choices among all words of the length, rejected ones first."""
    every = np.array(list(itertools.product(letters, repeat=length)), np.int32).reshape(-1, length)
    labels = np.concatenate([_labels(machine, part, steps) for part in _chunks(every)])
    parts = []
    for label in (REJECT, ACCEPT):
        of_kind = every[labels == label]
        if needed[label] and not len(of_kind):
            raise _none_of(machine, label, length, f"none of all {len(every)} words")
        parts.append(of_kind[rng.integers(max(len(of_kind), 1), size=needed[label])])
    return parts


def _drawn(
    machine: Machine, letters: np.ndarray, length: int, needed: np.ndarray, steps: int, rng: np.random.Generator
) -> list[np.ndarray]:
    """Words drawn until there are enough of both kinds, rejected ones first."""
    parts: list[list[np.ndarray]] = [[], []]
    have = np.zeros(2, int)
    for _ in range(DRAWN // CHUNK):
        words = rng.choice(letters, size=(CHUNK, length)).astype(np.int32)
        labels = _labels(machine, words, steps)
        for label in (REJECT, ACCEPT):
            parts[label].append(words[labels == label][: needed[label] - have[label]])
            have[label] += len(parts[label][-1])
        if np.array_equal(have, needed):
            return [np.concatenate(part) for part in parts]
    label = int(np.argmax(needed - have))
    raise _none_of(machine, label, length, f"only {have[label]} of {DRAWN} random words")


def _labels(machine: Machine, words: np.ndarray, steps: int) -> np.ndarray:
    """The labels of words; an error where the machine does not decide one."""
    decisions = decide_batch(machine, words, steps)
    late = np.flatnonzero(decisions.halted_at < 0)
    if len(late):
        require_halts(machine, [words[late[0]]], steps)
    (undecided,) = np.nonzero(decisions.labels < 0)
    if len(undecided):
        shown = machine.decode(words[undecided[0]])
        raise KroghError(
            f"{machine.name!r} halts on {shown!r} without a decision, so the word has no label. Name its accept and "
            "reject states in the fields `accept` and `reject`"
        )
    return decisions.labels


def _none_of(machine: Machine, label: int, length: int, says: str) -> KroghError:
    kind = "accepted" if label == ACCEPT else "rejected"
    return KroghError(
        f"{says} of length {length} are {kind} by {machine.name!r}, so that a balanced sample cannot be drawn: "
        "take another length, other symbols, or balanced=False"
    )


def _chunks(words: np.ndarray) -> list[np.ndarray]:
    return [words[first : first + CHUNK] for first in range(0, len(words), CHUNK)]
