"""Substring matching: an explicit function of one hidden layer is exact, a network learns it, a sum over bits does not.

All strings of n bits are split into training and test strings, another split for every seed; networks and the best sum
over positions learn from the same strings and are judged on the same others.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import polars as pl

from krogh.engine import Trial, Trials
from krogh.engine.trial import DATA
from krogh.experiments.recurrence.common import (
    FEWEST_SEEDS,
    additive_training,
    check_looks,
    cohorts,
    median_of,
    thinned,
    weights_of,
)
from krogh.experiments.recurrence.whole import NO_EXPERIMENTS, PRESET, RNN_PAPER
from krogh.lab import Claims, Experiment, Figure, Results, Tables, experiment, figures, look_table, need, setting
from krogh.lab.estimate import exact
from krogh.lab.experiment import Measures
from krogh.models.additive import Additive
from krogh.models.elman import ElmanRnn
from krogh.networks.recurrence.neurons import contains
from krogh.probes.progress import Error
from krogh.tasks.bit_strings import Substring, all_strings
from krogh.training import Offline, Stopping
from krogh.training.recurrence import BATCH, whole_training

RATIO, TRAINED = 0.5, 0.02
"""What the test error may be of the additive one, and what the training error may be."""
DECISIVE = {"width": 200, "bits": 10}


@dataclass(frozen=True)
class Settings:
    bits: int = setting(10, "bits of a string", least=3, most=14)
    pattern: str = setting("101", "the pattern that is looked for")
    held: int = setting(256, "test strings, of all 2^bits", least=1)
    width: int = setting(200, "hidden units m", least=1)
    eps_x: float = setting(1.0, "the size of tokens", above=0, most=1)
    c: float = setting(0.3, "the rate is c/(m L)", above=0)
    steps: int = setting(12_000, "steps of every trial", least=1)
    look_every: int = setting(100, "steps between two looks", least=1)
    seeds: int = setting(6, "splits, each with a network of its own", least=1)

    def task(self, split: int) -> Substring:
        return Substring(self.bits, self.pattern, eps_x=self.eps_x, held=self.held, split=split)


@experiment("recurrence/substring")
class SubstringMatching(Experiment[Settings]):
    """Test errors of networks and of sums over positions on strings that were never seen."""

    title = "A recurrent network learns to find a substring"
    question = "Does a network learn from three quarters of all strings whether a pattern occurs in the others?"
    source = f"{RNN_PAPER}, appendix H (substring matching)"
    scales = {
        "smoke": Settings(bits=6, held=16, width=8, steps=40, look_every=20, seeds=2),
        "laptop": Settings(),
        "paper": Settings(bits=12, held=1024, width=1000, steps=40_000, seeds=10),
    }
    notes = (
        NO_EXPERIMENTS,
        PRESET,
        "A mistake is an answer on the wrong side of 1/2. Networks and sums over positions have the same training and "
        "test strings; the sum is that of least squares.",
    )
    keep_weights = True

    def check(self, settings: Settings) -> None:
        check_looks(settings.steps, settings.look_every)
        settings.task(0)

    def trials(self, settings: Settings) -> Iterator[Trials]:
        samples = 2**settings.bits - settings.held
        stopping = Stopping(budget=settings.steps, error=0.0, check_every=settings.look_every,
                            validation=settings.held, early=False)  # fmt: skip
        model = ElmanRnn(settings.width)
        regime = Offline(samples, BATCH)
        training = whole_training(settings.task(0), model, stopping, c=settings.c, regime=regime)
        networks = [
            Trial(settings.task(seed), model, training, seed=seed, probes=(Error(),)) for seed in range(settings.seeds)
        ]
        sample = additive_training(samples, settings.held)
        sums = [Trial(settings.task(seed), Additive(), sample, seed=seed) for seed in range(settings.seeds)]
        for learner, trials in (("network", networks), ("additive", sums)):
            yield from cohorts(trials, learner=learner)

    def measure(self, results: Results[Settings]) -> Measures:
        return {
            "errors": error_table(results),
            "scores": lambda: score_table(results.settings),
            "curves": lambda: look_table(results.table.filter(learner="network"), "seed", columns=["error"]),
        }

    def claims(self, tables: Tables[Settings], say: Claims) -> None:
        settings, rows, scores = tables.settings, tables["errors"], tables["scores"]
        n = settings.bits
        inside, outside = (scores.filter(occurs=flag)["score"] for flag in (True, False))
        say("construction", "Σ_i exp(c(⟨v_i, x⟩ - k)) is at least 1 for every string with the pattern.",
            exact(float(inside.min()), len(scores)), "the least score of strings with the pattern, all strings",  # type: ignore[arg-type]
            at_least=1.0, source_value="1.009 at n = 12")  # fmt: skip
        say("construction-outside", "It is at most 1/n for every other string.",
            exact(n * float(outside.max()), len(scores)), "n times the largest score of the others",  # type: ignore[arg-type]
            at_most=1.0 + 1e-9, source_value="1")  # fmt: skip
        say = say.about(
            needs=[
                need(settings.seeds, FEWEST_SEEDS, "splits"),
                need(settings.width, DECISIVE["width"], "hidden units"),
                need(settings.bits, DECISIVE["bits"], "bits"),
            ]
        )
        both = rows.filter(learner="network").join(rows.filter(learner="additive"), on="seed", suffix="_additive")
        say("half", "On unseen strings networks make less than half of the mistakes of the best sum over bits.",
            median_of(both, pl.col("test") / pl.col("test_additive"), "splits"),
            "median over splits of test error / additive test error", below=RATIO,
            source_value=".08 / .31")  # fmt: skip
        say("trained", "Networks learn the training strings.", median_of(both, "train", "splits"),
            "median training error", below=TRAINED, source_value=".003")  # fmt: skip

    def figures(self, tables: Tables[Settings]) -> Iterator[Figure]:
        settings, rows = tables.settings, tables["errors"]
        chart = self.chart("substring", self.title, columns=2, width=9.6, height=3.8)
        left = chart.panel(title="while training", x="steps", y="test error")
        left.ranges(
            thinned(tables["curves"]),
            "step",
            "error",
            "networks",
            middle=pl.Expr.median,
            color=figures.BLUE,
            key="legend",
        )
        additive = float(rows.filter(learner="additive")["test"].median())  # type: ignore[arg-type]
        left.reference(additive, "best sum over positions (median)")
        left.reference(additive / 2, "half of it")
        right = chart.panel(title="the explicit function", x="score Σ_i exp(c(⟨v_i, x⟩ - k))", y="strings", log="x")
        every = tables["scores"]["score"].to_numpy()
        for occurs, color in ((True, figures.GREEN), (False, figures.ORANGE)):
            found = tables["scores"].filter(occurs=occurs)["score"].to_numpy()
            edges = np.geomspace(0.9 * every.min(), 1.1 * every.max(), 60)
            counts, _ = np.histogram(found, edges)
            right.line(
                np.sqrt(edges[:-1] * edges[1:]),
                counts,
                "pattern occurs" if occurs else "does not",
                style="-",
                color=color,
                key="legend",
            )
        right.reference(1.0, "1", axis="x")
        right.legend(loc="best")
        yield chart.figure(
            f"Strings of {settings.bits} bits, pattern {settings.pattern}, {settings.held} test strings. Left: median "
            f"test error of {settings.seeds} networks of {settings.width} hidden units with the range over splits; "
            "dashed: the best sum over positions, and half of it. Right: the scores of all strings by the explicit "
            "function of appendix H, which parts them exactly.",
        )


def error_table(results: Results[Settings]) -> pl.DataFrame:
    """A row per trial: learner, seed, error on the test strings and, of networks, on the training strings."""
    rows = []
    for row in results.table.filter(learner="additive").iter_rows(named=True):
        rows.append({"learner": "additive", "seed": int(row["seed"]), "test": float(row["error"]), "train": None})
    samples = 2**results.settings.bits - results.settings.held
    for network in results.networks(learner="network"):
        task, train, test = network.trial.task, 1.0, 1.0
        if network.final is not None:
            seen = task.decode(network.trial.training.regime.whole(task, network.trial.key(DATA)))
            assert len(seen.x) == samples
            final = weights_of(network.final)
            train = float(np.mean(task.judge(network.trial.model.predict(final, seen.x), seen)))
            test = float(network.row["error"])
        rows.append({"learner": "network", "seed": network.seed, "test": test, "train": train})
    return pl.DataFrame(rows, schema={"learner": pl.String, "seed": pl.Int64, "test": pl.Float64, "train": pl.Float64})


def score_table(settings: Settings) -> pl.DataFrame:
    """Of every string whether the pattern occurs (by Python's own search), and what the neurons of appendix H give."""
    strings = all_strings(settings.bits)
    occurs = [settings.pattern in "".join(map(str, word)) for word in strings.tolist()]
    return pl.DataFrame({"occurs": occurs, "score": contains(settings.bits, [settings.pattern]).run(strings)})
