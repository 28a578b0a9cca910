"""Why positions are written in binary: the gap by which attention finds one of T of them (SM paper, Section 4.2).

Attention that finds a position by a number of size 1/T, as earlier constructions do, has to tell scores apart that
differ by a power of 1/T, and weights may not move by more. Binary codes have log T entries, and a gap of 1.

One head with a null slot, as in the retrieval step of compiled machines (Claim C.6). Position t has a fixed code; query
and key are affine in it, with entries of at most 2, and the head must attend to position s alone when asked for s:

    binary       q = (2 Bin(s) - 1, 1),             k = (2 Bin(t) - 1, 0)         W, less 2 for each bit that differs
    1/t          q = (2/s, -1, -1/s², 1),           k = (1/t, 1/t², 1, 0)         -(1/s - 1/t)²
    t/T          the same with s/T and t/T                                        -(s - t)²/T²
    angle        q = (cos, sin, 1) of 2πs/T,        k = (cos, sin, 0) of 2πt/T    cos(2π(s - t)/T)

The null key stands half way between a match and the nearest miss. Positions hold signs that alternate, so that the
wrong neighbour gives the wrong answer.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import jax.numpy as jnp
import numpy as np
import polars as pl
from numpy.typing import NDArray

from krogh.experiments.approximation.common import NO_EXPERIMENTS, SOLID, in_words
from krogh.lab import (
    Chart,
    Claims,
    Curve,
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
from krogh.lab.estimate import exact, largest
from krogh.lab.experiment import Measures
from krogh.lab.fits import exponent, line_slope
from krogh.networks.machines.layout import binary
from krogh.networks.margins.search import Scan

Array = NDArray[np.float64]
COLORS = {"binary": figures.BLUE, "1/t": figures.VERMILLION, "t/T": figures.ORANGE, "angle": figures.PURPLE}
CODES = tuple(COLORS)
COARSE = {"float32": "-", "bfloat16": "--"}
FEWEST_TIMES, FEWEST_DIRECTIONS = 4, 10
TARGETS = 8
"""Positions that are asked for when weights are perturbed, spread from the first to the last."""
AT_ONCE = 1 << 22
"""Scores that are held at once."""


@dataclass(frozen=True)
class Settings:
    codes: tuple[str, ...] = setting(CODES, "codes of positions", among=CODES, distinct=True)
    times: tuple[int, ...] = setting(
        tuple(2**k for k in range(2, 12)), "numbers T of positions", increasing=True, fewest=2, least=4, most=2**16
    )
    directions: int = setting(40, "random directions along which all weights are perturbed, both ways", least=1)
    low: float = setting(1e-15, "smallest norm that is tried")
    high: float = setting(100.0, "largest norm that is tried")
    ratio: float = setting(1.333521, "between two norms that are tried: eight in a decade")
    seed: int = setting(0, "of the directions", least=0)


@experiment("approximation/position-codes")
class PositionCodes(Experiment[Settings]):
    """Score gaps and noise that retrieval by position bears, for binary and scalar codes, against T."""

    title = "Binary codes of positions keep attention's gap at 1; scalar ones lose it as a power of T"
    question = "How does the gap of attention, and the noise it bears, change with the number of positions?"
    source = "SM paper, Section 4.2"
    scales = {
        "smoke": Settings(times=(4, 16, 64), directions=5, ratio=3.162278),
        "laptop": Settings(),
        "paper": Settings(times=tuple(2**k for k in range(2, 14)), directions=200),
    }
    notes = (
        NO_EXPERIMENTS,
        "Codes 1/t, t/T and the angle are compared at entries of queries and keys of at most 2: a gap can be bought "
        "back with weights that grow with T. That is what the 1-norm in the sample size forbids.",
        "Attention is bilinear here, so that a scalar code is matched by a square, −(1/s − 1/t)²; with |1/s − 1/t| "
        "the gap would fall as 1/T² instead of 1/T⁴.",
        "Gaps, and noise of fewer than ten directions or fewer than four T, decide nothing about powers.",
    )

    def check(self, settings: Settings) -> None:
        Scan(settings.low, settings.high, settings.ratio)

    def measure(self, results: Results[Settings]) -> Measures:
        s = results.settings
        heads = [(code, places) for code in s.codes for places in s.times]
        return {
            "gaps": lambda: pl.DataFrame([_gap_row(code, places) for code, places in heads]),
            "radii": lambda: pl.DataFrame([row for code, places in heads for row in _noise_rows(code, places, s)]),
        }

    def claims(self, tables: Tables[Settings], say: Claims) -> None:
        settings = tables.settings
        for code, own in groups(tables["gaps"], "code").items():
            over = f"T = {in_words(own['T'].to_list())}"
            if code == "binary":
                say(
                    "gap-binary",
                    f"Binary codes: the gap is 1 for {over}.",
                    largest((own["gap"] - 1).abs()),
                    "largest |gap − 1|",
                    at_most=0.0,
                    source_value="gap 1",
                )
            else:
                say(
                    f"gap-{_slug(code)}",
                    f"Codes {code}: the gap falls as a power of T with exponent 1 or more ({over}).",
                    exact(-line_slope(own["T"].log(), own["gap"].log()), len(own)),
                    "−slope of ln gap on ln T",
                    at_least=1.0,
                    source_value="positions of size 1/poly(T) have gaps of 1/poly(T)",
                    needs=[need(len(own), FEWEST_TIMES, "values of T")],
                )
        noise, last = medians(tables), settings.times[-1]
        about = say.about(
            needs=[
                need(len(settings.times), FEWEST_TIMES, "values of T"),
                need(settings.directions, FEWEST_DIRECTIONS, "directions"),
            ]
        )
        for code in [code for code in noise if code != "binary"]:
            about(
                f"noise-{_slug(code)}",
                f"Codes {code}: the noise that retrieval bears falls as a power of T with exponent 1 or more.",
                exponent(noise[code]),
                "slope of ln of the median radius on ln T",
                at_most=-1.0,
                source_value="margins of 1/poly(T)",
            )
            if "binary" in noise:
                about(
                    f"noise-binary-over-{_slug(code)}",
                    f"At T = {last:,} binary codes bear more noise than codes {code}.",
                    noise["binary"].at(last) / noise[code].at(last),
                    "median radius of binary codes / that of the others",
                    above=1.0,
                    source_value="1/polylog(T) against 1/poly(T)",
                )

    def figures(self, tables: Tables[Settings]) -> Iterator[Figure]:
        settings, gaps, noise = tables.settings, tables["gaps"], medians(tables)
        chart = Chart(
            "codes",
            "Retrieval by position with binary and scalar codes",
            headline="Binary codes of positions keep the gap of attention; scalar ones lose it as a power of T",
            source=self.source,
            columns=3,
            width=11.0,
        )
        left, middle, right = (
            chart.panel(title=title, x="positions T", y=y, log="x", base=2)
            for title, y in (
                ("score gap", "least gap of the scores"),
                ("noise that retrieval bears", "norm of the noise at which\nan answer first changes (ℓ2)"),
                ("retrieval in coarse arithmetic", "share of wrong answers"),
            )
        )
        for code, own in groups(gaps, "code").items():
            color = COLORS[code]
            left.line(own["T"], own["gap"], code, color=color, **SOLID)
            middle.curve(noise[code], code, color=color)
            for kind, style in COARSE.items():
                right.line(own["T"], own[f"wrong_{kind}"], color=color, **SOLID | {"style": style})
        for kind, style in COARSE.items():
            right.line([], [], kind, color=figures.MUTED, style=style, width=1.7, key="legend")
        right.legend(loc="upper left")
        right.ax.set_ylim(-0.03, 1.03)
        for panel in (left, middle):
            panel.axes(log="y").ax.margins(x=0.2)
        yield chart.figure(
            "One attention head that retrieves what is stored at a position asked for. Left: by how much the right "
            "score leads at least, over all positions. Middle: the norm of Gaussian noise on all weights of the head "
            f"at which one of {TARGETS} answers is first wrong, median over {settings.directions} directions, each "
            "followed both ways, with its 95% interval by order statistics. Right: the share of positions answered "
            "wrongly in float32 (lines) and bfloat16 (dashed).",
            gaps,
        )


def medians(tables: Tables[Settings]) -> dict[str, Curve]:
    """code → the median radius against T; infinite where no norm that was tried changes an answer."""
    return curves(tables["radii"], by="code", x="T", y="radius", horizon=tables.settings.high)


def _slug(code: str) -> str:
    return code.replace("/", "-over-")


def _gap_row(code: str, places: int) -> dict[str, object]:
    head = retrieval(code, places)
    wrong = {f"wrong_{kind}": wrong_share(head, kind) for kind in COARSE}
    size = sum(array.size for array in head.parameters.values())
    return {"code": code, "T": places, "gap": score_gap(head), **wrong, "parameters": size}


def _noise_rows(code: str, places: int, settings: Settings) -> Iterator[dict[str, object]]:
    head, norms = retrieval(code, places), Scan(settings.low, settings.high, settings.ratio).norms
    targets = np.unique(np.linspace(0, places - 1, TARGETS).round().astype(np.intp))
    for direction in range(settings.directions):
        rng = np.random.default_rng([settings.seed, CODES.index(code), places, direction])
        radius = noise_radius(head, targets, norms, rng)
        yield {"code": code, "T": places, "direction": direction, "radius": radius}


# --- the head -------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Retrieval:
    """A head for T positions: fixed codes [T, features], stored signs [T], and its parameters by name."""

    codes: Array
    signs: Array
    parameters: dict[str, Array]

    @property
    def places(self) -> int:
        """T."""
        return len(self.codes)

    def answers(self, parameters: dict[str, Array], targets: NDArray[np.intp]) -> Array:
        """What is read when the positions `targets` in 0..T-1 are asked for, [targets]; right if it has their sign."""
        p = parameters
        queries = self.codes[targets] @ p["Wq"].T + p["bq"]
        keys = self.codes @ p["Wk"].T + p["bk"]
        scores = np.concatenate([(queries @ p["K0"])[:, None], queries @ keys.T], axis=1)
        winners = scores == scores.max(axis=1, keepdims=True)
        values = np.concatenate([p["V0"], p["Wv"][0] * self.signs + p["bv"][0]])
        return p["out"][0] * (winners @ values) / winners.sum(axis=1)


def retrieval(code: str, places: int) -> Retrieval:
    """The head for a code of `places` = T positions."""
    t = np.arange(1, places + 1, dtype=np.float64)
    signs = np.where(t % 2 == 0, 1.0, -1.0)
    rest = {"Wv": np.ones(1), "bv": np.zeros(1), "V0": np.zeros(1), "out": np.ones(1)}
    if code == "binary":
        bits = places.bit_length()
        codes = binary(np.arange(1, places + 1), bits)
        double, none = 2 * np.eye(bits), np.zeros((1, bits))
        minus = np.full(bits, -1.0)
        parameters = {
            "Wq": np.concatenate([double, none]),
            "bq": np.append(minus, 1.0),
            "Wk": np.concatenate([double, none]),
            "bk": np.append(minus, 0.0),
            "K0": np.append(np.zeros(bits), bits - 1.0),
        }
        return Retrieval(codes, signs, parameters | rest)
    if code == "angle":
        angles = 2 * math.pi * t / places
        miss = 2 * math.sin(math.pi / places) ** 2  # 1 - cos(2π/T), without cancellation
        parameters = {
            "Wq": np.array([[1.0, 0.0], [0.0, 1.0], [0.0, 0.0]]),
            "bq": np.array([0.0, 0.0, 1.0]),
            "Wk": np.array([[1.0, 0.0], [0.0, 1.0], [0.0, 0.0]]),
            "bk": np.zeros(3),
            "K0": np.array([0.0, 0.0, 1 - miss / 2]),
        }
        return Retrieval(np.stack([np.cos(angles), np.sin(angles)], axis=1), signs, parameters | rest)
    scalar = 1 / t if code == "1/t" else t / places
    miss = float(np.min(np.diff(scalar) ** 2))
    parameters = {
        "Wq": np.array([[2.0, 0.0], [0.0, 0.0], [0.0, -1.0], [0.0, 0.0]]),
        "bq": np.array([0.0, -1.0, 0.0, 1.0]),
        "Wk": np.array([[1.0, 0.0], [0.0, 1.0], [0.0, 0.0], [0.0, 0.0]]),
        "bk": np.array([0.0, 0.0, 1.0, 0.0]),
        "K0": np.array([0.0, 0.0, 0.0, -miss / 2]),
    }
    return Retrieval(np.stack([scalar, scalar**2], axis=1), signs, parameters | rest)


def score_gap(head: Retrieval) -> float:
    """By how much the score of the position asked for leads all others and the null slot, at least, in float64."""
    p, least = head.parameters, math.inf
    queries, keys = head.codes @ p["Wq"].T + p["bq"], head.codes @ p["Wk"].T + p["bk"]
    null = queries @ p["K0"]
    rows = max(1, AT_ONCE // head.places)
    for start in range(0, head.places, rows):
        block = np.arange(start, min(start + rows, head.places))
        scores = queries[block] @ keys.T
        own = scores[np.arange(len(block)), block]
        scores[np.arange(len(block)), block] = -np.inf
        least = min(least, float(np.min(own - np.maximum(scores.max(axis=1), null[block]))))
    return least


def wrong_share(head: Retrieval, arithmetic: str) -> float:
    """The share of positions that are answered wrongly where codes, weights and all results have a coarser type."""
    kind = np.dtype(jnp.bfloat16) if arithmetic == "bfloat16" else np.dtype(arithmetic)
    sums = np.float64 if arithmetic == "float64" else np.float32

    def coarse(values: np.ndarray) -> np.ndarray:
        return values.astype(kind).astype(sums)

    p = {name: coarse(array) for name, array in head.parameters.items()}
    codes = coarse(head.codes)
    queries, keys = (coarse(coarse(codes @ p[f"W{k}"].T) + p[f"b{k}"]) for k in "qk")
    wrong, rows = 0, max(1, AT_ONCE // head.places)
    for start in range(0, head.places, rows):
        asked = queries[start : start + rows]
        scores = coarse(np.concatenate([(asked @ p["K0"])[:, None], asked @ keys.T], axis=1))
        winners = scores == scores.max(axis=1, keepdims=True)
        values = np.concatenate([[0.0], head.signs])
        wrong += int(np.sum(winners @ values * head.signs[start : start + rows] <= 0))
    return wrong / head.places


def noise_radius(
    head: Retrieval, targets: NDArray[np.intp], norms: NDArray[np.float64], rng: np.random.Generator
) -> float:
    """The least of the norms at which noise along a Gaussian line, either way, makes one of the answers wrong.

    Both ways, because a null key that is lowered never wins: one way alone would be a matter of luck.
    """
    noise = {name: rng.standard_normal(array.shape) for name, array in head.parameters.items()}
    size = math.sqrt(sum(float(np.vdot(array, array)) for array in noise.values()))
    for norm in norms:
        for way in (norm / size, -norm / size):
            moved = {name: array + way * noise[name] for name, array in head.parameters.items()}
            if np.any(head.answers(moved, targets) * head.signs[targets] <= 0):
                return float(norm)
    return math.inf
