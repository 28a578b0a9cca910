"""Chapter 6 on tables whose law is known: each claim must come out as the law says, for it and against it."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import polars as pl
import pytest
from planted import PlantedResults, curve_steps, drawn, ended_trials, verdicts

import krogh
from krogh.engine import Weights
from krogh.engine.inheriting import identity_of, resolve_start
from krogh.engine.trial import DATA
from krogh.errors import KroghError
from krogh.experiments.frontiers import advice as advice_module
from krogh.experiments.frontiers.common import SgdSettings, rungs
from krogh.experiments.frontiers.success import costs
from krogh.experiments.frontiers.tickets import pruned_errors
from krogh.lab import Results, Tables
from krogh.lab.claims import INCONCLUSIVE, NOT_REPRODUCED, REPRODUCED
from krogh.lab.experiment import measured_tables
from krogh.registry import EXPERIMENTS
from krogh.training import Online
from krogh.values import replaced

INF = np.inf


def sizes_of(cohort) -> np.ndarray:
    regime = cohort.take(np.arange(len(cohort))).training.regime
    return np.asarray(regime.m, float) if hasattr(regime, "m") else np.full(len(cohort), INF)


def tables_of(
    name: str, law: Any, scale: str = "laptop", curves: Any = None, measured: Any = None, **changes: Any
) -> Tables:
    """What the experiment would be shown if trials converged at the times that `law(cohort, sizes, random)` draws."""
    experiment = EXPERIMENTS[name]()
    settings, rng = experiment.settings(scale, changes), np.random.default_rng(0)

    def ends(cohort):
        times = law(cohort, sizes_of(cohort), rng)
        budget = int(cohort.template.training.stopping.budget)
        end = {"time": times, "final": np.where(times <= budget, 0.05, 0.5)}
        return end | ({} if curves is None else curves(cohort, times, rng))

    cohorts = list(experiment.trials(settings))
    table = ended_trials(cohorts, ends)
    if measured is not None:
        return Tables(settings, {"trials": table, **measured(settings)}, scale)
    return measured_tables(experiment, Results(table, settings, scale))


def frontier(edge, time=3000.0):
    """Trials succeed above a sample size that depends on the width and on the start, sooner the more there is."""

    def law(cohort, m, rng):
        model = cohort.template.model
        at = edge(model.width, model.sparsity)
        chance = 1 / (1 + (at / np.minimum(m, 1e6)) ** 12)
        quick = time * np.minimum(1.0, at / np.minimum(m, 1e6)) ** 2 + 200
        spent = 200 * np.ceil(quick * rng.lognormal(0, 0.2, len(m)) / 200)
        return np.where(rng.random(len(m)) < chance, spent, INF)

    return law


def as_the_source(width, sparsity):
    return 1300 / width**0.15 / (1.6 if sparsity else 1.0)


def test_the_smoke_scales_decide_nothing():
    for name in ("success", "slices", "surface", "advice"):
        tables = tables_of(f"frontiers/{name}", frontier(as_the_source), scale="smoke")
        assert set(verdicts(EXPERIMENTS[f"frontiers/{name}"](), tables).values()) == {INCONCLUSIVE}
        drawn(EXPERIMENTS[f"frontiers/{name}"](), tables)


# --- success ------------------------------------------------------------------------------------------------------


def success(edge, **changes):
    tables = tables_of("frontiers/success", frontier(edge), **({"seeds": 50} | changes))
    return verdicts(EXPERIMENTS["frontiers/success"](), tables), tables


def test_a_frontier_like_the_sources_is_reproduced():
    found, tables = success(as_the_source)
    assert set(found.values()) == {REPRODUCED}, [n for n in found if found[n] != REPRODUCED]
    assert {*drawn(EXPERIMENTS["frontiers/success"](), tables)} == {"success", "cost"}


def test_a_frontier_that_width_and_start_do_not_move_is_not():
    found, _ = success(lambda width, sparsity: 500)
    assert found["n30-k3-dense-width-buys-data"] == NOT_REPRODUCED
    assert found["n30-k3-sparse-succeeds-earlier"] == NOT_REPRODUCED
    assert REPRODUCED not in {found["n30-k3-dense-less-data-with-width"], found["n30-k3-sparse-needs-less"]}


def test_a_width_that_does_harm_is_found():
    found, _ = success(lambda width, sparsity: 2000 if width == 300 else 400)
    assert found["n30-k3-dense-wider-is-no-worse"] == NOT_REPRODUCED


def test_costs_are_those_of_the_formula():
    table = tables_of("frontiers/success", lambda cohort, m, rng: np.where(m >= 600, 1000.0, INF))["trials"]
    row = costs(table).filter(pl.col("width") == 100, pl.col("size") == "600", pl.col("sparsity") == 0)
    assert row["slack"].item() == pytest.approx((100 * 32 + 1) * 1000 * 600 / (math.comb(30, 3) / 2))
    assert (costs(table).filter(size="300")["slack"] == 0).all()
    fresh = costs(table).filter(pl.col("width") == 100, pl.col("size") == "online", pl.col("sparsity") == 0)
    assert fresh["m"].item() == 32 * 1000


def test_luck_is_paid_for():
    """M14 divides by the share that succeeds; the time is the median with failures as ∞."""
    law = lambda cohort, m, rng: np.where(np.arange(len(m)) % 4 == 0, INF, 1000.0)  # noqa: E731
    table = costs(tables_of("frontiers/success", law)["trials"]).filter(size="600", width=100, sparsity=0)
    share = table["success"].item()
    assert 0.7 <= share <= 0.8 and table["t_c"].item() == 1000
    assert table["slack"].item() == pytest.approx((100 * 32 + 1) * 1000 * 600 / share / (math.comb(30, 3) / 2))


def test_the_training_is_the_sources():
    """§C.3.1: θ ← θ - 0.1(∇ + 0.01θ) on batches of 32 for 10^5 steps; success is an error of 10% on 10^4 examples."""
    offline, online = (SgdSettings().trial(50, 3, m, 100, 2) for m in (600, INF))
    for trial in (offline, online):
        training, stopping = trial.training, trial.training.stopping
        assert float(training.optimiser.rate) == pytest.approx(0.1) and training.loss == "hinge"
        assert float(training.optimiser.decay) == pytest.approx(0.1 * 0.01)
        assert training.regime.batch_size == 32 and int(stopping.budget) == 100_000 and stopping.validation == 10_000
        assert float(stopping.threshold()) == pytest.approx(0.1)
        assert (
            trial.model.output_bias and (np.asarray(trial.initial_params()["W"]) == 1).sum(axis=1).tolist() == [2] * 100
        )
    assert int(offline.training.regime.m) == 600 and isinstance(online.training.regime, Online)


@pytest.mark.slow
def test_steps_of_the_training_by_hand():
    """With a batch as large as the sample, four steps in float64: every parameter shrinks by 0.999, biases too."""
    trial = SgdSettings(budget=4, check_every=4, test=16).trial(8, 3, 32, 5, 0, seed=3)
    trial = replaced(trial, "training.stopping.early", False)
    kept = Weights()
    krogh.run(trial, weights=kept)
    raw = replaced(trial.training.regime, "capacity", 32).whole(trial.task, trial.key(DATA))
    sample = trial.task.decode(raw)
    x, y = np.asarray(sample.x, np.float64), np.asarray(sample.y, np.float64)
    assert np.array_equal(y, x[:, :3].prod(axis=1))
    theta = {name: np.asarray(leaf, np.float64) for name, leaf in trial.initial_params().items()}
    for _ in range(4):
        before = x @ theta["W"].T + theta["b"]
        hidden = np.maximum(before, 0)
        slope = -y * (y * (hidden @ theta["u"] + theta["c"]) < 1) / 32
        back = slope[:, None] * theta["u"] * (before > 0)
        gradient = {"u": hidden.T @ slope, "c": slope.sum(), "W": back.T @ x, "b": back.sum(axis=0)}
        theta = {name: leaf - 0.1 * (gradient[name] + 0.01 * leaf) for name, leaf in theta.items()}
    for name, leaf in kept(identity_of(trial)).items():
        assert np.abs(leaf - theta[name]).max() < 1e-6, name


def test_sizes_share_a_cohort_within_a_factor_of_ten():
    assert rungs([100, 200, 600, 1000, 6000, 10_000]) == [[100, 200, 600], [1000, 6000], [10_000]]


# --- slices -------------------------------------------------------------------------------------------------------


def slices_law(harm):
    def law(cohort, m, rng):
        times = frontier(as_the_source)(cohort, m, rng)
        if cohort.template.task.n == 150:
            chance = np.where(np.isinf(m), 1 - harm, m >= 10_000)
            return np.where(rng.random(len(m)) < chance, 5000.0, INF)
        return times

    return law


def test_slices_like_the_sources_are_reproduced():
    tables = tables_of("frontiers/slices", slices_law(0.9), seeds=100, fall_seeds=30)
    found = verdicts(EXPERIMENTS["frontiers/slices"](), tables)
    assert found["fall-dense"] == found["fall-2-sparse"] == REPRODUCED
    assert all(found[name] == REPRODUCED for name in found if "needs-no-more" in name or "less-data" in name), found
    data = drawn(EXPERIMENTS["frontiers/slices"](), tables)["fall"]
    assert (data["low"] > 0.3).all() and data["second"].to_list() == [1_600_000.0] * 4


def test_data_that_only_helps_is_no_fall():
    tables = tables_of("frontiers/slices", slices_law(0.0), seeds=20, fall_seeds=30)
    found = verdicts(EXPERIMENTS["frontiers/slices"](), tables)
    assert found["fall-dense"] == found["fall-2-sparse"] == NOT_REPRODUCED


# --- curves -------------------------------------------------------------------------------------------------------


def curves_of(fits, tests):
    """Every cell fits and generalises at the times of its role."""

    def law(cohort, m, rng):
        return np.full(len(m), tests[cohort.labels["role"]])

    def curves(cohort, times, rng):
        steps, fit = curve_steps(cohort)[None, :], fits[cohort.labels["role"]]
        ones = np.ones((len(cohort), 1))
        return {
            "error": np.where(steps < times[:, None], 0.5, 0.05),
            "training_error": np.where(steps < fit, 0.4, 0.0) * ones,
        }

    return tables_of("frontiers/curves", law, curves=curves)


def test_curves_of_the_four_kinds_are_reproduced():
    fits = {"memorises": 200, "groks": 400, "learns": 1000, "fails": INF}
    tables = curves_of(fits, {"memorises": INF, "groks": 10_000.0, "learns": 1200.0, "fails": INF})
    assert set(verdicts(EXPERIMENTS["frontiers/curves"](), tables).values()) == {REPRODUCED}
    drawn(EXPERIMENTS["frontiers/curves"](), tables)


def test_curves_without_a_gap_are_not():
    fits = {"memorises": 200, "groks": 9000, "learns": 400, "fails": 200}
    found = verdicts(
        EXPERIMENTS["frontiers/curves"](),
        curves_of(fits, {"memorises": 600.0, "groks": 10_000.0, "learns": 10_000.0, "fails": 400.0}),
    )
    assert found.pop("fits") == REPRODUCED
    assert set(found.values()) == {NOT_REPRODUCED}


# --- tickets ------------------------------------------------------------------------------------------------------


def tickets_of(rewound, redrawn, pruned=0.05):
    def law(cohort, m, rng):
        part = cohort.labels["part"]
        middle = {"full": 4000.0, "rewound": rewound, "redrawn": redrawn}[part]
        return 200 * np.ceil(middle * rng.lognormal(0, 0.3, len(m)) / 200)

    def curves(cohort, times, rng):
        return {"error": np.where(curve_steps(cohort)[None, :] < times[:, None], 0.5, 0.05)}

    def measured(settings):
        schema = ["repetition", "error", "whole"]
        rows = [(number, pruned, 0.01) for number in range(settings.repetitions)]
        return {"pruned": pl.DataFrame(rows, schema=schema, orient="row")}

    tables = tables_of("frontiers/tickets", law, curves=curves, measured=measured, repetitions=8)
    return verdicts(EXPERIMENTS["frontiers/tickets"](), tables), tables


def test_tickets_that_win_are_reproduced():
    found, tables = tickets_of(2000.0, 50_000.0)
    assert set(found.values()) == {REPRODUCED}
    drawn(EXPERIMENTS["frontiers/tickets"](), tables)


def test_tickets_like_fresh_neurons_are_not():
    found, _ = tickets_of(4000.0, 4000.0, pruned=0.5)
    assert set(found.values()) == {NOT_REPRODUCED}


def test_small_networks_are_the_parents_neurons_or_fresh_ones():
    """The largest neurons: rewound to the parent's initial values, or drawn with the scale of the full network."""
    settings = EXPERIMENTS["frontiers/tickets"]().settings("smoke")
    parent = settings.full(3)
    kept = Weights()
    krogh.run(parent, weights=kept)
    first, last = parent.initial_params(), kept(identity_of(parent))
    largest = np.argsort(-np.linalg.norm(last["W"], axis=1))[: settings.kept]
    begun = {}
    for weights in ("rewound", "redrawn"):
        child = replaced(settings.small(parent, weights), "seed", 7)
        begun[weights] = resolve_start(child.start, kept).begin(child.model.init(child.key(0), child.task))
        assert sorted(np.flatnonzero(np.abs(begun[weights]["W"]).sum(axis=1))) == sorted(largest)
    for name in ("W", "b", "u"):
        assert np.array_equal(np.asarray(begun["rewound"][name])[largest], np.asarray(first[name])[largest])
    assert float(begun["rewound"]["c"]) == float(first["c"])
    assert not np.array_equal(np.asarray(begun["redrawn"]["b"])[largest], np.asarray(first["b"])[largest])


