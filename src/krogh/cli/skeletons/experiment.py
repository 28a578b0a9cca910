"""The experiment my/experiment. It runs as it is:

    krogh show my/experiment --plugin my_experiment.py
    krogh run my/experiment --plugin my_experiment.py --scale smoke
    krogh report runs/smoke

To make it yours, change what is marked, from top to bottom:

    Settings   what can be set from the command line (--set seeds=50), each with a line of help and what is allowed
    title, question, source, scales   smoke must end in seconds, laptop in minutes; paper is as large as you like
    trials     what is trained; nothing is trained twice, in this study or when it is run again
    measure    tables that cost something to make; they are kept, and claims and figures are redone from them alone
    claims     what the tables decide: an estimate, a threshold, and what a scale must have to decide anything
    figures    how they look

The laws: pytest tests/conformance -k my/experiment --own my_experiment.py
"""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

import krogh


@dataclass(frozen=True)
class Settings:
    noises: tuple[float, ...] = krogh.setting((0.0, 0.1, 0.2), "label noise p", least=0, below=0.5, increasing=True)
    seeds: int = krogh.setting(40, "trials per noise level", least=1)


@krogh.experiment("my/experiment")
class MyExperiment(krogh.Experiment[Settings]):
    """Median convergence time against label noise."""  # change: what is measured

    title = "Label noise slows SGD down"  # change
    question = "How much slower does SGD learn a parity when labels are flipped with probability p?"  # change
    source = "my own"  # change: the figure, table or theorem that it answers
    scales = {"smoke": Settings(noises=(0.0, 0.2), seeds=4), "laptop": Settings(), "paper": Settings(seeds=1000)}

    def trials(self, settings):
        training = krogh.Training(krogh.Sgd(0.1), krogh.Online(64), krogh.Stopping(budget=10_000, validation=128))
        trial = krogh.Trial(krogh.Parity(n=12, k=2), krogh.Mlp(32), training)  # change: task, model, training
        return krogh.sweep(trial, task__noise=settings.noises, seed=range(settings.seeds))

    def measure(self, results):
        times = results.table.select("task.noise", "seed", "convergence_time")  # change: what is worth keeping
        return {"times": times.with_columns(pl.col("convergence_time").cast(pl.Float64))}

    def claims(self, tables, say):
        medians, most = medians_of(tables), tables.settings.noises[-1]
        cost, statistic = medians.at(most) / medians.at(0), f"median time at p = {most} / at p = 0"
        enough = [krogh.need(tables.settings.seeds, 20, "seeds per noise level")]
        say("slower", f"Noise of {most:.0%} slows learning down.", cost, statistic, above=1, needs=enough)  # change

    def figures(self, tables):
        chart = self.chart("noise", self.title)
        panel = chart.panel(x="label noise p", y="median convergence time (steps)", log="y")
        panel.curve(medians_of(tables), "measured")
        yield chart.figure("Medians with 95% intervals by order statistics.")


def medians_of(tables):
    """A network that never converged is late, not missing."""
    return krogh.curves(tables["times"], x="task.noise")[()]
