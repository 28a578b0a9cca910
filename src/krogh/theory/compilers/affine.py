"""Sparse affine maps: what the layers of a written network are made of."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sparse
import scipy.sparse.linalg
from numpy.typing import NDArray

from krogh.errors import require

add_product: Callable[..., None] | None
try:  # The routine behind `@`, which adds to an array that is there: `@` itself fetches memory for a new one every
    # time, and that takes longer than the product. It is no public name, hence the way out.
    from scipy.sparse import _sparsetools

    add_product = _sparsetools.csr_matvecs
except (ImportError, AttributeError):
    add_product = None

Array = NDArray[np.float64]

SMALL = 200
"""Matrices of at most this many rows or columns have their norm taken densely."""


@dataclass(frozen=True, eq=False)
class Affine:
    """h ↦ weight · h + bias: weight sparse [out, in], bias float64 [out]."""

    weight: sparse.csr_array
    bias: Array

    def __post_init__(self) -> None:
        weight = sparse.csr_array(self.weight, dtype=np.float64)
        weight.sum_duplicates()
        bias = np.array(self.bias, np.float64)
        fits = bias.shape == (weight.shape[0],)
        require(fits, f"a bias has an entry per row of the weight {weight.shape}; got the shape {bias.shape}")
        finite = np.isfinite(weight.data).all() and np.isfinite(bias).all()
        require(finite, "weights and biases must be finite numbers")
        bias.flags.writeable = False
        object.__setattr__(self, "weight", weight)
        object.__setattr__(self, "bias", bias)

    def into(self, columns: Array, found: Array) -> None:
        """Write weight · columns + bias, [in, batch] to [out, batch], to `found`; both lie without gaps in memory."""
        require(columns.flags.c_contiguous and found.flags.c_contiguous, "columns must lie without gaps in memory")
        found[:] = self.bias[:, None]
        if add_product is None:
            found += self.weight @ columns
        else:
            entries = (self.weight.indptr, self.weight.indices, self.weight.data)
            add_product(*self.weight.shape, columns.shape[1], *entries, columns.ravel(), found.ravel())


def over_chunks(work: Callable[[slice], None], total: int, size: int, workers: int | None = None) -> None:
    """Call `work` with slices of at most `size` that cover 0..total-1, on all processors unless `workers` says less."""
    chunks = [slice(start, min(start + size, total)) for start in range(0, total, size)]
    workers = min(workers or os.cpu_count() or 1, len(chunks))
    if workers <= 1:
        for chunk in chunks:
            work(chunk)
        return
    with ThreadPoolExecutor(workers) as pool:  # products and comparisons of arrays leave the interpreter free
        list(pool.map(work, chunks))


def operator_norm(weight: sparse.csr_array) -> float:
    """The largest singular value."""
    if min(weight.shape) <= SMALL:
        narrow = weight if weight.shape[0] <= weight.shape[1] else weight.T
        gram = (narrow @ narrow.T).toarray()
        return float(np.sqrt(max(np.linalg.eigvalsh(gram)[-1], 0.0)))
    if not weight.nnz:
        return 0.0
    start = np.random.default_rng(0).normal(size=min(weight.shape))
    return float(scipy.sparse.linalg.svds(weight, k=1, v0=start, return_singular_vectors=False)[0])
