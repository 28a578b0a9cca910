"""Section 4.6: how many samples identify a sparse conjunction, whoever learns it.

The learner that lists every index set of size s that fits its data knows I once no other set does. The probability of
that is measured against the sample size m: its threshold lies a little above log2 C(T,s), below which nobody can
succeed, and far below anything linear in T.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable
from dataclasses import dataclass

import jax
import numpy as np
import polars as pl

from krogh.errors import require
from krogh.experiments.attention.common import (
    Cells,
    cells_of,
    floor_bits,
    identified,
    law_needs,
    require_longer,
    some_of,
)
from krogh.lab import Claims, Estimate, Experiment, Figure, Results, Tables, experiment, figures, need, setting
from krogh.lab.estimate import largest, minimum, rate
from krogh.lab.experiment import Measures
from krogh.lab.fits import fit_growth, growth_evidence
from krogh.lab.sample_complexity import crossings, success_rates
from krogh.tasks import sparse_and
from krogh.tasks.consistency import consistent_sets

THRESHOLD = 0.8
FACTOR = 2.2
FEWEST = 100  # data sets per cell that a verdict needs
SMALLEST = 50
"""The smallest m of the source's grid."""
TRANSFORMER = {300: 70}
"""m*(T) of the source's Transformer, where it prints one."""


@dataclass(frozen=True)
class Settings:
    lengths: tuple[int, ...] = setting(
        (50, 100, 200, 300, 500, 800, 1100), "context lengths T", increasing=True, fewest=2
    )
    s: int = setting(3, "relevant bits", least=1)
    samples: tuple[int, ...] = setting(
        (12, 16, 20, 24, 28, 32, 36, 40, 45, 50, 60), "sample sizes m", increasing=True, fewest=2, least=1
    )
    draws: int = setting(1000, "data sets per T and m", least=1)
    learned: tuple[int, ...] = setting(
        (50, 200), "those lengths at which the learner is run and guesses", distinct=True, fewest=0
    )
    learned_samples: tuple[int, ...] = setting(
        (20, 28, 36, 45), "sample sizes at which it is run", distinct=True, fewest=0
    )
    learned_draws: int = setting(100, "data sets per T and m that it is run on", least=1)
    seed: int = setting(0, "of the data sets", least=0)


