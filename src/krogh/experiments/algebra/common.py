"""What the experiments of this source share: how networks are trained, measured, judged and drawn.

All are trained by gradient descent on cross-entropy plus λ Σ_i ‖ω_i‖^ν over the whole table, with a rate that is
doubled at stated steps (`MarginPreset`); their weights are kept, and measured in float64, before and after:

    features    largest normalised power of u, v and w, the dominant frequencies, their shares of Σ‖ω_i‖^ν
    margin      normalised margin over γ*, and the certificate's gap γ* - margin with its two parts
    distance    from the family of maximum-margin networks: neurons, shares, function (`margin_distance`)

The gap is (V - E[g']) + (E[g'] - h), both divided by ‖θ‖^ν: neurons that are not optimal (Eq 7.3), and inputs or labels
off the margin (Eq 7.1, C.1). For ReLU neurons no maximum margin is known: the margin and the gap are left out, and the
distance says how far their weights and their function are from those of quadratic networks of maximum margin.

Criteria of distances follow from the reference's of features and margins, and were set before anything was measured:

    a vector with the share P of its power in a cosine has the cosine √P with it, so that P ≥ 0.99 and 0.85 are
    distances (2(1 - √P))^½ ≤ 0.1 and 0.4;  shares within 20% of the optimum's differ by ½·0.2 in total variation;
    a margin of 0.95 γ* leaves a gap of 0.05, and the same is asked of the function's cosine

The composition of a group is trained with the source's settings for its groups (`PRESETS`), and with automatic ones for
any other (`plan_of`):

    λ    a hundredth of γ*, one digit: far below where the zero network is optimal
    m    twice what suffices for a network of maximum margin, and ten per irrep: neurons of an irrep of dimension 1
         whose outputs all have one sign cannot cancel their squares, and stay in a local minimum

Rates and steps follow from the exact optimum at λ. Let M be the margin and ρ = Σ‖ω_i‖³ there, ω = (ρ/m)^{1/3} the norm
of one of m neurons, and n = |G|. The rate begins small and is doubled every 200 steps, which makes up for gradients
that vanish like e^{-margin}. Two things bound it:

    fitting    Networks fit the table after rate·steps of about 4n^1.5 √D: neurons grow at 3eγ‖ω‖ with the bound γ =
               2/(3√(3n)(n-1)√D) of equal weights and an alignment e of 0.4. Then output weights move together, with
               the curvature (4/9)ρ^{4/3}m^{-1/3}/n³ of uniform predictions; ρ is about 15/γ*, for margins of 3 that
               are a fifth of what the norm allows. The rate waits at half of 2/curvature until that is over.
    the end    The rate is a third of 2/curvature at the optimum, about 9λMω · 2max(1, κ), κ = ⅔(Σ_R D^2.5/e / n)²:
               scaling all weights, λ/γ*·‖∇M‖², or output weights moving together. Power iteration finds 0.5 to 1.4
               times as much, on groups of order 6 to 36. Then 1/(3·rate·λ·ω) steps bring imbalances between neurons
               down by a factor e, and sixty times as many are made.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import ArrayLike, NDArray

from krogh.engine import Trial
from krogh.errors import require, require_integer
from krogh.lab import Chart, Claims, Figure, Network, figures, groups, look_table, need, setting
from krogh.lab.charts import Panel
from krogh.lab.estimate import exact, largest, median, unknown_estimate
from krogh.lab.frames import spread_steps
from krogh.models.two_layer import PairNetwork
from krogh.networks.groups.arrays import Network as Arrays
from krogh.networks.groups.arrays import PairArrays, arrays_of, phase_residuals
from krogh.networks.groups.certificates import certify
from krogh.networks.groups.measures import cross_entropy, dataset_margin, logit_flatness, normalised_margin
from krogh.probes.base import Probe
from krogh.probes.features.distance import function_distance, margin_distance
from krogh.probes.features.nearest import nearest_in_irreps
from krogh.probes.features.spectra import Spectrum, network_spectrum, norm_balance, norm_weights, weighted_mean
from krogh.probes.margins import Margin
from krogh.probes.spectra import FourierPower
from krogh.programs.groups import TABLE_FILES, Group, load_group
from krogh.tasks.composition import GroupComposition
from krogh.theory.groups.finite import FiniteLambda, finite_lambda
from krogh.theory.groups.irreps import irrep_powers, real_irreps
from krogh.theory.groups.maximum import MaxMargin, max_margin_cyclic, max_margin_group
from krogh.theory.groups.problems import characters_of, group_of
from krogh.theory.groups.weighted import offset_maximum
from krogh.training.training import MARGIN_PRESETS, MarginPreset

FEWEST = 6  # seeds from which on the range of all is a 95% interval of the median, whatever the law
TOLERANCE = 1e-4  # by which float32 may exceed an exact maximum
THEOREM = "dissertation, Theorem 7.7"
NEURONS, SHARES, FUNCTION, GAP = 0.1, 0.1, 0.05, 0.05
EVEN = 0.2  # a frequency's share is as it should be within this factor of the share in a maximum-margin network


# --- addition modulo p ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Addition:
    """Training on the whole table of addition modulo p, at a rate that is doubled every so many steps."""

    p: int = setting(11, "modulus", least=3)
    width: int = setting(80, "neurons", least=1)
    steps: int = setting(10_000, "steps of gradient descent on all p² inputs", least=1)
    doubled_every: int = setting(250, "steps between two doublings of the rate", least=1)
    doublings: int = setting(10, "how often the rate is doubled", least=0)
    rate: float = setting(0.05, "learning rate at first", least=0)
    weight: float = setting(1e-4, "λ of the penalty on neurons", above=0)
    seeds: int = setting(6, "networks of each kind", least=1)
    probe_every: int = setting(100, "steps between two points of a curve", least=1)

    def check_modulus(self) -> None:
        """Refuse an even p, which has a frequency that is its own conjugate, and a λ that leaves nothing but zero."""
        p = self.p
        require(p % 2 == 1, f"Theorem 7.7 is about odd p; got p={p} (try p={p - 1} or {p + 1})")
        zero = max_margin_cyclic(p).value * (p - 1) / p
        require(
            self.weight < zero,
            f"weight must be below γ*(p-1)/p = {zero:.4g}, from which on the zero network is optimal for p={p}; got "
            f"weight={self.weight!r}",
        )

    def trial(self, model: PairNetwork | None = None, snapshots: int = 0) -> Trial:
        """The training of a model, of quadratic neurons unless another is given, with weights at so many steps."""
        model = PairNetwork(self.width) if model is None else model
        doubled_at = tuple(self.doubled_every * (number + 1) for number in range(self.doublings))
        preset = MarginPreset(f"Z_{self.p}", model.width, self.steps, self.rate, doubled_at, self.weight)
        training = preset.training(self.probe_every)
        return Trial(
            GroupComposition(preset.task),
            model,
            training,
            probes=(Margin(), FourierPower()),
            probe_every=self.probe_every,
            snapshots=spread_steps(self.steps, snapshots, self.probe_every, power=2),
        )

    def measure(self, networks: Iterable[Network], labels: Sequence[str] = ()) -> list[dict[str, Any]]:
        """Its networks before training and after (`measure_networks`, `addition_measures`)."""
        gamma = max_margin_cyclic(self.p).value
        return measure_networks(networks, labels, lambda arrays: addition_measures(arrays, self.p), gamma)


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


def measure_networks(
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


def addition_measures(network: Arrays | None, p: int) -> dict[str, float]:
    """Everything about a network that adds modulo p, by name (`MEASURES`); nan where it diverged or nothing is known.

    `fewest` is the least number of kept neurons that a frequency has: with few, its terms u²w and v²w cannot cancel.
    """
    unknown = dict.fromkeys(MEASURES, math.nan)
    if network is None or not np.any(network.neurons):
        return unknown
    assert isinstance(network, PairArrays)
    spectrum = network_spectrum(network, p)
    counts = np.array(list(spectrum.counts().values()))
    quadratic = network.activation == "quadratic"
    return unknown | {
        "normalised_margin": normalised_margin(network, p),
        **feature_measures(network, p, spectrum),
        "fewest": float(counts.min()),
        "present": float(np.mean(counts > 0)),
        "even_shares": float(np.mean(np.abs(relative_shares(spectrum, p) - 1) <= EVEN)),
        "phase": float(np.max(np.abs(phase_residuals(network, p)[spectrum.kept]))),
        "balance": float(np.max(np.abs(norm_balance(network)[spectrum.kept] - 1))),
        **(margin_measures(network, p) if quadratic else relu_distance(network, p)),
    }


def feature_measures(network: PairArrays, problem: Any, spectrum: Spectrum) -> dict[str, float]:
    """Margin, loss, and how far neurons have one frequency, or lie in one irrep."""
    powers = spectrum.largest[:, spectrum.kept]
    return {
        "margin": dataset_margin(network, problem),
        "cross_entropy": cross_entropy(network, problem),
        "flatness": logit_flatness(network, problem),
        "power": float(spectrum.mean_largest.min()),
        "power_median": float(np.median(powers)),
        "power_least": float(powers.min()),
        "agreement": spectrum.agreement,
        "kept": float(spectrum.kept.sum()),
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
    optimal = np.array([0.0, *max_margin_cyclic(p).irrep_shares.values()])
    return {
        "neurons": math.sqrt(float(weighted_mean(nearest.distance**2, weights))),
        "worst_neuron": float(np.max(nearest.distance[kept])),
        "shares": 0.5 * float(np.abs(shares - optimal).sum()),
        "function": function_distance(network, group, np.eye(p)),
    }


def relative_shares(spectrum: Spectrum, p: int) -> NDArray[np.float64]:
    """Each frequency's share of Σ‖ω_i‖^ν over its share in a maximum-margin network, [⌊p/2⌋]."""
    optimal = max_margin_cyclic(p).irrep_shares
    return np.array(list(spectrum.shares().values())) / np.array(list(optimal.values()))


