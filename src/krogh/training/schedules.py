"""How a rate changes with the step: a factor on the base rate, its numbers data like any other."""

from __future__ import annotations

import abc
from collections.abc import Iterable

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from krogh.errors import require
from krogh.values import AnyArray, Value, data, plain


class Schedule(Value):
    """A factor on the base rate as a function of the step."""

    @abc.abstractmethod
    def factor(self, step: Int[Array, ""]) -> Float[Array, ""]:
        """The factor at step t = 0, 1, ..."""


class Constant(Schedule):
    """1 at every step: what the source uses everywhere."""

    def factor(self, step: Int[Array, ""]) -> Float[Array, ""]:
        return jnp.ones((), jnp.float32)


class Piecewise(Schedule):
    """`factors[i]` between `boundaries[i-1]` and `boundaries[i]`; one more factor than boundaries."""

    boundaries: Int[AnyArray, " pieces"] = data(np.int32)
    factors: Float[AnyArray, " pieces+1"] = data()

    def __check_init__(self) -> None:
        pieces, factors = np.shape(self.boundaries), np.shape(self.factors)
        fits = len(pieces) == 1 and factors == (pieces[0] + 1,)
        require(fits, f"factors must be one more than boundaries; got shapes {factors} and {pieces}")
        rising = bool(np.all(np.diff(np.asarray(self.boundaries)) > 0))
        require(rising, f"boundaries must increase; got {np.asarray(self.boundaries).tolist()}")

    def factor(self, step: Int[Array, ""]) -> Float[Array, ""]:
        return jnp.asarray(self.factors)[jnp.sum(step >= self.boundaries)]


def doublings(steps: Iterable[int]) -> Piecewise:
    """The rate doubled when each of these steps is reached: a factor 2^(number of them passed) (dissertation, D.2).

    It makes up for gradients that vanish like e^{-margin}.
    """
    boundaries = np.asarray([*steps], np.int64)
    return Piecewise(boundaries, 2.0 ** np.arange(len(boundaries) + 1))


class Cosine(Schedule):
    """Linear rise over `warmup` steps, then half a cosine down to 0 at `horizon`."""

    horizon: Float[AnyArray, ""] = data()
    warmup: Float[AnyArray, ""] = data(default=0.0)

    def __check_init__(self) -> None:
        ordered = 0 <= float(self.warmup) < float(self.horizon)
        warmup, horizon = plain(self.warmup), plain(self.horizon)
        require(ordered, f"need 0 ≤ warmup < horizon; got warmup={warmup}, horizon={horizon}")

    def factor(self, step: Int[Array, ""]) -> Float[Array, ""]:
        t = step.astype(jnp.float32)
        rise = jnp.minimum((t + 1.0) / jnp.maximum(self.warmup, 1.0), 1.0)
        progress = jnp.clip((t - self.warmup) / (self.horizon - self.warmup), 0.0, 1.0)
        return jnp.where(t < self.warmup, rise, 0.5 * (1.0 + jnp.cos(jnp.pi * progress)))
