"""ReLU networks as sparse layers, against the same formula in dense NumPy."""

from __future__ import annotations

import itertools
import json

import jax
import numpy as np
import pytest
import safetensors
import safetensors.numpy
import scipy.sparse as sparse

from krogh.errors import KroghError
from krogh.networks import relu as networks
from krogh.networks.circuits import CompiledCircuit, compile_circuit
from krogh.networks.handmade import load_network
from krogh.networks.relu import Affine, Module, ReluNetwork, circuit_output, dense_parameters
from krogh.programs.circuits.circuit import all_inputs
from krogh.programs.circuits.generators import and_ladder, comparator, random_circuit


def random_network(seed=0, sizes=(3, 5, 4, 6, 2)):
    random = np.random.default_rng(seed)
    layers = tuple(
        Affine(sparse.random_array((out, into), density=0.6, rng=random), random.normal(size=out))
        for into, out in itertools.pairwise(sizes)
    )
    last = len(layers) - 1
    return ReluNetwork(layers, (Module("gates", slice(0, last)), Module("linear", slice(last, last + 1))))


def formula(network, x):
    """F(x) = W_d φ(… φ(W_0 x + b_0) …) + b_d, with dense matrices."""
    hidden = np.asarray(x, float)
    for layer in network.layers[:-1]:
        hidden = np.maximum(hidden @ layer.weight.toarray().T + layer.bias, 0)
    return hidden @ network.layers[-1].weight.toarray().T + network.layers[-1].bias


@pytest.mark.parametrize("seed", range(5))
def test_running_is_the_formula(seed):
    network = random_network(seed)
    x = np.random.default_rng(seed).normal(size=(50, 3))
    assert np.allclose(network.run(x), formula(network, x), rtol=1e-12, atol=1e-12)
    everything = network.activations(x)
    assert [part.shape for part in everything] == [(50, 5), (50, 4), (50, 6), (50, 2)]
    assert np.array_equal(everything[-1], network.run(x)) and all((part >= 0).all() for part in everything[:-1])


def test_chunks_and_workers_change_nothing(monkeypatch):
    network = random_network(3)
    x = np.random.default_rng(1).normal(size=(200, 3))
    expected = network.run(x)
    monkeypatch.setattr(networks, "CHUNK_ENTRIES", 1)
    monkeypatch.setattr(networks, "FEWEST", 7)
    assert network.chunk == 7
    for workers in (1, 2, 3):
        assert np.array_equal(network.run(x, workers), expected)
    assert network.run(np.zeros((0, 3))).shape == (0, 2)


def test_a_circuit_s_units_run_in_floating_point_to_the_same_outputs():
    compiled = compile_circuit(comparator(2))
    assert np.array_equal(compiled.network.run(all_inputs(4)), compiled.run(all_inputs(4)))


def test_inputs_of_another_shape_are_refused():
    with pytest.raises(KroghError, match=r"shape \(batch, 3\); got \(4, 2\)"):
        random_network().run(np.zeros((4, 2)))


def test_layers_and_modules_must_fit():
    one, other = Affine(np.ones((2, 3)), np.zeros(2)), Affine(np.ones((1, 4)), np.zeros(1))
    with pytest.raises(KroghError, match="layer 0 has 2 outputs, but layer 1 reads 4"):
        ReluNetwork((one, other), (Module("linear", slice(0, 2)),))
    with pytest.raises(KroghError, match="must cover the 1 layers"):
        ReluNetwork((one,), (Module("linear", slice(0, 2)),))
    with pytest.raises(KroghError, match="at least one layer"):
        ReluNetwork((), ())
    with pytest.raises(KroghError, match=r"an entry per row of the weight \(2, 3\); got the shape \(3,\)"):
        Affine(np.ones((2, 3)), np.zeros(3))
    with pytest.raises(KroghError, match="finite"):
        Affine(np.ones((2, 3)), [np.nan, 0])


