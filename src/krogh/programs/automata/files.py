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

Everything is text: 0 is the symbol "0". A transition that is not there is an error, or leads to a state that rejects
whatever follows (`missing="reject"`).
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import yaml

from krogh.errors import KroghError, unknown
from krogh.programs.automata.automaton import Automaton

MISSING = ("refuse", "reject")
FIELDS = ("name", "alphabet", "start state", "accept", "table")
DEAD = "dead"


def load_automaton(path: str | Path, missing: str = "refuse") -> Automaton:
    """The automaton of a file."""
    file = Path(path)
    try:
        text = file.read_text(encoding="utf-8")
    except OSError as error:
        raise KroghError(f"{str(file)!r} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise KroghError(f"{str(file)!r} cannot be read: it is no text in UTF-8") from None
    return parse_automaton(text, str(file), missing)


def parse_automaton(text: str, source: str = "<text>", missing: str = "refuse") -> Automaton:
    """The automaton of a text; errors name `source`, line and column."""
    if missing not in MISSING:
        raise unknown("choice for missing transitions", missing, MISSING)
    try:
        document = yaml.compose(text, yaml.SafeLoader)
    except yaml.MarkedYAMLError as error:
        problem = " ".join(filter(None, [error.context, error.problem]))
        raise KroghError(f"{source}{_place(error.problem_mark)}: this is no YAML: {problem}") from None
    except yaml.YAMLError as error:
        raise KroghError(f"{source}: this is no YAML: {error}") from None
    return _Reader(source, missing).automaton(document)


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


class _Reader:
    """Reads the nodes of a document, which know their places."""

    def __init__(self, source: str, missing: str):
        self.source, self.missing = source, missing

    def fail(self, node: Any, problem: str) -> NoReturn:
        raise KroghError(f"{self.source}{_place(node.start_mark)}: {problem}")

    def automaton(self, document: Any) -> Automaton:
        if not isinstance(document, yaml.MappingNode):
            raise KroghError(f"{self.source}: an automaton is a YAML document with {', '.join(FIELDS)}")
        fields: dict[str, Any] = {}
        for key, value in document.value:
            name = self.text(key, "a field")
            if name not in FIELDS:
                self.fail(key, str(unknown("field", name, FIELDS)))
            if name in fields:
                self.fail(key, f"the field {name!r} is here for the second time")
            fields[name] = value
        for name in ("start state", "accept", "table"):
            if name not in fields:
                self.fail(document, f"the field {name!r} is missing")
        states, moves = self.table(fields["table"])
        alphabet = self.alphabet(fields.get("alphabet"), moves)
        table = self.transitions(fields["table"], states, moves, alphabet)
        start = self.state(fields["start state"], states)
        accepting = tuple(self.state(node, states) for node in self.listed(fields["accept"]))
        name = self.text(fields["name"], "a name") if "name" in fields else Path(self.source).stem
        if len(table) > len(states):
            states.append(_unused(DEAD, states))
        return Automaton(name, tuple(alphabet), np.array(table, np.int64), start, accepting, tuple(states))

    def table(self, node: Any) -> tuple[list[str], list[tuple[int, Any, Any]]]:
        """The names of the states, and (state, symbol's node, target's node) for every transition."""
        if not isinstance(node, yaml.MappingNode) or not node.value:
            self.fail(node, "the table has a line for every state, as in  even: {0: even, 1: odd}")
        states: list[str] = []
        moves: list[tuple[int, Any, Any]] = []
        for key, row in node.value:
            name = self.text(key, "a state")
            if name in states:
                self.fail(key, f"the state {name!r} is here for the second time")
            empty = isinstance(row, yaml.ScalarNode) and row.value == ""
            if not isinstance(row, yaml.MappingNode) and not empty:
                self.fail(row, f"the row of the state {name!r} says where each symbol leads, as in  0: even")
            for symbols, target in () if empty else row.value:
                moves += [(len(states), symbol, target) for symbol in self.listed(symbols)]
            states.append(name)
        return states, moves

    def alphabet(self, node: Any, moves: list[tuple[int, Any, Any]]) -> list[str]:
        if node is None:
            symbols = [symbol for _, symbol, _ in moves]
            return list(dict.fromkeys(self.text(symbol, "a symbol") for symbol in symbols))
        if isinstance(node, yaml.SequenceNode):
            found = [self.text(symbol, "a symbol") for symbol in node.value]
        else:
            found = list(self.text(node, "an alphabet"))
        repeated = next((symbol for symbol in found if found.count(symbol) > 1), None)
        if not found or repeated is not None:
            self.fail(node, f"the symbols of an alphabet differ; got {found}")
        return found

    def transitions(
        self, node: Any, states: list[str], moves: list[tuple[int, Any, Any]], alphabet: list[str]
    ) -> list[list[int]]:
        if not alphabet:
            self.fail(node, "the table has no transition, and no alphabet is given")
        table: list[list[int | None]] = [[None] * len(alphabet) for _ in states]
        for state, symbol_node, target in moves:
            symbol = self.text(symbol_node, "a symbol")
            if symbol not in alphabet:
                self.fail(symbol_node, str(unknown("symbol", symbol, alphabet)))
            place = alphabet.index(symbol)
            if table[state][place] is not None:
                self.fail(symbol_node, f"the state {states[state]!r} has a second transition on {symbol!r}")
            table[state][place] = self.state(target, states)
        gaps = [(state, place) for state, row in enumerate(table) for place, to in enumerate(row) if to is None]
        if not gaps:
            return [[to for to in row if to is not None] for row in table]
        if self.missing == "refuse":
            state, place = gaps[0]
            self.fail(
                node,
                f"the state {states[state]!r} has no transition on {alphabet[place]!r}; add it, or let missing "
                "transitions reject (missing='reject')",
            )
        dead = len(states)
        return [*([dead if to is None else to for to in row] for row in table), [dead] * len(alphabet)]

    def state(self, node: Any, states: list[str]) -> int:
        name = self.text(node, "a state")
        if name not in states:
            self.fail(node, str(unknown("state", name, states)))
        return states.index(name)

    def listed(self, node: Any) -> Iterator[Any]:
        """The nodes of a list, or of the one thing that stands in its place."""
        yield from node.value if isinstance(node, yaml.SequenceNode) else [node]

    def text(self, node: Any, what: str) -> str:
        if not isinstance(node, yaml.ScalarNode) or node.value == "":
            self.fail(node, f"{what} is a word here")
        return str(node.value)


def _unused(name: str, taken: list[str]) -> str:
    return name if name not in taken else _unused(name + "'", taken)


def _place(mark: Any) -> str:
    return "" if mark is None else f", line {mark.line + 1}, column {mark.column + 1}"
