"""Figures B.7 and B.8: the Fourier gap of a neuron's population gradient, at random weights and along training.

g = E[y x σ'(w·x + b)] points at the support where its largest entry lies there: Γ = max_{i in S} |g_i| − max_{i not in
S} |g_i| > 0, the relaxed gap of §B.3.1 (Definition 5.4 has the min in place of the first max). All gradients are means
over the whole cube. At sign weights a ReLU has half of majority's gap; random weights are held against that. Along SGD
the gap of a sine neuron is positive at the start, and grows.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import polars as pl

from krogh.engine import Trial, Trials, sweep
from krogh.errors import require
from krogh.experiments.parity.common import CHECK_EVERY, OnlineSettings
from krogh.lab import Claims, Experiment, Figure, Results, Tables, experiment, figures, groups, need, setting
from krogh.lab.estimate import median, share_of
from krogh.lab.experiment import Measures
from krogh.models import Neuron
from krogh.tasks import Parity
from krogh.theory.boolean.fourier import LARGEST_N, fourier_gap, heaviside, population_gradient, relaxed_gap
from krogh.theory.boolean.majority import relu_gap
from krogh.training import Sgd

LAWS = ("uniform", "gaussian")
SLOPES: dict[str, Callable[[np.ndarray], np.ndarray]] = {"relu": heaviside, "sine": np.sin}
"""σ' of each activation: of the sine with the shift β = π(1-k)/2, for even k, ±sin (Figure B.8 left)."""
SHARE = 0.25  # of random weights with a gap as large as at sign weights: "non-negligible"


@dataclass(frozen=True)
class Settings(OnlineSettings):
    n: int = setting(15, "input bits of the random weights; odd", least=3, most=LARGEST_N)
    ks: tuple[int, ...] = setting((2, 4, 6), "relevant bits", distinct=True, least=1)
    draws: int = setting(4000, "random weights for each law and activation", least=1)
    path_n: int = setting(14, "input bits along SGD", least=2, most=20)
    path_ks: tuple[int, ...] = setting((3, 4), "relevant bits along SGD", distinct=True, least=1)
    paths: int = setting(100, "networks along SGD", least=1)
    looks: int = setting(161, "snapshots of a path", least=2)
    span: int = setting(8000, "steps of a path", least=1)
    rate: float = setting(0.01, "learning rate along SGD", least=0)
    batch_size: int = setting(32, "fresh examples per step", least=1)

    @property
    def steps(self) -> tuple[int, ...]:
        """The steps of the snapshots."""
        marks = np.linspace(0, self.span, self.looks)
        return tuple(sorted({int(CHECK_EVERY * round(mark / CHECK_EVERY)) for mark in marks}))


