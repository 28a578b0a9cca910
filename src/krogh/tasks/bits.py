"""32-bit words of random bits: signs packed into them, bits of any bias, and a hash.

Bit 1 stands for the sign -1. Drawing words and unpacking them costs a thirty-second of the random numbers that a draw
per sign would, and a parity is the popcount of a masked word. Bits of any bias cost 24 words for 32 of them, one per
binary digit of the bias, where a comparison of a random number per bit would cost 32; they need no unpacking and are
exact to the last digit.

The hash is for random decisions that are counted off rather than drawn: a keyed permutation of a sample and the masks
of dropout need many random words that depend on a position alone, and a finaliser costs a fraction of a counter-based
generator and is good enough for both.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, PRNGKeyArray, UInt32

from krogh.values import AnyArray

WORD = 32
DIGITS = 24  # binary digits of the bias that are kept: all that a float32 has between 1/2 and 1
DIGIT_STREAM = 2  # streams below are the words themselves and label noise
GOLDEN = 0x9E3779B9
SHUFFLE_ROUNDS = 32


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


def shuffled(
    key: PRNGKeyArray, epoch: UInt32[Array, "*shape"], position: UInt32[Array, "*shape"], m: UInt32[Array, ""]
) -> Int[Array, "*shape"]:
    """The example at `position` of `epoch`: a keyed permutation of 0..m-1, computed without a table.

    A swap-or-not shuffle (Hoang, Morris, Rogaway 2012): in round r, x and (K_r - x) mod m change places if
    a hash of the larger of the two says so. Each round is an involution, hence the whole a permutation, for
    any m, and m can be data.
    """
    seeds = jax.random.bits(key, (SHUFFLE_ROUNDS, 2), jnp.uint32)

    def swap(index: Array, seed: Array) -> tuple[Array, None]:
        shift = mixed(seed[0] ^ mixed(epoch)) % m
        partner = jnp.where(index <= shift, shift - index, shift + (m - index))
        coin = mixed(mixed(jnp.maximum(index, partner) ^ seed[1]) + mixed(epoch ^ seed[0]))
        return jnp.where(coin >> jnp.uint32(31) == 1, partner, index), None

    return jax.lax.scan(swap, position, seeds)[0].astype(jnp.int32)
