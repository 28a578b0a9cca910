"""Sample complexity of conjunctions on tables whose law is known, and the adaptive search replayed on them."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
import polars as pl
import pytest
from krogh.lab.claim import INCONCLUSIVE, NOT_REPRODUCED, REPRODUCED
from krogh.lab.measured import from_counts, points
from matplotlib.figure import Figure as Drawing
from scipy.special import expit

import krogh.experiments  # noqa: F401  files them
from krogh.engine.checking import allowed_errors
from krogh.errors import KroghError
from krogh.experiments.attention import sample_claims
from krogh.experiments.attention.common import conjunction_trial, source_adam, success_counts
from krogh.experiments.attention.replay import replay, searching, stopping_rule
from krogh.experiments.attention.sample_complexity import found_in
from krogh.lab import Results, figures, run_study
from krogh.models.sparse_transformer import SparseTransformer
from krogh.registry import EXPERIMENTS
from krogh.tasks.consistency import consistent_sets

MAIN, FIXED = "attention/sample-complexity", "attention/fixed-positions"
SCALES = ("smoke", "laptop", "paper")
Rate = Callable[[Any, int], float]


def smooth(middle: Callable[[int], float], width: float = 0.12) -> Rate:
    """Success rates that cross 80% at `middle` of the length."""
    return lambda length, m: float(expit((math.log(m) - math.log(middle(length))) / width + math.log(4)))


LOGARITHMIC = smooth(lambda length: 12 * math.log(length) - 10)
LINEAR = smooth(lambda length: 25 + 0.3 * length)


def results_of(rate: Rate, name: str = MAIN, scale: str = "laptop", **changes: Any) -> Results[Any]:
    """A table in which each cell's share of successes is its rate, to one trial, in shuffled order."""
    settings = EXPERIMENTS[name]().settings(scale, changes)
    rng, rows = np.random.default_rng(0), []
    groups = settings.lengths if name == MAIN else (False, True)
    for group in groups:
        for m in settings.sizes_at(group) if name == MAIN else settings.sizes:
            solved = np.arange(settings.trials) < round(rate(group, m) * settings.trials)
            for seed, success in enumerate(rng.permutation(solved)):
                steps = int(rng.choice([40, 60, 110])) if success else settings.restarts * settings.budget
                length, fixed = (group, False) if name == MAIN else (settings.length, group)
                rows.append((length, fixed, m, seed, "converged" if success else "failed", steps))
    schema = ["task.n", "model.fixed_positions", "training.regime.m", "seed", "outcome", "steps"]
    return Results(pl.DataFrame(rows, schema=schema, orient="row"), settings, scale)


def verdicts(results: Results[Any], name: str = MAIN) -> dict[str, str]:
    claims = EXPERIMENTS[name]().claims(results)
    assert len({claim.name for claim in claims}) == len(claims)
    return {claim.name: claim.verdict for claim in claims}


def reasons(results: Results[Any]) -> dict[str, str]:
    return {claim.name: claim.reason for claim in EXPERIMENTS[MAIN]().claims(results)}


def drawn(results: Results[Any], name: str = MAIN) -> dict[str, Any]:
    with figures.style():
        made = EXPERIMENTS[name]().figures(results)
    for figure in made:
        assert isinstance(figure.drawing, Drawing) and len(figure.data) and figure.title and figure.caption
        figure.drawing.draw_without_rendering()
    return {figure.name: figure for figure in made}


# --- claims of the grid -------------------------------------------------------------------------------------

FEW = {"replays": 2, "draws": 100}


def test_a_logarithmic_law_is_reproduced():
    results = results_of(LOGARITHMIC, trials=400, **FEW)
    found = verdicts(results)
    assert found.pop("adaptive-agrees") == INCONCLUSIVE, "two replays are too few to say"
    assert found == dict.fromkeys(found, REPRODUCED)
    assert {"logarithmic-fit", "logarithmic-not-linear", "slow-growth", "above-the-floor", "enough-at-100"} <= set(
        found
    )
    stars = {length: interval.value for length, interval in found_in(results).intervals.items()}
    for length, star in stars.items():
        assert star == pytest.approx(12 * math.log(length) - 10, rel=0.05)


def test_a_linear_law_is_not():
    wide = {"sizes": tuple(range(20, 141, 10)), "trials": 400}
    found = verdicts(results_of(LINEAR, **wide, **FEW))
    assert found["logarithmic-not-linear"] == NOT_REPRODUCED
    assert found["above-the-floor"] == REPRODUCED
    steep = verdicts(results_of(smooth(lambda length: 0.6 * length + 10), lengths=(25, 50, 100, 200), **wide, **FEW))
    assert steep["slow-growth"] == NOT_REPRODUCED


