"""Whether a language is symmetric at a length: whether only the numbers of the symbols matter.

Permutations are made of exchanges of neighbours, so a language is symmetric at length T just where, for every state q
that words of length t reach and all symbols a and b,

    δ(q, ab) and δ(q, ba) accept the same words of length exactly T - t - 2.

States that agree on all words of length exactly k are the classes of a partition P_k, and P_{k+1} is P_k of what
follows: T rounds of |Q||A|² comparisons decide it, however many vectors of counts there are.
"""

from __future__ import annotations

import itertools
import math

import numpy as np
from jaxtyping import Bool, Int

from krogh.errors import require, require_integer
from krogh.tasks.automata.automaton import Automaton

MOST_COUNTS = 100_000
"""Vectors of counts that are listed."""


def asymmetry(automaton: Automaton, length: int) -> tuple[str, str] | None:
    """Two words of a length that differ by an exchange of neighbours, the first accepted, the second not; or None."""
    require_integer("length", length, 0)
    table = automaton.transitions
    twice = table[table]  # [q, a, b]: the state after ab
    reached, classes = _reached(automaton, length), _classes(automaton, length)
    for t in range(length - 1):
        after = classes[length - t - 2][twice]
        apart = np.argwhere(reached[t][:, None, None] & (after != after.transpose(0, 2, 1)))
        for q, a, b in apart[:1].tolist():
            prefix = _way_to(automaton, reached, t, q)
            suffix = _telling_apart(automaton, classes, length - t - 2, int(twice[q, a, b]), int(twice[q, b, a]))
            words = [automaton.decode([*prefix, *middle, *suffix]) for middle in ((a, b), (b, a))]
            first, second = sorted(words, key=automaton.accepts, reverse=True)
            return first, second
    return None


def count_table(
    automaton: Automaton, length: int
) -> tuple[Int[np.ndarray, "counts symbols"], Bool[np.ndarray, " counts"]]:
    """All vectors of counts of words of a length, and whether a symmetric language has the words with these counts.

    The answer is that of the word whose symbols stand in the alphabet's order.
    """
    symbols = len(automaton.alphabet)
    require_integer("length", length, 0)
    number = math.comb(length + symbols - 1, symbols - 1)
    require(
        number <= MOST_COUNTS,
        f"words of length {length} over {symbols} symbols have {number:,} vectors of counts; at most {MOST_COUNTS:,} "
        "are listed (try a smaller length)",
    )
    counts = _counts(length, symbols)
    state = np.full(number, automaton.start)
    for symbol in range(symbols):
        after = np.empty((length + 1, automaton.size), np.int64)  # [n, q]: the state after n times the symbol
        after[0] = np.arange(automaton.size)
        for n in range(length):
            after[n + 1] = automaton.transitions[after[n], symbol]
        state = after[counts[:, symbol], state]
    return counts, automaton.final[state]


def _counts(length: int, symbols: int) -> Int[np.ndarray, "counts symbols"]:
    """All vectors of `symbols` numbers with the sum `length`: where the bars stand among stars and bars."""
    places = itertools.combinations(range(length + symbols - 1), symbols - 1)
    bars = np.array(list(places), np.int64)
    ends = np.full((len(bars), 1), length + symbols - 1)
    return np.diff(np.hstack([np.full_like(ends, -1), bars, ends]), axis=1) - 1


def _reached(automaton: Automaton, length: int) -> Bool[np.ndarray, "times states"]:
    """Whether words of length t = 0, 1, ... reach each state."""
    reached = np.zeros((length + 1, automaton.size), bool)
    reached[0, automaton.start] = True
    for t in range(length):
        reached[t + 1, automaton.transitions[reached[t]]] = True
    return reached


def _classes(automaton: Automaton, length: int) -> Int[np.ndarray, "lengths states"]:
    """The class of every state in P_0, P_1, ...: states of one class accept the same words of length exactly k."""
    classes = np.empty((max(length, 1), automaton.size), np.int64)
    classes[0] = automaton.final
    for k in range(1, len(classes)):
        _, classes[k] = np.unique(classes[k - 1][automaton.transitions], axis=0, return_inverse=True)
    return classes


def _way_to(automaton: Automaton, reached: Bool[np.ndarray, "times states"], t: int, state: int) -> list[int]:
    """A word of length t that leads to a state."""
    way: list[int] = []
    for time in range(t, 0, -1):
        before, symbol = np.argwhere(reached[time - 1][:, None] & (automaton.transitions == state))[0].tolist()
        way.append(symbol)
        state = before
    return way[::-1]


def _telling_apart(
    automaton: Automaton, classes: Int[np.ndarray, "lengths states"], k: int, one: int, other: int
) -> list[int]:
    """A word of length k that just one of two states of different classes of P_k accepts."""
    word: list[int] = []
    for left in range(k, 0, -1):
        rows = classes[left - 1][automaton.transitions[[one, other]]]
        symbol = int(np.flatnonzero(rows[0] != rows[1])[0])
        word.append(symbol)
        one, other = automaton.transitions[[one, other], symbol].tolist()
    return word
