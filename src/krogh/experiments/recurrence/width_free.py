"""Generalisation from a fixed sample does not worsen with width: sample complexity depends on m through log m alone.

A network of m neurons has m² numbers to fit N sequences with. Trained on batches drawn from a fixed sample, with
replacement, what it loses on fresh sequences is held against width and against N.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

import polars as pl

from krogh.engine import Trials
from krogh.experiments.recurrence.common import FEWEST_SEEDS, cohorts
from krogh.experiments.recurrence.sums import (
    PROBES,
    SOURCE,
    SumSettings,
    losses,
    medians,
    ratio,
    target,
    trial_of,
    variance_of,
)
from krogh.lab import Claims, Experiment, Figure, Results, Tables, experiment, figures, maximum, need, setting
from krogh.lab.experiment import Measures
from krogh.probes import TrainingError
from krogh.training import Resampled

MOST = 1.3
REFERENCE: Mapping[float, Mapping[float, float]] = {
    100: {50: 0.51, 150: 0.30, 400: 0.49},
    1000: {50: 0.26, 150: 0.14, 400: 0.12},
}


@dataclass(frozen=True)
class Settings(SumSettings):
    widths: tuple[int, ...] = setting((50, 150, 400, 1000, 2000), "neurons m", least=1, increasing=True)
    samples: tuple[int, ...] = setting((100, 1000), "sequences N of the sample", least=1, increasing=True)
    eps_x: float = setting(1.0, "size of tokens", above=0, most=1)
    budget: int = setting(4000, "steps", least=1)
    looks: int = setting(4, "looks at sample and test sequences", least=1)


@experiment("recurrence/width-free")
class WidthFree(Experiment[Settings]):
    """What is lost on fresh sequences after training on a fixed sample, against width."""

    title = "A wider network generalises no worse from the same sample"
    question = "Does generalisation from a fixed sample worsen with the width of the recurrent network?"
    source = f"{SOURCE}, Theorem 1"
    scales = {
        "smoke": Settings(widths=(8,), samples=(10, 20), budget=20, looks=2, seeds=2, validation=50),
        "laptop": Settings(widths=(50, 150, 400), seeds=6),
        "paper": Settings(),
    }
    notes = (
        "Proposed. Batches are drawn with replacement from the sample, as the source's SGD draws single examples.",
        "The reference's tolerance of 1.3 from the narrowest to the widest network is kept; its N = 100 row (0.51, "
        "0.30, 0.49) has three seeds.",
    )

    def trials(self, settings: Settings) -> Iterator[Trials]:
        for width in settings.widths:
            runs = [
                trial_of(
                    settings,
                    target(settings, seed, eps_x=settings.eps_x),
                    width,
                    seed,
                    regime=Resampled(samples, settings.batch_size),
                    probes=(*PROBES, TrainingError()),
                )
                for samples in settings.samples
                for seed in range(settings.seeds)
            ]
            yield from cohorts(runs)

    def measure(self, results: Results[Settings]) -> Measures:
        table = results.table
        keep = ("model.width", "training.regime.m", "seed")
        made = losses(table, lambda row: variance_of(results.settings, row["seed"]), keep)
        fitted = pl.Series("fitted", [None if seen is None else seen[-1] for seen in table["curve.training_error"]])
        made = made.rename({"model.width": "width", "training.regime.m": "samples"})
        return {"losses": made.with_columns(fvu_sample=fitted.cast(pl.Float64) / made["variance"])}

    def claims(self, tables: Tables[Settings], say: Claims) -> None:
        settings, rows = tables.settings, tables["losses"]
        ends = max(settings.widths), min(settings.widths)
        say = say.about(needs=[need(settings.seeds, FEWEST_SEEDS, "targets")])
        for samples in settings.samples:
            say(
                f"width-{samples}",
                f"From {samples:,} sequences a network of {ends[0]} neurons loses at most {MOST:g} times what one of "
                f"{ends[1]} loses.",
                ratio(rows.filter(pl.col("samples") == samples), "width", *ends),
                f"median over seeds of the ratio of test FVU, m = {ends[0]} to {ends[1]}",
                at_most=MOST,
                source_value="reference "
                + " / ".join(f"{value:g}" for value in REFERENCE.get(samples, {}).values())
                + " at m = 50 / 150 / 400",
                needs=[need(ends[0] / ends[1], 8, "times the width from the narrowest to the widest")],
            )
        if len(settings.samples) > 1:
            for more, fewer in itertools.pairwise(reversed(settings.samples)):
                parts = [
                    ratio(rows.filter(pl.col("width") == width), "samples", more, fewer) for width in settings.widths
                ]
                say(
                    f"samples-{more}",
                    f"{more:,} sequences are better than {fewer:,} at every width.",
                    maximum(parts),
                    "largest over widths of the median ratio of test FVU",
                    below=1.0,
                    source_value="reference 0.26 / 0.14 / 0.12 against 0.51 / 0.30 / 0.49",
                    needs=[need(more / fewer, 10, "times the sequences")],
                )

    def figures(self, tables: Tables[Settings]) -> Iterable[Figure]:
        settings, rows = tables.settings, tables["losses"]
        chart = self.chart("width-free", self.title, height=4.2)
        panel = chart.panel(x="neurons m", y="share of variance left (FVU)", log="xy", xticks=settings.widths)
        for samples, color in zip(settings.samples, figures.PALETTE, strict=False):
            own = rows.filter(pl.col("samples") == samples)
            panel.curve(medians(own, "width"), f"N = {samples:,}", color=color, published=REFERENCE.get(samples, {}))
            seen = medians(own, "width", "fvu_sample")
            panel.line(seen.x, seen.value, f"N = {samples:,}, on the sample itself", color=color, key="legend")
        yield chart.figure(
            f"After {settings.budget:,} steps of {settings.batch_size} sequences drawn with replacement from N (L = "
            f"{settings.length}, Φ = {settings.phi}, ε_x = {settings.eps_x:g}, c = {settings.c:g}). Medians over "
            f"{settings.seeds} targets with intervals by order statistics; open circles: reference; dashed: on the "
            "sample itself.",
            rows,
        )
