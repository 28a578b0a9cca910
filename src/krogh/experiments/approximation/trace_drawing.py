"""A run of a Turing machine as a picture: the tape over time, and beside it what the compiled network holds.

Time goes down. On the left every row is the tape after one step, as the interpreter has it, with the head outlined; the
dot on it is where the network says the head is. The other panels are the network's own output after that step, entry
by entry: the state and the symbol under the head, each one-hot, and the cell of the head in binary.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from krogh.errors import require
from krogh.lab import Figure, figures
from krogh.tasks.machines import load_machine, trace
from krogh.theory.compilers.machine_running import machine_hidden
from krogh.theory.compilers.machines import compile_machine

SOURCE = "SM paper, Sections 4.2 and C"
MOST_STEPS = 200
"""More rows than this cannot be told apart."""
BLANK, GREY, DARK = "#f1f1f1", "#b5b5b5", "#3d3d3d"


@dataclass(frozen=True, eq=False)
class Picture:
    """A run until it halts, times 0..T: the interpreter's tape, state and cell, and the network's outputs.

    `tape` [T + 1, cells] holds symbol numbers of the cells `first`, `first` + 1, ...; `states`, `symbols` and `bits`
    are entries of the network's output, [T + 1, ..]; `decoded` is what they say.
    """

    name: str
    word: str
    first: int
    tape: np.ndarray
    state: np.ndarray
    symbol: np.ndarray
    cell: np.ndarray
    state_names: tuple[str, ...]
    symbol_names: tuple[str, ...]
    states: np.ndarray
    symbols: np.ndarray
    bits: np.ndarray
    decoded: tuple[np.ndarray, np.ndarray, np.ndarray]
    size: str

    @property
    def wrong(self) -> np.ndarray:
        """Where state, symbol or cell differ, bool [T + 1]."""
        pairs = zip(self.decoded, (self.state, self.symbol, self.cell), strict=True)
        return np.any([found != own for found, own in pairs], axis=0)

    def table(self) -> pl.DataFrame:
        """A row per time."""
        names = (*self.state_names, "boot"), self.symbol_names
        found = [[names[0][n] for n in self.decoded[0]], [names[1][n] for n in self.decoded[1]]]
        return pl.DataFrame(
            {
                "time": np.arange(len(self.tape)),
                "first_cell": self.first,
                "tape": [" ".join(names[1][n] for n in row) for row in self.tape],
                "state": [names[0][n] for n in self.state],
                "symbol": [names[1][n] for n in self.symbol],
                "cell": self.cell,
                "network_state": found[0],
                "network_symbol": found[1],
                "network_cell": self.decoded[2],
                "equal": ~self.wrong,
            }
        )


def check_trace(name: str, word: str) -> None:
    """Refuse a run that does not halt in time to be drawn."""
    run = trace(load_machine(name), word, MOST_STEPS)
    require(
        run.halted_at is not None and run.halted_at > 0,
        f"{name!r} must halt on {word!r} within 1 to {MOST_STEPS} steps to be drawn (try 'binary-addition' on "
        "'101+11')",
    )


def picture_of(name: str, word: str) -> Picture:
    """The run of a machine of the library on a word, and its network's."""
    machine = load_machine(name)
    run = trace(machine, word, MOST_STEPS)
    end = MOST_STEPS if run.halted_at is None else run.halted_at
    compiled = compile_machine(machine, end, input_length=len(run.word))
    outputs = machine_hidden(compiled, [word])[0, :, -1]
    lowest = min(0, int(run.cell[: end + 1].min()))
    highest = max(len(run.word), int(run.cell[: end + 1].max())) + 1
    layout = compiled.layout
    return Picture(
        name,
        word,
        lowest,
        np.stack([run.tape_at(time).window(lowest, highest) for time in range(end + 1)]),
        run.state[: end + 1],
        run.symbol[: end + 1],
        run.cell[: end + 1],
        machine.states,
        machine.alphabet,
        outputs[:, layout["st"]],
        outputs[:, layout["sym1"]],
        outputs[:, layout["pos2"]],
        tuple(compiled.decode(outputs)),  # type: ignore[arg-type]
        f"{compiled.depth} layers, width {compiled.width}",
    )


