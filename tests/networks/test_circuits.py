"""Circuits as networks: F = 2G - 1 exactly, unit by unit, at the size the construction says (Prop B.2, Lemma B.1)."""

from __future__ import annotations

import time
import tracemalloc
from dataclasses import replace

import jax
import numpy as np
import pytest
import scipy.sparse as sparse
from hypothesis import given, settings
from hypothesis import strategies as st

from krogh.errors import KroghError
from krogh.networks import circuits as circuit_checks
from krogh.networks.circuits import (
    compile_circuit,
    computes,
    deepened,
    gate_layers,
    gate_values,
)
from krogh.networks.relu import Affine, WrittenLayers, circuit_output, dense_parameters
from krogh.programs import circuits
from krogh.programs.circuits.circuit import FALSE, TRUE, Circuit, Gate, all_inputs
from krogh.programs.circuits.generators import CircuitBuilder
from krogh.programs.circuits.layers import Layer, LayeredCircuit, layered

quiet = settings(database=None, deadline=None, max_examples=30)

INSTANCE = LayeredCircuit(
    "instance",
    4,
    (
        Layer(
            [Gate.AND, Gate.OR, Gate.NOT, Gate.ID, Gate.AND, Gate.OR],
            [0, 2, 1, 3, 1, 0],
            [1, 3, 1, 3, 2, 2],
        ),
        Layer([Gate.AND], [0], [1]),
    ),
    (0,),
)
"""q = 3 and 7 gates of costs 4 + 5 + 3 + 2 + 4 + 5 and 4: 27, with the last layer 30, with correction 30 + 9·7 = 93."""

GENERATED = {
    "parity": circuits.parity_circuit(7),
    "adder": circuits.adder(4),
    "comparator": circuits.comparator(4),
    "majority": circuits.majority(7),
    "multiplier": circuits.multiplier(3),
    "ladder": circuits.and_ladder(6, 9),
    "random": circuits.random_circuit(6, 6, 9, 0),
    "instance": INSTANCE,
    "negations": Circuit("negations", 3, [Gate.NOT] * 3, [(0, 0), (3, 3), (1, 1)], (4, 5, 0)),
    "same parent twice": Circuit("twice", 1, [Gate.AND, Gate.OR], [(0, 0), (1, 1)], (2,)),
    "constants": Circuit("constants", 2, [Gate.AND], [(0, 1)], (TRUE, FALSE, 2)),
    "wires": Circuit("wires", 3, [], [], (2, 0, 2)),
}

GATE_COST = {"ID": 2.0, "NOT": 3.0, "AND": 4.0, "OR": 5.0}
"""1-norm of a gate's parameters."""


def truth(circuit):
    plain = circuit.circuit() if isinstance(circuit, LayeredCircuit) else circuit
    return 2.0 * circuits.truth_table(plain) - 1.0


@pytest.mark.parametrize("correction", [True, False])
@pytest.mark.parametrize("name", list(GENERATED))
def test_the_network_is_the_circuit(name, correction):
    circuit = GENERATED[name]
    compiled = compile_circuit(circuit, correction=correction)
    x = all_inputs(circuit.inputs).astype(float)
    assert np.array_equal(compiled.network.run(x), truth(circuit))
    found = compiled.check()
    assert found.holds and found.exhaustive and found.details["proved"] and found.largest_error == 0
    assert found.inputs == found.details["floats"] == 2**circuit.inputs


@pytest.mark.parametrize("correction", [True, False])
@pytest.mark.parametrize("name", list(GENERATED))
def test_units_are_gates(name, correction):
    """After every module the activations are the values of the layer's gates."""
    compiled = compile_circuit(GENERATED[name], correction=correction)
    bits = all_inputs(compiled.circuit.inputs)
    values = compiled.circuit.values(bits)
    activations = compiled.network.activations(bits)
    step = 4 if correction else 2
    for number in range(1, compiled.circuit.q):
        after_gates, after_rounding = activations[step * (number - 1) + 1], activations[step * number - 1]
        assert np.array_equal(after_gates, values[number]) and np.array_equal(after_rounding, values[number])


