"""Circuits in the AIGER format, ASCII (.aag) and binary (.aig): and-inverter graphs (Biere 2007; version 1.9, 2011).

    aag M I L O A       largest variable, inputs, latches, outputs, AND gates; "aig" begins a binary file
    2                   I lines (ASCII only): the literal 2v of an input's variable v
    8 6 1               L lines: a latch's literal (ASCII only), what it holds next, and its first value: 0 unless
                        given, 1, or its own literal where it has none
    7                   O lines: literals, 2v for a variable, 2v+1 for its negation, 0 and 1 for false and true
    6 2 5               A lines (ASCII only): the gate 6 = 2 AND 5; in a binary file two differences of literals a gate
    i0 name             names of inputs (i), latches (l) and outputs (o) by their places
    c                   comments follow

Variables are numbered 1..I for inputs, then for latches and for AND gates, each after what it reads; an ASCII file may
number them otherwise. A negated edge becomes a NOT gate, which all readers of the negation share; and in the other
direction NOT and ID gates become edges, and an OR is the negated AND of negations. A file with latches is a
`Sequential`, which is unrolled in time; one with the properties of version 1.9 (header fields B, C, J, F) is refused.
Errors name line and column, or the byte of a binary file.
"""

from __future__ import annotations

from codecs import BOM_UTF8
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple, NoReturn

import numpy as np

from krogh.errors import KroghError, require
from krogh.programs.budgets import CIRCUIT
from krogh.programs.circuits.circuit import (
    CONSTANTS,
    FALSE,
    TRUE,
    Circuit,
    Gate,
    chain_of,
    counted,
    find_cycle,
    name_of_source,
    topological_order,
)
from krogh.programs.circuits.sequential import Sequential, settled
from krogh.programs.reading import CONTROL

FIELDS = ("M", "I", "L", "O", "A", "B", "C", "J", "F")
LARGEST_NUMBER = 2**31 - 2
LONGEST_NUMBER = 8
"""Bytes of a number in a binary file: 56 bits, more than any literal needs."""
FORMATS = {b"aag": "ASCII AIGER (.aag)", b"aig": "binary AIGER (.aig)"}


def parse_aag(text: str | bytes, source: str = "<aag>", dangling: str = "refuse", steps: int | None = None) -> Circuit:
    """The circuit of an ASCII AIGER text; `source` is how errors call it, and the circuit is named after it.

    Gates that no output depends on are refused, or dropped or kept as `dangling` says. A file with latches is unrolled
    for so many `steps`.
    """
    reader = _Reader(text.encode() if isinstance(text, str) else text, source)
    header = _header(reader, b"aag")
    return settled(_finished(reader, header, _ascii_graph(reader, header), dangling), steps, dangling, source)


def parse_aig(content: bytes, source: str = "<aig>", dangling: str = "refuse", steps: int | None = None) -> Circuit:
    """The circuit of a binary AIGER file's bytes; all else as for `parse_aag`."""
    reader = _Reader(content, source)
    header = _header(reader, b"aig")
    nexts = _latch_literals(reader, header)
    outputs = [*_output_literals(reader, header), *nexts]
    ands = _decoded(reader, header)
    graph = AndGraph(header.sources, ands, np.array(outputs, np.int64))
    return settled(_finished(reader, header, graph, dangling), steps, dangling, source)


def read_aiger(path: str | Path, dangling: str = "refuse", steps: int | None = None) -> Circuit:
    """The circuit of an AIGER file, ASCII or binary as its first word says."""
    file = Path(path)
    require(file.is_file(), f"no file {str(path)!r} with a circuit")
    try:
        CIRCUIT["bytes"].check(file.stat().st_size, str(path))
        content = file.read_bytes()
    except OSError as error:
        raise KroghError(f"{str(path)!r} cannot be read: {error.strerror}") from None
    binary = content.removeprefix(BOM_UTF8).startswith(b"aig")
    return (parse_aig if binary else parse_aag)(content, str(path), dangling, steps)


