"""Margins of chains, circuits and compiled networks: verdicts follow from tables, and small tables from networks."""

from __future__ import annotations

import dataclasses
import functools
import math
from typing import Any

import numpy as np
import polars as pl
import pytest
from planted import drawn as drawn_of
from planted import verdicts as verdicts_of

from krogh.errors import KroghError
from krogh.experiments.approximation import bounds, chain, circuit_depth, circuit_width, common, perturbations
from krogh.lab import Experiment, Results, Tables, figures
from krogh.lab.claims import INCONCLUSIVE, NOT_REPRODUCED, REPRODUCED
from krogh.lab.experiment import measured_tables
from krogh.networks.circuits import compile_circuit
from krogh.networks.relu import dense_parameters
from krogh.programs.circuits.generators import and_ladder
from krogh.theory.programs.margin import flips, perturbation_norm, plain_margin

Given = dict[str, pl.DataFrame]


def verdicts(experiment: Experiment[Any], settings: Any, tables: Given) -> dict[str, str]:
    return verdicts_of(experiment, Tables(settings, tables))


def drawn(experiment: Experiment[Any], settings: Any, tables: Given) -> dict[str, pl.DataFrame]:
    data = drawn_of(experiment, Tables(settings, tables))
    assert all(len(table) for table in data.values())
    return data


def changed(tables: Given, name: str, **columns: Any) -> Given:
    return {**tables, name: tables[name].with_columns(**columns)}


def test_perturbations_need_a_network():
    with pytest.raises(KroghError, match="must name at least one network"):
        perturbations.Perturbations().settings("smoke", {"circuits": (), "machines": ()})


def test_lists_in_words():
    assert common.in_words([3, 5]) == "3, 5" and common.in_words(list(range(1, 9))) == "1 to 8"


def test_variation():
    found = common.variation([2.0, 3.0, 2.5])
    assert found.exact and found.value == 0.5 and found.trials == 3 and math.isnan(common.variation([]).value)


# --- chain --------------------------------------------------------------------------------------------------

CHAIN = chain.Settings(depths=(1, 2, 16))


def chain_tables(**other: float) -> Given:
    rows = []
    for depth in CHAIN.depths:
        rounded = {1: 0.5, 2: 0.4918}.get(depth, 0.4907)
        for kind, value in (("plain", plain_margin(depth).value), ("rounded", rounded), ("rounded_free", 0.0776)):
            attacked = value * other.get(kind, 1.0 + 1e-4)
            least = rounded - 1e-3 if kind == "rounded" else math.nan
            rows.append(
                {"chain": kind, "depth": depth, "exact": value, "attack": attacked, "least": least, "most": least}
            )
    return {"margins": pl.DataFrame(rows)}


def test_the_chain_as_theory_has_it():
    found = verdicts(chain.Chain(), CHAIN, chain_tables())
    assert set(found.values()) == {REPRODUCED} and len(found) == 6
    assert list(drawn(chain.Chain(), CHAIN, chain_tables())) == ["margin"]


@pytest.mark.parametrize(
    ("other", "broken"),
    [
        ({"plain": 1.02}, {"plain-attack"}),
        ({"rounded": 1.03}, {"rounded-half"}),
        ({"rounded": 0.9}, {"rounded-constant", "attack-above"}),
        ({"rounded_free": 0.9}, {"attack-above"}),
    ],
)
def test_another_chain(other, broken):
    found = verdicts(chain.Chain(), CHAIN, chain_tables(**other))
    assert {name for name, verdict in found.items() if verdict == NOT_REPRODUCED} == broken


def test_a_chain_that_falls_below_a_third_and_one_layer_alone():
    low = changed(chain_tables(), "margins", least=pl.lit(0.3))
    assert verdicts(chain.Chain(), CHAIN, low)["rounded-third"] == NOT_REPRODUCED
    short = {"margins": chain_tables()["margins"].filter(depth=1)}
    assert verdicts(chain.Chain(), dataclasses.replace(CHAIN, depths=(1,)), short)["rounded-half"] == INCONCLUSIVE


