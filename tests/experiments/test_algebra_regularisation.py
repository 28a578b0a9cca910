"""The sweep over λ: one program per group, and claims on tables whose law is known."""

from __future__ import annotations

import math
from typing import Any

import jax.numpy as jnp
import numpy as np
import polars as pl
import pytest
from planted import drawn, planted_tables
from planted import verdicts as verdicts_of

from krogh.engine import Trial
from krogh.errors import KroghError
from krogh.experiments.algebra.regularisation import (
    DISTANCES,
    Regularisation,
    Settings,
    deviation,
    padded_doublings,
    plans_of,
)
from krogh.lab import Tables
from krogh.lab.claims import INCONCLUSIVE, NOT_REPRODUCED, REPRODUCED
from krogh.networks.groups.arrays import PairArrays
from krogh.networks.groups.written import group_network
from krogh.theory.groups.finite import finite_lambda
from krogh.training import doublings

EXPERIMENT = Regularisation()
LAMS = (1e-7, 1e-5, 1e-3, 3e-2)


# --- what is trained ------------------------------------------------------------------------------------------


def test_a_group_is_one_cohort_of_every_lambda_with_its_own_rates_and_steps():
    cohorts = list(EXPERIMENT.trials(EXPERIMENT.settings("laptop", {"seeds": 2})))
    assert [cohort.labels for cohort in cohorts] == [{"group": "S_3"}, {"group": "Z_11"}]
    assert [len(cohort) for cohort in cohorts] == [16, 16]
    for cohort in cohorts:
        weights = [float(trial.training.penalty.weight) for trial in cohort]
        rates = [
            float(trial.training.optimiser.rate) * float(np.max(trial.training.optimiser.schedule.factors))
            for trial in cohort
        ]
        assert weights[::2] == pytest.approx(EXPERIMENT.scales["laptop"].lams)
        assert all(rate * weight <= 4e-3 * (1 + 1e-6) for rate, weight in zip(rates, weights, strict=True))
        assert rates[0] > 100 * rates[-1], "the weaker the penalty, the larger the final rate"
        assert len({int(trial.training.stopping.budget) for trial in cohort}) > 2
        assert [int(trial.seed) for trial in cohort][:4] == [0, 1, 0, 1]


def test_schedules_in_a_cohort_are_those_of_their_lambda():
    settings = EXPERIMENT.settings("laptop", {"seeds": 1, "groups": ("S_3",)})
    (cohort,) = EXPERIMENT.trials(settings)
    for plan, trial in zip(plans_of(settings, "S_3"), cohort, strict=True):
        steps = np.arange(0, plan.preset.steps, 130)
        padded, own = (one.training.optimiser.schedule for one in (trial, plan.trial()))
        both = [s.factors[np.searchsorted(s.boundaries, steps, side="right")] for s in (padded, own)]
        assert np.array_equal(*both) and both[0][-1] == 2 ** len(plan.preset.doubled_at)


def test_padded_schedules_are_the_same_schedules():
    for times in ((), (200,), (200, 400, 600)):
        short, padded = doublings(times), padded_doublings(times, 4)
        assert padded.boundaries.shape == (4,) and padded.factors.shape == (5,)
        for step in map(jnp.asarray, (0, 199, 200, 300, 401, 600, 700)):
            assert float(padded.factor(step)) == float(short.factor(step))


def test_a_group_that_is_none_is_refused_before_anything_is_trained():
    with pytest.raises(KroghError, match="S_0"):
        list(EXPERIMENT.trials(EXPERIMENT.settings("smoke", {"groups": ("S_0",)})))


# --- claims ---------------------------------------------------------------------------------------------------


def table(group: str = "S_3", seeds: int = 10, lams: tuple[float, ...] = LAMS, **changes: Any) -> pl.DataFrame:
    """Networks at the exact optimum of every λ, but for `changes`: functions of (seed, optimum)."""
    rows = []
    for lam in lams:
        optimum = finite_lambda(group, lam)
        order = {"S_3": 6, "Z_11": 11}[group]
        for seed in range(seeds):
            row = {
                "group": group,
                "lam": lam,
                "seed": seed,
                "ratio": optimum.ratio,
                "cross_entropy": optimum.cross_entropy,
                "largest_weight": 0.0,
                "optimum_ratio": optimum.ratio,
                "optimum_cross_entropy": optimum.cross_entropy,
                "threshold": optimum.threshold,
                "zero": optimum.zero,
                "max_margin": optimum.max_margin,
                "order": order,
            }
            rows.append(row | {name: change(seed, optimum) for name, change in changes.items()})
    return pl.DataFrame(rows, schema_overrides={"ratio": pl.Float64, "optimum_ratio": pl.Float64})


def verdicts(found: pl.DataFrame) -> dict[str, str]:
    named = verdicts_of(EXPERIMENT, Tables(Settings(), {"networks": found}))
    return {name.split("-", 1)[1]: verdict for name, verdict in named.items()}