def write_aag(circuit: Circuit) -> str:
    """The circuit as ASCII AIGER: inputs 2, 4, …, then the gates in an order where what is read comes first."""
    graph = _and_graph(circuit)
    m, ands = graph.inputs, graph.ands.tolist()
    lines = [f"aag {m + len(ands)} {m} 0 {len(graph.outputs)} {len(ands)}"]
    lines += [str(2 * (place + 1)) for place in range(m)]
    lines += [str(literal) for literal in graph.outputs.tolist()]
    lines += [f"{2 * (m + place + 1)} {one} {other}" for place, (one, other) in enumerate(ands)]
    return "\n".join([*lines, *_ending(circuit)]) + "\n"


def write_aig(circuit: Circuit) -> bytes:
    """The circuit as binary AIGER."""
    graph = _and_graph(circuit)
    m, count = graph.inputs, len(graph.ands)
    lines = [f"aig {m + count} {m} 0 {len(graph.outputs)} {count}", *map(str, graph.outputs.tolist())]
    left = 2 * (m + 1 + np.arange(count))
    differences = np.stack([left - graph.ands[:, 0], graph.ands[:, 0] - graph.ands[:, 1]], axis=1)
    ending = "".join(f"{line}\n" for line in _ending(circuit))
    return ("\n".join(lines) + "\n").encode() + encode_numbers(differences.ravel()) + ending.encode()


class Header(NamedTuple):
    """The numbers of the first line."""

    variables: int
    inputs: int
    latches: int
    outputs: int
    ands: int

    @property
    def sources(self) -> int:
        """What gates read and no gate defines: inputs, then latches."""
        return self.inputs + self.latches


class _Reader:
    """A file read line by line. `line` counts from 1, and `text` is the line that was read last.

    `line_of` says on which line of an ASCII file a literal is defined, `resets` what latches begin with.
    """

    def __init__(self, content: bytes, source: str):
        self.content, self.source = content.removeprefix(BOM_UTF8), source
        self.position, self.line = 0, 0
        self.text = b""
        self.line_of: dict[int, int] = {}
        self.resets: list[int | None] = []

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

    def next_line(self, expected: str) -> bytes:
        """The next line; `expected` says what it should hold, for where the file has ended."""
        self.line += 1
        if self.ended:
            self.fail(1, f"the file ends where {expected} should be")
        end = self.content.find(b"\n", self.position)
        end = len(self.content) if end < 0 else end
        self.text = self.content[self.position : end].removesuffix(b"\r")
        self.position = end + 1
        return self.text

    def numbers(self, expected: str, count: int) -> list[int]:
        """The whole numbers of the next line, exactly `count` of them."""
        words = self.next_line(expected).split()
        if len(words) != count:
            noun = "one number" if count == 1 else f"{count} numbers"
            self.fail_at_word(min(count, len(words)), f"expected {expected}: {noun}; got {_shown(self.text)}")
        return [self.number(word, place, expected) for place, word in enumerate(words)]

    def number(self, word: bytes, place: int, expected: str) -> int:
        if not word.isdigit():
            self.fail_at_word(place, f"expected a whole number in {expected}; got {_shown(word)}")
        number = int(word) if len(word) < 20 else LARGEST_NUMBER + 1
        if number > LARGEST_NUMBER:
            self.fail_at_word(place, f"{_shown(word)} is too large for {expected} (at most {LARGEST_NUMBER})")
        return number

    def check_literal(self, literal: int, header: Header, place: int) -> None:
        """Refuse a literal, a word of the line that was read last, of a variable beyond M."""
        if literal > 2 * header.variables + 1:
            most = 2 * header.variables + 1
            self.fail_at_word(place, f"the literal {literal} is beyond 2M + 1 = {most} (M is in the header)")


