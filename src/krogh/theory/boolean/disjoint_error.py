"""The 0-1 error of a disjoint-PolyNet with given weights: exact, and the bounds of Lemma B.9.

In block i the network adds the relevant v_i z_i and the noise R_i = u_i . z of the irrelevant weights u_i, z
Rademacher. The block errs where R_i beats v_i; the parity of the blocks' errors is the network's error.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import erf
from scipy.stats import binom

from krogh.errors import KroghError, require, require_integer
from krogh.theory.boolean.fourier import preactivations
from krogh.theory.prediction import Variant, check_open, check_variant, prediction

Array = NDArray[np.float64]
BlockLaw = Callable[[float], tuple[float, float]]
"""From the magnitude v of the relevant weight to Pr[R > v] (the block errs) and Pr[R = v] (it ties)."""

BERRY_ESSEEN = 0.56
_ENUMERATED = 36
_NEGLIGIBLE = 12.0  # in standard deviations: Hoeffding's bound is e^-72 there


def block_law(irrelevant: ArrayLike) -> BlockLaw:
    """The law of R = u.z as the probabilities that it exceeds, and that it equals, a magnitude v >= 0.

    A shifted binomial where all |u_j| are equal; by enumeration up to 36 weights; beyond, to about 1e-6, by
    inverting the characteristic function prod_j cos(u_j s), which supposes weights in general position, so
    that nothing ties.
    """
    u = np.abs(np.asarray(irrelevant, dtype=np.float64))
    finite = u.ndim == 1 and bool(np.isfinite(u).all())
    require(finite, f"the irrelevant weights of a block are a finite vector; got {irrelevant!r}")
    u = u[u > 0]
    if u.size == 0:
        return lambda v: (0.0, 1.0 if v == 0 else 0.0)
    if np.ptp(u) == 0:
        return _binomial_law(u.size, float(u[0]))
    return _enumerated_law(u) if u.size <= _ENUMERATED else _inverted_law(u)


def network_error(relevant: ArrayLike, laws: list[BlockLaw], *, ties: str = "error") -> float:
    """The 0-1 error of a disjoint-PolyNet with relevant weights v_i and one noise law per block.

        ties="error": 1 - (prod(1-t_i) + prod a_i)/2;   ties="fair": (1 - prod a_i)/2
        t_i = Pr[R_i = |v_i|],  a_i = sign(v_i) (Pr[|R_i| < |v_i|] + t_i)

    Where the output is 0 it counts as an error, or as half of one ("fair"). Derived from the proof of
    Lemma B.9, dissertation, section B.2.3; the product of the v_i may have either sign.
    """
    require(ties in ("error", "fair"), f"ties must be 'error' or 'fair'; got ties={ties!r}")
    v = np.asarray(relevant, dtype=np.float64)
    require(v.shape == (len(laws),), f"{len(laws)} blocks need as many relevant weights; got shape {v.shape}")
    odds = np.array([law(abs(float(x))) for law, x in zip(laws, v, strict=True)])
    flips, tied = odds[:, 0], odds[:, 1]
    # a_i = 1 - 2 Pr[R_i > |v_i|] - t_i; logarithms keep the digits of a small error, and -inf stands for 0.
    with np.errstate(divide="ignore"):
        agree = np.log1p(-np.minimum(2 * flips + tied, 1.0)).sum()
        untied = np.log1p(-np.minimum(tied, 1.0)).sum()
    fair = -0.5 * np.expm1(agree) if np.prod(np.sign(v)) > 0 else 0.5 * (1 + np.exp(agree))
    return float(fair if ties == "fair" else fair - 0.5 * np.expm1(untied))


def error_upper_bound(relevant: ArrayLike, irrelevant: ArrayLike, variant: Variant = "repaired") -> float:
    """Upper bound on the error: 2 sum_i exp(-v_i^2 / (2 |u_i|_2^2)).

    Printed without the 2 in the exponent, and then violated. Source: dissertation, section B.2.3, Lemma B.9.
    """
    check_variant(variant)
    v, u = _weights(relevant, irrelevant)
    scale = (2 if variant == "repaired" else 1) * (u**2).sum(axis=1)
    return float(2 * np.exp(-(v**2) / scale).sum())


def error_lower_bound(relevant: ArrayLike, irrelevant: ArrayLike, variant: Variant = "repaired") -> float:
    """Lower bound on the error: 1/2 - 1/2 prod_i min(1, erf(|v_i| / (sqrt(2) |u_i|_2)) + b_i).

        b_i = 2 * 0.56 sum_j |u_ij|^3 / |u_i|_2^3;   printed 0.56 |u_i|_inf / |u_i|_2^3, and then violated

    b_i is the Berry-Esseen error of a two-sided probability. Source: dissertation, section B.2.3, Lemma B.9.
    """
    check_variant(variant)
    v, u = _weights(relevant, irrelevant)
    size, norm = np.abs(u), np.sqrt((u**2).sum(axis=1))
    printed = BERRY_ESSEEN * size.max(axis=1) / norm**3
    excess = 2 * BERRY_ESSEEN * (size**3).sum(axis=1) / norm**3 if variant == "repaired" else printed
    return float(0.5 - 0.5 * np.prod(np.minimum(1.0, erf(np.abs(v) / (math.sqrt(2) * norm)) + excess)))


def check_blocks(block_size: int, k: int, *, smallest: int = 2, fewest: int = 1) -> None:
    """Require k blocks of n' = `block_size` coordinates that fit in memory."""
    require_integer("block_size", block_size, smallest)
    require_integer("k", k, fewest)
    fits = block_size * k <= 10**7
    require(fits, f"at most 10^7 weights in all are computed with; got block_size={block_size}, k={k}")


