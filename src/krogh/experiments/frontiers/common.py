"""What experiments of chapter 6 share: a parity learned from m examples by minibatch SGD with weight decay (§C.3.1).

Hinge loss, batches of 32, rate 0.1, decay 0.01 coupled to the rate (every step multiplies all parameters by 0.999), up
to 10^5 steps. A trial succeeds when at some check at most 10% of 10^4 test examples are wrong. Online training, a fresh
batch in every step, stands beside the sample sizes as m = ∞. Batches of a finite sample run through shuffled epochs;
the source does not say how they are drawn.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from krogh.engine import Trial, Trials, sweep
from krogh.errors import require
from krogh.lab import Estimate, rate, setting
from krogh.lab.charts import Panel
from krogh.lab.figures import VERMILLION, direct_label, rate_map
from krogh.lab.sample_complexity import crossing
from krogh.models import Mlp
from krogh.tasks import Parity
from krogh.training import Offline, Online, Sgd, Stopping, Training

ONLINE = math.inf
"""The sample size of online training in tables and charts."""
BITS, RELEVANT, START, WIDTH, SIZE = "task.n", "task.k", "model.sparsity", "model.width", "training.regime.m"
FEWEST_SEEDS = 15  # of fewer trials a rate of 0 and one of 1 are not a quarter apart from those of one half

Row = dict[float, tuple[int, int]]  # {m: (successes, trials)}
Panels = dict[tuple[int, int, int], dict[int, Row]]  # {(n, k, sparsity): {width: {m: (successes, trials)}}}

NOTES = (
    "Batches of a finite sample run through shuffled epochs; the source does not say how they are drawn.",
    "The source does not state the loss of its sweeps; it is the hinge, as in its sister experiments (§B.4.1).",
    "Success is looked for every `check_every` steps: convergence times are rounded up to these.",
)


@dataclass(frozen=True)
class SgdSettings:
    """How networks are trained and when they have succeeded."""

    budget: int = setting(100_000, "steps after which a trial has failed", least=1)
    check_every: int = setting(200, "steps between two checks", least=1)
    test: int = setting(10_000, "test examples", least=1)
    error: float = setting(0.1, "largest test error that is a success", above=0, below=0.5)
    batch_size: int = setting(32, "examples per step", least=1)
    rate: float = setting(0.1, "learning rate", above=0)
    decay: float = setting(0.01, "weight decay, coupled to the rate", least=0)

    def training(self, m: float, **stopping: Any) -> Training:
        """Training on m examples, or on fresh ones where m is infinite; options are those of `Stopping`."""
        regime = Online(self.batch_size) if math.isinf(m) else Offline(int(m), self.batch_size)
        rule = {"budget": self.budget, "check_every": self.check_every, "validation": self.test, **stopping}
        optimiser = Sgd(self.rate, decay=self.rate * self.decay)
        return Training(optimiser, regime, Stopping(error=self.error, **rule), loss="hinge")

    def trial(self, n: int, k: int, m: float, width: int, sparsity: int, **options: Any) -> Trial:
        """One network on the (n,k)-parity; options are those of `Trial`."""
        network = Mlp(width, output_bias=True, sparsity=sparsity)
        return Trial(Parity(n, k), network, self.training(m), **options)

    def over_sizes(
        self,
        n: int,
        k: int,
        width: int,
        sparsity: int,
        sizes: Sequence[int],
        *,
        online: bool,
        seeds: int,
        **options: Any,
    ) -> Iterator[Trials]:
        """Such networks at every sample size, in cohorts of sizes within a factor of ten, and `online`."""
        for rung in rungs(sizes):
            trial = self.trial(n, k, rung[0], width, sparsity, **options)
            yield from sweep(trial, training__regime__m=rung, seed=range(seeds))
        if online:
            yield from sweep(self.trial(n, k, ONLINE, width, sparsity, **options), seed=range(seeds))

    @property
    def seen(self) -> float:
        """How many examples online training sees in all."""
        return float(self.budget * self.batch_size)


def rungs(sizes: Sequence[int], factor: float = 10) -> list[list[int]]:
    """Ascending sizes in groups within a factor: a cohort keeps room for its largest sample in every slot."""
    groups: list[list[int]] = []
    for size in sorted(sizes):
        if groups and size < factor * groups[-1][0]:
            groups[-1].append(size)
        else:
            groups.append([size])
    return groups


def require_parities(ns: Sequence[int], ks: Sequence[int]) -> None:
    require(min(ns) >= max(ks), f"every n must be at least every k; got n={min(ns)}, k={max(ks)}")


def with_size(table: pl.DataFrame) -> pl.DataFrame:
    """The table with a column `m`, infinite for online training."""
    given = pl.col(SIZE).cast(pl.Float64) if SIZE in table.columns else pl.lit(None, pl.Float64)
    return table.with_columns(m=given.fill_null(ONLINE))


def panels_of(table: pl.DataFrame) -> Panels:
    """Successes by panel, width and sample size, all ascending."""
    solved = (pl.col("outcome") == "converged").sum()
    keys = (BITS, RELEVANT, START, WIDTH, "m")
    counted = with_size(table).group_by(keys).agg(solved.alias("solved"), trials=pl.len()).sort(keys)
    found: Panels = {}
    for n, k, s, width, m, hits, trials in counted.iter_rows():
        found.setdefault((n, k, s), {}).setdefault(width, {})[m] = (hits, trials)
    return found


def cell_rate(panel: tuple[int, int, int], width: int, m: float, cell: tuple[int, int]) -> Estimate:
    """The success rate of one cell."""
    return rate(*cell, sample=f"panel {panel}, width {width}, m {m:g}")


def half(panel: tuple[int, int, int], rows: dict[int, Row], width: int) -> Estimate:
    """The smallest sample size at which half of the trials of a width succeed.

    Read from the sizes up to the first with the highest rate: where more data does harm, the fall beyond it would be
    taken for a row that never succeeds.
    """
    finite = {m: cell for m, cell in sorted(rows[width].items()) if math.isfinite(m)}
    best = max(finite, key=lambda m: finite[m][0] / finite[m][1])
    rising = {m: cell for m, cell in finite.items() if m <= best or len(finite) < 3}
    rising = rising if len(rising) > 1 else dict(list(finite.items())[:2])
    return crossing(rising, 0.5, sample=f"panel {panel}, width {width}, ")


def start_name(sparsity: int) -> str:
    """How a network with rows of this sparsity begins."""
    return f"{sparsity}-sparse" if sparsity else "dense"


def size_name(m: float) -> str:
    return "online" if math.isinf(m) else f"{m:,.0f}"


def parameters(n: int, width: int) -> int:
    """How many numbers a network of this width trains."""
    return width * (n + 2) + 1


def draw_rates(panel: Panel, rows: dict[int, Row], *, numbers: bool = False) -> Any:
    """Success rates as a map, sample sizes across and widths upwards; `numbers` adds how many trials a cell had."""
    widths, sizes = sorted(rows), sorted({m for row in rows.values() for m in row})
    rates = np.array([[_share(rows[width].get(m)) for m in sizes] for width in widths])
    counts = np.array([[rows[width].get(m, (0, 0))[1] for m in sizes] for width in widths])
    return rate_map(
        panel.ax, [size_name(m) for m in sizes], [f"{width:,}" for width in widths], rates, counts if numbers else None
    )


def draw_half(panel: Panel, name: tuple[int, int, int], rows: dict[int, Row]) -> None:
    """On a map of success rates, the line where half of the trials succeed."""
    sizes = sorted({m for row in rows.values() for m in row if math.isfinite(m)})
    halves = np.array([half(name, rows, width).value for width in sorted(rows)])
    known = np.isfinite(halves)
    across = np.interp(np.log(halves[known]), np.log(sizes), np.arange(len(sizes)) + 0.5)
    up = np.flatnonzero(known) + 0.5
    panel.ax.plot(across, up, color=VERMILLION, linewidth=1.4)
    if known.any():
        direct_label(panel.ax, across.tolist(), up.tolist(), "50%", color=VERMILLION, side="above")


def _share(cell: tuple[int, int] | None) -> float:
    return cell[0] / cell[1] if cell else math.nan


def table_of(found: Panels) -> pl.DataFrame:
    """Panels as rows of a table; online training has no sample size."""
    rows = [
        (n, k, start_name(s), width, None if math.isinf(m) else int(m), *cell)
        for (n, k, s), widths in found.items()
        for width, row in widths.items()
        for m, cell in row.items()
    ]
    return pl.DataFrame(rows, schema=["n", "k", "start", "width", "m", "successes", "trials"], orient="row")
