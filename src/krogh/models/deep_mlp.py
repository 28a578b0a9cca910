"""ReLU networks of any depth with one output, dense or sparse at the start (dissertation, §6.3.2 and C.3.3).

    h_0 = x,  h_l = ReLU(W_l h_{l-1} + b_l),  f(x) = u·h_L + c

All parameters are drawn from U(±1/√fan_in), biases too. With sparsity s every row of the first layer begins with s ones
at random places and zeros elsewhere, with neither signs nor a scale; all other layers as before, and nothing keeps it
sparse. One hidden layer on signs is `Mlp`, which a kernel may train; this one reads any vectors.
"""

from __future__ import annotations

from typing import Any

import jax
from jaxtyping import Array, Float, PRNGKeyArray

from krogh.errors import KroghError, require, require_integer
from krogh.models.base import Model, Parameters, model
from krogh.models.parts import draw_sparse_rows, initialise, require_vectors
from krogh.tasks.base import Task
from krogh.tasks.table import Table
from krogh.values import structure


def _widths(given: Any) -> tuple[int, ...]:
    return tuple(given) if isinstance(given, list | tuple) else (given,)


@model("deep-mlp")
class DeepMlp(Model):
    """Hidden layers of the given `widths`. Parameters: W1 [width, n], b1, W2, b2, ..., u [width], c []."""

    widths: tuple[int, ...] = structure(converter=_widths)
    sparsity: int = structure(default=0)

    def __check_init__(self) -> None:
        require(self.widths, f"widths must name at least one hidden layer; got widths={self.widths}")
        for width in self.widths:
            require_integer("width", width, 1)
        require_integer("sparsity", self.sparsity, 0)

    def init(self, key: PRNGKeyArray, task: Task) -> Parameters:
        params: Parameters = {}
        fan_in = task.input_shape[0]
        for layer, width in enumerate(self.widths, 1):
            keys = jax.random.split(jax.random.fold_in(key, layer))
            sparse = layer == 1 and self.sparsity
            params[f"W{layer}"] = (
                draw_sparse_rows(keys[0], width, fan_in, self.sparsity)
                if sparse
                else initialise("uniform", keys[0], (width, fan_in), fan_in)
            )
            params[f"b{layer}"] = initialise("uniform", keys[1], (width,), fan_in)
            fan_in = width
        keys = jax.random.split(jax.random.fold_in(key, 0))
        params["u"] = initialise("uniform", keys[0], (fan_in,), fan_in)
        params["c"] = initialise("uniform", keys[1], (), fan_in)
        return params

    def predict(self, params: Parameters, x: Float[Array, "batch n"]) -> Float[Array, " batch"]:
        hidden = x.T  # neurons first: W @ h and its gradient both read W as it lies, which a CPU rewards
        for layer in range(1, len(self.widths) + 1):
            hidden = jax.nn.relu(params[f"W{layer}"] @ hidden + params[f"b{layer}"][:, None])
        return params["u"] @ hidden + params["c"]

    def check(self, task: Task) -> None:
        require_vectors("deep network", task)
        n = task.input_shape[0]
        require(self.sparsity <= n, f"sparsity must be between 0 (dense) and n={n}; got sparsity={self.sparsity}")

    @classmethod
    def example(cls) -> tuple[Model, Task]:
        return cls((16, 12)), Table.example()


def hidden_sizes(text: str) -> tuple[int, ...]:
    """Hidden layers from text: 300 is one of 300 neurons, 300x2 two, 100000-10000 a wide one and a narrower one."""
    try:
        if "x" in text:
            width, depth = map(int, text.split("x"))
            sizes = (width,) * depth
        else:
            sizes = tuple(int(part) for part in text.split("-"))
    except ValueError:
        sizes = ()
    if not sizes or min(sizes) < 1:
        raise KroghError(f"a network is written 300, 300x2 or 1000-100 (neurons of its hidden layers); got {text!r}")
    return sizes
