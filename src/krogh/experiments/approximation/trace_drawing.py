"""A run of a Turing machine as a picture: the tape over time, and beside it what the compiled network holds.

Time goes down. On the left every row is the tape after one step, as the interpreter has it, with the head outlined; the
dot on it is where the network says the head is. The other panels are the network's own output after that step, entry
by entry: the state and the symbol under the head, each one-hot, and the cell of the head in binary.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import polars as pl

from krogh.errors import require
from krogh.lab import Chart, Figure, figures
from krogh.tasks.machines import load_machine, trace
from krogh.theory.compilers.machine_running import machine_hidden
from krogh.theory.compilers.machines import compile_machine

MOST_STEPS = 200
"""More rows than this cannot be told apart."""
ENTRIES = {"state": "st", "symbol": "sym1", "cell": "pos2"}
"""Where the network's output holds them."""
BLANK, GREY, DARK = "#f1f1f1", "#b5b5b5", "#3d3d3d"


def check_trace(name: str, word: str) -> None:
    """Refuse a run that does not halt in time to be drawn."""
    require(
        trace(load_machine(name), word, MOST_STEPS).halted_at,
        f"{name!r} must halt on {word!r} within 1 to {MOST_STEPS} steps to be drawn (try 'binary-addition' on "
        "'101+11')",
    )


def trace_table(name: str, word: str) -> pl.DataFrame:
    """A run until it halts, a row per time: the interpreter's tape, state, symbol and cell, and the network's.

    `tape` holds symbol numbers of the cells `first_cell`, `first_cell` + 1, ...; `state_entries`, `symbol_entries` and
    `cell_entries` are the entries of the network's output that say what `network_state`, ... read off them.
    """
    machine = load_machine(name)
    run = trace(machine, word, MOST_STEPS)
    assert run.halted_at is not None  # as was checked
    times = range(run.halted_at + 1)
    compiled = compile_machine(machine, run.halted_at, input_length=len(run.word))
    outputs = np.asarray(machine_hidden(compiled, [word])[0, :, -1])
    found, cells, layout = compiled.decode(outputs), run.cell[: len(times)], compiled.layout
    first, last = min(0, int(cells.min())), max(len(run.word), int(cells.max())) + 1
    return pl.DataFrame(
        {
            "time": times,
            "first_cell": first,
            "tape": [run.tape_at(time).window(first, last).tolist() for time in times],
            "state": run.state[: len(times)],
            "symbol": run.symbol[: len(times)],
            "cell": cells,
            "network_state": found.state,
            "network_symbol": found.symbol,
            "network_cell": found.cell,
            **{f"{word}_entries": outputs[:, layout[place]].tolist() for word, place in ENTRIES.items()},
            "layers": compiled.depth,
            "width": compiled.width,
        }
    )


