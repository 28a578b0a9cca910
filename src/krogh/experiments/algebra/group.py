"""Figures 7.6, D.2 and D.3: what networks that compose a group look like, for S_3, S_4, S_5 and any group of one's own.

Theory says beforehand how large the margin can be, which irreps are used and with which shares, also at the λ of
training; networks are then trained and compared with it, in float64:

    margin        normalised margin over γ*, and over that of the exact optimum at the λ of training
    loss          cross-entropy + λ Σ‖ω_i‖³ over its exact minimum, which nothing can fall below
    irreps        neurons and shares of Σ‖ω_i‖³ per irrep, beside the optimum's; the largest normalised power
    certificate   lower ≤ γ* ≤ upper, and which condition keeps them apart (`certify`)
    distance      of neurons, shares and function from the optimal networks (`margin_distance`)

S_3, S_4 and S_5 at the source's settings have criteria of their own, which hold the exact optimum at its λ: the margin
stays below γ* there. Those for every other group were set before any was trained:

    margin        at least 0.95 of the exact optimum's, and never above γ*; still rising, where irreps are left out
    loss          at most 1.05 of its exact minimum
    shares        at most 0.05 in total variation from the optimum's
    neurons       0.99 of the power in one irrep, 0.99 of the largest class-weighted margin
    function      at most 0.01 from the optimum's (1 - cosine of the logits)
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl
import scipy

from krogh.engine import Trials, sweep
from krogh.errors import require
from krogh.experiments.algebra.common import (
    GroupTraining,
    MedianClaims,
    Plan,
    curve_table,
    feature_measures,
    final_arrays,
    highest_margin,
    initial_arrays,
    plan_of,
    typical,
)
from krogh.lab import Chart, Claims, Experiment, Figure, Network, Results, Tables, experiment, figures, groups, setting
from krogh.lab.experiment import Measures
from krogh.networks.groups.arrays import PairArrays, norm
from krogh.networks.groups.certificates import certify
from krogh.numbers import count, number
from krogh.probes.features.distance import margin_distance
from krogh.probes.features.spectra import network_spectrum
from krogh.probes.margins import Margin
from krogh.probes.spectra import IrrepPower
from krogh.theory.groups.irreps import irrep_kernels
from krogh.theory.groups.maximum import sign_condition
from krogh.theory.groups.problems import characters_of
from krogh.theory.groups.weighted import offset_maximum

MARGIN, LOSS, SHARES, POWER, EFFICIENCY, FUNCTION, UNUSED = 0.95, 1.05, 0.05, 0.99, 0.99, 0.01, 0.05
MANY_SEEDS, FEW_SEEDS = 12, 6
LONG_WORK = 1e12
"""Multiplications of one network's forward passes, beyond which it takes minutes on a laptop."""


@dataclass(frozen=True)
class Settings(GroupTraining):
    groups: tuple[str, ...] = setting(
        ("S_3", "S_4", "S_5"), "groups by name, or files that hold a Cayley table", distinct=True
    )
    group: str = setting(
        "", "one group in place of `groups`: Z_12, D_6, S_4, A_5, Q_8, D_4xD_4, Z_2^3, or path/to/table.csv"
    )
    seeds: int | None = setting(None, "networks of each group; none for 12, or 6 where one takes minutes", least=1)


@dataclass(frozen=True)
class Criteria:
    """The reference's criteria for one of the source's figures; what is None is judged as for every group."""

    source: str = "dissertation, Theorem 7.9 and section D.9.2, for a group of one's own"
    ratio: tuple[float, float] | None = None
    share_difference: float | None = None
    median_power: float | None = None
    trivial: bool = False
    cross_entropy: float | None = None


ANY_GROUP = Criteria()
CRITERIA = {
    "S_3": Criteria("dissertation, Figure D.2", (0.96, 0.985), share_difference=0.005, trivial=True),
    "S_4": Criteria("dissertation, Figure D.3", (0.91, 0.95), share_difference=0.01, median_power=0.999),
    "S_5": Criteria("dissertation, Figure 7.6", (0.80, 0.94), cross_entropy=0.09),
}