def test_growth_without_any_law_has_no_straight_line():
    jumps = {25: 30, 50: 80, 100: 25, 200: 70}
    found = verdicts(results_of(smooth(jumps.__getitem__), trials=200, **FEW))
    assert found["logarithmic-fit"] == NOT_REPRODUCED


SMALL = {"lengths": (50, 100), "sizes": (60, 80, 100), "small_lengths": (50,), "small_sizes": (30, 40), "draws": 100}


@pytest.mark.parametrize("method", ["grid", "adaptive"])
def test_lengths_may_have_smaller_sizes_besides(method):
    options = {"method": method, "trials": 50, "replays": 1, **SMALL}
    results = results_of(smooth(lambda length: 35.0 if length == 50 else 75.0), **options)
    found = found_in(results)
    assert found.grid_trials == found.trials == 50 * (5 + 3)
    assert 30 < found.intervals[50].low < 38 < found.intervals[50].high < 60, "below the smallest of the other sizes"
    made = drawn(results)
    cells = {*((50, m) for m in (30, 40, 60, 80, 100)), *((100, m) for m in (60, 80, 100))}
    assert set(made["success-rates"].data.select("T", "m").iter_rows()) == cells
    assert made["cost"].data["grid_trials"].to_list() == [250, 150]
    easy = reasons(results_of(lambda length, m: 1.0, **options))
    assert "m* may lie below the smallest size 30 at T = 50" in easy["above-the-floor"]


def test_a_search_may_spend_half_of_the_largest_grid():
    found = found_in(results_of(LOGARITHMIC, method="adaptive", trials=50, **SMALL))
    search = EXPERIMENTS[MAIN]().search(found.settings, EXPERIMENTS[MAIN]().trials(found.settings))
    assert search is not None and search.frontiers[50].rule.budget == search.frontiers[100].rule.budget == 125


def test_the_paper_scale_has_the_sources_sizes_and_smaller_ones_where_they_may_do():
    settings, sizes = EXPERIMENTS[MAIN]().settings("paper"), list(range(50, 201, 10))
    assert settings.sizes_at(100) == settings.sizes_at(150) == [30, 40, *sizes]
    assert settings.sizes_at(200) == settings.sizes_at(1100) == sizes


def test_noise_alone_does_not_refute_a_logarithmic_law():
    """With the source's 40 trials per cell R² of an exactly logarithmic law is mostly below 0.85."""
    lengths, sizes = (*range(100, 801, 50), 900, 1000, 1100), range(30, 201, 10)
    law, rng, below = smooth(lambda length: 6.9 + 9.26 * math.log(length), 0.16), np.random.default_rng(0), 0
    for _ in range(20):
        counts = {t: {m: (int(rng.binomial(40, law(t, m))), 40) for m in sizes} for t in lengths}
        straight = sample_claims.straightness(from_counts(counts, 0.8))
        below += straight.value < 0.85
        assert straight.high > 0.85
    assert below > 10


def test_a_learner_below_the_floor_is_noticed():
    sizes = tuple(range(6, 31, 2))
    found = verdicts(results_of(smooth(lambda length: 12.0, 0.05), sizes=sizes, lengths=(50, 100), trials=100, **FEW))
    assert found["above-the-floor"] == found["above-the-statistical-threshold"] == NOT_REPRODUCED
    between = smooth(lambda length: 20.0, 0.05)  # above log2 C(50,3) = 14.3, below what identifies the set
    found = verdicts(results_of(between, sizes=sizes, lengths=(50,), trials=100, **FEW))
    assert found["above-the-floor"] == REPRODUCED and found["above-the-statistical-threshold"] == NOT_REPRODUCED


def test_the_source_s_point():
    options = {"lengths": (100, 300), "sizes": tuple(range(40, 131, 10)), "trials": 100, **FEW}
    for star, expected in ((70, (REPRODUCED, REPRODUCED)), (110, (REPRODUCED, NOT_REPRODUCED)), (50, None)):
        found = verdicts(results_of(smooth(lambda length, star=star: star), **options))
        expected = expected or (NOT_REPRODUCED, REPRODUCED)
        assert (found["at-300-at-least-60"], found["at-300-at-most-90"]) == expected
    assert "at-300-at-least-60" not in verdicts(results_of(LOGARITHMIC, trials=24, **FEW))


