"""What a circuit computes, 64 inputs at a time: a node's values on 64 inputs are the bits of one word.

Gates of one level and one kind are one operation on arrays, so 10^5 gates on 10^4 inputs take a second or so.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from krogh.errors import require
from krogh.tasks.circuits.circuit import CONSTANTS, FALSE, TRUE, Circuit, Gate

WORD = 64
WORDS_AT_ONCE = 1 << 22
"""Words of all nodes together that are held at once: 32 MiB."""

MOST_LISTED = 24
"""Circuits of more inputs have truth tables too long to keep."""


def evaluate(circuit: Circuit, bits: Any) -> np.ndarray:
    """The outputs on inputs `bits` [batch, m], which hold 0 and 1 or truth values: bool [batch, outputs]."""
    given = as_bits(bits, circuit.inputs, circuit.name)
    found = np.empty((len(given), len(circuit.outputs)), bool)
    plan = _plan(circuit)
    size = WORD * max(1, WORDS_AT_ONCE // (circuit.nodes + CONSTANTS))
    for start in range(0, len(given), size):
        chunk = given[start : start + size]
        values = _values(circuit, pack(chunk), plan)
        found[start : start + size] = unpack(values[list(circuit.outputs)], len(chunk))
    return found


def truth_table(circuit: Circuit) -> np.ndarray:
    """The outputs on all 2^m inputs, bool [2^m, outputs]; row i is the input whose bit j is (i >> j) & 1."""
    require(
        circuit.inputs <= MOST_LISTED,
        f"a truth table is kept for at most {MOST_LISTED} inputs; {circuit.name!r} has {circuit.inputs}",
    )
    return evaluate(circuit, all_inputs(circuit.inputs))


def all_inputs(m: int) -> np.ndarray:
    """All 2^m inputs, bool [2^m, m]; bit j of row i is (i >> j) & 1."""
    rows = np.arange(2**m, dtype=np.uint32)
    return (rows[:, None] >> np.arange(m, dtype=np.uint32)[None, :]) & np.uint32(1) == 1


def as_bits(given: Any, inputs: int, name: str) -> np.ndarray:
    """`given` as bool [batch, inputs]; anything but 0 and 1 is refused."""
    bits = np.asarray(given)
    require(
        bits.ndim == 2 and bits.shape[1] == inputs,
        f"{name!r} reads inputs of the shape (batch, {inputs}); got {bits.shape}",
    )
    if bits.dtype == bool:
        return bits
    require(bits.dtype.kind in "iuf", f"{name!r} reads the bits 0 and 1; got {bits.dtype.name}")
    truth = bits == 1
    wrong = ~truth & (bits != 0)
    require(not wrong.any(), f"{name!r} reads the bits 0 and 1; got {bits[wrong][:1].tolist()}")
    return truth


def pack(bits: np.ndarray) -> np.ndarray:
    """bool [batch, n] as words: uint64 [n, ⌈batch/64⌉]; input i is bit i mod 64 of word i div 64."""
    batch, n = bits.shape
    words = -(-batch // WORD)
    padded = np.zeros((n, 8 * words), np.uint8)
    packed = np.packbits(bits.T, axis=1, bitorder="little")
    padded[:, : packed.shape[1]] = packed
    return padded.view("<u8")


def unpack(words: np.ndarray, batch: int) -> np.ndarray:
    """The reverse of `pack`: bool [batch, n]."""
    octets = np.ascontiguousarray(words, "<u8").view(np.uint8)
    return np.unpackbits(octets, axis=1, count=batch, bitorder="little").T.astype(bool)


def _plan(circuit: Circuit) -> list[tuple[Gate, np.ndarray, np.ndarray, np.ndarray]]:
    """Kind, nodes and parents of the gates of one level and one kind, level by level."""
    level = circuit.levels[circuit.inputs : circuit.nodes]
    order = np.lexsort((circuit.kinds, level))
    changes = np.flatnonzero(np.diff(level[order]) | np.diff(circuit.kinds[order])) + 1
    groups = np.split(order, changes) if len(order) else []
    return [
        (Gate(circuit.kinds[group[0]]), circuit.inputs + group, circuit.parents[group, 0], circuit.parents[group, 1])
        for group in groups
    ]


def _values(circuit: Circuit, inputs: np.ndarray, plan: list[Any]) -> np.ndarray:
    """Words of all nodes, the constants last."""
    values = np.empty((circuit.nodes + CONSTANTS, inputs.shape[1]), np.uint64)
    values[: circuit.inputs] = inputs
    values[FALSE], values[TRUE] = 0, ~np.uint64(0)
    for kind, nodes, first, second in plan:
        values[nodes] = combine(kind, values[first], values[second])
    return values


def combine(kind: Gate, first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """A gate's values from its parents', for words and for truth values."""
    if kind == Gate.AND:
        return first & second
    if kind == Gate.OR:
        return first | second
    return ~first if kind == Gate.NOT else first


def random_inputs(inputs: int, count: int, seed: int, size: int) -> Iterator[np.ndarray]:
    """`count` uniform inputs in chunks of at most `size`, bool [chunk, inputs]."""
    random = np.random.default_rng(seed)
    for start in range(0, count, size):
        yield random.integers(0, 2, (min(size, count - start), inputs), np.uint8).astype(bool)
