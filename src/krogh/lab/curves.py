"""Curves: an estimate at each of several sizes, and how to read them off a table.

    by_k = curves(table, by="task.k", x="task.n", y="convergence_time")       # {k: Curve}, censored medians
    looks = look_table(table, "task.k", "seed")              # what probes measured, a row per trial and look

A curve's points rest on different trials and are drawn independently; whatever is computed from one curve twice (the
slopes of its two halves, its fit and its last point) is paired.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import ArrayLike

from krogh.errors import KroghError, require, unknown
from krogh.lab.estimate import Estimate, Floats, as_floats, exact, mean_time, median_time


@dataclass(frozen=True, eq=False)
class Curve:
    """Estimates `y` at the places `x`, ascending."""

    x: Floats
    y: tuple[Estimate, ...]

    def __post_init__(self) -> None:
        require(len(self.x) == len(self.y), f"a curve has one y for each x; got {len(self.x)} and {len(self.y)}")
        rising = bool(np.all(np.diff(self.x) > 0))
        require(rising, f"the places of a curve must increase; got x={self.x.tolist()}")

    def __len__(self) -> int:
        return len(self.y)

    def at(self, x: float) -> Estimate:
        """The estimate at `x`."""
        places = np.flatnonzero(self.x == x)
        require(places.size == 1, f"x must be one of {self.x.tolist()}; got x={x!r}")
        return self.y[int(places[0])]

    def where(self, keep: Callable[[float], bool]) -> Curve:
        """The part of the curve at the places that `keep` says."""
        return self.take([place for place, x in enumerate(self.x.tolist()) if keep(x)])

    def only(self, places: Container[float]) -> Curve:
        """The part of the curve at these places."""
        return self.where(lambda x: x in places)

    @property
    def reached(self) -> Curve:
        """The part of the curve with finite values: a median is infinite where more than half of the trials failed."""
        return self.take([place for place, y in enumerate(self.y) if math.isfinite(y.value)])

    @property
    def missing(self) -> int:
        """How many points were not reached."""
        return sum(not math.isfinite(y.value) for y in self.y)

    def take(self, places: Sequence[int]) -> Curve:
        """The points number `places`, counted from 0."""
        return Curve(self.x[np.asarray(places, int)], tuple(self.y[place] for place in places))

    @property
    def value(self) -> Floats:
        return np.array([y.value for y in self.y])

    @property
    def low(self) -> Floats:
        return np.array([y.low for y in self.y])

    @property
    def high(self) -> Floats:
        return np.array([y.high for y in self.y])

    @property
    def samples(self) -> dict[str, int]:
        """What all points together rest on."""
        return {name: count for y in self.y for name, count in y.samples.items()}

    @property
    def trials(self) -> int:
        return sum(self.samples.values())

    def ends(self) -> tuple[Floats, Floats]:
        """Least and largest ends of all draws, each (draws, points)."""
        count = max((y.least.size for y in self.y), default=1)
        least, most = ([np.broadcast_to(getattr(y, end), count) for y in self.y] for end in ("least", "most"))
        return np.stack(least, axis=1), np.stack(most, axis=1)

    def points(self) -> Floats:
        """One number per draw and point, (draws, points): see `Estimate.points`."""
        count = max((y.least.size for y in self.y), default=1)
        return np.stack([np.broadcast_to(y.points(), count) for y in self.y], axis=1)

    def table(self, x: str = "x") -> pl.DataFrame:
        """The curve as rows: place, value, ends of the 95% interval, trials."""
        trials = [y.trials for y in self.y]
        return pl.DataFrame({x: self.x, "value": self.value, "low": self.low, "high": self.high, "trials": trials})


def curve(points: Mapping[Any, Estimate]) -> Curve:
    """A curve from {x: estimate}."""
    ordered = sorted(points.items())
    return Curve(np.array([float(x) for x, _ in ordered]), tuple(y for _, y in ordered))


def exact_curve(x: ArrayLike, y: ArrayLike) -> Curve:
    """A curve of numbers that are not estimated, such as the source's."""
    return curve(dict(zip(as_floats("x", x).tolist(), [exact(value) for value in as_floats("y", y)], strict=True)))


