"""Layered circuits G_{q,r,s}: layer 1 is the inputs, and gates of a layer read the layer before (SM paper, section 3).

`layered` makes one of any circuit: a signal that is read further down is handed on by ID gates, one a layer, which all
its readers share. As in the paper inputs count as gates and as a layer, for q, for r and for s. Constants are worked
out beforehand by `without_constants`:

    AND(a, FALSE) = FALSE    AND(a, TRUE) = a     NOT(FALSE) = TRUE
    OR(a, TRUE) = TRUE       OR(a, FALSE) = a     ID(constant) = constant

An output that is a constant itself is written in gates, FALSE = AND(x, NOT x) and TRUE = OR(x, NOT x) for the first
input x; a circuit without inputs is given one for that.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from krogh.errors import KroghError, require, require_integer, unknown
from krogh.programs.budgets import CIRCUIT
from krogh.programs.circuits.circuit import (
    CONSTANTS,
    FALSE,
    TRUE,
    Circuit,
    Gate,
    as_bits,
    checked_kinds,
    checked_names,
    checked_places,
    combine,
    counted,
)

PLACEMENTS = ("fewest", "early", "late")


@dataclass(frozen=True, eq=False)
class Layer:
    """Gates side by side: kinds int8 [r], and the places in the layer before that they read, first, second int32 [r].

    For ID and NOT both are the same place.
    """

    kinds: Any
    first: Any
    second: Any

    def __post_init__(self) -> None:
        kinds = checked_kinds(self.kinds)
        first, second = (np.array(places).astype(np.int32).reshape(-1) for places in (self.first, self.second))
        same = len(kinds) == len(first) == len(second) > 0
        require(
            same,
            f"a layer lists kinds, first and second of one gate or more; got {len(kinds)}, {len(first)}, {len(second)}",
        )
        single = (kinds <= Gate.NOT) & (first != second)
        for place in np.flatnonzero(single)[:1]:
            raise KroghError(
                f"gate {place} of a layer is {Gate(kinds[place]).name}, which reads one gate; got two, {first[place]} "
                f"and {second[place]} (write it twice)"
            )
        for name, value in (("kinds", kinds), ("first", first), ("second", second)):
            value.flags.writeable = False
            object.__setattr__(self, name, value)

    def __len__(self) -> int:
        return len(self.kinds)

    def __call__(self, values: np.ndarray) -> np.ndarray:
        """The layer's values from those of the layer before, [r before, batch] to [r, batch]; words or truth values."""
        found = values[self.first]
        for kind in (Gate.NOT, Gate.AND, Gate.OR):
            mine = np.flatnonzero(self.kinds == kind)
            found[mine] = combine(kind, found[mine], values[self.second[mine]])
        return found


