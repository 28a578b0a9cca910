"""Operator norms from above: what a certificate may use where the largest singular value itself is out of reach.

Matrices whose rows or columns share no place, and small ones, have theirs computed, and rounded up. For large sparse
ones, with |A| the matrix of magnitudes,

    ‖A‖² ≤ ‖|A|‖² = ρ(|A|ᵀ|A|) ≤ max_i (|A|ᵀ|A| x)_i / x_i        for every x > 0 (Collatz and Wielandt),

and power iteration makes x good. It is the norm itself in the limit where the signs of A are those of its rows or
columns, as in a layer of gates. Iterative estimates of singular values (Lanczos) come from below and would not do.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import scipy.sparse as sparse

SMALL = 256
"""Matrices with at most so many rows or columns that are not zero have their singular values computed."""
ROUNDS = 200
"""Of power iteration."""
_SAFE = 1 + 1e-10
"""More than the rounding errors of what is computed here."""


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
        narrow = core if core.shape[0] <= core.shape[1] else sparse.csr_array(core.T)
        # the rounding error of the least eigenvalue is relative to the largest, which is the one that is wanted
        largest = float(np.linalg.eigvalsh((narrow @ narrow.T).toarray())[-1])
        return math.sqrt(max(largest, 0.0)) * _SAFE
    return _power_bound(abs(core))


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
