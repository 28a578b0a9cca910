"""The all-layer margin of compiled circuits against their depth, with and without correction (Lemma 3.3, Theorem D.6).

Without correction errors grow from layer to layer: on the AND-ladder, where every gate hands on the sum of two errors,
the margin halves with each. Rounding after every layer of gates makes it independent of the depth. Each network has a
bound from above by attack and one from below by certificate.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from krogh.errors import require_integer
from krogh.experiments.approximation.common import CORRECTED, NO_EXPERIMENTS, in_words
from krogh.experiments.theorems import Demonstration, Tables, exact, largest, require_increasing, slope
from krogh.lab import Claim, Figure, claim, experiment, figures, setting
from krogh.tasks.circuits import LayeredCircuit, and_ladder, random_circuit
from krogh.theory.all_layer import margin_report
from krogh.theory.compilers import check_circuit, compile_circuit

SOURCE = "SM paper, Lemma 3.3 and Theorem D.6"
COLORS = {True: figures.BLUE, False: figures.VERMILLION}
FAMILIES = {"ladder": "AND-ladder, all inputs 1", "random": "random circuit, least over inputs"}
REFERENCE = {
    ("ladder", False): {3: 8.4e-2, 5: 2.5e-2, 9: 1.9e-3, 13: 1.3e-4, 17: 8.5e-6},
    ("ladder", True): {3: 3.0e-2, 5: 2.8e-2, 9: 2.7e-2, 13: 2.7e-2, 17: 2.7e-2},
    ("random", False): {3: 0.110, 5: 0.095, 9: 0.050, 17: 0.027, 33: 0.023},
    ("random", True): {3: 0.040, 5: 0.045, 9: 0.039, 17: 0.030, 33: 0.030},
}
"""Attacks of 12 starts × 60 rounds on circuits of width 6, computed beforehand (on other random circuits)."""
SETTLED = 5
"""From so many layers on the margin with correction is judged."""


@dataclass(frozen=True)
class Settings:
    width: int = setting(6, "gates r of every layer, and inputs")
    ladders: tuple[int, ...] = setting((3, 5, 9, 13, 17), "layers q of the AND-ladder")
    circuits: tuple[int, ...] = setting((3, 5, 9, 17, 33), "layers q of random circuits")
    draws: int = setting(1, "random circuits of each depth")
    inputs: int = setting(3, "random inputs on which random circuits are attacked")
    restarts: int = setting(12, "random directions that an attack starts from")
    refinements: int = setting(60, "rounds in which each of them is improved")
    seed: int = setting(0, "of circuits, inputs and attacks")


@experiment("approximation/circuit-depth")
class CircuitDepth(Demonstration[Settings]):
    """Margins of compiled circuits against depth, from above and from below."""

    title = "Rounding after every layer makes the margin of a compiled circuit independent of its depth"
    question = "How does the all-layer margin of a circuit's network change with depth, with and without correction?"
    source = SOURCE
    scales = {
        "smoke": Settings(ladders=(3, 4), circuits=(3,), inputs=1, restarts=3, refinements=8),
        "laptop": Settings(circuits=(3, 5, 9, 17)),
        "paper": Settings(ladders=(3, 5, 7, 9, 11, 13, 15, 17, 25, 33), draws=5),
    }
    notes = (
        NO_EXPERIMENTS,
        "Shallow networks without correction have the larger margin: the roundings' own parameters can be attacked.",
        "The certificate drawn is the larger of Theorem D.6 and the same proof with the constants of each layer; the "
        "figure's data has both. The theorem says nothing of networks without correction, the proof does.",
        "An attack bounds the margin from above only: a weak one flatters the network.",
    )

    def check(self, settings: Settings) -> None:
        require_integer("width", settings.width, 2)
        require_increasing("ladders", settings.ladders, 2)
        require_increasing("circuits", settings.circuits, 2)
        for name, least in (("draws", 1), ("inputs", 1), ("restarts", 1), ("refinements", 0), ("seed", 0)):
            require_integer(name, getattr(settings, name), least)

    def measure(self, settings: Settings) -> Tables:
        ones = np.ones((1, settings.width))
        rows = [row for q in settings.ladders for row in _rows("ladder", and_ladder(settings.width, q), ones, settings)]
        for q in settings.circuits:
            for draw in range(settings.draws):
                circuit = random_circuit(settings.width, settings.width, q, settings.seed + draw)
                rng = np.random.default_rng([settings.seed, q, draw])
                bits = rng.integers(0, 2, (settings.inputs, settings.width)).astype(np.float64)
                rows += _rows("random", circuit, bits, settings)
        return {"margins": pl.DataFrame(rows)}

    def judge(self, settings: Settings, tables: Tables) -> list[Claim]:
        return _claims(settings, tables["margins"])

    def draw(self, settings: Settings, tables: Tables) -> list[Figure]:
        return [_figure(settings, tables["margins"])]


def _rows(family: str, circuit: LayeredCircuit, inputs: np.ndarray, settings: Settings) -> list[dict[str, Any]]:
    """Both bounds of a circuit, with and without correction, the least over the inputs."""
    rows = []
    for correction in (False, True):
        compiled = compile_circuit(circuit, correction=correction)
        report = margin_report(
            compiled, inputs, restarts=settings.restarts, refinements=settings.refinements, seed=settings.seed
        )
        theorem = report.certificate.theorem
        rows.append(
            {
                "family": family,
                "circuit": circuit.name,
                "q": circuit.q,
                "correction": correction,
                "attack": report.upper,
                "certificate": report.lower,
                "theorem": math.nan if theorem is None else theorem.value,
                "binding": "" if theorem is None else theorem.binding,
                "one_norm": report.sizes.one_norm,
                "parameters": report.sizes.parameters,
                "inputs": len(inputs),
                "exact": check_circuit(compiled).exact,
            }
        )
    return rows


def _claims(settings: Settings, table: pl.DataFrame) -> list[Claim]:
    ladder = table.filter(family="ladder")
    plain = ladder.filter(correction=False)
    deep = ladder.filter(pl.col("correction") & (pl.col("q") >= SETTLED))
    steep, trials = f"q = {in_words(plain['q'].to_list())}", len(plain)
    return [
        claim(
            "uncorrected-halves",
            f"AND-ladder without correction, {steep}: the margin falls no faster than by a factor 2^1.2 per layer.",
            source=SOURCE,
            statistic="slope of log2 of the attack on q",
            interval=exact(_slope(plain)),
            at_least=-1.2,
            trials=trials,
            source_value="−1, as errors double; −0.95 by the values computed beforehand",
            **_enough_depths(plain),
        ),
        claim(
            "uncorrected-falls",
            f"AND-ladder without correction, {steep}: the margin falls at least by a factor 2^0.8 per layer.",
            source=SOURCE,
            statistic="slope of log2 of the attack on q",
            interval=exact(_slope(plain)),
            at_most=-0.8,
            trials=trials,
            source_value="−1, as errors double; −0.95 by the values computed beforehand",
            **_enough_depths(plain),
        ),
        claim(
            "corrected-constant",
            f"AND-ladder with correction: from q = {SETTLED} on the margin varies by less than 30%.",
            source=SOURCE,
            statistic="largest attack / least attack − 1",
            interval=exact(_spread(deep)),
            at_most=0.3,
            trials=len(deep),
            source_value="2.8e-2 at q = 5, 2.7e-2 at q = 17: 0.04",
            enough=len(deep) >= 2,
            too_small=f"{len(deep)} depths from q = {SETTLED} on; this needs two",
        ),
        claim(
            "certificate-below",
            "On every network, with and without correction, the certificate is no larger than the attack.",
            source="SM paper, Theorem D.6",
            statistic="largest certificate / attack",
            interval=exact(largest((table["certificate"] / table["attack"]).to_numpy())),
            at_most=1.0,
            trials=len(table),
            source_value="2.7e-3 against 2.7e-2 to 3.0e-2 on the ladder",
        ),
        claim(
            "certificate-constant",
            f"AND-ladder with correction: from q = {SETTLED} on the theorem's certificate does not change with depth.",
            source="SM paper, Theorem D.6",
            statistic="largest certificate / least certificate − 1",
            interval=exact(_spread(deep, "theorem")),
            at_most=1e-6,
            trials=len(deep),
            source_value="0: 2.7e-3 for all q = 3 to 33",
            enough=len(deep) >= 2,
            too_small=f"{len(deep)} depths from q = {SETTLED} on; this needs two",
        ),
        claim(
            "exact",
            f"Every network computes its circuit without an error on all 2^{settings.width} inputs.",
            source="SM paper, Lemma B.1",
            statistic="networks with an error",
            interval=exact(int((~table["exact"]).sum())),
            at_most=0,
            trials=len(table),
            source_value="0",
        ),
    ]


def _enough_depths(table: pl.DataFrame) -> dict[str, Any]:
    return {"enough": len(table) >= 3, "too_small": f"{len(table)} depths; a slope needs three"}


def _slope(table: pl.DataFrame) -> float:
    return slope(table["q"], np.log2(table["attack"].to_numpy())) if len(table) > 1 else math.nan


def _spread(table: pl.DataFrame, column: str = "attack") -> float:
    values = table[column].to_numpy()
    return float(values.max() / values.min() - 1) if len(values) else math.nan


def _figure(settings: Settings, table: pl.DataFrame) -> Figure:
    fig, axes = figures.new_figure(
        "With correction the margin of a circuit does not fall with its depth",
        width=9.6,
        height=4.2,
        ncols=2,
        sharey=True,
    )
    for ax, (family, words) in zip(axes, FAMILIES.items(), strict=True):
        for correction, color in COLORS.items():
            own = table.filter(family=family, correction=correction)
            by_depth = own.group_by("q", maintain_order=True).agg(
                pl.median("attack"), low=pl.min("attack"), high=pl.max("attack"), certificate=pl.median("certificate")
            )
            q, low, middle, high, certified = (
                by_depth[name].to_list() for name in ("q", "low", "attack", "high", "certificate")
            )
            figures.interval_band(ax, q, low, middle, high, color=color)
            ax.plot(q, certified, color=color, linestyle="--", marker="v", markersize=4.5, linewidth=1.2)
            figures.direct_label(ax, q, middle, CORRECTED[correction], color=color)
            if correction and family == "ladder":
                ax.plot(own["q"], own["theorem"], color=figures.MUTED, linewidth=1.2, linestyle=":")
                figures.direct_label(ax, q, own["theorem"].to_list(), "Theorem D.6", color=figures.MUTED)
            if settings.width == 6:
                known = {d: value for d, value in REFERENCE[family, correction].items() if d <= max(own["q"])}
                ax.plot(list(known), list(known.values()), "x", color=figures.INK, markersize=6, zorder=3)
        figures.panel_title(ax, f"{words} (r = {settings.width})")
        figures.log_axis_labels(ax, "y")
        depths = table.filter(family=family)["q"].unique().sort().to_list()
        ax.set_xticks(depths)
        ax.set_xlim(0, 1.45 * depths[-1])
        ax.set_xlabel("layers q of the circuit")
    axes[0].set_ylabel("all-layer margin ρ (ℓ2 norm)")
    figures.source_note(fig, SOURCE)
    caption = (
        f"Bounds on the all-layer margin: from above by attack (dots, {settings.restarts} starts × "
        f"{settings.refinements} rounds), from below by certificate (triangles). Right: the least over "
        f"{settings.inputs} random inputs; median and range over {settings.draws} circuits of each depth. Crosses: "
        "attacks computed beforehand, on other random circuits. Without correction the certificate follows the proof "
        "of Theorem D.6, which needs the rounding to forget errors."
    )
    return Figure("margin", "Margin of compiled circuits against depth", caption, fig, table)
