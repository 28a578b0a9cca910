"""Figures 7.1, 7.4 and D.1: what networks that add modulo p look like, and how large their margin is.

Quadratic neurons under the L_{2,3} norm are the subject of Theorem 7.7; ReLU neurons under L_2 are not, and come near.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from krogh.engine import Trials, sweep
from krogh.experiments.algebra.common import (
    EVEN,
    GAP,
    PARTS,
    THEOREM,
    Addition,
    MedianClaims,
    curve_table,
    distance_figure,
    draw_networks,
    final_arrays,
    initial_arrays,
    relative_shares,
    typical,
)
from krogh.lab import Chart, Claims, Experiment, Figure, Results, Tables, experiment, figures, groups, setting
from krogh.lab.charts import Panel
from krogh.lab.experiment import Measures
from krogh.models.two_layer import PairNetwork
from krogh.networks.groups.arrays import PairArrays
from krogh.probes.features.spectra import frequency_powers, interpolate, network_spectrum
from krogh.theory.groups.finite import FiniteLambda, finite_lambda

RELU_NEURONS = 0.4
COLORS = {"quadratic": figures.BLUE, "relu": figures.VERMILLION}
KINDS = {"quadratic": "quadratic", "relu": "ReLU"}
NAMES = {"quadratic": "quadratic, L_{2,3}", "relu": "ReLU, L_2"}
SHOWN = 3  # neurons of Figure 7.1
POINTS = 20  # of an interpolation, between two weights
BINS = np.linspace(0.0, 1.0, 41)


@dataclass(frozen=True)
class Settings:
    orders: tuple[int, ...] = setting(
        (71,), "moduli p, odd; widths, steps and doubled_every have an entry for each", distinct=True, least=3
    )
    widths: tuple[int, ...] = setting((500,), "neurons", like="orders", least=1)
    steps: tuple[int, ...] = setting((40_000,), "steps of gradient descent on all p² inputs", like="orders", least=1)
    doubled_every: tuple[int, ...] = setting((1000,), "steps between two doublings of the rate", like="orders", least=1)
    doublings: int = setting(10, "how often the rate is doubled", least=0)
    rate: float = setting(0.05, "learning rate at first", least=0)
    weight: float = setting(1e-4, "λ of the penalty λ Σ‖ω_i‖^ν (L_{2,3} for quadratic neurons, L_2 for ReLU)", above=0)
    activations: tuple[str, ...] = setting(("quadratic", "relu"), "quadratic, relu or both", distinct=True, among=KINDS)
    seeds: int = setting(12, "networks of each kind", least=1)
    probe_every: int = setting(100, "steps between two points of a curve", least=1)
    snapshots: int = setting(0, "steps at which weights are kept, for krogh replay", least=0)

    @property
    def additions(self) -> Iterator[Addition]:
        """The training of each modulus."""
        for p, width, steps, every in zip(self.orders, self.widths, self.steps, self.doubled_every, strict=True):
            yield Addition(p, width, steps, every, self.doublings, self.rate, self.weight, self.seeds, self.probe_every)


@experiment("algebra/cyclic")
class CyclicAddition(Experiment[Settings]):
    """Networks that learn addition modulo p: features, margin, and distance from the maximum-margin family."""

    title = "Networks that add modulo p become cosines of one frequency each, with the largest margin there is"
    question = "Does gradient descent with small weight decay find the networks of maximum margin, and their features?"
    source = "dissertation, Figures 7.1, 7.4 and D.1"
    scales = {
        "smoke": Settings(
            orders=(5,), widths=(40,), steps=(1200,), doubled_every=(100,), doublings=8, seeds=2, snapshots=13
        ),
        "laptop": Settings(
            orders=(11, 23), widths=(80, 160), steps=(10_000, 12_000), doubled_every=(250, 300), snapshots=51
        ),
        "paper": Settings(),
    }
    notes = (
        "The source states neither the initialisation nor the exponent r of its penalty λ‖θ‖^r: weights are uniform "
        "±1/√fan_in, and r = ν, with which its rates are stable.",
        "The source shows one run each; here medians over seeds decide. Features are judged on neurons with a norm "
        "above a tenth of the largest, or weighted by ‖ω_i‖^ν: small ones decay slowly and stay without structure.",
        "A frequency that is left with few neurons (column `fewest`; 8 suffice) cannot cancel its terms u²w and v²w: "
        "the gap of such a network is one of logits off the margin, and closes slowly if at all.",
        "Thresholds for distances follow from the criteria for features and margins: 1% of the power elsewhere is a "
        "distance of 0.1 from a cosine, shares within 20% are a total variation of 0.1, and a function as far as a "
        "margin of 0.95 γ* is a cosine of 0.95.",
    )
    keep_weights = True

    def check(self, settings: Settings) -> None:
        for addition in settings.additions:
            addition.check_modulus()

    def trials(self, settings: Settings) -> Iterator[Trials]:
        for addition, activation in itertools.product(settings.additions, settings.activations):
            trial = addition.trial(PairNetwork(addition.width, activation), settings.snapshots)
            yield from sweep(trial, seed=range(settings.seeds), label={"p": addition.p, "activation": activation})

    def measure(self, results: Results[Settings]) -> Measures:
        return {
            "networks": lambda: networks_of(results),
            "spectra": lambda: spectra_of(results),
            "embeddings": lambda: embeddings_of(results),
        }

    def claims(self, tables: Tables[Settings], say: Claims) -> None:
        settings, ended = tables.settings, tables["networks"].filter(when="end")
        for p, activation in itertools.product(settings.orders, settings.activations):
            part = say.about(f"Z_{p}-{activation}-", f"Z_{p}, {KINDS[activation]}: ")
            claim = MedianClaims(part, ended.filter(p=p, activation=activation))
            if activation == "quadratic":
                say_quadratic(claim, finite_lambda(p, settings.weight))
            else:
                say_relu(claim)

    def figures(self, tables: Tables[Settings]) -> Iterable[Figure]:
        settings = tables.settings
        # ReLU networks first, as in the source.
        kinds = sorted(settings.activations, reverse=True)
        for p in settings.orders:
            yield _embeddings(p, kinds, tables["embeddings"].filter(p=p))
            yield _powers(p, kinds, tables["spectra"].filter(p=p))
            yield _frequencies(p, kinds, tables["spectra"].filter(p=p, when="end"))
            yield _curves(p, tables["trials"].filter(p=p), finite_lambda(p, settings.weight))
        rows = groups(tables["networks"], ("p", "activation"))
        yield distance_figure({f"Z_{p}, {NAMES[kind]}": table for (p, kind), table in rows.items()}, THEOREM)


# --- what is measured -----------------------------------------------------------------------------------------


def networks_of(results: Results[Settings]) -> pl.DataFrame:
    """Features, margin and distance of every network, before training and after."""
    labels, additions = ("p", "activation"), results.settings.additions
    return pl.DataFrame([row for one in additions for row in one.measure(results.networks(p=one.p), labels)])


def spectra_of(results: Results[Settings]) -> pl.DataFrame:
    """Lists for every network, before training and after: the largest normalised powers of u, v and w of all neurons
    and of the kept ones; kept neurons and relative shares of the frequencies 1..⌊p/2⌋. None where training diverged."""
    rows = []
    for network in results.networks():
        head = {name: network.row[name] for name in ("p", "activation", "seed")}
        for when, arrays in (("start", initial_arrays(network)), ("end", final_arrays(network))):
            if not isinstance(arrays, PairArrays):
                continue
            spectrum = network_spectrum(arrays, head["p"])
            lists = {
                "every": spectrum.largest.ravel(),
                "kept": spectrum.largest[:, spectrum.kept].ravel(),
                "neurons": np.array(list(spectrum.counts().values())),
                "relative_share": relative_shares(spectrum, head["p"]),
            }
            rows.append(head | {"when": when} | {name: values.tolist() for name, values in lists.items()})
    return pl.DataFrame(rows)


def embeddings_of(results: Results[Settings]) -> pl.DataFrame:
    """Weights of three neurons of the first network of each kind whose training did not diverge."""
    columns = {"p": pl.Int64, "activation": pl.String, "neuron": pl.Int64, "a": pl.Int64}
    rows, settings = [], results.settings
    for p, activation in itertools.product(settings.orders, settings.activations):
        trained = map(final_arrays, results.networks(p=p, activation=activation))
        network = next((arrays for arrays in trained if isinstance(arrays, PairArrays)), None)
        if network is None:
            continue
        for neuron in chosen_neurons(network, p):
            weights = (part[neuron].tolist() for part in (network.U, network.V, network.W))
            rows += [(p, activation, neuron, *values) for values in zip(range(p), *weights, strict=True)]
    return pl.DataFrame(rows, schema={**columns, **dict.fromkeys(PARTS, pl.Float64)}, orient="row")


def chosen_neurons(network: PairArrays, p: int) -> list[int]:
    """Kept neurons with the least, the median and the largest normalised power of u."""
    spectrum = network_spectrum(network, p)
    kept = np.flatnonzero(spectrum.kept)
    ordered = kept[np.argsort(spectrum.largest[0, kept], kind="stable")]
    return [int(ordered[place]) for place in (0, (len(ordered) - 1) // 2, -1)]


# --- what is claimed ------------------------------------------------------------------------------------------


def say_quadratic(claim: MedianClaims, optimum: FiniteLambda) -> None:
    """Quadratic neurons under L_{2,3}: the subject of Theorem 7.7. Thresholds are the reference's criteria."""
    table = claim.table
    claim.bound(f"γ* = {optimum.max_margin:.5g}", THEOREM)
    claim.margin(
        "margin",
        "the normalised margin approaches the maximum.",
        at_least=0.95,
        source_value=f"approaches γ* = {optimum.max_margin:.4g}; 1 at the optimum for every λ",
    )
    claim(
        "logit-margin",
        f"the margin is that of the exact optimum at λ = {optimum.lam:g}, {optimum.margin:.4g}.",
        (table["margin"] / optimum.margin - 1).abs(),
        "|margin / optimum − 1|",
        at_most=0.06,
    )
    claim(
        "cross-entropy",
        f"the cross-entropy is that of the exact optimum at λ = {optimum.lam:g}, {optimum.cross_entropy:.4g}.",
        (table["cross_entropy"] / optimum.cross_entropy - 1).abs(),
        "|cross-entropy / optimum − 1|",
        at_most=0.02,
    )
    claim(
        "one-frequency",
        "u, v and w of a neuron have one frequency.",
        "power",
        "the least of u, v and w of the largest normalised power, weighted by ‖ω_i‖³",
        at_least=0.99,
        source_value="almost exactly 1 for all neurons (Figure 7.4c)",
    )
    claim(
        "same-frequency",
        "it is the same in u, v and w.",
        "agreement",
        "the share of kept neurons in which it is",
        at_least=0.99,
        source_value="all (Theorem 7.7)",
    )
    say_all_frequencies(claim)
    claim(
        "equal-shares",
        "the frequencies have equal shares of Σ‖ω_i‖³.",
        "even_shares",
        "the share of frequencies within 20% of 2/(p−1)",
        at_least=0.9,
        source_value="close to uniform (Figure D.1, by counts)",
    )
    parts = (
        f" ({typical(table['gap_of_neurons'])} by neurons that are not optimal, {typical(table['gap_of_logits'])} by "
        "inputs and labels off the margin)"
    )
    claim.certificate(GAP, "Lemma 7.6", parts)
    claim.distances()


