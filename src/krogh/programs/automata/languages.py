"""What can be decided and computed of regular languages by their automata.

minimise              the least automaton of a language (Hopcroft 1971), states numbered by breadth-first search
complement            the words that are not in a language
combine               intersection, union, difference and symmetric difference, by the reachable part of the product
shortest_word         the first of the shortest words of a language, None where it is empty
distinguishing_word   the first of the shortest words that are in exactly one of two languages
"""

from __future__ import annotations

import dataclasses

import numpy as np
from jaxtyping import Int, Int32

from krogh.errors import require, unknown
from krogh.programs.automata.automaton import Automaton, listed

COMBINATIONS = ("and", "or", "minus", "xor")


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


def complement(automaton: Automaton) -> Automaton:
    """The words over the same alphabet that an automaton does not accept."""
    others = tuple(int(state) for state in np.flatnonzero(~automaton.final))
    return dataclasses.replace(automaton, name=f"not ({automaton.name})", accepting=others)


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


def equivalent(first: Automaton, second: Automaton) -> bool:
    """Whether two automata accept the same words."""
    return distinguishing_word(first, second) is None


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
