"""How an affine layer's parameters are drawn (dissertation, §B.4.1).

    uniform      U[-c, c], c = 1/√fan_in            the default of PyTorch's Linear
    glorot       U[-c, c], c = √(6/(fan_in+fan_out))
    gaussian     N(0, 2/fan_in)                     Kaiming
    bernoulli    ±1/√fan_in
    normal       N(0, 1)       \
    signs        ±1             }                   the disjoint-PolyNet theory (§5.4.2)
    ones         1             /

The source says "Xavier convention, the package default" for the uniform one, which names two things:
`uniform` is the package's default, `glorot` is Xavier's. Weights and biases are drawn alike.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import jax
import jax.numpy as jnp
from jaxtyping import Array, PRNGKeyArray

from krogh.errors import unknown

INITIALISERS = ("uniform", "glorot", "gaussian", "bernoulli", "normal", "signs", "ones")


def check_initialiser(name: str) -> None:
    if name not in INITIALISERS:
        raise unknown("initialiser", name, INITIALISERS)


def initialise(name: str, key: PRNGKeyArray, shape: tuple[int, ...], fan_in: int, fan_out: int = 1) -> Array:
    """An array of `shape` drawn by the initialiser `name`."""
    if name in ("uniform", "glorot"):
        bound = 1 / math.sqrt(fan_in) if name == "uniform" else math.sqrt(6 / (fan_in + fan_out))
        return jax.random.uniform(key, shape, jnp.float32, -bound, bound)
    if name == "gaussian":
        return math.sqrt(2 / fan_in) * jax.random.normal(key, shape, jnp.float32)
    if name == "normal":
        return jax.random.normal(key, shape, jnp.float32)
    if name in ("bernoulli", "signs"):
        scale = 1 / math.sqrt(fan_in) if name == "bernoulli" else 1.0
        return scale * jax.random.rademacher(key, shape, jnp.float32)
    if name == "ones":
        return jnp.ones(shape, jnp.float32)
    raise unknown("initialiser", name, INITIALISERS)


def initialise_all(
    name: str, key: PRNGKeyArray, layers: Mapping[str, tuple[tuple[int, ...], int]], others: Mapping[str, str]
) -> dict[str, Array]:
    """Arrays of `layers` = {name: (shape, fan_in)} drawn by the initialiser `name`, or by one of `others` by array."""
    keys = jax.random.split(key, len(layers))
    return {
        array: initialise(others.get(array, name), one, shape, fan_in, shape[-1])
        for one, (array, (shape, fan_in)) in zip(keys, layers.items(), strict=True)
    }
