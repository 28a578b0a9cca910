"""Strategies of a task of one's own: a network that learns a majority is linear first, and then it is not."""

from __future__ import annotations

import jax.numpy as jnp

import krogh
from krogh.lab.phases import curve_of, nearest_strategies, phase_order


@krogh.task("majority-of-three")
class MajorityOfThree(krogh.BooleanTask):
    """sign(x_0 + x_1 + x_2) = (x_0 + x_1 + x_2)/2 - x_0 x_1 x_2/2, of n bits."""

    n: int = krogh.structure()

    def truth(self, x, bits):
        return jnp.sign(jnp.sum(x[..., :3], axis=-1))

    def strategies(self):
        """From simple to good: say nothing, the best linear function, the majority itself."""
        return {
            "nothing": lambda x: jnp.zeros(x.shape[0]),
            "linear": lambda x: jnp.sum(x[:, :3], axis=-1) / 2,
            "majority": lambda x: self.truth(x, None),
        }

    @classmethod
    def example(cls):
        return cls(n=8)


trial = krogh.Trial(
    MajorityOfThree(n=12),
    krogh.Mlp(64, initialiser="bernoulli"),
    krogh.Training(krogh.Sgd(0.03), krogh.Online(64), krogh.Stopping(budget=1_500, early=False), loss="square"),
    probes=(krogh.StrategyDistances(),),
    probe_every=50,
)
row = krogh.run(trial).row(0, named=True)
curve = curve_of(row)
phases = nearest_strategies(curve)
print(" → ".join(phase_order(phases)))
for step, linear, majority in zip(
    *(curve[name] for name in ("step", "distance_linear", "distance_majority")), strict=True
):
    if step % 250 == 0:
        print(
            f"step {step:5.0f}   squared distance to the linear function {linear:.3f}, to the majority {majority:.3f}"
        )
assert phases[-1] == "majority" and "linear" in phases
