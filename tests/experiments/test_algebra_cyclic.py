"""Addition modulo p, on networks whose features and margin are known: each claim as they say, for it and against it."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np
import polars as pl
import pytest
from group_oracles import cyclic_neuron
from planted import drawn, planted_tables
from planted import verdicts as verdicts_of

from krogh.engine import Trial
from krogh.errors import KroghError
from krogh.experiments.algebra import common, cyclic
from krogh.experiments.algebra.common import MEASURES, MedianClaims, addition_measures, relative_shares, relu_distance
from krogh.experiments.algebra.cyclic import CyclicAddition
from krogh.lab import Claims, Tables, run_study
from krogh.lab.claims import INCONCLUSIVE, NOT_REPRODUCED, REPRODUCED
from krogh.networks.groups.arrays import PairArrays
from krogh.networks.groups.written import cyclic_network, memoriser_network
from krogh.probes.features.distance import margin_distance
from krogh.probes.features.spectra import network_spectrum
from krogh.programs.groups import cyclic as cyclic_group
from krogh.report.read import read_study
from krogh.theory.groups.finite import finite_lambda
from krogh.theory.groups.maximum import max_margin_cyclic
from krogh.training.training import MARGIN_PRESETS
from krogh.values import describe

P = 11
GAMMA = max_margin_cyclic(P).value
SIX = {"orders": (P,), "widths": (80,), "steps": (1000,), "doubled_every": (100,), "seeds": 6}
EXPERIMENT = CyclicAddition()


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


def tables(
    quadratic: PairArrays | None = None,
    relu: PairArrays | None = None,
    lost: int = 0,
    highest: float = 0.9,
    **changes: Any,
) -> Tables[Any]:
    """Six networks of each kind, all alike but for the first `lost` of them, which diverged."""
    kinds = {"quadratic": quadratic or optimum(), "relu": relu or nearly(optimum(), 0.93)}
    settings = EXPERIMENT.settings("laptop", SIX | changes)
    rows = []
    for activation, network in kinds.items():
        found, nothing = (addition_measures(arrays, P) for arrays in (network, None))
        for seed in range(settings.seeds):
            head = {"p": P, "activation": activation, "seed": seed, "when": "end", "highest": highest}
            rows.append(head | (nothing if seed < lost else found))
    return Tables(settings, {"networks": pl.DataFrame(rows)})


def verdicts(found: Tables[Any]) -> dict[str, str]:
    """By name without the modulus."""
    return {name.removeprefix(f"Z_{P}-"): verdict for name, verdict in verdicts_of(EXPERIMENT, found).items()}


QUADRATIC = {
    f"quadratic-{word}"
    for word in (
        "bound", "margin", "logit-margin", "cross-entropy", "one-frequency", "same-frequency", "all-frequencies",
        "equal-shares", "certificate", "distance-neurons", "distance-shares", "distance-function",
    )
}  # fmt: skip
RELU = {f"relu-{word}" for word in ("power", "all-frequencies", "distance-neurons")}


# --- verdicts -------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_networks_as_the_source_has_them_are_reproduced():
    """From weights to figures."""

    def planted(trial: Trial) -> PairArrays:
        return nearly(optimum(), 0.93) if trial.model.activation == "relu" else optimum()

    curves = {"normalised_margin": lambda trial: [0.0, 0.5 * GAMMA, GAMMA]}
    found = planted_tables(EXPERIMENT, EXPERIMENT.settings("laptop", SIX), planted, curves)
    assert verdicts(found) == dict.fromkeys(QUADRATIC | RELU, REPRODUCED)
    data = drawn(EXPERIMENT, found)
    assert set(data) == {f"embeddings-{P}", f"powers-{P}", f"frequencies-{P}", f"margin-{P}", "distance"}
    table = data["distance"]
    assert len(table) == 24 and set(MEASURES) <= set(table.columns)
    assert table.filter(when="start")["neurons"].min() > 0.5
    ended = table.filter(activation="quadratic", when="end")
    assert ended["neurons"].max() < 1e-12 and ended["highest"].to_list() == pytest.approx([1.0] * 6)
    shares = data[f"frequencies-{P}"].filter(activation="quadratic")["relative_share"]
    assert shares.to_list() == pytest.approx([1.0] * 30)


def test_networks_that_memorise_the_table_are_not_although_their_function_is_right():
    """The memoriser's logits are those of a maximum-margin network; its neurons are not."""
    memoriser = memoriser_network(cyclic_group(P).table)
    found = verdicts(tables(memoriser, dataclasses.replace(memoriser, activation="relu")))
    assert {name for name in QUADRATIC if found[name] == REPRODUCED} == {
        "quadratic-bound",
        "quadratic-distance-function",
    }
    failing = ("margin", "one-frequency", "same-frequency", "certificate", "distance-neurons", "distance-shares")
    assert {found[f"quadratic-{word}"] for word in failing} == {NOT_REPRODUCED}
    assert found["relu-power"] == found["relu-distance-neurons"] == NOT_REPRODUCED


