"""How the constructions of Proposition 4.12 look: their errors, and their norms against T and s."""

from __future__ import annotations

import numpy as np
import polars as pl

from krogh.experiments.attention.construction_tables import Settings, growth_rates
from krogh.experiments.theorems import Tables
from krogh.lab import Figure, figures
from krogh.theory.constructions.sparse_heads import KINDS

SOURCE = "dissertation, Prop. 4.12, Lemmas A.19 to A.25"


def errors_figure(errors: pl.DataFrame) -> Figure:
    fig, ax = figures.new_figure("What the constructions miss by, and what their lemmas allow", width=6.6, height=4.0)
    names = list(dict.fromkeys(errors["construction"]))
    floor = 1e-17
    for place, name in enumerate(names):
        own = errors.filter(pl.col("construction") == name)
        drawn = np.maximum(own["error"].to_numpy(), floor)
        shift = np.linspace(-0.22, 0.22, len(own)) if len(own) > 1 else np.zeros(1)
        ax.plot(drawn, place + shift, "o", color=figures.BLUE, markersize=3.2, markeredgewidth=0)
        for allowed in sorted(set(own["allowed"])):
            ax.plot([allowed] * 2, [place - 0.36, place + 0.36], color=figures.VERMILLION, linewidth=1.3)
    ax.set_yticks(range(len(names)), names)
    ax.invert_yaxis()
    figures.log_axis_labels(ax, "x")
    ax.set_xlabel("largest error over all inputs (bars: allowed)")
    figures.source_note(fig, SOURCE)
    title = "Error of every construction beside what its lemma allows"
    caption = (
        f"{int(errors['inputs'].sum()):,} inputs were executed; a point is one head, T and s. "
        "The first heads may miss their target by γ/4, which depends on s; everything else is exact up to rounding. "
        "Errors of 0 are drawn at 10⁻¹⁷."
    )
    return Figure("errors", title, caption, fig, errors)


def _alike(table: pl.DataFrame) -> list[list[str]]:
    """Heads in groups that have the same norms throughout: they share a curve."""
    groups: dict[tuple[float, ...], list[str]] = {}
    for head in dict.fromkeys(table["head"]):
        groups.setdefault(tuple(table.filter(pl.col("head") == head)["norm"].round(9)), []).append(head)
    return list(groups.values())


def length_figure(settings: Settings, table: pl.DataFrame) -> Figure:
    fig, (left, right) = figures.new_figure(
        "Only the query grows with the context, as its logarithm", width=8.4, height=4.0, ncols=2
    )
    lengths = sorted(set(table["length"]))
    for color, heads in zip(figures.PALETTE, _alike(table.filter(pl.col("weight") == "Q")), strict=False):
        own = table.filter(pl.col("head") == heads[0], pl.col("weight") == "Q")
        left.plot(own["length"], own["norm"], "o", color=color, markersize=4)
        left.plot(own["length"], own["predicted"], color=color, linewidth=1)
        figures.direct_label(left, lengths, own["norm"].to_list(), "\n".join(heads), color=color)
    for color, (weight, marker) in zip(figures.PALETTE, (("K", "o"), ("V", "s"), ("C", "^")), strict=False):
        for heads in _alike(table.filter(pl.col("weight") == weight)):
            own = table.filter(pl.col("head") == heads[0], pl.col("weight") == weight)
            right.plot(own["length"], own["norm"], marker, linestyle="-", color=color, markersize=3.5, linewidth=0.8)
        right.plot([], [], marker, linestyle="-", color=color, markersize=3.5, linewidth=0.8, label=f"‖W_{weight}‖_F")
    for ax in (left, right):
        figures.log_axis_labels(ax, values=lengths[:: max(1, len(lengths) // 5)], base=2)
        ax.set_xlabel("context length T")
    left.set_ylabel("‖W_Q‖_F")
    right.set_ylabel("‖·‖_F, a line for each value that occurs")
    right.set_ylim(bottom=0)
    figures.legend(right, loc="lower right")
    figures.panel_title(left, "the query: slope 1 in ln T")
    figures.panel_title(right, "all others: constant")
    figures.source_note(fig, SOURCE)
    caption = (
        f"Frobenius norms of the weights (of each head, where there are several), s = {settings.s}. Points are "
        "measured on the weights, lines are those of the proofs. Norms of the ReLUs do not depend on T either."
    )
    return Figure("norms-against-length", "Norms against the length of the context", caption, fig, table)


def size_figure(tables: Tables) -> Figure:
    table = tables["growth"]
    rates = growth_rates(table)
    fig, axes = figures.new_figure(
        "ReLUs of symmetric functions stay small, those of arbitrary ones grow as 2^(s/2)",
        width=9.6,
        height=4.2,
        ncols=2,
        sharey=True,
    )
    markers = {"W1": "o", "W2": "s", "w": "^"}
    for ax, vector in zip(axes, (False, True), strict=True):
        for weight, marker in markers.items():
            kind = [head for head in dict.fromkeys(table["head"]) if KINDS[head].vector == vector]
            chosen = table.filter(pl.col("weight") == weight, pl.col("head").is_in(kind))
            for heads in _alike(chosen):
                color = figures.PALETTE[kind.index(heads[0]) % len(figures.PALETTE)]
                own = chosen.filter(pl.col("head") == heads[0])
                ax.plot(own["s"], own["norm"], marker, linestyle="-", color=color, markersize=4, linewidth=1.2)
                text = f"{weight}, {'all' if len(heads) == len(kind) else ' '.join(heads)}"
                figures.direct_label(ax, own["s"].to_list(), own["norm"].to_list(), text, color=color)
        figures.log_axis_labels(ax, "y")
        ax.set_xlabel("relevant bits s")
        figures.panel_title(ax, "arbitrary functions" if vector else "symmetric functions")
    axes[0].set_ylabel("‖·‖_F")
    figures.source_note(fig, SOURCE)
    ends = rates.group_by("general", maintain_order=True).agg(low=pl.col("rate").min(), high=pl.col("rate").max())
    shares = ", ".join(
        f"{low:.2f} to {high:.2f} for {'arbitrary' if vector else 'symmetric'} functions"
        for vector, low, high in ends.iter_rows()
    )
    caption = (
        "Frobenius norms of the two hidden layers W_1, W_2 and the read-out w, for functions with values ±1. Heads "
        "that have the same points have the same ReLUs. Fitted rates b of log2 ‖·‖_F = a + b s + c log2 s, s ≥ 2: "
        f"{shares}."
    )
    return Figure("norms-against-s", "Norms of the ReLUs against the number of relevant bits", caption, fig, table)