@dataclass(frozen=True, eq=False, repr=False)
class LayeredCircuit:
    """Layers 2..q of a circuit of m inputs (layer 1 is the inputs themselves), and its outputs' places in the last."""

    name: str
    inputs: int
    layers: tuple[Layer, ...]
    output: tuple[int, ...]
    input_names: tuple[str, ...] = ()
    output_names: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        require_integer("inputs", self.inputs, 1)
        require(self.layers, f"the layered circuit {self.name!r} needs a layer of gates after its inputs (depth q ≥ 2)")
        before = self.inputs
        for number, layer in enumerate(self.layers, start=2):
            for places in (layer.first, layer.second):
                for gate in np.flatnonzero((places < 0) | (places >= before))[:1]:
                    raise KroghError(
                        f"gate {gate} of layer {number} of {self.name!r} reads gate {places[gate]} of layer "
                        f"{number - 1}, whose gates are 0..{before - 1}"
                    )
            before = len(layer)
        output = checked_places("output", self.output)
        require(output, f"the last layer of {self.name!r} has no output gate; name at least one")
        for place in output:
            require(
                0 <= place < before,
                f"the last layer of {self.name!r} has the gates 0..{before - 1}; got the output {place}",
            )
        object.__setattr__(self, "output", output)
        object.__setattr__(self, "input_names", checked_names("input", self.input_names, self.inputs, "x"))
        object.__setattr__(self, "output_names", checked_names("output", self.output_names, len(output), "y"))

    def __repr__(self) -> str:
        sizes = f"q={self.q}, r={self.r}, s={self.s}, {counted(len(self.output), 'output')}"
        return f"<LayeredCircuit {self.name!r}: {sizes}>"

    @property
    def q(self) -> int:
        """Depth: how many layers, the inputs' among them."""
        return len(self.layers) + 1

    @cached_property
    def r(self) -> int:
        """Width: the most gates in a layer, the inputs' among them."""
        return max(self.inputs, *(len(layer) for layer in self.layers))

    @property
    def s(self) -> int:
        """Size: how many gates, the inputs among them."""
        return self.inputs + self.gates

    @cached_property
    def gates(self) -> int:
        """How many gates, the inputs not among them."""
        return sum(len(layer) for layer in self.layers)

    def kind_counts(self) -> dict[str, int]:
        """How many gates of each kind."""
        counts = np.bincount(np.concatenate([layer.kinds for layer in self.layers]), minlength=len(Gate))
        return {kind.name: int(counts[kind]) for kind in Gate}

    def values(self, bits: Any) -> list[np.ndarray]:
        """Each layer's values on inputs [batch, m]: bool [batch, r_i] for layers 1..q, the inputs first."""
        given = as_bits(bits, self.inputs, self.name)
        return [values.T for values in self.streamed(given.T)]

    def streamed(self, values: np.ndarray) -> Iterator[np.ndarray]:
        """The same for one layer after the other, [r_i, batch]; words of 64 inputs serve as well as truth values."""
        yield values
        for layer in self.layers:
            values = layer(values)
            yield values

    def last(self, values: np.ndarray) -> np.ndarray:
        """The values of the last layer alone, [r_q, batch], in memory for the widest two layers.

        ID gates, which are most of a deep circuit, stand for the row of what they read: only the others are computed.
        """
        rows = np.empty((2 * self.r, values.shape[1]), values.dtype)
        rows[: self.inputs] = values
        row = np.arange(self.inputs)  # of each gate of the layer
        for layer in self.layers:
            computed = np.flatnonzero(layer.kinds)
            following = row[layer.first]
            if len(computed):
                free = np.ones(len(rows), bool)
                free[row] = False
                fresh = np.flatnonzero(free)[: len(computed)]
                kinds, second = layer.kinds[computed], row[layer.second[computed]]
                for kind in (Gate.NOT, Gate.AND, Gate.OR):
                    mine = kinds == kind
                    rows[fresh[mine]] = combine(kind, rows[following[computed[mine]]], rows[second[mine]])
                following[computed] = fresh
            row = following
        return rows[row]

    def circuit(self) -> Circuit:
        """The same gates, ID gates among them, as a circuit without layers."""
        starts = np.cumsum([0, self.inputs, *(len(layer) for layer in self.layers)])
        pairs = [
            np.stack([layer.first, layer.second], axis=1) + start
            for layer, start in zip(self.layers, starts[:-2], strict=True)
        ]
        return Circuit(
            self.name,
            self.inputs,
            np.concatenate([layer.kinds for layer in self.layers]),
            np.concatenate(pairs),
            tuple(int(starts[-2]) + place for place in self.output),
            self.input_names,
            self.output_names,
        )


