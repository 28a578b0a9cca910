"""Experiments on random recurrent networks: verdicts follow from tables, tables from networks, both ways."""

from __future__ import annotations

import dataclasses
import itertools
import math
from typing import Any

import numpy as np
import polars as pl
import pytest
from planted import drawn, verdicts

from krogh.errors import KroghError
from krogh.experiments.recurrence import good_shift, gram, linearisation, selector
from krogh.lab import Results, Tables
from krogh.lab.claims import INCONCLUSIVE, NOT_REPRODUCED, REPRODUCED
from krogh.lab.experiment import measured_tables

RNG = np.random.default_rng(0)


def measured(experiment: Any, settings: Any) -> Tables[Any]:
    return measured_tables(experiment, Results(pl.DataFrame(), settings, "planted", cohorts=[], ids=[]))


# --- selector ---------------------------------------------------------------------------------------------------


def selector_tables(settings: selector.Settings, **changed: Any) -> Tables[selector.Settings]:
    """Means that are half a standard error from what they should be; `changed` plants other columns by table."""
    error = 0.001
    tokens = pl.DataFrame(
        [
            {"series": name, "gamma": gamma, "projection": z, "error": error, "phi": z, "closed": z / gamma}
            for name, gamma, z in itertools.product(settings.series, settings.gammas, (-0.8, 0.5))
        ]
    ).with_columns(mean=pl.col("closed") + error / 2)
    rows = []
    for name, eps, place in itertools.product(settings.series, settings.eps, range(2, settings.length + 1)):
        here, end = place == settings.position, place == settings.length
        closed = -0.866 if here else 0.0 if end else -2 * eps if name == "z" else -(eps**3)
        rows.append({"series": name, "eps": eps, "position": place, "error": error, "closed": closed})
    positions = pl.DataFrame(rows).with_columns(
        mean=pl.col("closed") + error / 2,
        phi=pl.when(pl.col("position") == settings.position).then(-0.866).otherwise(0.0),
        samples=settings.samples,
    )
    given = {"tokens": tokens, "positions": positions}
    return Tables(settings, {name: table.with_columns(**changed.get(name, {})) for name, table in given.items()})


def test_selector_claims_follow_from_means_and_errors():
    settings, one = selector.Settings(), selector.SelectorExperiment()
    good = verdicts(one, selector_tables(settings))
    assert set(good.values()) == {REPRODUCED} and len(good) == 11
    here = pl.col("position") == settings.position
    far = verdicts(one, selector_tables(settings, positions={"mean": pl.when(here).then(-0.8).otherwise("mean")}))
    assert far["z-on-target"] == far["z-closed-form"] == NOT_REPRODUCED and far["z-token"] == REPRODUCED
    constant = {
        "mean": pl.when(here).then("mean").otherwise(-0.2),
        "closed": pl.when(here).then("closed").otherwise(-0.2),
    }
    flat = verdicts(one, selector_tables(settings, positions=constant))
    assert flat["leakage"] == flat["z-leakage-vanishes"] == flat["z^2-leakage-vanishes"] == NOT_REPRODUCED
    off = verdicts(one, selector_tables(settings, tokens={"mean": pl.col("mean") + 0.01}))
    assert off["z-token"] == off["z^2-token-closed-form"] == NOT_REPRODUCED
    few = dataclasses.replace(settings, samples=1000)
    assert verdicts(one, selector_tables(few))["z-on-target"] == INCONCLUSIVE
    other = dataclasses.replace(settings, eps=(0.02, 0.1))
    assert verdicts(one, selector_tables(other))["leakage"] == INCONCLUSIVE
    assert all(len(data) for data in drawn(one, selector_tables(settings)).values())


def test_selector_measures_what_the_closed_form_says():
    settings = selector.Settings(samples=20_000, series=("z",), eps=(0.1, 0.3), gammas=(1.0, 4.0))
    tables = measured(selector.SelectorExperiment(), settings)
    for name in ("tokens", "positions"):
        table = tables[name]
        assert ((table["mean"] - table["closed"]).abs() / table["error"]).max() < 4
    assert tables["positions"].filter(position=4)["phi"].to_list() == pytest.approx([-math.sqrt(3) / 2] * 2)
    with pytest.raises(KroghError, match="functions are z"):
        selector.SelectorExperiment().settings("smoke", {"series": ("nothing",)})


# --- gram -------------------------------------------------------------------------------------------------------

GRAM = gram.Settings(widths=(500, 8000), seeds=(200, 10), gained=5, length=6)
FRESH, SHARED = math.sqrt(30), 7.84
"""√m times how ‖h_6‖² varies, with a matrix for every step and with one for all."""


