"""How the sample complexity of a conjunction looks: m*(T), the success rates behind it, and what finding it costs."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import polars as pl

from krogh.experiments.attention.sample_claims import SOURCE_POINT, Findings, statistical_threshold
from krogh.lab import Figure, figures
from krogh.lab.growth import fit_growth
from krogh.lab.sample_complexity import smallest_size
from krogh.lab.statistics import Interval
from krogh.theory.predictions.attention_limits import information_floor


def drawn_figures(found: Findings, source: str) -> list[Figure]:
    """m*(T), the heat map of success rates and the cost of grid and search."""
    return [_threshold(found, source), _rates(found, source), _cost(found, source)]


def _searched(found: Findings) -> dict[int, Interval]:
    """m* by the first replayed search."""
    run = found.replays[0] if found.replays else None
    return {length: run.frontiers[length].crossing() for length in found.lengths} if run else {}


def _threshold(found: Findings, source: str) -> Figure:
    settings, lengths = found.settings, found.lengths
    fig, ax = figures.new_figure("Samples that a sparse conjunction takes, against the context", width=6.8, height=4.4)
    low, value, high = ([getattr(found.intervals[t], end) for t in lengths] for end in ("low", "value", "high"))
    how = "adaptive search" if found.adaptive else "grid"
    figures.interval_band(
        ax, lengths, low, value, high, color=figures.BLUE, label=f"Transformer, {how}", linestyle="none"
    )
    searched = _searched(found)
    for place, (length, one) in enumerate(searched.items()):
        if math.isfinite(one.value):
            beside, ends = length * 1.03, (max(one.low, 1.0), one.high if math.isfinite(one.high) else one.value)
            ax.plot([beside, beside], ends, color=figures.VERMILLION, linewidth=1.2)
            label = (
                None if place else f"adaptive search, {found.replays[0].all_trials / found.trials:.0%} of the trials"
            )
            ax.plot(beside, one.value, "D", color=figures.VERMILLION, markersize=4, label=label)
    _draw_fits(ax, found)
    bits = [information_floor(length, settings.s)["bits"] for length in lengths]
    brute = [statistical_threshold(t, settings.s, settings.p, settings.draws).interval.value for t in lengths]
    ax.plot(lengths, brute, color=figures.GREEN, linewidth=1.3, marker=".", label="trying all index sets")
    ax.plot(lengths, bits, color=figures.MUTED, linewidth=1.3, marker=".", label=f"floor log2 C(T,{settings.s})")
    if lengths[0] <= SOURCE_POINT[0] <= lengths[-1]:
        ax.plot(*SOURCE_POINT, "*", color=figures.INK, markersize=11, label="source, m*(300) ≈ 70", zorder=5)
    figures.log_axis_labels(ax, "x", values=lengths if len(lengths) <= 8 else (100, 200, 300, 500, 800, 1100))
    ax.set_ylim(bottom=0)
    ax.set_xlabel("context length T (log scale)")
    ax.set_ylabel(f"samples m* for {settings.p:.0%} success")
    ax.margins(x=0.08)
    figures.legend(ax, loc="upper left", fontsize=8)
    figures.source_note(fig, source)
    data = pl.DataFrame(
        {
            "T": lengths,
            "m_star": value,
            "low": low,
            "high": high,
            "first_size": [smallest_size(found.counts[t], settings.p) for t in lengths],
            "adaptive": [searched[t].value if t in searched else None for t in lengths],
            "adaptive_low": [searched[t].low if t in searched else None for t in lengths],
            "adaptive_high": [searched[t].high if t in searched else None for t in lengths],
            "statistical_threshold": brute,
            "information_floor": bits,
        },
        schema_overrides=dict.fromkeys(("adaptive", "adaptive_low", "adaptive_high"), pl.Float64),
    )
    caption = (
        f"Sample size at which {settings.p:.0%} of trials learn the conjunction of {settings.s} of T bits, with 95% "
        f"intervals ({how}: {found.trials:,} trials, up to {settings.restarts} runs of {settings.budget} steps each). "
        f"Lines: least-squares fits a + b ln T and a + bT; the size at which {settings.p:.0%} of data sets leave "
        f"one index set, by brute force; and the bits that name an index set. An open triangle at the top is an m* "
        f"beyond the largest size, {max(settings.sizes)}."
    )
    return Figure("sample-complexity", "Sample complexity against the context length", caption, fig, data)


def _draw_fits(ax: Any, found: Findings) -> None:
    if len(found.lengths) < 3 or found.measured.missing:
        return
    span = np.geomspace(found.lengths[0], found.lengths[-1], 100)
    for law, words, dashes in (("logarithmic", "a + b ln T", "-"), ("linear", "a + bT", "--")):
        fit = fit_growth(found.measured, law)  # type: ignore[arg-type]
        ax.plot(
            span,
            fit.predict(span),
            color=figures.BLUE,
            linewidth=1.1,
            linestyle=dashes,
            label=f"{words}, R² = {fit.r_squared:.2f}",
        )


def _rates(found: Findings, source: str) -> Figure:
    settings, lengths = found.settings, found.lengths
    sizes = sorted({m for length in lengths for m in settings.sizes_at(length)})
    rate = np.full((len(sizes), len(lengths)), np.nan)
    rows = []
    for column, length in enumerate(lengths):
        for line, m in enumerate(sizes):
            hits, trials = found.counts[length].get(m, (0, 0))
            if trials:
                rate[line, column] = hits / trials
                rows.append((length, m, hits, trials))
    fig, ax = figures.new_figure("Where training succeeds", width=6.4, height=4.4)
    with figures.style():
        image = ax.pcolormesh(np.ma.masked_invalid(rate), cmap="cividis", vmin=0, vmax=1)
        bar = fig.colorbar(image, ax=ax, label="success rate")
        bar.outline.set_visible(False)
    if rate.size <= 120:
        for line, column in np.ndindex(*rate.shape):
            _, trials = found.counts[lengths[column]].get(sizes[line], (0, 0))
            text = f"{rate[line, column]:.2f}"[0 if rate[line, column] == 1 else 1 :] if trials else ""
            text = f"{text}\n({trials})" if found.adaptive and trials else text
            shade = "white" if rate[line, column] < 0.5 else figures.INK
            ax.text(column + 0.5, line + 0.5, text, ha="center", va="center", fontsize=7.5, color=shade, zorder=4)
    ax.grid(False)
    edge = _edges(found, sizes)
    ax.plot(np.arange(len(lengths)) + 0.5, edge, color=figures.VERMILLION, linewidth=1.3)
    ax.set_xticks(np.arange(len(lengths)) + 0.5, [str(t) for t in lengths], rotation=45 if len(lengths) > 8 else 0)
    ax.set_yticks(np.arange(len(sizes)) + 0.5, [str(m) for m in sizes])
    ax.set_xlabel("context length T")
    ax.set_ylabel("sample size m")
    figures.source_note(fig, source)
    data = pl.DataFrame(rows, schema=["T", "m", "successes", "trials"], orient="row")
    numbers = "number of trials in brackets, " if found.adaptive else ""
    caption = (
        f"Share of trials that reach more than 99% validation accuracy ({settings.trials} data sets per cell at most; "
        f"{numbers}blank where there are none). The line is m*(T), where {settings.p:.0%} succeed."
    )
    return Figure("success-rates", "Success rate over context length and sample size", caption, fig, data)


def _edges(found: Findings, sizes: list[int]) -> np.ndarray:
    """m* in units of the heat map's rows, whose middles are the sizes; NaN where it is not reached."""
    stars = np.array([found.intervals[length].value for length in found.lengths])
    return np.where(np.isfinite(stars), np.interp(stars, sizes, np.arange(len(sizes)) + 0.5), np.nan)


