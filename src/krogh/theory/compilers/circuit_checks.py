"""Whether a compiled circuit computes its circuit: on every input, or on random ones, gate by gate.

The truth is the circuit's own evaluation on words of 64 inputs, which knows nothing of layers or weights.
"""

from __future__ import annotations

from dataclasses import dataclass
from threading import Lock
from typing import Any

import numpy as np

from krogh.errors import require_integer
from krogh.tasks.circuits import LayeredCircuit, all_inputs, evaluate
from krogh.tasks.circuits.evaluation import as_bits, pack, unpack
from krogh.theory.compilers.circuits import CompiledCircuit
from krogh.theory.compilers.networks import over_chunks

MOST_LISTED = 16
"""Circuits of at most so many inputs are checked on all of them."""
RANDOM_INPUTS = 100_000
MOST_WORK = 1 << 30
"""Gates times inputs that are run in floating point where the units have been proved right one by one: seconds."""
AT_ONCE = 1 << 15
"""Inputs whose truth is worked out at once."""


@dataclass(frozen=True)
class Check:
    """What a check found.

    exact: nothing differs. inputs: how many were compared, and whether they were all (exhaustive). worst: the largest
    difference of an output, or of a unit from its gate. proved: the units are right one by one, whatever the input
    (`gate_tables`). floats: how many of the inputs went through the network in floating point; where `proved`, the rest
    of a large check is done on words of bits, which then is the same.
    """

    exact: bool
    inputs: int
    exhaustive: bool
    worst: float
    proved: bool
    floats: int


def check_circuit(compiled: CompiledCircuit, inputs: int | Any = None, seed: int = 0) -> Check:
    """Compare F with 2G - 1, and every unit with its gate.

    On all 2^m inputs for m ≤ 16 and on 100,000 random ones beyond; or on as many random ones as `inputs` says, or on
    `inputs` [batch, m] themselves.
    """
    m = compiled.circuit.inputs
    given, exhaustive = _given(m, inputs, seed, compiled.circuit.name)
    proved = compiled.proved
    most = max(1, MOST_WORK // compiled.circuit.gates) if proved else len(given)
    floats = min(len(given), most)
    source = compiled.source
    plain = source.circuit() if isinstance(source, LayeredCircuit) else source
    worst, lock = 0.0, Lock()

    def note(difference: float) -> None:
        nonlocal worst
        with lock:  # a NaN counts as worse than anything
            worst = max(worst, difference if difference == difference else np.inf)

    for start in range(0, len(given), AT_ONCE):
        block = given[start : start + AT_ONCE]
        truth = evaluate(plain, block)
        *_, last = compiled.circuit.streamed(pack(block))
        if not np.array_equal(unpack(last[list(compiled.circuit.output)], len(block)), truth):
            note(2.0)

        def compare(rows: slice, block: np.ndarray = block, truth: np.ndarray = truth) -> None:
            _compare(compiled, block[rows], truth[rows], note)

        over_chunks(compare, min(len(block), max(0, floats - start)), compiled.network.chunk)
    return Check(worst == 0.0, len(given), exhaustive, worst, proved, floats)


def _given(m: int, inputs: Any, seed: int, name: str) -> tuple[np.ndarray, bool]:
    if inputs is None and m <= MOST_LISTED:
        return all_inputs(m), True
    if inputs is None or np.ndim(inputs) == 0:
        count = RANDOM_INPUTS if inputs is None else inputs
        require_integer("inputs", count, 1)
        return np.random.default_rng(seed).integers(0, 2, (count, m), np.uint8).astype(bool), False
    return as_bits(inputs, m, name), False


def _compare(compiled: CompiledCircuit, bits: np.ndarray, truth: np.ndarray, note: Any) -> None:
    """Note how far outputs and units of the network are from the truth and from the gates."""
    network = compiled.network
    values = compiled.circuit.streamed(np.ascontiguousarray(bits.T))
    wanted = next(values)
    ends = {module.layers.stop - 1: module.kind for module in network.modules}
    for place, found in enumerate(network.streamed(bits.astype(np.float64))):
        kind = ends.get(place)
        if kind == "gates":
            wanted = next(values)
        if kind in ("gates", "round") and not np.array_equal(found, wanted):
            note(float(np.max(np.abs(found - wanted))))
        if kind == "linear":
            note(float(np.max(np.abs(found - (2.0 * truth.T - 1.0)))))
