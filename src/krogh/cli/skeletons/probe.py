"""The probe my-probe, and a first experiment with it. It runs as it is:

    krogh show my-probe --plugin my_probe.py
    krogh run my-probe/first --plugin my_probe.py --scale smoke
    krogh report runs/smoke

To make it yours, change what is marked, from top to bottom:

    fields     krogh.structure() for what decides how many columns there are, krogh.data() for other numbers; a probe
               with fields needs a class method `example` that gives one
    columns    the names of what is measured, identifiers that no other probe has
    measure    their values as one float32 array. A moment has the task, the model, params, those at the beginning
               (initial), the validation sample, the batch's loss and the step; it is compiled: no Python branches on
               values
    check      which tasks and models it can look at; refuse the others (any, unless it is written)
    trials     what is watched, and how often (probe_every)

The laws: pytest tests/conformance -k my-probe --own my_probe.py
"""

from __future__ import annotations

from dataclasses import dataclass

import jax.numpy as jnp

import krogh
from krogh.lab import look_table, median


@krogh.probe("my-probe")
class MyProbe(krogh.Probe):
    """The distance of all parameters from where they began, as a share of their size then."""  # change

    def columns(self, task):
        return ("my_probe",)

    def measure(self, moment):
        moved = sum(jnp.sum((moment.params[name] - begun) ** 2) for name, begun in moment.initial.items())
        size = sum(jnp.sum(begun**2) for begun in moment.initial.values())
        return jnp.sqrt(moved / jnp.maximum(size, 1e-12))[None]  # change: what is measured, one number per column


@dataclass(frozen=True)
class Settings:
    budget: int = krogh.setting(1_000, "steps", least=100)
    seeds: int = krogh.setting(20, "trials", least=1)


@krogh.experiment("my-probe/first")
class First(krogh.Experiment[Settings]):
    """What the probe sees while networks learn a parity."""

    title = "my-probe while a parity is learned"
    question = "Does it grow while a network learns?"
    source = "my own"
    scales = {"smoke": Settings(budget=200, seeds=4), "laptop": Settings(), "paper": Settings(seeds=200)}

    def trials(self, settings):
        stopping = krogh.Stopping(budget=settings.budget, validation=256, early=False)
        training = krogh.Training(krogh.Sgd(0.1), krogh.Online(32), stopping)
        probes = (krogh.Error(), MyProbe())
        trial = krogh.Trial(krogh.Parity(n=12, k=2), krogh.Mlp(32), training, probes=probes, probe_every=50)  # change
        return krogh.sweep(trial, seed=range(settings.seeds))

    def measure(self, results):
        return {"looks": look_table(results.table, "seed")}

    def claims(self, tables, say):
        looks, last = tables["looks"], tables.settings.budget
        first, end = (looks.filter(step=step).sort("seed")["my_probe"].to_numpy() for step in (50, last))
        enough = [krogh.need(tables.settings.seeds, 20, "seeds")]
        growth = median(end - first)
        say("grows", "It is larger at the end.", growth, "median of last - first", above=0, needs=enough)

    def figures(self, tables):
        chart = self.chart("looks", self.title)
        panel = chart.panel(x="step", y="my-probe")
        panel.ranges(tables["looks"], "step", "my_probe", "networks")
        yield chart.figure("Mean over networks; the band goes from the least to the largest.")
