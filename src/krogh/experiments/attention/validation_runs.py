"""The runs behind Figure 4.3 left: what is trained, and what is measured on the trained weights afterwards."""

from __future__ import annotations

import functools
from dataclasses import dataclass

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import polars as pl

from krogh.engine import Trial, Trials, stack
from krogh.engine.trial import DATA
from krogh.errors import require, require_integer
from krogh.lab import Results, setting
from krogh.models.sparse_transformer import MATRICES, SparseTransformer
from krogh.probes import Error
from krogh.tasks.sparse_boolean import sparse_and
from krogh.theory.trained_norms import samples_promised, trained_gap, trained_norms
from krogh.training import Adam, Stopping, Training
from krogh.training.losses import logistic
from krogh.training.regimes import FullBatch
from krogh.values import replaced

BOUND_POINTS = 40
SUCCESS = 0.9901  # more than 0.99 of 10^4 validation examples
OPTIMISER = Adam(1e-3, decay=1e-4, clip=1.0, decayed=MATRICES)


@dataclass(frozen=True)
class Settings:
    n: int = setting(300, "bits of context, the source's T")
    s: int = setting(3, "relevant bits")
    sizes: tuple[int, ...] = setting((200, 50), "training samples m, above and below the threshold")
    replicates: int = setting(40, "data sets per sample size")
    restarts: int = setting(5, "runs per data set, of which the best is shown")
    budget: int = setting(1000, "full-batch steps of a run")
    validation: int = setting(10_000, "validation examples")
    embedding: int = setting(64, "embedding dimension")
    heads: int = setting(16, "attention heads")
    embedding_dropout: float = setting(0.1, "dropout on embeddings; without it training is several times faster")


def trials_of(settings: Settings) -> list[Trials]:
    """Every run: sizes, then replicates (data sets), then restarts (weights)."""
    sizes = settings.sizes
    require(len(set(sizes)) == len(sizes) >= 2, f"sizes must be at least two different m; got sizes={sizes}")
    for name in ("replicates", "restarts"):
        require_integer(name, getattr(settings, name), 1)
    task = sparse_and(settings.n, settings.s, unique=True)
    for m in sizes:
        task.check_sample(m)
    model = SparseTransformer(settings.embedding, settings.heads, embedding_dropout=settings.embedding_dropout)
    stopping = Stopping(settings.budget, SUCCESS, validation=settings.validation, early=False)
    first = Trial(
        task, model, Training(OPTIMISER, FullBatch(sizes[0]), stopping, "logistic"), init_seed=0, probes=(Error(),)
    )
    runs = []
    for m in sizes:
        trial = replaced(first, "training.regime.m", m)
        for number in range(settings.replicates * settings.restarts):
            # No two replicates begin with the same weights: they would not be independent.
            runs.append(_seeded(trial, number // settings.restarts, number))
    return stack(runs)


def _seeded(trial: Trial, seed: int, init_seed: int) -> Trial:
    """The trial with other seeds, without checking the rest of it again."""
    given = tuple(np.asarray(number, np.uint32) for number in (seed, init_seed))
    return eqx.tree_at(lambda old: (old.seed, old.init_seed), trial, given)


@functools.lru_cache(maxsize=4)
def runs_of(results: Results[Settings]) -> pl.DataFrame:
    """One row per run: its accuracies, and for the best run of each replicate (`chosen`) gap, norms and bounds."""
    settings = results.settings
    (cohort,) = trials_of(settings)
    fitted, ids = cohort.fitted(), cohort.ids()
    place = {int(identity): position for position, identity in enumerate(ids)}
    table = results.table.select(
        "id",
        "seed",
        "init_seed",
        pl.col("training.regime.m").alias("m"),
        pl.col("convergence_time").is_not_null().alias("passed"),
        pl.col("accuracy").fill_nan(0.0).cast(pl.Float64).alias("final_accuracy"),
        (1 - pl.col("curve.error").list.eval(pl.element().fill_nan(1.0)).list.min())
        .cast(pl.Float64)
        .alias("best_accuracy"),
    )
    fits = [training_fit(fitted[place[identity]], results.weights(identity)) for identity in table["id"].to_list()]
    ranked = ["passed", "best_accuracy", "final_accuracy"]
    table = table.with_columns(
        train_accuracy=pl.Series([right for right, _ in fits]), train_loss=pl.Series([loss for _, loss in fits])
    )
    best = table.sort(ranked, descending=True, maintain_order=True).group_by("m", "seed", maintain_order=True).first()
    bounds = [_bounds(results.weights(row["id"]), row["m"], settings) for row in best.iter_rows(named=True)]
    best = pl.concat([best.select("id"), pl.DataFrame(bounds)], how="horizontal").with_columns(chosen=pl.lit(True))
    joined = table.join(best, on="id", how="left", maintain_order="left")
    return joined.with_columns(
        gap=pl.col("train_accuracy") - pl.col("final_accuracy"),
        best_gap=pl.col("train_accuracy") - pl.col("best_accuracy"),
        chosen=pl.col("chosen").fill_null(False),
    )


def training_fit(trial: Trial, weights: dict[str, np.ndarray]) -> tuple[float, float]:
    """Accuracy and mean loss of trained weights on the trial's own training sample, dropout off."""
    right, loss = _fit(trial, {name: jnp.asarray(array) for name, array in weights.items()})
    return float(right), float(loss)


@jax.jit
def _fit(trial: Trial, params: dict[str, jax.Array]) -> tuple[jax.Array, jax.Array]:
    regime = trial.training.regime
    raw, weight = regime.batch(trial.task, regime.sample(trial.task, trial.key(DATA)), None)
    assert weight is not None
    x, y, truth, _ = trial.task.decode(raw)
    prediction = trial.model.predict(params, x)
    # A sum of m shares 1/m may miss 1 in its last bit: count, and divide once.
    wrong = jnp.sum(trial.task.error(prediction, truth) * (weight > 0).astype(jnp.float32))
    return 1.0 - wrong * jnp.max(weight), jnp.sum(logistic(prediction, y) * weight)


@functools.lru_cache(maxsize=4)
def typical_bound(results: Results[Settings]) -> tuple[pl.DataFrame, float]:
    """The bound against m for the norms of one network, and the m at which it falls to 1.

    The network is the one of median bound among the best runs of the largest sample size.
    """
    settings = results.settings
    best = runs_of(results).filter(pl.col("chosen"), pl.col("m") == max(settings.sizes)).sort("gap_explicit")
    norms = trained_norms(results.weights(best["id"][(len(best) - 1) // 2]), settings.heads)
    needed = samples_promised(norms, settings.n + 1)
    last = 4 * needed if np.isfinite(needed) else 1e18
    sizes = np.geomspace(min(settings.sizes), last, BOUND_POINTS)
    bounds = [trained_gap(norms, settings.n + 1, int(m)) for m in sizes]
    return pl.DataFrame({"m": sizes, **{name: [each[name] for each in bounds] for name in bounds[0]}}), float(needed)


def _bounds(weights: dict[str, np.ndarray], m: int, settings: Settings) -> dict[str, float]:
    norms = trained_norms(weights, settings.heads)
    largest = {name: float(getattr(norms, name).max()) for name in ("value", "value_21", "query_key", "query_key_21")}
    named = largest | {name: getattr(norms, name) for name in ("token_norm", "query_norm", "readout")}
    return named | trained_gap(norms, settings.n + 1, m)
