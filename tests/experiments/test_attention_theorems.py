"""The demonstrations of chapter 4's theorems: they hold where the theorem does, and fail where it is broken."""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np
import polars as pl
import pytest
from planted import drawn
from planted import verdicts as verdicts_by

from krogh.errors import KroghError
from krogh.experiments.attention import capacity, coherence, shattering, statistical_floor
from krogh.experiments.attention.constructions import NORMS, growth_rates, growth_rows
from krogh.lab import Results, Tables, run_study
from krogh.lab.claims import INCONCLUSIVE, NOT_REPRODUCED, REPRODUCED
from krogh.lab.experiment import measured_tables
from krogh.networks.sparse_heads import LEAST_ATTENTION
from krogh.registry import EXPERIMENTS
from krogh.report import write_report
from krogh.tasks.consistency import unique_probability
from krogh.theory.attention import lipschitz as attention_lipschitz

SMALL: dict[str, Any] = {"heads": ("train_single", "train_multi"), "lengths": (6,), "sizes": (1, 2)}


def settings_of(name: str, scale: str = "smoke", **changes: Any) -> Any:
    return EXPERIMENTS[name]().settings(scale, changes)


@functools.cache
def measured(name: str, settings: Any) -> Tables[Any]:
    return measured_tables(EXPERIMENTS[name](), Results(pl.DataFrame(), settings))


def tables_of(name: str, **changes: Any) -> Tables[Any]:
    return measured(name, settings_of(name, **changes))


def changed(tables: Tables[Any], **others: pl.DataFrame) -> Tables[Any]:
    """The same settings with other tables in the place of some."""
    return Tables(tables.settings, {**tables, **others})


def verdicts(name: str, tables: Tables[Any]) -> dict[str, str]:
    return verdicts_by(EXPERIMENTS[name](), tables)


BAD = [
    ("attention/constructions", {"lengths": (1,)}, "lengths"),
    ("attention/constructions", {"sampled": (9,)}, "sampled"),
    ("attention/shattering", {"lengths": (2, 6)}, "try 4"),
    ("attention/influence", {"s": 20}, "lengths"),
    ("attention/coherence", {"dimensions": (20,)}, "try"),
    ("attention/coherence", {"length": 3}, "try 4"),
    ("attention/statistical-floor", {"learned": (21,)}, "learned"),
    ("attention/statistical-floor", {"lengths": (3, 20)}, "try 4"),
]


@pytest.mark.parametrize(("name", "changes", "words"), BAD)
def test_settings_that_do_not_go_together_get_one_error(name, changes, words):
    with pytest.raises(KroghError, match=words):
        settings_of(name, **changes)


# --- constructions ------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_constructions_hold_and_norms_need_more_lengths():
    tables = tables_of("attention/constructions", **SMALL)
    found = verdicts("attention/constructions", tables)
    assert {name for name, verdict in found.items() if verdict == INCONCLUSIVE} == {
        "query-norm-log",
        "other-norms-constant",
        "symmetric-norms",
        "general-norms",
    }
    assert set(found.values()) == {REPRODUCED, INCONCLUSIVE}
    assert {"head-train-single", "head-train-multi", "exact-symmetric", "exact-general", "exact-memoriser"} <= set(
        found
    )


@pytest.mark.slow
def test_printed_relus_are_not_exact():
    """δ = γ/8 does not cover what s heads may miss by, and the printed bump is no bump."""
    changes = {**SMALL, "variant": "printed"}
    found = verdicts("attention/constructions", tables_of("attention/constructions", **changes))
    assert found["exact-general"] == found["exact-memoriser"] == NOT_REPRODUCED
    assert found["head-train-single"] == REPRODUCED


def test_printed_values_put_out_nothing():
    changes = {
        "heads": ("det_multi",),
        "lengths": (4,),
        "sizes": (2,),
        "mode": "printed",
        "long": (8, 16),
        "sampled": (),
    }
    found = verdicts("attention/constructions", tables_of("attention/constructions", **changes))
    assert found["head-det-multi"] == found["exact-general"] == NOT_REPRODUCED


@pytest.mark.slow
def test_half_the_strength_is_too_little():
    changes = {**SMALL, "strength": 0.5}
    found = verdicts("attention/constructions", tables_of("attention/constructions", **changes))
    assert found["head-train-single"] == found["head-train-multi"] == NOT_REPRODUCED
    assert found["norms-as-predicted"] == NOT_REPRODUCED