@pytest.mark.slow
def test_attacks_meet_the_exact_margins():
    settings = chain.Settings(depths=(2,), restarts=6, refinements=20)
    table = chain.margins(settings)
    assert table["attack"].to_numpy() == pytest.approx(table["exact"].to_numpy(), rel=0.01)
    assert table.filter(chain="plain")["exact"][0] == pytest.approx(math.sqrt(2) * (1 - 2**-0.5))


# --- circuits against depth ---------------------------------------------------------------------------------

DEPTH = circuit_depth.Settings()


def depth_tables(halving: float = 1.0, grows: float = 0.0, certificate: float = 0.5) -> Given:
    rows: list[dict[str, Any]] = []
    for family, depths in (("ladder", DEPTH.ladders), ("random", DEPTH.circuits)):
        for q in depths:
            for correction in (False, True):
                shallow = 1.7 if q < 5 else 1.0  # only deeper circuits are judged
                attack = shallow * 0.027 * (1 + grows * q) if correction else 0.7 * 2 ** (-halving * q)
                theorem = shallow * 2.7e-3 if correction else math.nan
                row = {"family": family, "circuit": family, "q": q, "correction": correction, "attack": attack}
                rows.append({**row, "certificate": certificate * attack, "theorem": theorem, "exact": True})
    return {"margins": pl.DataFrame(rows)}


def test_halving_without_and_constancy_with_correction_are_reproduced():
    experiment = circuit_depth.CircuitDepth()
    found = verdicts(experiment, DEPTH, depth_tables())
    assert set(found.values()) == {REPRODUCED} and len(found) == 5
    assert list(drawn(experiment, DEPTH, depth_tables())) == ["margin"]


@pytest.mark.parametrize(
    ("other", "broken"),
    [
        ({"halving": 1.3}, "uncorrected-halves"),
        ({"halving": 0.5}, "uncorrected-halves"),
        ({"grows": 0.1}, "corrected-constant"),
        ({"certificate": 1.01}, "certificate-below"),
    ],
)
def test_other_margins_are_not(other, broken):
    found = verdicts(circuit_depth.CircuitDepth(), DEPTH, depth_tables(**other))
    assert [name for name, verdict in found.items() if verdict == NOT_REPRODUCED] == [broken]


def test_wrong_networks_and_too_few_depths():
    experiment = circuit_depth.CircuitDepth()
    wrong = changed(depth_tables(), "margins", exact=pl.col("q") != 5)
    assert verdicts(experiment, DEPTH, wrong)["exact"] == NOT_REPRODUCED
    moving = changed(depth_tables(), "margins", theorem=2.7e-3 + 1e-6 * pl.col("q"))
    assert verdicts(experiment, DEPTH, moving)["certificate-constant"] == NOT_REPRODUCED
    short = {"margins": depth_tables()["margins"].filter(pl.col("q") <= 3)}
    found = verdicts(experiment, DEPTH, short)
    assert found["uncorrected-halves"] == found["corrected-constant"] == INCONCLUSIVE


# --- circuits against width ---------------------------------------------------------------------------------

WIDTH = circuit_width.Settings(multiples=(1, 4, 16))


def width_tables() -> Given:
    rows = []
    for multiple in WIDTH.multiples:
        p = 2437 * multiple**2
        n = 1e11 * math.log(p)
        rows.append(
            {"multiple": multiple, "width": 12 * multiple, "parameters": p, "attack": 0.028, "best": 0.0279,
             "certificate": 0.017, "theorem": 2.7e-3, "one_norm": 300.0, "complexity": n, "sm_samples": 100 * n + 100,
             "vc_samples": 1600.0 * p * math.log(p)}
        )  # fmt: skip
    return {"widths": pl.DataFrame(rows)}


def test_margins_that_do_not_change_with_width_are_reproduced():
    experiment = circuit_width.CircuitWidth()
    assert set(verdicts(experiment, WIDTH, width_tables()).values()) == {REPRODUCED}
    assert list(drawn(experiment, WIDTH, width_tables())) == ["width"]


@pytest.mark.parametrize(
    ("column", "broken"),
    [
        ("attack", {"attack"}),
        ("best", {"best-attack"}),
        ("certificate", {"certificate", "certificate-below"}),
        ("complexity", {"logarithm"}),
    ],
)
def test_margins_that_do_are_not(column, broken):
    moved = changed(width_tables(), "widths", **{column: pl.col(column) * pl.col("multiple").sqrt()})
    found = verdicts(circuit_width.CircuitWidth(), WIDTH, moved)
    assert {name for name, verdict in found.items() if verdict == NOT_REPRODUCED} == broken


