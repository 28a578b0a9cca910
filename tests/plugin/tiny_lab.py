"""A package outside krogh, as small as one can be: two experiments on parities of eight bits.

It is installed by standing on the path: the folder beside this file names it under `krogh.plugins`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl

from krogh.engine import Trial, Trials, sweep
from krogh.lab import Chart, Claims, Experiment, Figure, Results, Tables, experiment, setting, times_of
from krogh.lab.estimate import share_of
from krogh.lab.experiment import Measures
from krogh.models import Mlp
from krogh.tasks import Parity
from krogh.training import Online, Sgd, Stopping, Training


@dataclass(frozen=True)
class Settings:
    n: int = setting(8, "input bits")
    k: int = setting(2, "relevant bits")
    noise: float = setting(0.0, "label noise")
    support: tuple[int, ...] | None = setting(None, "relevant coordinates")
    widths: tuple[int, ...] = setting((8, 12), "hidden units")
    rate: float = setting(0.3, "learning rate")
    seeds: int = setting(24, "trials per width")
    budget: int = setting(200, "steps after which a trial has failed")
    wanted: float = setting(0.0, "share of trials that should converge")


@experiment("tiny/parity")
class Tiny(Experiment[Settings]):
    """Two cohorts of a few trials each."""

    title = "Small networks learn a small parity"
    question = "Do they?"
    source = "nobody, Figure 0"
    scales = {"smoke": Settings(), "laptop": Settings(seeds=100), "paper": Settings(seeds=1000)}
    notes = ("Made for tests.",)

    def trials(self, settings: Settings) -> list[Trials]:
        task = Parity(settings.n, settings.k, settings.support, settings.noise)
        training = Training(Sgd(settings.rate), Online(8), Stopping(budget=settings.budget, validation=32))
        cohorts = []
        for width in settings.widths:
            cohorts += sweep(Trial(task, Mlp(width), training), seed=range(settings.seeds), label={"size": width})
        return cohorts

    def measure(self, results: Results[Settings]) -> Measures:
        return {"times": lambda: pl.DataFrame({"time": np.sort(times_of(results.table))})}

    def claims(self, tables: Tables[Settings], say: Claims) -> None:
        solved = np.isfinite(tables["times"]["time"].to_numpy())
        say(
            "learns",
            "Enough of the networks converge.",
            share_of(solved, sample="all"),
            "share of trials that converge",
            at_least=tables.settings.wanted,
        )

    def figures(self, tables: Tables[Settings]) -> list[Figure]:
        times = tables["times"]["time"].to_numpy()
        chart = Chart("times", "Times, sorted")
        chart.panel(x="trial", y="steps").line(np.arange(len(times)), np.where(np.isfinite(times), times, np.nan))
        return [chart.figure("One point per trial.", tables["times"])]


@experiment("tiny/impossible")
class Impossible(Tiny):
    """Asks for more than all of the trials, which cannot be."""

    scales = {"smoke": Settings(widths=(8,), seeds=4, budget=20, wanted=2.0)}
