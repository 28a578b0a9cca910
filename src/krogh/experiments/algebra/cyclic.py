"""Figures 7.1, 7.4 and D.1: what networks that add modulo p look like, and how large their margin is.

Quadratic neurons under the L_{2,3} norm are the subject of Theorem 7.7; ReLU neurons under L_2 are not, and come near.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass

import polars as pl

from krogh.engine import Trials, sweep
from krogh.errors import require, require_integer, unknown
from krogh.experiments.algebra.cyclic_claims import quadratic_claims, relu_claims
from krogh.experiments.algebra.cyclic_curves import margin_curves
from krogh.experiments.algebra.cyclic_distances import distance_figure
from krogh.experiments.algebra.cyclic_figures import NAMES, embeddings, frequencies, powers
from krogh.experiments.algebra.cyclic_measures import network_measures
from krogh.experiments.algebra.cyclic_runs import (
    TrainedNetwork,
    addition_trial,
    check_modulus,
    doubling_preset,
    require_alike,
    trained_networks,
)
from krogh.lab import Claim, Experiment, Figure, Results, experiment, setting
from krogh.probes.margins import Margin
from krogh.probes.spectra import FourierPower
from krogh.theory.margins import finite_lambda

SOURCE = "dissertation, Figures 7.1, 7.4 and D.1"
ACTIVATIONS = ("quadratic", "relu")


@dataclass(frozen=True)
class Settings:
    orders: tuple[int, ...] = setting((71,), "moduli p, odd; widths, steps and doubled_every have an entry for each")
    widths: tuple[int, ...] = setting((500,), "neurons")
    steps: tuple[int, ...] = setting((40_000,), "steps of gradient descent on all p² inputs")
    doubled_every: tuple[int, ...] = setting((1000,), "steps between two doublings of the rate")
    doublings: int = setting(10, "how often the rate is doubled")
    rate: float = setting(0.05, "learning rate at first")
    weight: float = setting(1e-4, "λ of the penalty λ Σ‖ω_i‖^ν (L_{2,3} for quadratic neurons, L_2 for ReLU)")
    activations: tuple[str, ...] = setting(ACTIVATIONS, "quadratic, relu or both")
    seeds: int = setting(12, "networks of each kind")
    probe_every: int = setting(100, "steps between two points of a curve")


@experiment("algebra/cyclic")
class CyclicAddition(Experiment[Settings]):
    """Networks that learn addition modulo p: features, margin, and distance from the maximum-margin family."""

    title = "Networks that add modulo p become cosines of one frequency each, with the largest margin there is"
    question = "Does gradient descent with small weight decay find the networks of maximum margin, and their features?"
    source = SOURCE
    scales = {
        "smoke": Settings(orders=(5,), widths=(40,), steps=(1200,), doubled_every=(100,), doublings=8, seeds=2),
        "laptop": Settings(orders=(11, 23), widths=(80, 160), steps=(10_000, 12_000), doubled_every=(250, 300)),
        "paper": Settings(),
    }
    notes = (
        "The source states neither the initialisation nor the exponent r of its penalty λ‖θ‖^r: weights are uniform "
        "±1/√fan_in, and r = ν, with which its rates are stable.",
        "The source shows one run each; here medians over seeds decide. Features are judged on neurons with a norm "
        "above a tenth of the largest, or weighted by ‖ω_i‖^ν: small ones decay slowly and stay without structure.",
        "A frequency that is left with few neurons (column `fewest`; 8 suffice) cannot cancel its terms u²w and v²w: "
        "the gap of such a network is one of logits off the margin, and closes slowly if at all.",
        "Thresholds for distances follow from the criteria for features and margins: 1% of the power elsewhere is a "
        "distance of 0.1 from a cosine, shares within 20% are a total variation of 0.1, and a function as far as a "
        "margin of 0.95 γ* is a cosine of 0.95.",
    )
    keep_weights = True

    def trials(self, settings: Settings) -> list[Trials]:
        check(settings)
        return [
            cohort
            for order in settings.orders
            for activation in settings.activations
            for cohort in cohorts_of(settings, order, activation)
        ]

    def claims(self, results: Results[Settings]) -> list[Claim]:
        found = []
        for p in results.settings.orders:
            table = measured(results).filter(p=p)
            for activation in results.settings.activations:
                chosen = table.filter(activation=activation)
                if activation == "quadratic":
                    optimum = finite_lambda(p, results.settings.weight)
                    curves = [network.curve["normalised_margin"] for network in networks_of(results, p, activation)]
                    found += quadratic_claims(p, optimum, chosen, curves, SOURCE)
                else:
                    found += relu_claims(p, chosen, SOURCE)
        return found

    def figures(self, results: Results[Settings]) -> list[Figure]:
        settings, drawn = results.settings, []
        for p in settings.orders:
            kinds = {activation: networks_of(results, p, activation) for activation in settings.activations}
            drawn += [embeddings(p, kinds), powers(p, kinds), frequencies(p, kinds)]
            drawn.append(margin_curves(p, kinds, finite_lambda(p, settings.weight)))
        rows = [(p, activation) for p in settings.orders for activation in settings.activations]
        after, before = (
            {f"$Z_{{{p}}}$, {NAMES[kind]}": table.filter(p=p, activation=kind) for p, kind in rows}
            for table in (measured(results), at_first(results))
        )
        return [*drawn, distance_figure(after, before, measured(results), "dissertation, Theorem 7.7")]


def check(settings: Settings) -> None:
    """Refuse settings that cannot be trained or of which nothing is known."""
    require_alike(
        orders=settings.orders, widths=settings.widths, steps=settings.steps, doubled_every=settings.doubled_every
    )
    require_integer("seeds", settings.seeds, 1)
    for name, values in (("orders", settings.orders), ("activations", settings.activations)):
        require(values and len(set(values)) == len(values), f"{name} must be different; got {name}={tuple(values)}")
    for activation in settings.activations:
        if activation not in ACTIVATIONS:
            raise unknown("activation", activation, ACTIVATIONS)
    for p in settings.orders:
        check_modulus(p, settings.weight)


def cohorts_of(settings: Settings, p: int, activation: str) -> list[Trials]:
    """The networks of one modulus and activation: seeds of one structure."""
    place = settings.orders.index(p)
    preset = doubling_preset(
        p,
        settings.widths[place],
        settings.steps[place],
        settings.rate,
        settings.weight,
        settings.doubled_every[place],
        settings.doublings,
        activation,
    )
    trial = addition_trial(preset, settings.probe_every, (Margin(), FourierPower()))
    return sweep(trial, seed=range(settings.seeds))


@functools.lru_cache(maxsize=16)
def networks_of(results: Results[Settings], p: int, activation: str) -> list[TrainedNetwork]:
    """The trained networks of one modulus and activation."""
    return trained_networks(results, cohorts_of(results.settings, p, activation))


@functools.lru_cache(maxsize=4)
def measured(results: Results[Settings]) -> pl.DataFrame:
    """One row per trained network: p, activation, seed, and what was measured at the end."""
    return _measures(results, initial=False)


@functools.lru_cache(maxsize=4)
def at_first(results: Results[Settings]) -> pl.DataFrame:
    """The same before training."""
    return _measures(results, initial=True)


def _measures(results: Results[Settings], initial: bool) -> pl.DataFrame:
    rows = []
    for p in results.settings.orders:
        for activation in results.settings.activations:
            for trained in networks_of(results, p, activation):
                network = trained.initial if initial else trained.network
                head = {"p": p, "activation": activation, "seed": trained.seed}
                rows.append(head | network_measures(network, p))
    return pl.DataFrame(rows)
