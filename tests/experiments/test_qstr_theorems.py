"""Experiments on the qSTR theorems, on tables and weights whose law is known: for each claim and against it."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
import polars as pl
import pytest
from planted import drawn, planted_tables, verdicts

from krogh.engine.trial import DATA, VALIDATION
from krogh.errors import KroghError
from krogh.experiments.qstr import heads, length, norm_competition, recurrent_width, span
from krogh.experiments.qstr.common import least_over_networks
from krogh.lab import Results, Tables
from krogh.lab.claims import INCONCLUSIVE, NOT_REPRODUCED, REPRODUCED
from krogh.lab.experiment import measured_tables
from krogh.registry import EXPERIMENTS
from krogh.theory.tokens.limits import head_floor


@pytest.mark.parametrize(
    ("name", "changes", "words"),
    [
        ("qstr/heads", {"length": 4}, "must lie before N/2"),
        ("qstr/span", {"decay": 20.0}, "decay must be below 1/rate"),
    ],
)
def test_settings_that_do_not_go_together_are_refused(name, changes, words):
    experiment = EXPERIMENTS[name]()
    with pytest.raises(KroghError, match=words):
        list(experiment.trials(experiment.settings("smoke", changes)))


def test_the_least_network_decides_with_its_own_doubt():
    found = least_over_networks([30.0, 2.0, 90.0], [30.0, 3.0, 30.0], 900)
    assert found.value == 2.0 and found.trials == 3
    # Which of the three is least is not known beforehand: its upper end has a third of the risk, z(0.025/3) = 2.394.
    assert (found.low, found.high) == pytest.approx((2 - 0.195996, 2 + 0.2394), abs=0.003)
    noisy = least_over_networks([2.5, 2.0], [300.0, 3.0], 900)
    assert noisy.low < -10, "a network of which little is known may be the least"


# --- heads --------------------------------------------------------------------------------------------------

HEADS = heads.Settings(sparsity=4, dimension=8, heads=(1, 2, 3, 4, 5), seeds=3, prompts=10_000)


def risk_table(risk: Callable[[str, int], float], settings: heads.Settings = HEADS) -> pl.DataFrame:
    rows = []
    for kind in settings.attention:
        for count in settings.heads:
            floors = head_floor(settings.sparsity, settings.dimension, count)
            own = {key: floors[key] for key in ("floor", "floor_sharper", "floor_separated")}
            for seed in range(settings.seeds):
                value = risk(kind, count) * (1 + 0.01 * seed)
                rows.append({"attention": kind, "heads": count, "seed": seed, "risk": value, "deviation": 0.3, **own})
    return pl.DataFrame(rows)


def good_risk(kind: str, count: int) -> float:
    floors = head_floor(4, 8, count)
    return floors["floor_sharper" if kind == "free" else "floor_separated"] + 0.1


def head_verdicts(risk: Callable[[str, int], float], settings: heads.Settings = HEADS) -> dict[str, str]:
    return verdicts(heads.Heads(), Tables(settings, {"risks": risk_table(risk, settings)}))


def test_risks_above_the_floors_are_reproduced():
    found = head_verdicts(good_risk)
    assert len(found) == 7 and set(found.values()) == {REPRODUCED}


@pytest.mark.parametrize(
    ("kind", "count", "risk", "broken"),
    [
        ("free", 1, 0.5, {"floor", "floor-sharper"}),  # printed 0.625, sharper 0.656
        ("free", 2, 0.3, {"floor-sharper"}),  # printed 0.25, sharper 0.375
        ("separated", 3, 0.2, {"floor-separated"}),  # 0.25
    ],
)
def test_a_risk_below_its_floor_is_not(kind, count, risk, broken):
    found = head_verdicts(lambda k, c: risk if (k, c) == (kind, count) else good_risk(k, c))
    assert {name for name, verdict in found.items() if verdict == NOT_REPRODUCED} == broken


def test_heads_that_do_not_help_are_not():
    found = head_verdicts(lambda kind, count: 1.0 + 0.1 * count)
    assert {found[f"{word}-{kind}"] for word in ("decreasing", "enough-heads") for kind in HEADS.attention} == {
        NOT_REPRODUCED
    }


def test_heads_beyond_q_need_not_help():
    found = head_verdicts(lambda kind, count: 0.9 if count == 5 else good_risk(kind, count))
    assert set(found.values()) == {REPRODUCED}


def test_without_a_floor_or_without_one_head_nothing_is_decided():
    found = head_verdicts(good_risk, heads.Settings(heads=(4, 5)))
    assert set(found.values()) == {INCONCLUSIVE}


def test_a_network_that_diverged_decides_nothing_about_heads():
    found = head_verdicts(lambda kind, count: math.inf if (kind, count) == ("free", 2) else good_risk(kind, count))
    assert found["decreasing-free"] == INCONCLUSIVE and found["decreasing-separated"] == REPRODUCED
    assert found["floor"] == found["enough-heads-free"] == REPRODUCED


def test_the_null_halfs_risk_is_measured_on_its_positions_alone():
    """A network that says 0 everywhere: on i ≥ N/2, half of the label's mean square, by NumPy from the tokens."""
    experiment = heads.Heads()
    settings = experiment.settings("smoke", {"prompts": 300})

    def silent(trial):
        shapes = jax.eval_shape(lambda: trial.initial_params())
        return {name: np.zeros(leaf.shape, np.float32) for name, leaf in shapes.items()}

    tables = planted_tables(experiment, settings, silent, error=0.5)
    table = tables["risks"]
    trial = next(iter(experiment.trials(settings)))[0]
    tokens = np.asarray(trial.task.test(trial.key(VALIDATION), 300).tokens, np.float64)
    q, d = settings.sparsity, settings.dimension
    label = ((tokens[:, :q] ** 2).sum(axis=(1, 2)) - q * d) / math.sqrt(q * d)
    assert table["risk"][0] == pytest.approx((label**2).mean() / 2, rel=1e-4)
    assert table["deviation"][0] == pytest.approx((label**2 / 2).std(ddof=1), rel=1e-4)
    drawn(experiment, tables)
    lost = planted_tables(experiment, settings, lambda trial: None, error=0.5)["risks"]
    assert set(lost["risk"]) == {math.inf}


