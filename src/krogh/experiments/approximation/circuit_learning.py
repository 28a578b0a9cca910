"""Samples from which networks learn a small circuit, against their width (SM paper, Theorem 3.1).

The theorem lets networks be much wider than the circuit: the samples that suffice grow with the logarithm of the
width, if the 1-norm is controlled. Here networks of widths 16 to 1024 are trained on labels of one circuit; n(w) is the
sample size at which half of the data sets lead to a test error of 5% or less.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import polars as pl

from krogh.engine import Trial, Trials, sweep
from krogh.experiments.approximation.common import NO_EXPERIMENTS, SOLID
from krogh.lab import Chart, Claims, Curve, Experiment, Figure, Tables, experiment, figures, groups, need, setting
from krogh.lab.curves import curve
from krogh.lab.estimate import unknown_estimate
from krogh.lab.sample_complexity import as_cells, crossing
from krogh.models import Mlp
from krogh.programs.circuits.generators import random_circuit
from krogh.tasks.circuit_function import circuit_function
from krogh.training import Adam, Offline, Stopping, Training

SIZE = "training.regime.m"
NARROW, WIDE = 16, 1024
"""Widths whose sample sizes are compared."""
FEWEST = 3
"""Data sets per cell of a verdict."""
COLORS = (figures.VERMILLION, figures.BLUE, figures.GREEN, figures.PURPLE)

Counts = Mapping[int, Any]  # {n: booleans, whether each data set sufficed}


@dataclass(frozen=True)
class Settings:
    inputs: int = setting(10, "inputs m of the circuit", least=1, most=16)
    gates: int = setting(9, "gates in each of its layers", least=1)
    layers: int = setting(4, "layers q of it, inputs and output among them", least=2)
    circuit: int = setting(0, "which random circuit", least=0)
    widths: tuple[int, ...] = setting((16, 64, 256, 1024), "hidden units w", increasing=True, least=1)
    sizes: tuple[int, ...] = setting(
        (50, 71, 100, 141, 200, 400, 1000, 5000), "sample sizes n", increasing=True, fewest=2, least=1
    )
    penalties: tuple[float, ...] = setting((0.0, 0.001), "weights λ of the penalty λ‖θ‖₂", increasing=True, least=0)
    trials: int = setting(10, "data sets per width and size", least=1)
    error: float = setting(0.05, "test error to reach, on all inputs", above=0, below=1)
    p: float = setting(0.5, "share of data sets with which it must be reached", above=0, below=1)
    rate: float = setting(0.003, "Adam's rate", above=0)
    batch_size: int = setting(50, "examples per step", least=1)
    budget: int = setting(5000, "steps after which a trial has failed", least=1)
    check_every: int = setting(50, "steps between two tests", least=1)


@experiment("approximation/circuit-learning")
class CircuitLearning(Experiment[Settings]):
    """The sample complexity of a circuit against the width of the network that learns it."""

    title = "Wider networks need no more samples to learn a circuit"
    question = "How many labelled inputs of a small circuit does a network need, and how does that grow with its width?"
    source = "SM paper, Theorem 3.1"
    scales = {
        "smoke": Settings(widths=(16,), sizes=(100, 400), penalties=(0.0,), trials=2, budget=200),
        "laptop": Settings(sizes=(50, 71, 100, 141, 200, 400), budget=2500),
        "paper": Settings(trials=40, penalties=(0.0, 0.0001, 0.001, 0.01)),
    }
    notes = (
        NO_EXPERIMENTS,
        "Departures from the experiment as it was proposed: networks have one hidden layer, not the depth of the "
        "circuit; the penalty is λ‖θ‖₂ where an ℓ1 penalty was proposed, and weights are trained without noise.",
        "The theorem speaks of minimisers of a surrogate loss over ‖θ‖₁ ≤ α, not of networks that Adam finds.",
        "A trial succeeds if the test error is 5% or less at some test within the budget. There are 2^m inputs, and "
        "all of them are the test: at large n most of them have been seen.",
    )

    def trials(self, settings: Settings) -> Iterator[Trials]:
        task = circuit_function(random_circuit(settings.inputs, settings.gates, settings.layers, settings.circuit))
        stopping = Stopping(
            budget=settings.budget,
            accuracy=1 - settings.error,
            check_every=settings.check_every,
            validation="exact",
        )
        for width, penalty in itertools.product(settings.widths, settings.penalties):
            regime = Offline(settings.sizes[0], settings.batch_size)
            training = Training(Adam(settings.rate), regime, stopping, "logistic", penalty)
            trial = Trial(task, Mlp(width, output_bias=True), training)
            label = {"penalty": penalty, "width": width}
            yield from sweep(trial, seed=range(settings.trials), label=label, **{SIZE: settings.sizes})

    def claims(self, tables: Tables[Settings], say: Claims) -> None:
        settings = tables.settings
        for penalty, counts in success(tables["trials"]).items():
            missing = [width for width in (NARROW, WIDE) if width not in counts]
            n = samples(counts, penalty, settings.p)
            growth = unknown_estimate("not measured") if missing else n.at(WIDE) / n.at(NARROW)
            say(
                f"growth-{penalty:g}",
                f"With the penalty {penalty:g}‖θ‖: {WIDE} hidden units need less than three times the samples of "
                f"{NARROW}.",
                growth,
                f"n({WIDE}) / n({NARROW}), samples with which {settings.p:.0%} of data sets lead to "
                f"{settings.error:.0%} test error",
                at_most=3.0,
                source_value=f"logarithmic growth; ln {WIDE}/ln {NARROW} = {math.log(WIDE) / math.log(NARROW):g}",
                needs=[
                    need(settings.trials, FEWEST, "data sets per width and size"),
                    need(2 - len(missing), 2, f"of the widths {NARROW} and {WIDE}, which are compared"),
                ],
            )

    def figures(self, tables: Tables[Settings]) -> Iterator[Figure]:
        settings, by_penalty = tables.settings, success(tables["trials"])
        chart = Chart(
            "samples",
            "Samples to learn a circuit against width",
            headline="Samples that networks of different width need to learn a circuit",
            source=self.source,
            columns=2,
            width=9.8,
            height=4.2,
        )
        widths, last = settings.widths, list(by_penalty)[-1]
        left = chart.panel(
            x="hidden units w",
            y=f"samples n(w) to {settings.error:.0%} test error",
            log="xy",
            xticks=widths,
            ylim=(0.7 * settings.sizes[0], 1.5 * settings.sizes[-1]),
        )
        right = chart.panel(
            title=f"success rates, λ = {last:g}",
            x="sample size n",
            y="share of data sets that suffice",
            log="x",
            xticks=settings.sizes,
        )
        data = []
        for place, ((penalty, counts), color) in enumerate(zip(by_penalty.items(), COLORS, strict=False)):
            n = samples(counts, penalty, settings.p)
            shifted = Curve(n.x * 1.04**place, n.y)  # so that intervals do not hide one another
            left.curve(shifted, f"λ = {penalty:g}", color=color, key="legend")
            data.append(_data(penalty, counts, n))
        for width, successes in by_penalty[last].items():
            cells = as_cells(successes)
            right.line(cells.sizes, cells.rates, f"w = {width}", key="legend", **SOLID)
        first = n.y[0].value
        if math.isfinite(first) and n.x[0] > 1:
            grown = [first * math.log(width) / math.log(n.x[0]) for width in n.x]
            left.line(n.x, grown, "∝ ln w", color=figures.MUTED, style=":", key="legend")
        left.legend(loc="upper right")
        right.legend(loc="upper left")
        right.reference(settings.p, "n(w)")
        yield chart.figure(
            f"A random circuit of {settings.inputs} inputs and q = {settings.layers} layers, learned by networks of "
            f"one hidden layer with Adam and the penalty λ‖θ‖ ({settings.trials} data sets per width and size, up to "
            f"{settings.budget:,} steps). Left: the sample size at which {settings.p:.0%} of data sets lead to a test "
            f"error of {settings.error:.0%} or less, with 95% intervals; dotted: growth with ln w, the theorem's. "
            "Right: the rates behind it. An open triangle is beyond the largest size.",
            pl.concat(data),
        )


def success(trials: pl.DataFrame) -> dict[float, dict[int, Counts]]:
    """{λ: {w: {n: whether each data set sufficed}}} of a table of trials."""
    solved = trials.with_columns(solved=pl.col("outcome") == "converged")
    return {
        penalty: {
            width: {n: cell["solved"].to_numpy() for n, cell in groups(cells, SIZE).items()}
            for width, cells in groups(rows, "width").items()
        }
        for penalty, rows in groups(solved, "penalty").items()
    }


def samples(counts: Mapping[int, Counts], penalty: float, p: float) -> Curve:
    """n(w) at each width."""
    return curve({w: crossing(cells, p, sample=f"λ={penalty:g}, w={w}") for w, cells in counts.items()})


def _data(penalty: float, counts: Mapping[int, Counts], n: Curve) -> pl.DataFrame:
    """A row per width and size: counts, and n(w) with its interval."""
    return pl.DataFrame(
        {"penalty": penalty, "width": width, "n": size, "successes": int(hits.sum()), "trials": len(hits),
         "n_width": n.at(width).value, "n_low": n.at(width).low, "n_high": n.at(width).high}
        for width, cells in counts.items() for size, hits in cells.items()
    )  # fmt: skip
