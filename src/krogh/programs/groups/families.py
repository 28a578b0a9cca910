"""Groups by name and from files (dissertation, sections 7.4 and 7.6).

cyclic        Z_n, addition modulo n; element a is the number a
dihedral      D_n of order 2n; element k is r^k for k < n, and r^{k-n}s from n on
symmetric     S_n, permutations in lexicographic order with (ab)(x) = a(b(x)); element 0 is the identity
alternating   A_n, its even permutations
quaternion    Q_8 = {±1, ±i, ±j, ±k}
power         the direct product of a group with itself
load_group    "Z_71", "D_6", "S_5", "A_5", "Q_8", "D_4xD_4", "Z_2^3", or a file with a table:

    CSV     n lines of n whole numbers 0..n-1; or a header line and a header column of labels around products that are
            written as labels, with anything in the corner
    JSON    a list of n lists, or {"table": [[...]], "labels": [...], "name": "..."} (labels and name may be left out)
    NPY     an array of whole numbers [n, n]
"""

from __future__ import annotations

import csv
import difflib
import itertools
import json
import math
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from krogh.errors import KroghError, require, require_integer
from krogh.programs.budgets import TABLE
from krogh.programs.groups.group import LARGEST_ORDER, Group, from_table, product
from krogh.programs.reading import read_text

LARGEST_DEGREE = 6
"""S_6 has 720 elements; S_7 has 5,040, more than tables are kept for."""


def cyclic(n: int) -> Group:
    """Z_n: table[a, b] = (a + b) mod n."""
    require_integer("n", n, 1, LARGEST_ORDER)
    elements = np.arange(n)
    return Group(f"Z_{n}", (elements[:, None] + elements[None, :]) % n)


