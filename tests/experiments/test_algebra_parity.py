"""Parity by power neurons, on networks whose structure is known: each claim as it says, for it and against it."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import polars as pl
import pytest
from krogh.lab.claim import INCONCLUSIVE, NOT_REPRODUCED, REPRODUCED

from krogh.engine import Trial
from krogh.errors import KroghError
from krogh.experiments.algebra.cyclic_measures import PARITY_MEASURES, parity_measures
from krogh.experiments.algebra.parity_features import ParityFeatures, Settings, measured
from krogh.lab import Results, figures
from krogh.theory.constructions.algebra_arrays import parity_network
from krogh.theory.margins import ParityProblem, PowerArrays, finite_lambda, max_margin_parity
from krogh.training.presets import MARGIN_PRESETS
from krogh.values import describe

PROBLEM = ParityProblem(10, k=4)
GAMMA = max_margin_parity(4).value
CLAIMS = {
    "bound", "margin", "support", "equal-weights", "balanced-outputs", "signs", "patterns", "certificate",
    "distance-neurons", "distance-shares", "distance-function",
}  # fmt: skip


class Planted(Results[Any]):
    """Results whose networks are of the test's choice; a network of None is one that diverged."""

    def __init__(self, settings: Settings, planted: Callable[[Trial], PowerArrays | None], largest: float = 1.0):
        rows, self.networks = [], {}
        for cohort in ParityFeatures().trials(settings):
            for trial, identity in zip(cohort, cohort.ids().tolist(), strict=True):
                network = planted(trial)
                self.networks[identity] = network
                curve = {f"curve.{name}": [0.1, 0.2, 0.3] for name in trial.curve_columns()}
                curve |= {"curve.step": [0, 100, 200], "curve.normalised_margin": [0.0, largest * GAMMA, 0.9 * GAMMA]}
                outcome = "diverged" if network is None else "converged"
                rows.append({"id": identity, "seed": int(trial.seed), "outcome": outcome} | curve)
        super().__init__(pl.DataFrame(rows), settings, "laptop")

    def weights(self, identity: int) -> dict[str, np.ndarray]:
        network = self.networks[identity]
        return {"U": network.U, "W": network.W}


def optimum() -> PowerArrays:
    rho = finite_lambda(PROBLEM, 1e-3).rho
    return parity_network(10, k=4).scaled(rho ** (1 / 5))


def results_of(network: PowerArrays | None, largest: float = 1.0, **changes: Any) -> Planted:
    return Planted(ParityFeatures().settings("laptop", changes), lambda trial: network, largest)


def verdicts(results: Results[Any]) -> dict[str, str]:
    claims = ParityFeatures().claims(results)
    assert len({claim.name for claim in claims}) == len(claims)
    return {claim.name: claim.verdict for claim in claims}


def failing(network: PowerArrays) -> set[str]:
    found = verdicts(results_of(network))
    assert set(found) == CLAIMS and INCONCLUSIVE not in found.values()
    return {name for name, verdict in found.items() if verdict == NOT_REPRODUCED}


def drawn(results: Results[Any]) -> dict[str, pl.DataFrame]:
    with figures.style():
        made = ParityFeatures().figures(results)
    for figure in made:
        figure.drawing.draw_without_rendering()
    return {figure.name: figure.data for figure in made}


# --- verdicts -------------------------------------------------------------------------------------------------


def test_the_maximum_margin_network_is_what_is_looked_for():
    results = results_of(optimum())
    assert verdicts(results) == dict.fromkeys(CLAIMS, REPRODUCED)
    data = drawn(results)
    assert set(data) == {"features", "margin", "distance"}
    assert len(data["features"]) == 6 * 8 and len(data["distance"]) == 6
    assert data["distance"]["neurons"].max() < 1e-12 and set(PARITY_MEASURES) <= set(data["distance"].columns)
    first = data["features"].filter(network=0).sort("neuron")
    np.testing.assert_allclose(first.select(f"u_{j}" for j in range(10)).to_numpy(), optimum().U)


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


def test_a_margin_above_the_maximum_refutes_the_bound():
    assert verdicts(results_of(optimum(), largest=1.001))["bound"] == NOT_REPRODUCED
    assert verdicts(results_of(optimum(), largest=1.001, seeds=2))["bound"] == NOT_REPRODUCED


def test_too_few_seeds_and_divergence():
    found = verdicts(results_of(optimum(), seeds=5))
    assert found.pop("bound") == REPRODUCED and set(found.values()) == {INCONCLUSIVE}
    results = results_of(None)
    found = verdicts(results)
    assert found.pop("bound") == REPRODUCED and set(found.values()) == {NOT_REPRODUCED}
    assert measured(results)["ratio"].is_nan().all()
    drawn(results_of(None, seeds=1))


def test_a_network_that_diverged_or_is_zero_has_no_measures():
    for network in (None, PowerArrays(np.zeros((3, 10)), np.zeros((3, 2)), 4)):
        assert all(math.isnan(value) for value in parity_measures(network, PROBLEM).values())


# --- what is trained ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("scale", ["laptop", "paper"])
def test_both_scales_are_the_sources_training(scale):
    experiment = ParityFeatures()
    (cohort,) = experiment.trials(experiment.settings(scale))
    preset, trial = MARGIN_PRESETS["parity-10-4"], cohort.template
    assert describe(trial.training) == describe(preset.training(100)) and len(cohort) == 6
    assert (trial.task.n, trial.task.k, trial.model.width, trial.model.exponent) == (10, 4, preset.width, 4)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"k": 11}, "k must be"),
        ({"k": 0}, "k must be"),
        ({"weight": 0.31}, "below γ\\*/2 = 0.3036"),
        ({"weight": -1.0}, "weight must be positive"),
        ({"seeds": 0}, "seeds must be"),
        ({"steps": 150}, "multiple of check_every=100"),
        ({"width": 0}, "width must be"),
    ],
)
def test_settings_are_checked(changes, message):
    experiment = ParityFeatures()
    with pytest.raises(KroghError, match=message):
        experiment.trials(experiment.settings("laptop", changes))
