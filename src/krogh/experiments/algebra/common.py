"""What the experiments of this source share: trials that add modulo p, measures of their networks, claims, figures.

All networks are trained by gradient descent on cross-entropy plus λ Σ_i ‖ω_i‖^ν over the whole table, with a rate that
is doubled at stated steps (`MarginPreset`); their weights are kept, and measured in float64, before and after:

    features    largest normalised power of u, v and w, the dominant frequencies, their shares of Σ‖ω_i‖^ν
    margin      normalised margin over γ*, and the certificate's gap γ* - margin with its two parts
    distance    from the family of maximum-margin networks: neurons, shares, function (`theory.features.distance`)

The gap is (V - E[g']) + (E[g'] - h), both divided by ‖θ‖^ν: neurons that are not optimal (Eq 7.3), and inputs or labels
off the margin (Eq 7.1, C.1). For ReLU neurons no maximum margin is known: the margin and the gap are left out, and the
distance says how far their weights and their function are from those of quadratic networks of maximum margin.

Criteria of distances follow from the reference's of features and margins, and were set before anything was measured:

    a vector with the share P of its power in a cosine has the cosine √P with it, so that P ≥ 0.99 and 0.85 are
    distances (2(1 - √P))^½ ≤ 0.1 and 0.4;  shares within 20% of the optimum's differ by ½·0.2 in total variation;
    a margin of 0.95 γ* leaves a gap of 0.05, and the same is asked of the function's cosine
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import ArrayLike, NDArray

from krogh.engine import Trial
from krogh.errors import require
from krogh.lab import Chart, Claims, Figure, Network, figures, groups, need
from krogh.lab.charts import Panel
from krogh.lab.estimate import exact, largest, median, unknown_estimate
from krogh.models.pair_network import PairNetwork
from krogh.probes.margins import Margin
from krogh.probes.spectra import FourierPower
from krogh.tasks.composition import GroupComposition
from krogh.theory.features.distance import function_distance, margin_distance
from krogh.theory.features.nearest_neurons import nearest_in_irreps
from krogh.theory.features.parts import Spectrum, network_spectrum
from krogh.theory.features.spectra import norm_balance, norm_weights, weighted_mean
from krogh.theory.margins import (
    PairArrays,
    arrays_of,
    certify,
    cross_entropy,
    dataset_margin,
    logit_flatness,
    max_margin_cyclic,
    normalised_margin,
    offset_maximum,
    phase_residuals,
)
from krogh.theory.margins.networks import Network as Arrays
from krogh.theory.margins.problems import characters_of, group_of
from krogh.theory.representations import irrep_powers, real_irreps
from krogh.training.presets import MarginPreset

FEWEST = 6  # seeds from which on the range of all is a 95% interval of the median, whatever the law
TOLERANCE = 1e-4  # by which float32 may exceed an exact maximum
THEOREM = "dissertation, Theorem 7.7"
NEURONS, SHARES, FUNCTION, GAP = 0.1, 0.1, 0.05, 0.05
EVEN = 0.2  # a frequency's share is as it should be within this factor of the share in a maximum-margin network


# --- what is trained ------------------------------------------------------------------------------------------


def addition_trial(
    p: int,
    model: PairNetwork,
    *,
    steps: int,
    rate: float,
    weight: float,
    doubled_every: int,
    doublings: int,
    probe_every: int,
) -> Trial:
    """Addition modulo p from its whole table, at a rate doubled `doublings` times, once every `doubled_every` steps."""
    doubled_at = tuple(doubled_every * (number + 1) for number in range(doublings))
    preset = MarginPreset(f"Z_{p}", model.width, steps, rate, doubled_at, weight, activation=model.activation)
    training = preset.training(probe_every)
    return Trial(GroupComposition(preset.task), model, training, probes=(Margin(), FourierPower()))


def check_modulus(p: int, weight: float) -> None:
    """Refuse an even p, which has a frequency that is its own conjugate, and a λ that leaves nothing but zero."""
    require(p % 2 == 1, f"Theorem 7.7 is about odd p; got p={p} (try p={p - 1} or {p + 1})")
    zero = max_margin_cyclic(p).value * (p - 1) / p
    require(
        weight < zero,
        f"weight must be below γ*(p-1)/p = {zero:.4g}, from which on the zero network is optimal for p={p}; got "
        f"weight={weight!r}",
    )


# --- what is measured -----------------------------------------------------------------------------------------

MEASURES = (
    "margin", "normalised_margin", "ratio", "cross_entropy", "flatness",
    "power", "power_median", "power_least", "agreement", "kept", "fewest", "present",
    "even_shares",
    "phase", "balance", "neurons", "worst_neuron", "shares", "function",
    "gap", "gap_of_neurons", "gap_of_logits",
)  # fmt: skip


def initial_arrays(network: Network) -> Arrays:
    """The weights before training, in float64."""
    return arrays_of(network.trial.model, network.initial)


def final_arrays(network: Network) -> Arrays | None:
    """The weights after training, in float64; None where it diverged."""
    return None if network.final is None else arrays_of(network.trial.model, network.final)


def highest_margin(network: Network, ratio: float, gamma: float) -> float:
    """The largest normalised margin over γ* at any step, and in float64 at the end (`ratio`)."""
    known = np.append(network.curve["normalised_margin"] / gamma, ratio)
    return float(np.max(known[np.isfinite(known)], initial=-math.inf))


def measured_networks(
    networks: Iterable[Network],
    labels: Sequence[str],
    measures: Callable[[Arrays | None], dict[str, float]],
    gamma: float,
) -> list[dict[str, Any]]:
    """Two rows per network, before training and after (`when` is "start" or "end"): labels, seed, measures.

    `highest` is the largest normalised margin over γ* up to then; nan where no γ* is known for the network.
    """
    rows = []
    for network in networks:
        head = {name: network.row[name] for name in (*labels, "seed")}
        start, end = measures(initial_arrays(network)), measures(final_arrays(network))
        known = math.isfinite(start["ratio"])
        highest = highest_margin(network, end["ratio"], gamma) if known else math.nan
        rows.append(head | {"when": "start"} | start | {"highest": start["ratio"]})
        rows.append(head | {"when": "end"} | end | {"highest": highest})
    return rows


def measured_additions(networks: Iterable[Network], labels: Sequence[str], p: int) -> list[dict[str, Any]]:
    """The same of networks that add modulo p."""
    return measured_networks(networks, labels, lambda arrays: addition_measures(arrays, p), max_margin_cyclic(p).value)


def addition_measures(network: Arrays | None, p: int) -> dict[str, float]:
    """Everything about a network that adds modulo p, by name (`MEASURES`); nan where it diverged or nothing is known.

    `fewest` is the least number of kept neurons that a frequency has: with few, its terms u²w and v²w cannot cancel.
    """
    found = dict.fromkeys(MEASURES, math.nan)
    if network is None or not np.any(network.neurons):
        return found
    assert isinstance(network, PairArrays)
    spectrum = network_spectrum(network, p)
    kept = spectrum.kept
    powers = spectrum.largest[:, kept]
    counts = np.array(list(spectrum.counts().values()))
    known = network.activation == "quadratic"
    return found | {
        "margin": dataset_margin(network, p),
        "normalised_margin": normalised_margin(network, p),
        "cross_entropy": cross_entropy(network, p),
        "flatness": logit_flatness(network, p),
        "power": float(spectrum.mean_largest.min()),
        "power_median": float(np.median(powers)),
        "power_least": float(powers.min()),
        "agreement": spectrum.agreement,
        "kept": float(kept.sum()),
        "fewest": float(counts.min()),
        "present": float(np.mean(counts > 0)),
        "even_shares": float(np.mean(np.abs(relative_shares(spectrum, p) - 1) <= EVEN)),
        "phase": float(np.max(np.abs(phase_residuals(network, p)[kept]))),
        "balance": float(np.max(np.abs(norm_balance(network)[kept] - 1))),
        **(margin_measures(network, p) if known else relu_distance(network, p)),
    }


def margin_measures(network: Arrays, problem: Any) -> dict[str, float]:
    """The certificate of a network's margin, and its distance from the maximum-margin family."""
    proof, distance = certify(network, problem), margin_distance(network, problem)
    return {
        "ratio": proof.lower / proof.upper,
        "gap": proof.gap / proof.upper,
        "gap_of_neurons": (proof.upper - proof.expected) / proof.upper,
        "gap_of_logits": (proof.expected - proof.lower) / proof.upper,
        "neurons": distance.neurons,
        "worst_neuron": distance.worst,
        "shares": distance.shares,
        "function": distance.function,
    }


