"""Figure 7.5: networks of x^k neurons that learn a (n,k)-parity, their features and their margin.

Theorem 7.8: in a network of maximum margin every neuron reads the k relevant bits alone, all with one weight, which is
also the norm of its output weights (β, -β), and the signs multiply to the label's.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from krogh.engine import Trial, Trials, sweep
from krogh.errors import require, require_integer
from krogh.experiments.algebra.cyclic_claims import distance_claims
from krogh.experiments.algebra.cyclic_distances import distance_figure
from krogh.experiments.algebra.cyclic_measures import parity_measures
from krogh.experiments.algebra.cyclic_runs import TrainedNetwork, median_claim, never_exceeded, trained_networks
from krogh.lab import Claim, Experiment, Figure, Results, experiment, figures, setting
from krogh.models.power_network import PowerNetwork
from krogh.probes.margins import Margin
from krogh.tasks.parity_classes import ParityClasses
from krogh.theory.margins import (
    FiniteLambda,
    ParityProblem,
    PowerArrays,
    finite_lambda,
    max_margin_parity,
)
from krogh.training.presets import MarginPreset

SOURCE = "dissertation, Figure 7.5 and Theorem 7.8"
SHOWN = 12  # neurons of Figure 7.5(a), those of largest norm


@dataclass(frozen=True)
class Settings:
    n: int = setting(10, "input bits")
    k: int = setting(4, "relevant bits, the first ones, and the exponent of the activation")
    width: int = setting(40, "neurons")
    steps: int = setting(30_000, "steps of gradient descent on all 2^n inputs")
    rate: float = setting(0.1, "learning rate")
    weight: float = setting(1e-3, "λ of the penalty λ Σ‖ω_i‖^(k+1)")
    seeds: int = setting(6, "networks")
    probe_every: int = setting(100, "steps between two points of a curve")


@experiment("algebra/parity")
class ParityFeatures(Experiment[Settings]):
    """Networks that learn a sparse parity from the whole cube: structure, margin, and distance from theory's family."""

    title = "Networks of maximum margin on a parity read the relevant bits and nothing else"
    question = "Which features does a network have that learned a sparse parity with small weight decay?"
    source = SOURCE
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

    def trials(self, settings: Settings) -> list[Trials]:
        check(settings)
        return cohorts_of(settings)

    def claims(self, results: Results[Settings]) -> list[Claim]:
        settings = results.settings
        curves = [trained.curve["normalised_margin"] for trained in networks_of(results)]
        optimum = finite_lambda(ParityProblem(settings.n, k=settings.k), settings.weight)
        return parity_claims(settings, optimum, measured(results), curves)

    def figures(self, results: Results[Settings]) -> list[Figure]:
        networks, settings = networks_of(results), results.settings
        optimum = finite_lambda(ParityProblem(settings.n, k=settings.k), settings.weight)
        name = f"({settings.n},{settings.k})-parity"
        distance = distance_figure(
            {name: measured(results)}, {name: at_first(results)}, measured(results), SOURCE, gap=0.02
        )
        return [_features(settings, networks), _curves(settings, networks, optimum), distance]


def check(settings: Settings) -> None:
    """Refuse settings that cannot be trained, and a λ that leaves nothing but the zero network."""
    require_integer("seeds", settings.seeds, 1)
    problem = ParityProblem(settings.n, k=settings.k)
    largest = max_margin_parity(problem.k).value / 2
    require(
        math.isfinite(settings.weight) and 0 < settings.weight < largest,
        f"weight must be positive and below γ*/2 = {largest:.4g}, from which on the zero network is optimal for "
        f"k={settings.k}; got weight={settings.weight!r}",
    )


def cohorts_of(settings: Settings) -> list[Trials]:
    """All networks: seeds of one structure."""
    preset = MarginPreset(
        f"parity({settings.n}, {settings.k})", settings.width, settings.steps, settings.rate, (), settings.weight
    )
    trial = Trial(
        ParityClasses(settings.n, settings.k),
        PowerNetwork(settings.width, settings.k),
        preset.training(settings.probe_every),
        probes=(Margin(),),
    )
    return sweep(trial, seed=range(settings.seeds))


