"""Which weights are trained, and where labels are: the settings of the two sources, crossed, on one target.

*Can SGD learn recurrent neural networks with provable generalization?* trains W alone on a label at every position;
*Learning and generalization in RNNs* trains W and A on one label at the end. Here the target is a function of the whole
sequence, which is beyond the concept class of the first; the network itself learns it with either.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import polars as pl

from krogh.engine import Trials
from krogh.experiments.recurrence.common import FEWEST_SEEDS, median_of, thinned
from krogh.experiments.recurrence.whole import NO_EXPERIMENTS, PRESET, RNN_PAPER, WholeSettings, curve_rows, fvu_table
from krogh.lab import Claims, Experiment, Figure, Results, Tables, experiment, figures, need, setting
from krogh.lab.experiment import Measures

PARTS = {"W": ("W",), "W and A": ("A", "W")}
STEPS = {"last": False, "every": True}
DECISIVE = 200
"""The width from which on a verdict is given."""


@dataclass(frozen=True)
class Settings(WholeSettings):
    width: int = setting(200, "hidden units m", least=1)
    eps_x: float = setting(1.0, "the size of tokens", above=0, most=1)


@experiment("recurrence/trained-parts")
class TrainedParts(Experiment[Settings]):
    """FVU at the end with W or W and A trained, on labels at the last or at every step."""

    title = "Training W alone, or W and A; labels at the end, or at every step"
    question = "Does it matter for functions of the whole sequence that A is trained too, or that prefixes have labels?"
    source = f"{RNN_PAPER}, Theorem 3.1 and the remark in section 3.3"
    scales = {
        "smoke": Settings(width=8, steps=40, look_every=20, validation=64, seeds=2),
        "laptop": Settings(),
        "paper": Settings(width=1000, steps=20_000, seeds=10),
    }
    notes = (
        NO_EXPERIMENTS,
        PRESET,
        "A label at step j is the same function of the tokens before j. Objectives are sums over steps; a network with "
        "labels at every step has more to learn, and is judged at the last step all the same.",
    )

    def check(self, settings: Settings) -> None:
        settings.check_looks()

    def trials(self, settings: Settings) -> Iterator[Trials]:
        for labels, every_step in STEPS.items():
            for part, trained in PARTS.items():
                options = {"eps_x": settings.eps_x, "every_step": every_step}
                yield from settings.networks({"part": part, "labels": labels}, settings.width, options, trained=trained)

    def measure(self, results: Results[Settings]) -> Measures:
        return {
            "fvu": fvu_table(results, ("part", "labels")),
            "curves": lambda: curve_rows(results, ("part", "labels")),
        }

    def claims(self, tables: Tables[Settings], say: Claims) -> None:
        settings, rows = tables.settings, tables["fvu"]
        say = say.about(
            needs=[
                need(settings.seeds, FEWEST_SEEDS, "seeds per setting"),
                need(settings.width, DECISIVE, "hidden units"),
            ]
        )
        for labels in STEPS:
            head = "With labels at every step: " if labels == "every" else "With a label at the last step: "
            about = say.about(f"{labels}-", head)
            for part in PARTS:
                own = rows.filter(part=part, labels=labels)
                about(f"floor-{part.replace(' ', '-')}", f"{part} trained goes below the additive floor.",
                      median_of(own, pl.col("fvu") / pl.col("floor"), f"{part}, {labels}"),
                      "median of FVU / additive floor", below=1.0)  # fmt: skip
            paired = rows.filter(part="W and A", labels=labels).join(
                rows.filter(part="W", labels=labels), on="seed", suffix="_W"
            )
            about("both", "training A too is at least as good as W alone.",
                  median_of(paired, pl.col("fvu") / pl.col("fvu_W"), f"both, {labels}"),
                  "median over seeds of FVU(W and A) / FVU(W)", at_most=1.0,
                  source_value=".067 / .099 at m = 300" if labels == "last" else "")  # fmt: skip

    def figures(self, tables: Tables[Settings]) -> Iterator[Figure]:
        settings, curves = tables.settings, tables["curves"]
        floor = float(tables["fvu"]["floor"].median())  # type: ignore[arg-type]
        chart = self.chart("trained-parts", self.title, columns=2, width=9.6, height=3.9)
        for labels in STEPS:
            panel = chart.panel(title=f"labels at {'every step' if labels == 'every' else 'the last step'}", x="steps",
                                y="FVU at the last step", log="y")  # fmt: skip
            for part, color in zip(PARTS, (figures.ORANGE, figures.BLUE), strict=True):
                own = thinned(curves.filter(part=part, labels=labels))
                panel.ranges(own, "step", "fvu", f"{part} trained", middle=pl.Expr.median, color=color, key="legend")
            panel.reference(floor, "additive floor (median)")
            panel.legend(loc="best")
        yield chart.figure(
            f"Median FVU over {settings.seeds} targets (⟨w, x⟩)² with the range over seeds; m = {settings.width}, "
            f"L = {settings.length}, ε_x = {settings.eps_x:g}. Dashed: the least FVU of any sum over tokens.",
        )
