"""Which norm makes which features: the same network trained with L_{2,b} penalties, and ReLU neurons with L_2.

Theorem 7.7 is about the L_{2,3} norm of quadratic neurons, b = ν: neurons then add up their margins whatever their
sizes, and every frequency has a share. For b < ν large neurons are cheaper than several small ones, and the bound,
which still holds, is out of reach for networks that need many neurons; for b > ν it grows with the width.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from krogh.engine import Trials, sweep
from krogh.errors import require, require_integer
from krogh.experiments.algebra.cyclic_claims import distance_claims
from krogh.experiments.algebra.cyclic_curves import compared_curves
from krogh.experiments.algebra.cyclic_distances import distance_figure
from krogh.experiments.algebra.cyclic_measures import network_measures
from krogh.experiments.algebra.cyclic_runs import (
    TrainedNetwork,
    addition_trial,
    check_modulus,
    doubling_preset,
    median_claim,
    never_exceeded,
    trained_networks,
)
from krogh.lab import Claim, Experiment, Figure, Results, experiment, figures, setting
from krogh.probes.margins import Margin
from krogh.probes.spectra import FourierPower
from krogh.theory.margins import max_margin_cyclic
from krogh.training.penalties import NeuronNorm

SOURCE = "dissertation, section 7.3 and D.5.1; the comparison is not in the source"
NU = 3.0  # homogeneity of quadratic neurons, and the b of Theorem 7.7
RELU = "relu"


@dataclass(frozen=True)
class Settings:
    p: int = setting(11, "modulus")
    width: int = setting(80, "neurons")
    steps: int = setting(10_000, "steps of gradient descent on all p² inputs")
    doubled_every: int = setting(250, "steps between two doublings of the rate")
    doublings: int = setting(10, "how often the rate is doubled")
    rate: float = setting(0.05, "learning rate at first")
    weight: float = setting(1e-4, "λ of the penalty λ Σ‖ω_i‖^b")
    norms: tuple[float, ...] = setting((3.0, 2.0), "exponents b of the norms L_{2,b}; 3 and 2 are judged")
    relu: bool = setting(True, "also train ReLU networks under L_2")
    seeds: int = setting(6, "networks of each kind")
    probe_every: int = setting(100, "steps between two points of a curve")


@experiment("algebra/norms")
class Norms(Experiment[Settings]):
    """Quadratic networks under L_{2,3} and other norms, and ReLU networks under L_2, on one table."""

    title = "Exact single frequencies and all neurons at work are the L_{2,3} norm's doing"
    question = "What becomes of the features and the margin when the weight decay is another norm?"
    source = SOURCE
    scales = {
        "smoke": Settings(p=5, width=40, steps=1000, doubled_every=100, doublings=8, relu=False, seeds=2),
        "laptop": Settings(norms=(3.0, 2.5, 2.0)),
        "paper": Settings(p=23, width=160, steps=12_000, doubled_every=300, norms=(3.0, 2.5, 2.0), seeds=24),
    }
    notes = (
        "L_2 is λ‖θ‖², the usual weight decay, which for quadratic neurons is L_{2,b} with b = 2 and not ν = 3.",
        "All normalised margins of quadratic networks here are by Σ‖ω_i‖³, whatever the norm in training, so that γ* "
        "bounds them all.",
        "Which network is optimal for b ≠ ν is not known; the distance is from the maximum-margin family of b = ν.",
    )
    keep_weights = True

    def trials(self, settings: Settings) -> list[Trials]:
        check(settings)
        return [cohort for kind in kinds(settings) for cohort in cohorts_of(settings, kind)]

    def claims(self, results: Results[Settings]) -> list[Claim]:
        return norm_claims(results)

    def figures(self, results: Results[Settings]) -> list[Figure]:
        settings = results.settings
        after, before = (
            {words(kind): table.filter(kind=kind) for kind in kinds(settings)}
            for table in (measured(results), at_first(results))
        )
        distance = distance_figure(after, before, measured(results), "dissertation, Theorem 7.7")
        return [_comparison(results), _curves(results), distance]


def check(settings: Settings) -> None:
    """Refuse settings that cannot be trained or compared."""
    require_integer("seeds", settings.seeds, 1)
    check_modulus(settings.p, settings.weight)
    norms = settings.norms
    good = len(set(norms)) == len(norms) and all(math.isfinite(b) and b >= 1 for b in norms)
    require(good, f"norms must be different numbers ≥ 1; got norms={tuple(norms)}")
    require({2.0, NU} <= set(norms), f"norms must hold 3 and 2, which are compared; got norms={tuple(norms)} (try 3,2)")


def kinds(settings: Settings) -> list[str]:
    """What is compared: "3", "2", ... for quadratic networks under L_{2,b}, and ReLU networks."""
    return [*(f"{b:g}" for b in settings.norms), *([RELU] if settings.relu else [])]


def words(kind: str) -> str:
    """A kind as the figures call it."""
    if kind == RELU:
        return "ReLU, $L_2$"
    return "quadratic, $L_2$" if kind == "2" else f"quadratic, $L_{{2,{kind}}}$"


def cohorts_of(settings: Settings, kind: str) -> list[Trials]:
    """The networks of one kind: seeds of one structure."""
    preset = doubling_preset(
        settings.p,
        settings.width,
        settings.steps,
        settings.rate,
        settings.weight,
        settings.doubled_every,
        settings.doublings,
        RELU if kind == RELU else "quadratic",
    )
    trial = addition_trial(preset, settings.probe_every, (Margin(), FourierPower()))
    if kind not in (RELU, f"{NU:g}"):
        penalty = NeuronNorm(settings.weight, b=float(kind), exponent=float(kind))
        trial = dataclasses.replace(trial, training=dataclasses.replace(trial.training, penalty=penalty))
    return sweep(trial, seed=range(settings.seeds))


@functools.lru_cache(maxsize=16)
def networks_of(results: Results[Settings], kind: str) -> list[TrainedNetwork]:
    """The trained networks of one kind."""
    return trained_networks(results, cohorts_of(results.settings, kind))


@functools.lru_cache(maxsize=4)
def measured(results: Results[Settings]) -> pl.DataFrame:
    """One row per trained network: kind, seed, and what was measured at the end."""
    return _measures(results, initial=False)


@functools.lru_cache(maxsize=4)
def at_first(results: Results[Settings]) -> pl.DataFrame:
    """The same before training."""
    return _measures(results, initial=True)


def _measures(results: Results[Settings], initial: bool) -> pl.DataFrame:
    rows = []
    for kind in kinds(results.settings):
        for trained in networks_of(results, kind):
            network = trained.initial if initial else trained.network
            rows.append({"kind": kind, "seed": trained.seed} | network_measures(network, results.settings.p))
    return pl.DataFrame(rows)


# --- what was found -------------------------------------------------------------------------------------------


def norm_claims(results: Results[Settings]) -> list[Claim]:
    """Between exact and nearly: L_2 on quadratic neurons lies between L_{2,3} and ReLU."""
    settings, table = results.settings, measured(results)
    p, gamma = settings.p, max_margin_cyclic(settings.p).value
    three, two = (table.filter(kind=kind).sort("seed") for kind in ("3", "2"))
    ratios = [
        one.curve["normalised_margin"] / gamma
        for kind in kinds(settings)
        if kind != RELU
        for one in networks_of(results, kind)
    ]

    def found(name: str, statement: str, statistic: str, values: Any, source_value: str, **bound: Any) -> Claim:
        return median_claim(
            name,
            f"Z_{p}: {statement}",
            statistic,
            values,
            source=SOURCE,
            source_value=source_value,
            **bound,
        )

    return [
        never_exceeded("bound", [*ratios, table["ratio"].to_numpy()], f"γ* (p = {p})", "dissertation, Theorem 7.7"),
        found(
            "fewer-neurons",
            "under L_2 fewer quadratic neurons survive than under L_{2,3} "
            f"({_typical(two, 'kept')} and {_typical(three, 'kept')} of {settings.width}).",
            "kept neurons under L_{2,3} − under L_2, same seed",
            three["kept"] - two["kept"],
            "not given; 72 and 18 of 80 in the reference's runs (p = 11)",
            above=0.0,
        ),
        found(
            "less-exact",
            "under L_2 quadratic neurons are less exactly of one frequency than under L_{2,3}.",
            "median largest normalised power under L_{2,3} − under L_2, same seed",
            three["power_median"] - two["power_median"],
            "not given; 1.000 and 0.978 in the reference's runs (p = 11)",
            above=0.0,
        ),
        found(
            "smaller-margin",
            f"L_2 leaves a smaller L_{{2,3}} margin ({_typical(two, 'ratio')} of the maximum).",
            "normalised margin over γ* under L_{2,3} − under L_2, same seed",
            three["ratio"] - two["ratio"],
            "not given; 0.681 under L_2 in the reference's runs (p = 11)",
            above=0.0,
        ),
        *distance_claims("L_2,3-", f"Z_{p}, quadratic under L_{{2,3}}", three, SOURCE),
        found(
            "farther",
            f"under L_2 neurons are farther from optimal ones ({_typical(two, 'neurons')}).",
            "distance of neurons under L_2 − under L_{2,3}, same seed",
            two["neurons"] - three["neurons"],
            "not given",
            above=0.0,
        ),
        *(_relu_claims(p, two, table.filter(kind=RELU).sort("seed")) if settings.relu else []),
    ]


def _relu_claims(p: int, two: pl.DataFrame, relu: pl.DataFrame) -> list[Claim]:
    """Quadratic neurons under the norm of ReLU networks against these."""
    return [
        median_claim(
            "more-exact-than-relu",
            f"Z_{p}: under L_2 quadratic neurons are more exactly of one frequency than ReLU neurons (whose distance "
            f"from optimal ones is {_typical(relu, 'neurons')}).",
            "median largest normalised power of quadratic − of ReLU neurons, both under L_2, same seed",
            two["power_median"] - relu["power_median"],
            source=SOURCE,
            source_value="not given; 0.978 and 0.930 in the reference's runs (p = 11)",
            above=0.0,
        )
    ]


def _typical(table: pl.DataFrame, column: str) -> str:
    known = table[column].drop_nans().to_numpy()
    return f"{np.median(known):.3g}" if len(known) else "an unknown number"


# --- how it looks ---------------------------------------------------------------------------------------------


def _comparison(results: Results[Settings]) -> Figure:
    settings, table = results.settings, measured(results)
    names = kinds(settings)
    fig, axes = figures.new_figure(
        f"Trained to add modulo {settings.p} under different norms: neurons, frequencies and margin",
        width=11.0,
        height=2.0 + 0.4 * len(names),
        ncols=4,
        sharey=True,
    )
    panels = (
        ("kept", f"neurons above a tenth of\nthe largest, of {settings.width}"),
        ("power_median", "largest normalised power,\nmedian"),
        ("ratio", "normalised $L_{2,3}$ margin / γ*"),
        ("even_shares", "share of frequencies with\na share within 20% of 2/(p−1)"),
    )
    places = np.arange(len(names))[::-1]
    for ax, (column, label) in zip(axes, panels, strict=True):
        for place, kind, color in zip(places, names, [*figures.PALETTE] * len(names), strict=False):
            known = table.filter(kind=kind)[column].drop_nans().to_numpy()
            ax.plot(known, np.full(len(known), place), linestyle="none", marker="o", color=color, alpha=0.7)
        ax.set_xlabel(label, fontsize=9)
    figures.source_line(axes[2], 1.0, "γ*", axis="x")
    axes[0].set_yticks(places, [words(kind) for kind in names])
    axes[0].set_ylim(-0.6, len(names) - 0.4)
    figures.source_note(fig, SOURCE)
    caption = (
        f"A dot per network, λ = {settings.weight:g}, penalty λ Σ‖ω_i‖^b (b = 2 for ReLU). Largest normalised power: "
        "median over kept neurons and u, v, w. For ReLU neurons no maximum margin is known."
    )
    return Figure("norms", f"Norms and features, modulo {settings.p}", caption, fig, table)


def _curves(results: Results[Settings]) -> Figure:
    settings = results.settings
    return compared_curves(
        "curves",
        f"Modulo {settings.p}: margin and frequencies while training under different norms",
        settings.p,
        {kind: networks_of(results, kind) for kind in kinds(settings)},
        caption="A line per network. Whatever the norm in training, margins are divided by Σ‖ω_i‖³.",
        source=SOURCE,
        labels={kind: words(kind) for kind in kinds(settings)},
    )
