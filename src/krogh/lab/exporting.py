"""Tables of trials for other tools, of a study or of `krogh.run`: pandas, xarray, CSV.

krogh.to_pandas(table)      a column keeps its kind: whole numbers stay whole where some are missing, outcomes are
                            categories, curves are arrays
krogh.to_xarray(table)      a dimension for every field that was swept, and `step` for the curves
krogh.to_csv(table, path)   lists as JSON
"""

from __future__ import annotations

import importlib
import json
import math
import os
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from krogh.errors import KroghError, require
from krogh.files import destination, replacing
from krogh.lab.curves import CURVE

RECORDED = ("id", "outcome", "convergence_time", "steps", "runs", "path", "error", "accuracy", "loss")
"""What a record says; any other column that is no curve is a field of the trial or a label."""
SPARSE, MANY_CELLS, MOST_NUMBERS = 20, 10**6, 2 * 10**8


def to_pandas(table: pl.DataFrame) -> Any:
    """The table as a pandas data frame.

    Whole numbers and truth values with gaps are pandas' own (`Int32`, `boolean`), not floats or objects; enumerations
    are categories, with all that there may be; lists are NumPy arrays, None where there is none.
    """
    pandas = needed("pandas", "to_pandas")
    return pandas.DataFrame({name: _pandas_column(pandas, table[name]) for name in table.columns})


def _pandas_column(pandas: Any, column: pl.Series) -> Any:
    kind = column.dtype
    if isinstance(kind, pl.List | pl.Array):
        arrays = np.empty(len(column), object)
        arrays[:] = [None if one is None else one.to_numpy() for one in column]
        return arrays
    if isinstance(kind, pl.Enum):
        return pandas.Categorical(column.to_list(), categories=kind.categories.to_list())
    if kind.is_integer() and column.null_count():
        return pandas.array(column.to_list(), dtype=str(kind))  # UInt64, Int32: pandas has the same names
    if kind == pl.Boolean and column.null_count():
        return pandas.array(column.to_list(), dtype="boolean")
    return column.to_numpy() if kind.is_numeric() or kind == pl.Boolean else column.to_list()


def to_csv(table: pl.DataFrame, path: str | os.PathLike[str]) -> Path:
    """Write the table as CSV, lists as JSON text (null for what is no finite number); returns the path."""
    target = Path(path)
    lists = [name for name, kind in table.schema.items() if isinstance(kind, pl.List | pl.Array)]
    texts = [pl.Series(name, [None if one is None else _json(one) for one in table[name]], pl.String) for name in lists]
    with replacing(destination(target), parents=False) as temporary:
        table.with_columns(texts).write_csv(temporary)
    return target


def _json(values: pl.Series) -> str:
    if values.dtype == pl.Float32:  # as many digits as the number has
        values = pl.Series([float(str(one)) for one in values.to_numpy()])
    floating = values.dtype.is_float()
    return json.dumps([None if one is None or (floating and not math.isfinite(one)) else one for one in values])


# --- xarray -------------------------------------------------------------------------------------------------------


def to_xarray(table: pl.DataFrame, *, curves: bool = True) -> Any:
    """The table as an xarray dataset.

    Dimensions are the fields and labels that tell the trials apart, as few as do: what was swept. A field that follows
    from one of them is a coordinate along it; fields that are the same for all are attributes. Records are variables
    over all dimensions, NaN (or no text) where no trial is; curves have `step` as one more, and keep `curve.` in their
    name where something else has it: `error` is that at the end, `curve.error` that along the way.
    """
    xarray = needed("xarray", "to_xarray")
    trials = table.unique("id", keep="first", maintain_order=True)
    fields = [name for name in trials.columns if name not in RECORDED and not name.startswith(CURVE)]
    varying = [name for name in fields if trials[name].n_unique() > 1]
    axes = _axes(trials, varying)
    labels = {name: _labels(trials[name]) for name in axes}
    sizes = tuple(len(values) for values in labels.values())
    cells = math.prod(sizes)
    require(
        cells <= max(SPARSE * len(trials), MANY_CELLS),
        f"these {len(trials):,} trials are no grid: {' × '.join(axes)} has {cells:,} places; choose some of them, as "
        "in krogh.to_xarray(table.filter(...))",
    )
    places = tuple(
        np.array([where[value] for value in trials[name].to_list()])
        for name, where in ((name, {value: at for at, value in enumerate(labels[name])}) for name in axes)
    )
    coordinates: dict[str, Any] = {name: ((name,), _plain(values)) for name, values in labels.items()}
    variables: dict[str, Any] = {}
    for name in [name for name in varying if name not in axes]:
        leader = next((axis for axis in axes if _follows(trials, name, axis)), None)
        if leader is None:
            variables[name] = (axes, _spread(trials[name], places, sizes))
        else:
            known = dict(trials.select(leader, name).iter_rows())
            coordinates[name] = ((leader,), _plain([known[value] for value in labels[leader]]))
    for name in RECORDED:
        if name in trials.columns:
            variables[name] = (axes, _spread(trials[name], places, sizes))
    if curves and f"{CURVE}step" in trials.columns:
        coordinates["step"], drawn = _curves(trials, places, sizes)
        taken = {*variables, *coordinates}
        for name, values in drawn.items():
            variables[CURVE + name if name in taken else name] = ((*axes, "step"), values)
    constant = {name: trials[name][0] for name in fields if name not in varying} if len(trials) else {}
    return xarray.Dataset(
        variables, coordinates, {name: value for name, value in constant.items() if value is not None}
    )


