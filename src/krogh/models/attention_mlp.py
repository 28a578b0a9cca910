"""Attention heads followed by a ReLU network: the construction network of the source (dissertation, §A.2.1).

    y = Σ_h softmax(v_CLSᵀ Q_h K_hᵀ Xᵀ) X V_h C_h,  its first q coordinates
    f = ([([y, 1] W_1)₊, 1] W_2)₊ w

X has the rows x_1 … x_n and [CLS]. How bits become rows is the `mapping`:

    deterministic   x_t = E_{b_t} + P_t   E, P and [CLS] stay as they were drawn
    trainable       x_t = E_{b_t} + P_t   all of them are trained
    bag             x_t = b_t P_t         the vectors of the bag and [CLS] stay as they were drawn

The trailing w that the source prints in its formula of y is spurious: y is a vector. There is no 1/√k, no layer
norm, no residual connection.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray, UInt32

from krogh.errors import require, require_integer, unknown
from krogh.models.base import Model, Parameters, model
from krogh.models.initialisers import check_initialiser, initialise_all
from krogh.models.mlp import require_signs
from krogh.tasks.base import Task
from krogh.tasks.bases import RESERVED
from krogh.tasks.parity import Parity
from krogh.values import structure

MAPPINGS = ("deterministic", "trainable", "bag")
READOUTS = ("mlp", "two-layer", "scalar", "vector")


class _Table(NamedTuple):
    """Something computed of each token that can occur: of position t with bit 0 and 1, and of [CLS]."""

    zero: Float[Array, "n ..."]
    one: Float[Array, "n ..."]
    cls: Float[Array, "..."]


@model("attention-mlp")
class AttentionMlp(Model):
    """f_tf+mlp: `heads` heads of dimension `attention` on tokens of dimension `embedding`, then ReLUs.

    Parameters: E [2, d] (rows for bit 0, x = +1, and bit 1, x = -1; none in a bag), cls [d], P [n, d],
    Q, K, V [heads, d, k], C [heads, k, d]; then W1 [q+1, first_hidden], W2 [first_hidden+1, second_hidden],
    w [second_hidden], the biases being the last rows. The ReLUs read the first q = `read` coordinates (all unless
    given). `readout` "two-layer" leaves W2 out; "scalar" leaves all three out and predicts the first
    coordinate; "vector" predicts the q coordinates, and serves constructions, not training.

    What a mapping keeps fixed gets no gradient; a decay reaches it all the same unless the optimiser is told not to.
    """

    embedding: int = structure(default=64)
    heads: int = structure(default=4)
    attention: int = structure(default=16)
    first_hidden: int = structure(default=64)
    second_hidden: int = structure(default=64)
    read: int | None = structure(default=None)
    mapping: str = structure(default="trainable")
    readout: str = structure(default="mlp")
    initialiser: str = structure(default="uniform")
    embedding_initialiser: str = structure(default="normal")

    def __check_init__(self) -> None:
        if self.mapping not in MAPPINGS:
            raise unknown("mapping", self.mapping, MAPPINGS)
        if self.readout not in READOUTS:
            raise unknown("readout", self.readout, READOUTS)
        require_integer("embedding", self.embedding, 1 if self.mapping == "trainable" else RESERVED + 1)
        for name in ("heads", "attention", "first_hidden", "second_hidden"):
            require_integer(name, getattr(self, name), 1)
        if self.read is not None:
            require_integer("read", self.read, 1, self.embedding)
        check_initialiser(self.initialiser)
        check_initialiser(self.embedding_initialiser)

    @property
    def coordinates(self) -> int:
        """q, how many coordinates of the heads' output are read."""
        return self.embedding if self.read is None else self.read

    def init(self, key: PRNGKeyArray, task: Task) -> Parameters:
        n, d, h, k, q = task.input_shape[0], self.embedding, self.heads, self.attention, self.coordinates
        first, second = self.first_hidden, self.second_hidden
        embeddings = {"E": ((2, d), d), "cls": ((d,), d), "P": ((n, d), d)}
        heads = {"Q": ((h, d, k), d), "K": ((h, d, k), d), "V": ((h, d, k), d), "C": ((h, k, d), h * k)}
        layers: dict[str, dict[str, tuple[tuple[int, ...], int]]] = {
            "mlp": {"W1": ((q + 1, first), q), "W2": ((first + 1, second), first), "w": ((second,), second)},
            "two-layer": {"W1": ((q + 1, first), q), "w": ((first,), first)},
        }
        shapes = {**embeddings, **heads, **layers.get(self.readout, {})}
        params = initialise_all(self.initialiser, key, shapes, dict.fromkeys(embeddings, self.embedding_initialiser))
        if self.mapping != "trainable":
            params |= self._fixed(jax.random.split(key, len(shapes))[list(shapes).index("P")], n)
        if self.mapping == "bag":
            del params["E"]
        return params

    def _fixed(self, key: PRNGKeyArray, n: int) -> Parameters:
        """Fixed embeddings: random signs over √(d-3) for positions, the three last unit vectors for E_0, E_1, [CLS]."""
        free = self.embedding - RESERVED
        positions = jax.random.rademacher(key, (n, free), jnp.float32) / math.sqrt(free)
        reserved = jnp.eye(self.embedding, dtype=jnp.float32)[free:]
        return {"E": reserved[:2], "cls": reserved[2], "P": jnp.pad(positions, ((0, 0), (0, RESERVED)))}

    def predict(self, params: Parameters, x: Float[Array, "batch n"]) -> Float[Array, "batch ..."]:
        y = self.attend(params, x)
        if self.readout == "vector":
            return y
        if self.readout == "scalar":
            return y[:, 0]
        hidden = jax.nn.relu(_affine(y, params["W1"]))
        if self.readout == "mlp":
            hidden = jax.nn.relu(_affine(hidden, params["W2"]))
        return hidden @ params["w"]

    def forward(
        self, params: Parameters, x: Float[Array, "batch n"], noise: UInt32[Array, ""]
    ) -> Float[Array, "batch ..."]:
        obstacle = self._no_label()
        require(obstacle is None, f"{obstacle}")
        return self.predict(params, x)

    def attend(self, params: Parameters, x: Float[Array, "batch n"]) -> Float[Array, "batch q"]:
        """The first q coordinates of the heads' sum, read at [CLS]."""
        weight = self.weights(params, x)
        value = self._of_tokens(params, params["V"])
        chosen = weight[:, :, :-1]
        on_one = jnp.where(x[:, None, :] < 0, chosen, jnp.zeros_like(chosen))
        mixed = (
            jnp.einsum("bhn,nhk->bhk", chosen - on_one, value.zero)
            + jnp.einsum("bhn,nhk->bhk", on_one, value.one)
            + weight[:, :, -1, None] * value.cls[None]
        )
        return jnp.einsum("bhk,hkq->bq", mixed, params["C"][:, :, : self.coordinates])

    def weights(self, params: Parameters, x: Float[Array, "batch n"]) -> Float[Array, "batch heads n+1"]:
        """What each head attends to from [CLS]: the n tokens, and [CLS] itself, which comes last."""
        cls = self._frozen(params["cls"])
        seen = jnp.einsum("d,hdk,hek->he", cls, params["Q"], params["K"])
        score = self._of_tokens(params, seen[:, :, None])
        chosen = jnp.where(x[:, :, None] < 0, score.one[None, :, :, 0], score.zero[None, :, :, 0])
        own = jnp.broadcast_to(score.cls[None, None, :, 0], (x.shape[0], 1, self.heads))
        return jax.nn.softmax(jnp.concatenate([chosen, own], axis=1), axis=1).transpose(0, 2, 1)

    def _of_tokens(self, params: Parameters, matrix: Float[Array, "heads d k"]) -> _Table:
        """Each token that can occur times the heads' matrices: only 2n + 1 tokens do, whatever the batch."""
        place = jnp.einsum("nd,hdk->nhk", self._frozen(params["P"]), matrix)
        cls = jnp.einsum("d,hdk->hk", self._frozen(params["cls"]), matrix)
        if self.mapping == "bag":
            return _Table(jnp.zeros_like(place), place, cls)
        bit = jnp.einsum("sd,hdk->shk", self._frozen(params["E"]), matrix)
        return _Table(bit[0][None] + place, bit[1][None] + place, cls)

    def _frozen(self, embedding: Array) -> Array:
        return embedding if self.mapping == "trainable" else jax.lax.stop_gradient(embedding)

    def check(self, task: Task) -> None:
        require_signs("construction network", task)

    def obstacle(self, task: Task) -> str | None:
        return self._no_label()

    def _no_label(self) -> str | None:
        if self.readout != "vector":
            return None
        return f"the read-out 'vector' gives {self.coordinates} numbers and there is one label (try readout='mlp')"

    @classmethod
    def example(cls) -> tuple[Model, Task]:
        model = cls(embedding=16, heads=2, attention=4, first_hidden=24, second_hidden=16, initialiser="gaussian")
        return model, Parity(n=8, k=2)


def _affine(y: Float[Array, "batch inputs"], W: Float[Array, "inputs+1 outputs"]) -> Float[Array, "batch outputs"]:
    """[y, 1] W: the bias is the last row of W."""
    return y @ W[:-1] + W[-1][None, :]