# --- what is claimed ------------------------------------------------------------------------------------------


class MedianClaims:
    """Claims of medians over seeds, on a table with a row per network; one that diverged (nan) counts as the worst.

    They are decided from `fewest` seeds on: 1 where no seed can change the network, of which there is one then.
    """

    def __init__(self, say: Claims, table: pl.DataFrame, fewest: int = FEWEST):
        self.say, self.table, self.fewest = say, table, fewest

    def __call__(
        self,
        name: str,
        statement: str,
        values: str | ArrayLike,
        statistic: str,
        *,
        source_value: str = "not given",
        **threshold: Any,
    ) -> None:
        """Claim something of a column, or of other values with one per seed."""
        numbers = np.asarray(self.table[values] if isinstance(values, str) else values, np.float64)
        numbers = np.where(np.isnan(numbers), math.inf if "at_most" in threshold else -math.inf, numbers)
        alone = self.fewest == 1
        self.say(
            name,
            statement,
            exact(numbers[0], 1) if alone else median(numbers),
            statistic if alone else f"median over seeds of {statistic}",
            needs=[need(len(numbers), self.fewest, "seeds")],
            source_value=source_value,
            **threshold,
        )

    def bound(self, gamma: str, source: str | None = None, column: str = "highest") -> None:
        """The hard invariant: no normalised margin, of any network at any step, exceeds the maximum. One refutes it."""
        known = self.table[column].to_numpy()
        known = known[np.isfinite(known)]
        self.say(
            "bound",
            f"no network has a normalised margin above {gamma}, at any step.",
            largest(known) if len(known) else unknown_estimate("no margin was measured"),
            "largest normalised margin over γ*, all seeds and steps",
            at_most=1 + TOLERANCE,
            source_value="an upper bound",
            source=source,
        )

    def margin(self, name: str, statement: str, **words: Any) -> None:
        """How large the margin is."""
        self(name, statement, "ratio", "the normalised margin over γ*", **words)

    def certificate(self, most: float, lemma: str, parts: str = "") -> None:
        """Does the margin reach the bound that nothing exceeds? `parts` says of what the gap consists."""
        statement = f"the certificate's gap to the upper bound closes{parts}."
        statistic, at_maximum = "the gap of lower and upper bound over γ*", f"0 at the maximum ({lemma})"
        self("certificate", statement, "gap", statistic, at_most=most, source_value=at_maximum)

    def distances(self) -> None:
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
            name, zero = f"distance-{column}", "0 at the maximum"
            self(name, statement, column, statistic, at_most=bound, source_value=zero)


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
    columns: Mapping[str, str],
    kinds: Mapping[str, pl.DataFrame],
    *,
    least: float = -math.inf,
    shift: float = 0.0,
    **look: Any,
) -> None:
    """A dot per network: a panel for each column with its words, and in it a row for each kind, the first on top."""
    places = np.arange(len(kinds))[::-1]
    for panel, (column, words) in zip(panels, columns.items(), strict=True):
        panel.ax.set_xlabel(words, fontsize=9)
        for place, table in zip(places, kinds.values(), strict=True):
            values = table[column].to_numpy()
            known = np.maximum(values[np.isfinite(values)], least)
            panel.ax.plot(known, np.full(len(known), place + shift), "o", **{"color": figures.BLUE, **look})
    panels[0].ax.set_yticks(places, list(kinds))
    panels[0].ax.set_ylim(-0.6, len(kinds) - 0.4)