@prediction(
    "parity/polynet-error",
    source="dissertation, section B.2.3, Lemma B.9",
    constants="all explicit (Berry-Esseen constant 0.56)",
)
def polynet_error(block_size: int, k: int, relevant: float, variant: Variant = "repaired") -> dict[str, Any]:
    """Error of a disjoint-PolyNet whose irrelevant weights are signs, exactly and bounded on both sides.

        1/2 - 1/2 (erf(v / sqrt(2(n'-1))) + b)^k  <=  error  <=  2k exp(-v^2 / (2(n'-1)))

    k blocks of n' = `block_size` coordinates; every relevant weight is v = `relevant` > 0. `error` counts an
    output of 0 as an error, `error_fair` as half of one.
    """
    check_blocks(block_size, k)
    check_open("relevant", relevant, 0)
    laws = [_binomial_law(block_size - 1, 1.0)] * k
    v, u = np.full(k, float(relevant)), np.ones((k, block_size - 1))
    return {
        "error": network_error(v, laws),
        "error_fair": network_error(v, laws, ties="fair"),
        "at_most": error_upper_bound(v, u, variant),
        "at_least": error_lower_bound(v, u, variant),
        "zero_from": float(block_size - 1),
    }


def _binomial_law(count: int, size: float) -> BlockLaw:
    """R / size is a sum of `count` signs: 2 Binomial(count, 1/2) - count."""

    def law(v: float) -> tuple[float, float]:
        successes = (count + v / size) / 2
        nearest = round(successes)
        tie = float(binom.pmf(nearest, count, 0.5)) if abs(successes - nearest) <= 1e-14 * count else 0.0
        return float(binom.sf(nearest if tie else math.floor(successes), count, 0.5)), tie

    return law


def _enumerated_law(u: Array) -> BlockLaw:
    """All sums of signs, as sums of one from each half of the weights: m weights cost 2^(m/2), not 2^m."""
    left, right = (np.sort(preactivations(half)) for half in (u[::2], u[1::2]))
    slack, total = 1e-12 * float(u.sum()), left.size * right.size

    def law(v: float) -> tuple[float, float]:
        below = int(np.searchsorted(left, v - slack - right).sum())
        upto = int(np.searchsorted(left, v + slack - right).sum())
        return (total - upto) / total, (upto - below) / total

    return law


def _inverted_law(u: Array) -> BlockLaw:
    """Pr[|R| < v] = 2/pi int_0^inf sin(v s)/s prod_j cos(u_j s) ds, by Gauss-Legendre quadrature."""
    deviation = math.sqrt(float((u**2).sum()))
    for doublings in range(6):
        end = _NEGLIGIBLE / deviation * 2**doublings
        beyond = np.linspace(end, 4 * end, 512)
        if np.abs(_characteristic(u, beyond)).mean() < 1e-6:
            break
    else:
        raise KroghError(f"{u.size} irrelevant weights are too uneven to compute the law of their noise")
    nodes, weights = _gauss_legendre(512 * 2**doublings)
    at = (nodes + 1) * end / 2
    density = weights * end / 2 * _characteristic(u, at) / at

    def law(v: float) -> tuple[float, float]:
        if v > _NEGLIGIBLE * deviation:
            return 0.0, 0.0
        within = 2 / math.pi * float(np.sin(v * at) @ density)
        return min(max((1 - within) / 2, 0.0), 0.5), 0.0

    return law


@functools.cache
def _gauss_legendre(count: int) -> tuple[Array, Array]:
    return np.polynomial.legendre.leggauss(count)


def _characteristic(u: Array, at: Array) -> Array:
    return np.prod(np.cos(np.outer(at, u)), axis=1)


def _weights(relevant: ArrayLike, irrelevant: ArrayLike) -> tuple[Array, Array]:
    v, u = np.atleast_1d(np.array(relevant, dtype=float)), np.atleast_2d(np.array(irrelevant, dtype=float))
    shapes = v.ndim == 1 and u.ndim == 2 and len(v) == len(u) and u.shape[1] > 0
    require(shapes, f"weights are relevant (k,) and irrelevant (k, n'-1); got {v.shape} and {u.shape}")
    require(bool((u**2).sum(axis=1).all()), "the bounds need a non-zero irrelevant weight in every block")
    positive = int((v < 0).sum()) % 2 == 0 and bool(v.all())
    require(positive, f"the bounds need relevant weights of positive product; got {v.tolist()}")
    return v, u
