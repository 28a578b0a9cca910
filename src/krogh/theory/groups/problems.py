"""What a margin is asked of, a group whose composition is learned or a parity, and the real characters it depends on.

a group    a `Group`, a name such as "S_5", an integer p for Z_p, a composition task, or real characters alone
a parity   a `ParityProblem`, or a task "parity-classes"

Networks are real, so that what counts are the irreducible representations over the reals. Each comes from complex ones:

    kind          from                     real dimension D    commutant e    character χ
    real          one of dimension d       d                   1              χ_d
    complex       a conjugate pair         2d                  2              2 Re χ_d
    quaternionic  one of dimension d       2d                  4              2 χ_d

The regular representation holds each D/e times: Σ_R D²/e = |G| and Σ_R (D/e) χ_R(C) = 0 for C ≠ {e}. A class and the
class of its inverses have the same real characters and are one *real class* here; there are as many as real irreps.

With D in place of d and e = 1 the formulas of the dissertation's Theorem 7.9 and section D.9 hold for every finite
group: a neuron in R with unit vectors x, y, z, u(g) = xᵀR(g)y, v(g) = yᵀR(g)z, w(g) = xᵀR(g)z, attains
Σ_{a,b} u(a)v(b)w(ab) = √(|G|/D)·‖u‖‖v‖‖w‖, and none in R does better.
"""

from __future__ import annotations

import dataclasses
import functools
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from krogh.errors import KroghError, require, require_integer
from krogh.programs.groups import Group, cyclic, from_table, load_group
from krogh.theory.groups.characters import CharacterTable, character_table
from krogh.theory.groups.irreps import COMMUTANT, real_rows
from krogh.theory.groups.symmetric import symmetric_character_table

Array = NDArray[np.float64]

LARGEST_CYCLIC = 4096
"""Of Z_p with all characters listed."""

LARGEST_TABLED_DEGREE = 6
"""S_n beyond has no Cayley table here, but characters."""

LARGEST_DEGREE = 12
"""Of S_n by characters alone: 77 of them."""


@dataclass(frozen=True, eq=False)
class RealCharacters:
    """The real irreducible characters of a finite group.

    `characters` [irreps, classes], the trivial irrep and the class of the identity first; `class_sizes` count the
    elements of a class and of its inverses; `dimensions` are D, `kinds` the kinds of the irreps. `class_members` says
    of each real class which classes of the complex table it is, `irrep_members` the same of the irreps.
    """

    order: int
    class_sizes: NDArray[np.int64]
    characters: Array
    kinds: tuple[str, ...]
    irrep_names: tuple[str, ...]
    class_names: tuple[str, ...]
    irrep_members: tuple[tuple[int, ...], ...]
    class_members: tuple[tuple[int, ...], ...]

    def __post_init__(self) -> None:
        regular = self.multiplicities @ self.characters
        expected = np.zeros(len(self.class_sizes))
        expected[0] = self.order
        sizes_add = int(self.class_sizes.sum()) == self.order
        require(
            sizes_add and np.allclose(regular, expected, rtol=0, atol=1e-6 * self.order),
            f"characters must add up to the regular representation of a group of order {self.order}; class sizes "
            f"{self.class_sizes.tolist()} add to {self.class_sizes.sum()}, Σ(D/e)χ is {np.round(regular, 6).tolist()}",
        )

    @property
    def dimensions(self) -> Array:
        """D of each irrep, [irreps]."""
        return self.characters[:, 0]

    @property
    def commutants(self) -> Array:
        """e of each irrep, [irreps]: 1 real, 2 complex, 4 quaternionic."""
        return np.array([COMMUTANT[kind] for kind in self.kinds], np.float64)

    @property
    def multiplicities(self) -> Array:
        """D/e, how often the regular representation holds each irrep."""
        return self.dimensions / self.commutants

    @property
    def real_type(self) -> bool:
        """Whether every irrep is realisable by real matrices, as Theorem 7.9 assumes."""
        return set(self.kinds) == {"real"}

    def payoff(self) -> Array:
        """A[R, C] = (D_R - χ_R(C))/D_R^1.5 over non-trivial irreps and classes: the matrix game of section D.9.2."""
        d = self.dimensions[1:, None]
        return np.asarray((d - self.characters[1:, 1:]) / d**1.5)

    @property
    def unit(self) -> float:
        """2/(3|G|)^1.5: the margin of a game of value 1."""
        return 2.0 / (3.0 * self.order) ** 1.5


def real_characters(table: CharacterTable) -> RealCharacters:
    """The real characters of a complex table: conjugate rows are one irrep, conjugate columns one class.

    An irrep is named after its first row, a class after both columns.
    """
    rows, members = real_rows(table), _conjugate_columns(table.characters)
    return RealCharacters(
        order=table.order,
        class_sizes=np.array([table.class_sizes[list(columns)].sum() for columns in members]),
        characters=np.array([row.character for row in rows])[:, [columns[0] for columns in members]],
        kinds=tuple(row.kind for row in rows),
        irrep_names=tuple(table.irrep_names[row.rows[0]] for row in rows),
        class_names=tuple("+".join(table.class_names[column] for column in columns) for columns in members),
        irrep_members=tuple(row.rows for row in rows),
        class_members=members,
    )


def _conjugate_columns(characters: NDArray[np.complex128]) -> tuple[tuple[int, ...], ...]:
    """The columns grouped with their conjugates: (i,) where column i is real, else (i, j)."""
    partners = [int(np.argmin(np.max(np.abs(characters - c.conj()[:, None]), axis=0))) for c in characters.T]
    return tuple((i,) if i == j else (i, j) for i, j in enumerate(partners) if i <= j)


