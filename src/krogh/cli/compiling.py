"""`krogh compile machine` and `krogh list machines`.

What `krogh compile` says of a network, whatever it was compiled from: size, check, margin, file.

`krogh compile circuit | regex | automaton`; machines are in `compiling_machines`.
"""

from __future__ import annotations

import json
import math
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from krogh.cli.compile import Wanted
from krogh.errors import require
from krogh.lab.claims import json_number
from krogh.networks.automata import CompiledAutomaton, check_automaton, compile_automaton, save_automaton_weights
from krogh.networks.circuits import CompiledCircuit, check_circuit, compile_circuit
from krogh.networks.counting import CompiledCounting, check_counting, compile_counting
from krogh.networks.machines.checks import check_machine
from krogh.networks.machines.compiled import CompiledMachine, compile_machine, save_machine_weights
from krogh.networks.margins.attack import attack
from krogh.networks.margins.report import certify, subject_of
from krogh.programs.automata.automaton import Automaton
from krogh.programs.automata.files import load_automaton
from krogh.programs.automata.regex import from_regex
from krogh.programs.circuits.files import load_circuit
from krogh.programs.machines.library import library_names, load_machine_file
from krogh.programs.machines.machine import Machine
from krogh.programs.machines.running import LeftTheTapeError, run

NAMES = {
    "one_norm": "1-norm",
    "q": "circuit's layers q",
    "r": "largest r",
    "s": "gates s",
    "counts": "vectors of counts",
}
"""How sizes are called for people."""
WAIT = 5.0
"""Seconds after which a line says what is going on where no spinner can."""
EFFORTS = ((12, 60, 12), (6, 20, 4), (3, 6, 0), (3, 2, 0), (2, 0, 0))
"""Restarts, refinements and projections of an attack, from thorough to quick."""
BUDGET = 5e8
"""Multiplications that an attack on one input may take unless it is asked for: some ten seconds."""
PATIENCE = 4
"""The quickest attack is made if it takes no more than so many budgets."""
DEEPEST = 300
"""Layers of a network that is attacked unless asked for: compiling the gradient of deeper ones takes minutes."""
LARGEST = 1 << 24
"""Entries of dense parameters that are attacked at all: 128 MiB in float64, and several times that in a search."""


class Checked(NamedTuple):
    """The outcome of a check: whether the statement holds, in words, and as numbers."""

    holds: bool
    words: str
    numbers: dict[str, Any]


class Example(NamedTuple):
    """An input that is attacked: as the network takes it, as it is shown, and the output it is about."""

    inputs: Any
    shown: str
    output: int = 0


@dataclass(frozen=True)
class Compiled:
    """A network with all that is said of it.

    An input goes `passes` times through the `layers`, whose dense parameters have `entries`; `examples` are what is
    attacked, and `certified` the inputs that the certificate is for, where that matters.
    """

    kind: str
    name: str
    network: Any
    statement: str
    size: Mapping[str, float]
    layers: int
    entries: int
    passes: int
    check: Callable[[], Checked]
    examples: Callable[[], Sequence[Example]]
    save: Callable[[Path], Path]
    certified: Any = None


def report(compiled: Compiled, wanted: Wanted) -> int:
    """Check, bound and write a network as asked, and say what was found; 1 where the statement does not hold."""
    found: dict[str, Any] = {
        "compiled": compiled.kind,
        "name": compiled.name,
        "statement": compiled.statement,
        "size": {key: json_number(value) for key, value in compiled.size.items()},
    }
    lines = [
        (compiled.kind, compiled.name),
        ("statement", compiled.statement),
        (
            "size",
            ", ".join(
                f"{NAMES.get(key, key.replace('_', ' '))} {number(value)}" for key, value in compiled.size.items()
            ),
        ),
    ]
    holds = True
    if wanted.check:
        with working(f"checking {compiled.kind} {compiled.name!r}"):
            checked = compiled.check()
        holds = checked.holds
        found["check"] = {"holds": holds, **{key: json_number(value) for key, value in checked.numbers.items()}}
        lines.append(("check", f"{'holds' if holds else 'FAILS'}: {checked.words}"))
    if wanted.margin:
        with working(f"bounding the margin of {compiled.kind} {compiled.name!r}"):
            numbers, words = margins(compiled, wanted)
        found["margin"] = numbers
        lines.append(("margin", words))
    if wanted.out is not None:
        with working(f"writing {wanted.out}"):
            found["out"] = str(compiled.save(wanted.out))
        lines.append(("written", found["out"]))
    if wanted.json:
        print(json.dumps(found, indent=2, ensure_ascii=False))
    else:
        width = max(len(key) for key, _ in lines)
        for key, text in lines:
            print(f"{key:<{width}}  {text}")
    return 0 if holds else 1


