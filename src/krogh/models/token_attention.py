"""One layer of attention over a sequence of tokens, answered at every position.

An input is x [length, features]: at each position a token with the codes of its place and of the places its answer
depends on (qSTR, Definition 2). An answer is one real number per position.

`TokenAttention` (qSTR, Figures 1 and 2) is PyTorch's MultiheadAttention with a two-layer network at every position, the
"Transformer" of the source's experiments:

    q_i = Q z_i + b_Q,  k_i = K z_i,  v_i = V z_i + b_V          cut into heads of dimension a = features/heads
    p_ij = softmax_j(q_i·k_j/√a)                                   no mask: every position sees all
    ŷ_i = u·ReLU(W (O Σ_j p_ij v_j + b_O) + b) + c                  no residual connection, no layer norm

Q, K, V are drawn as one packed [3·features, features] Xavier-uniform matrix, U(±√(6/(4·features))); the biases of the
attention start at 0; all else is U(±1/√fan_in). PyTorch's key bias is left out: it adds the same number q_i·b_K to the
scores of all j, which the softmax forgets, so that it has no effect and no gradient.

`LinearAttention` has the softmax's exp(q·k) replaced by φ(q)·φ(k) with positive features (Katharopoulos et al., 2020):

    p_ij = φ(q_i)·φ(k_j) / Σ_l φ(q_i)·φ(k_l),   φ(t) = elu(t) + 1 = t + 1 for t > 0, exp(t) otherwise

and Σ_j p_ij v_j = (Σ_j v_j φ(k_j)ᵀ) φ(q_i) / (Σ_j φ(k_j))·φ(q_i): two sums over the sequence, shared by all positions,
instead of length² weights. All memory of the tokens is a matrix of a fixed size, as in a recurrent network. The source
has no such model: it stands between its two.

Both read sequences of symbols too, as one-hot vectors, and then answer with a logit per class at every position: u and
c have one more axis. They know nothing of places there: symbols have no codes, and these layers no positions. With
`causal` position i sees the positions j ≤ i only; linear attention then writes its length² weights out.

`MergedAttention` is the transformer of the qSTR theory (section 3):

    A^h_ij = softmax_j ⟨z_i, QK_h z_j⟩
    f_i    = (Σ_j A^1_ij z_j, ..., Σ_j A^H_ij z_j)                                                 in R^(H·De)
    ŷ_i    = a·relu(W f_i + b)

Query and key matrices are one matrix of full rank per head (rows are query coordinates, columns key coordinates), the
values are absorbed in W. There is no scale 1/√De, no residual path, no normalisation and no mask. The source learns by
risk minimisation and draws no initial weights. Chosen here: QK ~ N(0, 1/De²), so that the initial scores have the
standard deviation ‖z_i‖‖z_j‖/De, which is about 1 or less, and attention starts nearly even; W, b and a as PyTorch's
Linear draws them.
"""

from __future__ import annotations

import abc
import math

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Num, PRNGKeyArray

from krogh.errors import KroghError, require, require_integer
from krogh.models.base import Model, Parameters, model
from krogh.models.parts import (
    answers_of,
    as_vectors,
    draw_layers,
    features_of,
    initialise,
    nearest_divisor,
    read_out,
    read_out_layers,
    require_sequence,
    require_sequence_or_tokens,
    token_dimension,
)
from krogh.tasks.base import Task
from krogh.tasks.token_regression import TokenRegression
from krogh.values import AnyArray, data, structure, traced

Tokens = Float[Array, "batch length features"]
Given = Num[AnyArray, "batch length ..."]
Heads = Float[Array, "batch length heads a"]
Weights = Float[Array, "batch heads length length"]


