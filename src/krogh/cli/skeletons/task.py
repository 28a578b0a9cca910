"""The task my-task, and a first experiment on it. It runs as it is:

    krogh show my-task --plugin my_task.py
    krogh run my-task/first --plugin my_task.py --scale smoke
    krogh report runs/smoke

To make it yours, change what is marked, from top to bottom:

    fields        krogh.structure() for what decides a shape (n), krogh.data() for numbers that trials may differ in
    __check_init__   what values are allowed, each with a message that says what was given
    truth         the label ±1 of inputs x [batch, n] of signs; for classes of symbols inherit krogh.SymbolTask and
                  write `label`, for anything else krogh.Task (docs/extending.md)
    example       a small instance that has all features: the laws of tests/conformance are tried on it
    trials        which networks are trained, and how

The laws: pytest tests/conformance -k my-task --own my_task.py
"""

from __future__ import annotations

from dataclasses import dataclass

import jax.numpy as jnp
import numpy as np

import krogh
from krogh.lab import share_of


@krogh.task("my-task")
class MyTask(krogh.BooleanTask):
    """The sign of the sum of the bits in `support`, an odd number of the n bits."""  # change: what is learned

    n: int = krogh.structure()
    support: np.ndarray = krogh.data(np.int32)  # change: what else describes the task

    def __check_init__(self):
        krogh.require(len(self.support) % 2 == 1, f"support must have an odd number of bits; got {len(self.support)}")

    def truth(self, x, bits):
        return jnp.sign(jnp.sum(jnp.take(x, self.support, axis=-1), axis=-1))  # change: the label of each row of x

    @classmethod
    def example(cls):
        return cls(n=8, support=np.array([0, 3, 5]))


@dataclass(frozen=True)
class Settings:
    widths: tuple[int, ...] = krogh.setting((8, 16, 32, 64), "hidden units", least=1, increasing=True)
    seeds: int = krogh.setting(20, "trials per width", least=1)


@krogh.experiment("my-task/first")
class First(krogh.Experiment[Settings]):
    """How long networks of several widths take."""

    title = "Learning my-task"
    question = "How many steps of SGD does it take, and does a wider network need fewer?"
    source = "my own"
    scales = {
        "smoke": Settings(widths=(8, 16), seeds=4),
        "laptop": Settings(),
        "paper": Settings(widths=(8, 16, 32, 64, 128, 256), seeds=200),
    }

    def trials(self, settings):
        training = krogh.Training(krogh.Sgd(0.1), krogh.Online(32), krogh.Stopping(budget=5_000, validation=256))
        trial = krogh.Trial(MyTask(n=12, support=np.array([1, 4, 9])), krogh.Mlp(8), training)  # change: its size
        return krogh.sweep(trial, model__width=settings.widths, seed=range(settings.seeds))

    def claims(self, tables, say):
        learned = (tables["trials"]["outcome"] == "converged").to_numpy()
        enough = [krogh.need(tables.settings.seeds, 20, "seeds per width")]
        share = share_of(learned, sample="all networks")
        say("learned", "Nine in ten networks learn it.", share, "share that converges", at_least=0.9, needs=enough)

    def figures(self, tables):
        chart = self.chart("times", self.title)
        panel = chart.panel(x="hidden units", y="median convergence time (steps)", log="xy")
        panel.curve(krogh.curves(tables["trials"], x="model.width")[()], "measured")
        yield chart.figure("Median steps until a network makes no mistake, with 95% intervals.")