# --- span ---------------------------------------------------------------------------------------------------

SPAN = span.Settings()


def span_table(settings: span.Settings = SPAN, **changes: Callable[[float], float]) -> pl.DataFrame:
    """Networks as the theorem has them; `changes` are functions of n/(Nd)."""
    rows = []
    for decay in span.decays_of(settings):
        for fraction in settings.fractions:
            for seed in range(settings.directions):
                floor = max(0.0, 1 - fraction)
                row = {
                    "residual": 1e-5,
                    "expected_residual": 1e-5,
                    "risk": floor + 0.2,
                    "oracle": floor,
                    "floor": floor,
                }
                row |= {name: change(fraction) for name, change in changes.items()}
                row["risk"] += 0.01 * (seed - (settings.directions - 1) / 2)
                samples = span.sample_size(settings, fraction)
                rows.append({"decay": decay, "samples": samples, "fraction": fraction, "deviation": 1.0, **row})
    return pl.DataFrame(rows)


def span_verdicts(table: pl.DataFrame, settings: span.Settings = SPAN) -> dict[str, str]:
    return verdicts(span.Span(), Tables(settings, {"networks": table, "identity": span.projector_identity()}))


def test_networks_as_the_theorem_has_them_are_reproduced():
    found = span_verdicts(span_table())
    assert len(found) == 5 and set(found.values()) == {REPRODUCED}


@pytest.mark.parametrize(
    ("changes", "broken"),
    [
        ({"residual": lambda f: 0.01, "expected_residual": lambda f: 0.01}, {"span-residual"}),
        ({"residual": lambda f: 9e-4}, {"decay-law"}),
        ({"risk": lambda f: 1 - f - 0.2, "oracle": lambda f: 1 - f - 0.4}, {"average-risk"}),
        ({"oracle": lambda f: 1.5}, {"above-oracle"}),
    ],
)
def test_each_law_of_the_span_can_fail_alone(changes, broken):
    found = span_verdicts(span_table(**changes))
    assert {name for name, verdict in found.items() if verdict == NOT_REPRODUCED} == broken


def test_what_is_seen_whole_and_what_has_no_decay_is_not_judged():
    table = span_table()
    odd = (pl.col("fraction") >= 1) | (pl.col("decay") == 0)
    table = table.with_columns(pl.when(odd).then(1.0).otherwise(pl.col("residual")).alias("residual"))
    assert span_verdicts(table)["span-residual"] == REPRODUCED


