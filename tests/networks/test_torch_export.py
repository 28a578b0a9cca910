"""Networks for PyTorch: the written files by NumPy alone, and the modules themselves where PyTorch is installed."""

from __future__ import annotations

import importlib.util
import itertools
import sys
from types import ModuleType

import numpy as np
import pytest
import safetensors.numpy
import scipy.special

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
from krogh.programs.machines.running import trace

CIRCUITS = [circuits.adder(2), circuits.random_circuit(5, 6, 5, 0), circuits.parse_circuit("inputs a\noutputs a\n")]


class Module:
    """`torch.nn.Module`: arrays by dotted names, all of which are to be given, in their shapes."""

    def register_buffer(self, name, array):
        setattr(self, name, array)

    def arrays(self, prefix=""):
        for name, value in vars(self).items():
            if isinstance(value, np.ndarray):
                yield f"{prefix}{name}", self, name
            elif isinstance(value, Module):
                yield from value.arrays(f"{prefix}{name}.")

    def load_state_dict(self, arrays):
        places = {path: (owner, name) for path, owner, name in self.arrays()}
        assert places.keys() == arrays.keys()
        for path, (owner, name) in places.items():
            assert getattr(owner, name).shape == arrays[path].shape
            setattr(owner, name, arrays[path])

    def __call__(self, *inputs):
        return self.forward(*inputs)


class ModuleList(Module):
    def __init__(self, parts):
        vars(self).update({str(place): part for place, part in enumerate(parts)})

    def __iter__(self):
        return iter(vars(self).values())


class Linear(Module):
    """What `torch.nn.Linear` computes, in NumPy."""

    def __init__(self, into, out, dtype):
        self.weight, self.bias = np.zeros((out, into), dtype), np.zeros(out, dtype)
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
    torch.nn.Module, torch.nn.ModuleList, torch.nn.Parameter = Module, ModuleList, np.asarray
    torch.zeros = lambda *shape, dtype: np.zeros(shape, dtype)
    torch.amax = lambda x, dim, keepdim: np.max(x, dim, keepdims=keepdim)
    torch.sum = lambda x, dim, keepdim: np.sum(x, dim, keepdims=keepdim)
    torch.softmax = lambda x, dim: scipy.special.softmax(x, dim)
    torch.relu = lambda x: np.maximum(x, 0.0)
    torch.cat, torch.stack, torch.tensor, torch.where = np.concatenate, np.stack, np.array, np.where
    torch.einsum, torch.tile, torch.arange = np.einsum, np.tile, np.arange
    torch.ones_like, torch.zeros_like = np.ones_like, np.zeros_like
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
    counting = compile_counting(from_regex("(a|b)*a(a|b)*"), 3)
    with pytest.raises(KroghError, match=r"only chains of ReLU layers, automata and machines .* attention over a word"):
        write_torch(counting, tmp_path / "net.safetensors")
    with pytest.raises(KroghError, match="compile it without --correction"):
        write_torch(compile_automaton(from_regex("(ab)*"), correction=True), tmp_path / "net.safetensors")
    assert not list(tmp_path.iterdir())
    compiled = compile_circuit(CIRCUITS[0])
    for bad in ("net.pt", "not a name.safetensors"):
        with pytest.raises(KroghError, match=r"written to NAME.safetensors beside NAME.py"):
            write_torch(compiled, tmp_path / bad)
    for bad in ("class", "torch", "safetensors", "json"):
        with pytest.raises(KroghError, match=r"written to NAME.safetensors|in the place of the module"):
            write_torch(compiled, tmp_path / f"{bad}.safetensors")
    mine = tmp_path / "train.py"
    mine.write_text("print('my training script')")
    with pytest.raises(KroghError, match=r"train\.py is there, and was not written by krogh"):
        write_torch(compiled, tmp_path / "train.safetensors")
    assert [path.name for path in tmp_path.iterdir()] == ["train.py"] and "my training" in mine.read_text()
    write_torch(compiled, tmp_path / "net.safetensors")
    write_torch(compile_machine(load_machine("parity"), 4), tmp_path / "net.safetensors")  # over one of krogh's own
    write_torch(compile_automaton(from_regex("(ab)*")), tmp_path / "net.safetensors")
    monkeypatch.setattr("krogh.networks.torch_export.MOST_ENTRIES", 10)
    with pytest.raises(KroghError, match="weights as full matrices; at most 10"):
        state_dict(compiled)
    for network in (compile_automaton(from_regex("(ab)*")), compile_machine(load_machine("parity"), 4)):
        with pytest.raises(KroghError, match="weights as full matrices; at most 10"):
            state_dict(network)


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


MACHINES = {
    "hard": compile_machine(load_machine("palindrome"), 14, input_length=4),
    "soft": compile_machine(load_machine("palindrome"), 14, input_length=4, attention="soft"),
    "ripple": compile_machine(load_machine("binary-increment"), 12, input_length=4, adder="ripple", correction=False),
    "to the left of the input": compile_machine(load_machine("busy-beaver-3"), 14, input_length=2),
}


def machine_answers(compiled, module, encode, decode):
    """The written module on all short words, beside the interpreter at every time."""
    longest = min(3, compiled.input_length)
    words = [
        [*word] for size in range(longest + 1) for word in itertools.product(compiled.machine.alphabet[1:], repeat=size)
    ]
    outputs = module(*encode(*words))
    for word, times in zip(words, decode(outputs), strict=True):
        oracle = trace(compiled.machine, word, compiled.steps)
        assert [compiled.machine.states.index(state) for state, *_ in times] == oracle.state.tolist()
        assert [compiled.machine.alphabet.index(symbol) for _, symbol, _ in times] == oracle.symbol.tolist()
        assert [cell for *_, cell in times] == oracle.cell.tolist()
    said = np.asarray(module.classify(outputs).tolist())
    assert np.abs(said - compiled.run(words, method="dense").output).max() < 1e-9


@pytest.mark.parametrize("kind", MACHINES)
def test_a_written_machine_runs_without_krogh(kind, tmp_path, numpy_torch):
    written = loaded(write_torch(MACHINES[kind], tmp_path / "net.safetensors")[1])
    machine_answers(MACHINES[kind], written.load(), written.encode, written.decode)


@pytest.mark.parametrize("kind", MACHINES)
def test_machines_as_modules_of_pytorch(kind, tmp_path):
    torch = pytest.importorskip("torch")
    written = loaded(write_torch(MACHINES[kind], tmp_path / "net.safetensors")[1])
    for module in (krogh.to_torch(MACHINES[kind]), written.load()):
        with torch.no_grad():
            machine_answers(MACHINES[kind], module, written.encode, written.decode)
    module.classify(module(*written.encode([]))).sum().backward()
    assert all(parameter.grad is not None for name, parameter in module.named_parameters() if "value" in name)


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