def test_the_exact_optimum_is_reproduced():
    assert verdicts(table()) == dict.fromkeys(("bound", "optimum", "rises", "collapse"), REPRODUCED)
    flat = verdicts(table("Z_11"))  # where nothing rises, nothing is asked to
    assert flat == dict.fromkeys(("bound", "optimum", "collapse"), REPRODUCED)


def test_what_is_not_so_is_not_reproduced():
    below = verdicts(table(ratio=lambda seed, optimum: 0.98 * optimum.ratio))
    assert below["optimum"] == NOT_REPRODUCED and below["rises"] == REPRODUCED
    assert verdicts(table(ratio=lambda seed, optimum: 0.9))["rises"] == NOT_REPRODUCED
    assert verdicts(table(ratio=lambda seed, optimum: 1.001))["bound"] == NOT_REPRODUCED
    learned = verdicts(table(cross_entropy=lambda seed, optimum: 0.9 * math.log(6)))
    assert learned["collapse"] == NOT_REPRODUCED


def test_one_lambda_off_is_enough_and_one_seed_off_leaves_it_open():
    worst = verdicts(table(ratio=lambda seed, optimum: optimum.ratio * (0.98 if optimum.lam == 1e-5 else 1)))
    assert worst["optimum"] == NOT_REPRODUCED
    one = verdicts(table(seeds=6, ratio=lambda seed, optimum: optimum.ratio * (0.98 if seed == 0 else 1)))
    assert one["optimum"] == INCONCLUSIVE


def test_few_seeds_decide_nothing_but_the_bound():
    found = verdicts(table(seeds=2))
    assert {name for name, verdict in found.items() if verdict != INCONCLUSIVE} == {"bound"}
    assert verdicts(table(seeds=5))["optimum"] == INCONCLUSIVE, "the median may lie beyond five seeds"
    assert verdicts(table(seeds=6))["optimum"] == REPRODUCED


def test_what_diverged_is_no_success():
    lost = verdicts(table(ratio=lambda seed, optimum: math.nan, cross_entropy=lambda seed, optimum: math.nan))
    assert lost["optimum"] == lost["collapse"] == lost["rises"] == NOT_REPRODUCED


def test_without_a_collapsing_lambda_or_below_it_there_is_nothing_to_claim():
    assert set(verdicts(table(lams=(1e-5, 1e-3)))) == {"bound", "optimum", "rises"}
    assert set(verdicts(table(lams=(3e-2, 5e-2)))) == {"collapse"}


def test_an_optimum_that_does_not_tell_all_elements_apart_has_no_margin_to_compare():
    """At λ = 0.02 the optimum of S_3 uses the sign alone."""
    optimum = finite_lambda("S_3", 0.02)
    assert not optimum.zero and optimum.shares["sign"] == pytest.approx(1) and abs(optimum.ratio) < 1e-9
    assert verdicts(table(lams=(1e-5, 1e-3, 0.02)))["optimum"] == REPRODUCED


def test_the_deviation_is_the_largest_of_the_medians_and_rests_on_all_their_networks():
    found = deviation(table(seeds=7, lams=(1e-5, 1e-3), ratio=lambda seed, optimum: optimum.ratio * (1 - 0.001 * seed)))
    assert (found.value, found.trials) == (pytest.approx(0.003, abs=1e-12), 14)
    assert 0.0 <= found.low <= 0.003 and 0.004 <= found.high <= 0.0061


# --- from weights to a report ---------------------------------------------------------------------------------


def test_weights_of_the_optimum_make_a_report_that_is_reproduced():
    """Networks at the exact optimum of their λ, and next to nothing where that is zero."""
    settings = Settings(groups=("S_3", "Z_5"), lams=(1e-5, 1e-3, 9e-2), seeds=8)
    plans = {(plan.group.order, i): plan for g in settings.groups for i, plan in enumerate(plans_of(settings, g))}
    places = {np.float32(lam): place for place, lam in enumerate(settings.lams)}

    def planted(trial: Trial) -> PairArrays:
        plan = plans[trial.task.order, places[np.float32(trial.training.penalty.weight)]]
        shares = plan.best.irrep_shares if plan.optimum.zero else plan.optimum.shares
        return group_network(plan.group, shares).scaled(max(plan.optimum.rho, 1e-6) ** (1 / 3))

    tables = planted_tables(EXPERIMENT, settings, planted)
    found = tables["networks"]
    below = found.filter(~pl.col("zero"))
    assert np.allclose(below["ratio"], below["optimum_ratio"]) and set(found["zero"]) == {True, False}
    assert np.allclose(below["cross_entropy"], below["optimum_cross_entropy"], rtol=1e-6)
    assert set(verdicts_of(EXPERIMENT, tables).values()) == {REPRODUCED}
    data = drawn(EXPERIMENT, tables)
    assert list(data) == ["regularisation", "distance"] and all(len(one) == len(found) for one in data.values())
    for name in DISTANCES:
        assert below[name].max() < 1e-6 and found.filter("zero")[name].is_nan().all()
