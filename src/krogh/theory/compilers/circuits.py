"""Circuits as ReLU networks: a module of two layers for every layer of gates (SM paper, Lemma B.1, Proposition B.2).

    gate        row of W_1          b_1    W_2    b_2    1-norm
    AND(a,b)    +1 at a, +1 at b    -1      1      0        4
    OR(a,b)     -1 at a, -1 at b     1     -1      1        5
    NOT(a)      -1 at a              1      1      0        3
    ID(a)       +1 at a              0      1      0        2

Layer i + 1 of the circuit is f(h) = φ(W_2 φ(W_1 h + b_1) + b_2), W_2 diagonal. With correction each is followed by
rounding (`rounding`), and z ↦ 2z - 1 ends the network (1-norm 3 for each output): F(x) = 2G(x) - 1.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import scipy.sparse as sparse
from numpy.typing import ArrayLike

from krogh.errors import require, require_integer
from krogh.tasks.circuits import Circuit, Gate, Layer, LayeredCircuit, layered
from krogh.tasks.circuits.evaluation import WORD, pack, unpack
from krogh.theory.compilers.gate_tables import computes
from krogh.theory.compilers.networks import Affine, Array, Module, ReluNetwork
from krogh.theory.compilers.rounding import rounding_layers

# By the value of a gate's kind: ID, NOT, AND, OR.
INPUT_WEIGHT = np.array([1.0, -1.0, 1.0, -1.0])
INPUT_BIAS = np.array([0.0, 1.0, -1.0, 1.0])
OUTPUT_WEIGHT = np.array([1.0, 1.0, 1.0, -1.0])
OUTPUT_BIAS = np.array([0.0, 0.0, 0.0, 1.0])

GATE_COST = {Gate.ID: 2.0, Gate.NOT: 3.0, Gate.AND: 4.0, Gate.OR: 5.0}
"""1-norm of a gate's parameters."""
WORDS_AT_ONCE = 1 << 20
"""Words of one layer that are held at once: 8 MiB."""
OUTPUT_COST = 3.0
"""1-norm of z ↦ 2z - 1."""


