"""`krogh trace`: a program's run and its network's, step by step, as a table, as JSON or as a picture."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from krogh.cli.evaluating import FEW_STEPS, RESULTS
from krogh.cli.networks import working
from krogh.cli.picturing import Grid, Mark, Picture, columns_of, require_drawable, write_picture
from krogh.networks.automata import CompiledAutomaton, compile_automaton
from krogh.networks.machines.checks import TraceRow, side_by_side
from krogh.networks.machines.compiled import CompiledMachine, compile_machine
from krogh.networks.machines.layout import binary
from krogh.programs.automata.automaton import Automaton
from krogh.programs.budgets import Budget
from krogh.programs.machines.machine import Machine
from krogh.programs.machines.running import Trace, trace

MOST_TRACED_STEPS = 1_000
"""Steps within which a machine that halts is shown until then, unless a number is given."""
ROWS = Budget("a trace", "steps to show", 100_000)
DIFFERENT = "  different"


def present_trace(
    machine: Machine,
    word: str | None,
    steps: int | None,
    options: Mapping[str, Any],
    window: int,
    as_json: bool,
    svg: Path | None = None,
) -> int:
    """Show a run of the machine and of its network; 1 where they differ."""
    word = machine.default_input or "" if word is None else word
    run, nor = None, ""
    if steps is None:
        run = trace(machine, word, MOST_TRACED_STEPS, beyond=False)
        if run.halted_at is None:
            run = trace(machine, word, FEW_STEPS, beyond=False)
            nor = f", nor within {_counted(MOST_TRACED_STEPS)} (say how many to show with --steps)"
        steps = max(run.steps, 1)
    network = compile_machine(machine, steps, input_length=len(machine.encode(word)), **options)
    run = trace(machine, word, min(steps, ROWS.most + 1), beyond=False) if run is None else run
    shown = run.steps
    ROWS.check(shown, f"the trace of {machine.name!r} on {word!r}", "say fewer by --steps; krogh compile checks more")
    if svg is not None:
        require_drawable(svg, shown)
    with working(f"running {machine.name}"):
        rows = side_by_side(network, run, window=window)
    different = sum(not row.equal for row in rows)
    tape = machine.decode(run.tape_at(shown).content())
    if run.halted_at is None:
        ended = f"does not halt on {word!r} within {_counted(steps)}{nor}"
    else:
        what = "halts on" if run.label is None else RESULTS[run.label]
        ended = f"{what} {word!r} after {_counted(run.halted_at)}"
    same = "the same at all times" if not different else f"DIFFERENT at {different} of {len(rows)} times"
    if svg is not None:
        write_picture(svg, machine_picture(network, run, rows, f"{machine.name} {ended}", same))
    if as_json:
        answer = {
            "machine": machine.name,
            "input": word,
            "steps": steps,
            "halted_at": run.halted_at,
            "label": run.label,
            "tape": tape,
            "layers": network.depth,
            "width": network.width,
            "differences": different,
            "rows": [row._asdict() for row in rows],
        } | ({} if svg is None else {"svg": str(svg)})
        print(json.dumps(answer, indent=2, ensure_ascii=False))
        return 1 if different else 0
    print("\n".join(table(rows)))
    print(f"\n{machine.name} {ended}; tape {tape!r}")
    print(f"transformer of {network.depth} layers and width {network.width}: {same}")
    if svg is not None:
        print(f"picture {svg}")
    return 1 if different else 0


def table(rows: list[TraceRow]) -> list[str]:
    """Rows of text: time and tape, then state, cell and symbol of the interpreter and of the network."""
    heading = ("time", "tape", "state", "symbol", "cell", "state", "symbol", "cell")
    cells = [tuple(map(str, row[:-1])) for row in rows]
    parts = (("", 2), ("machine", 3), ("transformer", 3))
    return _lines(parts, heading, cells, [row.equal for row in rows], right=(0, 4, 7))


def _lines(
    parts: Sequence[tuple[str, int]],
    heading: Sequence[str],
    cells: Sequence[Sequence[str]],
    equal: Sequence[bool],
    right: Sequence[int],
) -> list[str]:
    """A table in parts of so many columns, with bars between them; the columns `right` hold numbers."""
    widths = [max(len(line[place]) for line in (heading, *cells)) for place in range(len(heading))]
    ends = np.cumsum([0, *(count for _, count in parts)]).tolist()

    def joined(line: Sequence[str]) -> str:
        texts = [text.rjust(width) if place in right else text.ljust(width)
                 for place, (text, width) in enumerate(zip(line, widths, strict=True))]  # fmt: skip
        return " | ".join("  ".join(texts[ends[k] : ends[k + 1]]) for k in range(len(parts)))

    sizes = [sum(widths[ends[k] : ends[k + 1]]) + 2 * (count - 1) for k, (_, count) in enumerate(parts)]
    above = " | ".join(name.ljust(size) for (name, _), size in zip(parts, sizes, strict=True))
    marks = ["" if same else DIFFERENT for same in equal]
    lines = [above, joined(heading), *(joined(line) + mark for line, mark in zip(cells, marks, strict=True))]
    return [line.rstrip() for line in lines]


def _counted(steps: int) -> str:
    return "1 step" if steps == 1 else f"{steps:,} steps"


def machine_picture(network: CompiledMachine, run: Trace, rows: Sequence[TraceRow], title: str, same: str) -> Picture:
    """The tape with both heads, and what the network's vector holds, time downwards."""
    machine, count = network.machine, len(rows)
    heads = run.cell[:count]
    lowest, highest = min(0, int(heads.min())), max(len(run.word), int(heads.max())) + 1
    cells, clipped = columns_of(lowest, highest, heads)
    symbols = [run.tape_at(time).window(cells[0], cells[-1]) for time in range(count)]
    tape = Grid(
        "tape, and head" + (" (part of the tape)" if clipped else ""),
        [str(cell) for cell in cells],
        [[machine.alphabet[number] if number else "" for number in row] for row in symbols],
        [[int(number) for number in row] for row in symbols],
        [Mark(_inside(row.cell, cells), _inside(row.network_cell, cells)) for row in rows],
    )
    names = list(dict.fromkeys([*(row.state for row in rows), *(row.network_state for row in rows)]))
    state = _one_hot("state", names, [row.network_state for row in rows])
    symbol = _one_hot("symbol", list(machine.alphabet), [row.network_symbol for row in rows], coloured=True)
    bits = binary(np.array([row.network_cell for row in rows]), network.bits).astype(int).tolist()
    powers = [str(2**k) for k in range(network.bits)[::-1]]
    cell = Grid("cell, in binary", powers, None, [[-bit for bit in row] for row in bits], [])
    return Picture(
        title,
        "time",
        [str(row.time) for row in rows],
        [tape, state, symbol, cell],
        [row.equal for row in rows],
        "Left: the interpreter's tape, a row for each step; the outline is its head, the dot where the network has it. "
        f"Right: what the network's vector holds after that step. Transformer of {network.depth} layers and width "
        f"{network.width}: {same}.",
    )


