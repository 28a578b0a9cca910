"""Experiments on tables whose law is known: each claim must come out as the law says, for it and against it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import polars as pl
import pytest
from planted import curve_steps, ended_trials
from planted import drawn as drawn_by
from planted import verdicts as verdicts_by
from scipy.stats import norm

import krogh.experiments.parity.scaling as scaling_module
from krogh.engine import Trial, Trials
from krogh.lab import Results, Tables, run_study
from krogh.lab.claims import INCONCLUSIVE, NOT_REPRODUCED, REPRODUCED
from krogh.lab.experiment import measured_tables
from krogh.lab.fits import power_law
from krogh.registry import EXPERIMENTS
from krogh.report.read import read_study

PARITY = ["parity/histogram", "parity/scaling", "parity/training-curves"]
INF = np.inf

Law = Callable[[Trial, int, np.random.Generator], np.ndarray]


def results_of(name: str, law: Law, plateau: float = 0.5, scale: str = "paper", **changes: Any) -> Tables[Any]:
    """What the experiment would be shown if its trials converged at times drawn from `law`.

    A curve is at chance for the share `plateau` of its time, and at a quarter afterwards.
    """
    experiment = EXPERIMENTS[name]()
    settings = experiment.settings(scale, changes)
    rng = np.random.default_rng(0)

    def ends(cohort: Trials) -> dict[str, np.ndarray]:
        times, budget = law(cohort.template, len(cohort), rng), int(cohort.template.training.stopping.budget)
        end = {"time": times, "final": np.where(times <= budget, 0.0, 0.5)}
        if cohort.template.probes:
            leaves = plateau * np.minimum(times, budget)[:, None]
            end["error"] = np.where(curve_steps(cohort)[None, :] < leaves, 0.5, 0.25)
        return end

    table = ended_trials(list(experiment.trials(settings)), ends)
    return measured_tables(experiment, Results(table, settings, scale))


def verdicts(name: str, tables: Tables[Any]) -> dict[str, str]:
    return verdicts_by(EXPERIMENTS[name](), tables)


def drawn(name: str, tables: Tables[Any]) -> list[pl.DataFrame]:
    return list(drawn_by(EXPERIMENTS[name](), tables).values())


def on_grid(times: np.ndarray) -> np.ndarray:
    return 10 * np.ceil(times / 10)


def lognormal(median: float, spread: float = 0.3) -> Law:
    return lambda trial, count, rng: on_grid(median * rng.lognormal(0, spread, count))


def never(trial: Trial, count: int, rng: np.random.Generator) -> np.ndarray:
    return np.full(count, INF)


# --- all three ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", PARITY)
def test_the_smoke_scale_decides_nothing(name):
    results = results_of(name, lognormal(300), scale="smoke")
    assert set(verdicts(name, results).values()) == {INCONCLUSIVE}
    drawn(name, results)


@pytest.mark.parametrize("name", ["parity/scaling", "parity/training-curves"])
def test_when_nothing_converges_there_is_still_a_report(name):
    results = results_of(name, never, scale="smoke")
    assert REPRODUCED not in verdicts(name, results).values()
    drawn(name, results)


@pytest.mark.parametrize("failed", [1.0, 0.6])
def test_a_histogram_of_failures_is_still_a_report(failed):
    def mostly(trial, count, rng):
        return np.where(rng.random(count) < failed, INF, 500.0)

    results = results_of("parity/histogram", mostly, trials=2000)
    assert verdicts("parity/histogram", results)["no-early-luck"] != REPRODUCED
    drawn("parity/histogram", results)


# --- the histogram ------------------------------------------------------------------------------------------

HISTOGRAM = {"no-early-luck", "earliest", "not-random-search", "not-memoryless", "skewed-right"}


def test_histogram_of_times_like_the_sources_is_reproduced():
    results = results_of("parity/histogram", lognormal(1000), trials=5000)
    assert verdicts("parity/histogram", results) == dict.fromkeys(HISTOGRAM, REPRODUCED)


def test_histogram_of_a_random_search_is_not_reproduced():
    """Random search over the C(30,3) = 4060 subsets: everything the source denies, and a tail to the right."""

    def search(trial, count, rng):
        return on_grid(rng.geometric(1 / 4060, count))

    found = verdicts("parity/histogram", results_of("parity/histogram", search, trials=5000))
    assert found.pop("skewed-right") == REPRODUCED
    assert found == dict.fromkeys(HISTOGRAM - {"skewed-right"}, NOT_REPRODUCED)


def test_histogram_of_a_memoryless_search_at_another_pace():
    """Ten times as fast as random search: no longer random search, but memoryless all the same."""

    def search(trial, count, rng):
        return on_grid(rng.geometric(1 / 406, count))

    found = verdicts("parity/histogram", results_of("parity/histogram", search, trials=5000))
    assert found["not-random-search"] == REPRODUCED
    assert found["not-memoryless"] == found["earliest"] == NOT_REPRODUCED


def test_histogram_with_a_tail_to_the_left():
    def mirrored(trial, count, rng):
        return on_grid(np.maximum(2000 - 500 * rng.lognormal(0, 0.5, count), 10))

    found = verdicts("parity/histogram", results_of("parity/histogram", mirrored, trials=5000))
    assert found["skewed-right"] == NOT_REPRODUCED


def test_histogram_on_the_edge_is_inconclusive():
    """One trial in a hundred at a tenth of the median is just what the threshold allows."""

    def edge(trial, count, rng):
        times = on_grid(1000 * rng.lognormal(0, 0.1, count))
        times[: count // 100] = 100
        return times

    found = verdicts("parity/histogram", results_of("parity/histogram", edge, trials=2000))
    assert found["no-early-luck"] == INCONCLUSIVE and found["earliest"] == NOT_REPRODUCED


def test_histogram_of_too_few_trials_is_inconclusive():
    results = results_of("parity/histogram", lognormal(1000), trials=999)
    assert verdicts("parity/histogram", results) == dict.fromkeys(HISTOGRAM, INCONCLUSIVE)
    claims = EXPERIMENTS["parity/histogram"]().judge(results)
    assert {claim.trials for claim in claims} == {999}
    assert all("999 trials are too few" in claim.reason for claim in claims)


def test_failures_count_as_late_not_as_missing():
    """A third of the trials fail: the upper tail is beyond the budget and nothing can be said about it."""

    def partly(trial, count, rng):
        return np.where(rng.random(count) < 1 / 3, INF, lognormal(1000)(trial, count, rng))

    results = results_of("parity/histogram", partly, trials=3000)
    found = verdicts("parity/histogram", results)
    assert found["skewed-right"] == INCONCLUSIVE and found["no-early-luck"] == REPRODUCED
    (data,) = drawn("parity/histogram", results)
    assert data["sgd"].sum() == pytest.approx(2 / 3, abs=0.03)


def test_the_histogram_holds_every_trial_that_converged():
    (data,) = drawn("parity/histogram", results_of("parity/histogram", lognormal(1000), trials=2000))
    assert data["sgd"].sum() == pytest.approx(1.0)
    assert data["random_search"].sum() <= 1.0


# --- scaling ------------------------------------------------------------------------------------------------

SIZES = {"ns": (10, 15, 20, 30, 40, 60), "ks": (2, 3), "seeds": 100}


def by_size(median: Callable[[int, int], float]) -> Law:
    """Times at the quantiles of a log-normal law, so that no luck of the draw bends a straight line."""

    def law(trial, count, rng):
        spread = np.exp(0.2 * norm.ppf((np.arange(count) + 0.5) / count))
        return on_grid(median(trial.task.n, trial.task.k) * spread)

    return law


def scaling(median: Callable[[int, int], float], **changes: Any) -> tuple[Tables[Any], dict[str, str]]:
    results = results_of("parity/scaling", by_size(median), **(SIZES | changes))
    return results, verdicts("parity/scaling", results)


def test_scaling_finds_the_exponent_of_a_power_law():
    results, found = scaling(lambda n, k: 100 * n ** (0.5 * k))
    assert found["ii-straight-k2"] == found["ii-straight-k3"] == found["ii-steeper-k3"] == REPRODUCED
    assert found["ii-elbow-k2"] == found["ii-elbow-k3"] == INCONCLUSIVE, "a straight line has no elbow"
    by_k = scaling_module.medians(results)["ii"]
    for k in (2, 3):
        exponent = power_law(by_k[k]).exponent
        assert exponent.contains(0.5 * k) and exponent.high - exponent.low < 0.2 and exponent.trials == 600
    trials = {claim.name: claim.trials for claim in EXPERIMENTS["parity/scaling"]().judge(results)}
    assert trials["ii-straight-k2"] == 600 and trials["ii-steeper-k3"] == 1200
    (data,) = drawn("parity/scaling", results)
    assert len(data) == 12 and data["trials"].unique().to_list() == [100]
    assert data["success_rate"].unique().to_list() == [1.0]


def test_scaling_without_a_law_is_not_reproduced():
    _, found = scaling(lambda n, k: 3000 if n in (15, 30, 60) else 300)
    assert found["ii-straight-k2"] == found["ii-straight-k3"] == NOT_REPRODUCED


def test_scaling_that_eases_with_k_is_not_reproduced():
    _, found = scaling(lambda n, k: 100 * n ** (2.0 - 0.5 * k))
    assert found["ii-steeper-k3"] == NOT_REPRODUCED


def test_scaling_alike_for_every_k_is_inconclusive():
    _, found = scaling(lambda n, k: 100.0 * n)
    assert found["ii-steeper-k3"] == INCONCLUSIVE


def test_scaling_with_an_elbow_and_with_its_opposite():
    _, found = scaling(lambda n, k: 300 * np.exp(n / 12))
    assert found["ii-elbow-k2"] == found["ii-elbow-k3"] == REPRODUCED
    _, found = scaling(lambda n, k: 1000 * np.log(n / 5))
    assert found["ii-elbow-k2"] == found["ii-elbow-k3"] == NOT_REPRODUCED


def test_scaling_by_too_few_seeds_or_too_coarse_checks_is_inconclusive():
    for median, changes in ((lambda n, k: 100 * n ** (0.5 * k), {"seeds": 19}), (lambda n, k: 1.0 * n, {})):
        _, found = scaling(median, **changes)
        assert found and set(found.values()) == {INCONCLUSIVE}


def test_scaling_counts_failures_as_infinite_and_ends_the_curve_there():
    results, _ = scaling(lambda n, k: 100 * n**1.5 if n < 60 else INF)
    (data,) = drawn("parity/scaling", results)
    beyond = data.filter(pl.col("n") == 60)
    assert beyond["median"].to_list() == [INF, INF] and beyond["success_rate"].to_list() == [0.0, 0.0]


def test_scaling_tells_configurations_apart():
    def law(trial, count, rng):
        return np.full(count, 1000.0 if trial.model.kind == "polynet" else 2000.0)

    results = results_of("parity/scaling", law, ns=(10, 20, 30), ks=(2, 3), seeds=4, configurations=("ii", "v", "xv"))
    for name, expected in (("ii", 2000.0), ("v", 2000.0), ("xv", 1000.0)):
        by_k = scaling_module.medians(results)[name]
        assert {point.trials for curve in by_k.values() for point in curve.y} == {4}
        assert {value for curve in by_k.values() for value in curve.value} == {expected}
    assert list(drawn_by(EXPERIMENTS["parity/scaling"](), results)) == ["scaling-ii", "scaling-v", "scaling-xv"]


# --- training curves ----------------------------------------------------------------------------------------

CURVES = {"n": 12, "seeds": 25, "budget": 2000, "validation": 64, "panels": ("relu-10", "polynet")}


def curves(law: Law, plateau: float = 0.8, **changes: Any) -> dict[str, str]:
    results = results_of("parity/training-curves", law, plateau, **(CURVES | changes))
    drawn("parity/training-curves", results)
    return verdicts("parity/training-curves", results)


def test_curves_with_a_long_plateau_are_reproduced():
    expected = dict.fromkeys(("relu-10-learns", "relu-10-plateau", "polynet-learns"), REPRODUCED)
    assert curves(lognormal(1000, 0.1)) == expected


def test_curves_that_fall_at_once_are_not():
    assert curves(lognormal(1000, 0.1), plateau=0.1)["relu-10-plateau"] == NOT_REPRODUCED
    assert curves(lognormal(1000, 0.1), plateau=0.1)["relu-10-learns"] == REPRODUCED


def test_curves_that_never_fall_are_not():
    found = curves(never)
    assert found["relu-10-learns"] == found["polynet-learns"] == NOT_REPRODUCED


def test_curves_where_a_fifth_learns_are_inconclusive():
    def fifth(trial, count, rng):
        return np.where(np.arange(count) % 5 == 0, 1000.0, INF)

    assert curves(fifth)["relu-10-learns"] == INCONCLUSIVE


def test_panels_are_told_apart_by_their_place():
    def law(trial, count, rng):
        return np.full(count, INF if trial.model.kind == "polynet" else 1000.0)

    for panels in (("relu-10", "polynet"), ("polynet", "relu-10")):
        found = curves(law, panels=panels)
        assert found["relu-10-learns"] == REPRODUCED and found["polynet-learns"] == NOT_REPRODUCED


# --- for real -----------------------------------------------------------------------------------------------


def test_a_smoke_run_of_the_histogram(tmp_path):
    study = run_study(EXPERIMENTS["parity/histogram"](), "smoke", tmp_path)
    assert study.status == "complete"
    read = read_study(study.folder)
    assert {claim.name for claim in read.claims} == HISTOGRAM
    assert {claim.verdict for claim in read.claims} == {INCONCLUSIVE}
    (picture,) = read.figures
    assert (study.folder / picture.svg).read_text().lstrip().startswith("<?xml")
    assert (study.folder / picture.pdf).read_bytes().startswith(b"%PDF")
    shares = pl.read_csv(study.folder / picture.data)["sgd"]
    table = pl.read_parquet(study.folder / "trials.parquet")
    assert len(table) == 64
    assert shares.sum() == pytest.approx(table["convergence_time"].is_not_null().mean())


@pytest.mark.slow
def test_curves_come_back_from_the_store_as_they_were_measured(tmp_path):
    changes = {"panels": ("polynet",), "budget": 300, "seeds": 3, "validation": 64}
    study = run_study(EXPERIMENTS["parity/training-curves"](), "smoke", tmp_path, changes=changes)
    table = pl.read_parquet(study.folder / "trials.parquet")
    every = read_study(study.folder).settings["probe_every"]
    for steps, step, error in table.select("steps", "curve.step", "curve.error").iter_rows():
        assert step == list(range(0, steps + 1, every)) and len(error) == len(step)
        assert all(0 <= value <= 1 for value in error)
    assert (study.folder / "figures" / "training-curves.svg").exists()
