"""How the steps that a token sum takes grow with the length of its sequences.

Older bounds on recurrent networks grow exponentially with L; Theorem 1 is polynomial. A sum over L-2 tokens has
(L-2)(L-1)/2 functions. Counted are the steps until less than 30% of the variance is left.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import polars as pl

from krogh.engine import Trials
from krogh.experiments.recurrence.common import FEWEST_SEEDS, cohorts
from krogh.experiments.recurrence.sums import SOURCE, SumSettings, target, trial_of, variance_of
from krogh.lab import (
    Claims,
    Curve,
    Experiment,
    Figure,
    Tables,
    curves,
    experiment,
    exponent,
    exponential_law,
    figures,
    law_preference,
    need,
    power_law,
    setting,
    share_of,
)
from krogh.lab.curves import times_of

CHECK_EVERY = 20
FEWEST_LENGTHS = 4


@dataclass(frozen=True)
class Settings(SumSettings):
    lengths: tuple[int, ...] = setting((4, 6, 8, 12, 16, 24, 32), "positions L", least=3, increasing=True)
    width: int = setting(1000, "neurons m", least=1)
    eps_x: float = setting(1.0, "size of tokens", above=0, most=1)
    wanted: float = setting(0.3, "share of variance left (FVU) that will do", above=0, below=1)
    budget: int = setting(100_000, "steps after which a run has not got there", least=1)
    validation: int = setting(500, "test sequences", least=2)


@experiment("recurrence/length")
class Length(Experiment[Settings]):
    """Steps until a token sum is learned, against the length of sequences."""

    title = "The steps that a token sum takes are a power of the length"
    question = "How do the steps until a sum over tokens is learned grow with the length of sequences?"
    source = f"{SOURCE}, Theorem 1"
    scales = {
        "smoke": Settings(lengths=(4,), width=8, budget=40, seeds=2, validation=50),
        "laptop": Settings(lengths=(4, 6, 8, 12), width=150, budget=40_000),
        "paper": Settings(),
    }
    notes = (
        "Proposed. The rate is η = c d/(m L), which is stable at every length: a step is smaller on longer sequences.",
        "Two positions of L have no token; lengths are those of the whole sequence, as in the source.",
        f"Times are multiples of {CHECK_EVERY} steps; a run that did not get there is censored at the budget.",
    )

    def trials(self, settings: Settings) -> Iterator[Trials]:
        for length in settings.lengths:
            runs = [
                trial_of(
                    settings,
                    target(settings, seed, length, eps_x=settings.eps_x),
                    settings.width,
                    seed,
                    error=settings.wanted * variance_of(settings, seed, length),
                    early=True,
                    check_every=CHECK_EVERY,
                    probes=(),
                )
                for seed in range(settings.seeds)
            ]
            yield from cohorts(runs, length=length)

    def claims(self, tables: Tables[Settings], say: Claims) -> None:
        settings, times = tables.settings, times_by_length(tables)
        say = say.about(needs=[need(settings.seeds, FEWEST_SEEDS, "targets per length")])
        longest = tables["trials"].filter(pl.col("length") == max(settings.lengths))
        say(
            "reached",
            f"Sequences of L = {max(settings.lengths)} are learned within {settings.budget:,} steps.",
            share_of(times_of(longest) < float("inf"), sample="longest"),
            f"share of runs that left less than {settings.wanted:g} of the variance",
            above=0.5,
            source_value="polynomial in L: finite",
        )
        enough = need(len(settings.lengths), FEWEST_LENGTHS, "lengths")
        say(
            "exponent",
            "The steps grow with L, by a power that is no larger than that of the number of functions, squared.",
            exponent(times),
            "slope of ln(median steps) on ln L",
            between=(0.0, 4.0),
            source_value="poly(L), no exponent stated; finite",
            needs=[enough],
        )
        say(
            "power",
            "A power of L describes the steps better than an exponential.",
            law_preference(times),
            "AIC(exponential) - AIC(power law) of ln(median steps); above 2 is more than a hint",
            above=0.0,
            source_value="straight in log-log, not in semi-log",
            needs=[enough],
        )

    def figures(self, tables: Tables[Settings]) -> Iterable[Figure]:
        settings, times = tables.settings, times_by_length(tables)
        chart = self.chart("length", self.title, columns=2, height=4.0)
        laws = (power_law(times), exponential_law(times))
        each = times_of(tables["trials"])
        for log, title in (("xy", "A power law is straight here"), ("y", "An exponential is straight here")):
            panel = chart.panel(title=title, x="length L", y="steps", log=log, xticks=settings.lengths)
            if np.isinf(each).any():
                panel.never(1.5 * settings.budget)
            panel.dots(tables["trials"]["length"], each, color=figures.MUTED, markersize=3)
            panel.curve(times, "median", color=figures.BLUE, key="legend")
            for law, color, name in zip(
                laws, (figures.GREEN, figures.VERMILLION), ("power", "exponential"), strict=True
            ):
                if law.points > 1:
                    panel.line(
                        times.x, law.predict(times.x), f"{name}, {law.exponent.value:.2g}", color=color, key="legend"
                    )
        yield chart.figure(
            f"Steps of {settings.batch_size} sequences until FVU ≤ {settings.wanted:g}; Φ = {settings.phi}, m = "
            f"{settings.width}, ε_x = {settings.eps_x:g}, η = {settings.c:g} d/(m L). Medians over {settings.seeds} "
            "targets with intervals by order statistics, a triangle where more than half did not get there; grey: each "
            f"run, on the dashed line where it never did within {settings.budget:,} steps.",
            tables["trials"].select("length", "seed", "convergence_time", "outcome"),
        )


def times_by_length(tables: Tables[Settings]) -> Curve:
    """Median steps against L, censored at the budget."""
    found: Curve = curves(tables["trials"], x="length", horizon=float(tables.settings.budget))[()]
    return found
