"""Figure 6.2: slices of the (m, width) plane near the threshold: luck, time, and more data that does harm.

Along a row (one width) the success rate rises with the sample size, earlier for wider networks, and the convergence
time falls. At larger n more data can do harm: networks that learn from 10^4 examples fail on fresh ones. The second
part of the experiment is that demonstration.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

import numpy as np
import polars as pl

from krogh.engine import Trials
from krogh.errors import require
from krogh.experiments.frontiers.common import (
    FEWEST_SEEDS,
    NOTES,
    ONLINE,
    START,
    WIDTH,
    Row,
    SgdSettings,
    cell_rate,
    draw_rates,
    half,
    panels_of,
    start_name,
    with_size,
)
from krogh.lab import Claims, Curve, Experiment, Figure, Tables, curves, experiment, need, setting
from krogh.lab.estimate import minimum
from krogh.lab.sample_complexity import largest_fall, success_rates

SLICES, FALL = "slices", "fall"
Panel = tuple[int, int, int]


@dataclass(frozen=True)
class Settings(SgdSettings):
    n: int = setting(150, "input bits", least=1)
    k: int = setting(3, "relevant bits", least=1)
    starts: tuple[int, ...] = setting(
        (0, 2), "ones in each row of the first layer, 0 for dense", distinct=True, least=0
    )
    widths: tuple[int, ...] = setting((30, 100, 300, 1000), "hidden neurons", increasing=True, least=1)
    sizes: tuple[int, ...] = setting(
        (2000, 3000, 4000, 5000, 6000, 8000, 10_000, 15_000, 20_000, 30_000, 100_000, 1_000_000),
        "sample sizes m",
        increasing=True,
        fewest=2,
        least=1,
    )
    seeds: int = setting(50, "trials per cell", least=1)
    fall_n: int = setting(150, "input bits where more data does harm", least=1)
    fall_widths: tuple[int, ...] = setting((30, 100), "hidden neurons there", increasing=True, least=1)
    fall_sizes: tuple[int, ...] = setting(
        (3000, 6000, 10_000, 30_000), "sample sizes there; fresh batches besides", increasing=True, least=1
    )
    fall_budget: int = setting(50_000, "steps there", least=1)
    fall_seeds: int = setting(50, "trials per cell there", least=1)


@experiment("frontiers/slices")
class Slices(Experiment[Settings]):
    """Success rates and convergence times against the sample size near the threshold, and where they fall again."""

    title = "Width buys luck, data and time; and more data can do harm"
    question = (
        "How do success and convergence time depend on the sample size at a fixed width, and do they ever worsen?"
    )
    source = "dissertation, §6.4.1, Figure 6.2"
    scales = {
        "smoke": Settings(
            n=12,
            k=2,
            starts=(0,),
            widths=(8,),
            sizes=(40, 80, 160),
            seeds=3,
            budget=400,
            check_every=100,
            test=500,
            fall_n=12,
            fall_widths=(8,),
            fall_sizes=(160,),
            fall_budget=200,
            fall_seeds=2,
        ),
        "laptop": Settings(
            n=30,
            widths=(30, 100, 300),
            sizes=(300, 350, 400, 500, 600, 800, 1000, 2000),
            seeds=20,
            budget=20_000,
            test=2_000,
            fall_seeds=10,
        ),
        "paper": Settings(),
    }
    notes = (
        *NOTES,
        "The surviving text does not say which (n,k) the figure shows; paper scale takes (150,3).",
        "The demonstration that more data does harm is at n = 150 at every scale but the smallest.",
    )

    def check(self, settings: Settings) -> None:
        least = min(settings.n, settings.fall_n)
        require(least >= settings.k, f"n and fall_n must be at least k={settings.k}; got {least}")

    def trials(self, settings: Settings) -> Iterator[Trials]:
        for s, width in itertools.product(settings.starts, settings.widths):
            own = settings.over_sizes(
                settings.n, settings.k, width, s, settings.sizes, online=False, seeds=settings.seeds
            )
            yield from (cohort.labelled(part=SLICES) for cohort in own)
        short = replace(settings, budget=settings.fall_budget)
        for s, width in itertools.product(settings.starts, settings.fall_widths):
            own = short.over_sizes(
                settings.fall_n, settings.k, width, s, settings.fall_sizes, online=True, seeds=settings.fall_seeds
            )
            yield from (cohort.labelled(part=FALL) for cohort in own)

    # --- claims ---

    def claims(self, tables: Tables[Settings], say: Claims) -> None:
        settings = tables.settings
        seeds = need(settings.seeds, FEWEST_SEEDS, "trials per cell")
        rows, times = rows_of(tables, SLICES), times_of_part(tables)
        for s in settings.starts:
            panel = (settings.n, settings.k, s)
            about = say.about(f"{start_name(s)}-", f"{start_name(s)} start: ", needs=[seeds])
            for low, high in itertools.pairwise(settings.widths):
                about(
                    f"width-{high}-needs-no-more-data",
                    f"half of the networks of width {high} succeed with no more samples than at width {low}.",
                    half(panel, rows[panel], high) / half(panel, rows[panel], low),
                    f"m at 50% success, width {high} / width {low}",
                    at_most=1.0,
                    source_value="larger widths shift the success curve to the left",
                )
                most = settings.sizes[-1]
                about(
                    f"width-{high}-is-no-slower",
                    f"with {most:,} samples networks of width {high} are no slower than those of width {low}.",
                    times[s, high].at(most) / times[s, low].at(most),
                    f"median t_c at m = {most:,}, width {high} / width {low}",
                    at_most=1.0,
                    source_value="t_c does not grow with width",
                )
            widest = times[s, settings.widths[-1]].reached
            first = widest.y[0] if len(widest) else None
            about(
                "edge-costs-time",
                f"at width {settings.widths[-1]} the smallest sample size at which half succeed takes at least three "
                "times as long as the fastest.",
                first / minimum(list(widest.y)) if first else minimum([], nothing="no size where half succeed"),
                "median t_c at the smallest feasible m / least median t_c",
                at_least=3.0,
                source_value="small m near the edge costs more iterations",
                needs=[need(len(widest), 3, "sizes at which half succeed")],
            )
        if {0, 2} <= set(settings.starts):
            self._claim_start(settings, rows, times, say.about("sparse-", needs=[seeds]))
        self._claim_fall(tables, say.about("fall-", needs=[need(settings.fall_seeds, 10, "trials per cell")]))

    def _claim_start(self, settings: Settings, rows: dict, times: dict, say: Claims) -> None:
        dense, sparse = ((settings.n, settings.k, s) for s in (0, 2))
        for width in settings.widths:
            say(
                f"less-data-{width}",
                f"At width {width} a 2-sparse start needs fewer samples than a dense one.",
                half(sparse, rows[sparse], width) / half(dense, rows[dense], width),
                "m at 50% success, 2-sparse / dense",
                below=1.0,
                source_value="better on all three axes",
            )
        width, most = settings.widths[-1], settings.sizes[-1]
        say(
            "faster",
            f"At width {width} and m = {most:,} it is faster.",
            times[2, width].at(most) / times[0, width].at(most),
            "median t_c, 2-sparse / dense",
            below=1.0,
            source_value="better on all three axes",
        )

    def _claim_fall(self, tables: Tables[Settings], say: Claims) -> None:
        settings, rows = tables.settings, rows_of(tables, FALL)
        for (n, k, s), widths in rows.items():
            width = max(widths)
            cells = widths[width]
            best = max((m for m in cells if m < ONLINE), key=lambda m: cells[m][0] / cells[m][1])
            at = 10_000.0 if 10_000.0 in cells else best
            fresh = cell_rate((n, k, s), width, ONLINE, cells[ONLINE])
            say(
                start_name(s),
                f"({n},{k}), width {width}, {start_name(s)} start: {at:,.0f} examples succeed more often than fresh "
                f"ones within {settings.fall_budget:,} steps.",
                cell_rate((n, k, s), width, at, cells[at]) - fresh,
                f"success rate at m = {at:,.0f} − online",
                at_least=0.5,
                source_value="the figure shows success, then failure; 0.9 (dense), 0.7 (sparse) in our reference",
            )

    # --- figures ---

    def figures(self, tables: Tables[Settings]) -> Iterable[Figure]:
        yield self._slices(tables)
        yield self._fall(tables)

    def _slices(self, tables: Tables[Settings]) -> Figure:
        settings, rows, times = tables.settings, rows_of(tables, SLICES), times_of_part(tables)
        chart = self.chart(
            "slices",
            "Success and time against the sample size, near the threshold",
            rows=len(settings.starts),
            columns=3,
            width=13.0,
            height=3.4 * len(settings.starts) + 0.6,
        )
        for s in settings.starts:
            found = rows[settings.n, settings.k, s]
            where = chart.panel(x="sample size m", y="width", title=f"{start_name(s)} start: where the slices lie")
            draw_rates(where, found)
            luck = chart.panel(x="sample size m", y="success rate", log="x", xticks=settings.sizes[::2], title="luck")
            log = "xy" if any(len(times[s, width].reached) for width in found) else "x"
            time = chart.panel(
                x="sample size m", y="median t_c (steps)", log=log, xticks=settings.sizes[::2], title="time"
            )
            for width, row in found.items():
                luck.curve(success_rates(row, sample=f"{s}, {width}"), f"width {width:,}", key="legend")
                time.curve(times[s, width], f"width {width:,}", key="")
        return chart.figure(
            f"({settings.n},{settings.k})-parity, {settings.seeds} trials per cell, {settings.budget:,} steps; rates "
            "with Clopper–Pearson intervals, medians by order statistics (a triangle: more than half fail)."
        )

    def _fall(self, tables: Tables[Settings]) -> Figure:
        settings, rows = tables.settings, rows_of(tables, FALL)
        chart = self.chart("fall", "More data can do harm", columns=len(rows), width=4.8 * len(rows) + 0.8, height=3.4)
        said = []
        for (n, k, s), widths in rows.items():
            draw_rates(chart.panel(x="sample size m", y="width", title=f"({n},{k}), {start_name(s)} start"), widths)
            for width, row in widths.items():
                fall = largest_fall(_finite(row, settings), sample=f"{s}, {width}")
                said.append((s, width, fall.first, fall.second, fall.drop.value, fall.drop.low, fall.drop.high))
        names = ["sparsity", "width", "first", "second", "drop", "low", "high"]
        data = pl.DataFrame(said, schema=names, orient="row")
        return chart.figure(
            f"Percent of {settings.fall_seeds} trials that succeed within {settings.fall_budget:,} steps. Data: for "
            "each row the largest drop of the success rate between two sample sizes, with an interval that allows for "
            "having chosen the pair; online counts as the samples it saw.",
            data,
        )


def rows_of(tables: Tables[Settings], part: str) -> dict[Panel, dict[int, Row]]:
    return panels_of(tables["trials"].filter(part=part))


def times_of_part(tables: Tables[Settings]) -> dict[tuple[int, int], Curve]:
    """Median convergence times against m, by start and width."""
    table = with_size(tables["trials"].filter(part=SLICES))
    return curves(table, by=(START, WIDTH), x="m", horizon=float(tables.settings.budget))


def _finite(row: Row, settings: Settings) -> Row:
    """The row with online training at the number of examples that it saw."""
    seen = float(settings.fall_budget * settings.batch_size)
    return {(seen if np.isinf(m) else m): cell for m, cell in row.items()}
