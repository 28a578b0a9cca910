"""Addition modulo p, on networks whose features and margin are known: each claim as they say, for it and against it."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import polars as pl
import pytest
from krogh.lab.claim import INCONCLUSIVE, NOT_REPRODUCED, REPRODUCED

from krogh.engine import Trial
from krogh.errors import KroghError
from krogh.experiments.algebra import cyclic_claims, cyclic_figures
from krogh.experiments.algebra.cyclic import CyclicAddition, measured, networks_of
from krogh.experiments.algebra.cyclic_measures import (
    MEASURES,
    family_distance,
    network_measures,
    relative_shares,
)
from krogh.experiments.algebra.cyclic_runs import never_exceeded, over_seeds
from krogh.lab import Results, figures, run_study
from krogh.report.read import read_study
from krogh.tasks.groups import cyclic
from krogh.theory.constructions.algebra_arrays import cyclic_network, cyclic_neuron, memoriser_network
from krogh.theory.features.distance import margin_distance
from krogh.theory.features.parts import network_spectrum
from krogh.theory.margins import PairArrays, finite_lambda, max_margin_cyclic
from krogh.training.presets import MARGIN_PRESETS
from krogh.values import describe

P = 11
GAMMA = max_margin_cyclic(P).value
SIX = {"orders": (P,), "widths": (80,), "steps": (1000,), "doubled_every": (100,), "seeds": 6}

Weights = dict[str, np.ndarray]


class Planted(Results[Any]):
    """Results whose networks and curves are of the test's choice; a network of None is one that diverged."""

    def __init__(
        self,
        experiment: Any,
        settings: Any,
        planted: Callable[[Trial], PairArrays | None],
        curves: dict[str, Any] | None = None,
    ):
        rows, self.networks = [], {}
        for cohort in experiment.trials(settings):
            for trial, identity in zip(cohort, cohort.ids().tolist(), strict=True):
                network = planted(trial)
                self.networks[identity] = network
                curve = {name: [0.0, 0.0, 0.0] for name in trial.curve_columns()} | {"step": [0, 100, 200]}
                curve |= {name: values(trial) for name, values in (curves or {}).items()}
                outcome = "diverged" if network is None else "converged"
                head = {"id": identity, "seed": int(trial.seed), "outcome": outcome}
                rows.append(head | {f"curve.{name}": values for name, values in curve.items()})
        super().__init__(pl.DataFrame(rows), settings, "laptop")

    def weights(self, identity: int) -> Weights:
        network = self.networks[identity]
        return {"U": network.U, "V": network.V, "W": network.W}


def results_of(planted: Callable[[Trial], PairArrays | None], curves: Any = None, **changes: Any) -> Planted:
    experiment = CyclicAddition()
    settings = experiment.settings("laptop", SIX | changes)
    return Planted(experiment, settings, planted, curves)


def verdicts(results: Results[Any]) -> dict[str, str]:
    claims = CyclicAddition().claims(results)
    assert len({claim.name for claim in claims}) == len(claims)
    return {claim.name: claim.verdict for claim in claims}


def drawn(results: Results[Any]) -> dict[str, pl.DataFrame]:
    with figures.style():
        made = CyclicAddition().figures(results)
    for figure in made:
        figure.drawing.draw_without_rendering()
        assert figure.title and figure.caption
    return {figure.name: figure.data for figure in made}


def optimum(weight: float = 1e-4) -> PairArrays:
    """The regularised optimum at λ: maximum margin, at the scale of the optimum."""
    return cyclic_network(P).scaled(finite_lambda(P, weight).rho ** (1 / 3))


def nearly(network: PairArrays, power: float, activation: str = "relu") -> PairArrays:
    """Every weight vector with the share `power` of its power at its frequency and the rest at another."""
    parts = (network.U, network.V, network.W)
    rows = [math.sqrt(power) * part + math.sqrt(1 - power) * _next_frequency(part) for part in parts]
    return PairArrays(*rows, activation=activation)


def _next_frequency(rows: np.ndarray) -> np.ndarray:
    """Rows of the same norms with every frequency z turned into z + 1 (the last into 1)."""
    spectrum = np.fft.rfft(rows, axis=1)
    moved = np.concatenate([spectrum[:, :1], np.roll(spectrum[:, 1:], 1, axis=1)], axis=1)
    return np.fft.irfft(moved, rows.shape[1], axis=1)