@experiment("parity/fourier-gaps")
class FourierGaps(Experiment[Settings]):
    """Gaps at random weights beside majority's, and along SGD paths of a sine neuron."""

    title = "Random neurons point at the support, and training makes them point better"
    question = "Does the population gradient of a neuron single out relevant coordinates, at random weights and later?"
    source = "dissertation, §B.3.1, Figures B.7 and B.8"
    scales = {
        "smoke": Settings(n=9, ks=(2, 4), draws=40, path_n=8, path_ks=(2,), paths=3, looks=6, span=200, budget=200),
        "laptop": Settings(draws=1000, paths=20, budget=8000),
        "paper": Settings(budget=8000),
    }
    notes = (
        "Weights of the law 'uniform' are U[-1, 1], of 'gaussian' N(0, 1), both divided by √n, which no gap of a ReLU "
        "notices. Without biases a ReLU's gap is 0 for odd k. The sine has the shift that its solution needs: "
        "for even k its slope is ±sin(w·x), and the slope cos of an unshifted one has no gap at all.",
        "Along SGD paths the neuron is (xiv), whose shift serves odd k too.",
    )
    keep_weights = True

    def check(self, settings: Settings) -> None:
        require(settings.n % 2 == 1, f"majority needs an odd n; got n={settings.n}")
        for n, ks in ((settings.n, settings.ks), (settings.path_n, settings.path_ks)):
            require(max(ks) < n, f"every k must be less than n={n}; got k={max(ks)}")
        odd = [k for k in settings.ks if k % 2]
        require(not odd, f"a ReLU without bias has a gap only for even k; got k={odd}")
        whole = settings.span % CHECK_EVERY == 0 and settings.span <= settings.budget
        require(whole, f"span must be a multiple of {CHECK_EVERY}, within the budget; got span={settings.span}")

    def trials(self, settings: Settings) -> Iterator[Trials]:
        training = settings.training(Sgd(settings.rate), settings.batch_size)
        for k in settings.path_ks:
            neuron = Neuron("sine", k, output_weight=False)
            trial = Trial(Parity(settings.path_n, k), neuron, training, snapshots=settings.steps)
            yield from sweep(trial, seed=range(settings.paths))

    def measure(self, results: Results[Settings]) -> Measures:
        settings = results.settings
        return {
            "random": lambda: _random_gaps(settings),
            "paths": lambda: _path_gaps(results),
        }

    def claims(self, tables: Tables[Settings], say: Claims) -> None:
        settings = tables.settings
        drawn = say.about(needs=[need(settings.draws, 200, "random weights")])
        for (activation, law, k), rows in groups(tables["random"], ("activation", "weights", "k")).items():
            gaps, sample = rows["relaxed"].to_numpy(), f"{activation} {law} {k}"
            about = drawn.about(f"{activation}-{law}-k{k}-", f"{activation}, {law} weights, k = {k}: ")
            if activation == "relu":
                half = relu_gap(settings.n, k)
                about(
                    "like-majority",
                    f"a good share of random weights has at least the gap {half:.3g} of sign weights.",
                    share_of(gaps >= half, sample=sample),
                    "Pr[Γ ≥ half of majority's gap]",
                    at_least=SHARE,
                    source_value="comparable with majority with non-negligible probability",
                )
            about(
                "positive",
                "most random weights have a positive gap.",
                share_of(gaps > 0, sample=sample),
                "Pr[Γ > 0]",
                above=0.5,
                source_value="positive and comparable (sine); non-negligible (ReLU)",
            )
        for k, rows in groups(tables["paths"], "k").items():
            first = np.array([own["gap"][0] for own in groups(rows, "seed").values()])
            most = np.array([own["gap"].max() for own in groups(rows, "seed").values()])
            along = say.about(f"path-k{k}-", f"Sine neuron, k = {k}: ", needs=[need(len(first), 10, "paths along SGD")])
            along(
                "grows",
                "the gap grows in training.",
                share_of(most > np.maximum(first, 0) * 1.5, sample=f"path {k}"),
                "share of paths whose largest gap exceeds 1.5 times the first",
                at_least=0.8,
                source_value="growing in training, in 10 paths",
            )
            along(
                "starts-positive",
                "the gap is positive at the start.",
                share_of(first > 0, sample=f"path {k}"),
                "share of paths with Γ > 0 at step 0",
                above=0.5,
                source_value="positive at initialisation",
            )
            along(
                "factor",
                "the median path multiplies its gap.",
                median(
                    most[first > 0] / first[first > 0], lowest=0.0, sample=f"path {k}", nothing="no gap is positive"
                ),
                "median of max_t Γ / Γ at 0, over paths that start positive",
                at_least=2.0,
                source_value="no number stated",
            )

    def figures(self, tables: Tables[Settings]) -> Iterable[Figure]:
        settings = tables.settings
        by_cell = groups(tables["random"], ("activation", "weights", "k"))
        chart = self.chart(
            "random-weights", "Gaps at random weights", columns=len(settings.ks), height=3.4, sharey=True
        )
        for k in settings.ks:
            panel = chart.panel(title=f"k = {k}", x="relaxed gap Γ", y="share of weights with a smaller gap")
            for activation, law in itertools.product(SLOPES, LAWS):
                gaps = np.sort(by_cell[activation, law, k]["relaxed"].to_numpy())
                shares = (np.arange(len(gaps)) + 1) / len(gaps)
                panel.line(gaps, shares, f"{activation}, {law}", style="-", key="legend")
            panel.reference(relu_gap(settings.n, k), "sign weights", axis="x")
        yield chart.figure(
            f"Distribution functions of Γ over {settings.draws:,} random weights, n = {settings.n}, exact by "
            "enumeration; dashed: half of majority's gap, which a ReLU has at sign weights.",
            tables["random"]
            .group_by("activation", "weights", "k")
            .agg(*(pl.col("relaxed").quantile(q).alias(f"q{q:g}") for q in (0.05, 0.25, 0.5, 0.75, 0.95)))
            .sort("activation", "weights", "k"),
        )
        paths = self.chart("paths", "Gaps along SGD", columns=len(settings.path_ks), height=3.4)
        for k, rows in groups(tables["paths"], "k").items():
            panel = paths.panel(title=f"k = {k}", x="steps", y="relaxed gap Γ")
            for own in groups(rows, "seed").values():
                panel.line(own["step"], own["gap"], style="-", width=0.7, color=figures.BLUE, key="", alpha=0.6)
        yield paths.figure(
            f"Γ of a sine neuron along {settings.paths} SGD paths, n = {settings.path_n}, batch {settings.batch_size}, "
            f"rate {settings.rate:g}, until every validation example is right.",
            tables["paths"],
        )


def _random_gaps(settings: Settings) -> pl.DataFrame:
    rows = []
    for place, (activation, law, k) in enumerate(itertools.product(SLOPES, LAWS, settings.ks)):
        rng, shape = np.random.default_rng(place), (settings.draws, settings.n)
        drawn = rng.uniform(-1, 1, shape) if law == "uniform" else rng.standard_normal(shape)
        gradients = [population_gradient(w, range(k), SLOPES[activation]) for w in drawn / math.sqrt(settings.n)]
        head = {"activation": activation, "weights": law, "k": k}
        strict, relaxed = ([of(g, range(k)) for g in gradients] for of in (fourier_gap, relaxed_gap))
        rows.append(pl.DataFrame(head | {"gap": strict, "relaxed": relaxed}))
    return pl.concat(rows)


def _path_gaps(results: Results[Settings]) -> pl.DataFrame:
    rows = []
    for network in results.networks():
        task, neuron = network.trial.task, network.trial.model
        assert isinstance(task, Parity) and isinstance(neuron, Neuron)
        steps = [step for step in network.trial.snapshots if step <= network.row["steps"]]
        for step in steps:
            weights = network.at(step)
            gap = sine_gap(weights["w"], float(weights["b"]), task.k, np.asarray(task.support))
            rows.append({"k": task.k, "seed": network.seed, "step": step, "gap": gap})
    return pl.DataFrame(rows)


def sine_gap(w: np.ndarray, b: float, k: int, support: np.ndarray) -> float:
    """Γ of a neuron sin(π(w·x + b)/2 + π(1-k)/2)."""
    slope = lambda z: np.pi / 2 * np.cos(np.pi / 2 * z + np.pi / 2 * (1 - k))  # noqa: E731
    return relaxed_gap(population_gradient(w, support.tolist(), slope, bias=b), support.tolist())
