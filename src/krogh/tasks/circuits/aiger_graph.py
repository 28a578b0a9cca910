"""And-inverter graphs: what an AIGER file holds, and how circuits become graphs and graphs circuits.

Variables are numbered 1..I for inputs and I+1.. for AND gates, each after what it reads. The literal 2v is variable v,
2v + 1 its negation, and 0 and 1 are false and true.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from krogh.tasks.circuits.circuit import CONSTANTS, FALSE, TRUE, Circuit, Gate


class AndGraph(NamedTuple):
    """`ands` int64 [A, 2] are the literals that gates read, the larger first; `outputs` int64 are literals too.

    `given` int64 [A] are the literals that the gates themselves have in a file; None where they are numbered in order.
    """

    inputs: int
    ands: np.ndarray
    outputs: np.ndarray
    given: np.ndarray | None = None


def circuit_of(graph: AndGraph, name: str, input_names: tuple[str, ...], output_names: tuple[str, ...]) -> Circuit:
    """AND gates in the graph's order, each followed by a NOT gate where some reader wants its negation."""
    m, count = graph.inputs, len(graph.ands)
    literals = np.concatenate([graph.ands.ravel(), graph.outputs])
    negated = np.zeros(m + count + 1, bool)
    negated[literals[(literals & 1 == 1) & (literals > 1)] >> 1] = True
    # The node of each literal: first the inputs, then the NOT gates of inputs, then every AND with its NOT.
    node = np.empty(2 * (m + count + 1), np.int64)
    node[0], node[1] = FALSE, TRUE
    node[2 : 2 * m + 2 : 2] = np.arange(m)
    flipped = np.flatnonzero(negated[: m + 1])
    node[2 * flipped + 1] = m + np.arange(len(flipped))
    extra = negated[m + 1 :].astype(np.int64)
    mine = m + len(flipped) + np.arange(count) + np.cumsum(extra) - extra
    node[2 * m + 2 :: 2] = mine
    node[2 * m + 3 :: 2] = mine + 1  # read only where there is a NOT gate
    gates = len(flipped) + count + int(extra.sum())
    kinds = np.full(gates, Gate.NOT, np.int8)
    parents = np.empty((gates, 2), np.int64)
    parents[: len(flipped)] = (flipped - 1)[:, None]
    kinds[mine - m] = Gate.AND
    parents[mine - m] = node[graph.ands]
    followed = mine[extra == 1]
    parents[followed - m + 1] = followed[:, None]
    return Circuit(name, m, kinds, parents, tuple(node[graph.outputs].tolist()), input_names, output_names)


def and_graph(circuit: Circuit) -> AndGraph:
    """A circuit's AND and OR gates as AND gates, in order; NOT and ID gates become edges."""
    literal = [0] * (circuit.nodes + CONSTANTS)
    literal[FALSE], literal[TRUE] = 0, 1
    literal[: circuit.inputs] = range(2, 2 * circuit.inputs + 2, 2)
    ands: list[tuple[int, int]] = []
    kinds = circuit.kinds.tolist()
    following = 2 * circuit.inputs + 2
    for place, (first, second) in enumerate(circuit.parents.tolist()):
        one, other, kind = literal[first], literal[second], kinds[place]
        if kind == Gate.ID:
            found = one
        elif kind == Gate.NOT:
            found = one ^ 1
        else:
            flip = int(kind == Gate.OR)  # a or b = not (not a and not b)
            one, other = one ^ flip, other ^ flip
            ands.append((one, other) if one >= other else (other, one))
            found = following + flip
            following += 2
        literal[circuit.inputs + place] = found
    outputs = np.array([literal[node] for node in circuit.outputs], np.int64)
    return AndGraph(circuit.inputs, np.array(ands, np.int64).reshape(-1, 2), outputs)
