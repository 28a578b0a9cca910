"""What the experiments of chapter 4 share: the Transformer, its training, and success rates (§A.3.1).

Full-batch Adam at rate 1e-3 with decay 1e-4 on the weight matrices alone and gradients clipped at norm 1. A run
succeeds when more than 99% of the validation sample is right at any check; a trial may begin again on the same data.

Dropout on the embeddings is the one departure from the source, which has it at 0.1: without it the tokens are a table
over (bit, position), and a step costs a tenth to a twentieth. `embedding_dropout=0.1` brings it back.
"""

from __future__ import annotations

from typing import Any

import polars as pl

from krogh.engine import Trial
from krogh.lab.sample_complexity import Counts
from krogh.models.sparse_transformer import MATRICES, SparseTransformer
from krogh.tasks.sparse_boolean import sparse_and
from krogh.training import Adam, Regime, Stopping, Training
from krogh.training.regimes import FullBatch

RATE, DECAY, CLIP = 1e-3, 1e-4, 1.0
ACCURACY = 0.9901  # more than 0.99 of at most 10,000 validation examples
LENGTH, SIZE = "task.n", "training.regime.m"  # columns of a table: the source's T and m

SUPPORT_NOTE = (
    "The relevant positions are the first s. The source draws them at random; as the positional embeddings are drawn "
    "independently and alike, the two are equal in law."
)
DROPOUT_NOTE = (
    "Dropout on the embeddings is 0 where the source has 0.1 (attention and block outputs keep 0.1): a step is ten to "
    "twenty times cheaper without. Set embedding_dropout=0.1 for the source's."
)


def source_adam(model: SparseTransformer) -> Adam:
    """The source's optimiser: weight decay on the matrices of linear maps, not on embeddings, norms and biases."""
    decayed = tuple(name for name in MATRICES if name != "U" or not model.tied)
    return Adam(RATE, decay=DECAY, clip=CLIP, decayed=decayed)


def source_training(
    model: SparseTransformer,
    regime: Regime,
    *,
    budget: int = 1000,
    validation: int = 10_000,
    restarts: int = 1,
    check_every: int = 10,
    **options: Any,
) -> Training:
    """Cross-entropy of the two logits, the source's Adam, success above 99%; further options are Stopping's."""
    settings = {"accuracy": ACCURACY, "budget": budget, "validation": validation, "check_every": check_every}
    stopping = Stopping(restarts=restarts, **(settings | options))
    return Training(source_adam(model), regime, stopping, loss="logistic")


def conjunction_trial(length: int, s: int, m: int, model: SparseTransformer, **options: Any) -> Trial:
    """The conjunction of the first s of `length` bits learned from m examples that no other index set fits."""
    task = sparse_and(length, s, unique=True)
    task.check_sample(m)
    return Trial(task, model, source_training(model, FullBatch(m), **options))


def success_counts(table: pl.DataFrame) -> dict[int, Counts]:
    """{T: {m: (successes, trials)}} of a table of trials, both ascending."""
    solved = (pl.col("outcome") == "converged").sum()
    cells = table.group_by(LENGTH, SIZE).agg(solved.alias("solved"), pl.len().alias("trials")).sort(LENGTH, SIZE)
    counts: dict[int, dict[int, tuple[int, int]]] = {}
    for length, size, hits, trials in cells.iter_rows():
        counts.setdefault(length, {})[size] = (hits, trials)
    return dict(counts)
