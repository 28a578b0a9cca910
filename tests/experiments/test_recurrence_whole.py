"""Experiments on functions of whole sequences: their trials, and what planted tables say."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import polars as pl
import pytest
from planted import drawn, ended_trials, verdicts

from krogh.errors import KroghError
from krogh.experiments.recurrence import additive_floor, rademacher, regret, substring, trained_parts, whole_sequence
from krogh.experiments.recurrence.whole import curve_rows, fvu_table
from krogh.lab import Results, Tables
from krogh.lab.claims import INCONCLUSIVE, NOT_REPRODUCED, REPRODUCED
from krogh.models.elman import ElmanRnn
from krogh.tasks.bit_strings import SingleBlip, StringParity
from krogh.tasks.whole_sequence import WholeSequence

SEEDS = range(6)


def spread(value: float, seed: int) -> float:
    """Six numbers around a value."""
    return value * (1 + 0.02 * (seed - 2.5))


# --- whole-sequence -------------------------------------------------------------------------------------------


def whole_tables(network: float, average: float, additive: float = 0.8, **changes) -> Tables:
    settings = whole_sequence.Settings(**changes)
    rows = [
        {"learner": "network", "width": width, "eps": eps, "seed": seed, "fvu": spread(network, seed),
         "average": spread(average, seed), "floor": 0.8}
        for width in settings.widths for eps in settings.eps for seed in SEEDS
    ]  # fmt: skip
    rows += [{"learner": "additive", "width": 0, "eps": 1.0, "seed": seed, "fvu": spread(additive, seed),
              "average": np.nan, "floor": 0.8} for seed in SEEDS]  # fmt: skip
    curves = [
        {"learner": "network", "width": width, "eps": eps, "seed": seed, "step": step, "fvu": network + 1 / (1 + step)}
        for width in settings.widths for eps in settings.eps for seed in SEEDS for step in (0, 20, 40)
    ]  # fmt: skip
    return Tables(settings, {"fvu": pl.DataFrame(rows), "curves": pl.DataFrame(curves), "trials": pl.DataFrame()})


def test_whole_sequence_is_decided_by_the_floor_and_by_a_fifth():
    found = whole_sequence.WholeSequences()
    good = verdicts(found, whole_tables(0.1, 0.4))
    assert set(good.values()) == {REPRODUCED} and len(good) == 7
    between = verdicts(found, whole_tables(0.24, 0.9))  # below a third of the floor, above a fifth
    assert between["eps-1-fvu"] == NOT_REPRODUCED and between["eps-1-below-floor"] == REPRODUCED
    assert between["eps-1-average"] == NOT_REPRODUCED
    assert verdicts(found, whole_tables(0.3, 0.4))["eps-0.3-below-floor"] == NOT_REPRODUCED
    assert verdicts(found, whole_tables(0.1, 0.4, additive=0.5))["floor"] == NOT_REPRODUCED
    assert set(verdicts(found, whole_tables(0.1, 0.4, seeds=2)).values()) == {INCONCLUSIVE}
    assert verdicts(found, whole_tables(0.1, 0.4, widths=(100,)))["eps-1-fvu"] == INCONCLUSIVE
    assert len(drawn(found, whole_tables(0.1, 0.4))["whole-sequence"]) > 10


def test_fvu_is_the_error_over_the_variance_and_averages_leave_the_last_look_out():
    found = whole_sequence.WholeSequences()
    settings = found.settings("smoke")
    cohorts = [cohort for cohort in found.trials(settings) if cohort.labels["learner"] == "network"]
    ends = {"time": np.full(2, 10**6), "final": [0.5, 0.25], "error": np.array([[4.0, 2.0, 0.5], [1.0, 0.5, 0.25]])}
    results = Results(ended_trials(cohorts, lambda _: ends), settings)
    table = fvu_table(results, ("learner", "width", "eps"))
    for row, error, average in zip(table.iter_rows(named=True), (0.5, 0.25), (3.0, 0.75), strict=True):
        known = settings.task(row["seed"]).baselines()
        assert row["fvu"] == pytest.approx(error / known["label_variance"])
        assert row["average"] == pytest.approx(average / known["label_variance"])
        assert row["floor"] == known["additive_floor"]
    curves = curve_rows(results, ("width",))
    assert curves["step"].to_list() == [0, 20, 40] * 2 and curves["fvu"][2] == pytest.approx(table["fvu"][0])


def test_every_seed_has_its_own_target_and_b_is_frozen():
    found = whole_sequence.WholeSequences()
    cohort, *_, sums = found.trials(found.settings("smoke"))
    one, other = cohort[0], cohort[1]
    assert not np.array_equal(one.task.weights, other.task.weights) and one.training.frozen == ("B",)
    assert sums.labels["learner"] == "additive" and sums[0].task == one.task and sums[0].model.degree == 2
    with pytest.raises(KroghError, match=r"no closed form.*'z\^2'"):
        found.settings("laptop", {"function": "tanh"})
    with pytest.raises(KroghError, match="look_every=20; got steps=30"):
        found.settings("laptop", {"steps": 30})


# --- trained-parts --------------------------------------------------------------------------------------------


def parts_tables(w: float, both: float, **changes) -> Tables:
    settings = trained_parts.Settings(**changes)
    values = {"W": w, "W and A": both}
    rows = [{"part": part, "labels": labels, "seed": seed, "fvu": spread(values[part], seed), "floor": 0.8}
            for part in values for labels in ("last", "every") for seed in SEEDS]  # fmt: skip
    curves = [{"part": part, "labels": labels, "seed": seed, "step": step, "fvu": values[part]}
              for part in values for labels in ("last", "every") for seed in SEEDS for step in (0, 20)]  # fmt: skip
    return Tables(settings, {"fvu": pl.DataFrame(rows), "curves": pl.DataFrame(curves), "trials": pl.DataFrame()})


def test_trained_parts_are_compared_seed_by_seed():
    found = trained_parts.TrainedParts()
    assert set(verdicts(found, parts_tables(0.1, 0.08)).values()) == {REPRODUCED}
    worse = verdicts(found, parts_tables(0.1, 0.12))
    assert worse["last-both"] == worse["every-both"] == NOT_REPRODUCED and worse["last-floor-W"] == REPRODUCED
    assert verdicts(found, parts_tables(0.9, 0.1))["every-floor-W"] == NOT_REPRODUCED
    assert set(verdicts(found, parts_tables(0.1, 0.08, width=50)).values()) == {INCONCLUSIVE}
    assert drawn(found, parts_tables(0.1, 0.08))
    cohorts = list(found.trials(found.settings("smoke")))
    assert [cohort.template.training.frozen for cohort in cohorts] == [("A", "B"), ("B",)] * 2
    assert [cohort.template.model.reads for cohort in cohorts] == [0, 0, 3, 3]


# --- additive-floor -------------------------------------------------------------------------------------------


def floor_tables(times: dict[tuple[str, float], float], fewest: float = 0.25, **changes) -> Tables:
    settings = additive_floor.Settings(seeds=8, **changes)
    trials = [
        {"learner": "network", "language": language, "eps": eps, "seed": seed, "outcome": "converged",
         "convergence_time": round(spread(times.get((language, eps), 1000), seed)), "curve.step": [0, 20, 40],
         "curve.error": [0.5, 0.3, 0.0]}
        for language, eps in settings.tasks() for seed in range(8)  # of six, a ratio of medians has no interval
    ]  # fmt: skip
    floors = [{"language": language, "strings": 8, "mistakes": fewest, "bound": fewest, "fvu": 1.0, "variance": 0.25}
              for language, eps in settings.tasks() if eps == 1.0]  # fmt: skip
    table = pl.DataFrame(trials)
    made = {"trials": table, "floors": pl.DataFrame(floors), "curves": additive_floor.error_curves(table)}
    return Tables(settings, made)


def test_networks_must_be_quick_and_sums_must_err():
    found, slow = additive_floor.AdditiveFloor(), {("D_L1, 8 bits", 0.3): 5000}
    good = verdicts(found, floor_tables(slow))
    assert set(good.values()) == {REPRODUCED} and {"blip-8-learned", "parity-5-learned"} <= set(good)
    late = verdicts(found, floor_tables({("D_L1, 8 bits", 1.0): 1500, ("PARITY, 4 bits", 1.0): 1400}))
    assert late["blip-8-learned"] == NOT_REPRODUCED and late["parity-4-learned"] == REPRODUCED
    assert late["small-tokens"] == NOT_REPRODUCED
    fewer = verdicts(found, floor_tables(slow, fewest=0.2))
    assert fewer["mistakes"] == fewer["tight"] == NOT_REPRODUCED
    assert verdicts(found, floor_tables(slow, width=50))["blip-8-learned"] == INCONCLUSIVE
    assert drawn(found, floor_tables(slow))


def test_floors_are_computed_and_proved():
    table = additive_floor.floors(additive_floor.Settings(blip_bits=5, parity_bits=(3, 4)))
    assert table["language"].to_list() == ["D_L1, 5 bits", "PARITY, 3 bits", "PARITY, 4 bits"]
    assert np.allclose(table["mistakes"], [0.25, 0.25, 0.3125]) and np.allclose(table["bound"], table["mistakes"])
    assert np.allclose(table["fvu"], 1.0) and np.allclose(table["variance"], 0.25)


def test_a_network_that_stopped_makes_no_mistake_afterwards():
    rows = pl.DataFrame(
        {"learner": "network", "language": "L", "eps": 1.0, "seed": [0, 1], "outcome": ["converged", "failed"],
         "curve.step": [[0, 10], [0, 10, 20]], "curve.error": [[0.5, 0.0], [0.5, 0.4, 0.3]]}
    )  # fmt: skip
    curves = additive_floor.error_curves(rows)
    assert curves.filter(seed=0)["error"].to_list() == [0.5, 0.0, 0.0]
    assert curves.filter(seed=1)["step"].to_list() == [0, 10, 20]


def test_languages_are_those_of_the_source():
    found = additive_floor.AdditiveFloor()
    tasks = found.settings("laptop").tasks()
    assert tasks["D_L1, 8 bits", 0.3] == SingleBlip(8, eps_x=0.3) and tasks["PARITY, 5 bits", 1.0] == StringParity(5)
    cohorts = list(found.trials(found.settings("smoke")))
    assert [cohort.template.training.stopping.validation for cohort in cohorts] == [64, 64, "exact", "exact"]


# --- substring ------------------------------------------------------------------------------------------------


def substring_tables(test: float, train: float, **changes) -> Tables:
    settings = substring.Settings(**changes)
    rows = [{"learner": "network", "seed": seed, "test": spread(test, seed), "train": train} for seed in SEEDS]
    rows += [{"learner": "additive", "seed": seed, "test": 0.3, "train": None} for seed in SEEDS]
    curves = [{"seed": seed, "step": step, "error": 0.3} for seed in SEEDS for step in (0, 100)]
    made = {"errors": pl.DataFrame(rows), "scores": substring.score_table(settings), "curves": pl.DataFrame(curves)}
    return Tables(settings, {**made, "trials": pl.DataFrame()})


def test_substrings_need_half_of_the_additive_error():
    found = substring.SubstringMatching()
    assert set(verdicts(found, substring_tables(0.08, 0.003)).values()) == {REPRODUCED}
    bad = verdicts(found, substring_tables(0.2, 0.1))
    assert bad["half"] == bad["trained"] == NOT_REPRODUCED and bad["construction"] == REPRODUCED
    assert verdicts(found, substring_tables(0.08, 0.003, width=20))["half"] == INCONCLUSIVE
    given = substring_tables(0.08, 0.003)
    blunt = given["scores"].with_columns(score=pl.col("score") / 2)
    spoiled = Tables(
        given.settings, {**{name: given[name] for name in ("errors", "curves", "trials")}, "scores": blunt}
    )
    assert verdicts(found, spoiled)["construction"] == NOT_REPRODUCED
    assert drawn(found, given)


@pytest.mark.slow
def test_splits_are_the_seeds_and_nothing_is_judged_that_was_trained_on():
    found = substring.SubstringMatching()
    networks, sums = found.trials(found.settings("smoke"))
    for place in range(2):
        one, other = networks[place], sums[place]
        assert int(one.task.split) == int(one.seed) == place and one.task == other.task
        samples = [np.asarray(trial.training.regime.whole(trial.task, trial.key(1))) for trial in (one, other)]
        assert np.array_equal(*samples) and len(np.unique(samples[0], axis=0)) == 48
    with pytest.raises(KroghError, match="'10x'"):
        found.settings("laptop", {"pattern": "10x"})


# --- rademacher -----------------------------------------------------------------------------------------------


def gap_tables(ratio: float, slope: float, trained: float = -0.5, **changes) -> Tables:
    settings = rademacher.Settings(**changes)
    rows = [
        {"samples": size, "seed": seed, "linear_gap": spread(size**slope, seed), "gap": spread(size**trained, seed),
         "flow_gap": size**-0.7, "rademacher": size**slope / ratio / 2}
        for size in settings.sizes for seed in SEEDS
    ]  # fmt: skip
    return Tables(settings, {"gaps": pl.DataFrame(rows), "trials": pl.DataFrame()})


def test_gaps_are_bounded_and_fall():
    found = rademacher.Rademacher()
    assert set(verdicts(found, gap_tables(0.5, -0.5)).values()) == {REPRODUCED}
    assert verdicts(found, gap_tables(1.5, -0.5))["bounded"] == NOT_REPRODUCED
    flat = verdicts(found, gap_tables(0.5, -0.1, trained=-1.0))
    assert flat["linearised-falls"] == flat["trained-falls"] == NOT_REPRODUCED
    assert set(verdicts(found, gap_tables(0.5, -0.5, sizes=(50, 100))).values()) == {INCONCLUSIVE}
    assert drawn(found, gap_tables(0.5, -0.5))


def test_gradient_flow_is_many_small_steps():
    """Against gradient descent with steps so small that they do not matter, for a kernel that has no inverse."""
    random = np.random.default_rng(2)
    features, residual = random.normal(size=(5, 3)), random.normal(size=5)
    kernel, theta, time, steps = features @ features.T, np.zeros(3), 1.7, 20_000
    for _ in range(steps):
        theta += time / steps * features.T @ (residual - features @ theta) / 5
    alpha = rademacher.flow_coefficients(kernel, residual, time)
    assert np.allclose(features.T @ alpha, theta, atol=1e-3)
    late = kernel @ rademacher.flow_coefficients(kernel, residual, 1e6)
    assert np.allclose(late, features @ np.linalg.lstsq(features, residual, rcond=None)[0], atol=1e-6)


# --- regret ---------------------------------------------------------------------------------------------------


def regret_tables(left: float, right: float, path: float, start: float = 2.0, **changes) -> Tables:
    settings = regret.Settings(**changes)
    rows = [{"seed": seed, "steps": steps, "left": left, "right": right, "right_path": path, "opt": right / 2,
             "start": start} for seed in SEEDS for steps in (1, 10, 100)]  # fmt: skip
    return Tables(settings, {"sides": pl.DataFrame(rows), "trials": pl.DataFrame()})


def test_the_average_objective_is_held_against_both_right_sides():
    found = regret.Regret()
    assert set(verdicts(found, regret_tables(0.5, 0.6, 0.7)).values()) == {REPRODUCED}
    assert verdicts(found, regret_tables(0.65, 0.6, 0.7)) | {"informative": ""} == {
        "lemma": NOT_REPRODUCED, "path": REPRODUCED, "informative": ""}  # fmt: skip
    assert verdicts(found, regret_tables(0.5, 0.6, 0.4))["path"] == NOT_REPRODUCED
    assert verdicts(found, regret_tables(0.5, 3.0, 0.6))["informative"] == NOT_REPRODUCED
    assert verdicts(found, regret_tables(0.5, 0.6, 0.7, width=8))["lemma"] == INCONCLUSIVE
    assert drawn(found, regret_tables(0.5, 0.6, 0.7))


@pytest.mark.parametrize("delta", [0.0, 0.3])
@pytest.mark.slow
def test_descent_is_sgd_written_out(delta):
    """Against a loop with JAX's own gradients of the whole objective, and expansions by a JVP."""
    task, model = WholeSequence.random(4, 3, seed=1), ElmanRnn(5)
    params, batch = model.init(jax.random.key(0), task), task.batch(jax.random.key(1), 3)
    order, rate = np.array([2, 0, 1, 1]), 0.05
    random = np.random.default_rng(0)
    shifts = {name: jnp.asarray(0.1 * random.normal(size=(2, *params[name].shape)), jnp.float32) for name in ("A", "W")}
    found = regret.descend(params, batch.x, batch.y, jnp.asarray(order), shifts, jnp.float32(rate), jnp.float32(delta))
    now = {name: params[name] for name in ("A", "W")}

    def huber(apart):
        size = jnp.abs(apart)
        return jnp.where(size <= delta, size**2 / 2, delta * (size - delta / 2)) if delta else size**2 / 2

    for t, q in enumerate(order):
        answer = lambda own, q=q: model.predict({**own, "B": params["B"]}, batch.x[q : q + 1])[0]  # noqa: E731
        value, slope = jax.value_and_grad(lambda own, q=q, f=answer: huber(f(own) - batch.y[q]))(now)
        assert float(found[0][t]) == pytest.approx(float(value), rel=1e-4)
        assert float(found[1][t]) == pytest.approx(sum(float(jnp.vdot(g, g)) for g in slope.values()), rel=1e-3)
        for place in range(2):
            along = {name: shifts[name][place] - (now[name] - params[name]) for name in now}
            at, change = jax.jvp(answer, (now,), (along,))
            assert float(found[2][t, place]) == pytest.approx(
                float(huber(at + change - batch.y[q])), rel=1e-3, abs=1e-6
            )
        now = {name: now[name] - rate * slope[name] for name in now}


