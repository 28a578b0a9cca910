"""Figures 5.1 right, 5.2 right and B.6: the median convergence time against n, for each k.

The source finds t_c ∝ n^{αk} on small instances, with an elbow: at larger n the local exponent grows. Each
point is the median over seeds with failures counted as ∞; a curve ends where more than half of the seeds fail.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import polars as pl

from krogh.engine import Trial, Trials, sweep
from krogh.errors import require
from krogh.experiments.parity.common import CHECK_EVERY, OnlineSettings
from krogh.lab import Claims, Curve, Experiment, Figure, Tables, curves, experiment, need, setting
from krogh.lab.fits import elbow, law_preference, power_law
from krogh.models import configuration
from krogh.models.configurations import configuration_title
from krogh.tasks import Parity
from krogh.training import Sgd

RESOLVED = 5 * CHECK_EVERY  # steps: a median of five check intervals is known to within a tenth

RATES = {
    **dict.fromkeys(("i", "ii", "iii"), 1.0),
    **dict.fromkeys(("iv", "v", "vi", "viii", "xiv"), 0.01),
    "xv": 0.05,
}
"""The rates of Figure B.6, by configuration."""


@dataclass(frozen=True)
class Settings(OnlineSettings):
    ns: tuple[int, ...] = setting(tuple(range(10, 41, 5)), "input bits", distinct=True, fewest=2, least=1)
    ks: tuple[int, ...] = setting((2, 3, 4, 5, 6, 7, 8), "relevant bits", distinct=True, least=1)
    configurations: tuple[str, ...] = setting(
        ("ii",), "architectures, by the source's numerals", distinct=True, among=RATES
    )
    seeds: int = setting(1000, "trials per point", least=1)
    batch_size: int = setting(32, "fresh examples per step", least=1)


@experiment("parity/scaling")
class Scaling(Experiment[Settings]):
    """The median convergence time against n, with the fitted exponent for each k."""

    title = "The time to learn a parity is a power of n that grows with k"
    question = "How does the median convergence time grow with the number of bits n, for each k?"
    source = "dissertation, Figure 5.1 right and Figure B.6"
    scales = {
        "smoke": Settings(ns=(8, 10, 12), ks=(2, 3), seeds=8, budget=3_000),
        "laptop": Settings(ns=(10, 15, 20, 30, 40, 60), ks=(2, 3, 4), seeds=40, budget=20_000),
        "paper": Settings(),
    }
    notes = (
        "Rates are those of Figure B.6: 1 for ReLU networks, 0.01 for z^k networks and neurons, 0.05 for PolyNet.",
    )

    def check(self, settings: Settings) -> None:
        n, k = min(settings.ns), max(settings.ks)
        require(n >= k, f"every n must be at least every k; got n={n}, k={k}")

    def trials(self, settings: Settings) -> Iterator[Trials]:
        for name, k, n in itertools.product(settings.configurations, settings.ks, settings.ns):
            training = settings.training(Sgd(RATES[name]), settings.batch_size)
            trial = Trial(Parity(n, k), configuration(name, k), training)
            yield from sweep(trial, seed=range(settings.seeds), label={"configuration": name})

    def claims(self, tables: Tables[Settings], say: Claims) -> None:
        settings = tables.settings
        for name, by_k in medians(tables).items():
            few = need(settings.seeds, 20, "seeds per point")
            about = say.about(f"{name}-", configuration_title(name), needs=[few])
            for k, curve in by_k.items():
                fit, reached = power_law(curve), curve.reached
                over = f"n = {_range(reached)} ({fit.points} sizes with a finite median)"
                enough = [_sizes(fit.points, 4, settings), _resolved(curve)]
                about(
                    f"straight-k{k}",
                    f", k = {k}: the median time is close to a power of n over {over}; exponent {fit.exponent}.",
                    fit.r_squared,
                    "R² of the log-log fit",
                    at_least=0.95,
                    source_value="t_c ∝ n^(αk), α not stated",
                    needs=enough,
                )
                about(
                    f"power-law-k{k}",
                    f", k = {k}: a power of n describes the medians better than an exponential of n, over {over}.",
                    law_preference(curve),
                    "AIC of the exponential − AIC of the power law",
                    at_least=2.0,
                    source_value="t_c ∝ n^(αk) on small instances",
                    needs=enough,
                )
                if len(curve) >= 5:
                    bend = elbow(curve)
                    about(
                        f"elbow-k{k}",
                        f", k = {k}: the exponent grows with n (the elbow).",
                        bend.difference,
                        "slope of the upper half of n − slope of the lower half",
                        above=0.0,
                        source_value="exponent worsens at larger n (Figure 5.2 right)",
                        needs=[_sizes(bend.points, 5, settings), _resolved(curve)],
                    )
            for (k, lower), (above, upper) in itertools.pairwise(by_k.items()):
                both = {*lower.reached.x} & {*upper.reached.x}
                low, high = (power_law(curve.only(both)) for curve in (lower, upper))
                about(
                    f"steeper-k{above}",
                    f": k = {above} is steeper in n than k = {k} ({len(both)} sizes where both converge).",
                    high.exponent - low.exponent,
                    f"slope(k={above}) − slope(k={k})",
                    above=0.0,
                    source_value="larger k steeper",
                    needs=[_sizes(len(both), 3, settings), _resolved(lower), _resolved(upper)],
                )

    def figures(self, tables: Tables[Settings]) -> Iterable[Figure]:
        settings = tables.settings
        for name, by_k in medians(tables).items():
            title = f"Median convergence time of {configuration_title(name)}"
            chart = self.chart(f"scaling-{name.replace('*', 'star-')}", title, height=4.4)
            panel = chart.panel(x="input bits n", y="median convergence time t_c (steps)", log="xy", xticks=settings.ns)
            for k, curve in by_k.items():
                fit = power_law(curve)
                slope = f", slope {fit.exponent.value:.2f}" if fit.points >= 2 else ""
                panel.curve(curve.reached, f"k = {k}{slope}")
            yield chart.figure(
                f"Median over {settings.seeds} seeds, failures counted as infinite; bands are 95% intervals by order "
                f"statistics; a curve ends where more than half of the seeds fail within {settings.budget:,} steps. "
                f"Batch {settings.batch_size}, rate {RATES[name]:g}, a check every {CHECK_EVERY} steps on "
                f"{settings.validation} examples.",
                _data(tables["trials"].filter(configuration=name), by_k),
            )


def medians(tables: Tables[Settings]) -> dict[str, dict[int, Curve]]:
    """configuration → k → the median time against n, in the order of the settings."""
    by_key = curves(tables["trials"], by=("configuration", "task.k"), x="task.n")
    return {name: {k: by_key[name, k] for k in sorted(tables.settings.ks)} for name in tables.settings.configurations}


def _data(trials: pl.DataFrame, by_k: dict[int, Curve]) -> pl.DataFrame:
    """Every point, those beyond the budget too, with the share of trials that converged."""
    rows = [
        curve.table("n").rename({"value": "median"}).select(pl.lit(k).alias("k"), pl.all()) for k, curve in by_k.items()
    ]
    solved = pl.col("convergence_time").is_not_null().mean().alias("success_rate")
    rates = trials.group_by(k=pl.col("task.k").cast(pl.Int32), n=pl.col("task.n").cast(pl.Float64)).agg(solved)
    return pl.concat(rows).with_columns(pl.col("k").cast(pl.Int32)).join(rates, on=["k", "n"], maintain_order="left")


def _range(curve: Curve) -> str:
    return f"{curve.x[0]:g}–{curve.x[-1]:g}" if len(curve) else "none"


def _sizes(points: int, least: int, settings: Settings) -> str:
    return need(points, least, f"sizes n have a finite median within {settings.budget} steps")


def _resolved(curve: Curve) -> str:
    """Times must lie well above the check interval for a slope to mean anything."""
    return need(float(curve.value.min()), RESOLVED, f"steps is the shortest median, with a check every {CHECK_EVERY}")
