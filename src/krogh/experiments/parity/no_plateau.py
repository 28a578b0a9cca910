"""Figure B.13: wide networks of activation z^k learn from the first step on; ReLU networks wait.

With many neurons and large batches the error of a z^k network declines at once, with no plateau; narrow ones and small
batches have one, and ReLU networks have one whatever their width and batch.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from krogh.engine import Trial, Trials, sweep
from krogh.experiments.parity.common import FEWEST_SEEDS, PLATEAU, OnlineSettings, plateau_fractions
from krogh.lab import Claims, Estimate, Experiment, Figure, Tables, experiment, figures, groups, median, need, setting
from krogh.models import Mlp, power_mlp
from krogh.probes import Error
from krogh.tasks import Parity
from krogh.training import Sgd

SHORT = 0.35  # of the time to convergence: less is no plateau to speak of
GRID = np.linspace(0, 1, 101)  # times, in units of t_c, at which curves are averaged


@dataclass(frozen=True)
class Settings(OnlineSettings):
    n: int = setting(50, "input bits", least=1)
    k: int = setting(3, "relevant bits", least=1)
    widths: tuple[int, ...] = setting((10, 100, 1000), "hidden units r", increasing=True, least=1)
    batch_sizes: tuple[int, ...] = setting((16, 128, 1024), "fresh examples per step", increasing=True, least=1)
    power_rate: float = setting(0.01, "learning rate of z^k networks", least=0)
    relu_rate: float = setting(0.1, "learning rate of ReLU networks", least=0)
    seeds: int = setting(25, "trials per panel and activation", least=1)
    validation: int = setting(8192, "validation examples, all of which must be right", least=1)
    budget: int = setting(50_000, "steps after which a trial has failed", least=1)

    @property
    def corners(self) -> tuple[tuple[int, int], tuple[int, int]]:
        """(r, B) of the smallest and of the largest panel."""
        return (self.widths[0], self.batch_sizes[0]), (self.widths[-1], self.batch_sizes[-1])


@experiment("parity/no-plateau")
class NoPlateau(Experiment[Settings]):
    """Errors of z^k and ReLU networks over their way to convergence, by width and batch."""

    title = "Wide z^k networks have no plateau; ReLU networks keep theirs"
    question = "Is there an architecture whose error falls from the first step on?"
    source = "dissertation, §B.3.8, Figure B.13"
    scales = {
        "smoke": Settings(n=10, k=2, widths=(8,), batch_sizes=(32,), seeds=3, budget=1_000, validation=512),
        "laptop": Settings(n=30, widths=(10, 300), batch_sizes=(16, 256), seeds=25, budget=20_000, validation=1024),
        "paper": Settings(),
    }
    notes = ("Rates are not stated in the source; 0.01 and 0.1 are those of its grid that suit the two activations.",)

    def trials(self, settings: Settings) -> Iterator[Trials]:
        for width, batch_size in itertools.product(settings.widths, settings.batch_sizes):
            for activation, model, rate in (
                ("power", power_mlp(width, settings.k), settings.power_rate),
                ("relu", Mlp(width), settings.relu_rate),
            ):
                training = settings.training(Sgd(rate), batch_size)
                trial = Trial(Parity(settings.n, settings.k), model, training, probes=(Error(),))
                label: dict[str, str | int] = {"activation": activation, "width": width, "batch_size": batch_size}
                yield from sweep(trial, seed=range(settings.seeds), label=label)

    def claims(self, tables: Tables[Settings], say: Claims) -> None:
        settings, cells = tables.settings, groups(tables["trials"], ("activation", "width", "batch_size"))
        small, large = settings.corners
        fractions = {key: plateau_fractions(rows) for key, rows in cells.items()}

        def share(activation: str, corner: tuple[int, int]) -> Estimate:
            key = (activation, *corner)
            return median(fractions[key], lowest=0.0, highest=1.0, sample=key, nothing="no seed converged")

        def enough(*keys: tuple[str, tuple[int, int]]) -> list[str]:
            return [need(len(fractions[name, *corner]), FEWEST_SEEDS, "seeds that converged") for name, corner in keys]

        statistic, waits = f"median share of [0, t_c] with error > {PLATEAU}", "r = {}, B = {}"
        say(
            "wide-power-falls-at-once",
            f"z^k networks with {waits.format(*large)} have no plateau.",
            share("power", large),
            statistic,
            at_most=SHORT,
            source_value="continuous progress when r and B are large",
            needs=enough(("power", large)),
        )
        say(
            "wide-relu-waits",
            f"ReLU networks with {waits.format(*large)} have one.",
            share("relu", large),
            statistic,
            at_least=SHORT,
            source_value="plateaus at all batch sizes",
            needs=enough(("relu", large)),
        )
        say(
            "activations-differ",
            f"With {waits.format(*large)}, ReLU networks wait longer than z^k networks.",
            share("relu", large) - share("power", large),
            f"{statistic}: ReLU − z^k",
            above=0.0,
            source_value="does not occur with ReLU",
            needs=enough(("relu", large), ("power", large)),
        )
        if small != large:
            say(
                "small-power-waits",
                f"z^k networks with {waits.format(*small)} wait longer than those with {waits.format(*large)}.",
                share("power", small) - share("power", large),
                f"{statistic}: small − large",
                above=0.0,
                source_value="the rate of descent increases with r and B",
                needs=enough(("power", small), ("power", large)),
            )

    def figures(self, tables: Tables[Settings]) -> Iterable[Figure]:
        settings = tables.settings
        rows, columns = len(settings.widths), len(settings.batch_sizes)
        chart = self.chart(
            "no-plateau",
            "Error on the way to convergence, by width and batch size",
            headline=self.title,
            rows=rows,
            columns=columns,
            width=max(5.5, 2.9 * columns),
            height=2.2 * rows + 0.9,
            sharex=True,
            sharey=True,
        )
        looks = {"power": (f"z^{settings.k}", figures.VERMILLION), "relu": ("ReLU", figures.BLUE)}
        cells = groups(tables["trials"], ("width", "batch_size"))
        for place, ((width, batch_size), own) in enumerate(cells.items()):
            panel = chart.panel(title=f"r = {width}, B = {batch_size}", ylim=(-0.02, 0.58), xlim=(0, 1))
            for activation, (title, color) in looks.items():
                errors = over_time(own.filter(activation=activation))
                if len(errors):
                    low, middle, high = np.quantile(errors, [0.25, 0.5, 0.75], axis=0)
                    look: dict[str, Any] = {"marker": "", "key": "legend" if place == 0 else ""}
                    panel.band(GRID, low, middle, high, title, color=color, **look)
            last, first = place >= len(cells) - columns, place % columns == 0
            panel.axes(x="time, as a share of t_c" if last else "", y="error" if first else "")
        yield chart.figure(
            f"({settings.n},{settings.k})-parity, {settings.seeds} seeds per curve, those that converged within "
            f"{settings.budget:,} steps: median error on noiseless examples at each share of a seed's own time to "
            f"convergence, bands from the lower to the upper quartile. Rates {settings.power_rate:g} (z^k) and "
            f"{settings.relu_rate:g} (ReLU).",
        )


def over_time(rows: pl.DataFrame) -> np.ndarray:
    """The error of each converged seed at the shares `GRID` of its convergence time, [seeds, points]."""
    solved = rows.filter(pl.col("convergence_time").is_not_null())
    columns = solved.select("curve.step", "curve.error", "convergence_time").iter_rows()
    return np.array([np.interp(GRID * time, step, error) for step, error, time in columns]).reshape(-1, len(GRID))