@pytest.mark.parametrize("name", list(GENERATED))
def test_the_one_norm_is_the_sum_of_costs(name):
    """Σ gate costs + 3 for each output, and 9 for each gate with correction."""
    circuit = GENERATED[name]
    plain, corrected = (compile_circuit(circuit, correction=correction) for correction in (False, True))
    deep = plain.circuit
    assert deep.gates == corrected.circuit.gates
    costs = sum(GATE_COST[kind] * count for kind, count in deep.kind_counts().items())
    outputs = 3.0 * len(deep.output)
    assert plain.network.one_norm == costs + outputs
    assert corrected.network.one_norm == pytest.approx(costs + 9 * deep.gates + outputs, rel=1e-13)
    assert len(plain.network.layers) == 2 * (deep.q - 1) + 1
    assert len(corrected.network.layers) == 4 * (deep.q - 1) + 1


def test_the_instance_of_seven_gates():
    assert INSTANCE.q == 3 and INSTANCE.gates == 7
    assert compile_circuit(INSTANCE, correction=False).network.one_norm == 30
    assert compile_circuit(INSTANCE).network.one_norm == pytest.approx(93, rel=1e-14)


def test_the_rows_of_gates():
    layer = Layer([Gate.AND, Gate.OR, Gate.NOT, Gate.ID, Gate.AND, Gate.OR], [0, 1, 2, 0, 1, 2], [1, 2, 2, 0, 1, 2])
    first, second = gate_layers(layer, 3)
    assert first.weight.toarray().tolist() == [
        [1, 1, 0],
        [0, -1, -1],
        [0, 0, -1],
        [1, 0, 0],
        [0, 2, 0],
        [0, 0, -2],
    ]
    assert first.bias.tolist() == [-1, 1, 1, 0, -1, 1]
    assert second.weight.toarray().tolist() == np.diag([1, -1, 1, 1, 1, -1]).tolist()
    assert second.bias.tolist() == [0, 1, 0, 0, 0, 1]


@st.composite
def described(draw):
    m, g = draw(st.integers(1, 4)), draw(st.integers(0, 10))
    kinds = draw(st.lists(st.sampled_from(list(Gate)), min_size=g, max_size=g))
    parents = [(draw(st.integers(-2, m + i - 1)), draw(st.integers(-2, m + i - 1))) for i in range(g)]
    parents = [(a, a) if kind.arity == 1 else (a, b) for kind, (a, b) in zip(kinds, parents, strict=True)]
    outputs = tuple(draw(st.lists(st.integers(-2, m + g - 1), min_size=1, max_size=3)))
    return "drawn", m, [kind.value for kind in kinds], parents, outputs


@quiet
@given(described(), st.booleans(), st.sampled_from(["early", "late", "fewest"]), st.integers(0, 9))
def test_any_circuit_at_any_depth(parts, correction, placement, more):
    circuit = Circuit(*parts)
    options = dict(correction=correction, placement=placement, dangling="drop")
    least = compile_circuit(circuit, **options)
    deeper = compile_circuit(circuit, depth=least.network.depth + more, **options)
    x = all_inputs(circuit.inputs)
    for compiled in (least, deeper):
        assert np.array_equal(compiled.network.run(x), truth(circuit))
        assert np.array_equal(compiled.run(x), truth(circuit)) and compiled.proved
    assert deeper.network.depth == least.network.depth + more
    distinct = len(set(least.circuit.output))
    modules, single = divmod(more, 4 if correction else 2)
    extra = distinct * (modules * (11 if correction else 2) + single)
    assert deeper.network.one_norm == pytest.approx(least.network.one_norm + extra, rel=1e-13)


