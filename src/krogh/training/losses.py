"""Losses of a prediction f against a label y = ±1 (dissertation, §B.4.1).

    hinge (1-yf)_+    square (y-f)²    logistic log(1+e^{-yf})    correlation -yf

The logistic loss is printed without y; the correlation loss is the theory's, unbounded below.
"""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from krogh.errors import unknown

Loss = Callable[[Float[Array, " batch"], Float[Array, " batch"]], Float[Array, " batch"]]


def hinge(prediction: Float[Array, " batch"], label: Float[Array, " batch"]) -> Float[Array, " batch"]:
    return jax.nn.relu(1.0 - label * prediction)


def square(prediction: Float[Array, " batch"], label: Float[Array, " batch"]) -> Float[Array, " batch"]:
    return (label - prediction) ** 2


def logistic(prediction: Float[Array, " batch"], label: Float[Array, " batch"]) -> Float[Array, " batch"]:
    return jnp.logaddexp(0.0, -label * prediction)


def correlation(prediction: Float[Array, " batch"], label: Float[Array, " batch"]) -> Float[Array, " batch"]:
    return -label * prediction


LOSSES: dict[str, Loss] = {
    "hinge": hinge,
    "square": square,
    "logistic": logistic,
    "correlation": correlation,
}


def find_loss(name: str) -> Loss:
    if name not in LOSSES:
        raise unknown("loss", name, LOSSES)
    return LOSSES[name]
