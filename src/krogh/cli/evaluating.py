"""What `krogh compile` says beside a network's statement: what program and network make of inputs, what was assumed."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from krogh.errors import KroghError, require
from krogh.networks.automata import CompiledAutomaton
from krogh.networks.counting import CompiledCounting
from krogh.networks.machines.checks import MOST_FOLLOWED, check_machine
from krogh.networks.machines.compiled import CompiledMachine
from krogh.programs.machines.files import MachineFile
from krogh.programs.machines.machine import Machine
from krogh.programs.machines.running import Run, run, steps_needed

MOST_CHOSEN_STEPS = 10_000
"""Steps within which a machine must halt on a word where T is not given."""
FEW_STEPS = 20
"""T, or the steps of a trace, where a machine does not halt and no number is given."""
RESULTS = {1: "accepts", 0: "rejects", None: "halts"}
OUTPUTS = {1: 1.0, 0: -1.0, None: 0.0}


class Finding(NamedTuple):
    """A line of the answer under `key`, and the same for a script; `holds` is False where something is wrong."""

    key: str
    text: str
    numbers: Any
    holds: bool = True


def asked_for(source: MachineFile, given: Sequence[str]) -> list[str]:
    """The words that T steps must suffice for: those given, and the file's own."""
    own = source.machine.default_input
    return list(dict.fromkeys([*given, *([] if own is None else [own])]))


def words_of(source: MachineFile, given: Sequence[str]) -> list[str]:
    """The words that T is chosen for: those asked for, else the file's examples, else the empty one."""
    return asked_for(source, given) or [example.word for example in source.examples] or [""]


def enough_steps(machine: Machine, words: Iterable[str], unfinished: bool) -> tuple[int, str]:
    """T, and why: the most steps that a word needs, and 1 at least.

    A word on which the machine does not halt is refused, or `unfinished` asks for a few steps of it.
    """
    most, why = 1, "as many as the words need"
    for word in words:
        needed = steps_needed(machine, word, MOST_CHOSEN_STEPS)
        if needed is None:
            late = f"{machine.name!r} does not halt on {word!r} within {MOST_CHOSEN_STEPS:,} steps"
            if not unfinished:
                raise KroghError(f"{late}; say how many the network is to run (--steps {FEW_STEPS} --unfinished)")
            needed, why = FEW_STEPS, f"for {late} (--steps takes more)"
        most = max(most, needed)
    return most, why


def about_machine(network: CompiledMachine, inputs: Sequence[str], why: str) -> list[Finding]:
    """T where it was chosen here, and `why`; missing transitions, and what machine and network make of inputs."""
    machine, found = network.machine, []
    if why:
        found.append(Finding("T", f"{network.steps:,} steps, {why}", network.steps))
    if machine.gaps:
        pairs = len(machine.states) * len(machine.alphabet)
        text = (
            f"{len(machine.gaps):,} of {pairs:,} pairs of state and symbol have no instruction: the machine stops "
            "there (--missing error lists them)"
        )
        found.append(Finding("missing", text, len(machine.gaps)))
    return [*found, *(_machine_on(network, word) for word in inputs)]


def _machine_on(network: CompiledMachine, word: str) -> Finding:
    """A run of the machine, and whether the network's is the same at every time."""
    ended = run(network.machine, word, network.steps)
    checked = check_machine(network, [word])
    said = OUTPUTS[ended.label]
    if not checked.holds and network.decoder_steps <= MOST_FOLLOWED:
        said = float(network.run([word]).output[0])
    numbers = {
        "input": word,
        "result": RESULTS[ended.label] if ended.halted_at is not None else "does not halt",
        "steps": ended.halted_at,
        "state": network.machine.states[ended.state],
        "cell": ended.cell,
        "tape": ended.output,
        "network": said,
        "equal": checked.holds,
    }
    same = "the same at all times" if checked.holds else f"DIFFERENT at {checked.details['mismatches']:,} times"
    text = f"{word!r}: the machine {ended_in_words(ended, network.steps)}; the network puts out {signed(said)}, {same}"
    return Finding("input", text, numbers, checked.holds)


def signed(output: float) -> str:
    """An output as it is written in statements: +1, -1 or 0, where it is one of these."""
    return "0" if round(output, 9) == 0 else f"{round(output, 9):+g}"


def ended_in_words(ended: Run, steps: int) -> str:
    """How a run ended."""
    machine = ended.machine
    if ended.halted_at is None:
        return f"does not halt within {steps:,} steps"
    where = f" in state {machine.states[ended.state]!r} on cell {ended.cell}" if ended.label is None else ""
    count = "1 step" if ended.halted_at == 1 else f"{ended.halted_at:,} steps"
    return f"{RESULTS[ended.label]} after {count}{where}, tape {ended.output!r}"


def about_automaton(network: CompiledAutomaton | CompiledCounting, inputs: Sequence[str]) -> list[Finding]:
    """What automaton and network make of inputs."""
    automaton, found = network.automaton, []
    for word in inputs:
        numbers = automaton.encode(word)[None, :]
        if isinstance(network, CompiledCounting):
            right = numbers.shape[1] == network.length
            require(right, f"the network reads words of length {network.length}; the input {word!r} is not one")
        accepted = bool(automaton.accept(numbers)[0])
        said = float(network.run(numbers)[0])
        equal = bool(np.isclose(said, 1.0 if accepted else -1.0, rtol=0, atol=1e-6))
        path = [automaton.states[state] for state in automaton.run(numbers)[0]]
        shown = path if len(path) <= 12 else [*path[:5], "…", *path[-5:]]
        text = (
            f"{word!r}: the automaton {'accepts' if accepted else 'rejects'} (states {' '.join(shown)}); the network "
            f"puts out {signed(said)}{'' if equal else ', DIFFERENT'}"
        )
        result = {"input": word, "accepted": accepted, "states": path, "network": said, "equal": equal}
        found.append(Finding("input", text, result, equal))
    return found