def good(trial: Trial) -> PairArrays:
    return nearly(optimum(), 0.93) if trial.model.activation == "relu" else optimum()


QUADRATIC = {
    f"Z_{P}-quadratic-{word}"
    for word in (
        "bound", "margin", "logit-margin", "cross-entropy", "one-frequency", "same-frequency", "all-frequencies",
        "equal-shares", "certificate", "distance-neurons", "distance-shares", "distance-function",
    )
}  # fmt: skip
RELU = {f"Z_{P}-relu-{word}" for word in ("power-low", "power-high", "all-frequencies", "distance-neurons")}


# --- verdicts -------------------------------------------------------------------------------------------------


def test_networks_as_the_source_has_them_are_reproduced():
    results = results_of(good, {"normalised_margin": lambda trial: [0.0, 0.5 * GAMMA, GAMMA]})
    assert verdicts(results) == dict.fromkeys(QUADRATIC | RELU, REPRODUCED)
    data = drawn(results)
    assert set(data) == {f"embeddings-{P}", f"powers-{P}", f"frequencies-{P}", f"margin-{P}", "distance"}
    table = data["distance"]
    assert len(table) == 12 and set(MEASURES) <= set(table.columns)
    assert table.filter(activation="quadratic")["neurons"].max() < 1e-12


def test_networks_that_memorise_the_table_are_not_although_their_function_is_right():
    """The memoriser's logits are those of a maximum-margin network; its neurons are not."""

    def memoriser(trial: Trial) -> PairArrays:
        return dataclasses.replace(memoriser_network(cyclic(P).table), activation=trial.model.activation)

    found = verdicts(results_of(memoriser))
    right = {f"Z_{P}-quadratic-bound", f"Z_{P}-quadratic-distance-function"}
    assert {name for name in QUADRATIC if found[name] == REPRODUCED} == right
    failing = ("margin", "one-frequency", "same-frequency", "certificate", "distance-neurons", "distance-shares")
    assert {found[f"Z_{P}-quadratic-{word}"] for word in failing} == {NOT_REPRODUCED}
    assert found[f"Z_{P}-relu-power-low"] == found[f"Z_{P}-relu-distance-neurons"] == NOT_REPRODUCED


def test_a_frequency_that_is_missing_shows_in_shares_and_margin_alone():
    def without(trial: Trial) -> PairArrays:
        network, place = optimum(), slice(8, None)  # without the eight neurons of frequency 1
        return PairArrays(network.U[place], network.V[place], network.W[place], trial.model.activation)

    found = verdicts(results_of(without, activations=("quadratic",)))
    assert found[f"Z_{P}-quadratic-all-frequencies"] == NOT_REPRODUCED
    assert found[f"Z_{P}-quadratic-equal-shares"] == NOT_REPRODUCED
    assert found[f"Z_{P}-quadratic-distance-shares"] == NOT_REPRODUCED
    assert found[f"Z_{P}-quadratic-distance-function"] == found[f"Z_{P}-quadratic-margin"] == NOT_REPRODUCED
    assert found[f"Z_{P}-quadratic-distance-neurons"] == found[f"Z_{P}-quadratic-one-frequency"] == REPRODUCED


def test_relu_networks_of_exactly_one_frequency_are_not_the_sources():
    def exact(trial: Trial) -> PairArrays:
        return dataclasses.replace(optimum(), activation=trial.model.activation)

    found = verdicts(results_of(exact))
    assert found[f"Z_{P}-relu-power-high"] == NOT_REPRODUCED and found[f"Z_{P}-relu-power-low"] == REPRODUCED


def test_quadratic_networks_of_nearly_one_frequency_are_not_the_sources():
    found = verdicts(results_of(lambda trial: nearly(optimum(), 0.93, trial.model.activation)))
    assert found[f"Z_{P}-quadratic-one-frequency"] == found[f"Z_{P}-quadratic-distance-neurons"] == NOT_REPRODUCED


