"""Attention heads as the source's theory defines them: pure functions of arrays (dissertation, §4.3, §4.4, §A.1).

    attention_head      y = φ_out(φ_in(X)ᵀ Norm(Score(x_1, z), …, Score(x_T, z)))                    Definition 4.3
    transformer_layer   Y = σ(RowSoftmax(X W_Q (X W_K)ᵀ) X W_V) W_C                                   Definition 4.4
    scalar_readout      w·y_CLS, the layer's last row once [CLS] is appended                           Definition 4.4
    simplified_head     σ(W_Vᵀ Xᵀ softmax(X W_QKᵀ z)),  W_QK = W_Q W_Kᵀ                              section 4.4.2
    simplified_heads    the sum of H of them                                                          section A.1.6
    unit_ball           u / max(1, ‖u‖), what stands for layer norm in the depth-L bound               section A.1.7

Rows of X are tokens. There is no 1/√k, no mask, no residual connection and no bias: the transformers that are
trained in experiments have those, and are other functions. All of these take one sequence; `jax.vmap` takes many.
"""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from krogh.errors import unknown

Score = Callable[[Array, Array], Array]
"""Of a token and the context: a number."""

Map = Callable[[Array], Array]
"""Of a vector: a vector. Norm takes scores to the simplex, φ_in a token to its value, φ_out a mixture to the output."""

ACTIVATIONS: dict[str, Map] = {"identity": lambda z: z, "relu": jax.nn.relu, "tanh": jnp.tanh}
"""Activations σ with σ(0) = 0 and Lipschitz constant 1, as the capacity bounds assume."""


def activation_of(name: str) -> Map:
    if name not in ACTIVATIONS:
        raise unknown("activation", name, ACTIVATIONS)
    return ACTIVATIONS[name]


def attention_head(score: Score, norm: Map, phi_in: Map, phi_out: Map) -> Callable[[Array, Array], Array]:
    """The general head: a function of the tokens X [T, d] and the context z [d].

    `score` and `phi_in` take one token. In self-attention the context is one of the tokens.
    """

    def head(tokens: Float[Array, "T d"], context: Float[Array, " d"]) -> Array:
        weights = norm(jax.vmap(score, in_axes=(0, None))(tokens, context))
        return phi_out(jax.vmap(phi_in)(tokens).T @ weights)

    return head


def bilinear_score(W_QK: Float[Array, "d d"]) -> Score:
    """Score(x, z) = zᵀ W_QK x, with W_QK = W_Q W_Kᵀ."""
    return lambda token, context: context @ W_QK @ token


def attend(
    queries: Float[Array, "rows d"],
    tokens: Float[Array, "T d"],
    W_Q: Float[Array, "d k"],
    W_K: Float[Array, "d k"],
    W_V: Float[Array, "d v"],
) -> Float[Array, "rows v"]:
    """RowSoftmax(Z W_Q (X W_K)ᵀ) X W_V for some rows Z: all of X, or [CLS] alone where nothing else is read."""
    weights = jax.nn.softmax((queries @ W_Q) @ (tokens @ W_K).T, axis=-1)
    return weights @ (tokens @ W_V)


def transformer_layer(
    tokens: Float[Array, "T d"],
    W_Q: Float[Array, "d k"],
    W_K: Float[Array, "d k"],
    W_V: Float[Array, "d v"],
    W_C: Float[Array, "v e"],
    activation: Map = jax.nn.relu,
) -> Float[Array, "T e"]:
    """σ(RowSoftmax(X W_Q (X W_K)ᵀ) X W_V) W_C, one output per token."""
    return activation(attend(tokens, tokens, W_Q, W_K, W_V)) @ W_C


def with_cls(tokens: Float[Array, "T d"], cls: Float[Array, " d"]) -> Float[Array, "T+1 d"]:
    """The tokens with [CLS] as the last row: it is attended to like any other."""
    return jnp.concatenate([tokens, cls[None, :]])


def scalar_readout(
    tokens: Float[Array, "T d"],
    cls: Float[Array, " d"],
    W_Q: Float[Array, "d k"],
    W_K: Float[Array, "d k"],
    W_V: Float[Array, "d v"],
    W_C: Float[Array, "v e"],
    w: Float[Array, " e"],
    activation: Map = jax.nn.relu,
) -> Float[Array, ""]:
    """w·y_CLS: the layer read at [CLS], which is the only query that needs computing."""
    mixed = attend(cls[None, :], with_cls(tokens, cls), W_Q, W_K, W_V)
    return activation(mixed)[0] @ W_C @ w


def simplified_head(
    tokens: Float[Array, "T d"],
    query: Float[Array, " d"],
    W_V: Float[Array, "d v"],
    W_QK: Float[Array, "d d"],
    positions: Float[Array, "T d"] | None = None,
    activation: Map = jax.nn.relu,
) -> Float[Array, " v"]:
    """σ(W_Vᵀ Xᵀ softmax(X W_QKᵀ x_τ)); `positions` replaces X by X + P (the query is given as it is, with its own)."""
    placed = tokens if positions is None else tokens + positions
    return activation(W_V.T @ (placed.T @ jax.nn.softmax(placed @ (W_QK.T @ query))))


def simplified_heads(
    tokens: Float[Array, "T d"],
    query: Float[Array, " d"],
    W_V: Float[Array, "heads d v"],
    W_QK: Float[Array, "heads d d"],
    positions: Float[Array, "T d"] | None = None,
    activation: Map = jax.nn.relu,
) -> Float[Array, " v"]:
    """The sum of several simplified heads, each with weights of its own."""
    heads = jax.vmap(lambda value, score: simplified_head(tokens, query, value, score, positions, activation))
    return jnp.sum(heads(W_V, W_QK), axis=0)


def unit_ball(vectors: Float[Array, "*rows d"]) -> Float[Array, "*rows d"]:
    """u / max(1, ‖u‖) of each row: the nearest point of the unit ball, which moves no two vectors apart (Lemma A.9)."""
    # The root of the larger square, and not the larger root: its slope at u = 0 is a number.
    squared = jnp.sum(vectors**2, axis=-1, keepdims=True)
    return vectors * jax.lax.rsqrt(jnp.maximum(squared, 1.0))
