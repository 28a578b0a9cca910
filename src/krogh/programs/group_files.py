"""Cayley tables in files: CSV, JSON and NPY.

CSV     n lines of n whole numbers 0..n-1; or a header line and a header column of labels around products that are
        written as labels, with anything in the corner
JSON    a list of n lists, or {"table": [[...]], "labels": [...], "name": "..."} (labels and name may be left out)
NPY     an array of whole numbers [n, n]
"""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from krogh.errors import KroghError, require


class TableFile(NamedTuple):
    """What a file says: the table as written, and labels and a name where it has them."""

    table: Any
    labels: tuple[str, ...] | None = None
    name: str | None = None


def read_table(path: Path) -> TableFile:
    """The Cayley table of a file; which laws it obeys is checked where the group is built."""
    require(path.is_file(), f"no file {str(path)!r} with a Cayley table")
    try:
        return READERS[path.suffix.lower()](path)
    except (OSError, UnicodeDecodeError, json.JSONDecodeError, EOFError) as error:
        raise KroghError(f"{str(path)!r} cannot be read as {path.suffix[1:].upper()}: {error}") from None


def _read_csv(path: Path) -> TableFile:
    with path.open(newline="", encoding="utf-8-sig") as file:
        rows = [[cell.strip() for cell in row] for row in csv.reader(file) if any(cell.strip() for cell in row)]
    require(rows, f"{str(path)!r} holds no table: it is empty")
    width = len(rows[0])
    for number, row in enumerate(rows, start=1):
        require(len(row) == width, f"row {number} of {str(path)!r} has {len(row)} entries, the first has {width}")
    if all(_is_number(cell) for row in rows for cell in row):
        return TableFile([[int(cell) for cell in row] for row in rows])
    return _labelled(rows, path)


def _labelled(rows: list[list[str]], path: Path) -> TableFile:
    """A table with a header line and a header column; both must list the same labels in the same order."""
    labels, column = rows[0][1:], [row[0] for row in rows[1:]]
    require(
        labels and labels == column,
        f"{str(path)!r} holds words: then the first line and the first column must list the same labels in the same "
        f"order; got {labels[:5]} and {column[:5]}",
    )
    number = {label: place for place, label in enumerate(labels)}
    for line, row in enumerate(rows[1:], start=2):
        for cell in row[1:]:
            require(cell in number, f"closure fails: {cell!r} in row {line} of {str(path)!r} is no label of the header")
    return TableFile([[number[cell] for cell in row[1:]] for row in rows[1:]], tuple(labels))


def _read_json(path: Path) -> TableFile:
    content = json.loads(path.read_text(encoding="utf-8"))
    if isinstance(content, list):
        return TableFile(content)
    known = isinstance(content, dict) and "table" in content and set(content) <= {"table", "labels", "name"}
    require(known, f'{str(path)!r} must hold a list of lists or {{"table": ..., "labels": ..., "name": ...}}')
    labels, name = content.get("labels"), content.get("name")
    words = labels is None or (isinstance(labels, list) and all(isinstance(label, str) for label in labels))
    require(words, f"labels in {str(path)!r} must be a list of words; got {labels!r}")
    require(name is None or isinstance(name, str), f"the name in {str(path)!r} must be a word; got {name!r}")
    return TableFile(content["table"], None if labels is None else tuple(labels), name)


def _read_npy(path: Path) -> TableFile:
    try:
        return TableFile(np.load(path, allow_pickle=False))
    except ValueError as error:
        raise KroghError(f"{str(path)!r} cannot be read as NPY: {error}") from None


def _is_number(cell: str) -> bool:
    return cell.lstrip("-").isdecimal()


READERS = {".csv": _read_csv, ".json": _read_json, ".npy": _read_npy}