def test_the_wrong_scale_shows_in_the_margin_and_the_loss_alone():
    """A tenth more of every weight is a third more of the margin, and the normalised margin is as before."""
    found = verdicts(results_of(lambda trial: optimum().scaled(1.1), activations=("quadratic",)))
    wrong = {f"Z_{P}-quadratic-{word}" for word in ("logit-margin", "cross-entropy")}
    assert {name for name, verdict in found.items() if verdict == NOT_REPRODUCED} == wrong


@pytest.mark.parametrize(("excess", "verdict"), [(1.00005, REPRODUCED), (1.0002, NOT_REPRODUCED)])
def test_one_margin_above_the_maximum_refutes_the_bound(excess, verdict):
    def curve(trial: Trial) -> list[float]:
        return [0.0, (excess if int(trial.seed) == 3 else 0.9) * GAMMA, 0.9 * GAMMA]

    for seeds in (6, 4):  # no number of seeds is too small to refute it
        found = verdicts(results_of(good, {"normalised_margin": curve}, seeds=seeds))
        assert found[f"Z_{P}-quadratic-bound"] == verdict


def test_too_few_seeds_decide_nothing_but_the_bound():
    results = results_of(good, seeds=5)
    found = verdicts(results)
    assert found.pop(f"Z_{P}-quadratic-bound") == REPRODUCED
    assert set(found.values()) == {INCONCLUSIVE}
    assert "5 seeds; a verdict needs 6" in CyclicAddition().claims(results)[1].reason


def test_networks_that_diverged_count_as_the_worst():
    found = verdicts(results_of(lambda trial: None))
    assert found.pop(f"Z_{P}-quadratic-bound") == REPRODUCED, "their curves are still below the maximum"
    assert set(found.values()) == {NOT_REPRODUCED}
    results = results_of(lambda trial: None if int(trial.seed) == 0 else good(trial))
    assert verdicts(results)[f"Z_{P}-quadratic-margin"] == INCONCLUSIVE
    drawn(results_of(lambda trial: None, seeds=1))
    assert measured(results).filter(activation="quadratic")["ratio"].is_nan().sum() == 1


def test_every_modulus_has_its_claims():
    changes = {"orders": (5, 11), "widths": (10, 10), "steps": (100, 100), "doubled_every": (10, 10)}
    results = results_of(lambda trial: cyclic_network(trial.task.order), activations=("quadratic",), **changes)
    found = verdicts(results)
    assert len(found) == 24 and found["Z_5-quadratic-margin"] == found["Z_11-quadratic-margin"] == REPRODUCED
    assert measured(results)["p"].to_list() == [5] * 6 + [11] * 6


# --- statistics -----------------------------------------------------------------------------------------------


def test_over_seeds_is_the_range_from_six_on_and_counts_divergence():
    found = over_seeds([-0.3, 0.1, 0.2, 0.4, 0.5, 0.6], -math.inf)
    assert (found.value, found.low, found.high) == pytest.approx((0.2, -0.3, 0.6)) and found.level == 0.95
    few = over_seeds([0.1, 0.3, math.nan], -math.inf)
    assert (few.value, few.low, few.high) == (0.1, -math.inf, 0.3) and few.level == 0
    six = over_seeds([math.nan, 0.1, 0.2, 0.3, 0.4, 0.5], math.inf)
    assert (six.value, six.low, six.high) == (0.3, 0.1, math.inf)
    many = over_seeds(np.arange(20.0), -math.inf)
    assert many.value == 9 and 4 <= many.low <= 6 and 13 <= many.high <= 15


def test_a_bound_without_any_number_is_inconclusive():
    assert never_exceeded("bound", [np.full(3, np.nan)], "γ*", "here").verdict == INCONCLUSIVE


def test_thresholds_of_distances_follow_from_those_of_powers():
    """A vector with the share P of its power in a cosine is at the distance (2(1-√P))^½ from it."""
    for power, bound in ((0.99, cyclic_claims.NEURONS), (0.85, cyclic_claims.RELU_NEURONS)):
        assert math.sqrt(2 * (1 - math.sqrt(power))) == pytest.approx(bound, abs=0.006)
    network = nearly(optimum(), 0.97, "quadratic")
    assert family_distance(network, P).neurons == pytest.approx(math.sqrt(2 * (1 - math.sqrt(0.97))), rel=1e-6)


