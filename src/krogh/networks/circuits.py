"""Circuits as ReLU networks: a module of two layers for every layer of gates (SM paper, Lemma B.1, Proposition B.2).

    gate        row of W_1          b_1    W_2    b_2    1-norm
    AND(a,b)    +1 at a, +1 at b    -1      1      0        4
    OR(a,b)     -1 at a, -1 at b     1     -1      1        5
    NOT(a)      -1 at a              1      1      0        3
    ID(a)       +1 at a              0      1      0        2

Layer i + 1 of the circuit is f(h) = φ(W_2 φ(W_1 h + b_1) + b_2), W_2 diagonal. With correction each is followed by
rounding (`relu`), and z ↦ 2z - 1 ends the network (1-norm 3 for each output): F(x) = 2G(x) - 1.

A check compares the network with the circuit's own evaluation on words of 64 inputs, which knows nothing of layers or
weights. Besides, `computes` works out from the weights alone what every unit does. A gate reads two coordinates, so on
binary inputs its unit has four cases. Where all cases of all units return exactly the gate's value, by induction over
the layers so does the network on every one of the 2^m inputs: a proof, of which each step is executed in the arithmetic
that the network runs in.
"""

from __future__ import annotations

import base64
import itertools
import time
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from threading import Lock
from typing import Any

import numpy as np
import scipy.sparse as sparse
from numpy.typing import ArrayLike

from krogh.errors import require, require_integer
from krogh.networks.compiled import Attacked, Compiled, Decision, ReadOut, Sizes, Subject, Work, labels_of, log_norm
from krogh.networks.handmade import Checked, handmade
from krogh.networks.margins.circuits import certify_circuit
from krogh.networks.margins.gradients import Start, least_flip
from krogh.networks.relu import (
    Affine,
    Array,
    Kind,
    Module,
    ReluNetwork,
    WrittenLayers,
    circuit_output,
    dense_parameters,
    over_chunks,
    rounding_layers,
)
from krogh.programs.budgets import CIRCUIT
from krogh.programs.circuits.circuit import WORD, Circuit, Gate, all_inputs, as_bits, evaluate, pack, unpack
from krogh.programs.circuits.layers import Layer, LayeredCircuit, layered
from krogh.theory.programs.margin import Output
from krogh.theory.programs.theorem import Certificate

# By the value of a gate's kind: ID, NOT, AND, OR.
INPUT_WEIGHT = np.array([1.0, -1.0, 1.0, -1.0])
INPUT_BIAS = np.array([0.0, 1.0, -1.0, 1.0])
OUTPUT_WEIGHT = np.array([1.0, 1.0, 1.0, -1.0])
OUTPUT_BIAS = np.array([0.0, 0.0, 0.0, 1.0])

FIRST = np.array([0.0, 1.0, 0.0, 1.0])
SECOND = np.array([0.0, 0.0, 1.0, 1.0])
"""The four cases of a gate's parents."""

WORDS_AT_ONCE = 1 << 23
"""Words of the widest layer that are held at once: 64 MiB, and as many for the layer after it."""
MOST_LISTED = 16
"""Circuits of at most so many inputs are checked on all of them."""
RANDOM_INPUTS = 100_000
MOST_WORK = 1 << 30
"""Gates times inputs that are run in floating point where the units have been proved right one by one: seconds."""
MOST_BITS = 1 << 28
"""Of random inputs, all together: a quarter of a gigabyte."""
AT_ONCE = 1 << 15
"""Inputs whose truth is worked out at once, fewer of them where a layer is very wide."""
MOST_WRITTEN = 1 << 20
"""Gates of a layered circuit up to which all weights are kept; those of larger ones are written when they are read."""
ROUNDINGS_KEPT = 64
"""Of those, by the number of gates."""
MOST_STARTS, MOST_TRIED = 24, 1024
"""Descents for one decision, and gates of a layer among which they start."""


