r"""The syntax of regular expressions: a pattern as a tree.

    choice    = sequence {"|" sequence}
    sequence  = {item ["*" | "+" | "?" | "{m}" | "{m,}" | "{,n}" | "{m,n}"]}
    item      = character | "\" escape | "." | "[" class "]" | "(" choice ")"

As in Python's `re`, where the whole word is matched: a "?" behind a repetition, names and "?:" of groups, and "^" and
"$" at the ends of the pattern change nothing. What is not regular, or not about words, is refused by its name.
"""

from __future__ import annotations

import re
import string
from dataclasses import dataclass
from typing import NoReturn

from krogh.errors import KroghError

DEEPEST = 50
"""How many groups may stand in one another."""

LONGEST_NUMBER = 24
"""Characters of a repetition: {m,n} with numbers of ten digits."""

SETS = {
    "d": frozenset(string.digits),
    "w": frozenset(string.ascii_letters + string.digits + "_"),
    "s": frozenset(" \t\n\r\f\v"),
}
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


def parse_regex(pattern: str) -> Node:
    """The tree of a pattern; errors name the column."""
    return _Parser(pattern).whole()


def refuse(pattern: str, column: int, problem: str) -> KroghError:
    """The error for a column (from 1) of a pattern."""
    return KroghError(f"regular expression {quoted(pattern)}, column {column}: {problem}")


def quoted(pattern: str) -> str:
    """A pattern for a message: as it was given, so that columns can be counted, unless it cannot be shown."""
    return f"'{pattern}'" if pattern.isprintable() else repr(pattern)


class _Parser:
    """Recursive descent; `at` is the place of the next character, counted from 0."""

    def __init__(self, pattern: str):
        self.pattern, self.at, self.depth = pattern, 0, 0

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
            listed, negated = self.escape(in_class=False)
            return Symbols(listed, negated, begun + 1, single=len(listed) == 1 and not negated)
        self.at += 1
        if character == ".":
            return Symbols(frozenset(), True, begun + 1)
        if character in "*+?{":
            self.fail(begun, f"{character!r} repeats nothing; write \\{character} for the character itself")
        if character in "^$":
            where = "beginning" if character == "^" else "end"
            self.fail(
                begun,
                f"the anchor {character!r} is not supported but at the {where} of the pattern, as the whole word is "
                f"matched; write \\{character} for the character itself",
            )
        return Symbols(frozenset(character), False, begun + 1, single=True)

    def group(self) -> Node:
        begun = self.at
        self.at += 1
        if self.next() == "?":
            self.extension(begun)
        self.depth += 1
        if self.depth > DEEPEST:
            self.fail(begun, f"groups stand in one another at most {DEEPEST} deep")
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
            return SETS[character.lower()], character.isupper()
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
        return frozenset(map(chr, range(least, most + 1))), False

    def one_character(self) -> tuple[frozenset[str], bool]:
        if self.next() == "\\":
            return self.escape(in_class=True)
        self.at += 1
        return frozenset(self.pattern[self.at - 1]), False
