"""Compiled machines run by looking keys up instead of comparing with all of them.

In the attentions of a compiled machine exact matches win against the null slot and nothing else does
(`layers.Attention`). Where the hidden vectors are binary, attention therefore is a search for an equal key:
the D - 1 signs of Q(h) and K(h) are read as one integer. Both facts are checked, not assumed: the first on the weights
before a run, the second on the vectors at every layer. All numbers come from the parameters, and a step costs
O(nnz(θ)) for a word, however many steps came before.

Coordinates that no matrix of a layer can make different from 0 are left out while the network runs.

What attention looks at is a memory, in which keys are integers and a look is a search for an equal one:

    FixedMemory     what the encoder offers: all keys are known beforehand
    GrowingMemory   what the decoder offers while it runs: a step adds its key, then looks; a hash table for every word
    PastMemory      the same for many steps of a run at once, where the run is known: step i sees the keys of steps ≤ i

`look(query, key, value)` and `find(query)` return which columns found a match, and the mean of the values over all
matches, as attention with ties does. Columns are words (growing), or words × steps with the steps of a word side by
side (past). Values [rows, columns] may be None: then only finding matters.
"""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from krogh.errors import KroghError, require
from krogh.networks.machines.layers import Vector
from krogh.networks.machines.layout import binary

if TYPE_CHECKING:
    from krogh.networks.machines.compiled import CompiledMachine

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
        self._look_in(columns)
        marked, place, count = np.unique((words << WORD_SHIFT) + keys, return_inverse=True, return_counts=True)
        self.keys = marked
        total = np.zeros((len(marked), len(values)))
        np.add.at(total, place, values.T)
        self.means = total.T / count

    def _look_in(self, columns: Codes) -> None:
        most = columns.max(initial=0)
        require(most < MOST_WORDS, f"keys of at most {MOST_WORDS} words are looked up at once; got {most + 1}")
        self.words = columns << WORD_SHIFT

    def seen_by(self, columns: Codes) -> FixedMemory:
        """The same memory for other columns."""
        other = copy.copy(self)
        other._look_in(columns)
        return other

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


class Kept(NamedTuple):
    """Distinct keys in order; where values matter, how often each occurred and the sum of its values [rows, keys]."""

    keys: Codes
    counts: Values
    total: Values

    def merged(self, other: Kept) -> Kept:
        """Both together."""
        both = np.concatenate([self.keys, other.keys])
        if not len(self.total):
            both.sort(kind="stable")  # merges the two, as both are in order
            return self._replace(keys=both[_begins(both)])
        order = np.argsort(both, kind="stable")
        both = both[order]
        starts = np.flatnonzero(_begins(both))
        count = np.add.reduceat(np.concatenate([self.counts, other.counts])[order], starts)
        total = np.add.reduceat(np.concatenate([self.total, other.total], axis=1)[:, order], starts, axis=1)
        return Kept(both[starts], count, total)


def _begins(ordered: Codes) -> NDArray[np.bool_]:
    """Where a key stands for the first time."""
    return np.concatenate([[True], ordered[1:] != ordered[:-1]])


class PastMemory:
    """Steps of `words` runs, many at once: a column sees its own word's steps up to its own.

    A look is about the next steps of every word, as many as there are columns for. Of the steps before it only what can
    be asked for is kept, in a few parts, each at least twice as long as the next: so a key is put in order again only
    when its part doubles. Nothing is kept when all `looks` are done. Values have `rows` rows, 0 where there are none.
    """

    def __init__(self, words: int, rows: int, looks: int = 1) -> None:
        self.words, self.rows, self.left = words, rows, looks
        self.parts: list[Kept] = []

    def look(self, query: Codes, key: Codes, value: Values | None) -> Found:
        """Number the keys; in the order (number, step) the matches of a query stand side by side."""
        steps = len(key) // self.words
        word = np.repeat(np.arange(self.words, dtype=np.int64), steps) << WORD_SHIFT
        times = np.tile(np.arange(steps, dtype=np.int64), self.words)
        marked, number = np.unique(word + key, return_inverse=True)
        asked = word + query
        place = np.minimum(np.searchsorted(marked, asked), len(marked) - 1)
        ranks = number * steps + times
        order = np.argsort(ranks)
        ranks = ranks[order]
        first = np.searchsorted(ranks, place * steps)
        end = np.searchsorted(ranks, place * steps + times, side="right")
        found = (marked[place] == asked) & (end > first)
        values = np.zeros((0, len(key))) if value is None else value
        sums = np.concatenate([np.zeros((len(values), 1)), np.cumsum(values[:, order], axis=1)], axis=1)
        total, count = np.where(found, sums[:, end] - sums[:, first], 0.0), np.where(found, end - first, 0)
        for part in self.parts:
            at = np.minimum(np.searchsorted(part.keys, asked), len(part.keys) - 1)
            there = part.keys[at] == asked
            found |= there
            if len(values):
                total += np.where(there, part.total[:, at], 0.0)
                count = count + np.where(there, part.counts[at], 0)
        self.left -= 1
        if self.left:
            ends = np.searchsorted(ranks, (np.arange(len(marked)) + 1) * steps)
            begins = np.concatenate([[0], ends[:-1]])
            self._keep(Kept(marked, (ends - begins).astype(float), sums[:, ends] - sums[:, begins]))
        return found, None if value is None else total / np.maximum(count, 1)

    def _keep(self, part: Kept) -> None:
        while self.parts and len(self.parts[-1].keys) < 2 * len(part.keys):
            part = self.parts.pop().merged(part)
        self.parts.append(part if self.rows else part._replace(counts=np.zeros(0)))


