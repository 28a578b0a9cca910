"""Compiled Turing machines beside the interpreter, at every step (Theorem 4.1).

Machines of the library and random ones become transformers, with both adders, with hard-max and softmax attention.
State, symbol under the head and cell are read off every output and compared with the interpreter's; hidden vectors must
be bits, and attention must lead by 1. One machine is run in float32 and bfloat16 too, for longer and longer, with and
without the correction that rounds every layer. One run is drawn: the tape over time, beside it what the network holds.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import polars as pl

from krogh.errors import require
from krogh.experiments.approximation.common import (
    ARITHMETICS,
    CORRECTIONS,
    NO_EXPERIMENTS,
    SOLID,
    compiled_counter,
    in_words,
    simulate,
)
from krogh.lab import Chart, Claims, Experiment, Figure, Results, Tables, experiment, figures, groups, setting
from krogh.lab.estimate import exact, largest
from krogh.lab.experiment import Measures
from krogh.networks.machines.compiled import ADDERS, Kind, compile_machine
from krogh.networks.machines.running import machine_hidden
from krogh.programs.machines.library import library_names, library_steps, load_machine
from krogh.programs.machines.machine import Machine, Word
from krogh.programs.machines.running import trace, trace_batch
from krogh.programs.machines.sampling import ProperRuns, random_machine, short_words

ROUNDING = 1e-12
"""Of numbers that are whole in exact arithmetic, in float64."""
KINDS = {"library": "machines of the library", "random": "random machines"}
ATTENTIONS: dict[Kind, str] = {"hard": "hard-max", "soft": "softmax"}
STYLES = {("look-ahead", "hard"): ("o", figures.BLUE), ("look-ahead", "soft"): ("s", figures.GREEN),
          ("ripple", "hard"): ("D", figures.SKY), ("ripple", "soft"): ("^", figures.ORANGE)}  # fmt: skip
COLORS = {"float64": figures.GREEN, "float32": figures.BLUE, "bfloat16": figures.VERMILLION}
SMALLEST, LARGEST = 1e-17, 1e4
"""Errors of 0 are drawn at the one, larger ones and those that are no numbers at the other."""
SIZES = tuple(itertools.product((2, 3, 4, 5, 6), (2, 3, 4)))
"""States and symbols of random machines, in turn."""
RANDOM_LENGTH, LEAST_STEPS, RANDOM_STEPS = 3, 8, 100
"""Random machines run on words of up to so many letters, one for at least and none for more than so many steps."""


@dataclass(frozen=True)
class Settings:
    machines: tuple[str, ...] = setting(
        (), "machines of the library; all where none is named", among=library_names(), distinct=True, fewest=0
    )
    length: int = setting(6, "longest inputs of machines of the library", least=0)
    most_words: int = setting(
        2000, "inputs of one machine at most: those up to a shorter length where there are more", least=1
    )
    most_steps: int = setting(5000, "steps T at most: shorter inputs where a machine may take more", least=1)
    soft_words: int = setting(40, "inputs of one machine that are run with softmax attention, step by step", least=1)
    soft_steps: int = setting(800, "steps of those at most", least=1)
    random: int = setting(1000, "random machines", least=0)
    adders: tuple[str, ...] = setting(
        ("look-ahead", "ripple"), "how the head's cell is computed", among=ADDERS, distinct=True
    )
    counters: tuple[int, ...] = setting(
        tuple(range(1, 10)), "bits n of the counter, which takes T = 2^(n+2) − 1", increasing=True, least=1, most=12
    )
    arithmetics: tuple[str, ...] = setting(
        ARITHMETICS, "arithmetics in which the counter is run", among=ARITHMETICS, distinct=True
    )
    shown: str = setting("binary-addition", "machine of the library whose trace is drawn", among=library_names())
    shown_input: str = setting("101+11", "its input")


@experiment("approximation/machine-fidelity")
class MachineFidelity(Experiment[Settings]):
    """Every step of compiled machines against the interpreter, and one machine in coarser arithmetics."""

    title = "Transformers compiled from Turing machines repeat every step of them"
    question = "Does the network hold the machine's state, symbol and cell after every step, also in coarse arithmetic?"
    source = "SM paper, Theorem 4.1 and Section C"
    scales = {
        "smoke": Settings(
            machines=("parity", "palindrome", "counter", "busy-beaver-3"), length=3, soft_words=5, random=6,
            counters=(1, 3),
        ),
        "laptop": Settings(
            most_words=130, most_steps=300, soft_words=10, soft_steps=130, random=200, counters=(1, 2, 3, 4, 5, 6, 7)
        ),
        "paper": Settings(),
    }  # fmt: skip
    notes = (
        NO_EXPERIMENTS,
        "With hard-max attention outputs that should come are fed to the network at all steps at once, and by "
        "induction on the steps its own outputs are the same; with softmax attention, and in coarser arithmetics, it "
        "runs step by step and computes every score.",
        "Softmax attention has the inverse temperature ln(3(n + 1)) for n positions.",
        "In bfloat16 weights and all results have 8 significant bits and sums are taken in float32. It rounds sums "
        "to whole numbers by itself, which is why networks without correction last longer in it than in float32.",
        "Of machines that may take very many steps, or have many inputs, shorter inputs are run; the data has T and "
        "the number of inputs.",
    )

    def check(self, settings: Settings) -> None:
        check_trace(settings.shown, settings.shown_input)

    def measure(self, results: Results[Settings]) -> Measures:
        s = results.settings
        return {
            "machines": lambda: machine_table(s),
            "precision": lambda: precision_table(s),
            "trace": lambda: trace_table(s.shown, s.shown_input),
        }

    def claims(self, tables: Tables[Settings], say: Claims) -> None:
        table = tables["machines"]
        for kind, attention in itertools.product(KINDS, ATTENTIONS):
            own = table.filter(kind=kind, attention=attention)
            if not len(own):
                continue
            compared = int(own["compared"].sum())
            adders = " and ".join(f"{name} adder" for name in own["adder"].unique(maintain_order=True))
            say(
                f"{kind}-{attention}",
                f"{own['machine'].n_unique():,} {KINDS[kind]}, {adders}, {ATTENTIONS[attention]} attention: state, "
                f"symbol and cell are the interpreter's at all {compared:,} steps of {own['words'].sum():,} runs, and "
                "every output is right.",
                exact(int((own["mismatches"] + own["wrong_outputs"]).sum()), compared),
                "mismatching steps and wrong outputs",
                at_most=0,
                source_value="0",
            )
        for attention, name in ATTENTIONS.items():
            own, allowed = table.filter(attention=attention), 0.0 if attention == "hard" else ROUNDING
            say(
                f"gap-{attention}",
                f"{name.capitalize()} attention: the best score always leads by 1.",
                largest((own["gap"] - 1).abs()),
                "largest |score gap − 1|",
                at_most=allowed,
                source_value="gap 1",
            )
            say(
                f"binary-{attention}",
                f"{name.capitalize()} attention: every entry of every hidden vector is 0 or 1.",
                largest(own["deviation"]),
                "largest distance from 0 and 1",
                at_most=allowed,
                source_value="0",
            )
        for arithmetic, own in groups(tables["precision"].filter("correction"), "arithmetic").items():
            about = say.about(f"corrected-{arithmetic}", f"With correction, in {arithmetic}: ")
            about(
                "",
                "the counter's steps are all right, hard-max and softmax, for T = "
                f"{in_words(own['steps'].unique().sort().to_list())}.",
                exact(int(own["mismatches"].sum()), int((own["steps"] + 1).sum())),
                "mismatching steps",
                at_most=0,
                source_value="0 in exact arithmetic",
            )
            about(
                "-output",
                "the output keeps its sign with room to spare.",
                largest(own["output_error"].abs()),
                "largest |output − label|",
                at_most=1 / 3,
                source_value="0 in exact arithmetic; rounding allows 1/3",
            )

    def figures(self, tables: Tables[Settings]) -> Iterator[Figure]:
        yield draw_trace(tables.settings.shown, tables.settings.shown_input, tables["trace"])
        yield _draw_machines(tables["machines"], self.source)
        yield _draw_precision(tables["precision"], self.source)


# --- many machines --------------------------------------------------------------------------------------------


class Case(NamedTuple):
    """A machine with the words and steps that it is run for, and the fewer ones with softmax attention."""

    kind: str
    machine: Machine
    words: list[Word]
    steps: int
    soft_words: list[Word]
    soft_steps: int


def machine_table(settings: Settings) -> pl.DataFrame:
    """A row for every machine, adder and kind of attention."""
    cases = itertools.chain(_from_library(settings), _at_random(settings))
    return pl.DataFrame(
        [_row(case, adder, attention) for case in cases for adder in settings.adders for attention in ATTENTIONS]
    )


def _from_library(settings: Settings) -> Iterator[Case]:
    for name in settings.machines or library_names():
        machine = load_machine(name)
        length, steps = _longest(machine, name, settings.length, settings.most_words, settings.most_steps)
        short, fewer = _longest(machine, name, length, settings.most_words, settings.soft_steps)
        some = _spread(short_words(machine, short), settings.soft_words)
        yield Case("library", machine, list(short_words(machine, length)), steps, some, fewer)


def _longest(machine: Machine, name: str, length: int, most_words: int, most_steps: int) -> tuple[int, int]:
    """The largest length, up to the one asked for, with few enough words and steps; and the steps T it takes."""
    letters = len(machine.input_symbols)
    while length > 0:
        count = sum(letters**size for size in range(length + 1))
        if count <= most_words and _steps(name, length) <= most_steps:
            break
        length -= 1
    return length, _steps(name, length)


def _steps(name: str, length: int) -> int:
    return max(library_steps(name, size) for size in range(length + 1))


def _spread(words: Sequence[Word], most: int) -> list[Word]:
    """At most so many of the words, evenly spaced, the last among them."""
    places = np.unique(np.linspace(0, len(words) - 1, min(most, len(words))).round().astype(int))
    return [words[place] for place in places]


def _at_random(settings: Settings) -> Iterator[Case]:
    for seed in range(settings.random):
        states, symbols = SIZES[seed % len(SIZES)]
        tape = "one-way" if seed % 2 else "two-way"
        runs = ProperRuns(length=RANDOM_LENGTH, steps=RANDOM_STEPS, least_steps=LEAST_STEPS)
        machine = random_machine(states, symbols, seed, tape=tape, runs=runs)
        words: list[Word] = list(short_words(machine, RANDOM_LENGTH))
        steps = int(trace_batch(machine, words, RANDOM_STEPS).halted_at.max())
        yield Case("random", machine, words, steps, _spread(words, settings.soft_words), steps)


def _row(case: Case, adder: Any, attention: Kind) -> dict[str, Any]:
    """Hard attention by lookup of exact matches, as vectors are bits; of soft attention every score, in float64."""
    machine, hard = case.machine, attention == "hard"
    words, steps = (case.words, case.steps) if hard else (case.soft_words, case.soft_steps)
    compiled = compile_machine(machine, steps, input_length=max(map(len, words)), adder=adder, attention=attention)
    if hard:
        details = compiled.check(words).details
        deviation = 0.0 if details["binary"] else np.nan
        faults = (details["mismatches"], details["wrong_outputs"], deviation, details["score_gap"])
    else:
        run = simulate(compiled, words)
        wrong = int(np.sum(np.abs(run.output - run.label) > 1e-6))
        faults = (int(run.wrong.sum()), wrong, float(run.deviation.max()), float(run.gap.min()))
    return {
        "kind": case.kind,
        "machine": machine.name,
        "states": len(machine.states),
        "symbols": len(machine.alphabet),
        "tape": machine.tape,
        "adder": compiled.adder,
        "attention": attention,
        "words": len(words),
        "steps": compiled.steps,
        "compared": len(words) * (compiled.steps + 1),
        "width": compiled.width,
        "layers": compiled.depth,
        **dict(zip(("mismatches", "wrong_outputs", "deviation", "gap"), faults, strict=True)),
    }


def _draw_machines(table: pl.DataFrame, source: str) -> Figure:
    """The steps that were compared, machine by machine, and how many of them differ."""
    library, random = table.filter(kind="library"), table.filter(kind="random")
    names = library["machine"].unique(maintain_order=True).to_list()
    once = random.unique("machine")
    chart = Chart(
        "machines",
        "Steps of compiled machines against the interpreter",
        headline="Steps of compiled machines that were compared with the interpreter",
        source=source,
        columns=2,
        width=9.4,
        height=1.8 + 0.19 * max(len(names), 10),
        width_ratios=(1.4, 1),
    )
    left = chart.panel(title=f"{len(names)} machines of the library", x="steps compared (inputs × times)", log="x")
    for shift, ((adder, attention), (marker, color)) in zip((-0.27, -0.09, 0.09, 0.27), STYLES.items(), strict=True):
        own = library.filter(adder=adder, attention=attention)
        wrong = (own["mismatches"] + own["wrong_outputs"]).sum()
        places = np.array([names.index(name) + shift for name in own["machine"]])
        label = f"{adder}, {ATTENTIONS[attention]}: {wrong} wrong"  # type: ignore[index]
        left.dots(own["compared"], places, label, color=color, marker=marker, markersize=4, alpha=1)
        bad = (own["mismatches"] > 0).to_numpy()
        left.ax.plot(own["compared"].to_numpy()[bad], places[bad], "x", color="red", markersize=9)
    left.name_rows(names, fontsize=8)
    left.legend(loc="upper center", bbox_to_anchor=(0.5, -0.1 if len(names) > 20 else -0.22), ncols=2)
    right = chart.panel(title=f"{len(once):,} random machines", x="longest run T (steps)", y="machines")
    if len(once):
        right.ax.bar(*np.unique(once["steps"], return_counts=True), color=figures.SKY)
    return chart.figure(
        "Left: for each machine of the library, how many times of how many runs were compared, in state, symbol and "
        "cell; a red cross marks machines that differ somewhere. Right: random machines of 2 to 6 states and 2 to 4 "
        f"symbols, by the steps of their longest run on words of up to 3 letters; of {random['compared'].sum():,} "
        f"steps, with both adders and attentions, {random['mismatches'].sum()} are wrong.",
        table,
    )


# --- coarser arithmetics --------------------------------------------------------------------------------------


def precision_table(settings: Settings) -> pl.DataFrame:
    """The counter in every arithmetic, a row per run; `deviations` is the largest error at each of its times."""
    rows = []
    for bits, attention, correction in itertools.product(settings.counters, ATTENTIONS, (True, False)):
        corrected, word = compiled_counter(bits, attention=attention)
        compiled = corrected
        if not correction:  # soft attention then asks for a temperature: the same
            compiled, _ = compiled_counter(bits, attention=corrected.inverse_temperature or "hard", correction=False)
        for arithmetic in settings.arithmetics:
            run = simulate(compiled, [word], arithmetic)
            wrong = run.wrong[0]
            rows.append(
                {
                    "bits": bits,
                    "steps": compiled.steps,
                    "attention": attention,
                    "correction": correction,
                    "arithmetic": arithmetic,
                    "mismatches": int(wrong.sum()),
                    "first": int(wrong.argmax()) if wrong.any() else None,
                    "deviation": float(run.deviation.max()),
                    "output_error": float(np.abs(run.output - run.label)[0]),
                    "deviations": run.deviation.tolist(),
                }
            )
    return pl.DataFrame(rows, schema_overrides={"first": pl.Int64})


def _draw_precision(table: pl.DataFrame, source: str) -> Figure:
    """Wrong steps against T, and how errors grow along the longest run."""
    chart = Chart(
        "precision",
        "Fidelity in coarser arithmetics",
        headline="Without correction errors grow from step to step; rounding every layer stops them",
        source=source,
        rows=2,
        columns=2,
        width=9.8,
        height=6.4,
    )
    times = table["steps"].unique().sort().to_list()
    x, ys = "running time T of the counter (steps)", ("share of wrong steps", "")
    above = {
        attention: chart.panel(title=f"{name} attention", x=x, y=y, log="x", xticks=times, ylim=(-0.04, 1.04))
        for (attention, name), y in zip(ATTENTIONS.items(), ys, strict=True)
    }
    title, ys = f"along the run of T = {times[-1]:,}", ("largest distance of a\nhidden entry from 0 and 1", "")
    under = {
        attention: chart.panel(title=title, x="step", y=y, log="xy", ylim=(SMALLEST / 3, LARGEST * 3))
        for attention, y in zip(ATTENTIONS, ys, strict=True)
    }
    for (attention, arithmetic, correction), own in groups(table, ("attention", "arithmetic", "correction")).items():
        label = f"{arithmetic}, {CORRECTIONS[correction][0]}" if attention == "hard" else ""
        look: dict[str, Any] = {"color": COLORS[arithmetic], "style": "-" if correction else "--"}
        share = own["mismatches"] / (own["steps"] + 1)
        above[attention].line(own["steps"], share, label, key="legend", **SOLID | look)
        far = np.nan_to_num(own["deviations"][-1].to_numpy(), nan=LARGEST, posinf=LARGEST)
        under[attention].line(np.arange(1, len(far) + 1), np.clip(far, SMALLEST, LARGEST), **look)
    for panel in under.values():
        panel.reference(1 / 3, "corrected up to 1/3")
    above["hard"].legend(loc="center left", fontsize=8)
    return chart.figure(
        "The machine 'counter' on #0…0 with n zeros, which takes T = 2^(n+2) − 1 steps, as a transformer in three "
        "arithmetics. Above: the share of times at which state, symbol or cell is wrong. Below: the largest error of "
        f"an entry of any layer's vector, step by step ({SMALLEST:g} stands for 0, {LARGEST:g} for more). In hard-max "
        "attention errors come from averages over ties, such as three times 1/3; softmax attention leaks by design.",
        table.drop("deviations"),
    )


# --- one run as a picture -------------------------------------------------------------------------------------

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
    network, cells, layout = compiled.decode(outputs), run.cell[: len(times)], compiled.layout
    first, last = min(0, int(cells.min())), max(len(run.word), int(cells.max())) + 1
    return pl.DataFrame(
        {
            "time": times,
            "first_cell": first,
            "tape": [run.tape_at(time).window(first, last).tolist() for time in times],
            "state": run.state[: len(times)],
            "symbol": run.symbol[: len(times)],
            "cell": cells,
            "network_state": network.state,
            "network_symbol": network.symbol,
            "network_cell": network.cell,
            **{f"{what}_entries": outputs[:, layout[place]].tolist() for what, place in ENTRIES.items()},
            "layers": compiled.depth,
            "width": compiled.width,
        }
    )


def draw_trace(name: str, word: str, table: pl.DataFrame) -> Figure:
    """The run as a picture, time downwards, from its table (`trace_table`)."""
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
    verdict = "they agree at every step" if equal.all() else f"they differ at {(~equal).sum()} times"

    def named(name: str, words: Sequence[str]) -> pl.Expr:
        return pl.col(name).replace_strict(range(len(words)), words, return_dtype=pl.String)

    return chart.figure(
        "Left: the interpreter's tape, a row per step, time downwards; colours are symbols, the outline is the head, "
        "the dot where the network says that it is. Right: entries of the network's output vector after that step "
        "(white: 0), which hold the state, the symbol under the head and the cell of the head. Interpreter and "
        f"network ({table['layers'][0]} layers, width {table['width'][0]}) are independent programs; {verdict} (T = "
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
    look: dict[str, Any] = {"ha": "center", "va": "center", "fontsize": 7, "color": figures.DARK}
    for (time, place), number in np.ndenumerate(tape):
        if number:
            ax.text(first + place, time, symbols[number], parse_math=False, **look)
    for time, cell in enumerate(table["cell"]):
        ax.add_patch(Rectangle((cell - 0.5, time - 0.5), 1, 1, fill=False, edgecolor=figures.DARK, linewidth=1.2))
    ax.plot(table["network_cell"] + 0.33, np.arange(rows) - 0.25, "o", color=figures.DARK, markersize=2.6)
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
    ax.set_xticks(range(count), names, rotation=90, fontsize=7.5, parse_math=False)


def _shade(number: int) -> str:
    """The colour of a symbol, light enough for letters on it."""
    from matplotlib.colors import to_hex, to_rgb

    if number == 0:
        return BLANK
    red, green, blue = (0.4 + 0.6 * part for part in to_rgb(figures.PALETTE[(number - 1) % len(figures.PALETTE)]))
    return str(to_hex((red, green, blue)))
