"""Regular expressions compiled to automata (Glushkov 1961, and the subset construction).

Every character or class of the pattern is a *position*. With first = the positions that can come first,
follow[p] = those that can come after p, and last = those that can end a word,

    after reading a symbol, the positions just read are S;  the ones that may come next are ∪_{p in S} follow[p],

and the word read so far is accepted where S meets last. A state of the automaton is what may come next together with
whether to accept, so that many equal states are never told apart; the least automaton is what is returned.
Sets of positions are the bits of integers.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np

from krogh.errors import KroghError, require
from krogh.tasks.automata.automaton import Automaton, check_alphabet, listed
from krogh.tasks.automata.languages import minimise
from krogh.tasks.automata.regex_syntax import Choice, Node, Repeat, Sequence, Symbols, parse_regex, quoted, refuse

MOST_POSITIONS = 2_048
"""Characters and classes of a pattern, repetitions written out."""

MOST_STATES = 20_000
"""States before minimisation: a pattern of n positions may need 2^n."""


def from_regex(pattern: str, alphabet: Iterable[str] | None = None, name: str | None = None) -> Automaton:
    """The least automaton of the words that a pattern matches as a whole.

    Without an `alphabet`, it is the characters that the pattern mentions; "." and "[^…]" range over the alphabet.
    """
    tree = parse_regex(pattern)
    symbols = _symbols(pattern, tree, alphabet)
    for leaf in _leaves(tree):  # also those that are repeated no time
        _matched(pattern, leaf, symbols)
    positions = _count(tree)
    require(
        positions <= MOST_POSITIONS,
        f"regular expression {quoted(pattern)} has {positions:,} characters and classes with its repetitions written "
        f"out; at most {MOST_POSITIONS:,} are compiled",
    )
    parts = _Positions(pattern, symbols)
    whole = parts.build(tree)
    table, accepting = _subsets(pattern, symbols, parts, whole)
    named = pattern if name is None else name
    return minimise(Automaton(named, symbols, np.array(table, np.int32), 0, tuple(accepting)))


class _Part(NamedTuple):
    """What the positions of a part of the pattern do: whether it matches the empty word, who comes first and last."""

    nullable: bool
    first: int
    last: int


EMPTY_WORD = _Part(True, 0, 0)


class _Positions:
    """The positions of a pattern: `symbols_of[p]` are the symbols that position p matches."""

    def __init__(self, pattern: str, alphabet: tuple[str, ...]):
        self.pattern, self.alphabet = pattern, alphabet
        self.symbols_of: list[frozenset[str]] = []
        self.follow: list[int] = []

    def build(self, node: Node) -> _Part:
        if isinstance(node, Symbols):
            return self.position(node)
        if isinstance(node, Choice):
            parts = [self.build(part) for part in node.parts]
            first, last = _union(part.first for part in parts), _union(part.last for part in parts)
            return _Part(any(part.nullable for part in parts), first, last)
        if isinstance(node, Sequence):
            whole = EMPTY_WORD
            for part in node.parts:
                whole = self.joined(whole, self.build(part))
            return whole
        return self.repeated(node)

    def position(self, node: Symbols) -> _Part:
        matched = _matched(self.pattern, node, self.alphabet)
        bit = 1 << len(self.symbols_of)
        self.symbols_of.append(matched)
        self.follow.append(0)
        return _Part(False, bit, bit)

    def joined(self, left: _Part, right: _Part) -> _Part:
        for position in _members(left.last):
            self.follow[position] |= right.first
        first = left.first | (right.first if left.nullable else 0)
        last = right.last | (left.last if right.nullable else 0)
        return _Part(left.nullable and right.nullable, first, last)

    def repeated(self, node: Repeat) -> _Part:
        if _count(node) == 0:  # nothing, however often
            return EMPTY_WORD
        whole = EMPTY_WORD
        copies = max(node.low, 1) if node.high is None else node.high
        for copy in range(copies):
            part = self.build(node.part)
            if node.high is None and copy == copies - 1:
                for position in _members(part.last):
                    self.follow[position] |= part.first
            whole = self.joined(whole, part if copy < node.low else part._replace(nullable=True))
        return whole


def _subsets(
    pattern: str, alphabet: tuple[str, ...], parts: _Positions, whole: _Part
) -> tuple[list[list[int]], list[int]]:
    """The rows of the automaton, state 0 being the start, and its accepting states."""
    matching = [
        _union(1 << place for place, matched in enumerate(parts.symbols_of) if symbol in matched) for symbol in alphabet
    ]
    states = [(whole.first, whole.nullable)]
    number = {states[0]: 0}
    rows: list[list[int]] = []
    for expected, _ in states:  # the list grows while it is read
        row = []
        for matches in matching:
            read = expected & matches
            state = (_union(parts.follow[position] for position in _members(read)), read & whole.last != 0)
            if state not in number:
                number[state] = len(states)
                states.append(state)
            row.append(number[state])
        rows.append(row)
        require(
            len(states) <= MOST_STATES,
            f"regular expression {quoted(pattern)} needs more than {MOST_STATES:,} states before minimisation; that is "
            "more than automata are built for",
        )
    return rows, [place for place, (_, accepts) in enumerate(states) if accepts]


def _symbols(pattern: str, tree: Node, alphabet: Iterable[str] | None) -> tuple[str, ...]:
    """The alphabet, given or read off the pattern."""
    if alphabet is not None:
        symbols = check_alphabet(alphabet)
        long = next((symbol for symbol in symbols if len(symbol) > 1), None)
        require(long is None, f"the symbols of a regular expression are single characters; got {long!r}")
        return symbols
    mentioned = frozenset[str]().union(*(leaf.listed for leaf in _leaves(tree)))
    if not mentioned:
        raise KroghError(
            f"regular expression {quoted(pattern)} mentions no symbol; give an alphabet, as in alphabet='01'"
        )
    return tuple(sorted(mentioned))


def _matched(pattern: str, node: Symbols, alphabet: tuple[str, ...]) -> frozenset[str]:
    """The symbols of the alphabet that a position matches: one at least."""
    matched = frozenset(alphabet) - node.listed if node.negated else frozenset(alphabet) & node.listed
    if matched:
        return matched
    if node.single:
        raise refuse(pattern, node.column, f"{min(node.listed)!r} is no symbol of the alphabet {listed(alphabet)}")
    problem = f"this matches no symbol of the alphabet {listed(alphabet)}; give an alphabet that has one"
    raise refuse(pattern, node.column, problem)


def _leaves(node: Node) -> Iterator[Symbols]:
    if isinstance(node, Symbols):
        yield node
    else:
        for part in (node.part,) if isinstance(node, Repeat) else node.parts:
            yield from _leaves(part)


def _count(node: Node) -> int:
    """How many positions a part has, repetitions written out."""
    if isinstance(node, Symbols):
        return 1
    if isinstance(node, Repeat):
        return _count(node.part) * (max(node.low, 1) if node.high is None else node.high)
    return sum(map(_count, node.parts))


def _union(sets: Iterable[int]) -> int:
    whole = 0
    for each in sets:
        whole |= each
    return whole


def _members(bits: int) -> Iterator[int]:
    """The numbers of the bits that are set."""
    while bits:
        lowest = bits & -bits
        yield lowest.bit_length() - 1
        bits ^= lowest