Parameters = Mapping[str, Any]
"""Sparse matrices and dense vectors by name."""
Coordinates = NDArray[np.intp]


@dataclass(frozen=True, eq=False)
class Lookup:
    """An attention as a search: rows of powers of two turn binary vectors into keys.

    query(h) = `query` h + `query_start`, key(h) alike; a match adds `value` h' + `value_bias` of the position h' that
    it found to the coordinates `rows`, no match adds `null`. Where `value` is None the value is the bias alone. The
    best score is at least `gap` above all that are not equal to it.
    """

    query: Vector
    query_start: float
    key: Vector
    key_start: float
    value: csr_array | None
    value_bias: Vector
    null: Vector
    rows: Coordinates
    gap: float

    def narrowed(self, inner: Coordinates, offering: Coordinates) -> Lookup:
        """The same between vectors on the coordinates `inner` and positions on the coordinates `offering`."""
        return Lookup(
            self.query[inner],
            self.query_start,
            self.key[offering],
            self.key_start,
            None if self.value is None else csr_array(self.value[:, offering]),
            self.value_bias,
            self.null,
            np.searchsorted(inner, self.rows),
            self.gap,
        )

    def queries(self, h: Values) -> Codes:
        """What vectors h [w, columns] ask for."""
        return (self.query @ h + self.query_start).astype(np.int64)

    def keys(self, h: Values) -> Codes:
        """The keys of vectors h [w, columns]."""
        return (self.key @ h + self.key_start).astype(np.int64)

    def values(self, h: Values) -> Values | None:
        """What vectors h [w, columns] offer, [rows, columns]; None where all offer the same."""
        return None if self.value is None else self.value @ h + self.value_bias[:, None]

    def memory(self, encoded: Values, words: Codes, columns: Codes) -> FixedMemory:
        """The memory of an encoder's vectors [w, n]."""
        values = self.values(encoded)
        if values is None:
            values = np.tile(self.value_bias[:, None], (1, encoded.shape[1]))
        return FixedMemory(words, self.keys(encoded), values, columns)

    def added(self, found: NDArray[np.bool_], mean: Values | None) -> Values:
        """What a look adds to the coordinates `rows`."""
        return np.where(found[None, :], self.value_bias[:, None] if mean is None else mean, self.null[:, None])


def lookup_of(parameters: Parameters, prefix: str) -> Lookup:
    """The attention `prefix` as a search; an error where its weights do not make exact matches the only winners."""
    query, query_start = _code(parameters, prefix, "q")
    key, key_start = _code(parameters, prefix, "k")
    last, null_key = len(parameters[f"{prefix}.K0"]) - 1, np.asarray(parameters[f"{prefix}.K0"])
    ends = parameters[f"{prefix}.bq"][last] == 1 and parameters[f"{prefix}.bk"][last] == 0
    threshold = not null_key[:last].any() and null_key[last] == last - 1
    require(ends and threshold, _no_search(prefix, f"its null key must be (0, ..., 0, {last - 1}); got {null_key}"))
    weight, bias, null = (parameters[f"{prefix}.{name}"] for name in ("Wv", "bv", "V0"))
    (rows,) = np.nonzero((np.diff(weight.indptr) > 0) | (bias != 0) | (null != 0))
    value = weight[rows] if weight.nnz else None
    # Exact matches score `last`, others at most last - 2, and the null key its own last entry.
    gap = float(min(last - null_key[last], null_key[last] - (last - 2)))
    return Lookup(query, query_start, key, key_start, value, bias[rows], null[rows], rows, gap)