def _header(reader: _Reader, expected: bytes) -> Header:
    """The first line of a file that begins with `expected`, b"aag" or b"aig"."""
    name = expected.decode()
    words = reader.next_line(f"the header '{name} M I L O A'").split()
    if not words or words[0] != expected:
        hint = f"; this is {FORMATS[words[0]]}" if words and words[0] in FORMATS else ""
        reader.fail(1, f"the first word must be {name!r}; got {_shown(words[0] if words else b'')}{hint}")
    if not 6 <= len(words) <= 10:
        reader.fail_at_word(
            min(len(words), 10),
            f"the header is '{name} M I L O A', or with B C J F after it; got {_shown(reader.text)}",
        )
    numbers = [reader.number(word, place, "the header") for place, word in enumerate(words[1:], start=1)]
    field = dict(zip(FIELDS, numbers, strict=False))
    for place, letter in enumerate(FIELDS[5:], start=6):
        if field.get(letter):
            reader.fail_at_word(
                place,
                f"{letter}={field[letter]}: bad states, constraints, justice and fairness (B C J F) are properties for "
                "model checking; only outputs (O) are read",
            )
    defined = field["I"] + field["L"] + field["A"]
    exact = expected == b"aig" and field["M"] != defined
    if exact or field["M"] < defined:
        relation = "equal" if expected == b"aig" else "be at least"
        reader.fail_at_word(1, f"M must {relation} I + L + A = {defined}; got M={field['M']}")
    for letter, kind in (("I", "inputs"), ("L", "latches"), ("O", "outputs"), ("A", "gates")):
        if field[letter] > CIRCUIT[kind].most:  # before a line of such a file asks for any amount of memory
            allowed = f"a circuit may have {CIRCUIT[kind].most:,} {kind}"
            reader.fail_at_word(FIELDS.index(letter) + 1, f"{allowed}; got {letter}={field[letter]}")
    if not field["O"]:
        reader.fail_at_word(4, "the circuit has no outputs (O=0)")
    return Header(field["M"], field["I"], field["L"], field["O"], field["A"])


def _symbols(reader: _Reader, header: Header) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Names of inputs and of outputs, those of latches after both; a name that was there before gets a number.

    () where none are given and there are no latches.
    """
    reader.line = reader.content.count(b"\n", 0, reader.position)
    given: dict[str, dict[int, str]] = {"i": {}, "l": {}, "o": {}}
    sizes = {"i": (header.inputs, "input"), "l": (header.latches, "latch"), "o": (header.outputs, "output")}
    while not reader.ended:
        line = reader.next_line("a symbol")
        if line == b"c":  # comments to the end
            break
        text = line.decode("utf-8", "replace")
        place, _, name = text[1:].partition(" ")
        if text[:1] not in given or not (place.isascii() and place.isdigit()) or not name or "\r" in name:
            reader.fail(
                1, f"expected a symbol such as 'i0 name' or 'o0 name', or 'c' before comments; got {_shown(line)}"
            )
        kind, number = text[0], int(place[:12])
        size, noun = sizes[kind]
        if number >= size:
            reader.fail(2, f"the circuit has {counted(size, noun)}, numbered from 0; got {_shown(line)}")
        if number in given[kind]:
            reader.fail(1, f"{kind}{number} has a name already: {given[kind][number]!r}")
        if len(name) > CIRCUIT["characters in a name"].most:
            reader.fail(1, f"a name may have {CIRCUIT['characters in a name'].most:,} characters; got {len(name):,}")
        if CONTROL.search(name):
            reader.fail(1, f"a name has no control characters; got {name[:40]!r}")
        given[kind][number] = name
    if not header.latches:
        return _all_names(given["i"], header.inputs, "x"), _all_names(given["o"], header.outputs, "y")
    names = []
    for kind, letter, count in (("i", "x", header.inputs), ("o", "y", header.outputs)):
        own = {place: given[kind].get(place, f"{letter}{place}") for place in range(count)}
        own |= {count + place: given["l"].get(place, f"l{place}") for place in range(header.latches)}
        names.append(_all_names(own, count + header.latches, letter))
    return names[0], names[1]


def _all_names(given: dict[int, str], count: int, letter: str) -> tuple[str, ...]:
    if not given:
        return ()
    reserved, seen = set(given.values()), set[str]()
    copies: dict[str, int] = {}  # the next number that has not been tried, of every name that came again
    for place in range(count):
        name = given.get(place, f"{letter}{place}")
        candidate = name
        while candidate in seen or (candidate in reserved and candidate != given.get(place)):
            copies[name] = copies.get(name, 1) + 1
            candidate = f"{name}_{copies[name]}"
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


def _shown(text: bytes) -> str:
    """A piece of a file in an error message."""
    written = text.decode("ascii", "replace")
    return repr(written if len(written) <= 40 else written[:40] + "…")


class AndGraph(NamedTuple):
    """`ands` int64 [A, 2] are the literals that gates read, the larger first; `outputs` int64 are literals too.

    `given` int64 [A] are the literals that the gates themselves have in a file; None where they are numbered in order.
    """

    inputs: int
    ands: np.ndarray
    outputs: np.ndarray
    given: np.ndarray | None = None


def _circuit_of(graph: AndGraph, name: str, input_names: tuple[str, ...], output_names: tuple[str, ...]) -> Circuit:
    """AND gates in the graph's order, each followed by a NOT gate where some reader wants its negation."""
    m, count = graph.inputs, len(graph.ands)
    literals = np.concatenate([graph.ands.ravel(), graph.outputs])
    negated = np.zeros(m + count + 1, bool)
    negated[literals[(literals & 1 == 1) & (literals > 1)] >> 1] = True
    # The node of each literal: first the inputs, then the NOT gates of inputs, then every AND with its NOT.
    node = np.empty(2 * (m + count + 1), np.int64)
    node[0], node[1] = FALSE, TRUE
    node[2 : 2 * m + 2 : 2] = np.arange(m)
    flipped = np.flatnonzero(negated[: m + 1])
    node[2 * flipped + 1] = m + np.arange(len(flipped))
    extra = negated[m + 1 :].astype(np.int64)
    mine = m + len(flipped) + np.arange(count) + np.cumsum(extra) - extra
    node[2 * m + 2 :: 2] = mine
    node[2 * m + 3 :: 2] = mine + 1  # read only where there is a NOT gate
    gates = len(flipped) + count + int(extra.sum())
    kinds = np.full(gates, Gate.NOT, np.int8)
    parents = np.empty((gates, 2), np.int64)
    parents[: len(flipped)] = (flipped - 1)[:, None]
    kinds[mine - m] = Gate.AND
    parents[mine - m] = node[graph.ands]
    followed = mine[extra == 1]
    parents[followed - m + 1] = followed[:, None]
    return Circuit(name, m, kinds, parents, tuple(node[graph.outputs].tolist()), input_names, output_names)


