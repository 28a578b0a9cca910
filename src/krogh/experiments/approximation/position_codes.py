"""Why positions are written in binary: the gap by which attention finds one of T of them (SM paper, Section 4.2).

Attention that finds a position by a number of size 1/T, as earlier constructions do, has to tell scores apart that
differ by a power of 1/T, and weights may not move by more. Binary codes have log T entries, and a gap of 1.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from krogh.errors import require_integer
from krogh.experiments.approximation.code_retrieval import (
    CODES,
    noise_radius,
    retrieval,
    score_gap,
    wrong_share,
)
from krogh.experiments.approximation.common import NO_EXPERIMENTS, check_choices, in_words
from krogh.experiments.theorems import Demonstration, Tables, exact, largest, require_increasing, slope
from krogh.lab import Claim, Figure, claim, experiment, figures, setting
from krogh.lab.growth import growth_exponent
from krogh.lab.measured import Measured, from_runs, ratio
from krogh.theory.all_layer import Scan

SOURCE = "SM paper, Section 4.2"
COLORS = dict(zip(CODES, (figures.BLUE, figures.VERMILLION, figures.ORANGE, figures.PURPLE), strict=True))
COARSE = ("float32", "bfloat16")
FEWEST_TIMES, FEWEST_DIRECTIONS = 4, 10
TARGETS = 8
"""Positions that are asked for when weights are perturbed, spread from the first to the last."""


@dataclass(frozen=True)
class Settings:
    codes: tuple[str, ...] = setting(CODES, "codes of positions")
    times: tuple[int, ...] = setting(tuple(2**k for k in range(2, 12)), "numbers T of positions")
    directions: int = setting(40, "random directions along which all weights are perturbed, both ways")
    low: float = setting(1e-15, "smallest norm that is tried")
    high: float = setting(100.0, "largest norm that is tried")
    ratio: float = setting(1.333521, "between two norms that are tried: eight in a decade")
    seed: int = setting(0, "of the directions")


@experiment("approximation/position-codes")
class PositionCodes(Demonstration[Settings]):
    """Score gaps and noise that retrieval by position bears, for binary and scalar codes, against T."""

    title = "Binary codes of positions keep attention's gap at 1; scalar ones lose it as a power of T"
    question = "How does the gap of attention, and the noise it bears, change with the number of positions?"
    source = SOURCE
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
        check_choices("codes", settings.codes, CODES)
        require_increasing("times", settings.times, 4, 2)
        for places in settings.times:
            require_integer("times", places, 4, 2**16)
        require_integer("directions", settings.directions, 1)
        require_integer("seed", settings.seed, 0)
        Scan(settings.low, settings.high, settings.ratio)

    def measure(self, settings: Settings) -> Tables:
        gaps, radii = [], []
        norms = Scan(settings.low, settings.high, settings.ratio).norms
        for code in settings.codes:
            for places in settings.times:
                head = retrieval(code, places)
                gaps.append(
                    {
                        "code": code,
                        "T": places,
                        "gap": score_gap(head),
                        **{f"wrong_{kind}": wrong_share(head, kind) for kind in COARSE},
                        "parameters": sum(array.size for array in head.parameters.values()),
                    }
                )
                targets = np.unique(np.linspace(0, places - 1, TARGETS).round().astype(np.intp))
                for direction in range(settings.directions):
                    rng = np.random.default_rng([settings.seed, CODES.index(code), places, direction])
                    radius = noise_radius(head, targets, norms, rng)
                    radii.append({"code": code, "T": places, "direction": direction, "radius": radius})
        return {"gaps": pl.DataFrame(gaps), "radii": pl.DataFrame(radii)}

    def judge(self, settings: Settings, tables: Tables) -> list[Claim]:
        return [*_gap_claims(tables["gaps"]), *_noise_claims(settings, tables["radii"])]

    def draw(self, settings: Settings, tables: Tables) -> list[Figure]:
        return [_figure(settings, tables)]


def _gap_claims(table: pl.DataFrame) -> list[Claim]:
    found = []
    for code in table["code"].unique(maintain_order=True):
        own = table.filter(code=code)
        shared: dict[str, Any] = {"source": SOURCE, "trials": len(own)}
        over = f"T = {in_words(own['T'].to_list())}"
        if code == "binary":
            found.append(
                claim(
                    "gap-binary",
                    f"Binary codes: the gap is 1 for {over}.",
                    statistic="largest |gap − 1|",
                    interval=exact(largest((own["gap"] - 1).abs().to_numpy())),
                    at_most=0.0,
                    source_value="gap 1",
                    **shared,
                )
            )
            continue
        found.append(
            claim(
                f"gap-{_slug(code)}",
                f"Codes {code}: the gap falls as a power of T with exponent 1 or more ({over}).",
                statistic="−slope of ln gap on ln T",
                interval=exact(-slope(np.log(own["T"].to_numpy()), np.log(own["gap"].to_numpy()))),
                at_least=1.0,
                source_value="positions of size 1/poly(T) have gaps of 1/poly(T)",
                enough=len(own) >= FEWEST_TIMES,
                too_small=f"{len(own)} values of T; an exponent needs {FEWEST_TIMES}",
                **shared,
            )
        )
    return found


def _noise_claims(settings: Settings, table: pl.DataFrame) -> list[Claim]:
    few = len(settings.times) < FEWEST_TIMES or settings.directions < FEWEST_DIRECTIONS
    limits: dict[str, Any] = {
        "enough": not few,
        "too_small": f"{len(settings.times)} values of T and {settings.directions} directions; a verdict needs "
        f"{FEWEST_TIMES} and {FEWEST_DIRECTIONS}",
        "source": SOURCE,
    }
    measured = {code: _medians(table.filter(code=code), settings) for code in settings.codes}
    found, last = [], settings.times[-1]
    for code in settings.codes:
        if code == "binary":
            continue
        fall = growth_exponent(measured[code])
        found.append(
            claim(
                f"noise-{_slug(code)}",
                f"Codes {code}: the noise that retrieval bears falls as a power of T with exponent 1 or more.",
                statistic="slope of ln of the median radius on ln T",
                interval=fall,
                at_most=-1.0,
                trials=len(table.filter(code=code)),
                source_value="margins of 1/poly(T)",
                **limits,
            )
        )
        if "binary" in measured:
            found.append(
                claim(
                    f"noise-binary-over-{_slug(code)}",
                    f"At T = {last:,} binary codes bear more noise than codes {code}.",
                    statistic="median radius of binary codes / that of the others",
                    interval=ratio(measured["binary"], last, measured[code]),
                    above=1.0,
                    trials=2 * settings.directions,
                    source_value="1/polylog(T) against 1/poly(T)",
                    **limits,
                )
            )
    return found


def _slug(code: str) -> str:
    return code.replace("/", "-over-")


def _medians(table: pl.DataFrame, settings: Settings) -> Measured:
    groups = {places: own["radius"].to_numpy() for (places,), own in table.group_by("T", maintain_order=True)}
    return from_runs(groups, statistic="median", horizon=settings.high)


def _figure(settings: Settings, tables: Tables) -> Figure:
    title = "Binary codes of positions keep the gap of attention; scalar ones lose it as a power of T"
    fig, axes = figures.new_figure(title, width=11.0, height=4.0, ncols=3)
    gaps, radii = tables["gaps"], tables["radii"]
    for code in settings.codes:
        own, color = gaps.filter(code=code), COLORS[code]
        times = own["T"].to_list()
        axes[0].plot(times, own["gap"], color=color, marker="o", markersize=4)
        figures.direct_label(axes[0], times, own["gap"].to_list(), code, color=color)
        spread = radii.filter(code=code).group_by("T", maintain_order=True).agg(
            low=pl.quantile("radius", 0.25), middle=pl.median("radius"), high=pl.quantile("radius", 0.75)
        )  # fmt: skip
        low, middle, high = (spread[name].to_list() for name in ("low", "middle", "high"))
        figures.interval_band(axes[1], times, low, middle, high, color=color)
        figures.direct_label(axes[1], times, middle, code, color=color)
        for kind, style in zip(COARSE, ("-", "--"), strict=True):
            axes[2].plot(own["T"], own[f"wrong_{kind}"], color=color, linestyle=style, marker="o", markersize=4)
    for style, kind in zip(("-", "--"), COARSE, strict=True):
        axes[2].plot([], [], color=figures.MUTED, linestyle=style, label=kind)
    figures.legend(axes[2], loc="upper left")
    for ax, words, label in zip(
        axes,
        ("score gap", "noise that retrieval bears", "retrieval in coarse arithmetic"),
        (
            "least gap of the scores",
            "norm of the noise at which\nan answer first changes (ℓ2)",
            "share of wrong answers",
        ),
        strict=True,
    ):
        figures.panel_title(ax, words)
        figures.log_axis_labels(ax, "x", base=2)
        ax.set_xlabel("positions T")
        ax.set_ylabel(label)
    figures.log_axis_labels(axes[0], "y")
    figures.log_axis_labels(axes[1], "y")
    axes[0].margins(x=0.2)
    axes[1].margins(x=0.2)
    axes[2].set_ylim(-0.03, 1.03)
    figures.source_note(fig, SOURCE)
    caption = (
        "One attention head that retrieves what is stored at a position asked for. Left: by how much the right score "
        "leads at least, over all positions. Middle: the norm of Gaussian noise on all weights of the head at which "
        f"one of {TARGETS} answers is first wrong, median and quartiles over {settings.directions} directions, each "
        "followed both ways. Right: the share of positions answered wrongly in float32 (lines) and bfloat16 (dashed)."
    )
    return Figure("codes", "Retrieval by position with binary and scalar codes", caption, fig, gaps)