# --- measures -------------------------------------------------------------------------------------------------


def test_measures_of_a_random_network_agree_with_direct_ones():
    rng = np.random.default_rng(3)
    network = PairArrays(*(rng.normal(size=(20, 5)) for _ in range(3)))
    found = network_measures(network, 5)
    a, b = np.divmod(np.arange(25), 5)
    logits = (network.U[:, a] + network.V[:, b]).T ** 2 @ network.W
    right = logits[np.arange(25), (a + b) % 5]
    wrong = np.where(np.arange(5)[None] == ((a + b) % 5)[:, None], -np.inf, logits).max(axis=1)
    sizes = np.sum(network.neurons**2, axis=1) ** 1.5
    assert found["margin"] == pytest.approx(np.min(right - wrong))
    assert found["ratio"] == pytest.approx(np.min(right - wrong) / sizes.sum() / max_margin_cyclic(5).value)
    assert found["gap"] == pytest.approx(1 - found["ratio"])
    assert found["gap_of_neurons"] + found["gap_of_logits"] == pytest.approx(found["gap"])
    probabilities = np.exp(logits - logits.max(axis=1, keepdims=True))
    chosen = probabilities[np.arange(25), (a + b) % 5] / probabilities.sum(axis=1)
    assert found["cross_entropy"] == pytest.approx(-np.log(chosen).mean())
    power = np.abs(np.fft.rfft(network.U, axis=1)) ** 2 * np.array([1, 2, 2])
    assert np.median(network_spectrum(network, 5).largest[0]) == pytest.approx(
        np.median(power.max(axis=1) / power.sum(axis=1))
    )
    assert found["present"] in (0.5, 1.0) and 0 <= found["agreement"] <= 1


def test_the_fewest_neurons_of_a_frequency_are_counted_among_the_kept():
    network = cyclic_network(P)
    assert network_measures(network, P)["fewest"] == 8
    scale = np.where(np.arange(40) < 5, 0.05, 1.0)[:, None]  # five of the eight neurons of frequency 1 below a tenth
    found = network_measures(PairArrays(scale * network.U, scale * network.V, scale * network.W), P)
    assert (found["fewest"], found["kept"], found["present"]) == (3, 35, 1.0)
    assert found["gap_of_logits"] > 10 * found["gap_of_neurons"]


def test_a_network_that_diverged_or_is_zero_has_no_measures():
    zeros = PairArrays(*(np.zeros((4, 5)) for _ in range(3)))
    for network in (None, zeros):
        assert all(math.isnan(value) for value in network_measures(network, 5).values())


def test_relu_distance_of_equal_norms_is_that_of_the_same_weights_as_a_quadratic_network():
    rng = np.random.default_rng(0)
    neurons = rng.normal(size=(30, 3 * P))
    neurons /= np.linalg.norm(neurons, axis=1, keepdims=True)  # then ‖ω‖² and ‖ω‖³ are the same weights
    parts = np.split(neurons, 3, axis=1)
    relu, quadratic = PairArrays(*parts, activation="relu"), PairArrays(*parts)
    found, wanted = family_distance(relu, P), margin_distance(quadratic, P)
    assert (found.neurons, found.worst, found.shares) == pytest.approx((wanted.neurons, wanted.worst, wanted.shares))
    logits = np.maximum(relu.U.T[:, None, :] + relu.V.T[None, :, :], 0) @ relu.W
    a = np.arange(P)
    target = np.eye(P)[(a[:, None] + a[None, :]) % P]
    centred, wanted_function = (f - f.mean(axis=2, keepdims=True) for f in (logits, target))
    cosine = np.sum(centred * wanted_function) / np.linalg.norm(centred) / np.linalg.norm(wanted_function)
    assert found.function == pytest.approx(1 - cosine)
    assert math.isnan(network_measures(relu, P)["ratio"]) and network_measures(relu, P)["neurons"] == found.neurons


def test_relative_shares_are_ours_over_two_over_p_minus_one():
    neurons = [cyclic_neuron(P, z, 0.3 * z, 1.0).scaled(z) for z in (1, 2, 2, 5)]
    network = PairArrays(*(np.concatenate([getattr(one, part) for one in neurons]) for part in "UVW"))
    cubes = np.array([1, 8 + 8, 0, 0, 125])
    np.testing.assert_allclose(relative_shares(network_spectrum(network, P), P), cubes / 142 * 5)


