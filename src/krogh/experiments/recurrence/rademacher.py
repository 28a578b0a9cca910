"""Lemma D.4: how far training and test averages are apart, and what the Rademacher complexity allows.

A network is trained on N sequences; beside it the *linearised* network, its first-order expansion at the same initial
weights, is fitted to the same sequences by ridge regression with the tangent kernel. The complexity of all linearised
networks whose shift is at most as large as the largest one that was fitted bounds the gap of each of them, in the mean
over samples, by 2R. Losses are |y - f|, which is 1-Lipschitz.

Ridge regression goes to the end, training stops after as many steps for every N. What that alone does is seen in the
linearised network under gradient flow, stopped after the same time.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import polars as pl

from krogh.engine import Trials, stack
from krogh.engine.trial import DATA
from krogh.experiments.recurrence.common import FEWEST_SEEDS, weights_of
from krogh.experiments.recurrence.whole import NO_EXPERIMENTS, PRESET, RNN_PAPER, WholeSettings
from krogh.lab import (
    Claims,
    Curve,
    Experiment,
    Figure,
    Results,
    Tables,
    experiment,
    exponent,
    figures,
    groups,
    maximum,
    mean,
    need,
    setting,
)
from krogh.lab.curves import curve
from krogh.lab.experiment import Measures
from krogh.lab.results import Network
from krogh.networks.recurrence.kernel import kernel_between
from krogh.networks.recurrence.rademacher import rademacher
from krogh.networks.recurrence.random_network import RandomRnn
from krogh.training import Offline
from krogh.training.recurrence import BATCH

TRAINED = ("A", "W")
SLOPES = (-0.75, -0.25)
"""What counts as N^-1/2."""
DECISIVE = {"width": 200, "sizes": 4}


@dataclass(frozen=True)
class Settings(WholeSettings):
    width: int = setting(200, "hidden units m", least=1)
    eps_x: float = setting(1.0, "the size of tokens", above=0, most=1)
    sizes: tuple[int, ...] = setting((50, 125, 320, 800, 2000), "training sequences N", increasing=True, least=2)
    ridge: float = setting(1e-3, "ridge of the linearised network, in units of the kernel's mean diagonal", above=0)
    draws: int = setting(100, "random signs over which the complexity is averaged", least=1)


@experiment("recurrence/rademacher")
class Rademacher(Experiment[Settings]):
    """Gaps between training and test losses against the number of training sequences, and 2R."""

    title = "Gaps between training and test, and what the Rademacher complexity allows"
    question = "Does the Rademacher complexity of the linearised network bound its gap, and do gaps fall like N^-1/2?"
    source = f"{RNN_PAPER}, Lemma D.4 and Facts A.7-A.8"
    scales = {
        "smoke": Settings(width=8, sizes=(8, 16), steps=40, look_every=20, validation=64, seeds=2, draws=5),
        "laptop": Settings(steps=4_000, look_every=500, validation=1024),
        "paper": Settings(width=1000, sizes=(50, 125, 320, 800, 2000, 5000), steps=20_000, seeds=10, look_every=500),
    }
    notes = (
        NO_EXPERIMENTS,
        PRESET,
        "2R bounds the mean of the largest gap in the ball, over samples; the ball's radius is the largest shift that "
        "ridge regression found at any N, so that all fitted networks are in it. It says nothing of the trained "
        "network, which is no linear function of its weights.",
        "All networks have the same number of steps: those with few sequences fit them, those with many do not yet, so "
        "that the gap of trained networks falls with N for a second reason. The linearised network under gradient "
        "flow, stopped after the same time, shows it by itself.",
    )
    keep_weights = True

    def check(self, settings: Settings) -> None:
        settings.check_looks()

    def trials(self, settings: Settings) -> Iterator[Trials]:
        options = {"eps_x": settings.eps_x}
        yield from stack(
            settings.network(settings.task(seed, **options), settings.width, seed, regime=Offline(size, BATCH))
            for size in settings.sizes
            for seed in range(settings.seeds)
        )

    def measure(self, results: Results[Settings]) -> Measures:
        return {"gaps": lambda: gap_table(results)}

    def claims(self, tables: Tables[Settings], say: Claims) -> None:
        settings, rows = tables.settings, tables["gaps"]
        say = say.about(
            needs=[
                need(settings.seeds, FEWEST_SEEDS, "seeds per size"),
                need(settings.width, DECISIVE["width"], "hidden units"),
                need(len(settings.sizes), DECISIVE["sizes"], "sizes"),
            ]
        )
        cells = groups(rows, "samples")
        ratios = [
            mean((own["linear_gap"] / (2 * own["rademacher"])).to_numpy(), sample=f"N={size}")
            for size, own in cells.items()
        ]
        say("bounded", "2R bounds the gap of the linearised network at every N.", maximum(ratios),
            "the largest over N of the mean gap / 2R", at_most=1.0)  # fmt: skip
        for name, who in (("linear_gap", "linearised"), ("gap", "trained")):
            say(f"{who}-falls", f"The gap of the {who} network falls about like N^-1/2.",
                exponent(mean_curve(rows, name)), "slope of the logarithm of the mean gap on ln N", between=SLOPES,
                source_value="-1/2")  # fmt: skip

    def figures(self, tables: Tables[Settings]) -> Iterator[Figure]:
        settings, rows = tables.settings, tables["gaps"]
        chart = self.chart("gaps", self.title, width=6.8, height=4.4)
        panel = chart.panel(x="training sequences N", y="mean |y - f|, test minus training", log="xy",
                            xticks=settings.sizes)  # fmt: skip
        for name, label, color in (
            ("gap", "trained network", figures.BLUE),
            ("linear_gap", "linearised, fitted to the end", figures.ORANGE),
            ("flow_gap", "linearised, stopped as the trained", figures.PURPLE),
        ):
            panel.curve(mean_curve(rows, name), label, color=color, key="legend")
        allowed = mean_curve(rows.with_columns(allowed=2 * pl.col("rademacher")), "allowed")
        panel.curve(allowed, "2R of the linearised", color=figures.GREEN, key="legend")
        sizes = np.array(settings.sizes, float)
        start = float(mean_curve(rows, "gap").value[0])
        panel.line(sizes, start * (sizes / sizes[0]) ** -0.5, "∝ N^-1/2", color=figures.MUTED, style=":", key="legend")
        panel.legend(loc="best")
        yield chart.figure(
            f"Means over {settings.seeds} targets (⟨w, x⟩)² with 95% intervals; m = {settings.width}, "
            f"L = {settings.length}, {settings.steps:,} steps. 2R: twice the empirical Rademacher complexity of the "
            "ball of linearised networks that holds every fitted one.",
        )


def mean_curve(rows: pl.DataFrame, column: str) -> Curve:
    """Means over seeds at every N."""
    cells = groups(rows, "samples")
    return curve({size: mean(own[column].to_numpy(), sample=f"N={size}") for size, own in cells.items()})


def gap_table(results: Results[Settings]) -> pl.DataFrame:
    """A row per seed and N: training and test losses of the trained and of the linearised network, norm and R."""
    settings = results.settings
    by_seed: dict[int, list[Network]] = {}
    for network in results.networks():
        by_seed.setdefault(network.seed, []).append(network)
    rows = []
    for networks in by_seed.values():
        networks.sort(key=lambda one: int(one.trial.training.regime.m))  # type: ignore[attr-defined]
        linear = linearised(networks[-1], settings)
        for network, own in zip(networks, linear, strict=True):
            trial = network.trial
            seen, test = trial.task.decode(trial.training.regime.whole(trial.task, trial.key(DATA))), trial.validation()
            train, judged = np.nan, np.nan
            if network.final is not None:
                final = weights_of(network.final)
                answers = [np.asarray(trial.model.predict(final, part.x)) for part in (seen, test)]
                train, judged = (
                    float(np.mean(np.abs(answer - np.asarray(part.y))))
                    for answer, part in zip(answers, (seen, test), strict=True)
                )
            assert own["samples"] == len(seen.x)
            rows.append({**own, "seed": network.seed, "train": train, "test": judged, "gap": judged - train})
    return pl.DataFrame(rows).sort("samples", "seed")


def linearised(network: Network, settings: Settings) -> list[dict[str, float]]:
    """Ridge regression with the tangent kernel on the first N sequences of the largest sample, for every N.

    The first N examples of a sample do not depend on its size: they are those of the trial with N.
    """
    trial, first = network.trial, {name: leaf.astype(np.float32) for name, leaf in network.initial.items()}
    rnn = RandomRnn(first["W"], first["A"], first["B"][None])
    seen, test = trial.task.decode(trial.training.regime.whole(trial.task, trial.key(DATA))), trial.validation()
    run, other = rnn.run(np.asarray(seen.x)), rnn.run(np.asarray(test.x))
    K = kernel_between(run, run, (run.length,), TRAINED).astype(np.float64)
    across = kernel_between(other, run, (run.length,), TRAINED).astype(np.float64)
    y, y_test = np.asarray(seen.y, np.float64), np.asarray(test.y, np.float64)
    start, start_test = run.output()[:, 0].astype(np.float64), other.output()[:, 0].astype(np.float64)
    rows: list[dict[str, float]] = []
    for size in settings.sizes:
        own = K[:size, :size]
        alpha = np.linalg.solve(own + settings.ridge * np.mean(np.diagonal(own)) * np.eye(size), (y - start)[:size])
        train = float(np.mean(np.abs(start[:size] + own @ alpha - y[:size])))
        judged = float(np.mean(np.abs(start_test + across[:, :size] @ alpha - y_test)))
        norm = math.sqrt(max(0.0, float(alpha @ own @ alpha)))
        flow = flow_coefficients(own, (y - start)[:size], settings.c / (rnn.width * run.length) * settings.steps)
        stopped = [
            float(np.mean(np.abs(begin + rows_of @ flow - label)))
            for begin, rows_of, label in ((start[:size], own, y[:size]), (start_test, across[:, :size], y_test))
        ]
        rows.append(
            {
                "samples": size,
                "linear_train": train,
                "linear_test": judged,
                "linear_gap": judged - train,
                "flow_train": stopped[0],
                "flow_test": stopped[1],
                "flow_gap": stopped[1] - stopped[0],
                "norm": norm,
            }
        )
    radius = float(max(row["norm"] for row in rows))
    for row in rows:
        size = int(row["samples"])
        row["rademacher"] = rademacher(K[:size, :size], radius, settings.draws, seed=network.seed)
        row["delta"] = radius * math.sqrt(rnn.width)
    return rows


def flow_coefficients(K: np.ndarray, residual: np.ndarray, time: float) -> np.ndarray:
    """α of gradient flow on (1/2N) Σ_q (r_q - (Kα)_q)² for this time: K^-1 (1 - exp(-time K/N)) r."""
    values, vectors = np.linalg.eigh(K)
    rate = np.maximum(values, 0.0) / len(K)
    slow = rate * time < 1e-8
    factor = np.where(slow, time, -np.expm1(-rate * time) / np.where(slow, 1.0, rate)) / len(K)
    return np.asarray(vectors @ (factor * (vectors.T @ residual)))
