"""What an experiment measures on: the records of its trials, and the networks that they trained."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

import equinox as eqx
import numpy as np
import polars as pl

from krogh.engine import Inherited, Trial, Trials
from krogh.engine.inheriting import resolve_start
from krogh.errors import KroghError
from krogh.lab.weights import Weights, WeightsFolder

S = TypeVar("S")


@dataclass(frozen=True, eq=False)
class Network:
    """A trial with its row of the table and its weights; `final` is None where training diverged."""

    trial: Trial
    row: dict[str, Any]
    final: Weights | None
    weights_of: WeightsFolder | None = None

    @functools.cached_property
    def initial(self) -> Weights:
        """The weights that training began with."""
        trial = self.trial
        if isinstance(trial.start, Inherited):
            trial = eqx.tree_at(lambda own: own.start, trial, resolve_start(trial.start, self._folder()))
        return {name: np.asarray(leaf) for name, leaf in trial.initial_params().items()}

    def at(self, step: int) -> Weights:
        """The weights at one of the trial's snapshots."""
        return self._folder()(self.row["id"], step)

    def _folder(self) -> WeightsFolder:
        if self.weights_of is None:
            raise KroghError("this network was not read from a folder of weights")
        return self.weights_of

    @property
    def seed(self) -> int:
        return int(self.row["seed"])

    @functools.cached_property
    def curve(self) -> dict[str, np.ndarray]:
        """What probes measured, by column, and the steps at which they did."""
        return {
            name.removeprefix("curve."): np.asarray(values, np.float64)
            for name, values in self.row.items()
            if name.startswith("curve.") and values is not None
        }


class Results(Generic[S]):
    """The trials' table, read when asked for, the settings, and the trained networks where weights are kept."""

    def __init__(
        self,
        table: pl.DataFrame | pl.LazyFrame,
        settings: S,
        scale: str = "",
        *,
        cohorts: Sequence[Trials] = (),
        ids: Sequence[np.ndarray] | None = None,
        weights_folder: Path | None = None,
    ):
        self.records = table.lazy()
        self.settings = settings
        self.scale = scale
        self._cohorts = cohorts
        self._ids = [cohort.ids() for cohort in cohorts] if ids is None else ids
        self._weights = None if weights_folder is None else WeightsFolder(weights_folder)

    @functools.cached_property
    def table(self) -> pl.DataFrame:
        """One row per trial. For very many trials, select what is needed from `records` instead."""
        return self.records.collect()

    def weights(self, identity: int) -> Weights:
        """The trained weights of a trial by its column `id`; the experiment must say `keep_weights = True`."""
        return self._kept()(identity)

    def _kept(self) -> WeightsFolder:
        if self._weights is None:
            raise KroghError("these results keep no weights: the experiment must say keep_weights = True")
        return self._weights

    def networks(self, **where: Any) -> Iterator[Network]:
        """The trained networks in the order of their trials, or those whose columns (a label, `seed`, ...) are so."""
        chosen = set(self.table.with_row_index("row").filter(**where)["row"].to_list())
        place = 0
        for cohort, ids in zip(self._cohorts, self._ids, strict=True):
            for position, identity in enumerate(ids.tolist()):
                if place >= len(self.table) or self.table["id"][place] != identity:
                    continue  # a trial that a search did not ask for
                if place in chosen:
                    row = self.table.row(place, named=True)
                    final = None if row["outcome"] == "diverged" else self.weights(identity)
                    yield Network(cohort[position], row, final, self._weights)
                place += 1
