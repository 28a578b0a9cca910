"""Circuits without constants: what reads FALSE or TRUE is worked out beforehand.

    AND(a, FALSE) = FALSE    AND(a, TRUE) = a     NOT(FALSE) = TRUE
    OR(a, TRUE) = TRUE       OR(a, FALSE) = a     ID(constant) = constant

An output that is a constant itself is written in gates, FALSE = AND(x, NOT x) and TRUE = OR(x, NOT x) for the first
input x.
"""

from __future__ import annotations

import numpy as np

from krogh.errors import require
from krogh.tasks.circuits.circuit import CONSTANTS, FALSE, TRUE, Circuit, Gate


def without_constants(circuit: Circuit) -> Circuit:
    """A circuit of the same outputs in which no gate reads a constant, and no output is one."""
    if not (circuit.parents < 0).any() and min(circuit.outputs) >= 0:
        return circuit
    require(
        circuit.inputs > 0,
        f"the circuit {circuit.name!r} has no inputs and only constant outputs: nothing is left to compute",
    )
    stands = list(range(circuit.nodes)) + [0] * CONSTANTS  # what stands for each node: a node of the old numbering
    stands[FALSE], stands[TRUE] = FALSE, TRUE
    kept: list[int] = []
    read: list[tuple[int, int]] = []
    kinds = circuit.kinds.tolist()
    for place, (first, second) in enumerate(circuit.parents.tolist()):
        a, b = stands[first], stands[second]
        folded = _folded(kinds[place], a, b)
        if folded is None:
            kept.append(place)
            read.append((a, b))
        else:
            stands[circuit.inputs + place] = folded
    renumbered = np.zeros(circuit.nodes + CONSTANTS, np.int64)
    renumbered[: circuit.inputs] = np.arange(circuit.inputs)
    renumbered[[circuit.inputs + place for place in kept]] = circuit.inputs + np.arange(len(kept))
    renumbered[[FALSE, TRUE]] = FALSE, TRUE
    parents = renumbered[np.array(read, np.int64).reshape(-1, 2)]
    outputs = [int(renumbered[stands[node]]) for node in circuit.outputs]
    remaining = [circuit.kinds[place] for place in kept]
    if min(outputs) < 0:
        contrary = circuit.inputs + len(kept)  # the nodes NOT x, FALSE and TRUE, after all others
        parents = np.concatenate([parents, [[0, 0], [0, contrary], [0, contrary]]])
        remaining += [Gate.NOT, Gate.AND, Gate.OR]
        written = {FALSE: contrary + 1, TRUE: contrary + 2}
        outputs = [written.get(node, node) for node in outputs]
    folded_circuit = Circuit(
        circuit.name,
        circuit.inputs,
        np.array(remaining, np.int8),
        parents,
        tuple(outputs),
        circuit.input_names,
        circuit.output_names,
    )
    return folded_circuit.without_dangling()


def _folded(kind: int, a: int, b: int) -> int | None:
    """The node or constant that a gate equals because of a constant it reads; None where it reads none."""
    if a >= 0 and b >= 0:
        return None
    if kind == Gate.ID:
        return a
    if kind == Gate.NOT:
        return TRUE if a == FALSE else FALSE
    constant, other = (a, b) if a < 0 else (b, a)
    decisive = FALSE if kind == Gate.AND else TRUE
    return decisive if constant == decisive else other
