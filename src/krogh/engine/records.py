"""Records: what trials leave behind, as a table with one row per trial.

id                 identity of the trial
task, task.n, ...  the trial's fields
outcome            converged, failed (budget used up) or diverged (NaN or overflow)
convergence_time   t_c in steps of the run that converged; null unless one did
steps              steps trained, over all runs
runs               runs it took: more than one where a trial may restart
path               what trained it: a program of XLA's, the resident kernel, or a learner on the host
error, loss        at the end: mean error on the validation sample; mean loss over the last round of batches
accuracy           1 - error, where the error is a share of mistakes; null for a regression
curve.step, ...    with probes: lists, one entry per probed step, the last one at the end of the trial
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import closing
from typing import Any

import numpy as np
import polars as pl

from krogh.engine.checking import CONVERGED, OUTCOMES
from krogh.engine.cohort import Trials, stack
from krogh.engine.executor import run_cohorts
from krogh.engine.inheriting import Weights
from krogh.engine.lane import PATHS, Finished, Usage
from krogh.engine.trial import Trial
from krogh.errors import require
from krogh.values import structure_of

OUTCOME = pl.Enum(list(OUTCOMES.values()))
PATH = pl.Enum(PATHS)
ORDER = "order"


def record_table(cohort: Trials, ids: np.ndarray, finished: Finished, first: int = 0) -> pl.DataFrame:
    """What finished trials leave behind, without their fields; `order` counts from `first`, the place of the cohort's
    first trial."""
    positions = finished.position
    outcome = np.array([OUTCOMES.get(code, "") for code in range(max(OUTCOMES) + 1)])[finished.status]
    converged = pl.Series(finished.status == CONVERGED)
    columns = {
        ORDER: pl.Series(first + positions, dtype=pl.UInt32),
        "id": pl.Series(ids[positions], dtype=pl.UInt64),
        "outcome": pl.Series(outcome, dtype=OUTCOME),
        "convergence_time": pl.Series(finished.reached, dtype=pl.Int32),
        "steps": pl.Series(finished.steps, dtype=pl.Int32),
        "runs": pl.Series(finished.runs, dtype=pl.Int16),
        "path": pl.Series(_paths(finished), dtype=PATH),
        "error": pl.Series(finished.error, dtype=pl.Float32),
        "accuracy": pl.Series(_accuracy(cohort, finished), dtype=pl.Float32),
        "loss": pl.Series(finished.loss, dtype=pl.Float32),
    }
    table = pl.DataFrame(columns | _curves(cohort, finished))
    return table.with_columns(pl.when(converged).then(pl.col("convergence_time")).alias("convergence_time"))


def _paths(finished: Finished) -> list[str]:
    codes = np.zeros(len(finished.position), np.int8) if finished.path is None else finished.path
    return [PATHS[code] for code in codes.tolist()]


def _accuracy(cohort: Trials, finished: Finished) -> np.ndarray | list[None]:
    return [None] * len(finished.error) if cohort.template.task.regression else 1 - finished.error


def with_fields(cohort: Trials, positions: np.ndarray, records: pl.DataFrame) -> pl.LazyFrame:
    """Records of the trials at `positions`, each with the fields of its trial after its identity."""
    fields = cohort.rows(positions)
    varying = {name: values for name, values in fields.items() if isinstance(values, list | np.ndarray)}
    constant = {name: pl.lit(value) for name, value in fields.items() if name not in varying}
    table = records.with_columns(pl.Series(name, values) for name, values in varying.items())
    return table.lazy().with_columns(**constant).select("id", *fields, pl.exclude("id", *fields))


def _curves(cohort: Trials, finished: Finished) -> dict[str, pl.Series]:
    if finished.curves is None:
        return {}
    template = cohort.template
    lengths = 1 + template.row(finished.steps)
    scheduled = template.scheduled_steps()
    steps = [[*scheduled[: length - 1], last] for length, last in zip(lengths, finished.steps.tolist(), strict=True)]
    series = {"curve.step": pl.Series(steps, dtype=pl.List(pl.Int32))}
    for place, name in enumerate(template.curve_columns()):
        values = [curve[:length, place].tolist() for curve, length in zip(finished.curves, lengths, strict=True)]
        series[f"curve.{name}"] = pl.Series(values, dtype=pl.List(pl.Float32))
    return series


def as_cohorts(trials: Iterable[Trial] | Iterable[Trials] | Trial | Trials) -> list[tuple[Trials, np.ndarray]]:
    """Whatever describes trials (one, a list, a sweep) as cohorts, each with its trials' places in what was given."""
    given: list[Any] = [trials] if isinstance(trials, Trial | Trials) else list(trials)
    cohorts = [item for item in given if isinstance(item, Trials)]
    if not cohorts or len(cohorts) < len(given):
        groups: dict[str, list[int]] = {}
        for place, trial in enumerate(given):
            require(isinstance(trial, Trial), f"expected trials; got {type(trial).__name__}")
            groups.setdefault(structure_of(trial), []).append(place)
        return list(zip(stack(given), map(np.asarray, groups.values()), strict=True))
    ends = np.cumsum([len(cohort) for cohort in cohorts])
    return [(cohort, np.arange(end - len(cohort), end)) for cohort, end in zip(cohorts, ends, strict=True)]


def run(
    trials: Iterable[Trial] | Iterable[Trials] | Trial | Trials,
    *,
    usage: Usage | None = None,
    weights: Weights | None = None,
) -> pl.DataFrame:
    """Train the trials, all of a structure as one program, and return one row per trial.

        table = krogh.run(krogh.sweep(trial, seed=range(100)))
        table["convergence_time"].median()

    Rows come in the order of the trials given. `weights` receives the weights that the trials end with, and those of
    their snapshots; trials that begin with others' weights find them there, or are trained after them in one call.
    """
    pairs = as_cohorts(trials)
    cohorts, ids = [cohort for cohort, _ in pairs], [cohort.ids() for cohort, _ in pairs]
    everyone = [np.arange(len(cohort)) for cohort in cohorts]
    tables = []
    keep = weights is not None
    with closing(run_cohorts(cohorts, everyone, usage=usage, keep_weights=keep, weights_of=weights)) as records:
        for place, part in records:
            if part is None:
                continue
            cohort, places = pairs[place]
            if weights is not None:
                weights.add(ids[place], cohort.template.snapshots, part)
            table = record_table(cohort, ids[place], part).with_columns(pl.Series(ORDER, places[part.position]))
            tables.append(with_fields(cohort, part.position, table).collect())
    return pl.concat(tables, how="diagonal_relaxed").sort(ORDER).drop(ORDER) if tables else pl.DataFrame()
