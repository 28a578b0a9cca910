"""Tables of data: rows of numbers with one of two labels (dissertation, sections 6.4.2 and C.3.3).

`Rows` is a table with its provenance; where tables come from stands in `table_sources.py`. `Table` is the task of
learning one: the rows are held once, and what a trial draws are row numbers.

The protocol of the source, for a table of N rows and a split that is one number:

    order        a permutation of all rows, decided by the split alone
    test         the first 10% of the order
    training     the next m rows, of the 90% that are left
    validation   rows that follow a trial's training rows, where it is judged for a choice and not for a result

So trials with equal splits have the same rows, whatever learns from them; a test row is never a training row; and a
choice that is made on validation rows has not seen the test rows.

Features are standardised to mean 0 and deviation 1: over the whole table as the source reads, or with
`standardise="train"` by the training rows alone. Constant columns are divided by 1.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, PRNGKeyArray, UInt32

from krogh.errors import KroghError, require, require_integer, unknown
from krogh.tasks.base import Examples, Task, task
from krogh.tasks.bits import shuffled
from krogh.tasks.system import System
from krogh.values import AnyArray, Shared, data, structure, traced

TEST_SHARE = 0.1
FEWEST_ROWS = 20
PARTS = ("test", "validation")
STANDARDISED = ("whole", "train")
SHOWN = 5


class Rows(Shared):
    """A table: features x [rows, d] and labels ±1, with its name, its columns, and where it is from.

    `classes` are the labels as they were given, that of -1 first. `checksum` is of the numbers as they were given.
    """

    def __init__(
        self, name: str, x: np.ndarray, y: np.ndarray, columns: Sequence[str], source: str, classes: Sequence[Any]
    ):
        super().__init__(f"{name} from {source}", {"x": np.asarray(x, np.float64), "y": np.asarray(y, np.float32)})
        self.title, self.source = name, source
        self.columns, self.classes = tuple(map(str, columns)), tuple(classes)
        self.raw = self.arrays["x"]
        self.arrays = {"x": standardised(self.raw), "y": self.arrays["y"]}  # on a device half of the bytes will do

    def __len__(self) -> int:
        return len(self.raw)

    @property
    def d(self) -> int:
        """How many features a row has."""
        return self.raw.shape[1]

    @property
    def test_rows(self) -> int:
        """How many rows are held out as test rows."""
        return max(1, round(TEST_SHARE * len(self)))

    @property
    def pool(self) -> int:
        """How many rows may be trained on."""
        return len(self) - self.test_rows

    @property
    def majority(self) -> float:
        """The share of the more frequent label: what guessing achieves."""
        up = float(np.mean(self.arrays["y"] > 0))
        return max(up, 1 - up)


def standardised(x: Float[np.ndarray, "rows d"]) -> Float[np.ndarray, "rows d"]:
    """Every column with mean 0 and deviation 1; a constant one is 0 everywhere."""
    centre, spread = x.mean(axis=0), x.std(axis=0)
    constant = np.ptp(x, axis=0) == 0  # rounding may leave a deviation that is not quite 0
    return np.where(constant[None, :], 0.0, (x - centre) / np.where(constant, 1.0, spread)).astype(np.float32)


def rows_of(frame: Any, *, target: str | None = None, name: str = "table", source: str = "memory") -> Rows:
    """A data frame (Polars or pandas, or a dictionary of columns) as `Rows`; `target` is the last column unless given.

    Every feature must be a number, none missing, and the target must have two values. The larger one is +1.
    """
    columns = [str(column) for column in (frame.keys() if isinstance(frame, dict) else frame.columns)]
    where = f"the table {name!r}"
    require(len(columns) >= 2, f"{where} needs features and a target; got the columns {columns}")
    repeated = sorted({column for column in columns if columns.count(column) > 1})
    require(not repeated, f"{where} names columns twice: {', '.join(repeated)}")
    goal = columns[-1] if target is None else target
    if goal not in columns:
        raise unknown(f"target column of {where}", goal, columns)
    features = [column for column in columns if column != goal]
    arrays = {column: np.asarray(frame[column]) for column in features}
    _check_numbers(where, arrays)
    labels, classes = _signs(where, goal, np.asarray(frame[goal]))
    count = len(labels)
    require(
        count >= FEWEST_ROWS,
        f"{where} has {count} rows; a split into 10% test and 90% training rows needs at least {FEWEST_ROWS}",
    )
    x = np.stack([arrays[column].astype(np.float64) for column in features], axis=1)
    return Rows(name, x, labels, features, source, classes)


def _check_numbers(where: str, arrays: dict[str, np.ndarray]) -> None:
    words = [column for column, array in arrays.items() if array.dtype.kind not in "iufb"]
    shown = ", ".join(f"{column} ({_first_word(arrays[column])})" for column in words[:SHOWN])
    more = f" and {len(words) - SHOWN} more" if len(words) > SHOWN else ""
    require(not words, f"{where} has columns that are no numbers: {shown}{more}; leave them out, or code them")
    lacking = {column: int(np.sum(~np.isfinite(array.astype(np.float64)))) for column, array in arrays.items()}
    lacking = {column: count for column, count in lacking.items() if count}
    shown = ", ".join(f"{column} ({count})" for column, count in list(lacking.items())[:SHOWN])
    more = f" and {len(lacking) - SHOWN} more columns" if len(lacking) > SHOWN else ""
    require(not lacking, f"{where} has missing or infinite values in {shown}{more}; fill them in or drop those rows")


def _first_word(array: np.ndarray) -> str:
    for entry in array.tolist():
        try:
            float(entry)
        except (TypeError, ValueError):
            return "missing" if entry is None else f"e.g. {entry!r}"
    return f"of type {array.dtype}"


def _signs(where: str, target: str, given: np.ndarray) -> tuple[np.ndarray, list[Any]]:
    entries = given.tolist()
    missing = sum(entry is None or entry != entry for entry in entries)
    require(not missing, f"{where}: the target {target!r} is missing in {missing} rows")
    classes = sorted(set(entries), key=lambda entry: (isinstance(entry, str), entry))
    shown = ", ".join(f"{entry!r} ({entries.count(entry)} rows)" for entry in classes[:SHOWN])
    more = f" and {len(classes) - SHOWN} more" if len(classes) > SHOWN else ""
    require(
        len(classes) == 2,
        f"{where}: the target {target!r} must have two values; got {len(classes)}: {shown}{more}"
        + (" (is it the right column? its last one is the target unless another is named)" if len(classes) > 2 else ""),
    )
    return np.where(np.array([entry == classes[1] for entry in entries]), 1.0, -1.0).astype(np.float32), classes


def balanced(rows: Rows) -> Rows:
    """The table with as many rows of either label, as the benchmark has it: of the larger class a random subset, the
    same whenever the table is, in the table's order."""
    y = rows.arrays["y"]
    up, down = np.flatnonzero(y > 0), np.flatnonzero(y < 0)
    fewer = min(len(up), len(down))
    random = np.random.default_rng(0)
    kept = np.sort(np.concatenate([random.permutation(part)[:fewer] for part in (down, up)]))
    return Rows(rows.title, rows.raw[kept], y[kept], rows.columns, rows.source, rows.classes)


