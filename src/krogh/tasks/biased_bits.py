"""Biased bits, packed: 32 independent bits to a word, each 1 with a probability that is data.

A comparison of one random number per bit with the bias would cost 32 random words for 32 bits; a word per binary
digit of the bias costs 24, needs no unpacking, and is exact to the last digit.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, PRNGKeyArray, UInt32

from krogh.values import AnyArray

DIGITS = 24  # binary digits of the bias that are kept: all that a float32 has between 1/2 and 1
DIGIT_STREAM = 2  # streams below are the words themselves and label noise


def biased(
    key: PRNGKeyArray, words: UInt32[Array, "size words"], bias: Float[AnyArray, ""]
) -> UInt32[Array, "size words"]:
    """Words of bits that are 1 with probability `bias`, to 24 binary digits, from fair `words` and 23 more.

    From the last digit of the bias to the first, r ← r|w for a digit 1 and r ← r&w for a digit 0 halves the
    probability and adds the digit in front. The fair words come last: at bias 1/2 they are the result.
    """
    digits = jnp.round(jnp.asarray(bias) * jnp.float32(2**DIGITS)).astype(jnp.uint32)

    def combined(
        place: Int[Array, ""], so_far: UInt32[Array, "size words"], fresh: UInt32[Array, "size words"]
    ) -> Array:
        one = (digits >> place.astype(jnp.uint32)) & jnp.uint32(1) == 1
        return jnp.where(one, so_far | fresh, so_far & fresh)

    def step(place: Int[Array, ""], so_far: UInt32[Array, "size words"]) -> Array:
        fresh = jax.random.bits(jax.random.fold_in(key, DIGIT_STREAM + place), words.shape, jnp.uint32)
        return combined(place, so_far, fresh)

    so_far = jax.lax.fori_loop(0, DIGITS - 1, step, jnp.zeros_like(words))
    return combined(jnp.int32(DIGITS - 1), so_far, words)
