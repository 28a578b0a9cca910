"""Networks for PyTorch: the written files by NumPy alone, and the modules themselves where PyTorch is installed."""

from __future__ import annotations

import importlib.util
import itertools
import sys
from types import ModuleType

import numpy as np
import pytest
import safetensors.numpy

import krogh
from krogh.errors import KroghError
from krogh.networks.automata import compile_automaton
from krogh.networks.circuits import compile_circuit
from krogh.networks.counting import compile_counting
from krogh.networks.machines.compiled import compile_machine
from krogh.networks.torch_export import module_text, state_dict, to_torch, write_torch
from krogh.programs import circuits
from krogh.programs.automata.regex import from_regex
from krogh.programs.machines.library import load_machine

CIRCUITS = [circuits.adder(2), circuits.random_circuit(5, 6, 5, 0), circuits.parse_circuit("inputs a\noutputs a\n")]


class Linear:
    """What `torch.nn.Linear` computes, in NumPy."""

    def __init__(self, into, out, dtype):
        self.shapes = {"weight": (out, into), "bias": (out,)}

    def __call__(self, x):
        return x @ self.weight.T + self.bias


class ReLU:
    shapes = {}

    def __call__(self, x):
        return np.maximum(x, 0.0)


class Sequential:
    """`torch.nn.Sequential`, which takes weights by the places of its parts and refuses any other."""

    def __init__(self, *parts):
        self.parts = parts

    def load_state_dict(self, arrays):
        expected = {f"{at}.{name}": shape for at, part in enumerate(self.parts) for name, shape in part.shapes.items()}
        assert {name: array.shape for name, array in arrays.items()} == expected
        for name, array in arrays.items():
            place, _, part = name.partition(".")
            setattr(self.parts[int(place)], part, array)

    def __call__(self, x):
        for part in self.parts:
            x = part(x)
        return x


@pytest.fixture
def numpy_torch(monkeypatch):
    """`torch` and `safetensors.torch` in NumPy, as far as a written module needs them."""
    torch, files = ModuleType("torch"), ModuleType("safetensors.torch")
    torch.nn, torch.float64 = ModuleType("torch.nn"), np.float64
    torch.nn.Linear, torch.nn.ReLU, torch.nn.Sequential = Linear, ReLU, Sequential
    files.load_file = safetensors.numpy.load_file
    monkeypatch.setitem(sys.modules, "torch", torch)
    monkeypatch.setitem(sys.modules, "safetensors.torch", files)


