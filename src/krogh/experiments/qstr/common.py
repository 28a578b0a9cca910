"""What the experiments of this source share: its set-up and published values, plans of runs, risks of networks.

Set-up (qSTR paper, Figure 1 and its public code): tokens N(0, I_10), label ⟨u, x_{t_i}⟩ with one unit u for all runs,
one frozen table of ⌊5 ln N⌋ sign codes per N, fresh batches of 64 prompts, mean squared error over batch and positions,
AdamW with rate 1e-3 and decay 0.01. The sample complexity n is the number of prompts consumed at the first check at
which the mean squared error on a test sample, drawn once per run, is at most a threshold.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import ArrayLike

from krogh.engine import Trial, Trials, sweep
from krogh.lab import Curve, figures, groups, need, setting, times_of
from krogh.lab.charts import Panel as Axes
from krogh.lab.curves import exact_curve, mean_samples
from krogh.lab.estimate import Estimate, minimum, normal
from krogh.lab.fits import exponent
from krogh.models import Feedforward, LinearAttention, Model, Recurrent, StateSpace, TokenAttention
from krogh.tasks import LinearLink, TokenRegression, paper_dimension, sign_codes
from krogh.tasks.links import unit_vector
from krogh.training import Adam, Online, Optimiser, Regime, Stopping, Training

SOURCE_HIDDEN = 500
SOURCE_RATE = 1e-3
SOURCE_DIMENSION = 10
FEWEST_RUNS = 3  # the reference judges means over at least three seeds

TASKS = {"independent": "1STR", "shared": "simple-1STR"}
MEANINGS = {"independent": "each position names its own token", "shared": "all positions name one token"}
"""The two tasks by their index law: which token a position's label depends on."""


@dataclass(frozen=True)
class Architecture:
    """Who is compared: its name in the figure, and how it is built with a given size of the recurrent state."""

    label: str
    color: str
    build: Callable[[int], Model]


# In the order of cost: the longest cohorts go first, and the programs of the others are compiled meanwhile.
ARCHITECTURES: Mapping[str, Architecture] = {
    "recurrent": Architecture("recurrent (GRU)", figures.VERMILLION, lambda hidden: Recurrent("gru", hidden)),
    "feedforward": Architecture("feedforward", figures.GREEN, lambda hidden: Feedforward()),
    "state-space": Architecture("state space", figures.PURPLE, lambda hidden: StateSpace()),
    "linear-attention": Architecture("linear attention", figures.ORANGE, lambda hidden: LinearAttention()),
    "transformer": Architecture("Transformer", figures.BLUE, lambda hidden: TokenAttention()),
}
SOURCE_ARCHITECTURES = ("transformer", "recurrent", "feedforward")


@dataclass(frozen=True)
class Panel:
    """One panel of Figure 1, and where the source's values are judged.

    `published`: means of five runs in thousands of samples, read off the plot to within 3%. The public code judges the
    runs of panel (a) on simple-1STR prompts.
    """

    letter: str
    index_law: str
    threshold: float
    smallest: int  # growth is judged from this N on
    largest: int
    published: Mapping[str, Mapping[float, float]]

    @property
    def task(self) -> str:
        return TASKS[self.index_law]

    @property
    def title(self) -> str:
        return f"({self.letter}) {self.task}: {MEANINGS[self.index_law]}"

    @property
    def source(self) -> str:
        return f"qSTR paper, Figure 1({self.letter})"

    def samples(self, architecture: str) -> dict[float, float]:
        """The source's n at each N; nothing for architectures that it does not have."""
        return {length: 1000 * value for length, value in self.published.get(architecture, {}).items()}

    def exponent(self, architecture: str) -> float:
        """The slope of ln n on ln N of the source's values over the range on which growth is judged."""
        known = {length: n for length, n in self.samples(architecture).items() if length >= self.smallest}
        return exponent(exact_curve(list(known), list(known.values()))).value


PANELS: Mapping[str, Panel] = {
    "general": Panel(
        "a", "independent", 0.7, 4, 12,
        {
            "feedforward": {2: 2.5, 4: 8.5, 6: 20, 8: 39, 10: 65, 12: 115},
            "recurrent": {2: 1, 4: 16, 6: 33, 8: 41, 10: 59, 12: 74},
            "transformer": {2: 2.8, 4: 5.7, 6: 10.5, 8: 14.6, 10: 15.8, 12: 17},
        },
    ),
    "simple": Panel(
        "b", "shared", 0.02, 25, 33,
        {
            "feedforward": {25: 241, 27: 310, 29: 439, 31: 563, 33: 629},
            "recurrent": {25: 107, 27: 139, 29: 147, 31: 165, 33: 165},
            "transformer": {25: 118, 27: 169, 29: 127, 31: 124, 33: 139},
        },
    ),
}  # fmt: skip


# --- the set-up -----------------------------------------------------------------------------------------------


def retrieval(
    length: int, dimension: int, index_law: str, evaluation: str = "matched", code_seed: int = 0
) -> TokenRegression:
    """1STR with the source's link and codes: the same u for all N, one code table per N."""
    codes = sign_codes(length, paper_dimension(length), code_seed)
    link = LinearLink(unit_vector(dimension))
    return TokenRegression(length, dimension, link, codes, index_law=index_law, evaluation=evaluation)


def rate_of(architecture: str, hidden: int) -> float:
    """The source's rate; for a GRU of other than 500 units in inverse proportion to its width.

    Adam moves every weight of a unit by the rate, so that the sum over a layer moves by rate·width: a GRU of 64 units
    at the rate of 500 hardly moves.
    """
    return SOURCE_RATE * SOURCE_HIDDEN / hidden if architecture == "recurrent" else SOURCE_RATE


