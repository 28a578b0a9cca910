"""What one random ReLU layer tells of its input, and what it costs (B-E3; Lemmas C.1 and C.3).

(2/m) Σ_i (T_i·v) relu(T_i·x) is v·x in the mean over layers. The lemma has its error of the order ‖v‖‖x‖/√m; it is
‖v‖‖x‖√((2 + 3 cos²)/m) exactly, where cos is that of the angle between v and x. A step of the recurrent network is such
a layer, T = √(m/2) [W, A] on the input [h_{l-1}, x_l], so that the same law is expected of u·h_l with u = [W, A] v for
a v that is drawn apart.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import polars as pl

from krogh.lab import (
    Claims,
    Curve,
    Experiment,
    Figure,
    Results,
    Tables,
    curves,
    experiment,
    groups,
    mean,
    need,
    setting,
)
from krogh.lab.experiment import Measures
from krogh.lab.figures import MUTED
from krogh.lab.fits import exponent
from krogh.networks.recurrence.decoders import (
    recovered,
    recovery_rms,
    relu_layer,
    single_step_error,
    some_sequences,
)
from krogh.networks.recurrence.random_network import random_rnn

FEWEST = 20
"""Layers of a verdict."""
WITHIN = (0.8, 1.2)
"""Of the law."""


@dataclass(frozen=True)
class Settings:
    widths: tuple[int, ...] = setting((100, 1000, 10_000, 100_000), "widths m", increasing=True, fewest=2, least=2)
    inputs: int = setting(10, "numbers of an input", least=2)
    cosines: tuple[float, ...] = setting((0.0, 0.5, 1.0), "cosines between v and x", increasing=True, least=-1, most=1)
    pairs: int = setting(60, "pairs of v and x for each layer and cosine", least=1)
    layers: int = setting(20, "random layers per width", least=1)
    step_widths: tuple[int, ...] = setting((500, 2000), "widths of recurrent networks", increasing=True, least=2)
    length: int = setting(6, "positions of their sequences", least=3)
    seed: int = setting(0, "of everything random", least=0)


@experiment("recurrence/one-layer")
class OneLayer(Experiment[Settings]):
    """The error of reading v·x off one random ReLU layer, and off one step of a recurrent network, over its law."""

    title = "A random ReLU layer gives its input back with an error of √((2 + 3cos²)/m)"
    question = "How well can a linear function of an input be read off a random ReLU layer?"
    source = (
        "Learning and generalization in RNNs, Lemmas 4.4, C.1 and C.3 (proposed: the source has no such experiment)"
    )
    scales = {
        "smoke": Settings(widths=(50, 200), layers=3, pairs=5, step_widths=(50,), length=4),
        "laptop": Settings(),
        "paper": Settings(layers=200, step_widths=(500, 2000, 8000)),
    }
    notes = (
        "Lemma 4.4 prints p = 2Tv without 1/m. The lemma bounds the error by its order; the exact root mean square is "
        "derived from E[α²relu(β)²] for jointly normal α, β.",
        "In the recurrent network the state h_{l-1} depends on the same W, so that the law of one layer is exact at "
        "the first step only; v is drawn apart from the weights.",
    )

    def measure(self, results: Results[Settings]) -> Measures:
        return {
            "layers": functools.partial(layer_errors, results.settings),
            "steps": functools.partial(step_errors, results.settings),
        }

    def claims(self, tables: Tables[Settings], say: Claims) -> None:
        s = tables.settings
        say = say.about(needs=[need(s.layers, FEWEST, "layers per width")])
        words = "root mean square of error/law over layers and pairs"
        known = "√((2 + 3cos²)/m), derived"
        for width, own in groups(tables["layers"], "width").items():
            per_layer = own.group_by("layer", maintain_order=True).agg(pl.col("square").mean())["square"]
            say(
                f"law-m{width}",
                f"At m = {width:,} the error is within 20% of ‖v‖‖x‖√((2 + 3cos²)/m).",
                mean(per_layer, sample=f"layers of width {width}").map(np.sqrt),
                words,
                between=WITHIN,
                source_value=known,
            )
        for cosine, own in groups(tables["layers"], "cosine").items():
            say(
                f"law-cos{cosine:g}",
                f"For cos = {cosine:g} it is so too, all widths together.",
                mean(own["square"], sample=f"layers, cosine {cosine}").map(np.sqrt),
                words,
                between=WITHIN,
                source_value=known,
            )
        for cosine, curve in rms_curves(tables).items():
            say(
                f"slope-cos{cosine:g}",
                f"For cos = {cosine:g} the error falls as m^(-1/2).",
                exponent(curve),
                "slope of ln RMS error on ln m",
                between=(-0.55, -0.45),
                source_value="m^(-1/2)",
                needs=[need(len(curve), 3, "widths")],
            )
        for width, own in groups(tables["steps"], "width").items():
            per_network = own.group_by("network", maintain_order=True).agg(pl.col("square").mean())["square"]
            say(
                f"step-m{width}",
                f"One step of a recurrent network of width {width:,} keeps v·[h, x] with the error of one layer, "
                "within 20%.",
                mean(per_network, sample=f"steps of width {width}").map(np.sqrt),
                "root mean square of error/law over networks and positions",
                between=WITHIN,
                source_value="Lemma C.3 has an order",
            )

    def figures(self, tables: Tables[Settings]) -> Iterator[Figure]:
        s = tables.settings
        chart = self.chart("one-layer", self.title, columns=2)
        left = chart.panel(title="one layer", x="width m", y="RMS error of v·x", log="xy", xticks=s.widths)
        for cosine, curve in rms_curves(tables).items():
            color = left.color()
            left.curve(curve, f"cos = {cosine:g}", color=color)
            left.line(curve.x, np.sqrt((2 + 3 * cosine**2) / curve.x), color=color)
        right = chart.panel(title="a step of the recurrent network", x="position l", y="RMS error / law of one layer")
        for width, own in groups(tables["steps"], "width").items():
            by_place = curves(own, x="position", y="square", statistic=mean)[()]
            right.curve(_root(by_place), f"m = {width}")
        right.ax.axhline(1, linestyle="--", linewidth=1, color=MUTED)
        right.ax.set_ylim(0, 2)
        yield chart.figure(
            f"Left: unit vectors v, x of {s.inputs} numbers at three angles, {s.layers} layers per width; dashed: "
            "√((2 + 3cos²)/m). Right: |v·[h_(l-1), x_l] − u·h_l| with u = [W, A]v, over the same law. Means with 95% "
            "intervals by Student, over layers or networks."
        )


def rms_curves(tables: Tables[Settings]) -> dict[float, Curve]:
    """cosine → the root mean square error of v·x against m."""
    table = tables["layers"].with_columns(
        error2=pl.col("square") * (2 + 3 * pl.col("cosine") ** 2) / pl.col("width").cast(pl.Float64)
    )
    found = curves(table, by="cosine", x="width", y="error2", statistic=mean)
    return {cosine: _root(curve) for cosine, curve in found.items()}


def _root(curve: Curve) -> Curve:
    return Curve(curve.x, tuple(y.clipped(low=0.0).map(np.sqrt) for y in curve.y))


def layer_errors(s: Settings) -> pl.DataFrame:
    """For each layer and cosine the mean over pairs of (error/law)²."""
    rows = []
    for width in s.widths:
        for layer in range(s.layers):
            T = relu_layer(width, s.inputs, seed=[s.seed, width, layer])
            rng = np.random.default_rng([s.seed, width, layer, 1])
            for cosine in s.cosines:
                v, x = pairs_at(cosine, s.pairs, s.inputs, rng)
                error = recovered(T, v, x) - np.sum(v * x, axis=1)
                square = float(np.mean((error / recovery_rms(v, x, width)) ** 2))
                rows.append({"width": width, "layer": layer, "cosine": cosine, "square": square})
    return pl.DataFrame(rows)


def pairs_at(cosine: float, count: int, inputs: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Unit vectors v, x [count, inputs] with this cosine."""
    v, other = rng.standard_normal((2, count, inputs))
    v /= np.linalg.norm(v, axis=1, keepdims=True)
    other -= np.sum(other * v, axis=1, keepdims=True) * v
    other /= np.linalg.norm(other, axis=1, keepdims=True)
    return v, cosine * v + math.sqrt(1 - cosine**2) * other


def step_errors(s: Settings) -> pl.DataFrame:
    """For each recurrent network and position the mean over sequences and v of (error/law)²."""
    rows = []
    for width in s.step_widths:
        for which in range(s.layers):
            network = random_rnn(width, 5, seed=[s.seed, width, which], dtype=np.float32)
            run = network.run(some_sequences(3, s.length, 4, 0.1, which, "float32"))
            rng = np.random.default_rng([s.seed, width, which, 2])
            for position in range(1, s.length + 1):
                input_ = np.concatenate([run.h[position - 1], run.x[:, position - 1]], axis=1).astype(np.float64)
                squares = []
                for _ in range(5):
                    v = rng.standard_normal(width + 5)
                    error = single_step_error(run, position, v)
                    law = recovery_rms(v[None] / np.linalg.norm(v), input_, width)
                    squares.append(np.mean((error / law) ** 2))
                rows.append({"width": width, "network": which, "position": position, "square": float(np.mean(squares))})
    return pl.DataFrame(rows)