@pytest.mark.parametrize("correction", [True, False])
def test_width_is_what_the_construction_needs(correction):
    compiled = compile_circuit(circuits.and_ladder(6, 5), correction=correction)
    needed = 12 if correction else 6
    assert compiled.network.width == needed
    wide = compile_circuit(circuits.and_ladder(6, 5), correction=correction, width=64)
    assert wide.network.width == 64 and wide.network.one_norm == compiled.network.one_norm
    d = wide.network.depth
    assert wide.network.parameters == 64 * 6 + 64 + (d - 1) * (64**2 + 64) + 65
    with pytest.raises(KroghError, match=rf"needs width {needed}; got width={needed - 1}"):
        compile_circuit(circuits.and_ladder(6, 5), correction=correction, width=needed - 1)


def test_refusals():
    with pytest.raises(KroghError, match=r"q=5 layers needs depth 16 with correction; got depth=15 \(try 16 or more\)"):
        compile_circuit(circuits.and_ladder(6, 5), depth=15)
    with pytest.raises(KroghError, match="needs depth 8 without correction"):
        compile_circuit(circuits.and_ladder(6, 5), depth=7, correction=False)
    with pytest.raises(KroghError, match="depth must be an integer between 1 and 262144; got depth=1000000"):
        compile_circuit(circuits.and_ladder(6, 5), depth=1_000_000)
    wide = Circuit("wide", 1, [Gate.NOT] * 2000, [(0, 0)] * 2000, tuple(range(1, 2001)))
    with pytest.raises(KroghError, match=r"'wide' with depth=200000 has 100,000,000 gates in layers; at most 50,000,"):
        compile_circuit(wide, depth=200_000)
    loose = Circuit("loose", 1, [Gate.NOT, Gate.NOT], [(0, 0), (0, 0)], (1,))
    with pytest.raises(KroghError, match="dangling"):
        compile_circuit(loose)
    assert compile_circuit(loose, dangling="drop").circuit.gates == 1
    with pytest.raises(KroghError, match="layers must be"):
        deepened(INSTANCE, -1)


def test_a_compiled_circuit_says_what_it_is():
    compiled = compile_circuit(circuits.adder(2), depth=60)
    assert "F(x) = 2·G(x) - 1 exactly for all x in {0,1}^4, G = 'adder-2' in 16 layers, with" in compiled.statement
    assert compiled.size["depth"] == 60 and compiled.size["one_norm"] == compiled.network.one_norm
    assert (compiled.size["q"], compiled.size["s"]) == (compiled.circuit.q, compiled.circuit.s)


def test_inputs_between_0_and_1_are_run_as_numbers():
    compiled = compile_circuit(circuits.comparator(2))
    x = np.random.default_rng(0).uniform(size=(20, 4))
    assert np.array_equal(compiled.run(x), compiled.network.run(x))
    near = all_inputs(4) + np.random.default_rng(0).uniform(-0.05, 0.05, (16, 4))
    assert np.abs(compiled.run(near) - truth(circuits.comparator(2))).max() < 1e-13  # corrected
    uncorrected = compile_circuit(circuits.comparator(2), correction=False)
    assert np.abs(uncorrected.run(near) - truth(circuits.comparator(2))).max() > 0.01


# Checks.


def changed(compiled, place, weight=None, bias=None):
    """The compiled circuit with one entry of one layer replaced."""
    layers = list(compiled.network.layers)
    matrix, vector = layers[place].weight.toarray(), layers[place].bias.copy()
    if weight is not None:
        matrix[weight[0]] = weight[1]
    if bias is not None:
        vector[bias[0]] = bias[1]
    layers[place] = Affine(sparse.csr_array(matrix), vector)
    return replace(compiled, network=replace(compiled.network, layers=tuple(layers)))


