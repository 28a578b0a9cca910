"""Two-layer networks f(x) = u·sigma(Wx + b) [+ c] (dissertation, §B.1.2, §B.4.1)."""

from __future__ import annotations

import jax
from jaxtyping import Array, Float, PRNGKeyArray

from krogh.errors import require, require_integer, unknown
from krogh.models.base import Model, Parameters, model
from krogh.models.initialisers import check_initialiser, initialise
from krogh.tasks.base import Task
from krogh.tasks.boolean import BooleanTask
from krogh.tasks.parity import AbstractParity, Parity
from krogh.values import structure

ACTIVATIONS = ("relu", "power")


def require_signs(model_name: str, task: Task) -> None:
    require(
        isinstance(task, BooleanTask),
        f"a {model_name} reads sign vectors; got the task {task.kind or type(task).__name__!r}",
    )


@model("mlp")
class Mlp(Model):
    """Two-layer network: `activation` is ReLU or the monomial z^degree.

    Parameters: W [width, n], b [width], u [width] and, with `output_bias`, c []. The printed formula has no
    c; two ReLUs without it cannot sign-represent the parity of two bits, so narrow networks need it.
    """

    width: int = structure()
    activation: str = structure(default="relu")
    degree: int = structure(default=1)
    output_bias: bool = structure(default=False)
    initialiser: str = structure(default="uniform")

    def __check_init__(self) -> None:
        require_integer("width", self.width, 1)
        require_integer("degree", self.degree, 1)
        if self.activation not in ACTIVATIONS:
            raise unknown("activation", self.activation, ACTIVATIONS)
        check_initialiser(self.initialiser)

    def init(self, key: PRNGKeyArray, task: Task) -> Parameters:
        n, r = task.input_shape[0], self.width
        keys = jax.random.split(key, 4)
        params = {
            "W": initialise(self.initialiser, keys[0], (r, n), n, r),
            "b": initialise(self.initialiser, keys[1], (r,), n, r),
            "u": initialise(self.initialiser, keys[2], (r,), r, 1),
        }
        if self.output_bias:
            params["c"] = initialise(self.initialiser, keys[3], (), r, 1)
        return params

    def predict(self, params: Parameters, x: Float[Array, "batch n"]) -> Float[Array, " batch"]:
        # Neurons first: W @ xᵀ and its gradient both read W as it lies, which a CPU rewards.
        hidden = params["W"] @ x.T + params["b"][:, None]
        if self.activation == "relu":
            active = jax.nn.relu(hidden)
        else:
            active = jax.lax.integer_pow(hidden, self.degree)
        output = params["u"] @ active
        return output + params["c"] if self.output_bias else output

    def check(self, task: Task) -> None:
        require_signs("two-layer network", task)

    def obstacle(self, task: Task) -> str | None:
        """Width k is the least that represents a k-parity (§B.4.1), for ReLU with an output bias."""
        if not isinstance(task, AbstractParity):
            return None
        k, r = task.k, self.width
        kind = "ReLU" if self.activation == "relu" else "power-activation"
        if r < k:
            return (
                f"width must be at least k={k} for a {kind} network to represent the parity; "
                f"got width={r} (try width={k})"
            )
        if self.activation == "power" and self.degree < k:
            return f"degree must be at least k={k} to represent the parity; got degree={self.degree}"
        if self.activation == "relu" and r == k == 2 and not self.output_bias:
            return "two ReLUs need output_bias to represent the parity of two bits; got output_bias=False"
        return None

    @classmethod
    def example(cls) -> tuple[Model, Task]:
        return cls(width=16, output_bias=True), Parity(n=8, k=2)


def power_mlp(width: int, degree: int, initialiser: str = "uniform") -> Mlp:
    """The two-layer network with activation z^degree."""
    return Mlp(width, activation="power", degree=degree, initialiser=initialiser)
