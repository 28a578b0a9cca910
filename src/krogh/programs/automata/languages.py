"""What can be decided and computed of regular languages by their automata.

minimise              the least automaton of a language (Hopcroft 1971), states numbered by breadth-first search
combine               intersection, union, difference and symmetric difference, by the reachable part of the product
shortest_word         the first of the shortest words of a language, None where it is empty
distinguishing_word   the first of the shortest words that are in exactly one of two languages
asymmetry             two words with the same symbols, one in the language and one not; None where there are none
count_table           of a symmetric language, the numbers of symbols that its words of a length have

A language is symmetric at length T where only the numbers of the symbols matter. Permutations are made of exchanges of
neighbours, so it is just where, for every state q that words of length t reach and all symbols a and b,

    δ(q, ab) and δ(q, ba) accept the same words of length exactly T - t - 2.

States that agree on all words of length exactly k are the classes of a partition P_k, and P_{k+1} is P_k of what
follows: T rounds of |Q||A|² comparisons decide it, however many vectors of counts there are.
"""

from __future__ import annotations

import itertools
import math

import numpy as np
from jaxtyping import Bool, Int, Int32

from krogh.errors import require, require_integer, unknown
from krogh.programs.automata.automaton import Automaton, listed

COMBINATIONS = ("and", "or", "minus", "xor")
MOST_COUNTS = 100_000
"""Vectors of counts that are listed."""


def minimise(automaton: Automaton) -> Automaton:
    """The automaton of the same language with the fewest states.

    States are numbered in the order in which breadth-first search finds them, symbols in the alphabet's order, so
    that two automata of one language have the same result.
    """
    reached = _breadth_first(automaton.transitions, automaton.start)
    number = np.full(automaton.size, -1)
    number[reached] = np.arange(len(reached))
    table, final = number[automaton.transitions[reached]], automaton.final[reached]
    class_of = _indistinguishable(table, final)
    _, members = np.unique(class_of, return_index=True)  # one state of each class
    quotient, ends = class_of[table[members]], final[members]
    order = _breadth_first(quotient, int(class_of[0]))
    place = np.empty(len(order), np.int64)
    place[order] = np.arange(len(order))
    accepting = tuple(int(state) for state in np.flatnonzero(ends[order]))
    return Automaton(automaton.name, automaton.alphabet, place[quotient[order]], 0, accepting)


def combine(first: Automaton, second: Automaton, how: str) -> Automaton:
    """The words in both languages ("and"), in one at least ("or"), in the first only ("minus") or in just one ("xor").

    States are the pairs that words reach; the result is not minimised.
    """
    if how not in COMBINATIONS:
        raise unknown("combination", how, COMBINATIONS)
    table = _aligned(first, second)
    pairs, transitions = _pairs(first, second, table)
    in_first, in_second = first.final[pairs[:, 0]], second.final[pairs[:, 1]]
    chosen = {
        "and": in_first & in_second,
        "or": in_first | in_second,
        "minus": in_first & ~in_second,
        "xor": in_first ^ in_second,
    }[how]
    accepting = tuple(int(state) for state in np.flatnonzero(chosen))
    return Automaton(f"({first.name}) {how} ({second.name})", first.alphabet, transitions, 0, accepting)


def shortest_word(automaton: Automaton) -> str | None:
    """The lexicographically first among the shortest accepted words, by the alphabet's order; None if there is none."""
    found = automaton.start
    came_from: dict[int, tuple[int, int]] = {}
    for found in map(int, _breadth_first(automaton.transitions, automaton.start, came_from)):
        if automaton.final[found]:
            break
    else:
        return None
    symbols = []
    while found != automaton.start:
        found, symbol = came_from[found]
        symbols.append(symbol)
    return automaton.decode(reversed(symbols))


def distinguishing_word(first: Automaton, second: Automaton) -> str | None:
    """The lexicographically first among the shortest words in just one of two languages; None if they are equal."""
    return shortest_word(combine(minimise(first), minimise(second), "xor"))


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


def _breadth_first(
    transitions: Int[np.ndarray, "states symbols"], start: int, came_from: dict[int, tuple[int, int]] | None = None
) -> Int[np.ndarray, " reached"]:
    """The states that can be reached, in breadth-first order; `came_from` gets each one's predecessor and symbol."""
    rows, found, seen = transitions.tolist(), [start], {start}
    for state in found:  # the list grows while it is read
        for symbol, following in enumerate(rows[state]):
            if following not in seen:
                seen.add(following)
                found.append(following)
                if came_from is not None:
                    came_from[following] = (state, symbol)
    return np.array(found)


def _indistinguishable(table: Int[np.ndarray, "states symbols"], final: np.ndarray) -> Int[np.ndarray, " states"]:
    """The class of every state: two states share one where the same words lead them to acceptance (Hopcroft)."""
    states, symbols = table.shape
    inverse: list[list[list[int]]] = [[[] for _ in range(states)] for _ in range(symbols)]
    for state, row in enumerate(table.tolist()):
        for symbol, following in enumerate(row):
            inverse[symbol][following].append(state)
    blocks = [set(np.flatnonzero(final == kind).tolist()) for kind in (True, False)]
    blocks = [block for block in blocks if block]
    block_of = [next(number for number, block in enumerate(blocks) if state in block) for state in range(states)]
    smaller = min(range(len(blocks)), key=lambda number: len(blocks[number]))
    waiting = {(smaller, symbol) for symbol in range(symbols)}
    while waiting:
        splitter, symbol = waiting.pop()
        touched: dict[int, list[int]] = {}
        for state in blocks[splitter]:
            for before in inverse[symbol][state]:
                touched.setdefault(block_of[before], []).append(before)
        for number, hit in touched.items():
            if len(hit) == len(blocks[number]):
                continue
            blocks[number].difference_update(hit)
            split = len(blocks)
            blocks.append(set(hit))
            for state in hit:
                block_of[state] = split
            for each in range(symbols):
                # Hopcroft's point: of two halves of a block that is no longer waiting, the smaller one is enough.
                half = min(number, split, key=lambda part: len(blocks[part]))
                waiting.add((split if (number, each) in waiting else half, each))
    return np.array(block_of)


def _aligned(first: Automaton, second: Automaton) -> Int[np.ndarray, "states symbols"]:
    """The second automaton's transitions with its symbols in the order of the first."""
    same = set(first.alphabet) == set(second.alphabet)
    require(
        same,
        f"two languages are compared over one alphabet; {first.name!r} has {listed(first.alphabet)} and "
        f"{second.name!r} has {listed(second.alphabet)}",
    )
    return second.transitions[:, [second.alphabet.index(symbol) for symbol in first.alphabet]]


def _pairs(
    first: Automaton, second: Automaton, table: Int[np.ndarray, "states symbols"]
) -> tuple[Int[np.ndarray, "pairs 2"], Int32[np.ndarray, "pairs symbols"]]:
    """The pairs of states that words reach, the pair of starts first, and where each leads."""
    mine, theirs = first.transitions.tolist(), table.tolist()
    pairs = [(first.start, second.start)]
    number = {pairs[0]: 0}
    rows = []
    for one, two in pairs:  # the list grows while it is read
        row = []
        for pair in zip(mine[one], theirs[two], strict=True):
            if pair not in number:
                number[pair] = len(pairs)
                pairs.append(pair)
            row.append(number[pair])
        rows.append(row)
    return np.array(pairs), np.array(rows, np.int32)


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
