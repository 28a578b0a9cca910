"""Which index sets explain a data set: the statistical floor of sparse functions (§4.6, §A.3.1).

A data set of m examples identifies the index set I when no other set of size s fits it. For a conjunction the sets
that fit are found from the *candidates*, the positions that are 1 in every positive example: a set J of candidates
fits when every negative example has a zero inside J.

    consistent_sets      every index set that fits, for any table, in NumPy
    identifies           the same question for one conjunction on the device, inside a compiled program
    unique_probability   how often m examples identify a conjunction
"""

from __future__ import annotations

import itertools
import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, UInt32

from krogh.errors import require, require_integer
from krogh.tasks import bits as signs
from krogh.tasks.gates import as_labels, balancing_bias
from krogh.values import AnyArray

CANDIDATES = 128
"""A data set that leaves more candidates counts as not identified on the device. Exact for n ≤ 128; beyond, more are
left with probability 1e-4 at n=200, m=20; 0.02 at n=1100, m=30; 3e-6 at n=1100, m=50 (balanced conjunctions, s=3)."""
LARGEST_SET = 3
MOST_SETS = 20_000_000
CHUNK = 1 << 15


def consistent_sets(
    x: Float[np.ndarray, "m n"] | Array, y: Float[np.ndarray, " m"] | Array, s: int, table: Any
) -> Int[np.ndarray, "sets s"]:
    """Every increasing index tuple J for which table[Σ_j b_{J_j}·2^j] = y holds on all examples (x = 1-2b).

    Values and labels in {0,1} stand for -1 and +1. All C(n,s) tuples are tried; of a conjunction, those of its
    candidates alone.
    """
    bits, labels = np.asarray(x) < 0, np.asarray(y, np.float64)
    require_integer("s", s, 1, bits.shape[1])
    values, real = as_labels(table)
    require(values.shape == (2**s,), f"the table of s={s} bits lists {2**s} values; got shape {list(values.shape)}")
    if not real and set(labels.tolist()) <= {0.0, 1.0}:
        labels = 2 * labels - 1
    candidates = np.arange(bits.shape[1])
    if np.all(values[:-1] != values[-1]):  # true at all ones alone: every bit of J is 1 in every such example
        candidates = np.flatnonzero(bits[labels == values[-1]].all(axis=0))
    count = math.comb(len(candidates), s)
    require(count <= MOST_SETS, f"at most {MOST_SETS} index sets can be tried; got C({len(candidates)},{s}) = {count}")
    tuples, found = itertools.combinations(candidates.tolist(), s), [np.zeros((0, s), np.int64)]
    columns = bits.T.astype(np.int64)
    while chunk := list(itertools.islice(tuples, CHUNK)):
        sets = np.array(chunk, np.int64)
        for example, label in zip(columns.T, labels, strict=True):  # most sets fall at one of the first examples
            index = example[sets] @ (1 << np.arange(s))
            sets = sets[values[index] == label]
        found.append(sets)
    return np.concatenate(found)


