"""The model my-model, and a first experiment with it. It runs as it is:

    krogh show my-model --plugin my_model.py
    krogh run my-model/first --plugin my_model.py --scale smoke
    krogh report runs/smoke

To make it yours, change what is marked, from top to bottom:

    fields     krogh.structure() for what decides a shape or a branch (width, depth), krogh.data() for other numbers
    init       the parameters as one flat dictionary of float32 arrays, drawn from the key or all 0 or 1
    predict    predictions for inputs x [batch, ...]: [batch] where labels are signs or numbers, [batch, classes] where
               they are classes. Write b[None, :] where shapes differ: implicit broadcasting is an error in the laws
    check      which tasks it can read; refuse the others with their name
    example    a small instance and a task that it can learn: the laws of tests/conformance are tried on them
    trials     what it learns beside what

The laws: pytest tests/conformance -k my-model --own my_model.py
"""

from __future__ import annotations

from dataclasses import dataclass

import jax

import krogh


@krogh.model("my-model")
class MyModel(krogh.Model):
    """f(x) = u·GELU(Wx + b), with W [width, n], b [width], u [width]."""  # change: the formula

    width: int = krogh.structure()

    def init(self, key, task):
        keys, n = jax.random.split(key, 3), task.input_shape[0]
        return {  # change: what is trained
            "W": jax.random.normal(keys[0], (self.width, n)) / n**0.5,
            "b": jax.random.normal(keys[1], (self.width,)) / n**0.5,
            "u": jax.random.normal(keys[2], (self.width,)) / self.width**0.5,
        }

    def predict(self, params, x):
        return params["u"] @ jax.nn.gelu(params["W"] @ x.T + params["b"][:, None])  # change: the formula

    def check(self, task):
        readable = isinstance(task, krogh.BooleanTask)  # change: what it can read
        krogh.require(readable, f"my-model reads signs and predicts one; got the task {task.kind!r}")

    @classmethod
    def example(cls):
        return cls(width=16), krogh.Parity(n=8, k=2)


@dataclass(frozen=True)
class Settings:
    widths: tuple[int, ...] = krogh.setting((8, 16, 32, 64), "hidden units", least=1, increasing=True)
    seeds: int = krogh.setting(20, "trials per width", least=1)


@krogh.experiment("my-model/first")
class First(krogh.Experiment[Settings]):
    """The time to learn a parity, beside that of a network of ReLUs."""

    title = "my-model and a ReLU network on a parity"
    question = "Which of the two learns a parity of two bits sooner?"
    source = "my own"
    scales = {
        "smoke": Settings(widths=(8, 16), seeds=4),
        "laptop": Settings(),
        "paper": Settings(widths=(8, 16, 32, 64, 128, 256), seeds=200),
    }

    def trials(self, settings):
        training = krogh.Training(krogh.Sgd(0.1), krogh.Online(32), krogh.Stopping(budget=5_000, validation=256))
        for kind in (MyModel, krogh.Mlp):  # change: what it is compared with
            trial = krogh.Trial(krogh.Parity(n=12, k=2), kind(8), training)
            yield from krogh.sweep(trial, model__width=settings.widths, seed=range(settings.seeds))

    def claims(self, tables, say):
        widest = tables.settings.widths[-1]
        times = krogh.curves(tables["trials"], by="model", x="model.width")
        faster = times["my-model"].at(widest) / times["mlp"].at(widest)
        enough = [krogh.need(tables.settings.seeds, 20, "seeds per width")]
        say("sooner", "It is sooner, at the largest width.", faster, "ratio of median times", below=1, needs=enough)

    def figures(self, tables):
        chart = self.chart("times", self.title)
        panel = chart.panel(x="hidden units", y="median convergence time (steps)", log="xy")
        for name, curve in krogh.curves(tables["trials"], by="model", x="model.width").items():
            panel.curve(curve, name)
        yield chart.figure("Median steps until a network makes no mistake, with 95% intervals.")