def say_relu(claim: MedianClaims) -> None:
    """ReLU neurons under L_2: no theorem, nearly the same features."""
    claim(
        "power",
        "neurons nearly have one frequency, but not exactly.",
        "power_median",
        "the median largest normalised power over kept neurons and u, v, w",
        between=(0.85, 0.97),
        source_value="concentrated around 0.9 (Figure 7.4b)",
    )
    say_all_frequencies(claim)
    claim(
        "distance-neurons",
        f"neurons are not far from the optimal quadratic ones (the function is at {typical(claim.table['function'])} "
        f"from theirs, the shares at {typical(claim.table['shares'])}).",
        "neurons",
        "the root mean square distance of ω_i/‖ω_i‖ from the nearest optimal neuron, weighted by ‖ω_i‖²",
        at_most=RELU_NEURONS,
        source_value="no theorem; nearly sinusoids (Figure 7.1a)",
    )


def say_all_frequencies(claim: MedianClaims) -> None:
    claim(
        "all-frequencies",
        "every frequency is used.",
        "present",
        "the share of frequencies with a kept neuron",
        at_least=1.0,
        source_value="all present (Figure D.1)",
    )


# --- Figure 7.1 (a) and (b) -----------------------------------------------------------------------------------


def _embeddings(p: int, kinds: list[str], table: pl.DataFrame) -> Figure:
    """Weights of a few neurons with their interpolation, beside their power spectra."""
    chart = Chart(
        f"embeddings-{p}",
        f"Trained to add modulo {p}: the weights of three neurons and their spectra",
        source="dissertation, Figure 7.1(a), (b)",
        width=1.0 + 5.0 * len(kinds),
        height=1.2 + 1.5 * SHOWN,
        rows=SHOWN,
        columns=2 * len(kinds),
        width_ratios=[1.8, 1.0] * len(kinds),
    )
    grid = np.reshape(np.array(chart.panels, object), (SHOWN, len(kinds), 2))
    for place, kind in enumerate(kinds):
        neurons = groups(table.filter(activation=kind), "neuron")
        for (weights, spectra), own in zip(grid[:, place], neurons.values(), strict=False):
            _draw_neuron(weights, spectra, own.select(PARTS).to_numpy().T, COLORS[kind])
        weights, spectra = grid[0, place]
        weights.axes(title=f"{NAMES[kind]}: u(a)")
        spectra.axes(title="power of u, v, w")
        if neurons:
            spectra.legend(loc="upper left", ncols=3, fontsize=7.5, handlelength=0.8, columnspacing=0.8)
        grid[-1, place, 0].axes(x="a")
        grid[-1, place, 1].axes(x="frequency")
    return chart.figure(
        "Input weights u of three neurons of the first network (dots) and their trigonometric interpolation (line): "
        "of the neurons above a tenth of the largest norm those whose u has the least, the median and the largest "
        f"normalised power. Beside them, the share of the power of u, v and w at each frequency 0 to {p // 2}.",
        table.drop("p"),
    )


