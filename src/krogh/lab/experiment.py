"""Experiments: a question, the trials that answer it, its claims and figures.

One module is one experiment: its settings are a frozen dataclass with a line of help per field, given for each
scale; `trials` says what is trained, `claims` what was found, `figures` how it looks.
"""

from __future__ import annotations

import abc
import dataclasses
import functools
import typing
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar, Generic, TypeVar

import numpy as np
import polars as pl

from krogh.engine.cohort import Trials
from krogh.errors import KroghError, unknown
from krogh.lab.claim import Claim
from krogh.lab.search import Search
from krogh.lab.weights import read_weights
from krogh.registry import EXPERIMENTS
from krogh.signature import converted

SCALES = ("smoke", "laptop", "paper")

S = TypeVar("S")


def convergence_times(table: pl.DataFrame) -> np.ndarray:
    """The convergence times of a table's rows, ∞ where a trial never converged."""
    return table["convergence_time"].cast(pl.Float64).fill_null(float("inf")).to_numpy()


@dataclasses.dataclass(frozen=True)
class Figure:
    """A drawn figure with the data behind it."""

    name: str
    title: str
    caption: str
    drawing: Any
    data: pl.DataFrame
    alt: str = ""


class Results(Generic[S]):
    """What claims and figures are made from: the trials' table, read when asked for, and the settings."""

    def __init__(self, table: pl.DataFrame | pl.LazyFrame, settings: S, scale: str, weights_folder: Path | None = None):
        self.records = table.lazy()
        self.settings = settings
        self.scale = scale
        self._weights_folder = weights_folder

    @functools.cached_property
    def table(self) -> pl.DataFrame:
        """One row per trial. For very many trials, select what is needed from `records` instead."""
        return self.records.collect()

    def weights(self, identity: int) -> dict[str, np.ndarray]:
        """The trained weights of a trial by its column `id`; the experiment must say `keep_weights = True`."""
        if self._weights_folder is None:
            raise KroghError("these results keep no weights: the experiment must say keep_weights = True")
        return read_weights(self._weights_folder, identity)

    def times(self, *conditions: pl.Expr) -> np.ndarray:
        """Convergence times of the rows that meet the conditions, ∞ where a trial never converged."""
        chosen = self.records.filter(*conditions) if conditions else self.records
        return convergence_times(chosen.select("convergence_time").collect())


class Experiment(abc.ABC, Generic[S]):
    """A question put to trials."""

    name: ClassVar[str] = ""
    title: ClassVar[str]
    question: ClassVar[str]
    source: ClassVar[str]
    scales: ClassVar[Mapping[str, Any]]
    notes: ClassVar[tuple[str, ...]] = ()
    keep_weights: ClassVar[bool] = False

    @abc.abstractmethod
    def trials(self, settings: S) -> list[Trials]:
        """What is trained."""

    def search(self, settings: S, cohorts: list[Trials]) -> Search | None:
        """Which of the trials are worth training, decided while they run; None for all of them.

        A trial's position counts through the cohorts in their order.
        """
        return None

    @abc.abstractmethod
    def claims(self, results: Results[S]) -> list[Claim]:
        """What was found."""

    @abc.abstractmethod
    def figures(self, results: Results[S]) -> list[Figure]:
        """How it looks."""

    def settings(self, scale: str, changes: Mapping[str, Any] | None = None) -> S:
        """The settings of a scale with some of them changed; text is converted to the field's type."""
        if scale not in self.scales:
            raise unknown("scale", scale, self.scales)
        base = self.scales[scale]
        hints = typing.get_type_hints(type(base))
        fields = {field.name: (hints[field.name], getattr(base, field.name)) for field in _fields(base)}
        return dataclasses.replace(base, **converted(f"experiment {self.name!r}", fields, changes or {}))


def _fields(settings: Any) -> tuple[dataclasses.Field[Any], ...]:
    return dataclasses.fields(settings)


def setting(default: Any, help: str) -> Any:
    """A field of an experiment's settings with its line of help."""
    return dataclasses.field(default=default, metadata={"help": help})


def settings_help(settings: Any) -> dict[str, tuple[Any, str]]:
    """Each setting's value and line of help."""
    return {field.name: (getattr(settings, field.name), field.metadata.get("help", "")) for field in _fields(settings)}


def experiment(name: str) -> Any:
    """Class decorator: register an experiment under `name`."""

    def file(cls: type[Experiment[Any]]) -> type[Experiment[Any]]:
        cls.name = name
        missing = [word for word in ("title", "question", "source", "scales") if not hasattr(cls, word)]
        if missing:
            raise KroghError(f"experiment {name!r} must say its {', '.join(missing)}")
        EXPERIMENTS.register(name)(cls)
        return cls

    return file
