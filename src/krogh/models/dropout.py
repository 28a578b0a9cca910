"""Dropout whose masks are a hash of the step's noise and the place, so that no mask is ever drawn or stored."""

from __future__ import annotations

import jax.numpy as jnp
from jaxtyping import Array, Float, UInt32

from krogh.errors import require
from krogh.tasks.mixing import GOLDEN, mixed, stream


def check_rate(name: str, rate: float) -> None:
    """Require a share of units to drop in [0, 1)."""
    number = isinstance(rate, int | float) and not isinstance(rate, bool)
    require(number and 0.0 <= rate < 1.0, f"{name} is a share in [0, 1); got {name}={rate!r}")


def kept(
    noise: UInt32[Array, ""], place: int, shape: tuple[int, ...], rate: float, order: tuple[int, ...] | None = None
) -> Float[Array, "*shape"]:
    """A mask of `shape`: 0 with probability `rate`, else 1/(1 - rate). `place` tells the masks of a step apart.

    Places are counted along the axes in `order`. The axis of examples must come first there: a batch has as many rows
    as the largest sample of the cohort, and the mask of an example may not depend on how many follow it.
    """
    words = stream(mixed(noise + jnp.uint32(place * GOLDEN % 2**32)), shape, order)
    threshold = jnp.uint32(round(rate * 2**32))
    return jnp.where(words < threshold, jnp.float32(0.0), jnp.float32(1 / (1 - rate)))
