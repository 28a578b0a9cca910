r"""Regular expressions: a pattern as a tree, and as the least automaton of the words that it matches as a whole.

    choice    = sequence {"|" sequence}
    sequence  = {item ["*" | "+" | "?" | "{m}" | "{m,}" | "{,n}" | "{m,n}"]}
    item      = character | "\" escape | "." | "[" class "]" | "(" choice ")"

As in Python's `re.fullmatch`, where "." is any symbol but the newline, and \d, \w and \s are those of Unicode. A "?"
behind a repetition, names and "?:" of groups, and "^" and "$" at the ends of the pattern change nothing. What is not
regular, or not about words, is refused by its name.

The automaton comes of Glushkov's construction (1961) and that of subsets. Every character or class of the pattern is a
*position*. With first = the positions that can come first, follow[p] = those that can come after p, and last = those
that can end a word,

    after reading a symbol, the positions just read are S;  the ones that may come next are ∪_{p in S} follow[p],

and the word read so far is accepted where S meets last. A state of the automaton is what may come next together with
whether to accept, so that many equal states are never told apart. Sets of positions are the bits of integers. Symbols
that are in the same classes of the pattern lead to the same states: one stands for all of them while it is built.
"""

from __future__ import annotations

import re
import string
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple, NoReturn

import numpy as np

from krogh.errors import KroghError, require
from krogh.programs import budgets
from krogh.programs.automata.automaton import Automaton, check_alphabet, listed
from krogh.programs.automata.languages import minimise

LONGEST_SHOWN = 200
"""Characters of a pattern in a message."""

LONGEST_NUMBER = 24
"""Characters of a repetition: {m,n} with numbers of ten digits."""

SETS = {letter: re.compile(rf"\{letter}") for letter in "dws"}
"""What \\d, \\w and \\s match, by `re` itself: no method of str agrees with it on every character."""
ASCII = tuple(map(chr, range(128)))
CONTROLS = {"n": "\n", "t": "\t", "r": "\r", "f": "\f", "v": "\v", "a": "\a"}
BOUNDARIES = {
    "b": "a word boundary",
    "B": "a word boundary",
    "A": "an anchor",
    "Z": "an anchor",
}
EXTENSIONS = {
    "=": "look-ahead",
    "!": "look-ahead",
    "<=": "look-behind",
    "<!": "look-behind",
    ">": "an atomic group",
    "P=": "a back-reference",
    "P>": "a recursive pattern",
    "R": "a recursive pattern",
    "&": "a recursive pattern",
    "(": "a conditional group",
    "#": "a comment",
    "|": "a branch reset",
}
REPETITION = re.compile(r"\{(?:(\d+)|(\d*),(\d*))\}", re.ASCII)


@dataclass(frozen=True)
class Symbols:
    """One symbol: one of `listed`, or with `negated` any other symbol of the alphabet; at `column` of the pattern."""

    listed: frozenset[str]
    negated: bool
    column: int
    single: bool = False  # a character that was written as itself, and must be in the alphabet


@dataclass(frozen=True)
class Sequence:
    """Parts one after the other; without parts, the empty word."""

    parts: tuple[Node, ...]


@dataclass(frozen=True)
class Choice:
    """One of several parts."""

    parts: tuple[Node, ...]


@dataclass(frozen=True)
class Repeat:
    """A part `low` to `high` times; without `high`, any number of times from `low` on."""

    part: Node
    low: int
    high: int | None


Node = Symbols | Sequence | Choice | Repeat


def parse_regex(pattern: str, alphabet: tuple[str, ...] | None = None) -> tuple[Node, tuple[str, ...]]:
    """The tree of a pattern, whose ranges and sets list what the alphabet has of them, and the alphabet.

    Unless given that is what the pattern mentions, and of \\d, \\w and \\s what is in ASCII. Errors name the column.
    """
    budgets.PATTERN.check(len(pattern), "the regular expression")
    parser = _Parser(pattern, alphabet)
    tree = parser.whole()
    if alphabet is not None:
        return tree, alphabet
    if not parser.mentioned:
        raise KroghError(
            f"regular expression {quoted(pattern)} mentions no symbol; give an alphabet, as in alphabet='01'"
        )
    return parse_regex(pattern, tuple(sorted(parser.mentioned)))  # \w has more in it where other symbols are mentioned


def refuse(pattern: str, column: int, problem: str) -> KroghError:
    """The error for a column (from 1) of a pattern."""
    return KroghError(f"regular expression {quoted(pattern)}, column {column}: {problem}")


