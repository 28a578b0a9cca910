"""What a compiled circuit's modules compute, worked out unit by unit from the weights alone.

A gate reads two coordinates, so on binary inputs its unit has four cases. Where all cases of all units return exactly
the gate's value, by induction over the layers so does the network on every one of the 2^m inputs: a proof, of which
each step is executed in the arithmetic that the network runs in.
"""

from __future__ import annotations

import numpy as np

from krogh.tasks.circuits import Gate, Layer, LayeredCircuit
from krogh.theory.compilers.networks import Affine, Array, Module, ReluNetwork

FIRST = np.array([0.0, 1.0, 0.0, 1.0])
SECOND = np.array([0.0, 0.0, 1.0, 1.0])


def computes(network: ReluNetwork, circuit: LayeredCircuit) -> bool:
    """Whether every unit returns its gate's value in all four cases, and every output 2z - 1 of the right gate.

    False as well where a unit reads more than its gate does, so that four cases do not decide.
    """
    layers = iter(circuit.layers)
    tables: Array | None = None  # of the gates of the layer before, still to be rounded or handed on: [gates, cases]
    wanted: Array | None = None
    places = np.arange(circuit.inputs)  # which gate of the circuit's last layer each coordinate holds
    for module in network.modules:
        parts = network.layers[module.layers]
        if module.kind == "gates":
            layer = next(layers, None)
            if layer is None or len(parts) != 2 or not _reads_its_gate(parts[0], layer) or not _is_diagonal(parts[1]):
                return False
            wanted = gate_values(layer)
            tables = _applied(parts[1], _first_layer(parts[0], layer))
            places = np.arange(len(layer))
        elif module.kind == "round":
            if tables is None or not _rounds_each(parts, len(tables)):
                return False
            tables = _applied(parts[1], _applied(parts[0], tables))
        elif module.kind == "pass":
            for part in parts:
                if not _hands_on(part):
                    return False
                places = places[part.weight.indices]
            continue
        else:
            break
        if wanted is None or not np.array_equal(tables, wanted):
            return False
    return next(layers, None) is None and _ends(network, module, circuit, places)


def gate_values(layer: Layer) -> Array:
    """The values 0 and 1 of every gate in the cases (0,0), (1,0), (0,1), (1,1) of its parents: [gates, 4]."""
    first, second = _cases(layer)
    table = np.where(layer.kinds[:, None] == Gate.NOT, 1.0 - first, first)
    table = np.where(layer.kinds[:, None] == Gate.AND, first * second, table)
    return np.where(layer.kinds[:, None] == Gate.OR, np.maximum(first, second), table)


def _cases(layer: Layer) -> tuple[Array, Array]:
    first = np.broadcast_to(FIRST, (len(layer), 4))
    same = layer.first == layer.second  # then the cases in which the two differ do not exist
    return first, np.where(same[:, None], FIRST, SECOND)


def _reads_its_gate(part: Affine, layer: Layer) -> bool:
    weight = part.weight
    if weight.shape[0] != len(layer):
        return False
    row = np.repeat(np.arange(weight.shape[0]), np.diff(weight.indptr))
    return bool(np.all((weight.indices == layer.first[row]) | (weight.indices == layer.second[row])))


def _first_layer(part: Affine, layer: Layer) -> Array:
    """φ(W_1 h + b_1) in the four cases of each row, its terms added in the order in which products add them."""
    weight = part.weight
    counts = np.diff(weight.indptr)
    cases = _cases(layer)
    found = np.repeat(part.bias[:, None], 4, axis=1)
    for place in range(int(counts.max(initial=0))):
        rows = np.flatnonzero(counts > place)
        entries = weight.indptr[rows] + place
        reads_first = weight.indices[entries] == layer.first[rows]
        values = np.where(reads_first[:, None], cases[0][rows], cases[1][rows])
        found[rows] += weight.data[entries][:, None] * values
    return np.maximum(found, 0.0)


def _applied(part: Affine, tables: Array) -> Array:
    found = np.empty((part.weight.shape[0], tables.shape[1]))
    part.into(np.ascontiguousarray(tables), found)
    return np.maximum(found, 0.0)


def _is_diagonal(part: Affine) -> bool:
    rows, columns = part.weight.shape
    return rows == columns and np.array_equal(part.weight.indices, np.arange(rows)) and _singles(part)


def _singles(part: Affine) -> bool:
    return bool(np.all(np.diff(part.weight.indptr) == 1))


def _rounds_each(parts: tuple[Affine, ...], n: int) -> bool:
    """Whether row j of the result depends on coordinate j alone."""
    if len(parts) != 2 or parts[0].weight.shape[1] != n or not _singles(parts[0]):
        return False
    second = parts[1].weight
    row = np.repeat(np.arange(second.shape[0]), np.diff(second.indptr))
    return second.shape[0] == n and np.array_equal(parts[0].weight.indices[second.indices], row)


def _hands_on(part: Affine) -> bool:
    """Whether every row is one coordinate, unchanged."""
    return _singles(part) and bool(np.all(part.weight.data == 1.0)) and not part.bias.any()


def _ends(network: ReluNetwork, module: Module, circuit: LayeredCircuit, places: np.ndarray) -> bool:
    """Whether the last layer is 2z - 1 of the outputs' gates."""
    last = network.layers[-1]
    if module.kind != "linear" or module.layers != slice(network.depth, network.depth + 1) or not _singles(last):
        return False
    right = np.array_equal(places[last.weight.indices], circuit.output)
    return bool(right and np.all(last.weight.data == 2.0) and np.all(last.bias == -1.0))
