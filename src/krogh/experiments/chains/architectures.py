"""Beyond the source: which strategies do other architectures pass through on the same chains?

A gated recurrent network, a diagonal state-space model and linear attention beside the two-layer transformer, trained
by Adam on the same sequences. Nothing is known beforehand; each question is put to every network in the same words.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
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
from krogh.lab.estimate import median
from krogh.lab.experiment import Measures
from krogh.models import CausalTransformer, LinearAttention, Recurrent, StateSpace
from krogh.models.base import Model
from krogh.values import replaced

STRATEGIES = ("uniform", "unigram", "bigram")


@dataclass(frozen=True)
class Architecture:
    """A model of a given width, in words, with its learning rate."""

    words: str
    model: Callable[[int], Model]
    rate: float


ARCHITECTURES: Mapping[str, Architecture] = {
    "transformer": Architecture(
        "two layers, relative positions", lambda width: CausalTransformer.paper(dimension=max(width // 4, 4)), 1e-3
    ),
    "gru": Architecture("gated recurrent units", lambda width: Recurrent("gru", width, bidirectional=False), 3e-3),
    "lstm": Architecture("long short-term memory", lambda width: Recurrent("lstm", width, bidirectional=False), 3e-3),
    "state-space": Architecture(
        "diagonal linear recurrence, gated",
        lambda width: StateSpace(state=width, width=width, hidden=width, bidirectional=False),
        3e-3,
    ),
    "linear-attention": Architecture(
        "one layer, no positions", lambda width: LinearAttention(hidden=width, causal=True), 3e-3
    ),
}


@dataclass(frozen=True)
class Settings(ChainSettings):
    k: int = setting(3, "symbols", least=2)
    architectures: tuple[str, ...] = setting(tuple(ARCHITECTURES), "networks", distinct=True, among=ARCHITECTURES)
    width: int = setting(64, "units of a recurrent network; a transformer has a quarter of it as dimension", least=4)


@experiment("chains/architectures")
class Architectures(Experiment[Settings]):
    """Phases of recurrent networks, state-space models and linear attention beside those of a transformer."""

    title = "Other architectures on the same chains: which strategies do they pass through?"
    question = "Is the unigram plateau a property of the task, or of the transformer?"
    source = "beyond the dissertation; the task of chapter 8"
    scales = {
        "smoke": Settings(**SMOKE, width=8, architectures=("gru",)),
        "laptop": Settings(length=40, steps=1_600, look_every=80, seeds=6, validation=300, width=32),
        "paper": Settings(steps=8_000, look_every=80),
    }  # fmt: skip
    notes = (
        "Linear attention is the one-layer model of the qSTR experiments: it has no positions, so that it can weigh "
        "symbols but not find what followed one.",
        "Learning rates were set beforehand, one for each architecture, and not searched: Adam, 1e-3 for the "
        "transformer and 3e-3 for the others.",
    )

    def check(self, settings: Settings) -> None:
        settings.check_looks()

    def trials(self, settings: Settings) -> Iterator[Trials]:
        task = settings.chains(settings.k)
        for name in settings.architectures:
            architecture = ARCHITECTURES[name]
            trial = settings.trial(task, architecture.model(settings.width))
            trial = replaced(trial, "training.optimiser.rate", architecture.rate)
            yield from sweep(trial, seed=range(settings.seeds), label={"network": name})

    def measure(self, results: Results[Settings]) -> Measures:
        return phase_measures(results, "network", STRATEGIES)

    def claims(self, tables: Tables[Settings], say: Claims) -> None:
        for name, rows in groups(tables["phases"], "network").items():
            words = ARCHITECTURES[name].words
            about = say.about(f"{name}-", f"{name} ({words}): ", needs=[need(len(rows), FEWEST_SEEDS, "seeds")])
            about(
                "unigram-first",
                "most networks are nearest to the unigram strategy at some look before they are nearest to the bigram.",
                share_where(rows, pl.col("phases").str.contains("^[^b]*unigram"), name),
                "share of seeds",
                at_least=0.5,
            )
            about(
                "bigram",
                "in the end the loss is below the midpoint between unigram and bigram.",
                left_to_go(rows, "unigram", "bigram", name),
                "median of (loss − bigram's)/(unigram's − bigram's)",
                below=0.5,
            )
            about(
                "plateau",
                "at least a tenth of the training is spent nearest to the unigram strategy.",
                median((rows["plateau"] / rows["horizon"]).to_numpy(), lowest=0.0, sample=name),
                "median share of the run",
                at_least=0.1,
            )

    def figures(self, tables: Tables[Settings]) -> Iterable[Figure]:
        by_name, names = groups(tables["curves"], "network"), tables.settings.architectures
        chart = self.chart(
            "architectures",
            "Phases by architecture",
            rows=2,
            columns=len(names),
            width=3.6 * len(names),
            height=5.6,
            sharex="col",
            sharey="row",
        )
        titles = {name: name for name in names}
        yield chart.figure(draw_phases(chart, by_name, titles, STRATEGIES), tables["curves"])