def margins(compiled: Compiled, wanted: Wanted) -> tuple[dict[str, Any], str]:
    """Lower and upper bound on the all-layer margin, as numbers and in words."""
    examples = compiled.examples()  # first, as there may be none
    certificate = certify(compiled.network, compiled.certified)
    theorem = None if certificate.theorem is None else certificate.theorem.value
    numbers: dict[str, Any] = {
        "lower": certificate.value,
        "certified_for": certificate.holds_for,
        "theorem": theorem,
        "upper": None,
        "attacked": [],
    }
    lower = f"at least {number(certificate.value)} ({certificate.holds_for})"
    effort = chosen_effort(compiled, wanted)
    if effort is None:
        return numbers, f"{lower}; too large to be attacked in seconds (ask for it by --restarts)"
    restarts, refinements, projections = effort
    for place, example in enumerate(examples):
        subject = subject_of(compiled.network, example.inputs, example.output)
        (x,), (y,) = subject.inputs, subject.labels
        made = attack(
            subject.output, subject.parameters, x, y,
            restarts=restarts, refinements=refinements, projections=projections, seed=place,
        )  # fmt: skip
        numbers["attacked"].append({"input": example.shown, "label": y, "upper": json_number(made.radius)})
    radii = [one["upper"] for one in numbers["attacked"] if one["upper"] is not None]
    if not radii:
        return numbers, f"{lower}; no perturbation that changes an output was found in {restarts} restarts"
    numbers["upper"] = min(radii)
    numbers |= {"restarts": restarts, "refinements": refinements}
    hardest = next(one["input"] for one in numbers["attacked"] if one["upper"] == min(radii))
    tried = f"attacked on {len(numbers['attacked'])} inputs, smallest on {hardest}"
    return numbers, f"{lower}, at most {number(min(radii))} ({tried})"


def chosen_effort(compiled: Compiled, wanted: Wanted) -> tuple[int, int, int] | None:
    """How thorough an attack is: as asked, or as a budget allows; None where even the quickest takes too long."""
    if wanted.restarts is not None or wanted.refinements is not None:
        require(
            compiled.entries <= LARGEST,
            f"the network has {compiled.entries:,} parameters as full matrices; at most {LARGEST:,} are attacked "
            "(leave out --restarts and --refinements for the lower bound alone)",
        )
        restarts, refinements, projections = EFFORTS[0]
        if wanted.refinements is not None:
            refinements, projections = wanted.refinements, min(wanted.refinements, projections)
        return wanted.restarts or restarts, refinements, projections
    if compiled.entries > LARGEST or compiled.layers > DEEPEST:
        return None
    cost = compiled.entries * compiled.passes
    allowed = [effort for effort in EFFORTS if cost * _evaluations(*effort) <= BUDGET]
    if allowed:
        return allowed[0]
    return EFFORTS[-1] if cost * _evaluations(*EFFORTS[-1]) <= PATIENCE * BUDGET else None


def _evaluations(restarts: int, refinements: int, projections: int) -> int:
    """About how often an attack runs the network."""
    return restarts * (130 + 75 * refinements + 60 * projections)


def number(value: float | None) -> str:
    """A whole number with commas, any other to six digits."""
    if value is None:
        return "none"
    if isinstance(value, float) and (not value.is_integer() or not math.isfinite(value) or abs(value) >= 1e15):
        return f"{value:.6g}"
    return f"{int(value):,}"


@contextmanager
def working(what: str) -> Iterator[None]:
    """A spinner on a terminal; elsewhere one line on the error stream if it takes a while."""
    console = Console(stderr=True)
    if console.is_terminal:
        with console.status(what):
            yield
        return
    timer = threading.Timer(WAIT, lambda: console.print(f"krogh: {what} ...", markup=False, highlight=False))
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


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


MOST_WORDS = 200
"""Words on which machines are checked, besides those that are asked for."""
MOST_STEPS = 1 << 18
"""Words times steps of a check, where there are more words than asked for."""
SOFT_SHARE = 64
"""So many times fewer with soft attention, which is run densely."""


def compile_machine_file(
    file: str,
    steps: int,
    inputs: tuple[str, ...],
    adder: str,
    correction: bool,
    soft: bool,
    input_length: int | None,
    missing: str | None,
    unfinished: bool,
    wanted: Wanted,
) -> int:
    require(not (soft and wanted.margin), "margins are bounded for hard attention; leave out --soft or --margin")
    source = load_machine_file(file, missing)
    machine = source.machine
    asked = list(dict.fromkeys((*inputs, *([] if machine.default_input is None else [machine.default_input]))))
    with working(f"compiling {machine.name}"):
        compiled = compile_machine(
            machine,
            steps,
            input_length=input_length,
            adder=adder,  # type: ignore[arg-type]
            correction=correction,
            attention="soft" if soft else "hard",
            words=asked,
            unfinished=unfinished,
        )
    statement = (
        f"the network has state, symbol and head of '{machine.name}' at every time 0..{steps}, on words of at most "
        f"{compiled.input_length} letters, and puts out +1, -1 or 0 as it has accepted, rejected or neither; "
        f"{compiled.attention} attention, {'with' if correction else 'without'} correction"
    )
    size = {
        "layers": compiled.depth,
        "width": compiled.width,
        "parameters": compiled.parameter_count,
        "one_norm": compiled.one_norm,
        "nonzeros": sum(_nonzeros(value) for value in compiled.parameters.values()),
        "position_bits": compiled.bits,
        "decoder_steps": compiled.decoder_steps,
        "states": len(machine.states),
        "symbols": len(machine.alphabet),
    }
    examples = [example.word for example in source.examples]
    fitting = [word for word in examples if len(machine.encode(word)) <= compiled.input_length]
    words = list(dict.fromkeys([*asked, *fitting]))
    return report(
        Compiled(
            "machine",
            machine.name,
            compiled,
            statement,
            size,
            compiled.depth,
            compiled.parameter_count,
            compiled.decoder_steps,
            lambda: _check_machine(compiled, words),
            lambda: _machine_examples(compiled, words),
            lambda path: save_machine_weights(compiled, path),
        ),
        wanted,
    )


