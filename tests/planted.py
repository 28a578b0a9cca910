"""Results whose networks are of a test's choice: what experiments that keep weights are measured on, untrained."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import polars as pl

from krogh.engine import Trial
from krogh.lab import Experiment, Results, Tables, figures
from krogh.lab.experiment import measured_tables


class PlantedResults(Results[Any]):
    """One network per trial, as `planted` gives its weights; None is one that diverged.

    Curves have three points, 0.1 to 0.3 but for `curves`: functions of the trial by column.
    """

    def __init__(
        self,
        experiment: Experiment[Any],
        settings: Any,
        planted: Callable[[Trial], Any],
        curves: Mapping[str, Callable[[Trial], Sequence[float]]] | None = None,
    ):
        cohorts = list(experiment.trials(settings))
        ids = [cohort.ids() for cohort in cohorts]
        rows, self._planted = [], {}
        for cohort, own in zip(cohorts, ids, strict=True):
            for trial, identity in zip(cohort, own.tolist(), strict=True):
                network = self._planted[identity] = planted(trial)
                outcome = "diverged" if network is None else "converged"
                head = {**cohort.labels, "id": identity, "seed": int(trial.seed), "outcome": outcome}
                curve: dict[str, Any] = {"step": [0, 100, 200]} if trial.probes else {}
                curve |= {name: [0.1, 0.2, 0.3] for name in trial.curve_columns()}
                curve |= {name: list(values(trial)) for name, values in (curves or {}).items()}
                rows.append(head | {f"curve.{name}": values for name, values in curve.items()})
        table = pl.DataFrame(rows, schema_overrides={"id": pl.UInt64}, infer_schema_length=None)
        super().__init__(table, settings, "planted", cohorts=cohorts, ids=ids)

    def weights(self, identity: int) -> dict[str, np.ndarray]:
        network = self._planted[identity]
        return {name: getattr(network, name) for name in ("U", "V", "W") if hasattr(network, name)}


def planted_tables(experiment: Experiment[Any], settings: Any, planted: Any, curves: Any = None) -> Tables[Any]:
    """What is measured on planted networks."""
    return measured_tables(experiment, PlantedResults(experiment, settings, planted, curves))


def verdicts(experiment: Experiment[Any], tables: Tables[Any]) -> dict[str, str]:
    return {claim.name: claim.verdict for claim in experiment.judge(tables)}


def drawn(experiment: Experiment[Any], tables: Tables[Any]) -> dict[str, pl.DataFrame]:
    """The data of all figures, once each has been drawn."""
    with figures.style():
        made = list(experiment.figures(tables))
        for figure in made:
            figure.drawing.draw_without_rendering()
            assert figure.title and figure.caption
    return {figure.name: figure.data for figure in made}
