"""Circuits from files and into files, by suffix.

    .aag, .aig                AIGER, ASCII and binary (aiger.py)             latches: unrolled for `steps`
    .blif                     BLIF, tables of gates (blif.py)                latches: unrolled for `steps`
    .circuit, .ckt, .txt      a readable text, below                         no latches

What is too large is refused before it is read (`krogh.programs.budgets`).

The text has one gate to a line:

    # two bits added                  a # begins a comment
    circuit half-adder                a name (may be left out)
    inputs a b                        may be repeated; so may outputs
    outputs sum carry=both            a signal, or name=signal where an output has a name of its own
    either = OR a b                   gates: AND and OR of two signals, NOT and ID of one, in any order of lines
    both   = AND a b
    differ = NOT both
    sum    = AND either differ

Names are words without spaces, '=', '#' and '"', or anything at all between double quotes (with \\" and \\\\ inside).
TRUE and FALSE are the constants. Kinds of gates may be written small.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple, NoReturn

import numpy as np

from krogh.errors import KroghError, require, unknown
from krogh.programs.budgets import CIRCUIT
from krogh.programs.circuits.aiger import read_aiger, write_aag, write_aig
from krogh.programs.circuits.blif import parse_blif, write_blif
from krogh.programs.circuits.circuit import (
    FALSE,
    TRUE,
    Circuit,
    Gate,
    chain_of,
    find_cycle,
    name_of_source,
    topological_order,
)
from krogh.programs.circuits.sequential import settled
from krogh.programs.reading import CONTROL, numbered, read_text

CONSTANT = {"FALSE": FALSE, "TRUE": TRUE}
KEYWORDS = ("circuit", "inputs", "outputs")
TOKEN = re.compile(r"""\s*(?:(?P<quoted>"(?:[^"\\]|\\.)*")|(?P<equals>=)|(?P<comment>\#.*)|(?P<word>[^\s="#]+))""")
PLAIN = re.compile(r"""[^\s="#]+""")
ESCAPED = re.compile(r"\\(.)")
LINE_LENGTH = 100
AIGER = (".aag", ".aig")
BLIF = (".blif",)
TEXT = (".circuit", ".ckt", ".txt")
MOST_WORDS = 3 * CIRCUIT["outputs"].most + 1
MOST_COMPARED = 2000
"""Among more names than this the nearest one is not looked for."""


def load_circuit(path: str | Path, dangling: str = "refuse", steps: int | None = None) -> Circuit:
    """The circuit of a file; gates that no output depends on are refused, dropped or kept as `dangling` says.

    A sequential circuit is unrolled for so many `steps`: its inputs and outputs are a@0, b@0, a@1, …
    """
    file = _known(path)
    suffix = file.suffix.lower()
    if suffix in AIGER:
        return read_aiger(file, dangling, steps)
    if file.is_file():
        CIRCUIT["bytes"].check(file.stat().st_size, str(path))
    text = read_text(file, "a circuit")
    if suffix in BLIF:
        return parse_blif(text, str(path), dangling, steps)
    return settled(parse_circuit(text, str(path), dangling), steps, dangling, str(path))


def save_circuit(circuit: Circuit, path: str | Path) -> Path:
    """Write a circuit in the format that the suffix names."""
    file = _known(path)
    suffix = file.suffix.lower()
    if suffix == ".aig":
        content = write_aig(circuit)
    else:
        writers = {".aag": write_aag, ".blif": write_blif}
        content = writers.get(suffix, write_circuit)(circuit).encode()
    try:
        file.write_bytes(content)
    except OSError as error:
        raise KroghError(f"{str(path)!r} cannot be written: {error.strerror}") from None
    return file


def parse_circuit(text: str, source: str = "<text>", dangling: str = "refuse") -> Circuit:
    """The circuit that a text describes; `source` is how error messages call the text.

    Gates that no output depends on are refused, or dropped or kept as `dangling` says.
    """
    parser = _Parser(source)
    for number, line in numbered(text):
        tokens = parser.tokens(number, line)
        if tokens:
            parser.read(tokens)
    return parser.circuit(dangling)


def write_circuit(circuit: Circuit) -> str:
    """The circuit as text that `parse_circuit` reads back: the same nodes in the same order, under the same names."""
    names = _node_names(circuit)

    def signal(node: int) -> str:
        return circuit.node_name(node) if node < 0 else _quoted(names[node])

    lines = [f"circuit {_quoted(circuit.name)}"] if circuit.name else []
    lines += _wrapped("inputs", (_quoted(name) for name in circuit.input_names))
    named = zip(circuit.output_names, circuit.outputs, strict=True)
    lines += _wrapped("outputs", (_output(_quoted(name), signal(node)) for name, node in named))
    kinds = circuit.kinds.tolist()
    for place, (first, second) in enumerate(circuit.parents.tolist()):
        kind = Gate(kinds[place])
        read = (first, second)[: kind.arity]
        target = signal(circuit.inputs + place)
        lines.append(f"{target} = {kind.name} {' '.join(signal(node) for node in read)}")
    return "\n".join(lines) + "\n"


