"""Samples to learn a circuit, against width: what is trained, and what tables say."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from planted import drawn
from planted import verdicts as verdicts_of

from krogh.errors import KroghError
from krogh.experiments.approximation.circuit_learning import CircuitLearning, Settings, success
from krogh.lab import Tables
from krogh.lab.claims import INCONCLUSIVE, NOT_REPRODUCED, REPRODUCED
from krogh.programs.circuits.circuit import truth_table
from krogh.programs.circuits.generators import random_circuit

SETTINGS = Settings(trials=40)


def tables(thresholds: dict[int, float], settings: Settings = SETTINGS) -> Tables[Settings]:
    """Trials that succeed from a sample size on, which depends on the width."""
    rows = [
        {
            "width": width,
            "training.regime.m": size,
            "penalty": penalty,
            "outcome": "converged" if size >= thresholds[width] else "failed",
        }
        for width in thresholds
        for size in settings.sizes
        for penalty in settings.penalties
        for _ in range(settings.trials)
    ]
    return Tables(settings, {"trials": pl.DataFrame(rows)}, "paper")


def verdicts(given: Tables[Settings]) -> dict[str, str]:
    return verdicts_of(CircuitLearning(), given)


def test_labels_are_those_of_the_circuit():
    experiment = CircuitLearning()
    (cohort,) = experiment.trials(experiment.settings("smoke"))
    trial, circuit = cohort[0], random_circuit(10, 9, 4, 0)
    assert circuit.s <= 30 and cohort.labels == {"penalty": 0.0, "width": 16}
    assert np.array_equal(trial.task.values, truth_table(circuit.circuit())[:, 0])
    stopping = trial.training.stopping
    assert float(stopping.threshold()) == pytest.approx(0.05) and stopping.size(trial.task) == 1024


def test_growth_below_three_is_reproduced_and_drawn():
    found = tables({16: 100, 64: 100, 256: 141, 1024: 200})
    assert verdicts(found) == {"growth-0": REPRODUCED, "growth-0.001": REPRODUCED}
    (data,) = drawn(CircuitLearning(), found).values()
    assert len(data) == 2 * 4 * 8 and data["n_width"].is_finite().all()


def test_growth_above_three_is_not():
    assert set(verdicts(tables({16: 71, 64: 200, 256: 400, 1024: 1000})).values()) == {NOT_REPRODUCED}


def test_sizes_that_are_never_reached_bound_from_below():
    found = tables({16: 71, 1024: 10**6})
    assert set(verdicts(found).values()) == {NOT_REPRODUCED}
    assert drawn(CircuitLearning(), found)


def test_a_claim_rests_on_the_two_widths_that_it_compares():
    claims = CircuitLearning().judge(tables({16: 100, 64: 100, 1024: 200}))
    assert [claim.trials for claim in claims] == [2 * 8 * 40] * 2


def test_few_data_sets_or_widths_decide_nothing():
    few = Settings(trials=2)
    assert set(verdicts(tables({16: 71, 1024: 71}, few)).values()) == {INCONCLUSIVE}
    assert set(verdicts(tables({16: 71, 64: 71})).values()) == {INCONCLUSIVE}


def test_successes_are_counted_by_penalty_width_and_size():
    counts = success(tables({16: 71, 64: 200})["trials"])
    assert list(counts) == [0.0, 0.001] and list(counts[0.001]) == [16, 64]
    assert counts[0.001][16][71].sum() == 40 == len(counts[0.001][16][50]) and not counts[0.001][64][141].any()


def test_a_budget_between_two_tests_is_refused():
    experiment = CircuitLearning()
    with pytest.raises(KroghError, match="budget must be a multiple"):
        list(experiment.trials(experiment.settings("smoke", {"budget": 130})))
