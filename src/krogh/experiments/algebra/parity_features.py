"""Figure 7.5: networks of x^k neurons that learn a (n,k)-parity, their features and their margin.

Theorem 7.8: in a network of maximum margin every neuron reads the k relevant bits alone, all with one weight, which is
also the norm of its output weights (β, -β), and the signs multiply to the label's.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from krogh.engine import Trial, Trials, sweep
from krogh.errors import require
from krogh.experiments.algebra.common import (
    MedianClaims,
    curve_table,
    distance_figure,
    draw_networks,
    final_arrays,
    margin_measures,
    measure_networks,
)
from krogh.lab import Chart, Claims, Experiment, Figure, Results, Tables, experiment, figures, groups, setting
from krogh.lab.charts import Panel
from krogh.lab.experiment import Measures
from krogh.models.two_layer import PowerNetwork
from krogh.networks.groups.arrays import Network as Arrays
from krogh.networks.groups.arrays import PowerArrays
from krogh.networks.groups.measures import cross_entropy, dataset_margin
from krogh.probes.features.parity import parity_structure
from krogh.probes.margins import Margin
from krogh.tasks.parity import ParityClasses
from krogh.theory.groups.finite import FiniteLambda, finite_lambda
from krogh.theory.groups.maximum import max_margin_parity
from krogh.theory.groups.problems import ParityProblem
from krogh.training.training import MarginPreset

SHOWN = 12  # neurons of Figure 7.5(a), those of largest norm
GAP = 0.02

MEASURES = (
    "margin", "cross_entropy", "ratio", "kept", "kept_share", "off_share", "deviation", "imbalance", "sign_rule",
    "patterns", "neurons", "worst_neuron", "shares", "function", "gap", "gap_of_neurons", "gap_of_logits",
)  # fmt: skip


@dataclass(frozen=True)
class Settings:
    n: int = setting(10, "input bits", least=1)
    k: int = setting(4, "relevant bits, the first ones, and the exponent of the activation", least=1)
    width: int = setting(40, "neurons", least=1)
    steps: int = setting(30_000, "steps of gradient descent on all 2^n inputs", least=1)
    rate: float = setting(0.1, "learning rate", least=0)
    weight: float = setting(1e-3, "λ of the penalty λ Σ‖ω_i‖^(k+1)", above=0)
    seeds: int = setting(6, "networks", least=1)
    probe_every: int = setting(100, "steps between two points of a curve", least=1)

    @property
    def problem(self) -> ParityProblem:
        return ParityProblem(self.n, k=self.k)


@experiment("algebra/parity")
class ParityFeatures(Experiment[Settings]):
    """Networks that learn a sparse parity from the whole cube: structure, margin, and distance from theory's family."""

    title = "Networks of maximum margin on a parity read the relevant bits and nothing else"
    question = "Which features does a network have that learned a sparse parity with small weight decay?"
    source = "dissertation, Figure 7.5 and Theorem 7.8"
    scales = {
        "smoke": Settings(n=6, k=3, width=20, steps=1500, seeds=2),
        "laptop": Settings(),
        "paper": Settings(),
    }
    notes = (
        "The source calls the activation of this network quadratic in D.2.2; it is x^4 (Figure 7.5 and Theorem 7.8).",
        "Initialisation (uniform ±1/√fan_in) and the penalty's exponent (ν = k+1) are not stated in the source.",
        "Weights are judged on neurons above half the largest norm: smaller ones decay slowly and stay without "
        "structure.",
    )
    keep_weights = True

    def check(self, settings: Settings) -> None:
        zero = max_margin_parity(settings.problem.k).value / 2
        require(
            settings.weight < zero,
            f"weight must be below γ*/2 = {zero:.4g}, from which on the zero network is optimal for k={settings.k}; "
            f"got weight={settings.weight!r}",
        )

    def trials(self, settings: Settings) -> Iterable[Trials]:
        name = f"parity({settings.n}, {settings.k})"
        preset = MarginPreset(name, settings.width, settings.steps, settings.rate, (), settings.weight)
        trial = Trial(
            ParityClasses(settings.n, settings.k),
            PowerNetwork(settings.width, settings.k),
            preset.training(settings.probe_every),
            probes=(Margin(),),
        )
        return sweep(trial, seed=range(settings.seeds))

    def measure(self, results: Results[Settings]) -> Measures:
        problem = results.settings.problem
        measures = functools.partial(parity_measures, problem=problem)
        gamma = max_margin_parity(problem.k).value
        return {
            "networks": lambda: pl.DataFrame(measure_networks(results.networks(), (), measures, gamma)),
            "neurons": lambda: neurons_of(results),
        }

    def claims(self, tables: Tables[Settings], say: Claims) -> None:
        settings, table = tables.settings, tables["networks"].filter(when="end")
        gamma, patterns = max_margin_parity(settings.k).value, 2 ** (settings.k - 1)
        claim = MedianClaims(say.about(head=f"({settings.n},{settings.k})-parity: "), table)
        claim.bound(f"γ* = {gamma:.5g}", "dissertation, Theorem 7.8")
        claim.margin(
            "margin",
            "the normalised margin approaches the maximum.",
            at_least=0.98,
            source_value=f"approaches γ* = {gamma:.5g} (Figure 7.5b)",
        )
        claim(
            "support",
            "neurons read the relevant bits alone.",
            "off_share",
            "the largest weight off the support over the largest of all, kept neurons",
            at_most=0.05,
            source_value="0 (Theorem 7.8)",
        )
        claim(
            "equal-weights",
            "the weights of the relevant bits are equal, and equal to the norm of the output weights.",
            "deviation",
            "the largest | |u_j|/‖w‖ − 1 | over the support and kept neurons",
            at_most=0.03,
            source_value="0 (Theorem 7.8)",
        )
        claim(
            "balanced-outputs",
            "the two output weights are opposite.",
            "imbalance",
            "the largest |w_0 + w_1|/‖w‖ of kept neurons",
            at_most=0.05,
            source_value="0 (Theorem 7.8)",
        )
        claim(
            "signs",
            "the product of the signs of u on the support is that of w_0 − w_1.",
            "sign_rule",
            "the share of kept neurons of which it is",
            at_least=1.0,
            source_value="all (Theorem 7.8)",
        )
        claim(
            "patterns",
            f"all 2^(k−1) = {patterns} sign patterns occur, up to a common sign.",
            "patterns",
            "the number of sign patterns among kept neurons",
            at_least=float(patterns),
            source_value="not given; all in the reference's runs",
        )
        claim.certificate(GAP, "Lemma 7.2")
        claim.distances()

    def figures(self, tables: Tables[Settings]) -> Iterable[Figure]:
        settings, name = tables.settings, f"({tables.settings.n},{tables.settings.k})-parity"
        yield _features(settings, name, tables["neurons"])
        yield _curves(settings, name, tables["trials"], finite_lambda(settings.problem, settings.weight))
        yield distance_figure({name: tables["networks"]}, self.source, gap=GAP)


