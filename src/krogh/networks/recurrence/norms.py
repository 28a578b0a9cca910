"""Sizes that the theory of random recurrent networks rests on, measured on a network.

*Learning and generalization in RNNs*, Lemmas B.1 and F.11, Claim E.4, equation 37:

    states         ‖h_l‖ = √(1 + (l-1)ε_x²) for l < L, and √(2 + (L-2)ε_x²) at the end (where the lemma's holds)
    columns        the largest norm of a column of the decoder V^[L]                          O(L³)
    decoder gain   ‖V w‖/‖w‖ of the token-only decoder for random w        (1 ± 1/(100L))^L
    product        ‖D_j W ... D_{i+1} W‖_2                                                    O(L³)
    gain           ‖D_j W ... D_{i+1} W v‖/‖v‖ for a v drawn apart                     (1 ± 1/(100L))^{j-i+1}
    correlation    |⟨uᵀ Back_{i→j}, vᵀ Back_{i→j'}⟩| for j ≠ j'                  O(m^{3/4} ρ), and about √m in truth
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from krogh.errors import require
from krogh.networks.recurrence.decoders import decoding_matrix, token_decoder
from krogh.networks.recurrence.random_network import Array, Run

POWER_STEPS = 30


def back_correlations(run: Run, position: int = 1) -> dict[tuple[int, int], NDArray[np.float64]]:
    """⟨u Back_{i→j}, v Back_{i→j'}⟩ for all i < j ≤ j' and rows u, v of B, [batch, outputs, outputs]; i = `position`.

    Where j = j' these are inner products within one backward matrix; on its diagonal are squared norms of rows.
    """
    require(1 <= position < run.length, f"position must lie in 1..{run.length - 1}; got position={position}")
    rows: dict[int, Array] = {}
    for j in range(position + 1, run.length + 1):
        rows[j] = next(back for i, back in run.backward(j) if i == position)
    return {(j, k): np.einsum("bom,bpm->bop", rows[j], rows[k], dtype=np.float64) for j in rows for k in rows if j <= k}


class Norms(NamedTuple):
    """The sizes above on one network: by position where there is one, means over the batch and over directions."""

    states: dict[int, float]
    columns: float
    decoder_gain: float
    decoder_gains: tuple[float, float]
    product: float
    gains: dict[int, float]


def norm_checks(run: Run, base: Run, seed: int = 0, directions: int = 10) -> Norms:
    """Measure them; `decoder_gains` are the least and the largest over directions."""
    rng = np.random.default_rng([seed, 19])
    m, length = run.network.width, run.length
    w = rng.standard_normal((directions, (length - 2) * (run.x.shape[-1] - 1)))
    decoder = np.linalg.norm(token_decoder(base) @ w.T.astype(run.h.dtype), axis=0) / np.linalg.norm(w, axis=1)
    v = rng.standard_normal((directions, m)).astype(run.h.dtype)
    size, gains = np.linalg.norm(v, axis=1), {}
    for l in range(2, length + 1):  # noqa: E741  (the source's letter)
        v = base.active[l][0] * (v @ run.network.W.T)
        gains[l] = float(np.mean(np.linalg.norm(v, axis=1) / size))
    states = {l: float(np.linalg.norm(run.h[l], axis=1).mean()) for l in range(1, length + 1)}  # noqa: E741
    columns = float(np.linalg.norm(decoding_matrix(base), axis=0).max())
    ends = float(decoder.min()), float(decoder.max())
    return Norms(states, columns, float(decoder.mean()), ends, product_norm(base, rng), gains)


def product_norm(base: Run, rng: np.random.Generator) -> float:
    """‖D_L W ... D_2 W‖_2 at the base sequence, by power iteration."""
    W, signs = base.network.W, base.active[2:, 0]
    v = rng.standard_normal(len(W)).astype(W.dtype)
    size = 0.0
    for _ in range(POWER_STEPS):
        v = v / np.linalg.norm(v)
        for D in signs:
            v = D * (W @ v)
        size = float(np.linalg.norm(v))
        for D in signs[::-1]:
            v = (D * v) @ W
    return size


def state_norm(position: int, length: int, eps_x: float) -> float:
    """√(1 + (l-1)ε_x²), and √(2 + (L-2)ε_x²) at the end: the norm of h_l in the limit of great width."""
    inner = min(position, length - 1) - 1
    return math.sqrt(1 + inner * eps_x**2 + (position == length))
