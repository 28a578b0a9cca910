"""Parity by power neurons, on networks whose structure is known: each claim as it says, for it and against it."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import polars as pl
import pytest
from planted import drawn, planted_tables, verdicts

from krogh.errors import KroghError
from krogh.experiments.algebra.parity_features import MEASURES, ParityFeatures, parity_measures
from krogh.lab import Tables
from krogh.lab.claims import INCONCLUSIVE, NOT_REPRODUCED, REPRODUCED
from krogh.networks.groups.arrays import PowerArrays
from krogh.networks.groups.written import parity_network
from krogh.theory.groups.finite import finite_lambda
from krogh.theory.groups.maximum import max_margin_parity
from krogh.theory.groups.problems import ParityProblem
from krogh.training.training import MARGIN_PRESETS
from krogh.values import describe

EXPERIMENT = ParityFeatures()
PROBLEM = ParityProblem(10, k=4)
GAMMA = max_margin_parity(4).value
CLAIMS = {
    "bound", "margin", "support", "equal-weights", "balanced-outputs", "signs", "patterns", "certificate",
    "distance-neurons", "distance-shares", "distance-function",
}  # fmt: skip


def optimum() -> PowerArrays:
    rho = finite_lambda(PROBLEM, 1e-3).rho
    return parity_network(10, k=4).scaled(rho ** (1 / 5))


def tables(network: PowerArrays | None, highest: float = 0.9, **changes: Any) -> Tables[Any]:
    """Networks that are all alike."""
    settings = EXPERIMENT.settings("laptop", changes)
    row = parity_measures(network, PROBLEM) | {"when": "end", "highest": highest}
    return Tables(settings, {"networks": pl.DataFrame([{"seed": seed} | row for seed in range(settings.seeds)])})


def failing(network: PowerArrays) -> set[str]:
    found = verdicts(EXPERIMENT, tables(network))
    assert set(found) == CLAIMS and INCONCLUSIVE not in found.values()
    return {name for name, verdict in found.items() if verdict == NOT_REPRODUCED}


# --- verdicts -------------------------------------------------------------------------------------------------


def test_the_maximum_margin_network_is_what_is_looked_for():
    """From weights to figures."""
    curves = {"normalised_margin": lambda trial: [0.0, GAMMA, 0.9 * GAMMA]}
    found = planted_tables(EXPERIMENT, EXPERIMENT.settings("laptop"), lambda trial: optimum(), curves)
    assert verdicts(EXPERIMENT, found) == dict.fromkeys(CLAIMS, REPRODUCED)
    data = drawn(EXPERIMENT, found)
    assert set(data) == {"features", "margin", "distance"}
    assert len(data["features"]) == 6 * 8 and len(data["distance"]) == 12
    ended = data["distance"].filter(when="end")
    assert ended["neurons"].max() < 1e-12 and set(MEASURES) <= set(ended.columns)
    assert ended["highest"].to_list() == pytest.approx([1.0] * 6)
    first = data["features"].filter(network=0).sort("neuron")
    np.testing.assert_allclose(first.select(f"u_{j}" for j in range(10)).to_numpy(), optimum().U)
    np.testing.assert_allclose(first.select("w_0", "w_1").to_numpy(), optimum().W)


def test_weights_off_the_support_show():
    moved = optimum().U.copy()
    moved[:, 9] = 0.2 * moved[:, 0]
    assert "support" in failing(PowerArrays(moved, optimum().W, 4))
    moved[:, 9] = 0.04 * moved[:, 0]
    assert "support" not in failing(PowerArrays(moved, optimum().W, 4)), "4% is within what is asked for"


def test_unequal_weights_show():
    moved = optimum().U.copy()
    moved[:, 0] *= 1.05
    assert failing(PowerArrays(moved, optimum().W, 4)) == {"equal-weights"}


def test_outputs_that_are_not_opposite_show():
    moved = optimum().W.copy()
    moved[:, 0] += 0.1 * np.linalg.norm(moved, axis=1)
    assert "balanced-outputs" in failing(PowerArrays(optimum().U, moved, 4))


def test_a_wrong_sign_shows():
    moved = optimum().W.copy()
    moved[0] *= -1
    found = failing(PowerArrays(optimum().U, moved, 4))
    assert {"signs", "margin", "certificate"} <= found and "support" not in found


def test_a_missing_sign_pattern_shows():
    found = failing(PowerArrays(optimum().U[1:], optimum().W[1:], 4))
    assert {"patterns", "margin", "distance-shares"} <= found
    assert found.isdisjoint({"signs", "support", "equal-weights", "distance-neurons"})


def test_small_neurons_without_structure_do_not_count_for_weights_but_for_the_margin():
    rng = np.random.default_rng(0)
    size = 0.3 * np.linalg.norm(optimum().neurons, axis=1).mean()
    noise = rng.normal(size=(30, 12))
    noise *= size / np.linalg.norm(noise, axis=1, keepdims=True)
    network = PowerArrays(np.vstack([optimum().U, noise[:, :10]]), np.vstack([optimum().W, noise[:, 10:]]), 4)
    found = parity_measures(network, PROBLEM)
    assert found["kept"] == 8 and found["off_share"] == 0 and found["kept_share"] < 1
    assert 0 < found["gap"] < 0.2 and found["gap"] == pytest.approx(found["gap_of_neurons"] + found["gap_of_logits"])


def test_a_margin_above_the_maximum_refutes_the_bound_whatever_the_number_of_seeds():
    for seeds in (6, 2):
        assert verdicts(EXPERIMENT, tables(optimum(), highest=1.001, seeds=seeds))["bound"] == NOT_REPRODUCED


def test_divergence_is_the_worst_and_still_a_report():
    found = verdicts(EXPERIMENT, tables(None))
    assert found.pop("bound") == REPRODUCED and set(found.values()) == {NOT_REPRODUCED}
    lost = planted_tables(EXPERIMENT, EXPERIMENT.settings("laptop", {"seeds": 1}), lambda trial: None)
    assert len(drawn(EXPERIMENT, lost, empty=True)["features"]) == 0


def test_a_network_that_diverged_or_is_zero_has_no_measures():
    for network in (None, PowerArrays(np.zeros((3, 10)), np.zeros((3, 2)), 4)):
        assert all(math.isnan(value) for value in parity_measures(network, PROBLEM).values())


# --- what is trained ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("scale", ["laptop", "paper"])
def test_both_scales_are_the_sources_training(scale):
    (cohort,) = EXPERIMENT.trials(EXPERIMENT.settings(scale))
    preset, trial = MARGIN_PRESETS["parity-10-4"], cohort.template
    assert describe(trial.training) == describe(preset.training(100)) and len(cohort) == 6
    assert (trial.task.n, trial.task.k, trial.model.width, trial.model.exponent) == (10, 4, preset.width, 4)


@pytest.mark.parametrize(
    ("changes", "message"), [({"k": 11}, "k must be"), ({"weight": 0.31}, "below γ\\*/2 = 0.3036")]
)
def test_settings_that_do_not_go_together_are_refused(changes, message):
    with pytest.raises(KroghError, match=message):
        EXPERIMENT.settings("laptop", changes)
