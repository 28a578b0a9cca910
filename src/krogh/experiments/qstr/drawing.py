"""Curves of sample complexity as figures: beside the source's values, and beside the theory."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import polars as pl

from krogh.experiments.qstr.common import ARCHITECTURES, SOURCE_DIMENSION, Curve, Plan, published_samples, retrieval
from krogh.lab import figures
from krogh.theory.predictions.token_limits import feedforward_floor
from krogh.theory.predictions.token_transformer import transformer_samples


def panelled(title: str, count: int) -> tuple[Any, list[Any]]:
    """A figure of `count` panels side by side, and its axes as a list."""
    fig, axes = figures.new_figure(title, width=4.9 * count + 0.6, height=4.2, ncols=count)
    return fig, [axes] if count == 1 else list(axes)


def draw_curve(
    ax: Any,
    measured: Curve,
    *,
    color: str,
    label: str,
    linestyle: str = "-",
    published: Mapping[int, float] | None = None,
    runs: bool = True,
) -> None:
    """Means with their intervals, every run as a thin line, the source's values as open markers."""
    lengths = list(measured.runs)
    for run in np.stack([measured.runs[length] for length in lengths], axis=1) if runs else ():
        ax.plot(lengths, np.where(np.isfinite(run), run, np.nan), color=color, linewidth=0.5, alpha=0.5)
    means = [measured.mean(length) for length in lengths]
    low, value, high = ([getattr(mean, part) for mean in means] for part in ("low", "value", "high"))
    figures.interval_band(ax, lengths, low, value, high, color=color, linestyle=linestyle)
    if np.isfinite(value).any():
        figures.direct_label(ax, lengths, value, label, color=color)
    shown = {length: n for length, n in (published or {}).items() if length in lengths}
    hollow = {"linestyle": "none", "marker": "o", "markersize": 6, "markerfacecolor": "none", "markeredgecolor": color}
    ax.plot(list(shown), list(shown.values()), **hollow)


def missed(measured: Iterable[Curve]) -> str:
    """How many runs did not get there, in words for a caption."""
    runs = [one for curve in measured for one in curve.runs.values()]
    count, total = int(sum(np.isinf(one).sum() for one in runs)), sum(one.size for one in runs)
    return f"all {total} runs reached it" if not count else f"{count} of {total} runs did not reach it"


def draw_panel(ax: Any, name: str, plan: Plan, curves: Mapping[str, Curve]) -> pl.DataFrame:
    """A panel of Figure 1 on the source's linear axes; returns its data."""
    from matplotlib.ticker import FuncFormatter

    same = plan.dimension == SOURCE_DIMENSION and plan.threshold == plan.panel.threshold
    rows = []
    for architecture, measured in curves.items():
        known = published_samples(plan.panel.index_law, architecture) if same else {}
        drawn = ARCHITECTURES[architecture]
        draw_curve(ax, measured, color=drawn.color, label=drawn.label, published=known)
        for length in plan.lengths:
            summary, mean = measured.summary(length), measured.mean(length)
            rows.append(
                (name, architecture, length, summary.runs, summary.not_reached, summary.mean, mean.low, mean.high,
                 summary.sd, summary.median.value, known.get(length))
            )  # fmt: skip
    # What was not reached is known to lie beyond the budget, which must not flatten what was.
    reached = [n for one in curves.values() for runs in one.runs.values() for n in runs if math.isfinite(n)]
    ax.set_xticks(list(plan.lengths))
    ax.set_ylim(0, 1.08 * max(reached, default=next(iter(curves.values())).horizon))
    ax.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value / 1000:g}"))
    _describe(ax, plan, f"thousand samples to test error {plan.threshold:g}")
    columns = ["panel", "architecture", "N", "runs", "not_reached", "mean", "low", "high", "sd", "median", "published"]
    kinds = {word: pl.Float64 for word in ("mean", "low", "high", "sd", "median", "published")}
    return pl.DataFrame(rows, schema=columns, schema_overrides=kinds, orient="row")


def draw_theory(ax: Any, name: str, plan: Plan, curves: Mapping[str, Curve]) -> pl.DataFrame:
    """The same means on logarithmic axes with floors and the growth that is proved; returns floors and growth."""
    growth = bounded_growth(curves["transformer"], plan) if "transformer" in curves else {}
    floors = {"feedforward": ("Theorem 6", feedforward_floors(plan)), "transformer": ("q·d", unknowns(plan))}
    rows = []
    for architecture, measured in curves.items():
        drawn = ARCHITECTURES[architecture]
        draw_curve(ax, measured, color=drawn.color, label=drawn.label, runs=False)
        label, floor = floors.get(architecture, ("", {}))
        if floor:
            ax.plot(list(floor), list(floor.values()), color=drawn.color, linestyle=":", linewidth=1.4)
            figures.direct_label(ax, list(floor), list(floor.values()), label, color=drawn.color)
        for length in plan.lengths:
            proved = growth.get(length) if architecture == "transformer" else None
            rows.append((name, architecture, length, measured.mean(length).value, floor.get(length), proved))
    if growth:
        dashes = {"color": figures.BLUE, "linestyle": (0, (5, 3)), "linewidth": 1.0}
        ax.plot(list(growth), list(growth.values()), **dashes)
    figures.log_axis_labels(ax, "x", values=list(plan.lengths))
    figures.log_axis_labels(ax, "y")
    _describe(ax, plan, f"samples to test error {plan.threshold:g}")
    columns = ["panel", "architecture", "N", "mean", "floor", "theorem_10_scaled"]
    kinds = {word: pl.Float64 for word in columns[3:]}
    return pl.DataFrame(rows, schema=columns, schema_overrides=kinds, orient="row")


def _describe(ax: Any, plan: Plan, ylabel: str) -> None:
    figures.panel_title(ax, plan.panel.title)
    ax.set_xlabel("sequence length N")
    ax.set_ylabel(ylabel)


# --- theory -------------------------------------------------------------------------------------------------


def feedforward_floors(plan: Plan) -> dict[int, float]:
    """Theorem 6: (1 - threshold)·N·d samples, below which no feedforward network reaches the threshold."""
    return {
        length: float(feedforward_floor(1, length, plan.dimension, plan.threshold)["samples_needed"])
        for length in plan.lengths
    }


def unknowns(plan: Plan) -> dict[int, float]:
    """q·d, the order of samples that any method needs."""
    return {length: float(_transformer(length, plan)["information_floor"]) for length in plan.lengths}


def bounded_growth(measured: Curve, plan: Plan) -> dict[int, float]:
    """Theorem 10's samples at each N times the least constant under which they bound the means that were reached.

    The theorem hides its constant, so that only the growth with N, a logarithm, can be held against measurements.
    """
    predicted = {length: float(_transformer(length, plan)["samples"]) for length in plan.lengths}
    means = {length: measured.mean(length).value for length in plan.lengths}
    constants = [means[length] / predicted[length] for length in plan.lengths if math.isfinite(means[length])]
    return {length: max(constants) * samples for length, samples in predicted.items()} if constants else {}


def _transformer(length: int, plan: Plan) -> dict[str, Any]:
    network = retrieval(length, plan.dimension, plan.panel.index_law).link.two_layer(1, plan.dimension)
    assert network is not None  # a linear link is a network of two neurons
    return transformer_samples(
        plan.threshold, length, plan.dimension, 1, len(network.a), network.output_radius, network.input_radius
    )
