"""Attention as the source's theory defines it, and the two models made of it (dissertation, §4.3, §4.4, §A.1, §A.2.1).

    attention_head    y = φ_out(φ_in(X)ᵀ Norm(Score(x_1, z), …, Score(x_T, z)))           Definition 4.3
    attend            RowSoftmax(Z W_Q (X W_K)ᵀ) X W_V for some rows Z                     Definition 4.4
    unit_ball         u / max(1, ‖u‖), what stands for layer norm in the depth-L bound      section A.1.7

Rows of X are tokens. There is no 1/√k, no mask, no residual connection and no bias: the transformers that are trained
in experiments have those, and are other functions. These take one sequence; `jax.vmap` takes many. The simplified head
σ(W_Vᵀ Xᵀ softmax(X W_QKᵀ z)) of section 4.4.2 is the general one with Score(x, z) = zᵀ W_QK x, W_QK = W_Q W_Kᵀ; a
Transformer layer is σ(attend) W_C.

`AttentionBlocks`, layers on top of each other with tokens kept in the unit ball (§4.4.3, §A.1.7):

    g⁽¹⁾ = X,   g⁽ⁱ⁺¹⁾ = Π(σ(Π(f(g⁽ⁱ⁾; W⁽ⁱ⁾))) W_C⁽ⁱ⁾),   f(Z) = RowSoftmax(Z W_Q (Z W_K)ᵀ) Z W_V
    output = w·[g⁽ᴸ⁺¹⁾]_CLS

Π divides each row by max(1, its norm): this is what the source calls layer norm in its capacity bound, and it is not
the layer norm of trained transformers.

`AttentionMlp`, heads followed by a ReLU network: the construction network of the source (§A.2.1):

    y = Σ_h softmax(v_CLSᵀ Q_h K_hᵀ Xᵀ) X V_h C_h,  its first q coordinates
    f = ([([y, 1] W_1)₊, 1] W_2)₊ w

X has the rows x_1 … x_n and [CLS]. How bits become rows is the `mapping`:

    deterministic   x_t = E_{b_t} + P_t   E, P and [CLS] stay as they were drawn
    trainable       x_t = E_{b_t} + P_t   all of them are trained
    bag             x_t = b_t P_t         the vectors of the bag and [CLS] stay as they were drawn

The trailing w that the source prints in its formula of y is spurious: y is a vector.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray, UInt32

from krogh.errors import require, require_integer, unknown
from krogh.models.base import Model, Parameters, model
from krogh.models.parts import check_initialiser, draw_layers, require_signs
from krogh.tasks.base import Task
from krogh.tasks.parity import Parity
from krogh.values import structure

Score = Callable[[Array, Array], Array]
"""Of a token and the context: a number."""

Map = Callable[[Array], Array]
"""Of a vector: a vector. Norm takes scores to the simplex, φ_in a token to its value, φ_out a mixture to the output."""

ACTIVATIONS: dict[str, Map] = {"identity": lambda z: z, "relu": jax.nn.relu, "tanh": jnp.tanh}
"""Activations σ with σ(0) = 0 and Lipschitz constant 1, as the capacity bounds assume."""


EMBEDDINGS = ("E", "cls", "P")
RESERVED = 3
"""Coordinates that are kept for E_0, E_1 and [CLS] where embeddings are fixed."""
MAPPINGS = ("deterministic", "trainable", "bag")
READOUTS = ("mlp", "two-layer", "scalar", "vector")


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


def with_cls(tokens: Float[Array, "T d"], cls: Float[Array, " d"]) -> Float[Array, "T+1 d"]:
    """The tokens with [CLS] as the last row: it is attended to like any other."""
    return jnp.concatenate([tokens, cls[None, :]])


def unit_ball(vectors: Float[Array, "*rows d"]) -> Float[Array, "*rows d"]:
    """u / max(1, ‖u‖) of each row: the nearest point of the unit ball, which moves no two vectors apart (Lemma A.9)."""
    # The root of the larger square, and not the larger root: its slope at u = 0 is a number.
    squared = jnp.sum(vectors**2, axis=-1, keepdims=True)
    return vectors * jax.lax.rsqrt(jnp.maximum(squared, 1.0))


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
        return draw_layers(key, shapes, self.initialiser, dict.fromkeys(EMBEDDINGS, self.embedding_initialiser))

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
        params = draw_layers(key, shapes, self.initialiser, dict.fromkeys(embeddings, self.embedding_initialiser))
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
