"""Certificates of maximum margin: closed where theory says so, open where it says so, and refused otherwise."""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np
import polars as pl
import pytest
from planted import drawn
from planted import verdicts as verdicts_of

from krogh.errors import KroghError
from krogh.experiments.algebra import certificates
from krogh.experiments.algebra.certificates import Certificates, Settings
from krogh.lab import Results, Tables
from krogh.lab.claims import INCONCLUSIVE, NOT_REPRODUCED, REPRODUCED
from krogh.lab.experiment import measured_tables
from krogh.programs.groups import load_group

EXPERIMENT = Certificates()
SMALL = Settings(orders=(3, 9, 4), parities=(1, 4), groups=("S_3", "Z_2^2"), programs=("A_5",), draws=30)


@functools.cache
def tables() -> Tables[Settings]:
    return measured_tables(EXPERIMENT, Results(pl.DataFrame(), SMALL))


def verdicts(found: Tables[Settings]) -> dict[str, str]:
    return verdicts_of(EXPERIMENT, found)


def changed(name: str, **columns: Any) -> Tables[Settings]:
    """The tables with other numbers in one of them."""
    return Tables(SMALL, {**tables(), name: tables()[name].with_columns(**columns)})


def test_bounds_are_the_known_numbers():
    rows = {row["case"]: row for row in tables()["certificates"].iter_rows(named=True)}
    known = {  # the reference's values, in digits
        "Z_3": 7.8567420e-2,
        "Z_9": math.sqrt(2 / 27) / (3 * 8),
        "Z_4": 0.05026871,
        "k = 1": 0.7071068,
        "k = 4": 0.6071573,
        "S_3": 0.02360497,
        "Z_2^2": 0.06415003,
        "A_5": 4.3157090e-4,
    }
    assert set(rows) == set(known)
    for case, value in known.items():
        assert rows[case]["lower"] == pytest.approx(value, rel=1e-6)
        assert rows[case]["upper"] == pytest.approx(value, rel=1e-6)
        assert abs(rows[case]["gap"]) < 1e-12 and rows[case]["failing"] == ""


def test_a_row_says_how_far_either_bound_is_from_theory():
    row = certificates._row("odd", "Z_3", 8, 2.0, 1.9, 2.4, "")
    assert (row["gap"], row["error"]) == pytest.approx((0.25, 0.2))
    assert certificates._row("odd", "Z_3", 8, 2.0, 1.5, 2.0, "")["error"] == pytest.approx(0.25)


def test_large_groups_are_certified_by_characters_alone():
    row = certificates._program("S_6")
    assert row["lower"] == pytest.approx(7.2663034e-6, rel=1e-6) and abs(row["gap"]) < 1e-12
    assert row["family"] == "program" and row["neurons"] == 2 * (10**3 + 2 * 5**3)


def test_equal_weights_leave_the_gap_open_on_s3():
    row = tables()["uniform"].filter(group="S_3").row(0, named=True)
    assert (row["uniform"], row["theorem"]) == pytest.approx((0.03142697, 0.02360497), rel=1e-6)
    assert row["best"] == "sign" and "Eq 7.3" in row["failing"] and row["several"]
    # where all irreps have dimension 1 the weights of Lemma D.14 are the equal ones
    flat = tables()["uniform"].filter(group="Z_2^2").row(0, named=True)
    assert flat["uniform"] == pytest.approx(flat["theorem"]) and not flat["several"]


def test_random_weights_prove_no_less_and_even_ones_can_prove_more():
    found = tables()["random"]
    assert (found["least"] >= 1 - 1e-12).all() and found["draws"].to_list() == [30, 30]
    assert certificates._random(load_group("S_3"), 30)["least"] > 1.0, "only one choice of weights proves γ* itself"


def test_all_is_reproduced():
    assert set(verdicts(tables()).values()) == {REPRODUCED}
    assert set(verdicts(tables())) == {
        *(f"closed-{family}" for family in ("odd", "even", "parity", "group", "program")),
        "uniform-open",
        "uniform-formula",
        "any-weights",
    }


@pytest.mark.parametrize("family", ["odd", "even", "parity", "group", "program"])
def test_a_bound_that_misses_is_not_reproduced(family):
    off = pl.when(pl.col("family") == family).then(1e-9).otherwise(pl.col("error"))
    found = verdicts(changed("certificates", error=off))
    assert found[f"closed-{family}"] == NOT_REPRODUCED and list(found.values()).count(NOT_REPRODUCED) == 1


def test_other_tables_give_other_verdicts():
    assert verdicts(changed("uniform", uniform=pl.col("network")))["uniform-open"] == NOT_REPRODUCED
    assert verdicts(changed("uniform", formula=1.1 * pl.col("formula")))["uniform-formula"] == NOT_REPRODUCED
    assert verdicts(changed("random", least=pl.lit(0.999)))["any-weights"] == NOT_REPRODUCED
    unknown = verdicts(changed("certificates", error=pl.lit(math.nan)))
    assert unknown["closed-odd"] == INCONCLUSIVE


def test_without_irreps_of_several_dimensions_nothing_is_said_of_equal_weights():
    found = verdicts(changed("uniform", several=pl.lit(False)))
    assert not any(name.startswith("uniform") for name in found)


def test_figures_draw():
    assert list(drawn(EXPERIMENT, tables())) == ["gaps", "bounds"]


BAD = [
    ({"groups": ("A_5",)}, "positive for"),
    ({"groups": ("Z_7xZ_2",)}, "real type"),
    ({"programs": ("S_4",)}, "it holds for 'S_4'"),
]


@pytest.mark.parametrize(("changes", "words"), BAD)
def test_groups_on_the_wrong_side_of_the_condition_are_refused(changes, words):
    with pytest.raises(KroghError, match=words):
        EXPERIMENT.settings("smoke", changes)


def test_a_network_of_noise_closes_nothing():
    """The numbers come from networks and not from theory: another network has another lower bound."""
    from krogh.networks.groups.arrays import PairArrays
    from krogh.networks.groups.certificates import certify
    from krogh.networks.groups.written import group_network

    best = group_network("S_3")
    noise = 0.1 * np.random.default_rng(0).standard_normal(best.U.shape)
    moved = PairArrays(best.U + noise, best.V, best.W)
    proof = certify(moved, "S_3")
    assert not proof.closed and proof.gap > 0.01 * proof.upper
