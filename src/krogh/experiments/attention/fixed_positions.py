"""Do the positional embeddings have to be trained? A Transformer with those it was born with, beside the usual one.

Theorems about sparse functions take the embeddings P as given, nearly orthogonal vectors (Proposition 4.12, the
"deterministic" input mapping), while the source's experiment trains them. Here the same conjunction is learned from the
same data with P kept as drawn, N(0, 0.02²) in 64 dimensions, and with P trained. The source has no such figure.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from typing import Any

import polars as pl

from krogh.engine import Trials, sweep
from krogh.errors import require, require_integer
from krogh.experiments.attention.common import (
    DROPOUT_NOTE,
    SUPPORT_NOTE,
    conjunction_trial,
    success_counts,
)
from krogh.lab import Claim, Experiment, Figure, Results, claim, experiment, figures, setting
from krogh.lab.measured import Measured, from_counts, ratio
from krogh.lab.sample_complexity import Counts, crossing, success_rates
from krogh.lab.statistics import Interval, proportion, require_fraction
from krogh.models.sparse_transformer import SparseTransformer
from krogh.theory.predictions.attention_limits import information_floor

SOURCE = "dissertation, §4.5 and §A.2 (fixed positions), §A.3.1 (trained positions)"
FIXED = "model.fixed_positions"
WORDS = {False: "trained", True: "fixed"}
FEWEST = 10  # trials per cell that a verdict needs


@dataclass(frozen=True)
class Settings:
    length: int = setting(100, "context length T")
    sizes: tuple[int, ...] = setting(tuple(range(40, 201, 20)), "sample sizes m")
    s: int = setting(3, "relevant positions")
    trials: int = setting(40, "trials per size, each with its own data set; the same for both kinds")
    restarts: int = setting(5, "runs that a trial may have on its data set")
    budget: int = setting(1000, "steps after which a run has failed")
    validation: int = setting(10_000, "validation examples, more than 99% of which must be right")
    check_every: int = setting(10, "steps between two validations")
    embedding_dropout: float = setting(0.0, "dropout on embeddings; the source has 0.1, which is 10 to 20 times dearer")
    p: float = setting(0.8, "success rate that defines m*")


@experiment("attention/fixed-positions")
class FixedPositions(Experiment[Settings]):
    """Success rates with fixed and with trained positional embeddings, on the same data."""

    title = "A sparse conjunction with positional embeddings fixed or trained"
    question = "Does the Transformer learn a sparse conjunction when its positional embeddings stay as they were drawn?"
    source = SOURCE
    scales = {
        "smoke": Settings(length=12, sizes=(20, 40), trials=2, restarts=1, budget=60, validation=256),
        "laptop": Settings(
            length=50, sizes=(20, 30, 40, 60, 80, 120), trials=20, restarts=2, budget=400, validation=1000
        ),
        "paper": Settings(),
    }
    notes = (
        SUPPORT_NOTE,
        DROPOUT_NOTE,
        "The source trains the positions and proves its theorems for fixed ones; it does not compare them.",
        "Laptop scale has T = 50, 2 runs of 400 steps and 1000 validation examples.",
    )

    def trials(self, settings: Settings) -> list[Trials]:
        _check(settings)
        stopping = {word: getattr(settings, word) for word in ("budget", "validation", "restarts", "check_every")}
        sizes, cohorts = sorted(settings.sizes), []
        for fixed in WORDS:
            model = SparseTransformer(embedding_dropout=settings.embedding_dropout, fixed_positions=fixed)
            trial = conjunction_trial(settings.length, settings.s, sizes[0], model, **stopping)
            cohorts += sweep(trial, training__regime__m=sizes, seed=range(settings.trials))
        return cohorts

    def claims(self, results: Results[Settings]) -> list[Claim]:
        settings, counts = results.settings, counts_of(results)
        fewest = settings.trials
        limits: dict[str, Any] = {
            "enough": fewest >= FEWEST,
            "too_small": f"{fewest} trials per size; a verdict needs {FEWEST}",
            "source": SOURCE,
        }
        found = []
        for fixed, word in WORDS.items():
            hits, trials = counts[fixed][max(settings.sizes)]
            found.append(
                claim(
                    f"{word}-learns",
                    f"With {word} positions {max(settings.sizes)} samples are enough at T = {settings.length}.",
                    statistic=f"success rate at m = {max(settings.sizes)}",
                    interval=proportion(hits, trials),
                    at_least=settings.p,
                    source_value="trained: m* ≈ 70 at T = 300"
                    if not fixed
                    else "not measured; representable by theorem",
                    trials=trials,
                    **limits,
                )
            )
        kinds = measured(results)
        stars = {fixed: crossing(counts[fixed], settings.p).interval for fixed in WORDS}
        hidden = limits["enough"] and not stars[False].low > 0
        if hidden:
            below = f"m* of trained positions may lie below the smallest size {min(settings.sizes)}"
            limits |= {"enough": False, "too_small": below}
        found.append(
            claim(
                "fixed-costs-little",
                f"Fixed positions take at most twice the samples of trained ones (m* {_words(stars[True])} against "
                f"{_words(stars[False])}).",
                statistic="m* with fixed positions / m* with trained positions",
                interval=ratio(kinds[True], settings.length, kinds[False]),
                at_most=2.0,
                source_value="not measured; both within O(log T) by theorem",
                trials=sum(trials for cells in counts.values() for _, trials in cells.values()),
                **limits,
            )
        )
        return found

    def figures(self, results: Results[Settings]) -> list[Figure]:
        settings, counts = results.settings, counts_of(results)
        fig, ax = figures.new_figure("Success with positional embeddings fixed or trained", width=6.4, height=3.9)
        rows = []
        for color, (fixed, word) in zip(figures.PALETTE, WORDS.items(), strict=False):
            rates = success_rates(counts[fixed])
            sizes = list(rates)
            low, value, high = ([getattr(rate, end) for rate in rates.values()] for end in ("low", "value", "high"))
            figures.interval_band(ax, sizes, low, value, high, color=color)
            figures.direct_label(ax, sizes, value, f"{word} P", color=color)
            rows += [(word, m, *counts[fixed][m], rate.low, rate.high) for m, rate in rates.items()]
        ax.axhline(settings.p, color=figures.MUTED, linewidth=1, linestyle=":")
        floor = information_floor(settings.length, settings.s)["bits"]
        figures.source_line(ax, floor, f"log2 C({settings.length},{settings.s})", axis="x")
        figures.log_axis_labels(ax, "x", values=sorted(settings.sizes))
        ax.set_xlim(left=0.9 * min(floor, *settings.sizes))
        ax.set_ylim(-0.03, 1.05)
        ax.set_xlabel("samples m (log scale)")
        ax.set_ylabel("success rate")
        figures.source_note(fig, SOURCE)
        data = pl.DataFrame(rows, schema=["positions", "m", "successes", "trials", "low", "high"], orient="row")
        caption = (
            f"Share of trials that learn the conjunction of {settings.s} of {settings.length} bits, with 95% Wilson "
            f"intervals: {settings.trials} data sets per size, the same for both, up to {settings.restarts} runs of "
            f"{settings.budget} steps each. Dotted: {settings.p:.0%}; dashed: the information floor."
        )
        return [Figure("fixed-positions", "Fixed and trained positional embeddings", caption, fig, data)]


def _check(settings: Settings) -> None:
    require_integer("trials", settings.trials, 1)
    require_integer("s", settings.s, 1)
    require_integer("length", settings.length, settings.s + 1)
    sizes = settings.sizes
    good = len(sizes) >= 2 and len(set(sizes)) == len(sizes)
    require(good, f"a threshold needs at least two different sizes; got sizes={sizes}")
    require_fraction("p", settings.p)


def counts_of(results: Results[Settings]) -> dict[bool, Counts]:
    """{fixed: {m: (successes, trials)}}."""
    length = results.settings.length
    return {fixed: success_counts(results.table.filter(pl.col(FIXED) == fixed))[length] for fixed in WORDS}


@functools.lru_cache(maxsize=2)
def measured(results: Results[Settings]) -> dict[bool, Measured]:
    """m* at the one length, by kind."""
    settings, counts = results.settings, counts_of(results)
    return {fixed: from_counts({settings.length: counts[fixed]}, settings.p, seed=int(fixed)) for fixed in WORDS}


def _words(star: Interval) -> str:
    return f"{star.value:.0f}" if math.isfinite(star.value) else "not reached"
