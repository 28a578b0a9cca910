"""Boolean functions of n uniform signs: what all of them share, so that a new one is its truth alone.

class SparseMajority(BooleanTask):
    n: int = structure()
    def truth(self, x, bits): ...
"""

import abc
import operator
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from equinox import AbstractVar
from jaxtyping import Array, Bool, Float, PRNGKeyArray, UInt32

from krogh.errors import KroghError, require
from krogh.tasks import bits as signs
from krogh.tasks.base import Examples, Task
from krogh.values import AnyArray

MAX_ENUMERATION = 20
NOISE = 1


class Packed(NamedTuple):
    """Raw examples: packed inputs, and a random word per example that decides whether its label flips."""

    bits: UInt32[AnyArray, "size words"]
    noise: UInt32[AnyArray, " size"] | None


def listed_cube(n: int) -> UInt32[np.ndarray, "size words"]:
    """Every input of n signs, packed; refused where they are too many."""
    require(n <= MAX_ENUMERATION, f"the cube can be listed for n ≤ {MAX_ENUMERATION}; got n={n} (use a sample instead)")
    return signs.cube(n)


def whole_numbers(name: str, given: Any) -> list[int]:
    """A list of integers; refused otherwise."""
    try:
        return [operator.index(index) for index in np.asarray(given, object).ravel()]
    except TypeError:
        raise KroghError(f"{name} must be a list of integers; got {given!r}") from None


def support_indices(support: Any, n: int, **size: int) -> list[int]:
    """The indices of a support, as given; `size` names and says how many different ones of 0..n-1 there must be."""
    indices = whole_numbers("support", support)
    ((letter, count),) = size.items()
    require(len(indices) == count, f"support must have {letter}={count} indices; got {indices}")
    require(len(set(indices)) == count, f"support must not repeat an index; got {indices}")
    require(all(0 <= index < n for index in indices), f"support must lie in 0..{n - 1}; got {indices}")
    return indices


class BooleanTask(Task):
    """A function f: {±1}^n → {±1} of uniform inputs."""

    n: AbstractVar[int]

    @abc.abstractmethod
    def truth(self, x: Float[Array, "size n"], bits: UInt32[AnyArray, "size words"]) -> Float[Array, " size"]:
        """f of each row; `bits` are the same rows packed (bit 1 is -1), for functions that are quicker on words."""

    @property
    def label_noise(self) -> Any:
        """Probability that an observed label is flipped; None for a task without label noise."""
        return None

    @property
    def input_shape(self) -> tuple[int, ...]:
        return (self.n,)

    def draw(self, key: PRNGKeyArray, size: int) -> Packed:
        bits = jax.random.bits(key, (size, signs.words(self.n)), jnp.uint32)
        if self.label_noise is None:
            return Packed(bits, None)
        return Packed(bits, jax.random.bits(jax.random.fold_in(key, NOISE), (size,), jnp.uint32))

    def decode(self, raw: Packed) -> Examples:
        x = signs.unpack(raw.bits, self.n)
        truth = observed = self.truth(x, raw.bits)
        if raw.noise is not None:
            threshold = (jnp.asarray(self.label_noise, jnp.float32) * 2.0**32).astype(jnp.uint32)
            observed = jnp.where(raw.noise < threshold, -truth, truth)
        return Examples(x, observed, truth)

    def correct(self, prediction: Float[Array, " size"], truth: Float[Array, " size"]) -> Bool[Array, " size"]:
        """The sign of the prediction; a prediction of 0 is an error, as in the source's theory."""
        return prediction * truth > 0

    def error(self, prediction: Float[Array, " size"], truth: Float[Array, " size"]) -> Float[Array, " size"]:
        return 1.0 - self.correct(prediction, truth).astype(jnp.float32)

    @property
    def population_size(self) -> int | None:
        return 2**self.n if self.n <= MAX_ENUMERATION else None

    def population(self) -> Packed:
        return Packed(listed_cube(self.n), None)

    def baselines(self) -> dict[str, float]:
        return {"guessing_accuracy": 0.5}
