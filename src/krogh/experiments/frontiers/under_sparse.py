"""Theorem 6.5 executed: s ones inside the support save n^s samples, and one truncated step leaves the parity.

Left of the theorem: samples that a good under-sparse neuron needs to see the rest of the support, beside a dense one
(s = 0). Right of it: good neurons with all k biases take one truncated step on m samples; the closed-form read-out of
what that leaves is correlated with the parity, over the whole cube.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import polars as pl

from krogh.errors import require
from krogh.experiments.frontiers.neurons import GoodNeuron, NeuronSettings, recovery_table, sample_complexities
from krogh.lab import Claims, Experiment, Figure, Results, Tables, experiment, figures, need, setting
from krogh.lab.curves import Curve, curve
from krogh.lab.estimate import Estimate, least, maximum, minimum, share_of
from krogh.lab.experiment import Measures
from krogh.lab.fits import power_law
from krogh.networks.sparse_parity import truncated_step, under_sparse
from krogh.theory.boolean.fourier import correlation, cube
from krogh.theory.boolean.sparse_starts import check_sparsity, under_sparse_neuron

FEWEST = 20  # samples of a size that a verdict needs
MOST_BITS = 16  # of a subnetwork that is executed on the whole cube


@dataclass(frozen=True)
class Settings(NeuronSettings):
    ns: tuple[int, ...] = setting((11, 21, 31, 41), "input bits n of the single neuron", increasing=True)
    k: int = setting(4, "relevant bits, even", least=4)
    s: int = setting(2, "ones of a sparse neuron, even, less than k", least=2)
    bits: int = setting(11, "input bits of the subnetwork", most=MOST_BITS)
    samples: tuple[int, ...] = setting(
        (300, 1000, 3000, 10_000, 100_000), "samples of the truncated step", increasing=True
    )
    steps: int = setting(40, "subnetworks per number of samples", least=1)


@experiment("frontiers/under-sparse")
class UnderSparse(Experiment[Settings]):
    """m* of dense and of under-sparse good neurons against n, and the subnetwork after one truncated step."""

    title = "Ones inside the support save n^s samples"
    question = (
        "How many samples does a neuron save whose ones lie in the support, and is what one step leaves the parity?"
    )
    source = "dissertation, Theorem 6.5, Lemmas C.13 to C.16"
    scales = {
        "smoke": Settings(ns=(9, 11), largest=500, trials=4, bits=9, samples=(100, 1000), steps=2),
        "laptop": Settings(),
        "paper": Settings(
            largest=20_000_000, trials=60, steps=400, samples=(300, 1000, 3000, 10_000, 30_000, 100_000, 1_000_000)
        ),
    }
    notes = (
        "A sparse neuron has to find the k - s other relevant coordinates; its own ones are not compared.",
        "The source claims a correlation of at least 1/2 - ε for a subnetwork whose second layer is not trained; here "
        "the second layer is the closed form of the constructed network.",
        "The cut-off is half-way between |ξ_rel| and |ξ_irr| (printed: |ξ_irr|), and the rate is positive.",
    )

    def check(self, settings: Settings) -> None:
        for n in (*settings.ns, settings.bits):
            check_sparsity(n, settings.k, settings.s, "under")
            pointing = under_sparse_neuron(n, settings.k, 0)["gap"] > 0
            require(pointing, f"a dense neuron points at the support only for n > 2k - 1; got n={n}, k={settings.k}")

    def measure(self, results: Results[Settings]) -> Measures:
        settings = results.settings
        return {
            "recoveries": lambda: recovery_table(
                [GoodNeuron("under", n, settings.k, s) for n in settings.ns for s in (0, settings.s)], settings
            ),
            "subnetworks": lambda: pl.DataFrame(_subnetworks(settings)),
        }

    def claims(self, tables: Tables[Settings], say: Claims) -> None:
        settings, k, s = tables.settings, tables.settings.k, tables.settings.s
        enough = [need(settings.trials, FEWEST, "samples of each size")]
        dense, sparse = curves_of(tables)
        saved = {n: dense.at(n) / sparse.at(n) for n in settings.ns}
        for n, factor in saved.items():
            say(
                f"saves-n{n}",
                f"n = {n}, k = {k}: {s} ones in the support save at least a factor n of samples.",
                factor,
                f"m* of a dense neuron / m* of one with {s} ones",
                at_least=float(n),
                source_value=f"n^{s} in order",
                needs=enough,
            )
        reached = {n: factor for n, factor in saved.items() if np.isfinite(factor.value)}
        say(
            "order",
            f"The saving grows as n^{s} (n = {', '.join(map(str, reached))}).",
            abs(power_law(curve(reached)).exponent - s),
            f"|slope of log saving on log n - {s}|",
            at_most=0.5,
            needs=[*enough, need(len(reached), 3, "sizes n at which both were measured")],
        )
        for kind, own in (("dense", dense), ("sparse", sparse)):
            ones = 0 if kind == "dense" else s
            scaled = [
                m * GoodNeuron("under", int(n), k, ones).signal ** 2
                for n, m in zip(own.reached.x, own.reached.y, strict=True)
            ]
            say(
                f"constant-{kind}",
                f"Of a {kind} neuron m* ξ_rel² is constant within a factor 3 (n = {_listed(own.reached.x)}).",
                _spread(scaled),
                "largest m* ξ² / least",
                at_most=3.0,
                needs=[*enough, need(len(scaled), 3, "sizes n at which m* was measured")],
            )
        most = settings.samples[-1]
        last = tables["subnetworks"].filter(m=most)
        say(
            "correlation",
            f"After one truncated step on {most:,} samples the subnetwork is correlated with the parity "
            f"(n = {settings.bits}, k = {k}, s = {s}).",
            least(last["correlation"]),
            f"least correlation of {settings.steps} subnetworks",
            at_least=0.5,
            source_value="≥ 1/2 - ε",
            needs=[need(settings.steps, FEWEST, "subnetworks"), need(most, 10_000, "samples")],
        )
        say(
            "exact",
            f"Its sign is the parity's on every input ({most:,} samples).",
            share_of((last["wrong"] == 0).to_numpy()),
            "share of subnetworks without a wrong sign",
            at_least=0.8,
            needs=[need(settings.steps, FEWEST, "subnetworks"), need(most, 10_000, "samples")],
        )

    def figures(self, tables: Tables[Settings]) -> Iterable[Figure]:
        settings = tables.settings
        chart = self.chart("under-sparse", "Samples that dense and under-sparse neurons need", columns=2, width=9.4)
        left = chart.panel(x="input bits n", y="m* of one good neuron", title="what a neuron needs", log="xy")
        for ones, own, color in zip(
            (0, settings.s), curves_of(tables), (figures.VERMILLION, figures.BLUE), strict=True
        ):
            left.curve(own, "dense" if ones == 0 else f"{ones} ones", color=color)
            signals = np.array([GoodNeuron("under", n, settings.k, ones).signal for n in settings.ns])
            known = [
                m.value * GoodNeuron("under", int(n), settings.k, ones).signal ** 2
                for n, m in zip(own.x, own.y, strict=True)
            ]
            finite = [value for value in known if np.isfinite(value)]
            if finite:
                left.line(settings.ns, float(np.median(finite)) / signals**2, "", color=color)
        left.axes(xticks=settings.ns)
        right = chart.panel(
            x="samples m of the step", y="correlation with the parity", title="one truncated step", log="x"
        )
        right.ranges(tables["subnetworks"], "m", "correlation", middle=pl.Expr.median)
        right.reference(0.5, "the source's 1/2")
        yield chart.figure(
            f"Left: samples at which a neuron's gradient points at the support half of the time (k = {settings.k}), "
            f"with 95% intervals; dashed: ∝ 1/ξ²; triangles were not reached. Right: correlation over the cube of "
            f"the network that a truncated step leaves (n = {settings.bits}), median and range of {settings.steps}.",
            tables["recoveries"],
        )


def curves_of(tables: Tables[Settings]) -> tuple[Curve, Curve]:
    """m* against n, of dense and of sparse neurons."""
    found = sample_complexities(tables["recoveries"])
    dense, sparse = (
        curve({neuron.n: m for neuron, m in found.items() if neuron.s == s}) for s in (0, tables.settings.s)
    )
    return dense, sparse


def _spread(values: list[Estimate]) -> Estimate:
    return maximum(values, nothing="no m* was measured") / minimum(values, nothing="no m* was measured")


def _subnetworks(settings: Settings) -> Iterator[dict[str, float]]:
    """One truncated step of a good neuron with each bias, on a sample of its own, and the read-out of the k of them."""
    n, k, s = settings.bits, settings.k, settings.s
    written = under_sparse(n=n, k=k, s=s)
    step, x = truncated_step(n, k, s), cube(n)
    parity = x[:, :k].prod(axis=1)
    start = GoodNeuron("under", n, k, s)
    sign = np.sign(start.signal)
    biases, out = written.parameters["b"], written.parameters["u"]
    for m in settings.samples:
        for trial in range(settings.steps):
            rows = x[np.random.default_rng((trial, m)).integers(len(x), size=m)]
            labels = rows[:, :k].prod(axis=1)
            gates = (rows @ start.weights)[:, None] + biases[None, :] > 0
            gradient = (gates * labels[:, None]).T @ rows / m  # -u times the loss's, with u = sign(ξ_rel)
            kept = np.where(np.abs(gradient) > step["cut_off"], gradient, 0.0)
            W = (1 - step["decay"]) * start.weights + step["rate"] * sign * kept
            values = np.maximum(x @ W.T + biases, 0.0) @ out + written.parameters["c"]
            yield {
                "m": m,
                "trial": trial,
                "correlation": correlation(values, range(k)),
                "wrong": float(np.mean(values * parity <= 0)),
            }


def _listed(numbers: Iterable[float]) -> str:
    return ", ".join(f"{number:g}" for number in numbers)
