"""Figures 5.4 left and B.10: width gives no parallel speed-up.

If every neuron searched for the support on its own, r neurons would be done r times as fast, as r copies of random
search are: their mean time is C(n,k)/r until it reaches 1. The time of SGD falls a little with the first neurons and
then stays where it is; what width does is to take away the slow runs. Networks with fewer than k neurons cannot hold
the parity: they have "converged" when ten checks in a row are at least 55% right.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from krogh.engine import Trial, Trials, sweep
from krogh.errors import require
from krogh.experiments.parity.common import CHECK_EVERY, OnlineSettings
from krogh.lab import Claims, Experiment, Figure, Tables, experiment, figures, groups, need, setting, share_of, times_of
from krogh.lab.charts import Panel
from krogh.lab.estimate import Estimate, quantiles
from krogh.models import Mlp
from krogh.tasks import Parity
from krogh.theory.boolean.search import search_mean
from krogh.training import Online, Sgd, Stopping, Training

WEAK, IN_A_ROW = 0.55, 10
"""What a network of fewer than k neurons must reach, and on how many consecutive checks."""
WEAK_VALIDATION = 8192
"""Examples for that: of 128 that are drawn once, a coin is right about 55% in one case of eight."""
FEWEST_TRIALS = 16  # of fewer, quartiles have no interval at 95%


@dataclass(frozen=True)
class Settings(OnlineSettings):
    ns: tuple[int, ...] = setting((30, 40, 50), "input bits", increasing=True, least=1)
    k: int = setting(3, "relevant bits", least=1)
    widths: tuple[int, ...] = setting(
        (*range(1, 11), 30, 100, 300, 1000, 3000, 10_000, 30_000, 100_000, 300_000, 1_000_000, 3_000_000),
        "hidden units r",
        increasing=True,
        fewest=2,
        least=1,
    )
    narrow: int = setting(10, "the width from which on there is to be no speed-up", least=1)
    base: int = setting(30, "the width with which the widest is compared", least=1)
    batch_size: int = setting(128, "fresh examples per step", least=1)
    rate: float = setting(0.1, "learning rate", least=0)
    output_bias: bool = setting(True, "whether networks have an output bias, which three ReLUs need for three bits")
    seeds: int = setting(1000, "trials per width, as far as `neurons` allows", least=1)
    fewest_seeds: int = setting(FEWEST_TRIALS, "trials of the widest networks", least=1)
    neurons: int = setting(3_000_000, "neurons of all trials of a width together, beyond the fewest trials", least=1)

    def trials_of(self, width: int) -> int:
        """How many networks of this width are trained."""
        return min(self.seeds, max(self.fewest_seeds, self.neurons // width))


@experiment("parity/width")
class Width(Experiment[Settings]):
    """Convergence times against the width, beside r copies of random search."""

    title = "Width takes away the slow runs and brings no parallel speed-up"
    question = "Do r neurons learn a sparse parity r times as fast as one, as r copies of a random search would?"
    source = "dissertation, §5.5, Figures 5.4 left and B.10"
    scales = {
        "smoke": Settings(
            ns=(8,), k=2, widths=(1, 4, 16), narrow=4, base=4, batch_size=32, seeds=4, fewest_seeds=4, budget=1_000
        ),
        "laptop": Settings(
            ns=(20,), widths=(1, 2, 3, 4, 6, 10, 30, 100, 300, 1000), seeds=24, neurons=24_000, budget=20_000
        ),
        "paper": Settings(),
    }
    notes = (
        "The source has 1000 runs at every width. Here the widest networks have fewer trials, as the figure's data "
        "say, so that a device trains about as many neurons at every width.",
        "Networks have an output bias: the printed formula has none, but without it three ReLUs have not been seen to "
        "learn the parity of three bits, nor can two hold that of two.",
        f"Networks of fewer than k neurons are judged by {IN_A_ROW} consecutive checks at {WEAK:.0%}, on "
        f"{WEAK_VALIDATION} examples whatever the setting.",
    )

    def check(self, settings: Settings) -> None:
        require(settings.ns[0] >= settings.k, f"every n must be at least k={settings.k}; got ns={settings.ns}")
        for name in ("narrow", "base"):
            among = getattr(settings, name) in settings.widths
            require(among, f"{name} must be one of the widths {settings.widths}; got {name}={getattr(settings, name)}")

    def trials(self, settings: Settings) -> Iterator[Trials]:
        for n in settings.ns:
            for width in settings.widths:
                model = Mlp(width, output_bias=settings.output_bias)
                trial = Trial(Parity(n, settings.k), model, training(settings, width))
                yield from sweep(trial, seed=range(settings.trials_of(width)), label={"width": width})

    def claims(self, tables: Tables[Settings], say: Claims) -> None:
        settings, by_n = tables.settings, groups(tables["trials"], "task.n")
        base, wide, narrow = settings.base, settings.widths[-1], settings.narrow
        wider = need(wide / base, 10, f"is the ratio of the largest width to {base}")
        for n, rows in by_n.items():
            low, mid, high = spread_of(rows, wide)
            enough = [need(settings.trials_of(wide), FEWEST_TRIALS, f"trials of width {wide}"), wider]
            about = say.about(f"n{n}-", f"n = {n}", needs=enough)
            about(
                "no-speed-up",
                f": networks of width {wide} are hardly faster than those of width {base}, where random search would "
                f"be {search_ratio(n, settings):.3g} times as fast.",
                spread_of(rows, base)[1] / mid,
                f"median t_c at width {base} / at width {wide}",
                at_most=2.0,
                source_value="no r-fold speed-up",
            )
            about(
                "plateau",
                f": from width {base} to {wide} the time stays about the same.",
                mid / spread_of(rows, base)[1],
                f"median t_c at width {wide} / at width {base}",
                between=(0.5, 2.0),
                source_value="t_c plateaus with width",
            )
            first, _, last = spread_of(rows, narrow)
            about(
                "spread-shrinks",
                f": times of width {wide} are closer together than those of width {narrow}.",
                (last / first) / (high / low),
                f"ratio of the upper to the lower quartile of t_c, at width {narrow} / at width {wide}",
                above=1.0,
                source_value="upper tail shrinks",
            )
            for width in (width for width in settings.widths if width < settings.k):
                times = times_of(rows.filter(width=width))
                say(
                    f"n{n}-weak-{width}",
                    f"n = {n}: {width} {'neuron finds' if width == 1 else 'neurons find'} a correlation with the "
                    f"parity of {settings.k} bits, {WEAK:.0%} on {IN_A_ROW} checks.",
                    share_of(np.isfinite(times), sample=f"n={n}, r={width}"),
                    f"share of seeds within {settings.budget:,} steps",
                    at_least=0.5,
                    source_value="boxes are drawn for r < k",
                    needs=[need(len(times), 10, "seeds")],
                )

    def figures(self, tables: Tables[Settings]) -> Iterable[Figure]:
        settings, by_n = tables.settings, groups(tables["trials"], "task.n")
        chart = self.chart(
            "width",
            "Convergence time against the width",
            headline=self.title,
            columns=len(by_n),
            width=max(6.4, 4.6 * len(by_n)),
            height=4.2,
            sharey=True,
        )
        stored = []
        for n, rows in by_n.items():
            title = f"n = {n}" if len(by_n) > 1 else ""
            panel = chart.panel(title=title, x="hidden units r", log="xy")
            for width, own in groups(rows, "width").items():
                times = times_of(own)
                color = figures.VERMILLION if width < settings.k else figures.BLUE
                draw_box(panel, width, times, color, settings.budget)
                stored.append({"n": n, "width": width} | box(times))
            widths = np.unique(np.round(np.geomspace(settings.widths[0], settings.widths[-1], 200)).astype(int))
            search = [search_mean(math.comb(n, settings.k), width) for width in widths.tolist()]
            panel.line(widths, search, "r copies of random search", color=figures.GREEN, style="-", key="legend")
            for color, words in ((figures.VERMILLION, f"r < k = {settings.k}"), (figures.BLUE, "r ≥ k")):
                panel.ax.plot([], [], color=color, linewidth=6, alpha=0.35, label=words)
            panel.ax.set_ylim(1, 2 * settings.budget)
            panel.legend(loc="lower left")
        chart[0].axes(y="convergence time t_c (steps)")
        yield chart.figure(
            f"Boxes are quartiles and the median, whiskers reach 1.5 times their distance, crosses are the earliest "
            f"and the latest run; a triangle at the top and the share beside it are runs that did not converge within "
            f"{settings.budget:,} steps, which quartiles count as infinite. Vermillion: fewer than k = {settings.k} "
            f"neurons, converged at {WEAK:.0%} on {IN_A_ROW} consecutive checks. B = {settings.batch_size}, rate "
            f"{settings.rate:g}; {settings.trials_of(settings.widths[0])} trials at the smallest and "
            f"{settings.trials_of(settings.widths[-1])} at the largest width.",
            pl.DataFrame(stored),
        )


def training(settings: Settings, width: int) -> Training:
    """Networks that cannot hold the parity are asked for less."""
    if width >= settings.k:
        return settings.training(Sgd(settings.rate), settings.batch_size)
    weak: dict[str, Any] = {"accuracy": WEAK, "consecutive": IN_A_ROW}
    stopping = Stopping(budget=settings.budget, validation=WEAK_VALIDATION, check_every=CHECK_EVERY, **weak)
    return Training(Sgd(settings.rate), Online(settings.batch_size), stopping)


def spread_of(rows: pl.DataFrame, width: int) -> list[Estimate]:
    """The lower quartile, the median and the upper quartile of the times at one width."""
    own = rows.filter(width=width)
    sample = f"n={own['task.n'][0]}, r={width}"
    return quantiles(times_of(own), [0.25, 0.5, 0.75], lowest=float(CHECK_EVERY), sample=sample)


def search_ratio(n: int, settings: Settings) -> float:
    """How much faster random search is with as many copies as the widest network has neurons than with the base's."""
    subsets = math.comb(n, settings.k)
    return search_mean(subsets, settings.base) / search_mean(subsets, settings.widths[-1])


