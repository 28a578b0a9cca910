"""Figure B.12: SGD learns parities whose labels are flipped with probability p; elimination does not.

Networks see labels that are wrong with probability p and are judged on the noiseless parity. Flipping shrinks the
gradient's signal by 1-2p, so that learning slows down, and that is all. Gaussian elimination over GF(2), which needs
hardly more than n noiseless examples, fails at once: whatever SGD does, it does not imitate that algorithm.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from krogh.engine import Trial, Trials, sweep
from krogh.errors import require
from krogh.experiments.parity.common import CHECK_EVERY, FEWEST_SEEDS, OnlineSettings
from krogh.lab import (
    Claims,
    Curve,
    Experiment,
    Figure,
    Results,
    Tables,
    curves,
    experiment,
    figures,
    groups,
    need,
    rate,
    setting,
    share_of,
    times_of,
)
from krogh.lab.experiment import Measures
from krogh.models import configuration
from krogh.models.configurations import configuration_title
from krogh.probes import Error
from krogh.tasks import Parity
from krogh.theory.boolean.search import elimination
from krogh.training import Sgd

LEARNED = 0.25
"""A clean error halfway between chance and none: the features are found, even where labels keep the rest uncertain."""
FOUND = 0.05
"""Elimination that succeeds so seldom has failed."""
SAMPLES = 5
"""Examples for elimination, in multiples of n."""


@dataclass(frozen=True)
class Settings(OnlineSettings):
    n: int = setting(50, "input bits", least=1)
    k: int = setting(3, "relevant bits", least=1)
    noises: tuple[float, ...] = setting(
        (0.0, 0.1, 0.2, 0.3, 0.4, 0.45, 0.49), "flip probabilities p", increasing=True, fewest=2, least=0, below=0.5
    )
    batch_sizes: tuple[int, ...] = setting((8, 32, 128), "fresh examples per step", increasing=True, least=1)
    configuration: str = setting("ii", "architecture, by the source's numeral")
    rate: float = setting(0.1, "learning rate", least=0)
    seeds: int = setting(100, "trials per point", least=1)
    validation: int = setting(8192, "validation examples, all of which must be right", least=1)
    budget: int = setting(1_000_000, "steps after which a trial has failed", least=1)
    probe_every: int = setting(1000, "steps between two points of a curve", least=1)
    systems: int = setting(1000, "samples on which elimination is tried, per flip probability", least=1)


@experiment("parity/noise")
class Noise(Experiment[Settings]):
    """Convergence times against label noise, beside Gaussian elimination."""

    title = "Flipped labels slow SGD down and stop Gaussian elimination"
    question = "Do networks learn a parity whose labels are flipped with probability p, and how much later?"
    source = "dissertation, §B.3.6, Figure B.12"
    scales = {
        "smoke": Settings(
            n=10,
            k=2,
            noises=(0.0, 0.2),
            batch_sizes=(32,),
            seeds=4,
            budget=1_000,
            validation=128,
            probe_every=100,
            systems=20,
        ),
        "laptop": Settings(
            n=20,
            noises=(0.0, 0.1, 0.2, 0.3, 0.4, 0.49),
            batch_sizes=(32, 128),
            seeds=20,
            budget=200_000,
            validation=1024,
            probe_every=200,
        ),
        "paper": Settings(),
    }
    notes = (
        "Noise is given by the flip probability p alone: the source's ε means 1-2p in the caption and 1/2-p in the "
        "text, and correlations shrink by 1-2p.",
        "Accuracy is always that on the noiseless parity. With a constant rate not every run reaches 100%, as the "
        f"source says: a clean error below {LEARNED} is judged as well.",
        "Averaging the noise away may take 1/(1-2p)² times as long; failures within fewer steps decide nothing.",
    )

    def check(self, settings: Settings) -> None:
        require(settings.noises[0] == 0, f"the first of the noises must be 0, to compare with; got {settings.noises}")

    def trials(self, settings: Settings) -> Iterator[Trials]:
        for batch_size in settings.batch_sizes:
            training = settings.training(Sgd(settings.rate), batch_size)
            task, model = Parity(settings.n, settings.k), configuration(settings.configuration, settings.k)
            trial = Trial(task, model, training, probes=(Error(),), probe_every=settings.probe_every)
            label = {"batch_size": batch_size}
            yield from sweep(trial, task__noise=settings.noises, seed=range(settings.seeds), label=label)

    def measure(self, results: Results[Settings]) -> Measures:
        return {
            "ends": lambda: ends(results.table),
            "elimination": lambda: pl.DataFrame([eliminated(p, results.settings) for p in results.settings.noises]),
        }

    def claims(self, tables: Tables[Settings], say: Claims) -> None:
        settings, few = tables.settings, need(tables.settings.seeds, FEWEST_SEEDS, "seeds per point")
        for batch_size, curve in medians(tables).items():
            about = say.about(f"b{batch_size}-", f"B = {batch_size}", needs=[few])
            for low, high in itertools.pairwise(settings.noises):
                about(
                    f"slower-{high:g}",
                    f": p = {high:g} is learned later than p = {low:g}.",
                    curve.at(high) / curve.at(low),
                    f"median t_c at p = {high:g} / at p = {low:g}",
                    above=1.0,
                    source_value="t is much larger for high noise",
                )
            for p in settings.noises[1:]:
                own = tables["ends"].filter(batch_size=batch_size, noise=p)
                averaging = curve.at(0).value / (1 - 2 * p) ** 2
                late = need(settings.budget, averaging, "steps are fewer than it may take to average the noise away")
                for name, statement, flags, statistic, least, published in (
                    (
                        "converges",
                        "reach 100% on the noiseless parity",
                        own["converged"].to_numpy(),
                        f"share of seeds within {settings.budget:,} steps",
                        0.2,
                        "nontrivial and sometimes 100% accuracy",
                    ),
                    (
                        "learns",
                        "find the features",
                        (own["least_error"] <= LEARNED).to_numpy(),
                        f"share of seeds whose clean error falls below {LEARNED} within {settings.budget:,} steps",
                        0.8,
                        "converge, even with 49% of labels flipped",
                    ),
                ):
                    share = share_of(flags, sample=f"B={batch_size}, p={p}")
                    about(
                        f"{name}-{p:g}",
                        f": with {p:.0%} of the labels flipped, networks {statement}.",
                        share,
                        statistic,
                        at_least=least,
                        source_value=published,
                        needs=[late if share.low < least else ""],  # success within few steps is success
                    )
        about = say.about("elimination-", "Gaussian elimination")
        for p, found, runs in tables["elimination"].select("noise", "found", "runs").iter_rows():
            clean = p == 0
            wanted: dict[str, Any] = {"at_least": 1 - FOUND} if clean else {"at_most": FOUND}
            about(
                f"{p:g}",
                f" on {SAMPLES * settings.n} examples {'finds the support without noise' if clean else 'fails'}"
                f"{'' if clean else f' with {p:.0%} of the labels flipped'}.",
                rate(found, runs, sample=f"elimination at {p}"),
                "share of samples in which it finds S",
                source_value="fails under any noise",
                needs=[need(runs, 200, "samples")],
                **wanted,
            )

    def figures(self, tables: Tables[Settings]) -> Iterable[Figure]:
        settings = tables.settings
        chart = self.chart("noise", "Convergence time against label noise", headline=self.title, columns=2, height=4.0)
        panel = chart.panel(title="SGD", x="flip probability p", y="median convergence time t_c (steps)", log="y")
        if not any(len(curve.reached) for curve in medians(tables).values()):
            panel.axes(ylim=(CHECK_EVERY, settings.budget))  # nothing to scale the axis by
        for batch_size, curve in medians(tables).items():
            color = panel.color()
            panel.curve(curve, f"B = {batch_size}", color=color, key="legend")
            p = np.linspace(0, settings.noises[-1], 100)
            start = curve.at(0).value
            if np.isfinite(start):
                panel.line(p, start / (1 - 2 * p), style=":", color=color, key="")
        panel.legend(loc="upper left")
        panel = chart.panel(title="Who succeeds?", x="flip probability p", y="share of runs", ylim=(-0.03, 1.03))
        for batch_size, own in groups(tables["ends"], "batch_size").items():
            reached = curves(own, x="noise", y="found", statistic=lambda v, sample: share_of(v > 0, sample=sample))
            panel.curve(reached[()], f"SGD, B = {batch_size}", key="legend")
        shares = tables["elimination"]
        panel.line(shares["noise"], shares["found"] / shares["runs"], "elimination", color=figures.BLACK, key="legend")
        panel.legend(loc="center left")
        yield chart.figure(
            f"{configuration_title(settings.configuration)}, ({settings.n},{settings.k})-parity, rate "
            f"{settings.rate:g}; medians over {settings.seeds} seeds, failures (not 100% on {settings.validation} "
            f"clean examples within {settings.budget:,} steps) counted as infinite; bands are 95% intervals. Dotted: "
            f"1/(1-2p) times the median without noise. Right: share of seeds whose clean error falls below {LEARNED}, "
            f"and of samples of {SAMPLES * settings.n} examples in which elimination over GF(2) finds the support.",
        )
        yield self._curves(tables)

    def _curves(self, tables: Tables[Settings]) -> Figure:
        settings, cells = tables.settings, groups(tables["trials"], ("batch_size", "task.noise"))
        columns, rows = len(settings.noises), len(settings.batch_sizes)
        chart = self.chart(
            "noise-curves",
            "Clean error of networks that learn from flipped labels",
            rows=rows,
            columns=columns,
            width=2.0 * columns,
            height=1.6 * rows + 0.8,
            sharey=True,
        )
        drawn = []
        for place, ((batch_size, p), own) in enumerate(sorted(cells.items())):
            panel = chart.panel(title=f"B = {batch_size}, p = {p:g}", ylim=(-0.02, 0.6))
            for seed, step, error in own.head(5).select("seed", "curve.step", "curve.error").iter_rows():
                panel.ax.plot(step, error, linewidth=0.8, color=figures.BLUE, alpha=0.7)
                part = pl.DataFrame({"seed": seed, "step": step, "error": error})
                drawn.append(part.with_columns(batch_size=pl.lit(batch_size), noise=pl.lit(p)))
            panel.axes(x="steps" if place >= len(cells) - columns else "", y="error" if place % columns == 0 else "")
            panel.ax.ticklabel_format(axis="x", style="sci", scilimits=(-3, 4))
            panel.ax.tick_params(labelsize=7.5)
        return chart.figure(
            f"Five seeds per panel: share of wrong predictions on noiseless examples every {settings.probe_every} "
            "steps. The range of steps differs between panels.",
            pl.concat(drawn),
        )


def medians(tables: Tables[Settings]) -> dict[int, Curve]:
    """B → the median time against p."""
    return curves(tables["trials"], by="batch_size", x="task.noise")


def ends(table: pl.DataFrame) -> pl.DataFrame:
    """How each trial ended: whether at 100%, and the least clean error on its way."""
    errors = pl.min_horizontal(pl.col("curve.error").list.min(), pl.col("error"))
    return table.select(
        "batch_size",
        pl.col("task.noise").alias("noise"),
        "seed",
        pl.Series("converged", np.isfinite(times_of(table))),
        errors.cast(pl.Float64).alias("least_error"),
    ).with_columns(found=(pl.col("least_error") <= LEARNED).cast(pl.Float64))


def eliminated(noise: float, settings: Settings) -> dict[str, Any]:
    """How often elimination finds the support in `systems` samples."""
    samples = SAMPLES * settings.n
    answers = (elimination(settings.n, settings.k, samples, noise, seed)["found"] for seed in range(settings.systems))
    return {"noise": noise, "found": sum(map(bool, answers)), "runs": settings.systems}