@experiment("attention/statistical-floor")
class StatisticalFloor(Experiment[Settings]):
    """The probability that a data set identifies a conjunction, against the sample size."""

    title = "A few dozen samples identify 3 relevant bits among a thousand"
    question = "How many samples does the best learner of a sparse conjunction need, and how does that grow with T?"
    source = "dissertation, section 4.6 and A.3.1"
    scales = {
        "smoke": Settings(
            lengths=(20, 40),
            samples=(8, 16, 24, 32, 40),
            draws=40,
            learned=(20,),
            learned_samples=(24,),
            learned_draws=20,
        ),
        "laptop": Settings(lengths=(50, 100, 200, 400, 800), draws=200, learned_draws=50),
        "paper": Settings(),
    }
    notes = (
        "Bits are 1 with probability 2^(-1/s), which balances the labels; index sets are counted exactly.",
        "log2 C(T,s) is the floor for certainty: with m labels no learner is right more often than 2^m / C(T,s).",
    )

    def check(self, settings: Settings) -> None:
        s = settings.s
        require_longer(settings.lengths, s)
        for name, every in (("learned", settings.lengths), ("learned_samples", settings.samples)):
            outside = sorted(set(getattr(settings, name)) - set(every))
            require(not outside, f"{name} must be among {every}; got {outside} beside them")
        longest = max(settings.learned, default=0)
        crowded = longest * 2 ** (-min(settings.learned_samples, default=1) / 2 / s)
        require(
            crowded <= 150,
            f"the learner would try C({crowded:.0f},{s}) index sets per data set; got learned_samples="
            f"{settings.learned_samples} at T={longest} (try larger samples)",
        )

    def measure(self, results: Results[Settings]) -> Measures:
        """Data sets that one index set alone fits; and how often a learner that lists all is right, and certain."""
        settings = results.settings
        every = itertools.product(settings.lengths, settings.samples)
        some = itertools.product(settings.learned, settings.learned_samples)
        return {
            "unique": lambda: identified(every, settings.s, settings.draws, settings.seed),
            "learner": lambda: pl.DataFrame(
                [(*cell, *_learn(settings, *cell), settings.learned_draws) for cell in some],
                schema=dict.fromkeys(("length", "m", "right", "unique", "draws"), pl.Int64) | {"right": pl.Float64},
                orient="row",
            ),
        }

    def claims(self, tables: Tables[Settings], say: Claims) -> None:
        settings, counts = tables.settings, cells_of(tables["unique"])
        stars, lengths, s = crossings(counts, THRESHOLD, sample="T="), list(counts), settings.s
        say = say.about(needs=[need(settings.draws, FEWEST, "data sets per cell")])
        for length in lengths:
            star, bits = stars.at(length), floor_bits(length, s)
            say(
                f"near-floor-T{length}",
                f"T = {length}: data sets of m = {star.value:.1f} [{star.low:.1f}, {star.high:.1f}] samples "
                f"identify I four times out of five; log2 C(T,s) = {bits:.1f}.",
                star / bits,
                "m at 80% / log2 C(T,s)",
                at_most=FACTOR,
                source_value="Θ(s log T)",
            )
            if length in TRANSFORMER and s == 3:
                say(
                    f"below-transformer-T{length}",
                    f"T = {length}: the source's Transformer, with m* ≈ {TRANSFORMER[length]} samples, has more than "
                    "identify I.",
                    star,
                    "m at 80%",
                    at_most=float(TRANSFORMER[length]),
                    unit="samples",
                    source_value=f"m*({length}) ≈ {TRANSFORMER[length]}",
                )
        if s == 3 and all(SMALLEST in cells for cells in counts.values()):
            shares = {length: _share(counts, length, SMALLEST) for length in lengths}
            hardest = min(shares, key=lambda length: shares[length].value)
            say(
                "unique-at-smallest",
                f"{SMALLEST} samples, the fewest that the source trains on, identify I nearly always, up to "
                f"T = {max(counts)} (least often at T = {hardest}).",
                minimum(list(shares.values())),
                "least share of data sets that one index set alone fits",
                at_least=0.95,
                source_value="others are rejected and redrawn",
            )
        bounds = {(length, m): 2.0**m / math.comb(length, s) for length, cells in counts.items() for m in cells}
        excess = [_share(counts, *cell).low - bound for cell, bound in bounds.items() if bound < 1]
        say(
            "counting-bound",
            "No data set says more than its labels: the share of data sets that identify I keeps to 2^m / C(T,s) "
            "where this is below 1.",
            largest(excess, trials=settings.draws * len(excess)),
            "largest (lower end of the share - 2^m / C(T,s))",
            at_most=0.0,
            source_value="≤ 0",
        )
        learner = tables["learner"]
        if len(learner):
            certain, total = int(learner["unique"].sum()), int(learner["draws"].sum())
            cells = [_share(counts, length, m) * (draws / total) for length, m, _, _, draws in learner.iter_rows()]
            counted = sum(cells[1:], start=cells[0])
            say(
                "learner-agrees",
                f"The learner that lists all index sets that fit, run on {total} data sets of the task, is certain as "
                f"often as counted, and right by guessing in {float(learner['right'].sum()) / total:.0%}.",
                abs(rate(certain, total, sample="learner") - counted),
                "|share where it is certain - share counted|",
                at_most=0.1,
            )
        rise = fit_growth(stars)
        say(
            "grows-as-log",
            f"The threshold grows as log T and not as T, from T = {lengths[0]} to {lengths[-1]}: by "
            f"{rise.b.value * math.log(2):.2f} samples for every doubling.",
            growth_evidence(stars),
            "AIC of a line in T - AIC of a line in log T",
            at_least=2.0,
            source_value="Θ(s log T)",
            needs=law_needs(lengths, 10),
        )

    def figures(self, tables: Tables[Settings]) -> Iterable[Figure]:
        settings, counts = tables.settings, cells_of(tables["unique"])
        lengths, bits = list(counts), [floor_bits(length, settings.s) for length in counts]
        chart = self.chart(
            "statistical-floor",
            "Samples that identify a sparse conjunction",
            headline="The samples that identify I grow with log2 C(T,s)",
            columns=2,
            width=9.0,
            height=4.4,
            width_ratios=(1.35, 1),
        )
        left = chart.panel(x="samples m (dotted: log2 C(T,s))", y="share of data sets that identify I")
        rows = []
        for (length, cells), floor in zip(counts.items(), bits, strict=True):
            color, shares = left.color(), success_rates(cells, sample=f"T={length}")
            left.curve(shares, f"T = {length}", color=color, key="legend")
            left.ax.axvline(floor, color=color, linewidth=1, linestyle=":")
            rows += [(length, m, y.value, y.low, y.high, cells[m][1]) for m, y in zip(cells, shares.y, strict=True)]
        left.reference(THRESHOLD, "80%")
        left.axes(ylim=(-0.02, 1.05)).legend(loc="lower right")
        right = chart.panel(x="context length T", y="samples m")
        right.curve(crossings(counts, THRESHOLD, sample="T="), "m at 80%")
        right.line(lengths, bits, "log2 C(T,s)", color=figures.MUTED, style=":", width=1.4)
        right.line(lengths, FACTOR * np.array(bits), f"{FACTOR:g} log2 C(T,s)", color=figures.MUTED, width=1)
        for length, m in TRANSFORMER.items():
            if lengths[0] <= length <= lengths[-1] and settings.s == 3:
                color = figures.VERMILLION
                right.ax.plot([length], [m], "D", color=color, markersize=6)
                figures.direct_label(right.ax, length, m, "source's Transformer", color=color, side="above")
        right.axes(log="x", xticks=some_of(lengths, 4), ylim=(0, None))
        yield chart.figure(
            f"Left: share of {settings.draws} data sets of m samples that exactly one conjunction of s = {settings.s} "
            "bits fits, with 95% Clopper–Pearson bands. Right: where the share reaches 80% (isotonic regression, "
            "bootstrap band) beside the information floor.",
            pl.DataFrame(rows, schema=["length", "m", "unique", "low", "high", "draws"], orient="row"),
        )


