"""The margin of a compiled circuit as the network grows wider than it must be (Theorem 3.1, Lemma 2.3).

Further units have zeros as weights. Perturbations move these as well, but the certificate and the attack do not change,
nor does ‖θ‖₁: the sample size of Lemma 2.3 grows with the logarithm of the number of parameters, bounds by the VC
dimension with the number itself.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from krogh.errors import require_integer
from krogh.experiments.approximation.common import NO_EXPERIMENTS, in_words
from krogh.experiments.theorems import Demonstration, Tables, exact, largest, require_increasing
from krogh.lab import Claim, Figure, claim, experiment, figures, setting
from krogh.tasks.circuits import and_ladder
from krogh.theory.all_layer import attack, certify_circuit, flips, perturbation_norm, subject_of
from krogh.theory.compilers import compile_circuit, dense_parameters
from krogh.theory.predictions.approximation import feedforward_vc, sm_samples
from krogh.theory.predictions.inputs import check_open

SOURCE = "SM paper, Theorem 3.1 and Lemma 2.3"
ROUNDING = 1e-9
"""Of numbers in float64 that must not change at all."""


@dataclass(frozen=True)
class Settings:
    gates: int = setting(6, "gates r in a layer of the AND-ladder")
    layers: int = setting(5, "layers q of the AND-ladder")
    multiples: tuple[int, ...] = setting((1, 4, 16, 64), "widths, as multiples of the least that does, 2r")
    restarts: int = setting(6, "random directions that an attack starts from")
    refinements: int = setting(30, "rounds in which each of them is improved")
    epsilon: float = setting(0.1, "error ε of the sample sizes")
    seed: int = setting(0, "of the attacks")


@experiment("approximation/circuit-width")
class CircuitWidth(Demonstration[Settings]):
    """Margin, norm and sample size of a circuit's network against its width."""

    title = "A wider network of a circuit has the same margin, and needs hardly more samples"
    question = "What happens to margin and sample size when a circuit's network is much wider than it must be?"
    source = SOURCE
    scales = {
        "smoke": Settings(layers=3, multiples=(1, 4), restarts=3, refinements=10),
        "laptop": Settings(multiples=(1, 4, 16)),
        "paper": Settings(),
    }
    notes = (
        NO_EXPERIMENTS,
        "With correction a network needs 2r units: two for each rounded gate. Widths are multiples of that.",
        "A perturbation of a narrow network, filled up with zeros, is one of every wider network: the best attack "
        "known at a width is the best of all widths up to it. How much of it the attack finds by itself is judged "
        "too.",
        "Sample sizes are orders: constants are 1 and logarithms of them left out. Only how they grow means something.",
    )

    def check(self, settings: Settings) -> None:
        require_integer("gates", settings.gates, 2)
        require_integer("layers", settings.layers, 2)
        require_increasing("multiples", settings.multiples, 1, 2)
        for name, least in (("restarts", 1), ("refinements", 0), ("seed", 0)):
            require_integer(name, getattr(settings, name), least)
        check_open("epsilon", settings.epsilon, 0)

    def measure(self, settings: Settings) -> Tables:
        return {"widths": pl.DataFrame(_rows(settings))}

    def judge(self, settings: Settings, tables: Tables) -> list[Claim]:
        return _claims(settings, tables["widths"])

    def draw(self, settings: Settings, tables: Tables) -> list[Figure]:
        return [_figure(settings, tables["widths"])]


def _rows(settings: Settings) -> list[dict[str, Any]]:
    compiled = compile_circuit(and_ladder(settings.gates, settings.layers))
    subject = subject_of(compiled, np.ones((1, settings.gates)))
    (x,), (y,) = subject.inputs, subject.labels
    rows, known = [], []
    for multiple in settings.multiples:
        network = compiled.network.padded(multiple * compiled.network.needed_width)
        parameters = dense_parameters(network, network.width)
        certificate = certify_circuit(parameters)
        found = attack(
            subject.output,
            parameters,
            x,
            y,
            restarts=settings.restarts,
            refinements=settings.refinements,
            seed=settings.seed,
        )
        if found.perturbation is not None:
            known.append(found.perturbation)
        wide = [filled(narrow, parameters) for narrow in known]
        radii = [perturbation_norm(one) for one in wide if flips(subject.output, parameters, one, x, y)]
        assert certificate.theorem is not None
        samples = sm_samples(settings.epsilon, network.one_norm, certificate.value, network.parameters)
        rows.append(
            {
                "multiple": multiple,
                "width": network.width,
                "parameters": network.parameters,
                "attack": found.radius,
                "best": min(radii, default=np.inf),
                "certificate": certificate.value,
                "theorem": certificate.theorem.value,
                "one_norm": float(sum(np.abs(array).sum() for array in parameters.values())),
                "complexity": samples["complexity"],
                "sm_samples": samples["samples"],
                "vc_samples": feedforward_vc(network.parameters, network.depth, settings.epsilon)["samples"],
            }
        )
    return rows