def test_two_directions_decide_only_the_identity():
    settings = span.Settings(directions=2)
    found = span_verdicts(span_table(settings), settings)
    assert found.pop("projector-identity") == REPRODUCED and set(found.values()) == {INCONCLUSIVE}


def test_the_projector_identity_at_the_references_instances():
    table = span.projector_identity()
    assert table["exact"].to_list()[:2] == pytest.approx([0.6, 0.5]) and table["difference"].max() < 1e-12
    assert (table["worst"] >= table["average"] - 1e-12).all()


def test_sample_sizes_are_rounded_down():
    assert [span.sample_size(SPAN, f) for f in (0.25, 0.5, 0.75, 1.0, 2.0, 0.001)] == [10, 20, 30, 40, 80, 1]


@pytest.mark.slow
def test_residuals_of_planted_first_layers():
    """A first layer made of training inputs, and what decay alone leaves of the initial weights."""
    experiment = span.Span()
    settings = experiment.settings("smoke", {"fractions": (0.5,), "directions": 1, "budget": 100})
    (cohort,) = experiment.trials(settings)
    trial = cohort[0]
    tokens = np.asarray(trial.training.regime.sample(trial.task, trial.key(DATA)).tokens, np.float64)
    inputs = tokens.reshape(len(tokens), -1)
    initial = {name: np.asarray(value) for name, value in trial.initial_params().items()}

    inside = np.resize(inputs, initial["W"].shape)

    def measured(W: np.ndarray) -> pl.DataFrame:
        return planted_tables(experiment, settings, lambda _: initial | {"W": W.astype(np.float32)})["networks"]

    spanned = measured(inside)
    assert spanned["residual"][0] < 1e-9

    shrunk = (1 - settings.rate * settings.decay) ** settings.budget * initial["W"]
    decayed = measured(shrunk)
    basis, _ = np.linalg.qr(inputs.T)
    outside = initial["W"] - (initial["W"] @ basis) @ basis.T
    assert decayed["initial_residual"][0] == pytest.approx((outside**2).sum() / (initial["W"] ** 2).sum(), rel=1e-5)
    assert decayed["residual"][0] == pytest.approx(decayed["expected_residual"][0], rel=1e-4)
    u = np.asarray(trial.task.link.u, np.float64)
    seen = sum(np.sum((basis.T[:, t * 2 : t * 2 + 2] @ u) ** 2) for t in range(5)) / 5
    assert decayed["oracle"][0] == pytest.approx(1 - seen, rel=1e-6)


def test_the_figure_of_the_span_drawn():
    for settings in (SPAN, span.Settings(directions=1)):
        drawn(span.Span(), Tables(settings, {"networks": span_table(settings)}))


# --- recurrent width ----------------------------------------------------------------------------------------


def test_the_width_needed_lies_on_the_line_in_log_h():
    assert recurrent_width.width_needed([2, 4, 8], [0.9, 0.7, 0.3], 0.5) == pytest.approx(math.sqrt(32))
    assert recurrent_width.width_needed([2, 4, 8], [0.5, 0.7, 0.3], 0.5) == 2.0
    assert recurrent_width.width_needed([2, 4, 8], [0.9, 0.7, 0.6], 0.5) == math.inf


def width_verdicts(needed: dict[str, Callable[[int], float]], **changes: Any) -> dict[str, str]:
    """Of errors that fall through 1/2 at the width needed, a little later for each further seed."""
    experiment = recurrent_width.RecurrentWidth()
    settings = experiment.settings("paper", {"seeds": 7, **changes})
    rows = [
        {
            "law": law,
            "task.length": n,
            "model.hidden": h,
            "seed": seed,
            "error": float(1 / (1 + h / needed[law](n) * (1 - 0.01 * seed))),
        }
        for law in settings.laws
        for n in settings.lengths
        for h in settings.hiddens
        for seed in range(settings.seeds)
    ]
    tables = measured_tables(experiment, Results(pl.DataFrame(rows), settings))
    drawn(experiment, tables)
    return verdicts(experiment, tables)


LINEAR, CONSTANT, ROOT = (lambda n: 0.9 * n), (lambda n: 5.0), (lambda n: 2 * n**0.4)


def test_a_width_that_grows_with_the_prompt_and_one_that_does_not():
    found = width_verdicts({"independent": LINEAR, "shared": CONSTANT})
    assert found == {"width-grows": REPRODUCED, "width-constant": REPRODUCED}