def gram_tables(settings: gram.Settings, factor: dict[str, float] | None = None, gains: Any = None) -> Tables[Any]:
    """`factor` times what the recursion says, with noise of the size "noise"/√m in the narrow networks."""
    rows, factor = [], factor or {}
    for width, count in zip(settings.widths, settings.seeds, strict=True):
        for seed in range(count):
            size = factor.get("noise", SHARED) / math.sqrt(width) if width == settings.widths[0] else 0.01
            noise = 1 + size * (-1) ** seed
            for quantity, pair in (("product", "X, X"), ("sigma", "X, 0"), ("flips", "X, 0")):
                for place in (3, settings.length):
                    row = {"quantity": quantity, "pair": pair, "place": place, "other": place, "width": width}
                    rows.append(row | {"seed": seed, "measured": noise * factor.get(quantity, 1.0), "predicted": 1.0})
    found = {"typical": 1.0, "worst": 2.41, "norm": 2.83, **(gains or {})}
    stretched = [
        {"width": width, "seed": seed, **{name: gain * (1 + 1e-3 * seed) for name, gain in found.items()}}
        for width, seed in itertools.product(settings.widths, range(settings.gained))
    ]
    return Tables(settings, {"states": pl.DataFrame(rows), "gains": pl.DataFrame(stretched)})


def test_gram_claims_follow_from_states_and_gains():
    one = gram.GramExperiment()
    good = verdicts(one, gram_tables(GRAM))
    assert {name for name, verdict in good.items() if verdict != REPRODUCED} == {"fluctuation"}
    assert good["fluctuation"] == NOT_REPRODUCED
    fresh = verdicts(one, gram_tables(GRAM, {"noise": FRESH}))
    assert {name for name, verdict in fresh.items() if verdict != REPRODUCED} == {"fluctuation-shared"}
    for quantity in ("product", "sigma", "flips"):
        off = verdicts(one, gram_tables(GRAM, {quantity: 1.08}))
        wrong = {name for name, verdict in off.items() if verdict == NOT_REPRODUCED}
        assert wrong - {"fluctuation", "fluctuation-shared"} == {quantity}
    footnote = verdicts(one, gram_tables(GRAM, gains={"worst": math.sqrt(2)}))
    assert footnote["gain-worst"] == NOT_REPRODUCED and footnote["gain-norm"] == REPRODUCED
    narrow = dataclasses.replace(GRAM, widths=(500, 2000))
    assert set(verdicts(one, gram_tables(narrow)).values()) == {INCONCLUSIVE}
    assert all(len(data) for data in drawn(one, gram_tables(GRAM)).values())


def test_gram_measures_random_networks():
    settings = gram.Settings(widths=(300, 600), seeds=(12, 12), gained=2, length=4)
    tables = measured(gram.GramExperiment(), settings)
    wide = tables["states"].filter(width=600)
    means = wide.group_by("quantity", "pair", "place", "other").agg(
        pl.col("measured").mean(), pl.col("predicted").first()
    )
    assert (means["measured"] / means["predicted"] - 1).abs().max() < 0.25
    assert set(means["quantity"]) == {"product", "sigma", "flips"} and means["predicted"].min() > 0
    assert tables["gains"]["worst"].mean() == pytest.approx(2.41, rel=0.05)
    with pytest.raises(KroghError, match="seeds must have one value for each of widths"):
        gram.GramExperiment().settings("smoke", {"seeds": (3,)})


# --- good shift -------------------------------------------------------------------------------------------------

SHIFT = good_shift.Settings(widths=(500, 2000, 8000), eps=(0.1,), seeds=(5, 5, 5))


def shift_tables(settings: good_shift.Settings, **columns: Any) -> Tables[Any]:
    rows = [
        {
            "width": width,
            "seed": seed,
            "eps": eps,
            "series": name,
            "j": j,
            "correlation": (0.95 if name == "z" else 0.4) + 0.01 * RNG.uniform(),
            "offset": 0.1,
            "deviation": 10 / math.sqrt(width) * (1 + 0.05 * RNG.uniform()),
            "target_deviation": 0.6,
            "movement": 23 + 0.1 * seed,
        }
        for width, seed, eps, name, j in itertools.product(
            settings.widths, range(settings.seeds[0]), settings.eps, settings.series, (3, 4)
        )
    ]
    return Tables(settings, {"errors": pl.DataFrame(rows).with_columns(**columns)})


