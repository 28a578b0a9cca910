"""Characters of the symmetric groups in closed form, without their elements (dissertation, Table D.1).

Irreps and conjugacy classes of S_n are both named by partitions of n. The Murnaghan-Nakayama rule: the character of
shape λ at cycle type (k, rest) is the sum of (-1)^{height} times that of λ without a rim hook of length k at `rest`,
over all such hooks. On the beta numbers {λ_i + m - i}, i = 1..m, a rim hook of length k is a number b with b - k ≥ 0
not among them, and its height is how many of them lie between b - k and b.

A table of S_7 (5,040 elements) or beyond needs no Cayley table: `symmetric_character_table(n)` is what
`character_table(symmetric(n))` would be.
"""

from __future__ import annotations

import functools
import math
from collections import Counter
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from krogh.errors import require_integer
from krogh.theory.representations.characters import (
    CharacterTable,
    cycle_type_names,
    cycle_type_signs,
    ordered_table,
)

Partition = tuple[int, ...]

LARGEST_N = 16
"""S_16 has 231 classes and its table takes about half a second."""


def partitions(n: int) -> tuple[Partition, ...]:
    """The partitions of n with falling parts, the largest first: (n), (n-1, 1), ..., (1, ..., 1)."""
    require_integer("n", n, 0)
    return tuple(_partitions(n, n))


def _partitions(n: int, largest: int) -> Iterator[Partition]:
    if n == 0:
        yield ()
    for part in range(min(n, largest), 0, -1):
        for rest in _partitions(n - part, part):
            yield (part, *rest)


def symmetric_characters(n: int) -> tuple[tuple[Partition, ...], NDArray[np.int64]]:
    """The partitions of n, and the characters of S_n [shape, cycle type], both in the order of the partitions."""
    require_integer("n", n, 1, LARGEST_N)
    names = partitions(n)
    return names, np.array([[_character(shape, cycles) for cycles in names] for shape in names])


@functools.cache
def _character(shape: Partition, cycles: Partition) -> int:
    if not cycles:
        return 1
    length, rest = cycles[0], cycles[1:]
    beta = [part + len(shape) - 1 - row for row, part in enumerate(shape)]
    total = 0
    for b in beta:
        if b >= length and b - length not in beta:
            height = sum(b - length < other < b for other in beta)
            moved = sorted((b - length if other == b else other for other in beta), reverse=True)
            left = tuple(part - (len(moved) - 1 - row) for row, part in enumerate(moved))
            total += (-1) ** height * _character(tuple(part for part in left if part), rest)
    return total


def cycle_type_size(cycles: Partition) -> int:
    """How many permutations have a cycle type: n! / Π_k k^{m_k} m_k!, where m_k cycles have length k."""
    stabiliser = math.prod(length**count * math.factorial(count) for length, count in Counter(cycles).items())
    return math.factorial(sum(cycles)) // stabiliser


@functools.cache
def symmetric_character_table(n: int) -> CharacterTable:
    """The character table of S_n by the Murnaghan-Nakayama rule, ordered and named as `character_table` does."""
    names, values = symmetric_characters(n)
    ordered = sorted(names, key=lambda cycles: (max(cycles) > 1, cycle_type_size(cycles), _least_permutation(cycles)))
    columns = [names.index(cycles) for cycles in ordered]
    squares = np.array([ordered.index(_squared(cycles)) for cycles in ordered])
    sizes = np.array([cycle_type_size(cycles) for cycles in ordered])
    rows = values[:, columns].astype(np.complex128)
    return ordered_table(f"S_{n}", rows, sizes, squares, cycle_type_names(ordered), cycle_type_signs(ordered))


def _least_permutation(cycles: Partition) -> tuple[int, ...]:
    """The first permutation of a cycle type in lexicographic order: short cycles first, each a shift of neighbours."""
    permutation: list[int] = []
    for length in sorted(cycles):
        start = len(permutation)
        permutation += [*range(start + 1, start + length), start]
    return tuple(permutation)


def _squared(cycles: Partition) -> Partition:
    """The cycle type of the square: an even cycle falls into two halves."""
    halves = [part for k in cycles for part in ((k // 2, k // 2) if k % 2 == 0 else (k,))]
    return tuple(sorted(halves, reverse=True))
