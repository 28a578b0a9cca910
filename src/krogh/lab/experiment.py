"""Experiments: a question, and four steps to its answer, each a function of what the step before it stored.

    trials    what is trained
    measure   tables, made of the records and weights, and kept
    claims    what the tables decide
    figures   how they look

One module is one experiment. Its settings are a frozen dataclass with a line of help per field, given for each scale.
Only the first two steps cost anything; the last two can be redone from a study's folder alone.
"""

from __future__ import annotations

import abc
import dataclasses
import typing
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, ClassVar, Generic, TypeVar

import polars as pl

from krogh.engine.cohort import Trials
from krogh.errors import KroghError, unknown
from krogh.files import read_table
from krogh.lab.charts import Chart, Figure
from krogh.lab.claims import Claim, Claims
from krogh.lab.results import Results
from krogh.lab.search import Search
from krogh.lab.settings import check_settings
from krogh.registry import EXPERIMENTS
from krogh.signature import converted

SCALES = ("smoke", "laptop", "paper")
TRIALS = "trials"

S = TypeVar("S")
Measures = Mapping[str, pl.DataFrame | Callable[[], pl.DataFrame]]


class Tables(Mapping[str, pl.DataFrame], Generic[S]):
    """What was measured, by name, with the settings; "trials" is the table of all trials.

    Tables may be given, or stand in a folder from which each is read when first asked for.
    """

    def __init__(self, settings: S, tables: Mapping[str, pl.DataFrame | Path], scale: str = ""):
        self.settings, self.scale = settings, scale
        self._tables = dict(tables)

    def __getitem__(self, name: str) -> pl.DataFrame:
        if name not in self._tables:
            raise unknown("table", name, self._tables)
        found = self._tables[name]
        if isinstance(found, Path):
            found = self._tables[name] = read_table(found)
        return found

    def __contains__(self, name: object) -> bool:
        return name in self._tables

    def __iter__(self) -> Iterator[str]:
        return iter(self._tables)

    def __len__(self) -> int:
        return len(self._tables)


class Experiment(abc.ABC, Generic[S]):
    """A question put to trials, or to theory alone."""

    name: ClassVar[str] = ""
    title: ClassVar[str]
    question: ClassVar[str]
    source: ClassVar[str]
    scales: ClassVar[Mapping[str, Any]]
    notes: ClassVar[tuple[str, ...]] = ()
    keep_weights: ClassVar[bool] = False

    def check(self, settings: S) -> None:
        """Refuse settings that do not go together; what a single field may be is declared there (`setting`)."""

    def trials(self, settings: S) -> Iterable[Trials]:
        """What is trained; nothing, for a theorem that is executed."""
        return ()

    def search(self, settings: S, cohorts: list[Trials]) -> Search | None:
        """Which of the trials are worth training, decided while they run; None for all of them.

        A trial's position counts through the cohorts in their order.
        """
        return None

    def measure(self, results: Results[S]) -> Measures:
        """Tables by name, each given or as a function that makes it; what is stored already is not made again."""
        return {}

    @abc.abstractmethod
    def claims(self, tables: Tables[S], say: Claims) -> None:
        """What the tables decide: one call of `say` for each claim."""

    @abc.abstractmethod
    def figures(self, tables: Tables[S]) -> Iterable[Figure]:
        """How the tables look."""

    def chart(self, name: str, title: str, **options: Any) -> Chart:
        """A chart with this experiment's source under it, or another that is named; options are those of `Chart`."""
        return Chart(name, title, **({"source": self.source} | options))

    def settings(self, scale: str, changes: Mapping[str, Any] | None = None) -> S:
        """The settings of a scale with some of them changed and all checked; text is converted to the field's type."""
        if scale not in self.scales:
            raise unknown("scale", scale, self.scales)
        base = self.scales[scale]
        hints = typing.get_type_hints(type(base))
        fields = {field.name: (hints[field.name], getattr(base, field.name)) for field in dataclasses.fields(base)}
        chosen = dataclasses.replace(base, **converted(f"experiment {self.name!r}", fields, changes or {}))
        check_settings(chosen)
        self.check(chosen)
        return chosen

    def judge(self, tables: Tables[S]) -> list[Claim]:
        """The claims that the tables decide."""
        say = Claims(self.source)
        self.claims(tables, say)
        return list(say)


def measured_tables(experiment: Experiment[S], results: Results[S]) -> Tables[S]:
    """Everything that is measured on some results, in memory: what claims and figures are made of."""
    made = {
        name: table if isinstance(table, pl.DataFrame) else table()
        for name, table in experiment.measure(results).items()
    }
    trials = {TRIALS: results.table} if TRIALS not in made else {}
    return Tables(results.settings, {**trials, **made}, results.scale)


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