def _axes(trials: pl.DataFrame, varying: list[str]) -> tuple[str, ...]:
    """As few of the fields as tell all trials apart; of two that do alike the one that comes first, which a label
    does."""
    kept = list(varying)
    require(
        len(trials) <= 1 or trials.select(kept).n_unique() == len(trials),
        "these trials differ in nothing that the table shows: they cannot be laid out by their fields",
    )
    for name in reversed(varying):
        others = [one for one in kept if one != name]
        if others and trials.select(others).n_unique() == len(trials):
            kept = others
    return tuple(kept)


def _labels(column: pl.Series) -> list[Any]:
    """The values of an axis: numbers in their order, texts as they come."""
    values = column.unique(maintain_order=True)
    return (values.sort(nulls_last=True) if values.dtype.is_numeric() else values).to_list()


def _follows(trials: pl.DataFrame, name: str, axis: str) -> bool:
    return trials.select(axis, name).n_unique() == trials[axis].n_unique()


def _plain(values: list[Any]) -> np.ndarray:
    """Values as an array: texts where they are texts, NaN for a number that is missing."""
    if any(isinstance(value, str) for value in values):
        return np.array(["" if value is None else str(value) for value in values])
    return np.array([np.nan if value is None else value for value in values])


def _spread(column: pl.Series, places: tuple[np.ndarray, ...], sizes: tuple[int, ...]) -> np.ndarray:
    """A column of the table as an array over the axes."""
    whole = len(column) == math.prod(sizes) and not column.null_count()
    if column.name == "id":
        values, blank = column.to_numpy(), np.zeros(sizes, np.uint64)
    elif column.dtype.is_numeric() or column.dtype == pl.Boolean:
        values = column.to_numpy() if whole else column.cast(pl.Float64).to_numpy()
        blank = np.zeros(sizes, values.dtype) if whole else np.full(sizes, np.nan)
    else:
        values = _plain(column.cast(pl.String).to_list())
        blank = np.full(sizes, "", values.dtype)
    blank[places] = values if places else values[0]
    return blank


def _curves(
    trials: pl.DataFrame, places: tuple[np.ndarray, ...], sizes: tuple[int, ...]
) -> tuple[tuple[tuple[str], np.ndarray], dict[str, np.ndarray]]:
    """All steps at which some trial was looked at, and each measurement over the axes and these steps."""
    looked = trials[f"{CURVE}step"]
    steps = looked.explode().drop_nulls().unique().sort().to_numpy()
    names = [name for name in trials.columns if name.startswith(CURVE) and name != f"{CURVE}step"]
    numbers = math.prod(sizes) * len(steps) * len(names)
    require(
        numbers <= MOST_NUMBERS,
        f"{len(names)} curves at {len(steps):,} different steps of {len(trials):,} trials are {numbers:,} numbers; say "
        "curves=False, or choose some trials",
    )
    at = [None if own is None else np.searchsorted(steps, own.to_numpy()) for own in looked]
    found = {}
    for name in names:
        rows = np.full((len(trials), len(steps)), np.nan, np.float32)
        for row, (where, values) in enumerate(zip(at, trials[name], strict=True)):
            if where is not None and values is not None:
                rows[row, where] = values.to_numpy()
        spread = np.full((*sizes, len(steps)), np.nan, np.float32)
        spread[places] = rows if places else rows[0]
        found[name.removeprefix(CURVE)] = spread
    return (("step",), steps), found


def needed(module: str, what: str) -> Any:
    """A module of the extra `frames`."""
    try:
        return importlib.import_module(module)
    except ImportError:
        raise KroghError(f"{what} needs {module}: pip install 'krogh[frames]'") from None