@experiment("algebra/group")
class Composition(Experiment[Settings]):
    """Networks that learn the composition of a group: predicted margin, features, and what training makes of them."""

    title = "Networks that compose a group put each neuron into one irreducible representation"
    question = "Does gradient descent find the networks of maximum margin for this group, and their representations?"
    source = "dissertation, Figures 7.6, D.2 and D.3"
    scales = {
        "smoke": Settings(groups=("S_3",), seeds=2, steps=600, doubled_every=30),
        "laptop": Settings(groups=("S_3", "D_5")),
        "paper": Settings(),
    }
    notes = (
        "The source states neither the initialisation nor the exponent r of its penalty λ‖θ‖^r: weights are uniform "
        "±1/√fan_in, and r = ν = 3, with which its rates are stable.",
        "At finite λ the optimum's normalised margin lies below γ* for groups with irreps of several dimensions, and "
        "rises to it only as 1/log(1/λ): networks are compared with the exact optimum at their λ.",
        "The source shows one run each; here medians over seeds decide. Theory predicts shares of Σ‖ω_i‖³, not numbers "
        "of neurons; both are shown.",
        "λ, width, rates and steps of groups that the source does not treat follow from theory (none in the settings).",
    )
    keep_weights = True

    def trials(self, settings: Settings) -> Iterator[Trials]:
        for plan in plans_of(settings):
            trial = plan.trial((Margin(), IrrepPower(irrep_kernels(plan.group))))
            seeds = seeds_of(plan) if settings.seeds is None else settings.seeds
            yield from sweep(trial, seed=range(seeds), label={"group": plan.name})

    def measure(self, results: Results[Settings]) -> Measures:
        plans = plans_of(results.settings)

        def every() -> Iterator[tuple[Plan, Network]]:
            return ((plan, network) for plan in plans for network in results.networks(group=plan.name))

        return {
            "theory": lambda: pl.DataFrame([theory_row(plan) for plan in plans]),
            "classes": lambda: pl.concat(map(class_table, plans)),
            "networks": lambda: pl.DataFrame([network_row(*one) for one in every()]),
            "irreps": lambda: pl.DataFrame(
                [
                    {"group": plan.name, "seed": network.seed} | row
                    for plan, network in every()
                    for row in irrep_rows(plan, alive(network))
                ]
            ),
            "powers": lambda: pl.DataFrame([power_row(*one) for one in every()]),
        }

    def claims(self, tables: Tables[Settings], say: Claims) -> None:
        for theory in tables["theory"].iter_rows(named=True):
            name, criteria = theory["group"], criteria_of(theory)
            runs = tables["networks"].filter(group=name)
            head = f"{name} ({theory['remark']}): " if theory["remark"] else f"{name}: "
            claim = MedianClaims(say.about(f"{name}-", head, source=criteria.source), runs)
            claim.bound(f"γ* = {theory['max_margin']:.5g} ({theory['theorem']})")
            if theory["subset"]:
                say_subset(claim, theory)
            else:
                say_approach(claim, theory, criteria)
            say_irreps(claim, theory, criteria)
            say_optimum(claim, theory)

    def figures(self, tables: Tables[Settings]) -> Iterable[Figure]:
        for theory in tables["theory"].iter_rows(named=True):
            own = {
                name: tables[name].filter(group=theory["group"]) for name in ("trials", "irreps", "powers", "classes")
            }
            yield _margins(theory, own["trials"])
            yield _irreps(theory, own["irreps"], own["powers"])
            yield _prediction(theory, own["classes"])
        yield _distances(tables["networks"])


def plans_of(settings: Settings) -> list[Plan]:
    """The training of each group, in the order of the settings."""
    names = (settings.group,) if settings.group.strip() else settings.groups
    plans = [plan_of(name, settings) for name in names]
    distinct = len({plan.name for plan in plans}) == len(plans)
    require(distinct, f"groups must have different names; got {', '.join(plan.name for plan in plans)}")
    return plans


def seeds_of(plan: Plan) -> int:
    """How many networks a verdict is given: twelve, or six where each takes minutes on a laptop."""
    order, preset = plan.group.order, plan.preset
    pairs = order**2 if preset.batch is None else preset.batch
    return FEW_SEEDS if pairs * order * preset.width * preset.steps > LONG_WORK else MANY_SEEDS


