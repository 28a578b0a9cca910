"""Figures 5.1 right, 5.2 right and B.6: the median convergence time against n, for each k.

The source finds t_c ∝ n^{αk} on small instances, with an elbow: at larger n the local exponent grows. Each
point is the median over seeds with failures counted as ∞; a curve ends where more than half of the seeds fail.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from krogh.engine import Trial, Trials, sweep
from krogh.errors import KroghError, require
from krogh.lab import Claim, Experiment, Figure, Results, claim, convergence_times, experiment, figures, setting
from krogh.lab.fits import Fit, elbow, law_preference, scaling_fit, straightness
from krogh.lab.statistics import Interval, bootstrap_quantile, quantile
from krogh.models import configuration
from krogh.models.configurations import configuration_title
from krogh.tasks import Parity
from krogh.training import Online, Sgd, Stopping, Training
from krogh.values import describe

SOURCE = "dissertation, Figure 5.1 right and Figure B.6"
CHECK_EVERY = 10
RESOLVED = 5  # a median of five check intervals is known to within a tenth

RATES = {
    **dict.fromkeys(("i", "ii", "iii"), 1.0),
    **dict.fromkeys(("iv", "v", "vi", "viii", "xiv"), 0.01),
    "xv": 0.05,
}


@dataclass(frozen=True)
class Settings:
    ns: tuple[int, ...] = setting(tuple(range(10, 41, 5)), "input bits")
    ks: tuple[int, ...] = setting((2, 3, 4, 5, 6, 7, 8), "relevant bits")
    configurations: tuple[str, ...] = setting(("ii",), "architectures, by the source's numerals")
    seeds: int = setting(1000, "trials per point")
    batch_size: int = setting(32, "fresh examples per step")
    budget: int = setting(100_000, "steps after which a trial has failed")
    validation: int = setting(128, "validation examples, all of which must be right")


@experiment("parity/scaling")
class Scaling(Experiment[Settings]):
    """The median convergence time against n, with the fitted exponent for each k."""

    title = "The time to learn a parity is a power of n that grows with k"
    question = "How does the median convergence time grow with the number of bits n, for each k?"
    source = SOURCE
    scales = {
        "smoke": Settings(ns=(8, 10, 12), ks=(2, 3), seeds=8, budget=3_000),
        "laptop": Settings(ns=(10, 15, 20, 30, 40, 60), ks=(2, 3, 4), seeds=40, budget=20_000),
        "paper": Settings(),
    }
    notes = (
        "Rates are those of Figure B.6: 1 for ReLU networks, 0.01 for z^k networks and neurons, 0.05 for PolyNet.",
    )

    def trials(self, settings: Settings) -> list[Trials]:
        for word in ("ns", "ks", "configurations"):
            values = getattr(settings, word)
            require(len(set(values)) == len(values), f"{word} must not repeat a value; got {word}={values}")
        require(len(settings.ns) >= 2, f"a slope needs at least two different n; got ns={settings.ns}")
        stopping = Stopping(budget=settings.budget, validation=settings.validation, check_every=CHECK_EVERY)
        cohorts = []
        for name, k, n in itertools.product(settings.configurations, settings.ks, settings.ns):
            if n < k:
                raise KroghError(f"every n must be at least every k; got n={n}, k={k}")
            training = Training(Sgd(rate_of(name)), Online(settings.batch_size), stopping)
            trial = Trial(Parity(n, k), configuration(name, k), training)
            cohorts += sweep(trial, seed=range(settings.seeds))
        return cohorts

    def claims(self, results: Results[Settings]) -> list[Claim]:
        return [
            found
            for name in results.settings.configurations
            for found in _claims_of(name, self._grouped(results, name), results)
        ]

    def figures(self, results: Results[Settings]) -> list[Figure]:
        return [self._figure(results, name) for name in results.settings.configurations]

    def _grouped(self, results: Results[Settings], name: str) -> dict[int, dict[int, np.ndarray]]:
        """k → n → convergence times."""
        table = results.table
        grouped: dict[int, dict[int, np.ndarray]] = {}
        for k in sorted(results.settings.ks):
            chosen = configuration_filter(name, k)
            grouped[k] = {
                n: convergence_times(table.filter(chosen, pl.col("task.k") == k, pl.col("task.n") == n))
                for n in sorted(results.settings.ns)
            }
        return grouped

    def _figure(self, results: Results[Settings], name: str) -> Figure:
        settings, grouped = results.settings, self._grouped(results, name)
        title = f"Median convergence time of {configuration_title(name)}"
        fig, ax = figures.new_figure(title, width=6.4, height=4.4)
        rows = []
        for color, (k, by_n) in zip(figures.PALETTE, grouped.items(), strict=False):
            points = {n: bootstrap_quantile(times) for n, times in by_n.items()}
            shown = {n: point for n, point in points.items() if math.isfinite(point.value)}
            for n, point in points.items():
                success = float(np.isfinite(by_n[n]).mean())
                rows.append((k, n, point.value, point.low, point.high, success, len(by_n[n])))
            if not shown:
                continue
            fit = scaling_fit(by_n)
            low, value, high = ([getattr(p, part) for p in shown.values()] for part in ("low", "value", "high"))
            figures.interval_band(ax, list(shown), low, value, high, color=color)
            label = f"k = {k}" + (f", slope {fit.exponent.value:.2f}" if fit.points >= 2 else "")
            figures.direct_label(ax, list(shown), value, label, color=color)
        ax.set_xscale("log")
        ax.set_yscale("log")
        figures.log_axis_labels(ax, "x", values=list(settings.ns))
        ax.set_xlabel("input bits n")
        ax.set_ylabel("median convergence time t_c (steps)")
        figures.source_note(fig, SOURCE)
        columns = ["k", "n", "median", "low", "high", "success_rate", "trials"]
        data = pl.DataFrame(rows, schema=columns, orient="row")
        caption = (
            f"Median over {settings.seeds} seeds, failures counted as infinite; bands are 95% bootstrap intervals; "
            f"a curve ends where more than half of the seeds fail within {settings.budget:,} steps. Batch "
            f"{settings.batch_size}, rate {rate_of(name):g}, a check every {CHECK_EVERY} steps on "
            f"{settings.validation} examples."
        )
        return Figure(f"scaling-{name.replace('*', 'star-')}", title, caption, fig, data)


def rate_of(name: str) -> float:
    """The rate of Figure B.6 for a configuration."""
    if name not in RATES:
        raise KroghError(f"Figure B.6 has no SGD rate for configuration {name!r}; choose among {', '.join(RATES)}")
    return RATES[name]


def configuration_filter(name: str, k: int) -> pl.Expr:
    """The rows of a configuration: those whose model fields are all its own."""
    described = describe(configuration(name, k))
    fields = {"model": described.pop("kind")} | {f"model.{field}": value for field, value in described.items()}
    return pl.all_horizontal(pl.col(path) == value for path, value in fields.items() if value is not None)


def _claims_of(name: str, grouped: dict[int, dict[int, np.ndarray]], results: Results[Settings]) -> list[Claim]:
    settings, title = results.settings, configuration_title(name)
    shared: dict[str, Any] = {"source": SOURCE, "trials": len(results.table)}
    found = []
    for k, by_n in grouped.items():
        fit = scaling_fit(by_n)
        finite = [n for n, times in by_n.items() if math.isfinite(quantile(times))] or [0]
        over = f"n = {min(finite)}–{max(finite)} ({fit.points} sizes with a finite median)"
        found += [
            claim(
                f"{name}-straight-k{k}",
                f"{title}, k = {k}: the median time is close to a power of n over {over}; exponent {fit.exponent}.",
                statistic="R² of the log-log fit",
                interval=straightness(by_n),
                at_least=0.95,
                source_value="t_c ∝ n^(αk), α not stated",
                **_limits(settings, by_n, fit.points, 4),
                **shared,
            ),
            claim(
                f"{name}-power-law-k{k}",
                f"{title}, k = {k}: a power of n describes the medians better than an exponential of n, over {over}.",
                statistic="AIC of the exponential − AIC of the power law",
                interval=law_preference(by_n),
                at_least=2.0,
                source_value="t_c ∝ n^(αk) on small instances",
                **_limits(settings, by_n, fit.points, 4),
                **shared,
            ),
        ]
    for lower, upper in itertools.pairwise(grouped):
        both = [n for n in grouped[lower] if all(math.isfinite(quantile(grouped[k][n])) for k in (lower, upper))]
        fits = [scaling_fit({n: grouped[k][n] for n in both}) if len(both) >= 2 else None for k in (lower, upper)]
        found.append(
            claim(
                f"{name}-steeper-k{upper}",
                f"{title}: k = {upper} is steeper in n than k = {lower} ({len(both)} sizes where both converge).",
                statistic=f"slope(k={upper}) − slope(k={lower})",
                interval=_difference(fits[1], fits[0]),
                above=0.0,
                source_value="larger k steeper",
                **min((_limits(settings, grouped[k], len(both), 3) for k in (lower, upper)), key=lambda x: x["enough"]),
                **shared,
            )
        )
    for k, by_n in grouped.items():
        if len(settings.ns) >= 5:
            bend = elbow(by_n)
            found.append(
                claim(
                    f"{name}-elbow-k{k}",
                    f"{title}, k = {k}: the exponent grows with n (the elbow).",
                    statistic="slope of the upper half of n − slope of the lower half",
                    interval=bend.difference,
                    above=0.0,
                    source_value="exponent worsens at larger n (Figure 5.2 right)",
                    **_limits(settings, by_n, bend.points, 5),
                    **shared,
                )
            )
    return found


def _limits(settings: Settings, by_n: dict[int, np.ndarray], points: int, needed: int) -> dict[str, Any]:
    """Whether a scale can decide anything about a slope: seeds, sizes, and times well above the check interval."""
    shortest = min(quantile(times) for times in by_n.values())
    if settings.seeds < 20:
        return {"enough": False, "too_small": f"{settings.seeds} seeds per point are too few"}
    if points < needed:
        reason = f"{points} sizes n have a finite median within {settings.budget} steps; this needs {needed}"
        return {"enough": False, "too_small": reason}
    coarse = f"the shortest median is {shortest:.0f} steps, too few to resolve with a check every {CHECK_EVERY}"
    return {"enough": shortest >= RESOLVED * CHECK_EVERY, "too_small": coarse}


def _difference(upper: Fit | None, lower: Fit | None) -> Interval:
    """Difference of two independent exponents; half-widths add in quadrature."""
    if upper is None or lower is None:
        return Interval(math.nan, math.nan, math.nan, 0.0, "too few sizes")
    value = upper.exponent.value - lower.exponent.value
    down = math.hypot(upper.exponent.value - upper.exponent.low, lower.exponent.high - lower.exponent.value)
    up = math.hypot(upper.exponent.high - upper.exponent.value, lower.exponent.value - lower.exponent.low)
    return Interval(value, value - down, value + up, 0.95, "independent bootstrap intervals")
