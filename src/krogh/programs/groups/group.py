"""A finite group as arrays: its Cayley table, and what follows from it (dissertation, section 7.6 and D.8).

Elements are numbered 0..n-1 and table[a, b] is the number of ab. Nothing is taken on trust: building a `Group` checks
the laws, so that a value of this type is a group, and a failure names the law and the elements. In this order:

    closure          every entry is an element
    identity         some e has ea = ae = a for all a
    inverses         every a has some b with ab = ba = e
    associativity    (ab)c = a(bc) for all n³ triples, by Light's test on generators, which is exact

Light's test: call b *good* when (ab)c = a(bc) for all a, c. Products of good elements are good, so it is enough that
generators are. Good elements with inverses form a group A whose cosets xA are disjoint; one more good generator at
least doubles A, so that at most log₂ n generators are tried (n² products each), whatever the table.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Int

from krogh.errors import KroghError, require
from krogh.programs import budgets

LARGEST_ORDER = budgets.ORDER.most
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


@dataclass(frozen=True, eq=False)
class Group:
    """A finite group of at most 1,024 elements.

    `labels` name the elements. `permutations`, where given, are a faithful action on degree points that the table
    follows, (ab)(x) = a(b(x)); it names conjugacy classes by cycle types. Equal groups have all of these
    the same.
    """

    name: str
    table: Int[np.ndarray, "n n"]
    labels: tuple[str, ...] = ()
    permutations: Int[np.ndarray, "elements degree"] | None = None
    identity: int = field(init=False)
    inverse: Int[np.ndarray, " n"] = field(init=False)
    generators: tuple[int, ...] = field(init=False)

    def __post_init__(self) -> None:
        table = whole_table(self.table)
        labels = tuple(self.labels) or tuple(str(element) for element in range(len(table)))
        _check_labels(labels, len(table))
        laws = check_laws(table, labels)
        if self.permutations is not None:
            permutations = np.array(self.permutations, np.int64)
            _check_action(permutations, table)
            self._keep(permutations=permutations)
        self._keep(table=table, labels=labels, **laws._asdict())

    def _keep(self, **values: Any) -> None:
        for name, value in values.items():
            object.__setattr__(self, name, read_only(value) if isinstance(value, np.ndarray) else value)

    @property
    def order(self) -> int:
        """The number of elements."""
        return len(self.table)

    @functools.cached_property
    def abelian(self) -> bool:
        """Whether ab = ba for all a and b."""
        return bool(np.array_equal(self.table, self.table.T))

    @functools.cached_property
    def element_orders(self) -> Int[np.ndarray, " n"]:
        """The least m ≥ 1 with a^m = e, for every element a."""
        powers, orders = np.arange(self.order), np.zeros(self.order, np.int64)
        for exponent in itertools.count(1):
            orders[(orders == 0) & (powers == self.identity)] = exponent
            if orders.all():
                return read_only(orders)
            powers = self.table[powers, np.arange(self.order)]
        raise AssertionError("every element of a finite group has an order")

    @property
    def exponent(self) -> int:
        """The least m ≥ 1 with a^m = e for all elements a."""
        return int(np.lcm.reduce(self.element_orders))

    @functools.cached_property
    def classes(self) -> tuple[Int[np.ndarray, " members"], ...]:
        """The conjugacy classes {g a g⁻¹}: that of the identity first, then by size, then by least element."""
        found: list[np.ndarray] = []
        seen = np.zeros(self.order, bool)
        for element in range(self.order):
            if not seen[element]:
                members = np.unique(self.table[self.table[:, element], self.inverse])
                seen[members] = True
                found.append(read_only(members))
        return tuple(sorted(found, key=lambda members: (members[0] != self.identity, len(members), members[0])))

    @functools.cached_property
    def class_of(self) -> Int[np.ndarray, " n"]:
        """The number of every element's conjugacy class."""
        numbers = np.zeros(self.order, np.int64)
        for number, members in enumerate(self.classes):
            numbers[members] = number
        return read_only(numbers)

    @functools.cached_property
    def class_sizes(self) -> Int[np.ndarray, " classes"]:
        """The number of elements of every conjugacy class."""
        return read_only(np.array([len(members) for members in self.classes]))

    @functools.cached_property
    def representatives(self) -> Int[np.ndarray, " classes"]:
        """The least element of every conjugacy class."""
        return read_only(np.array([members[0] for members in self.classes]))

    def powers(self, element: int) -> Int[np.ndarray, " order"]:
        """e, a, a², ..., all powers of an element once."""
        powers = [self.identity]
        while (following := int(self.table[powers[-1], element])) != self.identity:
            powers.append(following)
        return np.array(powers)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Group):
            return NotImplemented
        if self.name != other.name or self.labels != other.labels or not np.array_equal(self.table, other.table):
            return False
        mine, theirs = self.permutations, other.permutations
        return mine is theirs if mine is None or theirs is None else np.array_equal(mine, theirs)

    def __hash__(self) -> int:
        return self._hash

    @functools.cached_property
    def _hash(self) -> int:
        return hash((self.name, self.table.tobytes()))

    def __repr__(self) -> str:
        return f"Group({self.name!r}, order={self.order})"


