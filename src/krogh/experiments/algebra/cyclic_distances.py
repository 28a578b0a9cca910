"""How far trained networks are from the family of maximum-margin networks, drawn before and after training."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import polars as pl

from krogh.experiments.algebra.cyclic_claims import FUNCTION, GAP, NEURONS, SHARES
from krogh.lab import Figure, figures

LEAST = 1e-12  # what is nearer is drawn here: a logarithm needs a number
PANELS = {
    "neurons": ("neurons", "r.m.s. distance from the\nnearest optimal neuron", NEURONS),
    "shares": ("shares", "total variation from\nthe optimum's shares", SHARES),
    "function": ("function", "1 − cosine with the\noptimum's logits", FUNCTION),
    "gap": ("certificate", "gap over γ*\n(1 − margin / maximum)", GAP),
}
TICKS = 4  # decades with a label, in a narrow panel


def distance_figure(
    after: Mapping[str, pl.DataFrame],
    before: Mapping[str, pl.DataFrame],
    data: pl.DataFrame,
    source: str,
    gap: float = GAP,
) -> Figure:
    """Distances of each kind of network; tables have a row per network and the columns of `PANELS`."""
    from matplotlib.ticker import LogLocator

    kinds = list(after)
    fig, axes = figures.new_figure(
        "Distance from the family of maximum-margin networks, before training and after",
        width=11.0,
        height=2.0 + 0.45 * len(kinds),
        ncols=len(PANELS),
        sharey=True,
    )
    places = np.arange(len(kinds))[::-1]
    for ax, (column, (title, words, bound)) in zip(axes, PANELS.items(), strict=True):
        for place, kind in zip(places, kinds, strict=True):
            _dots(ax, before[kind][column].to_numpy(), place, hollow=True)
            _dots(ax, after[kind][column].to_numpy(), place, hollow=False)
        figures.log_axis_labels(ax, "x")
        ax.xaxis.set_major_locator(LogLocator(numticks=TICKS))
        figures.source_line(ax, gap if column == "gap" else bound, "criterion", axis="x")
        figures.panel_title(ax, title)
        ax.set_xlabel(words, fontsize=9)
    axes[0].set_yticks(places, kinds)
    axes[0].set_ylim(-0.6, len(kinds) - 0.4)
    figures.source_note(fig, source)
    caption = (
        "Open: before training; filled: after; a dot per network. Neurons: root mean square distance of ω_i/‖ω_i‖ from "
        "the nearest optimal neuron, weighted by ‖ω_i‖^ν. Shares: of Σ‖ω_i‖^ν per frequency or sign pattern, total "
        "variation from the optimum's. Function: 1 − cosine between the logits, less their mean over labels, and those "
        "of a maximum-margin network. Certificate: gap of lower and upper bound over γ*, where γ* is known. Dashed: "
        "the claims' criterion. All are 0 for every maximum-margin network, whatever its frequencies, phases, signs, "
        "order and scale."
    )
    return Figure("distance", "Distance from the maximum-margin family", caption, fig, data)


def _dots(ax: Any, values: np.ndarray, place: float, hollow: bool) -> None:
    known = np.maximum(values[np.isfinite(values)], LEAST)
    shift = 0.14 if hollow else -0.14
    ax.plot(
        known,
        np.full(len(known), place + shift),
        linestyle="none",
        marker="o",
        markersize=5,
        markerfacecolor="white" if hollow else figures.BLUE,
        markeredgecolor=figures.MUTED if hollow else "white",
        markeredgewidth=0.9 if hollow else 0.5,
        alpha=0.9,
    )
