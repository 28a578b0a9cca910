"""What the two grids of chapter 5 share: cells, each trained at several rates, and judged at its best one.

A cell is an instance (n, k), a batch size, an architecture, an initialisation and a loss. Its best rate is the one at
which most seeds converge, and among equals the one whose fastest tenth is fastest (§5.3.1, §B.3).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from krogh.engine import Trial, Trials, sweep
from krogh.errors import require
from krogh.experiments.parity.common import CHECK_EVERY, OnlineSettings
from krogh.lab import Claims, Estimate, figures, groups, maximum, need, quantile, rate, setting, times_of
from krogh.lab.charts import Panel
from krogh.lab.estimate import drawn, unknown_estimate
from krogh.models import configuration
from krogh.models.configurations import CONFIGURATIONS
from krogh.tasks import Parity
from krogh.training import Online, Sgd, Stopping, Training

CELL = ("configuration", "n", "k", "batch_size", "initialiser", "loss")
STARRED = ("*i", "*ii")
TRAINED = ("i", "ii", "iv", "v", "vii", "viii", "ix", "x", "xi", "xii", "xiii", "xiv", "xv", *STARRED)
"""All but width 1000 and the transformer, which cost more than all others together; both may be asked for."""
POSITIVE = 0.2
"""The source's "positive result": so many of the seeds converge, at some rate."""
MOST = 0.9
STARRED_FROM = 16
"""The batch size from which on the starred configurations are claimed to be as robust as the others."""
FEWEST = 5  # seeds per rate: if all of them converge, the share is above 20% beyond doubt


@dataclass(frozen=True)
class GridSettings(OnlineSettings):
    """Which cells, at which rates."""

    ns: tuple[int, ...] = setting((10, 20, 30), "input bits", increasing=True, least=1)
    ks: tuple[int, ...] = setting((2, 3, 4), "relevant bits", increasing=True, least=1)
    batch_sizes: tuple[int, ...] = setting(
        (1, 4, 16, 64, 256, 1024), "fresh examples per step", increasing=True, least=1
    )
    configurations: tuple[str, ...] = setting(
        TRAINED, "architectures, by the source's numerals", distinct=True, among=[*CONFIGURATIONS]
    )
    rates: tuple[float, ...] = setting((0.001, 0.01, 0.1, 1.0), "learning rates, the best of which counts", above=0)
    seeds: int = setting(25, "trials per cell and rate", least=1)
    validation: int = setting(8192, "validation examples, all of which must be right", least=1)


def check_grid(settings: GridSettings) -> None:
    smallest, largest = settings.ns[0], settings.ks[-1]
    require(smallest >= largest, f"every n must be at least every k; got n={smallest}, k={largest}")
    sgd = "*iii" not in settings.configurations
    require(sgd, "the Parity Transformer (*iii) is trained by Adam at rates of its own: see parity/gallery")


def grid_trials(settings: GridSettings, initialiser: str, loss: str) -> Iterator[Trials]:
    """All cells of one initialisation and one loss, at all rates."""
    stopping = Stopping(budget=settings.budget, validation=settings.validation, check_every=CHECK_EVERY)
    sizes = itertools.product(settings.configurations, settings.ns, settings.ks, settings.batch_sizes)
    for name, n, k, batch_size in sizes:
        training = Training(Sgd(settings.rates[0]), Online(batch_size), stopping, loss)
        trial = Trial(Parity(n, k), configuration(name, k, initialiser), training)
        label: dict[str, Any] = dict(zip(CELL, (name, n, k, batch_size, initialiser, loss), strict=True))
        seeds = range(settings.seeds)
        yield from sweep(trial, training__optimiser__rate=settings.rates, seed=seeds, label=label)


def rates_of(table: pl.DataFrame) -> pl.DataFrame:
    """By cell and rate: how many seeds converged, and the 10% quantile of their times (∞ if fewer did)."""
    rows = []
    for (*cell, eta), own in groups(table, (*CELL, "training.optimiser.rate")).items():
        times = times_of(own)
        counts = {"rate": eta, "successes": int(np.isfinite(times).sum()), "seeds": len(own)}
        rows.append(dict(zip(CELL, cell, strict=True)) | counts | {"p10": quantile(times, 0.1)})
    return pl.DataFrame(rows)


def best_of(rates: pl.DataFrame) -> pl.DataFrame:
    """Every cell at its best rate, in the order of the table."""
    ordered = rates.sort("successes", "p10", "rate", descending=[True, False, False], maintain_order=True)
    best = ordered.unique(CELL, keep="first", maintain_order=True)
    order = rates.select(CELL).unique(maintain_order=True)
    return order.join(best, on=CELL, how="left", maintain_order="left").with_columns(
        share=pl.col("successes") / pl.col("seeds")
    )