@handmade("circuit")
@dataclass(frozen=True, eq=False)
class CompiledCircuit(Compiled):
    """A network that computes 2G - 1 for a circuit G.

    `circuit` is G in layers, those that deepen it among them: gate module i of the network computes its layer i + 2.
    `source` is what was compiled.
    """

    network: ReluNetwork
    circuit: LayeredCircuit
    source: Circuit | LayeredCircuit
    correction: bool

    @property
    def name(self) -> str:
        """The circuit's."""
        return self.circuit.name

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
        """Layers, width, depth, parameters and 1-norm of the network, and q, r, s of the layered circuit."""
        return {
            "layers": len(self.network.layers),
            "width": self.network.width,
            "depth": self.network.depth,
            "parameters": self.network.parameters,
            "one_norm": self.network.one_norm,
            "q": self.circuit.q,
            "r": self.circuit.r,
            "s": self.circuit.s,
            "nonzeros": self.network.nonzeros,
        }

    @cached_property
    def plain(self) -> Circuit:
        """What was compiled, without layers; where it has no inputs, with the one that the network reads in vain."""
        return self.source.circuit() if isinstance(self.source, LayeredCircuit) else self.source.with_an_input()

    @property
    def parameters(self) -> Mapping[str, sparse.csr_array | Array]:
        """Weights and biases by the names of `krogh.networks.relu.dense_parameters`."""
        return self.network.named_weights

    @cached_property
    def proved(self) -> bool:
        """Whether every unit, case by case, has been found to compute its gate: then F = 2G - 1 on all inputs."""
        return computes(self.network, self.circuit)

    def run(self, x: ArrayLike, /) -> Array:
        """F on inputs [batch, m]: [batch, outputs], ±1 on binary inputs.

        Binary inputs of a network whose units are `proved` are run as bits, 64 to a word; any other ones, and what
        `network.run` is given, as the floating-point numbers they are. The results are the same.
        """
        given = self.network.checked(x)
        if not (self.proved and np.isin(given, (0.0, 1.0)).all()):
            return self.network.run(given)
        outputs = np.empty((len(given), self.network.outputs))
        for start in range(0, len(given), self._at_once):
            rows = slice(start, start + self._at_once)
            outputs[rows] = 2.0 * self._gates(given[rows] == 1.0) - 1.0
        return outputs

    @property
    def _at_once(self) -> int:
        return min(AT_ONCE, WORD * max(1, WORDS_AT_ONCE // self.circuit.r))

    def _gates(self, bits: np.ndarray) -> np.ndarray:
        """The outputs of the layered circuit on inputs [batch, m], as words of 64: bool [batch, outputs]."""
        return unpack(self.circuit.last(pack(bits))[list(self.circuit.output)], len(bits))

    def check(self, inputs: int | Any = None, seed: int = 0) -> Checked:
        """Compare F with 2G - 1, and every unit with its gate.

        On all 2^m inputs for m ≤ 16 and on 100,000 random ones beyond (fewer of very many bits); or on as many random
        ones as `inputs` says, or on `inputs` [batch, m] themselves. The details say whether the units are right one by
        one, whatever the input ("proved"), and how many inputs went through the network in floating point ("floats"):
        where the units are proved, the rest of a large check is done on words of bits, which then is the same.
        """
        given, exhaustive = self._inputs(inputs, seed)
        most = max(1, MOST_WORK // self.circuit.gates) if self.proved else len(given)
        floats = min(len(given), most)
        worst, lock = 0.0, Lock()

        def note(difference: float) -> None:
            nonlocal worst
            with lock:  # a NaN counts as worse than anything
                worst = max(worst, difference if difference == difference else np.inf)

        for start in range(0, len(given), self._at_once):
            block = given[start : start + self._at_once]
            truth = evaluate(self.plain, block)
            if not np.array_equal(self._gates(block), truth):
                note(2.0)

            def compare(rows: slice, block: np.ndarray = block, truth: np.ndarray = truth) -> None:
                _compare(self, block[rows], truth[rows], note)

            over_chunks(compare, min(len(block), max(0, floats - start)), self.network.chunk, self.network.workers)
        which = f"all {len(given):,} inputs" if exhaustive else f"{len(given):,} random inputs"
        scope = f"outputs and gates on {which}{', each unit proved to be its gate' if self.proved else ''}"
        details = {"proved": self.proved, "floats": floats}
        return Checked(worst == 0.0, len(given), exhaustive, worst, scope, details)

    def _inputs(self, inputs: Any, seed: int) -> tuple[np.ndarray, bool]:
        m = self.circuit.inputs
        if inputs is None and m <= MOST_LISTED:
            return all_inputs(m), True
        if inputs is None or np.ndim(inputs) == 0:
            most = max(1, MOST_BITS // m)
            count = min(RANDOM_INPUTS, most) if inputs is None else inputs
            require_integer("inputs", count, 1)
            require(count <= most, f"{count:,} random inputs of {m:,} bits are too many at once (try inputs={most})")
            return np.random.default_rng(seed).integers(0, 2, (count, m), np.uint8).astype(bool), False
        return as_bits(inputs, m, self.circuit.name), False

    def certificate(self, inputs: ArrayLike | None = None) -> Certificate:
        """For all binary inputs, or for the `inputs` [batch, m] given, where it may be larger."""
        return certify_circuit(self, None if inputs is None else np.atleast_2d(np.asarray(inputs, np.float64)))

    def subject(self, inputs: Any, output: int = 0) -> Subject:
        """The network for bits [batch, m]."""
        require_integer("output", output, 0, self.network.outputs - 1)
        rows = np.atleast_2d(np.asarray(inputs, np.float64))
        return Subject(
            _one_output(output), dense_parameters(self.network), tuple(rows), labels_of(self.run(rows)[:, output])
        )

    def decisions(self) -> list[Decision]:
        """All zeros, all ones and a random input, in turn for up to four outputs."""
        m, outputs = self.circuit.inputs, self.network.outputs
        random = np.random.default_rng(0).integers(0, 2, m)
        rows = np.unique(np.stack([np.zeros(m, int), np.ones(m, int), random]), axis=0)
        names = self.circuit.output_names
        decisions = []
        for place in range(max(len(rows), min(outputs, 4))):
            row, output = rows[place % len(rows)], place % min(outputs, 4)
            shown = "".join(map(str, row[:32])) + ("…" if m > 32 else "")
            decisions.append(Decision(row[None, :], shown if outputs == 1 else f"{shown} ({names[output]})", output))
        return decisions

    def read_out(self, decision: Decision) -> ReadOut:
        """2z - 1 of the output's gate."""
        return ReadOut(*self.network.last_layer(np.ravel(decision.inputs), decision.output))

    def descent(self, decision: Decision, deadline: float) -> Attacked | None:
        """The smallest of the descents from critical gates (`krogh.networks.margins.gradients`); None if very large."""
        if isinstance(self.network.layers, WrittenLayers):
            return None
        (row,) = np.atleast_2d(np.asarray(decision.inputs, np.float64))
        (label,) = labels_of(self.network.run(row[None, :])[:, decision.output])
        starts = self._critical(row[None, :] == 1.0, decision.output, deadline)
        found = least_flip(self.network, row, label, output=decision.output, starts=starts, deadline=deadline)
        return Attacked(decision.shown, label, found.radius)

    def _critical(self, bits: np.ndarray, output: int, deadline: float) -> Iterator[Start | None]:
        """Gates whose flip alone changes an output on an input [1, m], those beside many ones first; and no gate.

        One gate of each layer, then another of each, up to `MOST_STARTS`; among at most `MOST_TRIED` of a layer.
        """
        values = list(self.circuit.streamed(bits.T))
        step, last, target = 4 if self.correction else 2, len(self.circuit.layers) - 1, self.circuit.output[output]
        yield Start(step * last, target, not values[-1][target, 0])
        order = sorted(range(last), key=lambda place: -int(values[place].sum()))
        critical: dict[int, np.ndarray] = {}
        yielded = 0
        for turn, place in itertools.product(range(MOST_STARTS), order):
            if place not in critical:
                tried = np.arange(len(self.circuit.layers[place]))[:MOST_TRIED]
                critical[place] = tried[self._flips(values[place + 1], tried, place, target)]
            if len(critical[place]) > turn:
                unit = int(critical[place][turn])
                yield Start(step * place, unit, not values[place + 1][unit, 0])
                if not yielded:
                    yield None
                yielded += 1
            if yielded >= MOST_STARTS or time.monotonic() >= deadline:
                return

    def _flips(self, values: np.ndarray, gates: np.ndarray, place: int, target: int) -> np.ndarray:
        """Which of the gates of layer `place`, whose values are [r, 1], change gate `target` of the last if flipped."""
        flipped = np.repeat(values, len(gates), axis=1)
        flipped[gates, np.arange(len(gates))] ^= True
        words = pack(np.concatenate([values, flipped], axis=1).T)
        for layer in self.circuit.layers[place + 1 :]:
            words = layer(words)
        before, *after = unpack(words[[target]], len(gates) + 1)[:, 0]
        return np.array(after, bool) != before

    @property
    def work(self) -> Work:
        """One pass through all layers, as narrow as they are."""
        shapes = self.network.shapes
        return Work(len(shapes), sum(out * (into + 1) for out, into in shapes))

    def sizes(self, length: int | None = None) -> Sizes:
        """Those of the ReLU network."""
        relu = self.network
        product = log_norm(*(layer.weight for layer in relu.layers))
        return Sizes(relu.one_norm, relu.parameters, relu.width, relu.depth, product)

    def recipe(self) -> dict[str, Any]:
        """The circuit in its layers, which are written once however often they come, and the network's shape."""
        distinct = list({id(layer): layer for layer in self.circuit.layers}.values())
        numbers = {id(layer): place for place, layer in enumerate(distinct)}
        names = ("name", "inputs", "output", "input_names", "output_names")
        circuit = {name: getattr(self.circuit, name) for name in names}
        circuit["gates"] = [
            [_text(getattr(layer, part)) for part in ("kinds", "first", "second")] for layer in distinct
        ]
        circuit["layers"] = [numbers[id(layer)] for layer in self.circuit.layers]
        shape = {"width": self.network.width, "depth": self.network.depth, "correction": self.correction}
        return {"circuit": circuit, **shape}

    @classmethod
    def from_recipe(cls, recipe: Mapping[str, Any]) -> CompiledCircuit:
        """The circuit compiled again."""
        described = recipe["circuit"]
        distinct = [Layer(*map(_numbers, parts)) for parts in described["gates"]]
        layers = tuple(distinct[place] for place in described["layers"])
        names = (tuple(described["input_names"]), tuple(described["output_names"]))
        circuit = LayeredCircuit(described["name"], described["inputs"], layers, tuple(described["output"]), *names)
        options = {name: recipe[name] for name in ("width", "depth", "correction")}
        return compile_circuit(circuit, **options)

    def with_parameters(self, parameters: Mapping[str, Any]) -> CompiledCircuit:
        """The same network with other weights."""
        return replace(self, network=self.network.with_layers(parameters))


@lru_cache(maxsize=64)
def _one_output(place: int) -> Output:
    return lambda parameters, x: circuit_output(parameters, x)[place]


def _text(numbers: Any) -> str:
    """Whole numbers as text that is short where there are many of them."""
    return base64.b64encode(zlib.compress(np.asarray(numbers, "<i4").tobytes())).decode()


def _numbers(text: str) -> np.ndarray:
    try:
        return np.frombuffer(zlib.decompress(base64.b64decode(text)), "<i4")
    except zlib.error as cause:
        raise ValueError(f"gates that cannot be read ({cause})") from None


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
    layers for what is left over (1-norm 1). `dangling` and `placement` are those of `layered`. A circuit without
    inputs, whose outputs are constants, is compiled as one of an input that is not used.
    """
    source = circuit
    if isinstance(circuit, Circuit):
        circuit = layered(circuit, dangling=dangling, placement=placement)
    step, needed = 4 if correction else 2, needed_layers(circuit, correction)
    if depth is not None:
        require_integer("depth", depth, 1, max(needed, CIRCUIT["hidden layers"].most))
        require(
            depth >= needed,
            f"a circuit of q={circuit.q} layers needs depth {needed} {'with' if correction else 'without'} correction; "
            f"got depth={depth} (try {needed} or more)",
        )
        more = (depth - needed) // step
        CIRCUIT["gates in layers"].check(
            circuit.gates + more * len(set(circuit.output)), f"{circuit.name!r} with depth={depth}"
        )
        circuit = deepened(circuit, more)
    layers = _layers(circuit, correction)
    starts = range(0, needed_layers(circuit, correction), 2)
    kinds: tuple[Kind, ...] = ("gates", "round") if correction else ("gates",)
    modules = [Module(kinds[place % len(kinds)], slice(at, at + 2)) for place, at in enumerate(starts)]
    modules.append(Module("linear", slice(len(layers) - 1, len(layers))))
    network = ReluNetwork(layers, tuple(modules)).padded(width, depth)
    return CompiledCircuit(network, circuit, source, correction)


def needed_layers(circuit: LayeredCircuit, correction: bool) -> int:
    """Hidden layers of the network: two for each layer of gates, and two for its rounding."""
    return (4 if correction else 2) * (circuit.q - 1)


def _layers(circuit: LayeredCircuit, correction: bool) -> Sequence[Affine]:
    """All layers of the network, written when they are read where there are very many gates.

    Those of a layer of gates that comes again, and the roundings of as many gates, are one object.
    """
    step = 4 if correction else 2
    sizes = [circuit.inputs, *map(len, circuit.layers)]
    shapes: list[tuple[int, int]] = []
    for before, size in itertools.pairwise(sizes):
        shapes += [(size, before), (size, size)]
        shapes += [(2 * size, size), (size, 2 * size)] if correction else []
    shapes.append((len(circuit.output), sizes[-1]))
    large = circuit.gates > MOST_WRITTEN
    rounding = lru_cache(ROUNDINGS_KEPT if large else None)(rounding_layers)
    numbers = {id(layer): number for number, layer in reversed(list(enumerate(circuit.layers)))}

    @lru_cache(1 if large else None)
    def gates(number: int, before: int) -> tuple[Affine, Affine]:
        return gate_layers(circuit.layers[number], before)

    def write(place: int) -> Affine:
        if place == len(shapes) - 1:
            return _output_layer(circuit)
        module, part = divmod(place, step)
        layer = circuit.layers[module]
        return gates(numbers[id(layer)], sizes[module])[part] if part < 2 else rounding(len(layer))[part - 2]

    written = WrittenLayers(shapes, write)
    return written if large else tuple(written)


def gate_layers(layer: Layer, before: int) -> tuple[Affine, Affine]:
    """(W_1, b_1) and (W_2, b_2) of a layer of gates that reads `before` coordinates."""
    r, kinds = len(layer), layer.kinds.astype(np.int64)
    rows = np.arange(r, dtype=np.int32)
    pairs = kinds >= Gate.AND
    # A gate that reads the same place twice has both entries there added: a sparse matrix does so by itself.
    counts = 1 + pairs
    starts = np.concatenate([[0], np.cumsum(counts)]).astype(np.int32)
    places = np.empty(starts[-1], np.int32)
    places[starts[:-1]] = layer.first
    places[starts[1:][pairs] - 1] = layer.second[pairs]
    weight = sparse.csr_array((np.repeat(INPUT_WEIGHT[kinds], counts), places, starts), shape=(r, before))
    diagonal = sparse.csr_array((OUTPUT_WEIGHT[kinds], rows, np.arange(r + 1, dtype=np.int32)), shape=(r, r))
    first, second = Affine(weight, INPUT_BIAS[kinds]), Affine(diagonal, OUTPUT_BIAS[kinds])
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


def _compare(compiled: CompiledCircuit, bits: np.ndarray, truth: np.ndarray, note: Any) -> None:
    """Note how far outputs and units of the network are from the truth and from the gates."""
    network = compiled.network
    values = compiled.circuit.streamed(np.ascontiguousarray(bits.T))
    gates = next(values)
    ends = {module.layers.stop - 1: module.kind for module in network.modules}
    for place, units in enumerate(network.streamed(bits.astype(np.float64))):
        kind = ends.get(place)
        if kind == "gates":
            gates = next(values)
        if kind in ("gates", "round") and not np.array_equal(units, gates):
            note(float(np.max(np.abs(units - gates))))
        if kind == "linear":
            note(float(np.max(np.abs(units - (2.0 * truth.T - 1.0)))))


def computes(network: ReluNetwork, circuit: LayeredCircuit) -> bool:
    """Whether every unit returns its gate's value in all four cases, and every output 2z - 1 of the right gate.

    False as well where a unit reads more than its gate does, so that four cases do not decide.
    """
    layers = iter(circuit.layers)
    tables: Array | None = None  # of the gates of the layer before, still to be rounded or handed on: [gates, cases]
    truth: Array | None = None
    places = np.arange(circuit.inputs)  # which gate of the circuit's last layer each coordinate holds
    for module in network.modules:
        parts = network.layers[module.layers]
        if module.kind == "gates":
            layer = next(layers, None)
            if layer is None or len(parts) != 2 or not _reads_its_gate(parts[0], layer) or not _is_diagonal(parts[1]):
                return False
            truth = gate_values(layer)
            tables = np.maximum(parts[1](_first_layer(parts[0], layer)), 0.0)
            places = np.arange(len(layer))
        elif module.kind == "round":
            if tables is None or not _rounds_each(parts, len(tables)):
                return False
            tables = np.maximum(parts[1](np.maximum(parts[0](tables), 0.0)), 0.0)
        elif module.kind == "pass":
            for part in parts:
                if not _hands_on(part):
                    return False
                places = places[part.weight.indices]
            continue
        else:
            break
        if truth is None or not np.array_equal(tables, truth):
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
    sums = np.zeros((len(counts), 4))
    for place in range(int(counts.max(initial=0))):
        rows = np.flatnonzero(counts > place)
        entries = weight.indptr[rows] + place
        reads_first = weight.indices[entries] == layer.first[rows]
        values = np.where(reads_first[:, None], cases[0][rows], cases[1][rows])
        sums[rows] += weight.data[entries][:, None] * values
    return np.maximum(sums + part.bias[:, None], 0.0)


def _is_diagonal(part: Affine) -> bool:
    rows, columns = part.weight.shape
    return rows == columns and np.array_equal(part.weight.indices, np.arange(rows)) and _singles(part)


def _singles(part: Affine) -> bool:
    return bool(np.all(np.diff(part.weight.indptr) == 1))


def _rounds_each(parts: Sequence[Affine], n: int) -> bool:
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
