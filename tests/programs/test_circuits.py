"""Circuits against their definition: gate by gate in plain Python, and arithmetic for the generated ones."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from krogh.errors import KroghError
from krogh.programs import circuits
from krogh.programs.budgets import CIRCUIT
from krogh.programs.circuits import circuit as evaluation
from krogh.programs.circuits import generators, layers
from krogh.programs.circuits.circuit import FALSE, TRUE, Circuit, Gate, all_inputs, evaluate
from krogh.programs.circuits.layers import Layer, LayeredCircuit, layered

quiet = settings(database=None, deadline=None, max_examples=50)


def value(circuit, node, bits):
    """A node's value by the definition of its gate."""
    if node < 0:
        return node == TRUE
    if node < circuit.inputs:
        return bool(bits[node])
    kind = circuit.kinds[node - circuit.inputs]
    first, second = (value(circuit, int(parent), bits) for parent in circuit.parents[node - circuit.inputs])
    return {Gate.ID: first, Gate.NOT: not first, Gate.AND: first and second, Gate.OR: first or second}[Gate(kind)]


def table(circuit):
    inputs = [[i >> j & 1 for j in range(circuit.inputs)] for i in range(2**circuit.inputs)]
    return [[value(circuit, node, bits) for node in circuit.outputs] for bits in inputs]


@st.composite
def random_dags(draw, constants=True, most_gates=12):
    """What a random circuit is made of; its gates are listed in random order, so that they must be sorted."""
    m, g = draw(st.integers(1, 4)), draw(st.integers(0, most_gates))
    least = -2 if constants else 0
    kinds = draw(st.lists(st.sampled_from(list(Gate)), min_size=g, max_size=g))
    parents = [(draw(st.integers(least, m + i - 1)), draw(st.integers(least, m + i - 1))) for i in range(g)]
    parents = [(a, a) if kind.arity == 1 else (a, b) for kind, (a, b) in zip(kinds, parents, strict=True)]
    outputs = draw(st.lists(st.integers(least, m + g - 1), min_size=1, max_size=3))
    order = draw(st.permutations(range(g)))
    number = {node: node for node in range(-2, m)} | {m + old: m + new for new, old in enumerate(order)}
    return (
        "drawn",
        m,
        [kinds[old].value for old in order],
        [tuple(number[node] for node in parents[old]) for old in order],
        tuple(number[node] for node in outputs),
    )


# Circuits.


@quiet
@given(random_dags())
def test_evaluation_is_the_definition(drawn):
    circuit = Circuit(*drawn)
    assert np.all(circuit.parents < circuit.inputs + np.arange(circuit.gates)[:, None])
    assert circuits.truth_table(circuit).tolist() == table(circuit)


def test_many_inputs_go_through_in_chunks(monkeypatch):
    circuit = circuits.multiplier(4)
    monkeypatch.setattr(evaluation, "WORDS_AT_ONCE", 2 * (circuit.nodes + 2))
    random = np.random.default_rng(0)
    for batch in (1, 63, 64, 65, 127, 128, 129, 300):
        bits = random.integers(0, 2, (batch, 8))
        expected = (bits[:, :4] @ 2 ** np.arange(4)) * (bits[:, 4:] @ 2 ** np.arange(4))
        assert np.array_equal(evaluate(circuit, bits) @ 2 ** np.arange(8), expected)
    assert evaluate(circuit, np.zeros((0, 8))).shape == (0, 8)


def test_inputs_may_be_bits_of_any_type_and_nothing_else():
    circuit = circuits.adder(1)
    bits = all_inputs(2)
    for kind in (bool, np.uint8, np.int64, np.float32, np.float64):
        assert np.array_equal(evaluate(circuit, bits.astype(kind)), evaluate(circuit, bits))
    for wrong in ([[0, 2]], [[0.5, 1]], [["0", "1"]], [[-1, 1]]):
        with pytest.raises(KroghError, match="bits 0 and 1"):
            evaluate(circuit, np.array(wrong))
    with pytest.raises(KroghError, match=r"shape \(batch, 2\); got \(3,\)"):
        evaluate(circuit, np.zeros(3))


