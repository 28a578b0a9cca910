"""Numbers that theory, networks and probes compute alike: logarithms of counts, softmax, norms; NumPy and float64.

    counts     log C(n, k) and its like without overflow, in natural logarithms
    attention  softmax, and RowSoftmax(Z W_Q (X W_K)^T) X W_V (in JAX, where it trains: `krogh.models.attention.attend`)
    norms      ||M||_{p,q} = the q-norm of the vector of the p-norms of M's columns, and the spectral norm; on the last
               two axes, leading axes (heads, layers) are kept. Rows of X are tokens, so that the largest token norm is
               ||X^T||_{2,inf}, and sums of row norms of W are ||W^T||_{2,1} (dissertation, sections 4.2 and A.1.7)
    sparse     operator norms of large sparse matrices: as they are, and from above for certificates

A certificate needs upper bounds, and iterative estimates of singular values (Lanczos) come from below. Matrices whose
rows or columns share no place, and small ones, have their norm computed, and rounded up. For large sparse ones, with
|A| the matrix of magnitudes,

    ‖A‖² ≤ ‖|A|‖² = ρ(|A|ᵀ|A|) ≤ max_i (|A|ᵀ|A| x)_i / x_i        for every x > 0 (Collatz and Wielandt),

and power iteration makes x good. It is the norm itself in the limit where the signs of A are those of its rows or
columns, as in a layer of gates.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import numpy as np
import scipy.sparse as sparse
import scipy.special
from numpy.typing import ArrayLike, NDArray

from krogh.errors import require

Array = NDArray[np.float64]

SMALL = 256
"""Sparse matrices with at most so many rows or columns have their singular values computed densely."""
ROUNDS = 200
"""Of power iteration."""
_SAFE = 1 + 1e-10
"""More than the rounding errors of what is computed here."""


def double_precision() -> AbstractContextManager[Any]:
    """float64 in JAX for the length of a block: constructions, margins and certificates need it, training does not."""
    import jax  # predictions need NumPy alone

    if hasattr(jax, "enable_x64"):  # the name of the context since JAX 0.8
        return jax.enable_x64(True)
    from jax.experimental import enable_x64  # type: ignore[attr-defined]

    return enable_x64()


def log_binomial(n: int, k: int) -> float:
    """log C(n, k), without overflow."""
    fewer = min(k, n - k)
    if fewer <= 1000:  # log-gamma would lose digits to cancellation where n is large and k is not
        return math.fsum(math.log((n - i) / (i + 1)) for i in range(fewer))
    return math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1)


def log_central_binomial(half: int) -> float:
    """log of 2^(-2m) C(2m, m) for m = `half`: the chance that 2m fair coins tie."""
    if half <= 500:
        return math.log(math.comb(2 * half, half)) - 2 * half * math.log(2)
    return -0.5 * math.log(math.pi * half) - 1 / (8 * half) + 1 / (192 * half**3) - 1 / (640 * half**5)


def binary_entropy(p: float) -> float:
    """-p log2 p - (1-p) log2 (1-p), in bits."""
    return float(scipy.special.entr(p) + scipy.special.entr(1 - p)) / math.log(2)


def exp_or_inf(logarithm: float) -> float:
    """exp, with infinity instead of an error where a float cannot hold the result."""
    return math.exp(logarithm) if logarithm < 709 else math.inf


def ceil_or_inf(value: float) -> float | int:
    """The least whole number not below `value`; infinity stays infinity."""
    return math.ceil(value) if math.isfinite(value) else math.inf


def least_integer(holds: Callable[[int], bool], start: int = 1, most: int = 2**200) -> float | int:
    """The least whole number from `start` on that a condition holds for, given that it stays true once true.

    Found by bisection; infinite where it is beyond `most`.
    """
    low, high = start - 1, start
    while not holds(high):
        low, high = high, 8 * high
        if high > most:
            return math.inf
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if holds(middle) else (middle, high)
    return high


def softmax(scores: ArrayLike) -> Array:
    """Softmax over the last axis, shifted by the largest score so that nothing overflows."""
    return np.asarray(scipy.special.softmax(np.asarray(scores, np.float64), axis=-1))


def attend(queries: Array, tokens: Array, W_Q: Array, W_K: Array, W_V: Array) -> Array:
    """RowSoftmax(Z W_Q (X W_K)^T) X W_V for rows Z [rows, d] and tokens X [T, d]; [rows, k]."""
    return softmax(queries @ W_Q @ (tokens @ W_K).T) @ (tokens @ W_V)


def mixed_norm(matrix: ArrayLike, p: float, q: float) -> Array:
    """||M||_{p,q}: the q-norm, across columns, of the p-norm within each column; shape = leading axes.

    `numpy.inf` is the largest entry. ||W||_{2,1} sums column norms, ||W||_{2,2} is Frobenius' norm, ||J||_{1,1} sums
    absolute entries.
    """
    values = _matrix(matrix)
    for name, order in (("p", p), ("q", q)):
        require(order >= 1, f"{name} must be at least 1 for a norm (numpy.inf is allowed); got {name}={order!r}")
    columns = np.linalg.norm(values, ord=p, axis=-2)
    return np.asarray(np.linalg.norm(columns, ord=q, axis=-1))


def spectral_norm(matrix: ArrayLike) -> Array:
    """||M||: the largest singular value; shape = leading axes."""
    return np.asarray(np.linalg.norm(_matrix(matrix), ord=2, axis=(-2, -1)))


def token_norm(tokens: ArrayLike) -> Array:
    """||X^T||_{2,inf} = max_t ||x_t||, where tokens are the rows of X (..., T, d); shape = leading axes."""
    return mixed_norm(np.swapaxes(_matrix(tokens), -1, -2), 2, np.inf)


def unit_ball(vectors: ArrayLike) -> Array:
    """Projection of each vector (last axis) onto the unit ball: u / max(1, ||u||).

    It moves no two vectors apart, ||Pi u - Pi v|| <= ||u - v|| (dissertation, Lemma A.9), and stands for layer
    normalisation in the depth-L bounds.
    """
    values = np.asarray(vectors, dtype=np.float64)
    return values / np.maximum(1.0, np.linalg.norm(values, axis=-1, keepdims=True))


def attention_norms(
    query: ArrayLike, key: ArrayLike, value: ArrayLike, output: ArrayLike | None = None
) -> dict[str, Array]:
    """The norms of one layer's weights that the capacity bounds ask for, under the names they ask by.

    `query`, `key`, `value` are (..., d, k) with tokens multiplied from the left, `output` is (..., k, d).
    `query_key` = ||W_Q W_K^T||, `query_key_21` = ||W_K W_Q^T||_{2,1} (the row norms of W_Q W_K^T, summed),
    `value` = ||W_V||, `value_21` = ||W_V||_{2,1}, and the same for `output`.
    """
    w_q, w_k, w_v = _matrix(query), _matrix(key), _matrix(value)
    require(w_q.shape == w_k.shape, f"query and key need one shape (d, k); got {w_q.shape} and {w_k.shape}")
    key_query = w_k @ np.swapaxes(w_q, -1, -2)
    found = {
        "query_key": spectral_norm(key_query),
        "query_key_21": mixed_norm(key_query, 2, 1),
        "value": spectral_norm(w_v),
        "value_21": mixed_norm(w_v, 2, 1),
    }
    if output is not None:
        found |= {"output": spectral_norm(output), "output_21": mixed_norm(output, 2, 1)}
    return found


def _matrix(matrix: ArrayLike) -> Array:
    values = np.asarray(matrix, dtype=np.float64)
    require(
        values.ndim >= 2, f"a matrix has at least two axes; got shape {values.shape} (write v[:, None] for a vector)"
    )
    return values


def operator_norm_bound(matrix: Any) -> float:
    """An upper bound on the largest singular value of a dense or sparse matrix, exact to 1e-10 for small ones."""
    given = sparse.csr_array(matrix, dtype=np.float64)
    given.eliminate_zeros()
    if not given.nnz:
        return 0.0
    rows = np.flatnonzero(np.diff(given.indptr))
    columns = np.unique(given.indices)
    if len(rows) == len(columns) == given.nnz:
        return float(np.abs(given.data).max())
    # rows, or columns, that share no place are orthogonal: the largest of them is the norm
    if len(columns) == given.nnz:
        return largest_row_norm(given)
    if len(rows) == given.nnz:
        return largest_row_norm(given.T)
    core = sparse.csr_array(given[rows][:, columns])
    if min(core.shape) <= SMALL:
        return _norm_by_gram(core) * _SAFE
    return _power_bound(abs(core))


def _norm_by_gram(matrix: sparse.csr_array) -> float:
    narrow = sparse.csr_array(matrix if matrix.shape[0] <= matrix.shape[1] else matrix.T)
    # the rounding error of the least eigenvalue is relative to the largest, which is the one that is asked for
    largest = float(np.linalg.eigvalsh((narrow @ narrow.T).toarray())[-1])
    return math.sqrt(max(largest, 0.0))


def largest_row_norm(matrix: Any) -> float:
    """max_j ‖A_j‖_2 over rows, which is the largest change of one coordinate of A h where h changes by 1."""
    given = sparse.csr_array(matrix, dtype=np.float64)
    return math.sqrt(float(np.max(given.power(2).sum(axis=1), initial=0.0))) * _SAFE


def _power_bound(magnitudes: sparse.csr_array) -> float:
    back = sparse.csr_array(magnitudes.T)
    x = np.ones(magnitudes.shape[1])
    best = float(magnitudes.sum(axis=0).max()) * float(magnitudes.sum(axis=1).max())
    for _ in range(ROUNDS):
        image = back @ (magnitudes @ x)
        best = min(best, float(np.max(image / x)))
        # any positive x gives a bound; the floor keeps components with smaller norms from vanishing
        x = np.maximum(image / image.max(), 1e-200)
    return math.sqrt(best) * _SAFE
