"""A random network and its twin with some rows drawn anew: how little a few rows decide.

*Learning and generalization in RNNs*, Lemma B.2. Rows k ∈ K of W and A, N of them, are replaced by fresh ones of the
same law. The lemma bounds what that changes; what is measured here of a network and its twin on the same sequences, by
position l:

    state      ‖h_l - h̃_l‖                                        O(ρ⁵ √(N/m))
    inner      max_k |⟨w_k, h̃_l - h_l⟩| over all rows of W          O(ρ⁵ (N/m)^{2/3})
    rows       ‖W_K (h̃_l - h_l)‖ over the rows that were replaced, as they were
    flips      the number of units whose sign changed              O(ρ⁴ N^{1/3} m^{2/3})
    product    ‖(D̃_l W̃ ... D̃_2 W̃ - D_l W ... D_2 W) v‖ for a unit vector v that is drawn apart     O(ρ⁵ (N/m)^{1/6})
    product_rows   ‖W_K of that difference‖                        O(ρ⁶ (N/m)^{2/3})
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from krogh.errors import require, require_integer
from krogh.networks.recurrence.random_network import Array, RandomRnn, Run


@dataclass(frozen=True, eq=False)
class Twins:
    """A network, the same with rows drawn anew, and which rows."""

    network: RandomRnn
    twin: RandomRnn
    rows: NDArray[np.integer[Any]]


def rerandomised(network: RandomRnn, count: int, seed: int = 0) -> Twins:
    """The twin with `count` rows of W and A, chosen at random, drawn anew from N(0, 2/m)."""
    require_integer("count", count, 1)
    m = network.width
    require(count <= m, f"a network of width {m} has no more than {m} rows to draw anew; got count={count}")
    rng = np.random.default_rng([seed, 13])
    rows = np.sort(rng.choice(m, count, replace=False))
    W, A = network.W.copy(), network.A.copy()
    for matrix in (W, A):
        matrix[rows] = rng.standard_normal((count, matrix.shape[1])) * (2 / m) ** 0.5
    return Twins(network, RandomRnn(W, A, network.B), rows)


def stability(twins: Twins, x: Array, seed: int = 0) -> pl.DataFrame:
    """What differs between the two on sequences x [batch, L, d]: a row per position, means over the batch."""
    own, other = twins.network.run(x), twins.twin.run(x)
    v = np.random.default_rng([seed, 17]).standard_normal(twins.network.width)
    v /= np.linalg.norm(v)
    products = [np.broadcast_to(v.astype(own.h.dtype), own.h[0].shape)] * 2
    rows = []
    for l in range(1, own.length + 1):  # noqa: E741  (the source's letter)
        moved = other.h[l] - own.h[l]
        through = moved @ twins.network.W.T
        if l > 1:
            products = [_through(run, l, product) for run, product in zip((own, other), products, strict=True)]
        apart = products[1] - products[0]
        rows.append(
            {
                "position": l,
                "state": _size(moved),
                "inner": float(np.abs(through).max(axis=1).mean()),
                "rows": _size(through[:, twins.rows]),
                "flips": float((own.active[l] != other.active[l]).sum(axis=1).mean()),
                "product": _size(apart),
                "product_rows": _size(apart @ twins.network.W[twins.rows].T),
            }
        )
    return pl.DataFrame(rows)


def _through(run: Run, position: int, v: Array) -> Array:
    return np.asarray(run.active[position] * (v @ run.network.W.T))


def _size(values: Array) -> float:
    return float(np.linalg.norm(values.astype(np.float64), axis=1).mean())
