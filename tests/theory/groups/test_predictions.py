"""Predictions of chapter 7, as they are asked for by name."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest

from krogh.errors import KroghError
from krogh.theory import predict
from krogh.theory.groups.finite import finite_penalty
from krogh.theory.groups.maximum import max_margin

VALUES = {
    "S_5": 1.3259775e-4,
    "Z_71": 4.6143008e-4,
    "A_5": 4.3157090e-4,
    "S_6": 7.2663034e-6,
    "S_7": 2.6889824e-7,
    "D_4xD_4": 5.3157e-4,
}


@pytest.mark.parametrize(("group", "value"), VALUES.items())
def test_maximum_margins(group, value):
    found = predict("algebra/max-margin", group=group)
    assert found["value"] == pytest.approx(value, rel=1e-5 if group == "D_4xD_4" else 1e-7)
    holds = group in ("S_5", "Z_71")
    assert found["condition_holds"] == holds == ("Theorem" in found["theorem"].split(",")[0])
    assert ("linear program" in found["theorem"]) != holds and found["duality_gap"] <= 1e-12
    assert found["closed_form"] <= found["value"] * (1 + 1e-12)
    assert len(found["conditions"]) == len(found["class_weights"]) == len(found["irrep_shares"])
    assert sum(found["irrep_shares"].values()) == pytest.approx(1)
    assert json.loads(json.dumps(found, allow_nan=False)) == found


def test_a_parity_is_given_by_its_bits():
    found = predict("algebra/max-margin", k="4")
    assert found["value"] == pytest.approx(0.6071573, rel=1e-7)
    assert found["theorem"] == "Theorem 7.8 (parity)" and found["sufficient_width"] == 8
    assert predict("algebra/max-margin", k=4, theorem="7.8") == found


@pytest.mark.parametrize(
    ("name", "settings", "message"),
    [
        ("algebra/max-margin", {}, r"either group \(such as S_5\) or k, .*; got group=None, k=None"),
        ("algebra/max-margin", {"group": "S_3", "k": 2}, "got group='S_3', k=2"),
        (
            "algebra/max-margin",
            {"group": "Z_8", "theorem": "7.7"},
            r"Theorem 7.7 needs an odd p; got p=8 \(try p=7 or 9",
        ),
        ("algebra/max-margin", {"group": "S_3", "theorem": "7.7"}, "is about addition modulo p; got group='S_3'"),
        ("algebra/max-margin", {"group": "Q_8", "theorem": "7.9"}, r"these are not: 2 \(quaternionic\)"),
        ("algebra/max-margin", {"group": "Z_7", "theorem": "7.9"}, r"these are not: frequency 1 \(complex\)"),
        ("algebra/max-margin", {"group": "A_5", "theorem": "7.9"}, r"positive for \(2,2,1\)"),
        (
            "algebra/max-margin",
            {"group": "S_3", "theorem": "7.8"},
            "subject of Theorems 7.7 and 7.9; got theorem='7.8'",
        ),
        ("algebra/max-margin", {"k": 3, "theorem": "7.9"}, "a parity is the subject of Theorem 7.8"),
        ("algebra/max-margin", {"k": 0}, "k must be an integer between 1 and 150"),
        ("algebra/max-margin", {"group": "T_5"}, "unknown group 'T_5'"),
        ("algebra/max-margin", {"group": "S_3", "theorem": "7.10"}, r"theorem must be any\|7.7\|7.8\|7.9"),
        ("algebra/finite-lambda", {"lam": 0, "k": 2}, "lambda must be a positive number"),
        ("algebra/finite-lambda", {"lam": 1e-3}, "either group"),
        ("algebra/weighted-margin", {"group": "S_3", "masses": "0.5,0.6"}, "must add to 1"),
        ("algebra/weighted-margin", {"group": "S_3", "masses": "1"}, r"each of the classes \(3\), \(2,1\); got 1"),
        ("algebra/sign-condition", {"group": "A_1"}, "got the group of one element"),
    ],
)
def test_bad_settings(name, settings, message):
    with pytest.raises(KroghError, match=message):
        predict(name, **settings)


def test_theorems_that_apply_give_the_same():
    for group, theorem in (("Z_71", "7.7"), ("S_5", "7.9"), ("Z_2", "7.9")):
        assert predict("algebra/max-margin", group=group, theorem=theorem)["value"] == pytest.approx(
            max_margin(group)["value"], rel=1e-13
        )


def test_sign_conditions():
    good, bad, complex_ = (predict("algebra/sign-condition", group=group) for group in ("S_5", "A_5", "A_4"))
    assert good["theorem_applies"] and good["failing"] == [] and good["largest"] == pytest.approx(-0.303, abs=5e-4)
    assert not bad["holds"] and bad["failing"] == ["(2,2,1)"] and bad["largest"] == pytest.approx(0.788, abs=5e-4)
    assert (
        complex_["holds"]
        and not complex_["theorem_applies"]
        and list(complex_["not_of_real_type"].values()) == ["complex"]
    )


def test_weighted_margins():
    uniform = predict("algebra/weighted-margin", group="S_3")
    assert uniform["value"] == pytest.approx(0.03143, abs=5e-6) and uniform["best_irreps"] == ["sign"]
    assert not uniform["closes_the_gap"] and uniform["ratio"] == pytest.approx(0.03143 / 0.02360, rel=1e-3)
    optimal = predict("algebra/weighted-margin", group="S_3", weights="optimal")
    assert optimal["closes_the_gap"] and sorted(optimal["best_irreps"]) == ["2", "sign"]
    given = predict("algebra/weighted-margin", group="S_3", masses="0.4,0.6")
    assert given == uniform, "the default is uniform over labels: two of five are 3-cycles"


def test_finite_lambda():
    found = predict("algebra/finite-lambda", group="S_5", lam="1e-5")
    assert found["margin"] == pytest.approx(6.408, abs=1e-3) and found["ratio"] == pytest.approx(0.932, abs=5e-4)
    assert found["irrep_shares"]["6"] == 0 and not found["zero_is_optimal"]
    assert found["optimality_residual"] <= 1e-10
    parity = finite_penalty(1e-3, k=4)
    assert parity["margin"] == pytest.approx(6.407, abs=1e-3) and parity["ratio"] == 1
    zero = predict("algebra/finite-lambda", group="Z_11", lam=9e-3)
    assert zero["zero_is_optimal"] and zero["threshold"] == pytest.approx(7.46e-3, abs=5e-6)
    assert zero["normalised_margin"] is None and zero["cross_entropy"] == pytest.approx(math.log(11))
    assert "lambda=0.009 is not below 0.00746" in zero["method"]


def test_memorisers():
    for p, balanced, printed in ((11, 0.3876, 0.1700), (71, 0.1655, 0.0726)):
        found = predict("algebra/memoriser-margin", group=f"Z_{p}")
        assert found["balanced_ratio"] == pytest.approx(balanced, abs=5e-5)
        assert found["printed_ratio"] == pytest.approx(printed, abs=5e-5)
        assert found["balanced_ratio"] == pytest.approx(math.sqrt(2) * (p - 1) / p**1.5, rel=1e-12)
        assert found["width"] == 2 * p * p


def test_a_file_with_a_table_is_a_group(tmp_path):
    path = tmp_path / "klein.csv"
    np.savetxt(path, [[0, 1, 2, 3], [1, 0, 3, 2], [2, 3, 0, 1], [3, 2, 1, 0]], fmt="%d", delimiter=",")
    found = predict("algebra/max-margin", group=str(path))
    assert found["value"] == pytest.approx(0.06415003, rel=1e-7) and found["theorem"] == "Theorem 7.9"
