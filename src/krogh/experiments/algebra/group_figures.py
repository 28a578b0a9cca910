"""How networks that compose a group look: margin and features over time, irreps, what theory says, distances."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np
import polars as pl

from krogh.experiments.algebra.cyclic_runs import TrainedNetwork
from krogh.experiments.algebra.group_claims import ANY_GROUP, CRITERIA
from krogh.experiments.algebra.group_measures import Measured
from krogh.experiments.algebra.group_plan import Plan
from krogh.lab import Figure, figures
from krogh.theory.margins import sign_condition

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


def file_name(kind: str, plan: Plan) -> str:
    """A figure's name: the kind, and the group in letters that a file may have."""
    return f"{kind}-{re.sub('[^A-Za-z0-9]+', '-', plan.name).strip('-')}"


def source_of(plan: Plan) -> str:
    return CRITERIA[plan.name].source if plan.preset and plan.name in CRITERIA else ANY_GROUP


def margin_figure(measured: Measured) -> Figure:
    """(a): normalised margin against steps, with γ* and the exact optimum; below, how far neurons are in one irrep."""
    plan = measured.plan
    fig, (above, below) = figures.new_figure(
        f"{plan.name}: the margin grows towards its maximum, and neurons enter one irrep each",
        width=6.6,
        height=5.6,
        nrows=2,
        sharex=True,
    )
    tables = []
    for color, network in zip(_shades(len(measured.networks)), measured.networks, strict=True):
        steps, margin, power = (_later(network, name) for name in ("step", "normalised_margin", "irrep_power_u"))
        above.plot(steps, margin, color=color, linewidth=1.2)
        below.plot(steps, power, color=color, linewidth=1.2)
        tables.append(
            pl.DataFrame({"seed": network.seed, "step": steps, "normalised_margin": margin, "irrep_power_u": power})
        )
    best, optimum = plan.best.value, plan.optimum
    figures.source_line(above, best, f"γ* = {best:.4g}")
    if optimum.ratio < UNBIASED:
        label = f"exact optimum at λ = {plan.lam:g}: {optimum.ratio:.3f} γ*"
        above.axhline(optimum.normalised_margin, color=figures.VERMILLION, linewidth=1.2, linestyle=":", label=label)
        figures.legend(above, loc="lower right")
    above.set_ylim(-0.15 * best, 1.15 * best)
    above.set_ylabel("normalised margin")
    below.set_ylabel("power of u in one irrep")
    below.set_ylim(0, 1.05)
    figures.log_axis_labels(below, "x")
    below.set_xlabel("steps")
    figures.source_note(fig, source_of(plan))
    caption = (
        f"{plan.name}, {len(measured.networks)} seeds: {plan.in_words()}. Above: the least margin over all "
        f"{plan.group.order**2:,} pairs over ‖θ‖³_(2,3); dashed the maximum γ* ({plan.best.theorem}), dotted what the "
        f"exact optimum at this λ has. Below: the share of u's power in its largest irrep, averaged over neurons with "
        f"the weights ‖ω_i‖³.{_remarks(plan)}"
    )
    return Figure(file_name("margin", plan), f"Normalised margin of {plan.name}", caption, fig, pl.concat(tables))


