"""What experiments on single good neurons share: how many samples one needs to see the support (M11)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import polars as pl

from krogh.lab import groups, setting
from krogh.lab.estimate import Estimate
from krogh.lab.sample_complexity import crossing
from krogh.theory.boolean.recovery import geometric_sizes, recovery_counts
from krogh.theory.boolean.sparse_starts import (
    Kind,
    default_epsilon,
    over_sparse_neuron,
    under_sparse_neuron,
)

BLIND = 100_000
"""Samples shown to a neuron whose population gradient does not point at the support."""
HALF = 0.5
"""A neuron needs as many samples as recover the support half of the time."""


@dataclass(frozen=True)
class NeuronSettings:
    """How a neuron's sample complexity is measured."""

    smallest: int = setting(20, "smallest sample; sizes grow by √2", least=1)
    largest: int = setting(600_000, "largest sample", least=1)
    trials: int = setting(40, "samples of each size", least=1)


@dataclass(frozen=True, order=True)
class GoodNeuron:
    """A good neuron of a sparse start: its first s coordinates are 1; the support is the first k."""

    kind: Kind
    n: int
    k: int
    s: int

    @property
    def weights(self) -> np.ndarray:
        """1 on the first s coordinates, and what the start has elsewhere."""
        other = default_epsilon(self.n, self.k, self.s) if self.kind == "under" else 0.0
        return np.where(np.arange(self.n) < self.s, 1.0, other)

    @property
    def signal(self) -> float:
        """The population gradient's entry on the support."""
        predicted = over_sparse_neuron if self.kind == "over" else under_sparse_neuron
        return float(predicted(self.n, self.k, self.s)["relevant"])

    def counts(self, settings: NeuronSettings) -> list[dict[str, object]]:
        """How often samples of each size recover the support; the bias is 0, which the gradient does not see."""
        blind = self.kind == "over" and self.s < 2 * self.k  # no sample suffices: one size is enough to see that
        sizes = (min(settings.largest, BLIND),) if blind else geometric_sizes(settings.smallest, settings.largest)
        own = range(self.s) if self.kind == "under" else ()
        found = recovery_counts(self.weights, 0.0, range(self.k), sizes, settings.trials, seed=0, ones=own)
        cell = {"kind": self.kind, "n": self.n, "k": self.k, "s": self.s, "signal": self.signal}
        return [{**cell, "m": m, "successes": hits, "trials": settings.trials} for m, hits in found]


def recovery_table(neurons: Iterable[GoodNeuron], settings: NeuronSettings) -> pl.DataFrame:
    """One row per neuron and sample size."""
    return pl.DataFrame([row for neuron in neurons for row in neuron.counts(settings)])


def sample_complexities(table: pl.DataFrame) -> dict[GoodNeuron, Estimate]:
    """m* of every neuron in a table of recoveries."""
    return {
        GoodNeuron(*key): crossing(
            {row["m"]: (row["successes"], row["trials"]) for row in rows.iter_rows(named=True)}, HALF, sample=f"{key}"
        )
        for key, rows in groups(table, ("kind", "n", "k", "s")).items()
    }