def draw_trace(picture: Picture) -> Figure:
    """The picture as a figure."""
    rows, cells = picture.tape.shape
    groups = {
        "state": (picture.states[:, : len(picture.state_names)], picture.state_names),
        "symbol": (picture.symbols, picture.symbol_names),
        "cell, in binary": (picture.bits, tuple(str(2**k) for k in range(picture.bits.shape[1])[::-1])),
    }
    widths = [max(cells, 8), *(max(len(names), 5) for _, names in groups.values())]
    fig, axes = figures.new_figure(
        f"The tape of {picture.name!r} on {picture.word!r}, and what the transformer holds after each step",
        width=2.2 + 0.24 * sum(widths),
        height=1.9 + 0.17 * rows,
        ncols=4,
        sharey=True,
        width_ratios=widths,
    )
    _draw_tape(axes[0], picture)
    for ax, (title, (values, names)) in zip(axes[1:], groups.items(), strict=True):
        _draw_group(ax, values, names, [GREY, *map(_shade, range(1, len(names)))] if title == "symbol" else None)
        figures.panel_title(ax, title)
    axes[0].set_ylabel("time (machine steps)")
    axes[0].set_ylim(rows - 0.5, -0.5)
    axes[0].set_yticks(range(0, rows, 5 if rows > 12 else 1))
    figures.source_note(fig, SOURCE)
    told = "they agree at every step" if not picture.wrong.any() else f"they differ at {picture.wrong.sum()} times"
    caption = (
        "Left: the interpreter's tape, a row per step, time downwards; colours are symbols, the outline is the head, "
        "the dot where the network says that it is. Right: entries of the network's output vector after that step "
        "(white: 0), which hold the state, the symbol under the head and the cell of the head. Interpreter and "
        f"network ({picture.size}) are independent programs; {told} (T = {rows - 1}). The input begins on cell 1; "
        f"cells are counted modulo {2 ** picture.bits.shape[1]}, so that cell −1 is all ones."
    )
    return Figure("trace", f"A run of {picture.name!r} and of its transformer", caption, fig, picture.table())


def _draw_tape(ax: Any, picture: Picture) -> None:
    from matplotlib.colors import BoundaryNorm, ListedColormap
    from matplotlib.patches import Rectangle

    rows, cells = picture.tape.shape
    used = np.unique(picture.tape)
    shades = [_shade(number) for number in used]
    shown = np.searchsorted(used, picture.tape)
    with figures.style():
        ax.imshow(
            shown,
            cmap=ListedColormap(shades),
            norm=BoundaryNorm(np.arange(len(used) + 1) - 0.5, len(used)),
            extent=(picture.first - 0.5, picture.first + cells - 0.5, rows - 0.5, -0.5),
            aspect="auto",
            interpolation="nearest",
        )
    for time in range(rows):
        for place in range(cells):
            name = picture.symbol_names[picture.tape[time, place]]
            if picture.tape[time, place]:
                ax.text(picture.first + place, time, name, ha="center", va="center", fontsize=7, color=figures.INK)
        ax.add_patch(
            Rectangle((picture.cell[time] - 0.5, time - 0.5), 1, 1, fill=False, edgecolor=figures.INK, linewidth=1.2)
        )
    ax.plot(picture.decoded[2] + 0.33, np.arange(rows) - 0.25, "o", color=figures.INK, markersize=2.6)
    ax.grid(False)
    ax.set_xticks(range(picture.first, picture.first + cells))
    ax.tick_params(axis="x", labelsize=8)
    ax.set_xlabel("cell")
    figures.panel_title(ax, "tape, and head")


def _draw_group(ax: Any, values: np.ndarray, names: tuple[str, ...], shades: list[str] | None) -> None:
    """Entries as a grid, white at 0; at 1 dark, or in the column's shade."""
    from matplotlib.colors import to_rgb

    rows, count = values.shape
    full = np.array([to_rgb(shade) for shade in shades or [DARK] * count])
    with figures.style():
        ax.imshow(
            np.clip(1 - values[:, :, None] * (1 - full[None, :, :]), 0, 1),
            extent=(-0.5, count - 0.5, rows - 0.5, -0.5),
            aspect="auto",
            interpolation="nearest",
        )
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