@functools.lru_cache(maxsize=4)
def networks_of(results: Results[Settings]) -> list[TrainedNetwork]:
    """The trained networks."""
    return trained_networks(results, cohorts_of(results.settings))


@functools.lru_cache(maxsize=4)
def measured(results: Results[Settings]) -> pl.DataFrame:
    """One row per trained network: seed, and what was measured at the end."""
    problem = ParityProblem(results.settings.n, k=results.settings.k)
    return pl.DataFrame([{"seed": one.seed} | parity_measures(one.network, problem) for one in networks_of(results)])


@functools.lru_cache(maxsize=4)
def at_first(results: Results[Settings]) -> pl.DataFrame:
    """The same before training."""
    problem = ParityProblem(results.settings.n, k=results.settings.k)
    return pl.DataFrame([{"seed": one.seed} | parity_measures(one.initial, problem) for one in networks_of(results)])


# --- what was found -------------------------------------------------------------------------------------------


def parity_claims(
    settings: Settings, optimum: FiniteLambda, table: pl.DataFrame, curves: Sequence[np.ndarray]
) -> list[Claim]:
    """The reference's criteria for Figure 7.5, and the distance from the family."""
    gamma, k = optimum.max_margin, settings.k
    ratios = [*(np.asarray(curve) / gamma for curve in curves), table["ratio"].to_numpy()]

    def found(name: str, statement: str, statistic: str, values: Any, source_value: str, **bound: Any) -> Claim:
        return median_claim(name, statement, statistic, values, source=SOURCE, source_value=source_value, **bound)

    return [
        never_exceeded("bound", ratios, f"γ* = {gamma:.5g} (k = {k})", "dissertation, Theorem 7.8"),
        found(
            "margin",
            "The normalised margin approaches the maximum.",
            "the normalised margin over γ*",
            table["ratio"],
            f"approaches γ* = {gamma:.5g} (Figure 7.5b)",
            at_least=0.98,
        ),
        found(
            "support",
            "Neurons read the relevant bits alone.",
            "the largest weight off the support over the largest of all, kept neurons",
            table["off_share"],
            "0 (Theorem 7.8)",
            at_most=0.05,
        ),
        found(
            "equal-weights",
            "The weights of the relevant bits are equal, and equal to the norm of the output weights.",
            "the largest | |u_j|/‖w‖ − 1 | over the support and kept neurons",
            table["deviation"],
            "0 (Theorem 7.8)",
            at_most=0.03,
        ),
        found(
            "balanced-outputs",
            "The two output weights are opposite.",
            "the largest |w_0 + w_1|/‖w‖ of kept neurons",
            table["imbalance"],
            "0 (Theorem 7.8)",
            at_most=0.05,
        ),
        found(
            "signs",
            "The product of the signs of u on the support is that of w_0 − w_1.",
            "the share of kept neurons of which it is",
            table["sign_rule"],
            "all (Theorem 7.8)",
            at_least=1.0,
        ),
        found(
            "patterns",
            f"All 2^(k−1) = {2 ** (k - 1)} sign patterns occur, up to a common sign.",
            "the number of sign patterns among kept neurons",
            table["patterns"],
            "not given; all in the reference's runs",
            at_least=float(2 ** (k - 1)),
        ),
        found(
            "certificate",
            "The certificate's gap to the upper bound closes.",
            "the gap of lower and upper bound over γ*",
            table["gap"],
            "0 at the maximum (Lemma 7.2)",
            at_most=0.02,
        ),
        *distance_claims("", f"({settings.n},{k})-parity", table, SOURCE),
    ]


# --- how it looks ---------------------------------------------------------------------------------------------