def _share(counts: dict[int, Cells], length: int, m: int) -> Estimate:
    """The share of a cell's data sets that one index set alone fits."""
    return rate(*counts[length][m], sample=f"T={length}, m={m}")


def _learn(settings: Settings, length: int, m: int) -> tuple[float, int]:
    """The learner on data of the task itself: right answers expected when it guesses among what fits, and certain ones.

    Each data set has its own support, so that no place in the context is favoured.
    """
    random = np.random.default_rng([settings.seed, length, m])
    key = jax.random.key(settings.seed)
    task = sparse_and(length, settings.s)
    examples = task.decode(task.draw(jax.random.fold_in(key, length * 1000 + m), settings.learned_draws * m))
    x = np.asarray(examples.x).reshape(settings.learned_draws, m, length)
    y = np.asarray(examples.y).reshape(settings.learned_draws, m)
    right, unique = 0.0, 0
    for inputs, labels in zip(x, y, strict=True):
        order = random.permutation(length)  # column j of the shuffled inputs is column order[j]
        support = np.sort(np.argsort(order)[: settings.s])
        sets = consistent_sets(inputs[:, order], labels, settings.s, task.table)
        fits = bool((sets == support).all(axis=1).any())
        right += fits / len(sets) if len(sets) else 0.0
        unique += int(len(sets) == 1 and fits)
    return right, unique