def test_a_perturbation_of_a_narrow_network_is_one_of_a_wide_network():
    compiled = compile_circuit(and_ladder(3, 3))
    subject = compiled.subject(np.ones((1, 3)))
    narrow = dense_parameters(compiled.network, compiled.network.needed_width)
    wide = dense_parameters(compiled.network, 3 * compiled.network.needed_width)
    small = {name: np.zeros_like(array) for name, array in narrow.items()}
    small["z0.V2"][0] = -4.0 * narrow["z0.V2"][0]  # the first gate is rounded to something negative: 0
    large = circuit_width.widen(small, wide)
    assert perturbation_norm(large) == perturbation_norm(small) > 0
    x, y = subject.inputs[0], subject.labels[0]
    assert flips(subject.output, narrow, small, x, y) and flips(subject.output, wide, large, x, y)


# --- perturbations ------------------------------------------------------------------------------------------

TRIED = perturbations.Settings()


def tried_tables(flipped: int = 0, over: float = 0.6, random: int = 10_000) -> Given:
    rows = [
        {"kind": kind, "network": name, "correction": True, "parameters": 1000, "certificate": over * 0.03,
         "theorem": 2e-3, "attack": 0.03, "radius": over * 0.015, "random": random, "adversarial": 100,
         "flips": flipped, "change": 1.2 if flipped else 0.2, "accepted": 1, "inputs": 2}
        for kind, name in (("circuit", "adder"), ("circuit", "ladder"), ("machine", "parity"))
    ]  # fmt: skip
    return {"networks": pl.DataFrame(rows)}


def test_outputs_that_never_change_are_reproduced():
    experiment = perturbations.Perturbations()
    found = verdicts(experiment, TRIED, tried_tables())
    assert set(found.values()) == {REPRODUCED} and len(found) == 5
    assert list(drawn(experiment, TRIED, tried_tables())) == ["perturbations"]


def test_a_changed_output_refutes_and_few_trials_decide_nothing():
    experiment = perturbations.Perturbations()
    found = verdicts(experiment, TRIED, tried_tables(flipped=1))
    assert {found["circuits-unchanged"], found["circuits-change"], found["machines-unchanged"]} == {NOT_REPRODUCED}
    assert verdicts(experiment, TRIED, tried_tables(over=1.1))["certificate-below"] == NOT_REPRODUCED
    few = verdicts(experiment, TRIED, tried_tables(random=5000))
    assert (few["circuits-unchanged"], few["machines-unchanged"]) == (REPRODUCED, INCONCLUSIVE)


def test_inputs_differ_and_machines_decide_both_ways():
    settings = perturbations.Settings(inputs=9)
    bits = perturbations.bits_of("parity of 4", settings)
    assert bits.shape == (9, 4) and len(np.unique(bits, axis=0)) == 9 and bits[0].all()
    assert len(perturbations.bits_of("parity of 4", perturbations.Settings(inputs=50))) == 16
    for name, words in perturbations.MACHINES.items():
        subject = subject_of_machine(name)
        assert subject == (1, 0) and len(words) == 2


def subject_of_machine(name: str) -> tuple[int, ...]:
    from krogh.networks.machines.running import run_machine

    outputs = run_machine(perturbations.compiled_machine(name), perturbations.MACHINES[name]).output
    assert set(np.abs(outputs)) == {1.0}
    return tuple(int(value > 0) for value in outputs)


@pytest.mark.slow
def test_a_circuit_and_a_machine_withstand():
    settings = perturbations.Settings(
        circuits=("ladder, r = 6, q = 5",), machines=("parity",), inputs=1, random=60, adversarial=4, machine_random=8,
        machine_adversarial=2, restarts=3, refinements=5, machine_restarts=1, machine_refinements=0,
    )  # fmt: skip
    table = perturbations.networks(settings)
    assert len(table) == 3 and table["flips"].sum() == 0
    assert (table["certificate"] < table["attack"]).all() and (table["radius"] == table["certificate"] / 2).all()