def box(times: np.ndarray) -> dict[str, float]:
    """What a box plot shows of censored times: quartiles, whiskers, extremes, and the share that failed."""
    finite = times[np.isfinite(times)]
    low, mid, high = (float(np.quantile(times, q, method="inverted_cdf")) for q in (0.25, 0.5, 0.75))
    reach = 1.5 * (high - low) if math.isfinite(high) else math.inf
    inside = finite[(finite >= low - reach) & (finite <= high + reach)] if finite.size else finite
    ends = {
        "whisker_low": inside.min() if inside.size else math.inf,
        "whisker_high": inside.max() if inside.size else math.inf,
        "least": finite.min() if finite.size else math.inf,
        "largest": finite.max() if finite.size else math.inf,
    }
    shares = {"trials": float(times.size), "failed": 1 - finite.size / times.size}
    return {"lower": low, "median": mid, "upper": high} | {key: float(value) for key, value in ends.items()} | shares


def draw_box(panel: Panel, width: float, times: np.ndarray, color: str, budget: int) -> None:
    """One box at a width, on logarithmic axes."""
    ax, shown = panel.ax, box(times)
    if math.isfinite(shown["least"]):
        top = min(shown["upper"], float(budget))
        side = 10**0.06
        ax.fill_between([width / side, width * side], shown["lower"], top, color=color, alpha=0.35, linewidth=0)
        if math.isfinite(shown["median"]):
            ax.plot([width / side, width * side], [shown["median"]] * 2, color=color, linewidth=2)
        ax.plot([width] * 2, [shown["whisker_low"], shown["lower"]], color=color, linewidth=0.9)
        ax.plot([width] * 2, [top, max(top, shown["whisker_high"])], color=color, linewidth=0.9)
        ax.plot(
            [width] * 2, [shown["least"], shown["largest"]], color=color, linestyle="none", marker="x", markersize=4
        )
    if shown["failed"]:
        above = {"transform": ax.get_xaxis_transform(), "clip_on": False}
        ax.plot([width], [0.985], marker="^", markersize=5, markerfacecolor="white", markeredgecolor=color, **above)
        ax.text(
            width, 0.95, f"{shown['failed']:.0%}", ha="center", va="top", rotation=90, fontsize=7, color=color, **above
        )
