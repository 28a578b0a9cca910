"""Figure 6.1 right: training curves at a few points of the (m, width) plane: success, grokking, memorising, failure.

A trial fits its sample when its training error is at most 1%, and has learned the parity when its test error is at most
10%. It groks when the second takes at least five times as long as the first (our definition; the source describes it).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import polars as pl

from krogh.engine import Trials, sweep
from krogh.errors import require
from krogh.experiments.frontiers.common import NOTES, SIZE, WIDTH, SgdSettings, start_name
from krogh.lab import Claims, Experiment, Figure, Grokking, Tables, experiment, figures, need, setting, times_of
from krogh.lab.estimate import median, share_of
from krogh.lab.times import first_times
from krogh.probes import Error, TrainingError

FITTED, FACTOR = 0.01, 5.0
ROLES = {
    "memorises": "fits its sample and does not generalise",
    "groks": "fits its sample long before it generalises",
    "learns": "generalises about as soon as it fits",
    "fails": "does not fit its sample",
}


@dataclass(frozen=True)
class Settings(SgdSettings):
    n: int = setting(150, "input bits", least=1)
    k: int = setting(3, "relevant bits", least=1)
    sparsity: int = setting(0, "ones in each row of the first layer, 0 for dense", least=0)
    roles: tuple[str, ...] = setting(tuple(ROLES), "what each cell is to show", among=ROLES, distinct=True)
    sizes: tuple[int, ...] = setting((1000, 6000, 30_000, 30_000), "sample size of each cell", like="roles", least=1)
    widths: tuple[int, ...] = setting((1000, 300, 1000, 2), "width of each cell", like="roles", least=1)
    seeds: int = setting(20, "trials per cell", least=1)


@experiment("frontiers/curves")
class Curves(Experiment[Settings]):
    """Training and test error of networks that learn, grok, memorise or fail."""

    title = "At the edge of the frontier networks memorise long before they understand"
    question = "What do training curves look like inside, at the edge of and outside the success frontier?"
    source = "dissertation, §6.4.1, Figure 6.1 right"
    scales = {
        "smoke": Settings(
            n=12,
            k=2,
            roles=("memorises", "learns"),
            sizes=(20, 200),
            widths=(16, 16),
            seeds=3,
            budget=400,
            check_every=100,
            test=500,
        ),
        "laptop": Settings(n=30, sizes=(200, 400, 2000, 2000), widths=(1000, 1000, 1000, 2), budget=20_000, test=2_000),
        "paper": Settings(),
    }
    notes = (
        *NOTES,
        "The source's boxed cells cannot be read off its text: these are ours, one for each kind of curve.",
    )

    def check(self, settings: Settings) -> None:
        require(settings.n >= settings.k, f"n must be at least k={settings.k}; got n={settings.n}")

    def trials(self, settings: Settings) -> Iterator[Trials]:
        for role, m, width in zip(settings.roles, settings.sizes, settings.widths, strict=True):
            look = {"probes": (Error(), TrainingError()), "probe_every": settings.check_every}
            trial = settings.trial(settings.n, settings.k, m, width, settings.sparsity, **look)
            yield from sweep(trial, seed=range(settings.seeds), label={"role": role})

    def claims(self, tables: Tables[Settings], say: Claims) -> None:
        settings = tables.settings
        say = say.about(needs=[need(settings.seeds, 10, "trials per cell")])
        for role, rows in by_role(tables).items():
            times, cell = both_times(rows, settings), f"m = {rows[SIZE][0]:,}, width {rows[WIDTH][0]:,}"
            about = say.about("", f"{cell}: ")
            if role == "groks":
                about(
                    "groks",
                    f"a trial generalises at least {FACTOR:g} times as late as it fits its sample (median "
                    f"{times.fit_time.value:,.0f} and {times.test_time.value:,.0f} steps).",
                    times.ratio,
                    "median t_test / t_train",
                    at_least=FACTOR,
                    source_value="grokking near the edge; 26 in the reduced setting",
                )
                about(
                    "most-grok",
                    "nearly all trials grok.",
                    share_of(times.grokked(FACTOR), sample="groks"),
                    f"share of trials with {FACTOR:g} t_train ≤ t_test < ∞",
                    at_least=0.8,
                    source_value="all of 10 shown",
                )
            if role == "memorises":
                last = np.array([own[-1] for own in rows["curve.training_error"].to_list()])
                about(
                    "fits", "every sample is fitted.", median(last), "median training error at the end", at_most=FITTED
                )
                about(
                    "stays-at-chance",
                    "and the test error stays at chance.",
                    median(rows["error"].to_numpy()),
                    "median test error at the end",
                    between=(0.45, 0.55),
                    source_value="memorisation without generalisation",
                )
            if role == "learns":
                about(
                    "no-gap",
                    "inside the frontier generalising takes less than twice as long as fitting.",
                    times.ratio,
                    "median t_test / t_train",
                    at_most=2.0,
                    source_value="1.2 at m = 1,000 in the reduced setting",
                )
            if role == "fails":
                last = np.array([own[-1] for own in rows["curve.training_error"].to_list()])
                about(
                    "does-not-fit",
                    "a network that is too narrow does not fit its sample.",
                    median(last),
                    "median training error at the end",
                    at_least=0.1,
                    source_value="failure to train",
                )

    def figures(self, tables: Tables[Settings]) -> Iterable[Figure]:
        settings, cells = tables.settings, by_role(tables)
        chart = self.chart(
            "curves",
            "Training and test error at four points of the plane",
            columns=len(cells),
            width=3.6 * len(cells) + 0.6,
            height=3.6,
            sharey=True,
        )
        data = []
        for role, rows in cells.items():
            panel = chart.panel(
                x="step", y="error" if role == next(iter(cells)) else "", log="x", ylim=(-0.02, 0.6),
                title=f"m = {rows[SIZE][0]:,}, width {rows[WIDTH][0]:,}",
            )  # fmt: skip
            kinds = {"training_error": (figures.MUTED, "training"), "error": (figures.VERMILLION, "test")}
            for place, row in enumerate(rows.iter_rows(named=True)):
                for column, (color, words) in kinds.items():
                    steps, values = row["curve.step"], row[f"curve.{column}"]
                    look = {"color": color, "linewidth": 1.0, "alpha": 0.7, "label": None if place else words}
                    panel.ax.plot(np.maximum(steps, 1), values, **look)
                    data += [(role, row["seed"], column, *pair) for pair in zip(steps, values, strict=True)]
        chart[0].legend()
        caption = "; ".join(f"{ROLES[role]} (m = {rows[SIZE][0]:,})" for role, rows in cells.items())
        return [
            chart.figure(
                f"({settings.n},{settings.k})-parity, {start_name(settings.sparsity)} start, {settings.seeds} trials "
                f"per panel, each until it generalises: training error grey, test error red. From left to right a "
                f"network {caption}.",
                pl.DataFrame(data, schema=["role", "seed", "curve", "step", "error"], orient="row"),
            )
        ]


def by_role(tables: Tables[Settings]) -> dict[str, pl.DataFrame]:
    return {role: tables["trials"].filter(role=role) for role in tables.settings.roles}


def both_times(rows: pl.DataFrame, settings: Settings) -> Grokking:
    """When each trial fitted its sample, and when it generalised."""
    steps, errors = (rows[f"curve.{name}"].to_list() for name in ("step", "training_error"))
    train = first_times(steps, errors, at_most=FITTED)
    return Grokking(train, times_of(rows), float(settings.budget), sample=f"{rows['role'][0]}")
