"""`krogh compile machine` and `krogh list machines`."""

from __future__ import annotations

import importlib.resources
import json
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from krogh.commands.compiled_report import Checked, Compiled, Example, number, report, working
from krogh.commands.wanted import Wanted
from krogh.errors import require
from krogh.tasks.machines import LeftTheTapeError, Machine, library_names, load_machine, parse_examples, run
from krogh.theory.compilers.machine_checks import check_machine
from krogh.theory.compilers.machine_files import save_machine_weights
from krogh.theory.compilers.machines import CompiledMachine, compile_machine

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
    machine = load_machine(file, missing)
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
    words = list(dict.fromkeys([*asked, *_examples_of(file, compiled)]))
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


def _examples_of(file: str, compiled: CompiledMachine) -> list[str]:
    """The inputs of the examples that stand in a machine's file, as far as they can be read."""
    known = file in library_names() and not Path(file).is_file()
    text = _library_text(file) if known else Path(file).read_text(encoding="utf-8")
    words = [example.word for example in parse_examples(text, file)]
    return [word for word in words if len(compiled.machine.encode(word)) <= compiled.input_length]


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
        machine = load_machine(name)
        found[name] = {
            "summary": _described(name),
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


def _described(name: str) -> str:
    """The sentence that a file of the library begins with."""
    lines = _library_text(name).splitlines()
    comments = [
        line.lstrip("# ").rstrip() for line in lines[: next(i for i, line in enumerate(lines) if line[:1] != "#")]
    ]
    return " ".join(comments).partition(". ")[0].rstrip(".")


def _library_text(name: str) -> str:
    folder = importlib.resources.files("krogh.tasks.machines") / "library"
    return (folder / f"{name}.yaml").read_text(encoding="utf-8")
