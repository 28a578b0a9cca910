"""Figures B.3, B.4 and B.5: convergence times, success rates and coarse scaling by architecture and batch size.

Hinge loss, uniform initialisation, and for each cell the best rate. B.3 shows the 10th percentile of t_c, B.4 the share
of seeds that converge, both at n = 30; B.5 the smallest (c, α) with t_c ≤ c(n-9)^α over n = 10, 20, 30.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from krogh.engine import Trials
from krogh.errors import require
from krogh.experiments.parity.grid import (
    CELL,
    FEWEST,
    POSITIVE,
    STARRED,
    GridSettings,
    best_of,
    check_grid,
    draw_table,
    grid_trials,
    percent,
    pivoted,
    rates_of,
    say_robust,
    share_of_cells,
    whose,
)
from krogh.lab import Claims, Experiment, Figure, Results, Tables, coarse_scaling, experiment, groups, need, rate
from krogh.lab.experiment import Measures

BLANK = 0.1
"""Cells in which fewer seeds converge have no 10th percentile."""
LARGE_BATCH, SMALL_K = 32, 3
"""Where the success rate is near 100%."""


@dataclass(frozen=True)
class Settings(GridSettings):
    pass


@experiment("parity/batch-grid")
class BatchGrid(Experiment[Settings]):
    """Times, success rates and coarse scaling, by architecture, k and batch size."""

    title = "Every architecture learns at every batch size, and its time is bounded by a power of n"
    question = "How fast, how surely and with which power of n does each architecture learn, by batch size?"
    source = "dissertation, §B.3, Figures B.3, B.4 and B.5"
    scales = {
        "smoke": Settings(
            ns=(10, 12),
            ks=(2,),
            batch_sizes=(32,),
            configurations=("xv",),
            rates=(0.01, 0.1),
            seeds=3,
            budget=1_000,
            validation=128,
        ),
        "laptop": Settings(ks=(3,), batch_sizes=(4, 32, 256), seeds=10, budget=10_000, validation=1024),
        "paper": Settings(),
    }
    notes = (
        "The source has all eleven batch sizes; here every second power of two.",
        "Networks of width 1000, (iii) and (vi), and the transformer (*iii) are left out unless asked for.",
        "(c, α) has n0 = 9 and so needs n = 10 among the sizes.",
    )

    def check(self, settings: Settings) -> None:
        check_grid(settings)
        scales = settings.ns[0] == 10 and len(settings.ns) >= 2
        require(scales, f"ns must begin with 10 and go on, for the coarse scaling; got ns={settings.ns}")

    def trials(self, settings: Settings) -> Iterator[Trials]:
        return grid_trials(settings, "uniform", "hinge")

    def measure(self, results: Results[Settings]) -> Measures:
        return {
            "rates": lambda: rates_of(results.table),
            "scaling": lambda: scaling_of(rates_of(results.table)),
        }

    def claims(self, tables: Tables[Settings], say: Claims) -> None:
        settings, rates = tables.settings, tables["rates"]
        say_robust(say, rates, settings)
        say = say.about(needs=[need(settings.seeds, FEWEST, "seeds per cell and rate")])
        plain = ~pl.col("configuration").is_in(STARRED)
        largest = settings.ns[-1]
        easy = best_of(rates).filter(
            plain & (pl.col("n") == largest) & (pl.col("batch_size") >= LARGE_BATCH) & (pl.col("k") <= SMALL_K)
        )
        if len(easy):
            say(
                "nearly-all-seeds",
                f"{whose(settings)}, n = {largest}, k ≤ {SMALL_K}, B ≥ {LARGE_BATCH}: at the best rate nearly all "
                f"seeds converge ({len(easy)} cells).",
                rate(int(easy["successes"].sum()), int(easy["seeds"].sum()), sample="easy cells"),
                "share of all seeds of these cells",
                at_least=0.9,
                source_value="near 100%",
                needs=[need(largest, 20, "is the largest n")],
            )
        triples = rates.filter(plain).n_unique(["configuration", "k", "batch_size"])
        say(
            "finite-exponents",
            f"{whose(settings)}: a tenth of the seeds converges at some rate in every cell, so that t_c ≤ c(n-9)^α "
            f"with a finite α for each of {triples} combinations of architecture, k and B.",
            share_of_cells(rates.filter(plain), BLANK),
            f"share of cells with at least {BLANK:.0%} success",
            at_least=1.0,
            source_value="all cells",
        )
        for k, own in groups(tables["scaling"].filter(plain), "k").items():
            alphas = own["alpha"].to_numpy()
            known = alphas[np.isfinite(alphas)]
            say(
                f"exponent-k{k}",
                f"{whose(settings)}, k = {k}: the fastest tenth needs at most c·n^(αk) steps with a small α: in most "
                f"of {known.size} cells the exponent is at most k.",
                rate(int((known <= k).sum()), max(1, known.size), sample=f"exponents, k={k}"),
                "share of (architecture, B) with finite exponent ≤ k",
                at_least=0.5,
                source_value="small constants c, α; no number stated",
                needs=[need(known.size, 10, "finite exponents"), need(largest, 30, "is the largest n")],
            )

    def figures(self, tables: Tables[Settings]) -> Iterable[Figure]:
        settings, best, largest = tables.settings, best_of(tables["rates"]), tables.settings.ns[-1]
        at_largest = best.filter(n=largest).with_columns(
            log_p10=pl.when(pl.col("share") >= BLANK).then(pl.col("p10").log10())
        )
        most = math.log10(settings.budget)
        rates = ", ".join(f"{eta:g}" for eta in settings.rates)
        about = f"{settings.seeds} seeds, the best of the rates {rates}, at most {settings.budget:,} steps."
        kept = [*CELL, "rate", "successes", "seeds", "p10"]
        yield self._tables(
            "batch-grid-times",
            f"10th percentile of the convergence time, n = {largest}",
            settings,
            at_largest,
            "log_p10",
            lambda value: "" if math.isnan(value) else _short(10**value),
            f"Steps until the fastest tenth of the seeds has converged, on a logarithmic shade; blank where fewer than "
            f"{BLANK:.0%} do. {about}",
            at_largest.select(kept),
            low=1.0,
            high=most,
            colors="YlOrBr",
        )
        yield self._tables(
            "batch-grid-success",
            f"Percentage of seeds that converge, n = {largest}",
            settings,
            at_largest,
            "share",
            percent,
            f"Percentage of seeds that converge; framed: below {POSITIVE:.0%}. {about}",
            at_largest.select(kept),
            low=0.0,
            high=1.0,
            marked=lambda values: values < POSITIVE,
        )
        scaling = tables["scaling"]
        finite = scaling["alpha"].to_numpy()
        finite = finite[np.isfinite(finite)]
        yield self._tables(
            "batch-grid-scaling",
            "Coarse scaling: the smallest α with t_c ≤ c(n-9)^α",
            settings,
            scaling,
            "alpha",
            lambda value: "" if math.isnan(value) else "∞" if math.isinf(value) else f"{value:.1f}",
            f"α of the 10th percentile of t_c over n = {', '.join(map(str, settings.ns))}, where c is that at n = 10; "
            f"blank or ∞ where fewer than {BLANK:.0%} converge. {about}",
            scaling,
            low=0.0,
            high=max(1.0, float(finite.max(initial=1.0))),
            colors="YlOrBr",
        )

    def _tables(
        self,
        name: str,
        title: str,
        settings: Settings,
        rows: pl.DataFrame,
        column: str,
        write: Callable[[float], str],
        caption: str,
        data: pl.DataFrame,
        marked: Callable[[np.ndarray], np.ndarray] | None = None,
        **look: Any,
    ) -> Figure:
        """One table of architectures and batch sizes for each k."""
        names, width = settings.configurations, 0.5 * len(settings.batch_sizes) + 0.5
        chart = self.chart(
            name,
            title,
            columns=len(settings.ks),
            width=max(6.4, width * len(settings.ks) + 1.0),
            height=0.25 * len(names) + 1.6,
            sharey=True,
        )
        for k in settings.ks:
            values = pivoted(rows.filter(k=k), names, settings.batch_sizes, ("configuration", "batch_size"), column)
            panel = chart.panel(title=f"k = {k}")
            frames = None if marked is None else marked(values)
            shown = [f"({each})" for each in names]
            draw_table(panel, values, shown, settings.batch_sizes, write, marked=frames, **look)
            panel.axes(x="batch size B")
        return chart.figure(caption, data)


def scaling_of(rates: pl.DataFrame) -> pl.DataFrame:
    """(c, α) by architecture, k and batch size."""
    rows = []
    for key, own in groups(best_of(rates), ("configuration", "k", "batch_size")).items():
        times = dict(own.select("n", "p10").iter_rows())
        found = coarse_scaling(times)
        rows.append(
            dict(zip(("configuration", "k", "batch_size"), key, strict=True)) | {"c": found.c, "alpha": found.alpha}
        )
    return pl.DataFrame(rows, schema_overrides={"c": pl.Float64, "alpha": pl.Float64})


def _short(steps: float) -> str:
    """A number of steps in at most four characters."""
    return f"{steps:.0f}" if steps < 1000 else f"{steps / 1000:.1f}k" if steps < 10_000 else f"{steps / 1000:.0f}k"
