"""`krogh compile circuit | regex | automaton`; machines are in `compiling_machines`."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from krogh.commands.compiled_report import Checked, Compiled, Example, number, report, working
from krogh.commands.wanted import Wanted
from krogh.errors import require
from krogh.tasks.automata import Automaton, from_regex, load_automaton
from krogh.tasks.circuits import load_circuit
from krogh.theory.compilers.automata import CompiledAutomaton, compile_automaton
from krogh.theory.compilers.automaton_checks import check_automaton
from krogh.theory.compilers.automaton_files import save_automaton_weights
from krogh.theory.compilers.circuit_checks import check_circuit
from krogh.theory.compilers.circuits import CompiledCircuit, compile_circuit
from krogh.theory.compilers.counting import CompiledCounting, check_counting, compile_counting

MARGIN_LENGTH = 10
"""Symbols of the words on which recurrent networks are attacked, and for which those without rounding are certified."""


# --- circuits -----------------------------------------------------------------------------------------------


def compile_circuit_file(
    file: Path, width: int | None, depth: int | None, correction: bool, dangling: str, wanted: Wanted
) -> int:
    with working(f"compiling {file}"):
        circuit = load_circuit(file, dangling)
        compiled = compile_circuit(circuit, width=width, depth=depth, correction=correction, dangling=dangling)
    network = compiled.network
    entries = sum(layer.weight.shape[0] * (layer.weight.shape[1] + 1) for layer in network.layers)
    size = {"layers": len(network.layers), **compiled.size, "nonzeros": network.nonzeros}
    return report(
        Compiled(
            "circuit",
            compiled.circuit.name,
            compiled,
            compiled.statement,
            size,
            len(network.layers),
            entries,
            1,
            lambda: _check_circuit(compiled),
            lambda: _circuit_examples(compiled),
            compiled.save,
        ),
        wanted,
    )


def _check_circuit(compiled: CompiledCircuit) -> Checked:
    found = check_circuit(compiled)
    inputs = f"all {found.inputs:,} inputs" if found.exhaustive else f"{found.inputs:,} random inputs"
    proved = ", each unit proved to be its gate" if found.proved else ""
    words = f"outputs and gates on {inputs}{proved}, largest error {number(found.worst)}"
    numbers = {"inputs": found.inputs, "exhaustive": found.exhaustive, "worst": found.worst, "proved": found.proved}
    return Checked(found.exact, words, numbers)


def _circuit_examples(compiled: CompiledCircuit) -> list[Example]:
    """All zeros, all ones and a random input, in turn for up to four outputs."""
    m, outputs = compiled.circuit.inputs, compiled.network.outputs
    random = np.random.default_rng(0).integers(0, 2, m)
    rows = np.unique(np.stack([np.zeros(m, int), np.ones(m, int), random]), axis=0)
    names = compiled.circuit.output_names
    examples = []
    for place in range(max(len(rows), min(outputs, 4))):
        row, output = rows[place % len(rows)], place % min(outputs, 4)
        shown = "".join(map(str, row[:32])) + ("…" if m > 32 else "")
        examples.append(Example(row[None, :], shown if outputs == 1 else f"{shown} ({names[output]})", output))
    return examples


# --- automata -----------------------------------------------------------------------------------------------


def compile_pattern(pattern: str, alphabet: str | None, length: int | None, correction: bool, wanted: Wanted) -> int:
    with working(f"compiling {pattern}"):
        automaton = from_regex(pattern, alphabet)
    return _compile_automaton("regex", automaton, length, correction, wanted)


def compile_automaton_file(file: Path, missing: str, length: int | None, correction: bool, wanted: Wanted) -> int:
    return _compile_automaton("automaton", load_automaton(file, missing), length, correction, wanted)


def _compile_automaton(kind: str, automaton: Automaton, length: int | None, correction: bool, wanted: Wanted) -> int:
    if length is not None:
        require(not correction, "--correction belongs to the recurrent network; leave it out with --length")
        with working(f"compiling {automaton.name}"):
            counting = compile_counting(automaton, length)
        compiled = Compiled(
            kind,
            automaton.name,
            counting,
            counting.statement,
            {**counting.size, "states": automaton.size, "symbols": len(automaton.alphabet)},
            int(counting.size["layers"]),
            int(counting.size["parameters"]),
            1,
            lambda: _check_counting(counting),
            lambda: _word_examples(automaton, length, exactly=True),
            lambda path: save_automaton_weights(counting, path),
        )
        return report(compiled, wanted)
    with working(f"compiling {automaton.name}"):
        recurrent = compile_automaton(automaton, correction=correction)
    compiled = Compiled(
        kind,
        automaton.name,
        recurrent,
        recurrent.statement,
        recurrent.size,
        int(recurrent.size["layers_per_symbol"]),
        int(recurrent.size["parameters"]),
        MARGIN_LENGTH,
        lambda: _check_recurrent(recurrent),
        lambda: _word_examples(automaton, MARGIN_LENGTH, exactly=False),
        lambda path: save_automaton_weights(recurrent, path),
        certified=np.zeros((1, MARGIN_LENGTH), np.int32),
    )
    return report(compiled, wanted)


def _check_recurrent(compiled: CompiledAutomaton) -> Checked:
    found = check_automaton(compiled)
    words = (
        f"all {found.steps:,} steps from one state to the next, so all words of every length by induction; besides "
        f"{found.inputs - found.random:,} words up to length {found.length} and {found.random:,} random ones, "
        f"largest error {number(found.worst)}"
    )
    numbers = {
        "inputs": found.inputs,
        "exhaustive": found.exhaustive,
        "worst": found.worst,
        "steps": found.steps,
        "all_up_to_length": found.length,
        "random": found.random,
    }
    return Checked(found.exact, words, numbers)


def _check_counting(compiled: CompiledCounting) -> Checked:
    found = check_counting(compiled)
    inputs = f"all {found.inputs:,} words" if found.exhaustive else f"{found.inputs:,} words"
    words = f"{inputs} of length {compiled.length}, all {found.counts:,} counts, largest error {number(found.worst)}"
    numbers = {"inputs": found.inputs, "exhaustive": found.exhaustive, "worst": found.worst, "counts": found.counts}
    return Checked(found.exact, words, numbers)


def _word_examples(automaton: Automaton, length: int, *, exactly: bool) -> list[Example]:
    """A word that is accepted and one that is not, of a length, or else of the greatest length below it."""
    examples = []
    for label in (True, False):
        for tried in range(length, length - 1 if exactly else -1, -1):
            word = word_of(automaton, label, tried)
            if word is not None:
                padded = np.full((1, length), -1, np.int32)
                padded[0, :tried] = word
                examples.append(Example(padded, repr(automaton.decode(word))))
                break
    return examples


def word_of(automaton: Automaton, label: bool, length: int, seed: int = 0) -> list[int] | None:
    """A random word of a length that is in the language, or that is not; None where there is none."""
    can = [automaton.final == label]  # can[k][q]: whether k more symbols can lead from q to a word with the label
    for _ in range(length):
        can.append(can[-1][automaton.transitions].any(axis=1))
    state, word, rng = automaton.start, [], np.random.default_rng(seed)
    if not can[length][state]:
        return None
    for left in range(length - 1, -1, -1):
        choices = np.flatnonzero(can[left][automaton.transitions[state]])
        word.append(int(rng.choice(choices)))
        state = int(automaton.transitions[state, word[-1]])
    return word
