"""Section 4.5, Hahn's limit: at fixed norms one bit's influence on a head vanishes, and log T of norm restores it.

The head that averages s positions is executed with one bit flipped. At a fixed score R the influence of a
relevant bit is 2e^R/(s e^R + T + 1 - s), which falls as 1/T; with R = log(8T/γ) it stays at 2/(s + γ/8).
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from krogh.errors import require, require_integer
from krogh.experiments.theorems import Demonstration, Tables, exact, largest, require_increasing, slope
from krogh.lab import Claim, Figure, claim, experiment, figures, setting
from krogh.theory.capacity import influence
from krogh.theory.constructions.base import Construction
from krogh.theory.constructions.sparse_functions import head_alone
from krogh.theory.predictions.attention_limits import influence_limit
from krogh.theory.predictions.inputs import check_open

SOURCE = "dissertation, section 4.5"
EXACT = 1e-9
LONGEST = 10**6
FLIPPED = 4
"""Contexts in which a bit is flipped: all 0, all 1 and random ones. Attention ignores the bits, so one would do."""
FIXED = "R = 2: 0.490, 0.123, 0.0145, 0.00147 at T = 10, 10², 10³, 10⁴"
GROWING = "0.652, 0.649, 0.6487, 0.6487 at T = 10, 10², 10³, 10⁴"


@dataclass(frozen=True)
class Settings:
    lengths: tuple[int, ...] = setting((10, 30, 100, 300, 1000, 3000, 10_000, 30_000, 100_000), "context lengths T")
    s: int = setting(3, "relevant bits")
    scores: tuple[float, ...] = setting((0.5, 2.0, 5.0), "fixed scores R of relevant positions")
    enumerated: int = setting(10, "longest context whose influence is found over all 2^T inputs and all positions")


@experiment("attention/influence")
class Influence(Demonstration[Settings]):
    """Influence of a relevant bit at fixed and at growing norms."""

    title = "At constant norms a bit's influence vanishes as 1/T; a norm of log T keeps it"
    question = "How much does one relevant bit move an attention head as its context grows?"
    source = SOURCE
    scales = {
        "smoke": Settings(lengths=(8, 80, 800, 8000), scores=(2.0,), enumerated=8),
        "laptop": Settings(),
        "paper": Settings(),
    }
    notes = (
        "Positions are those that the construction chooses (Lemma A.20), four-dimensional at any T; its scores are "
        "exactly those of fixed orthogonal positions (Lemma A.19), with which it is compared on all inputs of a short "
        "context.",
    )

    def check(self, settings: Settings) -> None:
        require_integer("s", settings.s, 1)
        require_increasing("lengths", settings.lengths, settings.s, 2)
        require(settings.lengths[-1] <= LONGEST, f"lengths must be at most {LONGEST}; got {settings.lengths[-1]}")
        require_integer("enumerated", settings.enumerated, settings.s, 14)
        require(settings.scores, "scores must name at least one fixed R; got none")
        for score in settings.scores:
            check_open("a score", score, 0)

    def measure(self, settings: Settings) -> Tables:
        rows = []
        for score in (*settings.scores, None):
            for length in settings.lengths:
                head = _head("train_single", length, settings.s, score)
                predicted = influence_limit(length, settings.s, score)
                relevant, other = _flips(head, length, settings.s)
                rows.append((_name(score), score, length, relevant, other, predicted["influence"], predicted["limit"]))
        small = []
        for kind in ("det_single", "train_single"):
            for score in (*settings.scores, None):
                head = _head(kind, settings.enumerated, settings.s, score)
                found = influence(functools.partial(_of_bits, head), settings.enumerated)
                predicted = influence_limit(settings.enumerated, settings.s, score)["influence"]
                small.append((kind, _name(score), float(found[: settings.s].min()), float(found.max()), predicted))
        columns = ["norm", "score", "length", "influence", "irrelevant", "predicted", "limit"]
        schema = {name: pl.String if name == "norm" else pl.Float64 for name in columns} | {"length": pl.Int64}
        return {
            "flips": pl.DataFrame(rows, schema=schema, orient="row"),
            "all": pl.DataFrame(small, schema=["head", "norm", "least", "largest", "predicted"], orient="row"),
        }

    def judge(self, settings: Settings, tables: Tables) -> list[Claim]:
        flips, every = tables["flips"], tables["all"]
        fixed, growing = flips.drop_nulls("score"), flips.filter(pl.col("score").is_null())
        lengths = growing["length"].to_list()
        over = f"T = {lengths[0]} to {lengths[-1]}, s = {settings.s}"
        far: dict[str, Any] = {
            "enough": lengths[-1] >= 1000 and lengths[-1] >= 1000 * lengths[0],
            "too_small": f"the longest context is {lengths[-1]}; a limit needs 1000, and a factor of 1000",
        }
        shared: dict[str, Any] = {"source": SOURCE, "trials": 2 * FLIPPED * len(lengths)}
        slopes = [_last_slope(own) for _, own in fixed.group_by("score", maintain_order=True)]
        limit = float(growing["limit"][-1])
        return [
            *(
                claim(
                    f"{name}-formula",
                    f"{text}: flipping a relevant bit moves the head by 2e^R/(s e^R + T+1-s) exactly ({over}).",
                    statistic="largest |influence - formula|",
                    interval=exact(largest((own["influence"] - own["predicted"]).abs())),
                    at_most=EXACT,
                    source_value=source_value,
                    **shared,
                )
                for name, text, own, source_value in (
                    ("fixed", "Fixed R", fixed, FIXED if settings.s == 3 else ""),
                    ("growing", "R = log(8T/γ)", growing, GROWING if settings.s == 3 else ""),
                )
            ),
            claim(
                "enumerated",
                f"Over all inputs and positions of T = {settings.enumerated} the influence of every relevant bit is "
                "the formula's, with fixed and with chosen positions.",
                statistic="largest |influence - formula|",
                interval=exact(
                    max(largest((every[column] - every["predicted"]).abs()) for column in ("least", "largest"))
                ),
                at_most=EXACT,
                **{**shared, "trials": len(every) * 2**settings.enumerated},
            ),
            claim(
                "fixed-norm-vanishes",
                f"At every fixed R ({', '.join(f'{score:g}' for score in settings.scores)}) influence falls as 1/T.",
                statistic="largest slope of log influence on log T, over the last factor of 10",
                interval=exact(largest(slopes)),
                at_most=-0.95,
                source_value="→ 0 as T → ∞",
                **far,
                **shared,
            ),
            claim(
                "log-norm-keeps",
                f"With R = log(8T/γ) influence tends to 2/(s + γ/8) = {limit:.4f}.",
                statistic=f"|influence at T = {lengths[-1]} / limit - 1|",
                interval=exact(abs(float(growing["influence"][-1]) / limit - 1)),
                at_most=1e-3,
                source_value="2/(s + γ/8)",
                **far,
                **shared,
            ),
        ]

    def draw(self, settings: Settings, tables: Tables) -> list[Figure]:
        flips = tables["flips"]
        fig, ax = figures.new_figure(
            "A relevant bit is lost in a long context, unless the norm grows", width=6.8, height=4.2
        )
        for color, name in zip(figures.PALETTE, dict.fromkeys(flips["norm"]), strict=False):
            own = flips.filter(pl.col("norm") == name)
            lengths = own["length"].to_list()
            fine = np.unique(np.geomspace(lengths[0], lengths[-1], 100).astype(int))
            score = own["score"][0]
            curve = [influence_limit(int(length), settings.s, score)["influence"] for length in fine]
            ax.plot(fine, curve, color=color, linewidth=1)
            ax.plot(lengths, own["influence"], "o", color=color, markersize=4.5)
            figures.direct_label(ax, lengths, own["influence"].to_list(), name, color=color)
        figures.log_axis_labels(ax, "both")
        ax.set_xlabel("context length T")
        ax.set_ylabel("influence of a relevant bit")
        figures.source_note(fig, SOURCE)
        caption = (
            f"Points: the head that averages s = {settings.s} positions, executed with one relevant bit flipped in "
            f"{FLIPPED} contexts, max |f(b) - f(b ⊕ e_i)|. Lines: 2e^R/(s e^R + T+1-s)."
        )
        title = "Influence of a relevant bit at fixed and at growing norms"
        return [Figure("influence", title, caption, fig, flips)]


def _name(score: float | None) -> str:
    return "R = log(8T/γ)" if score is None else f"R = {score:g}"


def _head(kind: Any, length: int, s: int, score: float | None) -> Construction:
    return head_alone(length, s, head=kind, strength=score)


def _of_bits(head: Construction, bits: np.ndarray) -> np.ndarray:
    return head.outputs(1 - 2 * bits)


def _flips(head: Construction, length: int, s: int) -> tuple[float, float]:
    """The largest change of the output when a relevant bit is flipped, and when an irrelevant one is (NaN: none)."""
    random = np.random.default_rng(length)
    x = np.concatenate([np.ones((1, length)), -np.ones((1, length)), random.choice([-1.0, 1.0], (FLIPPED - 2, length))])
    before = head.outputs(x)
    changes = []
    for place in (int(random.integers(s)), length - 1):
        moved = x.copy()
        moved[:, place] *= -1
        changes.append(float(np.abs(head.outputs(moved) - before).max()))
    return changes[0], changes[1] if length > s else math.nan


def _last_slope(own: pl.DataFrame) -> float:
    """The slope of log influence on log T over the last factor of ten."""
    last = own.filter(pl.col("length") * 10 >= own["length"].max())
    return slope(np.log(last["length"]), np.log(last["influence"])) if len(last) > 1 else math.nan