def criteria_of(theory: dict[str, Any]) -> Criteria:
    """The source's figure of a group at the source's settings has criteria of its own."""
    return CRITERIA.get(theory["group"], ANY_GROUP) if theory["preset"] else ANY_GROUP


# --- what theory says -----------------------------------------------------------------------------------------


def theory_row(plan: Plan) -> dict[str, Any]:
    """What is known of a group before training, in numbers and words; `subset` where the condition of 7.9 fails."""
    best, optimum, condition = plan.best, plan.optimum, sign_condition(plan.group)
    return {
        "group": plan.name,
        "order": plan.group.order,
        "lam": plan.lam,
        "preset": plan.stated,
        "training": training_in_words(plan),
        "remark": plan.remark,
        "max_margin": best.value,
        "theorem": best.theorem,
        "subset": bool(best.failing),
        "left_out": ", ".join(left_out(plan)),
        "positive": ", ".join(condition.failing),
        "other_kinds": ", ".join(f"{name} {kind}" for name, kind in condition.other_kinds.items()),
        "width": best.width,
        "threshold": optimum.threshold,
        "ratio": optimum.ratio,
        "margin": optimum.margin,
        "cross_entropy": optimum.cross_entropy,
        "shares": ", ".join(f"{name}: {share:.3g}" for name, share in optimum.shares.items()),
    }


def training_in_words(plan: Plan) -> str:
    """How its networks are trained, in a sentence."""
    preset = plan.preset
    pairs = "all pairs" if preset.batch is None else f"{preset.batch} random pairs"
    return (
        f"{preset.width} quadratic neurons, λ = {plan.lam:g}, {preset.steps:,} steps on {pairs}, rate "
        f"{number(preset.rate)} doubled {len(preset.doubled_at)} times to {number(preset.final_rate)}"
    )


def left_out(plan: Plan) -> tuple[str, ...]:
    """The irreps that no maximum-margin network uses: none where the condition of Theorem 7.9 is negative.

    Their neurons have a smaller class-weighted margin than γ*; several mixtures of the others may be optimal.
    """
    optimal = offset_maximum(plan.group).best
    return tuple(name for name in plan.best.irrep_shares if name not in optimal)


def class_table(plan: Plan) -> pl.DataFrame:
    """The condition of Theorem 7.9 for each class, and the weights on wrong labels that prove γ*."""
    conditions = plan.best.conditions
    weights = [plan.best.class_weights[name] for name in conditions]
    columns = {"class": list(conditions), "condition": list(conditions.values()), "weight": weights}
    return pl.DataFrame({"group": plan.name, **columns})


# --- what is measured -----------------------------------------------------------------------------------------

MEASURES = (
    "margin", "normalised_margin", "ratio", "relative", "cross_entropy", "loss", "flatness",
    "power", "power_median", "power_least", "agreement", "kept", "trivial",
    "share_difference", "unused", "efficiency", "gap",
    "neurons", "shares", "function", "limit_shares", "limit_function", "rank_correlation",
)  # fmt: skip


def alive(network: Network) -> PairArrays | None:
    """The trained weights; None where training diverged, or left nothing."""
    arrays = final_arrays(network)
    return arrays if isinstance(arrays, PairArrays) and np.any(arrays.neurons) else None


