"""Machines written as the YAML of turingmachine.io; reading it back (`files.py`) gives an equal machine."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from krogh.programs.machines.files import parse_machine, says
from krogh.programs.machines.machine import Machine

PLAIN = re.compile(r"[0-9]|[A-Za-z][A-Za-z0-9_]*")
# Words that readers of YAML may take for something else than a text.
SPECIAL = frozenset({"y", "n", "yes", "no", "on", "off", "true", "false", "null"})
LONGEST_KEY = 600
"""Characters of symbols in one list; YAML allows keys of 1,024."""


def write_machine(machine: Machine) -> str:
    """The machine as YAML: equal instructions share a list of symbols, and what stays the same is left out.

    Gaps are left out too: the machine halts there. They must lead to a state named halt, as those of files do.
    """
    table = "\n".join(_table_lines(machine))
    bare = "\n".join([*_head_lines(machine.with_input(None)), table])
    # Symbols are numbered in the order they are met; a field gives the order where the table does not.
    given = parse_machine(bare, "<written>").alphabet == machine.alphabet
    order = [] if given else [f"alphabet: {listing(machine.alphabet)}"]
    return "\n".join([*_head_lines(machine), *order, table, ""])


def _head_lines(machine: Machine) -> Iterator[str]:
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


def _table_lines(machine: Machine) -> Iterator[str]:
    yield "table:"
    for state, name in enumerate(machine.states):
        yield f"  {scalar(name)}:"
        if state not in machine.halting:
            for instruction, symbols in _row(machine, state).items():
                yield from (f"    {key}: {instruction}" for key in _keys(symbols))


def _row(machine: Machine, state: int) -> dict[str, list[str]]:
    """The symbols of each instruction of a state, in the order of the alphabet."""
    row: dict[str, list[str]] = {}
    gaps = {symbol for own, symbol in machine.gaps if own == state}
    for symbol, read in enumerate(machine.alphabet):
        if symbol in gaps:
            continue
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
