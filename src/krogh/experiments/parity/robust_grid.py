"""Empirical Finding 5.1: nearly every network learns small parities, whatever its initialisation, loss and batch size.

For (i)–(xv), three initialisations, three losses and batch sizes 1 to 1024 the source found, in every cell, a rate at
which at least 20% of 25 seeds reach 100%; for the starred configurations only from B = 16 on. Here initialisations and
losses are crossed with all architectures; `parity/batch-grid` has more instances and batch sizes, for one of each.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import polars as pl

from krogh.engine import Trials
from krogh.experiments.parity.grid import (
    CELL,
    FEWEST,
    MOST,
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
from krogh.lab import Claims, Experiment, Figure, Results, Tables, experiment, groups, need, setting
from krogh.lab.experiment import Measures

INITIALISERS = {"uniform": "uniform", "gaussian": "Gaussian", "bernoulli": "Bernoulli"}
WORDS = {"initialiser": "weights", "loss": "loss"}
LOSSES = {"hinge": "hinge", "square": "square", "logistic": "cross-entropy"}


@dataclass(frozen=True)
class Settings(GridSettings):
    ns: tuple[int, ...] = setting((30,), "input bits", increasing=True, least=1)
    ks: tuple[int, ...] = setting((3, 4), "relevant bits", increasing=True, least=1)
    batch_sizes: tuple[int, ...] = setting((1, 32, 1024), "fresh examples per step", increasing=True, least=1)
    initialisers: tuple[str, ...] = setting(
        tuple(INITIALISERS), "how weights are drawn", distinct=True, among=INITIALISERS
    )
    losses: tuple[str, ...] = setting(tuple(LOSSES), "losses", distinct=True, among=LOSSES)


@experiment("parity/robust-grid")
class RobustGrid(Experiment[Settings]):
    """Success at the best rate, over architectures, initialisations, losses and batch sizes."""

    title = "Nearly every network learns small parities, however it begins and whatever its loss"
    question = "For which architectures, initialisations, losses and batch sizes is there a rate at which SGD learns?"
    source = "dissertation, Empirical Finding 5.1, §5.3.1"
    scales = {
        "smoke": Settings(
            ns=(6,),
            ks=(2,),
            batch_sizes=(32,),
            configurations=("xv",),
            rates=(0.01, 0.1),
            seeds=3,
            losses=("hinge", "logistic"),
            initialisers=("uniform",),
            budget=500,
            validation=128,
        ),
        "laptop": Settings(ns=(20,), ks=(3,), batch_sizes=(32,), seeds=5, budget=10_000, validation=1024),
        "paper": Settings(),
    }
    notes = (
        "Cross-entropy of a sign is the logistic loss log(1 + exp(-yf)).",
        "The source crosses these with n = 10, 20, 30, k = 2, 3, 4 and eleven batch sizes, 1.3 million runs. Here are "
        "its hardest n and three batch sizes; parity/batch-grid has the other instances and batch sizes for the hinge "
        "loss and uniform weights.",
        "Networks of width 1000, (iii) and (vi), and the transformer (*iii) are left out unless asked for.",
    )

    def check(self, settings: Settings) -> None:
        check_grid(settings)

    def trials(self, settings: Settings) -> Iterator[Trials]:
        for initialiser, loss in itertools.product(settings.initialisers, settings.losses):
            yield from grid_trials(settings, initialiser, loss)

    def measure(self, results: Results[Settings]) -> Measures:
        return {"rates": lambda: rates_of(results.table)}

    def claims(self, tables: Tables[Settings], say: Claims) -> None:
        rates = tables["rates"]
        say_robust(say, rates, tables.settings)
        for column, titles in (("initialiser", INITIALISERS), ("loss", LOSSES)):
            for name, own in groups(rates, column).items():
                plain = own.filter(~pl.col("configuration").is_in(STARRED))
                say(
                    f"{column}-{name}",
                    f"{titles[name]} {WORDS[column]}, {whose(tables.settings)}: in nearly all of "
                    f"{plain.n_unique(CELL)} cells there is a rate at which {POSITIVE:.0%} of the seeds converge.",
                    share_of_cells(plain),
                    f"share of cells with at least {POSITIVE:.0%} success",
                    at_least=MOST,
                    source_value="all cells",
                    needs=[need(tables.settings.seeds, FEWEST, "seeds per cell and rate")],
                )

    def figures(self, tables: Tables[Settings]) -> Iterable[Figure]:
        settings, best = tables.settings, best_of(tables["rates"])
        names = [name for name in settings.configurations if name in set(best["configuration"])]
        columns = list(itertools.product(settings.losses, settings.batch_sizes))
        for n, k in itertools.product(settings.ns, settings.ks):
            chart = self.chart(
                f"robust-grid-{n}-{k}",
                f"Success at the best rate on the ({n},{k})-parity",
                headline=f"Percentage of seeds that learn the ({n},{k})-parity, at the best rate",
                columns=len(settings.initialisers),
                width=max(0.42 * len(columns), 1.0 * len(settings.losses)) * len(settings.initialisers) + 1.6,
                height=0.24 * len(names) + 1.8,
                sharey=True,
            )
            for initialiser in settings.initialisers:
                own = best.filter(n=n, k=k, initialiser=initialiser).with_columns(
                    place=pl.concat_str("loss", "batch_size", separator=" ")
                )
                places = [f"{loss} {batch_size}" for loss, batch_size in columns]
                values = pivoted(own, names, places, ("configuration", "place"), "share")
                panel = chart.panel(title=f"{INITIALISERS[initialiser]} weights")
                shown = [batch_size for _, batch_size in columns]
                rows = [f"({name})" for name in names]
                draw_table(panel, values, rows, shown, percent, low=0, high=1, marked=values < POSITIVE)
                for place, loss in enumerate(settings.losses):
                    middle = (place + 0.5) * len(settings.batch_sizes) - 0.5
                    panel.ax.text(middle, -0.75, LOSSES[loss], ha="center", va="bottom", fontsize=8)
                    if place:
                        panel.ax.axvline(place * len(settings.batch_sizes) - 0.5, color="white", linewidth=3)
                panel.axes(x="batch size B")
                panel.ax.set_title(panel.title, loc="left", fontsize=10, pad=16)
            yield chart.figure(
                f"Percentage of {settings.seeds} seeds that reach 100% on {settings.validation} examples within "
                f"{settings.budget:,} steps, at the best of the rates "
                f"{', '.join(f'{eta:g}' for eta in settings.rates)}; framed: below {POSITIVE:.0%}.",
                best.filter(n=n, k=k).select(*CELL, "rate", "successes", "seeds", "p10"),
            )
