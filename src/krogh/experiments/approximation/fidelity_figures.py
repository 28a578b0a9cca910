"""How faithful compiled machines are: every machine's steps, and errors in coarser arithmetics."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl

from krogh.lab import Figure, figures

STYLES = {("look-ahead", "hard"): ("o", figures.BLUE), ("look-ahead", "soft"): ("s", figures.GREEN),
          ("ripple", "hard"): ("D", figures.SKY), ("ripple", "soft"): ("^", figures.ORANGE)}  # fmt: skip
COLORS = {"float64": figures.GREEN, "float32": figures.BLUE, "bfloat16": figures.VERMILLION}
SMALLEST = 1e-17
"""Errors of 0 are drawn here."""
LARGEST = 1e4
"""Larger errors, and those that are no numbers, are drawn here."""


def machines_figure(table: pl.DataFrame, source: str) -> Figure:
    """The steps that were compared, machine by machine, and how many of them differ."""
    library, random = table.filter(kind="library"), table.filter(kind="random")
    names = library["machine"].unique(maintain_order=True).to_list()
    fig, axes = figures.new_figure(
        "Steps of compiled machines that were compared with the interpreter",
        width=9.4,
        height=1.8 + 0.19 * max(len(names), 10),
        ncols=2,
        width_ratios=(1.4, 1),
    )
    left, right = axes
    place = {name: row for row, name in enumerate(names)}
    for shift, ((adder, attention), (marker, color)) in zip((-0.27, -0.09, 0.09, 0.27), STYLES.items(), strict=True):
        own = library.filter(adder=adder, attention=attention)
        wrong = (own["mismatches"] + own["wrong_outputs"]).sum()
        label = f"{adder}, {'hard-max' if attention == 'hard' else 'softmax'}: {wrong} wrong"
        rows = [place[name] + shift for name in own["machine"]]
        left.plot(own["compared"], rows, linestyle="none", marker=marker, color=color, markersize=4, label=label)
        bad = own.filter(pl.col("mismatches") > 0)
        left.plot(bad["compared"], [place[name] + shift for name in bad["machine"]], "x", color="red", markersize=9)
    once = random.unique("machine")
    if len(once):
        steps, count = np.unique(once["steps"].to_numpy(), return_counts=True)
        right.bar(steps, count, color=figures.SKY)
    left.set_yticks(range(len(names)), names, fontsize=8)
    left.invert_yaxis()
    figures.log_axis_labels(left, "x")
    left.set_xlabel("steps compared (inputs × times)")
    figures.panel_title(left, f"{len(names)} machines of the library")
    figures.legend(left, loc="upper center", bbox_to_anchor=(0.5, -0.1 if len(names) > 20 else -0.22), ncols=2)
    figures.panel_title(right, f"{len(once):,} random machines")
    right.set_xlabel("longest run T (steps)")
    right.set_ylabel("machines")
    figures.source_note(fig, source)
    caption = (
        "Left: for each machine of the library, how many times of how many runs were compared, in state, symbol and "
        "cell; a red cross marks machines that differ somewhere. Right: random machines of 2 to 6 states and 2 to 4 "
        f"symbols, by the steps of their longest run on words of up to 3 letters; of {random['compared'].sum():,} "
        f"steps, with both adders and attentions, {random['mismatches'].sum()} are wrong."
    )
    return Figure("machines", "Steps of compiled machines against the interpreter", caption, fig, table)


def precision_figure(settings: Any, table: pl.DataFrame, growth: pl.DataFrame, source: str) -> Figure:
    """Wrong steps against T, and how errors grow along the longest run."""
    fig, axes = figures.new_figure(
        "Without correction errors grow from step to step; rounding every layer stops them", width=9.8, height=6.4,
        nrows=2, ncols=2, sharey=False
    )  # fmt: skip
    for column, (attention, words) in enumerate((("hard", "hard-max attention"), ("soft", "softmax attention"))):
        above, under = axes[0][column], axes[1][column]
        for arithmetic, color in COLORS.items():
            for correction, style in ((True, "-"), (False, "--")):
                key = {"attention": attention, "correction": correction, "arithmetic": arithmetic}
                own, along = table.filter(**key), growth.filter(**key)
                if not len(own):
                    continue
                label = f"{arithmetic}, {'with' if correction else 'without'} correction"
                share = (own["mismatches"] / (own["steps"] + 1)).to_numpy()
                above.plot(own["steps"], share, color=color, linestyle=style, marker="o", markersize=4, label=label)
                far = np.nan_to_num(along["deviation"].to_numpy(), nan=LARGEST, posinf=LARGEST)
                under.plot(
                    along["time"] + 1, np.clip(far, SMALLEST, LARGEST), color=color, linestyle=style, linewidth=1.2
                )
        figures.panel_title(above, words)
        figures.log_axis_labels(above, "x", values=table["steps"].unique().sort().to_list())
        above.set_ylim(-0.04, 1.04)
        above.set_xlabel("running time T of the counter (steps)")
        figures.panel_title(under, f"along the run of T = {growth['steps'][0]:,}")
        figures.log_axis_labels(under, "both")
        under.set_ylim(SMALLEST / 3, LARGEST * 3)
        figures.source_line(under, 1 / 3, "corrected up to 1/3")
        under.set_xlabel("step")
    axes[0][0].set_ylabel("share of wrong steps")
    axes[1][0].set_ylabel("largest distance of a\nhidden entry from 0 and 1")
    figures.legend(axes[0][0], loc="center left", fontsize=8)
    figures.source_note(fig, source)
    caption = (
        "The machine 'counter' on #0…0 with n zeros, which takes T = 2^(n+2) − 1 steps, as a transformer in three "
        "arithmetics. Above: the share of times at which state, symbol or cell is wrong. Below: the largest error of "
        f"an entry of any layer's vector, step by step ({SMALLEST:g} stands for 0, {LARGEST:g} for more). In hard-max "
        "attention errors come from averages over ties, such as three times 1/3; softmax attention leaks by design."
    )
    return Figure("precision", "Fidelity in coarser arithmetics", caption, fig, table)
