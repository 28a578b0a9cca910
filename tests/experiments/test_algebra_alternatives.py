"""Other solutions and other norms, on networks that are known: each claim as they say, for it and against it."""

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
from krogh.experiments.algebra import cyclic, norms
from krogh.experiments.algebra.alternatives import Alternatives, predicted_ratios
from krogh.experiments.algebra.cyclic_memorisers import compared, departed, departures, memoriser_cohorts
from krogh.experiments.algebra.norms import Norms
from krogh.lab import Results, figures
from krogh.tasks.groups import cyclic as cyclic_group
from krogh.theory.constructions.algebra_arrays import cyclic_network, memoriser_network
from krogh.theory.margins import PairArrays, max_margin_cyclic, neuron_efficiency, normalised_margin
from krogh.training.penalties import NeuronNorm


class Planted(Results[Any]):
    """Results whose networks are of the test's choice; a network of None is one that diverged."""

    def __init__(
        self, experiment: Any, settings: Any, planted: Callable[[Trial], PairArrays | None], largest: float = 0.0
    ):
        rows, self.networks = [], {}
        for cohort in experiment.trials(settings):
            for trial, identity in zip(cohort, cohort.ids().tolist(), strict=True):
                network = planted(trial)
                self.networks[identity] = network
                curve = {f"curve.{name}": [0.0, 0.0] for name in trial.curve_columns()}
                top = largest * max_margin_cyclic(trial.task.order).value  # type: ignore[attr-defined]
                curve |= {"curve.step": [0, 100], "curve.normalised_margin": [0.0, top]}
                outcome = "diverged" if network is None else "converged"
                rows.append({"id": identity, "seed": int(trial.seed), "outcome": outcome} | curve)
        super().__init__(pl.DataFrame(rows), settings, "laptop")

    def weights(self, identity: int) -> dict[str, np.ndarray]:
        network = self.networks[identity]
        return {"U": network.U, "V": network.V, "W": network.W}


def verdicts(experiment: Any, results: Results[Any]) -> dict[str, str]:
    claims = experiment.claims(results)
    assert len({claim.name for claim in claims}) == len(claims)
    return {claim.name: claim.verdict for claim in claims}


def drawn(experiment: Any, results: Results[Any]) -> dict[str, pl.DataFrame]:
    with figures.style():
        made = experiment.figures(results)
    for figure in made:
        figure.drawing.draw_without_rendering()
        assert len(figure.data) and figure.caption
    return {figure.name: figure.data for figure in made}


def maximal(trial: Trial) -> PairArrays:
    return cyclic_network(trial.task.order)


def memoriser(trial: Trial) -> PairArrays:
    return memoriser_network(cyclic_group(trial.task.order).table)


# --- other solutions ------------------------------------------------------------------------------------------


def alternatives(planted: Callable[[Trial], PairArrays | None], largest: float = 0.0, **changes: Any) -> Planted:
    experiment = Alternatives()
    return Planted(experiment, experiment.settings("laptop", changes), planted, largest)


@pytest.mark.parametrize(("p", "balanced", "printed"), [(11, 0.3876, 0.1700), (71, 0.1655, 0.0726)])
def test_predicted_margins_of_memorisers(p, balanced, printed):
    found = predicted_ratios(p)
    assert found["memoriser, balanced"] == pytest.approx(balanced, abs=5e-5)
    assert found["memoriser, as printed"] == pytest.approx(printed, abs=5e-5)
    assert found["memoriser, balanced"] == pytest.approx(math.sqrt(2) * (p - 1) / p**1.5)


@pytest.mark.slow
def test_training_that_leaves_the_memoriser_is_reproduced():
    results = alternatives(maximal, largest=1.0)
    found = verdicts(Alternatives(), results)
    assert set(found.values()) == {REPRODUCED} and {"noise-0-margin", "noise-0.01-margin", "noise-0.1-margin"} < set(
        found
    )
    data = drawn(Alternatives(), results)
    assert set(data) == {"comparison", "departure", "distance"}
    ratios = dict(data["comparison"].group_by("network").agg(pl.col("ratio").max()).iter_rows())
    assert ratios["maximum margin"] == pytest.approx(1) and ratios["trained"] == pytest.approx(1)
    assert ratios["memoriser, balanced"] == pytest.approx(0.3876, abs=5e-5) and ratios["random"] < 0


def test_training_that_stays_at_the_memoriser_is_not():
    found = verdicts(Alternatives(), alternatives(memoriser))
    for noise in ("0", "0.01", "0.1"):
        for word in ("margin", "one-frequency", "distance-neurons"):
            assert found[f"noise-{noise}-{word}"] == NOT_REPRODUCED
        assert found[f"noise-{noise}-distance-function"] == REPRODUCED
    assert found["trained-margin"] == NOT_REPRODUCED
    constructed = (
        "maximum-margin-margin",
        "memoriser-balanced-margin",
        "memoriser-as-printed-margin",
        "memoriser-flat",
    )
    assert {found[name] for name in constructed} == {REPRODUCED}


