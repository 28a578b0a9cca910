"""A new task: the majority of three hidden bits. Convergence times beside those of the parity of the same bits."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np

import krogh
from krogh.lab import median_time


@krogh.task("sparse-majority")
class SparseMajority(krogh.BooleanTask):
    """The sign of the sum of the bits in `support` (an odd number of them)."""

    n: int = krogh.structure()
    support: np.ndarray = krogh.data(np.int32)

    def __check_init__(self):
        krogh.require(len(self.support) % 2 == 1, f"a majority needs an odd number of bits; got {len(self.support)}")

    def truth(self, x, bits):
        return jnp.sign(jnp.sum(jnp.take(x, self.support, axis=-1), axis=-1))

    @classmethod
    def example(cls):
        return cls(n=8, support=(0, 3, 5))


training = krogh.Training(krogh.Sgd(0.1), krogh.Online(32), krogh.Stopping(budget=5_000, validation=512))
tasks = [SparseMajority(16, (1, 4, 9)), krogh.Parity(16, support=(1, 4, 9))]
trials = [krogh.Trial(task, krogh.Mlp(64), training, seed=seed) for task in tasks for seed in range(10)]
table = krogh.run(trials)
medians = {name: median_time(krogh.times_of(rows)) for name, rows in krogh.groups(table, "task").items()}
for name, median in medians.items():  # never converged is late, not missing
    print(f"{name}: median convergence time {median}, {median.trials} trials")
slower = medians["parity"] / medians["sparse-majority"]  # an estimate, with its interval
assert slower.value > 1, "a majority has signal in every single bit"
