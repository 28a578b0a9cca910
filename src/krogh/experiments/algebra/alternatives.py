"""Section D.4: many networks add without an error; which of them have a large margin, and which does training keep?

A table can be memorised by two neurons per pair, without any Fourier structure (`algebra/memoriser`). Its margin is a
factor of about √(p/2) below the maximum. Training that starts there, with a little noise or with none, leaves it.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from krogh.engine import Trial, Trials, sweep
from krogh.errors import require, require_integer
from krogh.experiments.algebra.cyclic import check_modulus
from krogh.experiments.algebra.cyclic_claims import distance_claims
from krogh.experiments.algebra.cyclic_distances import distance_figure
from krogh.experiments.algebra.cyclic_measures import network_measures
from krogh.experiments.algebra.cyclic_runs import (
    FEWEST,
    TrainedNetwork,
    addition_trial,
    doubling_preset,
    median_claim,
    never_exceeded,
    trained_networks,
)
from krogh.experiments.theorems import exact
from krogh.lab import Claim, Experiment, Figure, Results, claim, experiment, figures, setting
from krogh.models.pair_network import PairNetwork
from krogh.probes.margins import Margin
from krogh.probes.spectra import FourierPower
from krogh.tasks.composition import GroupComposition
from krogh.tasks.groups import cyclic
from krogh.theory.constructions.algebra_arrays import cyclic_network, memoriser_network
from krogh.theory.margins import PairArrays, max_margin_cyclic

SOURCE = "dissertation, section D.4"
CLOSE = 1e-9  # of numbers in float64 that theory gives exactly


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


@experiment("algebra/alternatives")
class Alternatives(Experiment[Settings]):
    """Networks that all add without an error, compared by margin, features and where training takes them."""

    title = "Many networks add without an error; training leaves those of small margin"
    question = "Does training keep a network that memorises the table, if it starts there?"
    source = SOURCE
    scales = {
        "smoke": Settings(
            p=5, width=40, steps=1000, doubled_every=100, doublings=8, start_p=3, start_steps=1000, noises=(0.0, 0.1),
            start_doubled_every=100, seeds=2
        ),
        "laptop": Settings(),
        "paper": Settings(p=71, width=500, steps=40_000, doubled_every=1000, start_p=11, seeds=12),
    }  # fmt: skip
    notes = (
        "The source writes the memoriser down to show that other solutions exist; that training leaves it is not in "
        "the source. At paper scale the compared networks are those of its Figure 7.1 (p = 71).",
        "The memoriser's output weights 1/4 are the source's; with u, v and w of one length the margin is larger. "
        "Training starts from the latter.",
        "Without noise training from the memoriser is deterministic: one network. Its symmetries keep all frequencies "
        "alike in every neuron, with at most 1/√((p−1)/2) of the maximum margin, until rounding has broken them.",
    )
    keep_weights = True

    def trials(self, settings: Settings) -> list[Trials]:
        check(settings)
        return [*random_cohorts(settings), *memoriser_cohorts(settings)]

    def claims(self, results: Results[Settings]) -> list[Claim]:
        return [*_comparison_claims(results), *_departure_claims(results)]

    def figures(self, results: Results[Settings]) -> list[Figure]:
        return [_comparison(results), _departure(results), _distances(results)]


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


def _row(kind: str, seed: int, network: Any, p: int) -> dict[str, Any]:
    assert network is None or isinstance(network, PairArrays)
    return {"network": kind, "p": p, "seed": seed} | network_measures(network, p)


# --- what was found -------------------------------------------------------------------------------------------


def predicted_ratios(p: int) -> dict[str, float]:
    """Normalised margin over γ* of the constructions, in closed form."""
    gamma = max_margin_cyclic(p).value
    return {
        "maximum margin": 1.0,
        "memoriser, balanced": 2 / (3 * math.sqrt(3) * p**2) / gamma,
        "memoriser, as printed": 1 / (2 * p**2 * 2.0625**1.5) / gamma,
    }


def _comparison_claims(results: Results[Settings]) -> list[Claim]:
    p, table = results.settings.p, compared(results)
    found = []
    for kind, ratio in predicted_ratios(p).items():
        (value,) = table.filter(network=kind)["ratio"]
        slug = kind.replace(", ", "-").replace(" ", "-")
        found.append(
            claim(
                f"{slug}-margin",
                f"Z_{p}, {kind}: the normalised margin is {ratio:.4g} γ*, as in closed form.",
                source=SOURCE,
                statistic="|normalised margin over γ* − closed form|",
                interval=exact(abs(value - ratio)),
                at_most=CLOSE,
                trials=1,
                source_value=f"{ratio:.4g} (computed from section D.4 and Theorem 7.7)",
            )
        )
    flat = table.filter(network="memoriser, balanced")["power_least", "power_median"].to_numpy()
    found.append(
        claim(
            "memoriser-flat",
            f"Z_{p}: the weights of the memoriser have no frequency: each has the share 2/p of the power.",
            source=SOURCE,
            statistic="|largest normalised power − 2/p|, at most",
            interval=exact(float(np.max(np.abs(flat - 2 / p)))),
            at_most=CLOSE,
            trials=1,
            source_value="every frequency alike",
        )
    )
    trained, random = table.filter(network="trained"), table.filter(network="random")
    curves = [one.curve["normalised_margin"] / max_margin_cyclic(p).value for one in random_networks(results)]
    found += [
        never_exceeded("bound", [*curves, table["ratio"].to_numpy()], f"γ* (p = {p})", "dissertation, Theorem 7.7"),
        median_claim(
            "trained-margin",
            f"Z_{p}: a network trained from random weights has nearly the maximum margin, not a memoriser's.",
            "the normalised margin over γ*",
            trained["ratio"],
            source=SOURCE,
            source_value="approaches γ* (Figure 7.1c)",
            at_least=0.95,
        ),
        median_claim(
            "random-margin",
            f"Z_{p}: a random network has no margin.",
            "the normalised margin over γ*",
            random["ratio"],
            source=SOURCE,
            source_value="not given",
            at_most=0.0,
        ),
        *distance_claims("trained-", f"Z_{p}, trained from random weights", trained, SOURCE),
    ]
    return found


def _departure_claims(results: Results[Settings]) -> list[Claim]:
    settings = results.settings
    p, found = settings.start_p, []
    for noise, networks in departed(results).items():
        table = departures(results).filter(noise=noise, when="end")
        head, name = f"Z_{p}, from the memoriser with noise {noise:g}", f"noise-{noise:g}"
        gamma = max_margin_cyclic(p).value
        curves = [one.curve["normalised_margin"] / gamma for one in networks]
        # Without noise there is one network, which no seed changes.
        options: dict[str, Any] = {"source": SOURCE, "fewest": FEWEST if noise > 0 else 1}
        found += [
            never_exceeded(f"{name}-bound", [*curves, table["ratio"].to_numpy()], f"γ* (p = {p})", "Theorem 7.7"),
            median_claim(
                f"{name}-margin",
                f"{head}: training reaches the maximum margin.",
                "the normalised margin over γ*",
                table["ratio"],
                source_value="not given",
                at_least=0.99,
                **options,
            ),
            median_claim(
                f"{name}-one-frequency",
                f"{head}: every kept neuron ends with one frequency.",
                "the least largest normalised power of u, v and w of kept neurons",
                table["power_least"],
                source_value="not given",
                at_least=0.99,
                **options,
            ),
            *distance_claims(f"{name}-", head, table, **options),
        ]
    return found


# --- how it looks ---------------------------------------------------------------------------------------------

KINDS = {
    "maximum margin": "maximum margin (D.6.2)",
    "trained": "trained",
    "memoriser, balanced": "memoriser, balanced",
    "memoriser, as printed": "memoriser, as printed (D.4)",
    "random": "random",
}


def _comparison(results: Results[Settings]) -> Figure:
    p, table = results.settings.p, compared(results)
    fig, axes = figures.new_figure(
        f"Networks that add modulo {p}: only those of one frequency per neuron have the maximum margin",
        width=10.5,
        height=3.4,
        ncols=3,
        sharey=True,
    )
    places = dict(zip(KINDS, range(len(KINDS))[::-1], strict=True))
    panels = (
        ("ratio", "normalised margin / γ*", 1.0, "γ*"),
        ("power_median", "largest normalised power,\nmedian", 2 / p, "flat: 2/p"),
        ("neurons", "distance of neurons\nfrom optimal ones", None, ""),
    )
    for ax, (column, words, value, label) in zip(axes, panels, strict=True):
        for kind, place in places.items():
            known = table.filter(network=kind)[column].drop_nans().to_numpy()
            ax.plot(known, np.full(len(known), place), linestyle="none", marker="o", color=figures.BLUE, alpha=0.8)
        if value is not None:
            figures.source_line(ax, value, label, axis="x")
        ax.set_xlabel(words)
    axes[0].set_yticks(list(places.values()), [KINDS[kind] for kind in places])
    axes[0].set_ylim(-0.6, len(KINDS) - 0.4)
    axes[0].axvline(0, color=figures.MUTED, linewidth=0.8)
    figures.source_note(fig, SOURCE)
    caption = (
        "A dot per network. Normalised margin over the maximum γ* (negative where some pair is added wrongly); largest "
        "normalised power, median over kept neurons and u, v, w; root mean square distance of ω_i/‖ω_i‖ from the "
        "nearest optimal neuron. Constructions and memorisers add without an error."
    )
    return Figure("comparison", f"Networks that add modulo {p}", caption, fig, table)


def _departure(results: Results[Settings]) -> Figure:
    settings = results.settings
    p, gamma = settings.start_p, max_margin_cyclic(settings.start_p).value
    fig, axes = figures.new_figure(
        f"Training modulo {p} that starts from a network which memorised the table leaves it",
        width=9.5,
        height=3.6,
        ncols=2,
    )
    tables = []
    for place, (noise, networks) in enumerate(departed(results).items()):
        color = figures.PALETTE[place % len(figures.PALETTE)]
        for number, one in enumerate(networks):
            step, ratio = one.curve["step"], one.curve["normalised_margin"] / gamma
            power = np.mean([one.curve[f"fourier_power_{part}"] for part in "uvw"], axis=0)
            for ax, values in zip(axes, (ratio, power), strict=True):
                label = f"noise {noise:g}" if number == 0 else None
                ax.plot(step, values, color=color, linewidth=1.1, alpha=0.8, label=label)
            columns = {"step": step, "ratio": ratio, "power": power}
            tables.append(pl.DataFrame({"noise": noise, "seed": one.seed, **columns}))
    alike = ((p - 1) / 2) ** -0.5
    figures.source_line(axes[0], 1.0, "γ*")
    figures.source_line(axes[0], alike, f"all frequencies alike in a neuron: {alike:.3f}")
    axes[0].set_ylim(-0.3, 1.12)
    axes[1].set_ylim(0, 1.03)
    figures.panel_title(axes[0], "normalised margin / γ*")
    figures.panel_title(axes[1], "largest normalised power, mean by $\\|\\omega_i\\|^3$")
    for ax in axes:
        ax.set_xlabel("step")
    figures.legend(axes[1], loc="lower right")
    figures.source_note(fig, SOURCE)
    caption = (
        f"A line per network of {2 * p * p} neurons that starts as the balanced memoriser of addition modulo {p}, its "
        f"weights moved by normal noise; λ = {settings.start_weight:g}. Lower dashed line: the largest normalised "
        "margin of networks whose neurons have as much of one frequency as of another, 1/√((p−1)/2) of the maximum."
    )
    return Figure("departure", "Training from a memoriser", caption, fig, pl.concat(tables))


def _distances(results: Results[Settings]) -> Figure:
    settings = results.settings
    table, moved = compared(results), departures(results)
    label = f"$Z_{{{settings.p}}}$, from random weights"
    after, before = {label: table.filter(network="trained")}, {label: table.filter(network="random")}
    for noise in settings.noises:
        row = f"$Z_{{{settings.start_p}}}$, memoriser + noise {noise:g}"
        after[row] = moved.filter(noise=noise, when="end")
        before[row] = moved.filter(noise=noise, when="start")
    data = pl.concat([table, moved], how="diagonal")
    return distance_figure(after, before, data, SOURCE)
