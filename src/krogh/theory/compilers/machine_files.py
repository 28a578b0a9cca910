"""Compiled machines in safetensors files, from which they run again without anything else.

The header (`krogh.theory.weight_files`) says what the network is: the machine with its tables, T, the bits of
positions, adder, correction and attention.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np

from krogh.tasks.machines import Machine
from krogh.theory.compilers.machines import CompiledMachine, compile_machine
from krogh.theory.weight_files import UNFIT, Weights, damaged, read_file, require_same_shapes, write_file

KIND = "compiled machine"
TABLES = ("next_state", "write", "move")
WORDS = ("name", "states", "alphabet", "start", "accept", "reject", "halting", "tape", "default_input")
OPTIONS = ("steps", "input_length", "bits", "adder", "correction", "inverse_temperature", "layer_names")


def save_machine_weights(compiled: CompiledMachine, path: str | os.PathLike[str]) -> Path:
    """Write a compiled machine; the file appears whole or not at all."""
    machine = {name: getattr(compiled.machine, name) for name in WORDS}
    machine |= {name: getattr(compiled.machine, name).tolist() for name in TABLES}
    size = {"width": compiled.width, "parameters": compiled.parameter_count, "one_norm": compiled.one_norm}
    header = {name: getattr(compiled, name) for name in OPTIONS}
    header |= {"kind": KIND, "machine": machine, "size": size}
    return write_file(path, compiled.parameters, header)


def load_machine_weights(path: str | os.PathLike[str]) -> CompiledMachine:
    """The compiled machine of a file, with the weights that stand there."""
    header, parameters = read_file(path, KIND, (KIND,), "krogh compile machine")
    try:
        return _compiled(header, parameters)
    except UNFIT as cause:
        raise damaged(path, cause) from None


def _compiled(header: dict[str, Any], parameters: Weights) -> CompiledMachine:
    described = header["machine"]
    tables = {name: np.array(described[name], np.int64) for name in TABLES}
    written = {name: described[name] for name in WORDS}
    words: dict[str, Any] = {
        name: tuple(value) if isinstance(value, list) else value for name, value in written.items()
    }
    machine = Machine(**(words | tables))
    options = {name: header[name] for name in OPTIONS}
    options["layer_names"] = tuple(options["layer_names"])
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
    require_same_shapes(fresh.parameters, compiled.parameters)
    return compiled