# --- bounds -------------------------------------------------------------------------------------------------

BOUNDS = bounds.Settings(
    times=(16, 64, 65536),
    depths=(3, 5, 9),
    widths=(4, 8, 16),
    circuits=("random, r = 9, q = 4",),
    tabled=("parity",),
    tabled_time=64,
)


@functools.cache
def bound_tables() -> Given:
    return {**measured_tables(bounds.Bounds(), Results(pl.DataFrame(), BOUNDS))}


def test_bounds_are_those_computed_beforehand():
    rows = {row["T"]: row for row in bound_tables()["machines"].filter(network="palindrome").iter_rows(named=True)}
    assert [rows[t]["margin"] for t in BOUNDS.times] == pytest.approx([8.7e-5, 5.3e-5, 1.4e-5], rel=0.01)
    assert [rows[t]["layers"] for t in BOUNDS.times] == [16, 18, 28]
    row = rows[16]
    expected = row["one_norm"] ** 2 * math.log(row["parameters"]) / row["margin"] ** 2
    assert row["sm_samples"] == pytest.approx(100 * (expected + 1)) and expected == pytest.approx(5.0e16, rel=0.02)
    assert row["vc_samples"] == pytest.approx(row["width"] * 16 / 0.1) and row["linear_samples"] == pytest.approx(1600)
    wide = bound_tables()["ladders"].filter(series="width")
    assert wide["margin"].to_list() == pytest.approx([3.3e-3, 2.4e-3, 1.7e-3], rel=0.03)


def test_bounds_are_reproduced_and_drawn():
    found = verdicts(bounds.Bounds(), BOUNDS, bound_tables())
    assert set(found.values()) == {REPRODUCED} and len(found) == 13
    data = drawn(bounds.Bounds(), BOUNDS, bound_tables())
    assert list(data) == ["machines", "circuits", "table"]
    assert data["table"]["network"].to_list() == ["random, r = 9, q = 4", "parity"]
    with figures.style():
        *_, table = bounds.Bounds().figures(Tables(BOUNDS, bound_tables()))
    assert table.drawing.axes[0].get_visible(), "a panel with nothing but a table is shown"


def test_nothing_to_be_tabled_gives_no_table():
    none = dataclasses.replace(BOUNDS, circuits=(), tabled=())
    assert "table" not in bounds.Bounds().measure(Results(pl.DataFrame(), none))
    tables = {name: table for name, table in bound_tables().items() if name != "table"}
    assert len(drawn(bounds.Bounds(), none, tables)) == 2


@pytest.mark.parametrize(
    ("name", "columns", "broken"),
    [
        ("machines", {"sm_samples": pl.col("T") ** 3.0}, {"palindrome-growth", "palindrome-below-linear"}),
        ("machines", {"sm_samples": pl.col("T") ** 1.05}, {"palindrome-below-linear"}),
        ("machines", {"margin": 1.1 * pl.col("margin")}, {"palindrome-margin"}),
        ("machines", {"one_norm": 1.1 * pl.col("one_norm")}, {"palindrome-norm"}),
        ("ladders", {"margin": pl.col("margin") / pl.col("q")}, {"ladder-margin-depth", "ladder-values"}),
        ("ladders", {"margin": pl.col("margin") / pl.col("r") * 4}, {"ladder-margin-width", "ladder-values"}),
        ("ladders", {"one_norm": 2 * pl.col("one_norm")}, {"ladder-norm"}),
        ("ladders", {"log10_norm_product": pl.lit(3.0)}, {"ladder-norm-product"}),
    ],
)
def test_other_bounds_are_not(name, columns, broken):
    found = verdicts(bounds.Bounds(), BOUNDS, changed(bound_tables(), name, **columns))
    failed = {name for name, verdict in found.items() if verdict == NOT_REPRODUCED}
    assert {name for name in failed if not name.startswith("counter")} == broken


def test_without_both_ends_growth_is_not_judged():
    short = {**bound_tables(), "machines": bound_tables()["machines"].filter(pl.col("T") < 65536)}
    assert verdicts(bounds.Bounds(), BOUNDS, short)["palindrome-growth"] == INCONCLUSIVE
