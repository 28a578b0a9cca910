"""Certificates of maximum margin: networks that reach what nothing can exceed (dissertation, sections 7.3 and D.5–D.9).

    h(θ/‖θ‖) ≤ γ* ≤ V(τ) = max_{‖ω‖ ≤ 1} E[ψ'(ω)]      for every network θ and all weights τ on wrong labels

The networks of the source are executed on all inputs, in float64, with the weights that belong to them: both sides
meet. Weights that treat all wrong labels alike prove less on groups with irreps of several dimensions: there the gap
stays open. Where the condition of Theorem 7.9 fails, a linear program finds both sides (section D.9.2).
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from krogh.errors import require
from krogh.lab import Chart, Claims, Experiment, Figure, Results, Tables, experiment, figures, groups, setting
from krogh.lab.estimate import exact, largest, least
from krogh.lab.experiment import Measures
from krogh.networks.groups.arrays import Network as Arrays
from krogh.networks.groups.certificates import certify
from krogh.networks.groups.written import cyclic_network, group_network, parity_network
from krogh.programs.groups import Group, load_group
from krogh.theory.groups.maximum import max_margin_cyclic, max_margin_group, max_margin_parity, theorem_7_7, theorem_7_9
from krogh.theory.groups.problems import ParityProblem, characters_of
from krogh.theory.groups.weighted import offset_maximum, weighted_maximum

CLOSED = 1e-12
OPEN = 1e-6
"""A relative gap beyond is no rounding."""
SPARE = 2
"""Coordinates of a parity beyond its support."""
FAMILIES = {
    "odd": ("addition modulo odd p", "dissertation, Theorem 7.7 and section D.6.2"),
    "even": ("addition modulo even p", "derived; Theorem 7.7 does not hold there"),
    "parity": ("parities of k bits", "dissertation, Theorem 7.8 and section D.7"),
    "group": ("groups with the condition of Theorem 7.9", "dissertation, Theorem 7.9, Lemmas D.14–D.16"),
    "program": ("groups without it, by linear program", "dissertation, section D.9.2"),
}


@dataclass(frozen=True)
class Settings:
    orders: tuple[int, ...] = setting(
        (3, 5, 7, 9, 11, 13, 15, 4, 6, 8, 10, 12, 14),
        "moduli p, odd or even",
        distinct=True,
        fewest=0,
        least=3,
        most=101,
    )
    parities: tuple[int, ...] = setting(
        (1, 2, 3, 4, 5), "bits k of a parity", distinct=True, fewest=0, least=1, most=10
    )
    groups: tuple[str, ...] = setting(
        ("S_3", "S_4", "S_5"), "groups for which the condition of Theorem 7.9 holds", distinct=True
    )
    programs: tuple[str, ...] = setting(("A_5", "S_6"), "groups for which it fails", distinct=True, fewest=0)
    draws: int = setting(200, "random weights on wrong labels per group, each of which must prove a bound", least=1)


@experiment("algebra/certificates")
class Certificates(Experiment[Settings]):
    """Lower and upper bounds for the maximum margin, which meet; and weights with which they do not."""

    title = "Networks of maximum margin, with the proof that there is no larger one"
    question = "Do the source's networks reach the maximum margin, and which weights on wrong labels prove it?"
    source = "dissertation, sections 7.3 and D.5"
    scales = {
        "smoke": Settings(orders=(3, 5, 4), parities=(1, 2, 3), groups=("S_3",), programs=("A_5",), draws=20),
        "laptop": Settings(),
        "paper": Settings(),
    }
    notes = (
        "Nothing is trained: networks are written down and executed in float64 on all inputs.",
        "The weights of Lemma D.14 are those of the source with the signs and the normalisation repaired.",
        "Linear programs are checked by the two mixtures that they return; networks of groups of up to 100 elements "
        "are executed too.",
    )

    def check(self, settings: Settings) -> None:
        for group in settings.groups:
            theorem_7_9(group)
        for group in settings.programs:
            fails = bool(max_margin_group(group).failing)
            require(fails, f"programs are groups for which the condition fails; it holds for {group!r} (try A_5)")

    def measure(self, results: Results[Settings]) -> Measures:
        settings = results.settings
        chosen = [load_group(name) for name in settings.groups]
        return {
            "certificates": lambda: pl.DataFrame(
                [
                    *map(_cyclic, settings.orders),
                    *map(_parity, settings.parities),
                    *(_group(group, "group") for group in chosen),
                    *map(_program, settings.programs),
                ]
            ),
            "uniform": lambda: pl.DataFrame([_uniform(group) for group in chosen]),
            "random": lambda: pl.DataFrame([_random(group, settings.draws) for group in chosen]),
        }

    def claims(self, tables: Tables[Settings], say: Claims) -> None:
        for family, table in groups(tables["certificates"], "family").items():
            what, source = FAMILIES[family]
            say(
                f"closed-{family}",
                f"Lower and upper bound meet at the value of theory for {what} ({', '.join(table['case'])}).",
                largest(table["error"]),
                "largest |bound / γ* − 1| of both bounds",
                at_most=CLOSED,
                source_value="0",
                source=source,
            )
        several = tables["uniform"].filter("several")
        if len(several):
            say_uniform(say, several)
        random = tables["random"]
        draws = int(random["draws"].sum())
        say(
            "any-weights",
            f"Whatever the weights on wrong labels, they prove no less than γ* ({', '.join(random['group'])}).",
            exact(float(np.min(random["least"].to_numpy())), draws),
            f"least V(τ)/γ* over {draws:,} random τ",
            at_least=1 - CLOSED,
            source_value="≥ 1",
            source="dissertation, Lemmas 7.2–7.6",
        )

    def figures(self, tables: Tables[Settings]) -> Iterable[Figure]:
        yield _gaps(tables["certificates"], self.source)
        yield _bounds(tables["uniform"])


# --- what is measured -----------------------------------------------------------------------------------------


def _row(family: str, case: str, width: int, value: float, lower: float, upper: float, failing: str) -> dict[str, Any]:
    """A certificate: the maximum by theorem, and what the network and the weights prove."""
    return {
        "family": family,
        "case": case,
        "neurons": width,
        "theorem": value,
        "lower": lower,
        "upper": upper,
        "gap": (upper - lower) / value,
        "error": max(abs(lower / value - 1), abs(upper / value - 1)),
        "failing": failing,
    }


def _executed(family: str, case: str, network: Arrays, problem: Any, value: float) -> dict[str, Any]:
    """The certificate of a network on all inputs."""
    proof = certify(network, problem)
    return _row(family, case, network.width, value, proof.lower, proof.upper, _words(proof.failing))


def _cyclic(p: int) -> dict[str, Any]:
    if p % 2:
        return _executed("odd", f"Z_{p}", cyclic_network(p), p, theorem_7_7(p))
    return _executed("even", f"Z_{p}", group_network(p), p, max_margin_cyclic(p).value)


def _parity(k: int) -> dict[str, Any]:
    problem, value = ParityProblem(k + SPARE, k=k), max_margin_parity(k).value
    return _executed("parity", f"k = {k}", parity_network(k + SPARE, k=k), problem, value)


def _group(group: Group, family: str) -> dict[str, Any]:
    return _executed(family, group.name, group_network(group), group, max_margin_group(group).value)


def _program(name: str) -> dict[str, Any]:
    """Both sides of the matrix game, by characters alone; smaller groups' networks are executed too."""
    group = load_group(name)
    if group.order <= 100:
        return _group(group, "program")
    characters, best = characters_of(name), max_margin_group(name)
    shares = np.array(list(best.irrep_shares.values()))
    lower = characters.unit * float(np.min(shares @ characters.payoff()))
    upper = weighted_maximum(characters, best.class_weights).value
    return _row("program", name, best.width, best.value, lower, upper, "")