def test_a_frequency_that_is_missing_shows_in_shares_and_margin_alone():
    network, place = optimum(), slice(8, None)  # without the eight neurons of frequency 1
    found = verdicts(tables(PairArrays(network.U[place], network.V[place], network.W[place])))
    missed = ("all-frequencies", "equal-shares", "distance-shares", "distance-function", "margin")
    assert {found[f"quadratic-{word}"] for word in missed} == {NOT_REPRODUCED}
    assert found["quadratic-distance-neurons"] == found["quadratic-one-frequency"] == REPRODUCED


def test_each_kind_must_have_the_exactness_of_its_own():
    """ReLU networks of exactly one frequency are not the source's, nor are quadratic ones of nearly one."""
    found = verdicts(tables(nearly(optimum(), 0.93, "quadratic"), dataclasses.replace(optimum(), activation="relu")))
    assert found["relu-power"] == NOT_REPRODUCED
    assert found["quadratic-one-frequency"] == found["quadratic-distance-neurons"] == NOT_REPRODUCED


def test_the_wrong_scale_shows_in_the_margin_and_the_loss_alone():
    """A tenth more of every weight is a third more of the margin, and the normalised margin is as before."""
    found = verdicts(tables(optimum().scaled(1.1)))
    wrong = {name for name, verdict in found.items() if verdict == NOT_REPRODUCED}
    assert wrong == {"quadratic-logit-margin", "quadratic-cross-entropy"}


@pytest.mark.parametrize(("excess", "verdict"), [(1.00005, REPRODUCED), (1.0002, NOT_REPRODUCED)])
def test_one_margin_above_the_maximum_refutes_the_bound(excess, verdict):
    for seeds in (6, 4):  # no number of seeds is too small to refute it
        assert verdicts(tables(seeds=seeds, highest=excess))["quadratic-bound"] == verdict
    (bound,) = [claim for claim in EXPERIMENT.judge(tables()) if claim.name == f"Z_{P}-quadratic-bound"]
    assert bound.trials == 6


def test_too_few_seeds_decide_nothing_but_the_bound():
    found = verdicts(tables(seeds=5))
    assert found.pop("quadratic-bound") == REPRODUCED and set(found.values()) == {INCONCLUSIVE}
    assert "5 seeds; a verdict needs 6" in EXPERIMENT.judge(tables(seeds=5))[1].reason


def test_networks_that_diverged_count_as_the_worst():
    found = verdicts(tables(lost=6))
    assert found.pop("quadratic-bound") == REPRODUCED, "their curves are still below the maximum"
    assert set(found.values()) == {NOT_REPRODUCED}
    assert verdicts(tables(lost=1))["quadratic-margin"] == INCONCLUSIVE


def test_every_modulus_has_its_claims():
    changes = {"orders": (5, P), "widths": (10, 10), "steps": (100, 100), "doubled_every": (10, 10)}
    settings = EXPERIMENT.settings("laptop", SIX | changes | {"activations": ("quadratic",)})
    both = tables()["networks"].filter(activation="quadratic")
    both = pl.concat([both, both.with_columns(p=pl.lit(5, pl.Int64), ratio=pl.lit(0.5))])
    named = verdicts_of(EXPERIMENT, Tables(settings, {"networks": both}))
    assert len(named) == 24
    assert (named["Z_5-quadratic-margin"], named[f"Z_{P}-quadratic-margin"]) == (NOT_REPRODUCED, REPRODUCED)


# --- what several seeds say together --------------------------------------------------------------------------


def said(values: list[float], fewest: int = 6, **threshold: Any) -> Any:
    say = Claims("here")
    MedianClaims(say, pl.DataFrame({"it": values}), fewest)("it", "it is so.", "it", "it", **threshold)
    return next(iter(say))


