"""How much random noise on all weights a compiled machine bears, against its running time (Theorem 4.1, Section 3.1).

A Gaussian direction in the space of all parameters is followed outwards from the compiled weights until the output
first changes. Without correction errors grow with every step, and the longer the machine runs the less noise it bears;
rounding every layer takes the running time out of it.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from krogh.experiments.approximation.common import (
    CORRECTIONS,
    NO_EXPERIMENTS,
    compiled_counter,
    draw_beforehand,
    simulate,
)
from krogh.lab import (
    Chart,
    Claims,
    Experiment,
    Figure,
    Results,
    Tables,
    curves,
    experiment,
    figures,
    groups,
    need,
    setting,
)
from krogh.lab.estimate import least
from krogh.lab.experiment import Measures
from krogh.networks.machines.compiled import CompiledMachine
from krogh.networks.margins.machines import certify_machine
from krogh.networks.margins.search import Scan

FEWEST = 10
"""Directions of a verdict."""
REFERENCE = {7: 3e-2, 15: 1e-4, 31: 1e-10, 63: 1e-10}
"""Medians without correction over 5 directions, computed beforehand; the last two are upper bounds."""


@dataclass(frozen=True)
class Settings:
    counters: tuple[int, ...] = setting(
        (1, 2, 3, 4), "bits n of the counter, which takes T = 2^(n+2) − 1 steps", increasing=True, least=1, most=8
    )
    directions: int = setting(10, "random directions", least=1)
    low: float = setting(1e-12, "smallest norm that is tried", most=1e-8)  # where claims are decided
    high: float = setting(100.0, "largest norm that is tried")
    ratio: float = setting(1.778279, "between two norms that are tried: four in a decade")
    seed: int = setting(0, "of the directions", least=0)


@experiment("approximation/machine-noise")
class MachineNoise(Experiment[Settings]):
    """The radius within which random noise leaves a compiled machine's output as it is, against T."""

    title = "Correction makes the noise that a compiled machine bears independent of its running time"
    question = "How much Gaussian noise on all weights does a compiled machine bear, and how does that change with T?"
    source = "SM paper, Theorem 4.1 and Section C"
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
        Scan(settings.low, settings.high, settings.ratio)

    def measure(self, results: Results[Settings]) -> Measures:
        return {"radii": functools.partial(radii, results.settings)}

    def claims(self, tables: Tables[Settings], say: Claims) -> None:
        settings = tables.settings
        plain, rounded = (tables["radii"].filter(correction=value) for value in (False, True))
        say = say.about(needs=[need(settings.directions, FEWEST, "directions")])
        (medians,) = curves(plain, x="steps", y="radius", horizon=settings.high).values()
        for steps, radius in zip(medians.x.astype(int), medians.y, strict=True):
            if steps >= 15:
                bound, known = (1e-3, "1e-4") if steps == 15 else (1e-8, "≤ 1e-10")
                say(
                    f"uncorrected-{steps}",
                    f"Without correction, T = {steps}: noise of norm {bound:g} is enough to change the output.",
                    radius,
                    "median norm at which a random direction first changes the output",
                    at_most=bound,
                    source_value=f"median {known} (5 directions)",
                )
        for steps, own in groups(rounded, "steps").items():
            say(
                f"corrected-{steps}",
                f"With correction, T = {steps}: no random direction changes the output below norm 1.",
                least(own["radius"]),
                "least norm at which a random direction first changes the output",
                at_least=1.0,
                source_value="3.2 or more (5 directions)",
            )

    def figures(self, tables: Tables[Settings]) -> Iterator[Figure]:
        settings, table = tables.settings, tables["radii"]
        chart = Chart(
            "noise",
            "Noise that compiled machines bear",
            headline="Noise that the compiled counter bears, against its running time",
            source=self.source,
            width=6.8,
            height=4.4,
        )
        times = table["steps"].unique(maintain_order=True).to_list()
        panel = chart.panel(
            x="running time T (steps)",
            y="norm of the noise at which\nthe output first changes (ℓ2)",
            log="xy",
            xticks=times,
            xlim=(times[0] * 0.8, times[-1] * 2.4),
            ylim=(settings.low / 5, settings.high * 8),
        )
        inside = pl.col("radius").clip(settings.low, settings.high)  # what lies off the range tried is drawn at its end
        medians = curves(table.with_columns(inside), by="correction", x="steps", y="radius")
        for correction, (label, color) in CORRECTIONS.items():
            own = table.filter(correction=correction).with_columns(inside)
            panel.curve(medians[correction], label, color=color)
            shifted = own["steps"] * (1 + 0.02 * (own["direction"] - settings.directions / 2) / settings.directions)
            panel.dots(shifted, own["radius"], color=color, marker=".", markersize=4, alpha=0.6)
            if correction:
                certified = own.unique("steps", maintain_order=True)
                panel.line(certified["steps"], certified["certificate"], "certified", color=color, width=1.7)
        draw_beforehand(panel, REFERENCE, times)
        panel.ax.axhline(settings.high, color=figures.MUTED, linewidth=0.8, linestyle=":")
        yield chart.figure(
            f"The machine 'counter' on #0…0 as a transformer ({table['parameters'][0]:,} to "
            f"{table['parameters'][-1]:,} parameters): the norm of Gaussian noise on all of them at which the output "
            f"is first wrong, for {settings.directions} directions (dots), with their median and its 95% interval by "
            f"order statistics. Norms tried are a factor {settings.ratio:.3g} apart, {settings.high:g} (dotted) the "
            "largest. Crosses: medians without correction computed beforehand, upper bounds from T = 31 on. Dashed: "
            "the certificate, which holds for every direction.",
            table,
        )


def radii(settings: Settings) -> pl.DataFrame:
    """A row per running time and direction, with and without correction."""
    rows = []
    for bits in settings.counters:
        for correction in (False, True):
            compiled, word = compiled_counter(bits, correction=correction)
            certificate, dense = certify_machine(compiled).value, compiled.dense_parameters()
            norms = Scan(settings.low, settings.high, settings.ratio).norms
            norms = norms[max(0, int(np.searchsorted(norms, certificate)) - 1) :]  # what is certified needs no search
            for direction in range(settings.directions):
                rng = np.random.default_rng([settings.seed, bits, direction])
                noise = {name: rng.standard_normal(array.shape) for name, array in dense.items()}
                rows.append(
                    {
                        "bits": bits,
                        "steps": compiled.steps,
                        "correction": correction,
                        "direction": direction,
                        **radii_along(compiled, word, dense, noise, norms),
                        "certificate": certificate,
                        "parameters": compiled.parameter_count,
                        "layers": compiled.depth,
                    }
                )
    return pl.DataFrame(rows)


def radii_along(
    compiled: CompiledMachine, word: str, weights: dict[str, Any], noise: dict[str, Any], norms: np.ndarray
) -> dict[str, float]:
    """The least of the norms at which noise in a direction makes the output wrong, and one step; infinite if none does.

    0 where it is wrong without noise. Upwards from the least norm, because larger ones may restore the output.
    """
    size = math.sqrt(sum(float(np.vdot(array, array)) for array in noise.values()))
    radii = {"radius": math.inf, "step_radius": math.inf}
    for norm in (0.0, *norms):
        moved = {name: array + norm / size * noise[name] for name, array in weights.items()}
        run = simulate(compiled, [word], parameters=moved)
        if run.wrong.any():
            radii["step_radius"] = min(radii["step_radius"], float(norm))
        if not run.output[0] * run.label[0] > 0:
            radii["radius"] = float(norm)
            break
    return radii
