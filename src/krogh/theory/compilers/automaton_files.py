"""Compiled automata in safetensors files, from which they run again without anything else.

The header (`krogh.theory.weight_files`) says what the network is: its kind, the automaton as YAML, the statement and
the size.
"""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from krogh.tasks.automata import Automaton, parse_automaton, write_automaton
from krogh.theory.compilers.affine import Affine
from krogh.theory.compilers.automata import CompiledAutomaton, compile_automaton
from krogh.theory.compilers.counting import CompiledCounting, compile_counting
from krogh.theory.compilers.networks import ReluNetwork
from krogh.theory.weight_files import UNFIT, Weights, damaged, read_file, require_same_shapes, write_file

Compiled = CompiledAutomaton | CompiledCounting

RECURRENT, COUNTING = "compiled automaton", "compiled counting"


def save_automaton_weights(compiled: Compiled, path: str | os.PathLike[str]) -> Path:
    """Write a compiled automaton; the file appears whole or not at all."""
    header: dict[str, Any] = {
        "automaton": write_automaton(compiled.automaton),
        "statement": compiled.statement,
        "size": compiled.size,
    }
    if isinstance(compiled, CompiledAutomaton):
        header |= {"kind": RECURRENT, "correction": compiled.correction}
    else:
        header |= {"kind": COUNTING, "length": compiled.length}
    return write_file(path, compiled.weights, header)


def load_automaton_weights(path: str | os.PathLike[str]) -> Compiled:
    """The compiled automaton of a file, with the weights that stand there."""
    command = "krogh compile regex` or `krogh compile automaton"
    header, weights = read_file(path, "compiled automaton", (RECURRENT, COUNTING), command)
    try:
        return _compiled(header, weights)
    except UNFIT as cause:
        raise damaged(path, cause) from None


def _compiled(header: dict[str, Any], weights: Weights) -> Compiled:
    automaton = parse_automaton(header["automaton"], "its automaton")
    recurrent = header["kind"] == RECURRENT
    return _recurrent(automaton, weights, header) if recurrent else _counting(automaton, weights, header)


def _recurrent(automaton: Automaton, weights: Weights, header: dict[str, Any]) -> CompiledAutomaton:
    fresh = compile_automaton(automaton, correction=bool(header["correction"]))
    require_same_shapes(fresh.weights, weights)
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
    require_same_shapes(fresh.weights, weights)
    layers = tuple(Affine(weights[f"W{i}"], weights[f"b{i}"]) for i in (1, 2, 3))
    head = {name: np.asarray(weights[name]) for name in fresh.head}
    return replace(fresh, head=head, table=ReluNetwork(layers, fresh.table.modules))