def test_widths_that_grow_otherwise_are_not_reproduced():
    found = width_verdicts({"independent": ROOT, "shared": LINEAR})
    assert found == {"width-grows": NOT_REPRODUCED, "width-constant": NOT_REPRODUCED}


def test_a_width_never_reached_bounds_the_slope_from_below():
    needed = {"independent": lambda n: 0.9 * n if n < 32 else 1e4, "shared": lambda n: 4.0 if n < 32 else 1e4}
    found = width_verdicts(needed)
    assert found["width-grows"] == REPRODUCED and found["width-constant"] == NOT_REPRODUCED


def test_a_grid_that_starts_too_late_leaves_the_slope_open():
    found = width_verdicts({"independent": LINEAR, "shared": lambda n: 1.5}, hiddens=(4, 8, 16, 32, 64))
    assert found == {"width-grows": REPRODUCED, "width-constant": INCONCLUSIVE}


def test_a_network_that_diverged_does_not_reach_the_target():
    experiment = recurrent_width.RecurrentWidth()
    errors = {"law": "shared", "task.length": 8, "model.hidden": [4, 8], "seed": 0, "error": [math.nan, 0.5]}
    settings = experiment.settings("smoke", {"hiddens": (4, 8)})
    tables = measured_tables(experiment, Results(pl.DataFrame(errors), settings))
    assert tables["errors"]["error"].to_list() == [math.inf, 0.5]
    (width,) = recurrent_width.widths_of(tables)["shared"].y
    assert width.value == pytest.approx(8.0) and width.trials == len(tables.settings.hiddens), (
        "a network of every width"
    )


# --- norm competition ---------------------------------------------------------------------------------------

NORMS = norm_competition.Settings(samples=(4, 16, 64), lengths=(8, 16, 32), seeds=3)


def norm_tables(
    fitting: Callable[[int, int], float] = lambda n, length: n**1.5,
    storing: Callable[[int], float] = lambda length: 100 * length**0.5,
    ratio: Callable[[int], float] = lambda length: length / 10,
    risk: float = 1.3,
    error: float = 0.1,
) -> dict[str, pl.DataFrame]:
    wobble = (0.99, 1.0, 1.01)
    rows = [(n, N, s, fitting(n, N) * wobble[s], True) for n in NORMS.samples for N in NORMS.lengths for s in range(3)]
    states = [
        {"length": N, "norm": storing(N), "state_norm": storing(N), "lipschitz": 1.0, "width": N} for N in NORMS.lengths
    ]
    signs = [{"length": N, "width": 4 * N, "lipschitz": 2.0, "ratio": ratio(N), "read": True} for N in (4, 8, 12)]
    return {
        "fitting": pl.DataFrame(rows, schema=["samples", "length", "seed", "norm", "separated"], orient="row"),
        "executed": pl.DataFrame(
            {
                "samples": [4],
                "seed": [0],
                "largest_error": [error],
                "tolerance": [1.0],
                "risk": [risk],
                "deviation": [0.5],
            }
        ),
        "storing": pl.DataFrame(states),
        "signs": pl.DataFrame(signs),
    }


def norm_verdicts(**changes: Any) -> dict[str, str]:
    return verdicts(norm_competition.NormCompetition(), Tables(NORMS, norm_tables(**changes)))


def test_norms_as_expected_are_reproduced():
    found = norm_verdicts()
    assert len(found) == 8 and set(found.values()) == {REPRODUCED}


@pytest.mark.parametrize(
    ("changes", "broken"),
    [
        ({"fitting": lambda n, length: n**1.5 * length**0.5}, {"fitting-length"}),
        ({"fitting": lambda n, length: float(n)}, {"fitting-samples"}),
        ({"storing": lambda length: 100 * length**0.2}, {"storing-length", "storing-state"}),
        ({"storing": lambda length: 100 / length}, {"storing-length", "storing-state", "competition"}),
        ({"ratio": lambda length: 1 / length}, {"printed-norm-floor"}),
        ({"risk": 0.5}, {"overfitting-fails"}),
        ({"error": 3.0}, {"overfitting-fits"}),
    ],
)
def test_each_law_of_norms_can_fail_alone(changes, broken):
    found = norm_verdicts(**changes)
    assert {name for name, verdict in found.items() if verdict == NOT_REPRODUCED} == broken


