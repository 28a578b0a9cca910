"""Does one weight on the signs of random neurons pick one smooth function of one token (Lemmas 5.1 and 5.2)?

Means over random neurons of infinite width, drawn from the Gaussian law of what they see
(`krogh.theory.recurrence.gram`) and inside the event of Lemma 5.2, beside the closed form of the same expectations. All
tokens of the sequence are equal, and the direction is theirs: positions differ by nothing but the states before them.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from krogh.lab import Claims, Experiment, Figure, Results, Tables, experiment, groups, maximum, need, setting
from krogh.lab.estimate import Estimate, largest, normal
from krogh.lab.experiment import Measures
from krogh.networks.recurrence.selector import (
    expected_selection,
    polynomial,
    selection_moments,
    sigma_at,
    token_weight,
    weigh_tokens,
)
from krogh.tasks.series import find_series
from krogh.tasks.token_sequences import BIAS, REST, base_sequence, normalise_tokens

CHUNK = 200_000
"""Neurons that are drawn at once."""
DX = 3
SIGMA = 1.0
"""The noise of Lemma 5.1 in the table of single tokens."""
ANGLES = (-1.0, -0.4, 0.0, 0.7, 1.0)
"""⟨w*, x*⟩ there, in units of √3/2."""
SMALL, LARGE = 0.01, 0.1
"""The two ε_x whose leakage is compared."""
REFERENCE = {0.1: 0.21, 0.03: 0.067, 0.01: 0.020}
"""Largest leakage for φ = z, computed beforehand by Monte Carlo with other tokens."""


@dataclass(frozen=True)
class Settings:
    samples: int = setting(2_000_000, "random neurons per mean", least=2)
    series: tuple[str, ...] = setting(("z", "z^2"), "functions φ", distinct=True)
    eps: tuple[float, ...] = setting((0.01, 0.03, 0.1), "token sizes ε_x", above=0, most=1, increasing=True)
    share: float = setting(0.05, "ε_c/ε_x, the width of the event", above=0)
    length: int = setting(6, "positions L", least=4)
    position: int = setting(4, "the position i that is selected", least=3)
    gammas: tuple[float, ...] = setting(
        (1.0, 3.0, 10.0, 30.0, 100.0), "factors γ of the noise of a single token", least=1, increasing=True
    )


@experiment("recurrence/selector")
class SelectorExperiment(Experiment[Settings]):
    """Means over random neurons, on the token that is asked for and on others."""

    title = "A weight on random signs picks one function of one token; from others leaks a part of order ε_x"
    question = "Does the weight of Lemma 5.2 give φ at its own position, and what does it let through from others?"
    source = "Can SGD learn RNNs with provable generalization?, Lemmas 5.1 and 5.2"
    scales = {
        "smoke": Settings(samples=20_000, eps=(0.01, 0.1), gammas=(1.0, 10.0)),
        "laptop": Settings(),
        "paper": Settings(
            samples=200_000_000, series=("z", "z^2", "z^3-z", "sin(1)"), eps=(0.01, 0.02, 0.05, 0.1, 0.2)
        ),
    }
    notes = (
        "Neither lemma has an experiment in the source, which asserts that such weights exist. Here they are written "
        "down.",
        "Neurons are drawn inside the event and H is not divided by its probability, which is the same expectation; "
        "drawn outright, two million neurons would leave some 500 in the event at ε_x = 0.01.",
        "Leakage is of order ε_x for φ = z. For φ = z² the closed form falls like ε_x³, for H is then odd in the "
        "token's bias: below what Monte Carlo resolves, so that its ratio is that of the closed form.",
    )

    def check(self, settings: Settings) -> None:
        for name in settings.series:
            find_series(name)

    def measure(self, results: Results[Settings]) -> Measures:
        s = results.settings
        return {"tokens": lambda: _single_tokens(s), "positions": lambda: _positions(s)}

    def claims(self, tables: Tables[Settings], say: Claims) -> None:
        s, tokens, positions = tables.settings, tables["tokens"], tables["positions"]
        drawn = need(s.samples, 1_000_000, "neurons per mean")
        for name in s.series:
            part = say.about(f"{name}-", f"φ = {name}: ", needs=[drawn])
            own = tokens.filter(series=name, gamma=1.0)
            part(
                "token",
                "on a token with its bias and noise σ = 1, the mean is φ(⟨w*, x*⟩).",
                _scores(own, "phi"),
                "largest |mean − φ| / standard error",
                at_most=4,
                source="Can SGD learn RNNs with provable generalization?, Lemma 5.1a",
                source_value="within 4 standard errors",
                needs=[need(len(own), 1, "rows with γ = 1")],
            )
            part(
                "token-closed-form",
                "with γ times the noise, the mean is that of the closed form.",
                _scores(tokens.filter(series=name), "closed"),
                "largest |mean − closed form| / standard error",
                at_most=4,
                source="Can SGD learn RNNs with provable generalization?, Lemma 5.1b",
            )
            here = positions.filter(series=name)
            part(
                "on-target",
                f"at position i = {s.position}, the mean is φ(⟨w*, x*_i⟩) for every ε_x.",
                _scores(here.filter(position=s.position), "phi"),
                "largest |mean − φ| / standard error",
                at_most=4,
                source_value="within 4 standard errors: −0.864, −0.870, −0.869 for −0.866",
            )
            part(
                "closed-form",
                "at every position, the mean is that of the closed form.",
                _scores(here, "closed"),
                "largest |mean − closed form| / standard error",
                at_most=4,
            )
        ends = [need(len({SMALL, LARGE} & set(s.eps)), 2, f"of ε_x = {SMALL} and {LARGE}, which are compared")]
        off = positions.filter(pl.col("position") != s.position)
        if "z" in s.series:
            leaks = [_leakage(off.filter(series="z"), eps) for eps in (LARGE, SMALL)]
            say(
                "leakage",
                "φ = z: what leaks from other positions is proportional to ε_x.",
                leaks[0] / leaks[1],
                f"largest |mean| off target, ε_x = {LARGE} / {SMALL}",
                between=(5, 20),
                source_value="0.21/0.020 = 10",
                needs=[drawn, *ends],
            )
        for name in s.series:
            sizes = [largest(_closed(off, name, eps)) for eps in (LARGE, SMALL)]
            say(
                f"{name}-leakage-vanishes",
                f"φ = {name}: what leaks falls at least like ε_x, in closed form.",
                sizes[0] / sizes[1],
                f"largest off target, ε_x = {LARGE} / {SMALL}",
                at_least=5,
                source_value="10 for φ = z",
                needs=ends,
            )

    def figures(self, tables: Tables[Settings]) -> Iterator[Figure]:
        s, table = tables.settings, tables["positions"]
        chart = self.chart("selector", "What a selector reads at each position", columns=3, width=12.6, height=3.9)
        left = chart.panel(
            x="position l", y="mean over neurons", title=f"φ = {s.series[0]}", xticks=list(range(2, s.length + 1))
        )
        phi = table.filter(series=s.series[0], position=s.position)["phi"][0]
        for eps, own in groups(table.filter(series=s.series[0]), "eps").items():
            error = 1.96 * own["error"]
            left.band(
                own["position"], own["mean"] - error, own["mean"], own["mean"] + error, f"ε_x = {eps:g}", key="legend"
            )
        left.reference(phi, f"φ(⟨w*, x*⟩) = {phi:.3f}")
        middle = chart.panel(x="token size ε_x", y="largest |mean| off target", title="Leakage", log="xy", xticks=s.eps)
        right = chart.panel(x="γ, noise in units of σ", y="|mean| at ⟨w*, x*⟩ = √3/2", title="One token", log="xy")
        for name in s.series:
            color = middle.color()
            off = table.filter(pl.col("position") != s.position, series=name)
            middle.line(s.eps, [_closed(off, name, eps).max() for eps in s.eps], f"φ = {name}", color=color)
            clear = off.filter(pl.col("mean").abs() > 4 * pl.col("error"))
            largest_mean = clear.group_by("eps").agg(pl.col("mean").abs().max())
            middle.dots(largest_mean["eps"], largest_mean["mean"], color=color)
            own = tables["tokens"].filter(series=name).filter(pl.col("projection") == pl.col("projection").max())
            right.line(own["gamma"], own["closed"].abs(), f"φ = {name}", color=color)
            clear = own.filter(pl.col("mean").abs() > 4 * pl.col("error"))
            right.dots(clear["gamma"], clear["mean"].abs(), color=color)
        yield chart.figure(
            f"Means over {s.samples:,} random neurons of infinite width, inside the event of Lemma 5.2 for position "
            f"i = {s.position} of {s.length}; all tokens are equal and ⟨w*, x*⟩ = −√3/2. Left: with intervals. Middle: "
            "the largest at another position, closed form (dashed) and mean (dots, where it is 4 standard errors or "
            "more from 0). Right: a single token whose noise is γ times what the weight was made for (Lemma 5.1b).",
            table,
        )


def _scores(rows: pl.DataFrame, against: str) -> Estimate:
    return largest(((rows["mean"] - rows[against]).abs() / rows["error"]).to_numpy())


def _closed(off: pl.DataFrame, series: str, eps: float) -> NDArray[np.float64]:
    """|closed form| at positions that are not asked for."""
    return off.filter(series=series, eps=eps)["closed"].abs().to_numpy()


def _leakage(off: pl.DataFrame, eps: float) -> Estimate:
    """The largest |mean| at a position that is not asked for; ends of sequences, where it is 0 exactly, left out."""
    rows = off.filter(pl.col("eps") == eps, pl.col("closed") != 0)
    parts = [
        abs(normal(row["mean"], row["error"] * math.sqrt(row["samples"]), row["samples"], sample=repr(row)))
        for row in rows.iter_rows(named=True)
    ]
    return maximum(parts, nothing=f"nothing was measured at ε_x = {eps}")


class _Mean:
    """Mean and standard error of numbers that come in chunks [neurons, places]."""

    def __init__(self) -> None:
        self.count, self.sum, self.squares = 0, np.float64(0), np.float64(0)

    def add(self, values: NDArray[np.float64]) -> None:
        self.count += len(values)
        self.sum = self.sum + values.sum(axis=0)
        self.squares = self.squares + (values**2).sum(axis=0)

    def result(self) -> tuple[Any, Any]:
        mean = self.sum / self.count
        return mean, np.sqrt((self.squares / self.count - mean**2) / self.count)


def _chunks(samples: int) -> Iterator[int]:
    for start in range(0, samples, CHUNK):
        yield min(CHUNK, samples - start)


def _single_tokens(s: Settings) -> pl.DataFrame:
    """Lemma 5.1: the mean of 1{⟨a, x*⟩ + γn ≥ 0} H(a) for several tokens and noises."""
    rows = []
    rng = np.random.default_rng(1)
    direction = np.array([1.0, 0.0, 0.0])
    side = np.sqrt(1 - np.square(ANGLES))
    tokens = np.stack([REST * np.array(ANGLES), REST * side, np.full(len(ANGLES), BIAS)], axis=1)
    for name in s.series:
        c = polynomial(name)
        weight, formula = token_weight(c, SIGMA), np.polynomial.Polynomial(c)
        for gamma in s.gammas:
            mean = _Mean()
            for size in _chunks(s.samples):
                a, n = rng.standard_normal((size, DX)), SIGMA * rng.standard_normal(size)
                mean.add(
                    np.where(a @ tokens.T + gamma * n[:, None] >= 0, weigh_tokens(weight, a, direction)[:, None], 0)
                )
            values, errors = mean.result()
            radius = math.sqrt(REST**2 + (gamma * SIGMA) ** 2)
            for token, value, error in zip(tokens, values, errors, strict=True):
                z = float(token[0])
                rows.append(
                    {"series": name, "gamma": gamma, "projection": z, "mean": float(value), "error": float(error)}
                    | {"phi": float(formula(z)), "closed": float(weight.response(z, radius))}
                )
    return pl.DataFrame(rows)


def _positions(s: Settings) -> pl.DataFrame:
    """Lemma 5.2 at infinite width: what a selector made for position i reads at positions 2..L."""
    rows = []
    rng = np.random.default_rng(2)
    token = np.array([REST, 0.0, BIAS])
    tokens, direction = np.tile(token, (s.length - 2, 1)), np.array([-1.0, 0.0, 0.0])
    for name in s.series:
        c = polynomial(name)
        for eps in s.eps:
            x = np.asarray(normalise_tokens(tokens, eps, "eps"), np.float64)[1:]
            whole = np.asarray(normalise_tokens(tokens, eps, "eps"), np.float64)
            base = np.asarray(base_sequence(s.length, DX, eps, "eps"), np.float64)
            along, variance, norm = selection_moments(whole, base, s.position)
            weight = token_weight(c, sigma_at(s.length, DX, eps)[s.position])
            edge, mean = s.share * eps / math.sqrt(2), _Mean()
            for size in _chunks(s.samples):
                z = _inside(rng, size, edge, norm)
                seen = along[1:] * z[:, None] + np.sqrt(variance[1:]) * rng.standard_normal((size, s.length - 1))
                a = rng.standard_normal((size, DX + 1))
                mean.add(np.where(seen + a @ x.T >= 0, weigh_tokens(weight, a[:, :DX], direction)[:, None], 0))
            values, errors = mean.result()
            closed = expected_selection(tokens, direction, c, s.position, eps, s.share * eps)[1:]
            for place, (value, error, limit) in enumerate(zip(values, errors, closed, strict=True), start=2):
                phi = float(np.polynomial.Polynomial(c)(float(direction @ token))) if place == s.position else 0.0
                rows.append(
                    {"series": name, "eps": eps, "position": place, "mean": float(value), "error": float(error)}
                    | {"phi": phi, "closed": float(limit), "samples": s.samples}
                )
    return pl.DataFrame(rows)


def _inside(rng: np.random.Generator, size: int, edge: float, norm: float) -> NDArray[np.float64]:
    """⟨w, h⁰⟩√(m/2) ~ N(0, norm²), given that it is at most `edge` in size: by rejection from the uniform law."""
    found = np.empty(0)
    while len(found) < size:
        z = rng.uniform(-edge, edge, size)
        found = np.append(found, z[rng.uniform(size=size) <= np.exp(-((z / norm) ** 2) / 2)])
    return found[:size]
