"""What a study would cost: counted where it can be, measured where it must be, and remembered."""

from __future__ import annotations

import json
from types import SimpleNamespace

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

import krogh
from krogh.engine import pilot as pilots
from krogh.engine.compiling import release
from krogh.engine.pilot import Pilot, compile_together, expected_steps, fly
from krogh.errors import KroghError
from krogh.lab import planning, run_study
from krogh.lab.planning import plan_costs
from krogh.lab.search import Problem, Search
from krogh.values import replaced

CPU, GPU = SimpleNamespace(platform="cpu"), SimpleNamespace(platform="gpu")
QUICK = {"seconds": 0.4}


@pytest.fixture
def cache(tmp_path, monkeypatch):
    folder = tmp_path / "cache"
    monkeypatch.setenv("KROGH_CACHE", str(folder))
    return folder


# --- pilots --------------------------------------------------------------------------------------------------------


@given(st.lists(st.integers(10, 1000), min_size=1, max_size=30))
def test_where_all_ended_the_expected_steps_are_their_mean(ended):
    assert expected_steps(Pilot(0, 1, 0, tuple(ended), ()), 1000) == pytest.approx(np.mean(ended))


def test_who_has_not_ended_may_go_on_to_the_budget():
    assert expected_steps(Pilot(0, 1, 0, (), (50, 60)), 1000) == 1000
    assert expected_steps(Pilot(0, 1, 0, (), ()), 700) == 700
    half = expected_steps(Pilot(0, 1, 0, (100,), (100,)), 1000)
    assert half == pytest.approx(0.5 * 100 + 0.5 * 1000)
    # One that left early counts as those that stayed longer: half of the others end at 200, half at 400.
    assert expected_steps(Pilot(0, 1, 0, (200, 400), (10,)), 1000) == pytest.approx(300)


def test_the_mean_of_a_censored_sample_is_found_again():
    rng = np.random.default_rng(0)
    times, looks = rng.exponential(300, 4000), rng.uniform(0, 2000, 4000)
    ended = tuple(times[times <= looks])
    running = tuple(looks[times > looks])
    assert expected_steps(Pilot(0, 1, 0, ended, running), 5000) == pytest.approx(300, rel=0.1)


def test_seconds_per_step_and_per_trial_are_told_apart():
    rng = np.random.default_rng(1)
    visits = [
        (int(steps), begun, 2e-4 * steps + 0.03 * begun) for steps in rng.integers(50, 900, 20) for begun in (0, 8)
    ]
    assert pilots._fitted(visits) == pytest.approx((2e-4, 0.03))
    assert pilots._fitted(visits[:2]) == (
        pytest.approx(sum(v[2] for v in visits[:2]) / sum(v[0] for v in visits[:2])),
        0,
    )
    assert np.isnan(pilots._fitted([])).all()


def test_a_pilot_trains_some_trials_of_the_cohort(tiny):
    cohort = tiny.Tiny().trials(tiny.Settings(widths=(8,)))[0]
    found = fly(cohort, 0.5)
    assert found.compile_seconds > 0 and found.step_seconds > 0 and found.trial_seconds >= 0
    assert 0 < len(found.ended) + len(found.running) <= len(cohort)
    assert all(0 < steps <= 200 and steps % 10 == 0 for steps in found.ended)


@pytest.mark.slow
def test_trials_that_inherit_and_learners_on_the_host_are_piloted_too(tiny):
    cohort = tiny.Tiny().trials(tiny.Settings(widths=(8,), seeds=2))[0]
    child = replaced(cohort.template, "start", krogh.Inherited(cohort.template))
    assert fly(krogh.sweep(child, seed=range(2))[0], 0.2).step_seconds > 0
    forest = krogh.Trial(
        krogh.Parity(n=6, k=2),
        krogh.RandomForest(trees=3),
        krogh.Training(regime=krogh.FullBatch(m=50), stopping=krogh.Stopping(validation=40)),
    )
    found = fly(krogh.sweep(forest, seed=range(3))[0], 0.2)
    assert found.compile_seconds == 0 and found.step_seconds > 0 and set(found.ended) == {1}


# --- plans ---------------------------------------------------------------------------------------------------------


