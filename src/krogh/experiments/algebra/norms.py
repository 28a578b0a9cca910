"""Which norm makes which features: the same network trained with L_{2,b} penalties, and ReLU neurons with L_2.

Theorem 7.7 is about the L_{2,3} norm of quadratic neurons, b = ν: neurons then add up their margins whatever their
sizes, and every frequency has a share. For b < ν large neurons are cheaper than several small ones, and the bound,
which still holds, is out of reach for networks that need many neurons; for b > ν it grows with the width.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import polars as pl

from krogh.engine import Trials, sweep
from krogh.errors import require
from krogh.experiments.algebra.common import (
    THEOREM,
    Addition,
    MedianClaims,
    curve_table,
    curves_figure,
    distance_figure,
    draw_rows,
    typical,
)
from krogh.lab import Chart, Claims, Experiment, Figure, Results, Tables, experiment, setting
from krogh.lab.experiment import Measures
from krogh.models.two_layer import PairNetwork
from krogh.theory.groups.maximum import max_margin_cyclic
from krogh.training.losses import NeuronNorm
from krogh.values import replaced

NU = 3.0  # homogeneity of quadratic neurons, and the b of Theorem 7.7
RELU = "relu"


@dataclass(frozen=True)
class Settings(Addition):
    norms: tuple[float, ...] = setting(
        (3.0, 2.0), "exponents b of the norms L_{2,b}; 3 and 2 are judged", distinct=True, least=1
    )
    relu: bool = setting(True, "also train ReLU networks under L_2")

    @property
    def kinds(self) -> dict[str, str]:
        """What is compared and how figures call it: "3", "2", ... for quadratic networks under L_{2,b}, and ReLU."""
        names = {f"{b:g}": "quadratic, L_2" if b == 2 else f"quadratic, L_{{2,{b:g}}}" for b in self.norms}
        return names | ({RELU: "ReLU, L_2"} if self.relu else {})


@experiment("algebra/norms")
class Norms(Experiment[Settings]):
    """Quadratic networks under L_{2,3} and other norms, and ReLU networks under L_2, on one table."""

    title = "Exact single frequencies and all neurons at work are the L_{2,3} norm's doing"
    question = "What becomes of the features and the margin when the weight decay is another norm?"
    source = "dissertation, section 7.3 and D.5.1; the comparison is not in the source"
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

    def check(self, settings: Settings) -> None:
        settings.check_modulus()
        norms = settings.norms
        require({2.0, NU} <= set(norms), f"norms must hold 3 and 2, which are compared; got norms={norms} (try 3,2)")

    def trials(self, settings: Settings) -> Iterator[Trials]:
        for kind in settings.kinds:
            trial = settings.trial(PairNetwork(settings.width, RELU if kind == RELU else "quadratic"))
            if kind not in (RELU, f"{NU:g}"):
                penalty = NeuronNorm(settings.weight, b=float(kind), exponent=float(kind))
                trial = replaced(trial, "training.penalty", penalty)
            yield from sweep(trial, seed=range(settings.seeds), label={"kind": kind})

    def measure(self, results: Results[Settings]) -> Measures:
        return {"networks": lambda: pl.DataFrame(results.settings.measure(results.networks(), ["kind"]))}

    def claims(self, tables: Tables[Settings], say: Claims) -> None:
        """Between exact and nearly: L_2 on quadratic neurons lies between L_{2,3} and ReLU."""
        settings, table = tables.settings, tables["networks"].filter(when="end")
        three, two, relu = (table.filter(kind=kind).sort("seed") for kind in ("3", "2", RELU))
        say = say.about(head=f"Z_{settings.p}: ")
        claim = MedianClaims(say, table)
        claim.bound("γ*", THEOREM)
        claim(
            "fewer-neurons",
            "under L_2 fewer quadratic neurons survive than under L_{2,3} "
            f"({typical(two['kept'])} and {typical(three['kept'])} of {settings.width}).",
            three["kept"] - two["kept"],
            "kept neurons under L_{2,3} − under L_2, same seed",
            above=0.0,
            source_value="not given; 72 and 18 of 80 in the reference's runs (p = 11)",
        )
        claim(
            "less-exact",
            "under L_2 quadratic neurons are less exactly of one frequency than under L_{2,3}.",
            three["power_median"] - two["power_median"],
            "median largest normalised power under L_{2,3} − under L_2, same seed",
            above=0.0,
            source_value="not given; 1.000 and 0.978 in the reference's runs (p = 11)",
        )
        claim(
            "smaller-margin",
            f"L_2 leaves a smaller L_{{2,3}} margin ({typical(two['ratio'])} of the maximum).",
            three["ratio"] - two["ratio"],
            "normalised margin over γ* under L_{2,3} − under L_2, same seed",
            above=0.0,
            source_value="not given; 0.681 under L_2 in the reference's runs (p = 11)",
        )
        MedianClaims(say.about("L_2,3-", "quadratic under L_{2,3}: "), three).distances()
        claim(
            "farther",
            f"under L_2 neurons are farther from optimal ones ({typical(two['neurons'])}).",
            two["neurons"] - three["neurons"],
            "distance of neurons under L_2 − under L_{2,3}, same seed",
            above=0.0,
        )
        if settings.relu:
            claim(
                "more-exact-than-relu",
                "under L_2 quadratic neurons are more exactly of one frequency than ReLU neurons (whose distance from "
                f"optimal ones is {typical(relu['neurons'])}).",
                two["power_median"] - relu["power_median"],
                "median largest normalised power of quadratic − of ReLU neurons, both under L_2, same seed",
                above=0.0,
                source_value="not given; 0.978 and 0.930 in the reference's runs (p = 11)",
            )

    def figures(self, tables: Tables[Settings]) -> Iterable[Figure]:
        settings, kinds = tables.settings, tables.settings.kinds
        networks = {name: tables["networks"].filter(kind=kind) for kind, name in kinds.items()}
        yield _comparison(settings, networks, self.source)
        known = (
            pl.when(kind=RELU).then(float("nan")).otherwise("normalised_margin") / max_margin_cyclic(settings.p).value
        )
        curves = curve_table(tables["trials"], ["kind"], ["normalised_margin", "power"])
        curves = curves.select("kind", "seed", "step", known.alias("ratio"), "power")
        yield curves_figure(
            "curves",
            f"Modulo {settings.p}: margin and frequencies while training under different norms",
            {name: curves.filter(kind=kind) for kind, name in kinds.items()},
            caption="A line per network. Whatever the norm in training, margins are divided by Σ‖ω_i‖³.",
            source=self.source,
        )
        yield distance_figure(networks, THEOREM)


def _comparison(settings: Settings, networks: dict[str, pl.DataFrame], source: str) -> Figure:
    kinds = {name: table.filter(when="end") for name, table in networks.items()}
    panels = {
        "kept": f"neurons above a tenth of\nthe largest, of {settings.width}",
        "power_median": "largest normalised power,\nmedian",
        "ratio": "normalised L_{2,3} margin / γ*",
        "even_shares": "share of frequencies with\na share within 20% of 2/(p−1)",
    }
    chart = Chart(
        "norms",
        f"Trained to add modulo {settings.p} under different norms: neurons, frequencies and margin",
        source=source,
        width=11.0,
        height=2.0 + 0.4 * len(kinds),
        columns=len(panels),
        sharey=True,
    )
    draw_rows(chart.panels, panels, kinds, alpha=0.7)
    chart[2].reference(1.0, "γ*", axis="x")
    return chart.figure(
        f"A dot per network, λ = {settings.weight:g}, penalty λ Σ‖ω_i‖^b (b = 2 for ReLU). Largest normalised power: "
        "median over kept neurons and u, v, w. For ReLU neurons no maximum margin is known.",
        pl.concat(kinds.values()),
    )
