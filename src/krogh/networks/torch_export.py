"""Handmade networks for PyTorch: a chain of ReLU layers as `torch.nn.Sequential`, and files that need no krogh.

Layer i of the chain is module 2i of the Sequential, a `torch.nn.Linear` in float64 with `2i.weight` [out, in] and
`2i.bias` [out]; between two of them stands a `torch.nn.ReLU`. `write_torch` writes the weights under these names to a
safetensors file, and beside it a Python module of the same name whose `load()` builds the Sequential and reads them:
neither file holds a pickle, and only the module that was asked for is run.

Circuits and ReLU networks are such chains. A machine's network is a transformer, an automaton's is recurrent, and
attention that counts reads words: these are refused by name.
"""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import safetensors.numpy
from numpy.typing import NDArray

from krogh.errors import KroghError, require
from krogh.files import write_atomically
from krogh.networks.circuits import CompiledCircuit
from krogh.networks.relu import ReluNetwork
from krogh.networks.weight_files import require_writable

Array = NDArray[np.float64]
MOST_ENTRIES = 1 << 27
"""Numbers in dense weights: 1 GiB."""
NO_CHAINS = {
    "machine": "a transformer, whose attention is no layer of torch.nn.Sequential",
    "automaton": "recurrent: h_t = φ(W h + A x_t + b), one layer that is run once for every symbol",
    "counting": "attention over a word, and only what follows it is a chain of layers",
}
"""Why other networks are none, by kind."""

MODULE = '''\
"""{name}: {statement}.

`load()` is a torch.nn.Sequential in float64 with the weights of {file}; inputs are [batch, {inputs}], outputs
[batch, {outputs}]. Inputs in order: {input_names}. Outputs in order: {output_names}.
"""

from pathlib import Path

import torch
from safetensors.torch import load_file

SHAPES = {shapes}  # (out, in) of every Linear; a ReLU stands between two of them


def build():
    """The network without its weights."""
    parts = []
    for out, into in SHAPES:
        parts += [torch.nn.Linear(into, out, dtype=torch.float64), torch.nn.ReLU()]
    return torch.nn.Sequential(*parts[:-1])


def load(path=Path(__file__).with_suffix(".safetensors")):
    """The network with the weights of a file."""
    network = build()
    network.load_state_dict(load_file(path))
    return network
'''


def state_dict(network: Any) -> dict[str, Array]:
    """Weights and biases as full float64 arrays under the names of the Sequential: 0.weight, 0.bias, 2.weight, …"""
    chain = _chain(network)
    arrays: dict[str, Array] = {}
    for place, layer in enumerate(chain.layers):
        arrays |= {f"{2 * place}.weight": layer.weight.toarray(), f"{2 * place}.bias": np.array(layer.bias)}
    return arrays


def to_torch(network: Any) -> Any:
    """A circuit's network, or any ReLU network, as `torch.nn.Sequential` of Linear and ReLU in float64.

    >>> module = krogh.to_torch(krogh.compile_circuit(krogh.load_circuit("adder.aag")))    # doctest: +SKIP
    >>> module(torch.tensor([[0.0, 1.0, 1.0, 0.0]], dtype=torch.float64))                 # doctest: +SKIP
    """
    arrays = state_dict(network)
    try:
        import torch
    except ImportError:
        raise KroghError(
            "PyTorch is not installed (pip install torch); `krogh compile ... --torch FILE` needs none"
        ) from None
    parts: list[Any] = []
    for out, into in _chain(network).shapes:
        parts += [torch.nn.Linear(into, out, dtype=torch.float64), torch.nn.ReLU()]
    module = torch.nn.Sequential(*parts[:-1])
    module.load_state_dict({name: torch.from_numpy(array) for name, array in arrays.items()})
    return module


def write_torch(network: Any, path: str | Path) -> tuple[Path, Path]:
    """Write NAME.safetensors, and NAME.py that loads it; both paths."""
    file = Path(path)
    require_torch_file(file)
    arrays, module = state_dict(network), module_text(network, file.name)
    try:
        write_atomically(file, safetensors.numpy.save(arrays, {"format": "pt"}), parents=False)
        write_atomically(file.with_suffix(".py"), module.encode(), parents=False)
    except OSError as cause:
        raise KroghError(f"{str(path)!r} cannot be written: {cause.strerror}") from None
    return file, file.with_suffix(".py")


def require_torch_file(path: Path) -> None:
    """Refuse, before anything is computed, a name that cannot be written."""
    good = path.suffix == ".safetensors" and path.stem.isidentifier()
    hint = str(path.with_name("network.safetensors"))
    require(
        good, f"weights for PyTorch are written to NAME.safetensors beside NAME.py; got {str(path)!r} (try {hint!r})"
    )
    require_writable(path)


def module_text(network: Any, file: str) -> str:
    """The Python module that loads the weights of a file."""
    chain = _chain(network)
    circuit = network.circuit if isinstance(network, CompiledCircuit) else None
    ordered = [
        _listed(circuit.input_names if circuit else (), chain.inputs, "x"),
        _listed(circuit.output_names if circuit else (), chain.outputs, "y"),
    ]
    shapes = "[" + ", ".join(f"({out}, {into})" for out, into in chain.shapes) + "]"
    statement = network.statement if circuit else "a ReLU network"
    return MODULE.format(
        name=_plain(circuit.name if circuit else "network"),
        statement=_plain(statement),
        file=_plain(file),
        inputs=chain.inputs,
        outputs=chain.outputs,
        input_names=ordered[0],
        output_names=ordered[1],
        shapes=shapes,
    )


def _chain(network: Any) -> ReluNetwork:
    found = network.network if isinstance(network, CompiledCircuit) else network
    if not isinstance(found, ReluNetwork):
        kind = getattr(network, "kind", type(network).__name__)
        why = NO_CHAINS.get(kind, "no chain of ReLU layers")
        raise KroghError(
            f"only chains of ReLU layers become torch.nn.Sequential; a network of the kind {kind!r} is {why}"
        )
    entries = sum(out * (into + 1) for out, into in found.shapes)
    require(
        entries <= MOST_ENTRIES,
        f"the network has {entries:,} weights as full matrices; at most {MOST_ENTRIES:,} are written for PyTorch",
    )
    return found


def _listed(names: tuple[str, ...], count: int, letter: str) -> str:
    given = names or tuple(f"{letter}{place}" for place in range(count))
    shown = ", ".join(itertools.islice(given, 32))
    return _plain(shown + (", …" if count > 32 else ""))


def _plain(text: str) -> str:
    """Text that cannot end the docstring it stands in."""
    return "".join(letter if letter.isprintable() and letter not in '"\\' else "'" for letter in text)
