"""Machine files: the YAML of turingmachine.io, as source code or as a whole document of that site.

    input: '1011'               what is on the tape when nothing else is given (may be left out)
    blank: ' '                  the symbol of empty cells
    start state: right
    synonyms: {accept: {R: accept}}
    table: {...}                a row for each state, see below

Fields of this package, which the site ignores:

    name: binary increment
    accept: q3                  accept states, one or a list, where names do not say it; likewise `reject`
    tape: one-way               the head must not leave cell 0 to the left (default: two-way)
    missing: reject             what a missing transition means: halt (default), reject or error
    alphabet: [' ', 0, 1]       symbols that the table does not name, and their order
    examples:                   inputs with what the machine makes of them
      - {input: '101', result: accept, steps: 4}
      - {input: '1011', result: halt, tape: '1100', steps: 8}

The `result` of an example is accept, reject or halt (without a decision). `tape` is what stands on it in the end, from
the first to the last symbol that is not blank, and `steps` the exact number of steps; both may be left out. A whole
document has the fields `name`, `source code`, `positions` and `editor contents`. The rows of a table:

    state:
      symbol: R                     move right; same symbol, same state
      [0, 1]: L                     for each symbol of a list
      symbol: {R: q}                go to state q
      symbol: {write: 1, L: q}      write a symbol, too
      symbol: {write: 1, L}         same state
      symbol: synonym               an instruction from `synonyms`
    state:                          no instructions: the machine halts

`N` in place of `L` and `R` keeps the head where it is, and becomes two steps: right into an added state, and back left
from there whatever the symbol is. Where there is no instruction for a state and a symbol the machine halts as it
stands, in that state, on that cell and after as many steps as it has taken, as on turingmachine.io (`missing: halt`);
or it goes with one more step to a reject state (`missing: reject`); or the file is refused (`missing: error`). A symbol
of the input, the file's own or one of `--input`, that the table does not name is one without instructions.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import yaml

from krogh.errors import KroghError, require
from krogh.programs import budgets
from krogh.programs.machines.machine import TAPES, Machine
from krogh.programs.reading import Field, Source, is_nothing, kind_of, no_such, printable, shortened

NEEDED = {"blank": "blank: ' '", "start state": "start state: q0", "table": "table: …"}
FIELDS = ("name", "input", *NEEDED, "synonyms", "accept", "reject", "tape", "missing", "alphabet", "examples")
DOCUMENT = ("name", "source code", "positions", "editor contents")
MISSING = ("halt", "reject", "error")
LONGEST_NUMBER = 18
LISTED = 12
"""So many missing transitions are listed in an error."""
MOVES = {"L": -1, "N": 0, "R": +1}
INSTRUCTIONS = "an instruction is L, R, N, a synonym, or a mapping such as {write: 1, R: state}"
SAYS_ACCEPT = frozenset({"accept", "accepts", "accepted", "accepting", "acc", "yes", "true"})
SAYS_REJECT = frozenset({"reject", "rejects", "rejected", "rejecting", "rej", "no", "false"})
RESULTS = ("accept", "reject", "halt")
PLAIN_HALT = re.compile(r"halt(?: \d+)?")
"""Names of halting states that missing transitions may lead to."""


class Example(NamedTuple):
    """An input, what the machine decides on it, what it leaves on the tape and how many steps it takes."""

    word: str
    result: str
    output: str | None = None
    steps: int | None = None


class MachineFile(NamedTuple):
    """What a file holds: a machine, examples, and the sentence that its comments begin with."""

    machine: Machine
    examples: tuple[Example, ...]
    summary: str


class Instruction(NamedTuple):
    """What to do: `write` None writes the symbol that was read, `state` None stays in the state."""

    write: str | None
    move: int
    state: str | None


Rows = dict[str, dict[str, Instruction]]
"""state → symbol → instruction, in the order written; halting states have an empty row."""


class Described(NamedTuple):
    """A machine as its file describes it; `accept` and `reject` None leave it to the names of the halting states."""

    name: str
    alphabet: list[str]
    start: str
    rows: Rows
    accept: list[str] | None
    reject: list[str] | None
    tape: str
    missing: str


def parse_machine(text: str, source: str = "<text>", missing: str | None = None) -> Machine:
    """A machine from YAML. `missing` ("halt", "reject" or "error") stands above the field of the same name."""
    return parse_machine_file(text, source, missing).machine


def parse_machine_file(
    text: str, source: str = "<text>", missing: str | None = None, inputs: Sequence[str] = ()
) -> MachineFile:
    """All that a machine file holds; errors name `source`, line and column.

    Symbols of `inputs` that the table does not name are taken as those of the field `input`.
    """
    allowed = ", ".join(repr(choice) for choice in MISSING)
    require(missing is None or missing in MISSING, f"missing must be one of {allowed}; got missing={missing!r}")
    where, fields, name = _machine_fields(text, source)
    described = _described(where, fields, name or Path(source).stem, missing, inputs)
    machine = _with_input(where, fields, _built(described))
    return MachineFile(machine, _examples(where, fields), _summary(text))


def _machine_fields(text: str, source: str) -> tuple[Source, dict[str, Field], str | None]:
    """The fields of a machine, where they stand, and the name of the document around them."""
    where, name = Source(source), None
    top = _mapping(where, where.compose(text))
    if any(isinstance(key, yaml.ScalarNode) and key.value == "source code" for key, _ in top.value):
        document = where.fields(top, "a document of turingmachine.io", DOCUMENT)
        code = document["source code"].value
        inside = where.text(code, "the source code")
        name = _text(where, document, "name")
        where = where.within(code, text)
        top = _mapping(where, where.compose(inside))
    return where, where.fields(top, "a machine", FIELDS, NEEDED), name


def _mapping(where: Source, node: yaml.Node | None) -> yaml.MappingNode:
    if node is None or is_nothing(node):
        raise KroghError(f"{where.name} is empty: a machine needs the fields {', '.join(NEEDED)}")
    if not isinstance(node, yaml.MappingNode):
        raise where.error(node, f"a machine is a mapping with the fields {', '.join(NEEDED)}")
    return node


def _value(fields: Mapping[str, Field], name: str) -> yaml.Node | None:
    """The value of a field; None where it is not there or left empty."""
    return None if name not in fields or is_nothing(fields[name].value) else fields[name].value


def _text(where: Source, fields: Mapping[str, Field], name: str) -> str | None:
    node = _value(fields, name)
    return None if node is None else where.text(node, f"the field {name!r}")


def _described(
    where: Source, fields: Mapping[str, Field], name: str, missing: str | None, inputs: Sequence[str]
) -> Described:
    rows = _read_table(where, fields["table"].value, _value(fields, "synonyms"))

    def choice(field: str, allowed: Sequence[str], says: str) -> str:
        return where.one_of(fields[field].value, f"the field {field!r}", allowed, says)

    accept, reject = (_deciding(where, fields, kind, rows) for kind in ("accept", "reject"))
    both = sorted(set(accept or ()) & set(reject or ()))
    if both:
        raise where.error(fields["reject"].value, f"the state {both[0]!r} cannot both accept and reject")
    meant = missing or (choice("missing", MISSING, "unknown meaning") if "missing" in fields else MISSING[0])
    described = Described(
        name=_text(where, fields, "name") or name,
        alphabet=_alphabet(where, fields, rows, None if meant == "error" else inputs),
        start=choice("start state", list(rows), "no row of the table is the state"),
        rows=rows,
        accept=accept,
        reject=reject,
        tape=choice("tape", TAPES, "unknown tape") if "tape" in fields else "two-way",
        missing=meant,
    )
    budgets.PAIRS.check(len(rows) * len(described.alphabet), where.name)
    gaps = _gaps(rows, described.alphabet) if meant == "error" else []
    if gaps:
        state = where.fields(fields["table"].value, "the table")[gaps[0][0]]
        raise where.error(state.key, _missing_message(gaps))
    return described


def _read_table(source: Source, table: yaml.Node, synonyms: yaml.Node | None) -> Rows:
    """All rows of a table; targets must be states of it."""
    rows = source.fields(table, "the table")
    if not rows:
        raise source.error(table, "the table is empty: list every state, halting states with nothing after the colon")
    source.require_few_pairs(rows)
    known = _read_synonyms(source, synonyms, rows)
    return {state: _read_row(source, state, row.value, known, rows) for state, row in rows.items()}


def _read_synonyms(source: Source, node: yaml.Node | None, states: Mapping[str, Field]) -> dict[str, Instruction]:
    if node is None:
        return {}
    synonyms = source.fields(node, "synonyms")
    for name, field in synonyms.items():
        if name in MOVES:
            raise source.error(field.key, f"the synonym {name!r} would hide the move {name!r}: take another name")
    # A synonym cannot be defined by another one, so none are known here.
    return {name: _read_instruction(source, field.value, {}, states) for name, field in synonyms.items()}


def _read_row(
    source: Source, state: str, row: yaml.Node, synonyms: dict[str, Instruction], states: Mapping[str, Field]
) -> dict[str, Instruction]:
    if is_nothing(row):
        return {}
    read: dict[str, Instruction] = {}
    lines: dict[str, int] = {}
    for field in source.pairs(row, f"the row of state {shortened(state)!r}"):
        instruction = _read_instruction(source, field.value, synonyms, states)
        for symbol, node in _symbols_of(source, field):
            if symbol in read:
                twice = f"state {shortened(state)!r} has two instructions for symbol {shortened(symbol)!r}"
                raise source.error(node, f"{twice}, first on line {lines[symbol]}")
            read[symbol], lines[symbol] = instruction, source.line(node)
    return read


def _symbols_of(source: Source, field: Field) -> Iterator[tuple[str, yaml.Node]]:
    """The symbols of a key: one, a list, or text with commas, which turingmachine.io reads as a list."""
    for text, node in source.texts(field.key, "a symbol"):
        listed = text.split(",") if len(text) > 1 and not isinstance(field.key, yaml.SequenceNode) else [text]
        if not all(listed):
            raise source.error(
                node, f"the key {shortened(text)!r} reads as a list of symbols with an empty one; write [a, b]: …"
            )
        yield from ((symbol, node) for symbol in listed)


def _read_instruction(
    source: Source, node: yaml.Node, synonyms: dict[str, Instruction], states: Mapping[str, Field]
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


def _read_mapping(source: Source, node: yaml.Node, states: Mapping[str, Field]) -> Instruction:
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
        says = no_such("no row of the table is the state", state, list(states))
        raise source.error(
            target, f"{says}. Add `{printable(state)}:` with nothing after the colon if the machine halts there"
        )
    return Instruction(write, MOVES[moves[0]], state)


def _alphabet(where: Source, fields: Mapping[str, Field], rows: Rows, inputs: Sequence[str] | None) -> list[str]:
    """The blank, the symbols of the field `alphabet`, those of the table in the order they are met, and of the input.

    Where the input, or one of `inputs`, holds something else, its characters are symbols: the machine stops on them.
    With None they are not.
    """
    blank = where.text(fields["blank"].value, "the blank symbol (as in `blank: ' '`)")
    symbols = [blank]
    if "alphabet" in fields:
        symbols += [symbol for symbol, _ in where.texts(fields["alphabet"].value, "a symbol")]
    for row in rows.values():
        symbols += row
        symbols += [instruction.write for instruction in row.values() if instruction.write is not None]
    known = dict.fromkeys(symbols)
    if inputs is None:
        return list(known)
    node = _value(fields, "input")
    if isinstance(node, yaml.SequenceNode):
        known |= dict.fromkeys(symbol for symbol, _ in where.texts(node, "a symbol"))
    elif isinstance(node, yaml.ScalarNode):
        known |= dict.fromkeys(_unknown_characters(str(node.value), known))
    for word in inputs:
        known |= dict.fromkeys(_unknown_characters(word, known))
    return list(known)


def _unknown_characters(text: str, known: Collection[str]) -> Iterator[str]:
    """The characters of a text at which no known symbol begins, the longest symbols being taken first."""
    longest, place = max(map(len, known)), 0
    if longest == 1:
        yield from (letter for letter in dict.fromkeys(text) if letter not in known)
        return
    while place < len(text):
        size = next((n for n in range(longest, 0, -1) if text[place : place + n] in known), 0)
        if not size:
            yield text[place]
        place += size or 1


def _deciding(where: Source, fields: Mapping[str, Field], kind: str, rows: Rows) -> list[str] | None:
    """The states that a field `accept` or `reject` names; None where the field is not there."""
    node = _value(fields, kind)
    if node is None:
        return None
    named = where.texts(node, f"a state that {kind}s")
    for state, place in named:
        if state not in rows:
            raise where.error(place, no_such("no row of the table is the state", state, list(rows)))
        if rows[state]:
            raise where.error(
                place, f"the state {state!r} has instructions, so the machine does not halt there and cannot {kind}"
            )
    return [state for state, _ in named]


def _with_input(where: Source, fields: Mapping[str, Field], machine: Machine) -> Machine:
    """The machine with the input of the file, which may be a text or a list of symbols."""
    node = _value(fields, "input")
    if node is None:
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


def _examples(where: Source, fields: Mapping[str, Field]) -> tuple[Example, ...]:
    node = _value(fields, "examples")
    if node is None:
        return ()
    if not isinstance(node, yaml.SequenceNode):
        raise where.error(node, "examples are a list, as in `- {input: '101', result: accept}`")
    return tuple(_example(where, entry) for entry in node.value)


def _example(where: Source, entry: yaml.Node) -> Example:
    fields = where.fields(entry, "an example", ("input", "result", "tape", "steps"))
    for name in ("input", "result"):
        if name not in fields:
            raise where.error(entry, f"an example has the field {name!r}, as in `{{input: '101', result: accept}}`")
    result = where.one_of(fields["result"].value, "the result", RESULTS, "unknown result")
    steps = where.text(fields["steps"].value, "the number of steps") if "steps" in fields else None
    if steps is not None and not (steps.isdecimal() and len(steps) <= LONGEST_NUMBER):
        says = f"a whole number of at most {LONGEST_NUMBER} digits"
        raise where.error(fields["steps"].value, f"the number of steps is {says}; got {shortened(steps)!r}")
    output = _line(where, fields["tape"].value) if "tape" in fields else None
    return Example(_line(where, fields["input"].value), result, output, None if steps is None else int(steps))


def _line(where: Source, node: yaml.Node) -> str:
    """A text that may be empty."""
    if not isinstance(node, yaml.ScalarNode):
        raise where.error(node, "inputs and tapes are texts")
    return str(node.value)


def _summary(text: str) -> str:
    """The first sentence of the comments at the beginning of a file."""
    comments = itertools.takewhile(lambda line: line.startswith("#"), text.splitlines())
    return " ".join(line.lstrip("# ").rstrip() for line in comments).partition(". ")[0].rstrip(".")


def says(name: str) -> str | None:
    """What the name of a halting state says: "accept", "reject" or nothing. Case, digits, marks and a q are ignored."""
    word = re.sub(r"[^a-z]", "", name.lower())
    words = {word, word.removeprefix("q"), word.removeprefix("state"), word.removesuffix("state")}
    if words & SAYS_ACCEPT:
        return "accept"
    return "reject" if words & SAYS_REJECT else None


def _built(described: Described) -> Machine:
    """The machine with its table complete: moves that stay replaced, missing transitions filled in."""
    rows = {state: dict(row) for state, row in described.rows.items()}
    alphabet, halting = described.alphabet, [state for state, row in rows.items() if not row]
    accept, reject = described.accept, described.reject
    accepts = [state for state in halting if says(state) == "accept"] if accept is None else list(accept)
    rejects = [state for state in halting if says(state) == "reject"] if reject is None else list(reject)
    if accept is None:
        accepts = [state for state in accepts if state not in rejects]
    if reject is None:
        rejects = [state for state in rejects if state not in accepts]
    _replace_stays(rows, alphabet)
    gaps = _gaps(rows, alphabet)
    if gaps:
        undecided = [state for state in halting if PLAIN_HALT.fullmatch(state) and state not in (*accepts, *rejects)]
        candidates = rejects if described.missing == "reject" else undecided
        target = candidates[0] if candidates else _new_name(described.missing, rows)
        if not candidates:
            rows[target] = {}
            halting.append(target)
            if described.missing == "reject":
                rejects.append(target)
        for state, symbol in gaps:
            rows[state][symbol] = Instruction(None, +1, target)
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
        name=described.name,
        states=tuple(rows),
        alphabet=tuple(alphabet),
        start=number[described.start],
        next_state=next_state,
        write=write,
        move=move,
        accept=tuple(number[state] for state in accepts),
        reject=tuple(number[state] for state in rejects),
        halting=tuple(number[state] for state in halting),
        gaps=tuple((number[state], code[symbol]) for state, symbol in gaps if described.missing == "halt"),
        tape=described.tape,
    )


def _new_name(start: str, taken: Rows) -> str:
    """A name that no state has."""
    name, count = start, 2
    while name in taken:
        name, count = f"{start} {count}", count + 1
    return name


def _replace_stays(rows: Rows, alphabet: Sequence[str]) -> None:
    """Replace moves that stay: one added state per target steps back."""
    back: dict[str, str] = {}
    for state in list(rows):
        for symbol, instruction in rows[state].items():
            if instruction.move == 0:
                target = state if instruction.state is None else instruction.state
                if target not in back:
                    back[target] = _new_name(f"{target} (back)", rows)
                    rows[back[target]] = dict.fromkeys(alphabet, Instruction(None, -1, target))
                rows[state][symbol] = Instruction(instruction.write, +1, back[target])


def _gaps(rows: Rows, alphabet: Sequence[str]) -> list[tuple[str, str]]:
    """The pairs of state and symbol without a transition, in states that do not halt."""
    return [(state, symbol) for state, row in rows.items() if row for symbol in alphabet if symbol not in row]


def _missing_message(gaps: Sequence[tuple[str, str]]) -> str:
    """What is missing, and what to do."""
    shown = ", ".join(f"({printable(state)}, {shortened(symbol)!r})" for state, symbol in gaps[:LISTED])
    more = f" and {len(gaps) - LISTED} more" if len(gaps) > LISTED else ""
    count = "1 transition is" if len(gaps) == 1 else f"{len(gaps)} transitions are"
    return (
        f"{count} missing, (state, symbol): {shown}{more}. Add them to the table, or say what the machine does there: "
        "`missing: halt` or --missing halt stops without a decision (as on turingmachine.io), `missing: reject` rejects"
    )
