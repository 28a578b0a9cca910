"""A hash of 32-bit words, for random decisions that are counted off rather than drawn.

A keyed permutation of a sample and the masks of dropout need many random words that depend on a position alone;
a finaliser costs a fraction of a counter-based generator and is good enough for both.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jaxtyping import Array, UInt32

GOLDEN = 0x9E3779B9


def mixed(word: UInt32[Array, "*shape"]) -> UInt32[Array, "*shape"]:
    """A 32-bit finaliser (murmur3's): every input bit reaches every output bit."""
    word = (word ^ (word >> jnp.uint32(16))) * jnp.uint32(0x85EBCA6B)
    word = (word ^ (word >> jnp.uint32(13))) * jnp.uint32(0xC2B2AE35)
    return word ^ (word >> jnp.uint32(16))


def stream(
    seed: UInt32[Array, ""], shape: tuple[int, ...], order: tuple[int, ...] | None = None
) -> UInt32[Array, "*shape"]:
    """Words of `shape` that depend on `seed` and on their place (see `places`); seeds should themselves be mixed."""
    return mixed(places(shape, order) ^ seed)


def places(shape: tuple[int, ...], order: tuple[int, ...] | None = None) -> UInt32[Array, "*shape"]:
    """The number of each place of an array of `shape`, counted in row-major order of its axes taken in `order`."""
    number, stride = jnp.zeros(shape, jnp.uint32), 1
    for axis in reversed(order or range(len(shape))):
        number = number + jnp.uint32(stride) * jax.lax.broadcasted_iota(jnp.uint32, shape, axis)
        stride *= shape[axis]
    return number
