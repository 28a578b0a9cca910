"""Law 3: finished trials stop costing, and every trial is reported exactly once."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import krogh
from krogh.engine import Usage, executor
from krogh.engine.lane import Lane, Waiting
from krogh.engine.memory import Plan
from krogh.values import replaced


@pytest.fixture(scope="module")
def heavy_tailed(base):
    """Four hundred trials: most converge within a hundred steps, one in sixteen needs up to five hundred."""
    quick = krogh.sweep(base, seed=range(375))[0]
    slow = krogh.sweep(replaced(base, "training.optimiser.rate", 0.02), seed=range(25))[0]
    trials = [slow[place // 16] if place % 16 == 5 else quick[place - (place + 10) // 16] for place in range(400)]
    (cohort,) = krogh.stack(trials)
    return cohort


@pytest.fixture(scope="module")
def one_after_the_other(train, heavy_tailed, one_by_one):
    usage = Usage()
    return train(heavy_tailed, plan_override=one_by_one, usage=usage), usage


@pytest.fixture
def plans(monkeypatch):
    """The plan of every chunk that a lane trains."""
    seen = []

    class Spied(Lane):
        def advance(self):
            seen.append(self.plan)
            return super().advance()

    monkeypatch.setattr(executor, "Lane", Spied)
    return seen


def test_one_by_one_nothing_is_wasted(one_after_the_other):
    records, usage = one_after_the_other
    assert usage.executed_steps == usage.useful_steps == sum(record.steps for record in records.values())
    assert usage.wasted_share == 0.0


def test_blocks_waste_at_most_a_tenth(train, heavy_tailed, in_blocks, one_after_the_other, one_lane, tail_ready, plans):
    usage = Usage()
    records = train(heavy_tailed, plan_override=in_blocks, usage=usage)
    assert usage.executed_steps >= usage.useful_steps == sum(record.steps for record in records.values())
    assert usage.wasted_share <= 0.10
    assert plans[-1] == Plan(4, 4)  # the last ones went on in a smaller block
    expected = one_after_the_other[0]
    assert np.mean([records[place].reached == expected[place].reached for place in expected]) >= 0.9


def test_two_lanes_share_the_work_in_blocks(train, heavy_tailed, in_blocks, tail_ready):
    usage = Usage()
    records = train(heavy_tailed, plan_override=in_blocks, usage=usage)
    assert usage.executed_steps >= usage.useful_steps == sum(record.steps for record in records.values())


def test_the_last_trials_move_to_smaller_blocks(train, base, in_blocks, one_by_one, one_lane, tail_ready, plans):
    """Without learning a trial runs its budget, so it is known beforehand which trials are left at the end."""
    budgets = [20] * 14 + [300] + [40] * 10 + [150] * 2 + [20] * 5
    still = replaced(base, "training.optimiser.rate", 0.0)
    trials = [replaced(replaced(still, "seed", i), "training.stopping.budget", b) for i, b in enumerate(budgets)]
    learning = [replaced(replaced(base, "seed", i), "training.optimiser.rate", 0.01) for i in range(2)]
    (cohort,) = krogh.stack(trials + learning)
    records = train(cohort, plan_override=in_blocks)
    assert [records[place].steps for place in range(32)] == budgets
    for place in range(32):
        assert records[place].outcome == "failed"
        expected = np.asarray(cohort[place].initial_params()["W"])
        assert records[place].weights["W"].tobytes() == expected.tobytes()
    assert list(dict.fromkeys(plans)) == [in_blocks, Plan(4, 4)]
    single = train(cohort, [32, 33], plan_override=one_by_one)
    for place in (32, 33):
        assert abs(records[place].steps - single[place].steps) <= 10
        np.testing.assert_allclose(records[place].weights["W"], single[place].weights["W"], atol=1e-3)


@settings(max_examples=50, deadline=None)
@given(st.integers(1, 60), st.integers(1, 8), st.lists(st.integers(1, 20), min_size=1), st.randoms())
def test_the_queue_hands_out_each_trial_once(count, shares, wishes, random):
    waiting = Waiting(np.arange(100, 100 + count), shares)
    done: list[int] = []
    rounds = 0
    while len(done) < count:
        wish = wishes[rounds % len(wishes)]
        taken = waiting.take(wish)
        assert 1 <= len(taken) <= wish
        if rounds < 20 and random.random() < 0.3:
            waiting.add(taken)  # ran out of memory
        else:
            done += taken.tolist()
        rounds += 1
    assert sorted(done) == list(range(100, 100 + count))
    assert len(waiting.take(5)) == 0