def distance_figure(kinds: Mapping[str, pl.DataFrame], source: str, gap: float = GAP) -> Figure:
    """Distances of each kind of network from the family of maximum-margin networks, as `measure_networks` has them."""
    from matplotlib.ticker import LogLocator

    title = "Distance from the family of maximum-margin networks, before training and after"
    size: dict[str, Any] = {"width": 11.0, "height": 2.0 + 0.45 * len(kinds), "columns": len(DISTANCES), "sharey": True}
    chart = Chart("distance", title, source=source, **size)
    hollow = {"markerfacecolor": "white", "markeredgecolor": figures.MUTED, "markeredgewidth": 0.9}
    filled = {"markeredgecolor": "white", "markeredgewidth": 0.5}
    columns = {column: words for column, (_, words, _) in DISTANCES.items()}
    for when, shift, look in (("start", 0.14, hollow), ("end", -0.14, filled)):
        chosen = {kind: table.filter(when=when) for kind, table in kinds.items()}
        draw_rows(chart.panels, columns, chosen, least=LEAST, shift=shift, markersize=5, alpha=0.9, **look)
    for column, (title, _, bound) in DISTANCES.items():
        panel = chart.panel(title=title, log="x")
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
    powers = [f"fourier_power_{part}" for part in PARTS] if "power" in columns else []
    probed = [*(name for name in columns if name != "power"), *powers]
    table = look_table(trials, *labels, "seed", columns=probed)
    mean = [pl.mean_horizontal(powers).alias("power")] if powers else []
    return table.with_columns(mean).select(*labels, "seed", "step", *columns)