def cyclic_characters(p: int) -> RealCharacters:
    """Those of Z_p: 2cos(2πzc/p) for the frequencies z < p/2, and for even p the alternating sign (-1)^c."""
    require_integer("p", p, 2, LARGEST_CYCLIC)
    half = p // 2
    values = np.arange(half + 1)
    angles = 2 * np.pi * (np.outer(values, values) % p) / p
    characters = 2.0 * np.cos(angles)
    characters[0] = 1.0
    sizes = np.full(half + 1, 2)
    sizes[0] = 1
    kinds = ["real"] + ["complex"] * half
    if p % 2 == 0:
        characters[half] /= 2.0
        sizes[half], kinds[half] = 1, "real"
    pairs = tuple((c,) if 2 * c % p == 0 else (c, p - c) for c in values.tolist())
    return RealCharacters(
        order=int(p),
        class_sizes=sizes,
        characters=characters,
        kinds=tuple(kinds),
        irrep_names=tuple(f"frequency {z}" for z in values),
        class_names=tuple("+".join(map(str, pair)) for pair in pairs),
        irrep_members=pairs,
        class_members=pairs,
    )


def require_group(characters: RealCharacters) -> None:
    """Refuse the group of one element, where there is no wrong label and hence no margin."""
    require(characters.order > 1, "a margin needs a wrong label; got the group of one element (try Z_2)")


GroupLike = Group | RealCharacters | str | int
"""What names a group: see this module's docstring. An integer p is Z_p."""


@dataclass(frozen=True)
class ParityProblem:
    """y = ∏_{j in support} x_j for x in {-1,+1}^n; the support is the first k coordinates where k is given instead."""

    n: int
    support: tuple[int, ...]

    def __init__(self, n: int, support: Iterable[int] | None = None, k: int | None = None):
        require_integer("n", n, 1)
        require((support is None) != (k is None), f"a parity needs either a support or k; got {support!r} and k={k!r}")
        if support is None:
            require_integer("k", k, 1, n)
        members = tuple(range(int(k or 0))) if support is None else tuple(int(i) for i in support)
        for index in members:
            require_integer("a coordinate of the support", index, 0, n - 1)
        distinct = len(set(members)) == len(members) > 0
        require(distinct, f"a support has at least one coordinate and repeats none; got {list(members)}")
        object.__setattr__(self, "n", int(n))
        object.__setattr__(self, "support", members)

    @property
    def k(self) -> int:
        """How many bits are multiplied."""
        return len(self.support)


Problem = Group | ParityProblem


def problem_of(given: Any) -> Problem:
    """The group or parity that `given` names; a task of either is read by its fields."""
    if isinstance(given, Group | ParityProblem):
        return given
    if hasattr(given, "support") and hasattr(given, "n"):
        return ParityProblem(int(given.n), np.asarray(given.support).tolist())
    if isinstance(given, str):
        return load_group(given)
    if isinstance(given, int | np.integer) and not isinstance(given, bool):
        return cyclic(int(given))
    if hasattr(given, "table"):
        return from_table(np.asarray(given.table), name=getattr(given, "name", "table"))
    raise KroghError(
        f"a problem is a group, its name, an integer p for Z_p, a parity or a task of these; got {given!r}"
    )


def group_of(given: Any) -> Group:
    """The group that `given` names; a parity is refused."""
    problem = problem_of(given)
    if isinstance(problem, ParityProblem):
        raise KroghError(f"expected a group (try 'S_3' or an integer p for Z_p); got a parity of {problem.k} bits")
    return problem


def characters_of(given: GroupLike) -> RealCharacters:
    """The real characters of a group, however it is given; S_7 and larger by the Murnaghan–Nakayama rule."""
    if isinstance(given, RealCharacters):
        return given
    p = cyclic_order(given)
    if p is not None and not isinstance(given, Group):
        return cyclic_characters(p)
    degree = _large_symmetric(given)
    if degree is not None:
        return real_characters(symmetric_character_table(degree))
    return _characters(group_of(given))


@functools.lru_cache(maxsize=32)
def _characters(group: Group) -> RealCharacters:
    found = real_characters(character_table(group))
    p = cyclic_order(group)
    if p is None:
        return found
    named = cyclic_characters(p)  # in the same order, by the frequencies' names
    require(np.allclose(named.characters, found.characters), f"the characters of {group.name} are not in order")
    return dataclasses.replace(found, irrep_names=named.irrep_names, class_names=named.class_names)


def cyclic_order(given: Any) -> int | None:
    """p where this is Z_p, p ≥ 2, by its number, its name or its table a + b mod p; None where it is not."""
    if isinstance(given, bool):
        return None
    if isinstance(given, int | np.integer):
        require_integer("p", given, 2)
        return int(given)
    if isinstance(given, str):
        match = re.fullmatch(r"\s*Z_?(\d+)\s*", given)
        return cyclic_order(int(match[1])) if match else None
    if isinstance(given, Group) and given.order > 1:
        elements = np.arange(given.order)
        added = (elements[:, None] + elements[None, :]) % given.order
        return given.order if np.array_equal(given.table, added) else None
    return None


def _large_symmetric(given: Any) -> int | None:
    match = re.fullmatch(r"\s*S_?(\d+)\s*", given) if isinstance(given, str) else None
    return int(match[1]) if match and LARGEST_TABLED_DEGREE < int(match[1]) <= LARGEST_DEGREE else None
