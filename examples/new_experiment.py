"""A new experiment: does label noise slow SGD down? One module: settings, trials, claims, figures."""

from __future__ import annotations

import sys
import tempfile
from dataclasses import dataclass

import krogh
from krogh import need, setting


@dataclass(frozen=True)
class Settings:
    noises: tuple[float, ...] = setting((0.0, 0.1, 0.2, 0.3), "label noise p", least=0, below=0.5, increasing=True)
    seeds: int = setting(50, "trials per noise level", least=1)


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

    def claims(self, tables, say):
        (medians,) = krogh.curves(tables["trials"], x="task.noise").values()
        noises = tables.settings.noises
        say(
            "slower",
            f"Noise of {noises[-1]:.0%} slows learning down.",
            medians.at(noises[-1]) / medians.at(noises[0]),
            f"median t_c at p = {noises[-1]} / at p = {noises[0]}",
            above=1.0,
            needs=[need(len(noises), 2, "noise levels")],
        )

    def figures(self, tables):
        (medians,) = krogh.curves(tables["trials"], x="task.noise").values()
        chart = krogh.Chart("noise", self.title, source=self.source)
        chart.panel(x="label noise p", y="median convergence time (steps)").curve(medians)
        yield chart.figure("Medians with 95% intervals by order statistics.")


with tempfile.TemporaryDirectory() as folder:
    study = krogh.run_study(Noise(), "smoke", sys.argv[1] if len(sys.argv) > 1 else folder)
    page = krogh.write_report(study.folder)
    print(study.claims[0].verdict, study.claims[0].value, study.claims[0].trials, page)
assert study.claims[0].verdict in ("reproduced", "inconclusive") and study.claims[0].trials == 20