def test_medians_have_the_range_as_their_interval_from_six_seeds_on_and_count_divergence():
    found = said([-0.3, 0.1, 0.2, 0.4, 0.5, 0.6], above=0.0)
    assert (found.value, found.low, found.high, found.trials) == (0.2, -0.3, 0.6, 6)
    few = said([0.1, 0.3, math.nan], at_least=0.0)
    assert (few.value, few.low, few.high) == (0.1, -math.inf, math.inf) and few.verdict == INCONCLUSIVE
    six = said([math.nan, 0.1, 0.2, 0.3, 0.4, 0.5], at_most=1.0)
    assert (six.value, six.low, six.high) == (0.3, 0.1, math.inf)
    many = said(list(np.arange(20.0)), between=(3.0, 16.0))
    assert many.value == 9 and 4 <= many.low <= 6 and 13 <= many.high <= 15 and many.verdict == REPRODUCED
    alone = said([0.5], at_least=0.0, fewest=1)
    assert (alone.low, alone.high, alone.trials, alone.verdict) == (0.5, 0.5, 1, REPRODUCED)


def test_a_bound_without_any_number_is_inconclusive():
    say = Claims("here")
    MedianClaims(say, pl.DataFrame({"highest": [math.nan, -math.inf]})).bound("γ*")
    assert next(iter(say)).verdict == INCONCLUSIVE


def test_thresholds_of_distances_follow_from_those_of_powers():
    """A vector with the share P of its power in a cosine is at the distance (2(1-√P))^½ from it."""
    for power, bound in ((0.99, common.NEURONS), (0.85, cyclic.RELU_NEURONS)):
        assert math.sqrt(2 * (1 - math.sqrt(power))) == pytest.approx(bound, abs=0.006)
    found = addition_measures(nearly(optimum(), 0.97, "quadratic"), P)
    assert found["neurons"] == pytest.approx(math.sqrt(2 * (1 - math.sqrt(0.97))), rel=1e-6)


# --- measures -------------------------------------------------------------------------------------------------


def test_measures_of_a_random_network_agree_with_direct_ones():
    rng = np.random.default_rng(3)
    network = PairArrays(*(rng.normal(size=(20, 5)) for _ in range(3)))
    found = addition_measures(network, 5)
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
    assert addition_measures(network, P)["fewest"] == 8
    scale = np.where(np.arange(40) < 5, 0.05, 1.0)[:, None]  # five of the eight neurons of frequency 1 below a tenth
    found = addition_measures(PairArrays(scale * network.U, scale * network.V, scale * network.W), P)
    assert (found["fewest"], found["kept"], found["present"]) == (3, 35, 1.0)
    assert found["gap_of_logits"] > 10 * found["gap_of_neurons"]


def test_a_network_that_diverged_or_is_zero_has_no_measures():
    zeros = PairArrays(*(np.zeros((4, 5)) for _ in range(3)))
    for network in (None, zeros):
        assert all(math.isnan(value) for value in addition_measures(network, 5).values())


def test_relu_distance_of_equal_norms_is_that_of_the_same_weights_as_a_quadratic_network():
    rng = np.random.default_rng(0)
    neurons = rng.normal(size=(30, 3 * P))
    neurons /= np.linalg.norm(neurons, axis=1, keepdims=True)  # then ‖ω‖² and ‖ω‖³ are the same weights
    parts = np.split(neurons, 3, axis=1)
    relu, quadratic = PairArrays(*parts, activation="relu"), PairArrays(*parts)
    found, wanted = relu_distance(relu, P), margin_distance(quadratic, P)
    assert (found["neurons"], found["worst_neuron"], found["shares"]) == pytest.approx(
        (wanted.neurons, wanted.worst, wanted.shares)
    )
    logits = np.maximum(relu.U.T[:, None, :] + relu.V.T[None, :, :], 0) @ relu.W
    a = np.arange(P)
    target = np.eye(P)[(a[:, None] + a[None, :]) % P]
    centred, wanted_function = (f - f.mean(axis=2, keepdims=True) for f in (logits, target))
    cosine = np.sum(centred * wanted_function) / np.linalg.norm(centred) / np.linalg.norm(wanted_function)
    assert found["function"] == pytest.approx(1 - cosine)
    measures = addition_measures(relu, P)
    assert math.isnan(measures["ratio"]) and measures["neurons"] == found["neurons"]


