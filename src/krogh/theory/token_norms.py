"""Norms by which the theorems on token regression measure a network's parameters.

Mixed norms of matrices are in `krogh.theory.norms`. How such a norm or a number of samples grows with
the sequence length is fitted by `krogh.lab.fits.power_law_fit`. Source: qSTR paper, sections 3.2 and 5.2.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from krogh.errors import require, require_integer


class HeadNorms(NamedTuple):
    """Norms of the two-layer network that ends a Transformer or an RNN, with the width taken out."""

    output: float
    hidden: float


class StateNorms(NamedTuple):
    """What Proposition 8 asks of an RNN: |U|_op, L, d_h, and N/(L^2 |U|_op^2 ln(1 + d_h))."""

    state: float
    lipschitz: float
    width: int
    ratio: float


def head_norms(output: ArrayLike, weights: ArrayLike, bias: ArrayLike) -> HeadNorms:
    """(|a| sqrt(m), |(W, b)|_F / sqrt(m)) of a [m], W [m, inputs], b [m]: the r_a and r_w of Theorem 10."""
    a, w, b = (np.asarray(value, np.float64) for value in (output, weights, bias))
    fits = a.ndim == 1 and w.ndim == 2 and len(w) == len(a) and b.shape == a.shape and len(a) > 0
    require(fits, f"output [m], weights [m, inputs] and bias [m] must agree; got {a.shape}, {w.shape}, {b.shape}")
    root = math.sqrt(len(a))
    return HeadNorms(float(np.linalg.norm(a)) * root, math.hypot(np.linalg.norm(w), np.linalg.norm(b)) / root)


def parameter_norm(parameters: Mapping[str, ArrayLike]) -> float:
    """|vec(Theta)|_2 over all arrays of a network."""
    return math.sqrt(math.fsum(float((np.asarray(p, np.float64) ** 2).sum()) for p in parameters.values()))


def state_norms(state_matrix: ArrayLike, later_weights: Sequence[ArrayLike], length: int) -> StateNorms:
    """The norms of Proposition 8, of U [d_h, 2 d_h] and the weights W_2, ..., W_Ly after it.

    L is the product of the operator norms: how steep the output is in U h where activations are 1-Lipschitz.
    By the printed norm floor, a ratio far above 1 rules out a small risk; but see "qstr/recurrent-width".
    """
    u = np.asarray(state_matrix, np.float64)
    require(u.ndim == 2, f"the state matrix must be a matrix [d_h, 2 d_h]; got shape {u.shape}")
    require_integer("length", length, 1)
    state = _operator_norm(u)
    lipschitz = math.prod(_operator_norm(np.atleast_2d(np.asarray(w, np.float64))) for w in later_weights)
    gain = (state * lipschitz) ** 2 * math.log1p(len(u))
    return StateNorms(state, lipschitz, len(u), length / gain if gain > 0 else math.inf)


def _operator_norm(matrix: NDArray[np.float64]) -> float:
    return float(np.linalg.norm(matrix, ord=2))