def long_norms(query: Any, key: Any) -> pl.DataFrame:
    """Norms against T as two laws say."""
    rows = []
    for length in (2**p for p in range(3, 12)):
        for weight, law in (("Q", query), ("K", key)):
            rows.append(("det_single", length, 3, weight, law(length), law(length), 0.0))
    return pl.DataFrame(rows, schema=NORMS, orient="row")


def growth_table(symmetric: Any, general: Any) -> pl.DataFrame:
    rows = []
    for head, law in (("det_single", symmetric), ("det_multi", general)):
        rows += [(head, s, s, weight, law(s), 1.0, None) for s in range(1, 9) for weight in ("W1", "w")]
    return pl.DataFrame(rows, schema=NORMS, orient="row")


@pytest.mark.slow
def test_laws_of_norms_are_told_from_others():
    tables = tables_of("attention/constructions", **SMALL)
    right = {
        "long": long_norms(lambda T: 2 + math.log(T), lambda T: 1.7),
        "growth": growth_table(lambda s: s**1.5, lambda s: s * 2 ** (s / 2)),
    }
    wrong = {
        "long": long_norms(lambda T: 2 + 1.1 * math.log(T), lambda T: 1.7 + 1e-6 * T),
        "growth": growth_table(lambda s: 2 ** (s / 2), lambda s: 2.0**s),
    }
    laws = ("query-norm-log", "other-norms-constant", "symmetric-norms", "general-norms")
    assert {verdicts("attention/constructions", changed(tables, **right))[law] for law in laws} == {REPRODUCED}
    assert {verdicts("attention/constructions", changed(tables, **wrong))[law] for law in laws} == {NOT_REPRODUCED}


def test_growth_rates_of_the_relus_are_those_of_the_proof():
    """‖W_1‖_F² = 138 s 2^s for signs at δ = 1/4: rate 1/2 and power 1/2, exactly."""
    settings = settings_of("attention/constructions", heads=("train_multi",), growth=(1, 2, 3, 4, 5))
    table = pl.DataFrame(growth_rows(settings), schema=NORMS, orient="row")
    first = table.filter(pl.col("weight") == "W1")
    np.testing.assert_allclose(first["norm"], [math.sqrt(138 * s * 2**s) for s in first["s"]])
    rates = growth_rates(table).filter(pl.col("weight") == "W1")
    assert rates["rate"][0] == pytest.approx(0.5) and rates["power"][0] == pytest.approx(0.5)


# --- shattering ---------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_shattering_holds_at_the_sources_norm():
    changes = {"lengths": (2, 4, 8, 16, 32, 64), "fixed": (10.0,)}
    tables = tables_of("attention/shattering", **changes)
    assert set(verdicts("attention/shattering", tables).values()) == {REPRODUCED}


@pytest.mark.slow
def test_a_norm_of_order_T_does_not_attend_to_one_position():
    changes = {"lengths": (8, 16, 32, 64), "exponent": 1.0}
    found = verdicts("attention/shattering", tables_of("attention/shattering", **changes))
    assert found["attention-on-one"] == NOT_REPRODUCED
    assert found["all-patterns"] == REPRODUCED  # the patterns never needed the norm


def test_shattering_claims_fail_on_other_tables():
    changes = {"lengths": (2, 4, 8, 16, 32, 64), "fixed": (10.0,)}
    tables = tables_of("attention/shattering", **changes)
    heads = tables["heads"].with_columns(
        right=pl.col("right") - 1, patterns=pl.col("patterns") - 1, needed=pl.col("length").cast(pl.Float64)
    )
    found = verdicts("attention/shattering", changed(tables, heads=heads))
    assert found.pop("attention-on-one") == REPRODUCED
    assert set(found.values()) == {NOT_REPRODUCED}


def test_the_norm_needed_is_the_least_that_does():
    for length in (4, 32):
        angle = 2 * np.pi * np.arange(length) / length
        needed = shattering.needed_norm(length)
        for factor, enough in ((1 + 1e-6, True), (1 - 1e-6, False)):
            share = 1 / np.exp(factor * needed * (np.cos(angle) - 1)).sum()
            assert (share >= LEAST_ATTENTION) == enough


# --- capacity -----------------------------------------------------------------------------------------------


def test_capacity_is_affine_in_log_T():
    changes = {"lengths": tuple(2**p for p in range(3, 21, 4)), "draws": 20}
    found = verdicts("attention/capacity", tables_of("attention/capacity", **changes))
    assert {verdict for name, verdict in found.items() if name.startswith("inequality")} == {INCONCLUSIVE}
    assert {verdict for name, verdict in found.items() if not name.startswith("inequality")} == {REPRODUCED}