class SelfAttention(Model):
    """What attention layers over tokens share: projections in, projection out, and the read-out."""

    hidden: int = structure(default=100)
    heads: int = structure(default=1)
    causal: bool = structure(default=False)

    def __check_init__(self) -> None:
        require_integer("hidden", self.hidden, 1)
        require_integer("heads", self.heads, 1)

    @abc.abstractmethod
    def mix(self, q: Heads, k: Heads, v: Heads) -> Heads:
        """For every position the values that it attends to, averaged."""

    @abc.abstractmethod
    def weigh(self, q: Heads, k: Heads) -> Weights:
        """How much position i attends to position j, for every head; each row adds up to 1."""

    def biases(self) -> tuple[str, ...]:
        """The projections into the layer that have a bias."""
        return ("Q", "K", "V")

    def seen(self, length: int) -> np.ndarray:
        """Which positions j each position i sees [1, 1, i, j]."""
        return np.tri(length, dtype=bool)[None, None]

    def init(self, key: PRNGKeyArray, task: Task) -> Parameters:
        features = features_of(task)
        key, *keys = jax.random.split(key, 4)
        params = {
            name: initialise("glorot", key, (features, features), features, 3 * features)
            for name, key in zip("QKV", keys, strict=True)
        }
        params |= {f"b_{name}": jnp.zeros(features, jnp.float32) for name in (*self.biases(), "O")}
        layers = {"O": ((features, features), features), **read_out_layers(features, self.hidden, answers_of(task))}
        return params | draw_layers(key, layers)

    def predict(self, params: Parameters, x: Given) -> Float[Array, "batch length ..."]:
        x = as_vectors(x, params["Q"].shape[1], params["Q"].dtype)
        mixed = self.mix(*(self._project(params, x, name) for name in "QKV")).reshape(x.shape)
        return read_out(params, mixed @ params["O"].T + params["b_O"][None, None, :])

    def probabilities(self, params: Parameters, x: Given) -> Weights:
        """The attention of every position to every other: rows are queries and add up to 1."""
        x = as_vectors(x, params["Q"].shape[1], params["Q"].dtype)
        return self.weigh(self._project(params, x, "Q"), self._project(params, x, "K"))

    def query_key(self, params: Parameters) -> Float[Array, "heads features features"]:
        """W_Qᵀ W_K of every head, without the scores' scale: rows are query coordinates, columns key coordinates."""
        q, k = (params[name].reshape(self.heads, -1, params[name].shape[1]) for name in "QK")
        return jnp.einsum("haf,hag->hfg", q, k)

    def _project(self, params: Parameters, x: Tokens, name: str) -> Heads:
        rows = x @ params[name].T
        if name in self.biases():
            rows = rows + params[f"b_{name}"][None, None, :]
        return rows.reshape(*x.shape[:2], self.heads, -1)

    def check(self, task: Task) -> None:
        require_sequence_or_tokens(f"{self.kind} model", task)
        features = features_of(task)
        nearest = nearest_divisor(features, self.heads)
        require(
            self.heads == nearest,
            f"heads must divide the {features} features of the task; got heads={self.heads} (try heads={nearest})",
        )


@model("token-attention")
class TokenAttention(SelfAttention):
    """Softmax attention; the source uses one head and a read-out of 100 neurons.

    Parameters: Q, K, V, O [features, features], b_Q, b_V, b_O [features], W [hidden, features], b, u [hidden], c [].
    """

    def biases(self) -> tuple[str, ...]:
        return ("Q", "V")

    @property
    def library_products(self) -> bool:
        return True

    def mix(self, q: Heads, k: Heads, v: Heads) -> Heads:
        return jnp.einsum("bhij,bjha->biha", self.weigh(q, k), v)

    def weigh(self, q: Heads, k: Heads) -> Weights:
        scores = jnp.einsum("biha,bjha->bhij", q * (1 / math.sqrt(q.shape[-1])), k)
        if self.causal:
            scores = jnp.where(self.seen(scores.shape[-1]), scores, -jnp.inf)
        return jax.nn.softmax(scores, axis=-1)

    @classmethod
    def example(cls) -> tuple[Model, Task]:
        return cls(hidden=16), TokenRegression.example()


@model("linear-attention")
class LinearAttention(SelfAttention):
    """Normalised linear attention over the whole sequence.

    Parameters: Q, K, V, O [features, features], b_Q, b_K, b_V, b_O [features], W [hidden, features], b, u [hidden],
    c []. The key bias matters here.
    """

    def mix(self, q: Heads, k: Heads, v: Heads) -> Heads:
        if self.causal:
            return jnp.einsum("bhij,bjha->biha", self.weigh(q, k), v)
        asked, kept = positive(q), positive(k)
        memory = jnp.einsum("bjha,bjhc->bhac", kept, v)
        total = jnp.einsum("biha,bha->bih", asked, jnp.sum(kept, axis=1))
        return jnp.einsum("biha,bhac->bihc", asked, memory) / total[..., None]

    def weigh(self, q: Heads, k: Heads) -> Weights:
        products = jnp.einsum("biha,bjha->bhij", positive(q), positive(k))
        if self.causal:
            products = jnp.where(self.seen(products.shape[-1]), products, 0)
        return products / jnp.sum(products, axis=-1, keepdims=True)

    @classmethod
    def example(cls) -> tuple[Model, Task]:
        return cls(hidden=16), TokenRegression.example()


