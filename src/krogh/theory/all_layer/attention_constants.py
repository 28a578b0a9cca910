"""What a certificate has to know of a hard-max attention whose winners lead by a gap, under perturbation.

    scores  τ_j = (W_q h + b_q)·(W_k h_j + b_k),  τ_0 = (W_q h + b_q)·K_0,  values W_v h_j + b_v and V_0

The true vectors are bits, so that queries and keys are within intervals: their norms, and how far two keys are apart,
are bounded entry by entry. As long as two scores change by less than the gap against each other, perturbed attention
looks at some of the true winners only, whose values are equal; scores of winners that tied may then differ, and do no
harm.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sparse
from numpy.typing import NDArray

from krogh.errors import require
from krogh.theory.all_layer.modules import layer_of
from krogh.theory.all_layer.operator_norms import operator_norm_bound
from krogh.theory.all_layer.propagation import Spread

Array = NDArray[np.float64]


@dataclass(frozen=True)
class AttentionNorms:
    """Norms of W_q, W_k, W_v, of true queries, keys, K_0 and what is added; distances of keys; their dimension.

    Pulls are slopes of scores: ‖W_qᵀ(K_a - K_b)‖ for two positions, the same against the null key, and ‖W_kᵀ Q‖. `even`
    says that scores of two positions always differ by an even number, because their keys are ±1 where they differ.
    """

    query: float
    key: float
    value: float
    value_shift: float
    query_size: float
    key_size: float
    null_size: float
    key_distance: float
    null_distance: float
    pair_pull: float
    null_pull: float
    key_pull: float
    added: float
    dimension: int
    even: bool

    @property
    def largest_key(self) -> float:
        """k̄ = max(√D, ‖K_0‖)."""
        return max(math.sqrt(self.dimension), self.null_size)


def attention_norms(parameters: Mapping[str, Any], prefix: str) -> AttentionNorms:
    """The norms of the attention whose parameters are named {prefix}.Wq, bq, Wk, bk, Wv, bv, K0, V0."""
    query, key, value = (layer_of(parameters[f"{prefix}.W{x}"], parameters[f"{prefix}.b{x}"]) for x in "qkv")
    null_key, null_value = (np.asarray(parameters[f"{prefix}.{name}"], np.float64) for name in ("K0", "V0"))
    low, high = _interval(*key)
    from_null = np.maximum(np.abs(low - null_key), np.abs(high - null_key))
    largest_query = np.maximum(*np.abs(_interval(*query)))
    added = float(np.linalg.norm(np.maximum(*np.abs(_interval(*value)))))
    return AttentionNorms(
        query=operator_norm_bound(query[0]),
        key=operator_norm_bound(key[0]),
        value=operator_norm_bound(value[0]),
        value_shift=max(float(np.linalg.norm(value[1])), float(np.linalg.norm(null_value))),
        query_size=float(np.linalg.norm(largest_query)),
        key_size=float(np.linalg.norm(np.maximum(np.abs(low), np.abs(high)))),
        null_size=float(np.linalg.norm(null_key)),
        key_distance=float(np.linalg.norm(high - low)),
        null_distance=float(np.linalg.norm(from_null)),
        pair_pull=float(np.linalg.norm(abs(query[0]).T @ (high - low))),
        null_pull=float(np.linalg.norm(abs(query[0]).T @ from_null)),
        key_pull=float(np.linalg.norm(abs(key[0]).T @ largest_query)),
        added=max(added, float(np.linalg.norm(null_value))),
        dimension=len(null_key),
        even=bool(np.all((high == low) | (_signs(*key) & _signs(*query)))),
    )


def _interval(weight: sparse.csr_array, bias: Array) -> tuple[Array, Array]:
    """The least and the largest W h + b over bits h, row by row."""
    positive, negative = weight.multiply(weight > 0), weight.multiply(weight < 0)
    return np.asarray(bias + negative.sum(axis=1)), np.asarray(bias + positive.sum(axis=1))


def _signs(weight: sparse.csr_array, bias: Array) -> NDArray[np.bool_]:
    """Which rows of W h + b are -1 or 1 for all bits h: they read one bit or none."""
    low, high = _interval(weight, bias)
    return (np.diff(weight.indptr) <= 1) & (np.abs(low) == 1) & (np.abs(high) == 1)


def score_changes(norms: AttentionNorms, own: Spread, memory: Spread, t: float, shared: bool) -> tuple[float, float]:
    """By how much the scores of two positions, and of a position and the null slot, can change against each other.

    With Δ for perturbed minus true, Δ(τ_a - τ_b) = ΔQ·(K_a - K_b) + (Q + ΔQ)·(ΔK_a - ΔK_b). `own` is the spread of h
    and `memory` that of h_j; they go back to the same parameters where `shared` (the correction of the layer before),
    and otherwise to different ones (the embedding). At most, under a perturbation of norm t.
    """
    by_query, by_key = own.own(t), memory.own(t)
    moved_query = math.hypot(norms.query * own.gain, by_query)
    moved_key = math.hypot(norms.key * memory.gain, by_key)

    def change(distance: float, pull: float, keys: float, null: float) -> float:
        from_query, from_keys = pull * own.gain, keys * norms.key_pull * memory.gain
        before = (from_query + from_keys,) if shared else (from_query, from_keys)
        linear = math.hypot(*before, by_query * distance, keys * norms.query_size * by_key, null * norms.query_size)
        return linear * t + moved_query * t * (keys * moved_key + null) * t

    pair = change(norms.key_distance, norms.pair_pull, 2.0, 0.0)
    return pair, change(norms.null_distance, norms.null_pull, 1.0, 1.0)


def keeps_winners(norms: AttentionNorms, own: Spread, memory: Spread, t: float, shared: bool, gap: float) -> bool:
    """Whether nothing that lost by at least `gap` can win; two positions are apart by 2 at least where `even`."""
    pair, null = score_changes(norms, own, memory, t, shared)
    return pair < (max(gap, 2.0) if norms.even else gap) and null < gap


def after_attention(norms: AttentionNorms, own: Spread, memory: Spread, t: float, shared: bool) -> Spread:
    """After h + Σ_j p_j v_j, where attention looks at true winners only."""
    before = (own.gain + norms.value * memory.gain,) if shared else (own.gain, norms.value * memory.gain)
    return Spread(own.size + norms.added, math.hypot(*before, memory.own(t)))


def require_theorem_fits(norms: AttentionNorms, prefix: str) -> None:
    """Check what the constants of `machine_certificates` take for granted of an attention layer."""
    fits = norms.query <= 2 and norms.key <= 2 and norms.query_size**2 <= norms.dimension * (1 + 1e-12)
    fits = fits and norms.key_size <= norms.largest_key * (1 + 1e-12)
    require(
        fits,
        f"the constants for attention are for queries and keys 2h - 1 of bits; {prefix} has ‖W_q‖={norms.query:.3g}, "
        f"‖W_k‖={norms.key:.3g}, ‖Q‖≤{norms.query_size:.3g}, D={norms.dimension}",
    )
