"""Section 4.5, Hahn's limit: at fixed norms one bit's influence on a head vanishes, and log T of norm restores it.

The head that averages s positions is executed with one bit flipped. At a fixed score R the influence of a
relevant bit is 2e^R/(s e^R + T + 1 - s), which falls as 1/T; with R = log(8T/γ) it stays at 2/(s + γ/8).
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from krogh.errors import require
from krogh.experiments.attention.common import law_needs
from krogh.lab import Claims, Experiment, Figure, Results, Tables, experiment, groups, need, setting
from krogh.lab.estimate import exact, largest
from krogh.lab.experiment import Measures
from krogh.lab.fits import line_slope
from krogh.networks.handmade import Construction
from krogh.networks.sparse_functions import head_alone
from krogh.theory.attention.complexity import influence
from krogh.theory.attention.limits import influence_limit

EXACT = 1e-9
FLIPPED = 4
"""Contexts in which a bit is flipped: all 0, all 1 and random ones. Attention ignores the bits, so one would do."""
FIXED = "R = 2: 0.490, 0.123, 0.0145, 0.00147 at T = 10, 10², 10³, 10⁴"
GROWING = "0.652, 0.649, 0.6487, 0.6487 at T = 10, 10², 10³, 10⁴"
FLIPS = dict.fromkeys(["norm", "score", "length", "influence", "irrelevant", "predicted", "limit"], pl.Float64) | {
    "norm": pl.String,
    "length": pl.Int64,
}


@dataclass(frozen=True)
class Settings:
    lengths: tuple[int, ...] = setting(
        (10, 30, 100, 300, 1000, 3000, 10_000, 30_000, 100_000),
        "context lengths T",
        increasing=True,
        fewest=2,
        most=10**6,
    )
    s: int = setting(3, "relevant bits", least=1)
    scores: tuple[float, ...] = setting((0.5, 2.0, 5.0), "fixed scores R of relevant positions", distinct=True, above=0)
    enumerated: int = setting(
        10, "longest context whose influence is found over all 2^T inputs and all positions", most=14
    )


@experiment("attention/influence")
class Influence(Experiment[Settings]):
    """Influence of a relevant bit at fixed and at growing norms."""

    title = "At constant norms a bit's influence vanishes as 1/T; a norm of log T keeps it"
    question = "How much does one relevant bit move an attention head as its context grows?"
    source = "dissertation, section 4.5"
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
        for name, length in (("lengths", settings.lengths[0]), ("enumerated", settings.enumerated)):
            require(length >= settings.s, f"{name} must be at least s={settings.s}; got {name}={length}")

    def measure(self, results: Results[Settings]) -> Measures:
        """One bit flipped in contexts of every length; and every bit in all contexts of a short one."""
        return {"flips": lambda: _flip_table(results.settings), "all": lambda: _enumerated(results.settings)}

    def claims(self, tables: Tables[Settings], say: Claims) -> None:
        settings, flips, every = tables.settings, tables["flips"], tables["all"]
        fixed, growing = flips.drop_nulls("score"), flips.filter(pl.col("score").is_null())
        lengths = growing["length"].to_list()
        over = f"T = {lengths[0]} to {lengths[-1]}, s = {settings.s}"
        for name, text, own, source_value in (
            ("fixed", "Fixed R", fixed, FIXED),
            ("growing", "R = log(8T/γ)", growing, GROWING),
        ):
            say(
                f"{name}-formula",
                f"{text}: flipping a relevant bit moves the head by 2e^R/(s e^R + T+1-s) exactly ({over}).",
                largest((own["influence"] - own["predicted"]).abs(), trials=FLIPPED * len(own)),
                "largest |influence - formula|",
                at_most=EXACT,
                source_value=source_value if settings.s == 3 else "",
            )
        missed = [(every[column] - every["predicted"]).abs() for column in ("least", "largest")]
        say(
            "enumerated",
            f"Over all inputs and positions of T = {settings.enumerated} the influence of every relevant bit is "
            "the formula's, with fixed and with chosen positions.",
            largest(missed, trials=len(every) * 2**settings.enumerated),
            "largest |influence - formula|",
            at_most=EXACT,
        )
        far = [need(lengths[-1], 1000, "is the longest context"), *law_needs(lengths, 1000, fewest=2)]
        say(
            "fixed-norm-vanishes",
            f"At every fixed R ({', '.join(f'{score:g}' for score in settings.scores)}) influence falls as 1/T.",
            largest([_last_slope(own) for own in groups(fixed, "score").values()], trials=FLIPPED * len(fixed)),
            "largest slope of log influence on log T, over the last factor of 10",
            at_most=-0.95,
            source_value="→ 0 as T → ∞",
            needs=far,
        )
        limit = float(growing["limit"][-1])
        say(
            "log-norm-keeps",
            f"With R = log(8T/γ) influence tends to 2/(s + γ/8) = {limit:.4f}.",
            exact(abs(float(growing["influence"][-1]) / limit - 1), FLIPPED),
            f"|influence at T = {lengths[-1]} / limit - 1|",
            at_most=1e-3,
            source_value="2/(s + γ/8)",
            needs=far,
        )

    def figures(self, tables: Tables[Settings]) -> Iterable[Figure]:
        s = tables.settings.s
        chart = self.chart(
            "influence",
            "Influence of a relevant bit at fixed and at growing norms",
            headline="A relevant bit is lost in a long context, unless the norm grows",
            width=6.8,
            height=4.2,
        )
        panel = chart.panel(x="context length T", y="influence of a relevant bit", log="xy")
        for name, own in groups(tables["flips"], "norm").items():
            color, lengths, score = panel.color(), own["length"], own["score"][0]
            fine = np.unique(np.geomspace(lengths[0], lengths[-1], 100).astype(int))
            panel.dots(lengths, own["influence"], color=color, alpha=1.0)
            curve = [influence_limit(int(length), s, score)["influence"] for length in fine]
            panel.line(fine, curve, name, color=color, style="-", width=1)
        yield chart.figure(
            f"Points: the head that averages s = {s} positions, executed with one relevant bit flipped in {FLIPPED} "
            "contexts, max |f(b) - f(b ⊕ e_i)|. Lines: 2e^R/(s e^R + T+1-s).",
            tables["flips"],
        )


def _flip_table(settings: Settings) -> pl.DataFrame:
    rows = []
    for score, length in itertools.product((*settings.scores, None), settings.lengths):
        predicted = influence_limit(length, settings.s, score)
        relevant, other = _flips(
            head_alone(length, settings.s, head="train_single", strength=score), length, settings.s
        )
        rows.append((_name(score), score, length, relevant, other, predicted["influence"], predicted["limit"]))
    return pl.DataFrame(rows, schema=FLIPS, orient="row")


def _enumerated(settings: Settings) -> pl.DataFrame:
    kinds: Any = ("det_single", "train_single")
    rows = []
    for kind, score in itertools.product(kinds, (*settings.scores, None)):
        head = head_alone(settings.enumerated, settings.s, head=kind, strength=score)
        moved = influence(functools.partial(_of_bits, head), settings.enumerated)
        predicted = influence_limit(settings.enumerated, settings.s, score)["influence"]
        rows.append((kind, _name(score), float(moved[: settings.s].min()), float(moved.max()), predicted))
    return pl.DataFrame(rows, schema=["head", "norm", "least", "largest", "predicted"], orient="row")


def _of_bits(head: Construction, bits: np.ndarray) -> np.ndarray:
    return head.run(1 - 2 * bits)


def _name(score: float | None) -> str:
    return "R = log(8T/γ)" if score is None else f"R = {score:g}"


def _flips(head: Construction, length: int, s: int) -> tuple[float, float]:
    """The largest change of the output when a relevant bit is flipped, and when an irrelevant one is (NaN: none)."""
    random = np.random.default_rng(length)
    x = np.concatenate([np.ones((1, length)), -np.ones((1, length)), random.choice([-1.0, 1.0], (FLIPPED - 2, length))])
    before = head.run(x)
    changes = []
    for place in (int(random.integers(s)), length - 1):
        moved = x.copy()
        moved[:, place] *= -1
        changes.append(float(np.abs(head.run(moved) - before).max()))
    return changes[0], changes[1] if length > s else math.nan


def _last_slope(own: pl.DataFrame) -> float:
    """The slope of log influence on log T over the last factor of ten."""
    last = own.filter(pl.col("length") * 10 >= own["length"].max())
    return line_slope(np.log(last["length"]), np.log(last["influence"]))
