"""One-layer Transformers on signs, read at a [CLS] token.

`ParityTransformer` (dissertation, §B.4.1):

    X_i = E_{x_i} + P_i,  X_CLS = E_CLS
    a = X_CLS + Σ_h softmax((X_CLS Q_h)(X K_h)ᵀ/√d_attn) X V_h O_h
    f = u·(a + W_2 GeLU(W_1 a + b_1) + b_2)

The factor X before V is missing in print, and the shapes of W_2 and b_2 are repaired. There is no layer norm, dropout
or weight tying. The source leaves d_mlp open: 4·d_emb unless given. It does not say how embeddings are drawn either:
N(0, 1), the package default of an embedding, is the default here; the affine layers' ±1/√d_emb makes all tokens nearly
equal, and the source's size then does not learn (docs/parity.md).

`SparseTransformer`, which learns sparse functions (§4.6, §A.3.1):

    z_t = E_{b_t} + P_t,  z_CLS = E_2 + P_T                 tokens 0, 1, [CLS]; trained positions
    a = z_CLS + O·concat_h Σ_t softmax_t(q_h·K_h LN(z_t)/√k) V_h LN(z_t)
    y = a + W_2 GELU(W_1 LN(a)),  logits = U LN(y)          read at [CLS]; the prediction is logit_1 - logit_0

All linear maps but U have biases; dropout on embeddings, attention probabilities and both outputs of the block. The
prediction is the log-odds of the label +1, so the logistic loss is the source's cross-entropy of two logits.

Only 2T + 1 token vectors exist, so scores and values are tables over (bit, position), and a batch of inputs is one
matrix of bits: with e = exp(score) the attended value is Σ e_{b_t,t} V_{b_t,t} / Σ e_{b_t,t}, two products of that
matrix with a table, for scores of a head within 240 of each other. Only dropout on embeddings needs every token of
every example; it takes the long way.
"""

from __future__ import annotations

import itertools
import math

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray, UInt32

from krogh.errors import require, require_integer
from krogh.models.base import Model, Parameters, model
from krogh.models.parts import check_initialiser, check_rate, draw_layers, kept, require_signs
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
        return draw_layers(key, shapes, self.initialiser, dict.fromkeys(EMBEDDINGS, self.embedding_initialiser))

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


SPREAD = 0.02
EPSILON = 1e-5
LEVELS, STEP, TINY = 4, 60.0, 1e-30
MATRICES = ("Wq", "Wk", "Wv", "Wo", "W1", "W2", "U")
EMBEDDING, ATTENTION, MIXED, HIDDEN = range(4)