def _one_hot(title: str, names: Sequence[str], held: Sequence[str], coloured: bool = False) -> Grid:
    numbers = {name: place for place, name in enumerate(names)}
    shown = [[0] * len(names) for _ in held]
    for row, name in zip(shown, held, strict=True):
        if name in numbers:
            row[numbers[name]] = numbers[name] if coloured and numbers[name] else -1
    return Grid(title, list(names), None, shown, [])


def _inside(cell: int, cells: range) -> int | None:
    return cell - cells[0] if cell in cells else None


class WordRow(NamedTuple):
    """One time of an automaton's run: the symbol just read, and what automaton and network have after it."""

    time: int
    read: str
    state: str
    accepts: bool
    unit: str
    network_state: str
    output: float
    equal: bool


def word_rows(network: CompiledAutomaton, word: str) -> list[WordRow]:
    """The automaton's states, and which unit of the network is 1 at each time, where it leads, and how it is read."""
    automaton = network.automaton
    numbers = automaton.encode(word)
    states = automaton.run(numbers[None, :])[0]
    rows = []
    for time, hidden in enumerate(network.hidden(numbers[None, :])):
        vector, state = hidden[:, 0], int(states[time])
        output = float(network.readout @ vector)
        ones = np.flatnonzero(vector > 0.5)
        clear = len(ones) == 1 and bool(np.isin(vector, (0.0, 1.0)).all())
        unit, reached = _unit_name(automaton, int(ones[0])) if clear else ("?", "?")
        accepts = bool(automaton.final[state])
        equal = reached == automaton.states[state] and output == (1.0 if accepts else -1.0)
        read = automaton.alphabet[numbers[time - 1]] if time else ""
        rows.append(WordRow(time, read, automaton.states[state], accepts, unit, reached, output, equal))
    return rows


