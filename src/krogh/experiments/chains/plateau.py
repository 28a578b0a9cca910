"""How long the plateau lasts: initial scale and learning rate (proposed; §8.3.2 and Appendix E.2 of the dissertation).

The source prints the learning rate 3e-5 and no initial scale. Both decide how long a transformer stays at unigrams. All
combinations train as one program: the two are data.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import polars as pl

from krogh.engine import Trials, sweep
from krogh.experiments.chains.common import FEWEST_SEEDS, SMOKE, ChainSettings
from krogh.lab import Claims, Experiment, Figure, Results, Tables, curves, experiment, groups, need, setting
from krogh.lab.estimate import rate as share
from krogh.lab.experiment import Measures
from krogh.lab.phases import phase_table


@dataclass(frozen=True)
class Settings(ChainSettings):
    k: int = setting(2, "symbols", least=2)
    preset: str = setting("plain", "initial weights and normalisation", among=("plain", "paper"))
    spreads: tuple[float, ...] = setting(
        (0.02, 0.05, 0.1, 0.25), "standard deviations of the initial weights", increasing=True, above=0
    )
    rates: tuple[float, ...] = setting((3e-5, 5e-4, 1e-3), "learning rates of AdamW", increasing=True, above=0)


@experiment("chains/plateau")
class Plateau(Experiment[Settings]):
    """Time to the transition over initial scale and learning rate."""

    title = "Small weights and small steps stay at unigrams for long"
    question = "How does the length of the unigram plateau depend on the initial scale and the learning rate?"
    source = "proposed; dissertation, §8.3.2 and Appendix E.2"
    scales = {
        "smoke": Settings(**SMOKE, preset="paper", spreads=(0.02, 0.25), rates=(1e-3, 5e-3)),
        "laptop": Settings(
            k=3,
            length=40,
            steps=1_600,
            look_every=80,
            seeds=8,
            validation=300,
            spreads=(0.05, 0.25),
            rates=(5e-4, 2e-3),
        ),
        "paper": Settings(steps=8_000, look_every=40),
    }

    def check(self, settings: Settings) -> None:
        settings.check_looks()

    def trials(self, settings: Settings) -> Iterator[Trials]:
        trial = settings.trial(settings.chains(settings.k), settings.model(spread=settings.spreads[0]))
        yield from sweep(
            trial,
            model__spread=settings.spreads,
            training__optimiser__rate=settings.rates,
            seed=range(settings.seeds),
        )

    def measure(self, results: Results[Settings]) -> Measures:
        table = results.table.with_columns(spread=pl.col("model.spread"), rate=pl.col("training.optimiser.rate"))
        scale = float(results.settings.batch_size)
        return {"phases": phase_table(table, "unigram", "bigram", labels=("spread", "rate"), scale=scale)}

    def claims(self, tables: Tables[Settings], say: Claims) -> None:
        settings = tables.settings
        say = say.about(needs=[need(settings.seeds, FEWEST_SEEDS, "seeds")])
        horizon = float(settings.steps * settings.batch_size)
        by_spread = curves(tables["phases"], by="spread", x="rate", y="transition", horizon=horizon)
        by_rate = curves(tables["phases"], by="rate", x="spread", y="transition", horizon=horizon)
        for spread, curve in by_spread.items():
            for low, high in itertools.pairwise(settings.rates):
                say(
                    f"rate-{spread:g}-{low:g}",
                    f"Standard deviation {spread:g}: the transition comes later with rate {low:g} than with {high:g}.",
                    curve.at(low) / curve.at(high),
                    "ratio of the median numbers of sequences until the transition",
                    above=1.0,
                )
        for chosen, curve in by_rate.items():
            for low, high in itertools.pairwise(settings.spreads):
                say(
                    f"spread-{chosen:g}-{low:g}",
                    f"Rate {chosen:g}: the transition comes later from standard deviation {low:g} than from {high:g}.",
                    curve.at(low) / curve.at(high),
                    "ratio of the median numbers of sequences until the transition",
                    above=1.0,
                )
        slowest = groups(tables["phases"], ("spread", "rate"))[settings.spreads[0], settings.rates[0]]
        say(
            "still-there",
            f"With standard deviation {settings.spreads[0]:g} and rate {settings.rates[0]:g}, most networks are still "
            f"on the plateau after {horizon:,.0f} sequences.",
            share(int(slowest["transition"].is_infinite().sum()), len(slowest), sample="slowest"),
            "share of seeds without a transition",
            at_least=0.5,
            source_value="a drop near 92,000 sequences at the printed rate 3e-5",
        )

    def figures(self, tables: Tables[Settings]) -> Iterable[Figure]:
        settings = tables.settings
        horizon = float(settings.steps * settings.batch_size)
        chart = self.chart("plateau", "Sequences until the transition")
        panel = chart.panel(
            x="standard deviation of the initial weights", y="training sequences until the drop", log="xy",
            xticks=settings.spreads, ylim=(settings.look_every * settings.batch_size / 2, 1.5 * horizon),
        )  # fmt: skip
        for chosen, curve in curves(tables["phases"], by="rate", x="spread", y="transition", horizon=horizon).items():
            panel.curve(curve, f"rate {chosen:g}", key="legend")
        yield chart.figure(
            "Median number of sequences until the loss is below the midpoint of unigram and bigram, with 95% "
            f"intervals; a triangle at the upper edge is a median that was not reached within {horizon:,.0f}."
        )
