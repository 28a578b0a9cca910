"""Networks on pairs: f(a, b) = Σ_i σ(u_i[a] + v_i[b]) w_i (dissertation, section 7.2, Figures 7.1 and 7.2).

    quadratic    σ(z) = z²         ν = 3      the network of the theorems (A1)
    power        σ(z) = z^k        ν = k + 1
    relu         σ(z) = z_+        ν = 2      (A3)

u_i[a] is the product of u_i with the one-hot vector of a. The initialisation is not stated in the source; uniform
±1/√fan_in, with the 2n coordinates of both one-hot vectors as an input weight's fan-in, works in all its settings.
Training can also begin at weights that are given (a construction, say), each moved by normal noise.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, PRNGKeyArray

from krogh.errors import require, require_integer, unknown
from krogh.models.base import Model, Parameters, model
from krogh.models.homogeneous import EXACT, HomogeneousNetwork
from krogh.models.initialisers import check_initialiser, initialise
from krogh.tasks.base import Task
from krogh.tasks.composition import GroupComposition, every_pair
from krogh.values import AnyArray, data, structure

PAIR_ACTIVATIONS = ("quadratic", "power", "relu")
LAYERS = ("U", "V", "W")


@model("pair-network")
class PairNetwork(HomogeneousNetwork):
    """Neurons of two elements of a group. Parameters: U, V, W [width, n].

    With `start`, weights {"U": …, "V": …, "W": …}, training begins there, plus `start_noise` times normal numbers.
    """

    width: int = structure()
    activation: str = structure(default="quadratic")
    exponent: int = structure(default=2)
    initialiser: str = structure(default="uniform")
    start: dict[str, Float[AnyArray, "width n"]] | None = data(optional=True, default=None)
    start_noise: Float[AnyArray, ""] = data(default=0.0)

    def __check_init__(self) -> None:
        require_integer("width", self.width, 1)
        require_integer("exponent", self.exponent, 2)
        if self.activation not in PAIR_ACTIVATIONS:
            raise unknown("activation", self.activation, PAIR_ACTIVATIONS)
        fits = self.activation == "power" or self.exponent == 2
        require(
            fits,
            f"exponent belongs to the activation 'power'; got exponent={self.exponent} for {self.activation!r} "
            f"(try activation='power')",
        )
        check_initialiser(self.initialiser)
        given = sorted(self.start) if self.start is not None else list(LAYERS)
        require(given == list(LAYERS), f"start must have the weights U, V and W; got {given}")

    @property
    def homogeneity(self) -> int:
        return 2 if self.activation == "relu" else self.exponent + 1

    def init(self, key: PRNGKeyArray, task: Task) -> Parameters:
        assert isinstance(task, GroupComposition)
        n, m = task.order, self.width
        fans = {"U": (2 * n, m), "V": (2 * n, m), "W": (m, n)}
        keys = dict(zip(LAYERS, jax.random.split(key, 3), strict=True))
        if self.start is None:
            return {name: initialise(self.initialiser, keys[name], (m, n), *fans[name]) for name in LAYERS}
        moved = {name: self.start_noise * jax.random.normal(keys[name], (m, n), jnp.float32) for name in LAYERS}
        return {name: jnp.asarray(self.start[name]) + moved[name] for name in LAYERS}

    def hidden(self, params: Parameters, x: Int[AnyArray, "batch 2"]) -> Float[Array, "width batch"]:
        summed = self._summed(params["U"], params["V"], x)
        return jax.nn.relu(summed) if self.activation == "relu" else jax.lax.integer_pow(summed, self.exponent)

    def _summed(
        self, U: Float[Array, "width n"], V: Float[Array, "width n"], x: Int[AnyArray, "batch 2"]
    ) -> Float[Array, "width batch"]:
        """u_i[a] + v_i[b]; for the whole population nothing is looked up, and gradients are plain sums."""
        n = U.shape[1]
        if isinstance(x, np.ndarray) and x.shape == (n * n, 2) and np.array_equal(x, every_pair(n)):
            return (U[:, :, None] + V[:, None, :]).reshape(-1, n * n)
        # Products with one-hot vectors, not look-ups: the gradient of a look-up is a scatter, whose order of additions
        # a GPU does not fix.
        first, second = (jax.nn.one_hot(jnp.asarray(x[:, place]), n, dtype=U.dtype) for place in (0, 1))
        both = jnp.concatenate([first, second], axis=1)
        return jnp.matmul(jnp.concatenate([U, V], axis=1), both.T, precision=EXACT)

    def check(self, task: Task) -> None:
        pairs = isinstance(task, GroupComposition)
        require(pairs, f"a pair network reads pairs of group elements (task 'composition'); got the task {task.kind!r}")
        assert isinstance(task, GroupComposition)
        for name, weights in (self.start or {}).items():
            shape, wanted = list(np.shape(weights)), [self.width, task.order]
            require(shape == wanted, f"start must have weights of shape {wanted}; got {name} of shape {shape}")

    @classmethod
    def example(cls) -> tuple[Model, Task]:
        return cls(width=12), GroupComposition.example()