def test_single_cells():
    found = verdicts(results_of(smooth(lambda length: 110.0), trials=50, **FEW))
    assert found["enough-at-100"] == NOT_REPRODUCED and found["threshold-moves"] == NOT_REPRODUCED
    assert verdicts(results_of(LOGARITHMIC, trials=50, **FEW))["threshold-moves"] == REPRODUCED


def test_a_threshold_below_the_smallest_size_decides_nothing():
    results = results_of(smooth(lambda length: 15.0), trials=50, **FEW)
    found, why = verdicts(results), reasons(results)
    for name in ("logarithmic-fit", "logarithmic-not-linear", "slow-growth", "above-the-floor"):
        assert found[name] == INCONCLUSIVE and "below the smallest size 20" in why[name]


def test_a_threshold_that_is_not_reached_is_no_success():
    results = results_of(smooth(lambda length: 40.0 if length < 200 else 400.0), trials=50, **FEW)
    found = verdicts(results)
    assert found["slow-growth"] != REPRODUCED and found["logarithmic-not-linear"] == INCONCLUSIVE
    assert math.isinf(drawn(results)["sample-complexity"].data["m_star"][-1])


@pytest.mark.parametrize("method", ["grid", "adaptive"])
def test_too_few_trials_decide_nothing(method):
    for results in (results_of(LOGARITHMIC, trials=9, method=method, **FEW), results_of(LOGARITHMIC, scale="smoke")):
        assert set(verdicts(results).values()) == {INCONCLUSIVE}
        drawn(results)


def test_nothing_learned_is_still_a_report():
    results = results_of(lambda length, m: 0.0, **FEW)
    found = verdicts(results)
    assert found["enough-at-100"] == NOT_REPRODUCED and REPRODUCED not in (
        found["slow-growth"],
        found["logarithmic-fit"],
    )
    drawn(results)


# --- the search ---------------------------------------------------------------------------------------------


def recorded(rate: Rate = LOGARITHMIC, **changes: Any) -> tuple[dict, np.ndarray, np.ndarray]:
    table = results_of(rate, **changes).table.with_row_index("position")
    pools: dict[int, dict[int, list[int]]] = {}
    for length, m, position in table.select("task.n", "training.regime.m", "position").iter_rows():
        pools.setdefault(length, {}).setdefault(m, []).append(position)
    return pools, (table["outcome"] == "converged").to_numpy(), table["steps"].to_numpy()


def test_a_replay_tells_the_search_what_was_recorded():
    """Positions are used in the order of their pool, so the counts are those of the first trials of every cell."""
    pools, solved, steps = recorded()
    run = replay(pools, solved, steps, p=0.8, precision=1.5, in_flight=3, seed=4)
    spent = 0
    for length, sizes in pools.items():
        counts = run.frontiers[length].counts()
        assert run.trials[length] == sum(trials for _, trials in counts.values())
        for m, cell in sizes.items():
            hits, trials = counts.get(float(m), (0, 0))
            assert hits == solved[cell[:trials]].sum()
            spent += steps[cell[:trials]].sum()
    assert run.all_steps == spent and run.all_trials < len(solved)


def test_with_one_trial_at_a_time_the_replay_is_the_search_itself():
    pools, solved, steps = recorded(lengths=(50,))
    run = replay(pools, solved, steps, p=0.8, precision=1.5, in_flight=1, seed=7)
    search = searching(pools, p=0.8, precision=1.5, in_flight=1, seed=7)
    more, order = search.start(), []
    while more:
        (position,) = more
        order.append(position)
        more = search.finished(position, bool(solved[position]))
    assert run.frontiers[50].counts() == search.frontiers[50].counts()
    assert run.all_steps == steps[order].sum()


def test_trials_report_when_they_have_taken_their_steps():
    """Against a clock that ticks once per ten steps, all trials in flight running at the same pace."""
    pools, solved, steps = recorded(lengths=(25, 50), trials=40)
    options = {"p": 0.8, "precision": 1.3, "in_flight": 8, "seed": 1}
    search = searching(pools, **options)
    left = {position: steps[position] for position in search.start()}
    while left:
        left = {position: more - 10 for position, more in left.items()}
        for position in sorted(position for position, more in left.items() if more == 0):
            del left[position]
            left |= {new: steps[new] for new in search.finished(position, bool(solved[position]))}
    run = replay(pools, solved, steps, **options)
    for length in pools:
        assert run.frontiers[length].counts() == search.frontiers[length].counts()
    hasty = replay(pools, solved, np.ones_like(steps), **options)
    assert any(hasty.frontiers[length].counts() != run.frontiers[length].counts() for length in pools)


