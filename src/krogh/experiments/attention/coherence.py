"""Lemma A.19 with positions that are only nearly orthogonal: the printed keys fail, dual keys do not.

With |v_i·v_j| ≤ Δ > 0 the source's key Σ_{i in I} v_i scores the relevant positions unequally, by up to 2R(s-1)Δ: the
larger R, the more one of them takes all. The dual key scores every one of them 1, and its error falls exponentially.

Attention does not depend on the bits here, so that the worst input is known: b follows the signs of the weights' error,
and the supremum over all 2^T inputs is the l1 norm of that error. The network is executed there.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from krogh.errors import require, require_integer
from krogh.experiments.theorems import Demonstration, Tables, exact, largest, require_increasing, spread
from krogh.lab import Claim, Figure, claim, experiment, figures, setting
from krogh.tasks.bases import RESERVED, basis
from krogh.theory.constructions.sparse_functions import head_alone
from krogh.theory.constructions.sparse_heads import sparse_head, sufficient_dimension

SOURCE = "dissertation, Lemma A.19 (Δ > 0)"
MODES = ("printed", "dual")
ORDER_ONE = 0.5
"""An error of order 1: of a target in [-1, 1], a quarter of its range."""
NEGLIGIBLE = 1e-8
ROUNDING = 1e-10
"""Scores of size R are rounded at R 2^-53, and R goes up to 10⁴ here."""


@dataclass(frozen=True)
class Settings:
    length: int = setting(50, "context length T")
    s: int = setting(3, "relevant bits")
    dimensions: tuple[int, ...] = setting((400, 4000), "dimensions d of tokens; positions are random signs")
    multiples: tuple[float, ...] = setting((1, 2, 3, 5, 10, 20, 30, 50, 100), "R, in multiples of the dual's own")
    bases: int = setting(8, "random sets of positions per dimension, all with Δ < 1/(2s-1)")


@experiment("attention/coherence")
class Coherence(Demonstration[Settings]):
    """Printed and dual keys on nearly orthogonal positions."""

    title = "On nearly orthogonal positions the printed head gets worse with its norm; a dual key repairs it"
    question = "Does the construction with fixed positions survive when these are not exactly orthogonal?"
    source = SOURCE
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
        require_integer("s", settings.s, 3)  # two positions are scored alike by either key
        require_integer("length", settings.length, settings.s + 1, 2000)
        require_increasing("dimensions", settings.dimensions, RESERVED + 1)
        require_increasing("multiples", settings.multiples, 0.1, 2)
        require_integer("bases", settings.bases, 1)
        for dimension in settings.dimensions:
            admissible(settings, dimension)

    def measure(self, settings: Settings) -> Tables:
        rows = [
            _row(settings, dimension, seed, mode, multiple)
            for dimension in settings.dimensions
            for seed in admissible(settings, dimension)
            for mode, multiple in itertools.product(MODES, settings.multiples)
        ]
        return {"errors": pl.DataFrame(rows)}

    def judge(self, settings: Settings, tables: Tables) -> list[Claim]:
        table = tables["errors"]
        found = []
        for dimension in settings.dimensions:
            own = table.filter(pl.col("dimension") == dimension)
            printed, dual = (own.filter(pl.col("mode") == mode) for mode in MODES)
            last = settings.multiples[-1]
            coherent = largest(own["coherence"])
            where = f"T = {settings.length}, d = {dimension}, s = {settings.s}, Δ ≤ {coherent:.3f}"
            over = f"{settings.bases} sets of positions"
            far: dict[str, Any] = {
                "enough": last >= 100 and settings.bases >= 5,
                "too_small": f"R up to {last:g} times its own, {over}; this needs 100 and 5",
            }
            shared: dict[str, Any] = {"source": SOURCE, "trials": settings.bases}
            strong = printed.filter(pl.col("multiple") == last)
            found += [
                claim(
                    f"printed-fails-d{dimension}",
                    f"Printed keys: at {last:g} times the norm the error is of order 1, for every set of positions "
                    f"({where}).",
                    statistic="largest error over all inputs",
                    interval=spread(strong["error"], over),
                    at_least=ORDER_ONE,
                    source_value="2T exp(-R(1-2sΔ)) → 0",
                    **far,
                    **shared,
                ),
                claim(
                    f"dual-holds-d{dimension}",
                    f"Dual keys: the error keeps to 2(T+1-s)/(s e^{{R(1-ρ)}}), at every norm ({where}).",
                    statistic="largest (error - bound)",
                    interval=exact(largest(dual["error"] - dual["log_bound"].exp())),
                    at_most=ROUNDING,
                    **{**shared, "trials": len(dual)},
                ),
                claim(
                    f"dual-exact-d{dimension}",
                    f"Dual keys: at {last:g} times the norm the error is negligible ({where}).",
                    statistic="largest error over all inputs",
                    interval=spread(dual.filter(pl.col("multiple") == last)["error"], over),
                    at_most=NEGLIGIBLE,
                    **far,
                    **shared,
                ),
            ]
            if 2 * settings.s * coherent < 1:
                found.append(
                    claim(
                        f"printed-bound-false-d{dimension}",
                        f"Printed keys: the error exceeds the lemma's bound at {last:g} times the norm ({where}).",
                        statistic="log10(largest error / (printed bound + rounding))",
                        interval=spread((strong["error"] / (strong["log_bound"].exp() + ROUNDING)).log(10), over),
                        above=0.0,
                        source_value="≤ 0",
                        **far,
                        **shared,
                    )
                )
        return found

    def draw(self, settings: Settings, tables: Tables) -> list[Figure]:
        table = tables["errors"]
        count = len(settings.dimensions)
        fig, axes = figures.new_figure(
            "A larger norm ruins the printed head and perfects the dual one",
            width=4.2 * count + 0.8,
            height=4.2,
            ncols=count,
            sharey=True,
        )
        for ax, dimension in zip(np.ravel(axes), settings.dimensions, strict=True):
            for mode, color in zip(MODES, (figures.VERMILLION, figures.BLUE), strict=True):
                own = table.filter(pl.col("mode") == mode, pl.col("dimension") == dimension)
                points = own.group_by("multiple").agg(
                    pl.col("strength").median(),
                    pl.col("error").min().alias("low"),
                    pl.col("error").median().alias("middle"),
                    pl.col("error").max().alias("high"),
                    (pl.col("log_bound").median()).exp().alias("bound"),
                )
                points = points.sort("multiple")
                x = points["multiple"].to_list()
                low, value, high = (np.maximum(points[name].to_numpy(), 1e-17) for name in ("low", "middle", "high"))
                figures.interval_band(ax, x, low.tolist(), value.tolist(), high.tolist(), color=color)
                ax.plot(x, np.maximum(points["bound"].to_numpy(), 1e-17), color=color, linestyle=":", linewidth=1.2)
                figures.direct_label(ax, x, value.tolist(), mode, color=color)
            figures.log_axis_labels(ax, "both")
            ax.set_ylim(1e-17, 10)
            ax.set_xlabel("R, in multiples of the dual construction's")
            own = table.filter(pl.col("dimension") == dimension)
            deltas = np.sort(own["coherence"].to_numpy())
            figures.panel_title(ax, f"d = {dimension}, Δ = {deltas[0]:.3f} to {deltas[-1]:.3f}")
        np.ravel(axes)[0].set_ylabel("largest error over all inputs")
        figures.source_note(fig, SOURCE)
        caption = (
            f"Heads that average s = {settings.s} of T = {settings.length} signs, on random positions; lines are "
            f"medians over {settings.bases} sets of positions, bands their range. Dotted: the bounds, that of the "
            "lemma (vermillion) and the repaired one (blue); what is below 10⁻¹⁷ is drawn there."
        )
        title = "Error of printed and dual keys against the norm of the query"
        return [Figure("coherence", title, caption, fig, table)]


def admissible(settings: Settings, dimension: int) -> tuple[int, ...]:
    """The first seeds whose positions have Δ < 1/(2s-1)."""
    limit = 1 / (2 * settings.s - 1)
    found: list[int] = []
    for seed in range(10 * settings.bases):
        if basis(settings.length, dimension, seed, exact=False).coherence < limit:
            found.append(seed)
        if len(found) == settings.bases:
            return tuple(found)
    enough = sufficient_dimension(settings.length, limit, exact=False)
    require(
        False,
        f"random positions in dimension {dimension} are hardly ever less coherent than 1/(2s-1) = {limit:.3g}; "
        f"got dimensions={settings.dimensions} (try {enough})",
    )
    raise AssertionError


def _row(settings: Settings, dimension: int, seed: int, mode: Any, multiple: float) -> dict[str, Any]:
    """The largest error of one head, executed on the worst of all inputs, and the log of what its lemma allows."""
    T, s = settings.length, settings.s
    support = tuple(range(s))
    common: Any = {"dimension": dimension, "basis_seed": seed, "exact": False}
    own = sparse_head("det_single", T, support, **common)
    R = multiple * own.strength
    made = head_alone(T, support=support, head="det_single", mode=mode, strength=R, **common)
    target = np.where(np.arange(T) < s, 1 / s, 0.0)
    x = np.where(attention_of(made.params) >= target, 1.0, -1.0)[None]
    error = float(np.abs(made.outputs(x)[0] - x[0] @ target))
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


def attention_of(params: dict[str, np.ndarray]) -> np.ndarray:
    """What the first head attends to among the positions, the same whatever the bits; shape [T]."""
    query = params["cls"] @ params["Q"][0]
    rows = np.concatenate([params["E"][0] + params["P"], params["cls"][None]])
    scores = rows @ params["K"][0] @ query
    weights = np.exp(scores - scores.max())
    return np.asarray((weights / weights.sum())[:-1])
