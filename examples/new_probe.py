"""A new probe: how many first-layer neurons look at the relevant bits most, while the error shows nothing."""

from __future__ import annotations

import jax.numpy as jnp

import krogh


@krogh.probe("aligned-neurons")
class AlignedNeurons(krogh.Probe):
    """Share of neurons whose largest weights, k of them, sit on the support."""

    k: int = krogh.structure()

    def columns(self, task):
        return ("aligned",)

    def measure(self, moment):
        size = jnp.abs(moment.params["W"])
        kth = jnp.sort(size, axis=1)[:, -self.k]
        return jnp.mean(jnp.all(size[:, moment.task.support] >= kth[:, None], axis=1))[None]


trial = krogh.Trial(
    krogh.Parity(n=20, support=(3, 8, 15)),
    krogh.Mlp(100),
    krogh.Training(krogh.Sgd(0.1), krogh.Online(32), krogh.Stopping(budget=3_000, validation=1024)),
    probes=(krogh.Error(), AlignedNeurons(k=3)),
    probe_every=50,
)
row = krogh.run(trial).row(0, named=True)
for step, error, aligned in zip(row["curve.step"], row["curve.error"], row["curve.aligned"], strict=True):
    print(f"step {step:5d}   error {error:.3f}   aligned neurons {aligned:.2f}")
assert row["curve.aligned"][-1] > row["curve.aligned"][0]