def test_counts_are_the_formulas():
    network = random_network()
    weights = [layer.weight.toarray() for layer in network.layers]
    assert (network.inputs, network.outputs, network.depth, network.width) == (3, 2, 3, 6)
    assert network.one_norm == pytest.approx(
        sum(
            np.abs(weight).sum() + np.abs(layer.bias).sum()
            for weight, layer in zip(weights, network.layers, strict=True)
        )
    )
    assert network.nonzeros == sum(np.count_nonzero(w) for w in weights) + sum(len(la.bias) for la in network.layers)
    for w in (6, 7, 100):
        m, d, k = 3, 3, 2
        assert network.padded(w).parameters == w * m + w + (d - 1) * (w * w + w) + k * w + k
        dense = dense_parameters(network.padded(w), w)
        assert sum(value.size for value in dense.values()) == network.padded(w).parameters


@pytest.mark.parametrize("more", [0, 1, 2, 5])
def test_padding_in_depth_changes_nothing_but_the_size(more):
    network = random_network(2)
    *hidden, last = network.layers
    weight = last.weight.toarray()
    weight[:, 1] = 0  # a unit that the last layer does not read need not be handed on
    network = ReluNetwork((*hidden, Affine(sparse.csr_array(weight), last.bias)), network.modules)
    padded = network.padded(depth=network.depth + more, width=11)
    x = np.random.default_rng(1).normal(size=(30, 3))
    assert np.allclose(padded.run(x), network.run(x), rtol=1e-14)
    used = np.count_nonzero(np.abs(network.layers[-1].weight.toarray()).sum(axis=0))
    assert padded.one_norm == pytest.approx(network.one_norm + more * used)
    assert (padded.depth, padded.width) == (network.depth + more, 11)
    assert [module.kind for module in padded.modules] == ["gates", *["pass"] * (more > 0), "linear"]


def test_a_network_cannot_shrink():
    network = random_network()
    with pytest.raises(KroghError, match=r"needs width 6; got width=5 \(try 6 or more\)"):
        network.padded(width=5)
    with pytest.raises(KroghError, match=r"has 3 hidden layers; got depth=2"):
        network.padded(depth=2)
    flat = ReluNetwork((Affine(np.eye(2), np.zeros(2)),), (Module("linear", slice(0, 1)),))
    assert flat.parameters == 6
    with pytest.raises(KroghError, match="without hidden layers"):
        flat.padded(depth=1)


# Dense parameters.


@pytest.mark.parametrize("correction", [True, False])
@pytest.mark.parametrize("width", [None, 20])
@pytest.mark.parametrize("depth", [None, 19])
def test_dense_parameters_are_the_same_network(correction, width, depth):
    compiled = compile_circuit(random_circuit(4, 5, 4, 0), correction=correction, depth=depth)
    parameters = dense_parameters(compiled.network, width)
    modules = {name.split(".")[0] for name in parameters}
    per = 4 if correction else 2
    gates = (depth or 3 * per) // per
    left = (depth or 0) % per
    expected = {f"f{i}" for i in range(gates)} | {f"p{i}" for i in range(left)} | {"out"}
    assert modules == expected | ({f"z{i}" for i in range(gates)} if correction else set())
    if width:
        hidden = {value.shape[0] for name, value in parameters.items() if not name.startswith("out")}
        assert hidden == {20} and parameters["out.W"].shape == (1, 20) and parameters["f0.W1"].shape == (20, 4)
    assert sum(np.abs(value).sum() for value in parameters.values()) == pytest.approx(compiled.network.one_norm)
    x = all_inputs(4).astype(float)
    with jax.enable_x64(True):
        output = np.asarray(jax.jit(circuit_output)(parameters, x))
    assert output.dtype == np.float64 and np.array_equal(output, compiled.network.run(x))


