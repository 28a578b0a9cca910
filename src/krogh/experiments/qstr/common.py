"""What the experiments on sample complexity share: the source's set-up, its published values, and how n is read.

Set-up (qSTR paper, Figure 1 and its public code): tokens N(0, I_10), label ⟨u, x_{t_i}⟩ with one unit u for all runs,
one frozen table of ⌊5 ln N⌋ sign codes per N, fresh batches of 64 prompts, mean squared error over batch and positions,
AdamW with rate 1e-3 and decay 0.01. The sample complexity n is the number of prompts consumed at the first check at
which the mean squared error on a test sample, drawn once per run, is at most a threshold.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl

from krogh.errors import require, require_integer, unknown
from krogh.lab import convergence_times, figures
from krogh.lab.growth import growth_exponent
from krogh.lab.measured import Measured, from_runs, points
from krogh.lab.sample_complexity import OnlineSamples, online_samples, samples_consumed
from krogh.lab.statistics import Floats, Interval, percentile_interval
from krogh.models import Feedforward, LinearAttention, Model, Recurrent, StateSpace, TokenAttention
from krogh.tasks import LinearLink, TokenRegression, paper_dimension, sign_codes
from krogh.tasks.links import unit_vector
from krogh.training import Adam, Online, Stopping, Training

SOURCE_HIDDEN = 500
SOURCE_RATE = 1e-3
SOURCE_DIMENSION = 10
FEWEST_RUNS = 3  # the reference judges means over at least three seeds


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

# Means of five runs in thousands of samples, read off the published plot to within 3%; "independent" is Figure 1(a),
# whose runs the public code judges on shared-index prompts, and "shared" Figure 1(b).
PUBLISHED: Mapping[str, Mapping[str, Mapping[int, float]]] = {
    "independent": {
        "feedforward": {2: 2.5, 4: 8.5, 6: 20, 8: 39, 10: 65, 12: 115},
        "recurrent": {2: 1, 4: 16, 6: 33, 8: 41, 10: 59, 12: 74},
        "transformer": {2: 2.8, 4: 5.7, 6: 10.5, 8: 14.6, 10: 15.8, 12: 17},
    },
    "shared": {
        "feedforward": {25: 241, 27: 310, 29: 439, 31: 563, 33: 629},
        "recurrent": {25: 107, 27: 139, 29: 147, 31: 165, 33: 165},
        "transformer": {25: 118, 27: 169, 29: 127, 31: 124, 33: 139},
    },
}


@dataclass(frozen=True)
class Panel:
    """One panel of the figure, and where the source's values are judged."""

    title: str
    task: str
    index_law: str
    source: str
    threshold: float
    smallest: int  # growth is judged from this N on
    largest: int


PANELS: Mapping[str, Panel] = {
    "general": Panel(
        "(a) 1STR: each position names its own token", "1STR", "independent", "qSTR paper, Figure 1(a)", 0.7, 4, 12
    ),
    "simple": Panel(
        "(b) simple-1STR: one token for all", "simple-1STR", "shared", "qSTR paper, Figure 1(b)", 0.02, 25, 33
    ),
}


@dataclass(frozen=True)
class Plan:
    """What a panel trains at given settings; `budget` in steps."""

    panel: Panel
    architectures: tuple[str, ...]
    lengths: tuple[int, ...]
    seeds: int
    threshold: float
    check_every: int
    budget: int
    evaluation: str
    dimension: int
    hidden: int  # GRU units per direction


def published_samples(index_law: str, architecture: str) -> dict[int, float]:
    """The source's n at each N; nothing for architectures that it does not have."""
    return {length: 1000 * value for length, value in PUBLISHED[index_law].get(architecture, {}).items()}


# --- the set-up ---------------------------------------------------------------------------------------------


def check_choices(word: str, given: Sequence[Any], allowed: Iterable[Any]) -> None:
    """Refuse an empty choice, one made twice, and one there is not."""
    known = list(allowed)
    for value in given:
        if value not in known:
            raise unknown(word.removesuffix("s"), str(value), [str(one) for one in known])
    require(given, f"{word} must name at least one of {', '.join(known)}; got none")
    require(len(set(given)) == len(given), f"{word} must not repeat a value; got {word}={tuple(given)}")


