"""Margins and powers of networks that add modulo p, step by step."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import polars as pl

from krogh.experiments.algebra.cyclic_figures import COLORS, NAMES, PARTS, Kinds
from krogh.experiments.algebra.cyclic_runs import Array, TrainedNetwork
from krogh.lab import Figure, figures
from krogh.theory.margins import FiniteLambda, max_margin_cyclic


def margin_curves(p: int, kinds: Kinds, optimum: FiniteLambda) -> Figure:
    """Normalised margin, margin, cross-entropy and power against the step, with what theory says they come to."""
    fig, axes = figures.new_figure(
        f"Modulo {p}: the normalised margin while training, and the largest there is",
        width=10.0,
        height=6.0,
        nrows=2,
        ncols=2,
    )
    normalised, margin, entropy, power = axes.ravel()
    for trained in kinds.get("quadratic", ()):
        step = trained.curve["step"]
        normalised.plot(step, trained.curve["normalised_margin"], color=COLORS["quadratic"], linewidth=1, alpha=0.7)
        margin.plot(step, trained.curve["margin"], color=COLORS["quadratic"], linewidth=1, alpha=0.7)
    for activation, networks in kinds.items():
        for place, trained in enumerate(networks):
            look = {"color": COLORS[activation], "linewidth": 1, "alpha": 0.7}
            label = NAMES[activation] if place == 0 else None
            entropy.plot(trained.curve["step"], trained.curve["cross_entropy"], label=label, **look)
            power.plot(trained.curve["step"], mean_power(trained), label=label, **look)
    figures.source_line(normalised, optimum.max_margin, f"γ* = {optimum.max_margin:.5g}, at every λ")
    figures.source_line(margin, optimum.margin, f"optimum at λ = {optimum.lam:g}: {optimum.margin:.4g}")
    figures.source_line(entropy, optimum.cross_entropy, f"quadratic optimum: {optimum.cross_entropy:.4g}")
    figures.log_axis_labels(entropy, "y")
    top = optimum.max_margin
    normalised.set_ylim(-0.3 * top, 1.12 * top)
    power.set_ylim(0, 1.03)
    for ax, title in (
        (normalised, "normalised margin (quadratic, $L_{2,3}$)"),
        (margin, "margin (quadratic)"),
        (entropy, "cross-entropy"),
        (power, "largest normalised power, mean by $\\|\\omega_i\\|^\\nu$"),
    ):
        figures.panel_title(ax, title)
        ax.set_xlabel("step")
    figures.legend(power, loc="lower right")
    figures.source_note(fig, "dissertation, Figure 7.1(c)")
    caption = (
        "A line per network. Normalised margin h(θ)/Σ‖ω_i‖³ with Theorem 7.7's maximum, which is also that of the "
        f"exact optimum at λ = {optimum.lam:g}; margin and cross-entropy with those of the optimum. Below right: the "
        "largest normalised power of u, v and w, averaged over neurons with weights ‖ω_i‖^ν."
    )
    tables = [_curve(activation, trained) for activation, networks in kinds.items() for trained in networks]
    return Figure(f"margin-{p}", f"Margin against step, modulo {p}", caption, fig, pl.concat(tables))


def mean_power(trained: TrainedNetwork) -> Array:
    return np.asarray(np.mean([trained.curve[f"fourier_power_{part}"] for part in PARTS], axis=0))


def _curve(activation: str, trained: TrainedNetwork) -> pl.DataFrame:
    names = ("step", "margin", "normalised_margin", "cross_entropy")
    columns = {name: trained.curve[name] for name in names}
    head = {"activation": activation, "seed": trained.seed}
    return pl.DataFrame({**head, **columns, "power": mean_power(trained)})


def compared_curves(
    name: str,
    title: str,
    p: int,
    kinds: Mapping[str, Sequence[TrainedNetwork]],
    *,
    caption: str,
    source: str,
    labels: Mapping[str, str],
    lines: Mapping[str, float] | None = None,
) -> Figure:
    """Normalised margin over γ* and mean power of several kinds of networks; `lines` are further levels of the margin.

    A kind whose networks are not quadratic has no γ* to be compared with, and only its power is drawn.
    """
    gamma = max_margin_cyclic(p).value
    fig, axes = figures.new_figure(title, width=10.0, ncols=2)
    tables = []
    for kind, color in zip(kinds, [*figures.PALETTE] * len(kinds), strict=False):
        for place, one in enumerate(kinds[kind]):
            known = one.initial.homogeneity == 3
            step, power = one.curve["step"], mean_power(one)
            ratio = one.curve["normalised_margin"] / gamma if known else np.full(len(step), np.nan)
            look: dict[str, Any] = {"color": color, "linewidth": 1.1, "alpha": 0.75}
            axes[0].plot(step, ratio, **look)
            axes[1].plot(step, power, label=labels[kind] if place == 0 else None, **look)
            columns = {"step": step, "ratio": ratio, "power": power}
            tables.append(pl.DataFrame({"kind": kind, "seed": one.seed, **columns}))
    for text, level in {"γ*": 1.0, **(lines or {})}.items():
        figures.source_line(axes[0], level, text)
    axes[0].set_ylim(-0.3, 1.12)
    axes[1].set_ylim(0, 1.03)
    figures.panel_title(axes[0], "normalised $L_{2,3}$ margin / γ*")
    figures.panel_title(axes[1], "largest normalised power, mean by $\\|\\omega_i\\|^\\nu$")
    for ax in axes:
        ax.set_xlabel("step")
    figures.legend(axes[1], loc="lower right")
    figures.source_note(fig, source)
    return Figure(name, title, caption, fig, pl.concat(tables))
