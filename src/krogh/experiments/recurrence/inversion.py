"""Figure 4: a linear function of a random recurrent network's last state says the whole sequence again (B-E1).

Sequences of L Gaussian vectors of d numbers (`krogh.tasks.Inversion`), a random ReLU network of width m, and a decoder
x̂ = B h_L that is fitted: in closed form, by ridge regression on as many sequences for all widths, and for some widths
by the source's own training (SGD on fresh batches of 128, rate 0.1, momentum 0.9, the mean squared error over all
coordinates), whose number of steps is not given.

The source draws weights from N(0, 1). Each step then multiplies the state by √(m/2), the latest vectors drown in the
first ones, and the trend in m is gone from L = 4 on; and SGD at its rate diverges. With the variance 2/m of its theory
the figure comes out as it is described. Both are measured.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import polars as pl

from krogh.engine import Trial, Trials, sweep
from krogh.experiments.recurrence.random_networks import networks_of
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
    maximum,
    mean_time,
    minimum,
    need,
    setting,
    share_of,
)
from krogh.lab.experiment import Measures
from krogh.models.elman import ElmanRnn
from krogh.networks.recurrence.learned_decoder import deviations, ridge
from krogh.probes import Deviation
from krogh.tasks import Inversion
from krogh.training import Momentum, Online, Stopping, Training

SCALED, LITERAL = "2/m", "1"
"""Variances of the weights: that of the theory, and that of the text of section I."""
FEWEST = 3
"""Networks of a verdict."""
FOURFOLD = 4
"""Widths that are compared differ by this factor."""
REFERENCE: dict[tuple[int, int], dict[float, float]] = {
    (2, 2): {500: 0.0051, 1000: 0.0025, 2000: 0.0014},
    (2, 4): {500: 0.053, 1000: 0.031, 2000: 0.020},
    (2, 6): {500: 0.145, 1000: 0.093, 2000: 0.063},
    (8, 2): {500: 0.072, 1000: 0.045, 2000: 0.031},
    (8, 4): {500: 0.263, 1000: 0.167, 2000: 0.123},
    (8, 6): {500: 0.461, 1000: 0.319, 2000: 0.252},
}
"""(d, L) → relative L2 error at m with 6000 sequences, computed beforehand; the source has curves without numbers."""


@dataclass(frozen=True)
class Settings:
    widths: tuple[int, ...] = setting((500, 1000, 2000), "widths m", increasing=True, fewest=2, least=10, most=20_000)
    lengths: tuple[int, ...] = setting((2, 4, 6), "lengths L", increasing=True, fewest=2, least=1)
    dimensions: tuple[int, ...] = setting((2, 4, 8), "numbers d of a vector", increasing=True, least=1)
    samples: int = setting(6000, "sequences that the decoder is fitted to", least=10)
    test: int = setting(1000, "sequences that it is judged on", least=1)
    networks: int = setting(3, "random networks of the largest width for each d, twice as many of others", least=1)
    literal: int = setting(3, "networks with weights of variance 1, at the two widths and the ends of d", least=0)
    sgd_widths: tuple[int, ...] = setting((125, 500), "widths of decoders that SGD trains", increasing=True, least=4)
    sgd_lengths: tuple[int, ...] = setting((2, 4, 6), "lengths of their sequences", increasing=True, least=1)
    sgd_dimensions: tuple[int, ...] = setting((2,), "numbers d of their vectors", increasing=True, least=1)
    steps: int = setting(1000, "steps of SGD, a multiple of 100", least=100)
    seeds: int = setting(3, "seeds of SGD", least=1)
    seed: int = setting(0, "of the random networks", least=0)


@experiment("recurrence/inversion")
class Inverting(Experiment[Settings]):
    """Errors of decoders fitted by ridge regression and by SGD, against m, L and d, for both variances of weights."""

    title = "A wide random recurrent network is inverted by a linear function of its last state"
    question = "How well can a sequence be read off the last state of a random recurrent network, by m, L and d?"
    source = "Learning and generalization in RNNs, Section I, Figure 4 (Figures 1-3)"
    scales = {
        "smoke": Settings(
            widths=(20, 80), lengths=(2, 3), dimensions=(2,), samples=200, test=50, networks=2,
            literal=1, sgd_widths=(16,), sgd_lengths=(2,), steps=100, seeds=1,
        ),
        "laptop": Settings(),
        "paper": Settings(
            widths=(500, 1000, 2000, 5000, 10_000), samples=30_000, networks=5, literal=5,
            sgd_widths=(500, 1000, 2000, 5000, 10_000), sgd_lengths=(2, 4, 6), sgd_dimensions=(2, 4, 8), steps=10_000,
        ),
    }  # fmt: skip
    notes = (
        "The source gives neither the number of training sequences nor of steps nor of runs, and its curves without "
        "numbers; ridge regression is where SGD would end on these sequences.",
        "With as many sequences as units (m = N) ridge regression with so small a penalty is at its worst: with 6000 "
        "sequences and d = 8, L = 6 the error is .26 at m = 2000, .29 at m = 5000 and .14 at m = 10⁴. The laptop "
        "and the paper scale have three times as many sequences as their widest network has units.",
        "One run over the longest sequence gives the states of the shorter ones: lengths share networks and inputs.",
        "With weights of variance 1, states are divided by their size before they are decoded by ridge regression, "
        "which changes nothing, and not for SGD, which diverges.",
    )

    def check(self, settings: Settings) -> None:
        _training(settings)

    def trials(self, settings: Settings) -> Iterable[Trials]:
        for width, dimension, length in itertools.product(
            settings.sgd_widths, settings.sgd_dimensions, settings.sgd_lengths
        ):
            for variance, name in ((None, SCALED), (1.0, LITERAL)):
                if name == LITERAL and width != settings.sgd_widths[0]:
                    continue
                model = ElmanRnn(width, variance=variance)
                trial = Trial(Inversion(length, dimension), model, _training(settings), probes=(Deviation(),),
                              probe_every=settings.steps // 10)  # fmt: skip
                yield from sweep(trial, seed=range(settings.seeds), label={"variance": name})

    def measure(self, results: Results[Settings]) -> Measures:
        return {
            "ridge": functools.partial(fitted, results.settings),
            "sgd": functools.partial(trained, results.table),
        }

    def claims(self, tables: Tables[Settings], say: Claims) -> None:
        s = tables.settings
        first, far = compared(s)
        wide = [need(far / first, FOURFOLD, "times the least width is the largest")]
        found = tables["ridge"].filter(variance=SCALED)
        about = say.about(needs=[need(s.networks, FEWEST, "networks per cell"), need(s.samples, 2000, "sequences")])
        by_cell = error_curves(found)
        for d in s.dimensions:
            about(
                f"width-d{d}",
                f"d = {d}: the error at m = {far} is below 0.7 of that at m = {first}, for every L.",
                maximum([by_cell[d, L].at(far) / by_cell[d, L].at(first) for L in s.lengths]),
                "largest ratio of mean relative L2 errors over L",
                below=0.7,
                source_value="falls with m",
                needs=wide,
            )
            about(
                f"length-d{d}",
                f"d = {d}: the error rises with L, at every m.",
                minimum([by_cell[d, long].at(m) / by_cell[d, short].at(m)
                         for short, long in itertools.pairwise(s.lengths) for m in s.widths]),
                "least ratio of mean relative L2 errors of neighbouring L",
                above=1.0,
                source_value="rises with L",
            )  # fmt: skip
        for L in s.lengths:
            about(
                f"dimension-L{L}",
                f"L = {L}: the error rises with d, at every m.",
                minimum([by_cell[more, L].at(m) / by_cell[less, L].at(m)
                         for less, more in itertools.pairwise(s.dimensions) for m in s.widths],
                        nothing="one d alone"),
                "least ratio of mean relative L2 errors of neighbouring d",
                above=1.0,
                source_value="rises with d",
            )  # fmt: skip
        literal = error_curves(tables["ridge"].filter(variance=LITERAL))
        long = [curve for (_, L), curve in literal.items() if L >= 4]
        say(
            "literal-no-trend",
            f"With weights of variance 1 and L of 4 or more, m = {far} is no better than m = {first} (0.9 or more of "
            "its error).",
            minimum([curve.at(far) / curve.at(first) for curve in long], nothing="no L of 4 or more"),
            "least ratio of relative L2 errors over d and L",
            at_least=0.9,
            source_value=".49/.50 .76/.80 .84/.95 .94/1.08 at m = 500/2000, beforehand",
            needs=[*wide, need(s.literal, FEWEST, "networks with weights of variance 1")],
        )
        self._of_sgd(tables, say.about("sgd-", needs=[need(s.seeds, FEWEST, "seeds"), need(s.steps, 1000, "steps")]))

    def _of_sgd(self, tables: Tables[Settings], say: Claims) -> None:
        s, own = tables.settings, tables["sgd"]
        for d in s.sgd_dimensions:
            found = sgd_curves(own.filter(variance=SCALED, dimension=d))
            first, last = s.sgd_widths[0], s.sgd_widths[-1]
            say(
                f"width-d{d}",
                f"d = {d}: after {s.steps} steps of SGD the error is smaller at m = {last} than at m = {first}, for "
                "every L.",
                maximum([curve.at(last) / curve.at(first) for curve in found.values()]),
                "largest ratio of mean relative L2 errors over L",
                below=1.0,
                source_value="falls with m",
                needs=[need(len(s.sgd_widths), 2, "widths")],
            )
            say(
                f"length-d{d}",
                f"d = {d}: it rises with L, at every m.",
                minimum([found[long].at(m) / found[short].at(m)
                         for short, long in itertools.pairwise(s.sgd_lengths) for m in s.sgd_widths],
                        nothing="one L alone"),
                "least ratio of mean relative L2 errors of neighbouring L",
                above=1.0,
                source_value="rises with L",
            )  # fmt: skip
        literal = own.filter(variance=LITERAL)
        say(
            "literal-diverges",
            "With weights of variance 1, SGD at the source's rate diverges in most trials.",
            share_of(literal["diverged"], sample="SGD with variance 1"),
            "share of trials that diverged",
            above=0.5,
            source_value="weights N(0, 1), rate 0.1, momentum 0.9",
        )

    def figures(self, tables: Tables[Settings]) -> Iterator[Figure]:
        s, ridges = tables.settings, tables["ridge"]
        colors = dict(zip(s.lengths, itertools.cycle(figures.PALETTE), strict=False))
        for column, name, words in (
            ("relative_l2", "relative-l2", "relative L2 error"),
            ("largest", "l-infinity", "L∞ error"),
        ):
            title = f"Inverting random recurrent networks: {words}"
            chart = self.chart(name, title, columns=len(s.dimensions), sharey=True)
            for d in s.dimensions:
                panel = chart.panel(title=f"d = {d}", x="width m", y=words if d == s.dimensions[0] else "", log="xy",
                                    xticks=s.widths)  # fmt: skip
                own = error_curves(ridges.filter(variance=SCALED), column)
                for L in s.lengths:
                    published = REFERENCE.get((d, L), {}) if column == "relative_l2" else {}
                    panel.curve(own[d, L], f"L = {L}", color=colors[L], published=published)
                for (_, L), curve in error_curves(ridges.filter(variance=LITERAL, dimension=d), column).items():
                    panel.line(curve.x, curve.value, f"L = {L}, variance 1", color=colors[L], style=":", key="")
                if column == "relative_l2" and d in s.sgd_dimensions:
                    for L, curve in sgd_curves(tables["sgd"].filter(variance=SCALED, dimension=d)).items():
                        panel.line(curve.x, curve.value, f"L = {L}, SGD", color=colors[L], marker="x", key="")
            crosses = f" Crosses: after {s.steps} steps of SGD." if column == "relative_l2" else ""
            circles = " Circles: computed beforehand." if column == "relative_l2" else ""
            yield chart.figure(
                f"The error of a linear decoder of the last state, fitted to {s.samples:,} sequences by ridge "
                f"regression and judged on {s.test:,}; means over {s.networks} networks or more with 95% intervals by "
                f"Student, of logarithms. Dotted: weights of variance 1 in place of 2/m.{crosses}{circles}"
            )


def _training(s: Settings) -> Training:
    """B-O3; the decoder B alone is trained."""
    stopping = Stopping(budget=s.steps, error=0.0, validation=s.test, check_every=s.steps // 10)
    return Training(Momentum(0.1, 0.9), Online(128), stopping, "square", frozen=("W", "A"))


def compared(s: Settings) -> tuple[int, int]:
    """The least width, and the first that is four times as large."""
    first = s.widths[0]
    return first, next((m for m in s.widths if m >= FOURFOLD * first), s.widths[-1])


def error_curves(table: pl.DataFrame, column: str = "relative_l2") -> dict[tuple[int, int], Curve]:
    """(d, L) → the mean error against m."""
    return curves(table, by=("dimension", "length"), x="width", y=column, statistic=mean_time)


def sgd_curves(table: pl.DataFrame) -> dict[int, Curve]:
    """L → the mean relative error of decoders that SGD trained, against m; diverged ones are infinite."""
    return curves(table, by="length", x="width", y="relative_l2", statistic=mean_time)


def fitted(s: Settings) -> pl.DataFrame:
    """A row per variance, d, m, network and L: decoders in closed form."""
    rows = []
    for name, networks in ((SCALED, s.networks), (LITERAL, s.literal)):
        widths, dimensions = (s.widths, s.dimensions) if name == SCALED else (compared(s), ends_of(s.dimensions))
        cells = [
            (d, width, which)
            for d, width in itertools.product(dimensions, widths)
            for which in range(networks_of(width, widths, networks, most=2 if name == SCALED else 1))
        ]
        for d, width, which in cells:
            variance = 2 / width if name == SCALED else 1.0
            rng = np.random.default_rng([s.seed, d, width, which])
            for length, h, x in states(width, variance, d, s.lengths, s.samples + s.test, rng):
                B = ridge(h[: s.samples], x[: s.samples])
                found = deviations(h[s.samples :].astype(np.float64) @ B, x[s.samples :])
                rows.append(
                    {
                        "variance": name,
                        "dimension": d,
                        "width": width,
                        "network": which,
                        "length": length,
                        **found._asdict(),
                    }
                )
    return pl.DataFrame(rows)


def ends_of(values: tuple[int, ...]) -> tuple[int, ...]:
    """The first and the last, which may be one."""
    return tuple(dict.fromkeys((values[0], values[-1])))


def states(
    width: int, variance: float, d: int, lengths: tuple[int, ...], count: int, rng: np.random.Generator
) -> Iterator[tuple[int, np.ndarray, np.ndarray]]:
    """L, h_L [count, m] and [x_1; ...; x_L] of one random network on Gaussian sequences, for each of the lengths.

    float32, and one matrix of weights: at m = 10⁴ and 10⁴ sequences 400 MB for W, and as much for each of two states.
    """
    scale = np.float32(variance**0.5)
    W, A = (rng.standard_normal((width, columns), np.float32) for columns in (width, d))
    W *= scale
    A *= scale
    x = rng.standard_normal((count, lengths[-1], d), np.float32)
    h = np.zeros((count, width), np.float32)
    for position in range(lengths[-1]):
        g = x[:, position] @ A.T
        if position:
            g += h @ W.T
        h = np.maximum(g, 0, out=g)
        if position + 1 in lengths:
            yield position + 1, h, x[:, : position + 1].reshape(count, -1)


def trained(table: pl.DataFrame) -> pl.DataFrame:
    """A row per trial: what the probe saw last."""
    last = {f"curve.{name}": pl.col(f"curve.{name}").list.last() for name in ("relative_l2", "largest_deviation")}
    seen = table.with_columns(**last)
    diverged = pl.col("outcome") == "diverged"
    return seen.select(
        "variance",
        "seed",
        dimension="task.dimension",
        length="task.length",
        width="model.width",
        diverged=diverged,
        relative_l2=pl.when(diverged).then(float("inf")).otherwise(pl.col("curve.relative_l2")).cast(pl.Float64),
        largest=pl.when(diverged).then(float("inf")).otherwise(pl.col("curve.largest_deviation")).cast(pl.Float64),
    )
