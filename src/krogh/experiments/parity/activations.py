"""Figure B.14: the activations with which one neuron is a parity.

All pass through the knots A_k = {(k-2j, (-1)^j) : j = 0..k}. The sum of the k relevant signs is k-2j when j of them
are negative, so that σ(w_S·x) = χ_S(x) with weights 1 on S, 0 elsewhere and no bias. Nothing is trained: knots are
computed, and the neurons are executed on all inputs against the parity by counting bits.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal

import jax.numpy as jnp
import numpy as np
import polars as pl

from krogh.lab import Claims, Experiment, Figure, Results, Tables, experiment, figures, setting
from krogh.lab.estimate import largest, least
from krogh.lab.experiment import Measures
from krogh.models import Neuron
from krogh.networks.parity import one_neuron
from krogh.theory.numerics import double_precision

TITLES = {
    "zigzag": "k-zigzag",
    "polynomial": "oscillating polynomial",
    "infinite-zigzag": "∞-zigzag",
    "sine": "sinusoid",
}
ROUNDING = 1e-9  # of polynomials of degree 8 in float64
POINTS = 401  # per curve


@dataclass(frozen=True)
class Settings:
    ks: tuple[int, ...] = setting((1, 2, 3, 4, 5, 6, 7, 8), "parities that are checked", increasing=True, least=1)
    drawn: tuple[int, ...] = setting((2, 3, 4, 5), "parities whose activations are drawn", increasing=True, least=1)
    spare: int = setting(4, "irrelevant bits of the inputs on which neurons are executed", least=0)
    outer: Literal["extend", "clamp"] = setting("extend", "how the k-zigzag goes on beyond its knots")


@experiment("parity/activations")
class Activations(Experiment[Settings]):
    """The four activations, their knots, and the neurons that they make."""

    title = "One neuron can be a parity: four activations through the same knots"
    question = "Do the four activations of the single neurons hold the parity of k bits, as they must?"
    source = "dissertation, §B.4.1, Figure B.14"
    scales = {
        "smoke": Settings(ks=(1, 2, 3), spare=2),
        "laptop": Settings(),
        "paper": Settings(),
    }
    notes = (
        "The printed knots of the ∞-zigzag, (2i, +1) and (2i+1, -1), have period 2, on which a sum of k signs is "
        "constant; the period drawn and checked is 4.",
        "The text does not say how the k-zigzag goes on beyond its knots; its end segments are continued.",
    )

    def measure(self, results: Results[Settings]) -> Measures:
        settings = results.settings
        return {
            "knots": lambda: pl.DataFrame([row for name in TITLES for k in settings.ks for row in knots(name, k)]),
            "neurons": lambda: pl.DataFrame([executed(name, k, settings) for name in TITLES for k in settings.ks]),
            "shapes": lambda: pl.concat([shape(name, k, settings) for k in settings.drawn for name in TITLES]),
        }

    def claims(self, tables: Tables[Settings], say: Claims) -> None:
        ks = f"k = {tables.settings.ks[0]} to {tables.settings.ks[-1]}"
        for name, title in TITLES.items():
            about = say.about(f"{name}-", f"{title[0].upper()}{title[1:]}: ")
            own, neurons = (tables[table].filter(activation=name) for table in ("knots", "neurons"))
            about(
                "knots",
                f"it passes through every knot (k-2j, (-1)^j), {ks}.",
                largest((own["value"] - own["height"]).abs(), sample=f"{name}, knots"),
                "largest |σ(k-2j) − (-1)^j|",
                at_most=ROUNDING,
                source_value="all knots",
            )
            about(
                "is-the-parity",
                f"one neuron with weights 1 on S and bias 0 is χ_S on every input, {ks}.",
                largest(neurons["error"], sample=f"{name}, inputs", trials=int(neurons["inputs"].sum())),
                "largest |σ(w_S·x) − χ_S(x)|",
                at_most=ROUNDING,
                source_value="exactly",
            )
        printed = tables["knots"].filter(activation="infinite-zigzag")
        flips = printed.group_by("k").agg(pl.col("printed").max() - pl.col("printed").min())
        say(
            "printed-wave-is-constant",
            f"The ∞-zigzag with the printed knots, of period 2, is the same for every input of a k-parity, {ks}: it "
            "holds none of them, and period 4 is what must be meant.",
            largest(flips["printed"], sample="printed knots"),
            "largest minus least value at the sums of k signs",
            at_most=ROUNDING,
            source_value="a parity",
        )
        apart = tables["shapes"].pivot("activation", index=["k", "z"], values="value")
        say(
            "different-between-knots",
            "Between the knots the four differ: they are four activations and not one.",
            least([_apart(apart, first, second) for first in TITLES for second in TITLES if first < second]),
            "largest difference of two of them over the range drawn, the least of all pairs",
            at_least=0.05,
        )

    def figures(self, tables: Tables[Settings]) -> Iterable[Figure]:
        ks = tables.settings.drawn
        chart = self.chart(
            "activations",
            "Activations with which one neuron is a parity",
            headline="Four activations through the same knots",
            rows=len(ks),
            columns=len(TITLES),
            width=2.5 * len(TITLES),
            height=1.55 * len(ks) + 0.7,
            sharex=True,
            sharey=True,
        )
        colors = dict(zip(TITLES, figures.PALETTE, strict=False))
        edge = ks[-1] + 2
        for k in ks:
            for name, title in TITLES.items():
                panel = chart.panel(title=title if k == ks[0] else "", ylim=(-2.2, 2.2), yticks=(-1, 0, 1))
                own = tables["shapes"].filter(activation=name, k=k)
                panel.line(own["z"], own["value"], style="-", width=1.6, color=colors[name])
                at = np.arange(-k, k + 1, 2)
                panel.dots(at, (-1.0) ** ((k - at) // 2), color=figures.INK, alpha=1.0, markersize=3.5)
                panel.axes(x="z" if k == ks[-1] else "", y=f"k = {k}" if name == "zigzag" else "", xlim=(-edge, edge))
        yield chart.figure(
            "Dots are the knots (k-2j, (-1)^j), j = 0..k, which the sum of k relevant signs visits. Beyond them the "
            "k-zigzag and the polynomial go off, the other two repeat with period 4.",
            tables["shapes"],
        )


def values_of(activation: str, k: int, z: np.ndarray, outer: str = "extend") -> np.ndarray:
    """σ(z) in float64."""
    with double_precision():
        return np.asarray(Neuron(activation, k, outer=outer).activate(jnp.asarray(z, jnp.float64)))


def knots(activation: str, k: int) -> list[dict[str, Any]]:
    """σ at the knots, beside their heights, and the wave of period 2 that is printed for the ∞-zigzag."""
    at = k - 2 * np.arange(k + 1)
    values = values_of(activation, k, at.astype(float))
    columns = zip(at.tolist(), ((-1.0) ** np.arange(k + 1)).tolist(), values.tolist(), strict=True)
    return [
        {"activation": activation, "k": k, "z": z, "height": height, "value": value, "printed": 1.0 - 2.0 * (z % 2)}
        for z, height, value in columns
    ]


def executed(activation: str, k: int, settings: Settings) -> dict[str, Any]:
    """The neuron on all inputs of k relevant bits and some others, against the parity by counting bits."""
    check = one_neuron(k + settings.spare, k, activation=activation, outer=settings.outer).check()  # type: ignore[arg-type]
    return {"activation": activation, "k": k, "inputs": check.inputs, "error": check.largest_error}


def shape(activation: str, k: int, settings: Settings) -> pl.DataFrame:
    """The activation's graph, two units beyond the largest knots that are drawn."""
    reach = settings.drawn[-1] + 2
    z = np.linspace(-reach, reach, POINTS)
    return pl.DataFrame({"z": z, "value": values_of(activation, k, z, settings.outer)}).select(
        pl.lit(activation).alias("activation"), pl.lit(k).alias("k"), pl.all()
    )


def _apart(shapes: pl.DataFrame, first: str, second: str) -> float:
    return float((shapes[first] - shapes[second]).abs().to_numpy().max())
