"""Networks that all add without an error: what is trained from random weights and from memorisers, and measured."""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from typing import Any

import polars as pl

from krogh.engine import Trial, Trials, sweep
from krogh.errors import require, require_integer
from krogh.experiments.algebra.cyclic_measures import network_measures
from krogh.experiments.algebra.cyclic_runs import (
    TrainedNetwork,
    addition_trial,
    check_modulus,
    doubling_preset,
    trained_networks,
)
from krogh.lab import Results, setting
from krogh.models.pair_network import PairNetwork
from krogh.probes.margins import Margin
from krogh.probes.spectra import FourierPower
from krogh.tasks.composition import GroupComposition
from krogh.tasks.groups import cyclic
from krogh.theory.constructions.algebra_arrays import cyclic_network, memoriser_network
from krogh.theory.margins.networks import Network


@dataclass(frozen=True)
class Settings:
    p: int = setting(11, "modulus at which networks are compared")
    width: int = setting(80, "neurons of the network trained from random weights")
    steps: int = setting(10_000, "its steps")
    doubled_every: int = setting(250, "its steps between two doublings of the rate")
    doublings: int = setting(10, "how often its rate is doubled")
    weight: float = setting(1e-4, "its λ")
    start_p: int = setting(7, "modulus of the memoriser that training starts from (2p² neurons)")
    start_steps: int = setting(12_000, "steps from there")
    start_doubled_every: int = setting(250, "steps between two doublings of the rate there")
    start_doublings: int = setting(6, "how often the rate is doubled there; 10 times diverges")
    start_weight: float = setting(1e-3, "λ there")
    noises: tuple[float, ...] = setting((0.0, 0.01, 0.1), "normal noise added to every weight of the memoriser")
    rate: float = setting(0.05, "learning rate at first")
    seeds: int = setting(6, "networks of each kind")
    probe_every: int = setting(100, "steps between two points of a curve")


def check(settings: Settings) -> None:
    """Refuse settings that cannot be trained."""
    require_integer("seeds", settings.seeds, 1)
    check_modulus(settings.p, settings.weight)
    check_modulus(settings.start_p, settings.start_weight)
    noises = settings.noises
    good = len(set(noises)) == len(noises) >= 1 and all(math.isfinite(noise) and noise >= 0 for noise in noises)
    require(good, f"noises must be different numbers ≥ 0; got noises={tuple(noises)}")


def random_cohorts(settings: Settings) -> list[Trials]:
    """Networks trained from random weights."""
    preset = doubling_preset(
        settings.p,
        settings.width,
        settings.steps,
        settings.rate,
        settings.weight,
        settings.doubled_every,
        settings.doublings,
    )
    trial = addition_trial(preset, settings.probe_every, (Margin(), FourierPower()))
    return sweep(trial, seed=range(settings.seeds))


def memoriser_cohorts(settings: Settings) -> list[Trials]:
    """Networks trained from the memoriser, a cohort for each noise: one structure, one program."""
    p = settings.start_p
    start = memoriser_network(cyclic(p).table)
    preset = doubling_preset(
        p,
        start.width,
        settings.start_steps,
        settings.rate,
        settings.start_weight,
        settings.start_doubled_every,
        settings.start_doublings,
    )
    weights = {"U": start.U, "V": start.V, "W": start.W}
    cohorts = []
    for noise in settings.noises:
        model = PairNetwork(start.width, start=weights, start_noise=noise)
        trial = Trial(
            GroupComposition(preset.task),
            model,
            preset.training(settings.probe_every),
            probes=(Margin(), FourierPower()),
        )
        cohorts += sweep(trial, seed=range(settings.seeds if noise > 0 else 1))
    return cohorts


@functools.lru_cache(maxsize=4)
def random_networks(results: Results[Settings]) -> list[TrainedNetwork]:
    """Those trained from random weights."""
    return trained_networks(results, random_cohorts(results.settings))


@functools.lru_cache(maxsize=4)
def departed(results: Results[Settings]) -> dict[float, list[TrainedNetwork]]:
    """Those trained from the memoriser, by noise."""
    settings = results.settings
    cohorts = zip(settings.noises, memoriser_cohorts(settings), strict=True)
    return {noise: trained_networks(results, [cohort]) for noise, cohort in cohorts}


@functools.lru_cache(maxsize=4)
def compared(results: Results[Settings]) -> pl.DataFrame:
    """One row per network at p: constructions, random weights, and trained from them."""
    p = results.settings.p
    table = cyclic(p).table
    rows = [
        _row("maximum margin", 0, cyclic_network(p), p),
        _row("memoriser, balanced", 0, memoriser_network(table), p),
        _row("memoriser, as printed", 0, memoriser_network(table, balanced=False), p),
    ]
    for one in random_networks(results):
        rows += [_row("random", one.seed, one.initial, p), _row("trained", one.seed, one.network, p)]
    return pl.DataFrame(rows)


@functools.lru_cache(maxsize=4)
def departures(results: Results[Settings]) -> pl.DataFrame:
    """Two rows per network that started from the memoriser: at the start and at the end."""
    p = results.settings.start_p
    rows = []
    for noise, networks in departed(results).items():
        for one in networks:
            for when, network in (("start", one.initial), ("end", one.network)):
                rows.append({"noise": noise, "when": when} | _row("from the memoriser", one.seed, network, p))
    return pl.DataFrame(rows)


def _row(kind: str, seed: int, network: Network | None, p: int) -> dict[str, Any]:
    return {"network": kind, "p": p, "seed": seed} | network_measures(network, p)
