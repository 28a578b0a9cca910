"""Compiled machines in safetensors files, from which they run again without anything else.

A vector is one tensor under its name; a sparse matrix is three, `NAME.data`, `NAME.indices` and `NAME.indptr`
(compressed rows). The header's entry "krogh" says in JSON what the network is: the machine with its tables, T, the
bits of positions, adder, correction, attention, and the shapes of the matrices.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import safetensors.numpy
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open
from scipy.sparse import csr_array

from krogh.errors import KroghError, require
from krogh.tasks.machines import Machine
from krogh.theory.compilers.machine_layers import Vector
from krogh.theory.compilers.machines import CompiledMachine, compile_machine

KIND = "compiled machine"
TABLES = ("next_state", "write", "move")
WORDS = ("name", "states", "alphabet", "start", "accept", "reject", "halting", "tape", "default_input")
OPTIONS = ("steps", "input_length", "bits", "adder", "correction", "inverse_temperature", "layer_names")
PARTS = ("data", "indices", "indptr")


def save_machine_weights(compiled: CompiledMachine, path: str | os.PathLike[str]) -> Path:
    """Write a compiled machine; the file appears whole or not at all."""
    target = Path(path)
    names_a_file = target.name not in ("", "..") and not target.is_dir()
    require(
        names_a_file,
        f"weights are written to a file; got {str(path)!r} (try {str(target / 'weights.safetensors')!r})",
    )
    tensors: dict[str, NDArray[Any]] = {}
    shapes: dict[str, list[int]] = {}
    for name, value in compiled.parameters.items():
        if isinstance(value, np.ndarray):
            tensors[name] = np.ascontiguousarray(value)
        else:
            tensors |= {f"{name}.{part}": np.ascontiguousarray(getattr(value, part)) for part in PARTS}
            shapes[name] = list(value.shape)
    machine = {name: getattr(compiled.machine, name) for name in WORDS}
    machine |= {name: getattr(compiled.machine, name).tolist() for name in TABLES}
    size = {"width": compiled.width, "parameters": compiled.parameter_count, "one_norm": compiled.one_norm}
    header = {name: getattr(compiled, name) for name in OPTIONS}
    header |= {"kind": KIND, "machine": machine, "matrices": shapes, "size": size}
    partial = target.with_name(target.name + ".partial")
    try:
        partial.write_bytes(safetensors.numpy.save(tensors, {"krogh": json.dumps(header)}))
        os.replace(partial, target)
    except OSError as cause:
        partial.unlink(missing_ok=True)
        raise KroghError(f"the weights cannot be written to {str(target)!r}: {cause.strerror}") from None
    return target


def load_machine_weights(path: str | os.PathLike[str]) -> CompiledMachine:
    """The compiled machine of a file, with the weights that stand there."""
    source = Path(path)
    require(source.is_file(), f"no file {str(source)!r} with the weights of a compiled machine")
    try:
        with safe_open(source, framework="numpy") as file:
            text = (file.metadata() or {}).get("krogh", "{}")
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except (SafetensorError, OSError) as cause:
        raise KroghError(f"{str(source)!r} cannot be read as safetensors: {cause}") from None
    header = _header(text, source)
    try:
        return _compiled(header, tensors)
    except (KeyError, ValueError, TypeError) as cause:
        raise KroghError(f"{str(source)!r} is damaged: {cause}; compile the machine again") from None


def _header(text: str, source: Path) -> dict[str, Any]:
    try:
        header = json.loads(text)
    except json.JSONDecodeError:
        header = {}
    found: dict[str, Any] = header if isinstance(header, dict) else {}
    kind = found.get("kind")
    require(
        kind == KIND,
        f"{str(source)!r} holds no compiled machine: its header says kind={kind!r} where {KIND!r} is written by "
        "`krogh compile machine`",
    )
    return found


def _compiled(header: dict[str, Any], tensors: dict[str, NDArray[Any]]) -> CompiledMachine:
    described = header["machine"]
    tables = {name: np.array(described[name], np.int64) for name in TABLES}
    written = {name: described[name] for name in WORDS}
    words: dict[str, Any] = {
        name: tuple(value) if isinstance(value, list) else value for name, value in written.items()
    }
    machine = Machine(**(words | tables))
    options = {name: header[name] for name in OPTIONS}
    options["layer_names"] = tuple(options["layer_names"])
    parameters: dict[str, csr_array | Vector] = {}
    for name, shape in header["matrices"].items():
        parts = tuple(tensors.pop(f"{name}.{part}") for part in PARTS)
        matrix = csr_array(parts, shape=tuple(shape))
        matrix.check_format(full_check=True)
        parameters[name] = matrix
    parameters |= tensors
    compiled = CompiledMachine(machine=machine, parameters=parameters, **options)
    # What the options say fixes every shape; the values are the file's own.
    fresh = compile_machine(
        machine,
        compiled.steps,
        input_length=compiled.input_length,
        adder=compiled.adder,
        correction=compiled.correction,
        position_bits=compiled.bits,
    )
    expected, given = (
        {name: tuple(value.shape) for name, value in one.parameters.items()} for one in (fresh, compiled)
    )
    for name in sorted(expected.keys() | given.keys()):
        wanted, got = expected.get(name), given.get(name)
        require(wanted == got, f"parameter {name!r} should have the shape {wanted} and has {got}")
    return compiled