def test_a_capacity_of_another_law_is_not_reproduced():
    changes = {"lengths": tuple(2**p for p in range(3, 21, 4)), "draws": 20}
    tables = tables_of("attention/capacity", **changes)
    longer = tables["lengths"].with_columns(shape=pl.col("size").cast(pl.Float64), explicit=pl.col("size").sqrt())
    heads = tables["heads"].with_columns(shape=pl.col("size").cast(pl.Float64) ** 2, explicit=pl.col("size") * 1.0)
    found = verdicts("attention/capacity", changed(tables, lengths=longer, heads=heads))
    assert {verdict for name, verdict in found.items() if not name.startswith("inequality")} == {NOT_REPRODUCED}


def test_inequalities_hold_and_draws_come_close():
    """A ratio that is always small would not notice a wrong constant."""
    for name in capacity.RATIOS:
        worst = capacity.worst_ratio(name, 200)
        assert 0.45 < worst <= 1 + capacity.ROUNDING, name


@pytest.mark.parametrize("name", ["softmax, Lemma A.6", "layer by weights, Lemma A.13"])
def test_a_constant_that_is_too_small_is_noticed(monkeypatch, name):
    """The softmax's true constant is 1, half of the lemma's: an eighth of the lemma's is refuted by a draw."""
    monkeypatch.setattr(attention_lipschitz, "SOFTMAX_JACOBIAN", 0.25)
    assert capacity.worst_ratio(name, 1000) > 1.05


def test_one_counterexample_is_enough():
    tables = tables_of("attention/capacity", draws=20)
    found = verdicts("attention/capacity", changed(tables, ratios=tables["ratios"].with_columns(ratio=pl.lit(1.01))))
    assert {verdict for name, verdict in found.items() if name.startswith("inequality")} == {NOT_REPRODUCED}


# --- influence ----------------------------------------------------------------------------------------------


def test_influence_is_the_formulas():
    found = verdicts("attention/influence", tables_of("attention/influence"))
    assert set(found.values()) == {REPRODUCED}
    flips = tables_of("attention/influence")["flips"].filter(pl.col("score") == 2.0)
    e = math.exp(2)
    np.testing.assert_allclose(flips["influence"], [2 * e / (3 * e + T - 2) for T in flips["length"]], atol=1e-12)


def test_influence_claims_fail_on_other_tables():
    tables = tables_of("attention/influence")
    flips = tables["flips"].with_columns(influence=pl.lit(0.3) + 1e-3 * pl.col("influence"))
    every = tables["all"].with_columns(least=pl.col("least") + 1e-6)
    assert set(verdicts("attention/influence", changed(tables, flips=flips, all=every)).values()) == {NOT_REPRODUCED}


def test_short_contexts_have_no_limit():
    changes = {"lengths": (8, 80), "enumerated": 6}
    found = verdicts("attention/influence", tables_of("attention/influence", **changes))
    assert found["fixed-norm-vanishes"] == found["log-norm-keeps"] == INCONCLUSIVE
    assert found["fixed-formula"] == REPRODUCED


# --- coherence ----------------------------------------------------------------------------------------------

NEARLY: dict[str, Any] = {"length": 20, "s": 3, "dimensions": (600,), "multiples": (1.0, 10.0, 100.0), "bases": 5}


def test_printed_keys_fail_and_dual_keys_do_not():
    found = verdicts("attention/coherence", tables_of("attention/coherence", **NEARLY))
    assert set(found.values()) == {REPRODUCED} and len(found) == 4


def test_exchanged_keys_are_noticed():
    tables = tables_of("attention/coherence", **NEARLY)
    swapped = tables["errors"].with_columns(mode=pl.col("mode").replace({"dual": "printed", "printed": "dual"}))
    assert set(verdicts("attention/coherence", changed(tables, errors=swapped)).values()) == {NOT_REPRODUCED}


def test_the_worst_input_is_the_worst():
    """No random input does worse than the one that follows the signs of the attention's error."""
    settings = settings_of("attention/coherence", **NEARLY)
    seed = coherence.admissible(settings, 600)[0]
    common: Any = {"dimension": 600, "basis_seed": seed, "exact": False}
    row = coherence._row(settings, 600, seed, "printed", 10.0)
    made = coherence.head_alone(
        20, support=(0, 1, 2), head="det_single", mode="printed", strength=row["strength"], **common
    )
    x = np.random.default_rng(0).choice([-1.0, 1.0], (2000, 20))
    errors = np.abs(made.run(x) - x[:, :3].mean(axis=1))
    weights = coherence.attention_of(made.parameters)
    assert errors.max() <= row["error"] + 1e-12
    assert row["error"] == pytest.approx(np.abs(weights - np.where(np.arange(20) < 3, 1 / 3, 0.0)).sum(), abs=1e-12)


