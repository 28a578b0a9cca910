"""Figure 4.3 right: where the [CLS] token of a trained one-head Transformer looks, position by position.

The source shows the weights of 100 validation samples in one scatter plot, in which irrelevant positions get next to
nothing. Here the plot is split by label, because the head that learns a conjunction looks for a *false* relevant bit:
where there is one (label 0) it takes nearly all of the weight, where there is none (label 1) the weight is spread.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import polars as pl

from krogh.engine import Trial, Trials, sweep
from krogh.errors import require, require_integer
from krogh.lab import Claim, Experiment, Figure, Results, claim, experiment, figures, setting
from krogh.lab.statistics import Interval, quantile_interval
from krogh.models.sparse_transformer import MATRICES, SparseTransformer
from krogh.tasks.sparse_boolean import sparse_and
from krogh.theory.attention_profile import profile_by_label, weight_by_bit
from krogh.training import Adam, Stopping, Training
from krogh.training.regimes import FullBatch

SOURCE = "dissertation, Figure 4.3 right and §A.3.2"
FEWEST = 6  # networks at which the median's distribution-free interval is the range of all
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


@experiment("attention/weights")
class AttentionWeights(Experiment[Settings]):
    """The attention weights of a network that has learned a sparse conjunction, by label."""

    title = "A trained head ignores the irrelevant bits"
    question = "Where does a trained attention head look, when only three of fifty positions matter?"
    source = SOURCE
    scales = {
        "smoke": Settings(
            n=12,
            support=(1, 4, 9),
            m=40,
            networks=2,
            embedding_dropouts=(0.0,),
            budget=60,
            validation=200,
            samples=20,
            embedding=16,
        ),
        "laptop": Settings(networks=6),
        "paper": Settings(),
    }
    notes = (
        "Statistics are by label: averages over both hide that the head looks for a relevant bit that is 0.",
        "Whether the source counts positions from 0 or from 1 is not stated and makes no difference.",
        "The source shows one network; here the medians over several, each with its own data, decide.",
    )
    keep_weights = True

    def trials(self, settings: Settings) -> list[Trials]:
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
        return [
            cohort for model in models for cohort in sweep(Trial(task, model, training), seed=range(settings.networks))
        ]

    def claims(self, results: Results[Settings]) -> list[Claim]:
        return [found for rate in results.settings.embedding_dropouts for found in _claims_of(rate, results)]

    def figures(self, results: Results[Settings]) -> list[Figure]:
        return [_scatter(results), _masses(results)]


# --- what is measured -----------------------------------------------------------------------------------------


@functools.lru_cache(maxsize=4)
def networks_of(results: Results[Settings]) -> list[Network]:
    """Every trained network with the attention weights of its first hold-out samples."""
    found = []
    rows = {row["id"]: row for row in results.table.select("id", "seed", "accuracy").iter_rows(named=True)}
    for cohort in AttentionWeights().trials(results.settings):
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
    x, _, truth = trial.validation(samples)
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


def _claims_of(rate: float, results: Results[Settings]) -> list[Claim]:
    table = profiles(results).filter(embedding_dropout=rate)
    false = table.filter(label=0)
    true = table.filter(label=1)
    count = results.settings.networks
    shared: dict[str, Any] = {
        "source": SOURCE,
        "trials": count,
        "enough": count >= FEWEST and len(false) == count,
        "too_small": f"{len(false)} networks with a sample of label 0; a verdict needs {FEWEST}",
    }
    where = f"Embedding dropout {rate:g}: "
    spread = _shown(true, lambda row: row["irrelevant_mass"])
    return [
        claim(
            f"accuracy-dropout-{rate:g}",
            where + f"the one-head network is right on its {results.settings.validation:,} hold-out samples.",
            statistic="median over networks of hold-out accuracy",
            interval=_median(false["accuracy"]),
            at_least=0.999,
            source_value="100% on 10^4 hold-out samples",
            **shared,
        ),
        claim(
            f"relevant-mass-dropout-{rate:g}",
            where + "where the label is 0, nearly all of the weight is on the relevant positions "
            f"(where it is 1, {spread} of it is on irrelevant ones).",
            statistic="median over networks of the mean relevant mass, label 0",
            interval=_median(false["relevant_mass"]),
            at_least=0.95,
            source_value="irrelevant bits approximately zeroed out",
            **shared,
        ),
        claim(
            f"irrelevant-weight-dropout-{rate:g}",
            where + "where the label is 0, no irrelevant position of any sample gets a sizeable weight.",
            statistic="median over networks of the largest weight on an irrelevant position, label 0",
            interval=_median(false["largest_irrelevant"]),
            at_most=0.05,
            source_value="approximately zero",
            **shared,
        ),
        claim(
            f"input-dependent-dropout-{rate:g}",
            where
            + "the head looks for zeros: a relevant position whose bit is 0 gets more weight than one whose bit is 1.",
            statistic="median over networks of mean weight on a relevant 0 / on a relevant 1",
            interval=_median(false["relevant_0"] / false["relevant_1"]),
            above=1.0,
            source_value="input-dependent attention weights",
            **shared,
        ),
    ]


def _median(values: pl.Series) -> Interval:
    numbers = values.fill_nan(0.0).to_numpy()
    if not len(numbers):
        return Interval(float("nan"), float("nan"), float("nan"), 0.95, "no network has such a sample")
    return quantile_interval(numbers)


def _shown(rows: pl.DataFrame, pick: Callable[[dict[str, Any]], float]) -> str:
    values = [pick(row) for row in rows.iter_rows(named=True)]
    return f"{min(values):.2f} to {max(values):.2f}" if values else "an unknown share"


# --- how it looks ---------------------------------------------------------------------------------------------


def _scatter(results: Results[Settings]) -> Figure:
    settings = results.settings
    rates = settings.embedding_dropouts
    fig, axes = figures.new_figure(
        "A head that learned a conjunction looks for a relevant zero, and nowhere else while there is one",
        width=0.8 + 4.2 * len(rates),
        height=5.0,
        nrows=2,
        ncols=len(rates),
        sharex=True,
        sharey=True,
    )
    grid = np.reshape(axes, (2, len(rates)))
    tables = []
    for column, rate in enumerate(rates):
        network = next(network for network in networks_of(results) if network.dropout == rate)
        for label in (0, 1):
            chosen = network.weights[network.labels == bool(label), 0]
            _draw_weights(grid[label, column], chosen, settings)
            figures.panel_title(
                grid[label, column], f"label {label} ({len(chosen)} samples), embedding dropout {rate:g}"
            )
            tables.append(_as_table(chosen, settings, rate, label))
    for ax in grid[1]:
        ax.set_xlabel("position")
        ax.set_xticks([*settings.support, settings.n], [*map(str, settings.support), "[CLS]"])
    for ax in grid[:, 0]:
        ax.set_ylabel("attention weight at [CLS]")
    figures.legend(grid[1, 0], loc="upper left", markerscale=1.6)
    figures.source_note(fig, SOURCE)
    caption = (
        f"Weights with which [CLS] attends to each of T = {settings.n} positions and to itself, one dot per sample, "
        f"for {settings.samples} hold-out samples of one network (seed 0) trained on m = {settings.m}; relevant positions "
        f"{', '.join(map(str, settings.support))}. Above: some relevant bit is 0. Below: all are 1."
    )
    return Figure("attention-weights", "Attention weights by position and label", caption, fig, pl.concat(tables))


def _draw_weights(ax: Any, weights: np.ndarray, settings: Settings) -> None:
    n = settings.n
    relevant = np.isin(np.arange(n + 1), settings.support)
    own = np.arange(n + 1) == n
    for which, color, name in (
        (~relevant & ~own, figures.BLUE, "irrelevant"),
        (relevant, figures.VERMILLION, "relevant"),
        (own, figures.GREEN, "[CLS] itself"),
    ):
        places = np.broadcast_to(np.flatnonzero(which), (len(weights), int(which.sum())))
        ax.scatter(places, weights[:, which], s=9, alpha=0.45, color=color, linewidths=0, label=name)
    ax.set_ylim(-0.03, 1.03)


def _as_table(weights: np.ndarray, settings: Settings, rate: float, label: int) -> pl.DataFrame:
    samples, positions = weights.shape
    return pl.DataFrame(
        {
            "embedding_dropout": np.full(weights.size, rate),
            "label": np.full(weights.size, label),
            "sample": np.repeat(np.arange(samples), positions),
            "position": np.tile(np.arange(positions), samples),
            "weight": weights.ravel(),
        }
    )


def _masses(results: Results[Settings]) -> Figure:
    table = profiles(results)
    rates = results.settings.embedding_dropouts
    rows = [(rate, label) for rate in rates for label in (0, 1)]
    fig, ax = figures.new_figure("Where the weight lies depends on the label", height=1.3 + 0.55 * len(rows))
    parts = (("relevant_mass", figures.VERMILLION, "relevant positions"), ("own_weight", figures.GREEN, "[CLS] itself"))
    parts += (("irrelevant_mass", figures.BLUE, "irrelevant positions"),)
    places = np.arange(len(rows))[::-1]
    left = np.zeros(len(rows))
    for name, color, words in parts:
        means = [table.filter(embedding_dropout=rate, label=label)[name].mean() or 0.0 for rate, label in rows]
        share = np.array(means, float)
        ax.barh(places, share, left=left, color=color, height=0.6, label=words)
        left = left + share
    ax.set_yticks(places, [f"label {label}, dropout {rate:g}" for rate, label in rows])
    ax.set_xlim(0, 1)
    ax.set_xlabel("mean share of [CLS]'s attention")
    ax.grid(False, axis="y")
    figures.legend(ax, loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=3)
    figures.source_note(fig, SOURCE)
    caption = (
        f"Mean over {results.settings.networks} networks and {results.settings.samples} hold-out samples each. The "
        "data give each network's masses, its largest weight on an irrelevant position, and the mean weight on a relevant "
        "bit that is 0 and that is 1."
    )
    return Figure("attention-masses", "Where the weight lies, by label", caption, fig, table)
