"""YAML with places: every error names the file, the line and the column.

Scalars are taken as they are written, so that `0`, `1` and `0110` are texts and not numbers.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import yaml

from krogh.errors import KroghError

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