def parity_rows(count: int = 2000, n: int = 10, k: int = 2, seed: int = 0) -> Rows:
    """A table without data: n standard normal columns, y = ∏_{i<k} sign x_i.

    As the source says of real tables (6.4.2), it is not rotation invariant, most features say nothing, and the target
    is not smooth.
    """
    require_integer("count", count, FEWEST_ROWS)
    require_integer("n", n, 1)
    require_integer("k", k, 1, n)
    x = np.random.default_rng(seed).normal(size=(count, n))
    y = np.sign(x[:, :k]).prod(axis=1)
    columns = [f"x{place}" for place in range(n)]
    return Rows(f"parity-{n}-{k}", x, y, columns, f"normal columns, seed {seed}", (-1, 1))


@functools.lru_cache(maxsize=64)
def _orderer(size: int) -> Any:
    return jax.jit(lambda split, first, count: _ordered(split, first + jnp.arange(size, dtype=jnp.int32), count))


def _ordered(split: Any, position: Any, count: Any) -> Int[Array, "*shape"]:
    """The row at a position of the order that `split` decides."""
    zero = jnp.zeros(position.shape, jnp.uint32)
    key = jax.random.key(jnp.asarray(split, jnp.uint32))
    return shuffled(key, zero, position.astype(jnp.uint32), jnp.asarray(count, jnp.uint32))


