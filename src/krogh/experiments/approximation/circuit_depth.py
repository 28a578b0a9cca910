"""The all-layer margin of compiled circuits against their depth, with and without correction (Lemma 3.3, Theorem D.6).

Without correction errors grow from layer to layer: on the AND-ladder, where every gate hands on the sum of two errors,
the margin halves with each. Rounding after every layer of gates makes it independent of the depth. Each network has a
bound from above by attack and one from below by certificate.
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
    Attacks,
    draw_beforehand,
    in_words,
    variation,
)
from krogh.lab import Chart, Claims, Experiment, Figure, Results, Tables, experiment, figures, need, setting
from krogh.lab.estimate import exact, largest
from krogh.lab.experiment import Measures
from krogh.lab.fits import line_slope
from krogh.networks.circuits import compile_circuit
from krogh.networks.margins.report import margin_report
from krogh.programs.circuits.generators import and_ladder, random_circuit
from krogh.programs.circuits.layers import LayeredCircuit

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
class Settings(Attacks):
    width: int = setting(6, "gates r of every layer, and inputs", least=2)
    ladders: tuple[int, ...] = setting((3, 5, 9, 13, 17), "layers q of the AND-ladder", increasing=True, least=2)
    circuits: tuple[int, ...] = setting((3, 5, 9, 17, 33), "layers q of random circuits", increasing=True, least=2)
    draws: int = setting(1, "random circuits of each depth", least=1)
    inputs: int = setting(3, "random inputs on which random circuits are attacked", least=1)


@experiment("approximation/circuit-depth")
class CircuitDepth(Experiment[Settings]):
    """Margins of compiled circuits against depth, from above and from below."""

    title = "Rounding after every layer makes the margin of a compiled circuit independent of its depth"
    question = "How does the all-layer margin of a circuit's network change with depth, with and without correction?"
    source = "SM paper, Lemma 3.3 and Theorem D.6"
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

    def measure(self, results: Results[Settings]) -> Measures:
        return {"margins": functools.partial(margins, results.settings)}

    def claims(self, tables: Tables[Settings], say: Claims) -> None:
        settings, table = tables.settings, tables["margins"]
        ladder = table.filter(family="ladder")
        plain = ladder.filter(correction=False)
        deep = ladder.filter(pl.col("correction") & (pl.col("q") >= SETTLED))
        two = need(len(deep), 2, f"depths from q = {SETTLED} on")
        say(
            "uncorrected-halves",
            f"AND-ladder without correction, q = {in_words(plain['q'].to_list())}: the margin halves with each layer, "
            "that is, falls by a factor between 2^0.8 and 2^1.2.",
            exact(line_slope(plain["q"], plain["attack"].log(2)), len(plain)),
            "slope of log2 of the attack on q",
            between=(-1.2, -0.8),
            source_value="−1, as errors double; −0.95 by the values computed beforehand",
            needs=[need(len(plain), 3, "depths, through which a line is drawn")],
        )
        say(
            "corrected-constant",
            f"AND-ladder with correction: from q = {SETTLED} on the margin varies by less than 30%.",
            variation(deep["attack"]),
            "largest attack / least attack − 1",
            at_most=0.3,
            source_value="2.8e-2 at q = 5, 2.7e-2 at q = 17: 0.04",
            needs=[two],
        )
        say(
            "certificate-below",
            "On every network, with and without correction, the certificate is no larger than the attack.",
            largest(table["certificate"] / table["attack"]),
            "largest certificate / attack",
            at_most=1.0,
            source="SM paper, Theorem D.6",
            source_value="2.7e-3 against 2.7e-2 to 3.0e-2 on the ladder",
        )
        say(
            "certificate-constant",
            f"AND-ladder with correction: from q = {SETTLED} on the theorem's certificate does not change with depth.",
            variation(deep["theorem"]),
            "largest certificate / least certificate − 1",
            at_most=1e-6,
            source="SM paper, Theorem D.6",
            source_value="0: 2.7e-3 for all q = 3 to 33",
            needs=[two],
        )
        say(
            "exact",
            f"Every network computes its circuit without an error on all 2^{settings.width} inputs.",
            exact(int((~table["exact"]).sum()), len(table)),
            "networks with an error",
            at_most=0,
            source="SM paper, Lemma B.1",
            source_value="0",
        )

    def figures(self, tables: Tables[Settings]) -> Iterator[Figure]:
        settings, table = tables.settings, tables["margins"]
        chart = Chart(
            "margin",
            "Margin of compiled circuits against depth",
            headline="With correction the margin of a circuit does not fall with its depth",
            source=self.source,
            columns=2,
            width=9.6,
            height=4.2,
            sharey=True,
        )
        for (family, words), y in zip(FAMILIES.items(), ("all-layer margin ρ (ℓ2 norm)", ""), strict=True):
            depths = table.filter(family=family)["q"].unique().sort().to_list()
            title = f"{words} (r = {settings.width})"
            panel = chart.panel(
                title=title, x="layers q of the circuit", y=y, log="y", xticks=depths, xlim=(0, 1.45 * depths[-1])
            )
            for correction, (label, color) in CORRECTIONS.items():
                own = table.filter(family=family, correction=correction)
                by_depth = own.group_by("q", maintain_order=True).agg(
                    pl.median("attack", "certificate", "theorem"), low=pl.min("attack"), high=pl.max("attack")
                )
                q, low, attack, high = (by_depth[name] for name in ("q", "low", "attack", "high"))
                panel.band(q, low, attack, high, label, color=color)
                panel.line(q, by_depth["certificate"], color=color, marker="v", markersize=4.5)
                if correction and family == "ladder":
                    panel.line(q, by_depth["theorem"], "Theorem D.6", color=figures.MUTED, style=":")
                if settings.width == 6:
                    draw_beforehand(panel, REFERENCE[family, correction], depths)
        yield chart.figure(
            f"Bounds on the all-layer margin: from above by attack (dots, {settings.restarts} starts × "
            f"{settings.refinements} rounds), from below by certificate (triangles). Right: the least over "
            f"{settings.inputs} random inputs; median and range over {settings.draws} circuits of each depth. Crosses: "
            "attacks computed beforehand, on other random circuits. Without correction the certificate follows the "
            "proof of Theorem D.6, which needs the rounding to forget errors.",
            table,
        )


def margins(settings: Settings) -> pl.DataFrame:
    """A row per circuit, with and without correction: both bounds, the least over its inputs."""
    ones = np.ones((1, settings.width))
    rows = [row for q in settings.ladders for row in _rows("ladder", and_ladder(settings.width, q), ones, settings)]
    for q in settings.circuits:
        for draw in range(settings.draws):
            circuit = random_circuit(settings.width, settings.width, q, settings.seed + draw)
            rng = np.random.default_rng([settings.seed, q, draw])
            bits = rng.integers(0, 2, (settings.inputs, settings.width)).astype(np.float64)
            rows += _rows("random", circuit, bits, settings)
    return pl.DataFrame(rows)


def _rows(family: str, circuit: LayeredCircuit, inputs: np.ndarray, settings: Settings) -> Iterator[dict[str, Any]]:
    for correction in (False, True):
        compiled = compile_circuit(circuit, correction=correction)
        report = margin_report(compiled, inputs, **settings.effort)
        theorem = report.certificate.theorem
        yield {
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
            "exact": compiled.check().holds,
        }