def quoted(pattern: str) -> str:
    """A pattern for a message: as it was given, so that columns can be counted, unless it cannot be shown."""
    shown = pattern if len(pattern) <= LONGEST_SHOWN else pattern[: LONGEST_SHOWN - 1] + "…"
    return f"'{shown}'" if shown.isprintable() else repr(shown)


class _Parser:
    """Recursive descent; `at` is the place of the next character, counted from 0."""

    def __init__(self, pattern: str, alphabet: tuple[str, ...] | None):
        self.pattern, self.alphabet, self.at, self.depth = pattern, alphabet, 0, 0
        self.ranges: dict[tuple[int, int], frozenset[str]] = {}
        self.sets: dict[str, frozenset[str]] = {}
        self.mentioned: set[str] = set()

    def whole(self) -> Node:
        if self.pattern.startswith("^"):
            self.at = 1
        tree = self.choice()
        if self.at < len(self.pattern):
            self.fail(self.at, "this ')' closes no group; write \\) for the bracket itself")
        return tree

    def fail(self, at: int, problem: str) -> NoReturn:
        raise refuse(self.pattern, at + 1, problem)

    def next(self, size: int = 1) -> str:
        return self.pattern[self.at : self.at + size]

    def choice(self) -> Node:
        parts = [self.sequence()]
        while self.next() == "|":
            self.at += 1
            parts.append(self.sequence())
        return parts[0] if len(parts) == 1 else Choice(tuple(parts))

    def sequence(self) -> Node:
        parts: list[Node] = []
        while self.at < len(self.pattern) and self.next() not in "|)":
            if self.next() == "$" and self.at == len(self.pattern) - 1:
                self.at += 1
                break
            parts.append(self.repeated(self.item()))
        return parts[0] if len(parts) == 1 else Sequence(tuple(parts))

    def repeated(self, part: Node) -> Node:
        begun = self.at
        bounds = self.repetition()
        if bounds is None:
            return part
        if self.next() == "+":
            self.fail(self.at, "a possessive repetition is not supported: it would change what the rest can match")
        if self.next() == "?":  # a lazy repetition matches the same words
            self.at += 1
        if self.next() in ("*", "+", "?", "{") and self.next():
            self.fail(self.at, f"two repetitions after each other; put a group around what column {begun + 1} repeats")
        return Repeat(part, *bounds)

    def repetition(self) -> tuple[int, int | None] | None:
        """The bounds of a repetition that begins here; None where none does."""
        simple = {"*": (0, None), "+": (1, None), "?": (0, 1)}.get(self.next())
        if simple is not None:
            self.at += 1
            return simple
        if self.next() != "{":
            return None
        written = REPETITION.match(self.pattern, self.at)
        if written is None:
            self.fail(self.at, "a repetition is written {m}, {m,}, {,n} or {m,n}; write \\{ for the brace itself")
        if len(written[0]) > LONGEST_NUMBER:
            self.fail(self.at, f"{written[0][:12]}… repeats more often than any pattern is compiled for")
        exact, least, most = written.groups()
        if exact is None and not least and not most:
            self.fail(self.at, "{,} has no bound; write * for any number of times")
        low = int(exact or least or 0)
        high = low if exact else int(most) if most else None
        if high is not None and high < low:
            self.fail(self.at, f"{written[0]} asks for at least {low} and at most {high} times")
        self.at = written.end()
        return low, high

    def item(self) -> Node:
        begun, character = self.at, self.next()
        if character == "(":
            return self.group()
        if character == "[":
            return self.character_class()
        if character == "\\":
            listed, negated = self.one_character(in_class=False)
            return Symbols(listed, negated, begun + 1, single=len(listed) == 1 and not negated)
        self.at += 1
        if character == ".":
            return Symbols(frozenset("\n"), True, begun + 1)
        if character in "*+?{":
            self.fail(begun, f"{character!r} repeats nothing; write \\{character} for the character itself")
        if character in "^$":
            where = "beginning" if character == "^" else "end"
            self.fail(
                begun,
                f"the anchor {character!r} is not supported but at the {where} of the pattern, as the whole word is "
                f"matched; write \\{character} for the character itself",
            )
        self.mentioned.add(character)
        return Symbols(frozenset(character), False, begun + 1, single=True)

    def group(self) -> Node:
        begun = self.at
        self.at += 1
        if self.next() == "?":
            self.extension(begun)
        self.depth += 1
        if self.depth > budgets.GROUPS.most:
            self.fail(begun, f"groups stand in one another at most {budgets.GROUPS.most} deep")
        tree = self.choice()
        self.depth -= 1
        if self.next() != ")":
            self.fail(begun, "this group is not closed; write \\( for the bracket itself")
        self.at += 1
        return tree

    def extension(self, begun: int) -> None:
        """(?:…) and (?P<name>…) are groups; everything else that begins with (? is refused by name."""
        harmless = re.compile(r"\?:|\?P?<[^\W\d]\w*>").match(self.pattern, self.at)
        if harmless is not None:
            self.at = harmless.end()
            return
        rest = self.pattern[self.at + 1 :]
        for opening in sorted(EXTENSIONS, key=len, reverse=True):
            if rest.startswith(opening):
                self.fail(begun, f"{EXTENSIONS[opening]}, (?{opening}…), is not supported")
        kind = "a flag" if re.match(r"-?[aiLmsux]", rest) else "the extension"
        self.fail(begun, f"{kind}, (?{rest[:1]}…), is not supported")

    def escape(self, in_class: bool) -> tuple[frozenset[str], bool]:
        """The characters that an escape stands for, and whether it stands for all others."""
        begun, character = self.at, self.pattern[self.at + 1 : self.at + 2]
        self.at += 2
        if not character:
            self.fail(begun, "nothing follows the backslash; write \\\\ for the backslash itself")
        if character.lower() in SETS:
            return self.set_of(character.lower()), character.isupper()
        if character in CONTROLS:
            return frozenset(CONTROLS[character]), False
        digits = {"x": 2, "u": 4, "U": 8}.get(character)
        if digits is not None:
            return frozenset(self.numbered(begun, digits)), False
        if character == "b" and in_class:
            return frozenset("\b"), False
        if character in BOUNDARIES:
            self.fail(begun, f"{BOUNDARIES[character]}, \\{character}, is not supported: the whole word is matched")
        if character in "123456789":
            self.fail(begun, f"a back-reference, \\{character}, is not supported: it is not regular")
        if character.isalnum():
            self.fail(begun, f"the escape \\{character} is not supported")
        return frozenset(character), False

    def set_of(self, letter: str) -> frozenset[str]:
        """The symbols of \\d, \\w or \\s; one set for all places that have it."""
        if letter not in self.sets:
            self.sets[letter] = frozenset(filter(SETS[letter].fullmatch, self.alphabet or ASCII))
        return self.sets[letter]

    def numbered(self, begun: int, digits: int) -> str:
        """The character of \\xhh, \\uhhhh or \\Uhhhhhhhh."""
        code = self.next(digits)
        if len(code) < digits or not set(code) <= set(string.hexdigits) or int(code, 16) > 0x10FFFF:
            self.fail(begun, f"\\{self.pattern[begun + 1]} is followed by {digits} hexadecimal digits of a character")
        self.at += digits
        return chr(int(code, 16))

    def character_class(self) -> Node:
        begun = self.at
        self.at += 1
        inverted = self.next() == "^"
        self.at += inverted
        listed, negated = frozenset[str](), False
        first = True
        while first or self.next() != "]":
            if self.at >= len(self.pattern):
                self.fail(begun, "this class is not closed; write \\[ for the bracket itself")
            more, others = self.member(begun)
            # The union of sets and of complements of sets is one of the two.
            if not negated and not others:
                listed |= more
            elif negated and others:
                listed &= more
            else:
                listed, negated = (listed - more if negated else more - listed), True
            first = False
        self.at += 1
        return Symbols(listed, negated != inverted, begun + 1)

    def member(self, begun: int) -> tuple[frozenset[str], bool]:
        """One character, range or escape of a class."""
        place = self.at
        if re.match(r"\[[:.=]\w+[:.=]\]", self.pattern[place:]):
            self.fail(place, "a POSIX class such as [:alpha:] is not supported; list the characters")
        low, others = self.one_character()
        if self.next() != "-" or self.next(2) in ("-", "-]"):
            return low, others
        self.at += 1
        high, more = self.one_character()
        if others or more or len(low) != 1 or len(high) != 1:
            self.fail(place, "a range lies between two characters, as in a-z; write \\- for the dash itself")
        least, most = ord(min(low)), ord(min(high))
        if most < least:
            self.fail(place, f"the range {min(low)}-{min(high)} runs backwards")
        return self.between(least, most), False

    def between(self, least: int, most: int) -> frozenset[str]:
        """The characters of a range; one set for all places that have it."""
        if (least, most) not in self.ranges:
            if self.alphabet is None:
                who = f"regular expression {quoted(self.pattern)}"
                mentioned = _covered([*self.ranges, (least, most)])
                budgets.SYMBOLS.check(mentioned, who, "list fewer, or give the alphabet that words are made of")
            symbols = map(chr, range(least, most + 1)) if self.alphabet is None else self.alphabet
            self.ranges[least, most] = frozenset(symbol for symbol in symbols if least <= ord(symbol) <= most)
            self.mentioned |= self.ranges[least, most]
        return self.ranges[least, most]

    def one_character(self, in_class: bool = True) -> tuple[frozenset[str], bool]:
        """A character or an escape."""
        if self.next() == "\\":
            found, others = self.escape(in_class)
        else:
            found, others = frozenset(self.next()), False
            self.at += 1
        self.mentioned |= found
        return found, others