def test_rules():
    assert (stopping_rule(640, 1.3).budget, stopping_rule(640, 1.3).least, stopping_rule(640, 1.3).ratio) == (
        320,
        12,
        1.3,
    )
    assert (stopping_rule(6, 1.3).budget, stopping_rule(6, 1.3).least) == (3, 3)


def test_the_search_agrees_for_a_quarter_of_the_trials():
    results = results_of(LOGARITHMIC, trials=40, replays=10, draws=100)
    found = verdicts(results)
    assert found["adaptive-agrees"] == found["adaptive-quarter"] == REPRODUCED
    data = drawn(results)["cost"].data
    assert data["grid_trials"].to_list() == [360] * 4
    assert data["grid_steps"].sum() == results.table["steps"].sum()
    assert data["trials"].sum() < 0.25 * 4 * 360


def test_a_search_that_costs_more_is_not_reproduced_and_one_that_errs_neither():
    shallow = smooth(lambda length: 50.0, 0.5)
    results = results_of(shallow, trials=24, precision=1.0, **FEW)
    assert verdicts(results)["adaptive-quarter"] == NOT_REPRODUCED
    other = found_in(results_of(smooth(lambda length: 90.0, 0.05), trials=40, replays=6, draws=100))
    wrong = dataclasses.replace(
        found_in(results_of(smooth(lambda length: 30.0, 0.05), trials=40, **FEW)), replays=other.replays
    )
    claims = {claim.name: claim.verdict for claim in sample_claims.made_claims(wrong, "")}
    assert claims["adaptive-agrees"] == NOT_REPRODUCED


def test_a_small_grid_leaves_nothing_to_save():
    found = verdicts(results_of(LOGARITHMIC, trials=19, **FEW))
    assert found["adaptive-quarter"] == INCONCLUSIVE


def adaptive_table(keep: int, **changes: Any) -> Results[Any]:
    """What an adaptive study leaves: the first `keep` trials of the sizes near the crossing."""
    whole = results_of(smooth(lambda length: 12 * math.log(length)), method="adaptive", **changes)
    near = (pl.col("training.regime.m") - 12 * pl.col("task.n").log()).abs() < 25
    return Results(whole.table.filter(near, pl.col("seed") < keep), whole.settings, "laptop")


def test_an_adaptive_study_speaks_of_the_trials_it_ran():
    results = adaptive_table(25, trials=60, draws=100)
    claims = {claim.name: claim for claim in EXPERIMENTS[MAIN]().claims(results)}
    assert {"enough-at-100", "adaptive-agrees"}.isdisjoint(claims)
    ran = len(results.table)
    assert claims["adaptive-quarter"].verdict == REPRODUCED
    assert claims["adaptive-quarter"].value == pytest.approx(ran / 2160) and claims["slow-growth"].trials == ran
    assert claims["slow-growth"].verdict == claims["above-the-floor"].verdict == REPRODUCED
    for length, star in found_in(results).intervals.items():
        assert star.contains(12 * math.log(length))
    made = drawn(results)
    assert made["success-rates"].data["trials"].sum() == ran
    assert made["cost"].data["grid_steps"].to_list() == [None] * 4
    everything = results_of(LOGARITHMIC, method="adaptive", trials=24, draws=100)
    assert verdicts(everything)["adaptive-quarter"] == NOT_REPRODUCED


@pytest.mark.parametrize(("small", "programs"), [((), 4), ((8,), 5), ((12, 20), 4)])
def test_positions_of_the_search_are_those_of_the_cohorts(small, programs):
    experiment = EXPERIMENTS[MAIN]()
    options = {"lengths": (50, 25), "sizes": (60, 20, 30), "small_lengths": (25,), "small_sizes": small}
    settings = experiment.settings("laptop", options | {"trials": 3, "method": "adaptive"})
    cohorts = experiment.trials(settings)
    trials = [trial for cohort in cohorts for trial in cohort]
    assert len(cohorts) == programs, "one program per length and factor of two in the sample size"
    search = experiment.search(settings, cohorts)
    assert search is not None and search.positions == len(trials) and search.width == 4
    for name, progress in search._progress.items():
        for m, pool in progress.pools.items():
            assert {(trials[at].task.n, int(trials[at].training.regime.m)) for at in pool} == {(name, int(m))}
            assert [int(trials[at].seed) for at in pool[::-1]] == [0, 1, 2]
    grid = dataclasses.replace(settings, method="grid")
    assert experiment.search(grid, cohorts) is None