def check_lengths(word: str, lengths: Sequence[int]) -> None:
    """Refuse lengths at which there is nothing to retrieve, and repeated ones."""
    require(lengths, f"{word} must hold at least one sequence length; got none")
    for length in lengths:
        require_integer(word, length, 2)
    require(len(set(lengths)) == len(lengths), f"{word} must not repeat a value; got {word}={tuple(lengths)}")


def in_order_of_cost(architectures: Sequence[str]) -> list[str]:
    return [name for name in ARCHITECTURES if name in architectures]


def retrieval(
    length: int, dimension: int, index_law: str, evaluation: str = "matched", code_seed: int = 0
) -> TokenRegression:
    """1STR with the source's link and codes: the same u for all N, one code table per N."""
    codes = sign_codes(length, paper_dimension(length), code_seed)
    link = LinearLink(unit_vector(dimension))
    return TokenRegression(length, dimension, link, codes, index_law=index_law, evaluation=evaluation)


def budget_steps(samples: int, batch_size: int, check_every: int) -> int:
    """The first checked step at which `samples` have been consumed."""
    for word, number in (("budget", samples), ("batch_size", batch_size), ("check_every", check_every)):
        require_integer(word, number, 1)
    return -(-samples // (batch_size * check_every)) * check_every


def rate_of(architecture: str, hidden: int) -> float:
    """The source's rate; for a GRU of other than 500 units in inverse proportion to its width.

    Adam moves every weight of a unit by the rate, so that the sum over a layer moves by rate·width: a GRU of 64 units
    at the rate of 500 hardly moves.
    """
    return SOURCE_RATE * SOURCE_HIDDEN / hidden if architecture == "recurrent" else SOURCE_RATE


def online_training(
    threshold: float, check_every: int, budget: int, validation: int, batch_size: int, rate: float = SOURCE_RATE
) -> Training:
    """The source's training, with a budget in samples."""
    stopping = Stopping(
        budget=budget_steps(budget, batch_size, check_every),
        error=threshold,
        check_every=check_every,
        validation=validation,
    )
    return Training(Adam(rate, decay=0.01), Online(batch_size), stopping, loss="square")


# --- reading n ----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Curve:
    """The sample complexity of one architecture at every N: each run's, and the means with resamples."""

    runs: dict[int, Floats]  # N -> samples (runs,), inf where not reached
    horizon: float  # the budget in samples, which a run that did not get there is known to exceed

    def measured(self, lengths: Iterable[int] | None = None) -> Measured:
        """Means over runs at all N, or at some."""
        chosen = self.runs if lengths is None else {length: self.runs[length] for length in lengths}
        return from_runs(chosen, horizon=self.horizon)

    def mean(self, length: int) -> Interval:
        """The mean over runs at one N with its bootstrap interval."""
        means = self.measured([length])
        low, high = means.draws_least[:, 0], means.draws[:, 0]
        value = float(means.y[0])
        ends = [percentile_interval(value, draws, 0.95, "percentile bootstrap") for draws in (low, high)]
        return Interval(value, ends[0].low, ends[1].high, 0.95, ends[0].method)

    def summary(self, length: int) -> OnlineSamples:
        """Mean and deviation over runs, how many did not get there, and the censored median."""
        return online_samples(self.runs[length], 1)


def curve(
    table: pl.DataFrame,
    architecture: str,
    lengths: Iterable[int],
    *,
    index_law: str,
    evaluation: str,
    budget: int,
    batch_size: int,
) -> Curve:
    """Read an architecture's runs from a table of trials; `budget` in steps."""
    kind = ARCHITECTURES[architecture].build(SOURCE_HIDDEN).kind
    of_kind = table.filter(
        pl.col("model") == kind, pl.col("task.index_law") == index_law, pl.col("task.evaluation") == evaluation
    )
    runs = {
        length: samples_consumed(convergence_times(of_kind.filter(pl.col("task.length") == length)), batch_size)
        for length in sorted(lengths)
    }
    return Curve(runs, float(budget * batch_size))


def published_exponent(index_law: str, architecture: str, lengths: Iterable[int]) -> float | None:
    """The slope of ln n on ln N of the source's values at these N."""
    known = published_samples(index_law, architecture)
    chosen = [length for length in lengths if length in known]
    if len(chosen) < 2:
        return None
    return growth_exponent(points(chosen, [known[length] for length in chosen])).value