def test_few_seeds_decide_what_no_seed_can_change():
    """Without noise there is one network, and constructions have no seed."""
    found = verdicts(Alternatives(), alternatives(maximal, seeds=5))
    fixed = ("noise-0-", "maximum-margin-", "memoriser-")
    for name, verdict in found.items():
        decided = name.startswith(fixed) or name.endswith("bound")
        assert verdict == (REPRODUCED if decided else INCONCLUSIVE), name
    assert any(name.startswith("noise-0.1-") for name in found) and "noise-0-margin" in found


def test_a_margin_above_the_maximum_refutes_the_bounds():
    found = verdicts(Alternatives(), alternatives(maximal, largest=1.001))
    assert {name for name, verdict in found.items() if verdict == NOT_REPRODUCED} == {
        "bound", "noise-0-bound", "noise-0.01-bound", "noise-0.1-bound"
    }  # fmt: skip


def test_divergence_is_the_worst_and_still_a_report():
    results = alternatives(lambda trial: None, seeds=6)
    found = verdicts(Alternatives(), results)
    assert found["noise-0-margin"] == found["noise-0.1-distance-neurons"] == found["trained-margin"] == NOT_REPRODUCED
    drawn(Alternatives(), results)


def test_every_noise_is_one_structure_and_starts_at_the_memoriser():
    settings = Alternatives().settings("laptop")
    cohorts = memoriser_cohorts(settings)
    assert [len(cohort) for cohort in cohorts] == [1, 6, 6] and len({cohort.structure for cohort in cohorts}) == 1
    results = alternatives(maximal)
    start = memoriser_network(cyclic_group(7).table)
    for noise, networks in departed(results).items():
        moved = np.concatenate([(one.initial.neurons - start.neurons).ravel() for one in networks])
        assert np.std(moved) == pytest.approx(noise, rel=0.05, abs=1e-7)
    first = departures(results).filter(noise=0.0, when="start")
    assert first["ratio"].to_list() == pytest.approx([0.4582], abs=5e-5)
    assert compared(results).filter(network="random")["ratio"].max() < 0


def test_neurons_with_all_frequencies_alike_have_a_margin_of_one_over_the_root_of_their_number():
    """What the memoriser's symmetries allow: u, v and w a multiple of δ - 1/p, whose efficiency is 1/√((p-1)/2)."""
    for p in (5, 7, 11):
        delta = (np.eye(p) - 1 / p)[:1]
        assert neuron_efficiency(PairArrays(delta, delta, delta), p) == pytest.approx([((p - 1) / 2) ** -0.5])
        # and two such neurons per pair, as the memoriser's, have just that margin
        a, b = np.divmod(np.arange(p * p), p)
        rows = np.eye(p) - 1 / p
        network = PairArrays(
            np.concatenate([rows[a], rows[a]]),
            np.concatenate([rows[b], -rows[b]]),
            np.concatenate([rows[(a + b) % p], -rows[(a + b) % p]]),
        )
        reached = normalised_margin(network, p) / max_margin_cyclic(p).value
        assert reached == pytest.approx(((p - 1) / 2) ** -0.5)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"noises": (0.1, 0.1)}, "noises must be different"),
        ({"noises": ()}, "noises must be different"),
        ({"noises": (-0.1,)}, "noises must be different numbers ≥ 0"),
        ({"p": 12}, "try p=11 or 13"),
        ({"start_p": 4}, "odd p; got p=4"),
        ({"start_weight": 0.1}, "the zero network is optimal for p=7"),
        ({"seeds": 0}, "seeds must be"),
    ],
)
def test_settings_of_alternatives_are_checked(changes, message):
    with pytest.raises(KroghError, match=message):
        Alternatives().trials(Alternatives().settings("laptop", changes))


# --- other norms ----------------------------------------------------------------------------------------------


def kind_of(trial: Trial) -> str:
    b = trial.training.penalty.b
    return "relu" if trial.model.activation == "relu" else "3" if b is None else f"{b:g}"


def fewer(network: PairArrays, count: int, power: float, activation: str = "quadratic") -> PairArrays:
    """Some neurons of a network, with the share `power` of their power where it was."""
    chosen = np.arange(network.width) * count // network.width
    first = np.unique(chosen, return_index=True)[1]
    parts = []
    for part in (network.U[first], network.V[first], network.W[first]):
        spectrum = np.fft.rfft(part, axis=1)
        moved = np.concatenate([spectrum[:, :1], np.roll(spectrum[:, 1:], 1, axis=1)], axis=1)
        parts.append(math.sqrt(power) * part + math.sqrt(1 - power) * np.fft.irfft(moved, network.order, axis=1))
    return PairArrays(parts[0], parts[1], parts[2], activation)


