"""Reading programs from text: files, and YAML whose every error names the source, the line and the column.

YAML is read into PyYAML's node graph and not into Python objects, so that scalars are texts as they are written (`0`
and `0110` are symbols and not numbers), every key and value knows its place, and a key that stands twice is noticed.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import yaml

from krogh.errors import KroghError, require
from krogh.programs import budgets

NULL = "tag:yaml.org,2002:null"
MERGE = "tag:yaml.org,2002:merge"


LONGEST_SHOWN = 80
"""Characters of a name in a message."""
CONTROL = re.compile(r"[\x00-\x08\x0a-\x1f\x7f-\x9f]")
"""What a terminal obeys, and no name of a circuit has."""
MOST_COMPARED = 2_000
"""Of longer lists no nearest name is sought: that compares letter by letter."""


class Loader(yaml.SafeLoader):
    """PyYAML's own, with a bound on how deep lists and mappings stand in one another."""

    depth = 0

    def compose_node(self, parent: yaml.Node | None, index: object) -> yaml.Node | None:
        self.depth += 1
        if self.depth > budgets.NESTING.most:
            raise RecursionError
        node: yaml.Node | None = super().compose_node(parent, index)  # type: ignore[arg-type]
        self.depth -= 1
        return node


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
        return KroghError(f"{self.name}, line {self.line(where)}, column {mark.column + self.columns + 1}: {message}")

    def line(self, where: yaml.Node | yaml.Mark) -> int:
        """The line of a node or a mark, from 1."""
        mark = where.start_mark if isinstance(where, yaml.Node) else where
        return int(mark.line) + self.lines + 1

    def compose(self, text: str) -> yaml.Node | None:
        """The node graph of a text; None where it is empty."""
        budgets.FILE.check(len(text), self.name)
        try:
            return yaml.compose(text, Loader=Loader)
        except yaml.MarkedYAMLError as error:
            mark = error.problem_mark or error.context_mark or yaml.Mark(self.name, 0, 0, 0, None, 0)
            reason = "; ".join(part for part in (error.context, error.problem) if part)
            raise self.error(mark, f"this is not YAML: {reason}") from None
        except yaml.reader.ReaderError as error:
            before = text[: error.position].split("\n")
            mark = yaml.Mark(self.name, 0, len(before) - 1, len(before[-1]), None, 0)
            raise self.error(mark, f"the character {text[error.position]!r} is not allowed in YAML") from None
        except RecursionError:
            raise budgets.NESTING.error(f"more than {budgets.NESTING.most}", self.name) from None

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
            budgets.PAIRS.check(len(pairs), self.name)
        return pairs

    def fields(
        self,
        node: yaml.Node,
        what: str,
        known: Iterable[str] | None = None,
        needed: Mapping[str, str] | None = None,
    ) -> dict[str, Field]:
        """A mapping by the names of its keys; a name twice and a name that is not `known` are errors.

        So is a name that is `needed` and not there; the error shows what it would look like.
        """
        allowed = None if known is None else list(known)
        fields: dict[str, Field] = {}
        for key, value in self.pairs(node, what):
            name = self.text(key, f"a key of {what}")
            if name in fields:
                first = self.line(fields[name].key)
                raise self.error(key, f"{shortened(name)!r} stands twice in {what}, first on line {first}")
            if allowed is not None and name not in allowed:
                raise self.error(key, no_such(f"{what} has no field", name, allowed))
            fields[name] = Field(key, value)
        for name, example in (needed or {}).items():
            if name not in fields:
                raise self.error(node, f"the field {name!r} is missing, as in `{example}`")
        return fields

    def require_few_pairs(self, rows: Mapping[str, Field]) -> None:
        """Refuse a table whose rows name too many symbols in all: an alias makes a row of another, a `<<` a part."""
        sizes: dict[int, int] = {}
        total = 0
        for row in rows.values():
            if id(row.value) not in sizes:
                sizes[id(row.value)] = _breadth(row.value)
            total += sizes[id(row.value)]
        budgets.PAIRS.check(total, self.name)

    def one_of(self, node: yaml.Node, what: str, allowed: Sequence[str], says: str) -> str:
        """A text that must be one of several; `says` begins the error for any other."""
        word = self.text(node, what)
        if word not in allowed:
            raise self.error(node, no_such(says, word, allowed))
        return word

    def within(self, node: yaml.Node, text: str) -> Source:
        """Where the text of a node begins. Only a literal block (`|`) keeps its lines; of others the name says it."""
        if not isinstance(node, yaml.ScalarNode) or node.style != "|":
            return Source(f"{self.name} (within its source code)")
        begins = node.start_mark.line + 1
        pairs = zip(text.splitlines()[begins:], node.value.splitlines(), strict=False)
        indents = [len(line) - len(inner) for line, inner in pairs if inner.strip()]
        return Source(self.name, begins, indents[0] if indents else 0)