# --- the parts ----------------------------------------------------------------------------------------------


def test_straightness_is_the_squared_correlation():
    rng = np.random.default_rng(0)
    x, y = np.array([25.0, 50, 100, 200, 400]), rng.uniform(20, 90, 5)
    measured = points(x, y)
    draws = y + rng.normal(0, 5, (200, 5))
    measured = dataclasses.replace(measured, draws=draws, draws_least=draws)
    interval = sample_claims.straightness(measured)
    assert interval.value == pytest.approx(np.corrcoef(np.log(x), y)[0, 1] ** 2)
    expected = np.sort([np.corrcoef(np.log(x), row)[0, 1] ** 2 for row in draws])
    assert interval.low == pytest.approx(expected[4])
    missing = dataclasses.replace(measured, y=np.array([*y[:4], math.inf]))
    assert (sample_claims.straightness(missing).low, sample_claims.straightness(missing).high) == (0.0, 1.0)


def test_the_least_ratio_over_the_lengths():
    over, under = np.array([30.0, 60.0]), np.array([10.0, 30.0])
    draws = np.array([[30.0, 20.0 + k] for k in range(100)])
    interval = sample_claims._least_ratio(over, draws, under, np.broadcast_to(under, draws.shape))
    assert interval.value == 2.0
    expected = np.sort(np.minimum(3.0, draws[:, 1] / 30))
    assert (interval.low, interval.high) == pytest.approx((expected[1], expected[98]))


def test_the_difference_of_two_rates_against_newcombe():
    """Newcombe (1998), Statistics in Medicine 17, Table II, method 10: 56/70 - 48/80."""
    interval = sample_claims._difference((56, 70), (48, 80))
    assert (interval.value, interval.low, interval.high) == pytest.approx((0.2, 0.0524, 0.3339), abs=1e-4)


def test_the_statistical_threshold_against_the_full_count():
    """At T = 12 every one of the 220 index sets is tried on data drawn here."""
    threshold = sample_claims.statistical_threshold(12, 3, 0.8, 400).interval
    rng, shares, table = np.random.default_rng(5), {}, [0] * 7 + [1]
    for m in (int(threshold.low) - 4, math.ceil(threshold.high) + 4):
        bits = rng.random((80, m, 12)) < 0.5 ** (1 / 3)
        unique = [len(consistent_sets(1.0 - 2 * b, 2.0 * b[:, :3].all(axis=1) - 1, 3, table)) == 1 for b in bits]
        shares[m] = np.mean(unique)
    below, above = shares.values()
    assert below < 0.8 < above
    for length, reference in ((50, 28), (100, 30)):  # the first m at which 60 draws reached 80%
        assert sample_claims.statistical_threshold(length, 3, 0.8, 100).interval.value == pytest.approx(
            reference, abs=4
        )


def test_the_source_s_training():
    model = SparseTransformer(embedding_dropout=0.0)
    adam = source_adam(model)
    assert set(adam.decayed or ()) == {"Wq", "Wk", "Wv", "Wo", "W1", "W2", "U"}
    assert (float(adam.rate), float(adam.decay), float(adam.clip)) == pytest.approx((1e-3, 1e-4, 1.0))
    assert "U" not in (source_adam(SparseTransformer(tied=True)).decayed or ())
    for validation, most in ((10_000, 99), (1000, 9), (256, 2)):  # more than 0.99 must be right
        trial = conjunction_trial(12, 3, 20, model, validation=validation)
        assert int(allowed_errors(trial)) == most
        assert (validation - most) / validation > 0.99 >= (validation - most - 1) / validation
    assert trial.training.loss == "logistic" and trial.task.unique
    with pytest.raises(KroghError, match="m=4 examples cannot single out"):
        conjunction_trial(1100, 3, 4, model)


def test_counts_of_a_table():
    rows = [(25, 20, "converged"), (25, 20, "failed"), (25, 40, "diverged"), (50, 20, "converged")]
    table = pl.DataFrame(rows, schema=["task.n", "training.regime.m", "outcome"], orient="row")
    assert success_counts(table) == {25: {20: (1, 2), 40: (0, 1)}, 50: {20: (1, 1)}}