def _and_graph(circuit: Circuit) -> AndGraph:
    """A circuit's AND and OR gates as AND gates, in order; NOT and ID gates become edges."""
    literal = [0] * (circuit.nodes + CONSTANTS)
    literal[FALSE], literal[TRUE] = 0, 1
    literal[: circuit.inputs] = range(2, 2 * circuit.inputs + 2, 2)
    ands: list[tuple[int, int]] = []
    kinds = circuit.kinds.tolist()
    following = 2 * circuit.inputs + 2
    for place, (first, second) in enumerate(circuit.parents.tolist()):
        one, other, kind = literal[first], literal[second], kinds[place]
        if kind == Gate.ID:
            found = one
        elif kind == Gate.NOT:
            found = one ^ 1
        else:
            flip = int(kind == Gate.OR)  # a or b = not (not a and not b)
            one, other = one ^ flip, other ^ flip
            ands.append((one, other) if one >= other else (other, one))
            found = following + flip
            following += 2
        literal[circuit.inputs + place] = found
    outputs = np.array([literal[node] for node in circuit.outputs], np.int64)
    return AndGraph(circuit.inputs, np.array(ands, np.int64).reshape(-1, 2), outputs)


def encode_numbers(numbers: np.ndarray) -> bytes:
    """Whole numbers as 7 bits a byte, the least significant first; the top bit says that another byte follows."""
    left = numbers.astype(np.uint64)
    columns, used = [], []
    active = np.ones(len(left), bool)
    while active.any():
        following = left >> np.uint64(7)
        more = following > 0
        columns.append((left & np.uint64(127)).astype(np.uint8) | (more.astype(np.uint8) << 7))
        used.append(active)
        active, left = active & more, following
    return np.stack(columns, axis=1)[np.stack(used, axis=1)].tobytes() if columns else b""


