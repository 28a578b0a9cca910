"""Figure 4.3 right: where the [CLS] token of a trained one-head Transformer looks, position by position.

The source shows the weights of 100 validation samples in one scatter plot, in which irrelevant positions get next to
nothing. Here the plot is split by label, because the head that learns a conjunction looks for a *false* relevant bit:
where there is one (label 0) it takes nearly all of the weight, where there is none (label 1) the weight is spread.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl

from krogh.engine import Trials
from krogh.experiments.attention.attention_networks import Settings, networks_of, profiles, trials_of
from krogh.lab import Claim, Experiment, Figure, Results, claim, experiment, figures
from krogh.lab.statistics import Interval, quantile, quantile_interval

SOURCE = "dissertation, Figure 4.3 right and §A.3.2"
FEWEST = 6  # networks at which the median's distribution-free interval is the range of all


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
        return trials_of(settings)

    def claims(self, results: Results[Settings]) -> list[Claim]:
        return [found for rate in results.settings.embedding_dropouts for found in _claims_of(rate, results)]

    def figures(self, results: Results[Settings]) -> list[Figure]:
        return [_scatter(results), _masses(results)]


def _claims_of(rate: float, results: Results[Settings]) -> list[Claim]:
    table = profiles(results).filter(embedding_dropout=rate)
    false, true = table.filter(label=0), table.filter(label=1)
    count = results.settings.networks
    shared: dict[str, Any] = {
        "source": SOURCE,
        "trials": count,
        "enough": count >= FEWEST and len(false) == count,
        "too_small": f"{len(false)} networks with a sample of label 0; a verdict needs {FEWEST}",
    }

    def found(name: str, statement: str, statistic: str, values: pl.Series, source_value: str, **bound: Any) -> Claim:
        return claim(
            f"{name}-dropout-{rate:g}",
            f"Embedding dropout {rate:g}: {statement}",
            statistic=f"median over networks of {statistic}",
            interval=_median(values),
            source_value=source_value,
            **bound,
            **shared,
        )

    return [
        found(
            "accuracy",
            f"the one-head network is right on its {results.settings.validation:,} hold-out samples.",
            "hold-out accuracy",
            false["accuracy"],
            "100% on 10^4 hold-out samples",
            at_least=0.999,
        ),
        found(
            "relevant-mass",
            "where the label is 0, nearly all of the weight is on the relevant positions (where it is 1, "
            f"{_range(true['irrelevant_mass'])} of it is on irrelevant ones).",
            "the mean relevant mass, label 0",
            false["relevant_mass"],
            "irrelevant bits approximately zeroed out",
            at_least=0.95,
        ),
        found(
            "irrelevant-weight",
            "where the label is 0, no irrelevant position of any sample gets a sizeable weight.",
            "the largest weight on an irrelevant position, label 0",
            false["largest_irrelevant"],
            "approximately zero",
            at_most=0.05,
        ),
        found(
            "input-dependent",
            "the head looks for zeros: a relevant position whose bit is 0 gets more weight than one whose bit is 1.",
            "the mean weight on a relevant 0 / on a relevant 1",
            false["relevant_0"] / false["relevant_1"],
            "input-dependent attention weights",
            above=1.0,
        ),
    ]


def _median(values: pl.Series) -> Interval:
    numbers = values.fill_nan(0.0).to_numpy()
    if not len(numbers):
        return Interval(float("nan"), float("nan"), float("nan"), 0.95, "no network has such a sample")
    if len(numbers) < FEWEST:
        return Interval(quantile(numbers), float(numbers.min()), float(numbers.max()), 0.0, "range")
    return quantile_interval(numbers)


def _range(values: pl.Series) -> str:
    return f"{values.to_numpy().min():.2f} to {values.to_numpy().max():.2f}" if len(values) else "an unknown share"


# --- how it looks ---------------------------------------------------------------------------------------------


def _scatter(results: Results[Settings]) -> Figure:
    settings = results.settings
    rates = settings.embedding_dropouts
    fig, axes = figures.new_figure(
        "A head that learned a conjunction looks for a relevant zero, and nowhere else while there is one",
        width=max(7.0, 0.8 + 4.2 * len(rates)),
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
        f"for {settings.samples} hold-out samples of one network (seed 0) trained on m = {settings.m}; relevant "
        f"positions {', '.join(map(str, settings.support))}. Above: some relevant bit is 0. Below: all are 1."
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
    parts = [("relevant_mass", figures.VERMILLION, "relevant positions"), ("own_weight", figures.GREEN, "[CLS] itself")]
    parts += [("irrelevant_mass", figures.BLUE, "irrelevant positions")]
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
        "data give each network's masses, its largest weight on an irrelevant position, and the mean weight on a "
        "relevant bit that is 0 and that is 1."
    )
    return Figure("attention-masses", "Where the weight lies, by label", caption, fig, table)
