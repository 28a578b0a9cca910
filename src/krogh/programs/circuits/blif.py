"""Circuits in BLIF, the Berkeley logic interchange format: tables of gates of any width, and latches.

    # two bits added                    a # begins a comment; a \\ at the end of a line continues it
    .model half-adder
    .inputs a b                         may be repeated; so may .outputs
    .outputs sum carry
    .names a b sum                      a signal by its table: the signals it reads, then itself
    01 1                                a row for every case in which it is 1 (or, all rows alike, 0); - is 0 or 1
    10 1
    .names a b carry
    11 1
    .latch next state re clock 0        what is held next, its name, kind and clock (may be left out), first value:
    .end                                0, 1, or 2 and 3 (3 unless given), which begin with an input

A row becomes an AND of its literals and a table an OR of its rows, in trees of depth log2. A file with latches is a
`Sequential`: all are clocked together, so that kinds and clocks are read over. One model is read; libraries of gates
(.gate, .mlatch), hierarchies (.subckt, .search) and don't-care networks (.exdc) are refused. Errors name line and
column.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple, NoReturn

from krogh.errors import KroghError
from krogh.programs.budgets import CIRCUIT
from krogh.programs.circuits.circuit import FALSE, TRUE, Circuit, Gate, chain_of, counted, name_of_source
from krogh.programs.circuits.sequential import Sequential, settled
from krogh.programs.reading import CONTROL, numbered

WORD = re.compile(r"\S+")
MOST_WORDS = CIRCUIT["inputs"].most + 1
REFUSED = {
    ".exdc": "don't-care networks (.exdc) have no place in a circuit, whose outputs are all decided",
    ".subckt": "models within models (.subckt) are not read; flatten the hierarchy first",
    ".search": "other files (.search) are not read; put all into one",
    ".gate": "gates of a library (.gate) are not read; map them to .names first",
    ".mlatch": "latches of a library (.mlatch) are not read; map them to .latch first",
}
IGNORED = (".clock", ".area", ".delay", ".wire_load_slope", ".wire", ".input_arrival", ".default_input_arrival")
RESETS = {"0": 0, "1": 1, "2": None, "3": None}
LATCH_KINDS = ("fe", "re", "ah", "al", "as")


class Token(NamedTuple):
    """A word and its place."""

    word: str
    line: int
    column: int


class Table(NamedTuple):
    """A signal by the signals it reads and its rows: which inputs are 0, 1 or "-", and what they make it."""

    reads: list[Token]
    target: Token
    rows: list[str]
    values: list[str]


def parse_blif(text: str, source: str = "<blif>", dangling: str = "refuse", steps: int | None = None) -> Circuit:
    """The circuit of a BLIF text; `source` is how errors call it.

    Gates that no output depends on are refused, or dropped or kept as `dangling` says. A file with latches is unrolled
    for so many `steps`.
    """
    return settled(_Parser(source).parsed(text).circuit(), steps, dangling, source)


def write_blif(circuit: Circuit) -> str:
    """The circuit as BLIF, a table for each gate; names with spaces and the like are replaced by n0, n1, …"""
    names = [circuit.node_name(node) for node in range(circuit.nodes)]
    plain = re.compile(r"[^\s#\\=.][^\s#\\=]*")
    outputs = list(circuit.output_names)
    if len({*names, *outputs}) < len(names) + len(outputs) or not all(map(plain.fullmatch, [*names, *outputs])):
        names, outputs = [f"n{place}" for place in range(len(names))], [f"o{place}" for place in range(len(outputs))]
    lines = [f".model {'-'.join(circuit.name.split()) or 'circuit'}"]
    lines += [f".inputs {name}" for name in names[: circuit.inputs]] + [f".outputs {name}" for name in outputs]
    rows = {Gate.ID: ["1 1"], Gate.NOT: ["0 1"], Gate.AND: ["11 1"], Gate.OR: ["1- 1", "-1 1"]}

    def read(node: int) -> str:
        return names[node] if node >= 0 else constants[node]

    constants = {FALSE: "$false", TRUE: "$true"}
    used = {int(node) for node in circuit.parents.ravel()} | set(circuit.outputs)
    for node, values in ((FALSE, []), (TRUE, ["1"])):
        lines += [f".names {constants[node]}", *values] if node in used else []
    for place, (first, second) in enumerate(circuit.parents.tolist()):
        kind = Gate(int(circuit.kinds[place]))
        reads = " ".join(read(node) for node in (first, second)[: kind.arity])
        lines += [f".names {reads} {names[circuit.inputs + place]}", *rows[kind]]
    for name, node in zip(outputs, circuit.outputs, strict=True):
        lines += [f".names {read(node)} {name}", "1 1"]
    return "\n".join([*lines, ".end"]) + "\n"


def free_name(name: str, taken: set[str]) -> str:
    """A name that nothing else has, and from now on is taken."""
    while name in taken:
        name += "'"
    taken.add(name)
    return name


class _Parser:
    """What a text says so far."""

    def __init__(self, source: str):
        self.source, self.name = source, ""
        self.inputs: list[Token] = []
        self.outputs: list[Token] = []
        self.tables: list[Table] = []
        self.latches: list[tuple[Token, Token, int | None]] = []
        self.defined: dict[str, Token] = {}
        self.ended = False
        self.words, self.literals = 0, 0  # of all tables

    def fail(self, token: Token, message: str) -> NoReturn:
        raise KroghError(f"{self.source}, line {token.line}, column {token.column}: {message}")

    def lines(self, text: str) -> Iterator[list[Token]]:
        """Lines with their continuations, as words; those without any are left out."""
        tokens: list[Token] = []
        for number, line in numbered(text):
            content = line.partition("#")[0].rstrip()
            continued = content.endswith("\\")
            obeyed = CONTROL.search(content) is not None  # by a terminal, unless it is white space
            for match in WORD.finditer(content[:-1] if continued else content):
                token = Token(match[0], number, match.start() + 1)
                if obeyed and CONTROL.search(token.word):
                    self.fail(token, f"a word has no control characters; got {token.word[:40]!r}")
                if len(token.word) > CIRCUIT["characters in a name"].most:
                    most = CIRCUIT["characters in a name"].most
                    self.fail(token, f"a word may have {most:,} characters; got {len(token.word):,}")
                tokens.append(token)
                if len(tokens) > MOST_WORDS:
                    self.fail(token, f"a line may have {MOST_WORDS:,} words")
            if tokens and not continued:
                yield tokens
                tokens = []
        if tokens:
            yield tokens

    def parsed(self, text: str) -> _Parser:
        table: Table | None = None
        for tokens in self.lines(text):
            head = tokens[0]
            if self.ended:
                self.fail(head, "one model is read, and it has ended; put each into a file of its own")
            if not head.word.startswith("."):
                if table is None:
                    self.fail(head, f"a row belongs to a .names; got {head.word[:40]!r}")
                self.row(table, tokens)
                continue
            table = None
            if head.word == ".names":
                table = self.names(tokens)
            elif head.word in (".model", ".inputs", ".outputs", ".latch", ".end"):
                getattr(self, f"read_{head.word[1:]}")(tokens)
            elif head.word in REFUSED:
                self.fail(head, REFUSED[head.word])
            elif head.word not in IGNORED:
                self.fail(head, f"{head.word[:40]!r} is no command that is read; expected .names, .latch, .inputs, …")
        return self

    def read_model(self, tokens: list[Token]) -> None:
        if self.name:
            self.fail(tokens[0], f"one model is read, and it is {self.name!r}; put each into a file of its own")
        self.name = tokens[1].word if len(tokens) > 1 else "circuit"

    def read_end(self, tokens: list[Token]) -> None:
        self.ended = True

    def define(self, token: Token) -> None:
        if token.word in self.defined:
            first = self.defined[token.word].line
            self.fail(token, f"{token.word!r} is defined twice; first on line {first}")
        self.defined[token.word] = token

    def read_inputs(self, tokens: list[Token]) -> None:
        CIRCUIT["inputs"].check(len(self.inputs) + len(tokens) - 1, self.source)
        for token in tokens[1:]:
            self.define(token)
        self.inputs += tokens[1:]

    def read_outputs(self, tokens: list[Token]) -> None:
        CIRCUIT["outputs"].check(len(self.outputs) + len(tokens) - 1, self.source)
        self.outputs += tokens[1:]

    def read_latch(self, tokens: list[Token]) -> None:
        words = tokens[1:]
        reset = words.pop() if len(words) in (3, 5) else None
        if len(words) not in (2, 4):
            self.fail(tokens[0], "a latch is '.latch next state', then its kind and clock, then what it begins with")
        if len(words) == 4 and words[2].word not in LATCH_KINDS:
            self.fail(words[2], f"a latch is of the kind {', '.join(LATCH_KINDS)}; got {words[2].word[:40]!r}")
        if reset is not None and reset.word not in RESETS:
            self.fail(reset, f"a latch begins with 0, 1, 2 (either) or 3 (unknown); got {reset.word[:40]!r}")
        self.define(words[1])
        self.latches.append((words[0], words[1], None if reset is None else RESETS[reset.word]))
        CIRCUIT["latches"].check(len(self.latches), self.source)

    def names(self, tokens: list[Token]) -> Table:
        if len(tokens) < 2:
            self.fail(tokens[0], ".names lists the signals that are read, and then the one that is defined")
        *reads, target = tokens[1:]
        self.define(target)
        self.words += len(tokens)
        CIRCUIT["words in tables"].check(self.words, self.source)
        self.tables.append(Table(reads, target, [], []))
        return self.tables[-1]

    def row(self, table: Table, tokens: list[Token]) -> None:
        width = len(table.reads)
        if len(tokens) != (2 if width else 1):
            what = f"{counted(width, 'input')}, a space and 0 or 1" if width else "0 or 1 alone, for it reads nothing"
            self.fail(tokens[0], f"a row of {table.target.word!r} has {what}; got {counted(len(tokens), 'word')}")
        value, cube = tokens[-1], tokens[0].word if width else ""
        if len(cube) != width or set(cube) - set("01-"):
            self.fail(tokens[0], f"a row of {table.target.word!r} has {width} of 0, 1 and -; got {cube[:40]!r}")
        if value.word not in ("0", "1"):
            self.fail(value, f"a row ends with 0 or 1 (a don't-care output is refused); got {value.word[:40]!r}")
        if table.values and table.values[0] != value.word:
            self.fail(value, f"rows of {table.target.word!r} say where it is 1, or all where it is 0; not both")
        self.literals += len(cube) - cube.count("-")
        CIRCUIT["gates"].check(max(self.literals, len(table.rows)), self.source)
        table.rows.append(cube)
        table.values.append(value.word)

    def circuit(self) -> Circuit | Sequential:
        """What was read, as gates."""
        if not self.outputs:
            raise KroghError(f"{self.source}: no outputs; add a line such as '.outputs y'")
        finals = [*self.outputs, *(following for following, _, _ in self.latches)]
        reads = (token for table in self.tables for token in table.reads)
        for token in (*finals, *reads):
            if token.word not in self.defined:
                self.fail(token, f"the signal {token.word!r} is not defined (by .names, .latch or .inputs)")
        sources = [*self.inputs, *(state for _, state, _ in self.latches)]
        build = _Gates([token.word for token in sources])
        for table in self._in_order():
            build.table(table)
        names, taken = list[str](), {token.word for token in self.outputs}
        seen: set[str] = set()
        for place, token in enumerate(self.outputs):  # one that is listed twice has a number the second time
            names.append(token.word if token.word not in seen else free_name(f"{token.word}_{place}", taken))
            seen.add(token.word)
        names += [free_name(f"{state.word}'", taken) for _, state, _ in self.latches]
        found = Circuit(
            self.name or name_of_source(self.source),
            len(sources),
            build.kinds,
            build.parents,
            tuple(build.node[token.word] for token in finals),
            tuple(token.word for token in sources),
            tuple(names),
            tuple(build.names) if len(set(build.names)) == len(build.names) else (),
        )
        return Sequential(found, tuple(reset for _, _, reset in self.latches)) if self.latches else found

    def _in_order(self) -> list[Table]:
        """The tables, each after those that it reads."""
        number = {table.target.word: place for place, table in enumerate(self.tables)}
        order: list[Table] = []
        state = [0] * len(self.tables)  # 0 not begun, 1 begun, 2 done
        for root in range(len(self.tables)):
            stack = [] if state[root] else [(root, iter(self.tables[root].reads))]
            state[root] = state[root] or 1
            while stack:
                place, left = stack[-1]
                following = next((number[token.word] for token in left if token.word in number), None)
                if following is None:
                    state[place] = 2
                    order.append(self.tables[place])
                    stack.pop()
                elif state[following] == 1:
                    path = [one for one, _ in stack]
                    cycle = [self.tables[one].target for one in path[path.index(following) :]]
                    self.fail(cycle[0], f"the circuit is cyclic: {chain_of([token.word for token in cycle])}")
                elif not state[following]:
                    state[following] = 1
                    stack.append((following, iter(self.tables[following].reads)))
        return order


class _Gates:
    """Gates of tables, on named sources; a negation is shared by all that read it."""

    def __init__(self, sources: list[str]):
        self.node = {name: place for place, name in enumerate(sources)}
        self.first = len(sources)
        self.kinds: list[int] = []
        self.parents: list[tuple[int, int]] = []
        self.names: list[str] = []  # a table's last gate has its signal's name, the others that name and a number
        self.negated: dict[int, int] = {FALSE: TRUE, TRUE: FALSE}

    def gate(self, kind: Gate, first: int, second: int) -> int:
        self.kinds.append(kind.value)
        self.parents.append((first, second))
        return self.first + len(self.kinds) - 1

    def negation(self, node: int) -> int:
        if node not in self.negated:
            self.negated[node] = self.gate(Gate.NOT, node, node)
        return self.negated[node]

    def tree(self, kind: Gate, nodes: list[int]) -> int:
        while len(nodes) > 1:
            pairs = [self.gate(kind, nodes[at], nodes[at + 1]) for at in range(0, len(nodes) - 1, 2)]
            nodes = pairs + nodes[2 * len(pairs) :]
        return nodes[0]

    def table(self, table: Table) -> None:
        reads = [self.node[token.word] for token in table.reads]
        begun, terms = len(self.kinds), []
        always = "-" * len(reads) in table.rows  # then no other row matters
        for row in table.rows if not always else ():
            literals = [
                node if bit == "1" else self.negation(node) for node, bit in zip(reads, row, strict=True) if bit != "-"
            ]
            terms.append(self.tree(Gate.AND, literals))
        found = TRUE if always else self.tree(Gate.OR, terms) if terms else FALSE
        found = self.negation(found) if table.values[:1] == ["0"] else found
        self.node[table.target.word] = found
        self.names += [f"{table.target.word}~{place}" for place in range(len(self.kinds) - begun)]
        if found >= self.first + begun:
            self.names[found - self.first] = table.target.word
