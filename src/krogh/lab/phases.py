"""Phases of learning: which simple strategy a network was nearest to, when it left one for the next, and for how long.

For every task with strategies (`Task.strategies`): a trial with the probe `StrategyDistances` leaves a curve with its
loss, its distance to every strategy and what each strategy itself loses. At each look the *phase* is the strategy of
the least distance (dissertation, Figures 8.1 and 8.5). A time is that of a look, ∞ where it never came.

    transition time     first look with a loss below the midpoint of what two strategies lose
    plateau length      time from the first look that is nearest to a strategy to the first look after it that is not,
                        summed over all such stretches; ∞ where the last look is still on it
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import polars as pl
from numpy.typing import ArrayLike

from krogh.errors import require, unknown
from krogh.lab.curves import look_table
from krogh.lab.estimate import Floats

DISTANCE, BASELINE = "distance_", "baseline_"


def strategies_of(curve: Iterable[str]) -> list[str]:
    """The strategies that a curve has distances to, in the task's order."""
    names = [name.removeprefix(DISTANCE) for name in curve if name.startswith(DISTANCE)]
    require(names, "no distances to strategies were measured (give the trial the probe StrategyDistances())")
    return names


def nearest_strategies(curve: Mapping[str, ArrayLike]) -> list[str]:
    """The strategy of the least distance at every look; of two that are equally near the simpler one."""
    names = strategies_of(curve)
    distances = np.stack([np.asarray(curve[DISTANCE + name], float) for name in names])
    return [names[place] for place in np.argmin(np.nan_to_num(distances, nan=math.inf), axis=0)]


def phase_order(nearest: Sequence[str]) -> tuple[str, ...]:
    """The phases in the order in which they were passed through; one that comes back is named again."""
    return tuple(name for name, _ in itertools.groupby(nearest))


def transition_time(curve: Mapping[str, ArrayLike], before: str, after: str) -> float:
    """The first look with a loss below the midpoint of what two strategies lose on the same examples."""
    step, loss = (np.asarray(curve[name], float) for name in ("step", "loss"))
    reached = np.flatnonzero(loss < midpoint(curve, before, after))
    return float(step[reached[0]]) if reached.size else math.inf


def midpoint(curve: Mapping[str, ArrayLike], before: str, after: str) -> float:
    """Half-way between what two strategies lose."""
    names = strategies_of(curve)
    for name in (before, after):
        if name not in names:
            raise unknown("strategy", name, names)
    ends = (float(np.asarray(curve[BASELINE + name], float)[0]) for name in (before, after))
    return sum(ends) / 2


def plateau_length(step: ArrayLike, nearest: Sequence[str], strategy: str) -> float:
    """How long a trial was nearest to a strategy."""
    steps, there = np.asarray(step, float), np.array([name == strategy for name in nearest])
    require(steps.shape == there.shape, f"a phase for each look; got {len(there)} phases and {steps.size} looks")
    if there[-1]:
        return math.inf
    return float(np.sum(np.diff(steps)[there[:-1]]))


def curve_of(row: Mapping[str, object]) -> dict[str, Floats]:
    """A row's curve by column: what probes measured, and the steps at which they did."""
    return {
        name.removeprefix("curve."): np.asarray(values, float)
        for name, values in row.items()
        if name.startswith("curve.") and values is not None
    }


def phase_table(
    table: pl.DataFrame, before: str, after: str, *, labels: Sequence[str] = (), scale: float = 1.0
) -> pl.DataFrame:
    """One row per trial: labels, seed, the order of its phases, transition time and plateau length of `before`, first
    and last loss, and the baselines; times are multiplied by `scale` (the batch size turns steps into sequences)."""
    rows = []
    for row in table.iter_rows(named=True):
        curve = curve_of(row)
        nearest = nearest_strategies(curve)
        baselines = {name: float(curve[BASELINE + name][0]) for name in strategies_of(curve)}
        rows.append(
            {
                **{name: row[name] for name in labels},
                "seed": row["seed"],
                "phases": " → ".join(phase_order(nearest)),
                "last_phase": nearest[-1],
                "transition": scale * transition_time(curve, before, after),
                "plateau": scale * plateau_length(curve["step"], nearest, before),
                "horizon": scale * float(curve["step"][-1]),
                "first_loss": float(curve["loss"][0]),
                "final_loss": float(curve["loss"][-1]),
                **{BASELINE + name: value for name, value in baselines.items()},
            }
        )
    return pl.DataFrame(rows)


def curve_table(
    table: pl.DataFrame, columns: Sequence[str], *, labels: Sequence[str] = (), scale: float = 1.0
) -> pl.DataFrame:
    """The curves as tidy rows: labels, seed, time (steps times `scale`), and the columns asked for."""
    looks = look_table(table, *labels, "seed", columns=columns)
    return looks.select(*labels, "seed", (scale * pl.col("step")).alias("time"), *columns)