def dihedral(n: int) -> Group:
    """D_n of order 2n: r^n = s² = e and s r = r⁻¹ s, so (r^i s^a)(r^j s^b) = r^{i + (-1)^a j} s^{a+b}."""
    require_integer("n", n, 1, LARGEST_ORDER // 2)
    flips, turns = np.divmod(np.arange(2 * n), n)
    turned = (turns[:, None] + (1 - 2 * flips)[:, None] * turns[None, :]) % n
    table = turned + n * (flips[:, None] ^ flips[None, :])
    rotations = ["e", "r", *(f"r^{k}" for k in range(2, n))][:n]
    reflections = ["s", *(f"{rotation}s" for rotation in rotations[1:])]
    return Group(f"D_{n}", table, (*rotations, *reflections))


def symmetric(n: int) -> Group:
    """S_n of order n!, in lexicographic order of the permutations; labels are cycles of the points 1..n."""
    require_integer("n", n, 1, LARGEST_DEGREE)
    return _permutation_group(f"S_{n}", np.array(list(itertools.permutations(range(n)))))


def alternating(n: int) -> Group:
    """A_n of order n!/2, the even permutations in lexicographic order; A_1 and A_2 are trivial."""
    require_integer("n", n, 1, LARGEST_DEGREE)
    everything = np.array(list(itertools.permutations(range(n))))
    return _permutation_group(f"A_{n}", everything[[_is_even(permutation) for permutation in everything]])


def quaternion() -> Group:
    """Q_8: i² = j² = k² = ijk = -1; elements 1, -1, i, -i, j, -j, k, -k."""
    unit, minus = np.divmod(np.arange(8), 2)
    p, q = unit[:, None], unit[None, :]
    # With 1, i, j, k numbered 0 to 3 the product of two is ± number p ^ q; the sign is - for squares and against the
    # cyclic order i → j → k → i.
    against = (p > 0) & (q > 0) & ((p == q) | ((q - p) % 3 == 2))
    table = 2 * (p ^ q) + (minus[:, None] ^ minus[None, :] ^ against)
    return Group("Q_8", table, ("1", "-1", "i", "-i", "j", "-j", "k", "-k"))


def power(group: Group, times: int) -> Group:
    """The direct product of `times` copies of a group."""
    require_integer("times", times, 1, int(math.log2(LARGEST_ORDER)))
    repeated = product(*[group] * times)
    if times == 1 or re.search(r"[x^]", group.name):
        return repeated
    return Group(f"{group.name}^{times}", repeated.table, repeated.labels)


FAMILIES: dict[str, Callable[[int], Group]] = {"Z": cyclic, "D": dihedral, "S": symmetric, "A": alternating}
EXAMPLES = ("Z_71", "D_6", "S_5", "A_5", "Q_8", "D_4xD_4", "Z_2^3")
FACTOR = re.compile(r"(?:(?P<family>[ZDSA])_?(?P<n>\d{1,9})|(?P<quaternion>Q_?8))(?:\^(?P<times>[1-9]\d{0,3}))?")


def load_group(text: str | Path) -> Group:
    """A group by name, or from a file that holds its Cayley table."""
    written = str(text).strip()
    path = Path(written)
    if path.suffix.lower() in TABLE_FILES:
        table, labels, name = _read_table(path)
        return from_table(table, labels, name or path.stem)
    factors = _factors(written)
    if factors is None:
        raise _unknown_group(written)
    return product(*(_named(factor, written) for factor in factors))


def _factors(written: str) -> list[re.Match[str]] | None:
    """The factors of a name; None where one of them is no name."""
    matches = [FACTOR.fullmatch(part.strip()) for part in re.split("[x×]", written)]
    found = [match for match in matches if match is not None]
    return found if len(found) == len(matches) else None


def _named(factor: re.Match[str], written: str) -> Group:
    times = int(factor["times"] or 1)
    if factor["quaternion"]:
        return power(quaternion(), times)
    family, n = factor["family"], int(factor["n"])
    try:
        return power(FAMILIES[family](n), times)
    except KroghError as error:
        largest = {"Z": LARGEST_ORDER, "D": LARGEST_ORDER // 2}.get(family, LARGEST_DEGREE)
        nearest = f"{family}_{min(max(n, 1), largest)}"
        raise KroghError(f"no table for the group {written!r}: {error} (nearest: {nearest!r})") from None


def _unknown_group(written: str) -> KroghError:
    """An error with the nearest name: other letters for the same, or a family with the same number."""
    meant = written.upper().replace("X", "x").replace("*", "x").replace("C", "Z").replace("-", "_")
    number = re.search(r"\d+", written)
    same = [f"{family}_{number[0]}" for family in "SZD"] if number and not meant.startswith("Q") else []
    near = [meant] if _factors(meant) else difflib.get_close_matches(meant, [*EXAMPLES, *same], n=1, cutoff=0.5)
    hint = f"; did you mean {near[0]!r}?" if near else ""
    known = "Z_n, D_n, S_n, A_n, Q_8, their products and powers"
    return KroghError(
        f"unknown group {written!r}{hint} (known: {known} as in {', '.join(EXAMPLES)}; or a CSV, JSON or NPY file)"
    )


def _permutation_group(name: str, permutations: np.ndarray) -> Group:
    degree = permutations.shape[1]
    digits = degree ** np.arange(degree)[::-1]
    codes = permutations @ digits  # increasing, because the order is lexicographic
    composed = np.stack([a[permutations] @ digits for a in permutations])
    table = np.searchsorted(codes, composed)
    return Group(name, table, tuple(cycle_label(permutation) for permutation in permutations), permutations)


def cycles(permutation: np.ndarray) -> list[tuple[int, ...]]:
    """The cycles of a permutation of 0..n-1, fixed points among them, each from its least point."""
    found: list[tuple[int, ...]] = []
    seen: set[int] = set()
    for start in range(len(permutation)):
        cycle = []
        point = start
        while point not in seen:
            seen.add(point)
            cycle.append(point)
            point = int(permutation[point])
        if cycle:
            found.append(tuple(cycle))
    return found


def cycle_type(permutation: np.ndarray) -> tuple[int, ...]:
    """The lengths of the cycles, the longest first; fixed points count as 1."""
    return tuple(sorted((len(cycle) for cycle in cycles(permutation)), reverse=True))


def cycle_label(permutation: np.ndarray) -> str:
    """A permutation as cycles of the points 1..n, "(12)(345)"; "e" for the identity."""
    moved = ["(" + "".join(str(point + 1) for point in cycle) + ")" for cycle in cycles(permutation) if len(cycle) > 1]
    return "".join(moved) or "e"


def _is_even(permutation: np.ndarray) -> bool:
    return (len(permutation) - len(cycles(permutation))) % 2 == 0


class TableFile(NamedTuple):
    """What a file says: the table as written, and labels and a name where it has them."""

    table: Any
    labels: tuple[str, ...] | None = None
    name: str | None = None


def _read_table(path: Path) -> TableFile:
    """The Cayley table of a file; which laws it obeys is checked where the group is built."""
    require(path.is_file(), f"no file {str(path)!r} with a Cayley table")
    try:
        return TABLE_FILES[path.suffix.lower()](path)
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
    try:
        content = json.loads(read_text(path, "the table of a group", TABLE))
    except RecursionError:
        raise KroghError(f"{str(path)!r} has lists too deep in one another") from None
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


TABLE_FILES: dict[str, Callable[[Path], TableFile]] = {".csv": _read_csv, ".json": _read_json, ".npy": _read_npy}
