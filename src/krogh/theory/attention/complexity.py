"""What is measured of a function or a class of functions: Rademacher complexity, gaps, influence.

Functions of a context are callables on rows of bits: an array (batch, T) of zeros and ones gives (batch,) or
(batch, q). Row r of the enumerated contexts has bit i of r as its entry i.
Source: dissertation, sections 4.5, A.1.1 and A.2.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from krogh.errors import require, require_integer
from krogh.theory.boolean.fourier import subset_mask
from krogh.theory.numerics import softmax

Array = NDArray[np.float64]
Function = Callable[[Array], ArrayLike]

LARGEST_T = 20
"""Longest context that is enumerated."""

_EXACT_SIGNS = 12
"""Up to this many samples the expectation over signs is an exact sum, unless draws are asked for."""
_CHUNK = 2**16


@dataclass(frozen=True)
class Estimate:
    """A number with the standard error of its estimate, zero where it is exact."""

    value: float
    standard_error: float


@dataclass(frozen=True)
class FunctionProperties:
    """What a function on {0,1}^T looks like from its support I, r = number of ones on I.

    `monotonicity_gap`: the largest gamma with f(b') >= f(b) + gamma whenever r' = r + 1; negative where f is not
    increasing, None for a vector-valued f. `injectivity_gap`: the least ||f(b) - f(b')||_inf over b, b' that differ
    on I. `bound`: max ||f(b)||_inf. `leakage`: how far f varies, at most, between contexts that agree on I (0 for
    an I-sparse f). `symmetric`: whether f depends on r alone.
    """

    monotonicity_gap: float | None
    injectivity_gap: float
    bound: float
    leakage: float
    symmetric: bool


def contexts(length: int) -> Array:
    """All of {0,1}^T, one context per row; shape (2^T, T)."""
    require_integer("length", length, 1, LARGEST_T)
    return np.asarray((np.arange(2**length)[:, None] >> np.arange(length)[None, :]) & 1, dtype=np.float64)


def function_properties(function: Function, length: int, support: Iterable[int]) -> FunctionProperties:
    """Monotonicity gap, injectivity gap and bound of a function on {0,1}^T, by enumeration.

    Source: dissertation, section A.2.1.
    """
    members = list(support)
    subset_mask(members, length)
    require(members, "a support needs at least one index; got none")
    bits = contexts(length)
    values = _evaluate(function, bits)
    pattern = (bits[:, members] @ 2.0 ** np.arange(len(members))).astype(np.int64)
    ones = bits[:, members].sum(axis=1).astype(np.int64)
    gap = None
    if values.shape[1] == 1:
        low, high = _extremes(values, ones, len(members) + 1)
        gap = float((low[1:] - high[:-1]).min())
    within_low, within_high = _extremes(values, pattern, 2 ** len(members))
    count_low, count_high = _extremes(values, ones, len(members) + 1)
    bound = float(np.abs(values).max())
    return FunctionProperties(
        monotonicity_gap=gap,
        injectivity_gap=_injectivity_gap(values, pattern),
        bound=bound,
        leakage=float((within_high - within_low).max()),
        symmetric=bool((count_high - count_low).max() <= 1e-12 * max(1.0, bound)),
    )


def influence(function: Function, length: int, *, samples: int | None = None, seed: int = 0) -> Array:
    """Influence of each position: max_b ||f(b) - f(b with bit i flipped)||_inf; shape (T,).

    Exact, over all of {0,1}^T, unless `samples` asks for the largest over that many random contexts (and the two
    constant ones), which is a lower estimate. Source: dissertation, section 4.5 (Hahn's limit).
    """
    require_integer("length", length, 1)
    if samples is None:
        require(
            length <= LARGEST_T,
            f"contexts of length {length} are too many to enumerate (at most {LARGEST_T}); give samples=1000",
        )
        bits = contexts(length)
    else:
        require_integer("samples", samples, 1)
        drawn = np.random.default_rng(seed).integers(0, 2, size=(samples, length))
        bits = np.concatenate([np.zeros((1, length)), np.ones((1, length)), drawn.astype(np.float64)])
    values = _evaluate(function, bits)
    found = np.zeros(length)
    for i in range(length):
        if samples is None:
            flipped = values[np.arange(len(bits)) ^ (1 << i)]
        else:
            other = bits.copy()
            other[:, i] = 1 - other[:, i]
            flipped = _evaluate(function, other)
        found[i] = np.abs(values - flipped).max()
    return found


def rademacher(values: ArrayLike, *, draws: int | None = None, seed: int = 0) -> Estimate:
    """Empirical Rademacher complexity of a finite (or sampled) class from its values on m points.

        (1/m) E_s max_f sum_i s_i f(z_i),  s uniform signs;  `values` has shape (functions, m)

    Exact by enumeration of the signs for few points, Monte-Carlo otherwise or where `draws` are asked for. A sampled
    subset of a class gives a lower estimate. Source: dissertation, Definition A.1.
    """
    table = np.asarray(values, dtype=np.float64)
    require(table.ndim == 2 and table.size > 0, f"values need the shape (functions, m); got {table.shape}")
    return rademacher_of(lambda signs: (signs @ table.T).max(axis=1), table.shape[1], draws=draws, seed=seed)


def rademacher_of(supremum: Callable[[Array], Array], m: int, *, draws: int | None = None, seed: int = 0) -> Estimate:
    """Empirical Rademacher complexity of a class whose supremum is known: (1/m) E_s sup_f sum_i s_i f(z_i).

    `supremum` takes signs (draws, m) to the suprema (draws,); for the linear class ||w|| <= B on points x it is
    B ||sum_i s_i x_i||.
    """
    require_integer("m", m, 1)
    if draws is None and m <= _EXACT_SIGNS:
        return Estimate(float(np.mean(supremum(1.0 - 2.0 * contexts(m)))) / m, 0.0)
    count = 2000 if draws is None else draws
    require_integer("draws", count, 2)
    rng, found, left = np.random.default_rng(seed), [], count
    while left:
        size = min(left, max(1, _CHUNK // m))
        signs = np.asarray(1.0 - 2.0 * rng.integers(0, 2, size=(size, m)), dtype=np.float64)
        found.append(np.asarray(supremum(signs)))
        left -= size
    suprema = np.concatenate(found) / m
    return Estimate(float(suprema.mean()), float(suprema.std(ddof=1) / math.sqrt(count)))


def softmax_deviation(scores: ArrayLike, kept: Iterable[int]) -> dict[str, float]:
    """What a softmax changes when only the positions `kept` are left in it (Lemma A.24).

        ||softmax(z') - softmax(z)||_1 <= 2 (T-s) / (s e^R) < 2 T e^-R,  z' = z with the others at -infinity

    R = `margin` is the least kept score minus the largest other one (infinite where none is left out).
    """
    z = np.asarray(scores, dtype=np.float64)
    require(z.ndim == 1, f"scores are a vector; got shape {z.shape}")
    members, length = list(kept), len(z)
    subset_mask(members, length)
    require(members, "at least one position must be kept; got none")
    inside = np.zeros(length, dtype=bool)
    inside[members] = True
    margin = float(z[inside].min() - z[~inside].max()) if not inside.all() else math.inf
    deviation = float(np.abs(softmax(np.where(inside, z, -np.inf)) - softmax(z)).sum())
    left_out, small = length - len(members), math.exp(-margin)
    return {
        "margin": margin,
        "deviation": deviation,
        "bound": 2 * left_out / len(members) * small,
        "loose_bound": 2 * length * small,
    }


def _evaluate(function: Function, bits: Array) -> Array:
    """The function's values, always of shape (batch, q), computed in chunks."""
    parts = []
    for chunk in (bits[start : start + _CHUNK] for start in range(0, len(bits), _CHUNK)):
        values = np.asarray(function(chunk), dtype=np.float64)
        good = values.ndim in (1, 2) and len(values) == len(chunk)
        require(good, f"the function must give one value or vector per context, {len(chunk)} here; got {values.shape}")
        parts.append(values.reshape(len(chunk), -1))
    return np.concatenate(parts)


def _extremes(values: Array, group: NDArray[np.int64], groups: int) -> tuple[Array, Array]:
    """Smallest and largest value within each group, per coordinate; shapes (groups, q)."""
    low, high = np.full((groups, values.shape[1]), np.inf), np.full((groups, values.shape[1]), -np.inf)
    np.minimum.at(low, group, values)
    np.maximum.at(high, group, values)
    return low, high


def _injectivity_gap(values: Array, pattern: NDArray[np.int64]) -> float:
    """Least sup-norm distance between values of contexts that differ on the support."""
    distinct = np.unique(np.column_stack([pattern.astype(np.float64), values]), axis=0)
    require(len(distinct) <= 2**13, f"{len(distinct)} different values are too many to compare pairwise")
    gap = math.inf
    for row in distinct:
        other = distinct[distinct[:, 0] != row[0], 1:]
        gap = min(gap, float(np.abs(other - row[None, 1:]).max(axis=1).min()))
    return gap
