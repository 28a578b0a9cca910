"""Deep networks of squares, which a greedy trainer cannot teach a parity that they hold (dissertation, §B.3.7).

    z_0 = x,  z_i = (W_i z_{i-1} + b_i)²,  f(x) = u·z_{L-1} [+ c]        L layers, the last one linear

f is a polynomial of degree 2^{L-1}, so that it holds parities of at most so many bits. Where the last hidden layer has
one unit, u·z² has one sign, and no parity is represented without c.
"""

from __future__ import annotations

import jax
from jaxtyping import Array, Float, PRNGKeyArray

from krogh.errors import require, require_integer
from krogh.models.base import Model, Parameters, model
from krogh.models.parts import check_initialiser, draw_layers, require_signs
from krogh.tasks.base import Task
from krogh.tasks.parity import AbstractParity, Parity
from krogh.values import structure


@model("deep-quadratic")
class DeepQuadratic(Model):
    """Squares of affine maps, layer on layer; `widths` are r_1, ..., r_{L-1}.

    Parameters: W [r_1, n], b [r_1], then W2 [r_2, r_1], b2 [r_2] and so on, u [r_{L-1}] and, with `output_bias`, c [].
    """

    widths: tuple[int, ...] = structure(converter=tuple)
    output_bias: bool = structure(default=True)
    initialiser: str = structure(default="uniform")

    def __check_init__(self) -> None:
        require(len(self.widths) > 0, f"widths must name at least one hidden layer; got {self.widths}")
        for width in self.widths:
            require_integer("a width", width, 1)
        check_initialiser(self.initialiser)

    @property
    def layers(self) -> int:
        """L, the linear output layer among them."""
        return len(self.widths) + 1

    @staticmethod
    def names(layer: int) -> tuple[str, str]:
        """The parameters of hidden layer 1, 2, ..."""
        return ("W", "b") if layer == 1 else (f"W{layer}", f"b{layer}")

    def init(self, key: PRNGKeyArray, task: Task) -> Parameters:
        layers: dict[str, tuple[tuple[int, ...], int]] = {}
        fan_in = task.input_shape[0]
        for place, width in enumerate(self.widths, 1):
            weights, bias = self.names(place)
            layers |= {weights: ((width, fan_in), fan_in), bias: ((width,), fan_in)}
            fan_in = width
        layers["u"] = ((fan_in,), fan_in)
        if self.output_bias:
            layers["c"] = ((), fan_in)
        return draw_layers(key, layers, self.initialiser)

    def predict(self, params: Parameters, x: Float[Array, "batch n"]) -> Float[Array, " batch"]:
        hidden = x.T
        for place in range(1, self.layers):
            weights, bias = self.names(place)
            hidden = jax.lax.integer_pow(params[weights] @ hidden + params[bias][:, None], 2)
        output = params["u"] @ hidden
        return output + params["c"] if self.output_bias else output

    def check(self, task: Task) -> None:
        require_signs("deep quadratic network", task)

    def obstacle(self, task: Task) -> str | None:
        if not isinstance(task, AbstractParity):
            return None
        largest = 2 ** len(self.widths)
        if task.k > largest:
            return (
                f"{self.layers} layers of squares have degree {largest}: k must be at most {largest} to represent the "
                f"parity; got k={task.k}"
            )
        if self.widths[-1] == 1 and not self.output_bias:
            return "one square has one sign: a last width of 1 needs output_bias; got output_bias=False"
        return None

    @classmethod
    def example(cls) -> tuple[Model, Task]:
        return cls(widths=(4, 2)), Parity(n=8, k=3)