def test_relative_shares_are_ours_over_two_over_p_minus_one():
    neurons = [cyclic_neuron(P, z, 0.3 * z, 1.0).scaled(z) for z in (1, 2, 2, 5)]
    network = PairArrays(*(np.concatenate([getattr(one, part) for one in neurons]) for part in "UVW"))
    cubes = np.array([1, 8 + 8, 0, 0, 125])
    np.testing.assert_allclose(relative_shares(network_spectrum(network, P), P), cubes / 142 * 5)


@pytest.mark.slow
def test_figures_hold_the_chosen_neurons_and_every_weight_vector():
    """Neurons of the least, median and largest power; histograms that sum to one; nothing for what diverged."""
    powers = (0.6, 0.95, 0.7, 0.8, 0.9)
    parts = [nearly(cyclic_neuron(P, 2, 0.1, 0.2), power, "quadratic") for power in powers]
    network = PairArrays(*(np.concatenate([getattr(one, part) for one in parts]) for part in "UVW"))
    assert cyclic.chosen_neurons(network, P) == [0, 3, 1]
    settings = EXPERIMENT.settings("laptop", SIX | {"seeds": 2})
    chosen = {"quadratic": network, "relu": None}
    data = drawn(EXPERIMENT, planted_tables(EXPERIMENT, settings, lambda trial: chosen[trial.model.activation]))
    shown = data[f"embeddings-{P}"]
    assert shown["activation"].unique().to_list() == ["quadratic"] and len(shown) == 3 * P
    assert shown["neuron"].unique().sort().to_list() == [0, 1, 3]
    np.testing.assert_allclose(shown.filter(neuron=3)["v"].to_numpy(), network.V[3])
    sums = dict(data[f"powers-{P}"].group_by("networks").agg(pl.col("kept").sum()).iter_rows())
    assert sums == pytest.approx({"at initialisation": 1, cyclic.NAMES["quadratic"]: 1, cyclic.NAMES["relu"]: 0})
    quadratic = data[f"powers-{P}"].filter(pl.col("kept") > 0, networks=cyclic.NAMES["quadratic"])
    assert quadratic["low"].min() > 0.55 and quadratic["high"].max() < 0.98
    assert quadratic["every"].sum() == pytest.approx(1)


# --- what is trained ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("activation", "preset"), [("quadratic", "Z_71"), ("relu", "Z_71-relu")])
def test_the_paper_scale_is_the_sources_training(activation, preset):
    cohorts = EXPERIMENT.trials(EXPERIMENT.settings("paper"))
    (cohort,) = [cohort for cohort in cohorts if cohort.labels["activation"] == activation]
    source, trial = MARGIN_PRESETS[preset], cohort.template
    assert describe(trial.training) == describe(source.training(100)) and trial.model.activation == activation
    assert trial.model.width == source.width and trial.task.order == 71 and len(cohort) == 12


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"orders": (10,)}, "odd p; got p=10 \\(try p=9 or 11\\)"),
        ({"weight": 0.0075}, "below γ\\*\\(p-1\\)/p = 0.00746"),
    ],
)
def test_settings_that_do_not_go_together_are_refused(changes, message):
    with pytest.raises(KroghError, match=message):
        EXPERIMENT.settings("laptop", SIX | changes)


@pytest.mark.slow  # the smoke run trains it too
def test_a_short_run_for_real(tmp_path):
    """Two networks, 200 steps: what is kept comes back, and the figures hold it."""
    changes = {"activations": ("quadratic",), "steps": (200,)}
    study = run_study(EXPERIMENT, "smoke", tmp_path, changes=changes)
    read = read_study(study.folder)
    assert {claim.name for claim in read.claims} == {f"Z_5-{name}" for name in QUADRATIC}
    curve = pl.read_csv(study.folder / "figures" / "margin-5.csv")
    assert curve["step"].to_list() == [0, 100, 200] * 2
    final = pl.read_csv(study.folder / "figures" / "distance.csv").filter(when="end")
    last = curve.filter(step=200)["normalised_margin"].to_numpy()
    np.testing.assert_allclose(final["normalised_margin"].to_numpy(), last, rtol=1e-3, atol=1e-6)
