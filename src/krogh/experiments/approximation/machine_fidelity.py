"""Compiled Turing machines beside the interpreter, at every step (Theorem 4.1).

Machines of the library and random ones become transformers, with both adders, with hard-max and softmax attention.
State, symbol under the head and cell are read off every output and compared with the interpreter's; hidden vectors must
be bits, and attention must lead by 1. One machine is run in float32 and bfloat16 too, for longer and longer, with and
without the correction that rounds every layer.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl

from krogh.errors import require, require_integer
from krogh.experiments.approximation.common import NO_EXPERIMENTS, check_choices, in_words
from krogh.experiments.approximation.fidelity_figures import machines_figure, precision_figure
from krogh.experiments.approximation.fidelity_runs import Settings, machine_rows, precision_rows
from krogh.experiments.approximation.machine_stepping import ARITHMETICS
from krogh.experiments.approximation.trace_drawing import check_trace, draw_trace, picture_of
from krogh.experiments.theorems import Demonstration, Tables, exact, largest, require_increasing
from krogh.lab import Claim, Figure, claim, experiment
from krogh.tasks.machines import library_names
from krogh.theory.compilers.machines import ADDERS

SOURCE = "SM paper, Theorem 4.1 and Section C"
ROUNDING = 1e-12
"""Of numbers that are whole in exact arithmetic, in float64."""
KINDS = {"library": "machines of the library", "random": "random machines"}
ATTENTION = {"hard": "hard-max", "soft": "softmax"}


@experiment("approximation/machine-fidelity")
class MachineFidelity(Demonstration[Settings]):
    """Every step of compiled machines against the interpreter, and one machine in coarser arithmetics."""

    title = "Transformers compiled from Turing machines repeat every step of them"
    question = "Does the network hold the machine's state, symbol and cell after every step, also in coarse arithmetic?"
    source = SOURCE
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
        check_choices("machines", settings.machines, library_names(), fewest=0)
        check_choices("adders", settings.adders, tuple(ADDERS))
        check_choices("arithmetics", settings.arithmetics, ARITHMETICS)
        for name in ("length", "random"):
            require_integer(name, getattr(settings, name), 0)
        for name in ("most_words", "most_steps", "soft_words", "soft_steps"):
            require_integer(name, getattr(settings, name), 1)
        require_increasing("counters", settings.counters, 1)
        for bits in settings.counters:
            require_integer("counters", bits, 1, 12)
        require(
            settings.shown in library_names(), f"shown must be a machine of the library; got shown={settings.shown!r}"
        )
        check_trace(settings.shown, settings.shown_input)

    def measure(self, settings: Settings) -> Tables:
        precision, growth = precision_rows(settings)
        schema: Any = {"first": pl.Int64}
        return {
            "machines": pl.DataFrame(machine_rows(settings)),
            "precision": pl.DataFrame(precision, schema_overrides=schema),
            "growth": pl.DataFrame(growth),
        }

    def judge(self, settings: Settings, tables: Tables) -> list[Claim]:
        return [*_fidelity_claims(tables["machines"]), *_precision_claims(tables["precision"])]

    def draw(self, settings: Settings, tables: Tables) -> list[Figure]:
        return [
            draw_trace(picture_of(settings.shown, settings.shown_input)),
            machines_figure(tables["machines"], SOURCE),
            precision_figure(settings, tables["precision"], tables["growth"], SOURCE),
        ]


def _fidelity_claims(table: pl.DataFrame) -> list[Claim]:
    found = []
    for kind, words in KINDS.items():
        for attention, name in ATTENTION.items():
            own = table.filter(kind=kind, attention=attention)
            if not len(own):
                continue
            compared = int(own["compared"].sum())
            found.append(
                claim(
                    f"{kind}-{attention}",
                    f"{own['machine'].n_unique():,} {words}, {in_words_of(own['adder'])}, {name} attention: state, "
                    f"symbol and cell are the interpreter's at all {compared:,} steps of {own['words'].sum():,} runs, "
                    "and every output is right.",
                    source=SOURCE,
                    statistic="mismatching steps and wrong outputs",
                    interval=exact(float((own["mismatches"] + own["wrong_outputs"]).sum())),
                    at_most=0,
                    trials=compared,
                    source_value="0",
                )
            )
    for attention, name in ATTENTION.items():
        own = table.filter(attention=attention)
        allowed = 0.0 if attention == "hard" else ROUNDING
        shared: dict[str, Any] = {"source": SOURCE, "trials": len(own), "at_most": allowed}
        found += [
            claim(
                f"gap-{attention}",
                f"{name.capitalize()} attention: the best score always leads by 1.",
                statistic="largest |score gap − 1|",
                interval=exact(largest((own["gap"] - 1).abs().to_numpy())),
                source_value="gap 1",
                **shared,
            ),
            claim(
                f"binary-{attention}",
                f"{name.capitalize()} attention: every entry of every hidden vector is 0 or 1.",
                statistic="largest distance from 0 and 1",
                interval=exact(largest(own["deviation"].to_numpy())),
                source_value="0",
                **shared,
            ),
        ]
    return found


def in_words_of(adders: pl.Series) -> str:
    """Which adders there are."""
    return " and ".join(f"{name} adder" for name in adders.unique(maintain_order=True))


def _precision_claims(table: pl.DataFrame) -> list[Claim]:
    found = []
    for arithmetic in table["arithmetic"].unique(maintain_order=True):
        own = table.filter(pl.col("correction"), arithmetic=arithmetic)
        found.append(
            claim(
                f"corrected-{arithmetic}",
                f"With correction, in {arithmetic}: the counter's steps are all right, hard-max and softmax, for T = "
                f"{in_words(own['steps'].unique().sort().to_list())}.",
                source=SOURCE,
                statistic="mismatching steps",
                interval=exact(float(own["mismatches"].sum())),
                at_most=0,
                trials=int((own["steps"] + 1).sum()),
                source_value="0 in exact arithmetic",
            )
        )
        far = np.abs(own["output_error"].to_numpy())
        found.append(
            claim(
                f"corrected-{arithmetic}-output",
                f"With correction, in {arithmetic}: the output keeps its sign with room to spare.",
                source=SOURCE,
                statistic="largest |output − label|",
                interval=exact(largest(far)),
                at_most=1 / 3,
                trials=len(own),
                source_value="0 in exact arithmetic; rounding allows 1/3",
            )
        )
    return found
