"""Figure 8.5: trigrams are learned in four stages, and a single head stops at bigrams.

The next token depends on the last two. A two-layer transformer with three heads passes through uniform, unigram, bigram
and trigram; with one head in the first layer, which can bring one earlier token only, it stays at bigrams (§8.3.3).
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
from krogh.lab.experiment import Measures

STRATEGIES = ("uniform", "unigram", "bigram", "trigram")
STAGES = ("unigram", "bigram", "trigram")


@dataclass(frozen=True)
class Settings(ChainSettings):
    k: int = setting(2, "symbols", least=2)
    heads: tuple[int, ...] = setting((1, 3), "heads in each layer", distinct=True, least=1)
    per_head: int = setting(16, "dimension of a head", least=1)
    length: int = setting(200, "tokens per sequence, t", least=4)


@experiment("chains/trigrams")
class Trigrams(Experiment[Settings]):
    """Distances to four strategies on trigram chains, with one head and with three."""

    title = "Trigrams take four stages and more than one head"
    question = "Does a transformer climb from unigrams to bigrams to trigrams, and what does it need for the last step?"
    source = "dissertation, §8.3.3, Figure 8.5"
    scales = {
        "smoke": Settings(**SMOKE, per_head=4, heads=(2,)),
        "laptop": Settings(length=60, rate=1e-3, steps=1_600, look_every=80, seeds=6, validation=300),
        "paper": Settings(steps=4_000, look_every=40),
    }
    notes = (
        "The source does not state k, and prints the learning rate 3e-2, at which AdamW diverges or forgets; 5e-4 to "
        "2e-3 show the stages.",
        "Heads have their own width, so that three heads are a network three times as wide.",
    )

    def check(self, settings: Settings) -> None:
        settings.check_looks()

    def trials(self, settings: Settings) -> Iterator[Trials]:
        for heads in settings.heads:
            model = settings.model(dimension=heads * settings.per_head, heads=heads)
            trial = settings.trial(settings.chains(settings.k, order=3), model)
            yield from sweep(trial, seed=range(settings.seeds), label={"heads": heads})

    def measure(self, results: Results[Settings]) -> Measures:
        return phase_measures(results, "heads", STRATEGIES)

    def claims(self, tables: Tables[Settings], say: Claims) -> None:
        for heads, rows in groups(tables["phases"], "heads").items():
            sample = f"heads={heads}"
            about = say.about(
                f"heads{heads}-",
                f"{heads} head{'s' if heads > 1 else ''}: ",
                needs=[need(len(rows), FEWEST_SEEDS, "seeds")],
            )
            left = left_to_go(rows, "bigram", "trigram", sample)
            statistic = "median of (loss − trigram's)/(bigram's − trigram's)"
            if heads == 1:
                about(
                    "bigram",
                    "the network ends nearest to bigrams.",
                    share_where(rows, pl.col("last_phase") == "bigram", sample),
                    "share of seeds",
                    at_least=0.5,
                    source_value="single-head models never beat bigrams",
                )
                about(
                    "stays",
                    "and has at least half of the way to trigrams before it.",
                    left,
                    statistic,
                    at_least=0.5,
                    source_value="single-head models never beat bigrams",
                )
                continue
            order = ".*".join(STAGES)
            about(
                "stages",
                "unigram, bigram and trigram follow one another.",
                share_where(rows, pl.col("phases").str.contains(order), sample),
                "share of seeds",
                at_least=0.5,
                source_value="four stages",
            )
            about(
                "final",
                "in the end the loss is below the midpoint between bigram and trigram.",
                left,
                statistic,
                below=0.5,
                source_value="close to Bayes",
            )

    def figures(self, tables: Tables[Settings]) -> Iterable[Figure]:
        by_heads, heads = groups(tables["curves"], "heads"), tables.settings.heads
        chart = self.chart(
            "trigrams",
            "Stages of learning trigrams",
            headline="Trigram chains: four stages with three heads, bigrams with one",
            rows=2,
            columns=len(heads),
            width=5.2 * len(heads),
            height=6.0,
            sharex="col",
        )
        titles = {number: f"{number} head{'s' if number > 1 else ''}" for number in heads}
        yield chart.figure(draw_phases(chart, by_heads, titles, STRATEGIES), tables["curves"])
