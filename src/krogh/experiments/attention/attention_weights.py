"""Figure 4.3 right: where the [CLS] token of a trained one-head Transformer looks, position by position.

The source shows the weights of 100 validation samples in one scatter plot, in which irrelevant positions get next to
nothing. Here the plot is split by label, because the head that learns a conjunction looks for a *false* relevant bit:
where there is one (label 0) it takes nearly all of the weight, where there is none (label 1) the weight is spread.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np
import polars as pl

from krogh.engine import Trial, Trials, sweep
from krogh.errors import require
from krogh.experiments.attention.common import source_training
from krogh.lab import Claims, Experiment, Figure, Network, Results, Tables, experiment, figures, groups, need, setting
from krogh.lab.estimate import median
from krogh.lab.experiment import Measures
from krogh.models import SparseTransformer
from krogh.probes.attention import profile_by_label, weight_by_bit
from krogh.tasks import sparse_and
from krogh.training import FullBatch

DROPOUT = "embedding_dropout"
FEWEST = 6  # networks at which the median's distribution-free interval is the range of all
PARTS = {
    "relevant_mass": (figures.VERMILLION, "relevant positions"),
    "own_weight": (figures.GREEN, "[CLS] itself"),
    "irrelevant_mass": (figures.BLUE, "irrelevant positions"),
}


@dataclass(frozen=True)
class Settings:
    n: int = setting(50, "bits of context, the source's T", least=2)
    support: tuple[int, ...] = setting((5, 20, 30), "the relevant positions, counted from 0", distinct=True, least=0)
    m: int = setting(300, "training samples", least=1)
    networks: int = setting(12, "networks per dropout, seeds 0, 1, ...", least=1)
    embedding_dropouts: tuple[float, ...] = setting(
        (0.1, 0.0), "dropout on embeddings: the source's, and none", distinct=True, least=0, below=1
    )
    budget: int = setting(500, "full-batch steps", least=1)
    validation: int = setting(10_000, "hold-out examples", least=1)
    samples: int = setting(100, "hold-out examples whose attention is looked at", least=1)
    embedding: int = setting(64, "embedding dimension, and that of the one head", least=1)


@experiment("attention/weights")
class AttentionWeights(Experiment[Settings]):
    """The attention weights of a network that has learned a sparse conjunction, by label."""

    title = "A trained head ignores the irrelevant bits"
    question = "Where does a trained attention head look, when only three of fifty positions matter?"
    source = "dissertation, Figure 4.3 right and §A.3.2"
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

    def check(self, settings: Settings) -> None:
        samples, examples = settings.samples, settings.validation
        require(samples <= examples, f"samples are the first of validation={examples} examples; got samples={samples}")

    def trials(self, settings: Settings) -> Iterator[Trials]:
        task = sparse_and(settings.n, len(settings.support), support=settings.support, unique=True)
        task.check_sample(settings.m)
        stopping = {"budget": settings.budget, "accuracy": 1.0, "validation": settings.validation, "early": False}
        for rate in settings.embedding_dropouts:
            model = SparseTransformer(settings.embedding, 1, embedding_dropout=rate)
            trial = Trial(task, model, source_training(model, FullBatch(settings.m), **stopping))
            yield from sweep(trial, seed=range(settings.networks), label={DROPOUT: rate})

    def measure(self, results: Results[Settings]) -> Measures:
        """Where the weight of every network lies, by label; and the single weights of the first networks."""
        return {"profiles": lambda: _profiles(results), "weights": lambda: _weights_of_first(results)}

    def claims(self, tables: Tables[Settings], say: Claims) -> None:
        for rate in tables.settings.embedding_dropouts:
            self._claim_dropout(rate, tables, say)

    def _claim_dropout(self, rate: float, tables: Tables[Settings], say: Claims) -> None:
        settings = tables.settings
        own = tables["profiles"].filter(pl.col(DROPOUT) == rate)
        false, elsewhere = own.filter(label=0), own.filter(label=1)["irrelevant_mass"].to_numpy()
        spread = f"{elsewhere.min():.2f} to {elsewhere.max():.2f}" if len(elsewhere) else "an unknown share"
        enough = need(len(false), max(FEWEST, settings.networks), "networks with a sample of label 0")
        about = say.about(head=f"Embedding dropout {rate:g}: ", needs=[enough])

        def decide(
            name: str, statement: str, statistic: str, values: pl.Series, most: float = 1.0, **bound: Any
        ) -> None:
            among: Any = {"lowest": 0.0, "highest": most, "sample": f"dropout {rate:g}"}
            middle = median(values.to_numpy(), nothing="no network has such a sample", **among)
            about(f"{name}-dropout-{rate:g}", statement, middle, f"median over networks of {statistic}", **bound)

        decide(
            "accuracy",
            f"the one-head network is right on its {settings.validation:,} hold-out samples.",
            "hold-out accuracy",
            false["accuracy"],
            source_value="100% on 10^4 hold-out samples",
            at_least=0.999,
        )
        decide(
            "relevant-mass",
            "where the label is 0, nearly all of the weight is on the relevant positions (where it is 1, "
            f"{spread} of it is on irrelevant ones).",
            "the mean relevant mass, label 0",
            false["relevant_mass"],
            source_value="irrelevant bits approximately zeroed out",
            at_least=0.95,
        )
        decide(
            "irrelevant-weight",
            "where the label is 0, no irrelevant position of any sample gets a sizeable weight.",
            "the largest weight on an irrelevant position, label 0",
            false["largest_irrelevant"],
            source_value="approximately zero",
            at_most=0.05,
        )
        decide(
            "input-dependent",
            "the head looks for zeros: a relevant position whose bit is 0 gets more weight than one whose bit is 1.",
            "the mean weight on a relevant 0 / on a relevant 1",
            (false["relevant_0"] / false["relevant_1"]).fill_nan(0.0),
            math.inf,
            source_value="input-dependent attention weights",
            above=1.0,
        )

    def figures(self, tables: Tables[Settings]) -> Iterable[Figure]:
        yield self._weights(tables)
        yield self._masses(tables)

    def _weights(self, tables: Tables[Settings]) -> Figure:
        settings, rates = tables.settings, tables.settings.embedding_dropouts
        chart = self.chart(
            "attention-weights",
            "Attention weights by position and label",
            headline="A head that learned a conjunction looks for a relevant zero, and nowhere else while there is one",
            rows=2,
            columns=len(rates),
            width=max(7.0, 2.0 + 4.2 * len(rates)),
            height=5.0,
            sharex=True,
            sharey=True,
        )
        kinds = {
            "irrelevant": (figures.BLUE, ~pl.col("position").is_in([*settings.support, settings.n])),
            "relevant": (figures.VERMILLION, pl.col("position").is_in(list(settings.support))),
            "[CLS] itself": (figures.GREEN, pl.col("position") == settings.n),
        }
        looks: dict[str, Any] = {"s": 9, "alpha": 0.45, "linewidths": 0}
        for label in (0, 1):
            for rate in rates:
                own = tables["weights"].filter(pl.col(DROPOUT) == rate, label=label)
                count = own["sample"].n_unique()
                title = f"label {label} ({count} samples), embedding dropout {rate:g}"
                ax = chart.panel(title=title, ylim=(-0.03, 1.03)).ax
                for color, chosen in kinds.values():
                    dots = own.filter(chosen)
                    ax.scatter(dots["position"], dots["weight"], color=color, **looks)
        for panel in chart.panels[len(rates) :]:
            panel.axes(x="position")
            panel.ax.set_xticks([*settings.support, settings.n], [*map(str, settings.support), "[CLS]"])
        for panel in chart.panels[:: len(rates)]:
            panel.axes(y="attention weight at [CLS]")
        shown = {name: color for name, (color, chosen) in kinds.items() if len(tables["weights"].filter(chosen))}
        chart.key(shown, markeredgewidth=0)  # opaque, as many dots on one another are
        return chart.figure(
            f"Weights with which [CLS] attends to each of T = {settings.n} positions and to itself, one dot per "
            f"sample, for {settings.samples} hold-out samples of one network (seed 0) trained on m = {settings.m}; "
            f"relevant positions {', '.join(map(str, settings.support))}. Above: some relevant bit is 0. Below: all "
            "are 1.",
            tables["weights"],
        )

    def _masses(self, tables: Tables[Settings]) -> Figure:
        settings, table = tables.settings, tables["profiles"]
        rows = [(rate, label) for rate in settings.embedding_dropouts for label in (0, 1)]
        chart = self.chart(
            "attention-masses",
            "Where the weight lies, by label",
            headline="Where the weight lies depends on the label",
            width=6.0,
            height=1.3 + 0.55 * len(rows),
        )
        panel = chart.panel(x="mean share of [CLS]'s attention", xlim=(0, 1))
        by_row, places, left = groups(table, (DROPOUT, "label")), np.arange(len(rows))[::-1], np.zeros(len(rows))
        for name, (color, words) in PARTS.items():
            share = np.array([by_row[row][name].mean() if row in by_row else 0.0 for row in rows])
            panel.ax.barh(places, share, left=left, color=color, height=0.6, label=words)
            left = left + share
        panel.ax.set_yticks(places, [f"label {label}, dropout {rate:g}" for rate, label in rows])
        panel.ax.grid(False, axis="y")
        panel.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=3)
        return chart.figure(
            f"Mean over {settings.networks} networks and {settings.samples} hold-out samples each. The data give each "
            "network's masses, its largest weight on an irrelevant position, and the mean weight on a relevant bit "
            "that is 0 and that is 1.",
            table,
        )


@functools.partial(jax.jit, static_argnums=2)
def _attention(trial: Trial, params: dict[str, jax.Array], samples: int) -> tuple[jax.Array, jax.Array, jax.Array]:
    x, _, truth, _ = trial.validation(samples)
    assert isinstance(trial.model, SparseTransformer)
    return trial.model.attention(params, x), x, truth


def attention_on_samples(network: Network, settings: Settings) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Weights [samples, 1, n+1], labels [samples] and bits [samples, n] of a network's first hold-out samples.

    A network that diverged looks at an irrelevant position, the worst it can do.
    """
    params = network.initial if network.final is None else network.final
    weights, x, truth = (np.asarray(part) for part in _attention(network.trial, params, settings.samples))
    if network.final is None:
        places = np.arange(settings.n + 1)
        wrong = places == next(place for place in places if place not in settings.support)
        weights = np.broadcast_to(wrong, weights.shape)
    return weights.astype(np.float64), truth > 0, x < 0