class _Token(NamedTuple):
    """A word of the text with its place; `word` is "=" with quoted=False for the sign itself."""

    word: str
    quoted: bool
    line: int
    column: int

    @property
    def equals(self) -> bool:
        return self.word == "=" and not self.quoted

    @property
    def constant(self) -> int | None:
        return None if self.quoted else CONSTANT.get(self.word)


class _Definition(NamedTuple):
    """A line that defines a gate."""

    target: _Token
    kind: Gate
    arguments: list[_Token]


class _Parser:
    """What a text says so far; `source` is where it comes from."""

    def __init__(self, source: str):
        self.source = source
        self.name: str | None = None
        self.inputs: list[_Token] = []
        self.outputs: list[tuple[str, _Token]] = []
        self.output_names: set[str] = set()
        self.gates: list[_Definition] = []
        self.places: dict[str, _Token] = {}

    def fail(self, line: int, column: int, message: str) -> NoReturn:
        raise KroghError(f"{self.source}, line {line}, column {column}: {message}")

    def fail_at(self, token: _Token, message: str) -> NoReturn:
        self.fail(token.line, token.column, message)

    def tokens(self, number: int, line: str) -> list[_Token]:
        found: list[_Token] = []
        position, end = 0, len(line.rstrip())
        while position < end:
            match = TOKEN.match(line, position)
            if match is None:
                self.fail(number, line.index('"', position) + 1, 'a quoted name has no closing "')
            kind = str(match.lastgroup)
            word, column, position = match[kind], match.start(kind) + 1, match.end()
            if kind == "quoted":
                word = ESCAPED.sub(r"\1", word[1:-1])
                if not word:
                    self.fail(number, column, "a name must not be empty")
            if kind != "comment" and CONTROL.search(word):
                self.fail(number, column, f"a name has no control characters; got {word[:40]!r}")
            if kind != "comment":
                found.append(_Token(word, kind == "quoted", number, column))
                if len(found) > MOST_WORDS:
                    self.fail(number, column, f"a line may have {MOST_WORDS:,} words")
        return found

    def read(self, tokens: list[_Token]) -> None:
        head = tokens[0]
        defines = len(tokens) > 1 and tokens[1].equals
        if head.equals:
            self.fail_at(head, "a gate is written name = KIND signals; the name is missing")
        if defines:
            self.read_gate(tokens)
        elif not head.quoted and head.word in KEYWORDS:
            getattr(self, f"read_{head.word}")(tokens)
        else:
            near = difflib.get_close_matches(head.word, KEYWORDS, n=1)
            hint = f" (did you mean {near[0]!r}?)" if near else ""
            self.fail_at(head, f"expected 'name = KIND signals', 'inputs' or 'outputs'; got {head.word!r}{hint}")

    def read_circuit(self, tokens: list[_Token]) -> None:
        if len(tokens) != 2:
            self.fail_at(tokens[0], f"a circuit has one name; got {len(tokens) - 1} (put it in double quotes)")
        if self.name is not None:
            self.fail_at(tokens[0], f"the circuit is called {self.name!r} already")
        self.name = tokens[1].word

    def define(self, token: _Token) -> None:
        if token.equals:
            self.fail_at(token, "'=' stands between the name of a gate and its kind, or in an output's name=signal")
        if token.constant is not None:
            self.fail_at(token, f"{token.word} is a constant; put the name in double quotes, or take another")
        if len(token.word) > CIRCUIT["characters in a name"].most:
            most = CIRCUIT["characters in a name"].most
            self.fail_at(token, f"a name may have {most:,} characters; got {len(token.word):,}")
        if token.word in self.places:
            self.fail_at(token, f"{token.word!r} is defined twice; first on line {self.places[token.word].line}")
        self.places[token.word] = token

    def read_inputs(self, tokens: list[_Token]) -> None:
        CIRCUIT["inputs"].check(len(self.inputs) + len(tokens) - 1, self.source)
        for token in tokens[1:]:
            self.define(token)
            self.inputs.append(token)

    def read_outputs(self, tokens: list[_Token]) -> None:
        place = 1
        while place < len(tokens):
            token = tokens[place]
            named = place + 1 < len(tokens) and tokens[place + 1].equals
            if token.equals or (named and (place + 2 >= len(tokens) or tokens[place + 2].equals)):
                self.fail_at(token, "an output is written signal or name=signal")
            if token.word in self.output_names:
                self.fail_at(token, f"two outputs have the name {token.word!r}; write one as name=signal")
            self.output_names.add(token.word)
            self.outputs.append((token.word, tokens[place + 2] if named else token))
            place += 3 if named else 1
        CIRCUIT["outputs"].check(len(self.outputs), self.source)

    def read_gate(self, tokens: list[_Token]) -> None:
        target, _, *rest = tokens
        self.define(target)
        if not rest:
            self.fail_at(target, f"the kind of gate {target.word!r} is missing (one of {', '.join(Gate.__members__)})")
        kind = Gate.__members__.get(rest[0].word.upper())
        if kind is None or rest[0].quoted:
            error = unknown("kind of gate", rest[0].word, Gate.__members__)
            self.fail_at(rest[0], str(error))
        arguments = rest[1:]
        for token in arguments:
            if token.equals:
                self.fail_at(token, "a line defines one gate; got a second '='")
        if len(arguments) != kind.arity:
            at = arguments[kind.arity] if len(arguments) > kind.arity else rest[0]
            signals = "1 signal" if kind.arity == 1 else f"{kind.arity} signals"
            self.fail_at(at, f"{kind.name} reads {signals}; gate {target.word!r} has {len(arguments)}")
        CIRCUIT["gates"].check(len(self.gates) + 1, self.source)
        self.gates.append(_Definition(target, kind, arguments))

    def node(self, token: _Token, nodes: dict[str, int]) -> int:
        if token.constant is not None:
            return token.constant
        if token.word not in nodes:
            near = difflib.get_close_matches(token.word, nodes, n=1) if len(nodes) <= MOST_COMPARED else []
            hint = f"; did you mean {near[0]!r}?" if near else ""
            self.fail_at(token, f"the signal {token.word!r} is not defined{hint} (define it as a gate or an input)")
        return nodes[token.word]

    def circuit(self, dangling: str) -> Circuit:
        if not self.outputs:
            raise KroghError(f"{self.source}: no outputs; add a line such as 'outputs {self._some_signal()}'")
        m = len(self.inputs)
        nodes = {token.word: place for place, token in enumerate(self.inputs)}
        nodes |= {gate.target.word: m + place for place, gate in enumerate(self.gates)}
        parents = []
        for gate in self.gates:
            read = [self.node(token, nodes) for token in gate.arguments]
            parents.append((read[0], read[-1]))
        outputs = tuple(self.node(token, nodes) for _, token in self.outputs)
        self.check_order(parents, m)
        found = Circuit(
            self.name or name_of_source(self.source),
            m,
            [gate.kind.value for gate in self.gates],
            parents,
            outputs,
            tuple(token.word for token in self.inputs),
            tuple(name for name, _ in self.outputs),
            tuple(gate.target.word for gate in self.gates),
        )
        if dangling == "refuse" and len(found.dangling):
            first = self.places[found.node_name(found.inputs + int(found.dangling[0]))]
            hint = "(connect them, or leave them out: dangling='drop', or --dangling drop)"
            self.fail_at(first, f"{found.dangling_sentence()} {hint}")
        return found.settled(dangling)

    def check_order(self, parents: list[tuple[int, int]], m: int) -> None:
        pairs = np.array(parents, np.int64).reshape(-1, 2)
        if topological_order(pairs, m) is not None:
            return
        cycle = find_cycle(pairs, m)
        names = [self.gates[place].target.word for place in cycle]
        self.fail_at(self.gates[cycle[0]].target, f"the circuit is cyclic: {chain_of(names)}")

    def _some_signal(self) -> str:
        if self.gates:
            return self.gates[-1].target.word
        return self.inputs[0].word if self.inputs else "TRUE"


def _node_names(circuit: Circuit) -> list[str]:
    """Names of all nodes that are all different; gates without names, or with an input's, are numbered anew."""
    inputs = list(circuit.input_names)
    gates = list(circuit.gate_names) or [f"g{place}" for place in range(circuit.gates)]
    letter = "g"
    while set(inputs) & set(gates):
        letter += "_"
        gates = [f"{letter}{place}" for place in range(circuit.gates)]
    return inputs + gates


def _output(name: str, signal: str) -> str:
    return name if name == signal else f"{name}={signal}"


def _quoted(name: str) -> str:
    if PLAIN.fullmatch(name) and name not in CONSTANT:
        return name
    return '"' + name.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _wrapped(keyword: str, words: Iterator[str]) -> list[str]:
    lines: list[str] = []
    for word in words:
        if not lines or len(lines[-1]) + len(word) >= LINE_LENGTH:
            lines.append(keyword)
        lines[-1] += f" {word}"
    return lines


def _known(path: str | Path) -> Path:
    file = Path(path)
    known = (*AIGER, *BLIF, *TEXT)
    require(
        file.suffix.lower() in known,
        f"circuits are kept in files whose names end with {', '.join(known)}; got {str(path)!r}",
    )
    return file
