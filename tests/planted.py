"""Tables and networks of a test's choice: what experiments are shown, with nothing trained."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import polars as pl

from krogh.engine import Trial, Trials
from krogh.engine.checking import CONVERGED, FAILED
from krogh.engine.lane import Finished
from krogh.engine.records import record_table, with_fields
from krogh.lab import Experiment, Results, Tables, figures
from krogh.lab.experiment import measured_tables


class PlantedResults(Results[Any]):
    """One network per trial, as `planted` gives its weights; None is one that diverged.

    Curves have three points, 0.1 to 0.3 but for `curves`: functions of the trial by column. Further columns of the
    table are the same in every row.
    """

    def __init__(
        self,
        experiment: Experiment[Any],
        settings: Any,
        planted: Callable[[Trial], Any],
        curves: Mapping[str, Callable[[Trial], Sequence[float]]] | None = None,
        **columns: Any,
    ):
        cohorts = list(experiment.trials(settings))
        ids = [cohort.ids() for cohort in cohorts]
        rows, self._planted = [], {}
        for cohort, own in zip(cohorts, ids, strict=True):
            for trial, identity in zip(cohort, own.tolist(), strict=True):
                network = self._planted[identity] = planted(trial)
                outcome = "diverged" if network is None else "converged"
                head = {**cohort.labels, "id": identity, "seed": int(trial.seed), "outcome": outcome, **columns}
                curve: dict[str, Any] = {"step": [0, 100, 200]} if trial.probes else {}
                curve |= {name: [0.1, 0.2, 0.3] for name in trial.curve_columns()}
                curve |= {name: list(values(trial)) for name, values in (curves or {}).items()}
                rows.append(head | {f"curve.{name}": values for name, values in curve.items()})
        table = pl.DataFrame(rows, schema_overrides={"id": pl.UInt64}, infer_schema_length=None)
        super().__init__(table, settings, "planted", cohorts=cohorts, ids=ids)

    def weights(self, identity: int) -> dict[str, np.ndarray]:
        network = self._planted[identity]
        if isinstance(network, dict):
            return network
        return {name: getattr(network, name) for name in ("U", "V", "W") if hasattr(network, name)}


def planted_tables(
    experiment: Experiment[Any], settings: Any, planted: Any, curves: Any = None, **columns: Any
) -> Tables[Any]:
    """What is measured on planted networks."""
    return measured_tables(experiment, PlantedResults(experiment, settings, planted, curves, **columns))


def ended_trials(cohorts: Sequence[Trials], ends: Callable[[Trials], Mapping[str, Any]]) -> pl.DataFrame:
    """What the engine would record if the trials of a cohort ended as `ends` says.

    Arrays over the trials: the times of convergence (`time`, beyond the budget for never), the final errors (`final`),
    and what each probe measured at the rows of its curve, [trials, rows] by column.
    """
    tables, first = [], 0
    for cohort in cohorts:
        template, count, end = cohort.template, len(cohort), ends(cohort)
        stopping = template.training.stopping
        solved = np.asarray(end["time"]) <= int(stopping.budget)
        times = np.where(solved, end["time"], int(stopping.budget)).astype(np.int32)
        columns = template.curve_columns() if template.probes else ()
        curves = np.stack([end[name] for name in columns], axis=2).astype(np.float32) if columns else None
        finished = Finished(
            position=np.arange(count),
            status=np.where(solved, CONVERGED, FAILED),
            steps=times if stopping.early else np.full(count, int(stopping.budget), np.int32),
            reached=np.where(solved, times, -1).astype(np.int32),
            error=np.asarray(end["final"], np.float32),
            runs=np.ones(count, np.int32),
            loss=np.zeros(count, np.float32),
            curves=curves,
        )
        records = record_table(cohort, cohort.ids(), finished, first)
        tables.append(with_fields(cohort, finished.position, records).collect())
        first += count
    return pl.concat(tables, how="diagonal_relaxed").drop("order")


def curve_steps(cohort: Trials) -> np.ndarray:
    """The steps of a curve's rows."""
    return np.arange(cohort.template.probe_rows) * cohort.template.probe_every


def verdicts(experiment: Experiment[Any], tables: Tables[Any]) -> dict[str, str]:
    return {claim.name: claim.verdict for claim in experiment.judge(tables)}


def drawn(experiment: Experiment[Any], tables: Tables[Any], *, empty: bool = False) -> dict[str, pl.DataFrame]:
    """The data of all figures, once each has been drawn; they may be `empty` where no network was left to draw."""
    with figures.style():
        made = list(experiment.figures(tables))
        for figure in made:
            figure.drawing.draw_without_rendering()
            assert figure.title and figure.caption and (empty or len(figure.data))
    return {figure.name: figure.data for figure in made}