def as_expected(trial: Trial) -> PairArrays:
    network = cyclic_network(trial.task.order)
    return {
        "3": network,
        "2.5": fewer(network, 30, 0.99),
        "2": fewer(network, 18, 0.98),
        "relu": fewer(network, 40, 0.93, "relu"),
    }[kind_of(trial)]


def of_norms(planted: Callable[[Trial], PairArrays | None], largest: float = 0.0, **changes: Any) -> Planted:
    return Planted(Norms(), Norms().settings("laptop", changes), planted, largest)


NORM_CLAIMS = {
    "bound", "fewer-neurons", "less-exact", "smaller-margin", "L_2,3-distance-neurons", "L_2,3-distance-shares",
    "L_2,3-distance-function", "farther", "more-exact-than-relu",
}  # fmt: skip


def test_norms_as_in_the_reference_are_reproduced():
    results = of_norms(as_expected, largest=1.0)
    assert verdicts(Norms(), results) == dict.fromkeys(NORM_CLAIMS, REPRODUCED)
    data = drawn(Norms(), results)
    assert set(data) == {"norms", "curves", "distance"} and len(data["norms"]) == 24
    assert dict(data["norms"].group_by("kind").agg(pl.col("kept").first()).iter_rows()) == {
        "3": 40, "2.5": 30, "2": 18, "relu": 40
    }  # fmt: skip


def test_norms_that_make_no_difference_are_not():
    def alike(trial: Trial) -> PairArrays:
        network = cyclic_network(trial.task.order)
        return PairArrays(network.U, network.V, network.W, trial.model.activation)

    found = verdicts(Norms(), of_norms(alike))
    same = {"fewer-neurons", "less-exact", "smaller-margin", "farther", "more-exact-than-relu"}
    assert {name for name, verdict in found.items() if verdict == NOT_REPRODUCED} == same


def test_quadratic_neurons_less_exact_than_relu_ones_are_not_reproduced():
    def worse(trial: Trial) -> PairArrays:
        network = cyclic_network(trial.task.order)
        return fewer(network, 18, 0.9) if kind_of(trial) == "2" else as_expected(trial)

    found = verdicts(Norms(), of_norms(worse))
    assert {name for name, verdict in found.items() if verdict == NOT_REPRODUCED} == {"more-exact-than-relu"}


def test_few_seeds_of_norms_and_one_that_diverged():
    found = verdicts(Norms(), of_norms(as_expected, seeds=5))
    assert found.pop("bound") == REPRODUCED and set(found.values()) == {INCONCLUSIVE}
    results = of_norms(lambda trial: None if kind_of(trial) == "2.5" else as_expected(trial))
    assert set(verdicts(Norms(), results).values()) == {REPRODUCED}, "nothing is claimed about other norms"
    found = verdicts(Norms(), of_norms(as_expected, largest=1.001, seeds=5))
    assert found["bound"] == NOT_REPRODUCED


def test_without_relu_networks_nothing_is_said_about_them():
    results = of_norms(as_expected, relu=False)
    assert set(verdicts(Norms(), results)) == NORM_CLAIMS - {"more-exact-than-relu"}
    assert measured_kinds(results) == ["3", "2.5", "2"]


def measured_kinds(results: Results[Any]) -> list[str]:
    return norms.measured(results)["kind"].unique(maintain_order=True).to_list()


def test_the_trials_of_the_theorems_norm_are_those_of_the_experiment_on_addition():
    """One identity, so that one store would serve both."""
    ours, theirs = Norms(), cyclic.CyclicAddition()
    settings = theirs.settings("laptop")
    wanted = cyclic.cohorts_of(settings, 11, "quadratic")[0].ids()[:6]
    found = norms.cohorts_of(ours.settings("laptop"), "3")[0].ids()
    assert found.tolist() == wanted.tolist()
    penalty = norms.cohorts_of(ours.settings("laptop"), "2")[0].template.training.penalty
    assert isinstance(penalty, NeuronNorm) and (penalty.b, penalty.exponent) == (2.0, 2.0)
    assert float(penalty.weight) == pytest.approx(1e-4)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"norms": (3.0,)}, "must hold 3 and 2"),
        ({"norms": (3.0, 2.0, 2.0)}, "norms must be different"),
        ({"norms": (3.0, 2.0, 0.5)}, "numbers ≥ 1"),
        ({"p": 10}, "odd p; got p=10"),
        ({"weight": 1.0}, "weight must be positive and below"),
        ({"seeds": 0}, "seeds must be"),
    ],
)
def test_settings_of_norms_are_checked(changes, message):
    with pytest.raises(KroghError, match=message):
        Norms().trials(Norms().settings("laptop", changes))
