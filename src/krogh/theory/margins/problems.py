"""What a margin is asked of: a group whose composition is learned, or a parity; and how each may be given.

a group    a `Group`, a name such as "S_5", an integer p for Z_p, a composition task, or real characters alone
a parity   a `ParityProblem`, or a task "parity-classes"
"""

from __future__ import annotations

import dataclasses
import functools
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from krogh.errors import KroghError, require, require_integer
from krogh.tasks.groups import Group, cyclic, from_table, load_group
from krogh.theory import representations
from krogh.theory.margins.characters import RealCharacters, cyclic_characters, from_complex_table

GroupLike = Group | RealCharacters | str | int
"""What names a group: see this module's docstring. An integer p is Z_p."""

LARGEST_TABLED_DEGREE = 6
"""S_n beyond has no Cayley table here, but characters."""

LARGEST_DEGREE = 12
"""Of S_n by characters alone: 77 of them."""


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
        return _real(representations.symmetric_character_table(degree))
    return _characters(group_of(given))


@functools.lru_cache(maxsize=32)
def _characters(group: Group) -> RealCharacters:
    found = _real(representations.character_table(group))
    p = cyclic_order(group)
    if p is None:
        return found
    named = cyclic_characters(p)  # in the same order, by the frequencies' names
    require(np.allclose(named.characters, found.characters), f"the characters of {group.name} are not in order")
    return dataclasses.replace(found, irrep_names=named.irrep_names, class_names=named.class_names)


def _real(table: representations.CharacterTable) -> RealCharacters:
    return from_complex_table(
        table.characters, table.class_sizes, table.indicator, table.class_names, table.irrep_names
    )


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