# --- what is measured -----------------------------------------------------------------------------------------


def parity_measures(network: Arrays | None, problem: ParityProblem) -> dict[str, float]:
    """Margin, the four properties of Theorem 7.8 over kept neurons, and distances; nan where training diverged."""
    unknown = dict.fromkeys(MEASURES, math.nan)
    if network is None or not np.any(network.neurons):
        return unknown
    assert isinstance(network, PowerArrays)
    return unknown | {
        "margin": dataset_margin(network, problem),
        "cross_entropy": cross_entropy(network, problem),
        **parity_structure(network, problem).summary(),
        **margin_measures(network, problem),
    }


def neurons_of(results: Results[Settings]) -> pl.DataFrame:
    """All neurons of the networks that did not diverge, the largest first: norm and weights."""
    inputs = [f"u_{j}" for j in range(results.settings.n)]
    weights = dict.fromkeys(["norm", *inputs, "w_0", "w_1"], pl.Float64)
    tables = [pl.DataFrame(schema={"network": pl.Int64, "neuron": pl.Int64, **weights})]
    trained = map(final_arrays, results.networks())
    for number, network in enumerate(arrays for arrays in trained if isinstance(arrays, PowerArrays)):
        norms = np.linalg.norm(network.neurons, axis=1)
        order = np.argsort(-norms, kind="stable")
        columns = np.column_stack([norms, network.neurons])[order]
        own = pl.DataFrame(columns, schema=weights).select(pl.lit(number).cast(pl.Int64).alias("network"), pl.all())
        tables.append(own.insert_column(1, pl.Series("neuron", order, dtype=pl.Int64)))
    return pl.concat(tables)


