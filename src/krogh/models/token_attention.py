"""One layer of self-attention read out at every position (qSTR, Figures 1 and 2).

    q_i = Q z_i + b_Q,  k_i = K z_i,  v_i = V z_i + b_V          cut into heads of dimension a = features/heads
    p_ij = softmax_j(q_i·k_j/√a)                                   no mask: every position sees all
    ŷ_i = u·ReLU(W (O Σ_j p_ij v_j + b_O) + b) + c                  no residual connection, no layer norm

This is PyTorch's MultiheadAttention with a two-layer network at every position, the "Transformer" of the source's
experiments. Q, K, V are drawn as one packed [3·features, features] Xavier-uniform matrix, U(±√(6/(4·features))); the
biases of the attention start at 0; all else is U(±1/√fan_in). PyTorch's key bias is left out: it adds the same number
q_i·b_K to the scores of all j, which the softmax forgets, so that it has no effect and no gradient.
"""

from __future__ import annotations

import abc
import math

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from krogh.errors import require, require_integer
from krogh.models.base import Model, Parameters, model
from krogh.models.initialisers import initialise
from krogh.models.sequences import draw_layers, read_out, read_out_layers, require_sequence
from krogh.tasks.base import Task
from krogh.tasks.token_regression import TokenRegression
from krogh.values import structure

Tokens = Float[Array, "batch length features"]
Heads = Float[Array, "batch length heads a"]
Weights = Float[Array, "batch heads length length"]


class SelfAttention(Model):
    """What attention layers over tokens share: projections in, projection out, and the read-out."""

    hidden: int = structure(default=100)
    heads: int = structure(default=1)

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

    def init(self, key: PRNGKeyArray, task: Task) -> Parameters:
        features = task.input_shape[1]
        key, *keys = jax.random.split(key, 4)
        params = {
            name: initialise("glorot", key, (features, features), features, 3 * features)
            for name, key in zip("QKV", keys, strict=True)
        }
        params |= {f"b_{name}": jnp.zeros(features, jnp.float32) for name in (*self.biases(), "O")}
        layers = {"O": ((features, features), features), **read_out_layers(features, self.hidden)}
        return params | draw_layers(key, layers)

    def predict(self, params: Parameters, x: Tokens) -> Float[Array, "batch length"]:
        mixed = self.mix(*(self._project(params, x, name) for name in "QKV")).reshape(x.shape)
        return read_out(params, mixed @ params["O"].T + params["b_O"][None, None, :])

    def probabilities(self, params: Parameters, x: Tokens) -> Weights:
        """The attention of every position to every other: rows are queries and add up to 1."""
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
        require_sequence(f"{self.kind} model", task)
        features = task.input_shape[1]
        fitting = [heads for heads in range(1, features + 1) if features % heads == 0]
        nearest = min(fitting, key=lambda heads: abs(heads - self.heads))
        require(
            self.heads in fitting,
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
        return jax.nn.softmax(scores, axis=-1)

    @classmethod
    def example(cls) -> tuple[Model, Task]:
        return cls(hidden=16), TokenRegression.example()
