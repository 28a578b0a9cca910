"""Inputs that a single attention head of unbounded norm shatters (Proposition 4.8, §A.1.3).

For T = 2^p there are p sequences of T tokens in R³: token t of sequence i is (cos(2πt/T), sin(2πt/T), bin(t)_i), with
bin(t)_i the i-th digit, from the highest, of t in p binary digits. The head that attends to position s reads off the
digits of s, so every one of the 2^p patterns of signs occurs.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Float, Int

from krogh.errors import require_integer

MOST_POSITIONS = 2**24


def shattered_length(length: int) -> int:
    """T' = 2^⌊log2 T⌋: the positions that are used when T is no power of two."""
    require_integer("length", length, 1, MOST_POSITIONS)
    return 1 << (length.bit_length() - 1)


def binary_digits(length: int) -> Int[np.ndarray, "positions p"]:
    """bin(t)_i for t = 0..T'-1 and i = 1..p, the highest digit first."""
    used = shattered_length(length)
    p = used.bit_length() - 1
    return (np.arange(used)[:, None] >> np.arange(p)[::-1][None, :]) & 1


def shattering_inputs(length: int) -> Float[np.ndarray, "p positions three"]:
    """The p = ⌊log2 T⌋ sequences of T' = 2^p tokens in R³ (none for T = 1: the trivial bound), in float64."""
    digits = binary_digits(length)
    used, p = digits.shape
    angle = 2 * np.pi * np.arange(used) / used
    circle = np.stack([np.cos(angle), np.sin(angle)], axis=-1)
    return np.concatenate([np.broadcast_to(circle, (p, used, 2)), digits.T[:, :, None]], axis=-1)
