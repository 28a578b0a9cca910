"""A new architecture: a two-layer network with a GELU, compared with the ReLU network on a parity."""

from __future__ import annotations

import jax

import krogh
from krogh.lab import median_time


@krogh.model("gelu-mlp")
class GeluMlp(krogh.Model):
    """f(x) = u·GELU(Wx + b)."""

    width: int = krogh.structure()

    def init(self, key, task):
        keys, n = jax.random.split(key, 3), task.input_shape[0]
        return {
            "W": jax.random.normal(keys[0], (self.width, n)) / n**0.5,
            "b": jax.random.normal(keys[1], (self.width,)) / n**0.5,
            "u": jax.random.normal(keys[2], (self.width,)) / self.width**0.5,
        }

    def predict(self, params, x):
        return params["u"] @ jax.nn.gelu(params["W"] @ x.T + params["b"][:, None])

    def check(self, task):
        krogh.require(len(task.input_shape) == 1, f"a GELU network reads vectors; got inputs {task.input_shape}")

    @classmethod
    def example(cls):
        return cls(width=16), krogh.Parity(n=8, k=2)


task = krogh.Parity(n=12, k=3)
training = krogh.Training(krogh.Sgd(0.3), krogh.Online(32), krogh.Stopping(budget=5_000, validation=512))
trials = [krogh.Trial(task, model, training, seed=seed) for model in (GeluMlp(32), krogh.Mlp(32)) for seed in range(10)]
table = krogh.run(trials)
for name, rows in krogh.groups(table, "model").items():
    print(f"{name}: median convergence time {median_time(krogh.times_of(rows))}, {len(rows)} trials")
assert table["outcome"].eq("converged").mean() > 0.5