def test_what_can_be_counted_is_exact_and_pilots_are_remembered(tiny, cache, monkeypatch):
    planned = plan_costs(tiny.Tiny(), "smoke", **QUICK)
    assert (planned.cohorts, planned.compilations, planned.piloted) == (2, 2, 2)
    assert (planned.trials.lowest, planned.trials.expected, planned.trials.highest) == (48, 48, 48)
    assert 480 <= planned.trial_steps.lowest <= planned.trial_steps.expected <= planned.trial_steps.highest <= 9600
    assert 0 < planned.wall_seconds.lowest <= planned.wall_seconds.expected <= planned.wall_seconds.highest
    assert planned.compile_seconds > 0 and planned.disk_bytes > 48 and planned.device_bytes > 0
    assert planned.weight_bytes == 0
    kept = plan_costs(tiny.Tiny(), "smoke", weights=True, **QUICK)
    floats = 24 * sum(8 * width + width + width for width in (8, 12))  # W, b, u
    assert kept.weight_bytes == 4 * floats
    monkeypatch.setattr(planning, "fly", lambda *_: pytest.fail("measured again"))
    assert plan_costs(tiny.Tiny(), "smoke", **QUICK) == planned
    with pytest.raises(pytest.fail.Exception, match="measured again"):  # other trials are others
        plan_costs(tiny.Tiny(), "smoke", changes={"rate": 0.2}, **QUICK)


def test_trials_that_differ_anywhere_have_pilots_of_their_own(tiny, cache, monkeypatch):
    flown = []
    monkeypatch.setattr(planning, "fly", lambda cohort, *_: flown.append(cohort) or Pilot(1.0, 1.0, 0.0, (10,), ()))
    template = tiny.Tiny().trials(tiny.Settings(widths=(8,)))[0].template
    for rates in ([0.1, 0.2, 0.1], [0.1, 1e-6, 0.1], [0.1, 0.2, 0.1]):
        (cohort,) = krogh.sweep(template, training__optimiser__rate=rates)
        planning._Pilots([cohort], 1.0, 1, "").of(cohort)
    assert len(flown) == 2


def pretended(monkeypatch, found=None) -> list[int]:
    """Pilots that take no time: a step takes a microsecond per unit of width; the widths that were piloted."""
    asked: list[int] = []

    def invented(cohort, seconds, beside):
        width = cohort.template.model.width
        asked.append(width)
        return found or Pilot(2.0, 1e-6 * width, 0.0, (100,) * 9, (100,))

    monkeypatch.setattr(planning, "fly", invented)
    monkeypatch.setenv("KROGH_CACHE", "off")
    return asked


@pytest.mark.slow
def test_of_many_cohorts_some_are_piloted_and_the_others_lie_between(tiny, monkeypatch):
    asked = pretended(monkeypatch)
    widths = tuple(range(8, 48, 2))
    planned = plan_costs(tiny.Tiny(), "smoke", changes={"widths": widths, "seeds": 100})
    assert len(asked) == planned.piloted == planning.MOST_PILOTED and planned.cohorts == 20
    assert min(asked) == 8 and max(asked) == 46
    assert planned.compilations == 20 and planned.compile_seconds == 40
    steps = 0.9 * 100 + 0.1 * 200  # of the ten, one may go on
    exact = 100 * steps * 1e-6 * sum(widths)
    assert planned.train_seconds.expected * planned.lanes == pytest.approx(exact, rel=0.05)


def test_a_stored_study_says_how_many_steps_its_trials_take(tiny, reference, monkeypatch):
    pretended(monkeypatch)
    table = pl.read_parquet(reference.folder / "trials.parquet")
    own = plan_costs(tiny.Tiny(), "smoke", like=reference.folder)
    assert own.trial_steps.expected == pytest.approx(table["steps"].sum())
    more = plan_costs(tiny.Tiny(), "laptop", like=reference.folder.parents[1])
    assert more.trials.expected == 200 and more.trial_steps.expected == pytest.approx(table["steps"].sum() * 100 / 24)
    assert any("most like theirs" in words for words in more.basis)
    wider = plan_costs(tiny.Tiny(), "smoke", like=reference.folder, changes={"widths": (8,)})
    narrow = table.filter(pl.col("model.width") == 8)["steps"]
    assert wider.trial_steps.expected == pytest.approx(narrow.sum())
    with pytest.raises(KroghError, match="no study of tiny/impossible in"):
        plan_costs(tiny.Impossible(), "smoke", like=reference.folder)


def test_whole_budgets_and_restarts_bound_the_steps(tiny):
    (cohort,) = tiny.Tiny().trials(tiny.Settings(widths=(8,), seeds=3))
    assert planning._bounds(cohort) == (10, 200)
    (whole,) = krogh.sweep(replaced(cohort.template, "training.stopping.early", False), seed=range(3))
    assert planning._bounds(whole) == (200, 200)
    budgets = {"training.stopping.budget": [100, 300]}
    (mixed,) = krogh.sweep(replaced(cohort.template, "training.stopping.restarts", 3), **budgets)
    assert planning._bounds(mixed) == (10, 600)


