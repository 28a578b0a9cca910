"""Counting: a network that says at every position how many more as than bs it has read (Example 3.6).

#a - #b is a sum over tokens of a linear function of the letter. On a^n b^k it is zero exactly where n = k, so a network
that counts recognises that language, which is not regular. Strings of a length can be listed: what is measured is
exact.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from krogh.engine import Trials
from krogh.experiments.recurrence.common import FEWEST_SEEDS, cohorts, weights_of
from krogh.experiments.recurrence.sums import SOURCE, LetterSettings, trial_of
from krogh.lab import Claims, Experiment, Figure, Network, Results, Tables, experiment, figures, median, need, setting
from krogh.lab.experiment import Measures
from krogh.tasks.letters import LetterCount

LETTERS = 8
WANTED = 0.95


@dataclass(frozen=True)
class Settings(LetterSettings):
    length: int = setting(LETTERS + 2, "positions L: letters and two more", least=3, most=14)
    scale: float = setting(4.0, "labels are (#a - #b) over this", above=0)


@experiment("recurrence/counting")
class Counting(Experiment[Settings]):
    """Share of strings and positions of which a network knows the count."""

    title = "A recurrent network learns to count letters"
    question = "Does SGD learn #a - #b at every position, exactly after rounding?"
    source = f"{SOURCE}, Example 3.6"
    scales = {
        "smoke": Settings(length=5, width=16, budget=20, looks=2, seeds=2),
        "laptop": Settings(seeds=6),
        "paper": Settings(width=1000, seeds=20),
    }
    keep_weights = True
    notes = (
        "Proposed. Labels at every position j = 3..L; batches are drawn from all strings; W alone is trained.",
        "Of n letters #a - #b is as odd as n. `exact` rounds it to the nearest integer; `letters` rounds #a, which is "
        "(n + #a - #b)/2 and right with twice the error. The reference does not say which it rounds, nor where; its "
        "0.988 is 253 of 256 strings, what `letters` gives at the last position.",
    )

    def trials(self, settings: Settings) -> Iterator[Trials]:
        task = LetterCount(length=settings.length, scale=settings.scale, eps_x=settings.eps_x)
        runs = [trial_of(settings, task, settings.width, seed, validation="exact") for seed in range(settings.seeds)]
        yield from cohorts(runs)

    def measure(self, results: Results[Settings]) -> Measures:
        counted = [one for network in results.networks() for one in counts(network)]
        return {"counted": pl.DataFrame(counted, infer_schema_length=None)}

    def claims(self, tables: Tables[Settings], say: Claims) -> None:
        settings, rows = tables.settings, tables["counted"]
        say = say.about(
            needs=[need(settings.seeds, FEWEST_SEEDS, "seeds"), need(settings.length - 2, LETTERS, "letters")]
        )
        whole = rows.group_by("seed").agg(pl.col("exact", "letters", "zero").mean()).sort("seed")
        for name, statement, statistic, reference in (
            ("exact", "The difference #a - #b is right after rounding.", "rounded difference is right", "0.988"),
            ("letters", "The number of as is right after rounding.", "rounded number of as is right", "0.988"),
            ("zero", "Whether there are as many as as bs is known.", "zero test is right", "0.992"),
        ):
            say(
                name,
                statement,
                median(whole[name].to_numpy(), lowest=0.0, highest=1.0, sample=name),
                f"median over seeds of the share of strings and positions where the {statistic}",
                at_least=WANTED,
                source_value=f"reference {reference}",
            )
        say(
            "balanced",
            "Among strings a^n b^k those with n = k are told from the others, at their end.",
            median(
                rows.filter(pl.col("position") == settings.length)["balanced"].to_numpy(),
                lowest=0.0,
                highest=1.0,
                sample="balanced",
            ),
            "median over seeds of the share of strings a^n b^k of which it is right",
            at_least=WANTED,
            source_value="in the class; no number",
        )

    def figures(self, tables: Tables[Settings]) -> Iterable[Figure]:
        settings, rows = tables.settings, tables["counted"]
        chart = self.chart("counting", self.title, columns=2, height=4.0)
        panel = chart.panel(
            title="Right after rounding", x="position j", y="share of strings", xticks=range(3, settings.length + 1)
        )
        panel.ranges(rows, "position", "letters", "#a", color=figures.VERMILLION, key="legend")
        panel.ranges(rows, "position", "exact", "#a - #b", color=figures.BLUE, key="legend")
        panel.ranges(rows, "position", "zero", "zero test", color=figures.GREEN, key="legend")
        panel.reference(WANTED, f"{WANTED:g}")
        panel = chart.panel(
            title="Error of #a - #b", x="position j", y="root mean square", xticks=range(3, settings.length + 1)
        )
        panel.ranges(rows, "position", "rms", color=figures.BLUE)
        yield chart.figure(
            f"All {2 ** (settings.length - 2)} strings of {settings.length - 2} letters; m = {settings.width}, "
            f"{settings.budget:,} steps of {settings.batch_size}, labels (#a - #b)/{settings.scale:g}. Means over "
            f"{settings.seeds} seeds, bands from the least to the largest.",
            rows,
        )


def counts(one: Network) -> list[dict[str, Any]]:
    """For each position: shares of strings of which #a - #b, #a, and whether they balance, is right after rounding."""
    task = one.trial.task
    assert isinstance(task, LetterCount)
    population = task.population()
    truth = np.asarray(task.counts(population.tokens))
    if one.final is None:
        said = np.full(truth.shape, np.nan)
    else:
        x = task.decode(population).x
        said = np.asarray(one.trial.model.predict(weights_of(one.final), x), np.float64) * float(task.scale)
    rounded = np.where(np.isnan(said), 10**6, np.round(said))
    bits = np.asarray(population.tokens)
    rows = []
    for place, position in enumerate(task.places):
        sorted_letters = (np.diff(bits[:, : position - 2].astype(int), axis=1) <= 0).all(
            axis=1
        )  # a^n b^k: no a after a b
        zero = (rounded[:, place] == 0) == (truth[:, place] == 0)
        rows.append(
            {
                "seed": one.seed,
                "position": position,
                "exact": float(np.mean(rounded[:, place] == truth[:, place])),
                "letters": float(np.mean(np.abs(said[:, place] - truth[:, place]) < 1)),
                "zero": float(zero.mean()),
                "balanced": float(zero[sorted_letters].mean()),
                "rms": float(np.sqrt(np.mean((said[:, place] - truth[:, place]) ** 2))),
            }
        )
    return rows