def irrep_figure(measured: Measured) -> Figure:
    """(b), (c), (d): neurons and shares per irrep beside the exact optimum's, and powers before and after."""
    plan, table = measured.plan, measured.irreps
    fig, (counts, shares, powers) = figures.new_figure(
        f"{plan.name}: each neuron in one irrep, with the shares of the exact optimum", width=10.5, height=3.8, ncols=3
    )
    names = list(dict.fromkeys(table["irrep"])) if len(table) else []
    places = np.arange(len(names))
    if names:
        found = {name: table.filter(irrep=name) for name in names}
        _bars(counts, places, [found[name]["neurons"].to_numpy() for name in names], figures.BLUE)
        _bars(shares, places, [found[name]["share"].to_numpy() for name in names], figures.BLUE)
        for column, marker, color, label in (
            ("optimum", "D", figures.VERMILLION, f"exact optimum at λ = {plan.lam:g}"),
            ("limit", "_", figures.INK, "maximum margin (λ → 0)"),
        ):
            values = [float(found[name][column][0]) for name in names]
            shares.plot(places, values, marker, color=color, markersize=6 if marker == "D" else 14, label=label)
        shares.margins(y=0.3)  # room for the legend
        figures.legend(shares, loc="upper left")
        for ax in (counts, shares):
            _name_places(ax, names, [int(found[name]["dimension"][0]) for name in names])
    counts.set_ylabel("neurons")
    figures.panel_title(counts, "neurons per irrep")
    shares.set_ylabel("share of Σ‖ω_i‖³")
    figures.panel_title(shares, "shares per irrep")
    bins = np.linspace(0, 1, 41)
    for drawn, color, label in (
        (measured.before, figures.MUTED, "before training"),
        (measured.after, figures.BLUE, "after"),
    ):
        if len(drawn):
            heights = np.histogram(drawn, bins)[0] / len(drawn)
            powers.stairs(heights, bins, fill=True, color=color, alpha=0.6, label=label)
    powers.set_xlabel("largest normalised power of u, v, w")
    powers.set_ylabel("share of neurons")
    figures.panel_title(powers, "power in one irrep")
    figures.legend(powers, loc="upper left")
    figures.source_note(fig, source_of(plan))
    least = f"{measured.after.min():.3f}" if len(measured.after) else "unknown"
    caption = (
        f"{plan.name}, {plan.in_words()}, {len(measured.networks)} seeds. Bars are means over seeds, whiskers from the "
        "least to the largest. A neuron counts for the irrep with most of the power of u, v and w; counted are neurons "
        "above a tenth of the largest norm. Theory predicts shares, not numbers of neurons. Right: largest normalised "
        f"power of all vectors before training, and of counted neurons after (least {least}).{_remarks(plan)}"
    )
    data = table if len(table) else pl.DataFrame({"irrep": ["none"]})
    return Figure(file_name("irreps", plan), f"Irreps of networks that compose {plan.name}", caption, fig, data)


def prediction_figure(measured: Measured) -> Figure:
    """What theory says beforehand: the condition of Theorem 7.9 per class, and the weights that prove γ*."""
    plan, best = measured.plan, measured.plan.best
    condition = sign_condition(plan.group)
    names, values = list(best.conditions), np.array(list(best.conditions.values()))
    weights = np.array([best.class_weights[name] for name in names])
    applies = not condition.failing
    title = f"{plan.name}: γ* = {best.value:.5g}, " + (
        "the condition holds in every class" if applies else "by linear program, the condition fails"
    )
    fig, (left, right) = figures.new_figure(title, width=8.4, height=3.6, ncols=2)
    places = np.arange(len(names))
    left.bar(places, values, color=[figures.VERMILLION if value > 0 else figures.BLUE for value in values], width=0.6)
    left.axhline(0, color=figures.INK, linewidth=0.8)
    left.set_ylabel("Σ D^1.5 χ(C)/e")
    figures.panel_title(left, "condition of Theorem 7.9: negative")
    right.bar(places, weights, color=figures.BLUE, width=0.6)
    right.set_ylabel("weight P_C")
    figures.panel_title(right, "weights of wrong labels that prove γ*")
    for ax in (left, right):
        _name_places(ax, names)
        ax.set_xlabel("conjugacy class (with its inverses)")
    figures.source_note(fig, "dissertation, Theorem 7.9 and section D.9.2")
    others = _few(", ".join(f"{name} {kind}" for name, kind in condition.other_kinds.items()))
    positive = f"; it is positive for {_few(', '.join(condition.failing))}" if condition.failing else ""
    caption = (
        f"{plan.name} of order {plan.group.order}: γ* by {best.theorem}. The theorem needs a negative sum over the "
        f"non-trivial irreps in every class but the identity's{positive}. "
        f"{f'Not of real type: {others}.' if others else 'All irreps are of real type.'} {best.width:,} neurons "
        f"suffice; the zero network is optimal from λ = {plan.optimum.threshold:.4g} on. At λ = {plan.lam:g} the exact "
        f"optimum has the normalised margin {plan.optimum.ratio:.4g} γ*, margin {plan.optimum.margin:.4g} and "
        f"cross-entropy {plan.optimum.cross_entropy:.4g}."
    )
    data = pl.DataFrame({"class": names, "condition": values, "weight": weights})
    return Figure(file_name("prediction", plan), f"What theory says of {plan.name}", caption, fig, data)


