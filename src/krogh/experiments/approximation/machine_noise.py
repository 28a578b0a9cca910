"""How much random noise on all weights a compiled machine bears, against its running time (Theorem 4.1, Section 3.1).

A Gaussian direction in the space of all parameters is followed outwards from the compiled weights until the output
first changes. Without correction errors grow with every step, and the longer the machine runs the less noise it bears;
rounding every layer takes the running time out of it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from krogh.errors import require, require_integer
from krogh.experiments.approximation.common import CORRECTED, NO_EXPERIMENTS
from krogh.experiments.approximation.machine_stepping import stepped
from krogh.experiments.theorems import Demonstration, Tables, exact, require_increasing
from krogh.lab import Claim, Figure, claim, experiment, figures, setting
from krogh.lab.statistics import quantile_interval
from krogh.tasks.machines import load_machine
from krogh.theory.all_layer import Scan, certify_machine
from krogh.theory.compilers.machines import CompiledMachine, compile_machine

SOURCE = "SM paper, Theorem 4.1 and Section C"
FEWEST = 10
"""Directions of a verdict."""
COLORS = {True: figures.BLUE, False: figures.VERMILLION}
REFERENCE = {7: 3e-2, 15: 1e-4, 31: 1e-10, 63: 1e-10}
"""Medians without correction over 5 directions, computed beforehand; the last two are upper bounds."""


@dataclass(frozen=True)
class Settings:
    counters: tuple[int, ...] = setting((1, 2, 3, 4), "bits n of the counter, which takes T = 2^(n+2) − 1 steps")
    directions: int = setting(10, "random directions")
    low: float = setting(1e-12, "smallest norm that is tried")
    high: float = setting(100.0, "largest norm that is tried")
    ratio: float = setting(1.778279, "between two norms that are tried: four in a decade")
    seed: int = setting(0, "of the directions")


@experiment("approximation/machine-noise")
class MachineNoise(Demonstration[Settings]):
    """The radius within which random noise leaves a compiled machine's output as it is, against T."""

    title = "Correction makes the noise that a compiled machine bears independent of its running time"
    question = "How much Gaussian noise on all weights does a compiled machine bear, and how does that change with T?"
    source = SOURCE
    scales = {
        "smoke": Settings(counters=(1,), directions=3, ratio=10.0),
        "laptop": Settings(ratio=3.162278),
        "paper": Settings(counters=(1, 2, 3, 4, 5), directions=30),
    }
    notes = (
        NO_EXPERIMENTS,
        "All parameters move, the zeros too: 5·10^5 to 10^6 of them, so that noise of norm 1 moves each by 10^-3.",
        "With correction the search begins at the largest tried norm below the certificate: below that no perturbation "
        "changes the output, whatever its direction.",
        "A radius is the smallest norm tried at which the output is no longer right; larger norms may restore it.",
    )

    def check(self, settings: Settings) -> None:
        require_increasing("counters", settings.counters, 1)
        for bits in settings.counters:
            require_integer("counters", bits, 1, 8)
        require_integer("directions", settings.directions, 1)
        require_integer("seed", settings.seed, 0)
        Scan(settings.low, settings.high, settings.ratio)
        require(settings.low <= 1e-8, f"low must be at most 1e-8, where claims are decided; got low={settings.low:g}")

    def measure(self, settings: Settings) -> Tables:
        return {"radii": pl.DataFrame([row for bits in settings.counters for row in _rows(bits, settings)])}

    def judge(self, settings: Settings, tables: Tables) -> list[Claim]:
        return _claims(settings, tables["radii"])

    def draw(self, settings: Settings, tables: Tables) -> list[Figure]:
        return [_figure(settings, tables["radii"])]


def _rows(bits: int, settings: Settings) -> list[dict[str, Any]]:
    steps, word = 2 ** (bits + 2) - 1, "#" + "0" * bits
    rows = []
    for correction in (False, True):
        compiled = compile_machine(
            load_machine("counter"), steps, input_length=bits + 1, correction=correction, words=[word]
        )
        certificate = certify_machine(compiled).value
        norms = Scan(settings.low, settings.high, settings.ratio).norms
        norms = norms[max(0, int(np.searchsorted(norms, certificate)) - 1) :]  # what is certified needs no search
        dense = compiled.dense_parameters()
        for direction in range(settings.directions):
            rng = np.random.default_rng([settings.seed, bits, direction])
            noise = {name: rng.standard_normal(array.shape) for name, array in dense.items()}
            found = radii_along(compiled, word, dense, noise, norms)
            rows.append(
                {
                    "bits": bits,
                    "steps": steps,
                    "correction": correction,
                    "direction": direction,
                    **found,
                    "certificate": certificate,
                    "parameters": compiled.parameter_count,
                    "layers": compiled.depth,
                }
            )
    return rows


