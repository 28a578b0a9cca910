"""Searches for equal keys against dictionaries: ties, growth, collisions, causality."""

from __future__ import annotations

import numpy as np
import pytest

from krogh.errors import KroghError
from krogh.networks.machines.lookup import MOST_WORDS, FixedMemory, GrowingMemory, PastMemory


def drawn(words, steps, codes, seed):
    """Keys and queries [words, steps] out of a few codes, some of them of 52 bits, and values [2, words, steps]."""
    random = np.random.default_rng(seed)
    pool = np.concatenate([np.arange(codes // 2), random.integers(0, 2**52, codes - codes // 2)])
    keys, queries = pool[random.integers(codes, size=(2, words, steps))]
    return keys, queries, random.integers(-9, 9, (2, words, steps)).astype(float)


def expected(keys, queries, values):
    """Which queries have an equal key at their own step or before, and the mean of the values there."""
    found, mean = np.zeros(keys.shape, bool), np.zeros(values.shape)
    for word, time in np.ndindex(keys.shape):
        equal = keys[word, : time + 1] == queries[word, time]
        found[word, time] = equal.any()
        if equal.any():
            mean[:, word, time] = values[:, word, : time + 1][:, equal].mean(axis=1)
    return found, mean


@pytest.mark.parametrize(("words", "steps", "codes"), [(3, 40, 6), (2, 300, 400), (1, 150, 10_000)])
def test_past_and_growing_memories_find_what_a_search_finds(words, steps, codes):
    keys, queries, values = drawn(words, steps, codes, seed=codes)
    found, mean = expected(keys, queries, values)
    assert not found.all() and (found.any() or codes == 10_000)
    with_values, without = GrowingMemory(words, steps, 2), GrowingMemory(words, steps, 0)
    for time in range(steps):
        now = (queries[:, time], keys[:, time])
        hit, value = with_values.look(*now, values[:, :, time])
        np.testing.assert_array_equal(hit, found[:, time])
        np.testing.assert_allclose(value[:, hit], mean[:, hit, time], atol=1e-12)
        only, nothing = without.look(*now, None)
        np.testing.assert_array_equal(only, found[:, time])
        assert nothing is None
    for size in (steps, steps - 1, 7, 1):  # all steps at once, or some at a time
        parts = [slice(begin, begin + size) for begin in range(0, steps, size)]
        past, only = PastMemory(words, 2, len(parts)), PastMemory(words, 0, len(parts))
        for part in parts:
            now = (queries[:, part].ravel(), keys[:, part].ravel())
            hit, value = past.look(*now, values[:, :, part].reshape(2, -1))
            np.testing.assert_array_equal(hit, found[:, part].ravel())
            np.testing.assert_allclose(value[:, hit], mean[:, :, part].reshape(2, -1)[:, hit], atol=1e-12)
            np.testing.assert_array_equal(only.look(*now, None)[0], found[:, part].ravel())


def test_a_growing_memory_survives_keys_that_collide():
    """500 keys in a table that starts with 64 places, the same low bits in all of them."""
    memory = GrowingMemory(2, 500, 1)
    for time in range(500):
        key = np.array([time, 3 * time]) << 20
        memory.look(key, key, np.array([[time, -time]], float))
    for time in range(0, 500, 7):
        key = np.array([time, 3 * time]) << 20
        place = memory._place(key)
        assert (memory.keys[memory.words, place] == key + 1).all()
    assert memory.keys.shape[1] >= 1000 and (np.count_nonzero(memory.keys, axis=1) == 500).all()


def test_a_fixed_memory_keeps_words_apart_and_averages_ties():
    words, keys = np.array([0, 0, 0, 2]), np.array([5, 5, 7, 5])
    memory = FixedMemory(words, keys, np.array([[1.0, 3.0, 10.0, -1.0]]), np.array([0, 0, 1, 2, 2]))
    found, mean = memory.find(np.array([5, 7, 5, 5, 7]))
    np.testing.assert_array_equal(found, [True, True, False, True, False])
    np.testing.assert_array_equal(mean[0, found], [2.0, 10.0, -1.0])
    nothing = FixedMemory(words[:0], keys[:0], np.zeros((1, 0)), np.array([0, 1]))
    assert not nothing.find(np.array([0, 0]))[0].any()
    with pytest.raises(KroghError, match="at most 2048 words"):
        FixedMemory(words, keys, np.zeros((1, 4)), np.array([MOST_WORDS]))