def test_good_shift_claims_follow_from_errors():
    one = good_shift.GoodShiftExperiment()
    good = verdicts(one, shift_tables(SHIFT))
    assert set(good.values()) == {REPRODUCED}
    assert set(good) == {"z-0.1-correlation", "z-0.1-falls", "z-0.1-size", "z^2-unresolved"}
    wide = (pl.col("width") == 8000) & (pl.col("j") == 4)
    low = verdicts(
        one, shift_tables(SHIFT, correlation=pl.when(wide).then(0.7 + 0.001 * pl.col("seed")).otherwise("correlation"))
    )
    assert low["z-0.1-correlation"] == NOT_REPRODUCED and low["z-0.1-falls"] == REPRODUCED
    stuck = verdicts(one, shift_tables(SHIFT, deviation=pl.when(wide).then(0.4).otherwise("deviation")))
    assert stuck["z-0.1-falls"] == NOT_REPRODUCED
    grows = verdicts(one, shift_tables(SHIFT, movement=pl.col("width").sqrt() * (1 + 1e-3 * pl.col("seed"))))
    assert grows["z-0.1-size"] == NOT_REPRODUCED
    resolved = verdicts(one, shift_tables(SHIFT, correlation=0.9 + 0.001 * pl.col("seed")))
    assert resolved["z^2-unresolved"] == NOT_REPRODUCED
    narrow = dataclasses.replace(SHIFT, widths=(500, 2000), seeds=(5, 5))
    assert set(verdicts(one, shift_tables(narrow)).values()) == {INCONCLUSIVE}
    assert all(len(data) for data in drawn(one, shift_tables(SHIFT)).values())


@pytest.mark.slow
def test_good_shift_measures_a_construction_that_improves():
    settings = good_shift.Settings(widths=(100, 1600), eps=(0.2,), series=("z",), seeds=(3, 3), inputs=20)
    table = measured(good_shift.GoodShiftExperiment(), settings)["errors"]
    by_width = table.group_by("width").agg(pl.col("correlation").mean(), pl.col("deviation").mean()).sort("width")
    assert (
        by_width["correlation"].to_list()[1] > 0.8
        and by_width["deviation"].to_list()[1] < by_width["deviation"].to_list()[0]
    )
    with pytest.raises(KroghError, match="functions are z"):
        good_shift.GoodShiftExperiment().settings("smoke", {"series": ("q",)})


# --- linearisation ----------------------------------------------------------------------------------------------

LINEAR = linearisation.Settings(seeds=5)


def linear_tables(
    settings: linearisation.Settings, power: float = 1.6, rate: float = 1 / 3, control: float = 0.01
) -> Any:
    rows = []
    for name, width, delta, seed in itertools.product(
        linearisation.DIRECTIONS, settings.widths, settings.deltas, range(settings.seeds)
    ):
        size = control if name == "gaussian" else 1.0
        error = size * (delta / 4) ** power * (500 / width) ** rate * (1 + 0.02 * RNG.uniform())
        row = {"width": width, "seed": seed, "direction": name, "delta": delta, "error": error}
        rows.append(row | {"linear": delta, "flips": 0.01 * delta})
    return Tables(settings, {"errors": pl.DataFrame(rows)})


def test_linearisation_claims_follow_from_errors():
    one = linearisation.LinearisationExperiment()
    good = verdicts(one, linear_tables(LINEAR))
    assert set(good.values()) == {REPRODUCED} and len(good) == 7
    assert verdicts(one, linear_tables(LINEAR, power=1.1))["both-growth"] == NOT_REPRODUCED
    slow = verdicts(one, linear_tables(LINEAR, rate=0.1))
    assert slow["recurrent-rate"] == NOT_REPRODUCED and slow["recurrent-falls"] == REPRODUCED
    assert verdicts(one, linear_tables(LINEAR, rate=-0.1))["both-falls"] == NOT_REPRODUCED
    assert verdicts(one, linear_tables(LINEAR, control=0.5))["gaussian"] == NOT_REPRODUCED
    few = dataclasses.replace(LINEAR, deltas=(0.5, 2.0))
    assert set(verdicts(one, linear_tables(few)).values()) == {INCONCLUSIVE}
    beyond = dataclasses.replace(LINEAR, deltas=(0.5, 1.0, 4.0, 16.0))
    assert verdicts(one, linear_tables(beyond))["both-growth"] == REPRODUCED
    assert all(len(data) for data in drawn(one, linear_tables(LINEAR)).values())


def test_linearisation_measures_networks_that_were_moved():
    settings = linearisation.Settings(widths=(100, 400), deltas=(0.25, 1.0), seeds=3, length=4)
    table = measured(linearisation.LinearisationExperiment(), settings)["errors"]
    assert len(table) == 2 * 2 * 3 * 3 and table["error"].min() > 0
    mean = {key[0]: rows for key, rows in table.group_by("direction", maintain_order=True)}
    along, random = (mean[name].filter(delta=1.0) for name in ("recurrent", "gaussian"))
    assert along["linear"].mean() > 3 * random["linear"].mean(), "a gradient moves the output most"
    own = mean["both"].filter(width=400).group_by("delta").agg(pl.col("error").mean()).sort("delta")["error"].to_list()
    assert own[1] > 4 * own[0]
    two = mean["both"].filter(width=400, seed=0).sort("delta")["linear"].to_list()
    assert two[1] == pytest.approx(4 * two[0], rel=1e-4), "what is linear is linear"