def _nonzeros(value: object) -> int:
    return int(np.count_nonzero(value if isinstance(value, np.ndarray) else value.data))  # type: ignore[attr-defined]


def _check_machine(compiled: CompiledMachine, asked: list[str]) -> Checked:
    """All words up to a length on which the machine stays on its tape, and those asked for."""
    words, longest, off_tape = listed_words(compiled)
    numbered = [compiled.machine.encode(word) for word in asked]
    known = {tuple(word.tolist()) for word in words}
    words += [word for word in numbered if tuple(word.tolist()) not in known]
    name = compiled.machine.name
    require(words, f"'{name}' moves off the left end of its tape on all words tried; give one with --input")
    found = check_machine(compiled, words)
    halted = sum(run(compiled.machine, word, compiled.steps).halted_at is not None for word in words)
    staying = f" but {off_tape:,} on which it would leave its tape" if off_tape else ""
    entries = "all 0 or 1" if found.binary else "not all 0 or 1"
    text = (
        f"state, symbol and head at all {compiled.steps + 1:,} times on {found.words:,} words (all up to length "
        f"{longest}{staying}, the file's examples, those asked for; {halted:,} halt), {found.mismatches:,} "
        f"differences, {found.wrong_outputs:,} wrong outputs, smallest score gap {number(found.score_gap)}, hidden "
        f"entries {entries}"
    )
    numbers = {
        "words": found.words,
        "times": compiled.steps + 1,
        "all_up_to_length": longest,
        "left_out": off_tape,
        "halted": halted,
        "mismatches": found.mismatches,
        "wrong_outputs": found.wrong_outputs,
        "score_gap": found.score_gap,
        "binary": found.binary,
        "exhaustive": longest >= compiled.input_length,
    }
    return Checked(found.holds, text, numbers)


def listed_words(compiled: CompiledMachine) -> tuple[list[NDArray[np.int32]], int, int]:
    """All words up to the greatest length that does not give too many, that length, and how many were left out.

    Those are words on which the machine would leave its tape.
    """
    machine, longest = compiled.machine, 0
    steps = MOST_STEPS // (SOFT_SHARE if compiled.attention == "soft" else 1)
    most = max(1, min(MOST_WORDS, steps // compiled.decoder_steps))
    words: list[tuple[int, ...]] = [()]
    level = words
    while longest < compiled.input_length and len(words) + len(level) * len(machine.input_symbols) <= most:
        level = [(*word, symbol) for word in level for symbol in machine.input_symbols]
        words, longest = [*words, *level], longest + 1
    kept = [np.array(word, np.int32) for word in words]
    kept = [word for word in kept if stays_on_tape(machine, word, compiled.steps)]
    return kept, longest, len(words) - len(kept)


def stays_on_tape(machine: Machine, word: NDArray[np.int32], steps: int) -> bool:
    """Whether the machine does not move off the left end."""
    try:
        run(machine, word, steps)
    except LeftTheTapeError:
        return False
    return True


def _machine_examples(compiled: CompiledMachine, asked: list[str]) -> list[Example]:
    """The first word that the machine accepts and the first that it rejects."""
    machine = compiled.machine
    found: dict[int, Example] = {}
    words, _, _ = listed_words(compiled)
    for word in [*map(machine.encode, asked), *words]:
        label = run(machine, word, compiled.steps).label
        if label is not None:
            found.setdefault(label, Example([word], repr(machine.decode(word))))
    require(
        found,
        f"'{machine.name}' accepts or rejects none of the words tried within {compiled.steps} steps, and a margin is "
        "that of a decision (give a word with --input, or more --steps)",
    )
    return list(found.values())


def list_machines(as_json: bool) -> int:
    """The machines of the library: what they do, how large they are."""
    found: dict[str, dict[str, Any]] = {}
    for name in library_names():
        machine, _, summary = load_machine_file(name)
        found[name] = {
            "summary": summary,
            "states": len(machine.states),
            "symbols": len(machine.alphabet),
            "input": machine.default_input,
        }
    if as_json:
        print(json.dumps({"machines": found}, indent=2, ensure_ascii=False))
        return 0
    table = Table(box=None, show_header=False)
    table.add_column(style="bold", no_wrap=True)
    table.add_column(no_wrap=True)
    table.add_column()
    for name, about in found.items():
        table.add_row(escape(name), f"{about['states']} states", escape(str(about["summary"])))
    Console().print(table)
    return 0
