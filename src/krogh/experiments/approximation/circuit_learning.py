"""Samples from which networks learn a small circuit, against their width (SM paper, Theorem 3.1).

The theorem lets networks be much wider than the circuit: the samples that suffice grow with the logarithm of the
width, if the 1-norm is controlled. Here networks of widths 16 to 1024 are trained on labels of one circuit; n(w) is the
sample size at which half of the data sets lead to a test error of 5% or less.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import polars as pl

from krogh.engine import Trial, Trials, sweep
from krogh.errors import require, require_integer
from krogh.experiments.approximation.common import NO_EXPERIMENTS
from krogh.experiments.theorems import require_increasing
from krogh.lab import Claim, Experiment, Figure, Results, claim, experiment, figures, setting
from krogh.lab.measured import Measured, from_counts, ratio
from krogh.lab.sample_complexity import Counts, crossing
from krogh.lab.statistics import Interval, require_fraction
from krogh.models import Mlp
from krogh.tasks.circuits import circuit_function, random_circuit
from krogh.training import Adam, Offline, Stopping, Training

SOURCE = "SM paper, Theorem 3.1"
WIDTH, SIZE, PENALTY = "model.width", "training.regime.m", "training.penalty"
NARROW, WIDE = 16, 1024
"""Widths whose sample sizes are compared."""
FEWEST = 3
"""Data sets per cell of a verdict."""
COLORS = (figures.VERMILLION, figures.BLUE, figures.GREEN, figures.PURPLE)


@dataclass(frozen=True)
class Settings:
    inputs: int = setting(10, "inputs m of the circuit")
    gates: int = setting(9, "gates in each of its layers")
    layers: int = setting(4, "layers q of it, inputs and output among them")
    circuit: int = setting(0, "which random circuit")
    widths: tuple[int, ...] = setting((16, 64, 256, 1024), "hidden units w")
    sizes: tuple[int, ...] = setting((50, 71, 100, 141, 200, 400, 1000, 5000), "sample sizes n")
    penalties: tuple[float, ...] = setting((0.0, 0.001), "weights λ of the penalty λ‖θ‖₂")
    trials: int = setting(10, "data sets per width and size")
    error: float = setting(0.05, "test error to reach, on all inputs")
    p: float = setting(0.5, "share of data sets with which it must be reached")
    rate: float = setting(0.003, "Adam's rate")
    batch_size: int = setting(50, "examples per step")
    budget: int = setting(5000, "steps after which a trial has failed")
    check_every: int = setting(50, "steps between two tests")


@experiment("approximation/circuit-learning")
class CircuitLearning(Experiment[Settings]):
    """The sample complexity of a circuit against the width of the network that learns it."""

    title = "Wider networks need no more samples to learn a circuit"
    question = "How many labelled inputs of a small circuit does a network need, and how does that grow with its width?"
    source = SOURCE
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

    def trials(self, settings: Settings) -> list[Trials]:
        _check(settings)
        task = circuit_function(random_circuit(settings.inputs, settings.gates, settings.layers, settings.circuit))
        stopping = Stopping(
            budget=settings.budget,
            accuracy=1 - settings.error,
            check_every=settings.check_every,
            validation="exact",
        )
        cohorts = []
        for width in settings.widths:
            regime = Offline(settings.sizes[0], settings.batch_size)
            training = Training(Adam(settings.rate), regime, stopping, "logistic", settings.penalties[0])
            trial = Trial(task, Mlp(width, output_bias=True), training)
            axes: dict[str, list[Any]] = {PENALTY: list(settings.penalties), SIZE: list(settings.sizes)}
            cohorts += sweep(trial, **axes, seed=range(settings.trials))
        return cohorts

    def claims(self, results: Results[Settings]) -> list[Claim]:
        return [_claim(results.settings, penalty, counts) for penalty, counts in success(results).items()]

    def figures(self, results: Results[Settings]) -> list[Figure]:
        return [_figure(results.settings, success(results))]


def _check(settings: Settings) -> None:
    require_integer("inputs", settings.inputs, 1, 16)
    for name in ("gates", "trials", "batch_size"):
        require_integer(name, getattr(settings, name), 1)
    require_integer("layers", settings.layers, 2)
    require_integer("circuit", settings.circuit, 0)
    require_increasing("widths", settings.widths, 1)
    require_increasing("sizes", settings.sizes, 1, 2)
    require_increasing("penalties", settings.penalties, 0)
    require_fraction("error", settings.error)
    require_fraction("p", settings.p)
    require(settings.rate > 0, f"rate must be positive; got rate={settings.rate}")


def success(results: Results[Settings]) -> dict[float, dict[int, Counts]]:
    """{λ: {w: {n: (successes, trials)}}} of a table of trials."""
    solved = (pl.col("outcome") == "converged").sum()
    cells = results.table.group_by(PENALTY, WIDTH, SIZE).agg(solved.alias("solved"), pl.len().alias("trials"))
    found: dict[float, dict[int, Any]] = {}
    for weight, width, size, hits, trials in cells.sort(PENALTY, WIDTH, SIZE).iter_rows():
        penalty = min(results.settings.penalties, key=lambda given: abs(given - weight))  # the table has float32
        found.setdefault(penalty, {}).setdefault(width, {})[size] = (hits, trials)
    return found


def samples(counts: dict[int, Counts], p: float) -> Measured:
    """n(w) at each width."""
    return from_counts(counts, p)


def _claim(settings: Settings, penalty: float, counts: dict[int, Counts]) -> Claim:
    trials = sum(number for cells in counts.values() for _, number in cells.values())
    missing = [width for width in (NARROW, WIDE) if width not in counts]
    reason = f"widths {NARROW} and {WIDE} are compared; {missing[0]} is not among them" if missing else ""
    if settings.trials < FEWEST:
        reason = f"{settings.trials} data sets per width and size; a verdict needs {FEWEST}"
    found = Interval(math.nan, 0.0, math.inf, 0.95, "not measured")
    if not missing:
        measured = samples(counts, settings.p)
        found = ratio(measured, WIDE, measured, NARROW)
    return claim(
        f"growth-{penalty:g}",
        f"With the penalty {penalty:g}‖θ‖: {WIDE} hidden units need less than three times the samples of {NARROW}.",
        source=SOURCE,
        statistic=f"n({WIDE}) / n({NARROW}), samples with which {settings.p:.0%} of data sets lead to "
        f"{settings.error:.0%} test error",
        interval=found,
        at_most=3.0,
        trials=trials,
        source_value=f"logarithmic growth; ln {WIDE}/ln {NARROW} = {math.log(WIDE) / math.log(NARROW):g}",
        enough=not reason,
        too_small=reason,
    )


def _figure(settings: Settings, found: dict[float, dict[int, Counts]]) -> Figure:
    fig, (left, right) = figures.new_figure(
        "Samples that networks of different width need to learn a circuit", width=9.8, height=4.2, ncols=2
    )
    rows: list[dict[str, Any]] = []
    shift = 1.0
    for (penalty, counts), color in zip(found.items(), COLORS, strict=False):
        ends = [crossing(cells, settings.p, seed=place).interval for place, cells in enumerate(counts.values())]
        shifted = [width * shift for width in counts]
        low, value, high = ([getattr(end, name) for end in ends] for name in ("low", "value", "high"))
        figures.interval_band(left, shifted, low, value, high, color=color, label=f"λ = {penalty:g}")
        shift *= 1.04
        for (width, cells), end in zip(counts.items(), ends, strict=True):
            rows += [
                {"penalty": penalty, "width": width, "n": n, "successes": hits, "trials": trials, "n_width": end.value,
                 "n_low": end.low, "n_high": end.high}
                for n, (hits, trials) in cells.items()
            ]  # fmt: skip
    penalty, counts = list(found.items())[-1]
    for place, (width, cells) in enumerate(counts.items()):
        sizes = list(cells)
        rates = [hits / trials for hits, trials in cells.values()]
        shade = figures.PALETTE[place % len(figures.PALETTE)]
        right.plot(sizes, rates, color=shade, marker="o", markersize=4, label=f"w = {width}")
    widths = list(counts)
    first = crossing(counts[widths[0]], settings.p).interval.value
    if math.isfinite(first) and widths[0] > 1:
        grown = [first * math.log(width) / math.log(widths[0]) for width in widths]
        left.plot(widths, grown, color=figures.MUTED, linestyle=":", linewidth=1.2, label="∝ ln w")
    figures.legend(left, loc="upper right")
    figures.legend(right, loc="upper left")
    figures.source_line(right, settings.p, "n(w)")
    figures.log_axis_labels(left, "x", values=widths)
    figures.log_axis_labels(left, "y")
    left.set_ylim(0.7 * settings.sizes[0], 1.5 * settings.sizes[-1])
    figures.log_axis_labels(right, "x", values=settings.sizes)
    left.set_xlabel("hidden units w")
    left.set_ylabel(f"samples n(w) to {settings.error:.0%} test error")
    right.set_xlabel("sample size n")
    right.set_ylabel("share of data sets that suffice")
    figures.panel_title(right, f"success rates, λ = {penalty:g}")
    figures.source_note(fig, SOURCE)
    caption = (
        f"A random circuit of {settings.inputs} inputs and q = {settings.layers} layers, learned by networks of one "
        f"hidden layer with Adam and the penalty λ‖θ‖ ({settings.trials} data sets per width and size, up to "
        f"{settings.budget:,} steps). Left: the sample size at which {settings.p:.0%} of data sets lead to a test "
        f"error of {settings.error:.0%} or less, with 95% intervals; dotted: growth with ln w, the theorem's. Right: "
        "the rates behind it. An open triangle is beyond the largest size."
    )
    return Figure("samples", "Samples to learn a circuit against width", caption, fig, pl.DataFrame(rows))