def layered(circuit: Circuit, *, dangling: str = "refuse", placement: str = "fewest") -> LayeredCircuit:
    """The circuit in layers, with ID gates where a signal is read further down; outputs are handed on to the last.

    Constants are folded away first. Gates that no output depends on are refused, or dropped with dangling="drop".
    Gates are placed as early as their parents allow ("early"), as late as their readers allow ("late"; far fewer ID
    gates where many signals come from few, as a multiplier's partial products do), or as the better of both ("fewest").
    The depth q is the same.
    """
    if dangling not in ("refuse", "drop"):
        raise unknown("treatment of dangling gates", str(dangling), ("refuse", "drop"))
    if placement not in PLACEMENTS:
        raise unknown("placement", str(placement), PLACEMENTS)
    plain = without_constants(circuit.settled(dangling)).without_dangling()
    earliest = plain.levels[: plain.nodes].astype(np.int64)
    q = max(2, int(earliest[list(plain.outputs)].max()))
    levels = [earliest] if placement != "late" else []
    levels += [_latest(plain, q)] if placement != "early" else []
    spans = [(level, _last_read(plain, q, level)) for level in levels]
    return _with_copies(plain, q, *min(spans, key=lambda span: int((span[1] - span[0]).sum())))


def _last_read(plain: Circuit, q: int, level: np.ndarray) -> np.ndarray:
    """The last layer in which each node is read from, or stands as an output."""
    last = level.copy()
    np.maximum.at(last, plain.parents.ravel(), np.repeat(level[plain.inputs :], 2) - 1)
    last[list(plain.outputs)] = q
    return last


def _latest(plain: Circuit, q: int) -> np.ndarray:
    """The latest layer of every node: inputs in 1, outputs by q, every other before its earliest reader."""
    latest = [q] * plain.nodes
    first, second = plain.parents[:, 0].tolist(), plain.parents[:, 1].tolist()
    for place in range(plain.gates - 1, -1, -1):
        before = latest[plain.inputs + place] - 1
        for node in (first[place], second[place]):
            if latest[node] > before:
                latest[node] = before
    latest[: plain.inputs] = [1] * plain.inputs
    return np.array(latest, np.int64)


def _with_copies(plain: Circuit, q: int, level: np.ndarray, last: np.ndarray) -> LayeredCircuit:
    """Node v stands in the layers level[v]..last[v], first itself and then as ID gates; within a layer by number.

    Layers are written one after the other, so that beside them only a few numbers for each node are held.
    """
    m = plain.inputs
    CIRCUIT["layers"].check(q, repr(plain.name))
    total = int((last - level + 1).sum())
    CIRCUIT["gates in layers"].check(
        total - m,
        f"{plain.name!r} has {plain.gates:,} gates; with those that hand signals through its {q:,} layers",
        "a shallower circuit needs fewer",
    )
    order = np.argsort(level, kind="stable")
    ends = np.cumsum(np.bincount(level, minlength=q + 1))
    place = np.full(plain.nodes, -1, np.int32)  # of each node in the layer that was written last
    here = order[: ends[1]]
    place[here] = np.arange(len(here))
    layers = []
    for number in range(2, q + 1):
        new = order[ends[number - 1] : ends[number]]
        nodes = np.sort(np.concatenate([here[last[here] >= number], new]))
        first = place[nodes]
        second, kinds = first.copy(), np.zeros(len(nodes), np.int8)
        mine = np.searchsorted(nodes, new)
        kinds[mine] = plain.kinds[new - m]
        first[mine], second[mine] = place[plain.parents[new - m]].T
        layers.append(Layer(kinds, first, second))
        place[nodes] = np.arange(len(nodes))
        here = nodes
    outputs = tuple(int(place[output]) for output in plain.outputs)
    return LayeredCircuit(plain.name, m, tuple(layers), outputs, plain.input_names, plain.output_names)


def without_constants(circuit: Circuit) -> Circuit:
    """A circuit of the same outputs in which no gate reads a constant, and no output is one.

    Without inputs all are constants, and the circuit is given one input to write them with.
    """
    circuit = circuit.with_an_input()
    if not (circuit.parents < 0).any() and min(circuit.outputs) >= 0:
        return circuit
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
    kinds_left = np.array(remaining, np.int8)
    folded_circuit = dataclasses.replace(
        circuit, kinds=kinds_left, parents=parents, outputs=tuple(outputs), gate_names=()
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
