"""What is measured of a function of a context or of a class of them: influence and Rademacher complexity.

Functions of a context are callables on rows of bits: an array (batch, T) of zeros and ones gives (batch,) or
(batch, q). Row r of the enumerated contexts has bit i of r as its entry i.
Source: dissertation, sections 4.5 and A.1.1.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from krogh.errors import require, require_integer
from krogh.theory.attention.limits import check_support
from krogh.theory.boolean.fourier import cube
from krogh.theory.numerics import log_binomial
from krogh.theory.prediction import prediction

Array = NDArray[np.float64]
Function = Callable[[Array], ArrayLike]

LARGEST_T = 20
"""Longest context that is enumerated."""

_EXACT_SIGNS = 12
"""Up to this many samples the expectation over signs is an exact sum, unless draws are asked for."""
_CHUNK = 2**16
_MOST_VALUES = 2**26
"""Most values of a class, functions times samples, that are written down."""


@dataclass(frozen=True)
class Estimate:
    """A number with the standard error of its estimate, zero where it is exact."""

    value: float
    standard_error: float


def contexts(length: int) -> Array:
    """All of {0,1}^T, one context per row; shape (2^T, T)."""
    require_integer("length", length, 1, LARGEST_T)
    return (1 - cube(length)) / 2


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
        return Estimate(float(np.mean(supremum(cube(m)))) / m, 0.0)
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


@prediction(
    "attention/sparse-rademacher",
    source="dissertation, Definition A.1 and section 4.6; Massart's lemma added",
    constants="Massart's bound explicit; contexts and signs are drawn, reproducible by the seed",
)
def sparse_rademacher(
    length: int, s: int, samples: int, gate: Literal["and", "xor"] = "and", draws: int = 500, seed: int = 0
) -> dict[str, Any]:
    """Rademacher complexity of all s-sparse conjunctions, or parities, of T fair bits on m random contexts.

        (1/m) E max_f sum_i s_i f(z_i) <= sqrt(2 log C(T,s) / m)  for f with values -1 and +1

    `complexity` is estimated over `draws` of the signs (exact for few samples), with its standard error.
    """
    check_support(length, s)
    require_integer("samples", samples, 1)
    require_integer("seed", seed, 0)
    require(gate in ("and", "xor"), f"gate must be 'and' or 'xor'; got gate={gate!r}")
    size = math.comb(length, s) * samples
    require(size <= _MOST_VALUES, f"C(T,s) functions on m samples are {size} values; at most {_MOST_VALUES} are held")
    bits = np.random.default_rng(seed).integers(0, 2, size=(samples, length), dtype=np.int8)
    supports = np.array(list(itertools.combinations(range(length), s)))
    chosen = bits[:, supports]
    values = chosen.min(axis=2) if gate == "and" else chosen.sum(axis=2) % 2
    found = rademacher(2.0 * values.T - 1, draws=None if samples <= _EXACT_SIGNS else draws, seed=seed)
    return {
        "complexity": found.value,
        "standard_error": found.standard_error,
        "massart": math.sqrt(2 * log_binomial(length, s) / samples),
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
