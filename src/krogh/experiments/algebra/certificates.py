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

from krogh.errors import require, require_integer
from krogh.experiments.theorems import Demonstration, Tables, exact, largest
from krogh.lab import Claim, Figure, claim, experiment, figures, setting
from krogh.tasks.groups import Group, load_group
from krogh.theory.constructions.algebra_arrays import cyclic_network, parity_network
from krogh.theory.constructions.algebra_groups import group_network
from krogh.theory.margins import (
    ParityProblem,
    certify,
    characters_of,
    max_margin_cyclic,
    max_margin_group,
    max_margin_parity,
    offset_maximum,
    theorem_7_7,
    theorem_7_9,
    weighted_maximum,
)

SOURCE = "dissertation, sections 7.3 and D.5"
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
    orders: tuple[int, ...] = setting((3, 5, 7, 9, 11, 13, 15, 4, 6, 8, 10, 12, 14), "moduli p, odd or even")
    parities: tuple[int, ...] = setting((1, 2, 3, 4, 5), "bits k of a parity")
    groups: tuple[str, ...] = setting(("S_3", "S_4", "S_5"), "groups for which the condition of Theorem 7.9 holds")
    programs: tuple[str, ...] = setting(("A_5", "S_6"), "groups for which it fails")
    draws: int = setting(200, "random weights on wrong labels per group, each of which must prove a bound")


@experiment("algebra/certificates")
class Certificates(Demonstration[Settings]):
    """Lower and upper bounds for the maximum margin, which meet; and weights with which they do not."""

    title = "Networks of maximum margin, with the proof that there is no larger one"
    question = "Do the source's networks reach the maximum margin, and which weights on wrong labels prove it?"
    source = SOURCE
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
        for name in ("orders", "parities", "groups", "programs"):
            values = getattr(settings, name)
            require(len(set(values)) == len(values), f"{name} must not repeat a value; got {name}={values}")
        require(settings.groups, "groups must name at least one group; got none (try groups=S_3)")
        for p in settings.orders:
            require_integer("p", p, 3, 101)
        for k in settings.parities:
            require_integer("k", k, 1, 10)
        require_integer("draws", settings.draws, 1)
        for group in settings.groups:
            theorem_7_9(group)
        for group in settings.programs:
            fails = bool(max_margin_group(group).failing)
            require(fails, f"programs are groups for which the condition fails; it holds for {group!r} (try A_5)")

    def measure(self, settings: Settings) -> Tables:
        rows = [_cyclic(p) for p in settings.orders] + [_parity(k) for k in settings.parities]
        rows += [_group(load_group(name), "group") for name in settings.groups]
        rows += [_program(name) for name in settings.programs]
        chosen = [load_group(name) for name in settings.groups]
        return {
            "certificates": pl.DataFrame(rows),
            "uniform": pl.DataFrame([_uniform(group) for group in chosen]),
            "random": pl.DataFrame([_random(group, settings.draws) for group in chosen]),
        }

    def judge(self, settings: Settings, tables: Tables) -> list[Claim]:
        found = [_closed_claim(str(family), own) for (family,), own in _by(tables["certificates"], "family")]
        return [*found, *_uniform_claims(tables["uniform"]), _duality_claim(tables["random"])]

    def draw(self, settings: Settings, tables: Tables) -> list[Figure]:
        return [_gaps(tables["certificates"]), _bounds(tables["uniform"])]


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


def _cyclic(p: int) -> dict[str, Any]:
    odd = p % 2 == 1
    network = cyclic_network(p) if odd else group_network(p)
    value = theorem_7_7(p) if odd else max_margin_cyclic(p).value
    proof = certify(network, p)
    return _row(
        "odd" if odd else "even", f"Z_{p}", network.width, value, proof.lower, proof.upper, _words(proof.failing)
    )


def _parity(k: int) -> dict[str, Any]:
    network = parity_network(k + SPARE, k=k)
    proof = certify(network, ParityProblem(k + SPARE, k=k))
    value = max_margin_parity(k).value
    return _row("parity", f"k = {k}", network.width, value, proof.lower, proof.upper, _words(proof.failing))


def _group(group: Group, family: str) -> dict[str, Any]:
    network = group_network(group)
    proof = certify(network, group)
    value = max_margin_group(group).value
    return _row(family, group.name, network.width, value, proof.lower, proof.upper, _words(proof.failing))


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


def _by(table: pl.DataFrame, column: str) -> Any:
    return table.group_by(column, maintain_order=True)


# --- what it shows --------------------------------------------------------------------------------------------


def _closed_claim(family: str, table: pl.DataFrame) -> Claim:
    what, source = FAMILIES[family]
    cases = ", ".join(table["case"])
    return claim(
        f"closed-{family}",
        f"Lower and upper bound meet at the value of theory for {what} ({cases}).",
        source=source,
        statistic="largest |bound / γ* − 1| of both bounds",
        interval=exact(largest(table["error"].to_numpy())),
        at_most=CLOSED,
        trials=len(table),
        source_value="0",
    )


