"""Machine files: the YAML of turingmachine.io, as source code or as a whole document of that site.

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

from collections.abc import Mapping, Sequence
from pathlib import Path

import yaml

from krogh.errors import KroghError, require
from krogh.tasks.machines.building import MISSING, build_machine, gaps_of, missing_message
from krogh.tasks.machines.machine import TAPES, Machine
from krogh.tasks.machines.table_reading import Rows, read_table
from krogh.tasks.machines.yaml_nodes import Field, Source, inner_source, is_nothing, no_such

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
