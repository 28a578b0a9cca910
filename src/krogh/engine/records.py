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

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np
import polars as pl

from krogh.engine.checking import CONVERGED, OUTCOMES
from krogh.engine.cohort import Trials, stack
from krogh.engine.lane import PATHS, Finished
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
    reached = pl.Series(finished.reached, dtype=pl.Int32).set(pl.Series(finished.status != CONVERGED), None)
    columns = {
        ORDER: pl.Series(first + positions, dtype=pl.UInt32),
        "id": pl.Series(ids[positions], dtype=pl.UInt64),
        "outcome": pl.Series(outcome, dtype=OUTCOME),
        "convergence_time": reached,
        "steps": pl.Series(finished.steps, dtype=pl.Int32),
        "runs": pl.Series(finished.runs, dtype=pl.Int16),
        "path": pl.Series(_paths(finished), dtype=PATH),
        "error": pl.Series(finished.error, dtype=pl.Float32),
        "accuracy": pl.Series(_accuracy(cohort, finished), dtype=pl.Float32),
        "loss": pl.Series(finished.loss, dtype=pl.Float32),
    }
    return pl.DataFrame(columns | _curves(cohort, finished))


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


def as_cohorts(trials: Any) -> list[tuple[Trials, np.ndarray]]:
    """Whatever describes trials (one, a sweep, lists of both in lists) as cohorts, each with its trials' places.

    Places count through everything in the order given. A sweep's cohorts stay as they are; single trials of one
    structure become one cohort, wherever they stand.
    """
    cohorts: list[tuple[Trials | None, list[int]]] = []
    singles: dict[str, tuple[int, list[Trial]]] = {}
    count = 0
    for item in _flat(trials):
        if isinstance(item, Trials):
            cohorts.append((item, list(range(count, count + len(item)))))
            count += len(item)
            continue
        number, group = singles.setdefault(structure_of(item), (len(cohorts), []))
        if not group:
            cohorts.append((None, []))
        group.append(item)
        cohorts[number][1].append(count)
        count += 1
    stacked = {number: stack(group)[0] for number, group in singles.values()}
    return [(given or stacked[number], np.asarray(places)) for number, (given, places) in enumerate(cohorts)]


def _flat(trials: Any) -> Iterator[Trial | Trials]:
    """Trials and cohorts one after the other, out of any nesting."""
    if isinstance(trials, Trial | Trials):
        yield trials
        return
    several = isinstance(trials, Iterable) and not isinstance(trials, str | bytes | Mapping)
    require(several, f"expected trials, sweeps, or lists of them; got {type(trials).__name__}")
    for item in trials:
        yield from _flat(item)