def square_training(optimiser: Optimiser, regime: Regime, **stopping: Any) -> Training:
    """Training on squared errors; further options are Stopping's."""
    return Training(optimiser, regime, Stopping(**stopping), loss="square")


def whole_budget(budget: int, prompts: int, longest: int) -> dict[str, Any]:
    """Stopping after all steps, for no error is 0: checks are as far apart as divides the budget, up to `longest`."""
    every = max(step for step in (1000, 500, 100, 50, 10, 1) if step <= longest and budget % step == 0)
    return {"budget": budget, "error": 0.0, "check_every": every, "validation": min(prompts, 1000)}


@dataclass(frozen=True)
class OnlineSettings:
    """What experiments on sample complexity have in common."""

    hidden: int = setting(SOURCE_HIDDEN, "GRU units per direction", least=1)
    dimension: int = setting(SOURCE_DIMENSION, "token dimension d", least=1)
    validation: int = setting(5_000, "test prompts", least=1)
    budget: int = setting(1_000_000, "samples after which a run has not reached the threshold", least=1)
    batch_size: int = setting(64, "fresh prompts per step", least=1)
    code_seed: int = setting(0, "which table of positional codes", least=0)

    def steps(self, check_every: int) -> int:
        """The budget in steps: the first checked one at which so many samples have been consumed."""
        return -(-self.budget // (self.batch_size * check_every)) * check_every


@dataclass(frozen=True)
class Plan:
    """The runs with which a panel is answered at given settings, until the test error is at most a threshold."""

    panel: Panel
    settings: OnlineSettings
    architectures: tuple[str, ...]
    lengths: tuple[int, ...]
    seeds: int
    threshold: float
    check_every: int
    evaluation: str = "matched"

    def runs(self, architecture: str, length: int, label: dict[str, Any]) -> Iterable[Trials]:
        """The runs of one point."""
        settings = self.settings
        training = square_training(
            Adam(rate_of(architecture, settings.hidden), decay=0.01),
            Online(settings.batch_size),
            budget=settings.steps(self.check_every),
            error=self.threshold,
            check_every=self.check_every,
            validation=settings.validation,
        )
        task = retrieval(length, settings.dimension, self.panel.index_law, self.evaluation, settings.code_seed)
        trial = Trial(task, ARCHITECTURES[architecture].build(settings.hidden), training)
        return sweep(trial, seed=range(self.seeds), label=label)

    def curves(self, trials: pl.DataFrame, by: str | Sequence[str] = "architecture") -> dict[Any, Curve]:
        """The mean samples of these runs against N."""
        steps = self.settings.steps(self.check_every)
        return mean_samples(trials, x="task.length", by=by, batch_size=self.settings.batch_size, budget=steps)

    @property
    def same_task(self) -> bool:
        """Whether the source's values are of these tokens and this test error."""
        return self.settings.dimension == SOURCE_DIMENSION and self.threshold == self.panel.threshold

    @property
    def lacking(self) -> list[str]:
        """What these runs lack to decide what the source says in the panel."""
        other = (
            f"the source's values are for d = {SOURCE_DIMENSION} and a test error of {self.panel.threshold:g}; these "
            f"for d = {self.settings.dimension} and {self.threshold:g}"
        )
        return [
            need(self.seeds, FEWEST_RUNS, "runs per point"),
            "" if self.same_task else other,
            need(max(self.lengths), self.panel.largest, "is the largest N"),
        ]

    def draw(
        self,
        axes: Axes,
        trials: pl.DataFrame,
        label: dict[str, str],
        curve: Curve,
        name: str,
        *,
        color: str,
        published: Mapping[float, float],
        **look: Any,
    ) -> pl.DataFrame:
        """Mean samples with their intervals, every run of this label as a thin line, the source's values as circles.

        Returns the figure's data: the curve as rows, with the source's values (null where it has none).
        """
        for run in groups(trials.filter(**label).sort("task.length"), "seed").values():
            samples = run["convergence_time"].cast(pl.Float64).to_numpy() * self.settings.batch_size
            axes.ax.plot(run["task.length"], samples, color=color, linewidth=0.5, alpha=0.5)
        axes.curve(curve, name, color=color, published=published, **look)
        rows = curve.table("N").rename({"value": "mean", "trials": "runs"}).with_columns(pl.col("N").cast(pl.Int64))
        known = pl.Series("published", [published.get(length) for length in rows["N"]], dtype=pl.Float64)
        return rows.select(*(pl.lit(word).alias(column) for column, word in label.items()), pl.all(), known)


def missed(table: pl.DataFrame) -> str:
    """How many runs did not get there, in words for a caption."""
    count, total = int(np.isinf(times_of(table)).sum()), len(table)
    return f"all {total} runs reached it" if not count else f"{count} of {total} runs did not reach it"


# --- risks of networks ----------------------------------------------------------------------------------------


def mean_risk(errors: np.ndarray) -> dict[str, float]:
    """The mean error of test prompts and the deviation of one, as `least_over_networks` reads them."""
    return {"risk": float(errors.mean()), "deviation": float(errors.std(ddof=1)) if len(errors) > 1 else 0.0}


def least_over_networks(values: ArrayLike, deviations: ArrayLike, prompts: int) -> Estimate:
    """The least of several networks' values, each a mean over `prompts` test prompts with this deviation of one."""
    pairs = zip(np.asarray(values, float).tolist(), np.asarray(deviations, float).tolist(), strict=True)
    networks = [normal(*pair, prompts, sample=f"network {place}") for place, pair in enumerate(pairs)]
    return minimum(networks, nothing="no network to look at")