@pytest.mark.slow
def test_good_shifts_are_combinations_of_gradients_with_the_kernels_norm():
    task, model = WholeSequence.random(4, 3, seed=1), ElmanRnn(6)
    params, x = model.init(jax.random.key(0), task), task.batch(jax.random.key(1), 4).x
    alphas = jnp.asarray(np.random.default_rng(1).normal(size=(2, 4)), jnp.float32)
    shifts = regret.good_shifts(params, x, alphas)
    each = [jax.grad(lambda p, q=q: model.predict(p, x[q : q + 1])[0])(params) for q in range(4)]
    for name in ("A", "W"):
        expected = np.einsum("rq,q...->r...", alphas, np.stack([slope[name] for slope in each]))
        assert np.allclose(shifts[name], expected, atol=1e-5)


@pytest.mark.slow
def test_the_inequality_along_the_path_holds_on_a_tiny_run():
    settings = regret.Regret().settings("smoke", {"steps": 60, "points": 20, "seeds": 1, "width": 12})
    rows = regret.both_sides(settings)
    assert (rows["left"] <= rows["right_path"] * (1 + 1e-4)).all() and rows["steps"].to_list()[-1] == 60
    assert (rows["right"] >= rows["opt"]).all() and (rows["gradient"] > 0).all()
