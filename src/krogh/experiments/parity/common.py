"""What experiments of chapter 5 share: online training on fresh batches until every validation example is right.

And the plateau of a training curve, and how such curves are drawn.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl

from krogh.lab import figures, setting, times_of
from krogh.lab.charts import Panel
from krogh.lab.times import plateau_fraction
from krogh.training import Online, Optimiser, Stopping, Training

CHECK_EVERY = 10
PLATEAU = 0.45
FEWEST_SEEDS = 6  # of fewer, a median has no interval at 95%
DRAWN = 250  # points of a curve in a figure


@dataclass(frozen=True)
class OnlineSettings:
    """When a trial has succeeded, and when it has failed."""

    budget: int = setting(100_000, "steps after which a trial has failed", least=1)
    validation: int = setting(128, "validation examples, all of which must be right", least=1)

    def training(self, optimiser: Optimiser, batch_size: int) -> Training:
        stopping = Stopping(budget=self.budget, validation=self.validation, check_every=CHECK_EVERY)
        return Training(optimiser, Online(batch_size), stopping)


def plateau_fractions(rows: pl.DataFrame) -> np.ndarray:
    """For each converged seed the share of [0, t_c] with error above the plateau level."""
    solved = rows.filter(pl.col("convergence_time").is_not_null())
    return np.array(
        [
            float(plateau_fraction(np.asarray(step), np.asarray(error), float(time), PLATEAU))
            for step, error, time in solved.select("curve.step", "curve.error", "convergence_time").iter_rows()
        ]
    )


def draw_errors(panel: Panel, rows: pl.DataFrame) -> pl.DataFrame:
    """The error of every seed against steps, that of the seed of median time thick; what was drawn."""
    times = times_of(rows)
    middle = int(np.argsort(times, kind="stable")[(len(times) - 1) // 2])
    drawn = []
    columns = rows.select("seed", "curve.step", "curve.error", "steps", "accuracy")
    for place, (seed, step, error, end, accuracy) in enumerate(columns.iter_rows()):
        thinned = slice(None, None, max(1, len(step) // DRAWN))
        # The last point is the check that ended the trial, on the whole sample.
        step, error = [*step[thinned], end], [*error[thinned], 1 - accuracy]
        chosen = place == middle
        look = {"linewidth": 1.4, "alpha": 1.0} if chosen else {"linewidth": 0.5, "alpha": 0.4}
        panel.ax.plot(step, error, color=figures.BLUE, **look)
        drawn.append(pl.DataFrame({"seed": seed, "step": step, "error": error}))
    return pl.concat(drawn)