def test_pooled_slopes_and_crossings_of_exact_laws():
    tables = norm_tables()
    along_n, along_length = norm_competition.fitting_slopes(tables["fitting"])
    assert along_n.value == pytest.approx(1.5) and along_length.value == pytest.approx(0.0, abs=1e-9)
    assert along_n.high - along_n.low < 0.02
    crossings = norm_competition.crossing_samples(tables["fitting"], tables["storing"])
    assert crossings == pytest.approx((100 * np.sqrt([8, 16, 32])) ** (2 / 3), rel=1e-3)


def test_the_mean_of_the_slopes_is_the_slope_of_all_drawn():
    fitting = norm_tables()["fitting"]
    noise = np.exp(np.random.default_rng(0).normal(size=len(fitting)))
    fitting = fitting.with_columns(norm=pl.col("norm") * noise)
    design = np.column_stack([np.ones(len(fitting)), np.log(fitting["samples"]), np.log(fitting["length"])])
    _, *expected = np.linalg.lstsq(design, np.log(fitting["norm"].to_numpy()), rcond=None)[0]
    assert [slope.value for slope in norm_competition.fitting_slopes(fitting)] == pytest.approx(expected)


def test_the_competition_s_slope_is_that_of_its_crossings():
    tables = norm_tables(fitting=lambda n, length: n**1.3, storing=lambda length: 50 * length**0.9)
    claims = norm_competition.NormCompetition().judge(Tables(NORMS, tables))
    found = next(claim for claim in claims if claim.name == "competition")
    crossings = norm_competition.crossing_samples(tables["fitting"], tables["storing"])
    expected = np.polyfit(np.log(NORMS.lengths), np.log(crossings), 1)[0]
    assert found.value == pytest.approx(expected) and found.low < found.value < found.high


def test_a_norm_of_fitting_that_does_not_grow_competes_with_nothing():
    assert norm_verdicts(fitting=lambda n, length: 1 / n)["competition"] == INCONCLUSIVE


@pytest.mark.slow
def test_the_smoke_scale_executes_the_constructions():
    experiment = norm_competition.NormCompetition()
    settings = experiment.settings("smoke", {"samples": (4, 8), "lengths": (4, 8), "seeds": 1, "prompts": 50})
    tables = measured_tables(experiment, Results(pl.DataFrame(), settings))
    claims = {claim.name: claim for claim in experiment.judge(tables)}
    assert claims["overfitting-fits"].verdict == REPRODUCED and claims["overfitting-fits"].trials == 2
    drawn(experiment, tables)


# --- length -------------------------------------------------------------------------------------------------


def length_verdicts(samples: Callable[[int, int], float], **changes: Any) -> dict[str, str]:
    experiment = length.Length()
    settings = experiment.settings("paper", changes)
    rows = []
    for q, n, seed in itertools.product(settings.sparsities, settings.lengths, range(settings.seeds)):
        steps = samples(q, n) * (1 + 0.02 * seed)
        time = 5 * math.ceil(steps / 5) if steps <= settings.budget else None
        rows.append({"task.sparsity": q, "task.length": n, "seed": seed, "convergence_time": time})
    tables = Tables(settings, {"trials": pl.DataFrame(rows, schema_overrides={"convergence_time": pl.Int64})})
    drawn(experiment, tables)
    return verdicts(experiment, tables)


def test_a_logarithm_is_reproduced_and_a_line_is_not():
    found = length_verdicts(lambda q, n: 100 * math.log(n) if q == 1 else 20.0 * n)
    assert found == {"growth-q1": REPRODUCED, "growth-q2": NOT_REPRODUCED}


def test_short_prompts_do_not_count():
    assert length_verdicts(lambda q, n: 50 if n < 16 else 500)["growth-q1"] == REPRODUCED


def test_runs_that_never_get_there_do_not_reproduce_anything():
    assert length_verdicts(lambda q, n: 500 if n < 64 else 1e9)["growth-q1"] != REPRODUCED
    assert REPRODUCED not in length_verdicts(lambda q, n: 1e9).values()


def test_runs_of_a_few_checks_decide_nothing():
    assert set(length_verdicts(lambda q, n: 10).values()) == {INCONCLUSIVE}


def test_the_tasks_are_in_the_theorys_encoding():
    settings = length.Settings()
    task = length.task_of(settings, 2, 16)
    assert task.scaled and task.code_dimension == math.ceil(20 * math.log(16)) and task.sparsity == 2
    products = np.abs(np.asarray(task.codes, np.float64) @ np.asarray(task.codes, np.float64).T) - np.eye(16)
    assert products.max() <= 0.5 + 1e-6
