"""`krogh.run`: train trials and get their table, in memory or in a folder that is resumed.

A folder of trials is a study without a question: `krogh.open_study` reads its table, its curves and its weights, and
the same call trains what is missing. Its name is the folder's.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from krogh.engine import Trial, Trials, Usage, Weights, as_cohorts, run_cohorts
from krogh.engine.executor import Executor
from krogh.engine.records import ORDER, record_table, with_fields
from krogh.errors import KroghError, require, unknown
from krogh.files import read_table
from krogh.interrupting import leave_with_main_thread
from krogh.lab.charts import Figure
from krogh.lab.claims import Claims
from krogh.lab.display import Show, showing
from krogh.lab.experiment import Experiment, Tables
from krogh.lab.store import Store
from krogh.lab.study import RETRAIN, REUSE, RUN, PlannedStudy, plan_study
from krogh.lab.training import Progress
from krogh.lab.weights import WeightsFolder

Cohorts = list[tuple[Trials, np.ndarray]]

MOST_HELPED = 5
"""Times that another process on the same folder may have been given other trials."""


def run(
    trials: Trial | Trials | Iterable[Any],
    *,
    out: str | os.PathLike[str] | None = None,
    weights: bool | Weights | None = None,
    progress: bool | Show | None = None,
    stale: str = "",
    usage: Usage | None = None,
    executor: Executor | None = None,
) -> pl.DataFrame:
    """Train the trials, all of a structure as one program, and return one row per trial.

        table = krogh.run(krogh.sweep(trial, seed=range(100)))
        table["convergence_time"].median()

        krogh.run([sweep, another, [trial, trial]], out="runs/mine", weights=True)
        krogh.open_study("runs/mine").weights(table["id"][0])

    Args:
        trials: a trial, a sweep, or lists of them in any nesting; rows come in the order given.
        out: a folder that keeps the records. The same call again trains only what is missing, and so does one with
            more trials. Ctrl-C raises KeyboardInterrupt when what has finished is written.
        weights: True keeps the weights that trials end with, and those of their snapshots, in `out`. A `Weights`
            receives them instead or too; trials that begin with others' weights find them there, or are trained after
            them in one call.
        progress: True shows how far it is, False does not, a function is called with every `Progress`; unless given it
            is shown after a few seconds on a terminal or in a notebook.
        stale: what becomes of trials in `out` whose source has changed since: "retrain" or "reuse"; refused unless
            given.
        usage: receives what training cost, where nothing is kept in a folder.
        executor: what trains: this machine unless given, or a cluster (`krogh.engine.cluster.RayExecutor`).
    """
    pairs = as_cohorts(trials)
    if stale not in ("", REUSE, RETRAIN):
        raise unknown("choice of stale", stale, (REUSE, RETRAIN))
    if out is not None:
        require(usage is None, "with out=FOLDER the cost is in krogh.open_study(FOLDER).summary; leave out usage=")
        remote = "://" in os.fspath(out)
        require(
            not remote, f"out must be a folder of this machine; got {os.fspath(out)!r} (krogh.run_study takes URLs)"
        )
        with _ending_soon():
            return _run_into(Path(out), pairs, weights, progress, stale, executor or run_cohorts)
    require(not stale, f"stale={stale!r} is for trials that a folder holds: add out=FOLDER, or leave it out")
    remedy = "add out=FOLDER, or give weights=krogh.Weights() to have them in memory"
    require(weights is not True, f"weights=True keeps weights in a folder: {remedy}")
    kept = weights if isinstance(weights, Weights) else None
    with _ending_soon():
        return _run_in_memory(pairs, kept, progress, usage, executor or run_cohorts)


@contextmanager
def _ending_soon() -> Iterator[None]:
    try:
        yield
    except KeyboardInterrupt:
        leave_with_main_thread()
        raise


def _run_in_memory(
    pairs: Cohorts, kept: Weights | None, progress: bool | Show | None, usage: Usage | None, train: Executor
) -> pl.DataFrame:
    cohorts, ids = [cohort for cohort, _ in pairs], [cohort.ids() for cohort, _ in pairs]
    everyone = [np.arange(len(cohort)) for cohort in cohorts]
    tables, state, begun = [], Progress(sum(map(len, cohorts))), time.perf_counter()
    records = train(cohorts, everyone, usage=usage, keep_weights=kept is not None, weights_of=kept)
    with showing(progress, "trials") as show, closing(records):
        show(state)
        for place, part in records:
            if part is None:
                continue
            cohort, places = pairs[place]
            if kept is not None:
                kept.add(ids[place], cohort.template.snapshots, part)
            table = record_table(cohort, ids[place], part).with_columns(pl.Series(ORDER, places[part.position]))
            tables.append(with_fields(cohort, part.position, table).collect())
            state.add(part, time.perf_counter() - begun)
            show(state)
    return pl.concat(tables, how="diagonal_relaxed").sort(ORDER).drop(ORDER) if tables else pl.DataFrame()


# --- into a folder ------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _NoSettings:
    """Trials that were given have none."""


class GivenTrials(Experiment[_NoSettings]):
    """Trials without a question: nothing is claimed and nothing drawn."""

    title = "Trials given to krogh.run"
    question = source = ""
    scales = {"": _NoSettings()}

    def __init__(self, name: str, cohorts: list[Trials]):
        self.name = name  # type: ignore[misc]  # that of the folder
        self._cohorts = cohorts

    def trials(self, settings: _NoSettings) -> list[Trials]:
        return self._cohorts

    def claims(self, tables: Tables[_NoSettings], say: Claims) -> None:
        pass

    def figures(self, tables: Tables[_NoSettings]) -> tuple[Figure, ...]:
        return ()


def _run_into(
    out: Path,
    pairs: Cohorts,
    weights: bool | Weights | None,
    progress: bool | Show | None,
    stale: str,
    train: Executor,
) -> pl.DataFrame:
    require(pairs, f"there are no trials to train into {out}")
    kept = weights if isinstance(weights, Weights) else None
    place = out.absolute()
    require(place.name, f"out must be a folder of its own; got {str(out)!r}")
    given = GivenTrials(place.name, [cohort for cohort, _ in pairs])
    keep = weights is True or kept is not None
    for _ in range(MOST_HELPED):
        planned = _complete(given, place.parent, keep, kept, progress, stale, train)
        table = read_table(planned.folder / "trials.parquet")
        # Another process, which this one helped, may have been given fewer trials.
        if np.array_equal(table["id"].to_numpy(), np.concatenate(planned.ids)):
            break
    else:
        raise KroghError(f"other processes keep giving {out} other trials; give each a folder of its own")
    if kept is not None:
        _recall(kept, planned, table)
    return table[np.argsort(np.concatenate([places for _, places in pairs]))]


def _complete(
    given: GivenTrials,
    out: Path,
    keep: bool,
    kept: Weights | None,
    progress: bool | Show | None,
    stale: str,
    train: Executor,
) -> PlannedStudy:
    """Train the trials into their folder; returns what was planned when all is there."""
    try:
        planned = plan_study(given, "", out, weights=keep, stale=stale, elsewhere=train is not run_cohorts)
        _require_all_that_are_there(planned)
        planned = replace(planned, head={**planned.head, "kind": RUN, "command": ""})
        with showing(progress, given.name) as show:
            study = planned.run(show, _remembering(kept, train) if kept is not None else train)
    except KroghError as problem:
        raise KroghError(_in_python(str(problem))) from None
    if study.status != "complete":
        raise KeyboardInterrupt(f"{planned.folder} can be resumed by the same call")
    return planned


def _require_all_that_are_there(planned: PlannedStudy) -> None:
    """A folder may be given more trials than it has, but not others: its table would no longer show them."""
    there = Store(planned.folder / "cohorts").ids()
    lost = int((~np.isin(there, np.concatenate(planned.ids))).sum()) if not planned.retrain else 0
    require(
        not lost,
        f"{planned.folder} holds {lost:,} trials that were not given this time; choose another --out, or give them too",
    )


def _remembering(kept: Weights, train: Executor) -> Any:
    """The executor, with weights that are in memory at hand to trials that begin with them."""

    def execute(cohorts: Any, positions: Any, *, weights_of: Any = None, **options: Any) -> Any:
        def found(identity: int, step: int | None) -> dict[str, np.ndarray]:
            return kept(identity, step) if (identity, step) in kept else weights_of(identity, step)

        return train(cohorts, positions, weights_of=found, **options)

    return execute


def _recall(kept: Weights, planned: PlannedStudy, table: pl.DataFrame) -> None:
    """Put the weights of a folder's trials into memory, snapshots as far as the trials came."""
    folder = WeightsFolder(planned.folder / "weights")
    steps_of = dict(table.select("id", "steps").iter_rows())
    for cohort, ids in zip(planned.cohorts, planned.ids, strict=True):
        for identity in ids.tolist():
            for step in (None, *cohort.template.snapshots):
                if step is None or step <= steps_of[identity]:
                    kept.put(identity, step, folder(identity, step))


def _in_python(message: str) -> str:
    """A refusal of a study, with the words of a call instead of those of the command line."""
    for option, argument in (("--stale ", "stale="), ("--out", "out="), ("--weights", "weights=")):
        message = message.replace(option, argument)
    return message