def test_what_pruning_costs_is_the_error_of_what_is_left():
    experiment = EXPERIMENTS["frontiers/tickets"]()
    settings = experiment.settings("smoke", {"n": 4, "k": 1, "width": 4, "kept": 1})
    right = {"W": np.eye(4) * 3, "b": np.full(4, 1.0), "u": np.array([1.0, 0, 0, 0]), "c": np.float32(-2.0)}
    wrong = right | {"W": np.diag([3.0, 9.0, 3.0, 3.0])}  # the largest neuron looks at another bit
    for planted, expected in ((right, 0.0), (wrong, 0.5)):
        final = {name: np.asarray(leaf, np.float32) for name, leaf in planted.items()}
        results = PlantedResults(experiment, settings, lambda trial, final=final: final, error=0.0)
        results.weights = lambda identity, final=final: final  # type: ignore[method-assign]
        assert pruned_errors(results)["error"].to_list() == pytest.approx([expected], abs=0.1)


# --- the surface --------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def searched():
    return tables_of("frontiers/surface", frontier(as_the_source), seeds=40, replays=3)


def test_a_search_on_the_grid_agrees_and_saves(searched):
    tables = searched
    found = verdicts(EXPERIMENTS["frontiers/surface"](), tables)
    assert found["fraction"] == found["no-fall-invented"] == REPRODUCED and found["agrees"] != NOT_REPRODUCED
    drawn(EXPERIMENTS["frontiers/surface"](), tables)
    assert tables["replays"]["trials"].sum() < 3 * 0.35 * len(tables["trials"])


