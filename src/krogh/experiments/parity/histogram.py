"""Figure 5.2 left: the law of the convergence time over very many trials, beside random search.

Random exhaustive search tests one k-subset per step, so its time is geometric with mean C(n,k) and is often
lucky early. SGD is not: its times start at a sizeable fraction of their median and have a tail to the right.
The source does not state the setting of its figure; this is the first panel of its Figure B.2: a width-100 ReLU
network on the (30,3)-parity, hinge, fresh batches of 32, rate 0.1.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import polars as pl

from krogh.engine import Trial, Trials, sweep
from krogh.experiments.parity.common import CHECK_EVERY, OnlineSettings
from krogh.lab import Claims, Experiment, Figure, Results, Tables, experiment, figures, need, setting
from krogh.lab.estimate import median_time, quantiles, share_of
from krogh.lab.experiment import Measures
from krogh.lab.times import ks_distance, skewness
from krogh.models import configuration
from krogh.tasks import Parity
from krogh.training import Sgd


@dataclass(frozen=True)
class Settings(OnlineSettings):
    n: int = setting(30, "input bits", least=1)
    k: int = setting(3, "relevant bits", least=1)
    configuration: str = setting("ii", "architecture, by the source's numeral")
    rate: float = setting(0.1, "learning rate", least=0)
    batch_size: int = setting(32, "fresh examples per step", least=1)
    trials: int = setting(1_000_000, "networks trained, seeds 0, 1, ...", least=1)


@experiment("parity/histogram")
class Histogram(Experiment[Settings]):
    """The law of the convergence time, beside random search."""

    title = "SGD is not a lucky search"
    question = "Is the convergence time of SGD on a sparse parity distributed like that of a random search?"
    source = "dissertation, §5.3.2, Figure 5.2 left"
    scales = {
        "smoke": Settings(n=12, k=2, trials=64, budget=4_000),
        "laptop": Settings(trials=5_000, budget=20_000),
        "paper": Settings(),
    }
    notes = (
        "The source does not state n, k, architecture, rate or batch of its figure; the settings here are "
        "those of the first panel of its Figure B.2.",
    )

    def trials(self, settings: Settings) -> Iterable[Trials]:
        training = settings.training(Sgd(settings.rate), settings.batch_size)
        trial = Trial(Parity(settings.n, settings.k), configuration(settings.configuration, settings.k), training)
        return sweep(trial, seed=range(settings.trials))

    def measure(self, results: Results[Settings]) -> Measures:
        """How many networks had each time: millions of them in a few thousand rows; null is never."""
        counted = results.records.group_by("convergence_time").agg(trials=pl.len()).sort("convergence_time")
        return {"times": counted.collect()}

    def claims(self, tables: Tables[Settings], say: Claims) -> None:
        settings, times = tables.settings, times_in(tables["times"])
        subsets = math.comb(settings.n, settings.k)
        earliest, middle = quantiles(times, [0.001, 0.5], lowest=0.0, sample="all")
        known = middle.value if math.isfinite(middle.value) else float(settings.budget)
        late = "" if math.isfinite(middle.value) else f"most trials do not converge within {settings.budget} steps"
        say = say.about(needs=[late, need(len(times), 1000, "trials are too few to see the tails of a law")])
        say(
            "no-early-luck",
            "Hardly any network converges within a quarter of the median time, where a random search "
            f"with the same median would have succeeded {1 - 2 ** (-1 / 4):.0%} of the time.",
            share_of(times < known / 4, sample="all"),
            "share of trials with t_c < median/4",
            at_most=0.01,
            source_value="no success near t = 0",
        )
        say(
            "earliest",
            "Even the luckiest thousandth of the networks needs a sizeable share of the median time.",
            earliest / middle,
            "0.1% quantile of t_c / median t_c",
            at_least=0.25,
            source_value="histogram bounded away from 0",
        )
        say(
            "not-random-search",
            f"The times do not follow random search over the C({settings.n},{settings.k}) = {subsets} subsets.",
            ks_distance(times, 1 / subsets, every=CHECK_EVERY, horizon=settings.budget),
            "Kolmogorov–Smirnov distance to Geom(1/C(n,k))",
            at_least=0.1,
            source_value="unlike Geom(1/C(n,k))",
        )
        say(
            "not-memoryless",
            "Nor do they follow a random search that happens to have the same median.",
            ks_distance(times, 1 - 2 ** (-1 / known), every=CHECK_EVERY, horizon=settings.budget),
            "Kolmogorov–Smirnov distance to the geometric law of equal median",
            at_least=0.1,
            source_value="unlike a geometric law",
        )
        say(
            "skewed-right",
            "The law is skewed to the right: the slow tenth lies further from the median than the fast tenth.",
            skewness(times, log=False),
            "quantile skewness of t_c at 10%",
            above=0.0,
            source_value="heavy upper tail; no number stated",
        )

    def figures(self, tables: Tables[Settings]) -> Iterable[Figure]:
        settings, times = tables.settings, times_in(tables["times"])
        finite, count, subsets = times[np.isfinite(times)], len(times), math.comb(settings.n, settings.k)
        edges = _edges(finite if len(finite) else np.array([1.0]), subsets)
        share = np.histogram(finite, edges)[0] / count
        search = np.diff(1 - (1 - 1 / subsets) ** edges)
        chart = self.chart(
            "histogram",
            "The law of the convergence time, beside random search",
            headline=f"{count:,} networks, none lucky: t_c of a ({settings.n},{settings.k})-parity",
            width=6.0,
            height=3.8,
        )
        panel = chart.panel(x="convergence time t_c (steps)", y="share of trials per bin")
        ax = panel.ax
        ax.stairs(share, edges, fill=True, color=figures.BLUE, alpha=0.75, label="SGD, measured")
        ax.stairs(search, edges, color=figures.VERMILLION, linewidth=1.6, label="random search, Geom(1/C(n,k))")
        ax.set_xscale("log")
        median = median_time(times, sample="all")
        if math.isfinite(median.value):
            ax.axvline(median.value, color=figures.INK, linewidth=1, linestyle=":")
            figures.direct_label(ax, [median.value], [ax.get_ylim()[1] * 0.97], f"median {median.value:.0f}")
        panel.legend()
        yield chart.figure(
            f"Convergence times of {count:,} networks ({settings.configuration}) on ({settings.n},{settings.k})-"
            f"parities, batch {settings.batch_size}, rate {settings.rate:g}; bins of equal ratio. Median "
            f"{median.value:.0f} [{median.low:.0f}, {median.high:.0f}] steps (95%, order statistics); "
            f"{1 - len(finite) / count:.3%} never converged within {settings.budget:,} steps. The line is the law of "
            f"a search that tests one of the {subsets:,} subsets per step.",
            pl.DataFrame({"from": edges[:-1], "to": edges[1:], "sgd": share, "random_search": search}),
        )


def times_in(counted: pl.DataFrame) -> np.ndarray:
    """Every network's time, ascending, from how many had each; ∞ for those that never converged."""
    times = counted["convergence_time"].cast(pl.Float64).fill_null(math.inf).to_numpy()
    return np.sort(np.repeat(times, counted["trials"].to_numpy()))


def _edges(finite: np.ndarray, subsets: int) -> np.ndarray:
    """Bin edges of equal ratio over both laws, halfway between checked steps so that none falls on an edge."""
    high = max(finite.max(), 7.0 * subsets)  # random search is done by then in 999 of 1000 cases
    return np.unique(np.round(np.geomspace(10, 1.05 * high, 100) / 10) * 10 + 5)
