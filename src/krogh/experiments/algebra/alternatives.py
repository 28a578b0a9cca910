"""Section D.4: many networks add without an error; which of them have a large margin, and which does training keep?

A table can be memorised by two neurons per pair, without any Fourier structure (`algebra/memoriser`). Its margin is a
factor of about √(p/2) below the maximum. Training that starts there, with a little noise or with none, leaves it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import polars as pl

from krogh.engine import Trials, sweep
from krogh.experiments.algebra.common import (
    FEWEST,
    THEOREM,
    Addition,
    MedianClaims,
    addition_measures,
    curve_table,
    curves_figure,
    distance_figure,
    draw_rows,
)
from krogh.lab import Chart, Claims, Experiment, Figure, Results, Tables, experiment, figures, setting
from krogh.lab.estimate import exact
from krogh.lab.experiment import Measures
from krogh.models.two_layer import PairNetwork
from krogh.networks.groups.written import cyclic_network, memoriser_network
from krogh.programs.groups import cyclic
from krogh.theory.groups.maximum import max_margin_cyclic

CLOSE = 1e-9  # of numbers in float64 that theory gives exactly
TRAINED = {"start": "random", "end": "trained"}
KINDS = {
    "maximum margin": "maximum margin (D.6.2)",
    "trained": "trained",
    "memoriser, balanced": "memoriser, balanced",
    "memoriser, as printed": "memoriser, as printed (D.4)",
    "random": "random",
}


@dataclass(frozen=True)
class Settings(Addition):
    start_p: int = setting(7, "modulus of the memoriser that training starts from (2p² neurons)", least=3)
    start_steps: int = setting(12_000, "steps from there", least=1)
    start_doubled_every: int = setting(250, "steps between two doublings of the rate there", least=1)
    start_doublings: int = setting(6, "how often the rate is doubled there; 10 times diverges", least=0)
    start_weight: float = setting(1e-3, "λ there", above=0)
    noises: tuple[float, ...] = setting(
        (0.0, 0.01, 0.1), "normal noise added to every weight of the memoriser", distinct=True, least=0
    )

    @property
    def start(self) -> Addition:
        """The training that starts from the memoriser."""
        return Addition(
            self.start_p,
            steps=self.start_steps,
            doubled_every=self.start_doubled_every,
            doublings=self.start_doublings,
            rate=self.rate,
            weight=self.start_weight,
            probe_every=self.probe_every,
        )


@experiment("algebra/alternatives")
class Alternatives(Experiment[Settings]):
    """Networks that all add without an error, compared by margin, features and where training takes them."""

    title = "Many networks add without an error; training leaves those of small margin"
    question = "Does training keep a network that memorises the table, if it starts there?"
    source = "dissertation, section D.4"
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

    def check(self, settings: Settings) -> None:
        settings.check_modulus()
        settings.start.check_modulus()

    def trials(self, settings: Settings) -> Iterator[Trials]:
        yield from sweep(settings.trial(), seed=range(settings.seeds), label={"begun": "random"})
        memoriser = memoriser_network(cyclic(settings.start_p).table)
        weights = {"U": memoriser.U, "V": memoriser.V, "W": memoriser.W}
        for noise in settings.noises:
            trial = settings.start.trial(PairNetwork(memoriser.width, start=weights, start_noise=noise))
            seeds = range(settings.seeds if noise > 0 else 1)
            yield from sweep(trial, seed=seeds, label={"begun": "memoriser", "noise": noise})

    def measure(self, results: Results[Settings]) -> Measures:
        return {"compared": lambda: compare(results), "departures": lambda: follow_memorisers(results)}

    def claims(self, tables: Tables[Settings], say: Claims) -> None:
        settings = tables.settings
        say_compared(say, settings.p, tables["compared"])
        for noise in settings.noises:
            table = tables["departures"].filter(noise=noise, when="end")
            part = say.about(f"noise-{noise:g}-", f"Z_{settings.start_p}, from the memoriser with noise {noise:g}: ")
            say_departure(MedianClaims(part, table, FEWEST if noise > 0 else 1))

    def figures(self, tables: Tables[Settings]) -> Iterable[Figure]:
        settings, table, moved = tables.settings, tables["compared"], tables["departures"]
        yield _comparison(settings.p, table, self.source)
        yield _departure(settings, tables["trials"].filter(begun="memoriser"), self.source)
        kinds = {f"Z_{settings.p}, from random weights": table.filter(pl.col("network").is_in(TRAINED.values()))}
        for noise in settings.noises:
            kinds[f"Z_{settings.start_p}, memoriser + noise {noise:g}"] = moved.filter(noise=noise)
        yield distance_figure(kinds, self.source)


# --- what is measured -----------------------------------------------------------------------------------------


def compare(results: Results[Settings]) -> pl.DataFrame:
    """One row per network at p: constructions, random weights, and trained from them."""
    p = results.settings.p
    table, rows = cyclic(p).table, []
    for kind, network in (
        ("maximum margin", cyclic_network(p)),
        ("memoriser, balanced", memoriser_network(table)),
        ("memoriser, as printed", memoriser_network(table, balanced=False)),
    ):
        measures = addition_measures(network, p)
        rows.append({"network": kind, "p": p, "seed": 0, "when": "end"} | measures | {"highest": measures["ratio"]})
    trained = results.settings.measure(results.networks(begun="random"))
    return pl.DataFrame([*rows, *({"network": TRAINED[row["when"]], "p": p} | row for row in trained)])


def follow_memorisers(results: Results[Settings]) -> pl.DataFrame:
    """Two rows per network that started from the memoriser: at the start and at the end."""
    start = results.settings.start
    rows = start.measure(results.networks(begun="memoriser"), ["noise"])
    return pl.DataFrame([{"network": "from the memoriser", "p": start.p} | row for row in rows])


def predicted_ratios(p: int) -> dict[str, float]:
    """Normalised margin over γ* of the constructions, in closed form."""
    gamma = max_margin_cyclic(p).value
    return {
        "maximum margin": 1.0,
        "memoriser, balanced": 2 / (3 * math.sqrt(3) * p**2) / gamma,
        "memoriser, as printed": 1 / (2 * p**2 * 2.0625**1.5) / gamma,
    }


# --- what is claimed ------------------------------------------------------------------------------------------


def say_compared(say: Claims, p: int, table: pl.DataFrame) -> None:
    """What networks that all add modulo p have, and what they have not."""
    for kind, ratio in predicted_ratios(p).items():
        (value,) = table.filter(network=kind)["ratio"]
        say(
            f"{kind.replace(', ', '-').replace(' ', '-')}-margin",
            f"Z_{p}, {kind}: the normalised margin is {ratio:.4g} γ*, as in closed form.",
            exact(abs(value - ratio), 1),
            "|normalised margin over γ* − closed form|",
            at_most=CLOSE,
            source_value=f"{ratio:.4g} (computed from section D.4 and Theorem 7.7)",
        )
    flat = table.filter(network="memoriser, balanced")["power_least", "power_median"].to_numpy()
    say = say.about(head=f"Z_{p}: ")
    say(
        "memoriser-flat",
        "the weights of the memoriser have no frequency: each has the share 2/p of the power.",
        exact(float(np.max(np.abs(flat - 2 / p))), 1),
        "|largest normalised power − 2/p|, at most",
        at_most=CLOSE,
        source_value="every frequency alike",
    )
    # Random networks are where the trained ones began.
    MedianClaims(say, table.filter(pl.col("network") != "random")).bound("γ*", THEOREM)
    MedianClaims(say, table.filter(network="trained")).margin(
        "trained-margin",
        "a network trained from random weights has nearly the maximum margin, not a memoriser's.",
        at_least=0.95,
        source_value="approaches γ* (Figure 7.1c)",
    )
    random = MedianClaims(say, table.filter(network="random"))
    random.margin("random-margin", "a random network has no margin.", at_most=0.0)
    part = say.about("trained-", "trained from random weights: ")
    MedianClaims(part, table.filter(network="trained")).distances()


def say_departure(claim: MedianClaims) -> None:
    """Where training ends that starts from the memoriser; without noise at one network, which no seed changes."""
    claim.bound("γ*", THEOREM)
    claim.margin("margin", "training reaches the maximum margin.", at_least=0.99)
    claim(
        "one-frequency",
        "every kept neuron ends with one frequency.",
        "power_least",
        "the least largest normalised power of u, v and w of kept neurons",
        at_least=0.99,
    )
    claim.distances()


# --- how it looks ---------------------------------------------------------------------------------------------


def _comparison(p: int, table: pl.DataFrame, source: str) -> Figure:
    panels = {
        "ratio": "normalised margin / γ*",
        "power_median": "largest normalised power,\nmedian",
        "neurons": "distance of neurons\nfrom optimal ones",
    }
    title = f"Networks that add modulo {p}: margin, frequencies and distance from optimal neurons"
    chart = Chart("comparison", title, source=source, width=10.5, height=3.4, columns=len(panels), sharey=True)
    draw_rows(chart.panels, panels, {name: table.filter(network=kind) for kind, name in KINDS.items()}, alpha=0.8)
    chart[0].reference(1.0, "γ*", axis="x")
    chart[0].ax.axvline(0, color=figures.MUTED, linewidth=0.8)
    chart[1].reference(2 / p, "flat: 2/p", axis="x")
    return chart.figure(
        "A dot per network. Normalised margin over the maximum γ* (negative where some pair is added wrongly); largest "
        "normalised power, median over kept neurons and u, v, w; root mean square distance of ω_i/‖ω_i‖ from the "
        "nearest optimal neuron. Constructions and memorisers add without an error.",
        table,
    )


def _departure(settings: Settings, trials: pl.DataFrame, source: str) -> Figure:
    p = settings.start_p
    alike = ((p - 1) / 2) ** -0.5
    curves = curve_table(trials, ["noise"], ["normalised_margin", "power"])
    ratio = pl.col("normalised_margin") / max_margin_cyclic(p).value
    curves = curves.select("noise", "seed", "step", ratio.alias("ratio"), "power")
    return curves_figure(
        "departure",
        f"Training modulo {p} that starts from a network which memorised the table",
        {f"noise {noise:g}": curves.filter(noise=noise) for noise in settings.noises},
        caption=(
            f"A line per network of {2 * p * p} neurons that starts as the balanced memoriser of addition modulo {p}, "
            f"its weights moved by normal noise; λ = {settings.start_weight:g}. Lower dashed line: the largest "
            "normalised margin of networks whose neurons have as much of one frequency as of another, 1/√((p−1)/2) of "
            "the maximum."
        ),
        source=source,
        lines={f"all frequencies alike in a neuron: {alike:.3f}": alike},
    )
