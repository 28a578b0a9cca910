"""A search replayed on recorded trials decides as it would have decided at work."""

from __future__ import annotations

import numpy as np
from scipy.special import expit

from krogh.lab.replay import frontier_search, replay, stopping_rule

SIZES = tuple(range(20, 101, 10))
Pools = dict[int, dict[int, list[int]]]


def recorded(middles: dict[int, float], trials: int = 40) -> tuple[Pools, np.ndarray, np.ndarray]:
    """Trials whose success rate crosses 80% at the middle of their problem; those that fail take long."""
    rng, pools, solved = np.random.default_rng(0), {}, []
    for problem, middle in middles.items():
        pools[problem] = {}
        for m in SIZES:
            pools[problem][m] = list(range(len(solved), len(solved) + trials))
            solved += (rng.random(trials) < expit(np.log(m / middle) / 0.12 + np.log(4))).tolist()
    success = np.array(solved)
    return pools, success, np.where(success, rng.choice([40, 60, 110], len(success)), 800)


def test_a_replay_tells_the_search_what_was_recorded():
    """Positions are used in the order of their pool, so the counts are those of the first trials of every cell."""
    pools, solved, steps = recorded({25: 30.0, 50: 40.0, 100: 50.0})
    run = replay(pools, solved, steps, p=0.8, precision=1.5, in_flight=3, seed=4)
    spent = 0
    for problem, sizes in pools.items():
        counts = run.frontiers[problem].counts()
        assert run.trials[problem] == sum(trials for _, trials in counts.values())
        for m, cell in sizes.items():
            hits, trials = counts.get(float(m), (0, 0))
            assert hits == solved[cell[:trials]].sum()
            spent += steps[cell[:trials]].sum()
    assert sum(run.steps.values()) == spent and sum(run.trials.values()) < len(solved)


def test_with_one_trial_at_a_time_the_replay_is_the_search_itself():
    pools, solved, steps = recorded({50: 40.0})
    run = replay(pools, solved, steps, p=0.8, precision=1.5, in_flight=1, seed=7)
    search = frontier_search(pools, p=0.8, precision=1.5, in_flight=1, seed=7)
    more, order = search.start(), []
    while more:
        (position,) = more
        order.append(position)
        more = search.finished(position, bool(solved[position]))
    assert run.frontiers[50].counts() == search.frontiers[50].counts()
    assert sum(run.steps.values()) == steps[order].sum()


def test_trials_report_when_they_have_taken_their_steps():
    """Against a clock that ticks once per ten steps, all trials in flight running at the same pace."""
    pools, solved, steps = recorded({25: 30.0, 50: 40.0})
    options = {"p": 0.8, "precision": 1.3, "in_flight": 8, "seed": 1}
    search = frontier_search(pools, **options)
    left = {position: steps[position] for position in search.start()}
    while left:
        left = {position: more - 10 for position, more in left.items()}
        for position in sorted(position for position, more in left.items() if more == 0):
            del left[position]
            left |= {new: steps[new] for new in search.finished(position, bool(solved[position]))}
    run = replay(pools, solved, steps, **options)
    for problem in pools:
        assert run.frontiers[problem].counts() == search.frontiers[problem].counts()
    hasty = replay(pools, solved, np.ones_like(steps), **options)
    assert any(hasty.frontiers[problem].counts() != run.frontiers[problem].counts() for problem in pools)


def test_a_search_may_spend_half_of_the_largest_grid():
    rule = stopping_rule(640, 1.3)
    assert (rule.budget, rule.least, rule.ratio) == (320, 12, 1.3)
    assert (stopping_rule(6, 1.3).budget, stopping_rule(6, 1.3).least) == (3, 3)
    pools = {1: {10: range(50), 20: range(50, 100)}, 2: {10: range(100, 150), 20: range(150, 200), 40: range(200, 250)}}
    search = frontier_search(pools, p=0.8, precision=1.3, in_flight=8)
    assert search.frontiers[1].rule.budget == search.frontiers[2].rule.budget == 75 and search.width == 16
