"""How sample sizes by several bounds grow, and a table of them."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import polars as pl

from krogh.lab import Figure, figures

HEADS = (
    "network",
    "α = ‖θ‖₁",
    "p",
    "layers",
    "γ (Thm D.6)",
    "γ (by layer)",
    "n_SM (D.6)",
    "n_SM (by layer)",
    "VC",
    "Π‖W‖",
)


def machines_figure(table: pl.DataFrame, source: str) -> Figure:
    """Samples against T, relative to those at the least T, beside other bounds."""
    fig, (left, right) = figures.new_figure(
        "Samples by the all-layer margin grow with a power of log T", width=9.8, height=4.2, ncols=2
    )
    for name, color in zip(table["network"].unique(maintain_order=True), figures.PALETTE, strict=False):
        own = table.filter(network=name)
        times, samples = own["T"].to_list(), (own["sm_samples"] / own["sm_samples"][0]).to_list()
        left.plot(times, samples, color=color, marker="o", markersize=4)
        figures.direct_label(left, times, samples, name, color=color)
        right.plot(own["T"], own["refined"], color=color, marker="v", linestyle="--", markersize=4)
        right.plot(own["T"], own["margin"], color=color, marker="o", markersize=4)
    first = table.filter(network=table["network"][0])
    for column, words, style in (("linear_samples", "earlier constructions: T", ":"), ("vc_samples", "VC: wT", "--")):
        values = (first[column] / first[column][0]).to_list()
        left.plot(times, values, color=figures.MUTED, linestyle=style)
        figures.direct_label(left, times, values, words, color=figures.MUTED)
    figures.direct_label(right, times, first["refined"].to_list(), "constants of\neach layer")
    figures.direct_label(right, times, first["margin"].to_list(), "Theorem D.6")
    for ax, label in ((left, "samples, relative to the least T"), (right, "certified all-layer margin γ (ℓ2 norm)")):
        figures.log_axis_labels(ax, "x", base=2, values=times[::2] if len(times) > 5 else times)
        figures.log_axis_labels(ax, "y")
        ax.set_xlabel("running time T (steps)")
        ax.set_ylabel(label)
        ax.set_xlim(right=times[-1] * (times[-1] / times[0]) ** 0.5)
    figures.source_note(fig, source)
    product = f"10^{first['log10_norm_product'][0]:,.0f} at T = {first['T'][0]:,}"
    caption = (
        "Compiled machines. Left: the sample size (α² ln p/γ² + 1)/ε² of Lemma 2.3, with the margin by Theorem D.6, "
        "relative to that at the least T; the VC dimension is at least of order wT, and earlier constructions need "
        f"at least T. Products of operator norms grow exponentially in T ({product}) and are not drawn. Right: "
        "certified margins."
    )
    return Figure("machines", "Sample sizes of compiled machines against running time", caption, fig, table)


def circuits_figure(table: pl.DataFrame, source: str) -> Figure:
    """Samples of AND-ladders against depth and width."""
    fig, axes = figures.new_figure(
        "Samples that circuits need by several bounds, against depth and width", width=9.8, height=4.2, ncols=2
    )
    for ax, (series, column, words) in zip(
        axes, (("depth", "q", "layers q (r = 6)"), ("width", "r", "gates r in a layer (q = 9)")), strict=True
    ):
        own = table.filter(series=series)
        sizes = own[column].to_list()
        lines: Any = {
            "Lemma 2.3": (np.log10(own["sm_samples"].to_numpy()), figures.BLUE),
            "VC dimension": (np.log10(own["vc_samples"].to_numpy()), figures.ORANGE),
            "(Π‖W‖)²": (2 * own["log10_norm_product"].to_numpy(), figures.VERMILLION),
        }
        for label, (logs, color) in lines.items():
            ax.plot(sizes, logs - logs[0], color=color, marker="o", markersize=4)
            figures.direct_label(ax, sizes, (logs - logs[0]).tolist(), label, color=color)
        figures.log_axis_labels(ax, "x", values=sizes)
        ax.set_xlim(right=sizes[-1] * 2.6)
        ax.set_xlabel(words)
        ax.set_ylabel("log10 of samples, relative to the first")
    figures.source_note(fig, source)
    caption = (
        "AND-ladders as networks with correction. Sample sizes, as powers of 10, relative to the smallest circuit's: "
        "by Lemma 2.3 with the margin of Theorem D.6, by the VC dimension of networks of as many parameters, and by "
        "the product of operator norms, which is exponential in depth."
    )
    return Figure("circuits", "Sample sizes of compiled circuits", caption, fig, table)


def table_figure(table: pl.DataFrame, epsilon: float, source: str) -> Figure:
    """The bounds as a table."""
    rows = [
        (
            row["network"] + (f", T = {row['T']:,}" if row.get("T") else ""),
            f"{row['one_norm']:,.0f}",
            f"{row['parameters']:,}",
            f"{row['layers']}",
            f"{row['margin']:.2g}",
            f"{row['refined']:.2g}",
            f"{row['sm_samples']:.1e}",
            f"{row['sm_samples_refined']:.1e}",
            f"{row['vc_samples']:.1e}",
            _power(row["log10_norm_product"]),
        )
        for row in table.iter_rows(named=True)
    ]
    fig, ax = figures.new_figure(
        f"Norms, margins and sample sizes at ε = {epsilon:g}", width=11.0, height=1.1 + 0.27 * len(rows)
    )
    ax.set_axis_off()
    with figures.style():
        drawn = ax.table(
            [list(row) for row in rows],
            colLabels=list(HEADS),
            loc="center",
            cellLoc="right",
            colWidths=[0.21, 0.08, 0.1, 0.06, 0.09, 0.09, 0.1, 0.11, 0.08, 0.09],
        )
        drawn.auto_set_font_size(False)
        drawn.set_fontsize(8.5)
        drawn.scale(1, 1.25)
        for (line, column), cell in drawn.get_celld().items():
            cell.visible_edges = "B" if line == 0 else ""
            cell.set_edgecolor(figures.MUTED)
            if column == 0:
                cell.get_text().set_ha("left")
            if line == 0:
                cell.get_text().set_fontweight("bold")
    figures.source_note(fig, source)
    caption = (
        "Compiled networks: 1-norm, parameters, hidden layers of a circuit's network or layers of a transformer, "
        "certified margin by Theorem D.6 and by the same proof with each layer's constants, samples for ε = "
        f"{epsilon:g} by Lemma 2.3 with either, by the VC dimension (of machines a floor, wT/ε), and the product of "
        "operator norms. All sample sizes are orders."
    )
    return Figure("table", "Table of bounds", caption, fig, table)


def _power(log10: float) -> str:
    if log10 < 6:
        return f"{10**log10:,.3g}"
    return f"10^{log10:,.0f}" if math.isfinite(log10) else "∞"
