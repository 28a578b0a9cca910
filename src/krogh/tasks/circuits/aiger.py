"""Circuits in the AIGER format, ASCII (.aag) and binary (.aig): and-inverter graphs (Biere 2007; version 1.9, 2011).

    aag M I L O A       largest variable, inputs, latches, outputs, AND gates; "aig" begins a binary file
    2                   I lines (ASCII only): the literal 2v of an input's variable v
    7                   O lines: literals, 2v for a variable, 2v+1 for its negation, 0 and 1 for false and true
    6 2 5               A lines (ASCII only): the gate 6 = 2 AND 5; in a binary file two differences of literals a gate
    i0 name             names of inputs (i) and outputs (o) by their places
    c                   comments follow

A negated edge becomes a NOT gate, which all readers of the negation share; and in the other direction NOT and ID gates
become edges, and an OR is the negated AND of negations. Only combinational circuits are read: files with latches, or
with the properties of version 1.9 (header fields B, C, J, F), are refused.
"""

from __future__ import annotations

from pathlib import Path
from typing import NoReturn

import numpy as np

from krogh.errors import KroghError, require, unknown
from krogh.tasks.circuits.aiger_graph import AndGraph, and_graph, circuit_of
from krogh.tasks.circuits.aiger_reader import Header, Reader, read_header, read_symbols
from krogh.tasks.circuits.circuit import DANGLING, Circuit, Gate, counted, name_of_source
from krogh.tasks.circuits.ordering import chain_of, find_cycle, topological_order

LONGEST_NUMBER = 8
"""Bytes of a number in a binary file: 56 bits, more than any literal needs."""


def parse_aag(text: str | bytes, source: str = "<aag>", dangling: str = "refuse") -> Circuit:
    """The circuit of an ASCII AIGER text; `source` is how errors call it, and the circuit is named after it.

    Gates that no output depends on are refused, or dropped or kept as `dangling` says.
    """
    reader = Reader(text.encode() if isinstance(text, str) else text, source)
    header = read_header(reader, b"aag")
    return _finished(reader, header, _ascii_graph(reader, header), dangling)


def parse_aig(content: bytes, source: str = "<aig>", dangling: str = "refuse") -> Circuit:
    """The circuit of a binary AIGER file's bytes; `source` and `dangling` as for `parse_aag`."""
    reader = Reader(content, source)
    header = read_header(reader, b"aig")
    outputs = _output_literals(reader, header)
    ands = _decoded(reader, header)
    return _finished(reader, header, AndGraph(header.inputs, ands, np.array(outputs, np.int64)), dangling)


def read_aiger(path: str | Path, dangling: str = "refuse") -> Circuit:
    """The circuit of an AIGER file, ASCII or binary as its first word says."""
    file = Path(path)
    require(file.is_file(), f"no file {str(path)!r} with a circuit")
    try:
        content = file.read_bytes()
    except OSError as error:
        raise KroghError(f"{str(path)!r} cannot be read: {error.strerror}") from None
    return (parse_aig if content.startswith(b"aig") else parse_aag)(content, str(path), dangling)


def write_aag(circuit: Circuit) -> str:
    """The circuit as ASCII AIGER: inputs 2, 4, …, then the gates in an order where what is read comes first."""
    graph = and_graph(circuit)
    m, ands = graph.inputs, graph.ands.tolist()
    lines = [f"aag {m + len(ands)} {m} 0 {len(graph.outputs)} {len(ands)}"]
    lines += [str(2 * (place + 1)) for place in range(m)]
    lines += [str(literal) for literal in graph.outputs.tolist()]
    lines += [f"{2 * (m + place + 1)} {one} {other}" for place, (one, other) in enumerate(ands)]
    return "\n".join([*lines, *_ending(circuit)]) + "\n"


def write_aig(circuit: Circuit) -> bytes:
    """The circuit as binary AIGER."""
    graph = and_graph(circuit)
    m, count = graph.inputs, len(graph.ands)
    lines = [f"aig {m + count} {m} 0 {len(graph.outputs)} {count}", *map(str, graph.outputs.tolist())]
    left = 2 * (m + 1 + np.arange(count))
    differences = np.stack([left - graph.ands[:, 0], graph.ands[:, 0] - graph.ands[:, 1]], axis=1)
    ending = "".join(f"{line}\n" for line in _ending(circuit))
    return ("\n".join(lines) + "\n").encode() + encode_numbers(differences.ravel()) + ending.encode()


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


