"""The margin of a compiled circuit as the network grows wider than it must be (Theorem 3.1, Lemma 2.3).

Further units have zeros as weights. Perturbations move these as well, but the certificate and the attack do not change,
nor does ‖θ‖₁: the sample size of Lemma 2.3 grows with the logarithm of the number of parameters, bounds by the VC
dimension with the number itself.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from krogh.experiments.approximation.common import NO_EXPERIMENTS, SOLID, Attacks, in_words
from krogh.lab import Chart, Claims, Estimate, Experiment, Figure, Results, Tables, experiment, figures, setting
from krogh.lab.estimate import exact, largest
from krogh.lab.experiment import Measures
from krogh.networks.circuits import compile_circuit
from krogh.networks.margins.attack import attack
from krogh.networks.margins.circuits import certify_circuit
from krogh.networks.relu import dense_parameters
from krogh.programs.circuits.generators import and_ladder
from krogh.theory.programs.margin import flips, perturbation_norm
from krogh.theory.programs.samples import feedforward_vc, sm_samples

ROUNDING = 1e-9
"""Of numbers in float64 that must not change at all."""


@dataclass(frozen=True)
class Settings(Attacks):
    gates: int = setting(6, "gates r in a layer of the AND-ladder", least=2)
    layers: int = setting(5, "layers q of the AND-ladder", least=2)
    multiples: tuple[int, ...] = setting(
        (1, 4, 16, 64), "widths, as multiples of the least that does, 2r", increasing=True, fewest=2, least=1
    )
    epsilon: float = setting(0.1, "error ε of the sample sizes", above=0)


@experiment("approximation/circuit-width")
class CircuitWidth(Experiment[Settings]):
    """Margin, norm and sample size of a circuit's network against its width."""

    title = "A wider network of a circuit has the same margin, and needs hardly more samples"
    question = "What happens to margin and sample size when a circuit's network is much wider than it must be?"
    source = "SM paper, Theorem 3.1 and Lemma 2.3"
    scales = {
        "smoke": Settings(layers=3, multiples=(1, 4), restarts=3, refinements=10),
        "laptop": Settings(multiples=(1, 4, 16), restarts=6, refinements=30),
        "paper": Settings(restarts=6, refinements=30),
    }
    notes = (
        NO_EXPERIMENTS,
        "With correction a network needs 2r units: two for each rounded gate. Widths are multiples of that.",
        "A perturbation of a narrow network, filled up with zeros, is one of every wider network: the best attack "
        "known at a width is the best of all widths up to it. How much of it the attack finds by itself is judged "
        "too.",
        "Sample sizes are orders: constants are 1 and logarithms of them left out. Only how they grow means something.",
    )

    def measure(self, results: Results[Settings]) -> Measures:
        return {"widths": functools.partial(margins, results.settings)}

    def claims(self, tables: Tables[Settings], say: Claims) -> None:
        table = tables["widths"]
        widths = f"w = {in_words(table['width'].to_list())}"
        grown, more = (table[name][-1] / table[name][0] for name in ("sm_samples", "parameters"))
        say(
            "attack",
            f"The attack, started anew at each width, finds the same margin within 5% ({widths}).",
            _change(table["attack"]),
            "largest |attack / attack at the least width − 1|",
            at_most=0.05,
            source_value="unchanged",
        )
        say(
            "best-attack",
            f"The smallest perturbation known at each width changes by less than 5% ({widths}).",
            _change(table["best"]),
            "largest |smallest perturbation / that at the least width − 1|",
            at_most=0.05,
            source_value="unchanged",
        )
        say(
            "certificate",
            f"The certificate changes by less than 5% ({widths}).",
            _change(table["certificate"]),
            "largest |certificate / certificate at the least width − 1|",
            at_most=0.05,
            source_value="unchanged",
        )
        say(
            "certificate-below",
            "At every width the certificate is no larger than the smallest perturbation known.",
            largest(table["certificate"] / table["best"]),
            "largest certificate / smallest perturbation",
            at_most=1.0,
            source_value="≤ 1",
        )
        say(
            "logarithm",
            f"The sample size of Lemma 2.3 changes through ln p only: {grown:.3g}-fold where p grows {more:,.0f}-fold.",
            _change(table["complexity"] / table["parameters"].log()),
            "largest relative change of the leading term α² ln p/γ², over ln p",
            at_most=ROUNDING,
            source_value="0",
        )
        say(
            "vc-faster",
            "Bounds by the VC dimension grow faster with the width.",
            exact(table["vc_samples"][-1] / table["vc_samples"][0] / grown, len(table)),
            "growth of the VC bound / growth of Lemma 2.3's",
            above=1.0,
            source_value="polynomial in w against logarithmic",
        )

    def figures(self, tables: Tables[Settings]) -> Iterator[Figure]:
        settings, table = tables.settings, tables["widths"]
        chart = Chart(
            "width",
            "Margin and sample size against width",
            headline=self.title,
            source=self.source,
            columns=2,
            width=9.6,
        )
        w, axes = table["width"], {"x": "width w of the network (units)", "log": "xy", "xticks": table["width"]}
        left = chart.panel(y="all-layer margin ρ (ℓ2 norm)", **axes)
        left.line(w, table["best"], "smallest perturbation known", color=figures.BLUE, key="legend", **SOLID)
        left.dots(w, table["attack"], "attack at this width", color=figures.SKY, markersize=8, alpha=1, zorder=1.5)
        for column, label, color, style in (
            ("certificate", "certificate", figures.GREEN, "--"),
            ("theorem", "Theorem D.6", figures.MUTED, ":"),
        ):
            left.line(w, table[column], label, color=color, style=style, width=1.7, key="legend", marker="v")
        left.ax.margins(y=0.25)
        left.legend(loc="center right")
        right = chart.panel(y="samples, relative to the least width", **axes)
        for column, label, color in (
            ("sm_samples", "Lemma 2.3: ∝ ln p", figures.BLUE),
            ("vc_samples", "VC dimension: ∝ p ln p", figures.VERMILLION),
        ):
            right.line(w, table[column] / table[column][0], label, color=color, side="above", **SOLID)
        right.ax.margins(x=0.3, y=0.15)
        yield chart.figure(
            f"AND-ladder of r = {settings.gates} gates in q = {settings.layers} layers, all inputs 1, as networks that "
            "are wider than they must be; all weights are perturbed, those of further units too. Left: bounds on the "
            f"margin (attacks of {settings.restarts} starts × {settings.refinements} rounds). Right: sample sizes "
            "relative to the narrowest network's; their absolute values are orders.",
            table,
        )