def _covered(ranges: Iterable[tuple[int, int]]) -> int:
    """How many numbers lie in one of some ranges, both ends among them."""
    count, end = 0, -1
    for least, most in sorted(ranges):
        count += max(0, most - max(least - 1, end))
        end = max(end, most)
    return count


def from_regex(pattern: str, alphabet: Iterable[str] | None = None, name: str | None = None) -> Automaton:
    """The least automaton of the words that a pattern matches as a whole.

    Without an `alphabet`, it is the characters that the pattern mentions, and for \\d, \\w and \\s those of ASCII; "."
    and "[^…]" range over the alphabet.
    """
    tree, symbols = parse_regex(pattern, None if alphabet is None else _given(alphabet))
    for leaf in _leaves(tree):  # also those that are repeated no time
        _matched(pattern, leaf, symbols)
    who = f"regular expression {quoted(pattern)}"
    budgets.POSITIONS.check(_count(tree), who, "its repetitions are written out")
    parts = _Positions(pattern, symbols)
    whole = parts.build(tree)
    matching = _matching(symbols, parts)
    kinds = list(dict.fromkeys(matching))  # symbols of a kind lead to the same states
    table, accepting = _subsets(who, kinds, parts, whole)
    first = tuple(symbols[matching.index(kind)] for kind in kinds)
    least = minimise(Automaton(pattern, first, np.array(table, np.int32), 0, tuple(accepting)))
    budgets.PAIRS.check(least.size * len(symbols), who, "take a smaller alphabet")
    place = {kind: number for number, kind in enumerate(kinds)}
    transitions = least.transitions[:, [place[kind] for kind in matching]]
    return Automaton(pattern if name is None else name, symbols, transitions, least.start, least.accepting)


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


