"""Products of linear forms: PolyNet (§B.4.1) and the disjoint-PolyNet of the theory (§5.4.2)."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from krogh.errors import require, require_integer
from krogh.models.base import Model, Parameters, model
from krogh.models.parts import check_initialiser, initialise, require_signs
from krogh.tasks.base import Task
from krogh.tasks.parity import AbstractParity, DisjointParity, Parity
from krogh.values import structure


@model("polynet")
class PolyNet(Model):
    """f(x) = ∏_{i≤degree} (w_i·x + b_i). Parameters: w [degree, n], b [degree]."""

    degree: int = structure()
    initialiser: str = structure(default="uniform")

    def __check_init__(self) -> None:
        require_integer("degree", self.degree, 1)
        check_initialiser(self.initialiser)

    def init(self, key: PRNGKeyArray, task: Task) -> Parameters:
        n = task.input_shape[0]
        keys = jax.random.split(key)
        return {
            "w": initialise(self.initialiser, keys[0], (self.degree, n), n, 1),
            "b": initialise(self.initialiser, keys[1], (self.degree,), n, 1),
        }

    def predict(self, params: Parameters, x: Float[Array, "batch n"]) -> Float[Array, " batch"]:
        return product(x @ params["w"].T + params["b"][None, :])

    def check(self, task: Task) -> None:
        require_signs("PolyNet", task)

    def obstacle(self, task: Task) -> str | None:
        if isinstance(task, AbstractParity) and self.degree < task.k:
            return f"degree must be at least k={task.k} to represent the parity; got degree={self.degree}"
        return None

    @classmethod
    def example(cls) -> tuple[Model, Task]:
        return cls(degree=3), Parity(n=8, k=3)


@model("disjoint-polynet")
class DisjointPolyNet(Model):
    """f(x) = ∏_{i≤k} w_i·x_{P_i} over k blocks P_i of n/k coordinates (§5.4.2). Parameters: w [k, n/k]."""

    degree: int = structure()
    initialiser: str = structure(default="signs")

    def __check_init__(self) -> None:
        require_integer("degree", self.degree, 1)
        check_initialiser(self.initialiser)

    def init(self, key: PRNGKeyArray, task: Task) -> Parameters:
        block = task.input_shape[0] // self.degree
        return {"w": initialise(self.initialiser, key, (self.degree, block), block, 1)}

    def predict(self, params: Parameters, x: Float[Array, "batch n"]) -> Float[Array, " batch"]:
        blocks = x.reshape(x.shape[0], self.degree, -1)
        return product(jnp.sum(blocks * params["w"][None], axis=-1))

    def check(self, task: Task) -> None:
        require_signs("disjoint-PolyNet", task)
        n = task.input_shape[0]
        require(n % self.degree == 0, f"degree must divide n={n}; got degree={self.degree}")

    @classmethod
    def example(cls) -> tuple[Model, Task]:
        return cls(degree=3), DisjointParity(n=9, k=3)


def product(factors: Float[Array, "batch k"]) -> Float[Array, " batch"]:
    """∏ over the last axis, unrolled: exact gradients at zero, and cheaper than a general product's."""
    result = factors[..., 0]
    for i in range(1, factors.shape[-1]):
        result = result * factors[..., i]
    return result