def draw_trace(name: str, word: str, table: pl.DataFrame) -> Figure:
    """The run as a picture, from its table."""
    machine = load_machine(name)
    states, symbols = (*machine.states, "boot"), machine.alphabet
    tape, (held, read, bits) = _grid(table["tape"]), (_grid(table[f"{name}_entries"]) for name in ENTRIES)
    count = len(machine.states)
    entries = {
        "state": (held[:, :count], machine.states, [DARK] * count),
        "symbol": (read, symbols, [GREY, *map(_shade, range(1, len(symbols)))]),
        "cell, in binary": (bits, [str(2**k) for k in range(bits.shape[1])[::-1]], [DARK] * bits.shape[1]),
    }
    widths = [max(tape.shape[1], 8), *(max(len(names), 5) for _, names, _ in entries.values())]
    chart = Chart(
        "trace",
        f"A run of {name!r} and of its transformer",
        headline=f"The tape of {name!r} on {word!r}, and what the transformer holds after each step",
        source="SM paper, Sections 4.2 and C",
        columns=4,
        width=2.2 + 0.24 * sum(widths),
        height=1.9 + 0.17 * len(table),
        sharey=True,
        width_ratios=widths,
    )
    panel = chart.panel(title="tape, and head", x="cell", y="time (machine steps)")
    _draw_tape(panel.ax, table, tape, symbols)
    for title, (values, names, shades) in entries.items():
        _draw_entries(chart.panel(title=title).ax, values, names, shades)
    panel.ax.set_ylim(len(table) - 0.5, -0.5)
    panel.ax.set_yticks(range(0, len(table), 5 if len(table) > 12 else 1))
    same = pl.all_horizontal(pl.col(name) == pl.col(f"network_{name}") for name in ENTRIES)
    equal = table.select(equal=same)["equal"]
    told = "they agree at every step" if equal.all() else f"they differ at {(~equal).sum()} times"

    def named(name: str, words: Sequence[str]) -> pl.Expr:
        return pl.col(name).replace_strict(range(len(words)), words, return_dtype=pl.String)

    return chart.figure(
        "Left: the interpreter's tape, a row per step, time downwards; colours are symbols, the outline is the head, "
        "the dot where the network says that it is. Right: entries of the network's output vector after that step "
        "(white: 0), which hold the state, the symbol under the head and the cell of the head. Interpreter and "
        f"network ({table['layers'][0]} layers, width {table['width'][0]}) are independent programs; {told} (T = "
        f"{len(table) - 1}). The input begins on cell 1; cells are counted modulo {2 ** bits.shape[1]}, so that cell "
        "−1 is all ones.",
        table.select(
            "time",
            "first_cell",
            pl.Series("tape", [" ".join(symbols[number] for number in row) for row in tape]),
            named("state", states),
            named("symbol", symbols),
            "cell",
            named("network_state", states),
            named("network_symbol", symbols),
            "network_cell",
            equal,
        ),
    )


def _grid(rows: pl.Series) -> np.ndarray:
    return np.array(rows.to_list())


def _draw_tape(ax: Any, table: pl.DataFrame, tape: np.ndarray, symbols: Sequence[str]) -> None:
    from matplotlib.colors import to_rgb
    from matplotlib.patches import Rectangle

    first, (rows, cells) = table["first_cell"][0], tape.shape
    shades = np.array([to_rgb(_shade(number)) for number in range(len(symbols))])
    extent = (first - 0.5, first + cells - 0.5, rows - 0.5, -0.5)
    with figures.style():
        ax.imshow(shades[tape], extent=extent, aspect="auto", interpolation="nearest")
    for (time, place), number in np.ndenumerate(tape):
        if number:
            ax.text(first + place, time, symbols[number], ha="center", va="center", fontsize=7, color=figures.INK)
    for time, cell in enumerate(table["cell"]):
        ax.add_patch(Rectangle((cell - 0.5, time - 0.5), 1, 1, fill=False, edgecolor=figures.INK, linewidth=1.2))
    ax.plot(table["network_cell"] + 0.33, np.arange(rows) - 0.25, "o", color=figures.INK, markersize=2.6)
    ax.grid(False)
    ax.set_xticks(range(first, first + cells))
    ax.tick_params(axis="x", labelsize=8)


def _draw_entries(ax: Any, values: np.ndarray, names: Sequence[str], shades: Sequence[str]) -> None:
    """Entries as a grid, white at 0 and in the column's shade at 1."""
    from matplotlib.colors import to_rgb

    (rows, count), full = values.shape, np.array([to_rgb(shade) for shade in shades])
    colors = np.clip(1 - values[:, :, None] * (1 - full[None, :, :]), 0, 1)
    with figures.style():
        ax.imshow(colors, extent=(-0.5, count - 0.5, rows - 0.5, -0.5), aspect="auto", interpolation="nearest")
    ax.grid(False)
    for edge in range(1, count):
        ax.axvline(edge - 0.5, color=figures.GRID, linewidth=0.6)
    for edge in range(1, rows):
        ax.axhline(edge - 0.5, color=figures.GRID, linewidth=0.4)
    ax.set_xticks(range(count), names, rotation=90, fontsize=7.5)


def _shade(number: int) -> str:
    """The colour of a symbol, light enough for letters on it."""
    from matplotlib.colors import to_hex, to_rgb

    if number == 0:
        return BLANK
    red, green, blue = (0.4 + 0.6 * part for part in to_rgb(figures.PALETTE[(number - 1) % len(figures.PALETTE)]))
    return str(to_hex((red, green, blue)))