def _latch_literals(reader: _Reader, header: Header, define: Callable[[int], None] | None = None) -> list[int]:
    """What latches hold next; `define` takes their own literals where a file lists them. Keeps their first values."""
    nexts = []
    for place in range(header.latches):
        expected = f"latch {place}, '{'' if define is None else 'latch '}next', and what it begins with"
        words = reader.next_line(expected).split()
        least = 1 if define is None else 2
        if not least <= len(words) <= least + 1:
            reader.fail_at_word(min(least, len(words)), f"expected {expected}; got {_shown(reader.text)}")
        numbers = [reader.number(word, at, expected) for at, word in enumerate(words)]
        own = 2 * (header.inputs + place + 1)
        if define is not None:
            own = numbers.pop(0)
            define(own)
        reader.check_literal(numbers[0], header, least - 1)
        reset = numbers[1] if len(numbers) > 1 else 0
        if reset not in (0, 1, own):
            reader.fail_at_word(least, f"a latch begins with 0, 1, or not initialised with itself ({own}); got {reset}")
        reader.resets.append(None if reset == own else reset)
        nexts.append(numbers[0])
    return nexts


def _output_literals(reader: _Reader, header: Header) -> list[int]:
    outputs: list[int] = []
    for place in range(header.outputs):
        outputs += reader.numbers(f"the literal of output {place}", 1)
        reader.check_literal(outputs[-1], header, 0)
    return outputs


def _ascii_graph(reader: _Reader, header: Header) -> AndGraph:
    """The graph of an ASCII file with its variables numbered anew: inputs first, then gates after what they read."""
    line_of = reader.line_of

    def define(literal: int, what: str) -> None:
        if literal < 2 or literal % 2:
            reader.fail_at_word(0, f"{what} must be an even literal from 2 on; got {literal}")
        reader.check_literal(literal, header, 0)
        if literal in line_of:
            reader.fail_at_word(0, f"the literal {literal} is defined twice; first on line {line_of[literal]}")
        line_of[literal] = reader.line

    for place in range(header.inputs):
        (literal,) = reader.numbers(f"the literal of input {place}", 1)
        define(literal, "an input")
    first_latch = reader.line + 1
    nexts = _latch_literals(reader, header, lambda literal: define(literal, "a latch"))
    first_output = reader.line + 1
    outputs = _output_literals(reader, header)
    read = []
    for place in range(header.ands):
        left, one, other = reader.numbers(f"gate {place}, 'left right right'", 3)
        define(left, "the left side of a gate")
        for word, literal in ((1, one), (2, other)):
            reader.check_literal(literal, header, word)
        read.append((one, other))

    defined = np.array(list(line_of), np.int64) // 2
    pairs, finals = np.array(read, np.int64).reshape(-1, 2), np.array(outputs + nexts, np.int64)
    first_gate = reader.line + 1 - header.ands
    for literals, start, word in (
        (finals[: len(outputs)], first_output, 0),
        (finals[len(outputs) :], first_latch, 1),
        (pairs[:, 0], first_gate, 1),
        (pairs[:, 1], first_gate, 2),
    ):
        for place in np.flatnonzero((literals > 1) & ~np.isin(literals >> 1, defined))[:1]:
            reader.go_back(start + int(place))
            reader.fail_at_word(
                word, f"no input, latch or gate defines the literal {literals[place]} (or its negation)"
            )
    known = np.concatenate([[0], defined])
    rank = np.argsort(known)  # variables may be numbered with gaps, however large

    def renumbered(literals: np.ndarray) -> np.ndarray:
        return 2 * rank[np.searchsorted(known, literals >> 1, sorter=rank)] + (literals & 1)

    return _in_order(reader, header.sources, renumbered(pairs), renumbered(finals), 2 * defined[header.sources :])