def test_where_the_printed_bound_says_nothing_it_is_not_judged():
    changes = {**NEARLY, "dimensions": (260,)}
    tables = tables_of("attention/coherence", **changes)
    assert 2 * 3 * float(tables["errors"]["coherence"].to_numpy().max()) >= 1
    assert "printed-bound-false-d260" not in verdicts("attention/coherence", tables)


# --- the statistical floor ----------------------------------------------------------------------------------

FLOOR: dict[str, Any] = {
    "lengths": (50, 100, 200, 400, 800),
    "samples": tuple(sorted({*range(8, 81, 4), 50})),
    "draws": 400,
}


def floor_tables(threshold: Any, learner_share: float = 1.0) -> dict[str, pl.DataFrame]:
    """Data sets that become unique around `threshold(T)` samples."""
    rows = []
    for length in FLOOR["lengths"]:
        for m in FLOOR["samples"]:
            share = 1 / (1 + math.exp(-(m - threshold(length)) / 1.2))
            rows.append((length, m, round(400 * share), 400))
    unique = pl.DataFrame(rows, schema=["length", "m", "unique", "draws"], orient="row")
    certain = int(unique.filter(pl.col("m") == 60, pl.col("length") == 50)["unique"][0] * learner_share)
    learner = pl.DataFrame(
        [(50, 60, 400.0, certain, 400)], schema=["length", "m", "right", "unique", "draws"], orient="row"
    )
    return {"unique": unique, "learner": learner}


def floor_verdicts(tables: dict[str, pl.DataFrame], **changes: Any) -> dict[str, str]:
    settings = settings_of("attention/statistical-floor", "paper", **{**FLOOR, "learned_samples": (20,), **changes})
    return verdicts("attention/statistical-floor", Tables(settings, tables))


def test_a_threshold_near_the_floor_that_grows_as_log_T():
    found = floor_verdicts(floor_tables(lambda T: 1.3 * math.log2(math.comb(T, 3))))
    assert set(found.values()) == {REPRODUCED}
    assert set(floor_verdicts(floor_tables(lambda T: 30.0), draws=50).values()) == {INCONCLUSIVE}


def test_a_threshold_that_grows_as_T_is_not_reproduced():
    found = floor_verdicts(floor_tables(lambda T: 20 + 0.07 * T))
    assert found["near-floor-T50"] == REPRODUCED
    assert found["near-floor-T800"] == found["grows-as-log"] == found["unique-at-smallest"] == NOT_REPRODUCED


def test_more_than_the_labels_say_is_noticed():
    found = floor_verdicts(floor_tables(lambda T: 0.4 * math.log2(math.comb(T, 3))))
    assert found["counting-bound"] == NOT_REPRODUCED


def test_a_learner_that_disagrees_is_noticed():
    found = floor_verdicts(floor_tables(lambda T: 1.3 * math.log2(math.comb(T, 3)), learner_share=0.5))
    assert found["learner-agrees"] == NOT_REPRODUCED


@pytest.mark.slow
def test_the_learner_is_certain_as_often_as_data_sets_are_unique():
    """Two ways to the same number: listing all sets on the task's data, and counting covers on NumPy's."""
    settings = settings_of("attention/statistical-floor", learned_draws=100)
    right, unique = statistical_floor._learn(settings, 20, 16)
    expected = unique_probability(20, 3, 16, 2000)
    assert 0.1 < expected < 0.9
    assert abs(unique / 100 - expected) < 4 * math.sqrt(expected * (1 - expected) / 100)
    assert unique <= right <= 100


# --- figures, studies and pages -----------------------------------------------------------------------------


@pytest.mark.slow
def test_figures_draw_beyond_the_smoke_scale():
    drawn(EXPERIMENTS["attention/constructions"](), tables_of("attention/constructions", **SMALL))


@pytest.mark.slow
def test_a_study_without_trials_is_complete_and_has_a_page(tmp_path):
    study = run_study(EXPERIMENTS["attention/shattering"](), "smoke", tmp_path)
    assert study.status == "complete" and study.claims and study.summary["engine"]["trials"] == 0
    again = run_study(EXPERIMENTS["attention/shattering"](), "smoke", tmp_path)
    assert [claim.as_json() for claim in again.claims] == [claim.as_json() for claim in study.claims]
    assert "log2 T sequences" in write_report(tmp_path).read_text(encoding="utf-8")
