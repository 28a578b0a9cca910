"""Figure 4.2: how many samples a Transformer needs to learn a sparse conjunction, against the length of its context.

At each length T and sample size m many trials are trained, each up to five times on its own data set, and m*(T) is
where 80% of them succeed. The source finds that m* grows as log T, like the bits that name the relevant positions.

`method="grid"` trains every cell and replays the adaptive search on what it found; `method="adaptive"` trains only what
the search asks for.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Literal

import numpy as np
import polars as pl

from krogh.engine import Trials, sweep
from krogh.errors import KroghError, require, require_integer
from krogh.experiments.attention.common import (
    DROPOUT_NOTE,
    LENGTH,
    SIZE,
    SUPPORT_NOTE,
    conjunction_trial,
    success_counts,
)
from krogh.experiments.attention.replay import Replay, replay, searching, stopping_rule
from krogh.experiments.attention.sample_claims import Findings, made_claims
from krogh.experiments.attention.sample_figures import drawn_figures
from krogh.lab import Claim, Experiment, Figure, Results, experiment, setting
from krogh.lab.frontier import Frontier
from krogh.lab.measured import from_counts, from_frontiers
from krogh.lab.sample_complexity import crossing
from krogh.lab.search import Search
from krogh.lab.statistics import require_fraction
from krogh.models.sparse_transformer import SparseTransformer

SOURCE = "dissertation, §4.6, §A.3.1, Figure 4.2"


@dataclass(frozen=True)
class Settings:
    lengths: tuple[int, ...] = setting((*range(100, 801, 50), 900, 1000, 1100), "context lengths T")
    sizes: tuple[int, ...] = setting(tuple(range(50, 201, 10)), "sample sizes m")
    small_lengths: tuple[int, ...] = setting((100, 150), "lengths at which the smallest size may be more than enough")
    small_sizes: tuple[int, ...] = setting((30, 40), "sizes that those lengths have besides")
    s: int = setting(3, "relevant positions")
    trials: int = setting(40, "trials per length and size, each with its own data set")
    restarts: int = setting(5, "runs that a trial may have on its data set")
    budget: int = setting(1000, "steps after which a run has failed")
    validation: int = setting(10_000, "validation examples, more than 99% of which must be right")
    check_every: int = setting(10, "steps between two validations")
    embedding_dropout: float = setting(0.0, "dropout on embeddings; the source has 0.1, which is 10 to 20 times dearer")
    p: float = setting(0.8, "success rate that defines m*")
    method: Literal["grid", "adaptive"] = setting("grid", "train every cell, or only what an adaptive search asks for")
    precision: float = setting(1.3, "the search stops when its interval of m* is within this factor, or one size wide")
    in_flight: int = setting(8, "trials of one length that the search has under way at a time")
    replays: int = setting(10, "searches replayed on the grid's outcomes")
    draws: int = setting(400, "data sets per size when the statistical threshold is computed by brute force")

    def sizes_at(self, length: int) -> list[int]:
        """The sample sizes of a length, ascending."""
        return sorted({*self.sizes, *(self.small_sizes if length in self.small_lengths else ())})


@experiment("attention/sample-complexity")
class SampleComplexity(Experiment[Settings]):
    """The sample complexity of a sparse conjunction against the context length, on a grid and by adaptive search."""

    title = "The samples that a sparse conjunction takes grow as the logarithm of the context"
    question = "How many samples does a Transformer need to learn a 3-sparse AND, and how does that grow with T?"
    source = SOURCE
    scales = {
        "smoke": Settings(
            lengths=(12,),
            sizes=(20, 40),
            small_lengths=(),
            trials=3,
            restarts=1,
            budget=60,
            validation=256,
            replays=1,
            draws=20,
        ),
        "laptop": Settings(
            lengths=(25, 50, 100, 200),
            sizes=tuple(range(20, 101, 10)),
            small_lengths=(),
            restarts=2,
            budget=400,
            validation=1000,
            precision=1.5,
            in_flight=2,
        ),
        "paper": Settings(),
    }
    notes = (
        SUPPORT_NOTE,
        DROPOUT_NOTE,
        "m* of the claims is where the isotonic regression of the success rates crosses p (method=grid) or the "
        "posterior median (adaptive); the source's reading, the first size that reaches p, is in the figure's data.",
        "The source's sizes begin at 50, which is more than enough at T = 100: T = 100 and 150 have 30 and 40 as well.",
        "Laptop scale: 2 runs of 400 steps on 1000 validation examples, where the source has 5 of 1000 on 10,000. "
        "Networks that succeed nearly always do so within 350 steps; fewer runs put m* higher.",
    )

    def trials(self, settings: Settings) -> list[Trials]:
        _check(settings)
        model = SparseTransformer(embedding_dropout=settings.embedding_dropout)
        stopping = {word: getattr(settings, word) for word in ("budget", "validation", "restarts", "check_every")}
        cohorts = []
        for length in sorted(settings.lengths):
            sizes = settings.sizes_at(length)
            trial = conjunction_trial(length, settings.s, sizes[0], model, **stopping)
            for group in _rungs(sizes):
                cohorts += sweep(trial, training__regime__m=group, seed=range(settings.trials))
        return cohorts

    def search(self, settings: Settings, cohorts: list[Trials]) -> Search | None:
        if settings.method == "grid":
            return None
        position = 0
        pools: dict[int, dict[int, range]] = {}
        for length in sorted(settings.lengths):
            pools[length] = {}
            for m in settings.sizes_at(length):
                pools[length][m] = range(position, position + settings.trials)
                position += settings.trials
        return searching(pools, p=settings.p, precision=settings.precision, in_flight=settings.in_flight)

    def claims(self, results: Results[Settings]) -> list[Claim]:
        return made_claims(found_in(results), SOURCE)

    def figures(self, results: Results[Settings]) -> list[Figure]:
        return drawn_figures(found_in(results), SOURCE)


def _rungs(sizes: list[int]) -> list[list[int]]:
    """Ascending sizes in groups within a factor of two: a step costs what the largest sample of its cohort does."""
    groups: list[list[int]] = []
    for size in sizes:
        if groups and size <= 2 * groups[-1][0]:
            groups[-1].append(size)
        else:
            groups.append([size])
    return groups


def _check(settings: Settings) -> None:
    for word in ("lengths", "sizes"):
        values = getattr(settings, word)
        require(values, f"{word} must name at least one; got none")
        require(len(set(values)) == len(values), f"{word} must not repeat a value; got {word}={values}")
    for word in ("trials", "in_flight", "replays", "draws"):
        require_integer(word, getattr(settings, word), 1)
    require_integer("s", settings.s, 1)
    require(len(settings.sizes) >= 2, f"a threshold needs at least two sizes; got sizes={settings.sizes}")
    if min(settings.lengths) <= settings.s:
        raise KroghError(f"every length must exceed s={settings.s}; got {min(settings.lengths)} (try {settings.s + 1})")
    require_fraction("p", settings.p)
    good = settings.precision >= 1
    require(good, f"precision is a factor of at least 1; got precision={settings.precision} (try 1.3)")


@functools.lru_cache(maxsize=2)
def found_in(results: Results[Settings]) -> Findings:
    """What the table says, computed once for claims and figures."""
    settings, table = results.settings, results.table
    counts = success_counts(table)
    steps = dict(table.group_by(LENGTH).agg(pl.col("steps").sum().cast(pl.Int64)).iter_rows())
    if settings.method == "adaptive":
        frontiers = _frontiers(settings, counts)
        measured = from_frontiers(frontiers)
        intervals = {length: frontier.crossing() for length, frontier in frontiers.items()}
        return Findings(settings, counts, measured, intervals, steps, [])
    measured = from_counts(counts, settings.p)
    intervals = {
        length: crossing(cells, settings.p, seed=place).interval for place, (length, cells) in enumerate(counts.items())
    }
    return Findings(settings, counts, measured, intervals, steps, _replays(settings, table))


def _frontiers(settings: Settings, counts: dict) -> dict[int, Frontier]:
    """The posterior of each length from the trials that were run; it does not depend on their order."""
    grids = {length: settings.sizes_at(length) for length in sorted(settings.lengths)}
    rule = stopping_rule(max(map(len, grids.values())) * settings.trials, settings.precision)
    frontiers = {}
    for length, sizes in grids.items():
        frontiers[length] = Frontier(sizes, settings.p, rule=rule)
        for m, (hits, trials) in counts.get(length, {}).items():
            frontiers[length].observe(m, True, hits)
            frontiers[length].observe(m, False, trials - hits)
    return frontiers


def _replays(settings: Settings, table: pl.DataFrame) -> list[Replay]:
    rows = table.with_row_index("position").sort(LENGTH, SIZE, "seed")
    pools: dict[int, dict[int, list[int]]] = {}
    for length, m, position in rows.select(LENGTH, SIZE, "position").iter_rows():
        pools.setdefault(length, {}).setdefault(m, []).append(position)
    solved, steps = (table["outcome"] == "converged").to_numpy(), table["steps"].to_numpy().astype(np.int64)
    return [
        replay(
            pools,
            solved,
            steps,
            p=settings.p,
            precision=settings.precision,
            in_flight=settings.in_flight,
            seed=1000 * number,  # a search seeds its problems by their place
        )
        for number in range(settings.replays)
    ]