def _unit_name(automaton: Automaton, unit: int) -> tuple[str, str]:
    """A unit as (state, symbol), and the state that it leads to; the last is the start's."""
    if unit == automaton.size * len(automaton.alphabet):
        return "start", automaton.states[automaton.start]
    state, symbol = divmod(unit, len(automaton.alphabet))
    following = int(automaton.transitions[state, symbol])
    return f"({automaton.states[state]}, {automaton.alphabet[symbol]})", automaton.states[following]


def present_word(automaton: Automaton, word: str, correction: bool, as_json: bool, svg: Path | None) -> int:
    """Show how an automaton and its recurrent network read a word; 1 where they differ."""
    if svg is not None:
        require_drawable(svg, len(automaton.encode(word)))
    with working(f"reading {word!r}"):
        network = compile_automaton(automaton, correction=correction)
        rows = word_rows(network, word)
    different = sum(not row.equal for row in rows)
    same = "the same at all times" if not different else f"DIFFERENT at {different} of {len(rows)} times"
    ended = f"{'accepts' if rows[-1].accepts else 'rejects'} {word!r}"
    if svg is not None:
        write_picture(svg, word_picture(network, rows, f"{automaton.name} {ended}", same))
    if as_json:
        answer = {
            "automaton": automaton.name,
            "input": word,
            "accepted": rows[-1].accepts,
            "output": rows[-1].output,
            "width": network.width,
            "differences": different,
            "rows": [row._asdict() for row in rows],
        } | ({} if svg is None else {"svg": str(svg)})
        print(json.dumps(answer, indent=2, ensure_ascii=False))
        return 1 if different else 0
    heading = ("time", "read", "state", "accepts", "unit that is 1", "leads to", "output")
    cells = [
        (str(row.time), row.read, row.state, "yes" if row.accepts else "no", row.unit, row.network_state,
         f"{row.output:+g}")
        for row in rows
    ]  # fmt: skip
    parts = (("", 2), ("automaton", 2), ("recurrent network", 3))
    print("\n".join(_lines(parts, heading, cells, [row.equal for row in rows], right=(0, 6))))
    print(f"\n{automaton.name} {ended}")
    print(f"recurrent network of {network.width} units: {same}")
    if svg is not None:
        print(f"picture {svg}")
    return 1 if different else 0


def word_picture(network: CompiledAutomaton, rows: Sequence[WordRow], title: str, same: str) -> Picture:
    """The automaton's state, the unit that is 1 and the output, time downwards."""
    states = list(dict.fromkeys(row.state for row in rows))
    units = list(dict.fromkeys(row.unit for row in rows))
    symbols = {symbol: place + 1 for place, symbol in enumerate(network.automaton.alphabet)}
    read = Grid("read", [""], [[row.read] for row in rows], [[symbols.get(row.read, 0)] for row in rows], [])
    output = [[f"{row.output:+g}"] for row in rows]
    return Picture(
        title,
        "time",
        [str(row.time) for row in rows],
        [
            read,
            _one_hot("automaton's state", states, [row.state for row in rows]),
            _one_hot("unit (state, symbol)", units, [row.unit for row in rows]),
            Grid("output", [""], output, [[0] for _ in rows], []),
        ],
        [row.equal for row in rows],
        "A row for each symbol read. Left: the automaton. Right: the unit of the recurrent network that is 1, and what "
        f"is read off it. {network.width} units: {same}.",
    )