def identifies(
    bits: UInt32[AnyArray, "size words"],
    positive: Bool[Array, " size"],
    m: Int[AnyArray, ""] | int,
    n: int,
    s: int,
) -> Bool[Array, ""]:
    """Whether exactly one conjunction of s ≤ 3 of the n bits fits the first m of the packed examples."""
    used = jnp.arange(bits.shape[0]) < m
    yes, no = used & positive, used & ~positive
    always = jnp.where(yes[:, None], bits, jnp.uint32(0xFFFFFFFF))
    always = jax.lax.reduce(always, np.uint32(0xFFFFFFFF), jax.lax.bitwise_and, (0,))
    is_candidate = signs.unpack(always, n) < 0
    room = min(n, CANDIDATES)
    places = jnp.nonzero(is_candidate, size=room, fill_value=0)[0]
    found = jnp.sum(is_candidate)
    column = jnp.take(bits, places // signs.WORD, axis=1) >> (places % signs.WORD).astype(jnp.uint32)[None, :]
    zero = _packed((column & jnp.uint32(1) == 0) & no[:, None])  # [words, room]: negatives that a candidate explains
    target = _packed(no[:, None])
    sets = _count_covers(zero, target, jnp.minimum(found, room), s)
    return (found <= room) & (sets == 1)


def _packed(columns: Bool[Array, "size room"]) -> UInt32[Array, "words room"]:
    """Each column as a bit set over the examples."""
    size, room = columns.shape
    padded = jnp.pad(columns, ((0, -size % signs.WORD), (0, 0))).reshape(-1, signs.WORD, room)
    place = jnp.arange(signs.WORD, dtype=jnp.uint32)[None, :, None]
    return jnp.sum(padded.astype(jnp.uint32) << place, axis=1, dtype=jnp.uint32)


def _count_covers(
    zero: UInt32[Array, "words room"], target: UInt32[Array, "words one"], found: Int[Array, ""], s: int
) -> Int[Array, ""]:
    """How many sets of s among the first `found` columns have the target for their union; counting stops above 1."""
    order = jnp.arange(zero.shape[1])
    real = order < found
    if s == 1:
        return jnp.sum(jnp.all(zero == target, axis=0) & real)
    later = (order[:, None] < order[None, :]) & real[None, :]  # the second index follows the first

    def pairs(first: UInt32[Array, "words one"]) -> Bool[Array, "room room"]:
        # Written in one expression, so that it compiles to a reduction and the unions are never stored.
        unions = zero[:, :, None] | zero[:, None, :] | first[:, :, None]
        return jnp.all(unions == target[:, :, None], axis=0) & later

    if s == 2:
        return jnp.sum(pairs(jnp.zeros_like(target)))

    def more(state: tuple[Array, Array]) -> Array:
        return (state[0] < found) & (state[1] < 2)

    def step(state: tuple[Array, Array]) -> tuple[Array, Array]:
        first, count = state
        own = jnp.take(zero, first[None], axis=1, mode="clip")
        return first + 1, count + jnp.sum(pairs(own) & (order > first)[:, None])

    return jax.lax.while_loop(more, step, (jnp.int32(0), jnp.int32(0)))[1]


def unique_probability(n: int, s: int, m: int, draws: int = 100, seed: int = 0) -> float:
    """The share of `draws` data sets of m examples that only one conjunction of s of the n bits fits.

    Bits are 1 with probability 2^{-1/s}, so that labels are balanced. Exact for every n (no bound on candidates).
    """
    for name, number in (("n", n), ("s", s), ("m", m), ("draws", draws)):
        require_integer(name, number, 1)
    require(s <= n, f"s must be at most n={n}; got s={s} (try s={n})")
    random = np.random.default_rng([seed, n, s, m])
    bias = balancing_bias("and", s)
    return sum(_alone(random.random((m, n)) < bias, s) for _ in range(draws)) / draws


def _alone(bits: Bool[np.ndarray, "m n"], s: int) -> bool:
    """Whether no other conjunction of s bits agrees with that of the first s."""
    positive = bits[:, :s].all(axis=1)
    candidates = np.flatnonzero(bits[positive].all(axis=0))
    zeros = np.packbits(~bits[~positive][:, candidates], axis=0).T
    # The first s are candidates, so that a union of s bit sets is complete for them; look for a second.
    whole = np.bitwise_or.reduce(zeros[:s], axis=0)
    return _covers(zeros, whole, s, 2) == 1


def _covers(zeros: np.ndarray, whole: np.ndarray, s: int, most: int) -> int:
    """How many sets of s rows have the union `whole`, counted up to `most`."""
    if s == 1:
        return min(most, int((zeros | ~whole == 255).all(axis=1).sum())) if zeros.shape[1] else min(most, len(zeros))
    count = 0
    for place in range(len(zeros) - s + 1):
        rest = zeros[place + 1 :] | zeros[place]
        count += _covers(rest, whole, s - 1, most - count)
        if count >= most:
            return most
    return count