# --- how it looks ---------------------------------------------------------------------------------------------


def _features(settings: Settings, name: str, neurons: pl.DataFrame) -> Figure:
    """Figure 7.5 (a): the weights of the neurons of largest norm."""
    chart = Chart(
        "features",
        f"{name}: what the largest neurons read",
        source="dissertation, Figure 7.5(a)",
        width=9.5,
        height=4.6,
        columns=2,
        width_ratios=[1.5, 1.0],
    )
    networks = groups(neurons, "network")
    if networks:
        largest = networks[0].head(SHOWN).drop("network", "neuron", "norm").to_numpy()
        _draw_neurons(chart.drawing, chart[0], largest, settings)
    for own in networks.values():
        chart[1].ax.plot(
            np.arange(1, len(own) + 1), own["norm"], marker=".", color=figures.BLUE, linewidth=0.8, alpha=0.6
        )
    chart[1].axes(title="norms of all neurons, a line per network", x="neuron, by norm", y="‖ω_i‖")
    return chart.figure(
        f"Left: input and output weights of the {SHOWN} neurons of largest norm of the first network; the first "
        f"{settings.k} of {settings.n} bits are relevant. Right: norms of the neurons in order.",
        neurons,
    )


def _draw_neurons(drawing: Any, panel: Panel, weights: np.ndarray, settings: Settings) -> None:
    """Input and output weights, a row per neuron."""
    ax, limit = panel.ax, float(np.abs(weights).max())
    image = ax.imshow(weights, cmap="RdBu_r", vmin=-limit, vmax=limit, aspect="auto")
    bar = drawing.colorbar(image, ax=ax, shrink=0.85)
    bar.outline.set_visible(False)
    bar.ax.tick_params(labelsize=8.5)
    for place in (settings.k - 0.5, settings.n - 0.5):
        ax.axvline(place, color=figures.BLACK, linewidth=1.0)
    ax.set_xticks(range(settings.n + 2), [*(f"u_{j}" for j in range(settings.n)), "w_0", "w_1"])
    ax.set_yticks(range(len(weights)), [str(place + 1) for place in range(len(weights))])
    ax.grid(False)
    panel.axes(title=f"weights of the {len(weights)} largest neurons", y="neuron, by norm")


def _curves(settings: Settings, name: str, trials: pl.DataFrame, optimum: FiniteLambda) -> Figure:
    """Figure 7.5 (b): the margin against the step."""
    title = f"{name}: the normalised margin while training, and the largest there is"
    chart = Chart("margin", title, source="dissertation, Figure 7.5(b)", width=10.5, height=3.3, columns=3)
    curves = curve_table(trials, [], ["margin", "normalised_margin", "cross_entropy"])
    best = optimum.max_margin
    for column, axes, value, words in (
        (
            "normalised_margin",
            {"title": f"normalised L_{{2,{settings.k + 1}}} margin", "ylim": (-0.3 * best, 1.15 * best)},
            best,
            f"γ* = {best:.5g}",
        ),
        ("margin", {"title": "margin"}, optimum.margin, f"optimum at λ = {optimum.lam:g}: {optimum.margin:.4g}"),
        (
            "cross_entropy",
            {"title": "cross-entropy", "log": "y"},
            optimum.cross_entropy,
            f"optimum: {optimum.cross_entropy:.3g}",
        ),
    ):
        panel = chart.panel(x="step", **axes)
        draw_networks(panel, curves, column, figures.BLUE)
        panel.reference(value, words)
        panel.ax.locator_params(axis="x", nbins=4)
    return chart.figure(
        "A line per network. Normalised margin h(θ)/Σ‖ω_i‖^(k+1) with Theorem 7.8's maximum, which is also that of the "
        f"exact optimum at λ = {optimum.lam:g}; margin and cross-entropy with those of the optimum.",
        curves,
    )
