"""What experiments on tables share: the protocol of section C.3.3, errors read off a study, and Table C.2.

Of a table's rows 10% are test rows and a fraction of the others is trained on; both are drawn anew for every split. A
choice (of a width, of a forest's depth) is made on a fifth of the training rows, set aside as validation rows: each
candidate is trained once without them, to be judged on them, and once on all training rows, to be judged on the test
rows. The source chooses on the test rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import polars as pl

from krogh.engine import Trial, Trials, stack
from krogh.errors import require
from krogh.lab import Estimate, Results, mean, setting
from krogh.models import Model
from krogh.models.base import Learner
from krogh.tasks import Rows, Table, find_tables
from krogh.tasks.table_sources import OFFLINE
from krogh.training import Adam, Epochs, FullBatch, Optimiser, Regime, Sgd, Stopping, Training

FRACTIONS = (
    0.0001,
    0.0002,
    0.0003,
    0.0006,
    0.001,
    0.002,
    0.003,
    0.006,
    0.01,
    0.02,
    0.03,
    0.06,
    0.1,
    0.2,
    0.3,
    0.6,
    1.0,
)
VALIDATION_SHARE = 5  # one in so many training rows
FEWEST_ROWS = 2
FEWEST_SPLITS = 8
POINTS = 100.0

PRINTED = {  # median test error in %: networks on all rows, 10%, 1%, then forests (Table C.2)
    "credit": (24.5, 27.8, 34.2, 22.0, 22.9, 24.8),
    "electricity": (18.9, 23.2, 25.1, 15.4, 18.0, 23.0),
    "covertype": (6.3, 13.7, 23.2, 19.1, 18.9, 21.4),
    "pol": (1.4, 4.2, 12.3, 2.1, 4.0, 10.0),
    "house_16H": (12.7, 14.9, 20.0, 12.4, 13.9, 17.4),
    "MagicTelescope": (14.6, 16.5, 23.1, 14.8, 16.8, 21.9),
    "bank-marketing": (20.2, 21.8, 25.9, 19.7, 21.1, 25.2),
    "MiniBooNE": (7.2, 10.0, 14.4, 7.7, 8.6, 10.5),
    "Higgs": (26.1, 28.7, 33.7, 28.5, 28.7, 29.9),
    "eye_movements": (39.9, 43.9, 46.3, 35.8, 43.0, 47.8),
    "Diabetes130US": (39.1, 39.3, 40.7, 39.1, 39.4, 40.6),
    "jannis": (23.0, 26.1, 28.7, 22.0, 23.8, 27.2),
    "default-of-credit-card-clients": (28.7, 30.1, 33.5, 28.2, 29.2, 31.9),
    "Bioresponse": (19.5, 28.9, 37.6, 22.2, 29.2, 39.8),
    "california": (12.2, 14.8, 20.8, 11.2, 13.8, 18.4),
    "heloc": (27.1, 28.0, 31.3, 27.8, 28.6, 31.0),
}
PLACES = {1.0: 0, 0.1: 1, 0.01: 2}


def printed(name: str, learner: str, fraction: float, source: str) -> float | None:
    """The number of Table C.2, where it is about the same rows; None where it is not, or there is none.

    Of the sets inside packages only `magic` has the benchmark's rows; its `california` has 14,064 of 20,640.
    """
    same = "MagicTelescope" if name == "magic" else name if source.startswith("OpenML") else ""
    if same not in PRINTED or fraction not in PLACES:
        return None
    return PRINTED[same][PLACES[fraction] + (3 if learner == "forest" else 0)]


@dataclass(frozen=True)
class TableSettings:
    """Which tables, how they are split, and how networks are trained on them."""

    data: tuple[str, ...] = setting((OFFLINE,), "tables: CSV files, folders of them, names", distinct=True)
    target: str = setting("", "the target column of CSV files; the last one unless given")
    fractions: tuple[float, ...] = setting(FRACTIONS, "shares of the rows that may be trained on", above=0, most=1)
    splits: int = setting(100, "splits into test and training rows", least=1)
    standardise: Literal["whole", "train"] = setting("whole", "by the whole table (the source), or by training rows")
    optimiser: Literal["sgd", "adam"] = setting("sgd", "how networks are trained")
    loss: Literal["hinge", "logistic"] = setting("hinge", "what training makes small")
    rate: float = setting(1e-3, "learning rate", above=0)
    batch_size: int = setting(256, "rows per step", least=1)
    epochs: int = setting(100, "passes through the training rows", least=1)

    def tables(self) -> list[Rows]:
        return find_tables(self.data, target=self.target or None)

    def training(self, regime: Regime, judged_on: int, decay: float = 0.0) -> Training:
        """All epochs, judged at their end; a library's weight decay, multiplied by the rate."""
        steps = regime.steps(self.epochs) if isinstance(regime, Epochs) else self.epochs
        stopping = Stopping(budget=steps, check_every=self.epochs, validation=judged_on, early=False)
        chosen: Optimiser
        if self.optimiser == "sgd":
            chosen = Sgd(self.rate, decay=self.rate * decay)
        else:
            chosen = Adam(self.rate, decay=decay)
        return Training(chosen, regime, stopping, self.loss)