def distance_figure(groups: Sequence[Measured]) -> Figure:
    """Every network's distance from the optimal ones, by all measures, on one axis."""
    fig, ax = figures.new_figure("How far trained networks are from optimal ones", width=7.6, height=4.4)
    tables = []
    for place, measured in enumerate(groups):
        color = figures.PALETTE[place % len(figures.PALETTE)]
        runs = measured.runs.with_columns(inefficiency=1 - pl.col("efficiency"), excess=pl.col("loss") - 1)
        tables.append(runs)
        shift = 0.5 * ((place + 0.5) / len(groups) - 0.5)
        for row, name in enumerate(DISTANCES):
            values = np.maximum(runs[name].drop_nans().to_numpy(), LEAST)
            label = measured.plan.name if row == 0 else None
            ax.plot(values, np.full(len(values), row + shift), "o", color=color, markersize=5, alpha=0.7, label=label)
    figures.log_axis_labels(ax, "x")
    ax.set_yticks(np.arange(len(DISTANCES)), list(DISTANCES.values()))
    ax.invert_yaxis()
    ax.set_xlabel("0 for an optimal network")
    figures.legend(ax)
    figures.source_note(fig, "dissertation, section 7.3 and Theorem 7.9")
    caption = (
        "A dot per network. The certificate's gap is what its normalised margin lacks of γ*; E[g'] is its "
        "class-weighted margin, which reaches γ* exactly if all neurons are optimal, whatever their shares. "
        "Distances are over permutations, scales, splitting of neurons and all vectors that theory leaves open; at "
        "finite λ the optimum's shares are not those of the maximum margin. What is below "
        f"{LEAST:g} is drawn there. {_failing(groups)}"
    )
    return Figure("distance", "Distance from optimal networks", caption, fig, pl.concat(tables, how="diagonal_relaxed"))


def _failing(groups: Sequence[Measured]) -> str:
    """The certificate's failing conditions of each group's first network."""
    said = []
    for measured in groups:
        text = str(measured.runs["failing"][0])
        said.append(f"{measured.plan.name}: {text}." if text else f"{measured.plan.name}: the certificate is closed.")
    return " ".join(said)


def _bars(ax: Any, places: np.ndarray, values: Sequence[np.ndarray], color: str) -> None:
    """Means with whiskers over the seeds' range."""
    low, means, high = (np.array([part(value) for value in values]) for part in (np.min, np.mean, np.max))
    spread = np.maximum([means - low, high - means], 0.0)  # a mean may exceed the largest by rounding
    ax.bar(
        places, means, color=color, width=0.6, alpha=0.8, yerr=spread, error_kw={"ecolor": figures.INK, "capsize": 2}
    )


def _name_places(ax: Any, names: list[str], dimensions: list[int] | None = None) -> None:
    """Names along the axis where there is room for them, else every so many."""
    stride = -(-len(names) // NAMED)
    shown = list(range(0, len(names), stride))
    crowded = len(shown) > 6 or any(len(names[place]) > 6 for place in shown)
    ax.set_xticks(
        shown, [names[place] for place in shown], rotation=90 if crowded else 0, fontsize=8 if crowded else 9.5
    )
    if dimensions is not None:
        ax.set_xlabel(f"irrep (dimensions {', '.join(map(str, sorted(set(dimensions))))}; the trivial one first)")


def _shades(count: int) -> list[str]:
    return [figures.PALETTE[place % len(figures.PALETTE)] for place in range(count)]


def _later(network: TrainedNetwork, name: str) -> np.ndarray:
    """A column of the curve without step 0, which a logarithmic axis cannot show."""
    return np.asarray(network.curve[name][1:])


def _remarks(plan: Plan) -> str:
    return "".join(f" {remark[0].upper()}{remark[1:]}." for remark in plan.remarks)


def _few(text: str) -> str:
    return text if len(text) <= 100 else text[:99].rsplit(",", 1)[0] + ", …"
