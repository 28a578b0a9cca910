"""Labels with noise: SGD approaches what the best target of the class loses, OPT, as it approaches 0 without noise.

With labels y* = F* + noise of variance v, F* itself has the risk OPT = v/2 for each number of a label (half squares).
Theorem 1 is agnostic: the average over iterates of the risk is at most OPT + ε. Held against each other are the excess
over OPT with noise and without, of the same targets and networks.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import polars as pl

from krogh.engine import Trials
from krogh.errors import require
from krogh.experiments.recurrence.common import FEWEST_SEEDS, cohorts
from krogh.experiments.recurrence.sums import SOURCE, SumSettings, medians, target, trial_of
from krogh.lab import (
    Claims,
    Experiment,
    Figure,
    Results,
    Tables,
    experiment,
    figures,
    groups,
    look_table,
    median,
    need,
    setting,
)
from krogh.lab.experiment import Measures

SAME = 1.3
"""What counts as the same excess: the tolerance that the reference allows from one width to another."""


@dataclass(frozen=True)
class Settings(SumSettings):
    noises: tuple[float, ...] = setting((0.0, 0.02, 0.1), "variances v of the labels' noise", least=0, increasing=True)
    rates: tuple[float, ...] = setting((0.125, 0.5), "c of the rate η = c d/(λ² m L)", above=0, increasing=True)
    width: int = setting(1000, "neurons m", least=1)
    eps_x: float = setting(1.0, "size of tokens", above=0, most=1)


@experiment("recurrence/agnostic")
class Agnostic(Experiment[Settings]):
    """Risk beyond that of the target itself, with noisy labels and without."""

    title = "With noisy labels the risk approaches that of the target itself"
    question = "Does noise in the labels add to the risk of SGD more than it adds to the best function's?"
    source = f"{SOURCE}, Theorem 1 (agnostic: risk ≤ OPT + ε)"
    scales = {
        "smoke": Settings(noises=(0.0, 0.1), rates=(0.5,), width=16, budget=20, looks=2, seeds=2, validation=50),
        "laptop": Settings(width=150, seeds=6),
        "paper": Settings(),
    }
    notes = (
        "Proposed; the reference says the same excess and gives no tolerance: ours is a factor of 1.3, as for widths.",
        "The excess is E Σ_j (f_j - F*_j)²/2, which is risk minus OPT without the sampling error of the noise itself.",
        "Averages over iterates are over looks during training, the first one included; a constant rate leaves a floor "
        "that is proportional to η v, which the theorem's rates make small.",
    )

    def check(self, settings: Settings) -> None:
        first = settings.noises[0]
        require(first == 0, f"noises begin with 0, which the others are compared with; got noises={settings.noises}")

    def trials(self, settings: Settings) -> Iterator[Trials]:
        for c in settings.rates:
            runs = [
                trial_of(settings, target(settings, seed, eps_x=settings.eps_x, noise=noise), settings.width, seed, c=c)
                for noise in settings.noises
                for seed in range(settings.seeds)
            ]
            yield from cohorts(runs, c=c)

    def measure(self, results: Results[Settings]) -> Measures:
        """Excess in halves of squares summed over labels: at the end, and averaged over looks."""
        settings, rows = results.settings, []
        labels = settings.length - 2
        for row in results.table.iter_rows(named=True):
            fine = row["outcome"] != "diverged"
            scale = np.sum(_variances(settings, row["seed"]))
            shares = np.asarray(row["curve.unexplained"], float)
            rows.append(
                {
                    "c": row["c"],
                    "noise": row["task.noise"],
                    "seed": row["seed"],
                    "excess": labels * row["error"] / 2 if fine else math.inf,
                    "excess_average": float(shares[:-1].mean() * scale / 2) if fine else math.inf,
                    "opt": labels * row["task.noise"] / 2,
                }
            )
        looks = look_table(results.table, "c", "task.noise", "seed").rename({"task.noise": "noise"})
        return {"excess": pl.DataFrame(rows), "looks": looks}

    def claims(self, tables: Tables[Settings], say: Claims) -> None:
        settings, rows = tables.settings, tables["excess"]
        say = say.about(needs=[need(settings.seeds, FEWEST_SEEDS, "targets")])
        for c in settings.rates:
            for noise in settings.noises[1:]:
                own = against_noiseless(rows.filter(pl.col("c") == c), noise)
                about = say.about(f"c{c:g}-v{noise:g}-", f"c = {c:g}, v = {noise:g}: ")
                about(
                    "same",
                    f"the excess over OPT, averaged over iterates, is at most {SAME:g} times that without noise.",
                    median((own["excess_average"] / own["excess_average_clean"]).to_numpy(), lowest=0.0,
                           sample=f"same {c} {noise}"),
                    "median over targets of the ratio of averaged excesses, with noise to without",
                    at_most=SAME,
                    source_value="the same excess as noiseless",
                )  # fmt: skip
                about(
                    "same-last",
                    f"so is that of the last iterate, at most {SAME:g} times.",
                    median((own["excess"] / own["excess_clean"]).to_numpy(), lowest=0.0, sample=f"last {c} {noise}"),
                    "median over targets of the ratio of excesses at the end, with noise to without",
                    at_most=SAME,
                    source_value="no number; the average is dominated by the first looks",
                )
                cost = (own["excess_average"] - own["excess_average_clean"]) / own["opt"]
                about(
                    "averaged-away",
                    "noise adds less than a tenth of OPT to the excess.",
                    median(cost.to_numpy(), sample=f"cost {c} {noise}"),
                    "median over targets of (averaged excess with noise - without)/OPT",
                    below=0.1,
                    source_value="risk ≤ OPT + ε; the tenth is ours",
                )

    def figures(self, tables: Tables[Settings]) -> Iterable[Figure]:
        settings, rows = tables.settings, tables["excess"]
        chart = self.chart("agnostic", self.title, columns=2, height=4.0)
        for y, title in (("excess_average", "Averaged over iterates"), ("excess", "Last iterate")):
            panel = chart.panel(title=title, x="variance v of the noise", y="excess over OPT")
            for c, own in groups(rows, "c").items():
                panel.curve(medians(own, "noise", y), f"c = {c:g}", key="legend")
            opt = rows.group_by("noise").agg(pl.col("opt").first()).sort("noise")
            panel.line(opt["noise"], opt["opt"], "OPT itself", color=figures.MUTED, key="legend")
            panel.ax.set_ylim(bottom=0)
        yield chart.figure(
            f"E Σ_j (f_j - F*_j)²/2 for L = {settings.length}, Φ = {settings.phi}, m = {settings.width}, "
            f"{settings.budget:,} steps of {settings.batch_size}. Medians over {settings.seeds} targets with "
            "intervals by order statistics.",
            rows,
        )


def _variances(settings: Settings, seed: int) -> np.ndarray:
    return target(settings, seed).moments()[1]


def against_noiseless(rows: pl.DataFrame, noise: float) -> pl.DataFrame:
    """The runs with this noise beside those without, of the same targets."""
    clean = rows.filter(pl.col("noise") == 0)
    return rows.filter((pl.col("noise") - noise).abs() < 1e-6).join(clean, on="seed", suffix="_clean").sort("seed")
