"""What experiments on trained recurrent networks share: cohorts, the best sum over tokens, medians over seeds.

Settings and targets of sums over tokens are in `sums.py`, those of whole sequences in `whole.py`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import jax.numpy as jnp
import polars as pl

from krogh.engine import Trial, Trials, stack
from krogh.errors import require
from krogh.lab import Estimate, median
from krogh.lab.weights import Weights
from krogh.models.base import Parameters
from krogh.training import FullBatch, Stopping, Training

FEWEST_SEEDS = 6
"""Of fewer the order statistics of a median have no ends at 95%."""


def cohorts(trials: Iterable[Trial], **label: Any) -> list[Trials]:
    """Trials of one cell as cohorts with a label."""
    return [cohort.labelled(**label) for cohort in stack(trials)]


def additive_training(samples: int, validation: int | str) -> Training:
    """How the best sum over tokens of a sample is found: at once, by least squares."""
    stopping = Stopping(budget=1, check_every=1, error=0.0, validation=validation)
    return Training(regime=FullBatch(samples), stopping=stopping, loss="square")


def check_looks(steps: int, look_every: int) -> None:
    """Refuse a number of steps that does not end with a look."""
    whole = steps % look_every == 0
    require(whole, f"steps must be a multiple of look_every={look_every}; got steps={steps}")


def weights_of(kept: Weights) -> Parameters:
    """Weights that were kept, as a model takes them."""
    return {name: jnp.asarray(leaf) for name, leaf in kept.items()}


def median_of(rows: pl.DataFrame, column: str | pl.Expr, sample: str) -> Estimate:
    """The median over seeds of a column, or of an expression; unknown where there are none."""
    expression = pl.col(column) if isinstance(column, str) else column
    values = rows.select(expression.alias("value"))["value"].to_numpy()
    return median(values, sample=sample, lowest=0.0, nothing="not measured at this scale")


def thinned(rows: pl.DataFrame, most: int = 60) -> pl.DataFrame:
    """Every k-th look of curves, so that at most so many are drawn, and the last one."""
    steps = rows["step"].unique().sort()
    every = -(-len(steps) // most)
    return rows.filter(pl.col("step").is_in([*steps[::every].to_list(), steps[-1]]))