def _change(values: pl.Series) -> Estimate:
    """By how much values change from the first one, relatively and at most."""
    return largest((values / values[0] - 1).abs())


def margins(settings: Settings) -> pl.DataFrame:
    """A row per width: what an attack finds there, the best known, the certificate, sample sizes."""
    compiled = compile_circuit(and_ladder(settings.gates, settings.layers))
    subject = compiled.subject(np.ones((1, settings.gates)))
    (x,), (y,) = subject.inputs, subject.labels
    rows, known = [], []
    for multiple in settings.multiples:
        network = compiled.network.padded(multiple * compiled.network.needed_width)
        parameters = dense_parameters(network, network.width)
        certificate = certify_circuit(parameters)
        smallest = attack(subject.output, parameters, x, y, **settings.effort)
        if smallest.perturbation is not None:
            known.append(smallest.perturbation)
        wide = [widen(narrow, parameters) for narrow in known]
        radii = [perturbation_norm(one) for one in wide if flips(subject.output, parameters, one, x, y)]
        assert certificate.theorem is not None
        samples = sm_samples(settings.epsilon, network.one_norm, certificate.value, network.parameters)
        rows.append(
            {
                "multiple": multiple,
                "width": network.width,
                "parameters": network.parameters,
                "attack": smallest.radius,
                "best": min(radii, default=np.inf),
                "certificate": certificate.value,
                "theorem": certificate.theorem.value,
                "one_norm": float(sum(np.abs(array).sum() for array in parameters.values())),
                "complexity": samples["complexity"],
                "sm_samples": samples["samples"],
                "vc_samples": feedforward_vc(network.parameters, network.depth, settings.epsilon)["samples"],
            }
        )
    return pl.DataFrame(rows)


def widen(narrow: dict[str, Any], wide: dict[str, Any]) -> dict[str, np.ndarray]:
    """A perturbation of a narrow network as one of a wider: further units do not move."""
    padding = {name: np.subtract(array.shape, narrow[name].shape) for name, array in wide.items()}
    return {name: np.pad(narrow[name], [(0, more) for more in padding[name]]) for name in wide}
