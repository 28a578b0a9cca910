"""Memories for attention that only exact matches win: keys are integers, and a look is a search for an equal one.

    FixedMemory     what the encoder offers: all keys are known beforehand
    GrowingMemory   what the decoder offers while it runs: a step adds its key, then looks; a hash table for every word
    PastMemory      the same for all steps of a run at once, where the run is known: step i sees the keys of steps ≤ i

`look(query, key, value)` and `find(query)` return which columns found a match, and the mean of the values over all
matches, as attention with ties does. Columns are words (growing), or words × steps with the steps of a word side by
side (past). Values [rows, columns] may be None: then only finding matters.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from krogh.errors import require

Codes = NDArray[np.int64]
Values = NDArray[np.float64]
Found = tuple[NDArray[np.bool_], Values | None]

SPREAD = np.uint64(0x9E3779B97F4A7C15)
"""2^64 over the golden ratio: multiplying by it spreads keys that differ little."""
SMALLEST = 64
"""Places of a table that is still empty; a power of two."""
WORD_SHIFT = 52
"""Keys have at most 52 bits; the number of the word stands above them."""
MOST_WORDS = 2 ** (63 - WORD_SHIFT)


class StepMemory(Protocol):
    """Where decoder attention finds its matches."""

    def look(self, query: Codes, key: Codes, value: Values | None) -> Found:
        """Add keys and values [rows, columns]; say which queries found a match and the mean of the values found."""


class FixedMemory:
    """Keys [n] and values [rows, n] of entries that belong to `words` [n]; columns look in `columns`, their word."""

    def __init__(self, words: Codes, keys: Codes, values: Values, columns: Codes) -> None:
        require(
            columns.max(initial=0) < MOST_WORDS,
            f"keys of at most {MOST_WORDS} words are looked up at once; got {columns.max(initial=0) + 1}",
        )
        marked, place, count = np.unique((words << WORD_SHIFT) + keys, return_inverse=True, return_counts=True)
        self.keys, self.words = marked, columns << WORD_SHIFT
        total = np.zeros((len(marked), len(values)))
        np.add.at(total, place, values.T)
        self.means = total.T / count

    def find(self, query: Codes) -> Found:
        """Search the sorted keys."""
        if not len(self.keys):
            return np.zeros(len(query), bool), np.zeros((len(self.means), len(query)))
        asked = self.words + query
        place = np.minimum(np.searchsorted(self.keys, asked), len(self.keys) - 1)
        return self.keys[place] == asked, self.means[:, place]


class GrowingMemory:
    """One hash table per word, open addressing with linear probing; it doubles when half full."""

    def __init__(self, words: int, steps: int, rows: int) -> None:
        self.words = np.arange(words)
        self.filled = np.zeros(words, np.int64)
        # Keys are stored plus 1, so that 0 is an empty place; an entry's number leads to its count and sum of values.
        self.keys = np.zeros((words, SMALLEST), np.int64)
        self.entries = np.zeros((words, SMALLEST if rows else 0), np.int32)
        self.count = np.zeros((words, steps) if rows else (words, 0))
        self.total = np.zeros((rows, words, steps) if rows else (0, words, 0))

    def look(self, query: Codes, key: Codes, value: Values | None) -> Found:
        """Add the keys and values of this step, then search."""
        if 2 * (int(self.filled.max()) + 1) > self.keys.shape[1]:
            self._grow()
        place = self._place(key)
        new = self.keys[self.words, place] == 0
        self.keys[self.words, place] = key + 1
        if value is None:
            self.filled += new
            place = self._place(query)
            return self.keys[self.words, place] != 0, None
        entry = np.where(new, self.filled, self.entries[self.words, place])
        self.entries[self.words, place] = entry
        self.filled += new
        self.count[self.words, entry] += 1
        self.total[:, self.words, entry] += value
        place = self._place(query)
        entry = self.entries[self.words, place]
        found = self.keys[self.words, place] != 0
        return found, self.total[:, self.words, entry] / np.maximum(self.count[self.words, entry], 1)

    def _hash(self, keys: Codes) -> NDArray[np.intp]:
        shift = np.uint64(65 - self.keys.shape[1].bit_length())
        return ((keys.astype(np.uint64) * SPREAD) >> shift).astype(np.intp)

    def _place(self, keys: Codes) -> NDArray[np.intp]:
        """The place of each word's key in its table, or the empty place where it belongs."""
        place, last = self._hash(keys), self.keys.shape[1] - 1
        while True:
            there = self.keys[self.words, place]
            taken = (there != 0) & (there != keys + 1)
            if not taken.any():
                return place
            place = (place + taken) & last

    def _grow(self) -> None:
        word, old = np.nonzero(self.keys)
        keys, size = self.keys[word, old], 2 * self.keys.shape[1]
        self.keys = np.zeros((len(self.words), size), np.int64)
        place, waiting = self._hash(keys - 1), np.arange(len(keys))
        while len(waiting):
            # Several keys may want one empty place: one of them gets it, the others go on.
            at = (word[waiting], place[waiting])
            free = self.keys[at] == 0
            self.keys[at[0][free], at[1][free]] = keys[waiting[free]]
            waiting = waiting[self.keys[at] != keys[waiting]]
            place[waiting] = (place[waiting] + 1) & (size - 1)
        if self.entries.size:
            entries = self.entries[word, old]
            self.entries = np.zeros((len(self.words), size), np.int32)
            self.entries[word, place] = entries


class PastMemory:
    """All steps of `words` runs of `steps` steps each, at once: a column sees its own word's steps up to its own."""

    def __init__(self, words: int, steps: int) -> None:
        self.steps = steps
        self.words = np.repeat(np.arange(words, dtype=np.int64), steps) << WORD_SHIFT
        self.times = np.tile(np.arange(steps, dtype=np.int64), words)

    def look(self, query: Codes, key: Codes, value: Values | None) -> Found:
        """Number the keys; in the order (number, step) the matches of a query stand side by side."""
        marked, number = np.unique(self.words + key, return_inverse=True)
        asked = self.words + query
        place = np.minimum(np.searchsorted(marked, asked), len(marked) - 1)
        ranks = number * self.steps + self.times
        order = np.argsort(ranks)
        ranks = ranks[order]
        first = np.searchsorted(ranks, place * self.steps)
        end = np.searchsorted(ranks, place * self.steps + self.times, side="right")
        found = (marked[place] == asked) & (end > first)
        if value is None:
            return found, None
        sums = np.concatenate([np.zeros((len(value), 1)), np.cumsum(value[:, order], axis=1)], axis=1)
        return found, (sums[:, end] - sums[:, first]) / np.maximum(end - first, 1)
