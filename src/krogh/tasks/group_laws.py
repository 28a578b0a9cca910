"""The laws of a group, checked on a multiplication table; each failure names the law and the elements.

A table lists table[a, b] = the number of ab for elements 0..n-1. The laws, in the order in which they are checked:

    closure          every entry is an element
    identity         some e has ea = ae = a for all a
    inverses         every a has some b with ab = ba = e
    associativity    (ab)c = a(bc) for all n³ triples, by Light's test on generators, which is exact

Light's test: call b *good* when (ab)c = a(bc) for all a, c. Products of good elements are good, so it is enough that
generators are. Good elements with inverses form a group A whose cosets xA are disjoint; one more good generator at
least doubles A, so that at most log₂ n generators are tried (n² products each), whatever the table.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Int

from krogh.errors import KroghError, require

LARGEST_ORDER = 1024
"""Tables have n² entries and classes cost n² products: enough for every group to order 1,000 and for Z_2^10."""


class Laws(NamedTuple):
    """What the check of a table finds out: the identity, inverse[a], and elements that generate the group."""

    identity: int
    inverse: np.ndarray
    generators: tuple[int, ...]


def whole_table(table: Any) -> Int[np.ndarray, "n n"]:
    """A square array of whole numbers; refused otherwise."""
    try:
        given = np.asarray(table)
    except ValueError:
        raise KroghError("a Cayley table must be a square of n rows of n entries; got rows of unequal length") from None
    square = given.ndim == 2 and given.shape[0] == given.shape[1] and given.size > 0
    require(square, f"a Cayley table must be a square array [n, n] with n ≥ 1; got shape {list(given.shape)}")
    order = len(given)
    require(order <= LARGEST_ORDER, f"a group may have at most {LARGEST_ORDER} elements; the table has {order}")
    whole = given.dtype.kind in "iu" or (given.dtype.kind == "f" and bool((given == np.rint(given)).all()))
    if not whole:
        strange = next((entry for entry in given.ravel().tolist() if not _is_whole(entry)), given.dtype)
        raise KroghError(f"a Cayley table holds whole numbers 0 to {order - 1}; got {strange!r}")
    return given.astype(np.int64)


def _is_whole(entry: Any) -> bool:
    return isinstance(entry, int | float) and not isinstance(entry, bool) and float(entry).is_integer()


def check_laws(table: Int[np.ndarray, "n n"], labels: Sequence[str]) -> Laws:
    """The identity, the inverses and generators of a table that is a group; an error that names the law otherwise."""
    _check_closure(table, labels)
    identity = _identity(table, labels)
    inverse = _inverses(table, identity, labels)
    return Laws(identity, inverse, _associative_generators(table, identity, labels))


def _shown(labels: Sequence[str], *elements: Any) -> list[str]:
    """Elements by number, and by label where that says more."""
    numbers = [int(element) for element in elements]
    return [str(i) if labels[i] == str(i) else f"{i} ({labels[i]})" for i in numbers]


def _check_closure(table: np.ndarray, labels: Sequence[str]) -> None:
    order = len(table)
    outside = np.argwhere((table < 0) | (table >= order))
    if not len(outside):
        return
    a, b = outside[0]
    left, right = _shown(labels, a, b)
    from_one = table.min() == 1 and table.max() == order
    hint = " (the entries run from 1: subtract 1)" if from_one else f" (entries must be 0 to {order - 1})"
    raise KroghError(f"closure fails: the product of {left} and {right} is {table[a, b]}, which is no element{hint}")


def _identity(table: np.ndarray, labels: Sequence[str]) -> int:
    elements = np.arange(len(table))
    from_left, from_right = table == elements[None, :], table == elements[:, None]
    kept = from_left & from_right.T  # [e, a]: ea = a and ae = a
    nearest = int(kept.sum(axis=1).argmax())
    if kept[nearest].all():
        return nearest
    a = int(np.flatnonzero(~kept[nearest])[0])
    e, moved, left, right = _shown(labels, nearest, a, table[nearest, a], table[a, nearest])
    raise KroghError(
        f"identity fails: no element e has ea = ae = a for all a; the nearest, {e}, "
        f"takes {moved} to {left} from the left and to {right} from the right"
    )


def _inverses(table: np.ndarray, identity: int, labels: Sequence[str]) -> np.ndarray:
    closes = table == identity
    two_sided = closes & closes.T
    lonely = np.flatnonzero(~two_sided.any(axis=1))
    if len(lonely):
        a = int(lonely[0])
        after = np.flatnonzero(table[a] == identity)
        element, e = _shown(labels, a, identity)
        if len(after):
            b, other = _shown(labels, after[0], table[after[0], a])
            why = f": times {b} it is {e}, but {b} times {element} is {other}"
        else:
            why = f": no product of {element} with an element is {e}"
        raise KroghError(f"inverses fail: element {element} has no two-sided inverse{why}")
    return two_sided.argmax(axis=1)


def _associative_generators(table: np.ndarray, identity: int, labels: Sequence[str]) -> tuple[int, ...]:
    generators: list[int] = []
    reached = np.zeros(len(table), bool)
    reached[identity] = True
    while not reached.all():
        b = int(np.argmin(reached))
        _check_middle(table, b, labels)
        generators.append(b)
        frontier = np.flatnonzero(reached)
        while len(frontier):  # the good elements are a group: products with generators on the right reach all of it
            products = np.unique(table[frontier[:, None], np.array(generators)[None, :]])
            frontier = products[~reached[products]]
            reached[frontier] = True
    return tuple(generators)


def _check_middle(table: np.ndarray, b: int, labels: Sequence[str]) -> None:
    """(ab)c = a(bc) for all a and c."""
    left, right = table[table[:, b], :], table[:, table[b, :]]
    if np.array_equal(left, right):
        return
    a, c = np.argwhere(left != right)[0]
    first, second, third, one, other = _shown(labels, a, b, c, left[a, c], right[a, c])
    raise KroghError(
        f"associativity fails: with a = {first}, b = {second}, c = {third}, (ab)c is {one} but a(bc) is {other}"
    )