def test_neurons_of_the_figure_are_the_least_the_median_and_the_largest():
    powers = (0.6, 0.95, 0.7, 0.8, 0.9)
    parts = [nearly(cyclic_neuron(P, 2, 0.1, 0.2), power, "quadratic") for power in powers]
    network = PairArrays(*(np.concatenate([getattr(one, part) for one in parts]) for part in "UVW"))
    assert cyclic_figures._chosen(network, P) == [0, 3, 1]
    results = results_of(lambda trial: network, activations=("quadratic",), seeds=1)
    data = cyclic_figures.embeddings(P, {"quadratic": networks_of(results, P, "quadratic")}).data
    assert data["neuron"].unique().sort().to_list() == [0, 1, 3] and len(data) == 3 * P
    np.testing.assert_allclose(data.filter(neuron=3)["v"].to_numpy(), network.V[3])


def test_histograms_hold_every_weight_vector():
    results = results_of(good)
    data = cyclic_figures.powers(P, {kind: networks_of(results, P, kind) for kind in ("quadratic", "relu")}).data
    for _, rows in data.group_by("networks"):
        assert rows["kept"].sum() == pytest.approx(1.0) and rows["every"].sum() == pytest.approx(1.0)
    exact = data.filter(pl.col("networks").str.contains("quadratic"))
    assert exact.filter(pl.col("high") > 0.999)["kept"].to_list() == pytest.approx([1.0])


# --- what is trained ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("activation", "preset"), [("quadratic", "Z_71"), ("relu", "Z_71-relu")])
def test_the_paper_scale_is_the_sources_training(activation, preset):
    experiment = CyclicAddition()
    cohorts = experiment.trials(experiment.settings("paper"))
    (cohort,) = [cohort for cohort in cohorts if cohort.template.model.activation == activation]
    source, trial = MARGIN_PRESETS[preset], cohort.template
    assert describe(trial.training) == describe(source.training(100))
    assert trial.model.width == source.width and trial.task.order == 71 and len(cohort) == 12


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"orders": (11, 23)}, "must have one length"),
        ({"orders": (), "widths": (), "steps": (), "doubled_every": ()}, "must have one length"),
        ({"orders": (10,)}, "odd p; got p=10 \\(try p=9 or 11\\)"),
        ({"orders": (1,)}, "p must be"),
        ({"weight": 0.0}, "weight must be positive and below"),
        ({"weight": 0.0075}, "below γ\\*\\(p-1\\)/p = 0.00746"),
        ({"activations": ("quadratic", "quadratic")}, "activations must be different"),
        ({"activations": ()}, "activations must be different"),
        ({"activations": ("rely",)}, "relu"),
        ({"seeds": 0}, "seeds must be"),
        ({"steps": (1050,)}, "multiple of check_every=100"),
        ({"doublings": -1}, "doublings must be"),
        ({"doubled_every": (0,)}, "doubled_every must be"),
    ],
)
def test_settings_are_checked(changes, message):
    experiment = CyclicAddition()
    with pytest.raises(KroghError, match=message):
        experiment.trials(experiment.settings("laptop", SIX | changes))


@pytest.mark.slow  # the smoke run trains it too
def test_a_short_run_for_real(tmp_path):
    """Two networks, 200 steps: what is kept comes back, and the figures hold it."""
    changes = {"activations": ("quadratic",), "steps": (200,)}
    study = run_study(CyclicAddition(), "smoke", tmp_path, changes=changes)
    read = read_study(study.folder)
    assert {claim.name for claim in read.claims} == {name.replace("_11", "_5") for name in QUADRATIC}
    curve = pl.read_csv(study.folder / "figures" / "margin-5.csv")
    assert curve["step"].to_list() == [0, 100, 200] * 2
    final = pl.read_csv(study.folder / "figures" / "distance.csv")
    last = curve.filter(step=200)["normalised_margin"].to_numpy()
    np.testing.assert_allclose(final["normalised_margin"].to_numpy(), last, rtol=1e-3, atol=1e-6)
