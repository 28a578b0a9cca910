"""Linear attention: the softmax's exp(q·k) replaced by φ(q)·φ(k) with positive features (Katharopoulos et al., 2020).

    p_ij = φ(q_i)·φ(k_j) / Σ_l φ(q_i)·φ(k_l),   φ(t) = elu(t) + 1 = t + 1 for t > 0, exp(t) otherwise

and Σ_j p_ij v_j = (Σ_j v_j φ(k_j)ᵀ) φ(q_i) / (Σ_j φ(k_j))·φ(q_i): two sums over the sequence, shared by all positions,
instead of length² weights. All memory of the tokens is a matrix of a fixed size, as in a recurrent network. Everything
around it is as in `token_attention`; no mask. The source has no such model: it stands between its two.
"""

from __future__ import annotations

import jax.numpy as jnp
from jaxtyping import Array, Float

from krogh.models.base import Model, model
from krogh.models.token_attention import Heads, SelfAttention, Weights
from krogh.tasks.base import Task
from krogh.tasks.token_regression import TokenRegression


@model("linear-attention")
class LinearAttention(SelfAttention):
    """Normalised linear attention over the whole sequence.

    Parameters: Q, K, V, O [features, features], b_Q, b_K, b_V, b_O [features], W [hidden, features], b, u [hidden],
    c []. The key bias matters here.
    """

    def mix(self, q: Heads, k: Heads, v: Heads) -> Heads:
        asked, kept = positive(q), positive(k)
        memory = jnp.einsum("bjha,bjhc->bhac", kept, v)
        total = jnp.einsum("biha,bha->bih", asked, jnp.sum(kept, axis=1))
        return jnp.einsum("biha,bhac->bihc", asked, memory) / total[..., None]

    def weigh(self, q: Heads, k: Heads) -> Weights:
        products = jnp.einsum("biha,bjha->bhij", positive(q), positive(k))
        return products / jnp.sum(products, axis=-1, keepdims=True)

    @classmethod
    def example(cls) -> tuple[Model, Task]:
        return cls(hidden=16), TokenRegression.example()


def positive(t: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
    """elu(t) + 1, without the rounding that makes elu(t) = -1 for t < -17 in single precision."""
    return jnp.maximum(t, 0) + jnp.exp(jnp.minimum(t, 0))
