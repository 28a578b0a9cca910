"""What demonstrations of theorems share: they train nothing, and measure once.

A demonstration executes a theorem: constructions on all their inputs, bounds beside what they bound. Its measurements
are tables that follow from the settings alone, so that claims and figures are functions of tables, and a table that
says otherwise gives other verdicts.
"""

from __future__ import annotations

import abc
import functools
import itertools
import math
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

import numpy as np
import polars as pl
from numpy.typing import ArrayLike

from krogh.engine import Trials
from krogh.errors import require
from krogh.lab import Claim, Experiment, Figure, Results
from krogh.lab.statistics import Interval

S = TypeVar("S")
Tables = Mapping[str, pl.DataFrame]


class Demonstration(Experiment[S]):
    """A theorem, executed: no trials, and tables instead of records."""

    @abc.abstractmethod
    def check(self, settings: S) -> None:
        """Refuse settings that cannot be measured."""

    @abc.abstractmethod
    def measure(self, settings: S) -> Tables:
        """The tables that everything else is made of; a function of the settings alone."""

    @abc.abstractmethod
    def judge(self, settings: S, tables: Tables) -> list[Claim]:
        """What the tables show."""

    @abc.abstractmethod
    def draw(self, settings: S, tables: Tables) -> list[Figure]:
        """How the tables look."""

    def trials(self, settings: S) -> list[Trials]:
        self.check(settings)
        return []

    def claims(self, results: Results[S]) -> list[Claim]:
        return self.judge(results.settings, measured(type(self), results.settings))

    def figures(self, results: Results[S]) -> list[Figure]:
        return self.draw(results.settings, measured(type(self), results.settings))


@functools.lru_cache(maxsize=16)
def measured(kind: type[Demonstration[Any]], settings: Any) -> Tables:
    """The demonstration's tables for these settings, measured once."""
    demonstration = kind()
    demonstration.check(settings)
    return demonstration.measure(settings)


def exact(value: float, method: str = "exact") -> Interval:
    """A number that is computed and not estimated: both ends of its interval are the number."""
    return Interval(float(value), float(value), float(value), 1.0, method)


def spread(values: ArrayLike, what: str) -> Interval:
    """The median of several computed numbers, with the least and the largest as ends."""
    numbers = np.asarray(values, np.float64)
    return Interval(float(np.median(numbers)), float(numbers.min()), float(numbers.max()), 1.0, f"range over {what}")


def largest(numbers: ArrayLike) -> float:
    """The largest of some numbers; NaN if one of them is, so that no comparison with it holds."""
    return float(np.max(np.asarray(numbers, np.float64)))


def slope(x: ArrayLike, y: ArrayLike) -> float:
    """The slope of the line through the points, by least squares."""
    return float(np.polyfit(np.asarray(x, np.float64), np.asarray(y, np.float64), 1)[0])


def bend(x: ArrayLike, y: ArrayLike) -> float:
    """How far the points are from the line through them, at most, as a share of the range of y; 0 on a line."""
    u, v = np.asarray(x, np.float64), np.asarray(y, np.float64)
    left = v - np.polyval(np.polyfit(u, v, 1), u)
    return float(np.abs(left).max() / np.ptp(v))


def require_increasing(name: str, values: Sequence[float], least: float, count: int = 1) -> None:
    """Require `count` or more numbers, each larger than the one before, from `least` on."""
    rising = all(low < high for low, high in itertools.pairwise(values))
    good = len(values) >= count and rising and all(math.isfinite(value) for value in values)
    require(good, f"{name} must be {count} or more increasing numbers; got {name}={tuple(values)}")
    require(values[0] >= least, f"{name} must be at least {least:g}; got {name}={tuple(values)}")
