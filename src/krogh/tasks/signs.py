"""Random signs as packed bits: 32 signs to a word, bit 1 standing for -1.

Drawing words and unpacking them costs a thirty-second of the random numbers that a draw per sign would,
and a parity is the popcount of a masked word.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, UInt32

from krogh.values import AnyArray

WORD = 32


def words(n: int) -> int:
    """How many 32-bit words hold n bits."""
    return -(-n // WORD)


def unpack(bits: UInt32[AnyArray, "*batch words"], n: int) -> Float[Array, "*batch n"]:
    """The first n bits of each row as signs: x_i = 1 - 2·bit_i."""
    position = jnp.arange(WORD, dtype=jnp.uint32).reshape((1,) * bits.ndim + (WORD,))
    single = (bits[..., None] >> position) & jnp.uint32(1)
    flat = single.reshape(*bits.shape[:-1], bits.shape[-1] * WORD)[..., :n]
    return 1.0 - 2.0 * flat.astype(jnp.float32)


def support_mask(support: Int[AnyArray, " k"], n: int) -> UInt32[Array, " words"]:
    """A packed row with the bits of `support` set."""
    word = jnp.arange(words(n))[:, None] == (support // WORD)[None, :]
    bit = jnp.uint32(1) << (support % WORD).astype(jnp.uint32)
    return jnp.sum(jnp.where(word, bit[None, :], jnp.uint32(0)), axis=1, dtype=jnp.uint32)


def parity(bits: UInt32[AnyArray, "*batch words"], mask: UInt32[Array, " words"]) -> Float[Array, "*batch"]:
    """chi_S of each packed row: (-1)^(number of set bits under the mask)."""
    relevant = bits & mask.reshape((1,) * (bits.ndim - 1) + mask.shape)
    folded = jax.lax.reduce(relevant, np.uint32(0), jax.lax.bitwise_xor, (bits.ndim - 1,))
    odd = jax.lax.population_count(folded) & jnp.uint32(1)
    return 1.0 - 2.0 * odd.astype(jnp.float32)


def cube(n: int) -> UInt32[np.ndarray, "size words"]:
    """All 2^n packed rows for n ≤ 32: row i holds the binary digits of i."""
    return np.arange(2**n, dtype=np.uint32)[:, None]
