"""Handmade networks for PyTorch: ReLU chains as `torch.nn.Sequential`, automata as `torch.nn.RNN`, machines as modules.

Layer i of a chain is module 2i of the Sequential, a `torch.nn.Linear` in float64 with `2i.weight` [out, in] and
`2i.bias` [out]; between two of them stands a `torch.nn.ReLU`. An automaton's network, without rounding, is a
`torch.nn.RNN` with ReLU, h_t = φ(W_ih x_t + b_ih + W_hh h_{t-1} + b_hh) with `rnn.weight_ih_l0` = A,
`rnn.bias_ih_l0` = b, `rnn.weight_hh_l0` = W and `rnn.bias_hh_l0` = 0; `readout.weight` is r and `initial` h_0. A
machine's network is a module of its own: `embedding` = E, `first` = o_0, `readout` = cls, `positions` = β, and layer i
is `layers.{i - 1}`, with `decoder` and `encoder` (`query`, `key` and `value`, each weight and bias, `null_key`,
`null_value`) where it attends, and `feedforward.0` to `.2`.

`write_torch` writes the weights under these names to a safetensors file, and beside it a Python module of the same name
(`torch_modules`) whose `load()` builds the network and reads them: neither file holds a pickle or needs krogh, and only
the module that was asked for is run. Attention that counts is refused by name.
"""

from __future__ import annotations

import itertools
import keyword
import sys
from pathlib import Path
from typing import Any

import numpy as np
import safetensors.numpy
from numpy.typing import NDArray

from krogh.errors import KroghError, require
from krogh.files import destination, write_atomically
from krogh.networks.automata import CompiledAutomaton
from krogh.networks.circuits import CompiledCircuit
from krogh.networks.machines.compiled import CompiledMachine
from krogh.networks.machines.layout import cells_needed
from krogh.networks.relu import ReluNetwork
from krogh.networks.torch_modules import CHAIN, MACHINE, READER
from krogh.networks.weight_files import require_writable

Array = NDArray[np.float64]
MOST_ENTRIES = 1 << 27
"""Numbers in dense weights: 1 GiB."""
OURS = "`load()` is a torch.nn."
"""Every module that is written here says so."""
NO_CHAINS = {"counting": "attention over a word, and only what follows it is a chain of layers"}
"""Why other networks are none, by kind."""
ATTENTION = {
    "Wq": "query.weight",
    "bq": "query.bias",
    "Wk": "key.weight",
    "bk": "key.bias",
    "Wv": "value.weight",
    "bv": "value.bias",
    "K0": "null_key",
    "V0": "null_value",
}
"""The names of an attention's parameters here and in PyTorch."""


def state_dict(network: Any) -> dict[str, Array]:
    """Weights and biases as full float64 arrays under the names of the module: 0.weight, 0.bias, 2.weight, … of a
    Sequential; rnn.weight_ih_l0, …, readout.weight and initial of a recurrent one; layers.0.decoder.query.weight, … of
    a machine's."""
    if isinstance(network, CompiledMachine):
        _require_room(network.parameter_count + network.positions.size)
        dense = network.dense_parameters()
        return {_named(name): array for name, array in dense.items()} | {"positions": network.positions}
    if isinstance(network, CompiledAutomaton):
        _require_plain(network)
        return {
            "rnn.weight_ih_l0": network.symbols.weight.toarray(),
            "rnn.bias_ih_l0": np.array(network.symbols.bias),
            "rnn.weight_hh_l0": network.recurrent.toarray(),
            "rnn.bias_hh_l0": np.zeros(network.width),
            "readout.weight": np.array(network.readout)[None, :],
            "initial": np.array(network.initial),
        }
    chain = _chain(network)
    arrays: dict[str, Array] = {}
    for place, layer in enumerate(chain.layers):
        arrays |= {f"{2 * place}.weight": layer.weight.toarray(), f"{2 * place}.bias": np.array(layer.bias)}
    return arrays


def to_torch(network: Any) -> Any:
    """A circuit's network, or any ReLU network, as `torch.nn.Sequential` of Linear and ReLU; an automaton's with a
    `torch.nn.RNN`; a machine's as a transformer that can be trained on; in float64.

    >>> module = krogh.to_torch(krogh.compile_circuit(krogh.load_circuit("adder.aag")))    # doctest: +SKIP
    >>> module(torch.tensor([[0.0, 1.0, 1.0, 0.0]], dtype=torch.float64))                 # doctest: +SKIP
    """
    arrays, text = state_dict(network), module_text(network, "network.safetensors")
    try:
        import torch
    except ImportError:
        raise KroghError(
            "PyTorch is not installed (pip install torch); `krogh compile ... --torch FILE` needs none"
        ) from None
    written: dict[str, Any] = {"__file__": "network.py", "__name__": "network"}
    exec(compile(text, "network.py", "exec"), written)  # the module that `write_torch` writes
    module = written["build"]()
    module.load_state_dict({name: torch.from_numpy(array) for name, array in arrays.items()})
    return module


def write_torch(network: Any, path: str | Path) -> tuple[Path, Path]:
    """Write NAME.safetensors, and NAME.py that loads it; both paths."""
    file = Path(path)
    require_torch_file(file)
    arrays, module = state_dict(network), module_text(network, file.name)
    try:
        write_atomically(destination(file), safetensors.numpy.save(arrays, {"format": "pt"}), parents=False)
        write_atomically(destination(file.with_suffix(".py")), module.encode(), parents=False)
    except OSError as cause:
        raise KroghError(f"{str(path)!r} cannot be written: {cause.strerror}") from None
    return file, file.with_suffix(".py")