def test_a_search_trains_no_more_than_its_rule_allows(tiny, monkeypatch):
    class Searching(tiny.Tiny):
        def search(self, settings, cohorts):
            pools = {8.0: range(0, 100), 12.0: range(100, 200)}
            return Search([Problem("one", pools)], width=4)

    pretended(monkeypatch)
    planned = plan_costs(Searching(), "laptop")
    assert (planned.trials.lowest, planned.trials.highest) == (12, 160)
    assert 12 < planned.trials.expected < 160 and any("a search" in words for words in planned.basis)
    whole = plan_costs(tiny.Tiny(), "laptop")
    share = planned.trials.expected / 200
    assert planned.trial_steps.expected == pytest.approx(share * whole.trial_steps.expected)


def test_compiling_takes_cores_from_a_cpu_and_nothing_from_a_gpu(monkeypatch):
    monkeypatch.setattr(planning, "cores_here", lambda: 2)
    monkeypatch.setattr(planning, "compilers_here", lambda: 1)
    assert planning._wall(100, [10], 1, 2, [CPU]) == 10 + 50
    assert planning._wall(100, [8, 12], 3, 2, [CPU]) == 10 + (100 + 20) / 2
    assert planning._wall(10, [10], 11, 2, [CPU]) == 10 + 100  # one after the other
    assert planning._wall(100, [], 0, 2, [CPU]) == 50
    monkeypatch.setattr(planning, "compilers_here", lambda: 12)
    assert planning._wall(100, [6, 7], 2, 2, [GPU]) == 6 + 50
    assert planning._wall(1, [6, 7], 2, 2, [GPU]) == 7, "the last program comes late"
    assert planning._wall(1, [6, 7], 20, 2, [GPU]) == 70, "ten times as many, ten times as long"
    assert planning._wall(400, [6, 7], 20, 2, [GPU]) == 36 + 200, "twelve at a time"
    assert planning._compiling([6, 8], 4, [GPU]) == 16 and planning._compiling([6, 8], 4, [CPU]) == 28


def test_what_ended_in_its_pilot_is_known_to_the_step(tiny, cache, tmp_path):
    planned = plan_costs(tiny.Tiny(), "smoke", seconds=60)
    (number,) = {planned.trial_steps.lowest, planned.trial_steps.expected, planned.trial_steps.highest}
    study = run_study(tiny.Tiny(), "smoke", tmp_path)
    assert number == pytest.approx(study.summary["engine"]["trained_steps"])
    assert any("2 of 2 cohorts ended in their pilots" in words for words in planned.basis)
    assert planned.train_seconds.lowest == planned.train_seconds.highest > 0


@pytest.mark.slow
def test_programs_are_compiled_beside_one_another_and_then_there(tiny):
    cohorts = tiny.Tiny().trials(tiny.Settings(widths=(5, 7), seeds=3))
    release()
    ready = compile_together(list(cohorts))
    assert len(ready) == 2 and min(ready) > 0
    assert all(fly(cohort, 0.1).compile_seconds < min(ready) / 2 for cohort in cohorts)


def test_an_experiment_that_trains_nothing_costs_nothing(tiny, monkeypatch):
    class Idle(tiny.Tiny):
        def trials(self, settings):
            return []

    planned = plan_costs(Idle(), "smoke")
    assert planned.cohorts == planned.compilations == planned.wall_seconds.highest == planned.disk_bytes == 0


def test_the_plan_is_json(tiny, monkeypatch):
    pretended(monkeypatch)
    told = json.loads(json.dumps(plan_costs(tiny.Tiny(), "smoke").as_json()))
    assert told["trials"] == {"lowest": 48, "expected": 48, "highest": 48} and told["scale"] == "smoke"


def test_others_take_as_many_steps_as_what_ended_in_its_pilot(tiny, monkeypatch):
    """Of 20 cohorts eight are piloted to their ends: 50 steps of at most 200, in 30 seconds for 5,000 steps."""
    pretended(monkeypatch, Pilot(2.0, 1e-9, 0.0, (50,) * 100, (), start_seconds=0.0, whole_seconds=30.0))
    planned = plan_costs(tiny.Tiny(), "smoke", changes={"widths": tuple(range(8, 48, 2)), "seeds": 100})
    assert planned.trial_steps.expected == pytest.approx(20 * 100 * 50)
    assert planned.train_seconds.expected * planned.lanes == pytest.approx(20 * 30)
    assert planned.trial_steps.lowest < planned.trial_steps.expected < planned.trial_steps.highest
