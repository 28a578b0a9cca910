"""A finite group as arrays: its Cayley table, and what follows from it (dissertation, section 7.6 and D.8).

Elements are numbered 0..n-1 and table[a, b] is the number of ab. Nothing is taken on trust: building a `Group` checks
the laws (`group_laws.py`), so that a value of this type is a group. Arrays are read-only.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from jaxtyping import Int

from krogh.errors import require
from krogh.tasks.group_laws import LARGEST_ORDER, check_laws, whole_table


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