@dataclass(frozen=True, eq=False)
class CompiledCircuit:
    """A network that computes 2G - 1 for a circuit G.

    `circuit` is G in layers, those that deepen it among them: gate module i of the network computes its layer i + 2.
    `source` is what was compiled.
    """

    network: ReluNetwork
    circuit: LayeredCircuit
    source: Circuit | LayeredCircuit
    correction: bool

    @property
    def statement(self) -> str:
        """What the network satisfies, in a sentence."""
        q, rounding = self.circuit.q, "with" if self.correction else "without"
        return (
            f"F(x) = 2·G(x) - 1 exactly for all x in {{0,1}}^{self.circuit.inputs}, G = {self.circuit.name!r} in "
            f"{q} layers, {rounding} correction"
        )

    @property
    def size(self) -> dict[str, float]:
        """Width, depth, parameters and 1-norm of the network, and q, r, s of the layered circuit."""
        return {
            "width": self.network.width,
            "depth": self.network.depth,
            "parameters": self.network.parameters,
            "one_norm": self.network.one_norm,
            "q": self.circuit.q,
            "r": self.circuit.r,
            "s": self.circuit.s,
        }

    @cached_property
    def proved(self) -> bool:
        """Whether every unit, case by case, has been found to compute its gate: then F = 2G - 1 on all inputs."""
        return computes(self.network, self.circuit)

    def run(self, x: ArrayLike) -> Array:
        """F on inputs [batch, m]: [batch, outputs], ±1 on binary inputs.

        Binary inputs of a network whose units are `proved` are run as bits, 64 to a word; any other ones, and what
        `network.run` is given, as the floating-point numbers they are. The results are the same.
        """
        given = self.network.checked(x)
        if not (self.proved and np.isin(given, (0.0, 1.0)).all()):
            return self.network.run(given)
        found = np.empty((len(given), self.network.outputs))
        size = WORD * max(1, WORDS_AT_ONCE // self.circuit.r)
        for start in range(0, len(given), size):
            chunk = given[start : start + size] == 1.0
            *_, last = self.circuit.streamed(pack(chunk))
            found[start : start + size] = 2.0 * unpack(last[list(self.circuit.output)], len(chunk)) - 1.0
        return found

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write the weights as safetensors, with the statement in the header (`ReluNetwork.load` reads them)."""
        return self.network.save(path, {"statement": self.statement, "size": self.size})


def compile_circuit(
    circuit: Circuit | LayeredCircuit,
    *,
    width: int | None = None,
    depth: int | None = None,
    correction: bool = True,
    dangling: str = "refuse",
    placement: str = "fewest",
) -> CompiledCircuit:
    """A ReLU network with F(x) = 2G(x) - 1 on all binary x, for each output.

    The network needs width 2r' with correction and r' without (r' the most gates in a layer after the inputs), and
    depth d = 4(q-1) or 2(q-1) hidden layers; it may have any larger `width` and `depth`. Depth is filled up with
    modules that hand the outputs on, corrected as the others (1-norm 11 for each and each output), and with single
    layers for what is left over (1-norm 1). `dangling` and `placement` are those of `layered`.
    """
    source = circuit
    if isinstance(circuit, Circuit):
        circuit = layered(circuit, dangling=dangling, placement=placement)
    step = 4 if correction else 2
    needed = step * (circuit.q - 1)
    if depth is not None:
        require_integer("depth", depth, 1)
        require(
            depth >= needed,
            f"a circuit of q={circuit.q} layers needs depth {needed} {'with' if correction else 'without'} correction; "
            f"got depth={depth} (try {needed} or more)",
        )
        circuit = deepened(circuit, (depth - needed) // step)
    layers: list[Affine] = []
    modules: list[Module] = []
    before = circuit.inputs
    rounding = {size: rounding_layers(size) for size in {len(layer) for layer in circuit.layers} if correction}
    written: dict[tuple[int, int], tuple[Affine, Affine]] = {}  # a layer that comes again is written once
    for layer in circuit.layers:
        key = id(layer), before
        if key not in written:
            written[key] = gate_layers(layer, before)
        layers += written[key]
        modules.append(Module("gates", slice(len(layers) - 2, len(layers))))
        if correction:
            layers += rounding[len(layer)]
            modules.append(Module("round", slice(len(layers) - 2, len(layers))))
        before = len(layer)
    layers.append(_output_layer(circuit))
    modules.append(Module("linear", slice(len(layers) - 1, len(layers))))
    network = ReluNetwork(tuple(layers), tuple(modules)).padded(width, depth)
    return CompiledCircuit(network, circuit, source, correction)


def gate_layers(layer: Layer, before: int) -> tuple[Affine, Affine]:
    """(W_1, b_1) and (W_2, b_2) of a layer of gates that reads `before` coordinates."""
    r, kinds = len(layer), layer.kinds.astype(np.int64)
    rows = np.arange(r)
    pairs = kinds >= Gate.AND
    weight = INPUT_WEIGHT[kinds]
    # A gate that reads the same place twice has both entries there added: a sparse matrix does so by itself.
    entries = np.concatenate([weight, weight[pairs]])
    places = (np.concatenate([rows, rows[pairs]]), np.concatenate([layer.first, layer.second[pairs]]))
    first = Affine(sparse.csr_array((entries, places), shape=(r, before)), INPUT_BIAS[kinds])
    second = Affine(sparse.csr_array((OUTPUT_WEIGHT[kinds], (rows, rows)), shape=(r, r)), OUTPUT_BIAS[kinds])
    return first, second


def deepened(circuit: LayeredCircuit, layers: int) -> LayeredCircuit:
    """The circuit with so many more layers of ID gates, which hand its outputs on."""
    require_integer("layers", layers, 0)
    if not layers:
        return circuit
    outputs, places = np.unique(circuit.output, return_inverse=True)
    identity = np.zeros(len(outputs), np.int8)
    select = Layer(identity, outputs, outputs)
    same = Layer(identity, np.arange(len(outputs)), np.arange(len(outputs)))
    return LayeredCircuit(
        circuit.name,
        circuit.inputs,
        (*circuit.layers, select, *[same] * (layers - 1)),
        tuple(places.tolist()),
        circuit.input_names,
        circuit.output_names,
    )


def _output_layer(circuit: LayeredCircuit) -> Affine:
    count = len(circuit.output)
    places = (np.arange(count), np.array(circuit.output))
    weight = sparse.csr_array((np.full(count, 2.0), places), shape=(count, len(circuit.layers[-1])))
    return Affine(weight, np.full(count, -1.0))