@model("sparse-transformer")
class SparseTransformer(Model):
    """One pre-norm block read at [CLS]; the source has embedding 64, 16 heads of dimension 4, dropout 0.1.

    Parameters: E [3, d], P [T+1, d]; Wq, Wk, Wv, Wo [d, d] and bq, bk, bv, bo [d]; W1 [4d, d], b1, W2 [d, 4d], b2;
    U [2, d]; norm scales g1, g2, g3 [d] and shifts h1, h2, h3 [d]. Rows of a matrix are outputs. Weights and embeddings
    start as N(0, 0.02²), biases and shifts at 0, scales at 1. `tied` reads the output with the rows of tokens 0 and 1;
    `fixed_positions` keeps P as drawn. `MATRICES` names what the source's weight decay acts on.
    """

    embedding: int = structure(default=64)
    heads: int = structure(default=16)
    dropout: float = structure(default=0.1)
    embedding_dropout: float = structure(default=0.1)
    tied: bool = structure(default=False)
    fixed_positions: bool = structure(default=False)

    def __check_init__(self) -> None:
        require_integer("embedding", self.embedding, 1)
        require_integer("heads", self.heads, 1)
        whole = self.embedding % self.heads == 0
        nearest = max(h for h in range(1, self.heads + 1) if self.embedding % h == 0)
        require(whole, f"heads must divide embedding={self.embedding}; got heads={self.heads} (try heads={nearest})")
        check_rate("dropout", self.dropout)
        check_rate("embedding_dropout", self.embedding_dropout)

    @property
    def noisy(self) -> bool:
        return self.dropout > 0 or self.embedding_dropout > 0

    def init(self, key: PRNGKeyArray, task: Task) -> Parameters:
        n, d = task.input_shape[0], self.embedding
        drawn = {"E": (3, d), "P": (n + 1, d), **dict.fromkeys(("Wq", "Wk", "Wv", "Wo"), (d, d))}
        drawn |= {"W1": (4 * d, d), "W2": (d, 4 * d)} | ({} if self.tied else {"U": (2, d)})
        # One draw for all: a draw per array would take longer to compile than the rest of the program.
        ends = list(itertools.accumulate(math.prod(shape) for shape in drawn.values()))
        flat = SPREAD * jax.random.normal(key, (ends[-1],), jnp.float32)
        parts = jnp.split(flat, ends[:-1])
        params = {name: part.reshape(shape) for part, (name, shape) in zip(parts, drawn.items(), strict=True)}
        zeros = {name: jnp.zeros(d, jnp.float32) for name in ("bq", "bk", "bv", "bo", "b2", "h1", "h2", "h3")}
        ones = {name: jnp.ones(d, jnp.float32) for name in ("g1", "g2", "g3")}
        return params | zeros | ones | {"b1": jnp.zeros(4 * d, jnp.float32)}

    def predict(self, params: Parameters, x: Float[Array, "batch n"]) -> Float[Array, " batch"]:
        return self._read(params, self._from_tables(params, x, None), None)

    def forward(
        self, params: Parameters, x: Float[Array, "batch n"], noise: UInt32[Array, ""]
    ) -> Float[Array, " batch"]:
        if self.embedding_dropout > 0:
            return self._read(params, self._from_tokens(params, x, noise), noise)
        return self._read(params, self._from_tables(params, x, noise), noise)

    def attention(self, params: Parameters, x: Float[Array, "batch n"]) -> Float[Array, "batch heads places"]:
        """The weights with which [CLS] attends to the n tokens and, last, to itself."""
        score, own, _, _ = self._tables(params)
        chosen = jnp.where(x[:, None, :] < 0, score[1].T[None], score[0].T[None])
        everything = jnp.concatenate([chosen, jnp.broadcast_to(own[None, :, None], (*chosen.shape[:2], 1))], axis=2)
        return jax.nn.softmax(everything, axis=2)

    def _positions(self, params: Parameters) -> Float[Array, "places d"]:
        return jax.lax.stop_gradient(params["P"]) if self.fixed_positions else params["P"]

    def _query(self, params: Parameters, cls: Float[Array, "*batch d"]) -> Float[Array, "*batch heads k"]:
        k = self.embedding // self.heads
        query = (cls @ params["Wq"].T + _wide(params["bq"], cls)) / math.sqrt(k)
        return query.reshape(*cls.shape[:-1], self.heads, k)

    def _by_head(self, matrix: Float[Array, "d e"]) -> Float[Array, "heads k e"]:
        return matrix.reshape(self.heads, self.embedding // self.heads, matrix.shape[1])

    def _tables(self, params: Parameters) -> tuple[Array, Array, Array, Array]:
        """Scores [2, n, heads] and values [2, n, heads, k] of every (bit, position), and those of [CLS] itself."""
        heads, k = self.heads, self.embedding // self.heads
        position = self._positions(params)
        tokens = params["E"][:2, None, :] + position[None, :-1, :]
        cls = params["E"][2] + position[-1]
        tokens, cls = _normed(params, "1", tokens), _normed(params, "1", cls)
        query = self._query(params, cls)
        seen = jnp.einsum("hk,hkd->hd", query, self._by_head(params["Wk"]))
        offset = jnp.sum(query * params["bk"].reshape(heads, k), axis=1)
        score = tokens @ seen.T + offset[None, None, :]
        value = (tokens @ params["Wv"].T + params["bv"][None, None, :]).reshape(*tokens.shape[:2], heads, k)
        own_value = (params["Wv"] @ cls + params["bv"]).reshape(heads, k)
        return score, seen @ cls + offset, value, own_value

    def _from_tables(
        self, params: Parameters, x: Float[Array, "batch n"], noise: UInt32[Array, ""] | None
    ) -> Float[Array, "batch d"]:
        """The [CLS] row after attention, by way of the tables."""
        score, own, value, own_value = self._tables(params)
        one = (x < 0).astype(x.dtype)
        bits = jnp.stack([1.0 - one, one], axis=1)
        # e = exp(score - c) needs one c for all examples, but scores of a head may spread over a hundred and more, and
        # an example without a top-scoring token would underflow. So there are several c, a step apart, and each example
        # takes the first at which its sum is not small; then no score of its own lies more than a step above c.
        top = jax.lax.stop_gradient(jnp.maximum(jnp.max(score, axis=(0, 1)), own))
        lower = jnp.arange(LEVELS, dtype=score.dtype) * STEP
        weight = jnp.exp(jnp.minimum((score - top[None, None, :])[None] + lower[:, None, None, None], STEP))
        own_weight = jnp.exp(jnp.minimum((own - top)[None] + lower[:, None], STEP))
        total = jnp.einsum("bst,jsth->jhb", bits, weight) + own_weight[:, :, None]
        enough = (total >= 1.0).at[-1].set(True)
        level = jax.nn.one_hot(jnp.argmax(enough, axis=0), LEVELS, axis=0, dtype=total.dtype)
        weighted, own_weighted = weight[..., None] * value[None], own_weight[..., None] * own_value[None]
        if noise is None or self.dropout == 0:
            mixed = jnp.einsum("bst,jsthk->jhbk", bits, weighted) + own_weighted[:, :, None, :]
        else:
            # Heads first, as the batched product wants them: the mask is the largest array of a step.
            mask = kept(noise, ATTENTION, (self.heads, x.shape[0], x.shape[1] + 1), self.dropout, (1, 0, 2))
            chosen = mask[:, :, None, :-1] * bits[None, :, :, :]
            mixed = jnp.einsum("hbst,jsthk->jhbk", chosen, weighted)
            mixed = mixed + mask[None, :, :, -1:] * own_weighted[:, :, None, :]
        mixed, total = jnp.sum(level[..., None] * mixed, axis=0), jnp.sum(level * total, axis=0)
        # The gradient of a quotient squares the denominator, which may be as large as e^STEP: bring it near 1 first.
        scale = jax.lax.stop_gradient(1.0 / jnp.maximum(total, TINY))
        share = (mixed * scale[..., None]) / jnp.maximum(total * scale, 0.5)[..., None]
        mixed = share.swapaxes(0, 1).reshape(x.shape[0], self.embedding)
        cls = params["E"][2] + self._positions(params)[-1]
        return cls[None, :] + self._dropped(mixed @ params["Wo"].T + params["bo"][None, :], noise, MIXED)

    def _from_tokens(
        self, params: Parameters, x: Float[Array, "batch n"], noise: UInt32[Array, ""]
    ) -> Float[Array, "batch d"]:
        """The [CLS] row after attention with dropout on embeddings: every token of every example is a vector."""
        size, n = x.shape
        heads, k = self.heads, self.embedding // self.heads
        position = self._positions(params)
        one = x[:, :, None] < 0
        tokens = jnp.where(one, params["E"][1][None, None, :], params["E"][0][None, None, :]) + position[None, :-1, :]
        cls = jnp.broadcast_to((params["E"][2] + position[-1])[None, None, :], (size, 1, self.embedding))
        every = jnp.concatenate([tokens, cls], axis=1)
        every = every * kept(noise, EMBEDDING, every.shape, self.embedding_dropout)
        normed = _normed(params, "1", every)
        query = self._query(params, normed[:, -1])
        seen = jnp.einsum("bhk,hkd->bhd", query, self._by_head(params["Wk"]))
        offset = jnp.sum(query * params["bk"].reshape(1, heads, k), axis=2)
        weight = jax.nn.softmax(jnp.einsum("btd,bhd->bht", normed, seen) + offset[:, :, None], axis=2)
        if self.dropout > 0:
            weight = weight * kept(noise, ATTENTION, (size, heads, n + 1), self.dropout)
        gathered = jnp.einsum("bht,btd->bhd", weight, normed)
        mixed = jnp.einsum("bhd,hkd->bhk", gathered, self._by_head(params["Wv"]))
        mixed = mixed + jnp.sum(weight, axis=2)[:, :, None] * params["bv"].reshape(1, heads, k)
        output = mixed.reshape(size, self.embedding) @ params["Wo"].T + params["bo"][None, :]
        return every[:, -1] + self._dropped(output, noise, MIXED)

    def _read(
        self, params: Parameters, attended: Float[Array, "batch d"], noise: UInt32[Array, ""] | None
    ) -> Float[Array, " batch"]:
        """The rest of the block and the read-out."""
        inner = _normed(params, "2", attended) @ params["W1"].T + params["b1"][None, :]
        output = jax.nn.gelu(inner, approximate=False) @ params["W2"].T + params["b2"][None, :]
        final = _normed(params, "3", attended + self._dropped(output, noise, HIDDEN))
        rows = params["E"][:2] if self.tied else params["U"]
        return final @ (rows[1] - rows[0])

    def _dropped(self, output: Float[Array, "batch d"], noise: UInt32[Array, ""] | None, place: int) -> Array:
        if noise is None or self.dropout == 0:
            return output
        return output * kept(noise, place, output.shape, self.dropout)

    def check(self, task: Task) -> None:
        require_signs("sparse Transformer", task)

    @classmethod
    def example(cls) -> tuple[Model, Task]:
        return cls(embedding=16, heads=4), Parity(n=8, k=2)


def _wide(bias: Float[Array, " d"], like: Float[Array, "*batch d"]) -> Float[Array, "*ones d"]:
    return bias.reshape((1,) * (like.ndim - 1) + bias.shape)


def _normed(params: Parameters, which: str, z: Float[Array, "*batch d"]) -> Float[Array, "*batch d"]:
    """Layer norm with trained scale and shift."""
    centred = z - jnp.mean(z, axis=-1, keepdims=True)
    variance = jnp.mean(centred * centred, axis=-1, keepdims=True)
    unit = centred * jax.lax.rsqrt(variance + EPSILON)
    return unit * _wide(params[f"g{which}"], z) + _wide(params[f"h{which}"], z)