@pytest.mark.parametrize("correction", [True, False])
def test_a_wrong_weight_anywhere_is_found(correction):
    """Every single parameter of a small network that matters, changed: no proof, and the check says not exact."""
    compiled = compile_circuit(circuits.comparator(1), correction=correction, depth=19)
    assert compiled.check().holds
    for place, layer in enumerate(compiled.network.layers):
        for row, column in zip(*layer.weight.nonzero(), strict=True):
            wrong = changed(compiled, place, weight=((row, column), -layer.weight[row, column]))
            assert not wrong.proved
            assert not wrong.check().holds
        for row in range(len(layer.bias)):
            wrong = changed(compiled, place, bias=(row, layer.bias[row] + 1.0))
            assert not wrong.proved
            assert not wrong.check().holds


def test_tiny_errors_are_errors():
    compiled = compile_circuit(circuits.and_ladder(3, 3), correction=False)
    wrong = changed(compiled, 0, bias=(0, -1.0 + 1e-15))
    found = wrong.check()
    assert not wrong.proved and not found.holds and 0 < found.largest_error < 1e-14


@pytest.mark.parametrize("place", [0, 1, 2, 3])
def test_a_unit_that_reads_more_than_its_gate_is_not_proved(place):
    """However small the weight: four cases then do not decide."""
    compiled = compile_circuit(circuits.parity_circuit(3))
    weight = compiled.network.layers[place].weight
    row, column = np.argwhere(weight.toarray() == 0)[0]
    assert not changed(compiled, place, weight=((row, column), 1e-300)).proved


@pytest.mark.parametrize("kind", list(Gate))
def test_the_four_cases_of_a_gate(kind):
    layer = Layer([kind, kind], [0, 1], [0 if kind.arity == 1 else 1, 1])
    cases = [(0, 0), (1, 0), (0, 1), (1, 1)]
    expected = {Gate.ID: [a for a, _ in cases], Gate.NOT: [1 - a for a, _ in cases]}
    expected |= {Gate.AND: [a & b for a, b in cases], Gate.OR: [a | b for a, b in cases]}
    assert gate_values(layer)[0].tolist() == expected[kind]
    assert gate_values(layer)[1].tolist() == ([1, 0, 1, 0] if kind == Gate.NOT else [0, 1, 0, 1])


def test_a_network_proves_its_own_circuit_only():
    one, other = circuits.and_ladder(4, 4), circuits.random_circuit(4, 4, 4, 1)
    network = compile_circuit(one).network
    assert computes(network, one) and not computes(network, other)
    assert not computes(network, circuits.and_ladder(4, 5)) and not computes(network, circuits.and_ladder(4, 3))
    assert not computes(network, deepened(one, 1))
    swapped = replace(one, output=(0,)), LayeredCircuit("two", 4, (*one.layers[:-1],), (1,))
    assert computes(network, swapped[0]) and not computes(network, swapped[1])
    adder = layered(circuits.adder(2))
    assert not computes(compile_circuit(adder).network, replace(adder, output=adder.output[::-1]))


def test_a_layered_circuit_that_is_not_its_source_is_found(monkeypatch):
    compiled = compile_circuit(circuits.adder(2))
    source = compiled.source
    backwards = Circuit("backwards", 4, source.kinds, source.parents, source.outputs[::-1])
    wrong = replace(compiled, source=backwards)
    found = wrong.check()
    assert not found.holds and found.details["proved"] and found.largest_error == 2.0
    monkeypatch.setattr(circuit_checks, "MOST_WORK", 1)  # the first input goes through the network, the second does not
    assert wrong.check([[0, 0, 0, 0], [0, 0, 0, 0]]).holds
    found = wrong.check([[0, 0, 0, 0], [1, 0, 0, 0]])
    assert not found.holds and found.details["floats"] == 1