def require_torch_file(path: Path) -> None:
    """Refuse, before anything is computed, a name that cannot be written."""
    name, module = path.stem, path.with_suffix(".py")
    good = path.suffix == ".safetensors" and name.isidentifier() and not keyword.iskeyword(name)
    hint = f"(try {str(path.with_name('network.safetensors'))!r})"
    require(good, f"weights for PyTorch are written to NAME.safetensors beside NAME.py; got {str(path)!r} {hint}")
    taken = name in sys.stdlib_module_names or name in ("torch", "safetensors", "numpy")
    require(not taken, f"{module} would stand in the place of the module {name!r} for whoever imports that {hint}")
    require(not module.exists() or _is_ours(module), f"{module} is there, and was not written by krogh {hint}")
    require_writable(path)


def _is_ours(module: Path) -> bool:
    """Whether a file is a module as `module_text` makes them."""
    try:
        with module.open(encoding="utf-8") as file:
            return OURS in file.read(1 << 16)
    except (OSError, UnicodeDecodeError):
        return False


def module_text(network: Any, file: str) -> str:
    """The Python module that loads the weights of a file."""
    if isinstance(network, CompiledAutomaton):
        _require_plain(network)
        return READER.format(
            name=_plain(network.name),
            statement=_plain(network.statement),
            file=_plain(file),
            symbols=len(network.automaton.alphabet),
            width=network.width,
            alphabet=[*network.automaton.alphabet],
        )
    if isinstance(network, CompiledMachine):
        return _machine_text(network, file)
    chain = _chain(network)
    circuit = network.circuit if isinstance(network, CompiledCircuit) else None
    ordered = [
        _listed(circuit.input_names if circuit else (), chain.inputs, "x"),
        _listed(circuit.output_names if circuit else (), chain.outputs, "y"),
    ]
    shapes = "[" + ", ".join(f"({out}, {into})" for out, into in chain.shapes) + "]"
    statement = network.statement if circuit else "a ReLU network"
    return CHAIN.format(
        name=_plain(circuit.name if circuit else "network"),
        statement=_plain(statement),
        file=_plain(file),
        inputs=chain.inputs,
        outputs=chain.outputs,
        input_names=ordered[0],
        output_names=ordered[1],
        shapes=shapes,
    )


def _machine_text(network: CompiledMachine, file: str) -> str:
    machine, layout = network.machine, network.layout
    sizes = [
        tuple(
            network.parameters[name].shape[0] if (name := f"L{place}.{which}.Wq") in network.parameters else 0
            for which in ("dec", "enc")
        )
        for place in range(1, network.depth + 1)
    ]
    where = {word: layout[group] for word, group in (("state", "st"), ("symbol", "sym1"), ("cell", "pos2"))}
    _, highest = cells_needed(machine.tape, network.steps, network.input_length)
    return MACHINE.format(
        name=_plain(network.name),
        statement=_plain(network.statement),
        file=_plain(file),
        states=[*machine.states, "before the first step"],
        alphabet=[*machine.alphabet],
        steps=network.decoder_steps,
        width=network.width,
        highest=2**network.bits - 1 if machine.tape == "one-way" else highest,
        bits=network.bits,
        temperature=network.inverse_temperature,
        layers="\n".join(
            f"    {size},  # {_plain(name)}" for size, name in zip(sizes, network.layer_names, strict=True)
        ),
        rows=len(network.positions),
        **{word: f"{group[0]}, {group[-1] + 1}" for word, group in where.items()},
    )


def _named(name: str) -> str:
    """A parameter's name in PyTorch: L3.dec.Wq is layers.2.decoder.query.weight."""
    layer, _, rest = name.partition(".")
    if not rest:
        return {"E": "embedding", "o0": "first", "cls": "readout"}[name]
    block, _, part = rest.partition(".")
    place = f"layers.{int(layer.removeprefix('L')) - 1}"
    if block == "ff":
        return f"{place}.feedforward.{int(part[1]) - 1}.{'weight' if part[0] == 'W' else 'bias'}"
    return f"{place}.{ {'dec': 'decoder', 'enc': 'encoder'}[block] }.{ATTENTION[part]}"


def _chain(network: Any) -> ReluNetwork:
    found = network.network if isinstance(network, CompiledCircuit) else network
    if not isinstance(found, ReluNetwork):
        kind = getattr(network, "kind", type(network).__name__)
        why = NO_CHAINS.get(kind, "no chain of ReLU layers")
        raise KroghError(
            "only chains of ReLU layers, automata and machines become modules of PyTorch; "
            f"a network of the kind {kind!r} is {why}"
        )
    _require_room(sum(out * (into + 1) for out, into in found.shapes))
    return found


def _require_plain(network: CompiledAutomaton) -> None:
    require(
        not network.correction,
        "a torch.nn.RNN has one layer for every symbol, and rounding is two more: compile it without --correction",
    )
    _require_room(network.width * (network.width + len(network.automaton.alphabet) + 4))


def _require_room(entries: int) -> None:
    require(
        entries <= MOST_ENTRIES,
        f"the network has {entries:,} weights as full matrices; at most {MOST_ENTRIES:,} are written for PyTorch",
    )


def _listed(names: tuple[str, ...], count: int, letter: str) -> str:
    given = names or tuple(f"{letter}{place}" for place in range(count))
    shown = ", ".join(itertools.islice(given, 32))
    return _plain(shown + (", …" if count > 32 else ""))


def _plain(text: str) -> str:
    """Text that cannot end the docstring it stands in."""
    return "".join(letter if letter.isprintable() and letter not in '"\\' else "'" for letter in text)
