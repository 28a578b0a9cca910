"""Networks with invented snapshots, one of every kind that the views know: frames without training."""

from __future__ import annotations

from typing import Any

import numpy as np

import krogh
from krogh.engine import Trial
from krogh.lab.results import Network

STEPS = (0, 10, 20, 30, 40, 50)
STOPPING = krogh.Stopping(budget=60, validation=64)
CHAINS = krogh.Training(
    krogh.Adam(1e-3),
    krogh.Online(8),
    krogh.Stopping(budget=60, validation=64, error=1e-9, early=False),
    "cross-entropy",
)


def trials() -> dict[str, Trial]:
    """A trial of every kind, with snapshots."""
    classes = krogh.Training(
        krogh.Sgd(0.05), krogh.Population(), krogh.Stopping(budget=60, validation="exact"), "cross-entropy"
    )
    chains = krogh.MarkovChains(2, 12)
    return {
        "transformer": Trial(chains, krogh.CausalTransformer(dimension=4), CHAINS, snapshots=STEPS),
        "minimal": Trial(chains, krogh.MinimalInduction(), CHAINS, snapshots=STEPS),
        "parity": Trial(
            krogh.Parity(6, support=(1, 4)),
            krogh.Mlp(5),
            krogh.Training(stopping=STOPPING),
            snapshots=STEPS,
        ),
        "group": Trial(krogh.GroupComposition("Z_5"), krogh.PairNetwork(8), classes, snapshots=STEPS),
    }


def invented(trial: Trial, end: int = 60) -> Network:
    """A network whose weights move from its start to random ones as time passes."""
    first = {name: np.asarray(leaf) for name, leaf in trial.initial_params().items()}
    rng = np.random.default_rng(0)
    last = {name: rng.normal(size=leaf.shape).astype(leaf.dtype) for name, leaf in first.items()}

    def at(identity: int, step: int | None = None) -> dict[str, np.ndarray]:
        share = np.float32(1.0 if step is None else step / end)
        return {name: np.asarray((1 - share) * first[name] + share * last[name]) for name in first}

    row: dict[str, Any] = {"id": 1, "seed": 0, "steps": end, "outcome": "failed", "convergence_time": None}
    return Network(trial, row, at(1), at)  # type: ignore[arg-type]
