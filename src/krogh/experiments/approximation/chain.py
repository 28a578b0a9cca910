"""The toy chain of Section 3.1: what rounding between the layers does for the all-layer margin.

    plain     f(x) = W_d ... W_1 x - 1/2                      ρ = √d (1 - 2^{-1/d}): falls like ln 2/√d
    rounded   f(x) = round(W_d ... round(W_1 x)) - 1/2        ρ ≥ 1/3 whatever the depth, the roundings frozen

at W = 1, x = 1, y = 1. The exact values stand beside what the attack finds, which knows nothing of them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from krogh.errors import require_integer
from krogh.experiments.approximation.common import NO_EXPERIMENTS, in_words
from krogh.experiments.theorems import Demonstration, Tables, exact, largest, require_increasing
from krogh.lab import Claim, Figure, claim, experiment, figures, setting
from krogh.theory.all_layer import attack, chain_output, chain_parameters, rounded_enclosure
from krogh.theory.predictions.approximation import toy_chain

SOURCE = "SM paper, Section 3.1 and Claim 3.5"
KINDS = {"plain": figures.VERMILLION, "rounded": figures.BLUE, "rounded_free": figures.GREEN}
LABELS = {"plain": "plain", "rounded": "rounded", "rounded_free": "rounded, roundings attacked too"}
REFERENCE = {
    "plain": {1: 0.5, 2: 0.4142, 3: 0.3573, 4: 0.3182, 8: 0.2347, 16: 0.1696, 32: 0.1212, 64: 0.0862},
    "rounded": {1: 0.5, 2: 0.4918, 3: 0.4908, 4: 0.4907, 8: 0.4907},
}
"""Margins computed beforehand, by constrained optimisation."""


@dataclass(frozen=True)
class Settings:
    depths: tuple[int, ...] = setting((1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64), "numbers d of layers")
    restarts: int = setting(12, "random directions that the attack starts from")
    refinements: int = setting(60, "rounds in which each of them is improved")
    seed: int = setting(0, "of the attack")


@experiment("approximation/chain")
class Chain(Demonstration[Settings]):
    """All-layer margin of a chain of multiplications against its depth, exact and by attack."""

    title = "Rounding between the layers keeps the margin of a chain whatever its depth"
    question = "How far may all weights of a deep chain move before its output changes sign?"
    source = SOURCE
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

    def check(self, settings: Settings) -> None:
        require_increasing("depths", settings.depths, 1)
        for depth in settings.depths:
            require_integer("depths", depth, 1, 256)
        require_integer("restarts", settings.restarts, 1)
        require_integer("refinements", settings.refinements, 0)
        require_integer("seed", settings.seed, 0)

    def measure(self, settings: Settings) -> Tables:
        return {"margins": pl.DataFrame([row for depth in settings.depths for row in _rows(depth, settings)])}

    def judge(self, settings: Settings, tables: Tables) -> list[Claim]:
        return _claims(tables["margins"])

    def draw(self, settings: Settings, tables: Tables) -> list[Figure]:
        return [_figure(settings, tables["margins"])]


def _rows(depth: int, settings: Settings) -> list[dict[str, Any]]:
    known = toy_chain(depth)
    low, high = rounded_enclosure(depth)
    rows = []
    for kind in KINDS:
        parameters = chain_parameters(depth, rounded=kind != "plain")
        frozen = [name for name in parameters if name.startswith("round")] if kind == "rounded" else []
        found = attack(
            chain_output,
            parameters,
            1.0,
            1,
            restarts=settings.restarts,
            refinements=settings.refinements,
            frozen=frozen,
            seed=settings.seed,
        )
        least, most = (low, high) if kind == "rounded" else (math.nan, math.nan)
        rows.append(
            {"chain": kind, "depth": depth, "exact": known[kind], "attack": found.radius, "least": least, "most": most}
        )
    return rows


def _claims(table: pl.DataFrame) -> list[Claim]:
    plain, rounded = table.filter(chain="plain"), table.filter(chain="rounded")
    deep = rounded.filter(pl.col("depth") >= 2)
    depths = in_words(plain["depth"].to_list())
    shared: dict[str, Any] = {"source": SOURCE, "trials": len(plain)}
    both = np.concatenate([deep["exact"].to_numpy(), deep["attack"].to_numpy()])
    few: dict[str, Any] = {"enough": len(deep) > 0, "too_small": "no chain of two layers or more"}
    return [
        claim(
            "plain-attack",
            f"Plain chain: the attack finds √d(1−2^(−1/d)) for d = {depths}.",
            statistic="largest |attack / formula − 1|",
            interval=exact(largest((plain["attack"] / plain["exact"] - 1).abs().to_numpy())),
            at_most=0.01,
            source_value="0 (0.5 at d = 1 to 0.0862 at d = 64)",
            **shared,
        ),
        claim(
            "plain-estimate",
            f"Plain chain: the margin is at most 3/√d for d = {depths}.",
            statistic="largest ρ√d/3",
            interval=exact(largest((plain["exact"] * plain["depth"].sqrt() / 3).to_numpy())),
            at_most=1.0,
            source_value="ρ ≤ 3/√d; ρ√d tends to ln 2",
            **shared,
        ),
        claim(
            "rounded-constant",
            "Rounded chain, roundings frozen: the margin does not fall below 0.48, exactly or by attack, for d ≥ 2.",
            statistic="least margin",
            interval=exact(float(np.min(both, initial=math.inf))),
            at_least=0.48,
            source_value="0.4918 at d = 2, 0.4907 from d = 4 on",
            **few,
            **shared,
        ),
        claim(
            "rounded-half",
            "Rounded chain, roundings frozen: the attack finds a perturbation of norm 0.5 or less for d ≥ 2.",
            statistic="largest margin, exactly or by attack",
            interval=exact(float(np.max(both, initial=-math.inf))),
            at_most=0.5,
            source_value="0.4918 at d = 2, 0.4907 from d = 4 on",
            **few,
            **shared,
        ),
        claim(
            "rounded-third",
            f"Rounded chain, roundings frozen: the margin is proved to be at least 1/3 for d = {depths}.",
            statistic="least lower bound by dynamic programming",
            interval=exact(float(rounded["least"].to_numpy().min())),
            at_least=1 / 3,
            source_value="≥ 1/3",
            **shared,
        ),
        claim(
            "attack-above",
            "No attack finds a perturbation smaller than the exact margin.",
            statistic="least attack / exact margin",
            interval=exact(float((table["attack"] / table["exact"]).to_numpy().min())),
            at_least=1 - 1e-6,
            source_value="≥ 1",
            **shared | {"trials": len(table)},
        ),
    ]


def _figure(settings: Settings, table: pl.DataFrame) -> Figure:
    fig, ax = figures.new_figure("Rounding keeps the margin of a chain, whatever its depth", width=6.8, height=4.2)
    for kind, color in KINDS.items():
        own = table.filter(chain=kind)
        ax.plot(own["depth"], own["exact"], color=color, label=LABELS[kind])
        ax.plot(own["depth"], own["attack"], linestyle="none", marker="o", color=color, markersize=4.5)
        known = {depth: value for depth, value in REFERENCE.get(kind, {}).items() if depth in set(own["depth"])}
        ax.plot(list(known), list(known.values()), "x", color=figures.INK, markersize=7, zorder=3)
        figures.direct_label(ax, own["depth"].to_list(), own["exact"].to_list(), LABELS[kind], color=color)
    span = np.geomspace(settings.depths[0], settings.depths[-1], 50)
    ax.plot(span, math.log(2) / np.sqrt(span), color=figures.MUTED, linewidth=1.0, linestyle=":")
    figures.source_line(ax, 1 / 3, "certified by Claim 3.5: 1/3")
    figures.log_axis_labels(ax, "x", values=[d for d in settings.depths if d & (d - 1) == 0])
    figures.log_axis_labels(ax, "y")
    ax.set_ylim(0.05, 0.8)
    ax.set_xlabel("depth d (layers)")
    ax.set_ylabel("all-layer margin ρ (ℓ2 norm of all changes)")
    ax.margins(x=0.06)
    figures.source_note(fig, SOURCE)
    caption = (
        "Smallest change of all weights, in ℓ2 norm, with which the output changes sign: exact values (lines), those "
        f"that the attack finds ({settings.restarts} starts × {settings.refinements} rounds; dots), and those computed "
        "beforehand (crosses). Dotted: ln 2/√d. The middle line keeps the roundings' own parameters frozen, as Claim "
        "3.5 does; the lowest moves them too."
    )
    return Figure("margin", "All-layer margin of the toy chain", caption, fig, table)
