"""What trained attention looks at: which positions, by relevance, label and bit, and whether it matches codes.

At [CLS] of a Transformer on sparse functions (dissertation, §4.6, Figure 4.3):

    a [samples, heads, T+1]     softmax weights at [CLS] over the T positions and, last, over [CLS] itself
    relevant mass               Σ_{i∈I} a_i
    irrelevant mass             Σ_{i∉I, i<T} a_i, and the largest single a_i among them

Report by label: a head that looks for a false bit of a conjunction finds one exactly where the label is false, and
spreads its weight where there is none to be found. Averages over both labels describe neither.

At every position of a prompt (qSTR paper, Figure 2 and (A.2)): a token is z_i = (x_i, w_i, w_{t_i1}, ..., w_{t_iq}), d
coordinates of data, the position's code of d_e coordinates, then the codes of its q indices. A head that retrieves
token t_ih compares the query's h-th index code with the key's position code: the block of rows d + h d_e, ...,
d + (h+1) d_e - 1 (h from 1) and columns d, ..., d + d_e - 1 of its query-key matrix.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float
from numpy.typing import ArrayLike, NDArray

from krogh.errors import KroghError, require, require_integer

Array = NDArray[np.float64]

Positions = Sequence[int | float] | NDArray[Any]
"""Whole numbers, which is checked."""

ROUNDING = 1e-3
"""How far sums of weights may be from 1."""


@dataclass(frozen=True)
class Masses:
    """Where the weight of each sample and head lies; every field is [samples, heads]."""

    relevant: Float[np.ndarray, "samples heads"]
    irrelevant: Float[np.ndarray, "samples heads"]
    own: Float[np.ndarray, "samples heads"]
    largest_irrelevant: Float[np.ndarray, "samples heads"]


def attention_masses(weights: ArrayLike, support: Positions) -> Masses:
    """The mass of [CLS]'s weights [samples, heads, T+1] on the `support`, on other positions and on [CLS] itself."""
    a, index = _checked(weights, support)
    relevant = np.zeros(a.shape[2], bool)
    relevant[index] = True
    other = ~relevant
    other[-1] = False
    elsewhere = a[:, :, other]
    return Masses(
        relevant=a[:, :, relevant].sum(axis=2),
        irrelevant=elsewhere.sum(axis=2),
        own=a[:, :, -1],
        largest_irrelevant=elsewhere.max(axis=2, initial=0.0),
    )


def attention_profile(weights: ArrayLike, support: Positions) -> dict[str, float]:
    """Averages over samples and heads, and the largest weight of all on an irrelevant position.

    `relevant_mass`, `irrelevant_mass` and `own_weight` add up to 1; `irrelevant_weight` is the mean of one irrelevant
    position.
    """
    a, index = _checked(weights, support)
    masses = attention_masses(a, index)
    others = a.shape[2] - 1 - len(index)
    return {
        "samples": float(len(a)),
        "relevant_mass": float(masses.relevant.mean()),
        "irrelevant_mass": float(masses.irrelevant.mean()),
        "own_weight": float(masses.own.mean()),
        "irrelevant_weight": float(masses.irrelevant.mean() / others) if others else 0.0,
        "largest_irrelevant": float(masses.largest_irrelevant.max()),
    }


def profile_by_label(weights: ArrayLike, support: Positions, labels: ArrayLike) -> dict[int, dict[str, float]]:
    """`attention_profile` of the samples of each label that occurs: 0 for false (0 or -1), 1 for true (+1)."""
    a, index = _checked(weights, support)
    true = np.asarray(labels) > 0
    require(true.shape == (len(a),), f"labels must be one per sample, {len(a)}; got shape {true.shape}")
    return {label: attention_profile(a[true == bool(label)], index) for label in (0, 1) if np.any(true == bool(label))}


def weight_by_bit(weights: ArrayLike, support: Positions, bits: ArrayLike) -> dict[int, float]:
    """Mean weight on a relevant position whose bit is 0, and on one whose bit is 1; NaN where there is none.

    `bits` [samples, T] in {0,1}.
    """
    a, index = _checked(weights, support)
    given = np.asarray(bits)
    shape = (a.shape[0], a.shape[2] - 1)
    require(given.shape == shape, f"bits must be [samples, T] = {list(shape)}; got shape {list(given.shape)}")
    require(np.isin(given, (0, 1)).all(), "bits must be 0 or 1 (an input x = ±1 has the bit x < 0)")
    relevant = a[:, :, index].mean(axis=1)
    chosen = given[:, index].astype(bool)
    return {bit: _mean(relevant[chosen == bool(bit)]) for bit in (0, 1)}


def _mean(values: Array) -> float:
    return float(values.mean()) if values.size else float("nan")


