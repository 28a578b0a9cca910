"""What the experiments on trained networks share: the weights of every trial, and means over runs."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import ArrayLike
from scipy import stats

from krogh.engine import Trial
from krogh.lab import Experiment, Results
from krogh.lab.statistics import Interval, as_floats

LEVEL = 0.95


class Network(NamedTuple):
    """A trial, its row of the table, and the weights it ended with."""

    trial: Trial
    row: dict[str, Any]
    params: dict[str, jax.Array]


def trained_networks(experiment: Experiment[Any], results: Results[Any]) -> Iterator[Network]:
    """Every network that the experiment has trained, in the order of its trials."""
    rows = {row["id"]: row for row in results.table.select("id", "seed", "error", "steps").iter_rows(named=True)}
    for cohort in experiment.trials(results.settings):
        for trial, identity in zip(cohort, cohort.ids().tolist(), strict=True):
            params = {name: jnp.asarray(array) for name, array in results.weights(identity).items()}
            yield Network(trial, rows[identity], params)


def over_runs(values: ArrayLike, level: float = LEVEL) -> Interval:
    """The mean over runs with Student's interval; unbounded with a single run."""
    numbers = as_floats("values", values)
    mean, count = float(numbers.mean()), numbers.size
    if count < 2:
        return Interval(mean, -math.inf, math.inf, level, "one run")
    half = float(stats.t.ppf((1 + level) / 2, count - 1)) * float(numbers.std(ddof=1)) / math.sqrt(count)
    return Interval(mean, mean - half, mean + half, level, f"Student t, {count - 1} dof")


def over_prompts(mean: float, deviation: float, prompts: int, level: float = LEVEL) -> Interval:
    """A mean over many prompts with the normal interval of its sampling error; `deviation` is that of one prompt."""
    half = float(stats.norm.ppf((1 + level) / 2)) * deviation / math.sqrt(prompts)
    return Interval(mean, mean - half, mean + half, level, f"normal, {prompts} prompts")


def scaled(interval: Interval, factor: float) -> Interval:
    """The interval in other units; `factor` is positive."""
    value, low, high = (part * factor for part in (interval.value, interval.low, interval.high))
    return Interval(value, low, high, interval.level, interval.method)


def spread_places(count: int, width: float = 0.5) -> np.ndarray:
    """Places beside each other, about 0, for dots that would hide one another: the golden ratio's sequence."""
    return width * ((0.5 + np.arange(count) * 0.618033988749895) % 1 - 0.5)
