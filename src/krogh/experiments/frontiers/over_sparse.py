"""Theorem 6.4 executed: how many samples an over-sparse neuron needs, and two-phase descent from an over-sparse start.

Left of the theorem: one good neuron with s ones sees the support once m C² is large, C = C_{k,s} the relevant entry of
its population gradient, so that m* grows as s^(k-1). Right of it: a whole network of such neurons, good and bad, takes
one step of its first layer on m samples, and a read-out of what that leaves is fitted by the hinge loss.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import polars as pl

from krogh.engine import Given, Trial, Trials, stack
from krogh.engine.phases import top_layer
from krogh.experiments.frontiers.neurons import GoodNeuron, NeuronSettings, recovery_table, sample_complexities
from krogh.lab import Claims, Experiment, Figure, Results, Tables, experiment, figures, need, setting
from krogh.lab.curves import Curve, curve, curves
from krogh.lab.estimate import Estimate, largest, least, maximum, median, minimum, rate
from krogh.lab.experiment import Measures
from krogh.lab.fits import power_law
from krogh.models import Mlp
from krogh.tasks import Parity
from krogh.theory.boolean.sparse_starts import (
    check_sparsity,
    good_neurons,
    over_sparse_neuron,
    over_sparse_read_out,
    over_sparse_start,
)
from krogh.training import Adam, Cosine, FullBatch, Sgd, Stopping, Training

PRINTED = 1 / 16
"""The offset of the biases in the source; the read-out it needs has a large norm."""
FEWEST = 20  # samples of a size that a verdict needs


@dataclass(frozen=True)
class Settings(NeuronSettings):
    n: int = setting(40, "input bits of the single neuron", least=3)
    two: tuple[int, ...] = setting((5, 9, 17, 33), "numbers of ones s, for k = 2", increasing=True)
    four: tuple[int, ...] = setting(
        (5, 9, 13, 17), "numbers of ones s, for k = 4; below 2k none sees S", increasing=True
    )
    bits: int = setting(30, "input bits of the network, k = 2", least=3)
    ones: int = setting(9, "ones in a row of the network", least=3)
    width: int = setting(200, "neurons of the network", least=2)
    offsets: tuple[float, ...] = setting((5 / 8, PRINTED), "offsets of the biases", distinct=True, above=0, most=0.75)
    samples: tuple[int, ...] = setting((300, 1000, 3000, 10_000, 100_000), "samples of the step", increasing=True)
    rows: int = setting(4000, "samples of these, at most, that the read-out is fitted on", least=1)
    fit_steps: int = setting(1500, "steps of fitting the read-out", least=1)
    test: int = setting(10_000, "fresh inputs for the test error", least=1)
    seeds: int = setting(10, "networks per size and offset", least=1)


@experiment("frontiers/over-sparse")
class OverSparse(Experiment[Settings]):
    """m* of good over-sparse neurons against s, and the error of two-phase descent against m."""

    title = "Over-sparse neurons see a parity with about 1/C² samples, and a read-out finishes"
    question = (
        "How many samples does an over-sparse start need to find a parity's support, and does a read-out then work?"
    )
    source = "dissertation, Theorem 6.4, Lemmas C.3 to C.6"
    scales = {
        "smoke": Settings(
            n=12,
            two=(5, 7),
            four=(5, 9),
            largest=1000,
            trials=4,
            bits=10,
            ones=5,
            width=20,
            samples=(100, 300),
            rows=100,
            fit_steps=10,
            test=200,
            seeds=1,
        ),
        "laptop": Settings(),
        "paper": Settings(
            largest=8_000_000,
            trials=60,
            four=(5, 9, 13, 17, 25, 33),
            samples=(300, 1000, 3000, 10_000, 30_000, 100_000, 300_000),
            seeds=20,
        ),
    }
    keep_weights = True
    notes = (
        "Biases are those of the repaired grid, whose read-out exists; with the source's offset 1/16 its norm is ten "
        "times that of the offset 5/8 (k = 2), and a fit of finitely many steps is worse.",
        "The read-out is fitted by Adam on the hinge loss, first layer frozen; the theorem's schedule is 1/(λt).",
        "A neuron is dead where it is 0 for every input, ‖w‖₁ + b ≤ 0. Neurons that miss one relevant coordinate have "
        "1/(2k) left there, of a bias of -(2 - offset)/(2k): a larger offset leaves less room for noise.",
        "Near s = 2k irrelevant coordinates are nearly as large as relevant ones, |c/C| = (k-1)/(s-k), which costs "
        "samples beyond 1/C² and makes m* flatter in s than s^(k-1).",
    )

    def check(self, settings: Settings) -> None:
        for k, sparsities in ((2, settings.two), (4, settings.four)):
            for s in sparsities:
                check_sparsity(settings.n, k, s, "over")
        check_sparsity(settings.bits, 2, settings.ones, "over")
        over_sparse_start(settings.bits, 2, settings.ones, settings.width)

    def trials(self, settings: Settings) -> Iterator[Trials]:
        for offset in settings.offsets:
            parents = [network(settings, offset, m, seed) for m in settings.samples for seed in range(settings.seeds)]
            for cohort in stack(parents):
                yield cohort.labelled(phase="features", offset=offset)
            for cohort in stack(read_out(settings, parent) for parent in parents):
                yield cohort.labelled(phase="read-out", offset=offset)

    def measure(self, results: Results[Settings]) -> Measures:
        settings = results.settings
        return {
            "recoveries": lambda: recovery_table(neurons_of(settings), settings),
            "networks": lambda: pl.DataFrame(_networks(results)),
        }

    def claims(self, tables: Tables[Settings], say: Claims) -> None:
        settings = tables.settings
        enough = [need(settings.trials, FEWEST, "samples of each size")]
        sizes = sample_complexities(tables["recoveries"])
        for k in (2, 4):
            seeing = {neuron: m for neuron, m in sizes.items() if neuron.k == k and neuron.s >= 2 * k}
            scaled = [m * neuron.signal**2 for neuron, m in seeing.items()]
            say(
                f"constant-k{k}",
                f"k = {k}: m* C² is constant within a factor 3 (s = {_listed(n.s for n in seeing)}).",
                maximum(scaled, nothing="no neuron") / minimum(scaled, nothing="no neuron"),
                "largest m* C² / least",
                at_most=3.0,
                source_value="m ∝ 1/C² up to logarithms; no experiment",
                needs=[*enough, need(len(seeing), 3, "sparsities s ≥ 2k")],
            )
            fit = power_law(curve({neuron.s: m for neuron, m in seeing.items()}))
            say(
                f"slope-k{k}",
                f"k = {k}: m* grows as s^{k - 1} (s = {_listed(n.s for n in seeing)}).",
                abs(fit.exponent - (k - 1)),
                f"|slope of log m* on log s - {k - 1}|",
                at_most=0.5,
                source_value=f"(s/k)^{k - 1}",
                needs=[*enough, need(len(seeing), 3, "sparsities s ≥ 2k")],
            )
            for neuron in [neuron for neuron in sizes if neuron.k == k and neuron.s < 2 * k]:
                rows = tables["recoveries"].filter(k=k, s=neuron.s)
                m, hits, trials = rows.sort("m").select("m", "successes", "trials").row(-1)
                say(
                    f"blind-k{k}-s{neuron.s}",
                    f"k = {k}, s = {neuron.s} < 2k: no sample shows the support, for other coordinates are larger.",
                    rate(hits, trials, sample=f"{neuron}, {m}"),
                    f"share of samples that recover it at m = {m}",
                    at_most=0.25,
                    needs=enough,
                )
        self._network_claims(tables, say)

    def _network_claims(self, tables: Tables[Settings], say: Claims) -> None:
        settings, networks = tables.settings, tables["networks"]
        few = need(settings.seeds, 6, "networks per size")
        where = f"n = {settings.bits}, k = 2, s = {settings.ones}, width {settings.width}"
        best, most = max(settings.offsets), settings.samples[-1]
        errors = errors_of(tables)
        tried = [m for m in settings.samples if m >= 3000]
        say(
            "learns",
            f"A step on 3000 samples and a read-out learn the parity ({where}, offset {best:g}).",
            errors[best].at(tried[0] if tried else most),
            "median test error at m = 3000",
            at_most=0.01,
            source_value="no experiment",
            needs=[few, need(len(tried), 1, "sample sizes from 3000 on")],
        )
        for offset in settings.offsets:
            own = networks.filter(offset=offset, m=most)
            say(
                f"dead-{_name(offset)}",
                f"After a step on {most:,} samples every bad neuron is 0 for all inputs ({where}, offset {offset:g}).",
                least(own["dead"]),
                "least share of dead neurons among the bad ones of a network",
                at_least=1.0,
                source_value="1 (Lemma C.6)",
                needs=[need(most, 100_000, "samples"), few],
            )
            say(
                f"features-{_name(offset)}",
                f"Good neurons have weights ±1/(2k) on the support after {most:,} samples (offset {offset:g}).",
                largest(own["feature_error"]),
                "largest relative error of a relevant weight of a good neuron",
                at_most=0.1,
                needs=[need(most, 100_000, "samples")],
            )
        if len(settings.offsets) > 1:
            low, high = min(settings.offsets), max(settings.offsets)
            norms = [float(np.linalg.norm(over_sparse_read_out(2, offset))) for offset in (low, high)]
            say(
                "conditioning",
                f"The read-out of offset {low:g}, of norm {norms[0]:.0f} instead of {norms[1]:.0f}, errs more.",
                errors[low].at(most) - errors[high].at(most),
                f"difference of median test errors at m = {most:,}",
                above=0.0,
                source_value="no experiment",
                needs=[few],
            )

    def figures(self, tables: Tables[Settings]) -> Iterable[Figure]:
        settings = tables.settings
        sizes = sample_complexities(tables["recoveries"])
        chart = self.chart("over-sparse", "Samples that over-sparse neurons and networks need", columns=3, width=13.0)
        left = chart.panel(x="ones s", y="m* of one good neuron", title="what a neuron needs", log="xy")
        for k, color in ((2, figures.BLUE), (4, figures.VERMILLION)):
            own = {neuron: m for neuron, m in sizes.items() if neuron.k == k and neuron.s >= 2 * k}
            if own:
                left.curve(curve({neuron.s: m for neuron, m in own.items()}), f"k = {k}", color=color)
                middle = float(np.median([m.value * neuron.signal**2 for neuron, m in own.items()]))
                lines = [middle / neuron.signal**2 for neuron in own]
                left.line([neuron.s for neuron in own], lines, "", color=color)
        errors = chart.panel(x="samples m of the step", y="test error", title="two-phase descent", log="xy")
        dead = chart.panel(
            x="samples m of the step", y="bad neurons that are dead", title="pruned by the step", log="x"
        )
        for offset, error in errors_of(tables).items():
            errors.curve(error, f"offset {offset:g}")
            dead.ranges(tables["networks"].filter(offset=offset), "m", "dead", f"offset {offset:g}")
        dead.axes(ylim=(-0.03, 1.05))
        yield chart.figure(
            f"Left: samples at which a good neuron's gradient points at S half of the time (n = {settings.n}, "
            f"{settings.trials} samples of a size), with 95% intervals; dashed: ∝ 1/C². Middle: median test error over "
            f"{settings.seeds} networks of width {settings.width} (n = {settings.bits}, k = 2, s = {settings.ones}). "
            "Right: the share of bad neurons that one step leaves 0 for every input, mean and range.",
            tables["recoveries"],
        )


def neurons_of(settings: Settings) -> list[GoodNeuron]:
    """The good neurons whose sample complexity is measured."""
    return [GoodNeuron("over", settings.n, k, s) for k, own in ((2, settings.two), (4, settings.four)) for s in own]


def network(settings: Settings, offset: float, m: int, seed: int) -> Trial:
    """The first phase: one step of the first layer, from an over-sparse start, that forgets where it began."""
    start = over_sparse_start(settings.bits, 2, settings.ones, settings.width, seed, offset)
    step = 1 / (4 * abs(over_sparse_neuron(settings.bits, 2, settings.ones)["relevant"]))
    optimiser = Sgd(0.0, layer_rate={"W": step}, layer_decay={"W": 1.0})
    stopping = Stopping(budget=1, check_every=1, validation=1, early=False)
    training = Training(optimiser, FullBatch(m), stopping, frozen=("b", "u", "c"))
    model = Mlp(settings.width, output_bias=True)
    return Trial(Parity(settings.bits, 2), model, training, seed=seed, start=Given(start))


def read_out(settings: Settings, parent: Trial) -> Trial:
    """The second phase: the second layer alone, by the hinge loss on the first of the parent's samples."""
    regime, steps = parent.training.regime, settings.fit_steps
    rows = min(int(regime.m), settings.rows)  # type: ignore[attr-defined]
    stopping = Stopping(budget=steps, check_every=steps, validation=settings.test, early=False)
    return top_layer(parent, Training(Adam(0.3, schedule=Cosine(steps)), FullBatch(rows), stopping))


