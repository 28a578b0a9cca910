"""Figure 5.2 centre: when a network converges is decided by its initial weights, not by the examples that it sees.

Every initialisation is trained on the same set of example streams, so that the table of log t_c is crossed: rows are
initialisations, columns are streams. The intraclass correlation of rows is the share of the variance that lies between
initialisations; that of columns, once each row's mean is taken out, tells whether some streams are lucky for all.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import polars as pl

from krogh.engine import Trial, Trials, sweep
from krogh.experiments.parity.common import OnlineSettings
from krogh.lab import (
    Claims,
    Experiment,
    Figure,
    Tables,
    experiment,
    figures,
    groups,
    intraclass_correlation,
    need,
    quantile,
    setting,
    times_of,
)
from krogh.models import configuration
from krogh.models.configurations import CONFIGURATIONS, configuration_title
from krogh.tasks import Parity
from krogh.training import Sgd


@dataclass(frozen=True)
class Settings(OnlineSettings):
    n: int = setting(30, "input bits", least=1)
    k: int = setting(3, "relevant bits", least=1)
    configurations: tuple[str, ...] = setting(
        ("i", "ii", "xiv"), "architectures, by the source's numerals", distinct=True, among=CONFIGURATIONS
    )
    rate: float = setting(0.01, "learning rate", least=0)
    batch_size: int = setting(128, "fresh examples per step", least=1)
    starts: int = setting(40, "initialisations", least=2)
    streams: int = setting(40, "streams of examples, the same for every initialisation", least=2)


@experiment("parity/initialisation")
class Initialisation(Experiment[Settings]):
    """Convergence times by initialisation and by stream of examples."""

    title = "The initial weights decide when a network converges, and the examples do not"
    question = "Does the convergence time depend on the initial weights or on the examples that SGD happens to see?"
    source = "dissertation, §5.3.2, Figure 5.2 centre"
    scales = {
        "smoke": Settings(n=10, k=2, configurations=("xiv",), starts=4, streams=4, budget=4_000),
        "laptop": Settings(n=20, configurations=("i", "xiv"), starts=16, streams=12),
        "paper": Settings(),
    }
    notes = (
        "The source states B = 128 and rate 0.01 and neither n, k nor the architecture of its figure.",
        "Failures are left out of one correlation and set to the budget in the other: the truth lies between them.",
    )

    def trials(self, settings: Settings) -> Iterator[Trials]:
        training = settings.training(Sgd(settings.rate), settings.batch_size)
        for name in settings.configurations:
            trial = Trial(Parity(settings.n, settings.k), configuration(name, settings.k), training, init_seed=0)
            starts = range(settings.starts)
            label = {"configuration": name}
            yield from sweep(trial, init_seed=starts, seed=range(settings.streams), label=label)

    def claims(self, tables: Tables[Settings], say: Claims) -> None:
        settings, horizon = tables.settings, math.log(tables.settings.budget)
        enough = [
            need(settings.starts, 10, "initialisations"),
            need(settings.streams, 10, "streams of examples"),
        ]
        for name, rows in groups(tables["trials"], "configuration").items():
            logs, starts, streams = np.log(times_of(rows)), rows["init_seed"].to_numpy(), rows["seed"].to_numpy()
            solved = need(float(np.isfinite(logs).mean()), 0.5, "of the trials converged")
            about = say.about(f"{name}-", configuration_title(name), needs=[*enough, solved])
            about(
                "decided-by-the-start",
                ": of the variance of log t_c, much lies between initialisations (failures left out).",
                intraclass_correlation(logs, starts),
                "intraclass correlation of log t_c by initialisation",
                at_least=0.4,
                source_value="highly correlated with the initialisation",
            )
            about(
                "decided-with-failures",
                ": so it does with failures set to the budget.",
                intraclass_correlation(logs, starts, horizon=horizon),
                "the same, failures at the budget",
                at_least=0.4,
                source_value="highly correlated with the initialisation",
            )
            about(
                "no-lucky-stream",
                ": no stream of examples is lucky or unlucky for all initialisations.",
                intraclass_correlation(within(np.minimum(logs, horizon), starts), streams),
                "intraclass correlation of log t_c by stream, each initialisation's mean taken out",
                at_most=0.2,
                source_value="not SGD samples",
            )

    def figures(self, tables: Tables[Settings]) -> Iterable[Figure]:
        settings, count = tables.settings, len(tables.settings.configurations)
        chart = self.chart(
            "initialisation",
            "Convergence times by initialisation",
            headline=self.title,
            columns=count,
            width=max(6.4, 4.7 * count),
            height=3.9,
        )
        for name, rows in groups(tables["trials"], "configuration").items():
            panel = chart.panel(
                title=f"({name}) {configuration_title(name)}", x="initialisation, in the order of its median", log="y"
            )
            own = rows.select("init_seed", pl.Series("time", times_of(rows)))
            ordered = sorted(groups(own, "init_seed").values(), key=lambda part: quantile(part["time"].to_numpy()))
            for place, part in enumerate(ordered, start=1):
                times = part["time"].to_numpy()
                finite = times[np.isfinite(times)]
                panel.dots(np.full(finite.size, place), finite, color=figures.BLUE, markersize=3.0, alpha=0.4)
                if finite.size < times.size:
                    at, top = [place], panel.ax.get_xaxis_transform()
                    panel.ax.plot(at, [1.0], transform=top, marker="^", color=figures.VERMILLION, clip_on=False)
                middle = quantile(times)
                if math.isfinite(middle):
                    panel.dots([place], [middle], color=figures.BLUE, marker="_", markersize=9, alpha=1.0, mew=1.8)
            panel.ax.xaxis.get_major_locator().set_params(integer=True)
        chart[0].axes(y="convergence time t_c (steps)")
        yield chart.figure(
            f"Every column is one initialisation trained on {settings.streams} streams of examples (dots; the bar is "
            f"their median; a triangle where some did not converge within {settings.budget:,} steps). "
            f"({settings.n},{settings.k})-parity, B = {settings.batch_size}, rate {settings.rate:g}.",
            tables["trials"].select("configuration", "init_seed", "seed", "convergence_time"),
        )


def within(values: np.ndarray, groups: np.ndarray) -> np.ndarray:
    """What is left of the values once the mean of each group is taken out."""
    _, member, sizes = np.unique(groups, return_inverse=True, return_counts=True)
    return values - (np.bincount(member, weights=values) / sizes)[member]