def relu_distance(network: PairArrays, p: int) -> dict[str, float]:
    """How far a ReLU network is from quadratic ones of maximum margin, by its weights and its function."""
    group = group_of(p)
    names = characters_of(group).irrep_names
    best = offset_maximum(group).best
    allowed = [number for number, name in enumerate(names) if name in best]
    nearest = nearest_in_irreps(network, real_irreps(group), allowed)
    weights, kept = norm_weights(network), network_spectrum(network, p).kept
    powers = irrep_powers(group, np.stack([network.U, network.V, network.W])).sum(axis=0)
    shares = np.bincount(np.argmax(powers, axis=1), weights, len(names))
    wanted = np.array([0.0, *max_margin_cyclic(p).irrep_shares.values()])
    return {
        "neurons": math.sqrt(float(weighted_mean(nearest.distance**2, weights))),
        "worst_neuron": float(np.max(nearest.distance[kept])),
        "shares": 0.5 * float(np.abs(shares - wanted).sum()),
        "function": function_distance(network, group, np.eye(p)),
    }


def relative_shares(spectrum: Spectrum, p: int) -> NDArray[np.float64]:
    """Each frequency's share of Σ‖ω_i‖^ν over its share in a maximum-margin network, [⌊p/2⌋]."""
    found = np.array(list(spectrum.shares().values()))
    return np.asarray(found / np.array(list(max_margin_cyclic(p).irrep_shares.values())))


