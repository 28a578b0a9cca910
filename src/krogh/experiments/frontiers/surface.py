"""One panel of Figure C.1 by an adaptive search instead of a grid: the same frontier for a fraction of the trials.

`method="grid"` trains every cell and replays the search (`krogh.lab.surface`) on what it found, with several of its
random streams; `method="adaptive"` trains only what the search asks for.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import polars as pl

from krogh.engine import Trials
from krogh.experiments.frontiers.common import NOTES, WIDTH, Row, SgdSettings, draw_rates, panels_of, with_size
from krogh.lab import Claims, Curve, Experiment, Figure, Results, Tables, experiment, figures, need, setting
from krogh.lab.estimate import exact, largest, rate
from krogh.lab.experiment import Measures
from krogh.lab.replay import replay_search
from krogh.lab.sample_complexity import crossings, largest_fall
from krogh.lab.search import Search
from krogh.lab.surface import Surface, surface_search

REPLAYS = {"replay": pl.Int64, "width": pl.Int64, "trials": pl.Int64, "steps": pl.Int64} | {
    name: pl.Float64 for name in ("value", "low", "high", "falls")
}
FRACTION = 0.35
Pools = dict[float, dict[float, list[int]]]


@dataclass(frozen=True)
class Settings(SgdSettings):
    n: int = setting(50, "input bits", least=1)
    k: int = setting(3, "relevant bits", least=1)
    sparsity: int = setting(0, "ones in each row of the first layer, 0 for dense", least=0)
    widths: tuple[int, ...] = setting((10, 30, 100, 300, 1000), "hidden neurons", increasing=True, fewest=2, least=1)
    sizes: tuple[int, ...] = setting(
        (*(lead * 10**power for power in (2, 3, 4, 5) for lead in (1, 2, 3, 6)), 10**6),
        "sample sizes m",
        increasing=True,
        fewest=2,
        least=1,
    )
    seeds: int = setting(50, "trials per cell", least=1)
    p: float = setting(0.5, "success rate that defines the frontier", above=0, below=1)
    method: Literal["grid", "adaptive"] = setting("grid", "train every cell, or only what an adaptive search asks for")
    precision: float = setting(
        1.3, "the search stops when an interval is within this factor, or one size wide", least=1
    )
    in_flight: int = setting(8, "trials of one width that the search has under way at a time", least=1)
    scouts: int = setting(3, "trials at sizes where success is not ruled out", least=0)
    replays: int = setting(10, "searches replayed on the grid's outcomes", least=1)

    @property
    def rule(self) -> dict[str, Any]:
        names = ("m", "width")
        return {
            "p": self.p,
            "precision": self.precision,
            "in_flight": self.in_flight,
            "scouts": self.scouts,
            "names": names,
        }

    def pools(self) -> Pools:
        """The positions of the trials, by width and sample size, in the order of the cohorts."""
        positions = itertools.count()
        return {
            float(width): {float(m): list(itertools.islice(positions, self.seeds)) for m in self.sizes}
            for width in self.widths
        }

    @property
    def grid(self) -> int:
        return len(self.widths) * len(self.sizes) * self.seeds


@experiment("frontiers/surface")
class SurfaceSearch(Experiment[Settings]):
    """The success frontier of one panel, on a grid and by adaptive search."""

    title = "The frontier without the grid"
    question = "Does an adaptive search over two axes find the frontier of the grid, and what does it save?"
    source = "dissertation, Figure C.1 (one panel)"
    scales = {
        "smoke": Settings(
            n=12, k=2, widths=(8, 16), sizes=(20, 60, 180), seeds=4, budget=300, check_every=100, test=300, replays=1
        ),
        "laptop": Settings(
            n=30,
            widths=(10, 30, 100, 300),
            sizes=(200, 300, 400, 500, 600, 800, 1000, 1500, 2000),
            seeds=20,
            budget=20_000,
            test=2_000,
            in_flight=4,
        ),
        "paper": Settings(),
    }
    notes = NOTES

    def trials(self, settings: Settings) -> Iterator[Trials]:
        for width in settings.widths:
            yield from settings.over_sizes(
                settings.n, settings.k, width, settings.sparsity, settings.sizes, online=False, seeds=settings.seeds
            )

    def search(self, settings: Settings, cohorts: list[Trials]) -> Search | None:
        return None if settings.method == "grid" else surface_search(settings.pools(), **settings.rule)[1]

    def measure(self, results: Results[Settings]) -> Measures:
        """What each replayed search found and spent at each width; nothing where the search itself was run."""
        return {"replays": lambda: replays_of(results)}

    def claims(self, tables: Tables[Settings], say: Claims) -> None:
        settings, table = tables.settings, tables["trials"]
        say = say.about(needs=[need(settings.seeds, 15, "trials per cell")])
        if settings.method == "adaptive":
            say(
                "fraction",
                f"The search trained {len(table):,} of the grid's {settings.grid:,} trials.",
                exact(len(table) / settings.grid, len(table)),
                "trials trained / trials of the grid",
                at_most=FRACTION,
                source_value="the source trained the whole grid",
            )
            return
        grid, replays = grid_frontier(tables), tables["replays"]
        pairs = [(row, grid.at(row["width"])) for row in replays.iter_rows(named=True)]
        agreed = sum(row["low"] <= star.high and star.low <= row["high"] for row, star in pairs)
        spent = replays.group_by("replay").agg(pl.col("trials", "steps").sum()).sort("replay")
        steps = table["steps"].cast(pl.Int64).sum()
        shares, work = (spent["trials"] / len(table)).to_numpy(), (spent["steps"] / steps).to_numpy()
        say(
            "agrees",
            f"The search finds the grid's frontier: over {len(spent)} searches and {len(grid)} widths the 95% "
            f"intervals overlap in {agreed} of {len(pairs)} cases.",
            rate(agreed, len(pairs), sample="replays"),
            "share of frontiers whose interval overlaps the grid's",
            at_least=0.9,
            source_value="the source trained the whole grid",
        )
        say(
            "fraction",
            f"It trains {shares.mean():.0%} of the grid's {len(table):,} trials on average, which take "
            f"{work.mean():.0%} of its {steps:,} trial-steps.",
            largest(shares, sample="replays"),
            f"trials of the search / trials of the grid, the largest of {len(spent)} replays",
            at_most=FRACTION,
            source_value="the source trained the whole grid",
        )
        (rows,) = panels_of(table).values()
        level = [width for width, row in rows.items() if largest_fall(row, sample=f"{width}").drop.low <= 0]
        say(
            "no-fall-invented",
            f"Where the grid shows no fall ({len(level)} of {len(rows)} widths), no search says that there is one.",
            largest(replays.filter(pl.col("width").is_in(level))["falls"].to_numpy(), sample="falls"),
            "largest posterior chance of a fall over all searches and these widths",
            below=0.9,
            source_value="falls at larger n (frontiers/slices)",
            needs=[need(len(level), 1, "widths without a fall")],
        )

    def figures(self, tables: Tables[Settings]) -> Iterable[Figure]:
        settings = tables.settings
        (rows,) = panels_of(tables["trials"]).values()
        chart = self.chart("surface", "The success frontier, by grid and by search", columns=2, width=12.0, height=4.0)
        draw_rates(
            chart.panel(x="sample size m", y="width", title=f"success in percent ({settings.method}; trials)"),
            rows,
            numbers=True,
        )
        panel = chart.panel(x="width", y=f"m for {settings.p:.0%} success", log="xy", xticks=settings.widths)
        if settings.method == "grid":
            panel.curve(
                grid_frontier(tables), f"grid, {len(tables['trials']):,} trials", color=figures.BLUE, key="legend"
            )
            first = tables["replays"].filter(replay=0)
            panel.band(
                first["width"].cast(pl.Float64) * 1.04,
                first["low"],
                first["value"],
                first["high"],
                f"search, {first['trials'].sum():,} trials",
                color=figures.VERMILLION,
                key="legend",
            )
        else:
            found = surface_of(settings, rows).smallest_x()
            panel.curve(found, f"search, {len(tables['trials']):,} trials", color=figures.VERMILLION, key="legend")
        yield chart.figure(
            f"({settings.n},{settings.k})-parity. Grid: isotonic crossing with {settings.seeds} trials per cell; "
            "search: posterior medians; both with 95% intervals."
        )


def grid_frontier(tables: Tables[Settings]) -> Curve:
    """m at success rate p by width, from all trials."""
    (rows,) = panels_of(tables["trials"]).values()
    return crossings(rows, tables.settings.p, sample="width ")


def surface_of(settings: Settings, rows: dict[int, Row]) -> Surface:
    """The posterior given some trials."""
    found, _ = surface_search(settings.pools(), **settings.rule)
    for width, row in rows.items():
        for m, (hits, trials) in row.items():
            found.observe(m, float(width), True, hits)
            found.observe(m, float(width), False, trials - hits)
    return found


def replays_of(results: Results[Settings]) -> pl.DataFrame:
    settings = results.settings
    if settings.method == "adaptive":
        return pl.DataFrame(schema=REPLAYS)
    table = with_size(results.table).with_row_index("position").sort(WIDTH, "m", "seed")
    pools: Pools = {}
    for width, m, position in table.select(WIDTH, "m", "position").iter_rows():
        pools.setdefault(float(width), {}).setdefault(m, []).append(position)
    solved = (results.table["outcome"] == "converged").to_numpy()
    steps, rows = results.table["steps"].to_numpy().astype(np.int64), []
    for number in range(settings.replays):
        found, search = surface_search(pools, **settings.rule, seed=1000 * number)
        run = replay_search(search, pools, solved, steps)
        for width, star in zip(found.ys, found.smallest_x(f"replay {number}, ").y, strict=True):
            row = found.rows[width]
            low = star.low if math.isfinite(star.low) else max(settings.sizes)
            rows.append(
                (number, int(width), run.trials[width], run.steps[width], star.value, low, star.high, row.falls)
            )
    return pl.DataFrame(rows, schema=REPLAYS, orient="row")