def draw_networks(panel: Panel, curves: pl.DataFrame, column: str, color: str, label: str = "", **look: Any) -> None:
    """A line per network (seed) of one kind, under one label."""
    look = {"color": color, "linewidth": 1, "alpha": 0.7, **look}
    for place, own in enumerate(groups(curves, "seed").values()):
        panel.ax.plot(own["step"], own[column], label=label if label and place == 0 else None, **look)


def curves_figure(
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
    margin = chart.panel(title="normalised L_{2,3} margin / γ*", x="step", ylim=(-0.3, 1.12))
    power = chart.panel(title="largest normalised power, mean by ‖ω_i‖^ν", x="step", ylim=(0, 1.03))
    for kind, curves in kinds.items():
        color = margin.color()
        draw_networks(margin, curves, "ratio", color, linewidth=1.1)
        draw_networks(power, curves, "power", color, kind, linewidth=1.1)
    for text, level in {"γ*": 1.0, **(lines or {})}.items():
        margin.reference(level, text)
    power.legend(loc="lower right")
    return chart.figure(caption, pl.concat(kinds.values()))


# --- composition in a group -----------------------------------------------------------------------------------

PROPOSED = {"D_5": MarginPreset("D_5", 60, 20_000, 0.05, tuple(range(200, 2401, 200)), 1e-6)}
PRESETS = {name: MARGIN_PRESETS[name] for name in ("S_3", "S_4", "S_5")} | PROPOSED
"""The source's settings (D.2), and one for a dihedral group."""

WEIGHT = 0.01
FEWEST_NEURONS, PER_IRREP, ENOUGH_NEURONS, MOST_NEURONS = 40, 10, 400, 1000
WHOLE = 2**16
"""Up to so many pairs, every step reads all of them; beyond, `BATCH` random ones."""
BATCH = 4096

RATE, EVERY, MOST_DOUBLINGS = 0.05, 200, 60
LARGEST_DECAY = 4e-3
"""Of rate·λ, however flat the optimum is."""
NOISY_DECAY = 1.28e-4
"""The same where steps read random pairs: the source's for S_5."""
RELAXATIONS, LONGEST = 60.0, 75_000
FITTING, WAIT_FACTOR, SWOLLEN = 4.0, 1.5, 15.0
HELD_SHARE, END_SHARE = 1 / 2, 1 / 3
"""Of where descent becomes unstable: while networks fit the table, and in the end."""
POINTS = 250


@dataclass(frozen=True)
class GroupTraining:
    """How a group's composition is trained; what is None is the stated setting's, or follows from theory."""

    lam: float | None = setting(
        None, "λ of the penalty λ Σ‖ω_i‖³; none for the source's, or a hundredth of γ*", above=0
    )
    width: int | None = setting(None, "neurons; none for the source's, or at least twice as many as suffice", least=1)
    steps: int | None = setting(
        None, "steps of gradient descent; none for the source's, or until neurons have settled", least=1
    )
    rate: float | None = setting(None, "learning rate at first; none for about 0.05", above=0)
    doubled: int | None = setting(
        None, "how often the rate is doubled; none for as often as is stable", least=0, most=MOST_DOUBLINGS
    )
    doubled_every: int | None = setting(None, "steps between two doublings; none for the source's, or 200", least=1)
    batch: int | None = setting(
        None, "random pairs per step; none for all pairs (S_5: 1000, as in the source)", least=1
    )

    def leaves(self, *names: str) -> bool:
        """Whether these are all left open."""
        return all(getattr(self, name) is None for name in names)


@dataclass(frozen=True, eq=False)
class Plan:
    """One group's training, what theory says of it, and a remark on what it lacks; `stated` if it is in `PRESETS`."""

    group: Group
    preset: MarginPreset
    stated: bool
    best: MaxMargin
    optimum: FiniteLambda
    remark: str

    @property
    def name(self) -> str:
        return self.group.name

    @property
    def lam(self) -> float:
        return self.preset.weight

    def trial(self, probes: tuple[Probe, ...] = ()) -> Trial:
        """A pair network of quadratic neurons that is to learn the group's table; it makes all of its steps."""
        steps, every = self.preset.steps, check_interval(self.preset.steps)
        return Trial(
            GroupComposition(self.group),
            PairNetwork(self.preset.width),
            self.preset.training(every),
            probes=probes,
            probe_every=curve_interval(steps, every),
        )


def plan_of(
    text: str, asked: GroupTraining = GroupTraining(), *, collapsing: bool = False, relaxations: float = RELAXATIONS
) -> Plan:
    """The training of a group given by name or file.

    A schedule is made for its λ: whoever changes λ or a rate of a stated setting gets rates and steps that fit. A λ at
    which the zero network is optimal is refused, unless networks are meant to collapse. `relaxations` says how long
    neurons are given to settle.
    """
    group = load_group(text)
    require(group.order > 1, f"composition needs a wrong answer; {group.name} has one element (try Z_2)")
    stated = None if Path(text.strip()).suffix.lower() in TABLE_FILES else PRESETS.get(group.name)
    best = max_margin_group(group)
    lam = asked.lam if asked.lam is not None else stated.weight if stated else float(f"{WEIGHT * best.value:.1g}")
    optimum = finite_lambda(group, lam)
    require(
        collapsing or not optimum.zero,
        f"lam must be below {optimum.threshold:.4g}, from which on the zero network is optimal for {group.name}; got "
        f"lam={lam:g} (try lam={WEIGHT * optimum.max_margin:.1g})",
    )
    width = width_of(best, stated) if asked.width is None else asked.width
    lacking = (
        f"{width} neurons are fewer than the {best.width} that suffice for a maximum-margin network of {group.name} "
        f"(settable: width={best.width})"
    )
    scheduled = stated is not None and asked.leaves("lam", "rate", "doubled", "doubled_every", "batch")
    if stated is not None and scheduled:
        preset = replace(stated, task=group.name, width=width)
    else:
        batch = asked.batch if asked.batch is not None else BATCH if group.order**2 > WHOLE else None
        preset = schedule(group, optimum, width, asked, batch, relaxations)
    steps = preset.steps if asked.steps is None else asked.steps
    preset = replace(preset, steps=steps, doubled_at=tuple(time for time in preset.doubled_at if time < steps))
    unchanged = scheduled and asked.leaves("width", "steps")
    return Plan(group, preset, unchanged, best, optimum, lacking if width < best.width else "")


def width_of(best: MaxMargin, stated: MarginPreset | None) -> int:
    """How many neurons a network has, unless somebody says so."""
    if stated is not None:
        return stated.width
    ample = max(2 * best.width, PER_IRREP * len(best.irrep_shares), FEWEST_NEURONS)
    enough = max(best.width, min(ample, ENOUGH_NEURONS))
    return min(-(-enough // 10) * 10, MOST_NEURONS)


def schedule(
    group: Group, optimum: FiniteLambda, width: int, asked: GroupTraining, batch: int | None, relaxations: float
) -> MarginPreset:
    """Rates and steps for a network of `width` neurons; whoever says how often to double gets no waiting in between."""
    largest = largest_decay(group, optimum, width)
    final = (min(largest, NOISY_DECAY) if batch is not None else largest) / optimum.lam
    first, doubled, every = RATE if asked.rate is None else asked.rate, asked.doubled, asked.doubled_every
    if doubled is None:
        doubled = max(0, math.ceil(math.log2(final / first)))
        first = first if asked.rate is not None else min(first, final / 2.0**doubled)
    require_integer("doubled", doubled, 0, MOST_DOUBLINGS)  # a tiny λ asks for more than a float32 can hold
    held, wait = (math.inf, 0) if every is not None else waiting(group, optimum, width)
    before = sum(first * 2.0 ** (number + 1) <= held for number in range(doubled))
    spacing = EVERY if every is None else every
    times = tuple(spacing * (number + 1) + (wait if number >= before else 0) for number in range(doubled))
    size = 1.0 if optimum.zero else (optimum.rho / width) ** (1 / 3)
    settling = relaxations / (3 * first * 2.0**doubled * optimum.lam * size)
    end = times[-1] if times else 0
    steps = min(LONGEST, 1000 * math.ceil((end + settling) / 1000))
    return MarginPreset(group.name, width, steps, first, times, optimum.lam, batch=batch)


def waiting(group: Group, optimum: FiniteLambda, width: int) -> tuple[float, int]:
    """The rate at which networks fit the table safely, and how many steps to wait there."""
    n, characters = group.order, characters_of(group)
    sizes = characters.dimensions[1:] ** 2 / characters.commutants[1:]
    root = float(sizes @ np.sqrt(characters.dimensions[1:]) / sizes.sum())
    curved = 4 / 9 * (SWOLLEN / optimum.max_margin) ** (4 / 3) * width ** (-1 / 3) / n**3
    held = HELD_SHARE * 2 / curved
    return held, 50 * math.ceil(WAIT_FACTOR * FITTING * n**1.5 * root / held / 50)


def curvature(group: Group) -> float:
    """2max(1, κ), κ = ⅔(Σ_R D^2.5/e / |G|)²: the largest curvature over that of scaling all weights, at the optimum."""
    characters = characters_of(group)
    total = float(np.sum(characters.dimensions[1:] ** 2.5 / characters.commutants[1:]))
    return 2.0 * max(1.0, 2 / 3 * (total / group.order) ** 2)


def largest_decay(group: Group, optimum: FiniteLambda, width: int) -> float:
    """The rate times λ in the end: a third of where descent is unstable, at most 0.004."""
    if optimum.zero:
        return LARGEST_DECAY
    size = (optimum.rho / width) ** (1 / 3)
    return min(LARGEST_DECAY, END_SHARE * 2 / (9 * optimum.margin * size * curvature(group)))


def check_interval(steps: int) -> int:
    """Steps between two checks: at most 100, and a fiftieth of the steps, which it divides."""
    return next(
        every for every in (100, 50, 20, 10, 5, 2, 1) if steps % every == 0 and (every == 1 or steps >= 50 * every)
    )


def curve_interval(steps: int, every: int) -> int:
    """Steps between two points of a curve of at most `POINTS`, whose last one is the end."""
    checks = steps // every
    return every * next(
        stride for stride in range(1, checks + 1) if checks % stride == 0 and checks // stride <= POINTS
    )
