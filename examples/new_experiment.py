"""A new experiment: does label noise slow SGD down as 1/(1-2p)^2? One module: settings, trials, claims, figures."""

from __future__ import annotations

import sys
import tempfile
from dataclasses import dataclass

import polars as pl

import krogh
from krogh.lab import Figure, claim, figures, setting
from krogh.lab.statistics import Interval, bootstrap_quantile


@dataclass(frozen=True)
class Settings:
    noises: tuple[float, ...] = setting((0.0, 0.1, 0.2, 0.3), "label noise p")
    seeds: int = setting(50, "trials per noise level")


@krogh.experiment("my/noise")
class Noise(krogh.Experiment[Settings]):
    """Median convergence time against label noise."""

    title = "Label noise slows SGD down"
    question = "How much slower does SGD learn a parity when labels are flipped with probability p?"
    source = "an example; compare the dissertation, §B.3.6"
    scales = {"smoke": Settings(seeds=10), "laptop": Settings(), "paper": Settings(seeds=1000)}

    def trials(self, settings):
        training = krogh.Training(krogh.Sgd(0.3), krogh.Online(64), krogh.Stopping(budget=10_000, validation=128))
        trial = krogh.Trial(krogh.Parity(n=12, k=2), krogh.Mlp(32), training)
        return krogh.sweep(trial, seed=range(settings.seeds), **{"task.noise": settings.noises})

    def claims(self, results):
        clean, noisy = (bootstrap_quantile(results.times(pl.col("task.noise") == p)) for p in (0.0, 0.3))
        ratio = Interval(noisy.value / clean.value, noisy.low / clean.high, noisy.high / clean.low, 0.95, "bootstrap")
        statement, statistic = "Noise of 30% slows learning down.", "median t_c at p=0.3 / at p=0"
        return [
            claim("slower", statement, source=self.source, statistic=statistic, interval=ratio, above=1.0, trials=100)
        ]

    def figures(self, results):
        points = [bootstrap_quantile(results.times(pl.col("task.noise") == p)) for p in results.settings.noises]
        low, value, high = ([getattr(point, part) for point in points] for part in ("low", "value", "high"))
        fig, ax = figures.new_figure("Label noise slows SGD down")
        figures.interval_band(ax, list(results.settings.noises), low, value, high)
        ax.set(xlabel="label noise p", ylabel="median convergence time (steps)")
        table = pl.DataFrame({"noise": results.settings.noises, "low": low, "median": value, "high": high})
        return [Figure("noise", self.title, "Median and 95% bootstrap interval.", fig, table)]


with tempfile.TemporaryDirectory() as folder:
    study = krogh.run_study(Noise(), "smoke", sys.argv[1] if len(sys.argv) > 1 else folder)
    page = krogh.write_report(study.folder)
    print(study.claims[0].verdict, study.claims[0].value, page)
assert study.claims[0].verdict in ("reproduced", "inconclusive")