def _uniform_claims(table: pl.DataFrame) -> list[Claim]:
    several = table.filter("several")
    if not len(several):
        return []
    values = ", ".join(
        f"{row['group']}: {row['uniform']:.4g} against {row['theorem']:.4g}" for row in several.iter_rows(named=True)
    )
    made = [
        claim(
            "uniform-open",
            "With the same weight on every wrong label the gap stays open where irreps have several dimensions "
            f"({values}).",
            source=SOURCE,
            statistic="least relative gap",
            interval=exact(float(np.min((several["uniform"] / several["network"] - 1).to_numpy()))),
            above=OPEN,
            trials=len(several),
            source_value="0.0314 against 0.0236 for S_3",
        )
    ]
    linear = several.filter("linear")
    if len(linear):
        off = np.abs((linear["uniform"] / linear["formula"] - 1).to_numpy())
        made.append(
            claim(
                "uniform-formula",
                "The bound is then 2/(3√(3|G|)(|G|−1)), and only irreps of dimension 1 reach it "
                f"({', '.join(f'{group}: {best}' for group, best in linear.select('group', 'best').iter_rows())}).",
                source="dissertation, Lemma D.13 (factor 2 repaired)",
                statistic="largest |bound / formula − 1|",
                interval=exact(largest(off)),
                at_most=CLOSED,
                trials=len(linear),
                source_value="0",
            )
        )
    return made


def _duality_claim(table: pl.DataFrame) -> Claim:
    draws = int(table["draws"].sum())
    return claim(
        "any-weights",
        f"Whatever the weights on wrong labels, they prove no less than γ* ({', '.join(table['group'])}).",
        source="dissertation, Lemmas 7.2–7.6",
        statistic=f"least V(τ)/γ* over {draws:,} random τ",
        interval=exact(float(np.min(table["least"].to_numpy()))),
        at_least=1 - CLOSED,
        trials=draws,
        source_value="≥ 1",
    )


# --- how it looks ---------------------------------------------------------------------------------------------


def _gaps(table: pl.DataFrame) -> Figure:
    fig, ax = figures.new_figure("Lower and upper bounds meet to rounding", width=7.6, height=1.2 + 0.22 * len(table))
    places = np.arange(len(table))
    smallest = np.finfo(np.float64).eps / 10
    for color, (family, own) in zip(figures.PALETTE, _by(table.with_columns(place=places), "family"), strict=False):
        gaps = np.maximum(np.abs(own["gap"].to_numpy()), smallest)
        ax.plot(gaps, own["place"], "o", color=color, markersize=6, label=FAMILIES[str(family[0])][0])
    figures.log_axis_labels(ax, "x")
    figures.source_line(ax, CLOSED, "closed", axis="x")
    ax.set_xlim(smallest / 2, 1e-11)
    ax.set_yticks(
        places, [f"{case} ({width:,} neurons)" for case, width in table.select("case", "neurons").iter_rows()]
    )
    ax.invert_yaxis()
    ax.set_xlabel("|upper − lower| / γ*")
    figures.legend(ax, loc="upper left", bbox_to_anchor=(1.0, 1.0))
    figures.source_note(fig, SOURCE)
    caption = (
        "The normalised margin of the source's networks on all inputs, and the largest class-weighted margin of any "
        f"neuron with the weights that belong to them. Gaps below {smallest:.1g} are drawn there; the figure's data "
        "has both bounds and the maximum by theorem."
    )
    return Figure("gaps", "Certificates of maximum margin", caption, fig, table)


def _bounds(table: pl.DataFrame) -> Figure:
    fig, ax = figures.new_figure("Equal weights on all wrong labels prove too little", width=6.4, height=3.8)
    places = np.arange(len(table))
    for shift, column, color, label in (
        (-0.25, "network", figures.BLUE, "reached by the network"),
        (0.0, "optimal", figures.GREEN, "bound, weights of Lemma D.14"),
        (0.25, "uniform", figures.VERMILLION, "bound, equal weights"),
    ):
        values = (table[column] / table["theorem"]).to_numpy()
        ax.bar(places + shift, values, width=0.22, color=color, label=label)
        for place, value in zip(places, values, strict=True):
            figures.direct_label(ax, place + shift, value, f"{value:.3g}", side="above")
    ax.set_xticks(places, table["group"].to_list())
    ax.set_ylabel("over γ*")
    ax.margins(y=0.15)
    figures.legend(ax, loc="upper left")
    figures.source_note(fig, "dissertation, Lemmas D.13 and D.14")
    said = " ".join(f"{name}: {text}." for name, text in table.select("group", "failing").iter_rows() if text)
    caption = (
        "The margin of the network of Lemma D.15 over γ*, and two upper bounds: with the weights per class of Lemma "
        f"D.14 it is met; with the same weight on every wrong label it is not. With the latter, {said}"
    )
    return Figure("bounds", "Upper bounds by two choices of weights", caption, fig, table)