def _code(parameters: Parameters, prefix: str, which: str) -> tuple[Vector, float]:
    """Σ_k 2^k (1 + sign_k)/2 over all but the last coordinate of a query or a key, as an affine function of a binary h.

    A coordinate is the sign 2h_c - 1 of one coordinate of h, or a constant ±1; the last is constant.
    """
    weight, bias = parameters[f"{prefix}.W{which}"], np.asarray(parameters[f"{prefix}.b{which}"])
    per_row = np.diff(weight.indptr)
    signs = np.where(per_row == 1, bias == -1, (per_row == 0) & (np.abs(bias) == 1))
    well = np.all(signs[:-1]) and per_row[-1] == 0 and np.all(weight.data == 2)
    require(well, _no_search(prefix, f"rows of W{which}, b{which} must be 2h - 1 or ±1"))
    powers = 2.0 ** np.arange(len(bias) - 1)[::-1]
    return (powers / 2) @ weight[:-1], float(powers @ (1 + bias[:-1]) / 2)


def _no_search(prefix: str, why: str) -> str:
    return f"{prefix} is no attention that only exact matches win: {why}. Run the network densely (method='dense')"


@dataclass(frozen=True, eq=False)
class LookupLayer:
    """A layer on the coordinates that can differ from 0: `inner` after its attentions, `after` the layer.

    Vectors come on the coordinates that were in use before; these stand at `kept` among `inner`.
    """

    number: int
    kept: Coordinates
    inner: Coordinates
    after: Coordinates
    decoder: Lookup | None
    encoder: Lookup | None
    affine: tuple[tuple[csr_array, Vector], ...]

    def apply(self, h: Values, decoder: StepMemory | None, encoder: FixedMemory | None) -> Values:
        """The layer's outputs, [after, columns]."""
        require_binary(h, f"before layer {self.number}")
        if self.decoder is not None or self.encoder is not None:
            wide = np.zeros((len(self.inner), h.shape[1]))
            wide[self.kept] = h
            h = wide
        if self.decoder is not None and decoder is not None:
            looked = decoder.look(self.decoder.queries(h), self.decoder.keys(h), self.decoder.values(h))
            h[self.decoder.rows] += self.decoder.added(*looked)
        if self.encoder is not None and encoder is not None:
            if self.decoder is not None:
                require_binary(h, f"inside layer {self.number}")
            h[self.encoder.rows] += self.encoder.added(*encoder.find(self.encoder.queries(h)))
        for weight, bias in self.affine:
            h = weight @ h
            h += bias
            np.maximum(h, 0.0, out=h)
        return h


def require_binary(h: Values, where: str) -> None:
    """Require that all entries are 0 or 1, exactly."""
    ones = h > 0.5
    if not np.array_equal(h, ones):
        raise KroghError(
            f"hidden vectors {where} are not binary (an entry is {np.abs(h - ones).max():.3g} away from 0 and 1), and "
            "attention cannot be looked up. Run the network densely (method='dense')"
        )


