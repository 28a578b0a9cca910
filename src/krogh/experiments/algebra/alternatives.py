"""Section D.4: many networks add without an error; which of them have a large margin, and which does training keep?

A table can be memorised by two neurons per pair, without any Fourier structure (`algebra/memoriser`). Its margin is a
factor of about √(p/2) below the maximum. Training that starts there, with a little noise or with none, leaves it.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import polars as pl

from krogh.engine import Trials
from krogh.experiments.algebra.cyclic_claims import distance_claims
from krogh.experiments.algebra.cyclic_curves import compared_curves
from krogh.experiments.algebra.cyclic_distances import distance_figure
from krogh.experiments.algebra.cyclic_memorisers import (
    Settings,
    check,
    compared,
    departed,
    departures,
    memoriser_cohorts,
    random_cohorts,
    random_networks,
)
from krogh.experiments.algebra.cyclic_runs import FEWEST, median_claim, never_exceeded
from krogh.experiments.theorems import exact
from krogh.lab import Claim, Experiment, Figure, Results, claim, experiment, figures
from krogh.theory.margins import max_margin_cyclic

SOURCE = "dissertation, section D.4"
THEOREM = "dissertation, Theorem 7.7"
CLOSE = 1e-9  # of numbers in float64 that theory gives exactly


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
        never_exceeded("bound", [*curves, table["ratio"].to_numpy()], f"γ* (p = {p})", THEOREM),
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
            never_exceeded(f"{name}-bound", [*curves, table["ratio"].to_numpy()], f"γ* (p = {p})", THEOREM),
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
        f"Networks that add modulo {p}: margin, frequencies and distance from optimal neurons",
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
    p = settings.start_p
    alike = ((p - 1) / 2) ** -0.5
    return compared_curves(
        "departure",
        f"Training modulo {p} that starts from a network which memorised the table",
        p,
        {f"{noise:g}": networks for noise, networks in departed(results).items()},
        caption=(
            f"A line per network of {2 * p * p} neurons that starts as the balanced memoriser of addition modulo {p}, "
            f"its weights moved by normal noise; λ = {settings.start_weight:g}. Lower dashed line: the largest "
            "normalised margin of networks whose neurons have as much of one frequency as of another, 1/√((p−1)/2) of "
            "the maximum."
        ),
        source=SOURCE,
        labels={f"{noise:g}": f"noise {noise:g}" for noise in settings.noises},
        lines={f"all frequencies alike in a neuron: {alike:.3f}": alike},
    )


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