def test_constants_and_circuits_without_inputs():
    constants = Circuit("constants", 0, [], [], (FALSE, TRUE))
    assert circuits.truth_table(constants).tolist() == [[False, True]]
    gates = Circuit("gates", 0, [Gate.AND, Gate.NOT], [(TRUE, FALSE), (0, 0)], (0, 1))
    assert circuits.truth_table(gates).tolist() == [[False, True]]
    for circuit in (constants, gates):
        layers = layered(circuit)
        assert layers.input_names == ("unused",) and layers.output_names == circuit.output_names
        assert circuits.truth_table(layers.circuit()).tolist() == [[False, True]] * 2


def test_names_are_made_up_where_none_are_given():
    circuit = Circuit("c", 2, [Gate.AND], [(0, 1)], (2, 0))
    assert circuit.input_names == ("x0", "x1") and circuit.output_names == ("y0", "y1")
    assert [circuit.node_name(node) for node in (0, 2, FALSE, TRUE)] == ["x0", "g0", "FALSE", "TRUE"]
    assert (circuit.gates, circuit.nodes, circuit.depth) == (1, 3, 2)
    assert circuit.levels.tolist() == [1, 1, 2, 1, 1]


def test_large_circuits_are_shown_in_a_line():
    assert repr(circuits.adder(3)) == "<Circuit 'adder-3': 6 inputs, 22 gates, 4 outputs>"
    assert repr(circuits.and_ladder(4, 3)) == "<LayeredCircuit 'ladder-4x3': q=3, r=4, s=9, 1 output>"


def test_arrays_cannot_be_changed():
    circuit = circuits.adder(2)
    for array in (circuit.kinds, circuit.parents):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 0


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        (dict(parents=[(0, 3), (2, 0)]), "cyclic: gate 2 reads gate 3 reads gate 2"),
        (dict(parents=[(2, 0), (0, 0)]), "cyclic: gate 2 reads gate 2"),
        (dict(parents=[(0, 3), (2, 0)], gate_names=("a", "b")), "cyclic: a reads b reads a"),
        (dict(parents=[(0, 1), (2, 7)]), r"gate 3 of 'c' reads node 7, but nodes are 0\.\.3, FALSE = -1"),
        (dict(parents=[(0, 1), (2, -3)]), "reads node -3"),
        (dict(kinds=[Gate.AND, Gate.NOT]), r"gate 3 of 'c' is NOT, which reads one node; got two, \[2, 1\]"),
        (dict(kinds=[2, 4]), "kinds must list gates, each ID = 0, NOT = 1"),
        (dict(kinds=[2]), "1 kinds of gates were given for 2 pairs"),
        (dict(parents=[(0, 1, 1), (0, 1, 1)]), "two node numbers for each gate"),
        (dict(outputs=(4,)), r"output 0 of 'c' is node 4, but nodes are 0\.\.3"),
        (dict(outputs=()), "has no outputs"),
        (dict(input_names=("a", "a")), "two inputs have the name 'a'"),
        (dict(input_names=("a",)), "2 inputs need 2 names; got 1"),
        (dict(output_names=("a\nb",)), "texts of one line"),
        (dict(name="\x1b[31m"), "a circuit's name has no control characters; got '.x1b.31m'"),
        (dict(input_names=("a", "\x1b]0;b\x07")), "without control characters; got '.x1b]0;b.x07'"),
    ],
)
def test_circuits_that_are_none_are_refused(fields, message):
    good = dict(name="c", inputs=2, kinds=[Gate.AND, Gate.OR], parents=[(0, 1), (2, 1)], outputs=(3,))
    assert Circuit(**good).gates == 2
    with pytest.raises(KroghError, match=message):
        Circuit(**{**good, **fields})


def test_a_cycle_begins_with_its_first_gate_and_holds_no_other():
    """Gate 2 only leads into it, and at its second gate."""
    with pytest.raises(KroghError, match=r"cyclic: gate 3 reads gate 4 reads gate 3$"):
        Circuit("lasso", 2, [Gate.AND] * 3, [(0, 4), (0, 4), (0, 3)], (2,))


def test_a_long_cycle_is_shortened():
    gates = 40
    parents = [(0, 1 + (i + 1) % gates) for i in range(gates)]
    with pytest.raises(KroghError, match=r"gate 1 reads gate 2 .* reads \(29 more\) reads .* gate 40 reads gate 1"):
        Circuit("ring", 1, [Gate.AND] * gates, parents, (1,))