@pytest.mark.parametrize("name", [MAIN, FIXED])
@pytest.mark.parametrize("scale", SCALES)
def test_trials_build(name, scale):
    experiment = EXPERIMENTS[name]()
    cohorts = experiment.trials(experiment.settings(scale))
    expected = {"smoke": 1, "laptop": 8, "paper": 38} if name == MAIN else dict.fromkeys(SCALES, 2)
    assert len(cohorts) == expected[scale]
    sizes = [int(trial.training.regime.m) for trial in cohorts[0]]
    assert sizes == sorted(sizes), "small samples first"
    if scale == "paper" and name == MAIN:
        # The source's "about 10^4 runs", and two more sizes at two lengths.
        assert sum(len(cohort) for cohort in cohorts) == 11_520 + 2 * 2 * 40


@pytest.mark.parametrize(
    ("changes", "echo"),
    [
        ({"lengths": ()}, "lengths must name at least one"),
        ({"lengths": (50, 50)}, r"\(50, 50\)"),
        ({"lengths": (3, 50)}, "try 4"),
        ({"sizes": (50,)}, r"at least two sizes; got sizes=\(50,\)"),
        ({"sizes": (2, 50)}, "m=2 examples cannot single out"),
        ({"small_lengths": (200,), "small_sizes": (2,)}, "m=2 examples cannot single out"),
        ({"trials": 0}, "trials"),
        ({"p": 1.0}, "p=1.0"),
        ({"precision": 0.9}, "precision=0.9"),
        ({"method": "bisection"}, "grid|adaptive"),
        ({"budget": 405}, "budget=405"),
        ({"embedding_dropout": 1.0}, "embedding_dropout=1.0"),
    ],
)
def test_bad_settings_are_echoed(changes, echo):
    experiment = EXPERIMENTS[MAIN]()
    with pytest.raises(KroghError, match=echo):
        experiment.trials(experiment.settings("laptop", changes))


# --- fixed positions ----------------------------------------------------------------------------------------


def fixed(rate: Rate, **changes: Any) -> dict[str, str]:
    results = results_of(rate, FIXED, "laptop", **changes)
    drawn(results, FIXED)
    return verdicts(results, FIXED)


def test_fixed_positions_that_learn_as_well_or_later_or_never():
    alike = fixed(smooth(lambda kind: 40.0), trials=100)
    assert alike == dict.fromkeys(("trained-learns", "fixed-learns", "fixed-costs-little"), REPRODUCED)
    later = fixed(smooth(lambda kind: 95.0 if kind else 30.0), trials=100)
    assert later["fixed-learns"] == REPRODUCED and later["fixed-costs-little"] == NOT_REPRODUCED
    never = fixed(lambda kind, m: 0.0 if kind else smooth(lambda _: 30.0)(kind, m), trials=100)
    assert never["fixed-learns"] == never["fixed-costs-little"] == NOT_REPRODUCED
    assert never["trained-learns"] == REPRODUCED


def test_fixed_positions_that_nothing_can_be_said_of():
    assert set(fixed(smooth(lambda kind: 40.0), trials=9).values()) == {INCONCLUSIVE}
    assert fixed(smooth(lambda kind: 10.0), trials=40)["fixed-costs-little"] == INCONCLUSIVE
    with pytest.raises(KroghError, match=r"sizes=\(50,\)"):
        EXPERIMENTS[FIXED]().trials(EXPERIMENTS[FIXED]().settings("laptop", {"sizes": (50,)}))


def test_both_kinds_see_the_same_data():
    experiment = EXPERIMENTS[FIXED]()
    trained, frozen = experiment.trials(experiment.settings("smoke"))
    assert [trained.template.model.fixed_positions, frozen.template.model.fixed_positions] == [False, True]
    for one, other in zip(trained, frozen, strict=True):
        assert (int(one.seed), int(one.training.regime.m)) == (int(other.seed), int(other.training.regime.m))
        same = jax.random.key_data(one.key(1)) == jax.random.key_data(other.key(1))
        assert bool(same.all())


@pytest.mark.slow
def test_an_adaptive_study_for_real(tmp_path):
    changes = {"method": "adaptive", "sizes": (12, 20, 40), "trials": 8}
    study = run_study(EXPERIMENTS[MAIN](), "smoke", tmp_path, changes=changes)
    table = pl.read_parquet(study.folder / "trials.parquet")
    assert study.status == "complete" and 0 < len(table) <= 12, "half of the grid at most"
    assert study.summary["engine"]["trials"] == len(table)
    again = run_study(EXPERIMENTS[MAIN](), "smoke", tmp_path, changes=changes)
    assert again.summary["engine"]["trained_steps"] == study.summary["engine"]["trained_steps"], "nothing is left to do"