def _uniform(group: Group) -> dict[str, Any]:
    """What weights prove that are the same for all wrong labels, beside those of Lemma D.14."""
    n = group.order
    tau = np.where(np.arange(n) == group.identity, 0.0, 1 / (n - 1))
    proof = certify(group_network(group), group, tau=tau)
    return {
        "group": group.name,
        "theorem": max_margin_group(group).value,
        "network": proof.lower,
        "uniform": proof.upper,
        "optimal": offset_maximum(group).value,
        "formula": 2 / (3 * math.sqrt(3 * n) * (n - 1)),
        "several": bool(np.ptp(characters_of(group).dimensions[1:]) > 0),
        "linear": bool(characters_of(group).dimensions[1:].min() == 1),
        "best": ", ".join(offset_maximum(group, tau).best),
        "failing": _words(proof.failing),
    }


def _random(group: Group, draws: int) -> dict[str, Any]:
    """The least bound of random weights on wrong labels, over γ*: half of them even, half of them on few labels."""
    random, best = np.random.default_rng(0), max_margin_group(group).value
    others = np.flatnonzero(np.arange(group.order) != group.identity)
    least = math.inf
    for draw in range(draws):
        tau = np.zeros(group.order)
        tau[others] = random.dirichlet(np.full(len(others), 1.0 if draw % 2 else 0.1))
        least = min(least, offset_maximum(group, tau).value / best)
    return {"group": group.name, "draws": draws, "least": least}


