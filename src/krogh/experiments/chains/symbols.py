"""Figure E.4: the same phases with more symbols, if the context is long enough to show the unigram phase.

With k symbols the stationary law is nearly uniform for large k, so that unigrams gain little over guessing; and a
bigram table has k² entries to be read off the context. The gap between the two needs a longer context.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import polars as pl

from krogh.engine import Trials, sweep
from krogh.experiments.chains.common import (
    FEWEST_SEEDS,
    SMOKE,
    ChainSettings,
    draw_phases,
    left_to_go,
    phase_measures,
    share_where,
)
from krogh.lab import Claims, Experiment, Figure, Results, Tables, experiment, groups, need, setting
from krogh.lab.estimate import mean, median
from krogh.lab.experiment import Measures
from krogh.tasks.chains import MarkovChains

STRATEGIES = ("uniform", "unigram", "bigram")


@dataclass(frozen=True)
class Settings(ChainSettings):
    k: int = setting(8, "symbols", least=2)
    lengths: tuple[int, ...] = setting((100, 200), "tokens per sequence, t", increasing=True, least=4)


@experiment("chains/symbols")
class Symbols(Experiment[Settings]):
    """Phases of a transformer on chains with many symbols, for short and long contexts."""

    title = "More symbols: the same phases, in a longer context"
    question = "Does a transformer pass through unigrams when they tell little more than guessing?"
    source = "dissertation, Appendix E.2, Figure E.4"
    scales = {
        "smoke": Settings(**SMOKE, k=2, lengths=(8, 12)),
        "laptop": Settings(k=5, lengths=(50, 100), rate=1e-3, steps=2_000, look_every=80, seeds=6, validation=300),
        "paper": Settings(steps=6_000, look_every=40),
    }
    notes = (
        "The source does not print k, only that it is above 3; with k = 8 the contexts of 100 and 200 differ most.",
    )

    def check(self, settings: Settings) -> None:
        settings.check_looks()

    def trials(self, settings: Settings) -> Iterator[Trials]:
        for length in settings.lengths:
            task = MarkovChains(settings.k, length)
            yield from sweep(settings.trial(task), seed=range(settings.seeds), label={"t": length})

    def measure(self, results: Results[Settings]) -> Measures:
        return phase_measures(results, "t", STRATEGIES)

    def claims(self, tables: Tables[Settings], say: Claims) -> None:
        by_length, (short, *_, long) = groups(tables["phases"], "t"), tables.settings.lengths
        say = say.about(needs=[need(tables.settings.seeds, FEWEST_SEEDS, "seeds")])
        rows, sample = by_length[long], f"t={long}"
        say(
            "order",
            f"t = {long}: most networks pass through uniform, unigram and bigram, in this order.",
            share_where(rows, pl.col("phases").str.contains("uniform.*unigram.*bigram"), sample),
            "share of seeds",
            at_least=0.5,
            source_value="the same phases",
        )
        say(
            "final",
            f"t = {long}: in the end the loss is below the midpoint between unigram and bigram.",
            left_to_go(rows, "unigram", "bigram", sample),
            "median of (loss − bigram's)/(unigram's − bigram's)",
            below=0.5,
            source_value="close to the bigram line",
        )
        gaps = {
            length: mean((own["baseline_unigram"] - own["baseline_bigram"]).to_numpy(), sample=f"gap t={length}")
            for length, own in by_length.items()
        }
        say(
            "gap",
            f"The gap between unigram and bigram is wider with t = {long} than with t = {short}.",
            gaps[long] - gaps[short],
            "difference of the mean gaps between the two strategies' losses (nats)",
            above=0.0,
            source_value="the unigram phase is visible only for t > 100",
        )
        shares = {
            length: median((own["plateau"] / own["horizon"]).to_numpy(), lowest=0.0, sample=f"t={length}")
            for length, own in by_length.items()
        }
        say(
            "visible",
            f"t = {long}: networks spend time nearest to unigrams.",
            shares[long],
            "median share of the run that is nearest to unigram",
            above=0.0,
            source_value="visible for t > 100",
        )

    def figures(self, tables: Tables[Settings]) -> Iterable[Figure]:
        by_length, lengths = groups(tables["curves"], "t"), tables.settings.lengths
        chart = self.chart(
            "symbols",
            "Phases with many symbols",
            headline=f"k = {tables.settings.k} symbols: loss and distances to strategies",
            rows=2,
            columns=len(lengths),
            width=5.2 * len(lengths),
            height=6.0,
            sharex="col",
        )
        titles = {length: f"t = {length}" for length in lengths}
        yield chart.figure(draw_phases(chart, by_length, titles, STRATEGIES), tables["curves"])