@functools.lru_cache(maxsize=4096)
def _statistics(rows: Rows, split: int, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Mean and deviation of the training rows' features, as these stand in `rows`."""
    chosen = np.asarray(_orderer(count)(np.uint32(split), np.int32(rows.test_rows), np.uint32(len(rows))))
    x = rows.arrays["x"][chosen].astype(np.float64)
    spread = np.where(np.ptp(x, axis=0) == 0, 1.0, x.std(axis=0))
    return x.mean(axis=0).astype(np.float32), spread.astype(np.float32)


@task("table")
class Table(Task):
    """Learning the rows of a table, by the protocol above. Raw examples are row numbers.

    `train_rows` is the m of the trial's regime where the task must know it: where it is judged on the validation rows
    behind its training rows, and where these decide the standardisation.
    """

    rows: Rows = structure()
    split: UInt32[AnyArray, ""] = data(np.uint32)
    train_rows: Int[AnyArray, ""] = data(np.int32)
    judged: str = structure()
    standardise: str = structure()
    centre: Float[AnyArray, " d"] | None = data(optional=True, internal=True)
    spread: Float[AnyArray, " d"] | None = data(optional=True, internal=True)

    system = System(
        knobs={
            "rows": "the table: real data, or a parity among normal columns",
            "split": "which rows are trained on and which are held out",
            "train_rows": "how many rows are trained on",
            "judged": "whether a trial is judged for a choice or for a result",
            "standardise": "whose mean and deviation features are given",
        },
        baselines=("guessing_accuracy",),
        phenomena={
            "width as a parallel lottery": ("tabular/width",),
            "sparse starts are luckier": ("tabular/width",),
            "networks beside trees on tables": ("tabular/forests", "tabular/sets"),
        },
    )

    def __init__(
        self,
        rows: Any,
        split: Any = 0,
        train_rows: Any = 0,
        judged: str = "test",
        standardise: str = "whole",
        centre: Any = None,
        spread: Any = None,
    ):
        is_table = isinstance(rows, Rows)
        require(is_table, f"a table task needs rows, as `rows_of` makes them; got a {type(rows).__name__}")
        for kind, given, allowed in (("judged", judged, PARTS), ("standardise", standardise, STANDARDISED)):
            if given not in allowed:
                raise unknown(kind, given, allowed)
        self.rows, self.split, self.train_rows = rows, split, train_rows
        self.judged, self.standardise = judged, standardise
        if standardise == "train" and not traced(split) and not traced(train_rows):
            require_integer("train_rows", int(np.asarray(train_rows)), 1, rows.pool)
            centre, spread = _statistics(rows, int(np.asarray(split)), int(np.asarray(train_rows)))
        self.centre, self.spread = (centre, spread) if standardise == "train" else (None, None)

    def __check_init__(self) -> None:
        if traced(self.train_rows):
            return
        told = self.judged == "test" or int(np.asarray(self.train_rows)) > 0
        require(told, "to be judged on validation rows a task must know its training rows: give train_rows=m")

    @property
    def input_shape(self) -> tuple[int, ...]:
        return (self.rows.d,)

    def row(self, position: Int[AnyArray, "*shape"]) -> Int[Array, "*shape"]:
        """The row at a position of the split's order: first the test rows, then those to train on."""
        return _ordered(self.split, jnp.asarray(position), len(self.rows))

    def draw(self, key: PRNGKeyArray, size: int) -> Int[Array, " size"]:
        """Rows to train on, with replacement."""
        position = jax.random.bits(key, (size,), jnp.uint32) % jnp.uint32(self.rows.pool)
        return self.row(self.rows.test_rows + position.astype(jnp.int32))

    def dataset(self, key: PRNGKeyArray, size: int, m: Int[AnyArray, ""] | int) -> Int[Array, " size"]:
        """The first rows of those to train on: the split decides, and not the key."""
        position = self.rows.test_rows + jnp.arange(size, dtype=jnp.int32)
        return self.row(jnp.minimum(position, len(self.rows) - 1))

    def test(self, key: PRNGKeyArray, size: int) -> Int[Array, " size"]:
        """The first test rows, or the validation rows behind the training rows."""
        self.check_test(size)
        position = jnp.arange(size, dtype=jnp.int32)
        behind = self.rows.test_rows + jnp.asarray(self.train_rows)
        return self.row(position if self.judged == "test" else behind + position)

    def decode(self, raw: Int[AnyArray, " size"]) -> Examples:
        x = jnp.take(self.rows["x"], raw, axis=0)
        y = jnp.take(self.rows["y"], raw, axis=0)
        if self.centre is not None and self.spread is not None:
            x = (x - jnp.asarray(self.centre)[None, :]) / jnp.asarray(self.spread)[None, :]
        return Examples(x, y, y)

    def error(self, prediction: Float[Array, " size"], truth: Float[Array, " size"]) -> Float[Array, " size"]:
        """1 unless the prediction has the label's sign: 0 is an error."""
        return 1.0 - (prediction * truth > 0).astype(jnp.float32)

    def check_sample(self, m: Any) -> None:
        if traced(m) or traced(self.train_rows):
            return
        size, known = int(np.max(np.asarray(m))), np.asarray(self.train_rows)
        require(
            size <= self.rows.pool,
            f"{self.rows.title} has {len(self.rows)} rows, {self.rows.pool} of which may be trained on; got m={size}",
        )
        agree = bool(np.all((known == 0) | (known == np.asarray(m))))
        require(agree, f"train_rows must be the regime's m={size}, or 0; got train_rows={known.tolist()}")

    def check_test(self, size: int) -> None:
        used = 0 if traced(self.train_rows) else int(np.min(np.asarray(self.train_rows)))
        there = self.rows.test_rows if self.judged == "test" else self.rows.pool - used
        if size > there:
            raise KroghError(
                f"{self.rows.title} has {there} {self.judged} rows; a trial cannot be judged on validation={size} rows"
            )

    def baselines(self) -> dict[str, float]:
        return {"guessing_accuracy": self.rows.majority}

    @classmethod
    def example(cls) -> Table:
        return cls(parity_rows(count=1000, n=6, k=2))