def sizes_of(rows: Rows, fractions: tuple[float, ...]) -> dict[int, float]:
    """Training rows m of each fraction, as far as there are two of them; no two alike once validation rows are out."""
    found: dict[int, float] = {}
    for fraction in sorted(fractions):
        m = round(fraction * rows.pool)
        if m >= FEWEST_ROWS and fitted_on(m) not in map(fitted_on, found):
            found[m] = fraction
    require(found, f"{rows.title} has {rows.pool} rows to train on; none of the fractions {fractions} leaves two")
    return found


def fitted_on(m: int) -> int:
    """How many of m training rows are left when the validation rows are set aside."""
    return m - max(1, m // VALIDATION_SHARE)


def trial_on(
    rows: Rows, m: int, model: Model, settings: TableSettings, *, judged: str = "test", split: int = 0, decay: float = 0
) -> Trial:
    """A trial with m training rows, judged on the test rows, or on the last fifth of the training rows."""
    used = m if judged == "test" else fitted_on(m)
    known = used if judged == "validation" or settings.standardise == "train" else 0
    task = Table(rows, split, known, judged, settings.standardise)
    regime: Regime = FullBatch(used) if isinstance(model, Learner) else Epochs(used, settings.batch_size)
    judged_on = rows.test_rows if judged == "test" else m - used
    return Trial(task, model, settings.training(regime, judged_on, decay), seed=split)


def cohorts_on(
    rows: Rows,
    model: Model,
    settings: TableSettings,
    label: Mapping[str, str | int | float],
    *,
    judged: str = "test",
    decay: float = 0,
) -> Iterator[Trials]:
    """Every size and every split of a table; the split is the trial's seed, so that all learners have the same rows."""
    sizes, about = sizes_of(rows, settings.fractions), {"set": rows.title, "source": rows.source, **label}

    def trial(m: int, split: int = 0) -> Trial:
        return trial_on(rows, m, model, settings, judged=judged, split=split, decay=decay)

    if settings.standardise == "train":  # the statistics of a split are its own
        yield from (
            cohort.labelled(**about) for cohort in stack(trial(m, s) for m in sizes for s in range(settings.splits))
        )
    else:
        for cohort in stack(trial(m) for m in sizes):
            yield cohort.seeded(range(settings.splits), ("task.split",)).labelled(**about)


def errors_on(results: Results[Any], labels: tuple[str, ...]) -> pl.DataFrame:
    """One row per trial: set, source, labels, what it was judged on, training rows m, fraction, split, error in %.

    A network that diverged is wrong everywhere.
    """
    settings: TableSettings = results.settings
    known = [
        {
            "set": rows.title,
            "task.judged": judged,
            "used": m if judged == "test" else fitted_on(m),
            "m": m,
            "fraction": f,
        }
        for rows in settings.tables()
        for m, f in sizes_of(rows, settings.fractions).items()
        for judged in ("test", "validation")
    ]
    sizes = pl.DataFrame(known).with_columns(pl.col("used").cast(pl.Int32))
    chosen = ("set", "source", *labels, "task.judged", "training.regime.m", "task.split", "error")
    trials = results.records.select(chosen).collect().rename({"training.regime.m": "used"})
    joined = trials.join(sizes, on=["set", "task.judged", "used"], how="left", maintain_order="left")
    error = pl.col("error").cast(pl.Float64).fill_nan(1.0).fill_null(1.0) * POINTS
    return (
        joined.with_columns(error.alias("error")).rename({"task.judged": "judged", "task.split": "split"}).drop("used")
    )


def advantage(errors: pl.DataFrame, column: str, worse: object, better: object, *, sample: str) -> Estimate:
    """error(worse) - error(better) in points, of trials that differ in `column` alone; the mean over splits.

    All means over the splits of one table have the same `sample`, so that their differences are paired.
    """
    keys = [name for name in errors.columns if name not in (column, "error")]
    both = errors.filter(pl.col(column) == worse).join(errors.filter(pl.col(column) == better), on=keys, suffix="_2")
    by_split = both.group_by("split").agg((pl.col("error") - pl.col("error_2")).mean().alias("apart")).sort("split")
    return mean(by_split["apart"].to_numpy(), sample=sample)
