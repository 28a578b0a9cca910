"""The lines of an AIGER file: header, numbers and symbols, with errors that name the place."""

from __future__ import annotations

from typing import NamedTuple, NoReturn

from krogh.errors import KroghError
from krogh.tasks.circuits.circuit import counted

FIELDS = ("M", "I", "L", "O", "A", "B", "C", "J", "F")
LARGEST_NUMBER = 2**31 - 2
MOST_UNLISTED = 1 << 24
"""Inputs of a binary file, which does not list them."""
FORMATS = {b"aag": "ASCII AIGER (.aag)", b"aig": "binary AIGER (.aig)"}


class Header(NamedTuple):
    """The numbers of the first line."""

    variables: int
    inputs: int
    outputs: int
    ands: int


class Reader:
    """A file read line by line. `line` counts from 1, and `text` is the line that was read last.

    `line_of` says on which line of an ASCII file a literal is defined.
    """

    def __init__(self, content: bytes, source: str):
        self.content, self.source = content, source
        self.position, self.line = 0, 0
        self.text = b""
        self.line_of: dict[int, int] = {}

    def fail(self, column: int, message: str) -> NoReturn:
        raise KroghError(f"{self.source}, line {self.line}, column {column}: {message}")

    def fail_at_word(self, place: int, message: str) -> NoReturn:
        """An error at a word of the line that was read last."""
        self.fail(_column(self.text, place), message)

    def fail_at_byte(self, offset: int, message: str) -> NoReturn:
        raise KroghError(f"{self.source}, byte {offset}: {message}")

    def go_back(self, line: int) -> None:
        """Make an earlier line the one that errors speak of."""
        self.line, self.text = line, self.content.split(b"\n")[line - 1]

    @property
    def ended(self) -> bool:
        return self.position >= len(self.content)

    def next_line(self, wanted: str) -> bytes:
        """The next line; `wanted` says what it should hold, for where the file has ended."""
        self.line += 1
        if self.ended:
            self.fail(1, f"the file ends where {wanted} should be")
        end = self.content.find(b"\n", self.position)
        end = len(self.content) if end < 0 else end
        self.text = self.content[self.position : end].removesuffix(b"\r")
        self.position = end + 1
        return self.text

    def numbers(self, wanted: str, count: int) -> list[int]:
        """The whole numbers of the next line, exactly `count` of them."""
        words = self.next_line(wanted).split()
        if len(words) != count:
            noun = "one number" if count == 1 else f"{count} numbers"
            self.fail_at_word(min(count, len(words)), f"expected {wanted}: {noun}; got {shown(self.text)}")
        return [self.number(word, place, wanted) for place, word in enumerate(words)]

    def number(self, word: bytes, place: int, wanted: str) -> int:
        if not word.isdigit():
            self.fail_at_word(place, f"expected a whole number in {wanted}; got {shown(word)}")
        number = int(word) if len(word) < 20 else LARGEST_NUMBER + 1
        if number > LARGEST_NUMBER:
            self.fail_at_word(place, f"{shown(word)} is too large for {wanted} (at most {LARGEST_NUMBER})")
        return number

    def check_literal(self, literal: int, header: Header, place: int) -> None:
        """Refuse a literal, a word of the line that was read last, of a variable beyond M."""
        if literal > 2 * header.variables + 1:
            most = 2 * header.variables + 1
            self.fail_at_word(place, f"the literal {literal} is beyond 2M + 1 = {most} (M is in the header)")


