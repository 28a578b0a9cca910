"""Figure 5.2 left: the law of the convergence time over very many trials, beside random search.

Random exhaustive search tests one k-subset per step, so its time is geometric with mean C(n,k) and is often
lucky early. SGD is not: its times start at a sizeable fraction of their median and have a tail to the right.
The source does not state the setting of its figure; this is the first panel of its Figure B.2: a width-100 ReLU
network on the (30,3)-parity, hinge, fresh batches of 32, rate 0.1.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from krogh.engine import Trial, Trials, sweep
from krogh.lab import Claim, Experiment, Figure, Results, claim, experiment, figures, setting
from krogh.lab.statistics import Interval, proportion, quantile, quantile_interval
from krogh.lab.times import geometric_ks, skewness
from krogh.models import configuration
from krogh.tasks import Parity
from krogh.training import Online, Sgd, Stopping, Training

SOURCE = "dissertation, §5.3.2, Figure 5.2 left"


@dataclass(frozen=True)
class Settings:
    n: int = setting(30, "input bits")
    k: int = setting(3, "relevant bits")
    configuration: str = setting("ii", "architecture, by the source's numeral")
    rate: float = setting(0.1, "learning rate")
    batch_size: int = setting(32, "fresh examples per step")
    trials: int = setting(1_000_000, "networks trained, seeds 0, 1, ...")
    budget: int = setting(100_000, "steps after which a trial has failed")
    validation: int = setting(128, "validation examples, all of which must be right")


@experiment("parity/histogram")
class Histogram(Experiment[Settings]):
    """The law of the convergence time, beside random search."""

    title = "SGD is not a lucky search"
    question = "Is the convergence time of SGD on a sparse parity distributed like that of a random search?"
    source = SOURCE
    scales = {
        "smoke": Settings(n=12, k=2, trials=64, budget=4_000),
        "laptop": Settings(trials=5_000, budget=20_000),
        "paper": Settings(),
    }
    notes = (
        "The source does not state n, k, architecture, rate or batch of its figure; the settings here are "
        "those of the first panel of its Figure B.2.",
    )

    def trials(self, settings: Settings) -> list[Trials]:
        stopping = Stopping(budget=settings.budget, validation=settings.validation)
        training = Training(Sgd(settings.rate), Online(settings.batch_size), stopping)
        trial = Trial(Parity(settings.n, settings.k), configuration(settings.configuration, settings.k), training)
        return sweep(trial, seed=range(settings.trials))

    def claims(self, results: Results[Settings]) -> list[Claim]:
        settings, times = results.settings, results.times()
        count, subsets = len(times), math.comb(settings.n, settings.k)
        median = quantile(times)
        known = math.isfinite(median)
        enough = known and count >= 1000
        too_small = (
            f"{count} trials are too few to see the tails of a law"
            if known
            else f"most trials do not converge within {settings.budget} steps"
        )
        early = proportion(int((times < median / 4).sum()) if known else 0, count)
        luck_of_search = 1 - 2 ** (-1 / 4)
        search = geometric_ks(times, 1 / subsets, every=10, horizon=settings.budget)
        equal = 1 - 2 ** (-1 / (median if known else settings.budget))
        shape = geometric_ks(times, equal, every=10, horizon=settings.budget)
        shared: dict[str, Any] = {"source": SOURCE, "trials": count, "enough": enough, "too_small": too_small}
        return [
            claim(
                "no-early-luck",
                "Hardly any network converges within a quarter of the median time, where a random search "
                f"with the same median would have succeeded {luck_of_search:.0%} of the time.",
                statistic="share of trials with t_c < median/4",
                interval=early,
                at_most=0.01,
                source_value="no success near t = 0",
                **shared,
            ),
            claim(
                "earliest",
                "Even the luckiest thousandth of the networks needs a sizeable share of the median time.",
                statistic="0.1% quantile of t_c / median t_c",
                interval=_ratio(quantile_interval(times, 0.001), quantile_interval(times)),
                at_least=0.25,
                source_value="histogram bounded away from 0",
                **shared,
            ),
            claim(
                "not-random-search",
                f"The times do not follow random search over the C({settings.n},{settings.k}) = {subsets} subsets.",
                statistic="Kolmogorov–Smirnov distance to Geom(1/C(n,k))",
                interval=_ks_interval(search.distance, count),
                at_least=0.1,
                source_value="unlike Geom(1/C(n,k))",
                **shared,
            ),
            claim(
                "not-memoryless",
                "Nor do they follow a random search that happens to have the same median.",
                statistic="Kolmogorov–Smirnov distance to the geometric law of equal median",
                interval=_ks_interval(shape.distance, count),
                at_least=0.1,
                source_value="unlike a geometric law",
                **shared,
            ),
            claim(
                "skewed-right",
                "The law is skewed to the right: the slow tenth lies further from the median than the fast tenth.",
                statistic="quantile skewness of t_c at 10%",
                interval=skewness(times, log=False),
                above=0.0,
                source_value="heavy upper tail; no number stated",
                **shared,
            ),
        ]

    def figures(self, results: Results[Settings]) -> list[Figure]:
        settings, times = results.settings, results.times()
        finite = times[np.isfinite(times)]
        subsets, count = math.comb(settings.n, settings.k), len(times)
        edges = _edges(finite if len(finite) else np.array([1.0]), subsets)
        share = np.histogram(finite, edges)[0] / count
        search = np.diff(1 - (1 - 1 / subsets) ** edges)
        fig, ax = figures.new_figure(f"{count:,} networks, none lucky: t_c of a ({settings.n},{settings.k})-parity")
        ax.stairs(share, edges, fill=True, color=figures.BLUE, alpha=0.75, label="SGD, measured")
        ax.stairs(search, edges, color=figures.VERMILLION, linewidth=1.6, label="random search, Geom(1/C(n,k))")
        ax.set_xscale("log")
        ax.set_xlabel("convergence time t_c (steps)")
        ax.set_ylabel("share of trials per bin")
        median = quantile_interval(times)
        if np.isfinite(median.value):
            ax.axvline(median.value, color=figures.INK, linewidth=1, linestyle=":")
            figures.direct_label(ax, [median.value], [ax.get_ylim()[1] * 0.97], f"median {median.value:.0f}")
        figures.legend(ax)
        figures.source_note(fig, SOURCE)
        data = pl.DataFrame({"from": edges[:-1], "to": edges[1:], "sgd": share, "random_search": search})
        failed = 1 - len(finite) / count
        caption = (
            f"Convergence times of {count:,} networks ({settings.configuration}) on ({settings.n},{settings.k})-"
            f"parities, batch {settings.batch_size}, rate {settings.rate:g}; bins of equal ratio. Median "
            f"{median.value:.0f} [{median.low:.0f}, {median.high:.0f}] steps (95%, order statistics); "
            f"{failed:.3%} never converged within {settings.budget:,} steps. The line is the law of a search that "
            f"tests one of the {subsets:,} subsets per step."
        )
        title = "The law of the convergence time, beside random search"
        return [Figure("histogram", title, caption, fig, data)]


def _edges(finite: np.ndarray, subsets: int) -> np.ndarray:
    """Bin edges of equal ratio over both laws, halfway between checked steps so that none falls on an edge."""
    high = max(finite.max(), 7.0 * subsets)  # random search is done by then in 999 of 1000 cases
    return np.unique(np.round(np.geomspace(10, 1.05 * high, 100) / 10) * 10 + 5)


def _ratio(top: Interval, bottom: Interval) -> Interval:
    """The ratio of two quantiles, with the ends that their intervals allow."""
    if not math.isfinite(bottom.value):
        return Interval(math.nan, math.nan, math.nan, 0.95, "no median")
    ends = (max(0.0, top.low) / bottom.high, top.high / bottom.low if bottom.low > 0 else math.inf)
    return Interval(top.value / bottom.value, *ends, 0.95, "order statistics")


def _ks_interval(distance: float, count: int) -> Interval:
    """The distance with the Dvoretzky–Kiefer–Wolfowitz band: |D - D_true| ≤ √(log(2/0.05)/(2·count))."""
    band = math.sqrt(math.log(2 / 0.05) / (2 * count))
    return Interval(distance, max(0.0, distance - band), min(1.0, distance + band), 0.95, "DKW band")
