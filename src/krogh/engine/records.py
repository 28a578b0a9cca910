"""Records: what trials leave behind, as a table with one row per trial.

id                 identity of the trial
task, task.n, ...  the trial's fields
outcome            converged, failed (budget used up) or diverged (NaN or overflow)
convergence_time   t_c in steps; null unless converged
steps              steps trained
accuracy, loss     at the end: on the validation sample; mean over the last round of batches
curve.step, ...    with probes: lists, one entry per probed step
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import polars as pl

from krogh.engine.checking import CONVERGED, OUTCOMES
from krogh.engine.cohort import Trials, stack
from krogh.engine.lane import Finished, Usage
from krogh.engine.run import run_cohort
from krogh.engine.trial import Trial

OUTCOME = pl.Enum(list(OUTCOMES.values()))
ORDER = "order"


def frame(cohort: Trials, ids: np.ndarray, finished: Finished, first: int = 0) -> pl.DataFrame:
    """The records of finished trials; `order` counts from `first`, the place of the cohort's first trial."""
    positions = finished.position
    outcome = np.array([OUTCOMES.get(code, "") for code in range(max(OUTCOMES) + 1)])[finished.status]
    converged = finished.status == CONVERGED
    columns: dict[str, Any] = {
        ORDER: pl.Series(first + positions, dtype=pl.UInt32),
        "id": pl.Series(ids[positions], dtype=pl.UInt64),
    }
    constants = {}
    for name, values in cohort.rows(positions).items():
        if isinstance(values, list | np.ndarray):
            columns[name] = pl.Series(values)
        else:
            constants[name] = pl.lit(values)
    columns["outcome"] = pl.Series(outcome, dtype=OUTCOME)
    columns["convergence_time"] = pl.Series(finished.reached, dtype=pl.Int32)
    columns["steps"] = pl.Series(finished.steps, dtype=pl.Int32)
    columns["accuracy"] = pl.Series(finished.accuracy, dtype=pl.Float32)
    columns["loss"] = pl.Series(finished.loss, dtype=pl.Float32)
    columns |= _curves(cohort, finished)
    table = pl.DataFrame(columns).with_columns(**constants)
    time = pl.when(pl.Series(converged)).then(pl.col("convergence_time"))
    names = [
        ORDER,
        "id",
        *cohort.rows(positions[:1]),
        "outcome",
        "convergence_time",
        "steps",
        "accuracy",
        "loss",
    ]
    rest = [name for name in table.columns if name not in names]
    return table.with_columns(time.alias("convergence_time")).select([*names, *rest])


def _curves(cohort: Trials, finished: Finished) -> dict[str, pl.Series]:
    if finished.curves is None:
        return {}
    template = cohort.template
    lengths = 1 + finished.steps // template.probe_every
    steps = np.arange(template.probe_rows) * template.probe_every
    series = {"curve.step": pl.Series([steps[:length].tolist() for length in lengths], dtype=pl.List(pl.Int32))}
    for place, name in enumerate(template.curve_columns()):
        values = [curve[:length, place].tolist() for curve, length in zip(finished.curves, lengths, strict=True)]
        series[f"curve.{name}"] = pl.Series(values, dtype=pl.List(pl.Float32))
    return series


def as_cohorts(trials: Iterable[Trial] | Iterable[Trials] | Trial | Trials) -> list[Trials]:
    """Whatever describes trials (one, a list, a sweep) as cohorts."""
    if isinstance(trials, Trial):
        return stack([trials])
    if isinstance(trials, Trials):
        return [trials]
    given = list(trials)
    if all(isinstance(item, Trials) for item in given):
        return given  # type: ignore[return-value]
    return stack(given)  # type: ignore[arg-type]


def run(trials: Iterable[Trial] | Iterable[Trials] | Trial | Trials, *, usage: Usage | None = None) -> pl.DataFrame:
    """Train the trials, all of a structure as one program, and return one row per trial.

        table = krogh.run(krogh.sweep(trial, seed=range(100)))
        table["convergence_time"].median()

    Rows come in the order of the trials given, cohort by cohort.
    """
    tables, first = [], 0
    for cohort in as_cohorts(trials):
        ids = cohort.ids()
        tables += [frame(cohort, ids, part, first) for part in run_cohort(cohort, usage=usage)]
        first += len(cohort)
    return pl.concat(tables, how="diagonal_relaxed").sort(ORDER).drop(ORDER) if tables else pl.DataFrame()