def read_text(path: Path, what: str, budget: budgets.Budget | None = None) -> str:
    """The text of a file in UTF-8; `what` says what it should hold, `budget` how many characters at most."""
    require(path.is_file(), f"no file {str(path)!r} with {what}")
    try:
        if budget is not None:
            budget.check(path.stat().st_size // 4, str(path))  # a character has at most four bytes
        return path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise KroghError(f"{str(path)!r} is no text in UTF-8: byte {error.start} cannot be read") from None
    except OSError as error:
        raise KroghError(f"{str(path)!r} cannot be read: {error.strerror}") from None


def numbered(text: str) -> Iterator[tuple[int, str]]:
    """Lines from 1; never a list of them all, which for short lines takes twenty times the text."""
    begin, number = 1 if text.startswith("\ufeff") else 0, 0
    while begin <= len(text):
        end = text.find("\n", begin)
        end = len(text) if end < 0 else end
        number += 1
        yield number, text[begin:end]
        begin = end + 1


def no_such(says: str, name: str, allowed: Sequence[str]) -> str:
    """What is unknown, the nearest that is known, and all of them."""
    name = shortened(name)
    near = difflib.get_close_matches(name, allowed, n=1, cutoff=0.5) if len(allowed) <= MOST_COMPARED else []
    hint = f"; did you mean {near[0]!r}?" if near else ""
    shown = [*map(printable, allowed[:20]), *(["…"] if len(allowed) > 20 else [])]
    return f"{says} {name!r}{hint} (known: {', '.join(shown)})"


def shortened(text: str) -> str:
    """A text for a message: the beginning of a long one."""
    return text if len(text) <= LONGEST_SHOWN else text[: LONGEST_SHOWN - 1] + "…"


def printable(text: str) -> str:
    """A name for a message, as it is unless it would not stand on one line."""
    return shortened(text) if text.isprintable() else repr(shortened(text))


def _breadth(row: yaml.Node) -> int:
    """How many symbols the keys of a row name, merged rows among them."""
    if not isinstance(row, yaml.MappingNode):
        return 0
    total = 0
    for key, value in row.value:
        if key.tag == MERGE:
            bases = value.value if isinstance(value, yaml.SequenceNode) else [value]
            total += sum(len(base.value) for base in bases)
        else:
            total += len(key.value) if isinstance(key, yaml.SequenceNode) else 1
    return total


def is_nothing(node: yaml.Node) -> bool:
    """Whether a value is left out: nothing, `~` or `null`."""
    return isinstance(node, yaml.ScalarNode) and node.tag == NULL


def kind_of(node: yaml.Node) -> str:
    """What a node is, in words."""
    if isinstance(node, yaml.ScalarNode):
        return f"text ({shortened(node.value)!r})" if node.value else "empty value"
    return "list" if isinstance(node, yaml.SequenceNode) else "mapping"


def name_of(node: yaml.Node) -> object:
    """What makes two keys the same."""
    return node.value if isinstance(node, yaml.ScalarNode) else id(node)