def _in_order(reader: _Reader, inputs: int, pairs: np.ndarray, finals: np.ndarray, left: np.ndarray) -> AndGraph:
    """The graph with its gates brought into an order; `left` are the literals that the file gives them."""
    nodes = (pairs >> 1) - 1  # a constant becomes -1
    order = topological_order(nodes, inputs)
    if order is None:
        cycle = find_cycle(nodes, inputs)
        reader.go_back(reader.line + 1 - len(left) + cycle[0])
        chain = chain_of([str(left[place]) for place in cycle])
        reader.fail_at_word(0, f"the circuit is cyclic: {chain} (literals of gates)")
    number = np.arange(inputs + len(order) + 1)
    number[inputs + 1 + order] = inputs + 1 + np.arange(len(order))
    pairs, finals = (2 * number[literals >> 1] + (literals & 1) for literals in (pairs[order], finals))
    return AndGraph(inputs, np.sort(pairs, axis=1)[:, ::-1], finals, left[order])


def _decoded(reader: _Reader, header: Header) -> np.ndarray:
    """The right sides [A, 2] of a binary file's gates; the reader moves on behind them."""
    start, count = reader.position, 2 * header.ands
    octets = np.frombuffer(reader.content, np.uint8)[start:]
    ends = np.flatnonzero(octets < 128)[:count]
    if len(ends) < count:
        reader.fail_at_byte(len(reader.content), f"the file ends within gate {len(ends) // 2} of {header.ands}")
    if not count:
        return np.zeros((0, 2), np.int64)
    begins = np.concatenate([[0], ends[:-1] + 1])
    lengths = ends - begins + 1
    for place in np.flatnonzero(lengths > LONGEST_NUMBER)[:1]:
        at = start + int(begins[place])
        reader.fail_at_byte(at, f"a number of gate {place // 2} has {lengths[place]} bytes; literals need fewer")
    used = int(ends[-1]) + 1
    parts = (octets[:used] & 127).astype(np.int64) << (7 * (np.arange(used) - np.repeat(begins, lengths)))
    first, second = np.add.reduceat(parts, begins).reshape(-1, 2).T
    left = 2 * (header.sources + 1 + np.arange(header.ands))
    right = np.stack([left - first, left - first - second], axis=1)
    for gate in np.flatnonzero((first < 1) | (right[:, 1] < 0))[:1]:
        reader.fail_at_byte(
            start + int(begins[2 * gate]),
            f"gate {gate} (literal {left[gate]}) has the differences {first[gate]} and {second[gate]}; the first must "
            "be at least 1, and both together at most the literal",
        )
    reader.position = start + used
    return right


def _finished(reader: _Reader, header: Header, graph: AndGraph, dangling: str) -> Circuit | Sequential:
    names = _symbols(reader, header)
    found = _circuit_of(graph, name_of_source(reader.source), *names)
    if dangling == "refuse" and len(found.dangling):
        _refuse_dangling(reader, graph, found)
    return Sequential(found, tuple(reader.resets)) if header.latches else found


def _refuse_dangling(reader: _Reader, graph: AndGraph, found: Circuit) -> NoReturn:
    """Name the AND gates that no output depends on by their literals, and the first by its line."""
    which = np.cumsum(found.kinds == Gate.AND) - 1
    loose = which[found.dangling[found.kinds[found.dangling] == Gate.AND]]
    given = 2 * (graph.inputs + 1 + np.arange(len(graph.ands))) if graph.given is None else graph.given
    literals = sorted(given[loose].tolist(), key=lambda literal: reader.line_of.get(literal, literal))
    line = f", line {reader.line_of[literals[0]]}, column 1" if reader.line_of else ""
    listed = ", ".join(map(str, literals[:5])) + (", …" if len(literals) > 5 else "")
    raise KroghError(
        f"{reader.source}{line}: {counted(len(literals), 'dangling gate')} that no output depends on: literal {listed} "
        "(leave them out: dangling='drop', or --dangling drop)"
    )


def _ending(circuit: Circuit) -> list[str]:
    """Symbols, where there are names that were not made up, and the circuit's name as a comment."""
    lines: list[str] = []
    for kind, letter, names in (("i", "x", circuit.input_names), ("o", "y", circuit.output_names)):
        if any(name != f"{letter}{place}" for place, name in enumerate(names)):
            lines += [f"{kind}{place} {name}" for place, name in enumerate(names)]
    return [*lines, "c", " ".join(circuit.name.split()) or "circuit"]
