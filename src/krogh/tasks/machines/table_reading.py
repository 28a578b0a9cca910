"""The table of a machine file: rows of states, lists of symbols, instructions and their shorthand.

    state:
      symbol: R                     move right; same symbol, same state
      [0, 1]: L                     for each symbol of a list
      symbol: {R: q}                go to state q
      symbol: {write: 1, L: q}      write a symbol, too
      symbol: {write: 1, L}         same state
      symbol: synonym               an instruction from `synonyms`
    state:                          no instructions: the machine halts

`N` in place of `L` and `R` keeps the head where it is.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import yaml

from krogh.tasks.machines.yaml_nodes import Field, Source, is_nothing, kind_of, no_such

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