def _checked(weights: ArrayLike, support: Positions) -> tuple[Array, NDArray[np.integer]]:
    a = np.asarray(weights, np.float64)
    require(a.ndim == 3 and a.size, f"weights must be [samples, heads, T+1], none of them 0; got shape {list(a.shape)}")
    summed = np.abs(a.sum(axis=2) - 1)
    require(
        bool(np.all(summed <= ROUNDING)) and bool(np.all(a >= 0)),
        f"weights must be a distribution over the last axis; the sums miss 1 by up to {summed.max():.3g}",
    )
    index = np.asarray(support)
    positions = a.shape[2] - 1
    if index.ndim != 1 or index.dtype.kind not in "iu" or len(set(index.tolist())) != index.size:
        raise KroghError(f"support must list different positions; got {support!r}")
    inside = index.size == 0 or (index.min() >= 0 and index.max() < positions)
    require(inside, f"support must lie in 0..{positions - 1}, [CLS] apart; got {index.tolist()}")
    return a, index


class MapScores(NamedTuple):
    """How much of an attention map is the retrieval block, and how much of the block its diagonal.

    `block_energy` = |B|_F^2/|M|_F^2; means of absolute values on and off the block's diagonal (the latter 0 where
    codes have one coordinate) and their ratio `diagonal_dominance`; the largest absolute entry outside B.
    """

    block_energy: float
    diagonal: float
    off_diagonal: float
    diagonal_dominance: float
    largest_outside: float


class Retrieval(NamedTuple):
    """Attention paid to the right token: the mean and the least over prompts and positions."""

    mean: float
    least: float


def attention_map(query_weights: ArrayLike, key_weights: ArrayLike) -> Array:
    """W_Q^T W_K, shape (features, features): rows are query coordinates, columns key coordinates.

    Weights are [inner, features], as in q = W_Q z, so that the score of query i and key j is z_i^T M z_j.
    """
    queries, keys = np.asarray(query_weights, np.float64), np.asarray(key_weights, np.float64)
    fits = queries.ndim == keys.ndim == 2 and queries.shape == keys.shape
    require(fits, f"query and key weights must be two matrices of one shape; got {queries.shape} and {keys.shape}")
    return queries.T @ keys


def retrieval_block(matrix: ArrayLike, dimension: int, code_dimension: int, slot: int = 1) -> Array:
    """The block B of a map that compares the query's index code number `slot` (from 1) with position codes."""
    m = np.asarray(matrix, np.float64)
    require_integer("dimension", dimension, 1)
    require_integer("code_dimension", code_dimension, 1)
    require(m.ndim == 2 and m.shape[0] == m.shape[1], f"an attention map is a square matrix; got shape {m.shape}")
    slots = (len(m) - dimension) / code_dimension - 1
    require(
        slots >= 1 and slots == int(slots),
        f"a map of {len(m)} features is not d + (q+1) d_e with d={dimension}, d_e={code_dimension} and whole q >= 1",
    )
    require_integer("slot", slot, 1, int(slots))
    rows = dimension + slot * code_dimension
    return m[rows : rows + code_dimension, dimension : dimension + code_dimension]


def map_scores(matrix: ArrayLike, dimension: int, code_dimension: int, slot: int = 1) -> MapScores:
    """The scores of an attention map [features, features], rows being query coordinates."""
    outside = np.abs(np.array(matrix, np.float64))
    inside = retrieval_block(outside, dimension, code_dimension, slot)
    total = float((outside**2).sum())
    require(total > 0, "an attention map that is all zero has no scores")
    block = inside.copy()
    inside[:] = 0  # a view: what is left is outside the block
    on = np.eye(code_dimension, dtype=bool)
    diagonal = float(block[on].mean())
    off_diagonal = float(block[~on].mean()) if code_dimension > 1 else 0.0
    return MapScores(
        block_energy=float((block**2).sum()) / total,
        diagonal=diagonal,
        off_diagonal=off_diagonal,
        diagonal_dominance=diagonal / off_diagonal if off_diagonal > 0 else math.inf,
        largest_outside=float(outside.max()),
    )


def retrieval_weight(probabilities: ArrayLike, indices: ArrayLike) -> Retrieval:
    """Attention probability on token t_i at position i, over prompts and positions.

    `probabilities` [prompts, queries, keys] sum to 1 over keys; `indices` [prompts, queries] count from 0.
    """
    weights, asked = np.asarray(probabilities, np.float64), np.asarray(indices)
    fits = weights.ndim == 3 and asked.shape == weights.shape[:2] and weights.size > 0
    require(
        fits,
        "probabilities must be [prompts, queries, keys] and indices [prompts, queries]; "
        f"got shapes {weights.shape} and {asked.shape}",
    )
    keys = weights.shape[2]
    whole = np.issubdtype(asked.dtype, np.integer) and ((asked >= 0) & (asked < keys)).all()
    require(whole, f"indices must be whole numbers between 0 and {keys - 1}; got {asked.min()} to {asked.max()}")
    sums = weights.sum(axis=2)
    normal = np.abs(sums - 1).max() < 1e-3 and weights.min() >= 0
    require(normal, f"probabilities must sum to 1 over keys; the sums run from {sums.min():g} to {sums.max():g}")
    right = np.take_along_axis(weights, asked[:, :, None], axis=2)
    return Retrieval(float(right.mean()), float(right.min()))