def _features(settings: Settings, networks: Sequence[TrainedNetwork]) -> Figure:
    """Figure 7.5 (a): the weights of the neurons of largest norm."""
    fig, axes = figures.new_figure(
        f"({settings.n},{settings.k})-parity: what the largest neurons read",
        width=9.5,
        height=4.6,
        ncols=2,
        width_ratios=[1.5, 1.0],
    )
    alive = [trained.network for trained in networks if isinstance(trained.network, PowerArrays)]
    tables = []
    for number, network in enumerate(alive):
        norms = np.linalg.norm(network.neurons, axis=1)
        order = np.argsort(-norms, kind="stable")
        axes[1].plot(np.arange(1, len(norms) + 1), norms[order], marker=".", linewidth=0.8, alpha=0.7)
        if number == 0:
            _draw_neurons(fig, axes[0], network, order[:SHOWN], settings)
        columns = {f"u_{j}": network.U[order, j] for j in range(settings.n)}
        head = {"network": number, "neuron": order, "norm": norms[order]}
        tables.append(pl.DataFrame({**head, **columns, "w_0": network.W[order, 0], "w_1": network.W[order, 1]}))
    axes[1].set_xlabel("neuron, by norm")
    axes[1].set_ylabel("$\\|\\omega_i\\|$")
    figures.panel_title(axes[1], "norms of all neurons, a line per network")
    figures.source_note(fig, "dissertation, Figure 7.5(a)")
    caption = (
        f"Left: input and output weights of the {SHOWN} neurons of largest norm of the first network; the first "
        f"{settings.k} of {settings.n} bits are relevant. Right: norms of the neurons in order."
    )
    data = pl.concat(tables) if tables else pl.DataFrame(schema={"network": pl.Int64, "neuron": pl.Int64})
    return Figure("features", "Weights of the largest neurons", caption, fig, data)


def _draw_neurons(fig: Any, ax: Any, network: PowerArrays, chosen: np.ndarray, settings: Settings) -> None:
    shown = np.hstack([network.U[chosen], network.W[chosen]])
    limit = float(np.abs(shown).max())
    image = ax.imshow(shown, cmap="RdBu_r", vmin=-limit, vmax=limit, aspect="auto")
    bar = fig.colorbar(image, ax=ax, shrink=0.85)
    bar.outline.set_visible(False)
    bar.ax.tick_params(labelsize=8.5)
    for place in (settings.k - 0.5, settings.n - 0.5):
        ax.axvline(place, color=figures.BLACK, linewidth=1.0)
    ax.set_xticks(range(settings.n + 2), [*(f"$u_{{{j}}}$" for j in range(settings.n)), "$w_0$", "$w_1$"])
    ax.set_yticks(range(len(chosen)), [str(place + 1) for place in range(len(chosen))])
    ax.set_ylabel("neuron, by norm")
    ax.grid(False)
    figures.panel_title(ax, f"weights of the {len(chosen)} largest neurons")


def _curves(settings: Settings, networks: Sequence[TrainedNetwork], optimum: FiniteLambda) -> Figure:
    """Figure 7.5 (b): the margin against the step."""
    fig, axes = figures.new_figure(
        f"({settings.n},{settings.k})-parity: the normalised margin while training, and the largest there is",
        width=10.5,
        height=3.3,
        ncols=3,
    )
    panels = (
        ("normalised_margin", f"normalised $L_{{2,{settings.k + 1}}}$ margin", optimum.max_margin, "γ* = {:.5g}"),
        ("margin", "margin", optimum.margin, f"optimum at λ = {settings.weight:g}: {{:.4g}}"),
        ("cross_entropy", "cross-entropy", optimum.cross_entropy, "optimum: {:.3g}"),
    )
    for ax, (column, title, value, words) in zip(axes, panels, strict=True):
        for trained in networks:
            ax.plot(trained.curve["step"], trained.curve[column], color=figures.BLUE, linewidth=1, alpha=0.7)
        figures.source_line(ax, value, words.format(value))
        figures.panel_title(ax, title)
        ax.locator_params(axis="x", nbins=4)
        ax.set_xlabel("step")
    axes[0].set_ylim(-0.3 * optimum.max_margin, 1.15 * optimum.max_margin)
    figures.log_axis_labels(axes[2], "y")
    figures.source_note(fig, "dissertation, Figure 7.5(b)")
    caption = (
        "A line per network. Normalised margin h(θ)/Σ‖ω_i‖^(k+1) with Theorem 7.8's maximum, which is also that of the "
        f"exact optimum at λ = {settings.weight:g}; margin and cross-entropy with those of the optimum."
    )
    names = ("step", "margin", "normalised_margin", "cross_entropy")
    tables = [pl.DataFrame({"seed": one.seed, **{name: one.curve[name] for name in names}}) for one in networks]
    return Figure("margin", "Margin against step", caption, fig, pl.concat(tables))
