"""Power neurons on signs with two logits: f(x) = Σ_i (u_i·x)^k w_i (dissertation, section 7.2; ν = k + 1).

Odd powers keep the sign. Of {±1}^n, (u·x)^q holds only monomials of degree ≤ q and of q's parity, so that no network
of exponent q < k, or with q - k odd, is right about a k-parity everywhere. Theorem 7.8 is about q = k; a larger q of
the same parity can represent it.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from krogh.errors import require, require_integer
from krogh.models.base import Model, Parameters, model
from krogh.models.homogeneous import EXACT, HomogeneousNetwork
from krogh.models.initialisers import check_initialiser, initialise
from krogh.tasks.base import Task
from krogh.tasks.parity_classes import ParityClasses
from krogh.values import structure


@model("power-network")
class PowerNetwork(HomogeneousNetwork):
    """Neurons (u·x)^exponent with two outputs. Parameters: U [width, n], W [width, 2]."""

    width: int = structure()
    exponent: int = structure()
    initialiser: str = structure(default="uniform")

    def __check_init__(self) -> None:
        require_integer("width", self.width, 1)
        require_integer("exponent", self.exponent, 1)
        check_initialiser(self.initialiser)

    @property
    def homogeneity(self) -> int:
        return self.exponent + 1

    def init(self, key: PRNGKeyArray, task: Task) -> Parameters:
        assert isinstance(task, ParityClasses)
        n, m, classes = task.n, self.width, task.classes
        keys = jax.random.split(key)
        return {
            "U": initialise(self.initialiser, keys[0], (m, n), n, m),
            "W": initialise(self.initialiser, keys[1], (m, classes), m, classes),
        }

    def hidden(self, params: Parameters, x: Float[Array, "batch n"]) -> Float[Array, "width batch"]:
        return jax.lax.integer_pow(jnp.matmul(params["U"], x.T, precision=EXACT), self.exponent)

    def check(self, task: Task) -> None:
        signs = isinstance(task, ParityClasses)
        require(signs, f"a power network reads signs with two classes (task 'parity-classes'); got {task.kind!r}")

    def obstacle(self, task: Task) -> str | None:
        if not isinstance(task, ParityClasses):
            return None
        k, q = task.k, self.exponent
        if q < k:
            return f"exponent must be at least k={k} to represent the parity; got exponent={q} (try exponent={k})"
        if (q - k) % 2:
            return (
                f"exponent must be as even or odd as k={k}: (u·x)^{q} takes the {'same' if q % 2 == 0 else 'opposite'} "
                f"value at -x, the parity the other; got exponent={q} (try exponent={k})"
            )
        return None

    @classmethod
    def example(cls) -> tuple[Model, Task]:
        return cls(width=8, exponent=3), ParityClasses.example()
