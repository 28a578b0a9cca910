"""Proposition 6.3 executed: which parities noisy gradient descent cannot see (dissertation, sections 6.3.1 and C.2.1).

One bias-free ReLU neuron descends on the square loss to the zero target, over the whole cube. A fast Walsh–Hadamard
transform gives the correlation of every slope with every parity at once: a parity whose correlations all stay below tau
is invisible, for an adversary's noise of that size makes every iterate the one without a target.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import polars as pl

from krogh.errors import require
from krogh.lab import Claims, Experiment, Figure, Results, Tables, experiment, need, setting
from krogh.lab.estimate import exact, largest, least
from krogh.lab.experiment import Measures
from krogh.theory.boolean.fourier import fourier_coefficients
from krogh.theory.boolean.invisible import (
    MOST_BITS,
    Function,
    adversarial_descent,
    invisible_at_least,
    relu_neuron,
    subset_sizes,
    target_free_trajectory,
    uniform_start,
    visibility,
)

EXACT = 1e-12
"""Rounding of a trajectory in float64."""


@dataclass(frozen=True)
class Settings:
    n: int = setting(16, "input bits", least=2, most=MOST_BITS)
    k: int = setting(8, "relevant bits; odd ones are never seen by a neuron without bias", least=1)
    steps: int = setting(10, "gradient steps T", least=1)
    rate: float = setting(0.1, "learning rate", above=0)
    tolerances: tuple[float, ...] = setting(
        (0.005, 0.01, 0.02, 0.05, 0.15, 0.2, 0.3), "sizes tau of the noise", increasing=True, above=0
    )
    starts: int = setting(10, "random starts", least=1)
    followed: int = setting(
        20, "parities for which noisy descent is run, half of them visible where there are such", least=2
    )


@experiment("frontiers/invisible-parities")
class InvisibleParities(Experiment[Settings]):
    """The share of invisible parities against the size of the noise, and noisy descent itself."""

    title = "Noise hides almost all parities from gradient descent"
    question = "How many parities can gradient descent with bounded adversarial noise not tell from nothing at all?"
    source = "dissertation, Proposition 6.3, Lemma C.1"
    scales = {
        "smoke": Settings(n=8, k=4, steps=3, tolerances=(0.01, 0.05, 0.1, 0.9), starts=2, followed=4),
        "laptop": Settings(),
        "paper": Settings(starts=100, followed=100),
    }
    notes = (
        "The bound is vacuous where P T ≥ tau² C(n,k), which is most of what can be enumerated: at n = 16, k = 8 it "
        "begins to speak at tau = 0.15, where every parity has long been invisible.",
        "Population gradients: the assumption on samples holds with tau = 0.",
    )

    def check(self, settings: Settings) -> None:
        fits = settings.k <= settings.n
        require(fits, f"a parity of k bits needs n >= k coordinates; got n={settings.n}, k={settings.k}")

    def measure(self, results: Results[Settings]) -> Measures:
        settings = results.settings
        return {
            "shares": lambda: pl.DataFrame([row for seed in range(settings.starts) for row in _shares(settings, seed)]),
            "trajectories": lambda: pl.DataFrame(_trajectories(settings)),
        }

    def claims(self, tables: Tables[Settings], say: Claims) -> None:
        settings, shares, paths = tables.settings, tables["shares"], tables["trajectories"]
        parities = math.comb(settings.n, settings.k)
        where = f"n = {settings.n}, k = {settings.k}, T = {settings.steps}, {settings.starts} starts"
        say(
            "bound",
            f"At every size of the noise at least 1 - PT/(tau² C(n,k)) of all parities are invisible ({where}).",
            least(shares["invisible"] - shares["at_least"], trials=settings.starts),
            "least (invisible share - bound) over tolerances and starts",
            at_least=0.0,
        )
        told = shares.filter(pl.col("at_least") > 0)
        say(
            "bound-slack",
            f"Where the bound says something, all {parities} parities are invisible ({where}).",
            least(told["invisible"], trials=settings.starts),
            "least invisible share where the bound is positive",
            at_least=1.0,
            source_value="no experiment",
            needs=[need(len(told), 1, "tolerances at which the bound is positive")],
        )
        rises = [
            float(np.diff(own.sort("tolerance")["invisible"].to_numpy()).min(initial=0.0))
            for (_,), own in shares.group_by(["seed"], maintain_order=True)
        ]
        say(
            "monotone",
            "The share of invisible parities does not fall as the noise grows.",
            least(rises, trials=settings.starts),
            "least rise from one tolerance to the next",
            at_least=0.0,
        )
        say(
            "lemma",
            "The squared correlations of one slope with all k-parities sum to at most 1.",
            largest(shares["lemma_sum"], trials=settings.starts),
            "largest sum over slopes, steps and starts",
            at_most=1.0,
            source_value="mean over S at most 1/C(n,k)",
        )
        hidden, seen = paths.filter(pl.col("invisible")), paths.filter(~pl.col("invisible"))
        say(
            "same-trajectory",
            f"Noisy descent on an invisible parity follows the target-free trajectory ({len(hidden)} parities).",
            largest(hidden["distance"]),
            "largest distance of an iterate from the target-free one",
            at_most=EXACT,
            needs=[need(len(hidden), 1, "invisible parities")],
        )
        say(
            "other-trajectory",
            f"Noisy descent on a visible parity leaves it ({len(seen)} parities).",
            least(seen["distance"]) if len(seen) else exact(math.nan),
            "least distance from the target-free trajectory",
            above=EXACT,
            needs=[need(len(seen), 1, "visible parities")],
        )

    def figures(self, tables: Tables[Settings]) -> Iterable[Figure]:
        settings, shares = tables.settings, tables["shares"]
        chart = self.chart("invisible-parities", "Parities that noise hides from one neuron")
        panel = chart.panel(x="size of the noise τ", y="share of parities that are invisible", log="x")
        panel.ranges(shares, "tolerance", "invisible", "measured")
        bounds = shares.group_by("tolerance").agg(pl.col("at_least").first()).sort("tolerance")
        told = bounds.filter(pl.col("at_least") > 0)
        if len(told):
            panel.line(told["tolerance"], told["at_least"], "1 - P T / (τ² C(n,k))", style="--")
        panel.axes(ylim=(0, 1.03))
        yield chart.figure(
            f"Of the {math.comb(settings.n, settings.k):,} parities of {settings.k} of {settings.n} bits, the share "
            f"that correlates by at most tau with every slope of a ReLU neuron along {settings.steps} target-free "
            f"steps; mean and range over {settings.starts} starts. Dashed: the bound, where it is positive.",
            shares,
        )


def _shares(settings: Settings, seed: int) -> Iterable[dict[str, float]]:
    n, k = settings.n, settings.k
    function = relu_neuron(n)
    path = target_free_trajectory(function, uniform_start(n, seed), settings.rate, settings.steps)
    chosen = subset_sizes(n) == k
    signals, sums = _signals(function, path[:-1], chosen)
    for tolerance in settings.tolerances:
        yield {
            "seed": seed,
            "tolerance": tolerance,
            "invisible": float(np.mean(signals <= tolerance)),
            "at_least": invisible_at_least(n, settings.steps, tolerance, n, k),
            "largest": float(signals.max()),
            "lemma_sum": sums,
        }


def _signals(function: Function, path: np.ndarray, chosen: np.ndarray) -> tuple[np.ndarray, float]:
    """D_S of the chosen parities, and the largest sum over them of squared correlations with one slope."""
    signals, sums = np.zeros(int(chosen.sum())), 0.0
    for theta in path:
        spectrum = fourier_coefficients(function(theta)[1])[:, chosen]
        signals = np.maximum(signals, np.abs(spectrum).max(axis=0))
        sums = max(sums, float((spectrum**2).sum(axis=1).max()))
    return signals, sums


def _trajectories(settings: Settings) -> list[dict[str, object]]:
    """Noisy descent on the most visible parities and on some invisible ones, at noise of half the largest signal."""
    n, function = settings.n, relu_neuron(settings.n)
    start = uniform_start(n, 0)
    path = target_free_trajectory(function, start, settings.rate, settings.steps)
    seen = visibility(function, path[:-1])
    masks = np.flatnonzero(subset_sizes(n) == settings.k)
    order = masks[np.argsort(-seen[masks], kind="stable")]
    tolerance, half = float(seen[order[0]]) / 2, settings.followed // 2
    visible, hidden = order[seen[order] > tolerance], order[seen[order] <= tolerance]
    spread = hidden[np.linspace(0, len(hidden) - 1, settings.followed - half).astype(int)] if len(hidden) else hidden
    rows = []
    for mask in dict.fromkeys([*visible[:half].tolist(), *spread.tolist()]):
        support = [i for i in range(n) if mask >> i & 1]
        own = adversarial_descent(function, start, support, settings.rate, settings.steps, tolerance)
        rows.append(
            {
                "support": ",".join(map(str, support)),
                "signal": float(seen[mask]),
                "tolerance": tolerance,
                "invisible": bool(seen[mask] <= tolerance),
                "distance": float(np.abs(own - path).max()),
            }
        )
    return rows
