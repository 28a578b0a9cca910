"""Young's orthogonal form: real orthogonal matrices of every irrep of S_n (dissertation, section D.8).

The basis of shape λ is its standard tableaux. The neighbouring transposition s_i = (i, i+1) acts on tableau T by

    s_i T = (1/r) T + √(1 - 1/r²) T',   r = content(i+1) - content(i),   content = column - row,

where T' is T with i and i+1 exchanged; where T' is not standard, r = ±1 and it drops out. A tableau is written here as
the rows of its entries: word[i] is the row that holds entry i.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from krogh.errors import require_integer
from krogh.tasks.group_base import Group, read_only
from krogh.tasks.groups import LARGEST_DEGREE, symmetric
from krogh.theory.representations.symmetric import Partition, partitions

Word = tuple[int, ...]


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