def read_header(reader: Reader, wanted: bytes) -> Header:
    """The first line of a file that begins with `wanted`, b"aag" or b"aig"."""
    name = wanted.decode()
    words = reader.next_line(f"the header '{name} M I L O A'").split()
    if not words or words[0] != wanted:
        hint = f"; this is {FORMATS[words[0]]}" if words and words[0] in FORMATS else ""
        reader.fail(1, f"the first word must be {name!r}; got {shown(words[0] if words else b'')}{hint}")
    if not 6 <= len(words) <= 10:
        reader.fail_at_word(
            min(len(words), 10), f"the header is '{name} M I L O A', or with B C J F after it; got {shown(reader.text)}"
        )
    numbers = [reader.number(word, place, "the header") for place, word in enumerate(words[1:], start=1)]
    field = dict(zip(FIELDS, numbers, strict=False))
    if field["L"]:
        reader.fail_at_word(
            3,
            f"the circuit is sequential: it has latches (L={field['L']}), and only combinational circuits are read "
            "(unroll it over time first, or make the latches inputs and outputs)",
        )
    for place, letter in enumerate(FIELDS[5:], start=6):
        if field.get(letter):
            reader.fail_at_word(
                place,
                f"{letter}={field[letter]}: bad states, constraints, justice and fairness (B C J F) are properties for "
                "model checking; only outputs (O) are read",
            )
    defined = field["I"] + field["A"]
    exact = wanted == b"aig" and field["M"] != defined
    if exact or field["M"] < defined:
        relation = "equal" if wanted == b"aig" else "be at least"
        reader.fail_at_word(1, f"M must {relation} I + L + A = {defined}; got M={field['M']}")
    if wanted == b"aig" and field["I"] > MOST_UNLISTED:  # a line of such a file could ask for any amount of memory
        reader.fail_at_word(2, f"a binary file may have {MOST_UNLISTED:,} inputs; got I={field['I']}")
    if not field["O"]:
        reader.fail_at_word(4, "the circuit has no outputs (O=0)")
    return Header(field["M"], field["I"], field["O"], field["A"])


def read_symbols(reader: Reader, header: Header) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Names of inputs and of outputs, each () where none are given; a name that was there before gets a number."""
    reader.line = reader.content.count(b"\n", 0, reader.position)
    given: dict[str, dict[int, str]] = {"i": {}, "o": {}}
    sizes = {"i": (header.inputs, "input"), "o": (header.outputs, "output")}
    while not reader.ended:
        line = reader.next_line("a symbol")
        if line == b"c":  # comments to the end
            break
        text = line.decode("utf-8", "replace")
        place, _, name = text[1:].partition(" ")
        if text[:1] not in given or not (place.isascii() and place.isdigit()) or not name or "\r" in name:
            reader.fail(
                1, f"expected a symbol such as 'i0 name' or 'o0 name', or 'c' before comments; got {shown(line)}"
            )
        kind, number = text[0], int(place[:12])
        size, noun = sizes[kind]
        if number >= size:
            reader.fail(2, f"the circuit has {counted(size, noun)}, numbered from 0; got {shown(line)}")
        if number in given[kind]:
            reader.fail(1, f"{kind}{number} has a name already: {given[kind][number]!r}")
        given[kind][number] = name
    return _all_names(given["i"], header.inputs, "x"), _all_names(given["o"], header.outputs, "y")


def _all_names(given: dict[int, str], count: int, letter: str) -> tuple[str, ...]:
    if not given:
        return ()
    reserved, seen = set(given.values()), set[str]()
    for place in range(count):
        name = given.get(place, f"{letter}{place}")
        candidate, copy = name, 2
        while candidate in seen or (candidate in reserved and candidate != given.get(place)):
            candidate, copy = f"{name}_{copy}", copy + 1
        given[place] = candidate
        seen.add(candidate)
    return tuple(given[place] for place in range(count))


def _column(line: bytes, word: int) -> int:
    """The column, from 1, where a line's word begins; where it has fewer words, the column after the last."""
    start = position = 0
    words = line.split()
    for part in words[: word + 1]:
        start = line.index(part, position)
        position = start + len(part)
    return (start if word < len(words) else position) + 1


def shown(text: bytes) -> str:
    """A piece of a file in an error message."""
    written = text.decode("ascii", "replace")
    return repr(written if len(written) <= 40 else written[:40] + "…")