# --- what is claimed ------------------------------------------------------------------------------------------


def say_median(
    say: Claims,
    name: str,
    statement: str,
    values: ArrayLike,
    statistic: str,
    *,
    source_value: str = "not given",
    fewest: int = FEWEST,
    **words: Any,
) -> None:
    """Claim something of the median over seeds; a network that diverged (nan) counts as the worst.

    It is decided from `fewest` seeds on: 1 where no seed can change the network, of which there is one then.
    """
    numbers = np.asarray(values, np.float64)
    numbers = np.where(np.isnan(numbers), math.inf if "at_most" in words else -math.inf, numbers)
    alone = fewest == 1
    say(
        name,
        statement,
        exact(numbers[0], 1) if alone else median(numbers),
        statistic if alone else f"median over seeds of {statistic}",
        needs=[need(len(numbers), fewest, "seeds")],
        source_value=source_value,
        **words,
    )


def say_bound(say: Claims, name: str, highest: ArrayLike, gamma: str, source: str | None = None) -> None:
    """The hard invariant: no normalised margin, of any network at any step, exceeds the maximum. One refutes it."""
    known = np.asarray(highest, np.float64)
    known = known[np.isfinite(known)]
    say(
        name,
        f"no network has a normalised margin above {gamma}, at any step.",
        largest(known) if len(known) else unknown_estimate("no margin was measured"),
        "largest normalised margin over γ*, all seeds and steps",
        at_most=1 + TOLERANCE,
        source_value="an upper bound",
        source=source,
    )


def say_distances(say: Claims, table: pl.DataFrame, **options: Any) -> None:
    """Is it what theory describes, whatever the frequencies, phases and signs? The distance from that family."""
    for column, statement, statistic, bound in (
        (
            "neurons",
            "neurons are near optimal ones.",
            "the root mean square distance of ω_i/‖ω_i‖ from the nearest optimal neuron, weighted by ‖ω_i‖^ν",
            NEURONS,
        ),
        (
            "shares",
            "what theory says to be equal has equal shares of Σ‖ω_i‖^ν.",
            "the total variation between the shares and the optimum's",
            SHARES,
        ),
        (
            "function",
            "the logits are those of a maximum-margin network, up to scale.",
            "1 − cosine between the logits, less their mean over labels, and the optimum's",
            FUNCTION,
        ),
    ):
        words = {"at_most": bound, "source_value": "0 at the maximum", **options}
        say_median(say, f"distance-{column}", statement, table[column], statistic, **words)


def typical(values: pl.Series) -> str:
    """The median of some numbers in words."""
    known = values.drop_nulls().drop_nans().to_numpy()
    return f"{np.median(known):.3g}" if len(known) else "an unknown number"


# --- how it looks ---------------------------------------------------------------------------------------------

LEAST = 1e-12  # what is nearer is drawn here: a logarithm needs a number
TICKS = 4  # decades with a label, in a narrow panel
PARTS = ("u", "v", "w")
DISTANCES = {
    "neurons": ("neurons", "r.m.s. distance from the\nnearest optimal neuron", NEURONS),
    "shares": ("shares", "total variation from\nthe optimum's shares", SHARES),
    "function": ("function", "1 − cosine with the\noptimum's logits", FUNCTION),
    "gap": ("certificate", "gap over γ*\n(1 − margin / maximum)", GAP),
}


def draw_rows(
    panels: Sequence[Panel],
    columns: Iterable[str],
    kinds: Mapping[str, pl.DataFrame],
    *,
    least: float = -math.inf,
    shift: float = 0.0,
    **look: Any,
) -> None:
    """A dot per network: a panel for each column, and in it a row for each kind, the first on top."""
    places = np.arange(len(kinds))[::-1]
    for panel, column in zip(panels, columns, strict=True):
        for place, table in zip(places, kinds.values(), strict=True):
            values = table[column].to_numpy()
            known = np.maximum(values[np.isfinite(values)], least)
            panel.ax.plot(known, np.full(len(known), place + shift), "o", **{"color": figures.BLUE, **look})
    panels[0].ax.set_yticks(places, list(kinds))
    panels[0].ax.set_ylim(-0.6, len(kinds) - 0.4)


