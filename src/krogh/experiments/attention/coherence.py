"""Lemma A.19 with positions that are only nearly orthogonal: the printed keys fail, dual keys do not.

With |v_i·v_j| ≤ Δ > 0 the source's key Σ_{i in I} v_i scores the relevant positions unequally, by up to 2R(s-1)Δ: the
larger R, the more one of them takes all. The dual key scores every one of them 1, and its error falls exponentially.

Attention does not depend on the bits here, so that the worst input is known: b follows the signs of the weights' error,
and the supremum over all 2^T inputs is the l1 norm of that error. The network is executed there.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from krogh.errors import KroghError
from krogh.experiments.attention.common import require_longer
from krogh.lab import Claims, Experiment, Figure, Results, Tables, experiment, figures, groups, need, setting
from krogh.lab.estimate import largest, least
from krogh.lab.experiment import Measures
from krogh.models.attention import RESERVED
from krogh.networks.head_inputs import basis
from krogh.networks.sparse_functions import head_alone
from krogh.networks.sparse_heads import HeadOptions, sparse_head, sufficient_dimension
from krogh.theory.numerics import softmax

MODES = {"printed": figures.VERMILLION, "dual": figures.BLUE}
ORDER_ONE = 0.5
"""An error of order 1: of a target in [-1, 1], a quarter of its range."""
NEGLIGIBLE = 1e-8
ROUNDING = 1e-10
"""Scores of size R are rounded at R 2^-53, and R goes up to 10⁴ here."""


@dataclass(frozen=True)
class Settings:
    length: int = setting(50, "context length T", most=2000)
    s: int = setting(3, "relevant bits; two would be scored alike by either key", least=3)
    dimensions: tuple[int, ...] = setting(
        (400, 4000), "dimensions d of tokens; positions are random signs", increasing=True, least=RESERVED + 1
    )
    multiples: tuple[float, ...] = setting(
        (1, 2, 3, 5, 10, 20, 30, 50, 100), "R, in multiples of the dual's own", increasing=True, fewest=2, least=0.1
    )
    bases: int = setting(8, "random sets of positions per dimension, all with Δ < 1/(2s-1)", least=1)


@experiment("attention/coherence")
class Coherence(Experiment[Settings]):
    """Printed and dual keys on nearly orthogonal positions."""

    title = "On nearly orthogonal positions the printed head gets worse with its norm; a dual key repairs it"
    question = "Does the construction with fixed positions survive when these are not exactly orthogonal?"
    source = "dissertation, Lemma A.19 (Δ > 0)"
    scales = {
        "smoke": Settings(length=20, dimensions=(400,), multiples=(1, 10, 100), bases=2),
        "laptop": Settings(),
        "paper": Settings(),
    }
    notes = (
        "The lemma's error bound 2T exp(-R(1-2sΔ)) ignores that scores differ inside I. Where 2sΔ ≥ 1 it promises "
        "nothing, and is not held against it.",
        "Two relevant positions are scored alike by the printed key as well: the failure needs s ≥ 3.",
        "Sets of positions with Δ ≥ 1/(2s-1), for which no dual key is promised, are drawn again.",
    )

    def check(self, settings: Settings) -> None:
        require_longer(settings.length, settings.s)
        for dimension in settings.dimensions:
            admissible(settings, dimension)

    def measure(self, results: Results[Settings]) -> Measures:
        settings = results.settings
        kinds = list(itertools.product(MODES, settings.multiples))
        return {
            "errors": lambda: pl.DataFrame(
                [
                    _row(settings, dimension, seed, *kind)
                    for dimension in settings.dimensions
                    for seed in admissible(settings, dimension)
                    for kind in kinds
                ]
            )
        }

    def claims(self, tables: Tables[Settings], say: Claims) -> None:
        settings, last = tables.settings, tables.settings.multiples[-1]
        far = [need(last, 100, "times its own is the largest R"), need(settings.bases, 5, "sets of positions")]
        for dimension, own in groups(tables["errors"], "dimension").items():
            printed, dual = (own.filter(mode=mode) for mode in MODES)
            strong = printed.filter(multiple=last)
            coherent = float(own["coherence"].to_numpy().max())
            where = f"T = {settings.length}, d = {dimension}, s = {settings.s}, Δ ≤ {coherent:.3f}"
            say(
                f"printed-fails-d{dimension}",
                f"Printed keys: at {last:g} times the norm the error is of order 1, for every set of positions "
                f"({where}).",
                least(strong["error"]),
                "largest error over all inputs, the least of the sets of positions",
                at_least=ORDER_ONE,
                source_value="2T exp(-R(1-2sΔ)) → 0",
                needs=far,
            )
            say(
                f"dual-holds-d{dimension}",
                f"Dual keys: the error keeps to 2(T+1-s)/(s e^{{R(1-ρ)}}), at every norm ({where}).",
                largest(dual["error"] - dual["log_bound"].exp()),
                "largest (error - bound)",
                at_most=ROUNDING,
            )
            say(
                f"dual-exact-d{dimension}",
                f"Dual keys: at {last:g} times the norm the error is negligible ({where}).",
                largest(dual.filter(multiple=last)["error"]),
                "largest error over all inputs, the largest of the sets of positions",
                at_most=NEGLIGIBLE,
                needs=far,
            )
            if 2 * settings.s * coherent < 1:
                say(
                    f"printed-bound-false-d{dimension}",
                    f"Printed keys: the error exceeds the lemma's bound at {last:g} times the norm ({where}).",
                    least((strong["error"] / (strong["log_bound"].exp() + ROUNDING)).log(10)),
                    "log10(largest error / (printed bound + rounding)), the least of the sets of positions",
                    above=0.0,
                    source_value="≤ 0",
                    needs=far,
                )

    def figures(self, tables: Tables[Settings]) -> Iterable[Figure]:
        settings, count = tables.settings, len(tables.settings.dimensions)
        chart = self.chart(
            "coherence",
            "Error of printed and dual keys against the norm of the query",
            headline="A larger norm ruins the printed head and perfects the dual one",
            columns=count,
            width=4.2 * count + 0.8,
            height=4.2,
            sharey=True,
        )
        drawn = tables["errors"].with_columns(pl.col("error").clip(1e-17))
        for dimension, own in groups(drawn, "dimension").items():
            deltas = own["coherence"].to_numpy()
            panel = chart.panel(
                x="R, in multiples of the dual construction's",
                title=f"d = {dimension}, Δ = {deltas.min():.3f} to {deltas.max():.3f}",
            )
            for mode, color in MODES.items():
                heads = own.filter(mode=mode)
                panel.ranges(heads, "multiple", "error", mode, middle=pl.Expr.median, color=color)
                bounds = heads.group_by("multiple").agg(pl.col("log_bound").median().exp().clip(1e-17)).sort("multiple")
                panel.line(*bounds, color=color, style=":")
            panel.axes(log="xy", ylim=(1e-17, 10))
        chart[0].axes(y="largest error over all inputs")
        yield chart.figure(
            f"Heads that average s = {settings.s} of T = {settings.length} signs, on random positions; lines are "
            f"medians over {settings.bases} sets of positions, bands their range. Dotted: the bounds, that of the "
            "lemma (vermillion) and the repaired one (blue); what is below 10⁻¹⁷ is drawn there.",
            tables["errors"],
        )


def admissible(settings: Settings, dimension: int) -> tuple[int, ...]:
    """The first seeds whose positions have Δ < 1/(2s-1)."""
    limit = 1 / (2 * settings.s - 1)
    seeds: list[int] = []
    for seed in range(10 * settings.bases):
        if basis(settings.length, dimension, seed, exact=False).coherence < limit:
            seeds.append(seed)
        if len(seeds) == settings.bases:
            return tuple(seeds)
    enough = sufficient_dimension(settings.length, limit, exact=False)
    raise KroghError(
        f"random positions in dimension {dimension} are hardly ever less coherent than 1/(2s-1) = {limit:.3g}; "
        f"got dimensions={settings.dimensions} (try {enough})"
    )


def _row(settings: Settings, dimension: int, seed: int, mode: Any, multiple: float) -> dict[str, Any]:
    """The largest error of one head, executed on the worst of all inputs, and the log of what its lemma allows."""
    T, s = settings.length, settings.s
    support = tuple(range(s))
    common: Any = {"dimension": dimension, "basis_seed": seed, "exact": False}
    own = sparse_head("det_single", T, support, HeadOptions(**common))
    R = multiple * own.strength
    head = head_alone(T, support=support, head="det_single", mode=mode, strength=R, **common)
    target = np.where(np.arange(T) < s, 1 / s, 0.0)
    x = np.where(attention_of(head.parameters) >= target, 1.0, -1.0)[None]
    error = float(np.abs(head.run(x)[0] - x[0] @ target))
    delta = own.coherence
    if mode == "printed":
        log_bound = math.log(2 * T) - R * (1 - 2 * s * delta)
    else:
        leakage = s * delta / (1 - (s - 1) * delta)
        log_bound = math.log(2 * (T + 1 - s) / s) - R * (1 - leakage)
    return {
        "dimension": dimension,
        "seed": seed,
        "coherence": delta,
        "mode": mode,
        "multiple": float(multiple),
        "strength": R,
        "error": error,
        "log_bound": log_bound,
    }


def attention_of(params: Mapping[str, np.ndarray]) -> np.ndarray:
    """What the first head attends to among the positions, the same whatever the bits; shape [T]."""
    query = params["cls"] @ params["Q"][0]
    rows = np.concatenate([params["E"][0] + params["P"], params["cls"][None]])
    return softmax(rows @ params["K"][0] @ query)[:-1]
