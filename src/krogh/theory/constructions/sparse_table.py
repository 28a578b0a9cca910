"""What the constructions of sparse functions share: their index set, their oracle, and the norms of their weights."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from krogh.errors import KroghError, require, require_integer
from krogh.theory.constructions.base import Array, Oracle
from krogh.theory.constructions.parity import ALL_INPUTS

FILLINGS = 64
"""How often each setting of the relevant bits is checked in a long context: the others all 0, all 1, then random."""

_ENTRIES = 2**22
"""Coordinates in one batch of inputs: 32 MiB in float64."""


@dataclass(frozen=True, eq=False)
class SparseTable(Oracle):
    """values[Σ_j b_{support[j]} 2^j], a number or a vector.

    On all 2^n inputs for n ≤ 16; beyond, on all 2^s settings of the relevant bits, each with all other bits 0, with all
    others 1, and with random others.
    """

    n: int
    support: tuple[int, ...]
    values: Array

    @property
    def exhaustive(self) -> bool:
        return self.n <= ALL_INPUTS

    def cases(self, seed: int) -> Iterator[tuple[Array, Array]]:
        random = np.random.default_rng(seed)
        relevant = list(self.support)
        total = 2**self.n if self.exhaustive else FILLINGS * len(self.values)
        batch = max(1, _ENTRIES // self.n)
        for start in range(0, total, batch):
            rows = np.arange(start, min(start + batch, total))
            if self.exhaustive:
                bits = (rows[:, None] >> np.arange(self.n)) & 1
                index = bits[:, relevant] @ (1 << np.arange(len(relevant)))
            else:
                index, filling = rows % len(self.values), rows // len(self.values)
                bits = random.integers(0, 2, (len(rows), self.n))
                bits[filling == 0], bits[filling == 1] = 0, 1
                bits[:, relevant] = (index[:, None] >> np.arange(len(relevant))) & 1
            yield np.asarray(1.0 - 2.0 * bits, np.float64), self.values[index]


def index_set(n: int, s: int | None, support: Iterable[int] | None) -> tuple[int, ...]:
    """I as a tuple: the support if given, and the first s coordinates if not."""
    require_integer("n", n, 1)
    require(s is not None or support is not None, "a sparse function needs s or a support; got neither")
    if support is None:
        require_integer("s", s, 1, n)
        return tuple(range(s))  # type: ignore[arg-type]
    if isinstance(support, str) or not isinstance(support, Iterable):
        raise KroghError(f"support must be a list of coordinates in 0..{n - 1}; got support={support!r}")
    members = tuple(support)
    for index in members:
        require_integer("a coordinate of the support", index, 0, n - 1)
    require(members, "support must have a coordinate; got support=()")
    require(len(set(members)) == len(members), f"support must not repeat an index; got {list(members)}")
    require(s is None or s == len(members), f"support must have s={s} indices; got {list(members)}")
    return members


def labels(values: ArrayLike) -> Array:
    """Values as the task has them: 0 and 1 become the labels -1 and +1, other numbers stay."""
    listed = np.asarray(values, np.float64)
    return 2 * listed - 1 if np.isin(listed, (0.0, 1.0)).all() else listed


def norms(params: Mapping[str, ArrayLike]) -> dict[str, float]:
    """‖·‖_F of every weight (the largest over heads) and ‖Pᵀ‖_{2,1} = Σ_t ‖P_t‖ of the positions."""
    found = {}
    for name, value in params.items():
        array = np.asarray(value, np.float64)
        if array.ndim == 3:
            found[name] = float(np.max(np.linalg.norm(array, axis=(1, 2))))
        else:
            found[name] = float(np.linalg.norm(array))
    if "P" in params:
        found["P_21"] = float(np.sum(np.linalg.norm(np.asarray(params["P"], np.float64), axis=1)))
    return found