def errors_of(tables: Tables[Settings]) -> dict[float, Curve]:
    """{offset: the median test error against m}."""
    rows = (
        tables["trials"]
        .filter(phase="read-out")
        .join(tables["networks"].select("id", "m"), left_on="start.parent", right_on="id")
    )
    return curves(rows, by="offset", x="m", y="error", statistic=_median_share)


def _median_share(values: object, sample: str) -> Estimate:
    return median(values, lowest=0.0, highest=1.0, sample=sample)  # type: ignore[arg-type]


def _networks(results: Results[Settings]) -> Iterator[dict[str, object]]:
    """What the step made of the good and of the bad neurons of every network."""
    for found in results.networks(phase="features"):
        assert found.final is not None
        W, b = found.final["W"].astype(np.float64), found.initial["b"].astype(np.float64)
        good = good_neurons(found.initial["W"], range(2), "over")
        dead = np.abs(W).sum(axis=1) + b <= 0
        relevant = np.abs(W[good][:, :2]) * 4
        yield {
            "id": found.row["id"],
            "offset": found.row["offset"],
            "m": int(found.trial.training.regime.m),  # type: ignore[attr-defined]
            "seed": found.seed,
            "good": int(good.sum()),
            "dead": float(dead[~good].mean()),
            "feature_error": float(np.abs(relevant - 1).max(initial=0.0)),
        }


def _listed(numbers: Iterable[int]) -> str:
    return ", ".join(map(str, numbers))


def _name(offset: float) -> str:
    return f"{offset:g}".replace(".", "-")