def filled(narrow: dict[str, Any], wide: dict[str, Any]) -> dict[str, np.ndarray]:
    """A perturbation of a narrow network as one of a wider: further units do not move."""
    found = {}
    for name, array in wide.items():
        found[name] = np.zeros_like(array)
        found[name][tuple(slice(size) for size in narrow[name].shape)] = narrow[name]
    return found


def _claims(settings: Settings, table: pl.DataFrame) -> list[Claim]:
    widths = f"w = {in_words(table['width'].to_list())}"
    shared: dict[str, Any] = {"source": SOURCE, "trials": len(table)}

    def change(values: pl.Series) -> Any:
        return exact(largest((values / values[0] - 1).abs().to_numpy()))

    grown = table["sm_samples"][-1] / table["sm_samples"][0]
    return [
        claim(
            "attack",
            f"The attack, started anew at each width, finds the same margin within 5% ({widths}).",
            statistic="largest |attack / attack at the least width − 1|",
            interval=change(table["attack"]),
            at_most=0.05,
            source_value="unchanged",
            **shared,
        ),
        claim(
            "best-attack",
            f"The smallest perturbation known at each width changes by less than 5% ({widths}).",
            statistic="largest |smallest perturbation / that at the least width − 1|",
            interval=change(table["best"]),
            at_most=0.05,
            source_value="unchanged",
            **shared,
        ),
        claim(
            "certificate",
            f"The certificate changes by less than 5% ({widths}).",
            statistic="largest |certificate / certificate at the least width − 1|",
            interval=change(table["certificate"]),
            at_most=0.05,
            source_value="unchanged",
            **shared,
        ),
        claim(
            "certificate-below",
            "At every width the certificate is no larger than the smallest perturbation known.",
            statistic="largest certificate / smallest perturbation",
            interval=exact(largest((table["certificate"] / table["best"]).to_numpy())),
            at_most=1.0,
            source_value="≤ 1",
            **shared,
        ),
        claim(
            "logarithm",
            f"The sample size of Lemma 2.3 changes through ln p only: {grown:.3g}-fold where p grows "
            f"{table['parameters'][-1] / table['parameters'][0]:,.0f}-fold.",
            statistic="largest relative change of the leading term α² ln p/γ², over ln p",
            interval=change(table["complexity"] / table["parameters"].log()),
            at_most=ROUNDING,
            source_value="0",
            **shared,
        ),
        claim(
            "vc-faster",
            "Bounds by the VC dimension grow faster with the width.",
            statistic="growth of the VC bound / growth of Lemma 2.3's",
            interval=exact(table["vc_samples"][-1] / table["vc_samples"][0] / grown),
            above=1.0,
            source_value="polynomial in w against logarithmic",
            **shared,
        ),
    ]


def _figure(settings: Settings, table: pl.DataFrame) -> Figure:
    fig, (left, right) = figures.new_figure(
        "A wider network of a circuit has the same margin, and needs hardly more samples",
        width=9.6,
        height=4.0,
        ncols=2,
    )
    w = table["width"].to_list()
    left.plot(w, table["best"], color=figures.BLUE, marker="o", label="smallest perturbation known")
    left.plot(w, table["attack"], color=figures.SKY, marker="o", linestyle="none", markersize=8, zorder=1.5,
              label="attack at this width")  # fmt: skip
    left.plot(w, table["certificate"], color=figures.GREEN, marker="v", linestyle="--", label="certificate")
    left.plot(w, table["theorem"], color=figures.MUTED, marker="v", linestyle=":", label="Theorem D.6")
    left.set_ylabel("all-layer margin ρ (ℓ2 norm)")
    figures.legend(left, loc="center right")
    for column, color, label in (
        ("sm_samples", figures.BLUE, "Lemma 2.3: ∝ ln p"),
        ("vc_samples", figures.VERMILLION, "VC dimension: ∝ p ln p"),
    ):
        grown = (table[column] / table[column][0]).to_list()
        right.plot(w, grown, color=color, marker="o")
        figures.direct_label(right, w, grown, label, color=color, side="above")
    right.set_ylabel("samples, relative to the least width")
    for ax in (left, right):
        figures.log_axis_labels(ax, "x", values=w)
        figures.log_axis_labels(ax, "y")
        ax.set_xlabel("width w of the network (units)")
    left.margins(y=0.25)
    right.margins(x=0.3, y=0.15)
    figures.source_note(fig, SOURCE)
    caption = (
        f"AND-ladder of r = {settings.gates} gates in q = {settings.layers} layers, all inputs 1, as networks that are "
        "wider than they must be; all weights are perturbed, those of further units too. Left: bounds on the margin "
        f"(attacks of {settings.restarts} starts × {settings.refinements} rounds). Right: sample sizes relative to the "
        "narrowest network's; their absolute values are orders."
    )
    return Figure("width", "Margin and sample size against width", caption, fig, table)