def test_a_search_that_finds_something_else_is_found_out(searched):
    tables = searched
    wrong = tables["replays"].with_columns(pl.col("value", "low", "high") * 5, trials=pl.col("trials") * 8)
    planted = Tables(tables.settings, {"trials": tables["trials"], "replays": wrong}, "laptop")
    found = verdicts(EXPERIMENTS["frontiers/surface"](), planted)
    assert found["agrees"] == found["fraction"] == NOT_REPRODUCED


# --- advice -------------------------------------------------------------------------------------------------------


def test_the_cheapest_plan_is_that_of_brute_force():
    experiment = EXPERIMENTS["frontiers/advice"]()
    tables = tables_of("frontiers/advice", frontier(as_the_source), step_price=1e-4, seed_price=30.0, sample_price=0.3)
    settings, cells = tables.settings, advice_module.cells_of(tables["trials"])
    least = INF
    for (m, width), times in cells.items():
        for steps in np.unique(times[np.isfinite(times)]):
            chance, seeds = np.mean(times <= steps), 1
            while 1 - (1 - chance) ** seeds < settings.goal - 1e-12:
                seeds += 1
            least = min(least, 0.3 * m + seeds * (30 + 1e-4 * width * steps))
    best = advice_module.cheapest(advice_module.plans(cells, settings))
    assert best is not None and best["cost"] == pytest.approx(least)
    total = advice_module.cost(cells, settings)
    assert total.value == pytest.approx(least) and total.low <= least * 1.0001 and math.isfinite(total.high)
    assert advice_module.cost(cells, settings, {"samples": 100}).value == INF
    drawn(experiment, tables)


