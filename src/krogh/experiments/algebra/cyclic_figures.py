"""How networks that add modulo p look when they are trained: weights and spectra, powers, frequencies."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import polars as pl

from krogh.experiments.algebra.cyclic_measures import EVEN, relative_shares
from krogh.experiments.algebra.cyclic_runs import Array, TrainedNetwork
from krogh.lab import Figure, figures
from krogh.theory.features.parts import Spectrum, network_spectrum
from krogh.theory.features.spectra import frequency_powers, interpolate
from krogh.theory.margins import PairArrays

Kinds = Mapping[str, Sequence[TrainedNetwork]]

COLORS = {"quadratic": figures.BLUE, "relu": figures.VERMILLION}
NAMES = {"quadratic": "quadratic, $L_{2,3}$", "relu": "ReLU, $L_2$"}
PARTS = ("u", "v", "w")
SHOWN = 3  # neurons of Figure 7.1
POINTS = 20  # of an interpolation, between two weights
BINS = np.linspace(0.0, 1.0, 41)


def alive(networks: Sequence[TrainedNetwork]) -> list[PairArrays]:
    """The networks whose training did not diverge."""
    return [trained.network for trained in networks if isinstance(trained.network, PairArrays)]


# --- Figure 7.1 (a) and (b) -----------------------------------------------------------------------------------


def embeddings(p: int, kinds: Kinds) -> Figure:
    """Weights of a few neurons with their interpolation, beside their power spectra."""
    fig, axes = figures.new_figure(
        f"Trained to add modulo {p}: the weights of three neurons and their spectra",
        width=1.0 + 5.0 * len(kinds),
        height=1.2 + 1.5 * SHOWN,
        nrows=SHOWN,
        ncols=2 * len(kinds),
        width_ratios=[1.8, 1.0] * len(kinds),
    )
    tables = []
    for place, (activation, networks) in enumerate(sorted(kinds.items(), reverse=True)):
        columns = axes[:, 2 * place : 2 * place + 2]
        trained = alive(networks)
        for row, neuron in enumerate(_chosen(trained[0], p) if trained else []):
            tables.append(_draw_neuron(columns[row], trained[0], p, neuron, COLORS[activation], activation))
        figures.panel_title(columns[0, 0], f"{NAMES[activation]}: u(a)")
        figures.panel_title(columns[0, 1], "power of u, v, w")
        if trained:
            figures.legend(columns[0, 1], loc="upper left", ncols=3, fontsize=7.5, handlelength=0.8, columnspacing=0.8)
        columns[-1, 0].set_xlabel("a")
        columns[-1, 1].set_xlabel("frequency")
    figures.source_note(fig, "dissertation, Figure 7.1(a), (b)")
    caption = (
        "Input weights u of three neurons of the first network (dots) and their trigonometric interpolation (line): "
        "of the neurons above a tenth of the largest norm those whose u has the least, the median and the largest "
        f"normalised power. Beside them, the share of the power of u, v and w at each frequency 0 to {p // 2}."
    )
    return Figure(
        f"embeddings-{p}", f"Embeddings and spectra, modulo {p}", caption, fig, _joined(tables, ("neuron", "u"))
    )


def _chosen(network: PairArrays, p: int) -> list[int]:
    """Kept neurons with the least, the median and the largest normalised power of u."""
    spectrum = network_spectrum(network, p)
    kept = np.flatnonzero(spectrum.kept)
    ordered = kept[np.argsort(spectrum.largest[0, kept], kind="stable")]
    return [int(ordered[place]) for place in (0, (len(ordered) - 1) // 2, -1)]


def _draw_neuron(axes: Any, network: PairArrays, p: int, neuron: int, color: str, activation: str) -> pl.DataFrame:
    x = np.linspace(0, p - 1, POINTS * (p - 1) + 1)
    u = network.U[neuron]
    axes[0].plot(x, interpolate(u, x), color=color, linewidth=1.1)
    axes[0].plot(np.arange(p), u, linestyle="none", marker="o", markersize=3 if p > 30 else 4, color=figures.BLACK)
    rows = np.stack([network.U[neuron], network.V[neuron], network.W[neuron]])
    power = frequency_powers(rows)
    power = power / power.sum(axis=1, keepdims=True)
    for part, share, shift in zip(PARTS, power, (-0.27, 0.0, 0.27), strict=True):
        shade = figures.PALETTE[PARTS.index(part)]
        axes[1].bar(np.arange(len(share)) + shift, share, width=0.27, color=shade, label=part)
    axes[1].set_ylim(0, 1.3)
    axes[1].set_yticks([0, 0.5, 1])
    axes[1].annotate(
        f"{power[0].max():.4f}", (0.98, 0.98), xycoords="axes fraction", ha="right", va="top", fontsize=8.5
    )
    a = np.arange(p)
    columns = {"activation": activation, "neuron": neuron, "a": a, "u": u, "v": rows[1], "w": rows[2]}
    return pl.DataFrame(columns)


# --- Figure 7.4 -----------------------------------------------------------------------------------------------


def powers(p: int, kinds: Kinds) -> Figure:
    """Histograms of the largest normalised power at initialisation and at the end."""
    fig, axes = figures.new_figure(
        f"Modulo {p}: how far neurons have one frequency, before training and after",
        width=3.4 * (1 + len(kinds)),
        height=3.1,
        ncols=1 + len(kinds),
    )
    first = next(iter(kinds.values()))
    at_first = [trained.initial for trained in first if isinstance(trained.initial, PairArrays)]
    tables = [_histogram(axes[0], at_first, p, figures.MUTED, "at initialisation")]
    half = (p - 1) // 2
    expected = float(np.sum(1 / np.arange(1, half + 1)) / half)
    figures.source_line(axes[0], expected, f"random: {expected:.3f}", axis="x")
    for ax, (activation, networks) in zip(axes[1:], sorted(kinds.items(), reverse=True), strict=True):
        tables.append(_histogram(ax, alive(networks), p, COLORS[activation], NAMES[activation]))
        named = {"relu": (0.9, "source: around 0.9"), "quadratic": (1.0, "source: almost exactly 1")}[activation]
        figures.source_line(ax, named[0], named[1], axis="x")
    axes[0].set_ylabel("share of weight vectors")
    figures.source_note(fig, "dissertation, Figure 7.4")
    caption = (
        "Largest normalised power max_j P_j/Σ_j P_j of u, v and w (P_j = |û(j)|² + |û(−j)|²) over all networks; "
        "filled: neurons above a tenth of the network's largest norm, outlined: all. Dashed at initialisation: H_K/K, "
        f"K = {half}, the mean for normal weights."
    )
    return Figure(f"powers-{p}", f"Largest normalised power, modulo {p}", caption, fig, pl.concat(tables))


def _histogram(ax: Any, networks: Sequence[PairArrays], p: int, color: str, title: str) -> pl.DataFrame:
    spectra = [network_spectrum(network, p) for network in networks]
    every = np.concatenate([np.zeros(0), *(spectrum.largest.ravel() for spectrum in spectra)])
    kept = np.concatenate([np.zeros(0), *(spectrum.largest[:, spectrum.kept].ravel() for spectrum in spectra)])
    shares = {name: np.histogram(values, BINS)[0] / max(1, len(values)) for name, values in _pair(kept, every)}
    ax.stairs(shares["kept"], BINS, fill=True, color=color, alpha=0.75)
    ax.stairs(shares["every"], BINS, color=figures.BLACK, linewidth=0.8)
    ax.set_xlim(0, 1.02)
    ax.set_xlabel("largest normalised power")
    typical = f"median {np.median(kept):.4f}" if len(kept) else "none"
    figures.panel_title(ax, f"{title}\n{typical}")
    return pl.DataFrame({"networks": title, "low": BINS[:-1], "high": BINS[1:], **shares})


def _pair(kept: Array, every: Array) -> list[tuple[str, Array]]:
    return [("kept", kept), ("every", every)]


# --- Figure D.1 -----------------------------------------------------------------------------------------------


def frequencies(p: int, kinds: Kinds) -> Figure:
    """Neurons per frequency, and each frequency's share of the norm."""
    fig, axes = figures.new_figure(
        f"Modulo {p}: which frequencies are used, and with which share of the norm",
        width=10.0,
        height=1.0 + 2.3 * len(kinds),
        nrows=len(kinds),
        ncols=2,
        sharex=True,
    )
    grid, tables = np.reshape(axes, (len(kinds), 2)), []
    for row, (activation, networks) in zip(grid, sorted(kinds.items(), reverse=True), strict=True):
        spectra = [network_spectrum(network, p) for network in alive(networks)]
        tables += [_draw_frequencies(row, spectrum, p, seed, activation) for seed, spectrum in enumerate(spectra)]
        row[1].axhspan(1 - EVEN, 1 + EVEN, color=figures.GRID, zorder=0)
        row[1].set_ylim(bottom=0)
        row[0].set_ylabel("neurons")
        row[1].set_ylabel(f"share × {p // 2}")
        figures.panel_title(row[0], f"{NAMES[activation]}: kept neurons")
        figures.panel_title(row[1], f"{NAMES[activation]}: share of $\\Sigma\\|\\omega_i\\|^\\nu$")
    for ax in grid[-1]:
        ax.set_xlabel("frequency")
    figures.source_note(fig, "dissertation, Figure D.1")
    caption = (
        "Left: neurons above a tenth of the largest norm by dominant frequency, bars for the first network, dots for "
        f"the others. Right: each frequency's share of Σ‖ω_i‖^ν times {p // 2}, which is 1 in every maximum-margin "
        "network (grey: within 20%). Theory says nothing of the numbers of neurons."
    )
    data = _joined(tables, ("frequency", "neurons"))
    return Figure(f"frequencies-{p}", f"Neurons and shares per frequency, modulo {p}", caption, fig, data)


def _draw_frequencies(axes: Any, spectrum: Spectrum, p: int, seed: int, activation: str) -> pl.DataFrame:
    at = np.arange(1, p // 2 + 1)
    counts = np.array(list(spectrum.counts().values()))
    relative = relative_shares(spectrum, p)
    color = COLORS[activation]
    if seed == 0:
        axes[0].bar(at, counts, color=color, alpha=0.6)
    else:
        axes[0].plot(at, counts, linestyle="none", marker=".", markersize=4, color=figures.BLACK, alpha=0.5)
    axes[1].plot(at, relative, linestyle="none", marker="o", markersize=4, color=color, alpha=0.5)
    return pl.DataFrame(
        {"activation": activation, "network": seed, "frequency": at, "neurons": counts, "relative_share": relative}
    )


def _joined(tables: Sequence[pl.DataFrame], columns: Sequence[str]) -> pl.DataFrame:
    """Tables as one; where there are none, their columns without rows."""
    return pl.concat(tables) if tables else pl.DataFrame(schema=dict.fromkeys(columns, pl.Float64))