def _draw_neuron(weights: Panel, spectra: Panel, parts: np.ndarray, color: str) -> None:
    """One neuron's u, and the power of its u, v and w, the rows of `parts` [3, p]."""
    p = parts.shape[1]
    x = np.linspace(0, p - 1, POINTS * (p - 1) + 1)
    weights.ax.plot(x, interpolate(parts[0], x), color=color, linewidth=1.1)
    weights.ax.plot(np.arange(p), parts[0], "o", markersize=3 if p > 30 else 4, color=figures.BLACK)
    power = frequency_powers(parts)
    power = power / power.sum(axis=1, keepdims=True)
    for name, share, shift, shade in zip(PARTS, power, (-0.27, 0.0, 0.27), figures.PALETTE, strict=False):
        spectra.ax.bar(np.arange(len(share)) + shift, share, width=0.27, color=shade, label=name)
    spectra.axes(ylim=(0, 1.3), yticks=[0, 0.5, 1])
    place: dict[str, Any] = {"xycoords": "axes fraction", "ha": "right", "va": "top", "fontsize": 8.5}
    spectra.ax.annotate(f"{power[0].max():.4f}", (0.98, 0.98), **place)


# --- Figure 7.4 -----------------------------------------------------------------------------------------------


def _powers(p: int, kinds: list[str], spectra: pl.DataFrame) -> Figure:
    """Histograms of the largest normalised power at initialisation and at the end."""
    chart = Chart(
        f"powers-{p}",
        f"Modulo {p}: how far neurons have one frequency, before training and after",
        source="dissertation, Figure 7.4",
        width=3.4 * (1 + len(kinds)),
        height=3.1,
        columns=1 + len(kinds),
    )
    half = (p - 1) // 2
    expected = float(np.sum(1 / np.arange(1, half + 1)) / half)
    starts = spectra.filter(when="start", activation=spectra["activation"][0])
    shown = [(starts, "at initialisation", figures.MUTED, expected, f"random: {expected:.3f}")]
    lines = {"relu": (0.9, "source: around 0.9"), "quadratic": (1.0, "source: almost exactly 1")}
    for kind in kinds:
        shown.append((spectra.filter(when="end", activation=kind), NAMES[kind], COLORS[kind], *lines[kind]))
    data = []
    for table, title, color, line, words in shown:
        kept, every = (np.concatenate([np.zeros(0), *table[name].to_list()]) for name in ("kept", "every"))
        panel = chart.panel(
            title=f"{title}\n{f'median {np.median(kept):.4f}' if len(kept) else 'none'}",
            x="largest normalised power",
            xlim=(0, 1.02),
        )
        shares = {
            name: np.histogram(values, BINS)[0] / max(1, len(values))
            for name, values in (("kept", kept), ("every", every))
        }
        panel.ax.stairs(shares["kept"], BINS, fill=True, color=color, alpha=0.75)
        panel.ax.stairs(shares["every"], BINS, color=figures.BLACK, linewidth=0.8)
        panel.reference(line, words, axis="x")
        data.append(pl.DataFrame({"networks": title, "low": BINS[:-1], "high": BINS[1:], **shares}))
    chart[0].axes(y="share of weight vectors")
    return chart.figure(
        "Largest normalised power max_j P_j/Σ_j P_j of u, v and w (P_j = |û(j)|² + |û(−j)|²) over all networks; "
        "filled: neurons above a tenth of the network's largest norm, outlined: all. Dashed at initialisation: H_K/K, "
        f"K = {half}, the mean for normal weights.",
        pl.concat(data),
    )