@quiet
@given(random_dags())
def test_dangling_gates_are_those_that_no_output_depends_on(drawn):
    circuit = Circuit(*drawn)

    def below(node):
        if node < circuit.inputs:
            return set()
        return {node}.union(*(below(int(parent)) for parent in circuit.parents[node - circuit.inputs]))

    needed = set().union(*(below(node) for node in circuit.outputs))
    everything = set(range(circuit.inputs, circuit.nodes))
    assert {circuit.inputs + int(place) for place in circuit.dangling} == everything - needed
    cleaned = circuit.settled("drop")
    assert cleaned.gates == len(needed) and not len(cleaned.dangling)
    assert circuits.truth_table(cleaned).tolist() == table(circuit)
    assert circuit.settled("keep") is circuit
    if everything - needed:
        with pytest.raises(KroghError, match="dangling gate"):
            circuit.settled("refuse")
    else:
        assert circuit.settled("refuse") is circuit


def test_dangling_gates_are_named():
    circuit = Circuit("c", 1, [Gate.NOT, Gate.ID], [(0, 0), (0, 0)], (1,), gate_names=("used", "loose"))
    with pytest.raises(KroghError, match="1 dangling gate that no output depends on: 'loose'"):
        layered(circuit)
    assert circuit.settled("drop").gate_names == ("used",)
    with pytest.raises(KroghError, match="did you mean 'drop'"):
        circuit.settled("drip")


# Layers.


@quiet
@given(random_dags(), st.sampled_from(layers.PLACEMENTS))
def test_layered_circuits_compute_the_same(drawn, placement):
    circuit = Circuit(*drawn)
    deep = layered(circuit, dangling="drop", placement=placement)
    values = deep.values(all_inputs(circuit.inputs))
    assert values[-1][:, list(deep.output)].tolist() == table(circuit)
    assert np.array_equal(values[0], all_inputs(circuit.inputs))
    assert len(values) == deep.q and [part.shape[1] for part in values[1:]] == [len(layer) for layer in deep.layers]
    assert circuits.truth_table(deep.circuit()).tolist() == table(circuit)
    assert deep.input_names == circuit.input_names and deep.output_names == circuit.output_names


@quiet
@given(random_dags(constants=False))
def test_layers_are_as_few_and_copies_as_few_as_can_be(drawn):
    """Depth is that of the deepest output; a signal has at most one gate a layer, and none after its last reader."""
    circuit = Circuit(*drawn)
    used = circuit.without_dangling()
    depth = max(2, *(int(used.levels[node]) for node in used.outputs))
    found = {placement: layered(used, placement=placement) for placement in layers.PLACEMENTS}
    assert {deep.q for deep in found.values()} == {depth}
    early = found["early"]
    readers = {node: [] for node in range(used.nodes)}
    for place, pair in enumerate(used.parents):
        for parent in pair:
            readers[int(parent)].append(int(used.levels[used.inputs + place]))
    lasts = {
        node: depth if node in used.outputs else max([level - 1 for level in readers[node]], default=1)
        for node in range(used.nodes)
    }
    copies = sum(lasts[node] - int(used.levels[node]) for node in range(used.nodes))
    assert early.gates == used.gates + copies
    assert found["fewest"].gates == min(early.gates, found["late"].gates)


def test_placing_late_saves_copies_where_few_signals_make_many():
    circuit = circuits.multiplier(16)
    early, late = (layered(circuit, placement=placement) for placement in ("early", "late"))
    assert late.gates < 0.6 * early.gates and late.q == early.q == circuit.depth
    assert layered(circuit).gates == late.gates