def _profiles(results: Results[Settings]) -> pl.DataFrame:
    """One row per network and label: where the weight lies."""
    settings, rows = results.settings, []
    for network in results.networks():
        weights, labels, bits = attention_on_samples(network, settings)
        by_bit = weight_by_bit(weights, settings.support, bits)
        accuracy = float(network.row["accuracy"]) if network.final is not None else 0.0
        about = {"accuracy": accuracy, "relevant_0": by_bit[0], "relevant_1": by_bit[1]}
        for label, profile in profile_by_label(weights, settings.support, labels).items():
            rows.append({DROPOUT: network.row[DROPOUT], "seed": network.seed, "label": label} | profile | about)
    return pl.DataFrame(rows)


def _weights_of_first(results: Results[Settings]) -> pl.DataFrame:
    """Every weight of the networks of seed 0, by label, sample and position."""
    parts = []
    for network in results.networks(seed=0):
        weights, labels, _ = attention_on_samples(network, results.settings)
        for label in (0, 1):
            own = weights[labels == bool(label), 0]
            samples, positions = np.indices(own.shape)
            entries = pl.DataFrame({"sample": samples.ravel(), "position": positions.ravel(), "weight": own.ravel()})
            parts.append(
                entries.select(pl.lit(network.row[DROPOUT]).alias(DROPOUT), pl.lit(label).alias("label"), pl.all())
            )
    return pl.concat(parts)
