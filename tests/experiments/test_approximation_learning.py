"""Samples to learn a circuit, against width: what is trained, and what tables say."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
import pytest
from krogh.lab.claim import INCONCLUSIVE, NOT_REPRODUCED, REPRODUCED

from krogh.errors import KroghError
from krogh.experiments.approximation import circuit_learning
from krogh.experiments.approximation.circuit_learning import CircuitLearning, Settings
from krogh.lab import Results, figures
from krogh.registry import EXPERIMENTS
from krogh.tasks.circuits import random_circuit, truth_table

NAME = "approximation/circuit-learning"
SETTINGS = Settings(trials=40)


def results(thresholds: dict[int, float], settings: Settings = SETTINGS) -> Results[Settings]:
    """Trials that succeed from a sample size on, which depends on the width."""
    rows = [
        {
            "model.width": width,
            "training.regime.m": size,
            "training.penalty": np.float32(penalty),
            "outcome": "converged" if size >= thresholds[width] else "failed",
        }
        for width in thresholds
        for size in settings.sizes
        for penalty in settings.penalties
        for _ in range(settings.trials)
    ]
    return Results(pl.DataFrame(rows), settings, "paper")


def verdicts(found: Results[Settings]) -> dict[str, str]:
    return {claim.name: claim.verdict for claim in CircuitLearning().claims(found)}


@pytest.mark.parametrize("scale", ["smoke", "laptop", "paper"])
def test_trials_of_every_scale_build_and_differ(scale):
    experiment = EXPERIMENTS[NAME]()
    settings = experiment.settings(scale)
    cohorts = experiment.trials(settings)
    ids = np.concatenate([cohort.ids() for cohort in cohorts])
    wanted = len(settings.widths) * len(settings.sizes) * len(settings.penalties) * settings.trials
    assert len(cohorts) == len(settings.widths) and len(ids) == len(np.unique(ids)) == wanted


def test_labels_are_those_of_the_circuit():
    trial = CircuitLearning().trials(CircuitLearning().settings("smoke"))[0][0]
    circuit = random_circuit(10, 9, 4, 0)
    assert circuit.s <= 30
    assert np.array_equal(trial.task.values, truth_table(circuit.circuit())[:, 0])
    assert (
        float(trial.training.stopping.threshold()) == pytest.approx(0.05)
        and trial.training.stopping.size(trial.task) == 1024
    )


def test_growth_below_three_is_reproduced_and_drawn():
    found = results({16: 100, 64: 100, 256: 141, 1024: 200})
    assert set(verdicts(found).values()) == {REPRODUCED} and list(verdicts(found)) == ["growth-0", "growth-0.001"]
    with figures.style():
        (figure,) = CircuitLearning().figures(found)
        figure.drawing.draw_without_rendering()
    assert len(figure.data) == 2 * 4 * 8 and figure.data["n_width"].is_finite().all()


def test_growth_above_three_is_not():
    assert set(verdicts(results({16: 71, 64: 200, 256: 400, 1024: 1000})).values()) == {NOT_REPRODUCED}


def test_sizes_that_are_never_reached_bound_from_below():
    never = verdicts(results({16: 71, 64: 200, 256: 400, 1024: 10**6}))
    assert set(never.values()) == {NOT_REPRODUCED}
    with figures.style():
        CircuitLearning().figures(results({16: 71, 1024: 10**6}))[0].drawing.draw_without_rendering()


def test_few_data_sets_or_widths_decide_nothing():
    few = Settings(trials=2)
    assert set(verdicts(results({16: 71, 1024: 71}, few)).values()) == {INCONCLUSIVE}
    assert set(verdicts(results({16: 71, 64: 71})).values()) == {INCONCLUSIVE}


def test_penalties_are_told_apart_although_the_table_is_coarse():
    counts = circuit_learning.success(results({16: 71}))
    assert list(counts) == [0.0, 0.001] and counts[0.001][16][71] == (40, 40) and counts[0.001][16][50] == (0, 40)


BAD: list[tuple[dict[str, Any], str]] = [
    ({"inputs": 20}, "inputs must be"),
    ({"sizes": (50,)}, "sizes must be 2 or more"),
    ({"widths": (64, 16)}, "widths must be"),
    ({"error": 1.5}, "error must lie"),
    ({"penalties": (-1.0,)}, "penalties must be at least 0"),
    ({"rate": 0.0}, "rate must be positive"),
    ({"budget": 130}, "budget must be a multiple"),
]


@pytest.mark.parametrize(("changes", "words"), BAD)
def test_bad_settings_are_refused(changes, words):
    experiment = EXPERIMENTS[NAME]()
    with pytest.raises(KroghError, match=words):
        experiment.trials(experiment.settings("smoke", changes))