def test_layered_sizes_count_inputs_as_gates_and_as_a_layer():
    ladder = circuits.and_ladder(6, 5)
    assert (ladder.q, ladder.r, ladder.s, ladder.gates) == (5, 6, 25, 19)
    assert ladder.kind_counts() == {"ID": 0, "NOT": 0, "AND": 19, "OR": 0}
    one = LayeredCircuit("one", 3, (Layer([Gate.NOT], [2], [2]),), (0,))
    assert (one.q, one.r, one.s) == (2, 3, 4)


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: LayeredCircuit("c", 2, (), (0,)), r"depth q ≥ 2"),
        (lambda: LayeredCircuit("c", 0, (Layer([0], [0], [0]),), (0,)), "inputs must be an integer at least 1"),
        (
            lambda: LayeredCircuit("c", 2, (Layer([2], [0], [2]),), (0,)),
            r"gate 0 of layer 2 of 'c' reads gate 2 of layer 1",
        ),
        (lambda: LayeredCircuit("c", 2, (Layer([2], [0], [-1]),), (0,)), "reads gate -1"),
        (lambda: LayeredCircuit("c", 2, (Layer([2], [0], [1]),), ()), "has no output gate"),
        (lambda: LayeredCircuit("c", 2, (Layer([2], [0], [1]),), (1,)), r"has the gates 0\.\.0; got the output 1"),
        (lambda: Layer([1], [0], [1]), "is NOT, which reads one gate; got two, 0 and 1"),
        (lambda: Layer([], [], []), "one gate or more; got 0, 0, 0"),
        (lambda: Layer([2], [0, 1], [0]), "got 1, 2, 1"),
        (lambda: layered(circuits.adder(1), placement="soon"), "unknown placement 'soon'"),
        (lambda: layered(circuits.adder(1), dangling="keep"), "known: drop, refuse"),
    ],
)
def test_layered_circuits_that_are_none_are_refused(build, message):
    with pytest.raises(KroghError, match=message):
        build()


def test_a_circuit_that_would_need_too_many_copies_says_so(monkeypatch):
    monkeypatch.setitem(CIRCUIT, "gates in layers", CIRCUIT["gates in layers"]._replace(most=100))
    with pytest.raises(KroghError, match=r"'adder-8' has 67 gates; .* its 19 layers has [0-9]+ gates in layers;"):
        layered(circuits.adder(8))


@quiet
@given(random_dags())
def test_folding_leaves_no_constants(drawn):
    circuit = Circuit(*drawn)
    folded = circuits.without_constants(circuit)
    assert (folded.parents >= 0).all() and min(folded.outputs) >= 0
    assert circuits.truth_table(folded).tolist() == table(circuit)


def test_folding_keeps_what_reads_no_constant():
    circuit = circuits.adder(2)
    assert circuits.without_constants(circuit) is circuit
    constant = circuits.without_constants(Circuit("true", 1, [], [], (TRUE, FALSE, 0)))
    assert constant.gates == 3 and circuits.truth_table(constant).tolist() == [
        [True, False, False],
        [True, False, True],
    ]


# Generators.


@pytest.mark.parametrize("bits", [1, 2, 3, 4, 5])
def test_arithmetic(bits):
    inputs = all_inputs(2 * bits).astype(int)
    a, b = inputs[:, :bits] @ 2 ** np.arange(bits), inputs[:, bits:] @ 2 ** np.arange(bits)
    added, multiplied, compared = circuits.adder(bits), circuits.multiplier(bits), circuits.comparator(bits)
    assert np.array_equal(circuits.truth_table(added) @ 2 ** np.arange(bits + 1), a + b)
    assert np.array_equal(circuits.truth_table(multiplied) @ 2 ** np.arange(2 * bits), a * b)
    assert np.array_equal(circuits.truth_table(compared), np.stack([a < b, a == b, a > b], axis=1))
    assert added.output_names[-1] == "carry" and compared.output_names == ("less", "equal", "greater")


@pytest.mark.parametrize("m", range(1, 12))
def test_counting(m):
    ones = all_inputs(m).sum(axis=1)
    assert np.array_equal(circuits.truth_table(circuits.parity_circuit(m))[:, 0], ones % 2 == 1)
    assert np.array_equal(circuits.truth_table(circuits.majority(m))[:, 0], 2 * ones > m)
    assert circuits.parity_circuit(m).gates == 4 * (m - 1)


def test_wide_numbers():
    random = np.random.default_rng(1)
    bits = random.integers(0, 2, (200, 80)).astype(bool)
    numbers = [[sum(1 << j for j in range(40) if row[start + j]) for start in (0, 40)] for row in bits]
    products = evaluate(circuits.multiplier(40), bits)
    for (a, b), row in zip(numbers, products, strict=True):
        assert a * b == sum(1 << j for j, bit in enumerate(row) if bit)
    ones = evaluate(circuits.majority(80), bits)[:, 0]
    assert np.array_equal(ones, bits.sum(axis=1) > 40)


