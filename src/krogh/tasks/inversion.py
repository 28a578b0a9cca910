"""Say the whole sequence again at its end: inversion (*Learning and generalization in RNNs*, section I, Figure 4).

x_1 .. x_L ~ N(0, I_d) independent, without end tokens and without normalisation; the label is [x_1; ...; x_L]. A linear
function of a random recurrent network's last state learns it the better the wider the network is.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from krogh.errors import require_integer
from krogh.tasks.base import Examples, Task, task
from krogh.tasks.system import System
from krogh.values import AnyArray, structure


@task("inversion")
class Inversion(Task):
    """Sequences of `length` Gaussian vectors of `dimension` numbers; the label of each is itself, as one vector."""

    length: int = structure()
    dimension: int = structure()

    system = System(
        knobs={
            "length": "vectors to remember: the error of a linear decoder rises with it",
            "dimension": "numbers of a vector: the error rises with it",
        },
        baselines=("null_risk", "labels", "samples"),
        theory=("recurrence/inversion", "recurrence/single-step", "recurrence/decoder-norm"),
        phenomena={"a random recurrent network forgets nothing": ("recurrence/inversion",)},
    )

    def __check_init__(self) -> None:
        for name in ("length", "dimension"):
            require_integer(name, getattr(self, name), 1)

    @property
    def input_shape(self) -> tuple[int, ...]:
        return (self.length, self.dimension)

    @property
    def regression(self) -> bool:
        return True

    def draw(self, key: PRNGKeyArray, size: int) -> Float[Array, "size length dimension"]:
        return jax.random.normal(key, (size, *self.input_shape), jnp.float32)

    def decode(self, raw: Float[AnyArray, "size length dimension"]) -> Examples:
        x = jnp.asarray(raw)
        y = x.reshape(x.shape[0], -1)
        return Examples(x, y, y)

    def error(self, prediction: Float[Array, "batch all"], truth: Float[Array, "batch all"]) -> Float[Array, " batch"]:
        """The mean over coordinates of the squared error."""
        return jnp.mean((prediction - truth) ** 2, axis=-1)

    def limits(self) -> dict[str, float]:
        """A linear decoder of Ld numbers from as many has (Ld)² unknowns, of which a sequence tells Ld."""
        size = float(self.length * self.dimension)
        return {"labels": size**2, "samples": size}

    def baselines(self) -> dict[str, float]:
        return {"null_risk": 1.0}

    @classmethod
    def example(cls) -> Inversion:
        return cls(length=3, dimension=2)
