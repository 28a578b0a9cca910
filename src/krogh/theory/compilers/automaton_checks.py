"""The statement of a compiled automaton, executed.

    by induction   every one-hot hidden state and every symbol: m|A| single steps. Reading a word of any length is a
                   chain of such steps, so that these are all words
    all words      up to a length, each prefix read once
    random words   up to length 200, every hidden state on the way

Whatever differs from what the automaton says counts as an error, by how much; the statement holds if nothing does.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from krogh.errors import require, require_integer
from krogh.tasks.automata import Automaton
from krogh.theory.compilers.automata import COLUMNS, Array, CompiledAutomaton

MOST_WORDS = 50_000
"""Words that are listed unless a length is given, fewer in wide networks."""
MOST_ENTRIES = 1 << 26
"""Entries of the hidden states of all words of the greatest length: 512 MiB in float64."""
RANDOM_WORDS = 1_000
LONGEST = 200
"""Random words are up to this long."""


@dataclass(frozen=True)
class AutomatonCheck:
    """What a check found: single steps, listed words and their greatest length, random words, and the largest error."""

    exact: bool
    steps: int
    inputs: int
    length: int
    random: int
    worst: float

    @property
    def exhaustive(self) -> bool:
        """Always: the single steps decide all words."""
        return self.steps > 0


def check_automaton(
    compiled: CompiledAutomaton, length: int | None = None, count: int | None = None, seed: int = 0
) -> AutomatonCheck:
    """Check all steps, all words up to `length` (some 10,000 words unless given) and `count` random ones."""
    symbols = len(compiled.automaton.alphabet)
    if length is None:
        length = longest_listed(symbols, min(MOST_WORDS, MOST_ENTRIES // 16 // compiled.width))
    if count is None:
        count = max(10, min(RANDOM_WORDS, MOST_ENTRIES // LONGEST // compiled.width))
    require_integer("length", length, 0)
    require_integer("count", count, 0)
    listed = longest_listed(symbols, MOST_ENTRIES // compiled.width)
    require(length <= listed, f"words up to length {listed} are listed for this network; got length={length}")
    steps, induction = _steps(compiled)
    words, error = _all_words(compiled, length)
    worst = max(induction, error, _random_words(compiled, count, seed))
    return AutomatonCheck(worst == 0.0, steps, words + count, length, count, worst)


def longest_listed(symbols: int, most: int) -> int:
    """The greatest length up to which there are at most `most` words; at most 200."""
    total, length = 1, 0
    while length < LONGEST and total + symbols ** (length + 1) <= most:
        length += 1
        total += symbols**length
    return length


def _steps(compiled: CompiledAutomaton) -> tuple[int, float]:
    """All single steps from one-hot states, and what each unit is read as."""
    automaton, m, worst = compiled.automaton, compiled.width, 0.0
    following = _following(automaton)
    readout = np.where(automaton.final[following], 1.0, -1.0)
    chunk = max(1, COLUMNS // m)
    for start in range(0, m, chunk):
        units = np.arange(start, min(start + chunk, m))
        hidden = one_hot(units, m)
        worst = max(worst, _error(compiled.readout @ hidden, readout[units]))
        for symbol in range(len(automaton.alphabet)):
            found = compiled.step(hidden, np.full(len(units), symbol))
            worst = max(worst, _error(found, one_hot(_unit(automaton, following[units], symbol), m)))
    first = one_hot(np.array([m - 1]), m)
    return m * len(automaton.alphabet), max(worst, _error(compiled.initial[:, None], first))


def _all_words(compiled: CompiledAutomaton, length: int) -> tuple[int, float]:
    """All words up to a length: those of length t + 1 are read on from those of length t."""
    automaton, m = compiled.automaton, compiled.width
    symbols = len(automaton.alphabet)
    hidden, state = compiled.initial[:, None], np.array([automaton.start])
    words, worst = 1, _readout_error(compiled, hidden, state)
    for _ in range(length):
        read = np.tile(np.arange(symbols), len(state))
        before = np.repeat(state, symbols)
        hidden = compiled.step(np.repeat(hidden, symbols, axis=1), read)
        state = automaton.transitions[before, read]
        worst = max(worst, _error(hidden, one_hot(_unit(automaton, before, read), m)))
        worst = max(worst, _readout_error(compiled, hidden, state))
        words += len(state)
    return words, worst


def _random_words(compiled: CompiledAutomaton, count: int, seed: int) -> float:
    """Random words of random lengths: every hidden state on the way, and the output."""
    automaton, m = compiled.automaton, compiled.width
    rng, worst = np.random.default_rng(seed), 0.0
    chunk = max(1, COLUMNS // m)
    for start in range(0, count, chunk):
        lengths = rng.integers(0, LONGEST + 1, min(chunk, count - start))
        words = rng.integers(0, len(automaton.alphabet), (len(lengths), LONGEST)).astype(np.int32)
        words[np.arange(LONGEST)[None, :] >= lengths[:, None]] = -1
        path = automaton.run(words)
        unit = np.full(len(words), m - 1)
        for t, hidden in enumerate(compiled.hidden(words)):
            if t:
                read = words[:, t - 1]
                unit = np.where(read >= 0, _unit(automaton, path[:, t - 1], read), unit)
            worst = max(worst, _error(hidden, one_hot(unit, m)), _readout_error(compiled, hidden, path[:, t]))
    return worst


def one_hot(units: NDArray[np.integer], m: int) -> Array:
    """The hidden states [m, batch] in which each of the given units alone is 1."""
    found = np.zeros((m, len(units)))
    found[units, np.arange(len(units))] = 1.0
    return found


def _following(automaton: Automaton) -> NDArray[np.int64]:
    """The state that every unit leads to, found one entry of the table at a time."""
    count = len(automaton.alphabet)
    pairs = [automaton.transitions[unit // count, unit % count] for unit in range(automaton.size * count)]
    return np.array([*pairs, automaton.start], np.int64)


def _unit(automaton: Automaton, state: NDArray[np.integer], symbol: NDArray[np.integer] | int) -> NDArray[np.int64]:
    return np.asarray(state, np.int64) * len(automaton.alphabet) + symbol


def _readout_error(compiled: CompiledAutomaton, hidden: Array, state: NDArray[np.integer]) -> float:
    return _error(compiled.readout @ hidden, np.where(compiled.automaton.final[state], 1.0, -1.0))


def _error(found: Array, expected: Array) -> float:
    """The largest deviation; NaN counts as infinite."""
    worst = float(np.max(np.abs(found - expected), initial=0.0))
    return np.inf if np.isnan(worst) else worst