def times_of(table: pl.DataFrame) -> Floats:
    """The convergence times of a table's rows, ∞ where a trial never converged."""
    return table["convergence_time"].cast(pl.Float64).fill_null(float("inf")).to_numpy()


def groups(table: pl.DataFrame, by: str | Sequence[str]) -> dict[Any, pl.DataFrame]:
    """The table's rows by the values of one column, or of several (as tuples), in the order of first appearance."""
    if isinstance(by, str):
        return {key: rows for (key,), rows in table.group_by([by], maintain_order=True)}
    return dict(table.group_by(list(by), maintain_order=True)) if by else {(): table}


def require_columns(table: pl.DataFrame, *names: str) -> None:
    """Refuse a column that the table has not; a field is called by its dotted name."""
    for name in names:
        if name not in table.columns:
            fields = [column for column in table.columns if column.endswith(f".{name}")]
            hint = f"did you mean {' or '.join(map(repr, fields))}?"
            raise KroghError(f"unknown column {name!r}; {hint}") if fields else unknown("column", name, table.columns)


def curves(
    table: pl.DataFrame,
    *,
    x: str,
    by: str | Sequence[str] = (),
    y: str = "convergence_time",
    statistic: Callable[..., Estimate] = median_time,
    scale: float = 1.0,
    **options: Any,
) -> dict[Any, Curve]:
    """A curve over `x` of a statistic of `y` for each group of rows: {values of `by`: Curve}.

    `statistic` is `median_time`, `mean_time` or any function of an array with the keyword `sample`; a null of `y`
    (never converged) is infinite. `scale` multiplies `y`, e.g. by the batch size to turn steps into samples.
    """
    names = (by,) if isinstance(by, str) else tuple(by)
    require_columns(table, x, y, *names)
    found = {}
    for key, rows in groups(table, by).items():
        points = {}
        for place, own in groups(rows, x).items():
            values = own[y].cast(pl.Float64).fill_null(math.inf).to_numpy() * scale
            head = key if isinstance(key, tuple) else (key,)
            sample = ", ".join(f"{name}={part}" for name, part in zip((*names, x), (*head, place), strict=True))
            points[place] = statistic(values, sample=sample, **options)
        found[key] = curve(points)
    return found


def mean_samples(
    table: pl.DataFrame, *, x: str, by: str | Sequence[str] = (), batch_size: int, budget: int
) -> dict[Any, Curve]:
    """Curves of the mean number of examples that online runs consumed until they converged; `budget` in steps."""
    horizon = float(batch_size * budget)
    return curves(table, x=x, by=by, statistic=mean_time, scale=float(batch_size), horizon=horizon)


CURVE = "curve."
"""How columns begin that hold what a probe measured, a list for every trial."""


NO_CURVES = (
    "these trials have no curves: they have no probes (give them some, as in krogh.Trial(task, model, training, "
    "probes=(krogh.Error(),), probe_every=100))"
)


def look_table(table: pl.DataFrame, *keep: str, columns: Sequence[str] | None = None) -> pl.DataFrame:
    """What probes measured, a row per trial and look: the columns kept, `step`, and the measurements by their names.

    All of them unless `columns` names some. Trials without a look, such as those of outside learners, have no row.
    """
    known = [name.removeprefix(CURVE) for name in table.columns if name.startswith(CURVE) and name != f"{CURVE}step"]
    chosen = known if columns is None else list(columns)
    for name in chosen:
        if name not in known:
            raise unknown("measurement", name, known)
    names = [f"{CURVE}{name}" for name in ("step", *chosen)]
    require(f"{CURVE}step" in table.columns, NO_CURVES)
    rows = table.filter(pl.col(f"{CURVE}step").is_not_null()).select(*dict.fromkeys(keep), *names).explode(names)
    rows = rows.rename({name: name.removeprefix(CURVE) for name in names})
    return rows.with_columns(pl.col("step").cast(pl.Int64), pl.col(chosen).cast(pl.Float64))