def share_of_cells(rates: pl.DataFrame, wanted: float = POSITIVE) -> Estimate:
    """The share of cells in which, at some rate, at least the `wanted` share of all seeds would converge.

    The interval holds the luck of the seeds: in each draw a cell counts if the success rate that is drawn for its best
    rate suffices, with the allowance of `maximum` for having chosen among several.
    """
    least, most = [], []
    samples: dict[str, int] = {}
    for cell, own in groups(rates, CELL).items():
        name = ", ".join(map(str, cell))
        found = own.select("rate", "successes", "seeds").iter_rows()
        best = maximum([rate(hits, seeds, sample=f"{name}, {eta}") for eta, hits, seeds in found])
        least.append(best.least >= wanted)
        most.append(best.most >= wanted)
        samples |= best.samples
    if not samples:
        return unknown_estimate("there is no such cell")
    value = float((best_of(rates)["share"] >= wanted).mean())  # type: ignore[arg-type]
    rule = f"Clopper–Pearson in each of {len(least)} cells"
    ends = (np.mean(flags, axis=0) for flags in (least, most))
    low, high = ends
    return drawn(value, np.minimum(low, value), samples, rule, most=np.maximum(high, value))


def whose(settings: GridSettings) -> str:
    """The architectures that a claim is about, those without a star: all that are trained unless asked, or by name."""
    plain = [name for name in settings.configurations if name not in STARRED]
    return "(i)–(xv)" if {*TRAINED} - {*STARRED} <= {*plain} else ", ".join(f"({name})" for name in plain)


def say_robust(say: Claims, rates: pl.DataFrame, settings: GridSettings) -> None:
    """Empirical Finding 5.1 on the cells of a table."""
    starred, small = pl.col("configuration").is_in(STARRED), pl.col("batch_size") < STARRED_FROM
    some = f"at some rate {POSITIVE:.0%} of the seeds converge within {settings.budget:,} steps"
    statistic = f"share of cells with at least {POSITIVE:.0%} success"
    say = say.about(needs=[need(settings.seeds, FEWEST, "seeds per cell and rate")])
    for prefix, owners, cells in (
        ("", whose(settings), rates.filter(~starred)),
        ("starred-", f"starred configurations, B ≥ {STARRED_FROM}", rates.filter(starred & ~small)),
    ):
        if cells.is_empty():
            continue
        count, share = cells.n_unique(CELL), share_of_cells(cells)
        for name, words, least in (("every", "every one", 1.0), ("most", "nearly all", MOST)):
            statement = f"{owners}: in {words} of {count} cells {some}."
            say(f"{prefix}{name}", statement, share, statistic, at_least=least, source_value="all cells")
    few = rates.filter(starred & small)
    if not few.is_empty():
        say(
            "starred-need-batches",
            f"Starred configurations, B < {STARRED_FROM}: the same does not hold in all of {few.n_unique(CELL)} cells.",
            share_of_cells(few),
            statistic,
            below=1.0,
            source_value=f"only for B ≥ {STARRED_FROM}",
        )


# --- how grids look -----------------------------------------------------------------------------------------------


def draw_table(
    panel: Panel,
    values: np.ndarray,
    rows: Sequence[str],
    columns: Sequence[Any],
    write: Callable[[float], str],
    *,
    low: float,
    high: float,
    colors: str = "Blues",
    texts: np.ndarray | None = None,
    marked: np.ndarray | None = None,
) -> None:
    """A table of numbers as a picture: shade and text in every field, a frame around those that are marked."""
    from matplotlib.patches import Rectangle

    ax = panel.ax
    ax.grid(False)
    shown = np.where(np.isfinite(values), values, np.nan)
    ax.imshow(shown, cmap=colors, vmin=low, vmax=high, aspect="auto")
    for (row, column), value in np.ndenumerate(values):
        text = write(value) if texts is None else texts[row, column]
        dark = math.isfinite(value) and (value - low) / (high - low) > 0.6
        shade = figures.LIGHT if dark else figures.DARK if math.isfinite(value) else figures.INK
        ax.text(column, row, text, ha="center", va="center", fontsize=6.5, color=shade)
        if marked is not None and marked[row, column]:
            frame: dict[str, Any] = {"fill": False, "edgecolor": figures.VERMILLION, "linewidth": 1.4}
            ax.add_patch(Rectangle((column - 0.47, row - 0.47), 0.94, 0.94, **frame))
    ax.set_xticks(range(len(columns)), [str(column) for column in columns], fontsize=8)
    ax.set_yticks(range(len(rows)), rows, fontsize=8)
    ax.tick_params(length=0)


def percent(value: float) -> str:
    return "" if math.isnan(value) else f"{100 * value:.0f}"


def pivoted(
    table: pl.DataFrame, rows: Sequence[Any], columns: Sequence[Any], by: tuple[str, str], of: str
) -> np.ndarray:
    """The values of a column as an array over two others; NaN where there is none."""
    found = {(row, column): value for row, column, value in table.select(*by, of).iter_rows()}
    return np.array([[found.get((row, column), math.nan) for column in columns] for row in rows], float)
