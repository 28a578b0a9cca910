"""The symmetric groups in closed form: characters without elements, matrices of every irrep (section D.8, Table D.1).

Irreps and conjugacy classes of S_n are both named by partitions of n. The Murnaghan-Nakayama rule: the character of
shape λ at cycle type (k, rest) is the sum of (-1)^{height} times that of λ without a rim hook of length k at `rest`,
over all such hooks. On the beta numbers {λ_i + m - i}, i = 1..m, a rim hook of length k is a number b with b - k ≥ 0
not among them, and its height is how many of them lie between b - k and b. A table of S_7 (5,040 elements) or beyond
needs no Cayley table: `symmetric_character_table(n)` is what `character_table(symmetric(n))` would be.

Young's orthogonal form has real orthogonal matrices. The basis of shape λ is its standard tableaux, and the
neighbouring transposition s_i = (i, i+1) acts on tableau T by

    s_i T = (1/r) T + √(1 - 1/r²) T',   r = content(i+1) - content(i),   content = column - row,

where T' is T with i and i+1 exchanged; where T' is not standard, r = ±1 and it drops out. A tableau is written here as
the rows of its entries: word[i] is the row that holds entry i.
"""

from __future__ import annotations

import functools
import math
from collections import Counter
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from krogh.errors import require_integer
from krogh.programs.groups import LARGEST_DEGREE, Group, read_only, symmetric
from krogh.theory.groups.characters import CharacterTable, cycle_type_names, cycle_type_signs, ordered_table

Partition = tuple[int, ...]
Word = tuple[int, ...]

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


@functools.cache
def young_orthogonal(n: int) -> dict[Partition, NDArray[np.float64]]:
    """The irreps of S_n by shape: matrices [n!, d, d] in the order of the elements of `symmetric(n)`."""
    require_integer("n", n, 1, LARGEST_DEGREE)
    group = symmetric(n)
    return {shape: read_only(_matrices(shape, group)) for shape in partitions(n)}


def standard_tableaux(shape: Partition) -> tuple[Word, ...]:
    """The standard tableaux of a shape, each as the rows of its entries 1..n, in lexicographic order."""
    return tuple(_words(shape, (0,) * len(shape)))


def _words(shape: Partition, filled: tuple[int, ...]) -> Iterator[Word]:
    """Words that complete a tableau whose rows are `filled` so far: a row may grow while the row above is longer."""
    if filled == shape:
        yield ()
    for row, length in enumerate(filled):
        if length < shape[row] and (row == 0 or length < filled[row - 1]):
            grown = (*filled[:row], length + 1, *filled[row + 1 :])
            for rest in _words(shape, grown):
                yield (row, *rest)


def _contents(word: Word) -> list[int]:
    return [word[:entry].count(row) - row for entry, row in enumerate(word)]


def neighbour_matrix(shape: Partition, i: int) -> NDArray[np.float64]:
    """The matrix [d, d] of the transposition that exchanges entries i and i+1 (counted from 0)."""
    tableaux = standard_tableaux(shape)
    place = {word: number for number, word in enumerate(tableaux)}
    matrix = np.zeros((len(tableaux), len(tableaux)))
    for number, word in enumerate(tableaux):
        contents = _contents(word)
        r = contents[i + 1] - contents[i]
        matrix[number, number] = 1 / r
        exchanged = (*word[:i], word[i + 1], word[i], *word[i + 2 :])
        if abs(r) > 1:
            matrix[place[exchanged], number] = math.sqrt(1 - 1 / r**2)
    return matrix


def _matrices(shape: Partition, group: Group) -> NDArray[np.float64]:
    """R(s a) = R(s) R(a), from the identity outwards; no element is more than n(n-1)/2 factors away."""
    n = sum(shape)
    steps = [(_neighbour_element(n, i), neighbour_matrix(shape, i)) for i in range(n - 1)]
    dimension = len(standard_tableaux(shape))
    matrices = np.zeros((group.order, dimension, dimension))
    matrices[group.identity] = np.eye(dimension)
    reached = np.arange(group.order) == group.identity
    frontier = np.array([group.identity])
    while len(frontier):
        found = []
        for element, matrix in steps:
            products = group.table[element, frontier]
            new = ~reached[products]
            matrices[products[new]] = matrix @ matrices[frontier[new]]
            reached[products[new]] = True
            found.append(products[new])
        frontier = np.concatenate(found) if found else frontier[:0]
    return matrices


def _neighbour_element(n: int, i: int) -> int:
    """The number of (i, i+1) in the lexicographic order of permutations: (n - 1 - i)! places after the identity."""
    return math.factorial(n - 1 - i)
