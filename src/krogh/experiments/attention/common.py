"""What experiments of chapter 4 share: the Transformer's training (§A.3.1), success rates, what a law of T needs.

Full-batch Adam at rate 1e-3 with decay 1e-4 on the weight matrices alone and gradients clipped at norm 1. A run
succeeds when more than 99% of the validation sample is right at any check; a trial may begin again on the same data.

Dropout on the embeddings is the one departure from the source, which has it at 0.1: without it the tokens are a table
over (bit, position), and a step costs a tenth to a twentieth. `embedding_dropout=0.1` brings it back.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl

from krogh.engine import Trial
from krogh.errors import require
from krogh.lab import need, setting
from krogh.models import SparseTransformer
from krogh.models.transformer import MATRICES
from krogh.tasks import sparse_and
from krogh.tasks.consistency import unique_probability
from krogh.theory.attention.limits import information_floor
from krogh.training import Adam, FullBatch, Regime, Stopping, Training

RATE, DECAY, CLIP = 1e-3, 1e-4, 1.0
ACCURACY = 0.9901  # more than 0.99 of at most 10,000 validation examples
LENGTH, SIZE = "task.n", "training.regime.m"  # columns of a table: the source's T and m

GRID_NOTES = (
    "The relevant positions are the first s. The source draws them at random; as the positional embeddings are drawn "
    "independently and alike, the two are equal in law.",
    "Dropout on the embeddings is 0 where the source has 0.1 (attention and block outputs keep 0.1): a step is ten to "
    "twenty times cheaper without. Set embedding_dropout=0.1 for the source's.",
)
"""What experiments with `GridSettings` do otherwise than the source."""

Cells = dict[int, tuple[int, int]]  # {m: (successes, trials)}


@dataclass(frozen=True)
class GridSettings:
    """Conjunctions learned from a grid of sample sizes, many trials in each cell."""

    s: int = setting(3, "relevant positions", least=1)
    trials: int = setting(40, "trials per cell, each with its own data set", least=1)
    restarts: int = setting(5, "runs that a trial may have on its data set", least=1)
    budget: int = setting(1000, "steps after which a run has failed", least=1)
    validation: int = setting(10_000, "validation examples, more than 99% of which must be right", least=1)
    check_every: int = setting(10, "steps between two validations", least=1)
    embedding_dropout: float = setting(
        0.0, "dropout on embeddings; the source has 0.1, which is 10 to 20 times dearer", least=0, below=1
    )
    p: float = setting(0.8, "success rate that defines m*", above=0, below=1)

    def trial(self, length: int, m: int, **model: Any) -> Trial:
        """The conjunction of the first s of `length` bits learned from m examples that no other index set fits."""
        task = sparse_and(length, self.s, unique=True)
        task.check_sample(m)
        transformer = SparseTransformer(embedding_dropout=self.embedding_dropout, **model)
        stopping = {word: getattr(self, word) for word in ("budget", "validation", "restarts", "check_every")}
        return Trial(task, transformer, source_training(transformer, FullBatch(m), **stopping))


@dataclass(frozen=True)
class NetworkSettings:
    """The Transformer of an experiment that watches it learn."""

    s: int = setting(3, "relevant bits", least=1)
    validation: int = setting(10_000, "validation examples", least=1)
    embedding: int = setting(64, "embedding dimension", least=1)
    heads: int = setting(16, "attention heads", least=1)
    embedding_dropout: float = setting(
        0.1, "dropout on embeddings; without it training is several times faster", least=0, below=1
    )


SMALL_NETWORK: Any = {"embedding": 16, "heads": 4, "embedding_dropout": 0.0}
"""The network of the smoke scales."""


def source_adam(model: SparseTransformer, rate: float = RATE) -> Adam:
    """The source's optimiser: weight decay on the matrices of linear maps, not on embeddings, norms and biases."""
    decayed = tuple(name for name in MATRICES if name != "U" or not model.tied)
    return Adam(rate, decay=DECAY, clip=CLIP, decayed=decayed)


def source_training(model: SparseTransformer, regime: Regime, *, rate: float = RATE, **stopping: Any) -> Training:
    """Cross-entropy of the two logits, the source's Adam, success above 99%; further options are Stopping's."""
    return Training(source_adam(model, rate), regime, Stopping(**({"accuracy": ACCURACY} | stopping)), loss="logistic")


def cells_of(table: pl.DataFrame) -> dict[int, Cells]:
    """{T: {m: (successes, trials)}} of a table whose columns are these four."""
    cells: dict[int, Cells] = {}
    for length, m, successes, trials in table.iter_rows():
        cells.setdefault(length, {})[m] = (successes, trials)
    return cells


def success_counts(table: pl.DataFrame) -> dict[int, Cells]:
    """{T: {m: (successes, trials)}} of a table of trials, both ascending."""
    solved = (pl.col("outcome") == "converged").sum()
    return cells_of(table.group_by(LENGTH, SIZE).agg(solved.alias("solved"), trials=pl.len()).sort(LENGTH, SIZE))


def identified(cells: Iterable[tuple[int, int]], s: int, draws: int, seed: int = 0) -> pl.DataFrame:
    """Of how many data sets of m samples of T bits one index set alone fits, in each cell (T, m): brute force (P7)."""
    rows = [(length, m, round(unique_probability(length, s, m, draws, seed) * draws), draws) for length, m in cells]
    return pl.DataFrame(rows, schema=["length", "m", "unique", "draws"], orient="row")


def floor_bits(length: int, s: int) -> float:
    """log2 C(T, s): the bits that name an index set, below which no learner is certain."""
    return float(information_floor(length, s)["bits"])


def law_needs(lengths: Sequence[int], factor: float, fewest: int = 4) -> list[str]:
    """What a law of T needs to be told from another: enough lengths, over a wide enough range."""
    range_of = f"is the factor from T = {lengths[0]} to {lengths[-1]}"
    return [need(len(lengths), fewest, "lengths"), need(lengths[-1] / lengths[0], factor, range_of)]


def require_longer(lengths: int | Sequence[int], s: int) -> None:
    """Refuse contexts that have no irrelevant position."""
    if isinstance(lengths, int):
        require(lengths > s, f"length must exceed s={s}; got length={lengths} (try {s + 1})")
    else:
        require(min(lengths) > s, f"every length must exceed s={s}; got {min(lengths)} (try {s + 1})")


def some_of(lengths: Sequence[int], count: int = 5) -> Sequence[int]:
    """About so many of the lengths, for the ticks of an axis."""
    return lengths[:: max(1, len(lengths) // count)]
