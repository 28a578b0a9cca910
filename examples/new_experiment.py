"""A new experiment: what does label noise cost SGD? Settings, trials, two claims and a figure, in one module."""

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
    scales = {"smoke": Settings(seeds=20), "laptop": Settings(), "paper": Settings(seeds=1000)}

    def trials(self, settings):
        training = krogh.Training(krogh.Sgd(0.1), krogh.Online(64), krogh.Stopping(budget=10_000, validation=128))
        trial = krogh.Trial(krogh.Parity(n=12, k=2), krogh.Mlp(32), training)
        return krogh.sweep(trial, task__noise=settings.noises, seed=range(settings.seeds))

    def claims(self, tables, say):
        medians, p = medians_of(tables), tables.settings.noises[-1]
        cost, statistic = medians.at(p) / medians.at(0), f"median t_c at p = {p} / at p = 0"
        say = say.about(needs=[need(tables.settings.seeds, 10, "seeds per noise level")])
        say("slower", f"Noise of {p:.0%} slows learning down.", cost, statistic, above=1)
        most = (1 - 2 * p) ** -2
        say("averaged-out", f"It costs at most 1/(1-2p)² = {most:.3g} times the steps.", cost, statistic, at_most=most)

    def figures(self, tables):
        chart, medians = self.chart("noise", self.title), medians_of(tables)
        panel = chart.panel(x="label noise p", y="median convergence time (steps)", log="y")
        panel.curve(medians, "measured")
        panel.line(medians.x, medians.at(0).value / (1 - 2 * medians.x) ** 2, "∝ 1/(1-2p)²")
        yield chart.figure("Medians with 95% intervals by order statistics; dashed: steps that average the noise away.")


def medians_of(tables):
    return krogh.curves(tables["trials"], x="task.noise")[()]


study = krogh.run_study(Noise(), "smoke", sys.argv[1] if len(sys.argv) > 1 else tempfile.mkdtemp())
for claim in study.claims:
    print(f"{claim.verdict}: {claim.statement} {claim.value:.2f} [{claim.low:.2f}, {claim.high:.2f}]")
    assert claim.verdict != "not reproduced" and claim.trials == 40
print(krogh.write_report(study.folder))