def loaded(path):
    spec = importlib.util.spec_from_file_location("written", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("circuit", CIRCUITS, ids=lambda circuit: circuit.name)
@pytest.mark.parametrize("correction", [True, False])
def test_written_files_compute_the_circuit_without_krogh(circuit, correction, tmp_path, numpy_torch):
    compiled = compile_circuit(circuit, correction=correction)
    weights, module = write_torch(compiled, tmp_path / "net.safetensors")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["net.py", "net.safetensors"]
    bits = circuits.all_inputs(compiled.circuit.inputs).astype(float)
    assert np.array_equal(loaded(module).load()(bits), compiled.run(bits))
    assert safetensors.numpy.load_file(weights).keys() == state_dict(compiled).keys()


def test_names_cannot_become_code(tmp_path, numpy_torch):
    name = 'x"""; raise SystemExit(1) #\\'
    circuit = circuits.Circuit(name, 1, [1], [[0, 0]], (1,), (name,), (name,))
    _, module = write_torch(compile_circuit(circuit), tmp_path / "net.safetensors")
    assert loaded(module).load()(np.ones((1, 1))).tolist() == [[-1.0]]


def test_what_is_no_chain_says_what_it_is(tmp_path, monkeypatch):
    others = {
        "a transformer": compile_machine(load_machine("parity"), 4),
        "attention over a word": compile_counting(from_regex("(a|b)*a(a|b)*"), 3),
    }
    for what, network in others.items():
        with pytest.raises(KroghError, match=f"only chains of ReLU layers, and automata, become modules .* {what}"):
            write_torch(network, tmp_path / "net.safetensors")
    with pytest.raises(KroghError, match="compile it without --correction"):
        write_torch(compile_automaton(from_regex("(ab)*"), correction=True), tmp_path / "net.safetensors")
    assert not list(tmp_path.iterdir())
    compiled = compile_circuit(CIRCUITS[0])
    for bad in ("net.pt", "not a name.safetensors"):
        with pytest.raises(KroghError, match=r"written to NAME.safetensors beside NAME.py"):
            write_torch(compiled, tmp_path / bad)
    monkeypatch.setattr("krogh.networks.torch_export.MOST_ENTRIES", 10)
    with pytest.raises(KroghError, match="weights as full matrices; at most 10"):
        state_dict(compiled)
    with pytest.raises(KroghError, match="weights as full matrices; at most 10"):
        state_dict(compile_automaton(from_regex("(ab)*")))


LANGUAGES = ["(ab)*", "(a|b)*abb", "a*"]


def words_up_to(alphabet, length):
    return [
        words for size in range(length + 1) for words in [list(itertools.product(range(len(alphabet)), repeat=size))]
    ]


def accepted(compiled, word):
    return 1.0 if compiled.automaton.accepts([compiled.automaton.alphabet[symbol] for symbol in word]) else -1.0


@pytest.mark.parametrize("language", LANGUAGES)
def test_the_recursion_of_pytorch_with_the_written_weights_reads_words(language, tmp_path):
    """h_t = φ(W_ih x_t + b_ih + W_hh h_{t-1} + b_hh), as torch.nn.RNN documents it."""
    compiled = compile_automaton(from_regex(language))
    weights, module = write_torch(compiled, tmp_path / "net.safetensors")
    arrays = safetensors.numpy.load_file(weights)
    alphabet = compiled.automaton.alphabet
    compile(text := module.read_text(), "net.py", "exec")
    assert f"ALPHABET = {[*alphabet]!r}" in text
    for words in words_up_to(alphabet, 5):
        hidden = np.tile(arrays["initial"], (len(words), 1))
        for symbols in np.array(words, int).reshape(len(words), -1).T:
            x = np.eye(len(alphabet))[symbols]
            hidden = x @ arrays["rnn.weight_ih_l0"].T + arrays["rnn.bias_ih_l0"] + hidden @ arrays["rnn.weight_hh_l0"].T
            hidden = np.maximum(hidden + arrays["rnn.bias_hh_l0"], 0.0)
        said = hidden @ arrays["readout.weight"][0]
        assert said.tolist() == [accepted(compiled, word) for word in words]


@pytest.mark.parametrize("language", LANGUAGES)
def test_recurrent_modules_of_pytorch(language, tmp_path):
    torch = pytest.importorskip("torch")
    compiled = compile_automaton(from_regex(language))
    written = loaded(write_torch(compiled, tmp_path / "net.safetensors")[1])
    alphabet = compiled.automaton.alphabet
    for module in (krogh.to_torch(compiled), written.load()):
        assert isinstance(module.rnn, torch.nn.RNN)
        for words in words_up_to(alphabet, 5):
            with torch.no_grad():
                said = module(written.encode(*([alphabet[symbol] for symbol in word] for word in words))).tolist()
            assert said == [accepted(compiled, word) for word in words]


def test_a_network_without_a_circuit_is_written_too():
    text = module_text(compile_circuit(CIRCUITS[0]).network, "net.safetensors")
    compile(text, "net.py", "exec")
    assert "Inputs in order: x0, x1, x2, x3." in text


@pytest.mark.parametrize("circuit", CIRCUITS[:2], ids=lambda circuit: circuit.name)
def test_modules_of_pytorch(circuit, tmp_path):
    torch = pytest.importorskip("torch")
    compiled = compile_circuit(circuit)
    bits = circuits.all_inputs(compiled.circuit.inputs).astype(float)
    module = krogh.to_torch(compiled)
    assert isinstance(module, torch.nn.Sequential)
    written = loaded(write_torch(compiled, tmp_path / "net.safetensors")[1]).load()
    for one in (module, written):
        with torch.no_grad():
            assert np.array_equal(one(torch.from_numpy(bits)).numpy(), compiled.run(bits))


def test_without_pytorch_it_says_so(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(KroghError, match="PyTorch is not installed"):
        to_torch(compile_circuit(CIRCUITS[0]))
