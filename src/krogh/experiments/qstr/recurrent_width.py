"""Proposition 8: a recurrent network must store what it may be asked for, so its width grows with the prompt.

On 1STR every position names its own token, and a bidirectional network must carry all N labels in its states; on
simple-1STR all positions name the same token and one label is enough. Gated recurrent networks of several widths are
trained for a fixed number of steps; the width needed is where the final error crosses 1/2.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from krogh.engine import Trial, Trials, sweep
from krogh.errors import require, require_integer
from krogh.experiments.qstr.networks import over_runs
from krogh.lab import Claim, Experiment, Figure, Results, claim, experiment, figures, setting
from krogh.lab.growth import growth_exponent
from krogh.lab.measured import Measured, from_runs
from krogh.lab.statistics import Interval
from krogh.models.recurrent import Recurrent
from krogh.tasks.codes import paper_dimension, sign_codes
from krogh.tasks.links import LinearLink, unit_vector
from krogh.tasks.token_regression import TokenRegression
from krogh.training import Adam, Stopping, Training
from krogh.training.regimes import Online

SOURCE = "qSTR paper, Proposition 8 and Theorem 7"
PROPOSED = "proposed; expected from Proposition 8 and Theorem 7"
CHECK_EVERY = 100
FEWEST_LENGTHS, FEWEST_SEEDS = 3, 2
LAWS = {"independent": "1STR", "shared": "simple-1STR"}


@dataclass(frozen=True)
class Settings:
    lengths: tuple[int, ...] = setting((8, 16, 32), "tokens per prompt, N")
    hiddens: tuple[int, ...] = setting((1, 2, 4, 8, 16, 32, 64, 128), "units per direction, h")
    laws: tuple[str, ...] = setting(("independent", "shared"), "1STR and simple-1STR")
    dimension: int = setting(4, "numbers per token, d")
    cell: str = setting("gru", "recurrent cell: gru, lstm or relu")
    target: float = setting(0.5, "mean squared error that counts as solved; predicting 0 has 1")
    budget: int = setting(20_000, "steps, all of which are made")
    batch_size: int = setting(64, "fresh prompts per step")
    rate: float = setting(3e-3, "Adam's learning rate")
    seeds: int = setting(3, "networks per width")
    validation: int = setting(5_000, "test prompts")


@experiment("qstr/recurrent-width")
class RecurrentWidth(Experiment[Settings]):
    """The width that a recurrent network needs, against the length of the prompt."""

    title = "A recurrent network must grow with the prompt when every position asks for its own token"
    question = "How does the width that a recurrent network needs grow with the number of tokens?"
    source = SOURCE
    scales = {
        "smoke": Settings(
            lengths=(3,), hiddens=(2,), laws=("independent",), budget=100, seeds=2, batch_size=16, validation=100
        ),
        "laptop": Settings(lengths=(3, 6, 12), hiddens=(1, 2, 4, 8, 16), budget=1_500, seeds=2, validation=1_000),
        "paper": Settings(),
    }
    notes = (
        "Proposed with the theory; its criteria were not calibrated on a run.",
        "Proposition 8's width half is tested; its norm half does not hold for general read-outs (see "
        "qstr/norm-competition).",
        "Every network makes all of its steps, so a width is judged at a fixed budget: what is measured is what "
        "training reaches, which is less than what a width can represent.",
        "The theory's recurrent network compares codes in a deep transition; a GRU has to do it in its gates, with "
        "units of its state. On simple-1STR that may cost width that grows with the codes, of dimension ⌊5 ln N⌋.",
        "The widths are the same for every N and both laws, so that a law that needs no growth can show it.",
    )

    def trials(self, settings: Settings) -> list[Trials]:
        for name in ("lengths", "hiddens"):
            values = getattr(settings, name)
            rising = len(values) >= 1 and values[0] >= 1 and all(a < b for a, b in itertools.pairwise(values))
            require(rising, f"{name} must be positive and increasing; got {name}={values}")
        laws = settings.laws
        known = len(set(laws)) == len(laws) >= 1 and set(laws) <= set(LAWS)
        require(known, f"laws must be one or both of {', '.join(LAWS)}; got laws={laws}")
        require_integer("seeds", settings.seeds, 1)
        require(0 < settings.target < 1, f"target must be in (0, 1), between perfect and null; got {settings.target}")
        stopping = Stopping(
            budget=settings.budget,
            error=settings.target,
            check_every=CHECK_EVERY,
            validation=settings.validation,
            early=False,
        )
        training = Training(Adam(settings.rate), Online(settings.batch_size), stopping, "square")
        cohorts = []
        for law, length in itertools.product(laws, settings.lengths):
            codes = sign_codes(length, paper_dimension(length))
            link = LinearLink(unit_vector(settings.dimension))
            task = TokenRegression(length, settings.dimension, link, codes, index_law=law)
            for hidden in settings.hiddens:
                cohorts += sweep(Trial(task, Recurrent(settings.cell, hidden), training), seed=range(settings.seeds))
        return cohorts

    def claims(self, results: Results[Settings]) -> list[Claim]:
        return [found for law in results.settings.laws for found in _claims_of(law, results)]

    def figures(self, results: Results[Settings]) -> list[Figure]:
        return [_figure(results)]


# --- what is measured -----------------------------------------------------------------------------------------


def width_needed(hiddens: Sequence[float], errors: Sequence[float], target: float) -> float:
    """The width at which the error first falls to the target, between two widths along a line in ln h.

    `inf` where no width reaches it; the smallest width where that one already does.
    """
    for place, error in enumerate(errors):
        if error <= target:
            if place == 0:
                return float(hiddens[0])
            share = (errors[place - 1] - target) / (errors[place - 1] - error)
            below, above = math.log(hiddens[place - 1]), math.log(hiddens[place])
            return math.exp(below + share * (above - below))
    return math.inf


def final_errors(results: Results[Settings]) -> pl.DataFrame:
    """One row per network: law, N, h, seed and the final error; infinite where training diverged."""
    chosen = results.table.select(
        pl.col("task.index_law").alias("law"),
        pl.col("task.length").alias("length"),
        pl.col("model.hidden").alias("hidden"),
        "seed",
        pl.col("error").cast(pl.Float64).fill_nan(math.inf).fill_null(math.inf),
    )
    return chosen.sort("law", "length", "hidden", "seed")


def widths(results: Results[Settings], law: str) -> dict[int, np.ndarray]:
    """N → the width needed, one number per seed."""
    settings, errors = results.settings, final_errors(results)
    needed: dict[int, np.ndarray] = {}
    for length in settings.lengths:
        by_width = [
            errors.filter(law=law, length=length, hidden=hidden).sort("seed")["error"].to_list()
            for hidden in settings.hiddens
        ]
        needed[length] = np.array(
            [width_needed(settings.hiddens, run, settings.target) for run in zip(*by_width, strict=True)]
        )
    return needed


@functools.lru_cache(maxsize=8)
def measured_widths(results: Results[Settings], law: str) -> Measured:
    """The median width needed at each N, with resamples; beyond the largest width where none was enough."""
    return from_runs(widths(results, law), statistic="median", horizon=float(max(results.settings.hiddens)))


def exponent(results: Results[Settings], law: str) -> Interval:
    """The slope of ln h on ln N; unbounded where it cannot be said."""
    nothing = Interval(math.nan, -math.inf, math.inf, 0.95, "nothing to fit")
    return growth_exponent(measured_widths(results, law)) if len(results.settings.lengths) >= 2 else nothing


def _claims_of(law: str, results: Results[Settings]) -> list[Claim]:
    settings, needed = results.settings, widths(results, law)
    shown = ", ".join(f"{_median(values):.3g} at N = {length}" for length, values in needed.items())
    smallest = min(settings.hiddens)
    bounded = smallest == 1 or all(np.min(values) > smallest for values in needed.values())
    shared: dict[str, Any] = {
        "source": PROPOSED,
        "trials": len(settings.lengths) * len(settings.hiddens) * settings.seeds,
        "statistic": "slope of ln(width needed) on ln N, medians over seeds",
        "interval": exponent(results, law),
    }
    sizes = len(settings.lengths) >= FEWEST_LENGTHS and settings.seeds >= FEWEST_SEEDS
    few = f"{len(settings.lengths)} lengths and {settings.seeds} seeds; needs {FEWEST_LENGTHS} and {FEWEST_SEEDS}"
    if law == "independent":
        return [
            claim(
                "width-grows",
                f"1STR: the width needed for an error of {settings.target:g} grows about linearly with N ({shown}).",
                at_least=0.8,
                source_value="d_h of order N; expected slope ≥ 0.8",
                enough=sizes,  # a smallest width that does already makes the slope too small, not too large
                too_small=few,
                **shared,
            )
        ]
    return [
        claim(
            "width-constant",
            f"simple-1STR: the width needed for an error of {settings.target:g} does not depend on N ({shown}).",
            at_most=0.2,
            source_value="independent of N (read as a slope ≤ 0.2)",
            enough=sizes and bounded,
            too_small=few
            if not sizes
            else f"the smallest width, {smallest}, already does somewhere: the slope is open",
            **shared,
        )
    ]


def _median(values: np.ndarray) -> float:
    return float(np.sort(values)[(len(values) - 1) // 2])


# --- how it looks ---------------------------------------------------------------------------------------------


def _figure(results: Results[Settings]) -> Figure:
    settings, errors = results.settings, final_errors(results)
    fig, axes = figures.new_figure(
        "The width that training needs, when positions ask for their own tokens and when they share one",
        width=3.0 + 3.4 * len(settings.laws),
        height=4.0,
        ncols=1 + len(settings.laws),
    )
    for ax, law in zip(axes, settings.laws, strict=False):
        for color, length in zip(figures.PALETTE, settings.lengths, strict=False):
            own = errors.filter(law=law, length=length)
            runs = [own.filter(hidden=hidden)["error"].to_numpy() for hidden in settings.hiddens]
            middle = [over_runs(run).value if np.isfinite(run).all() else math.inf for run in runs]
            figures.interval_band(
                ax,
                [hidden / length for hidden in settings.hiddens],
                [float(run.min()) for run in runs],
                middle,
                [float(run.max()) for run in runs],
                color=color,
                label=f"N = {length}",
            )
        figures.source_line(ax, settings.target, f"error {settings.target:g}")
        figures.log_axis_labels(ax, "x", base=2)
        ax.set_ylim(0, 1.15)
        ax.set_xlabel("units per token, h/N")
        ax.set_ylabel("final mean squared error")
        figures.panel_title(ax, LAWS[law])
        figures.legend(ax, loc="upper right")
    ax = axes[-1]
    lengths = [float(length) for length in settings.lengths]
    for color, law in zip((figures.BLUE, figures.VERMILLION), settings.laws, strict=False):
        needed = widths(results, law)
        middle = [_median(values) for values in needed.values()]
        figures.interval_band(
            ax, lengths, [values.min() for values in needed.values()], middle,
            [values.max() for values in needed.values()], color=color,
        )  # fmt: skip
        if np.isfinite(middle).any():
            figures.direct_label(ax, lengths, middle, LAWS[law], color=color)
    ax.plot(lengths, lengths, "--", color=figures.MUTED, linewidth=1.1)
    figures.direct_label(ax, lengths, lengths, "h = N", color=figures.MUTED)
    ax.set_yscale("log")
    figures.log_axis_labels(ax, "x", values=lengths)
    figures.log_axis_labels(ax, "y", values=settings.hiddens)
    ax.set_xlabel("tokens N")
    ax.set_ylabel(f"width needed for error {settings.target:g}")
    figures.panel_title(ax, "width needed")
    figures.source_note(fig, SOURCE)
    caption = (
        f"Bidirectional {settings.cell.upper()} networks of h units per direction after {settings.budget:,} steps of "
        f"on fresh batches of {settings.batch_size}; d = {settings.dimension}. Means over {settings.seeds} seeds, "
        "bands from the least to the largest. Right: the width at which the error crosses the target, medians over "
        "seeds; a triangle where no width did."
    )
    return Figure("recurrent-width", "Final error against width, and the width needed", caption, fig, errors)