def _output_literals(reader: Reader, header: Header) -> list[int]:
    outputs: list[int] = []
    for place in range(header.outputs):
        outputs += reader.numbers(f"the literal of output {place}", 1)
        reader.check_literal(outputs[-1], header, 0)
    return outputs


def _ascii_graph(reader: Reader, header: Header) -> AndGraph:
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
    pairs, finals = np.array(read, np.int64).reshape(-1, 2), np.array(outputs, np.int64)
    first_gate = reader.line + 1 - header.ands
    for literals, start, word in (
        (finals, first_output, 0),
        (pairs[:, 0], first_gate, 1),
        (pairs[:, 1], first_gate, 2),
    ):
        for place in np.flatnonzero((literals > 1) & ~np.isin(literals >> 1, defined))[:1]:
            reader.go_back(start + int(place))
            reader.fail_at_word(word, f"no input or gate defines the literal {literals[place]} (or its negation)")
    known = np.concatenate([[0], defined])
    rank = np.argsort(known)  # variables may be numbered with gaps, however large

    def renumbered(literals: np.ndarray) -> np.ndarray:
        return 2 * rank[np.searchsorted(known, literals >> 1, sorter=rank)] + (literals & 1)

    return _in_order(reader, header.inputs, renumbered(pairs), renumbered(finals), 2 * defined[header.inputs :])


def _in_order(reader: Reader, inputs: int, pairs: np.ndarray, finals: np.ndarray, left: np.ndarray) -> AndGraph:
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


def _decoded(reader: Reader, header: Header) -> np.ndarray:
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
    left = 2 * (header.inputs + 1 + np.arange(header.ands))
    right = np.stack([left - first, left - first - second], axis=1)
    for gate in np.flatnonzero((first < 1) | (right[:, 1] < 0))[:1]:
        reader.fail_at_byte(
            start + int(begins[2 * gate]),
            f"gate {gate} (literal {left[gate]}) has the differences {first[gate]} and {second[gate]}; the first must "
            "be at least 1, and both together at most the literal",
        )
    reader.position = start + used
    return right


def _finished(reader: Reader, header: Header, graph: AndGraph, dangling: str) -> Circuit:
    if dangling not in DANGLING:
        raise unknown("treatment of dangling gates", str(dangling), DANGLING)
    names = read_symbols(reader, header)
    found = circuit_of(graph, name_of_source(reader.source), *names)
    if dangling == "refuse" and len(found.dangling):
        _refuse_dangling(reader, graph, found)
    return found.settled(dangling)


def _refuse_dangling(reader: Reader, graph: AndGraph, found: Circuit) -> NoReturn:
    """Name the AND gates that no output depends on by their literals, and the first by its line."""
    which = np.cumsum(found.kinds == Gate.AND) - 1
    loose = which[found.dangling[found.kinds[found.dangling] == Gate.AND]]
    given = 2 * (graph.inputs + 1 + np.arange(len(graph.ands))) if graph.given is None else graph.given
    literals = sorted(given[loose].tolist(), key=lambda literal: reader.line_of.get(literal, literal))
    line = f", line {reader.line_of[literals[0]]}, column 1" if reader.line_of else ""
    listed = ", ".join(map(str, literals[:5])) + (", …" if len(literals) > 5 else "")
    raise KroghError(
        f"{reader.source}{line}: {counted(len(literals), 'dangling gate')} that no output depends on: literal {listed} "
        "(pass dangling='drop' or 'keep' to go on)"
    )


def _ending(circuit: Circuit) -> list[str]:
    """Symbols, where there are names that were not made up, and the circuit's name as a comment."""
    lines: list[str] = []
    for kind, letter, names in (("i", "x", circuit.input_names), ("o", "y", circuit.output_names)):
        if any(name != f"{letter}{place}" for place, name in enumerate(names)):
            lines += [f"{kind}{place} {name}" for place, name in enumerate(names)]
    return [*lines, "c", " ".join(circuit.name.split()) or "circuit"]