@pytest.mark.parametrize("correction", [True, False])
def test_a_wrong_unit_is_found_where_no_output_shows_it(correction):
    """Gate 2 of the ladder's first layer is read by none, and rounding hides a small error from what comes after."""
    compiled = compile_circuit(circuits.and_ladder(3, 3), correction=correction)
    wrong = changed(compiled, 0, bias=(2, -0.9))
    assert np.array_equal(wrong.network.run(all_inputs(3)), truth(compiled.source))
    found = wrong.check()
    assert not found.holds and found.largest_error == pytest.approx(0.1)


@pytest.mark.parametrize("more", [1, 4, 5])
def test_outputs_may_be_some_gates_of_the_last_layer(more):
    last = Layer([Gate.AND, Gate.OR, Gate.NOT], [0, 0, 1], [1, 1, 1])
    circuit = LayeredCircuit("some", 2, (last,), (2, 1, 2))
    compiled = compile_circuit(circuit, depth=4 + more)
    assert compiled.check().holds and compiled.proved
    assert np.array_equal(compiled.network.run(all_inputs(2)), truth(circuit))


def test_checks_on_random_and_on_given_inputs(monkeypatch):
    compiled = compile_circuit(circuits.parity_circuit(17))
    assert compiled.check(1000) == compiled.check(1000, seed=1)
    found = compiled.check(1000)
    assert (found.inputs, found.exhaustive, found.details["floats"], found.holds) == (1000, False, 1000, True)
    monkeypatch.setattr(circuit_checks, "RANDOM_INPUTS", 300)
    assert compiled.check().inputs == 300
    given = np.ones((3, 17))
    assert compiled.check(given).inputs == 3
    with pytest.raises(KroghError, match="bits 0 and 1"):
        compiled.check(2 * given)
    with pytest.raises(KroghError, match="inputs must be an integer at least 1"):
        compiled.check(0)


def test_a_large_check_runs_some_inputs_in_floating_point_and_all_as_bits(monkeypatch):
    compiled = compile_circuit(circuits.multiplier(4))
    monkeypatch.setattr(circuit_checks, "MOST_WORK", 10 * compiled.circuit.gates)
    monkeypatch.setattr(circuit_checks, "AT_ONCE", 64)
    found = compiled.check()
    assert (found.inputs, found.details["floats"], found.holds, found.details["proved"]) == (256, 10, True, True)
    wrong = changed(compiled, 0, bias=(0, 5.0))  # not proved: then every input is run in floating point
    assert wrong.check().details["floats"] == 256 and not wrong.check().holds


def test_float32_weights_still_decide_every_input():
    """Rounding holds errors of single precision down at any depth."""
    compiled = compile_circuit(circuits.random_circuit(6, 6, 17, 2))
    parameters = {name: value.astype(np.float32) for name, value in dense_parameters(compiled.network).items()}
    outputs = np.asarray(jax.jit(circuit_output)(parameters, all_inputs(6).astype(np.float32)))
    assert outputs.dtype == np.float32 and np.abs(outputs - compiled.run(all_inputs(6))).max() < 1e-5


@pytest.mark.slow
def test_a_hundred_thousand_gates_take_less_than_a_minute():
    circuit = circuits.multiplier(101)
    assert circuit.gates > 100_000
    bits = np.random.default_rng(0).integers(0, 2, (10_000, circuit.inputs)).astype(bool)
    expected = 2.0 * circuits.evaluate(circuit, bits) - 1.0
    start = time.perf_counter()
    compiled = compile_circuit(circuit)
    outputs = compiled.run(bits)
    assert time.perf_counter() - start < 60
    assert np.array_equal(outputs, expected)
    assert np.array_equal(compiled.network.run(bits[:500]), expected[:500])
    numbers = [[sum(1 << j for j in range(101) if row[s + j]) for s in (0, 101)] for row in bits[:50]]
    products = [sum(1 << j for j, bit in enumerate(row) if bit > 0) for row in outputs[:50]]
    assert products == [a * b for a, b in numbers]


