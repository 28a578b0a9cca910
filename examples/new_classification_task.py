"""A new task with classes: the sum of three digits modulo 5, learned from fresh examples by a small network.

The task is its label; what is drawn, how models read it, all its inputs and what guessing achieves follow from that.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp

import krogh


@krogh.task("modular-sum")
class ModularSum(krogh.SymbolTask):
    """The sum of n digits 0..alphabet-1 modulo the alphabet."""

    n: int = krogh.structure()
    alphabet: int = krogh.structure()

    @property
    def classes(self):
        return self.alphabet

    def label(self, symbols):
        return jnp.sum(symbols, axis=-1) % self.alphabet

    @classmethod
    def example(cls):
        return cls(n=3, alphabet=5)


@krogh.model("classifier")
class Classifier(krogh.Model):
    """One hidden layer of ReLUs, and a logit for each class."""

    width: int = krogh.structure()

    def init(self, key, task):
        (n,), keys = task.input_shape, jax.random.split(key)
        return {
            "W": jax.random.normal(keys[0], (n, self.width)) * (2 / n) ** 0.5,
            "b": jnp.zeros(self.width),
            "U": jax.random.normal(keys[1], (self.width, task.classes)) / self.width**0.5,
        }

    def predict(self, params, x):
        return jax.nn.relu(x @ params["W"] + params["b"][None, :]) @ params["U"]

    def check(self, task):
        krogh.require(isinstance(task, krogh.ClassificationTask), f"a classifier needs classes; got {task.kind!r}")

    @classmethod
    def example(cls):
        return cls(width=64), ModularSum.example()


task = ModularSum(n=3, alphabet=5)
stopping = krogh.Stopping(budget=4_000, check_every=50, validation="exact")
training = krogh.Training(krogh.Adam(0.01), krogh.Online(64), stopping, loss="cross-entropy")
table = krogh.run(krogh.sweep(krogh.Trial(task, Classifier(128), training), seed=range(5)))
print(table.select("seed", "outcome", "convergence_time", "accuracy"), task.baselines())
assert table["outcome"].eq("converged").all(), "all 125 sums are right"