def _matching(alphabet: tuple[str, ...], parts: _Positions) -> list[int]:
    """The positions that match each symbol, as bits."""
    found = dict.fromkeys(alphabet, 0)
    for position, matched in enumerate(parts.symbols_of):
        for symbol in matched:
            found[symbol] |= 1 << position
    return list(found.values())


def _subsets(who: str, kinds: list[int], parts: _Positions, whole: _Part) -> tuple[list[list[int]], list[int]]:
    """The rows of the automaton, state 0 being the start, and its accepting states."""
    states = [(whole.first, whole.nullable)]
    number = {states[0]: 0}
    rows: list[list[int]] = []
    unions = 0
    for expected, _ in states:  # the list grows while it is read
        row = []
        for matches in kinds:
            read = expected & matches
            state = (_union(parts.follow[position] for position in _members(read)), read & whole.last != 0)
            if state not in number:
                number[state] = len(states)
                states.append(state)
            row.append(number[state])
            unions += 1 + read.bit_count()
        rows.append(row)
        for amount, budget in ((len(states), budgets.SUBSETS), (unions, budgets.UNIONS)):
            if amount > budget.most:
                raise budget.error(f"more than {budget.most:,}", who, ", while its automaton is built")
    return rows, [place for place, (_, accepts) in enumerate(states) if accepts]


def _given(alphabet: Iterable[str]) -> tuple[str, ...]:
    """The alphabet that was given."""
    symbols = check_alphabet(alphabet)
    long = next((symbol for symbol in symbols if len(symbol) > 1), None)
    require(long is None, f"the symbols of a regular expression are single characters; got {long!r}")
    budgets.SYMBOLS.check(len(symbols), "the regular expression")
    return symbols


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