def distance_figure(kinds: Mapping[str, pl.DataFrame], source: str, gap: float = GAP) -> Figure:
    """Distances of each kind of network from the family of maximum-margin networks, as `measured_networks` has them."""
    from matplotlib.ticker import LogLocator

    title = "Distance from the family of maximum-margin networks, before training and after"
    size: dict[str, Any] = {"width": 11.0, "height": 2.0 + 0.45 * len(kinds), "columns": len(DISTANCES), "sharey": True}
    chart = Chart("distance", title, source=source, **size)
    hollow = {"markerfacecolor": "white", "markeredgecolor": figures.MUTED, "markeredgewidth": 0.9}
    filled = {"markeredgecolor": "white", "markeredgewidth": 0.5}
    for when, shift, look in (("start", 0.14, hollow), ("end", -0.14, filled)):
        chosen = {kind: table.filter(when=when) for kind, table in kinds.items()}
        draw_rows(chart.panels, DISTANCES, chosen, least=LEAST, shift=shift, markersize=5, alpha=0.9, **look)
    for column, (title, words, bound) in DISTANCES.items():
        panel = chart.panel(title=title, log="x")
        panel.ax.set_xlabel(words, fontsize=9)
        panel.ax.xaxis.set_major_locator(LogLocator(numticks=TICKS))
        panel.reference(gap if column == "gap" else bound, "criterion", axis="x")
    return chart.figure(
        "Open: before training; filled: after; a dot per network. Neurons: root mean square distance of ω_i/‖ω_i‖ from "
        "the nearest optimal neuron, weighted by ‖ω_i‖^ν. Shares: of Σ‖ω_i‖^ν per frequency or sign pattern, total "
        "variation from the optimum's. Function: 1 − cosine between the logits, less their mean over labels, and those "
        "of a maximum-margin network. Certificate: gap of lower and upper bound over γ*, where γ* is known. Dashed: "
        "the claims' criterion. All are 0 for every maximum-margin network, whatever its frequencies, phases, signs, "
        "order and scale.",
        pl.concat(kinds.values(), how="diagonal"),
    )


def curve_table(trials: pl.DataFrame, labels: Sequence[str], columns: Sequence[str]) -> pl.DataFrame:
    """What probes measured, a row per network and step: labels, seed, step, columns.

    `power` among the columns is the mean of u, v and w of the largest normalised power.
    """
    read = [*(name for name in columns if name != "power")]
    read += [f"fourier_power_{part}" for part in PARTS] if "power" in columns else []
    names = [f"curve.{name}" for name in ("step", *read)]
    table = trials.select(*labels, "seed", *names).explode(names)
    table = table.rename({name: name.removeprefix("curve.") for name in names})
    table = table.with_columns(pl.col(read).cast(pl.Float64))
    if "power" in columns:
        table = table.with_columns(power=pl.mean_horizontal(f"fourier_power_{part}" for part in PARTS))
    return table.select(*labels, "seed", "step", *columns)


def draw_networks(panel: Panel, curves: pl.DataFrame, column: str, color: str, label: str = "", **look: Any) -> None:
    """A line per network (seed) of one kind, under one label."""
    look = {"color": color, "linewidth": 1, "alpha": 0.7, **look}
    for place, own in enumerate(groups(curves, "seed").values()):
        panel.ax.plot(own["step"], own[column], label=label if label and place == 0 else None, **look)


def compared_curves(
    name: str,
    title: str,
    kinds: Mapping[str, pl.DataFrame],
    *,
    caption: str,
    source: str,
    lines: Mapping[str, float] | None = None,
) -> Figure:
    """Margin over γ* (`ratio`, nan where none is known) and mean power of networks, by kind; `lines` mark levels."""
    chart = Chart(name, title, source=source, width=10.0, height=3.8, columns=2)
    margin = chart.panel(title="normalised $L_{2,3}$ margin / γ*", x="step", ylim=(-0.3, 1.12))
    power = chart.panel(title="largest normalised power, mean by $\\|\\omega_i\\|^\\nu$", x="step", ylim=(0, 1.03))
    for kind, curves in kinds.items():
        color = margin.color()
        draw_networks(margin, curves, "ratio", color, linewidth=1.1)
        draw_networks(power, curves, "power", color, kind, linewidth=1.1)
    for text, level in {"γ*": 1.0, **(lines or {})}.items():
        margin.reference(level, text)
    power.legend(loc="lower right")
    return chart.figure(caption, pl.concat(kinds.values()))
