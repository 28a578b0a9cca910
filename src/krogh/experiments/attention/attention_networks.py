"""The networks behind Figure 4.3 right: what is trained, and where their [CLS] tokens look afterwards."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import polars as pl

from krogh.engine import Trial, Trials, sweep
from krogh.errors import require, require_integer
from krogh.lab import Results, setting
from krogh.models.sparse_transformer import MATRICES, SparseTransformer
from krogh.tasks.sparse_boolean import sparse_and
from krogh.theory.attention_profile import profile_by_label, weight_by_bit
from krogh.training import Adam, Stopping, Training
from krogh.training.regimes import FullBatch

OPTIMISER = Adam(1e-3, decay=1e-4, clip=1.0, decayed=MATRICES)


@dataclass(frozen=True)
class Settings:
    n: int = setting(50, "bits of context, the source's T")
    support: tuple[int, ...] = setting((5, 20, 30), "the relevant positions, counted from 0")
    m: int = setting(300, "training samples")
    networks: int = setting(12, "networks per dropout, seeds 0, 1, ...")
    embedding_dropouts: tuple[float, ...] = setting((0.1, 0.0), "dropout on embeddings: the source's, and none")
    budget: int = setting(500, "full-batch steps")
    validation: int = setting(10_000, "hold-out examples")
    samples: int = setting(100, "hold-out examples whose attention is looked at")
    embedding: int = setting(64, "embedding dimension, and that of the one head")


@dataclass(frozen=True)
class Network:
    """A trained network on its hold-out samples: weights [samples, 1, n+1], labels [samples], bits [samples, n]."""

    dropout: float
    seed: int
    accuracy: float
    weights: np.ndarray
    labels: np.ndarray
    bits: np.ndarray


def trials_of(settings: Settings) -> list[Trials]:
    """The networks, a cohort per dropout."""
    rates = settings.embedding_dropouts
    require(len(set(rates)) == len(rates) >= 1, f"embedding_dropouts must be different rates; got {rates}")
    for name in ("networks", "samples"):
        require_integer(name, getattr(settings, name), 1)
    require(
        settings.samples <= settings.validation,
        f"samples are the first of validation={settings.validation} examples; got samples={settings.samples}",
    )
    task = sparse_and(settings.n, len(settings.support), support=settings.support, unique=True)
    task.check_sample(settings.m)
    stopping = Stopping(settings.budget, validation=settings.validation, early=False)
    training = Training(OPTIMISER, FullBatch(settings.m), stopping, "logistic")
    models = [SparseTransformer(settings.embedding, 1, embedding_dropout=rate) for rate in rates]
    return [cohort for model in models for cohort in sweep(Trial(task, model, training), seed=range(settings.networks))]


@functools.lru_cache(maxsize=4)
def networks_of(results: Results[Settings]) -> list[Network]:
    """Every trained network with the attention weights of its first hold-out samples."""
    found = []
    rows = {row["id"]: row for row in results.table.select("id", "seed", "accuracy").iter_rows(named=True)}
    for cohort in trials_of(results.settings):
        for trial, identity in zip(cohort, cohort.ids().tolist(), strict=True):
            params = {name: jnp.asarray(array) for name, array in results.weights(identity).items()}
            weights, x, truth = _looked_at(trial, params, results.settings.samples)
            found.append(
                Network(
                    dropout=trial.model.embedding_dropout,  # type: ignore[attr-defined]
                    seed=int(rows[identity]["seed"]),
                    accuracy=float(rows[identity]["accuracy"]),
                    weights=np.asarray(weights, np.float64),
                    labels=np.asarray(truth) > 0,
                    bits=np.asarray(x) < 0,
                )
            )
    return found


@functools.partial(jax.jit, static_argnums=2)
def _looked_at(trial: Trial, params: dict[str, jax.Array], samples: int) -> tuple[jax.Array, jax.Array, jax.Array]:
    x, _, truth, _ = trial.validation(samples)
    assert isinstance(trial.model, SparseTransformer)
    return trial.model.attention(params, x), x, truth


def profiles(results: Results[Settings]) -> pl.DataFrame:
    """One row per network and label: where the weight lies."""
    support = results.settings.support
    rows = []
    for network in networks_of(results):
        by_label = profile_by_label(network.weights, support, network.labels)
        by_bit = weight_by_bit(network.weights, support, network.bits)
        for label, profile in by_label.items():
            head: dict[str, Any] = {"embedding_dropout": network.dropout, "seed": network.seed, "label": label}
            about = {"accuracy": network.accuracy, "relevant_0": by_bit[0], "relevant_1": by_bit[1]}
            rows.append(head | profile | about)
    return pl.DataFrame(rows)
