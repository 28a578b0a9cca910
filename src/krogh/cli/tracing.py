"""`krogh trace machine`: the tape, and what the network makes of it, step by step."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from typing import Any

from krogh.cli.networks import working
from krogh.errors import KroghError
from krogh.networks.machines.checks import TraceRow, side_by_side
from krogh.networks.machines.compiled import compile_machine
from krogh.programs.machines.machine import Machine
from krogh.programs.machines.running import Trace, trace

PATIENCE = 1_000
"""Steps within which a machine must halt unless a number is given."""
RESULTS = {1: "accepts", 0: "rejects", None: "halts on"}


def present_trace(
    machine: Machine, word: str, steps: int | None, options: Mapping[str, Any], window: int, as_json: bool
) -> int:
    """Show a run of the machine and of its network; 1 where they differ."""
    run = _until_it_halts(machine, word) if steps is None else trace(machine, word, steps)
    with working(f"running {machine.name}"):
        network = compile_machine(machine, run.steps, input_length=len(run.word), **options)
        rows = side_by_side(network, run, window=window)
    different = sum(not row.equal for row in rows)
    tape = machine.decode(run.tape_at(run.steps if run.halted_at is None else run.halted_at).content())
    if as_json:
        answer = {
            "machine": machine.name,
            "input": word,
            "steps": run.steps,
            "halted_at": run.halted_at,
            "label": run.label,
            "tape": tape,
            "layers": network.depth,
            "width": network.width,
            "differences": different,
            "rows": [row._asdict() for row in rows],
        }
        print(json.dumps(answer, indent=2, ensure_ascii=False))
        return 1 if different else 0
    print("\n".join(table(rows)))
    if run.halted_at is None:
        ended = f"does not halt on {word!r} within {_counted(run.steps)}"
    else:
        ended = f"{RESULTS[run.label]} {word!r} after {_counted(run.halted_at)}"
    same = "the same at all times" if not different else f"DIFFERENT at {different} of {len(rows)} times"
    print(f"\n{machine.name} {ended}; tape {tape!r}")
    print(f"transformer of {network.depth} layers and width {network.width}: {same}")
    return 1 if different else 0


def _until_it_halts(machine: Machine, word: str) -> Trace:
    """The run up to the step in which the machine halts, and one step at least."""
    run = trace(machine, word, PATIENCE)
    if run.halted_at is None:
        raise KroghError(
            f"{machine.name!r} does not halt on {word!r} within {PATIENCE} steps; say how many to show (--steps)"
        )
    times = slice(max(run.halted_at, 1) + 1)
    return dataclasses.replace(run, state=run.state[times], symbol=run.symbol[times], cell=run.cell[times])


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
