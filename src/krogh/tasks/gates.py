"""Truth tables on s bits: named gates, symmetric functions, and the input bias that balances a gate (§4.5, §4.6).

A table lists 2^s values; entry Σ_j b_j·2^j is the value at bits b, and 1 is true. A *symmetric* function depends on
r = Σ_j b_j alone.

    and, or, nand, nor     all bits 1, some bit 1, and their negations
    xor                    r odd
    majority               r > s/2
    threshold-k            r ≥ k, for k from 1 to s (threshold-1 is or, threshold-s is and)
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Int

from krogh.errors import KroghError, require, require_integer, unknown

GATES = ("and", "or", "nand", "nor", "xor", "majority")
THRESHOLD = "threshold-"
MOST_BITS = 20


def weights(s: int) -> Int[np.ndarray, " table"]:
    """r = Σ_j b_j of each of the 2^s entries of a table."""
    require_integer("s", s, 0, MOST_BITS)
    return np.bitwise_count(np.arange(2**s, dtype=np.uint32)).astype(np.int64)


def symmetric_table(values: Sequence[float] | np.ndarray) -> Float[np.ndarray, " table"]:
    """The table of b ↦ values[Σ_j b_j], from the s+1 values at r = 0..s."""
    profile = np.asarray(values, np.float64)
    require(profile.ndim == 1 and profile.size, f"values must list f(0)..f(s); got {values!r}")
    return profile[weights(len(profile) - 1)]


def gate_profile(name: str, s: int) -> Float[np.ndarray, " values"]:
    """The s+1 values (0 or 1) of a named gate at r = 0..s true bits."""
    require_integer("s", s, 1, MOST_BITS)
    r = np.arange(s + 1)
    if name == "xor":
        return (r % 2).astype(np.float64)
    level = _level(name, s)
    return ((r < level) if name in ("nand", "nor") else (r >= level)).astype(np.float64)


def gate_table(name: str, s: int) -> Float[np.ndarray, " table"]:
    """The 2^s values (0 or 1) of a named gate."""
    return symmetric_table(gate_profile(name, s))


def balancing_bias(name: str, s: int) -> float:
    """P[b = 1] at which the gate is true with probability 1/2: 2^{-1/s} for and, 1 - 2^{-1/s} for or, 1/2 for xor.

    In general the root p of P[Bin(s, p) ≥ k] = 1/2, which increases with p.
    """
    require_integer("s", s, 1, MOST_BITS)
    if name == "xor":
        return 0.5
    level = _level(name, s)
    if 2 * level == s + 1:  # exchanging 0 and 1 negates the gate
        return 0.5
    if level == s:
        return 2.0 ** (-1.0 / s)
    if level == 1:
        return 1.0 - 2.0 ** (-1.0 / s)
    low, high = 0.0, 1.0
    for _ in range(60):
        middle = (low + high) / 2
        reached = sum(math.comb(s, r) * middle**r * (1 - middle) ** (s - r) for r in range(level, s + 1))
        low, high = (middle, high) if reached < 0.5 else (low, middle)
    return (low + high) / 2


def _level(name: str, s: int) -> int:
    """How many true bits switch a threshold gate."""
    levels = {"and": s, "nand": s, "or": 1, "nor": 1, "majority": s // 2 + 1}
    if name in levels:
        return levels[name]
    if isinstance(name, str) and name.startswith(THRESHOLD):
        given = name.removeprefix(THRESHOLD)
        number = int(given) if given.isdecimal() else 0
        inside = 1 <= number <= s
        require(inside, f"a threshold gate of s={s} bits is {THRESHOLD}k for k from 1 to {s}; got {name!r}")
        return number
    raise unknown("gate", str(name), [*GATES, f"{THRESHOLD}k"])


def as_labels(table: Any) -> tuple[Float[np.ndarray, " table"], bool]:
    """A table as labels, and whether they are real: {0,1} becomes ±1, {±1} stays, and so do real values."""
    try:
        values = np.asarray(table, np.float64)
    except (TypeError, ValueError):
        raise KroghError(f"a table lists numbers; got {table!r}") from None
    require(values.ndim == 1 and np.isfinite(values).all(), f"a table lists finite numbers; got {values.tolist()}")
    distinct = set(values.tolist())
    if distinct <= {0.0, 1.0}:
        return 2 * values - 1, False
    return values, not distinct <= {-1.0, 1.0}


def is_symmetric(table: np.ndarray) -> bool:
    """Whether the table depends on the number of true bits alone."""
    r = weights(bits_of(table))
    first = np.zeros(r.max() + 1)
    first[r] = table
    return bool(np.array_equal(first[r], table))


def relevant_bits(table: np.ndarray) -> Bool[np.ndarray, " s"]:
    """Which of the s bits the table depends on."""
    s = bits_of(table)
    index = np.arange(len(table))
    return np.array([bool(np.any(table != table[index ^ (1 << j)])) for j in range(s)], bool)


def bits_of(table: np.ndarray) -> int:
    """s of a table of 2^s values."""
    size = len(table)
    s = size.bit_length() - 1
    if size != 2**s:
        nearest = 2 ** max(1, round(math.log2(size))) if size else 2
        raise KroghError(f"a table lists 2^s values; got {size} (try {nearest})")
    return s


def probabilities(s: int, bias: float) -> Float[np.ndarray, " table"]:
    """P[b] of each of the 2^s entries when every bit is 1 with probability `bias`, independently."""
    r = weights(s)
    return bias**r * (1.0 - bias) ** (s - r)