# --- Figure D.1 -----------------------------------------------------------------------------------------------


def _frequencies(p: int, kinds: list[str], spectra: pl.DataFrame) -> Figure:
    """Neurons per frequency, and each frequency's share of the norm."""
    chart = Chart(
        f"frequencies-{p}",
        f"Modulo {p}: which frequencies are used, and with which share of the norm",
        source="dissertation, Figure D.1",
        width=10.0,
        height=1.0 + 2.3 * len(kinds),
        rows=len(kinds),
        columns=2,
        sharex=True,
    )
    at = np.arange(1, p // 2 + 1)
    for kind in kinds:
        counts = chart.panel(title=f"{NAMES[kind]}: kept neurons", y="neurons")
        shares = chart.panel(title=f"{NAMES[kind]}: share of Σ‖ω_i‖^ν", y=f"share × {p // 2}")
        own = spectra.filter(activation=kind)
        for place, neurons in enumerate(own["neurons"]):
            if place == 0:
                counts.ax.bar(at, neurons, color=COLORS[kind], alpha=0.6, label="first network")
            else:
                others = "others" if place == 1 else None
                counts.ax.plot(at, neurons, ".", markersize=4, color=figures.BLACK, alpha=0.5, label=others)
        for relative in own["relative_share"]:
            shares.ax.plot(at, relative, "o", markersize=4, color=COLORS[kind], alpha=0.5)
        shares.ax.axhspan(1 - EVEN, 1 + EVEN, color=figures.GRID, zorder=0)
        shares.axes(ylim=(0, None))
        if len(own):
            counts.ax.margins(y=0.3)  # room for the legend
            counts.legend(loc="upper left", ncols=2)
    for panel in chart.panels[-2:]:
        panel.axes(x="frequency")
    lists = ["frequency", "neurons", "relative_share"]
    data = spectra.with_columns(frequency=pl.lit(at.tolist(), pl.List(pl.Int64))).select("activation", "seed", *lists)
    return chart.figure(
        "Left: neurons above a tenth of the largest norm by dominant frequency, bars for the first network, dots for "
        f"the others. Right: each frequency's share of Σ‖ω_i‖^ν times {p // 2}, which is 1 in every maximum-margin "
        "network (grey: within 20%). Theory says nothing of the numbers of neurons.",
        data.explode(lists),
    )


# --- Figure 7.1 (c) -------------------------------------------------------------------------------------------


def _curves(p: int, trials: pl.DataFrame, optimum: FiniteLambda) -> Figure:
    """Normalised margin, margin, cross-entropy and power against the step, with what theory says they come to."""
    chart = Chart(
        f"margin-{p}",
        f"Modulo {p}: the normalised margin while training, and the largest there is",
        source="dissertation, Figure 7.1(c)",
        width=10.0,
        height=6.0,
        rows=2,
        columns=2,
    )
    curves = curve_table(trials, ["activation"], ["margin", "normalised_margin", "cross_entropy", "power"])
    top = optimum.max_margin
    normalised = chart.panel(title="normalised margin (quadratic, L_{2,3})", x="step", ylim=(-0.3 * top, 1.12 * top))
    margin = chart.panel(title="margin (quadratic)", x="step")
    entropy = chart.panel(title="cross-entropy", x="step", log="y")
    power = chart.panel(title="largest normalised power, mean by ‖ω_i‖^ν", x="step", ylim=(0, 1.03))
    for kind, own in groups(curves, "activation").items():
        if kind == "quadratic":
            draw_networks(normalised, own, "normalised_margin", COLORS[kind])
            draw_networks(margin, own, "margin", COLORS[kind])
        draw_networks(entropy, own, "cross_entropy", COLORS[kind])
        draw_networks(power, own, "power", COLORS[kind], NAMES[kind])
    normalised.reference(top, f"γ* = {top:.5g}, at every λ")
    margin.reference(optimum.margin, f"optimum at λ = {optimum.lam:g}: {optimum.margin:.4g}")
    entropy.reference(optimum.cross_entropy, f"quadratic optimum: {optimum.cross_entropy:.4g}")
    power.legend(loc="lower right")
    return chart.figure(
        "A line per network. Normalised margin h(θ)/Σ‖ω_i‖³ with Theorem 7.7's maximum, which is also that of the "
        f"exact optimum at λ = {optimum.lam:g}; margin and cross-entropy with those of the optimum. Below right: the "
        "largest normalised power of u, v and w, averaged over neurons with weights ‖ω_i‖^ν.",
        curves,
    )
