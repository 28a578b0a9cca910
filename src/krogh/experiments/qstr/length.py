"""Theorem 4: with the theory's encoding, the samples that a Transformer needs hardly depend on the prompt's length.

The Transformer of the theory (merged query-key matrix, values absorbed, codes multiplied by √(d/q)) is trained online
with H = q heads until its test error is small enough; the prompts that it took are the measurement.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import polars as pl

from krogh.engine import Trial, Trials, sweep
from krogh.experiments.qstr.common import square_training
from krogh.lab import Claims, Curve, Experiment, Figure, Tables, experiment, figures, need, setting, times_of
from krogh.lab.curves import mean_samples
from krogh.lab.fits import exponent
from krogh.models import MergedAttention
from krogh.tasks import LinearLink, TokenRegression, TwoLayerLink, sign_codes
from krogh.tasks.codes import ASSUMED_COHERENCE
from krogh.tasks.links import Link, unit_vector
from krogh.training import Adam, Online

CHECK_EVERY = 5
LONG = 16
"""The criterion speaks of N from here on."""
FEWEST_LENGTHS, FEWEST_SEEDS = 3, 3
RESOLVED = 4  # checks that the shortest run must have seen


@dataclass(frozen=True)
class Settings:
    lengths: tuple[int, ...] = setting((8, 16, 32, 64), "tokens per prompt, N", increasing=True, least=2)
    sparsities: tuple[int, ...] = setting((1, 2), "relevant tokens q, and as many heads", increasing=True, least=1)
    dimension: int = setting(10, "numbers per token, d", least=1)
    codes_per_log: float = setting(20.0, "dimension of the codes in units of ln N", above=0)
    link_width: int = setting(4, "neurons of the two-layer link, where q > 1; a linear link where q = 1", least=1)
    hidden: int = setting(100, "width of the network after attention", least=1)
    threshold: float = setting(0.1, "mean squared error that will do; the label has second moment 1", above=0, below=1)
    budget: int = setting(5_000, "steps after which a run has failed", least=1)
    batch_size: int = setting(32, "fresh prompts per step", least=1)
    rate: float = setting(1e-3, "Adam's learning rate", above=0)
    seeds: int = setting(5, "runs per point", least=1)
    validation: int = setting(2_000, "test prompts", least=1)


@experiment("qstr/length")
class Length(Experiment[Settings]):
    """Samples that the theory's Transformer needs, against the number of tokens."""

    title = "The theory's Transformer needs hardly more samples for longer prompts"
    question = "How does the number of samples that a Transformer needs grow with the number of tokens?"
    source = "qSTR paper, Theorem 4"
    scales = {
        "smoke": Settings(
            lengths=(4,), sparsities=(1,), dimension=3, hidden=16, threshold=0.5, budget=100, seeds=2, validation=100
        ),
        "laptop": Settings(sparsities=(1,), dimension=5, seeds=3, budget=2_000, validation=500),
        "paper": Settings(),
    }
    notes = (
        "Proposed with the theory; its criterion was not calibrated on a run. The threshold is ours.",
        "The laptop scale has q = 1 alone: q = 2 takes ten times as many steps, with much luck in them.",
        "Codes have coherence at most 1/2 (Assumption 3), in dimension ⌈20 ln N⌉.",
    )

    def trials(self, settings: Settings) -> Iterator[Trials]:
        training = square_training(
            Adam(settings.rate),
            Online(settings.batch_size),
            budget=settings.budget,
            error=settings.threshold,
            check_every=CHECK_EVERY,
            validation=settings.validation,
        )
        for q, length in itertools.product(settings.sparsities, settings.lengths):
            trial = Trial(task_of(settings, q, length), MergedAttention(q, settings.hidden), training)
            yield from sweep(trial, seed=range(settings.seeds))

    def claims(self, tables: Tables[Settings], say: Claims) -> None:
        settings = tables.settings
        for q, whole in curves_of(tables).items():
            curve = whole.where(lambda length: length >= LONG)
            long = tables["trials"].filter(pl.col("task.sparsity") == q, pl.col("task.length") >= LONG)
            shortest = float(np.min(times_of(long), initial=math.inf)) * settings.batch_size
            means = ", ".join(f"{n.value:,.0f} at N = {length:g}" for length, n in zip(curve.x, curve.y, strict=True))
            say(
                f"growth-q{q}",
                f"q = {q}, H = {q}: the samples for an error of {settings.threshold:g} grow slower than √N from N = "
                f"{LONG} on ({means or 'no such length'}).",
                exponent(curve),
                "slope of ln(mean samples) on ln N",
                at_most=0.5,
                source="proposed; expected from Theorem 4",
                source_value="polylogarithmic in N; expected < 0.5",
                needs=[
                    need(len(curve), FEWEST_LENGTHS, f"lengths from {LONG} on"),
                    need(settings.seeds, FEWEST_SEEDS, "seeds"),
                    need(shortest, RESOLVED * CHECK_EVERY * settings.batch_size, "prompts is the shortest run"),
                ],
            )

    def figures(self, tables: Tables[Settings]) -> Iterable[Figure]:
        settings, by_sparsity = tables.settings, curves_of(tables)
        headline = "Samples that the theory's Transformer needs"
        chart = self.chart("length", "Samples against the number of tokens", headline=headline, height=4.2)
        y = f"prompts until the test error is ≤ {settings.threshold:g}"
        panel = chart.panel(x="tokens N", y=y, log="xy", xticks=settings.lengths)
        for q, curve in by_sparsity.items():
            slope = exponent(curve.where(lambda length: length >= LONG)).value
            label = f"q = H = {q}" + ("" if math.isnan(slope) else f", slope {slope:.2f} from N = {LONG}")
            panel.curve(curve, label, side="above")
        tops = [max(curve.reached.value) for curve in by_sparsity.values() if len(curve.reached)]
        if tops:
            lengths = np.array(settings.lengths, float)
            guide = 0.45 * min(tops) * np.sqrt(lengths / lengths[-1])
            panel.line(lengths, guide, "slope 1/2", color=figures.MUTED, width=1.1)
        samples = tables["trials"].select(
            sparsity="task.sparsity",
            length="task.length",
            run="seed",
            samples=pl.col("convergence_time").cast(pl.Float64).fill_null(math.inf) * settings.batch_size,
        )
        yield chart.figure(
            f"MergedAttention with H = q heads and codes scaled by √(d/q), d = {settings.dimension}, code dimension "
            f"⌈{settings.codes_per_log:g} ln N⌉; Adam, rate {settings.rate:g}, fresh batches of {settings.batch_size}, "
            f"a check every {CHECK_EVERY} steps. Means over {settings.seeds} runs with 95% intervals (Student's t of "
            f"logarithms); a triangle where a run used up its {settings.budget:,} steps.",
            samples,
        )


def task_of(settings: Settings, q: int, length: int) -> TokenRegression:
    """qSTR in the theory's encoding; the link is linear for one token and a random two-layer network for more."""
    d = settings.dimension
    link: Link = LinearLink(unit_vector(d)) if q == 1 else TwoLayerLink.random(q, d, settings.link_width)
    size = math.ceil(settings.codes_per_log * math.log(length))
    codes = sign_codes(length, size, coherence=ASSUMED_COHERENCE)
    return TokenRegression(length, d, link, codes, q, scaled=True)


def curves_of(tables: Tables[Settings]) -> dict[int, Curve]:
    """q → mean prompts consumed against N, beyond the budget where a run did not get there."""
    settings = tables.settings
    return mean_samples(
        tables["trials"], x="task.length", by="task.sparsity", batch_size=settings.batch_size, budget=settings.budget
    )
