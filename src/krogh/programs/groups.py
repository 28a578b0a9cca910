"""Finite groups: named families, products, and tables of one's own (dissertation, sections 7.4 and 7.6).

cyclic        Z_n, addition modulo n; element a is the number a
dihedral      D_n of order 2n; element k is r^k for k < n, and r^{k-n}s from n on
symmetric     S_n, permutations in lexicographic order with (ab)(x) = a(b(x)); element 0 is the identity
alternating   A_n, its even permutations
quaternion    Q_8 = {±1, ±i, ±j, ±k}
product       direct products; `power` repeats a factor
from_table    any Cayley table, its laws checked
load_group    "Z_71", "D_6", "S_5", "A_5", "Q_8", "D_4xD_4", "Z_2^3", or a CSV, JSON or NPY file with a table

The laws of a group, checked on a multiplication table; each failure names the law and the elements.

A table lists table[a, b] = the number of ab for elements 0..n-1. The laws, in the order in which they are checked:

    closure          every entry is an element
    identity         some e has ea = ae = a for all a
    inverses         every a has some b with ab = ba = e
    associativity    (ab)c = a(bc) for all n³ triples, by Light's test on generators, which is exact

Light's test: call b *good* when (ab)c = a(bc) for all a, c. Products of good elements are good, so it is enough that
generators are. Good elements with inverses form a group A whose cosets xA are disjoint; one more good generator at
least doubles A, so that at most log₂ n generators are tried (n² products each), whatever the table.

A finite group as arrays: its Cayley table, and what follows from it (dissertation, section 7.6 and D.8).

Elements are numbered 0..n-1 and table[a, b] is the number of ab. Nothing is taken on trust: building a `Group` checks
the laws (`group_laws.py`), so that a value of this type is a group. Arrays are read-only.
"""

from __future__ import annotations

import difflib
import functools
import itertools
import math
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Int

from krogh.errors import KroghError, require, require_integer
from krogh.programs.group_files import READERS, read_table

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
    if path.suffix.lower() in READERS:
        table, labels, name = read_table(path)
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
