"""The Parity Transformer: one attention layer read at a [CLS] token (dissertation, §B.4.1).

    X_i = E_{x_i} + P_i,  X_CLS = E_CLS
    a = X_CLS + Σ_h softmax((X_CLS Q_h)(X K_h)ᵀ/√d_attn) X V_h O_h
    f = u·(a + W_2 GeLU(W_1 a + b_1) + b_2)

The factor X before V is missing in print, and the shapes of W_2 and b_2 are repaired. There is no layer
norm, dropout or weight tying. The source leaves d_mlp open: 4·d_emb unless given. It does not say how embeddings
are drawn either: N(0, 1), the package default of an embedding, is the default here; the affine layers' ±1/√d_emb
makes all tokens nearly equal, and the source's size then does not learn (docs/parity.md).
"""

from __future__ import annotations

import math

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from krogh.errors import require_integer
from krogh.models.base import Model, Parameters, model
from krogh.models.initialisers import check_initialiser, initialise_all
from krogh.models.mlp import require_signs
from krogh.tasks.base import Task
from krogh.tasks.parity import Parity
from krogh.values import structure

EMBEDDINGS = ("E", "cls", "P")


@model("parity-transformer")
class ParityTransformer(Model):
    """The Parity Transformer; the source uses embedding 1024, 128 heads of dimension 8.

    Parameters: E [2, d] (rows for -1 and +1), cls [d], P [n, d], Q, K, V [heads, d, a], O [heads, a, d],
    W1 [m, d], b1 [m], W2 [d, m], b2 [d], u [d].
    """

    embedding: int = structure(default=1024)
    heads: int = structure(default=128)
    attention: int = structure(default=8)
    hidden: int | None = structure(default=None)
    initialiser: str = structure(default="uniform")
    embedding_initialiser: str = structure(default="normal")

    def __check_init__(self) -> None:
        for name in ("embedding", "heads", "attention"):
            require_integer(name, getattr(self, name), 1)
        if self.hidden is not None:
            require_integer("hidden", self.hidden, 1)
        check_initialiser(self.initialiser)
        check_initialiser(self.embedding_initialiser)

    def init(self, key: PRNGKeyArray, task: Task) -> Parameters:
        n, d, h, a = task.input_shape[0], self.embedding, self.heads, self.attention
        m = self.hidden or 4 * d
        shapes = {
            "E": ((2, d), d),
            "cls": ((d,), d),
            "P": ((n, d), d),
            "Q": ((h, d, a), d),
            "K": ((h, d, a), d),
            "V": ((h, d, a), d),
            "O": ((h, a, d), h * a),
            "W1": ((m, d), d),
            "b1": ((m,), d),
            "W2": ((d, m), m),
            "b2": ((d,), m),
            "u": ((d,), d),
        }
        return initialise_all(self.initialiser, key, shapes, dict.fromkeys(EMBEDDINGS, self.embedding_initialiser))

    def predict(self, params: Parameters, x: Float[Array, "batch n"]) -> Float[Array, " batch"]:
        attended = self.attend(params, x)
        hidden = jax.nn.gelu(attended @ params["W1"].T + params["b1"][None, :], approximate=False)
        return (attended + hidden @ params["W2"].T + params["b2"][None, :]) @ params["u"]

    def attend(self, params: Parameters, x: Float[Array, "batch n"]) -> Float[Array, "batch d"]:
        """The [CLS] row after attention.

        Only 2n + 1 token vectors exist, so scores and values are computed once per token and sign, and an
        input selects among them: the scores and values are affine in each x_i.
        """
        cls = params["cls"]
        tokens = params["E"][:, None, :] + params["P"][None, :, :]
        query = jnp.einsum("d,hda->ha", cls, params["Q"]) / math.sqrt(self.attention)
        seen = jnp.einsum("ha,hda->hd", query, params["K"])
        score = jnp.einsum("snd,hd->snh", tokens, seen)
        own_score = jnp.einsum("d,hd->h", cls, seen)
        value = jnp.einsum("snd,hda->snha", tokens, params["V"])
        own_value = jnp.einsum("d,hda->ha", cls, params["V"])
        positive = x > 0
        chosen = jnp.where(positive[:, :, None], score[1][None], score[0][None])
        everything = jnp.concatenate([chosen, jnp.broadcast_to(own_score, chosen[:, :1].shape)], axis=1)
        weight = jax.nn.softmax(everything, axis=1)
        on_plus = jnp.where(positive[:, :, None], weight[:, :-1], 0.0)
        on_minus = weight[:, :-1] - on_plus
        mixed = (
            jnp.einsum("bnh,nha->bha", on_plus, value[1])
            + jnp.einsum("bnh,nha->bha", on_minus, value[0])
            + weight[:, -1, :, None] * own_value[None]
        )
        return cls[None, :] + jnp.einsum("bha,had->bd", mixed, params["O"])

    def check(self, task: Task) -> None:
        require_signs("Parity Transformer", task)

    @classmethod
    def example(cls) -> tuple[Model, Task]:
        return cls(embedding=16, heads=4, attention=4), Parity(n=8, k=2)