def from_table(table: Any, labels: Iterable[str] | None = None, name: str = "table") -> Group:
    """The group of a Cayley table, table[a, b] = number of ab; the laws are checked, the failing one named."""
    return Group(name, whole_table(table), tuple(labels or ()))


def product(*groups: Group) -> Group:
    """The direct product; element (a_1, ..., a_r) has the number whose mixed-radix digits are a_1, ..., a_r."""
    require(groups, "a product needs at least one group; got none (try product(cyclic(2), cyclic(2)))")
    name = "x".join(group.name for group in groups)
    _check_order(name, int(np.prod([group.order for group in groups], dtype=object)))
    if len(groups) == 1:
        return groups[0]
    table = np.zeros((1, 1), np.int64)
    for group in groups:
        outer = table[:, None, :, None] * group.order + group.table[None, :, None, :]
        table = outer.reshape(len(table) * group.order, -1)
    labels = tuple("(" + ",".join(parts) + ")" for parts in itertools.product(*(group.labels for group in groups)))
    return Group(name, table, labels)


def read_only(array: np.ndarray) -> np.ndarray:
    """The array, no longer writable."""
    array.setflags(write=False)
    return array


def _check_order(name: str, order: int) -> None:
    require(order <= LARGEST_ORDER, f"{name} has {order} elements; tables are kept to {LARGEST_ORDER} elements")


def _check_labels(labels: tuple[str, ...], order: int) -> None:
    require(len(labels) == order, f"{order} elements need {order} labels; got {len(labels)}")
    for label in labels:
        require(isinstance(label, str) and label.strip(), f"labels are words that are not empty; got {label!r}")
    repeated = next((label for label in labels if labels.count(label) > 1), None) if len(set(labels)) < order else None
    require(repeated is None, f"labels must differ; {repeated!r} names several elements")


def _check_action(permutations: np.ndarray, table: np.ndarray) -> None:
    order = len(table)
    fits = permutations.ndim == 2 and len(permutations) == order
    require(fits, f"{order} elements need permutations of shape [{order}, degree]; got {list(permutations.shape)}")
    points = np.arange(permutations.shape[1])
    require(
        (np.sort(permutations, axis=1) == points[None, :]).all(), "a row of permutations must list 0..degree-1 once"
    )
    require(len(np.unique(permutations, axis=0)) == order, "permutations of different elements must differ")
    for a in range(order):
        follows = np.array_equal(permutations[table[a]], permutations[a][permutations])
        require(follows, f"permutations must follow the table, (ab)(x) = a(b(x)); products from the left by {a} do not")
