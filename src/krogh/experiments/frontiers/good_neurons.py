"""The frontier that sparse starts walk along: fewer samples for luckier neurons, and more width for the luck.

For every sparsity s the width that has a good neuron with every bias, except with probability delta, and the samples
that a good neuron needs to see the support. Over-sparse starts trade m ∝ s^(k-1) against r ∝ (n/s)^k, under-sparse ones
m ∝ n^(k-s-1) against r ∝ (n/k)^s.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import polars as pl

from krogh.experiments.frontiers.neurons import GoodNeuron, NeuronSettings, recovery_table, sample_complexities
from krogh.lab import Claims, Experiment, Figure, Results, Tables, experiment, figures, need, setting
from krogh.lab.estimate import Estimate, minimum, rate
from krogh.lab.experiment import Measures
from krogh.theory.boolean.sparse_starts import (
    check_sparsity,
    good_neuron_count,
    good_neurons,
    over_sparse_start,
    under_sparse_start,
)

FEWEST = 20  # samples of a size that a verdict needs
MOST_ENTRIES = 200_000_000  # first-layer weights of the starts that are drawn for one sparsity
WORDS = {"over": "over-sparse", "under": "under-sparse"}


@dataclass(frozen=True)
class Settings(NeuronSettings):
    n: int = setting(40, "input bits of over-sparse starts, k = 2", least=3)
    over: tuple[int, ...] = setting((5, 9, 17, 33), "ones s of over-sparse starts, odd", increasing=True, fewest=2)
    bits: int = setting(21, "input bits of under-sparse starts", least=5)
    k: int = setting(4, "relevant bits of under-sparse starts, even", least=4)
    under: tuple[int, ...] = setting((0, 2), "ones s of under-sparse starts, even", increasing=True, fewest=2)
    failure: float = setting(0.05, "chance that a start lacks a good neuron of some bias", above=0, below=1)
    starts: int = setting(200, "starts drawn at the width that the formula gives", least=1)


@experiment("frontiers/good-neurons")
class GoodNeurons(Experiment[Settings]):
    """Pairs of width and samples over sparsities, and how often starts of that width are lucky."""

    title = "Sparser starts trade width against samples"
    question = "What does a sparse start cost in width for what it saves in samples?"
    source = "dissertation, Theorems 6.4 and 6.5, Lemmas C.2 and C.10"
    scales = {
        "smoke": Settings(n=12, over=(5, 9), bits=9, largest=500, trials=4, starts=4),
        "laptop": Settings(),
        "paper": Settings(over=(5, 7, 9, 13, 17, 25, 33, 39), trials=400, starts=2000, largest=5_000_000),
    }
    notes = (
        "Widths are those of the exact probability of a good neuron; the lemma's (s/2n)^k is up to 2^k too small.",
        "A pair of neurons with both signs counts as one draw.",
    )

    def check(self, settings: Settings) -> None:
        for neuron in neurons_of(settings):
            check_sparsity(neuron.n, neuron.k, neuron.s, neuron.kind)

    def measure(self, results: Results[Settings]) -> Measures:
        settings = results.settings
        return {
            "recoveries": lambda: recovery_table(neurons_of(settings), settings),
            "luck": lambda: pl.DataFrame([_luck(settings, neuron) for neuron in neurons_of(settings)]),
        }

    def claims(self, tables: Tables[Settings], say: Claims) -> None:
        settings = tables.settings
        enough = [need(settings.trials, FEWEST, "samples of each size")]
        for kind, points in frontiers_of(tables).items():
            steps = list(itertools.pairwise(points))
            growth = [_ratio(a, b) for a, b in steps]
            say(
                f"{kind}-trade",
                f"Of {WORDS[kind]} starts (s = {', '.join(str(s) for s, *_ in points)}) the wider need fewer samples, "
                "at every step.",
                minimum(growth, nothing="one sparsity"),
                "least ratio of m* from a wider start to the next narrower one",
                above=1.0,
                needs=enough,
            )
        for row in tables["luck"].iter_rows(named=True):
            lucky = rate(row["lucky"], row["starts"], sample=f"{row['kind']}, s={row['s']}")
            say(
                f"luck-{row['kind']}-s{row['s']}",
                f"A start of width {row['width']:,} (n = {row['n']}, k = {row['k']}, s = {row['s']}) has a good neuron "
                f"with every bias, but for a share of at most 2·{settings.failure:g}.",
                lucky,
                f"share of {row['starts']} starts",
                at_least=1 - 2 * settings.failure,
                source_value=f"at least {1 - settings.failure:g}",
                needs=[need(row["starts"], 100, "starts")],
            )

    def figures(self, tables: Tables[Settings]) -> Iterable[Figure]:
        chart = self.chart("good-neurons", "Width and samples of sparse starts", columns=2, width=9.4)
        colors = {"over": figures.BLUE, "under": figures.VERMILLION}
        for kind, points in frontiers_of(tables).items():
            first = points[0][1]
            where = f"{WORDS[kind]}, n = {first.n}, k = {first.k}"
            panel = chart.panel(x="width r with a good neuron of every bias", y="m* of one", title=where, log="xy")
            wide = sorted(points, key=lambda point: point[2])
            low, value, high = ([getattr(m, end) for *_, m in wide] for end in ("low", "value", "high"))
            panel.band([width for *_, width, _ in wide], low, value, high, "measured", color=colors[kind], key="legend")
            for s, _, width, m in wide:
                if np.isfinite(m.value):
                    panel.ax.annotate(
                        f"s = {s}", (width, m.value), xytext=(4, 6), textcoords="offset points", fontsize=8
                    )
            middle = wide[len(wide) // 2]
            scale_r, scale_m = (middle[2] / orders_of(middle[1])[0], middle[3].value / orders_of(middle[1])[1])
            orders = np.array([orders_of(neuron) for _, neuron, *_ in wide])
            label = "(n/s)^k, s^(k-1)" if kind == "over" else "(n/k)^s, (n/k)^(k-s-1)"
            panel.line(scale_r * orders[:, 0], scale_m * orders[:, 1], label, color=figures.MUTED, key="legend")
        yield chart.figure(
            f"For every number of ones s: the width that lacks a good neuron of some bias with probability at most "
            f"{tables.settings.failure:g}, and the samples that one good neuron needs, with 95% intervals. Dashed: the "
            "orders of the theorems, through the middle point.",
            _table(tables),
        )


Point = tuple[int, GoodNeuron, int, Estimate]


def neurons_of(settings: Settings) -> list[GoodNeuron]:
    """A good neuron of every sparsity."""
    over = [GoodNeuron("over", settings.n, 2, s) for s in settings.over]
    return over + [GoodNeuron("under", settings.bits, settings.k, s) for s in settings.under]


def frontiers_of(tables: Tables[Settings]) -> dict[str, list[Point]]:
    """By kind of start, from the widest to the narrowest: s, the neuron, the width and the samples."""
    widths = {(row["kind"], row["s"]): row["width"] for row in tables["luck"].iter_rows(named=True)}
    points = [(n.s, n, widths[n.kind, n.s], m) for n, m in sample_complexities(tables["recoveries"]).items()]
    return {kind: sorted((p for p in points if p[1].kind == kind), key=lambda p: -p[2]) for kind in ("over", "under")}


def orders_of(neuron: GoodNeuron) -> tuple[float, float]:
    """Width and samples as the theorems have them, without constants."""
    n, k, s = neuron.n, neuron.k, neuron.s
    return ((n / s) ** k, float(s) ** (k - 1)) if neuron.kind == "over" else ((n / k) ** s, (n / k) ** (k - s - 1))


def _ratio(wider: Point, narrower: Point) -> Estimate:
    return narrower[3] / wider[3]


def _luck(settings: Settings, neuron: GoodNeuron) -> dict[str, object]:
    """How many starts of the width that the formula gives have a good neuron with every bias."""
    n, k, s, kind = neuron.n, neuron.k, neuron.s, neuron.kind
    numbers = good_neuron_count(n, k, s, kind, settings.failure)
    width = int(numbers["width"])
    starts = max(1, min(settings.starts, MOST_ENTRIES // (n * width)))
    draw = over_sparse_start if kind == "over" else under_sparse_start
    lucky = sum(_complete(draw(n, k, s, width, seed), k, kind, int(numbers["biases"])) for seed in range(starts))
    cell = {"kind": kind, "n": n, "k": k, "s": s}
    return {**cell, "width": width, "probability": numbers["probability"], "lucky": lucky, "starts": starts}


def _complete(weights: dict[str, np.ndarray], k: int, kind: str, biases: int) -> bool:
    good = good_neurons(weights["W"], range(k), kind)  # type: ignore[arg-type]
    return len(np.unique(weights["b"][good])) == biases


def _table(tables: Tables[Settings]) -> pl.DataFrame:
    def rows() -> Iterator[dict[str, object]]:
        for kind, points in frontiers_of(tables).items():
            for s, neuron, width, m in points:
                cell = {"kind": kind, "n": neuron.n, "k": neuron.k, "s": s, "width": width}
                yield {**cell, "samples": m.value, "low": m.low, "high": m.high}

    return pl.DataFrame(list(rows()))
