"""The toy chain of Section 3.1: what rounding between the layers does for the all-layer margin.

    plain     f(x) = W_d ... W_1 x - 1/2                      ρ = √d (1 - 2^{-1/d}): falls like ln 2/√d
    rounded   f(x) = round(W_d ... round(W_1 x)) - 1/2        ρ ≥ 1/3 whatever the depth, the roundings frozen

at W = 1, x = 1, y = 1. The exact values stand beside what the attack finds, which knows nothing of them.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import polars as pl

from krogh.experiments.approximation.common import NO_EXPERIMENTS, Attacks, draw_beforehand, in_words
from krogh.lab import Chart, Claims, Experiment, Figure, Results, Tables, experiment, figures, need, setting
from krogh.lab.estimate import largest, least
from krogh.lab.experiment import Measures
from krogh.networks.margins.attack import attack
from krogh.theory.programs.margin import chain_output, chain_parameters, rounded_enclosure
from krogh.theory.programs.samples import toy_chain

KINDS = {
    "plain": ("plain", figures.VERMILLION),
    "rounded": ("rounded", figures.BLUE),
    "rounded_free": ("rounded, roundings attacked too", figures.GREEN),
}
REFERENCE = {
    "plain": {1: 0.5, 2: 0.4142, 3: 0.3573, 4: 0.3182, 8: 0.2347, 16: 0.1696, 32: 0.1212, 64: 0.0862},
    "rounded": {1: 0.5, 2: 0.4918, 3: 0.4908, 4: 0.4907, 8: 0.4907},
}
"""Margins computed beforehand, by constrained optimisation."""


@dataclass(frozen=True)
class Settings(Attacks):
    depths: tuple[int, ...] = setting(
        (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64), "numbers d of layers", increasing=True, least=1, most=256
    )


@experiment("approximation/chain")
class Chain(Experiment[Settings]):
    """All-layer margin of a chain of multiplications against its depth, exact and by attack."""

    title = "Rounding between the layers keeps the margin of a chain whatever its depth"
    question = "How far may all weights of a deep chain move before its output changes sign?"
    source = "SM paper, Section 3.1 and Claim 3.5"
    scales = {
        "smoke": Settings(depths=(1, 2, 8), restarts=4, refinements=10),
        "laptop": Settings(),
        "paper": Settings(depths=tuple(range(1, 65))),
    }
    notes = (
        NO_EXPERIMENTS,
        "Claim 3.5 freezes the parameters of the roundings. Where they may move too, they are what is attacked: the "
        "margin is then about 0.078, still whatever the depth, but below that of the plain chain up to d = 78.",
    )

    def measure(self, results: Results[Settings]) -> Measures:
        return {"margins": functools.partial(margins, results.settings)}

    def claims(self, tables: Tables[Settings], say: Claims) -> None:
        table = tables["margins"]
        plain, rounded = table.filter(chain="plain"), table.filter(chain="rounded")
        deep, depths = rounded.filter(pl.col("depth") >= 2), in_words(plain["depth"].to_list())
        few = need(len(deep), 1, "chains of two layers or more")
        say(
            "plain-attack",
            f"Plain chain: the attack finds √d(1−2^(−1/d)) for d = {depths}.",
            largest((plain["attack"] / plain["exact"] - 1).abs()),
            "largest |attack / formula − 1|",
            at_most=0.01,
            source_value="0 (0.5 at d = 1 to 0.0862 at d = 64)",
        )
        say(
            "plain-estimate",
            f"Plain chain: the margin is at most 3/√d for d = {depths}.",
            largest(plain["exact"] * plain["depth"].sqrt() / 3),
            "largest ρ√d/3",
            at_most=1.0,
            source_value="ρ ≤ 3/√d; ρ√d tends to ln 2",
        )
        say(
            "rounded-constant",
            "Rounded chain, roundings frozen: the margin does not fall below 0.48, exactly or by attack, for d ≥ 2.",
            least(deep.select(pl.min_horizontal("exact", "attack"))),
            "least margin",
            at_least=0.48,
            source_value="0.4918 at d = 2, 0.4907 from d = 4 on",
            needs=[few],
        )
        say(
            "rounded-half",
            "Rounded chain, roundings frozen: the attack finds a perturbation of norm 0.5 or less for d ≥ 2.",
            largest(deep.select(pl.max_horizontal("exact", "attack"))),
            "largest margin, exactly or by attack",
            at_most=0.5,
            source_value="0.4918 at d = 2, 0.4907 from d = 4 on",
            needs=[few],
        )
        say(
            "rounded-third",
            f"Rounded chain, roundings frozen: the margin is proved to be at least 1/3 for d = {depths}.",
            least(rounded["least"]),
            "least lower bound by dynamic programming",
            at_least=1 / 3,
            source_value="≥ 1/3",
        )
        say(
            "attack-above",
            "No attack finds a perturbation smaller than the exact margin.",
            least(table["attack"] / table["exact"]),
            "least attack / exact margin",
            at_least=1 - 1e-6,
            source_value="≥ 1",
        )

    def figures(self, tables: Tables[Settings]) -> Iterator[Figure]:
        settings, table = tables.settings, tables["margins"]
        chart = Chart(
            "margin",
            "All-layer margin of the toy chain",
            headline="Rounding keeps the margin of a chain, whatever its depth",
            source=self.source,
            width=6.8,
            height=4.2,
        )
        powers = [depth for depth in settings.depths if depth & (depth - 1) == 0]
        y = "all-layer margin ρ (ℓ2 norm of all changes)"
        panel = chart.panel(x="depth d (layers)", y=y, log="xy", xticks=powers, ylim=(0.05, 0.8))
        for kind, (label, color) in KINDS.items():
            own = table.filter(chain=kind)
            panel.line(own["depth"], own["exact"], label, color=color, style="-", width=1.7)
            panel.dots(own["depth"], own["attack"], color=color, alpha=1)
            draw_beforehand(panel, REFERENCE.get(kind, {}), settings.depths)
        span = np.geomspace(settings.depths[0], settings.depths[-1], 50)
        panel.line(span, math.log(2) / np.sqrt(span), color=figures.MUTED, style=":", width=1.0)
        panel.reference(1 / 3, "certified by Claim 3.5: 1/3")
        panel.ax.margins(x=0.06)
        yield chart.figure(
            "Smallest change of all weights, in ℓ2 norm, with which the output changes sign: exact values (lines), "
            f"those that the attack finds ({settings.restarts} starts × {settings.refinements} rounds; dots), and "
            "those computed beforehand (crosses). Dotted: ln 2/√d. The middle line keeps the roundings' own parameters "
            "frozen, as Claim 3.5 does; the lowest moves them too.",
            table,
        )


def margins(settings: Settings) -> pl.DataFrame:
    """A row per chain and depth: the exact margin, the one that the attack finds, bounds of the rounded one."""
    rows = []
    for depth in settings.depths:
        known, enclosure = toy_chain(depth), rounded_enclosure(depth)
        for kind in KINDS:
            parameters = chain_parameters(depth, rounded=kind != "plain")
            frozen = [name for name in parameters if name.startswith("round")] if kind == "rounded" else []
            radius = attack(chain_output, parameters, 1.0, 1, frozen=frozen, **settings.effort).radius
            low, high = enclosure if kind == "rounded" else (math.nan, math.nan)
            margin = {"exact": known[kind], "attack": radius, "least": low, "most": high}
            rows.append({"chain": kind, "depth": depth, **margin})
    return pl.DataFrame(rows)