def network_row(plan: Plan, network: Network) -> dict[str, Any]:
    """The numbers of one network (`MEASURES`, nan where it diverged) and the conditions of the certificate that fail.

    `highest` is the largest normalised margin over γ* at any step, `rise` what it gained from half of the steps on.
    """
    arrays = alive(network)
    measures: dict[str, Any] = dict.fromkeys(MEASURES, math.nan) | {"failing": "no network"}
    if arrays is not None:
        measures |= network_measures(plan, arrays)
    curve = network.curve["normalised_margin"] / plan.best.value
    over_time = {
        "highest": highest_margin(network, measures["ratio"], plan.best.value),
        "rise": float(curve[-1] - curve[len(curve) // 2]),
    }
    return {"group": plan.name, "seed": network.seed} | measures | over_time


def irrep_rows(plan: Plan, network: PairArrays | None) -> list[dict[str, Any]]:
    """Per irrep, the trivial one first: neurons, and the shares of Σ‖ω_i‖³ here, at the optimum and for λ → 0.

    A network that diverged has no neurons, and nan for its shares.
    """
    characters = characters_of(plan.group)
    spectrum = None if network is None else network_spectrum(network, plan.group)
    counts = {} if spectrum is None else spectrum.counts()
    shares = dict.fromkeys(characters.irrep_names, math.nan) if spectrum is None else spectrum.shares()
    return [
        {
            "irrep": name,
            "dimension": round(dimension),
            "neurons": int(counts.get(name, 0)),
            "share": float(shares.get(name, 0.0)),
            "optimum": float(plan.optimum.shares.get(name, 0.0)),
            "limit": float(plan.best.irrep_shares.get(name, 0.0)),
        }
        for name, dimension in zip(characters.irrep_names, characters.dimensions.tolist(), strict=True)
    ]


def network_measures(plan: Plan, network: PairArrays) -> dict[str, Any]:
    """The numbers of one network at the end, and the conditions of the certificate that fail."""
    group, optimum, rows = plan.group, plan.optimum, irrep_rows(plan, network)
    proof, features = certify(network, group), feature_measures(network, group, network_spectrum(network, group))
    near, limit = margin_distance(network, group, plan.lam), margin_distance(network, group)
    least = optimum.cross_entropy + optimum.lam * optimum.rho
    return features | {
        "normalised_margin": proof.lower,
        "ratio": proof.lower / plan.best.value,
        "relative": proof.lower / optimum.normalised_margin,
        "loss": (features["cross_entropy"] + plan.lam * norm(network) ** 3) / least,
        "trivial": float(rows[0]["neurons"]),
        "share_difference": max(abs(row["share"] - row["optimum"]) for row in rows),
        "unused": sum(row["share"] for row in rows if row["irrep"] in left_out(plan)),
        "efficiency": proof.expected / proof.upper,
        "gap": proof.gap / proof.upper,
        "neurons": near.neurons,
        "shares": near.shares,
        "function": near.function,
        "limit_shares": limit.shares,
        "limit_function": limit.function,
        "rank_correlation": rank_correlation(rows),
        "failing": "; ".join(map(str, proof.failing)),
    }


def rank_correlation(rows: list[dict[str, Any]]) -> float:
    """Kendall's τ_b of neurons and dimension over the non-trivial irreps."""
    counts, dimensions = ([row[name] for row in rows[1:]] for name in ("neurons", "dimension"))
    return float(scipy.stats.kendalltau(counts, dimensions).statistic)


def power_row(plan: Plan, network: Network) -> dict[str, Any]:
    """The largest normalised power of u, v and w: of all neurons before training, and of the kept ones after."""
    before, after = initial_arrays(network), alive(network)
    assert isinstance(before, PairArrays)
    spectrum = None if after is None else network_spectrum(after, plan.group)
    return {
        "group": plan.name,
        "seed": network.seed,
        "before": network_spectrum(before, plan.group).largest.ravel(),
        "after": np.zeros(0) if spectrum is None else spectrum.largest[:, spectrum.kept].ravel(),
    }


# --- what is claimed ------------------------------------------------------------------------------------------


def say_approach(claim: MedianClaims, theory: dict[str, Any], criteria: Criteria) -> None:
    """How near the margin comes to what it can be, where all irreps are used."""
    lam, ratio, best = theory["lam"], theory["ratio"], f"γ* = {theory['max_margin']:.5g}"
    value = f"approaches γ*; {ratio:.4g} γ* at the exact optimum for λ = {lam:g}"
    if criteria.ratio is None:
        claim(
            "margin",
            f"the normalised margin comes near that of the exact optimum at λ = {lam:g}, {ratio:.4g} of {best}.",
            "relative",
            "normalised margin over the optimum's",
            at_least=MARGIN,
            source_value=value,
        )
        return
    claim(
        "margin",
        f"the normalised margin approaches {best} and stays below, as the exact optimum at λ = {lam:g} does.",
        "ratio",
        "normalised margin over γ*",
        between=criteria.ratio,
        source_value=value,
    )
    if criteria.cross_entropy is not None:
        claim(
            "cross-entropy",
            f"the cross-entropy comes near the exact optimum's, {number(theory['cross_entropy'])}.",
            "cross_entropy",
            "mean cross-entropy over all pairs",
            at_most=criteria.cross_entropy,
        )


def say_subset(claim: MedianClaims, theory: dict[str, Any]) -> None:
    """Where the condition of Theorem 7.9 fails, maximum-margin networks leave irreps out (section D.9.2).

    Those that come close to the optimal ones fade slowly, and the margin with them: it is asked to rise.
    """
    if theory["left_out"]:
        claim(
            "unused-irreps",
            f"the irreps that maximum-margin networks leave out ({_shortened(theory['left_out'])}) are suppressed.",
            "unused",
            "their share of Σ‖ω_i‖³",
            at_most=UNUSED,
            source_value="0 at the maximum margin",
        )
    claim(
        "margin-rises",
        f"the normalised margin rises to the end, to {typical(claim.table['relative'])} of the exact optimum's at "
        f"λ = {theory['lam']:g}.",
        "rise",
        "rise of normalised margin over γ* from half of the steps to all",
        above=0.0,
        source_value="tends to γ* as λ → 0",
    )


def say_irreps(claim: MedianClaims, theory: dict[str, Any], criteria: Criteria) -> None:
    """Which irreps neurons lie in, and with which shares."""
    column, statistic, bound = "shares", "total variation between the shares and the optimum's", SHARES
    if criteria.share_difference is not None:
        column, bound = "share_difference", criteria.share_difference
        statistic = "largest difference between an irrep's share and the optimum's"
    claim(
        "shares",
        "the irreps have the shares of Σ‖ω_i‖³ that the exact optimum gives them.",
        column,
        statistic,
        at_most=bound,
        source_value=f"{_shortened(theory['shares'])} at the exact optimum for λ = {theory['lam']:g}",
    )
    one = "1: every neuron lies in one irrep"
    if criteria.median_power is not None:
        claim(
            "one-irrep-median",
            "u, v and w of a typical neuron lie in one irrep.",
            "power_median",
            "median largest normalised power over kept neurons and u, v, w",
            at_least=criteria.median_power,
            source_value=one,
        )
    claim(
        "one-irrep",
        "u, v and w of a neuron lie in one irrep.",
        "power",
        "least of u, v and w of the largest normalised power, weighted by ‖ω_i‖³",
        at_least=POWER,
        source_value=one,
    )
    if criteria.trivial:
        claim(
            "no-trivial",
            "no neuron lies in the trivial irrep.",
            "trivial",
            "kept neurons in the trivial irrep",
            at_most=0.0,
            source_value="none",
        )
    if criteria.ratio is not None:
        claim(
            "larger-irreps",
            "irreps of larger dimension have more neurons.",
            "rank_correlation",
            "rank correlation (Kendall's τ_b) of neurons and dimension over the non-trivial irreps",
            above=0.0,
            source_value="higher-dimensional irreps have more neurons (no number)",
        )


def say_optimum(claim: MedianClaims, theory: dict[str, Any]) -> None:
    """Whether gradient descent finds the exact optimum at λ, by loss, neurons and function."""
    failing = sorted(
        {text.split(" fails")[0] for line in claim.table["failing"] for text in line.split("; ") if " fails" in text}
    )
    apart = f"; what keeps the certificate open is {' and '.join(failing)}" if failing else ""
    claim(
        "loss",
        "gradient descent finds the global minimum of cross-entropy + λ Σ‖ω_i‖³.",
        "loss",
        "loss over its exact minimum",
        at_most=LOSS,
        source_value="1 at the optimum",
    )
    claim(
        "optimal-neurons",
        f"neurons are optimal ones, of which maximum-margin networks consist{apart}.",
        "efficiency",
        "class-weighted margin E[g'(θ/‖θ‖)] over its upper bound γ*",
        at_least=EFFICIENCY,
        source_value="1 (Lemma 7.6)",
    )
    claim(
        "function",
        f"the logits are those of the exact optimum at λ = {theory['lam']:g}, up to scale.",
        "function",
        "1 − cosine between the logits, less their mean over labels, and the optimum's",
        at_most=FUNCTION,
        source_value="0 at the optimum",
    )


def _shortened(text: str, longest: int = 120) -> str:
    return text if len(text) <= longest else text[: longest - 1].rsplit(",", 1)[0] + ", …"


# --- how it looks ---------------------------------------------------------------------------------------------

NAMED = 24
"""Up to so many irreps or classes are named on an axis."""
LEAST = 1e-9
UNBIASED = 0.999
"""From here on, the optimum at λ and the maximum margin are one line."""
DISTANCES = {
    "gap": "certificate: 1 − margin/γ*",
    "inefficiency": "neurons: 1 − E[g']/γ*",
    "excess": "loss: loss/minimum − 1",
    "neurons": "neurons: distance from optimal ones",
    "shares": "shares: total variation from the optimum at λ",
    "function": "function: 1 − cosine with the optimum at λ",
    "limit_shares": "shares: from the maximum margin's",
    "limit_function": "function: from the maximum margin's",
}


def _file_name(kind: str, theory: dict[str, Any]) -> str:
    """A figure's name: the kind, and the group in letters that a file may have."""
    return f"{kind}-{re.sub('[^A-Za-z0-9]+', '-', theory['group']).strip('-')}"


def _margins(theory: dict[str, Any], trials: pl.DataFrame) -> Figure:
    """(a): normalised margin against steps, with γ* and the exact optimum; below, how far neurons are in one irrep."""
    name, best = theory["group"], theory["max_margin"]
    chart = Chart(
        _file_name("margin", theory),
        f"{name}: the margin grows towards its maximum, and neurons enter one irrep each",
        source=criteria_of(theory).source,
        width=6.6,
        height=5.6,
        rows=2,
        sharex=True,
    )
    above = chart.panel(y="normalised margin", ylim=(-0.15 * best, 1.15 * best))
    below = chart.panel(x="steps", y="power of u in one irrep", ylim=(0, 1.05), log="x")
    # Without step 0, which a logarithmic axis cannot show.
    curves = curve_table(trials, [], ["normalised_margin", "irrep_power_u"]).filter(pl.col("step") > 0)
    for place, own in enumerate(groups(curves, "seed").values()):
        look: dict[str, Any] = {"color": figures.BLUE, "style": "-", "key": "legend", "alpha": 0.7}
        above.line(own["step"], own["normalised_margin"], "" if place else "a network", **look)
        below.line(own["step"], own["irrep_power_u"], **look)
    above.reference(best, f"γ* = {best:.4g}")
    if theory["ratio"] < UNBIASED:
        label = f"exact optimum at λ = {theory['lam']:g}: {theory['ratio']:.3f} γ*"
        above.ax.axhline(theory["ratio"] * best, label=label, color=figures.VERMILLION, linewidth=1.2, linestyle=":")
        above.legend(loc="lower left", bbox_to_anchor=(0.0, 1.0), ncols=2)  # curves may rise anywhere
    return chart.figure(
        f"{name}, {len(trials)} seeds: {theory['training']}. Above: the least margin over all {theory['order'] ** 2:,} "
        f"pairs over ‖θ‖³_(2,3); dashed the maximum γ* ({theory['theorem']}), dotted what the exact optimum at this λ "
        "has. Below: the share of u's power in its largest irrep, averaged over neurons with the weights "
        f"‖ω_i‖³.{_remark(theory)}",
        curves,
    )


def _irreps(theory: dict[str, Any], table: pl.DataFrame, powers: pl.DataFrame) -> Figure:
    """(b), (c), (d): neurons and shares per irrep beside the exact optimum's, and powers before and after."""
    name = theory["group"]
    chart = Chart(
        _file_name("irreps", theory),
        f"{name}: each neuron in one irrep, with the shares of the exact optimum",
        source=criteria_of(theory).source,
        width=10.5,
        height=3.8,
        columns=3,
    )
    counts = chart.panel(title="neurons per irrep", y="neurons")
    shares = chart.panel(title="shares per irrep", y="share of Σ‖ω_i‖³")
    drawn = chart.panel(title="power in one irrep", x="largest normalised power of u, v, w", y="share of neurons")
    irreps = groups(table.drop_nans("share"), "irrep")
    if irreps:
        first = table.head(len(irreps))
        for panel, column in ((counts, "neurons"), (shares, "share")):
            _bars(panel.ax, [own[column].to_numpy() for own in irreps.values()])
            _name_places(panel.ax, list(irreps))
            dimensions = ", ".join(map(str, first["dimension"].unique().sort()))
            panel.axes(x=f"irrep (dimensions {dimensions}; the trivial one first)")
        for column, marker, size, color, label in (
            ("optimum", "D", 6, figures.VERMILLION, f"exact optimum at λ = {theory['lam']:g}"),
            ("limit", "_", 14, figures.INK, "maximum margin (λ → 0)"),
        ):
            shares.ax.plot(np.arange(len(irreps)), first[column], marker, color=color, markersize=size, label=label)
        shares.ax.margins(y=0.3)  # room for the legend
        shares.legend(loc="upper left")
    before, after = (np.concatenate([np.zeros(0), *powers[when].to_list()]) for when in ("before", "after"))
    bins = np.linspace(0, 1, 41)
    for values, color, label in ((before, figures.MUTED, "before training"), (after, figures.BLUE, "after")):
        if len(values):
            heights = np.histogram(values, bins)[0] / len(values)
            drawn.ax.stairs(heights, bins, fill=True, color=color, alpha=0.6, label=label)
    drawn.legend(loc="upper left")
    return chart.figure(
        f"{name}, {theory['training']}, {len(powers)} seeds. Bars are means over seeds, whiskers from the least to the "
        "largest. A neuron counts for the irrep with most of the power of u, v and w; counted are neurons above a "
        "tenth of the largest norm. Theory predicts shares, not numbers of neurons. Right: largest normalised power of "
        "all vectors before training, and of counted neurons after (least "
        f"{f'{after.min():.3f}' if len(after) else 'unknown'}).{_remark(theory)}",
        table,
    )


def _prediction(theory: dict[str, Any], classes: pl.DataFrame) -> Figure:
    """What theory says beforehand: the condition of Theorem 7.9 per class, and the weights that prove γ*."""
    name = theory["group"]
    fate = "by linear program, the condition fails" if theory["positive"] else "the condition holds in every class"
    chart = Chart(
        _file_name("prediction", theory),
        f"{name}: γ* = {theory['max_margin']:.5g}, {fate}",
        source="dissertation, Theorem 7.9 and section D.9.2",
        width=8.4,
        height=3.6,
        columns=2,
    )
    places = np.arange(len(classes))
    colors = [figures.VERMILLION if value > 0 else figures.BLUE for value in classes["condition"]]
    for title, y, column, color in (
        ("condition of Theorem 7.9: negative", "Σ D^1.5 χ(C)/e", "condition", colors),
        ("weights of wrong labels that prove γ*", "weight P_C", "weight", figures.BLUE),
    ):
        panel = chart.panel(title=title, x="conjugacy class (with its inverses)", y=y)
        panel.ax.bar(places, classes[column], color=color, width=0.6)
        _name_places(panel.ax, classes["class"].to_list())
    chart[0].ax.axhline(0, color=figures.INK, linewidth=0.8)
    others, positive = _shortened(theory["other_kinds"], 100), _shortened(theory["positive"], 100)
    return chart.figure(
        f"{name} of order {theory['order']}: γ* by {theory['theorem']}. The theorem needs a negative sum over the "
        f"non-trivial irreps in every class but the identity's{positive and f'; it is positive for {positive}'}. "
        f"{f'Not of real type: {others}.' if others else 'All irreps are of real type.'} {theory['width']:,} neurons "
        f"suffice; the zero network is optimal from λ = {number(theory['threshold'])} on. At λ = {theory['lam']:g} the "
        f"exact optimum has the normalised margin {theory['ratio']:.4g} γ*, margin {number(theory['margin'])} and "
        f"cross-entropy {number(theory['cross_entropy'])}.",
        classes.drop("group"),
    )


def _distances(networks: pl.DataFrame) -> Figure:
    """Every network's distance from the optimal ones, by all measures, on one axis."""
    only = f"{networks['group'][0]}: how" if networks["group"].n_unique() == 1 else "How"
    title = f"{only} far trained networks are from optimal ones"
    chart = Chart("distance", title, source="dissertation, section 7.3 and Theorem 7.9", width=7.6, height=4.4)
    networks = networks.with_columns(inefficiency=1 - pl.col("efficiency"), excess=pl.col("loss") - 1)
    panel, by_group = chart.panel(x="0 for an optimal network", log="x"), groups(networks, "group")
    failing = []
    for place, (name, runs) in enumerate(by_group.items()):
        shift = 0.5 * ((place + 0.5) / len(by_group) - 0.5)
        values = np.maximum(runs.select(list(DISTANCES)).drop_nans().to_numpy(), LEAST)
        rows = np.broadcast_to(np.arange(len(DISTANCES)) + shift, values.shape)
        panel.dots(values.ravel(), rows.ravel(), name if len(by_group) > 1 else "", markersize=5)
        failing.append(f"{name}: {certificate_in_words(runs['failing'][0])}.")
    panel.name_rows(list(DISTANCES.values()))
    if len(by_group) > 1:
        panel.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0))  # beside the dots, which its own look like
    return chart.figure(
        "A dot per network. The certificate's gap is what its normalised margin lacks of γ*; E[g'] is its "
        "class-weighted margin, which reaches γ* exactly if all neurons are optimal, whatever their shares. "
        "Distances are over permutations, scales, splitting of neurons and all vectors that theory leaves open; at "
        "finite λ the optimum's shares are not those of the maximum margin. What is below "
        f"{LEAST:g} is drawn there. {' '.join(failing)}",
        networks,
    )


