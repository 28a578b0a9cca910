"""The transformer of the qSTR theory: one layer of merged query-key attention (qSTR paper, section 3).

    A^h_ij = softmax_j ⟨z_i, QK_h z_j⟩
    f_i    = (Σ_j A^1_ij z_j, ..., Σ_j A^H_ij z_j)                                                 in R^(H·De)
    ŷ_i    = a·relu(W f_i + b)

Query and key matrices are one matrix of full rank per head (rows are query coordinates, columns key coordinates),
the values are absorbed in W. There is no scale 1/√De, no residual path, no normalisation and no mask.

The source learns by risk minimisation and draws no initial weights. Chosen here: QK ~ N(0, 1/De²), so that the
initial scores have the standard deviation ‖z_i‖‖z_j‖/De, which is about 1 or less, and attention starts nearly even;
W, b and a as PyTorch's Linear draws them.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from krogh.errors import KroghError, require, require_integer
from krogh.models.base import Model, Parameters, model
from krogh.models.initialisers import initialise
from krogh.models.sequences import require_sequence, token_dimension
from krogh.tasks.base import Task
from krogh.tasks.token_regression import TokenRegression
from krogh.values import AnyArray, data, structure, traced


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