def test_dear_samples_ask_for_width_and_dear_steps_for_samples():
    plans = {}
    for name, prices in {"samples": (100.0, 1e-9), "steps": (1e-6, 1.0)}.items():
        tables = tables_of("frontiers/advice", frontier(as_the_source), sample_price=prices[0], step_price=prices[1])
        cells = advice_module.cells_of(tables["trials"])
        plans[name] = advice_module.cheapest(advice_module.plans(cells, tables.settings))
        verdicts(EXPERIMENTS["frontiers/advice"](), tables)
    assert (
        plans["samples"]["samples"] < plans["steps"]["samples"] and plans["samples"]["width"] > plans["steps"]["width"]
    )


def test_where_nothing_succeeds_there_is_no_advice_and_still_a_report():
    tables = tables_of("frontiers/advice", lambda cohort, m, rng: np.full(len(m), INF))
    assert set(verdicts(EXPERIMENTS["frontiers/advice"](), tables).values()) == {INCONCLUSIVE}
    drawn(EXPERIMENTS["frontiers/advice"](), tables)


@pytest.mark.parametrize(
    ("name", "changes", "echo"),
    [
        ("success", {"ns": "2"}, "n=2, k=4"),
        ("success", {"widths": "100,10"}, "increasing"),
        ("slices", {"k": "40", "n": "30"}, "k=40"),
        ("curves", {"roles": "groks,sleeps"}, "sleeps"),
        ("curves", {"sizes": "100"}, "sizes"),
        ("tickets", {"kept": "200"}, "kept=200"),
        ("advice", {"sample_price": "0", "step_price": "0", "seed_price": "0"}, "prices"),
    ],
)
def test_bad_settings_are_echoed(name, changes, echo):
    with pytest.raises(KroghError, match=echo):
        EXPERIMENTS[f"frontiers/{name}"]().settings("paper", changes)