def _cost(found: Findings, source: str) -> Figure:
    settings, lengths = found.settings, found.lengths
    per_length = [len(settings.sizes_at(length)) * settings.trials for length in lengths]
    place = np.arange(len(lengths))
    if found.adaptive:
        trials = [sum(number for _, number in found.counts[t].values()) for t in lengths]
        steps: list[float] = [found.steps[t] for t in lengths]
        panels = [("trials", per_length, trials), ("trial-steps", None, steps)]
        behind = "trained by the search; the grid's trial-steps are not known"
    else:
        runs = found.replays
        trials = [float(np.mean([run.trials[t] for run in runs])) for t in lengths]
        steps = [float(np.mean([run.steps[t] for run in runs])) for t in lengths]
        panels = [
            ("trials", per_length, trials),
            ("trial-steps", [found.steps[t] for t in lengths], steps),
        ]
        behind = f"mean of {len(runs)} searches replayed on the grid's outcomes"
    fig, axes = figures.new_figure(
        "What the search saves", width=7.4 if len(lengths) <= 8 else 10.5, height=3.4, ncols=2
    )
    for ax, (unit, grid, search) in zip(axes, panels, strict=True):
        if grid is not None:
            ax.bar(place - 0.2, grid, 0.38, color=figures.SKY, label="grid")
        ax.bar(
            place + (0.2 if grid is not None else 0), search, 0.38, color=figures.VERMILLION, label="adaptive search"
        )
        ax.set_xticks(place, [str(t) for t in lengths], rotation=45 if len(lengths) > 8 else 0)
        ax.set_xlabel("context length T")
        ax.set_ylabel(f"{unit} per length")
        ax.yaxis.set_major_formatter("{x:,.0f}")
        total = f", {sum(search) / sum(grid):.0%} of the grid's" if grid is not None and sum(grid) else ""
        figures.panel_title(ax, f"{sum(search):,.0f} {unit}{total}")
        ax.set_ylim(0, 1.25 * max(*search, *(grid or [0]), 1))
        figures.legend(ax, loc="upper left", ncols=2)
    figures.source_note(fig, source)
    grid_steps = panels[1][1] or [None] * len(lengths)
    data = pl.DataFrame(
        {"T": lengths, "grid_trials": panels[0][1], "trials": trials, "grid_steps": grid_steps, "steps": steps},
        schema_overrides={"trials": pl.Float64, "steps": pl.Float64, "grid_steps": pl.Int64},
    )
    caption = (
        f"Trials and trial-steps of the whole grid, {settings.trials} trials per length and size, "
        f"and of an adaptive search that stops when its 95% interval of m* is one size wide or its ends are within a "
        f"factor {settings.precision:g} ({behind})."
    )
    return Figure("cost", "Cost of the grid and of the adaptive search", caption, fig, data)