OPEN = {
    "Eq 7.1": "{} off the margin (Eq 7.1)",
    "C.1": "{} of weight below the largest wrong logit (C.1)",
    "Eq 7.3": "a class-weighted margin below its bound (Eq 7.3)",
}
COUNTED = {"Eq 7.1": "input", "C.1": "wrong label"}
"""What keeps a certificate open, and what is counted there."""


def certificate_in_words(failing: str) -> str:
    """The conditions that fail in the network of seed 0, in words: "Eq 7.1 fails 3 times, at worst ..." and so on."""
    found = re.findall(r"(?:^|; )([^;]*?) fails ([0-9]+) times, at worst by (\S+) of the bound", failing)
    if not found:
        return failing or "the certificate is closed"
    parts = []
    for condition, times, worst in found:
        noun = COUNTED.get(condition, "")
        amount = f"{count(int(times))} {noun}{'s' if int(times) > 1 else ''}"
        short = f"by up to {number(100 * float(worst))}% of the bound"
        parts.append(f"{OPEN.get(condition, condition).format(amount)}, {short}")
    return f"the certificate of the first network stays open for {'; '.join(parts)}"


def _bars(ax: Any, values: Sequence[np.ndarray]) -> None:
    """Means with whiskers over the seeds' range."""
    low, means, high = (np.array([part(value) for value in values]) for part in (np.min, np.mean, np.max))
    spread = np.maximum([means - low, high - means], 0.0)  # a mean may exceed the largest by rounding
    whiskers: dict[str, Any] = {"yerr": spread, "error_kw": {"ecolor": figures.INK, "capsize": 2}}
    ax.bar(np.arange(len(values)), means, color=figures.BLUE, width=0.6, alpha=0.8, **whiskers)


def _name_places(ax: Any, names: list[str]) -> None:
    """Names along the axis where there is room for them, else every so many."""
    stride = -(-len(names) // NAMED)
    shown = list(range(0, len(names), stride))
    crowded = len(shown) > 6 or any(len(names[place]) > 6 for place in shown)
    ax.set_xticks(
        shown, [names[place] for place in shown], rotation=90 if crowded else 0, fontsize=8 if crowded else 9.5
    )


def _remark(theory: dict[str, Any]) -> str:
    return f" {theory['remark'][0].upper()}{theory['remark'][1:]}." if theory["remark"] else ""
