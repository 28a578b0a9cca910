"""Writing machines as the YAML of turingmachine.io; reading it back gives an equal machine.

YAML with places: every error names the file, the line and the column.

Scalars are taken as they are written, so that `0`, `1` and `0110` are texts and not numbers.

The table of a machine file: rows of states, lists of symbols, instructions and their shorthand.

    state:
      symbol: R                     move right; same symbol, same state
      [0, 1]: L                     for each symbol of a list
      symbol: {R: q}                go to state q
      symbol: {write: 1, L: q}      write a symbol, too
      symbol: {write: 1, L}         same state
      symbol: synonym               an instruction from `synonyms`
    state:                          no instructions: the machine halts

`N` in place of `L` and `R` keeps the head where it is.

From rows of instructions to a machine: moves that stay, missing transitions, accept and reject states.

A move N that keeps the head becomes two steps: right into an added state, and back left from there whatever the symbol
is. A missing transition goes, with one step to the right, to an added halting state (`missing: halt`, which is what
turingmachine.io does) or to a reject state (`missing: reject`).

Machine files: the YAML of turingmachine.io, as source code or as a whole document of that site.

    input: '1011'               what is on the tape when nothing else is given (may be left out)
    blank: ' '                  the symbol of empty cells
    start state: right
    synonyms: {accept: {R: accept}}
    table: {...}                rows of states (`table_reading.py`)

Fields of this package, which the site ignores:

    name: binary increment
    accept: q3                  accept states, one or a list, where names do not say it; likewise `reject`
    tape: one-way               the head must not leave cell 0 to the left (default: two-way)
    missing: halt               what a missing transition means: refuse (default), halt or reject
    alphabet: [' ', 0, 1]       symbols that the table does not name, and their order
    examples: [...]             inputs with their results (`examples.py`)

A whole document has the fields `name`, `source code`, `positions` and `editor contents`.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import yaml

from krogh.errors import KroghError, require
from krogh.programs.machines.machine import TAPES, Machine

NULL = "tag:yaml.org,2002:null"
MERGE = "tag:yaml.org,2002:merge"


class Field(NamedTuple):
    """A field of a mapping: its key and its value, which know their places."""

    key: yaml.Node
    value: yaml.Node


class Source(NamedTuple):
    """Where a text comes from. A text inside another begins on line `lines` and column `columns` of it, from 0."""

    name: str
    lines: int = 0
    columns: int = 0

    def error(self, where: yaml.Node | yaml.Mark, message: str) -> KroghError:
        """An error at a node or a mark."""
        mark = where.start_mark if isinstance(where, yaml.Node) else where
        line, column = mark.line + self.lines + 1, mark.column + self.columns + 1
        return KroghError(f"{self.name}, line {line}, column {column}: {message}")

    def compose(self, text: str) -> yaml.Node | None:
        """The node graph of a text; None where it is empty."""
        try:
            return yaml.compose(text, Loader=yaml.SafeLoader)
        except yaml.MarkedYAMLError as error:
            mark = error.problem_mark or error.context_mark or yaml.Mark(self.name, 0, 0, 0, None, 0)
            reason = "; ".join(part for part in (error.context, error.problem) if part)
            raise self.error(mark, f"this is not YAML: {reason}") from None
        except yaml.reader.ReaderError as error:
            before = text[: error.position].split("\n")
            mark = yaml.Mark(self.name, 0, len(before) - 1, len(before[-1]), None, 0)
            raise self.error(mark, f"the character {text[error.position]!r} is not allowed in YAML") from None
        except RecursionError:
            raise KroghError(f"{self.name}: this YAML is nested too deep for a machine") from None

    def text(self, node: yaml.Node, what: str) -> str:
        """A scalar as it is written; not empty."""
        if not isinstance(node, yaml.ScalarNode):
            raise self.error(node, f"{what} is a single word or text, not a {kind_of(node)}")
        if not node.value:
            raise self.error(node, f"{what} is missing here")
        return str(node.value)

    def texts(self, node: yaml.Node, what: str) -> list[tuple[str, yaml.Node]]:
        """One text or a list of texts, each with its node."""
        entries: Sequence[yaml.Node] = node.value if isinstance(node, yaml.SequenceNode) else [node]
        return [(self.text(entry, what), entry) for entry in entries]

    def pairs(self, node: yaml.Node, what: str) -> list[Field]:
        """The keys and values of a mapping in the order written, those of a merged mapping (`<<`) last."""
        if not isinstance(node, yaml.MappingNode):
            raise self.error(node, f"{what} is a mapping (`key: value`), not a {kind_of(node)}")
        pairs: list[Field] = []
        merged: list[yaml.Node] = []
        for key, value in node.value:
            if key.tag == MERGE:
                merged.extend(value.value if isinstance(value, yaml.SequenceNode) else [value])
            else:
                pairs.append(Field(key, value))
        written = {name_of(pair.key) for pair in pairs}
        for base in merged:
            if base is node or not isinstance(base, yaml.MappingNode) or any(key.tag == MERGE for key, _ in base.value):
                raise self.error(base, f"`<<` in {what} takes a mapping without a `<<` of its own")
            pairs.extend(Field(key, value) for key, value in base.value if name_of(key) not in written)
        return pairs

    def fields(self, node: yaml.Node, what: str, known: Iterable[str] | None = None) -> dict[str, Field]:
        """A mapping by the names of its keys; a name twice and a name that is not `known` are errors."""
        allowed = None if known is None else list(known)
        found: dict[str, Field] = {}
        for key, value in self.pairs(node, what):
            name = self.text(key, f"a key of {what}")
            if name in found:
                first = found[name].key.start_mark.line + self.lines + 1
                raise self.error(key, f"{name!r} stands twice in {what}, first on line {first}")
            if allowed is not None and name not in allowed:
                raise self.error(key, no_such(f"{what} has no field", name, allowed))
            found[name] = Field(key, value)
        return found


def no_such(says: str, name: str, allowed: Sequence[str]) -> str:
    """What is unknown, the nearest that is known, and all of them."""
    near = difflib.get_close_matches(name, allowed, n=1, cutoff=0.5)
    hint = f"; did you mean {near[0]!r}?" if near else ""
    shown = [*allowed[:20], "…"] if len(allowed) > 20 else allowed
    return f"{says} {name!r}{hint} (known: {', '.join(shown)})"


def is_nothing(node: yaml.Node) -> bool:
    """Whether a value is left out: nothing, `~` or `null`."""
    return isinstance(node, yaml.ScalarNode) and node.tag == NULL


def kind_of(node: yaml.Node) -> str:
    """What a node is, in words."""
    if isinstance(node, yaml.ScalarNode):
        return f"text ({node.value!r})" if node.value else "empty value"
    return "list" if isinstance(node, yaml.SequenceNode) else "mapping"


def name_of(node: yaml.Node) -> object:
    """What makes two keys the same."""
    return node.value if isinstance(node, yaml.ScalarNode) else id(node)


def inner_source(outer: Source, node: yaml.Node, text: str) -> Source:
    """Where a text inside `text` begins. Only a literal block (`|`) keeps its lines; of others the name says it."""
    if not isinstance(node, yaml.ScalarNode) or node.style != "|":
        return Source(f"{outer.name} (within its source code)")
    begins = node.start_mark.line + 1
    lines = text.splitlines()[begins:]
    indents = [
        len(line) - len(inner) for line, inner in zip(lines, node.value.splitlines(), strict=False) if inner.strip()
    ]
    return Source(outer.name, begins, indents[0] if indents else 0)


MOVES = {"L": -1, "N": 0, "R": +1}
INSTRUCTIONS = "an instruction is L, R, N, a synonym, or a mapping such as {write: 1, R: state}"


class Instruction(NamedTuple):
    """What to do: `write` None writes the symbol that was read, `state` None stays in the state."""

    write: str | None
    move: int
    state: str | None


Rows = dict[str, dict[str, Instruction]]
"""state → symbol → instruction, in the order written; halting states have an empty row."""


def read_table(source: Source, table: yaml.Node, synonyms: yaml.Node | None) -> Rows:
    """All rows of a table; targets must be states of it."""
    rows = source.fields(table, "the table")
    if not rows:
        raise source.error(table, "the table is empty: list every state, halting states with nothing after the colon")
    states = list(rows)
    known = _read_synonyms(source, synonyms, states)
    return {state: _read_row(source, state, row.value, known, states) for state, row in rows.items()}


def _read_synonyms(source: Source, node: yaml.Node | None, states: list[str]) -> dict[str, Instruction]:
    if node is None or is_nothing(node):
        return {}
    synonyms = source.fields(node, "synonyms")
    for name, field in synonyms.items():
        if name in MOVES:
            raise source.error(field.key, f"the synonym {name!r} would hide the move {name!r}: take another name")
    # A synonym cannot be defined by another one, so none are known here.
    return {name: read_instruction(source, field.value, {}, states) for name, field in synonyms.items()}


def _read_row(
    source: Source, state: str, row: yaml.Node, synonyms: dict[str, Instruction], states: list[str]
) -> dict[str, Instruction]:
    if is_nothing(row):
        return {}
    read: dict[str, Instruction] = {}
    lines: dict[str, int] = {}
    for field in source.pairs(row, f"the row of state {state!r}"):
        instruction = read_instruction(source, field.value, synonyms, states)
        for symbol, node in _symbols_of(source, field):
            if symbol in read:
                raise source.error(
                    node, f"state {state!r} has two instructions for symbol {symbol!r}, first on line {lines[symbol]}"
                )
            read[symbol], lines[symbol] = instruction, node.start_mark.line + source.lines + 1
    return read


def _symbols_of(source: Source, field: Field) -> Iterator[tuple[str, yaml.Node]]:
    """The symbols of a key: one, a list, or text with commas, which turingmachine.io reads as a list."""
    for text, node in source.texts(field.key, "a symbol"):
        listed = text.split(",") if len(text) > 1 and not isinstance(field.key, yaml.SequenceNode) else [text]
        if not all(listed):
            raise source.error(node, f"the key {text!r} reads as a list of symbols with an empty one; write [a, b]: …")
        yield from ((symbol, node) for symbol in listed)


def read_instruction(
    source: Source, node: yaml.Node, synonyms: dict[str, Instruction], states: list[str]
) -> Instruction:
    """An instruction, in full or short."""
    if isinstance(node, yaml.MappingNode):
        return _read_mapping(source, node, states)
    if not isinstance(node, yaml.ScalarNode):
        raise source.error(node, f"{INSTRUCTIONS}; got a {kind_of(node)}")
    word = str(node.value)
    if word in MOVES:
        return Instruction(None, MOVES[word], None)
    if word in synonyms:
        return synonyms[word]
    if not word:
        raise source.error(node, f"the instruction is missing; {INSTRUCTIONS}")
    raise source.error(node, no_such("unknown instruction", word, [*MOVES, *synonyms]) + f"; {INSTRUCTIONS}")


def _read_mapping(source: Source, node: yaml.Node, states: list[str]) -> Instruction:
    fields = source.fields(node, "an instruction", ("write", *MOVES))
    moves = [name for name in fields if name in MOVES]
    if len(moves) != 1:
        says = f"{' and '.join(moves)} at once" if moves else "none"
        raise source.error(node, f"an instruction has exactly one move, L, R or N; got {says}")
    write = source.text(fields["write"].value, "the symbol to write") if "write" in fields else None
    target = fields[moves[0]].value
    if is_nothing(target):
        return Instruction(write, MOVES[moves[0]], None)
    state = source.text(target, "the state to go to")
    if state not in states:
        says = no_such("no row of the table is the state", state, states)
        raise source.error(target, f"{says}. Add `{state}:` with nothing after the colon if the machine halts there")
    return Instruction(write, MOVES[moves[0]], state)


MISSING = ("refuse", "reject", "halt")
LISTED = 12
"""So many missing transitions are listed in an error."""
SAYS_ACCEPT = frozenset({"accept", "accepts", "accepted", "accepting", "acc", "yes", "true"})
SAYS_REJECT = frozenset({"reject", "rejects", "rejected", "rejecting", "rej", "no", "false"})


def says(name: str) -> str | None:
    """What the name of a halting state says: "accept", "reject" or nothing. Case, digits, marks and a q are ignored."""
    word = re.sub(r"[^a-z]", "", name.lower())
    words = {word, word.removeprefix("q"), word.removeprefix("state"), word.removesuffix("state")}
    if words & SAYS_ACCEPT:
        return "accept"
    return "reject" if words & SAYS_REJECT else None


def build_machine(
    rows: Rows,
    *,
    name: str,
    alphabet: Sequence[str],
    start: str,
    accept: Sequence[str] | None = None,
    reject: Sequence[str] | None = None,
    tape: str = "two-way",
    missing: str = "refuse",
    default_input: str | None = None,
) -> Machine:
    """A machine from rows; `accept` and `reject` None leave it to the names of the halting states."""
    rows = {state: dict(row) for state, row in rows.items()}
    halting = [state for state, row in rows.items() if not row]
    accepts = list(accept) if accept is not None else [state for state in halting if says(state) == "accept"]
    rejects = list(reject) if reject is not None else [state for state in halting if says(state) == "reject"]
    if accept is None:
        accepts = [state for state in accepts if state not in rejects]
    if reject is None:
        rejects = [state for state in rejects if state not in accepts]
    _stay(rows, alphabet)
    _complete(rows, alphabet, halting, accepts, rejects, missing, name)
    number = {state: place for place, state in enumerate(rows)}
    code = {symbol: place for place, symbol in enumerate(alphabet)}
    next_state, write = np.indices((len(rows), len(alphabet)))
    move = np.ones_like(next_state)
    for state, row in rows.items():
        for symbol, instruction in row.items():
            at = number[state], code[symbol]
            next_state[at] = number[state if instruction.state is None else instruction.state]
            write[at] = code[symbol if instruction.write is None else instruction.write]
            move[at] = instruction.move
    return Machine(
        name=name,
        states=tuple(rows),
        alphabet=tuple(alphabet),
        start=number[start],
        next_state=next_state,
        write=write,
        move=move,
        accept=tuple(number[state] for state in accepts),
        reject=tuple(number[state] for state in rejects),
        halting=tuple(number[state] for state in halting),
        tape=tape,
        default_input=default_input,
    )


def new_name(wanted: str, taken: Rows) -> str:
    """A name that no state has."""
    name, count = wanted, 2
    while name in taken:
        name, count = f"{wanted} {count}", count + 1
    return name


def _stay(rows: Rows, alphabet: Sequence[str]) -> None:
    """Replace moves that stay: one added state per target steps back."""
    back: dict[str, str] = {}
    for state in list(rows):
        for symbol, instruction in rows[state].items():
            if instruction.move == 0:
                target = state if instruction.state is None else instruction.state
                if target not in back:
                    back[target] = new_name(f"{target} (back)", rows)
                    rows[back[target]] = dict.fromkeys(alphabet, Instruction(None, -1, target))
                rows[state][symbol] = Instruction(instruction.write, +1, back[target])


def _complete(
    rows: Rows,
    alphabet: Sequence[str],
    halting: list[str],
    accepts: list[str],
    rejects: list[str],
    missing: str,
    name: str,
) -> None:
    """Give every missing pair of state and symbol a transition, or refuse."""
    gaps = gaps_of(rows, alphabet)
    if not gaps:
        return
    require(missing != "refuse", f"{name}: {missing_message(gaps)}")
    undecided = [state for state in halting if state not in accepts and state not in rejects]
    candidates = rejects if missing == "reject" else [state for state in undecided if state == "halt"]
    if candidates:
        target = candidates[0]
    else:
        target = new_name(missing, rows)
        rows[target] = {}
        halting.append(target)
        if missing == "reject":
            rejects.append(target)
    for state, symbol in gaps:
        rows[state][symbol] = Instruction(None, +1, target)


def gaps_of(rows: Rows, alphabet: Sequence[str]) -> list[tuple[str, str]]:
    """The pairs of state and symbol without a transition, in states that do not halt."""
    return [(state, symbol) for state, row in rows.items() if row for symbol in alphabet if symbol not in row]


def missing_message(gaps: Sequence[tuple[str, str]]) -> str:
    """What is missing, and what to do."""
    shown = ", ".join(f"({state}, {symbol!r})" for state, symbol in gaps[:LISTED])
    more = f" and {len(gaps) - LISTED} more" if len(gaps) > LISTED else ""
    count = "1 transition is" if len(gaps) == 1 else f"{len(gaps)} transitions are"
    return (
        f"{count} missing, (state, symbol): {shown}{more}. Add them to the table, or say what the machine does there: "
        "`missing: halt` halts without a decision (as on turingmachine.io), `missing: reject` rejects"
    )


NEEDED = ("blank", "start state", "table")
FIELDS = ("name", "input", *NEEDED, "synonyms", "accept", "reject", "tape", "missing", "alphabet", "examples")
DOCUMENT = ("name", "source code", "positions", "editor contents")
LARGEST_FILE = 10_000_000
"""Characters. Machines of thousands of states have files of a few hundred thousand."""


def parse_machine(text: str, source: str = "<text>", missing: str | None = None) -> Machine:
    """A machine from YAML. `missing` ("refuse", "reject" or "halt") stands above the field of the same name."""
    allowed = ", ".join(repr(choice) for choice in MISSING)
    require(missing is None or missing in MISSING, f"missing must be one of {allowed}; got missing={missing!r}")
    where, fields, name = machine_fields(text, source)
    rows = read_table(where, fields["table"].value, _value(fields, "synonyms"))
    alphabet = _alphabet(where, fields, rows)
    start = _listed(where, fields, "start state", list(rows), "no row of the table is the state")
    halting = [state for state, row in rows.items() if not row]
    decided = {kind: _deciding(where, fields, kind, list(rows), halting) for kind in ("accept", "reject")}
    both = sorted(set(decided["accept"] or ()) & set(decided["reject"] or ()))
    if both:
        raise where.error(fields["reject"].value, f"the state {both[0]!r} cannot both accept and reject")
    meaning = missing or _missing(where, fields)
    gaps = gaps_of(rows, alphabet)
    if gaps and meaning == "refuse":
        state = where.fields(fields["table"].value, "the table")[gaps[0][0]]
        raise where.error(state.key, missing_message(gaps))
    machine = build_machine(
        rows,
        name=_value_text(where, fields, "name") or name or Path(source).stem,
        alphabet=alphabet,
        start=start,
        accept=decided["accept"],
        reject=decided["reject"],
        tape=_listed(where, fields, "tape", TAPES, "unknown tape") if "tape" in fields else "two-way",
        missing=meaning,
    )
    return _with_input(where, fields, machine)


def read_machine(path: Path, missing: str | None = None) -> Machine:
    """A machine from a file."""
    return parse_machine(read_text(path), str(path), missing)


def read_text(path: Path) -> str:
    """The text of a machine file."""
    require(path.is_file(), f"no file {str(path)!r} with a machine")
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise KroghError(f"{str(path)!r} cannot be read as text: {error}") from None
    require(
        len(text) <= LARGEST_FILE, f"{str(path)!r} has {len(text)} characters; a machine has at most {LARGEST_FILE}"
    )
    return text


def machine_fields(text: str, source: str) -> tuple[Source, dict[str, Field], str | None]:
    """The fields of a machine, where they stand, and the name of the document around them."""
    where = Source(source)
    top = _mapping(where, where.compose(text))
    if not any(isinstance(key, yaml.ScalarNode) and key.value == "source code" for key, _ in top.value):
        return where, _known(where, top), None
    document = where.fields(top, "a document of turingmachine.io", DOCUMENT)
    code = document["source code"].value
    inside = where.text(code, "the source code")
    name = _value_text(where, document, "name")
    within = inner_source(where, code, text)
    return within, _known(within, _mapping(within, within.compose(inside))), name


def _mapping(where: Source, node: yaml.Node | None) -> yaml.MappingNode:
    if node is None or is_nothing(node):
        raise KroghError(f"{where.name} is empty: a machine needs the fields {', '.join(NEEDED)}")
    if not isinstance(node, yaml.MappingNode):
        raise where.error(node, f"a machine is a mapping with the fields {', '.join(NEEDED)}")
    return node


def _known(where: Source, node: yaml.MappingNode) -> dict[str, Field]:
    fields = where.fields(node, "a machine", FIELDS)
    examples = {"blank": "blank: ' '", "start state": "start state: q0", "table": "table: …"}
    for name in NEEDED:
        if name not in fields:
            raise where.error(node, f"the field {name!r} is missing, as in `{examples[name]}`")
    return fields


def _value(fields: Mapping[str, Field], name: str) -> yaml.Node | None:
    return fields[name].value if name in fields else None


def _value_text(where: Source, fields: Mapping[str, Field], name: str) -> str | None:
    node = _value(fields, name)
    return None if node is None or is_nothing(node) else where.text(node, f"the field {name!r}")


def _listed(where: Source, fields: Mapping[str, Field], name: str, allowed: Sequence[str], says: str) -> str:
    node = fields[name].value
    word = where.text(node, f"the field {name!r}")
    if word not in allowed:
        raise where.error(node, no_such(says, word, allowed))
    return word


def _missing(where: Source, fields: Mapping[str, Field]) -> str:
    return _listed(where, fields, "missing", MISSING, "unknown meaning") if "missing" in fields else "refuse"


def _alphabet(where: Source, fields: Mapping[str, Field], rows: Rows) -> list[str]:
    """The blank, the symbols of the field `alphabet`, and those of the table in the order they are met."""
    blank = where.text(fields["blank"].value, "the blank symbol (as in `blank: ' '`)")
    symbols = [blank]
    if "alphabet" in fields:
        symbols += [symbol for symbol, _ in where.texts(fields["alphabet"].value, "a symbol")]
    for row in rows.values():
        symbols += row
        symbols += [instruction.write for instruction in row.values() if instruction.write is not None]
    return list(dict.fromkeys(symbols))


def _deciding(
    where: Source, fields: Mapping[str, Field], kind: str, states: list[str], halting: list[str]
) -> list[str] | None:
    """The states that a field `accept` or `reject` names; None where the field is not there."""
    node = _value(fields, kind)
    if node is None or is_nothing(node):
        return None
    named = where.texts(node, f"a state that {kind}s")
    for state, place in named:
        if state not in states:
            raise where.error(place, no_such("no row of the table is the state", state, states))
        if state not in halting:
            raise where.error(
                place, f"the state {state!r} has instructions, so the machine does not halt there and cannot {kind}"
            )
    return [state for state, _ in named]


def _with_input(where: Source, fields: Mapping[str, Field], machine: Machine) -> Machine:
    """The machine with the input of the file, which may be a text or a list of symbols."""
    node = _value(fields, "input")
    if node is None or is_nothing(node):
        return machine
    if isinstance(node, yaml.SequenceNode):
        text = "".join(symbol for symbol, _ in where.texts(node, "a symbol"))
    elif isinstance(node, yaml.ScalarNode):
        text = str(node.value)
    else:
        raise where.error(node, "the input is a text or a list of symbols")
    try:
        numbers = machine.encode(text)
    except KroghError as error:
        raise where.error(node, f"{error}, or list it in the field `alphabet`") from None
    if isinstance(node, yaml.SequenceNode) and len(numbers) != len(node.value):
        raise where.error(node, f"as a text this input, {text!r}, reads as other symbols; rename the longer ones")
    return machine.with_input(text)


PLAIN = re.compile(r"[0-9]|[A-Za-z][A-Za-z0-9_]*")
# Words that readers of YAML may take for something else than a text.
SPECIAL = frozenset({"y", "n", "yes", "no", "on", "off", "true", "false", "null"})
LONGEST_KEY = 600
"""Characters of symbols in one list; YAML allows keys of 1,024."""


def write_machine(machine: Machine) -> str:
    """The machine as YAML: equal instructions share a list of symbols, and what stays the same is left out."""
    table = "\n".join(_table(machine))
    bare = "\n".join([*_head(machine.with_input(None)), table])
    # Symbols are numbered in the order they are met; a field gives the order where the table does not.
    given = parse_machine(bare, "<written>").alphabet == machine.alphabet
    order = [] if given else [f"alphabet: {listing(machine.alphabet)}"]
    return "\n".join([*_head(machine), *order, table, ""])


def _head(machine: Machine) -> Iterator[str]:
    yield f"name: {scalar(machine.name)}"
    if machine.default_input is not None:
        yield f"input: {quoted(machine.default_input)}"
    yield f"blank: {scalar(machine.blank)}"
    yield f"start state: {scalar(machine.states[machine.start])}"
    for kind, numbers in (("accept", machine.accept), ("reject", machine.reject)):
        states = [machine.states[number] for number in numbers]
        if states != [machine.states[number] for number in machine.halting if says(machine.states[number]) == kind]:
            yield f"{kind}: {listing(states)}"
    if machine.tape == "one-way":
        yield "tape: one-way"


def _table(machine: Machine) -> Iterator[str]:
    yield "table:"
    for state, name in enumerate(machine.states):
        yield f"  {scalar(name)}:"
        if state not in machine.halting:
            for instruction, symbols in _row(machine, state).items():
                yield from (f"    {key}: {instruction}" for key in _keys(symbols))


def _row(machine: Machine, state: int) -> dict[str, list[str]]:
    """The symbols of each instruction of a state, in the order of the alphabet."""
    row: dict[str, list[str]] = {}
    for symbol, read in enumerate(machine.alphabet):
        target, written = int(machine.next_state[state, symbol]), int(machine.write[state, symbol])
        move = "R" if machine.move[state, symbol] > 0 else "L"
        step = move if target == state else f"{move}: {scalar(machine.states[target])}"
        if written != symbol:
            instruction = f"{{write: {scalar(machine.alphabet[written])}, {step}}}"
        else:
            instruction = step if target == state else f"{{{step}}}"
        row.setdefault(instruction, []).append(read)
    return row


def _keys(symbols: list[str]) -> Iterator[str]:
    """A symbol, or lists of symbols that are not too long for a key."""
    if len(symbols) == 1:
        # A comma in a longer text would read as a list.
        yield scalar(symbols[0]) if "," not in symbols[0][1:] + symbols[0][:-1] else listing(symbols)
        return
    taken: list[str] = []
    for symbol in symbols:
        if taken and len(listing([*taken, symbol])) > LONGEST_KEY:
            yield listing(taken)
            taken = []
        taken.append(symbol)
    yield listing(taken)


def scalar(text: str) -> str:
    """A text as YAML: plain where that is safe, else in quotes."""
    return text if PLAIN.fullmatch(text) and text.lower() not in SPECIAL else quoted(text)


def quoted(text: str) -> str:
    """A text in quotes, with escapes where a character cannot be printed."""
    if text.isprintable():
        return "'" + text.replace("'", "''") + "'"
    return '"' + "".join(_escaped(character) for character in text) + '"'


def _escaped(character: str) -> str:
    return character if " " <= character <= "~" and character not in '"\\' else f"\\U{ord(character):08x}"


def listing(texts: Iterable[str]) -> str:
    """A list on one line."""
    return "[" + ", ".join(map(scalar, texts)) + "]"
