"""Proposition 4.8: heads of unbounded norm shatter log2 T sequences, so that capacity must know T or the norms.

Head s has w_QK = T² (cos 2πs/T, sin 2πs/T, 0) and attends to position s alone, whose digits it reads. What the norm
buys is the margin: attention of a fixed share at one of T positions on a circle needs ‖w_QK‖ of order T². The patterns
of signs themselves are realised by any norm, with a margin that vanishes.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import polars as pl

from krogh.errors import require
from krogh.experiments.attention.common import some_of
from krogh.lab import Claims, Experiment, Figure, Results, Tables, experiment, figures, groups, need, setting
from krogh.lab.estimate import exact, least
from krogh.lab.experiment import Measures
from krogh.lab.fits import line_slope
from krogh.networks.head_inputs import binary_digits, shattered_length
from krogh.networks.sparse_heads import LEAST_ATTENTION, shattering_heads
from krogh.theory.attention.limits import pseudo_dimension

LONG = 8
"""Shorter circles are no circles: the law of the norm needed is fitted from here on."""


@dataclass(frozen=True)
class Settings:
    lengths: tuple[int, ...] = setting(
        tuple(2**p for p in range(1, 11)), "lengths T, powers of two", increasing=True, least=2, most=2**12
    )
    exponent: float = setting(2.0, "the heads' norm ‖w_QK‖ is T to this power (2 in the source)", above=0)
    fixed: tuple[float, ...] = setting(
        (10.0, 100.0, 1000.0), "norms that do not grow with T, for comparison", distinct=True, fewest=0, above=0
    )


@experiment("attention/shattering")
class Shattering(Experiment[Settings]):
    """All sign patterns of log2 T sequences, and the norm that they cost."""

    title = "Without a bound on norms, one head shatters log2 T sequences"
    question = "How does the capacity of an attention head of unbounded norm grow with the context, and at what norm?"
    source = "dissertation, Prop. 4.8"
    scales = {
        "smoke": Settings(lengths=(2, 4, 8, 16), fixed=(10.0,)),
        "laptop": Settings(),
        "paper": Settings(),
    }
    notes = (
        "The pseudo-dimension is taken at one threshold, 1/2, for all sequences; this makes the lower bound no weaker.",
        "A norm that does not grow realises the same patterns with a margin that vanishes: T² is what a fixed margin "
        "needs, not what the patterns need.",
    )

    def check(self, settings: Settings) -> None:
        for length in settings.lengths:
            power = shattered_length(length)
            require(power == length, f"lengths must be powers of two; got {length} (try {power})")

    def measure(self, results: Results[Settings]) -> Measures:
        settings, schema = results.settings, {"norm": pl.Float64, "length": pl.Int64, "attention": pl.Float64}
        pairs = itertools.product(settings.fixed, settings.lengths)
        return {
            "heads": lambda: pl.DataFrame(
                [_row(length, float(length) ** settings.exponent) for length in settings.lengths]
            ),
            "fixed": lambda: pl.DataFrame(
                [(norm, length, _attention(length, norm)) for norm, length in pairs], schema=schema, orient="row"
            ),
        }

    def claims(self, tables: Tables[Settings], say: Claims) -> None:
        heads = tables["heads"]
        complete = (heads["patterns"] == heads["length"]).to_numpy()
        lengths, bits = heads["length"].to_list(), int(heads["bits"].sum())
        over = f"T = {lengths[0]} to {lengths[-1]}"
        say(
            "all-patterns",
            f"Head s puts a sequence above 1/2 exactly where the digit of s is 1, for every s ({over}).",
            exact(int(heads["right"].sum()) / bits, sum(lengths)),
            f"share of {bits:,} digits read off rightly",
            at_least=1.0,
            source_value="all 2^p = T patterns",
        )
        say(
            "pseudo-dimension",
            f"The heads shatter ⌊log2 T⌋ sequences, at {complete.sum()} of {len(heads)} lengths ({over}).",
            least(np.where(complete, heads["sequences"], 0) - heads["predicted"].to_numpy(), trials=sum(lengths)),
            "least (sequences shattered - ⌊log2 T⌋)",
            at_least=0.0,
            source_value="pseudo-dimension ≥ ⌊log2 T⌋",
        )
        say(
            "attention-on-one",
            f"With ‖w_QK‖ = T^{tables.settings.exponent:g} every head attends to its position ({over}).",
            least(heads["attention"], trials=sum(lengths)),
            "least attention of head s to position s",
            at_least=LEAST_ATTENTION,
            source_value=f"≥ 1/(1+√(π/8)) = {LEAST_ATTENTION:.4f}",
        )
        long = heads.filter(pl.col("length") >= LONG)
        power = line_slope(np.log(long["length"]), np.log(long["needed"]))
        say(
            "norm-needed",
            f"The least ‖w_QK‖ with which a head attends to its position with the share {LEAST_ATTENTION:.3f} "
            f"grows as T² (T = {LONG} to {lengths[-1]}).",
            exact(abs(power - 2), len(long)),
            "|slope of log ‖w_QK‖ on log T - 2|",
            at_most=0.05,
            source_value="‖w_QK‖ = T² in the proof",
            needs=[need(len(long), 4, f"lengths from {LONG} on")],
        )

    def figures(self, tables: Tables[Settings]) -> Iterable[Figure]:
        heads = tables["heads"]
        lengths = heads["length"].to_list()
        chart = self.chart(
            "shattering",
            "The norm with which one head tells T positions apart",
            headline="One head tells T positions apart, at a norm of order T²",
            columns=2,
            width=8.4,
        )
        left = chart.panel(y="attention of head s to position s", title="what a norm buys", ylim=(0, 1.05))
        label = f"‖w_QK‖ = T^{tables.settings.exponent:g}"
        left.line(lengths, heads["attention"], label, style="-", width=1.7, marker="o", markersize=4)
        for norm, own in groups(tables["fixed"], "norm").items():
            label = f"‖w_QK‖ = {norm:g}"
            left.line(own["length"], own["attention"], label, style="-", width=1, marker="s", markersize=3)
        left.reference(LEAST_ATTENTION, "the source's bound")
        right = chart.panel(y=f"‖w_QK‖ for an attention of {LEAST_ATTENTION:.3f}", title="what a margin costs", log="y")
        right.line(lengths, heads["needed"], "needed", style="-", width=1.7, marker="o", markersize=4)
        right.line(lengths, np.square(lengths), "T² (the source's)", color=figures.MUTED, width=1.1)
        for panel in chart:
            panel.axes(x="context length T", log="x", xticks=some_of(lengths), base=2)
        faint = float(heads["unit_margin"][-1])
        left_over = f"is {faint:.1g}" if faint > 0 else "is lost in rounding"
        yield chart.figure(
            "T heads on log2 T sequences of T points on a circle. Left: attention to one's own position, which is the "
            f"same for all heads. Right: the least norm for the source's share {LEAST_ATTENTION:.4f}. The margin by "
            f"which heads of norm 1 separate the digits of T = {lengths[-1]} {left_over}.",
            heads,
        )


def _row(length: int, norm: float) -> dict[str, float]:
    """What the heads of this norm do: digits read off, distinct patterns, attention, margin; and the norm needed."""
    heads, digits = shattering_heads(length, norm), binary_digits(length) == 1
    patterns = heads.patterns()
    return {
        "length": length,
        "sequences": len(heads.inputs),
        "norm": norm,
        "bits": digits.size,
        "right": int((patterns == digits).sum()),
        "patterns": len(np.unique(patterns, axis=0)),
        "predicted": int(pseudo_dimension(length)["at_least"]),
        "attention": _attention(length, norm),
        "margin": heads.margin(),
        "unit_margin": shattering_heads(length, 1.0).margin(),
        "needed": needed_norm(length),
    }


def _attention(length: int, norm: float) -> float:
    """The least attention of a head to its own position."""
    return float(np.diag(shattering_heads(length, norm).attention()).min())


def needed_norm(length: int, share: float = LEAST_ATTENTION) -> float:
    """The least ‖w_QK‖ with which every head gives its own position this share, to nine digits, by bisection."""
    low, high = 0.0, 1.0
    while _attention(length, high) < share:
        low, high = high, 2 * high
    while high - low > 1e-9 * high:
        middle = (low + high) / 2
        low, high = (low, middle) if _attention(length, middle) >= share else (middle, high)
    return high
