"""Theorems 4.6, 4.11 and Corollary 4.9: the capacity of attention of bounded norm grows as log T.

Log covering numbers of one head, of many and of stacks of blocks are computed over a wide range of T, once as the
source states them (the *shape*, with constant 1) and once with every constant of the proofs (*explicit*). The
inequalities on which they rest are put to random weights and inputs: the largest ratio of the two sides must not
exceed 1.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from krogh.errors import require_integer
from krogh.experiments.attention.inequalities import RATIOS, ROUNDING, worst_ratio
from krogh.experiments.theorems import (
    Demonstration,
    Tables,
    bend,
    exact,
    require_increasing,
    slope,
)
from krogh.lab import Claim, Figure, claim, experiment, figures, setting
from krogh.theory.predictions.attention_capacity import head_capacity, multi_head_capacity
from krogh.theory.predictions.attention_depth import depth_capacity
from krogh.theory.predictions.inputs import check_open

SOURCE = "dissertation, Theorems 4.6, 4.11, Corollary 4.9"
STRAIGHT = 0.01
"""Of the rise of a bound over the range of T: how far from a line in log T it may be; its shares of ε move a little."""


@dataclass(frozen=True)
class Settings:
    lengths: tuple[int, ...] = setting(tuple(2**p for p in range(3, 21)), "context lengths T")
    depths: tuple[int, ...] = setting((1, 2, 4), "numbers of blocks")
    heads: tuple[int, ...] = setting((1, 2, 4, 8, 16), "numbers of heads")
    samples: int = setting(1000, "contexts m on which the cover is taken")
    dimension: int = setting(64, "dimension d of tokens")
    radius: float = setting(0.1, "radius ε of the cover; all norms are 1")
    draws: int = setting(1000, "random weights and inputs per inequality")


@experiment("attention/capacity")
class Capacity(Demonstration[Settings]):
    """Covering numbers against T and the number of heads, and the inequalities behind them."""

    title = "The capacity of attention of bounded norm grows as the logarithm of the context"
    question = "How do the capacity bounds grow with the length of the context, and do the inequalities behind hold?"
    source = SOURCE
    scales = {
        "smoke": Settings(lengths=tuple(2**p for p in range(3, 9)), depths=(1,), heads=(1, 2, 4), draws=50),
        "laptop": Settings(),
        "paper": Settings(),
    }
    notes = (
        "The bounds are orders of magnitude above any realistic sample size: they are to be used for scaling only.",
        "The depth-L bound has its products over later layers, as its proof gives them; the source prints the earlier "
        "ones, no ‖w‖ in the sum and factors d^{2/3}, k^{2/3} that contradict its own statement.",
        "Random draws cannot prove an inequality; one that exceeds 1 would refute it.",
    )

    def check(self, settings: Settings) -> None:
        require_increasing("lengths", settings.lengths, 1, 3)
        require_increasing("depths", settings.depths, 1)
        require_increasing("heads", settings.heads, 1, 2)
        for name in ("samples", "dimension", "draws"):
            require_integer(name, getattr(settings, name), 1)
        check_open("radius", settings.radius, 0)

    def measure(self, settings: Settings) -> Tables:
        worst = [(name, worst_ratio(name, settings.draws)) for name in RATIOS]
        return {
            "lengths": pl.DataFrame(_length_rows(settings), schema=_COVERS, orient="row"),
            "heads": pl.DataFrame(_head_rows(settings), schema=_COVERS, orient="row"),
            "ratios": pl.DataFrame(worst, schema={"inequality": pl.String, "ratio": pl.Float64}, orient="row"),
        }

    def judge(self, settings: Settings, tables: Tables) -> list[Claim]:
        return [
            *_length_claims(tables["lengths"]),
            *_head_claims(tables["heads"]),
            *_inequality_claims(settings, tables["ratios"]),
        ]

    def draw(self, settings: Settings, tables: Tables) -> list[Figure]:
        return [_capacity_figure(settings, tables), _ratio_figure(settings, tables["ratios"])]


# --- covering numbers ---------------------------------------------------------------------------------------

_COVERS = {"class": pl.String, "size": pl.Int64, "shape": pl.Float64, "explicit": pl.Float64}


def _length_rows(settings: Settings) -> list[tuple[Any, ...]]:
    common: Any = {"samples": settings.samples, "dimension": settings.dimension, "scale": settings.radius}
    rows: list[tuple[Any, ...]] = []
    for length in settings.lengths:
        one = head_capacity(length, **common)
        rows.append(("one head", length, one["shape"], one["explicit"]))
        for depth in settings.depths:
            deep = depth_capacity(length, depth=depth, **common)
            rows.append((f"{depth} blocks" if depth > 1 else "1 block", length, deep["shape"], deep["explicit"]))
    return rows


def _head_rows(settings: Settings) -> list[tuple[Any, ...]]:
    common: Any = {"samples": settings.samples, "dimension": settings.dimension, "scale": settings.radius}
    rows: list[tuple[Any, ...]] = []
    for heads in settings.heads:
        found = multi_head_capacity(settings.lengths[0], heads=heads, **common)
        rows.append(("heads", heads, found["shape"], found["explicit"]))
    return rows


def _length_claims(table: pl.DataFrame) -> list[Claim]:
    found = []
    for (name,), own in table.group_by("class", maintain_order=True):
        lengths = own["size"].to_list()
        logs = np.log(lengths)
        grown = own["explicit"][-1] / own["explicit"][0]
        shared: dict[str, Any] = {
            "trials": len(own),
            "enough": len(lengths) >= 4 and lengths[-1] >= 1000 * lengths[0],
            "too_small": f"{len(lengths)} lengths up to {lengths[-1]}; a law of T needs four, over a factor of 1000",
            "source": "dissertation, Corollary 4.9" if name == "one head" else "dissertation, Theorems 4.11, A.17",
        }
        short = str(name).replace(" ", "-")
        for kind, text in (("shape", "as stated"), ("explicit", "with every constant of the proof")):
            found.append(
                claim(
                    f"{short}-{kind}-log",
                    f"The log covering number of {name}, {text}, is affine in log T from {lengths[0]} to {lengths[-1]}"
                    + (f"; there it grows by a factor of {grown:.2f}." if kind == "explicit" else "."),
                    statistic="largest distance from a line in log T, of the rise",
                    interval=exact(bend(logs, own[kind])),
                    at_most=STRAIGHT if kind == "explicit" else ROUNDING,
                    source_value="log(dmT)",
                    **shared,
                )
            )
    return found


def _head_claims(table: pl.DataFrame) -> list[Claim]:
    counts = table["size"].to_list()
    shared: dict[str, Any] = {
        "source": "dissertation, Lemma A.12",
        "trials": len(table),
        "enough": len(counts) >= 3,
        "too_small": f"{len(counts)} numbers of heads; a power needs three",
    }
    return [
        claim(
            f"heads-{kind}-cubed",
            f"The log covering number of H equal heads, {text}, grows as H³ (H = {counts[0]} to {counts[-1]}).",
            statistic="|slope of log capacity on log H - 3|",
            interval=exact(abs(slope(np.log(counts), np.log(table[kind])) - 3)),
            at_most=at_most,
            source_value="H³",
            **shared,
        )
        # Inside the explicit bound a share of ε goes to each head, and with it a logarithm of H.
        for kind, text, at_most in (("shape", "as stated", ROUNDING), ("explicit", "with every constant", 0.2))
    ]


def _inequality_claims(settings: Settings, table: pl.DataFrame) -> list[Claim]:
    found = []
    for name, ratio in table.iter_rows():
        what, lemma = name.split(", ")
        found.append(
            claim(
                f"inequality-{what.replace(' ', '-').lower()}",
                f"{lemma} ({what}): the left-hand side never exceeds the right one in {settings.draws:,} draws.",
                source=f"dissertation, {lemma}",
                statistic="largest left-hand side / right-hand side",
                interval=exact(ratio, f"largest of {settings.draws} draws"),
                at_most=1 + ROUNDING,
                source_value="≤ 1",
                trials=settings.draws,
                enough=settings.draws >= 1000 or not ratio <= 1 + ROUNDING,  # one counterexample is enough
                too_small=f"{settings.draws} draws without a counterexample; 1000 are asked for",
            )
        )
    return found


# --- figures ------------------------------------------------------------------------------------------------


def _capacity_figure(settings: Settings, tables: Tables) -> Figure:
    table, heads = tables["lengths"], tables["heads"]
    fig, (left, right) = figures.new_figure(
        "Capacity is a straight line in log T, and a cube in heads", width=8.4, height=4.2, ncols=2
    )
    for color, name in zip(figures.PALETTE, dict.fromkeys(table["class"]), strict=False):
        own = table.filter(pl.col("class") == name)
        base = float(own["explicit"][0])
        left.plot(own["size"], own["explicit"] / base, "o", color=color, markersize=4)
        line = np.poly1d(np.polyfit(np.log(own["size"]), own["explicit"] / base, 1))
        left.plot(own["size"], line(np.log(own["size"])), color=color, linewidth=1)
        label = f"{name} (×{base:.1g})"
        figures.direct_label(left, own["size"].to_list(), (own["explicit"] / base).to_list(), label, color=color)
    lengths = sorted(set(table["size"]))
    figures.log_axis_labels(left, values=lengths[:: max(1, len(lengths) // 5)], base=2)
    left.set_xlabel("context length T")
    left.set_ylabel(f"log covering number / that at T = {lengths[0]}")
    figures.panel_title(left, "growth with the context")
    counts = heads["size"].to_list()
    for kind, color in (("shape", figures.BLUE), ("explicit", figures.VERMILLION)):
        grown = (heads[kind] / heads[kind][0]).to_list()
        right.plot(counts, grown, "o-", color=color, markersize=4, linewidth=1)
        figures.direct_label(right, counts, grown, kind, color=color)
    right.plot(counts, (np.array(counts) / counts[0]) ** 3, color=figures.MUTED, linestyle="--", linewidth=1.1)
    figures.log_axis_labels(right, "both", values=None)
    figures.log_axis_labels(right, "x", values=counts)
    right.set_xlabel("heads H")
    right.set_ylabel(f"log covering number / that of {counts[0]}")
    figures.panel_title(right, "growth with the heads (dashed: H³)")
    figures.source_note(fig, SOURCE)
    caption = (
        f"Upper bounds on the log covering number with every constant of the proofs, m = {settings.samples}, "
        f"d = {settings.dimension}, ε = {settings.radius:g}, all norms 1. Left: points are the bounds, lines their "
        "fits in log T; a bound linear in T would grow by a factor of "
        f"{lengths[-1] // lengths[0]:,}. Right: H equal heads at T = {lengths[0]}."
    )
    data = pl.concat([table, heads])
    return Figure("capacity", "Capacity against context length and heads", caption, fig, data)


def _ratio_figure(settings: Settings, table: pl.DataFrame) -> Figure:
    fig, ax = figures.new_figure("How close random weights come to the inequalities", width=6.4, height=3.6)
    places = np.arange(len(table))
    ax.barh(places, np.minimum(table["ratio"].to_numpy(), 10.0), color=figures.BLUE, height=0.6)
    ax.set_yticks(places, table["inequality"].to_list())
    ax.invert_yaxis()
    figures.source_line(ax, 1.0, "the inequality", axis="x")
    ax.set_xlabel("largest left-hand side / right-hand side")
    figures.source_note(fig, "dissertation, section 4.4 and A.1")
    caption = (
        f"{settings.draws:,} draws each: weights of very different sizes, tokens in the unit ball, changes from hardly "
        "to altogether. A bar beyond 1 would be a counterexample; a short bar is an inequality with room to spare."
    )
    return Figure("inequalities", "The inequalities behind the bounds at random weights", caption, fig, table)