def positive(t: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
    """elu(t) + 1, without the rounding that makes elu(t) = -1 for t < -17 in single precision."""
    return jnp.maximum(t, 0) + jnp.exp(jnp.minimum(t, 0))


@model("merged-attention")
class MergedAttention(Model):
    """One layer of attention with merged query-key matrices, and a two-layer network at every position.

    Parameters: QK [heads, De, De], W [hidden, heads·De], b [hidden], a [hidden]. With `frozen_data_blocks` the
    blocks of QK between tokens and positions are fixed at zero, as Proposition 21 assumes, and what remains is
    QK_data [heads, d, d] and QK_position [heads, De - d, De - d]: where x_i = 0, attention cannot depend on x.
    `attention_scale` multiplies the standard deviation of the initial query-key weights.
    """

    heads: int = structure()
    hidden: int = structure()
    frozen_data_blocks: bool = structure(default=False)
    attention_scale: Float[AnyArray, ""] = data(default=1.0)

    def __check_init__(self) -> None:
        require_integer("heads", self.heads, 1)
        require_integer("hidden", self.hidden, 1)
        known = not traced(self.attention_scale) and self.attention_scale.ndim == 0
        require(
            not known or self.attention_scale > 0,
            f"attention_scale must be greater than 0; got attention_scale={self.attention_scale}",
        )

    def init(self, key: PRNGKeyArray, task: Task) -> Parameters:
        features, heads, hidden = task.input_shape[1], self.heads, self.hidden
        keys = jax.random.split(key, 5)
        spread = jnp.asarray(self.attention_scale, jnp.float32) / features
        blocks = {"QK": features}
        if self.frozen_data_blocks:
            dimension = _dimension(task)
            blocks = {"QK_data": dimension, "QK_position": features - dimension}
        params = {
            name: spread * jax.random.normal(own, (heads, size, size), jnp.float32)
            for own, (name, size) in zip(keys, blocks.items(), strict=False)
        }
        params["W"] = initialise("uniform", keys[2], (hidden, heads * features), heads * features)
        params["b"] = initialise("uniform", keys[3], (hidden,), heads * features)
        params["a"] = initialise("uniform", keys[4], (hidden,), hidden)
        return params

    def query_key(self, params: Parameters) -> Float[Array, "heads features features"]:
        """The merged query-key matrices, whole: with the frozen blocks, these are zero in it."""
        if not self.frozen_data_blocks:
            return params["QK"]
        own, places = params["QK_data"], params["QK_position"]
        d, p = own.shape[1], places.shape[1]
        return jnp.pad(own, ((0, 0), (0, p), (0, p))) + jnp.pad(places, ((0, 0), (d, 0), (d, 0)))

    def attention(
        self, params: Parameters, x: Float[Array, "batch length features"]
    ) -> Float[Array, "batch heads length length"]:
        """How much position i (third axis) attends to position j (fourth axis), for every head."""
        queries = jnp.einsum("bid,hde->bhie", x, self.query_key(params))
        return jax.nn.softmax(jnp.einsum("bhie,bje->bhij", queries, x), axis=-1)

    def attended(
        self, params: Parameters, x: Float[Array, "batch length features"]
    ) -> Float[Array, "batch length heads features"]:
        """What each head brings to each position: Σ_j A^h_ij z_j."""
        return jnp.einsum("bhij,bjd->bihd", self.attention(params, x), x)

    def predict(self, params: Parameters, x: Float[Array, "batch length features"]) -> Float[Array, "batch length"]:
        brought = self.attended(params, x)
        flat = brought.reshape(*brought.shape[:2], -1)
        return jax.nn.relu(flat @ params["W"].T + params["b"][None, None, :]) @ params["a"]

    def check(self, task: Task) -> None:
        require_sequence("merged-attention transformer", task)
        if self.frozen_data_blocks:
            _dimension(task)

    @classmethod
    def example(cls) -> tuple[Model, Task]:
        return cls(heads=2, hidden=16), TokenRegression.example()


def _dimension(task: Task) -> int:
    """d, which parts a position's token from its codes."""
    dimension = token_dimension(task)
    if dimension is None:
        raise KroghError(
            "frozen_data_blocks needs a task that says where tokens and codes part, such as 'qstr'; "
            f"got the task {task.kind or type(task).__name__!r}"
        )
    return dimension
