"""Compiled automata in safetensors files, from which they run again without anything else.

A vector is one tensor under its name; a sparse matrix is three, `NAME.data`, `NAME.indices` and `NAME.indptr`
(compressed rows). The header's entry "krogh" says in JSON what the network is: its kind, the automaton as YAML, the
statement, the size, and the shapes of the matrices.
"""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import safetensors.numpy
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open
from scipy.sparse import csr_array

from krogh.errors import KroghError, require
from krogh.tasks.automata import Automaton, parse_automaton, write_automaton
from krogh.theory.compilers.affine import Affine, Array
from krogh.theory.compilers.automata import CompiledAutomaton, compile_automaton
from krogh.theory.compilers.counting import CompiledCounting, compile_counting
from krogh.theory.compilers.networks import ReluNetwork

Compiled = CompiledAutomaton | CompiledCounting
Weights = dict[str, csr_array | Array]

PARTS = ("data", "indices", "indptr")
RECURRENT, COUNTING = "compiled automaton", "compiled counting"


def save_automaton_weights(compiled: Compiled, path: str | os.PathLike[str]) -> Path:
    """Write a compiled automaton; the file appears whole or not at all."""
    target = Path(path)
    names_a_file = target.name not in ("", "..") and not target.is_dir()
    require(
        names_a_file,
        f"weights are written to a file; got {str(path)!r} (try {str(target / 'weights.safetensors')!r})",
    )
    tensors: dict[str, NDArray[Any]] = {}
    shapes: dict[str, list[int]] = {}
    for name, value in compiled.weights.items():
        if isinstance(value, np.ndarray):
            tensors[name] = np.ascontiguousarray(value)
        else:
            tensors |= {f"{name}.{part}": np.ascontiguousarray(getattr(value, part)) for part in PARTS}
            shapes[name] = list(value.shape)
    header: dict[str, Any] = {
        "automaton": write_automaton(compiled.automaton),
        "statement": compiled.statement,
        "size": compiled.size,
        "matrices": shapes,
    }
    if isinstance(compiled, CompiledAutomaton):
        header |= {"kind": RECURRENT, "correction": compiled.correction}
    else:
        header |= {"kind": COUNTING, "length": compiled.length}
    partial = target.with_name(target.name + ".partial")
    try:
        partial.write_bytes(safetensors.numpy.save(tensors, {"krogh": json.dumps(header)}))
        os.replace(partial, target)
    except OSError as cause:
        partial.unlink(missing_ok=True)
        raise KroghError(f"the weights cannot be written to {str(target)!r}: {cause.strerror}") from None
    return target


def load_automaton_weights(path: str | os.PathLike[str]) -> Compiled:
    """The compiled automaton of a file, with the weights that stand there."""
    source = Path(path)
    require(source.is_file(), f"no file {str(source)!r} with the weights of a compiled automaton")
    try:
        with safe_open(source, framework="numpy") as file:
            text = (file.metadata() or {}).get("krogh", "{}")
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except (SafetensorError, OSError) as cause:
        raise KroghError(f"{str(source)!r} cannot be read as safetensors: {cause}") from None
    try:
        header = json.loads(text)
    except json.JSONDecodeError:
        header = {}
    kind = header.get("kind") if isinstance(header, dict) else None
    require(
        kind in (RECURRENT, COUNTING),
        f"{str(source)!r} holds no compiled automaton: its header says kind={kind!r} where {RECURRENT!r} or "
        f"{COUNTING!r} is written by `krogh compile regex`",
    )
    try:
        return _compiled(header, tensors)
    except (KeyError, ValueError, TypeError) as cause:
        raise KroghError(f"{str(source)!r} is damaged: {cause}; compile the automaton again") from None


def _compiled(header: dict[str, Any], tensors: dict[str, NDArray[Any]]) -> Compiled:
    weights: Weights = {}
    for name, shape in header["matrices"].items():
        matrix = csr_array(tuple(tensors.pop(f"{name}.{part}") for part in PARTS), shape=tuple(shape))
        matrix.check_format(full_check=True)
        weights[name] = matrix
    weights |= tensors
    automaton = parse_automaton(header["automaton"], "its automaton")
    recurrent = header["kind"] == RECURRENT
    return _recurrent(automaton, weights, header) if recurrent else _counting(automaton, weights, header)


def _recurrent(automaton: Automaton, weights: Weights, header: dict[str, Any]) -> CompiledAutomaton:
    fresh = compile_automaton(automaton, correction=bool(header["correction"]))
    _same_shapes(fresh, weights)
    rounding = None
    if fresh.rounding is not None:
        rounding = Affine(weights["V1"], weights["c1"]), Affine(weights["V2"], weights["c2"])
    return replace(
        fresh,
        recurrent=weights["W"],
        symbols=Affine(weights["A"], weights["b"]),
        initial=weights["h0"],
        readout=weights["r"],
        rounding=rounding,
    )


def _counting(automaton: Automaton, weights: Weights, header: dict[str, Any]) -> CompiledCounting:
    fresh = compile_counting(automaton, header["length"])
    _same_shapes(fresh, weights)
    layers = tuple(Affine(weights[f"W{i}"], weights[f"b{i}"]) for i in (1, 2, 3))
    head = {name: np.asarray(weights[name]) for name in fresh.head}
    return replace(fresh, head=head, table=ReluNetwork(layers, fresh.table.modules))


def _same_shapes(fresh: Compiled, weights: Weights) -> None:
    """What the header says fixes every name and shape; the values are the file's own."""
    expected, given = ({name: tuple(value.shape) for name, value in one.items()} for one in (fresh.weights, weights))
    for name in sorted(expected.keys() | given.keys()):
        wanted, got = expected.get(name), given.get(name)
        require(wanted == got, f"parameter {name!r} should have the shape {wanted} and has {got}")