class LookupNetwork:
    """All layers of a compiled machine, prepared.

    Vectors come on the coordinates `first`, and outputs on the coordinates `outputs` among them.
    """

    def __init__(self, compiled: CompiledMachine) -> None:
        require(
            compiled.attention == "hard",
            "soft attention gives weight to all positions and cannot be looked up (use method='dense')",
        )
        parameters = compiled.parameters
        self.compiled, start = compiled, np.asarray(parameters["o0"])
        self.outputs, times = _rows_in_use(parameters, f"L{compiled.depth}.ff", 3), compiled.layout["pos1"]
        self.first = np.union1d(np.union1d(self.outputs, np.flatnonzero(start)), times)
        self.start, self.times = start[self.first], np.searchsorted(self.first, times)
        self.returned = np.searchsorted(self.first, self.outputs)
        # What the encoder's vectors hold: symbols and places.
        self.offered = np.union1d(np.flatnonzero(np.diff(csr_array(parameters["E"]).indptr)), times)
        self.layers, before = [], self.first
        for number in range(1, compiled.depth + 1):
            layer = _prepared(parameters, number, before, self.offered)
            self.layers.append(layer)
            before = layer.after

    def encoder_memories(
        self, tokens: NDArray[np.int32], lengths: NDArray[np.int32], columns: Codes
    ) -> list[FixedMemory | None]:
        """What each layer's encoder attention looks at; `columns` says which word a column belongs to."""
        word, place = np.nonzero(np.arange(tokens.shape[1])[None, :] < lengths[:, None])
        parameters: Parameters = self.compiled.parameters
        encoded = parameters["E"][self.offered].toarray()[:, tokens[word, place]]
        places = np.searchsorted(self.offered, self.compiled.layout["pos1"])
        encoded[places] += binary(place + 1, self.compiled.bits).T
        require_binary(encoded, "of the encoder")
        attentions = [layer.encoder for layer in self.layers]
        return [None if found is None else found.memory(encoded, word, columns) for found in attentions]

    @property
    def gap(self) -> float:
        """The least that the best score of any attention is above all that are not equal to it."""
        found = [part for layer in self.layers for part in (layer.decoder, layer.encoder) if part is not None]
        return min((attention.gap for attention in found), default=np.inf)

    @functools.cached_property
    def widest(self) -> int:
        """The most entries that a vector has on its way through the layers."""
        return max(max(len(layer.inner), *(weight.shape[0] for weight, _ in layer.affine)) for layer in self.layers)

    @functools.cached_property
    def entries(self) -> int:
        """Weights that a vector meets on its way."""
        return sum(int(weight.nnz) for layer in self.layers for weight, _ in layer.affine)

    @functools.cached_property
    def remembered(self) -> int:
        """Bytes that a step leaves behind in `PastMemory`, and while these are put in order."""
        rows = [
            0 if one.value is None else len(one.rows) for layer in self.layers if (one := layer.decoder) is not None
        ]
        return sum(8 if not each else 16 + 8 * each for each in rows) + 3 * (16 + 8 * max(rows, default=0))

    def inputs(self, outputs: Values | None, times: Codes) -> Values:
        """h = o + β(time) for outputs o [outputs, columns] of the steps before, or o = o_0 where there are none."""
        h = np.repeat(self.start[:, None], len(times), axis=1)
        if outputs is not None:
            h[:] = 0.0
            h[self.returned] = outputs
        h[self.times] += binary(times, self.compiled.bits).T
        return h

    def decoder_memories(self, make: Callable[[int], StepMemory]) -> list[StepMemory | None]:
        """A fresh memory for each layer with decoder attention; `make` is told how many rows its values have."""
        attentions = [layer.decoder for layer in self.layers]
        return [None if found is None else make(0 if found.value is None else len(found.rows)) for found in attentions]

    def advance(
        self, h: Values, decoder: Sequence[StepMemory | None], encoder: Sequence[FixedMemory | None]
    ) -> Iterator[Values]:
        """The vectors after each layer, on its own coordinates `after`, from vectors on the coordinates `first`."""
        for layer, past, given in zip(self.layers, decoder, encoder, strict=True):
            h = layer.apply(h, past, given)
            yield h


def _prepared(parameters: Parameters, number: int, before: Coordinates, offered: Coordinates) -> LookupLayer:
    found = {}
    inner = before
    for which in ("dec", "enc"):
        found[which] = lookup_of(parameters, f"L{number}.{which}") if f"L{number}.{which}.Wq" in parameters else None
    for attention in found.values():
        inner = inner if attention is None else np.union1d(inner, attention.rows)
    columns, affine = inner, []
    for k in (1, 2, 3):
        rows = _rows_in_use(parameters, f"L{number}.ff", k)
        weight, bias = parameters[f"L{number}.ff.W{k}"], np.asarray(parameters[f"L{number}.ff.b{k}"])
        affine.append((csr_array(weight[rows][:, columns]), bias[rows][:, None]))
        columns = rows
    decoder = None if found["dec"] is None else found["dec"].narrowed(inner, inner)
    # The encoder's vectors have coordinates of their own: they differ from 0 where the decoder's need not.
    encoder = None if found["enc"] is None else found["enc"].narrowed(inner, offered)
    return LookupLayer(number, np.searchsorted(inner, before), inner, columns, decoder, encoder, tuple(affine))


def _rows_in_use(parameters: Parameters, prefix: str, k: int) -> Coordinates:
    weight, bias = parameters[f"{prefix}.W{k}"], np.asarray(parameters[f"{prefix}.b{k}"])
    return np.flatnonzero((np.diff(weight.indptr) > 0) | (bias != 0))
