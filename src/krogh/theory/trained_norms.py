"""The norms of a trained Transformer, and the generalisation gap that chapter 4's bounds promise for them (§4.4, §A.1).

The bounds are of a sum of heads with a fixed linear read-out, so what is inserted is the attention layer of the
"sparse-transformer" and its read-out w = U_1 - U_0: residual connection, MLP and later norms are outside the class, and
so are trained positions, which the source's Lemma A.11 does not cover. A token is what the heads see, LN(z_t) with a 1
appended, so that the biases of query, key and value are part of their matrices:

    score = x_CLS^T W_Q W_K^T x_t,   W_Q = [W_q | b_q]^T/√k, W_K = [W_k | b_k]^T    per head, (d+1) × k
    output = Σ_t a_t x_t W_V W_C,    W_V W_C = [W_v | b_v]^T W_o^T                  per head, (d+1) × d
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float
from numpy.typing import NDArray

from krogh.errors import require, require_integer
from krogh.models.sparse_transformer import EPSILON
from krogh.theory.norms import attention_norms, token_norm
from krogh.theory.predictions.attention_capacity import head_parts
from krogh.theory.predictions.cover_parts import Part, explicit_log_cover, shape_constant
from krogh.theory.predictions.generalisation import (
    CHAINING_CONSTANT,
    dudley_bound,
    gap_bound,
    rademacher_bound,
    smallest_samples,
)
from krogh.theory.predictions.inputs import check_open

Array = NDArray[np.float64]


@dataclass(frozen=True)
class TrainedNorms:
    """What the capacity bounds ask of an attention layer: arrays have one entry per head."""

    value: Float[np.ndarray, " heads"]
    value_21: Float[np.ndarray, " heads"]
    query_key: Float[np.ndarray, " heads"]
    query_key_21: Float[np.ndarray, " heads"]
    token_norm: float
    query_norm: float
    readout: float
    dimension: int

    def parts(self, tokens: int) -> list[Part]:
        """The two maps of every head, read on so many tokens."""
        per_head = zip(self.value, self.value_21, self.query_key_21, strict=True)
        return [
            part
            for value, value_21, query_key_21 in per_head
            for part in head_parts(
                tokens,
                self.dimension,
                value=float(value),
                value_21=float(value_21),
                query_key_21=float(query_key_21),
                token_norm=self.token_norm,
                query_norm=self.query_norm,
                readout=self.readout,
            )
        ]

    @property
    def bound(self) -> float:
        """A = B_w Σ_h B_V B_X, the largest output of the class."""
        return self.readout * float(self.value.sum()) * self.token_norm


def trained_norms(params: Mapping[str, Any], heads: int) -> TrainedNorms:
    """The norms of a trained "sparse-transformer" by its parameters' names, in float64."""
    weights = {name: np.asarray(array, np.float64) for name, array in params.items()}
    d = weights["Wq"].shape[0]
    require_integer("heads", heads, 1)
    require(d % heads == 0, f"heads must divide the embedding {d}; got heads={heads}")
    k = d // heads
    tokens = weights["E"][:2, None] + weights["P"][None, :-1]
    seen = _with_one(_normed(weights, tokens.reshape(-1, d)))
    cls = _with_one(_normed(weights, weights["E"][2:] + weights["P"][-1:]))
    query, key, value = (_by_head(weights["W" + name], weights["b" + name], heads) for name in "qkv")
    output = weights["Wo"].T.reshape(heads, k, d)
    found = attention_norms(query / math.sqrt(k), key, value @ output)
    rows = weights["U"] if "U" in weights else weights["E"]
    return TrainedNorms(
        value=found["value"],
        value_21=found["value_21"],
        query_key=found["query_key"],
        query_key_21=found["query_key_21"],
        token_norm=float(max(token_norm(seen), token_norm(cls))),
        query_norm=float(token_norm(cls)),
        readout=float(np.linalg.norm(rows[1] - rows[0])),
        dimension=d + 1,
    )


def trained_gap(
    norms: TrainedNorms, length: int, samples: int, *, failure: float = 0.05, constant: float = CHAINING_CONSTANT
) -> dict[str, float]:
    """The gap between error and training error that Theorem A.4 promises for heads of these norms.

    The loss is the ramp min(1, max(0, 1-yf)), which is 1-Lipschitz, bounded by 1 and at least the share of mistakes; a
    `gap_explicit` of 1 or more therefore says nothing. One head gets the numbers of "attention/generalisation".
    """
    require_integer("length", length, 1)
    require_integer("samples", samples, 1)
    parts = norms.parts(samples * length)
    capacity = shape_constant(parts) * math.log(norms.dimension * samples * length)
    rough = rademacher_bound(capacity, norms.bound, samples, constant)
    explicit = dudley_bound(lambda eps: explicit_log_cover(parts, eps), norms.bound, samples, constant)[0]
    return {
        "capacity_shape": capacity,
        "prediction_bound": norms.bound,
        "gap_shape": gap_bound(rough, samples, 1.0, 1.0, failure),
        "gap_explicit": gap_bound(explicit, samples, 1.0, 1.0, failure),
    }


def samples_promised(norms: TrainedNorms, length: int, target: float = 1.0) -> float | int:
    """The least m at which `trained_gap` promises at most `target`; at 1, the least at which it says anything."""
    check_open("target", target, 0)
    return smallest_samples(lambda m: trained_gap(norms, length, m)["gap_explicit"], target)


def _normed(weights: Mapping[str, Array], z: Array) -> Array:
    centred = z - z.mean(axis=1, keepdims=True)
    unit = centred / np.sqrt((centred**2).mean(axis=1, keepdims=True) + EPSILON)
    return unit * weights["g1"] + weights["h1"]


def _with_one(tokens: Array) -> Array:
    return np.concatenate([tokens, np.ones((len(tokens), 1))], axis=1)


def _by_head(matrix: Array, bias: Array, heads: int) -> Array:
    """[W | b]^T cut into heads: (heads, d+1, k)."""
    wide = np.concatenate([matrix, bias[:, None]], axis=1)
    return np.swapaxes(wide.reshape(heads, -1, wide.shape[1]), 1, 2)
