"""A new view: the output weights of a two-layer network, for `krogh replay`, beside what is shown already."""

from __future__ import annotations

import numpy as np

import krogh


@krogh.view("output-weights", task=krogh.Parity, model=krogh.Mlp)
def output_weights(look):
    """Which neurons the output listens to, and with which sign."""
    u = np.asarray(look.params["u"])
    yield krogh.Bars("Output weights", {str(place + 1): float(one) for place, one in enumerate(u)}, "neuron")
    yield krogh.Numbers(
        "Size of the output layer", {"now": np.linalg.norm(u), "at last": np.linalg.norm(look.final["u"])}
    )


trial = krogh.Trial(krogh.Parity(n=10, k=2), krogh.Mlp(16), seed=1)
weights = trial.initial_params()
look = krogh.Look(trial.task, trial.model, weights, weights, weights, trial.validation(64), step=0)
panels = {panel.name: panel for panel in krogh.panels_of(look)}  # all that a page of such a trial would show
print(", ".join(panels))
assert list(panels["Output weights"].values.values()) == np.asarray(weights["u"]).tolist()
assert "Fourier coefficients" in panels, "krogh's own views are there too"