def test_the_output_is_a_function_of_any_parameters():
    """Perturbed weights, against the formula in NumPy; and its gradient, against differences."""
    compiled = compile_circuit(and_ladder(3, 3))
    random = np.random.default_rng(0)
    parameters = {
        name: value + 0.1 * random.normal(size=value.shape)
        for name, value in dense_parameters(compiled.network).items()
    }
    x = random.normal(size=(6, 3))
    hidden = x
    for module in ("f0", "z0", "f1", "z1"):
        names = ("V1", "c1", "V2", "c2") if module[0] == "z" else ("W1", "b1", "W2", "b2")
        one, two, three, four = (parameters[f"{module}.{name}"] for name in names)
        hidden = np.maximum(np.maximum(hidden @ one.T + two, 0) @ three.T + four, 0)
    expected = hidden @ parameters["out.W"].T + parameters["out.b"]
    with jax.enable_x64(True):
        output = jax.jit(circuit_output)
        assert np.allclose(np.asarray(output(parameters, x)), expected, rtol=1e-12)
        gradient = jax.jit(jax.grad(lambda given: circuit_output(given, x).sum()))(parameters)
        for name, place in (("f0.W1", (1, 2)), ("z1.c1", (0,)), ("out.b", (0,))):
            moved = {**parameters, name: parameters[name].copy()}
            moved[name][place] += 1e-6
            change = float(np.sum(output(moved, x)) - np.sum(output(parameters, x))) / 1e-6
            assert float(gradient[name][place]) == pytest.approx(change, abs=1e-5)


def test_dense_parameters_that_are_too_many_are_refused():
    compiled = compile_circuit(and_ladder(3, 3))
    with pytest.raises(KroghError, match="entries are too many"):
        dense_parameters(compiled.network, 30_000)
    with pytest.raises(KroghError, match=r"a last layer 'out.W'; got \['W'\]"):
        circuit_output({"W": np.zeros(1)}, np.zeros((1, 1)))


# Files.


def test_what_is_saved_is_loaded(tmp_path):
    compiled = compile_circuit(comparator(3), width=500, depth=101)
    path = compiled.save(tmp_path / "weights.safetensors")
    found = load_network(path)
    assert isinstance(found, CompiledCircuit)
    assert found.network.modules == compiled.network.modules and found.size == compiled.size
    for one, other in zip(found.network.layers, compiled.network.layers, strict=True):
        assert np.array_equal(one.weight.toarray(), other.weight.toarray()) and np.array_equal(one.bias, other.bias)
    assert np.array_equal(found.run(all_inputs(6)), compiled.run(all_inputs(6))) and found.check().holds
    assert found.circuit.input_names == compiled.circuit.input_names
    with safetensors.safe_open(str(path), framework="numpy") as file:
        header = json.loads(file.metadata()["krogh"])
    assert header["recipe"]["width"] == 500 and header["statement"] == compiled.statement
    assert list(tmp_path.iterdir()) == [path]


def test_layers_that_are_the_same_are_stored_once(tmp_path):
    few, many = (compile_circuit(and_ladder(6, q)).save(tmp_path / f"{q}") for q in (10, 40))
    assert many.stat().st_size < few.stat().st_size + 12_000
    found = load_network(many)
    assert isinstance(found, CompiledCircuit) and len({id(layer) for layer in found.network.layers}) < 20


@pytest.mark.parametrize(
    ("recipe", "message"),
    [
        ({}, "is damaged: 'circuit'; write it again"),
        ({"circuit": {"gates": [["AAAA", "AAAA", "AAAA"]]}}, "is damaged: gates that cannot be read"),
    ],
)
def test_circuits_that_are_none_are_damage(tmp_path, recipe, message):
    path = tmp_path / "file.safetensors"
    header = {"krogh": json.dumps({"kind": "circuit", "recipe": recipe})}
    path.write_bytes(safetensors.numpy.save({"a": np.zeros(1)}, header))
    with pytest.raises(KroghError, match=message):
        load_network(path)