def _words(failing: Iterable[Any]) -> str:
    return "; ".join(map(str, failing))


# --- what is claimed ------------------------------------------------------------------------------------------


def say_uniform(say: Claims, table: pl.DataFrame) -> None:
    """What equal weights on all wrong labels prove for groups with irreps of several dimensions."""
    values = ", ".join(f"{row['group']}: {row['uniform']:.4g} against {row['theorem']:.4g}" for row in table.to_dicts())
    say(
        "uniform-open",
        f"With one weight for all wrong labels the gap stays open where irreps have several dimensions ({values}).",
        least(table["uniform"] / table["network"] - 1),
        "least relative gap",
        above=OPEN,
        source_value="0.0314 against 0.0236 for S_3",
    )
    linear = table.filter("linear")
    if len(linear):
        best = ", ".join(f"{row['group']}: {row['best']}" for row in linear.to_dicts())
        say(
            "uniform-formula",
            f"The bound is then 2/(3√(3|G|)(|G|−1)), and only irreps of dimension 1 reach it ({best}).",
            largest((linear["uniform"] / linear["formula"] - 1).abs()),
            "largest |bound / formula − 1|",
            at_most=CLOSED,
            source_value="0",
            source="dissertation, Lemma D.13 (factor 2 repaired)",
        )


# --- how it looks ---------------------------------------------------------------------------------------------


def _gaps(table: pl.DataFrame, source: str) -> Figure:
    title, height = "Lower and upper bounds meet to rounding", 1.2 + 0.22 * len(table)
    chart = Chart("gaps", title, source=source, width=7.6, height=height)
    places = np.arange(len(table))
    smallest = np.finfo(np.float64).eps / 10
    panel = chart.panel(x="|upper − lower| / γ*", log="x", xlim=(smallest / 2, 1e-11))
    for family, own in groups(table.with_columns(place=places), "family").items():
        gaps = np.maximum(own["gap"].abs().to_numpy(), smallest)
        panel.dots(gaps, own["place"], FAMILIES[family][0], markersize=6, alpha=1.0)
    panel.reference(CLOSED, "closed", axis="x")
    panel.name_rows([f"{row['case']} ({row['neurons']:,} neurons)" for row in table.to_dicts()])
    panel.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0))
    return chart.figure(
        "The normalised margin of the source's networks on all inputs, and the largest class-weighted margin of any "
        f"neuron with the weights that belong to them. Gaps below {smallest:.1g} are drawn there; the figure's data "
        "has both bounds and the maximum by theorem.",
        table,
    )


def _bounds(table: pl.DataFrame) -> Figure:
    title = "Equal weights on all wrong labels prove too little"
    chart = Chart("bounds", title, source="dissertation, Lemmas D.13 and D.14", height=3.8)
    panel, places = chart.panel(y="over γ*"), np.arange(len(table))
    for shift, column, color, label in (
        (-0.25, "network", figures.BLUE, "reached by the network"),
        (0.0, "optimal", figures.GREEN, "bound, weights of Lemma D.14"),
        (0.25, "uniform", figures.VERMILLION, "bound, equal weights"),
    ):
        values = (table[column] / table["theorem"]).to_numpy()
        panel.ax.bar(places + shift, values, width=0.22, color=color, label=label)
        for place, value in zip(places, values, strict=True):
            figures.direct_label(panel.ax, place + shift, value, f"{value:.3g}", side="above")
    panel.ax.set_xticks(places, table["group"].to_list())
    panel.ax.margins(y=0.15)
    panel.legend(loc="upper left")
    failing = " ".join(f"{name}: {text}." for name, text in table.select("group", "failing").iter_rows() if text)
    return chart.figure(
        "The margin of the network of Lemma D.15 over γ*, and two upper bounds: with the weights per class of Lemma "
        f"D.14 it is met; with the same weight on every wrong label it is not. With the latter, {failing}",
        table,
    )
