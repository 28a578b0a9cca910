"""Inputs of the handmade heads of chapter 4: nearly orthonormal bases, and what a head shatters (§A.1.3, §A.2).

A basis holds unit vectors v_1..v_T with |v_i·v_j| ≤ Δ for i ≠ j, and E_0, E_1, v_CLS, which are exactly orthonormal
and exactly orthogonal to every v_i: they are the last three coordinates. Three mappings b ↦ X(b) of bits (§A.2.1):

    deterministic   x_t = E_{b_t} + v_t               ‖x_t‖ = √2
    trainable       x_t = E_{b_t} + P_t for a given P  ‖x_t‖ ≤ √2 where ‖P_t‖ ≤ 1 and P avoids E_0, E_1
    bag             x_t = b_t v_t, so X = diag(b) V    ‖x_t‖ ≤ 1

Each appends the row v_CLS: X(b) has shape [T+1, d].

A single head of unbounded norm shatters p sequences of T = 2^p tokens in R³ (Proposition 4.8): token t of sequence i
is (cos(2πt/T), sin(2πt/T), bin(t)_i), with bin(t)_i the i-th digit, from the highest, of t in p binary digits. The head
that attends to position s reads off the digits of s, so every one of the 2^p patterns of signs occurs. All in float64.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float, Int

from krogh.errors import KroghError, require, require_integer
from krogh.models.attention import RESERVED

FAILURE = 0.1
MOST_POSITIONS = 2**24


class Basis(NamedTuple):
    """v_1..v_T as the rows of `positions`, E_0 and E_1 as the rows of `tokens`, v_CLS, and the measured Δ."""

    positions: Float[np.ndarray, "length d"]
    tokens: Float[np.ndarray, "two d"]
    cls: Float[np.ndarray, " d"]
    coherence: float

    @property
    def length(self) -> int:
        return len(self.positions)

    @property
    def dimension(self) -> int:
        return self.positions.shape[1]


def basis(length: int, dimension: int | None = None, seed: int = 0, exact: bool | None = None) -> Basis:
    """A basis for T = `length` positions in dimension d, with its measured Δ.

    Coordinate vectors (Δ = 0) where d ≥ T+3, the default dimension; otherwise, or with `exact=False`, random signs
    ±1/√(d-3), whose Δ is what it happens to be (`required_dimension` says where it is small).
    """
    require_integer("length", length, 1)
    dimension = length + RESERVED if dimension is None else dimension
    require_integer("dimension", dimension, RESERVED + 1)
    fits = dimension >= length + RESERVED
    exact = fits if exact is None else exact
    needed = length + RESERVED
    require(
        fits or not exact,
        f"{length} exactly orthogonal positions need dimension at least {needed}; got dimension={dimension} "
        f"(try dimension={needed}, or exact=False for random signs)",
    )
    free = dimension - RESERVED
    positions = np.zeros((length, dimension))
    if exact:
        positions[:, :free] = np.eye(length, free)
    else:
        random = np.random.default_rng([seed, length, dimension])
        positions[:, :free] = (1 - 2 * random.integers(0, 2, (length, free))) / math.sqrt(free)
    reserved = np.eye(dimension)[free:]
    return Basis(positions, reserved[:2], reserved[2], measured_coherence(positions))


def measured_coherence(vectors: Float[np.ndarray, "count d"]) -> float:
    """Δ = max_{i≠j} |v_i·v_j|; 0 for a single vector."""
    products = np.abs(vectors @ vectors.T)
    np.fill_diagonal(products, 0.0)
    return float(products.max())


def required_dimension(length: int, coherence: float, failure: float = FAILURE) -> int:
    """The least d with d-3 ≥ (4 ln T + 2 ln(1/p))/Δ²: random signs then keep to Δ with probability ≥ 1-p."""
    require_integer("length", length, 1)
    require(0 < coherence < 1, f"Δ must lie in (0, 1); got {coherence} (dimension T+3 = {length + RESERVED} has Δ = 0)")
    require(0 < failure < 1, f"failure must be a probability in (0, 1); got failure={failure} (try {FAILURE})")
    return RESERVED + max(1, math.ceil((4 * math.log(length) + 2 * math.log(1 / failure)) / coherence**2))


def deterministic(bits: Any, using: Basis) -> Float[np.ndarray, "*batch rows d"]:
    """Rows E_{b_t} + v_t, then v_CLS."""
    return trainable(bits, using, using.positions)


def trainable(bits: Any, using: Basis, positions: Any) -> Float[np.ndarray, "*batch rows d"]:
    """Rows E_{b_t} + P_t for positions P [T, d] chosen by a construction, then v_CLS."""
    b, P = _checked_bits(bits, using), np.asarray(positions, np.float64)
    shape = using.positions.shape
    require(P.shape == shape, f"positions must have shape {list(shape)}; got {list(P.shape)}")
    return _with_cls(using.tokens[b] + P, using)


def bag(bits: Any, using: Basis) -> Float[np.ndarray, "*batch rows d"]:
    """Rows b_t v_t, then v_CLS: which rows are there says everything, their order nothing."""
    b = _checked_bits(bits, using)
    return _with_cls(b[..., None] * using.positions, using)


def token_norm(X: Float[np.ndarray, "*batch rows d"]) -> float:
    """B_X = max_t ‖x_t‖ = ‖X^T‖_{2,∞}."""
    return float(np.linalg.norm(X, axis=-1).max())


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


def _with_cls(rows: np.ndarray, using: Basis) -> np.ndarray:
    cls = np.broadcast_to(using.cls, (*rows.shape[:-2], 1, using.dimension))
    return np.concatenate([rows, cls], axis=-2)


def _checked_bits(bits: Any, using: Basis) -> Int[np.ndarray, "*batch length"]:
    b = np.asarray(bits)
    if b.ndim == 0 or b.shape[-1] != using.length or not np.isin(b, (0, 1)).all():
        raise KroghError(f"bits must be 0 or 1 of shape [..., {using.length}]; got {b.tolist()!r:.60}")
    return b.astype(np.int64)
