"""Automata as text: a YAML document with the words that turingmachine.io uses for machines.

    name: even number of ones
    alphabet: [0, 1]            # or "01"; the symbols of the table unless given
    start state: even
    accept: [even]
    table:
      even: {0: even, 1: odd}
      odd:
        0: odd
        1: even                 # [0, 1]: even would say it for both

Everything is text: 0 is the symbol "0". A transition that is not there leads to a state that rejects whatever follows,
as in a partial automaton; `missing="error"` refuses it.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import yaml

from krogh.errors import KroghError, unknown
from krogh.programs import budgets
from krogh.programs.automata.automaton import Automaton
from krogh.programs.reading import Source, is_nothing, no_such, read_text, shortened

MISSING = ("reject", "error")
NEEDED = {"start state": "start state: even", "accept": "accept: [even]", "table": "table: …"}
FIELDS = ("name", "alphabet", *NEEDED)
DEAD = "dead"


def load_automaton(path: str | Path, missing: str = "reject") -> Automaton:
    """The automaton of a file."""
    return parse_automaton(read_text(Path(path), "an automaton", budgets.FILE), str(path), missing)


def parse_automaton(text: str, source: str = "<text>", missing: str = "reject") -> Automaton:
    """The automaton of a text; errors name `source`, line and column."""
    if missing not in MISSING:
        raise unknown("choice for missing transitions", missing, MISSING)
    where = Source(source)
    document = where.compose(text)
    if not isinstance(document, yaml.MappingNode):
        raise KroghError(f"{source}: an automaton is a YAML document with {', '.join(FIELDS)}")
    fields = where.fields(document, "an automaton", FIELDS, NEEDED)
    table = fields["table"].value
    rows = where.fields(table, "the table")
    if not rows:
        raise where.error(table, "the table has a line for every state, as in  even: {0: even, 1: odd}")
    states = list(rows)
    where.require_few_pairs(rows)
    number = {name: place for place, name in enumerate(states)}
    moves = {name: _row(where, name, row.value, number) for name, row in rows.items()}
    alphabet = _alphabet(where, fields["alphabet"].value) if "alphabet" in fields else None
    symbols = list(dict.fromkeys(symbol for row in moves.values() for symbol in row)) if alphabet is None else alphabet
    if not symbols:
        raise where.error(table, "the table has no transition, and no alphabet is given")
    budgets.PAIRS.check(len(states) * len(symbols), source)
    known = frozenset(symbols)
    for row in moves.values():
        for symbol, (_, node) in row.items():
            if symbol not in known:
                raise where.error(node, no_such("unknown symbol", symbol, symbols))
    gaps = [(state, symbol) for state in states for symbol in symbols if symbol not in moves[state]]
    if gaps and missing == "error":
        state, symbol = gaps[0]
        raise where.error(
            rows[state].key,
            f"the state {shortened(state)!r} has no transition on {shortened(symbol)!r}; add it, or let missing "
            "transitions reject (missing='reject')",
        )
    start = _state(where, fields["start state"].value, number)
    accepting = tuple(_state(where, node, number) for _, node in where.texts(fields["accept"].value, "a state"))
    name = where.text(fields["name"].value, "a name") if "name" in fields else Path(source).stem
    dead = len(states)
    transitions = [
        [moves[state][symbol][0] if symbol in moves[state] else dead for symbol in symbols] for state in rows
    ]
    if gaps:
        transitions.append([dead] * len(symbols))
        states.append(_unused(DEAD, states))
    return Automaton(name, tuple(symbols), np.array(transitions, np.int64), start, accepting, tuple(states))


def write_automaton(automaton: Automaton) -> str:
    """The text of an automaton; `parse_automaton` gives it back."""
    names = automaton.states
    content = {
        **({"name": automaton.name} if automaton.name else {}),
        "alphabet": list(automaton.alphabet),
        "start state": names[automaton.start],
        "accept": [names[state] for state in automaton.accepting],
        "table": {
            name: {symbol: names[following] for symbol, following in zip(automaton.alphabet, row, strict=True)}
            for name, row in zip(names, automaton.transitions.tolist(), strict=True)
        },
    }
    return yaml.safe_dump(content, sort_keys=False, default_flow_style=None, width=120)


def _row(where: Source, state: str, row: yaml.Node, states: Mapping[str, int]) -> dict[str, tuple[int, yaml.Node]]:
    """Where each symbol leads from a state, and the place where it says so."""
    moves: dict[str, tuple[int, yaml.Node]] = {}
    for symbols, target in () if is_nothing(row) else where.pairs(row, f"the row of state {shortened(state)!r}"):
        for symbol, node in where.texts(symbols, "a symbol"):
            if symbol in moves:
                raise where.error(
                    node, f"the state {shortened(state)!r} has a second transition on {shortened(symbol)!r}"
                )
            moves[symbol] = _state(where, target, states), node
    return moves


def _state(where: Source, node: yaml.Node, states: Mapping[str, int]) -> int:
    name = where.text(node, "a state")
    if name not in states:
        raise where.error(node, no_such("unknown state", name, list(states)))
    return states[name]


def _alphabet(where: Source, node: yaml.Node) -> list[str]:
    """The symbols of a list, or the characters of a word."""
    if isinstance(node, yaml.SequenceNode):
        symbols = [symbol for symbol, _ in where.texts(node, "a symbol")]
    else:
        symbols = list(where.text(node, "an alphabet"))
    if not symbols or len(set(symbols)) < len(symbols):
        raise where.error(node, f"the symbols of an alphabet differ; got {shortened(str(symbols))}")
    return symbols


def _unused(name: str, taken: list[str]) -> str:
    return name if name not in taken else _unused(name + "'", taken)
