"""Attention layers on top of each other, with tokens kept in the unit ball (dissertation, §4.4.3, §A.1.7).

    g⁽¹⁾ = X,   g⁽ⁱ⁺¹⁾ = Π(σ(Π(f(g⁽ⁱ⁾; W⁽ⁱ⁾))) W_C⁽ⁱ⁾),   f(Z) = RowSoftmax(Z W_Q (Z W_K)ᵀ) Z W_V
    output = w·[g⁽ᴸ⁺¹⁾]_CLS

Π divides each row by max(1, its norm): this is what the source calls layer norm in its capacity bound, and it is
not the layer norm of trained transformers.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from krogh.errors import require_integer
from krogh.models.attention_heads import Map, activation_of, attend, unit_ball, with_cls
from krogh.models.base import Model, Parameters, model
from krogh.models.initialisers import check_initialiser, initialise_all
from krogh.models.mlp import require_signs
from krogh.tasks.base import Task
from krogh.tasks.parity import Parity
from krogh.values import structure

EMBEDDINGS = ("E", "cls", "P")


def attention_block(
    rows: Float[Array, "rows d"],
    tokens: Float[Array, "T d"],
    W_Q: Float[Array, "d k"],
    W_K: Float[Array, "d k"],
    W_V: Float[Array, "d k"],
    W_C: Float[Array, "k d"],
    activation: Map = jax.nn.relu,
) -> Float[Array, "rows d"]:
    """Π(σ(Π(f(g; W))) W_C) at some `rows` of the tokens g: all of them, or the one that is read."""
    return unit_ball(activation(unit_ball(attend(rows, tokens, W_Q, W_K, W_V))) @ W_C)


def attention_blocks(
    tokens: Float[Array, "T d"],
    W_Q: Float[Array, "L d k"],
    W_K: Float[Array, "L d k"],
    W_V: Float[Array, "L d k"],
    W_C: Float[Array, "L k d"],
    activation: Map = jax.nn.relu,
) -> Float[Array, "T d"]:
    """g⁽ᴸ⁺¹⁾, every row of it."""
    for layer in range(W_Q.shape[0]):
        tokens = attention_block(tokens, tokens, W_Q[layer], W_K[layer], W_V[layer], W_C[layer], activation)
    return tokens


@model("attention-blocks")
class AttentionBlocks(Model):
    """The depth-L model read at [CLS].

    Parameters: E [2, d] (rows for bit 0, x = +1, and bit 1, x = -1), cls [d], P [n, d], Q, K, V [depth, d, a],
    C [depth, a, d], w [d]. Tokens are x_t = E_{b_t} + P_t and [CLS] is the last.
    """

    embedding: int = structure(default=64)
    depth: int = structure(default=2)
    attention: int = structure(default=16)
    activation: str = structure(default="relu")
    initialiser: str = structure(default="uniform")
    embedding_initialiser: str = structure(default="normal")

    def __check_init__(self) -> None:
        for name in ("embedding", "depth", "attention"):
            require_integer(name, getattr(self, name), 1)
        activation_of(self.activation)
        check_initialiser(self.initialiser)
        check_initialiser(self.embedding_initialiser)

    def init(self, key: PRNGKeyArray, task: Task) -> Parameters:
        n, d, layers, a = task.input_shape[0], self.embedding, self.depth, self.attention
        shapes = {
            "E": ((2, d), d),
            "cls": ((d,), d),
            "P": ((n, d), d),
            "Q": ((layers, d, a), d),
            "K": ((layers, d, a), d),
            "V": ((layers, d, a), d),
            "C": ((layers, a, d), a),
            "w": ((d,), d),
        }
        return initialise_all(self.initialiser, key, shapes, dict.fromkeys(EMBEDDINGS, self.embedding_initialiser))

    def predict(self, params: Parameters, x: Float[Array, "batch n"]) -> Float[Array, " batch"]:
        activation = activation_of(self.activation)
        Q, K, V, C = (params[name] for name in "QKVC")

        def one(signs: Float[Array, " n"]) -> Float[Array, ""]:
            bits = jnp.where(signs[:, None] < 0, params["E"][1][None, :], params["E"][0][None, :])
            tokens = with_cls(bits + params["P"], params["cls"])
            tokens = attention_blocks(tokens, Q[:-1], K[:-1], V[:-1], C[:-1], activation)
            # Nothing of the last layer is read but [CLS].
            return attention_block(tokens[-1:], tokens, Q[-1], K[-1], V[-1], C[-1], activation)[0] @ params["w"]

        return jax.vmap(one)(x)

    def check(self, task: Task) -> None:
        require_signs("stack of attention blocks", task)

    @classmethod
    def example(cls) -> tuple[Model, Task]:
        return cls(embedding=16, depth=2, attention=8), Parity(n=8, k=2)
