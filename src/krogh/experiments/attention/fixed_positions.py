"""Do the positional embeddings have to be trained? A Transformer with those it was born with, beside the usual one.

Theorems about sparse functions take the embeddings P as given, nearly orthogonal vectors (Proposition 4.12, the
"deterministic" input mapping), while the source's experiment trains them. Here the same conjunction is learned from the
same data with P kept as drawn, N(0, 0.02²) in 64 dimensions, and with P trained. The source has no such figure.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import polars as pl

from krogh.engine import Trials, sweep
from krogh.experiments.attention.common import (
    GRID_NOTES,
    Cells,
    GridSettings,
    floor_bits,
    require_longer,
    success_counts,
)
from krogh.lab import Claims, Experiment, Figure, Tables, experiment, figures, groups, need, setting
from krogh.lab.estimate import Estimate, rate
from krogh.lab.sample_complexity import crossing, success_rates

KINDS = {
    "trained": "trained: m* ≈ 70 at T = 300",
    "fixed": "not measured; representable by theorem",
}
"""What happens to the positions, and what the source says about it."""
FEWEST = 10  # trials per cell that a verdict needs


@dataclass(frozen=True)
class Settings(GridSettings):
    length: int = setting(100, "context length T", least=2)
    sizes: tuple[int, ...] = setting(tuple(range(40, 201, 20)), "sample sizes m", distinct=True, fewest=2, least=1)


@experiment("attention/fixed-positions")
class FixedPositions(Experiment[Settings]):
    """Success rates with fixed and with trained positional embeddings, on the same data."""

    title = "A sparse conjunction with positional embeddings fixed or trained"
    question = "Does the Transformer learn a sparse conjunction when its positional embeddings stay as they were drawn?"
    source = "dissertation, §4.5 and §A.2 (fixed positions), §A.3.1 (trained positions)"
    scales = {
        "smoke": Settings(length=12, sizes=(20, 40), trials=2, restarts=1, budget=60, validation=256),
        "laptop": Settings(
            length=50, sizes=(20, 30, 40, 60, 80, 120), trials=20, restarts=2, budget=400, validation=1000
        ),
        "paper": Settings(),
    }
    notes = (
        *GRID_NOTES,
        "The source trains the positions and proves its theorems for fixed ones; it does not compare them.",
        "Laptop scale has T = 50, 2 runs of 400 steps and 1000 validation examples.",
    )

    def check(self, settings: Settings) -> None:
        require_longer(settings.length, settings.s)

    def trials(self, settings: Settings) -> Iterator[Trials]:
        sizes = sorted(settings.sizes)
        for kind in KINDS:
            trial = settings.trial(settings.length, sizes[0], fixed_positions=kind == "fixed")
            seeds = range(settings.trials)
            yield from sweep(trial, training__regime__m=sizes, seed=seeds, label={"positions": kind})

    def claims(self, tables: Tables[Settings], say: Claims) -> None:
        settings, counts = tables.settings, counts_of(tables)
        smallest, most = min(settings.sizes), max(settings.sizes)
        say = say.about(needs=[need(settings.trials, FEWEST, "trials per size")])
        for kind, source_value in KINDS.items():
            say(
                f"{kind}-learns",
                f"With {kind} positions {most} samples are enough at T = {settings.length}.",
                rate(*counts[kind][most], sample=f"{kind}, m={most}"),
                f"success rate at m = {most}",
                at_least=settings.p,
                source_value=source_value,
            )
        fixed, trained = (crossing(counts[kind], settings.p, sample=kind) for kind in ("fixed", "trained"))
        hidden = "" if trained.low > 0 else f"m* of trained positions may lie below the smallest size {smallest}"
        say(
            "fixed-costs-little",
            f"Fixed positions take at most twice the samples of trained ones (m* {_words(fixed)} against "
            f"{_words(trained)}).",
            fixed / trained,
            "m* with fixed positions / m* with trained positions",
            at_most=2.0,
            source_value="not measured; both within O(log T) by theorem",
            needs=[hidden],
        )

    def figures(self, tables: Tables[Settings]) -> Iterable[Figure]:
        settings, floor = tables.settings, floor_bits(tables.settings.length, tables.settings.s)
        chart = self.chart(
            "fixed-positions",
            "Fixed and trained positional embeddings",
            headline="Success with positional embeddings fixed or trained",
            height=3.9,
        )
        panel, rows = chart.panel(x="samples m (log scale)", y="success rate"), []
        for kind, cells in counts_of(tables).items():
            rates = success_rates(cells, sample=kind)
            panel.curve(rates, f"{kind} P")
            rows += [(kind, m, *cells[m], rate.low, rate.high) for m, rate in zip(cells, rates.y, strict=True)]
        panel.ax.axhline(settings.p, color=figures.MUTED, linewidth=1, linestyle=":")
        panel.reference(floor, f"log2 C({settings.length},{settings.s})", axis="x")
        limits = (0.9 * min(floor, *settings.sizes), None)
        panel.axes(log="x", xticks=sorted(settings.sizes), xlim=limits, ylim=(-0.03, 1.05))
        yield chart.figure(
            f"Share of trials that learn the conjunction of {settings.s} of {settings.length} bits, with 95% "
            f"Clopper–Pearson intervals: {settings.trials} data sets per size, the same for both, up to "
            f"{settings.restarts} runs of {settings.budget} steps each. Dotted: {settings.p:.0%}; dashed: the "
            "information floor.",
            pl.DataFrame(rows, schema=["positions", "m", "successes", "trials", "low", "high"], orient="row"),
        )


def counts_of(tables: Tables[Settings]) -> dict[str, Cells]:
    """{kind: {m: (successes, trials)}}."""
    kinds = groups(tables["trials"], "positions")
    return {kind: success_counts(rows)[tables.settings.length] for kind, rows in kinds.items()}


def _words(star: Estimate) -> str:
    return f"{star.value:.0f}" if math.isfinite(star.value) else "not reached"
