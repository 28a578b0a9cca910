"""Proposition 4.8: heads of unbounded norm shatter log2 T sequences, so that capacity must know T or the norms.

Head s has w_QK = T² (cos 2πs/T, sin 2πs/T, 0) and attends to position s alone, whose digits it reads. What the norm
buys is the margin: attention of a fixed share at one of T positions on a circle needs ‖w_QK‖ of order T². The patterns
of signs themselves are realised by any norm, with a margin that vanishes.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from krogh.errors import require
from krogh.experiments.theorems import Demonstration, Tables, exact, require_increasing, slope
from krogh.lab import Claim, Figure, claim, experiment, figures, setting
from krogh.tasks.shattering import binary_digits, shattered_length
from krogh.theory.constructions.shattering_heads import LEAST_ATTENTION, shattering_heads
from krogh.theory.predictions.attention_limits import pseudo_dimension
from krogh.theory.predictions.inputs import check_open

SOURCE = "dissertation, Prop. 4.8"
LONG = 8
"""Shorter circles are no circles: the law of the norm needed is fitted from here on."""


@dataclass(frozen=True)
class Settings:
    lengths: tuple[int, ...] = setting(tuple(2**p for p in range(1, 11)), "lengths T, powers of two")
    exponent: float = setting(2.0, "the heads' norm ‖w_QK‖ is T to this power (2 in the source)")
    fixed: tuple[float, ...] = setting((10.0, 100.0, 1000.0), "norms that do not grow with T, for comparison")


@experiment("attention/shattering")
class Shattering(Demonstration[Settings]):
    """All sign patterns of log2 T sequences, and the norm that they cost."""

    title = "Without a bound on norms, one head shatters log2 T sequences"
    question = "How does the capacity of an attention head of unbounded norm grow with the context, and at what norm?"
    source = SOURCE
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
        require_increasing("lengths", settings.lengths, 2)
        for length in settings.lengths:
            power = shattered_length(length)
            require(power == length, f"lengths must be powers of two; got {length} (try {power})")
        require(settings.lengths[-1] <= 2**12, f"lengths must be at most 4096; got {settings.lengths[-1]}")
        check_open("exponent", settings.exponent, 0)
        for norm in settings.fixed:
            check_open("a fixed norm", norm, 0)

    def measure(self, settings: Settings) -> Tables:
        rows = [_row(length, float(length) ** settings.exponent) for length in settings.lengths]
        fixed = [(norm, length, _attention(length, norm)) for norm in settings.fixed for length in settings.lengths]
        return {
            "heads": pl.DataFrame(rows),
            "fixed": pl.DataFrame(fixed, schema=["norm", "length", "attention"], orient="row"),
        }

    def judge(self, settings: Settings, tables: Tables) -> list[Claim]:
        heads = tables["heads"]
        bits, right = int(heads["bits"].sum()), int(heads["right"].sum())
        complete = heads.filter(pl.col("patterns") == pl.col("length"))
        shattered = np.where(heads["patterns"] == heads["length"], heads["sequences"], 0)
        lengths = heads["length"].to_list()
        over = f"T = {lengths[0]} to {lengths[-1]}"
        long = heads.filter(pl.col("length") >= LONG)
        shared: dict[str, Any] = {"source": SOURCE, "trials": int(heads["length"].sum())}
        return [
            claim(
                "all-patterns",
                f"Head s puts a sequence above 1/2 exactly where the digit of s is 1, for every s ({over}).",
                statistic=f"share of {bits:,} digits read off rightly",
                interval=exact(right / bits),
                at_least=1.0,
                source_value="all 2^p = T patterns",
                **shared,
            ),
            claim(
                "pseudo-dimension",
                f"The heads shatter ⌊log2 T⌋ sequences, at {len(complete)} of {len(heads)} lengths ({over}).",
                statistic="least (sequences shattered - ⌊log2 T⌋)",
                interval=exact(float(np.min(shattered - heads["predicted"].to_numpy()))),
                at_least=0.0,
                source_value="pseudo-dimension ≥ ⌊log2 T⌋",
                **shared,
            ),
            claim(
                "attention-on-one",
                f"With ‖w_QK‖ = T^{settings.exponent:g} every head attends to its position ({over}).",
                statistic="least attention of head s to position s",
                interval=exact(float(heads["attention"].min())),  # type: ignore[arg-type]
                at_least=LEAST_ATTENTION,
                source_value=f"≥ 1/(1+√(π/8)) = {LEAST_ATTENTION:.4f}",
                **shared,
            ),
            claim(
                "norm-needed",
                f"The least ‖w_QK‖ with which a head attends to its position with the share {LEAST_ATTENTION:.3f} "
                f"grows as T² (T = {LONG} to {lengths[-1]}).",
                statistic="|slope of log ‖w_QK‖ on log T - 2|",
                interval=exact(
                    abs(slope(np.log(long["length"]), np.log(long["needed"])) - 2) if len(long) > 1 else math.nan
                ),
                at_most=0.05,
                source_value="‖w_QK‖ = T² in the proof",
                enough=len(long) >= 4,
                too_small=f"{len(long)} lengths from {LONG} on; a power law needs four",
                **shared,
            ),
        ]

    def draw(self, settings: Settings, tables: Tables) -> list[Figure]:
        heads, fixed = tables["heads"], tables["fixed"]
        fig, (left, right) = figures.new_figure(
            "One head tells T positions apart, at a norm of order T²", width=8.4, height=4.0, ncols=2
        )
        lengths = heads["length"].to_list()
        label = f"‖w_QK‖ = T^{settings.exponent:g}"
        left.plot(lengths, heads["attention"], "o-", color=figures.BLUE, markersize=4)
        figures.direct_label(left, lengths, heads["attention"].to_list(), label, color=figures.BLUE)
        colors = (figures.VERMILLION, figures.GREEN, figures.PURPLE, figures.ORANGE, figures.SKY)
        for color, norm in zip(colors, settings.fixed, strict=False):
            own = fixed.filter(pl.col("norm") == norm)
            left.plot(own["length"], own["attention"], "s-", color=color, markersize=3, linewidth=1)
            figures.direct_label(left, lengths, own["attention"].to_list(), f"‖w_QK‖ = {norm:g}", color=color)
        figures.source_line(left, LEAST_ATTENTION, "the source's bound")
        left.set_ylim(0, 1.05)
        left.set_ylabel("attention of head s to position s")
        figures.panel_title(left, "what a norm buys")
        right.plot(lengths, heads["needed"], "o-", color=figures.BLUE, markersize=4)
        right.plot(lengths, np.square(lengths), color=figures.MUTED, linestyle="--", linewidth=1.1)
        figures.direct_label(right, lengths, heads["needed"].to_list(), "needed", color=figures.BLUE)
        figures.direct_label(right, lengths, np.square(lengths).tolist(), "T² (the source's)", color=figures.MUTED)
        figures.log_axis_labels(right, "y")
        right.set_ylabel(f"‖w_QK‖ for an attention of {LEAST_ATTENTION:.3f}")
        figures.panel_title(right, "what a margin costs")
        for ax in (left, right):
            figures.log_axis_labels(ax, values=lengths[:: max(1, len(lengths) // 5)], base=2)
            ax.set_xlabel("context length T")
        figures.source_note(fig, SOURCE)
        faint = float(heads["unit_margin"][-1])
        left_over = f"is {faint:.1g}" if faint > 0 else "is lost in rounding"
        caption = (
            "T heads on log2 T sequences of T points on a circle. Left: attention to one's own position, which is the "
            f"same for all heads. Right: the least norm for the source's share {LEAST_ATTENTION:.4f}. The margin by "
            f"which heads of norm 1 separate the digits of T = {lengths[-1]} {left_over}."
        )
        return [Figure("shattering", "The norm with which one head tells T positions apart", caption, fig, heads)]


def _row(length: int, norm: float) -> dict[str, float]:
    """What the heads of this norm do: digits read off, distinct patterns, attention, margin; and the norm needed."""
    heads = shattering_heads(length, norm)
    patterns = heads.patterns()
    digits = binary_digits(length) == 1
    predicted = pseudo_dimension(length)
    return {
        "length": length,
        "sequences": len(heads.inputs),
        "norm": norm,
        "bits": digits.size,
        "right": int((patterns == digits).sum()),
        "patterns": len(np.unique(patterns, axis=0)),
        "predicted": int(predicted["at_least"]),
        "attention": float(np.diag(heads.attention()).min()),
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
