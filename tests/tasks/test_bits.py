"""The hash of words: a bijection of murmur3's constants whose bits all depend on all bits."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
import pytest
from scipy.stats import chi2

from krogh.tasks.bits import GOLDEN, mixed, places, stream


def murmur(word: int) -> int:
    """The finaliser of murmur3's 32-bit hash (fmix32), in plain Python."""
    word ^= word >> 16
    word = word * 0x85EBCA6B % 2**32
    word ^= word >> 13
    word = word * 0xC2B2AE35 % 2**32
    return word ^ (word >> 16)


def some(count: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 2**32, count, dtype=np.uint32)


def test_it_is_murmur_s():
    words = np.concatenate([some(200), np.array([0, 1, 2, 2**31, 2**32 - 1, GOLDEN], np.uint32)])
    found = np.asarray(mixed(jnp.asarray(words)))
    assert found.dtype == np.uint32
    assert found.tolist() == [murmur(int(word)) for word in words]
    assert int(mixed(jnp.uint32(1))) == 0x514E28B7, "a value that is widely published"


@pytest.mark.slow
def test_no_two_words_become_one():
    words = np.arange(2**20, dtype=np.uint32)
    for first in (0, 2**31, 2**32 - 2**20):
        assert len(np.unique(np.asarray(mixed(jnp.asarray(words + np.uint32(first)))))) == words.size


def test_every_bit_reaches_every_bit():
    """Flipping one input bit flips each output bit with probability near 1/2."""
    words = some(20_000, 1)
    before = np.asarray(mixed(jnp.asarray(words)))
    for bit in range(32):
        changed = before ^ np.asarray(mixed(jnp.asarray(words ^ np.uint32(1 << bit))))
        flips = [np.mean(changed >> np.uint32(out) & np.uint32(1)) for out in range(32)]
        assert max(abs(flip - 0.5) for flip in flips) < 0.06, bit


def test_a_stream_is_the_hash_of_place_and_seed():
    words = np.asarray(stream(jnp.uint32(0xDEADBEEF), (3, 4, 5)))
    assert words.shape == (3, 4, 5)
    assert words.ravel().tolist() == [murmur(place ^ 0xDEADBEEF) for place in range(60)]
    np.testing.assert_array_equal(stream(jnp.uint32(7), (100,))[:10], stream(jnp.uint32(7), (10,)))


def test_streams_are_even_in_every_byte():
    words = np.asarray(stream(mixed(jnp.uint32(5)), (1 << 16,)))
    for shift in (0, 8, 16, 24):
        counts = np.bincount((words >> np.uint32(shift)) & np.uint32(255), minlength=256)
        statistic = float(((counts - 256) ** 2 / 256).sum())
        assert chi2.sf(statistic, 255) > 1e-6 and chi2.cdf(statistic, 255) > 1e-6


def test_places_are_counted_along_the_axes_in_the_order_given():
    shape = (3, 4, 5)
    assert np.array_equal(places(shape), np.arange(60).reshape(shape))
    for order in ((1, 0, 2), (2, 1, 0), (0, 2, 1)):
        counted = np.arange(60).reshape([shape[axis] for axis in order]).transpose(np.argsort(order))
        assert np.array_equal(places(shape, order), counted)
    more = np.asarray(places((3, 9, 5), (1, 0, 2)))
    assert np.array_equal(more[:, :4], places(shape, (1, 0, 2))), "more along the first axis changes nothing before"