@pytest.mark.parametrize("r", [2, 3, 6])
@pytest.mark.parametrize("q", [2, 3, 5, 9])
def test_the_ladder_is_a_conjunction_of_neighbours(r, q):
    """Gate 0 after q-1 layers of AND(j, j+1 mod r) is the conjunction of inputs 0..q-1, taken round."""
    ladder = circuits.and_ladder(r, q)
    inputs = all_inputs(r)
    expected = inputs[:, [j % r for j in range(q)]].all(axis=1)
    assert np.array_equal(ladder.values(inputs)[-1][:, 0], expected)
    assert [len(layer) for layer in ladder.layers] == [r] * (q - 2) + [1]


def test_random_circuits_are_balanced_and_follow_the_law():
    drawn = [circuits.random_circuit(6, 12, 6, seed) for seed in range(40)]
    for circuit in drawn:
        assert (circuit.inputs, circuit.q, circuit.r, circuit.gates) == (6, 6, 12, 49)
        assert 0.2 <= circuit.values(all_inputs(6))[-1].mean() <= 0.8
    counts = np.array([list(circuit.kind_counts().values()) for circuit in drawn]).sum(axis=0)
    share = counts / counts.sum()  # 1,960 gates: four deviations are at most 0.044
    assert np.abs(share - [0.15, 0.15, 0.35, 0.35]).max() < 0.045
    first = np.concatenate([layer.first for circuit in drawn for layer in circuit.layers[1:-1]])
    assert np.abs(np.bincount(first, minlength=12) / len(first) - 1 / 12).max() < 0.03
    again = circuits.random_circuit(6, 12, 6, 3)
    for one, other in zip(again.layers, drawn[3].layers, strict=True):
        assert all(np.array_equal(getattr(one, name), getattr(other, name)) for name in ("kinds", "first", "second"))
    tables = {tuple(circuit.values(all_inputs(6))[-1][:, 0].tolist()) for circuit in drawn}
    assert len(tables) > 35


def test_random_circuits_of_many_inputs_are_judged_by_a_sample():
    circuit = circuits.random_circuit(40, 30, 4, 0)
    bits = np.random.default_rng(5).integers(0, 2, (4000, 40)).astype(bool)
    assert 0.15 < circuit.values(bits)[-1].mean() < 0.85


def test_hopeless_random_circuits_are_refused(monkeypatch):
    monkeypatch.setattr(generators, "BALANCE", (0.499, 0.501))
    monkeypatch.setattr(generators, "MOST_DRAWS", 20)
    with pytest.raises(KroghError, match=r"none of 20 random circuits of m=5, r=5, q=60 has a mean label"):
        circuits.random_circuit(5, 5, 60, 0)


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: circuits.adder(0), "bits must be an integer at least 1"),
        (lambda: circuits.parity_circuit(0), "m must be"),
        (lambda: circuits.and_ladder(1, 3), "r must be an integer at least 2"),
        (lambda: circuits.and_ladder(3, 1), "q must be an integer at least 2"),
        (lambda: circuits.random_circuit(3, 3, 1, 0), "q must be"),
        (lambda: circuits.truth_table(circuits.parity_circuit(30)), "at most 24 inputs; 'parity-30' has 30"),
    ],
)
def test_sizes_that_make_no_sense_are_refused(build, message):
    with pytest.raises(KroghError, match=message):
        build()


def test_a_builder_adds_numbers_of_different_lengths():
    for long, short in itertools.product(range(1, 5), range(1, 4)):
        build = circuits.CircuitBuilder("sum", [f"x{j}" for j in range(long + short)])
        total = build.add(build.inputs[:long], build.inputs[long:])
        circuit = build.circuit(total, [f"s{j}" for j in range(len(total))])
        inputs = all_inputs(long + short).astype(int)
        expected = inputs[:, :long] @ 2 ** np.arange(long) + inputs[:, long:] @ 2 ** np.arange(short)
        assert np.array_equal(circuits.truth_table(circuit) @ 2 ** np.arange(len(total)), expected)
