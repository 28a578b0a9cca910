"""Golden statistics: what is measured here agrees with the committed paper-scale results, made on another backend."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest
from scipy import stats

from krogh import registry
from krogh.lab import run_study

RESULTS = Path(__file__).parents[2] / "docs" / "results"

pytestmark = pytest.mark.slow


def test_medians_of_the_scaling_study(tmp_path):
    """The committed median of a point splits this run's times in half, up to chance (sign test, 15 points)."""
    ks, ns, seeds = (3, 4, 5), (10, 15, 20, 25, 30), 100
    changes = {"ks": ks, "ns": ns, "seeds": seeds, "budget": 20_000}
    study = run_study(registry.EXPERIMENTS["parity/scaling"](), "paper", tmp_path, changes=changes)
    here = pl.read_parquet(study.folder / "trials.parquet")
    committed = pl.read_csv(RESULTS / "parity-scaling-ii.csv")
    for k in ks:
        for n in ns:
            times = here.filter(pl.col("task.k") == k, pl.col("task.n") == n)["convergence_time"].fill_null(10**9)
            golden = committed.filter(pl.col("k") == k, pl.col("n") == n)["median"].item()
            # Times lie on a grid of 10 steps: ties at the median count for either side.
            below, above = int((times < golden).sum()), int((times > golden).sum())
            worst = max(below, above)
            assert stats.binomtest(worst, seeds, 0.5, alternative="greater").pvalue > 1e-4, (k, n, below, above)


def test_law_of_the_histogram(tmp_path):
    """A few thousand times drawn here and ten million elsewhere follow one law (Kolmogorov–Smirnov on the bins)."""
    count = 3000
    study = run_study(registry.EXPERIMENTS["parity/histogram"](), "paper", tmp_path, changes={"trials": count})
    times = pl.read_parquet(study.folder / "trials.parquet")["convergence_time"].to_numpy()
    bins = pl.read_csv(RESULTS / "parity-histogram.csv")
    edges = np.append(bins["from"].to_numpy(), bins["to"][-1])
    here = np.cumsum(np.histogram(times, edges)[0]) / count
    distance = np.abs(here - np.cumsum(bins["sgd"].to_numpy())).max()
    assert distance < 1.95 / np.sqrt(count), distance  # exceeded by chance once in a thousand times
