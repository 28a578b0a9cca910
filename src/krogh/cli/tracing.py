"""`krogh trace machine`: the tape, and what the network makes of it, step by step."""

from __future__ import annotations

import json

from krogh.cli.compiling import working
from krogh.errors import KroghError
from krogh.networks.machines.checks import TraceRow, side_by_side
from krogh.networks.machines.compiled import compile_machine
from krogh.programs.machines.library import load_machine
from krogh.programs.machines.machine import Machine
from krogh.programs.machines.running import run, steps_needed

PATIENCE = 1_000
"""Steps within which a machine must halt unless a number is given."""
RESULTS = {1: "accepts", 0: "rejects", None: "halts on"}


def trace_machine(
    file: str,
    word: str,
    steps: int | None,
    adder: str,
    correction: bool,
    soft: bool,
    missing: str | None,
    window: int,
    as_json: bool,
) -> int:
    machine = load_machine(file, missing)
    T = _steps(machine, word) if steps is None else steps
    with working(f"running {machine.name}"):
        compiled = compile_machine(
            machine,
            T,
            input_length=len(machine.encode(word)),
            adder=adder,  # type: ignore[arg-type]
            correction=correction,
            attention="soft" if soft else "hard",
        )
        done = run(machine, word, T)
        rows = side_by_side(compiled, word, window=window)
    different = sum(not row.equal for row in rows)
    if as_json:
        found = {
            "machine": machine.name,
            "input": word,
            "steps": T,
            "halted_at": done.halted_at,
            "label": done.label,
            "tape": done.output,
            "layers": compiled.depth,
            "width": compiled.width,
            "differences": different,
            "rows": [row._asdict() for row in rows],
        }
        print(json.dumps(found, indent=2, ensure_ascii=False))
        return 1 if different else 0
    print("\n".join(table(rows)))
    if done.halted_at is None:
        ended = f"does not halt on {word!r} within {_counted(T)}"
    else:
        ended = f"{RESULTS[done.label]} {word!r} after {_counted(done.halted_at)}"
    same = "the same at all times" if not different else f"DIFFERENT at {different} of {len(rows)} times"
    print(f"\n{machine.name} {ended}; tape {done.output!r}")
    print(f"transformer of {compiled.depth} layers and width {compiled.width}: {same}")
    return 1 if different else 0


def table(rows: list[TraceRow]) -> list[str]:
    """Rows of text: time and tape, then state, cell and symbol of the interpreter and of the network."""
    cells = [tuple(map(str, row[:-1])) for row in rows]
    heading = ("time", "tape", "state", "symbol", "cell", "state", "symbol", "cell")
    widths = [max(len(line[place]) for line in (heading, *cells)) for place in range(len(heading))]

    def joined(line: tuple[str, ...]) -> str:
        right = (0, 4, 7)  # numbers stand on the right of their columns
        texts = [text.rjust(width) if place in right else text.ljust(width)
                 for place, (text, width) in enumerate(zip(line, widths, strict=True))]  # fmt: skip
        return f"{'  '.join(texts[:2])} | {'  '.join(texts[2:5])} | {'  '.join(texts[5:])}"

    groups = [sum(widths[:2]) + 2, sum(widths[2:5]) + 4, sum(widths[5:]) + 4]
    above = " | ".join(text.ljust(width) for text, width in zip(("", "machine", "transformer"), groups, strict=True))
    marks = ["" if row.equal else "  different" for row in rows]
    lines = [above, joined(heading), *(joined(line) + mark for line, mark in zip(cells, marks, strict=True))]
    return [line.rstrip() for line in lines]


def _counted(steps: int) -> str:
    return "1 step" if steps == 1 else f"{steps} steps"


def _steps(machine: Machine, word: str) -> int:
    """As many steps as the machine takes on the word, and one at least."""
    needed = steps_needed(machine, word, PATIENCE)
    if needed is None:
        raise KroghError(
            f"{machine.name!r} does not halt on {word!r} within {PATIENCE} steps; say how many to show (--steps)"
        )
    return max(needed, 1)
