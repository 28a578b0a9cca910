"""Feedforward networks on a whole prompt (qSTR, Section 4 and Figure 1).

With x = (x_1, …, x_N) ∈ R^{Nd} the tokens and ω the codes of all positions (the indices T in full):

    the experiments'   ŷ = W_3 ReLU(W_2 ReLU(W x + C ω + b_1) + b_2) + b_3
    raw_tokens         ŷ = W_3 ReLU(W_2 ReLU(A (W x) + C ω + b_1) + b_2) + b_3

The first is a plain network on the flattened prompt whose first matrix is kept in its two blocks of columns, so that
the tokens' block W can be watched. Both are of the form f(T, W x) that Theorem 6 speaks of; with `raw_tokens`, W is a
layer of its own without bias or activation, so that its width is free and f a network of width `second`.
"""

from __future__ import annotations

import jax
from jaxtyping import Array, Float, PRNGKeyArray

from krogh.errors import require, require_integer
from krogh.models.base import Model, Parameters, model
from krogh.models.parts import draw_layers, require_sequence, token_dimension
from krogh.tasks.base import Task
from krogh.tasks.token_regression import TokenRegression
from krogh.values import structure


@model("feedforward")
class Feedforward(Model):
    """A three-layer ReLU network; the width `first` is N·d unless given, as in the source.

    Parameters: W [first, N·d] on the tokens, C [rows, N·(features-d)] on the codes, b1 [rows], with `raw_tokens`
    A [second, first], then W2 [second, rows], b2 [second], W3 [N, second], b3 [N]; rows = first, or second with
    `raw_tokens`. All are drawn from U(±1/√fan_in). A task without codes has no C.
    """

    first: int | None = structure(default=None)
    second: int = structure(default=1000)
    raw_tokens: bool = structure(default=False)

    def __check_init__(self) -> None:
        if self.first is not None:
            require_integer("first", self.first, 1)
        require_integer("second", self.second, 1)

    @property
    def library_products(self) -> bool:
        return True

    def init(self, key: PRNGKeyArray, task: Task) -> Parameters:
        length, features = task.input_shape
        tokens = length * (token_dimension(task) or features)
        codes = length * features - tokens
        first, second = self.first or tokens, self.second
        rows = second if self.raw_tokens else first
        fan_in = first + codes if self.raw_tokens else tokens + codes
        layers = {
            "W": ((first, tokens), tokens if self.raw_tokens else fan_in),
            **({"A": ((second, first), fan_in)} if self.raw_tokens else {}),
            **({"C": ((rows, codes), fan_in)} if codes else {}),
            "b1": ((rows,), fan_in),
            "W2": ((second, rows), rows),
            "b2": ((second,), rows),
            "W3": ((length, second), second),
            "b3": ((length,), second),
        }
        return draw_layers(key, layers)

    def predict(self, params: Parameters, x: Float[Array, "batch length features"]) -> Float[Array, "batch length"]:
        size, length = x.shape[:2]
        dimension = params["W"].shape[1] // length
        tokens, codes = x[:, :, :dimension].reshape(size, -1), x[:, :, dimension:].reshape(size, -1)
        # Neurons first: W @ xᵀ and its gradient both read W as it lies, which a CPU rewards.
        seen = params["W"] @ tokens.T
        seen = params["A"] @ seen if self.raw_tokens else seen
        told = params["C"] @ codes.T if "C" in params else 0.0
        hidden = jax.nn.relu(seen + told + params["b1"][:, None])
        hidden = jax.nn.relu(params["W2"] @ hidden + params["b2"][:, None])
        return (params["W3"] @ hidden + params["b3"][:, None]).T

    def check(self, task: Task) -> None:
        require_sequence("feedforward network", task)
        dimension = token_dimension(task)
        require(
            not self.raw_tokens or (dimension is not None and dimension < task.input_shape[1]),
            f"raw_tokens needs a task that tells tokens from codes, with a dimension below its "
            f"{task.input_shape[1]} features; got dimension={dimension} for {task.kind or type(task).__name__!r} "
            f"(try raw_tokens=False)",
        )

    @classmethod
    def example(cls) -> tuple[Model, Task]:
        return cls(second=20), TokenRegression.example()