def test_a_check_keeps_no_layer_but_the_last(monkeypatch):
    """Memory is that of a few layers, however many there are; it was that of all of them."""
    monkeypatch.setattr("krogh.programs.circuits.circuit.WORDS_AT_ONCE", 1 << 14)  # the oracle keeps all gates
    monkeypatch.setattr("krogh.programs.circuits.circuit.MOST_WORDS", 1 << 14)
    peaks = []
    for depth in (20, 200):
        compiled = compile_circuit(chain_of_gates(depth))
        compiled.check(64)  # what is found once is found here
        tracemalloc.start()
        assert compiled.check(10_000).holds
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] < 1.5 * peaks[0]


@pytest.mark.parametrize("correction", [True, False])
def test_weights_that_are_written_when_they_are_read(monkeypatch, correction):
    """Where there are too many to keep, they are the same, and so is all that is said of them."""
    circuit = circuits.random_circuit(6, 9, 12, 1)
    kept = compile_circuit(circuit, correction=correction, depth=60)
    monkeypatch.setattr("krogh.networks.circuits.MOST_WRITTEN", 10)
    written = compile_circuit(circuit, correction=correction)
    assert isinstance(written.network.layers, WrittenLayers)
    for one, other in zip(
        compile_circuit(circuit, correction=correction, depth=60).network.layers, kept.network.layers, strict=True
    ):
        assert (one.weight != other.weight).nnz == 0 and np.array_equal(one.bias, other.bias)
    assert written.proved and written.check() == kept.check()
    bits = all_inputs(6)
    assert np.array_equal(written.network.run(bits), kept.network.run(bits))
    monkeypatch.undo()
    assert written.size == compile_circuit(circuit, correction=correction).size


def test_a_deep_circuit_takes_a_few_bytes_for_each_gate(monkeypatch):
    """Most gates of a deep circuit hand signals on: 100 inputs through 200 layers are 20,000 gates."""
    builder = CircuitBuilder("deep", [f"x{place}" for place in range(100)])
    node = 0
    for place in range(200):
        node = builder.gate(Gate.AND if place % 3 else Gate.OR, node, builder.inputs[-1 - place % 99])
    outputs = [node, *builder.inputs]
    deep = builder.circuit(outputs, [f"y{place}" for place in range(len(outputs))])
    peaks = []
    for kept in (1000, 1 << 20):
        monkeypatch.setattr("krogh.networks.circuits.MOST_WRITTEN", kept)
        tracemalloc.start()
        compiled = compile_circuit(deep)
        assert compiled.proved and compiled.network.run(np.ones((1, 100))).shape == (1, 101)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert compiled.circuit.gates > 20_000 and 3 * peaks[0] < peaks[1]


def test_the_last_layer_of_random_circuits_alone():
    random = np.random.default_rng(0)
    for seed in range(10):
        circuit = circuits.random_circuit(5, 7, 6, seed)
        bits = random.integers(0, 2, (20, 5)).astype(bool)
        assert np.array_equal(circuit.last(bits.T), circuit.values(bits)[-1].T)


def test_random_inputs_of_very_many_bits_are_fewer(monkeypatch):
    monkeypatch.setattr("krogh.networks.circuits.MOST_BITS", 20 * 50)
    compiled = compile_circuit(chain_of_gates(3, inputs=20))
    assert compiled.check().inputs == 50
    with pytest.raises(KroghError, match=r"too many at once \(try inputs=50\)"):
        compiled.check(51)


def chain_of_gates(depth: int, inputs: int = 18) -> LayeredCircuit:
    """Every layer is the AND of neighbours, depth of them, and at last one gate."""
    places = np.arange(inputs)
    layer = Layer([Gate.AND] * inputs, places, (places + 1) % inputs)
    last = Layer([Gate.AND], [0], [1])
    return LayeredCircuit("chain", inputs, (*[layer] * depth, last), (0,))