def radii_along(
    compiled: CompiledMachine, word: str, weights: dict[str, Any], noise: dict[str, Any], norms: np.ndarray
) -> dict[str, float]:
    """The least of the norms at which noise in a direction makes the output wrong, and one step; infinite if none does.

    0 where it is wrong without noise. Upwards from the least norm, because larger ones may restore the output.
    """
    size = math.sqrt(sum(float(np.vdot(array, array)) for array in noise.values()))
    found = {"radius": math.inf, "step_radius": math.inf}
    for norm in (0.0, *norms):
        moved = {name: array + norm / size * noise[name] for name, array in weights.items()}
        run = stepped(compiled, [word], parameters=moved)
        if run.wrong.any():
            found["step_radius"] = min(found["step_radius"], float(norm))
        if not run.output[0] * run.wanted[0] > 0:
            found["radius"] = float(norm)
            break
    return found


def _claims(settings: Settings, table: pl.DataFrame) -> list[Claim]:
    found = []
    few: dict[str, Any] = {
        "enough": settings.directions >= FEWEST,
        "too_small": f"{settings.directions} directions; a verdict needs {FEWEST}",
    }
    for steps, bound, known in ((15, 1e-3, "1e-4"), *((t, 1e-8, "≤ 1e-10") for t in _times(table) if t >= 31)):
        own = table.filter(pl.col("steps") == steps, correction=False)["radius"].to_numpy()
        if not len(own):
            continue
        found.append(
            claim(
                f"uncorrected-{steps}",
                f"Without correction, T = {steps}: noise of norm {bound:g} is enough to change the output.",
                source=SOURCE,
                statistic="median norm at which a random direction first changes the output",
                interval=quantile_interval(own),
                at_most=bound,
                trials=len(own),
                source_value=f"median {known} (5 directions)",
                **few,
            )
        )
    for steps in _times(table):
        own = table.filter(pl.col("steps") == steps, correction=True)["radius"].to_numpy()
        found.append(
            claim(
                f"corrected-{steps}",
                f"With correction, T = {steps}: no random direction changes the output below norm 1.",
                source=SOURCE,
                statistic="least norm at which a random direction first changes the output",
                interval=exact(float(own.min())),
                at_least=1.0,
                trials=len(own),
                source_value="3.2 or more (5 directions)",
                **few,
            )
        )
    return found


def _times(table: pl.DataFrame) -> list[int]:
    return [int(steps) for steps in table["steps"].unique(maintain_order=True)]


def _figure(settings: Settings, table: pl.DataFrame) -> Figure:
    fig, ax = figures.new_figure(
        "Noise that the compiled counter bears, against its running time", width=6.8, height=4.4
    )
    times = _times(table)
    for correction, color in COLORS.items():
        own = table.filter(correction=correction)
        low, middle, high = (
            [_quantile(own.filter(pl.col("steps") == t)["radius"], share, settings) for t in times]
            for share in (0, 0.5, 1)
        )
        figures.interval_band(ax, times, low, middle, high, color=color)
        shifted = own["steps"] * (1 + 0.02 * (own["direction"] - settings.directions / 2) / settings.directions)
        ax.plot(shifted, own["radius"].clip(settings.low, settings.high), ".", color=color, markersize=4, alpha=0.6)
        figures.direct_label(ax, times, middle, CORRECTED[correction], color=color)
        if correction:
            certified = [own.filter(pl.col("steps") == t)["certificate"][0] for t in times]
            ax.plot(times, certified, color=color, linestyle="--")
            figures.direct_label(ax, times, certified, "certified", color=color)
    known = {steps: value for steps, value in REFERENCE.items() if steps in times}
    ax.plot(list(known), list(known.values()), "x", color=figures.INK, markersize=7, zorder=4)
    ax.axhline(settings.high, color=figures.MUTED, linewidth=0.8, linestyle=":")
    figures.log_axis_labels(ax, "x", values=times)
    figures.log_axis_labels(ax, "y")
    ax.set_ylim(settings.low / 5, settings.high * 8)
    ax.set_xlabel("running time T (steps)")
    ax.set_ylabel("norm of the noise at which\nthe output first changes (ℓ2)")
    ax.set_xlim(times[0] * 0.8, times[-1] * 2.4)
    figures.source_note(fig, SOURCE)
    caption = (
        f"The machine 'counter' on #0…0 as a transformer ({table['parameters'][0]:,} to "
        f"{table['parameters'][-1]:,} parameters): the norm of Gaussian noise on all of them at which the output is "
        f"first wrong, for {settings.directions} directions (dots; median and range as line and band). Norms tried "
        f"are a factor {settings.ratio:.3g} apart, {settings.high:g} (dotted) the largest. Crosses: medians without "
        "correction computed beforehand, upper bounds from T = 31 on. Dashed: the certificate, which holds for every "
        "direction."
    )
    return Figure("noise", "Noise that compiled machines bear", caption, fig, table)


def _quantile(radii: pl.Series, share: float, settings: Settings) -> float:
    """An order statistic, infinite radii among them; what lies off the range tried is drawn at its end."""
    values = np.sort(radii.to_numpy())
    return float(np.clip(values[math.ceil(share * (len(values) - 1))], settings.low, settings.high))
