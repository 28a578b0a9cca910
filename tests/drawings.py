"""Figures drawn by the real figure code, for tests of figures and of the page that shows them."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from krogh.lab import figures


def draw_scaling(folder: Path) -> None:
    """A curve family with bands, direct labels, a censored point and a source note."""
    fig, ax = figures.new_figure("SGD learns an (n, k)-parity in a number of steps polynomial in n")
    n = np.array([10, 15, 20, 30, 45, 60])
    for k, color in zip((2, 3, 4), figures.PALETTE, strict=False):
        value = 3.0 * n ** (0.55 * k)
        high = 1.35 * value
        if k == 4:
            value[-1] = high[-1] = high[-2] = np.inf
        figures.interval_band(ax, n, value / 1.3, value, high, color=color)
        figures.direct_label(ax, n, value, f"k = {k}", color=color)
    figures.log_axis_labels(ax, "x", values=n)
    figures.log_axis_labels(ax, "y")
    ax.set(xlabel="input length n", ylabel="median convergence time (steps)")
    figures.source_note(fig, "dissertation, Figure 5.1 right")
    figures.save(fig, folder / "figures", "scaling")
    (folder / "figures" / "scaling.csv").write_text("n,k,steps\n10,2,38\n")


def draw_styled(folder: Path) -> None:
    """The same as `draw_scaling`, whatever the reader's own settings are."""
    with figures.style():
        draw_scaling(folder)


def draw_panels(folder: Path) -> None:
    """A wide figure with two panels and the source's value beside ours."""
    fig, axes = figures.new_figure("Progress is hidden in the loss and visible in the Fourier gap", width=9.0, ncols=2)
    step = np.arange(0, 1000, 10)
    axes[0].plot(step, 0.5 / (1 + np.exp((step - 700) / 30)), label="error")
    axes[1].plot(step, np.minimum(1.0, step / 800) ** 2, color=figures.VERMILLION, label="Fourier gap")
    for ax, name in zip(axes, ("test error", "Fourier gap"), strict=True):
        ax.set(xlabel="step", ylabel=name)
    figures.source_line(axes[1], 0.8, "source: 0.80")
    figures.legend(axes[0])
    figures.source_note(axes[0], "dissertation, Figure 5.3")
    figures.save(fig, folder / "figures", "progress")
    (folder / "figures" / "progress.csv").write_text("step,error\n0,0.5\n")
