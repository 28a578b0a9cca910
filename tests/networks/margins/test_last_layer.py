"""Changes of the last layer alone: a bound from above that always fits, executed on the whole network."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

from krogh.networks.automata import compile_automaton
from krogh.networks.circuits import compile_circuit
from krogh.networks.compiled import Compiled
from krogh.networks.counting import compile_counting
from krogh.networks.machines.compiled import CompiledMachine, compile_machine
from krogh.networks.margins.report import margin_bounds
from krogh.programs import circuits
from krogh.programs.automata.regex import from_regex
from krogh.programs.machines.library import load_machine

NETWORKS = {
    "circuit": lambda: compile_circuit(circuits.adder(3)),
    "uncorrected circuit": lambda: compile_circuit(circuits.comparator(2), correction=False),
    "deep circuit": lambda: compile_circuit(circuits.adder(2), depth=60),
    "automaton": lambda: compile_automaton(from_regex("(ab)*")),
    "rounded automaton": lambda: compile_automaton(from_regex("a*b"), correction=True),
    "counting": lambda: compile_counting(from_regex("(0*10*1)*0*"), 5),
    "machine": lambda: compile_machine(load_machine("parity"), 8),
    "ripple machine": lambda: compile_machine(load_machine("parity"), 3, adder="ripple"),
    "uncorrected machine": lambda: compile_machine(load_machine("parity"), 4, correction=False),
}


@cache
def network(name: str) -> Compiled:
    return NETWORKS[name]()


def output_of(compiled: Compiled, decision) -> float:
    if isinstance(compiled, CompiledMachine):
        return float(compiled.run(decision.inputs, method="dense").output[0])
    return float(np.reshape(compiled.run(decision.inputs), (1, -1))[0, decision.output])


def names_of_last(compiled: Compiled) -> tuple[str, str]:
    if isinstance(compiled, CompiledMachine):
        return "cls", ""
    if "r" in compiled.parameters:
        return "r", ""
    relu = getattr(compiled, "network", None) or compiled.table
    return relu.named_layers[-1][:2]


@pytest.mark.parametrize("name", NETWORKS)
def test_a_change_of_the_last_layer_changes_the_label_of_the_whole_network(name):
    compiled = network(name)
    weight, bias = names_of_last(compiled)
    for decision in compiled.decisions():
        w, h = compiled.read_out(decision)
        value = output_of(compiled, decision)
        assert w @ h == pytest.approx(value, abs=1e-12) and abs(value) == pytest.approx(1)
        for share, flips in ((1.0, True), (1 - 1e-6, False)):
            change = share * compiled.read_out(decision).flip
            parameters = compiled.dense_parameters()
            if bias:
                parameters[weight][decision.output] += change[:-1]
                parameters[bias][decision.output] += change[-1]
            else:
                parameters[weight] = parameters[weight] + change
            assert (output_of(compiled.with_parameters(parameters), decision) * value < 0) == flips


@pytest.mark.parametrize("name", NETWORKS)
def test_there_is_always_an_upper_bound_and_it_is_above_the_lower(name):
    compiled = network(name)
    bounds = margin_bounds(compiled, seconds=1e-3)
    assert len(bounds.attacked) == len(compiled.decisions()) and bounds.hardest is not None
    norms = [np.linalg.norm(compiled.read_out(decision).flip) for decision in compiled.decisions()]
    assert bounds.certificate.value < bounds.hardest.upper <= min(norms)
    if not bounds.whole:
        assert bounds.hardest.upper == min(norms) and "by a change of the last layer alone on" in bounds.words
        assert "not all layers attacked in 0.001 s (some " in bounds.words and "--seconds " in bounds.words


def test_a_run_that_takes_too_much_is_left_out(monkeypatch):
    compiled = network("machine")
    monkeypatch.setattr("krogh.networks.machines.checks.MOST_WORK", 1)
    assert compiled.read_out(compiled.decisions()[0]) is None
    bounds = margin_bounds(compiled, seconds=1e-3)
    assert bounds.hardest is None and "no perturbation that changes an output was found" in bounds.words
