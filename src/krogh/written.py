"""What the source of a package says it registers, read without importing any of it.

A thing is registered by a decorator of its kind with its name written out, at the top of a module:

    @task("parity")
    class Parity(Task):
        \"\"\"Its summary.\"\"\"

So the names of all things, where each is defined and its summary follow from the text, in a fraction of the time that
importing everything takes.
"""

from __future__ import annotations

import ast
import functools
import importlib.util
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

_DECORATED = re.compile(r'^@(\w+)\(\s*"([^"\n]+)"', re.MULTILINE)
_DEFINITION = re.compile(r"^(?:class|def) ", re.MULTILINE)
_STATEMENT = re.compile(r"^[A-Za-z_@]", re.MULTILINE)


@dataclass(frozen=True)
class Entry:
    """A thing in the text of a module: from `start`, where its decorator stands, to the next statement."""

    decorator: str
    name: str
    module: str
    file: Path
    start: int

    @property
    def summary(self) -> str:
        """The first line of its docstring."""
        text = _text(self.file)
        definition = _DEFINITION.search(text, self.start)
        end = definition and _STATEMENT.search(text, definition.end())
        (thing,) = ast.parse(text[self.start : end.start() if end else None]).body
        assert isinstance(thing, ast.ClassDef | ast.FunctionDef)
        return (ast.get_docstring(thing) or "").partition("\n")[0]


@functools.cache
def entries(package: str) -> tuple[Entry, ...]:
    """Everything that the modules of a package register."""
    spec = importlib.util.find_spec(package)
    return tuple(
        Entry(found[1], found[2], module, file, found.start())
        for folder in (spec.submodule_search_locations or () if spec else ())
        for module, file in _modules(package, Path(folder))
        for found in _DECORATED.finditer(_text(file))
    )


def _modules(package: str, folder: Path) -> Iterator[tuple[str, Path]]:
    for file in sorted(folder.rglob("*.py")):
        parts = file.relative_to(folder).with_suffix("").parts
        yield ".".join([package, *(parts[:-1] if parts[-1] == "__init__" else parts)]), file


@functools.cache
def _text(file: Path) -> str:
    return file.read_text(encoding="utf-8")
