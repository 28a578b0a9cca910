"""The adaptive search: its posterior against brute force, its conduct as a scheduler, its calibration by simulation."""

from __future__ import annotations

import heapq
import math
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from scipy.special import expit

from krogh.errors import KroghError
from krogh.lab import frontier as module
from krogh.lab.frontier import Frontier, Rule
from krogh.lab.sample_complexity import crossing, smallest_size
from krogh.lab.search import Problem, Search

INF = math.inf
GRID = np.arange(50, 201, 10)  # the source's sixteen sizes
SMALL = np.array([20, 30, 40, 60, 80, 120, 160, 240])


def logistic(middle, width, low=0.0, high=1.0):
    return lambda m: low + (high - low) * expit((np.log(m) - math.log(middle)) / width)


def weibull(middle, power, high=1.0):
    return lambda m: high * -np.expm1(-math.log(2) * (m / middle) ** power)


# Over the sixteen sizes. The last five are of no shape that the posterior knows.
CURVES = {
    "steep": logistic(95, 0.03),
    "medium": logistic(85, 0.12),
    "late": logistic(140, 0.12),
    "shallow": logistic(75, 0.35),
    "very shallow": logistic(60, 0.7),
    "lapse 0.10": logistic(85, 0.12, 0, 0.9),
    "lapse 0.15": logistic(85, 0.08, 0, 0.85),
    "floor 0.3": logistic(95, 0.1, 0.3, 1),
    "at the first size": logistic(40, 0.15),
    "below the first size": logistic(25, 0.15),
    "at the last size": logistic(165, 0.12),
    "not reached": logistic(230, 0.15),
    "levels off at 0.70": logistic(80, 0.1, 0, 0.7),
    "levels off at 0.75": logistic(80, 0.1, 0, 0.75),
    "Weibull 2": weibull(70, 2),
    "Weibull 5": weibull(85, 5),
    "Weibull 8, lapse": weibull(90, 8, 0.93),
    "Gompertz": lambda m: np.exp(-np.exp(-(np.log(m) - math.log(80)) / 0.2)),
    "step": lambda m: np.where(m >= 100, 0.97, 0.03),
    "linear": lambda m: np.clip((m - 40) / 120, 0, 1),
    "probit": lambda m: stats.norm.cdf((np.log(m) - math.log(85)) / 0.2),
    "two kinds of trials": lambda m: logistic(70, 0.05)(m) / 2 + logistic(130, 0.05)(m) / 2,
    "two steps": lambda m: np.where(m < 70, 0.1, np.where(m < 150, 0.6, 0.95)),
}


def true_size(curve, sizes, p=0.8):
    reached = sizes[curve(sizes) >= p - 1e-12]
    return float(reached[0]) if reached.size else INF


def simulate(curve, sizes, rng, *, width, rule, seed, trials=40, early=True):
    """A search in which successes end after 0.1 to 1 units of time and failures after 1; and every trial's outcome."""
    outcomes = rng.random((sizes.size, trials)) < curve(sizes)[:, None]
    pools = {size: range(place * trials, (place + 1) * trials) for place, size in enumerate(sizes.tolist())}
    search = Search([Problem("it", pools)], width=width, rule=rule, seed=seed)
    clock, queue = 0.0, []
    more = search.start()
    while True:
        for position in more:
            quick = early and outcomes.flat[position]
            heapq.heappush(queue, (clock + (rng.uniform(0.1, 1) if quick else 1.0), position))
        if not queue:
            break
        clock, position = heapq.heappop(queue)
        more = search.finished(position, bool(outcomes.flat[position]))
    assert search.over()
    return search.frontiers["it"], outcomes


# --- the posterior ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("p", [0.3, 0.5, 0.8, 0.95])
def test_every_curve_reaches_p_where_it_says(p):
    curves = module.curve_grid(tuple(SMALL.astype(float)), p)
    rates, place = np.exp(curves.success), curves.place
    assert np.exp(curves.success) + np.exp(curves.failure) == pytest.approx(np.ones_like(rates))
    assert np.all(np.diff(rates, axis=1) >= 0)
    assert np.array_equal((rates >= p).sum(axis=1), SMALL.size - place)  # below p before `place`, at least p from there
    assert np.exp(curves.prior).sum() == pytest.approx(1)


def test_points_of_the_grid_stand_for_pieces_that_leave_nothing_out():
    """A band ends where a piece ends: its points alone would exclude frontiers half a piece beyond the last of them."""
    curves = module.curve_grid(tuple(SMALL.astype(float)), 0.5)
    at, first = np.unique(curves.crossing[np.isfinite(curves.crossing)], return_index=True)
    low, high = curves.ends[:, np.isfinite(curves.crossing)][:, first]
    assert np.all((low < at) & (at < high)) and high[:-1] == pytest.approx(low[1:])
    assert np.all(np.min(np.abs(np.log(low[:, None] / SMALL)), axis=0) < 1e-9), "every size is an end"


def test_the_prior_of_the_frontier_is_log_uniform_between_the_sizes():
    chances = Frontier(SMALL).chances()
    assert chances.sum() == pytest.approx(1)
    gaps = np.diff(np.log(SMALL))
    assert chances[1:-1] / chances[1:-1].sum() == pytest.approx(gaps / gaps.sum())
    assert 0.2 < chances[-1] < 0.5 and chances[0] > 0.1  # not reached, and reached at once, are believed possible


@settings(max_examples=20, deadline=None)
@given(st.lists(st.tuples(st.sampled_from(SMALL.tolist()), st.booleans()), max_size=25), st.randoms())
def test_the_posterior_is_bayes_rule_and_forgets_the_order(results, random):
    frontier, other = Frontier(SMALL), Frontier(SMALL)
    for size, success in results:
        frontier.observe(size, success)
    shuffled = Counter(results)
    for (size, success), trials in sorted(shuffled.items(), key=lambda _: random.random()):
        other.observe(size, success, trials)
    assert other.chances() == pytest.approx(frontier.chances(), abs=1e-9)
    curves = module.curve_grid(tuple(SMALL.astype(float)), 0.8)
    weights = np.exp(curves.prior)
    for size, success in results:
        rate = np.exp(curves.success[:, SMALL.tolist().index(size)])
        weights = weights * (rate if success else 1 - rate)
    expected = [weights[curves.place == place].sum() / weights.sum() for place in range(SMALL.size + 1)]
    assert frontier.chances() == pytest.approx(expected, abs=1e-9)


def test_the_interval_holds_its_level_and_no_less_would():
    frontier = Frontier(SMALL)
    for size, hits in ((30, 1), (40, 4), (60, 9), (80, 10)):
        frontier.observe(size, True, hits)
        frontier.observe(size, False, 10 - hits)
    chances, sizes = frontier.chances(), [*SMALL.tolist(), INF]
    for level in (0.5, 0.8, 0.95):
        interval = frontier.interval(level)
        low, high = sizes.index(interval.low), sizes.index(interval.high)
        assert chances[low : high + 1].sum() >= level
        assert chances[:low].sum() <= (1 - level) / 2 < chances[: low + 1].sum()
        assert chances[high + 1 :].sum() <= (1 - level) / 2 < chances[high:].sum()
        crossing_ = frontier.crossing()
        least, most = crossing_.interval(level)
        assert interval.low == pytest.approx(SMALL[np.searchsorted(SMALL, least * (1 + 1e-9))])  # the candidate above
        assert least <= crossing_.value <= most <= interval.high * (1 + 1e-9)
        # The crossing lives on a grid of pieces: with its ends the draws hold at least the level, without them at most.
        assert np.mean((crossing_.least >= least) & (crossing_.most <= most)) >= level - 1e-3
        assert np.mean((crossing_.least > least) & (crossing_.most < most)) <= level + 1e-3
    assert crossing_.trials == 40


def test_certain_cases():
    never, at_once = Frontier(SMALL), Frontier(SMALL)
    never.observe(240, False, 30)
    at_once.observe(20, True, 60)
    assert (never.interval().low, never.interval().value) == (INF, INF)
    assert (never.crossing().value, never.crossing().low, never.crossing().high) == (INF, 240, INF)
    assert (at_once.interval().low, at_once.interval().high) == (20, 20)
    assert (at_once.crossing().low, at_once.crossing().value, at_once.crossing().high) == (0, 20, 20)
    assert never.done and at_once.done and not Frontier(SMALL).done
    assert never.counts() == {240.0: (0, 30)} and never.trials == 30 and at_once.trials == 60


def test_rules():
    frontier = Frontier(SMALL, rule=Rule(least=20, budget=40))
    frontier.observe(240, False, 19)
    assert frontier.narrow and not frontier.done  # too few to stop
    frontier.observe(240, False)
    assert frontier.done
    wide = Frontier(SMALL, rule=Rule(budget=20))
    for _ in range(10):
        wide.observe(80, True)
        wide.observe(80, False)
    assert not wide.narrow and wide.done  # the budget is spent
    for ratio, enough in ((None, False), (1.5, False), (6.0, True)):
        frontier = Frontier(SMALL, rule=Rule(ratio=ratio))
        for size, hits in ((30, 1), (40, 4), (60, 9), (120, 10)):
            frontier.observe(size, True, hits)
            frontier.observe(size, False, 10 - hits)
        interval = frontier.interval()
        assert 1.5 < interval.high / interval.low <= 6.0
        assert frontier.narrow == frontier.done == enough


# --- proposals ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seen", [(), ((30, 0), (40, 3), (60, 8), (120, 10))], ids=["prior", "posterior"])
def test_proposals_follow_thompson_sampling(seen):
    """Draw m_p from the posterior, then the size below it or the one at or above, at even chances."""
    frontier, rng = Frontier(SMALL), np.random.default_rng(0)
    for size, hits in seen:
        frontier.observe(size, True, hits)
        frontier.observe(size, False, 10 - hits)
    places = rng.choice(SMALL.size + 1, p=frontier.chances(), size=20_000)
    either = np.clip(places - rng.integers(2, size=20_000), 0, SMALL.size - 1)
    expected = np.bincount(either, minlength=SMALL.size) / 20_000
    singly = Counter(size for _ in range(4000) for size in frontier.propose(1))
    assert [singly[size] / 4000 for size in SMALL.tolist()] == pytest.approx(expected, abs=0.03)
    batch = Counter(frontier.propose(200))
    assert [batch[size] for size in SMALL.tolist()] == pytest.approx(200 * expected, abs=4)  # spread, not drawn anew


def test_what_is_in_flight_is_not_asked_again():
    frontier = Frontier(SMALL)
    first = Counter(frontier.propose(40))
    second = Counter(frontier.propose(40, in_flight=first))
    together = Counter(frontier.propose(80))
    assert all(abs(first[size] + second[size] - together[size]) <= 2 for size in SMALL.tolist())
    crowded = frontier.propose(20, in_flight={80: 1000})
    assert 80 not in crowded


def test_sizes_without_trials_left_are_not_proposed():
    frontier = Frontier(SMALL)
    proposed = Counter(frontier.propose(50, left={40: 3, 60: 100}))
    assert proposed[40] == 3 and proposed[60] == 47 and len(proposed) == 2
    assert frontier.propose(5, left={}) == []
    frontier.observe(20, True, 200)
    assert frontier.propose(5, left={240: 40}) == []  # nothing to be learnt there


# --- the search ---------------------------------------------------------------------------------------------


def several(sizes=SMALL, trials=40, names=(100, 200, 400)):
    """Problems whose positions are numbered through, and {position: (name, size)}."""
    problems, home, position = [], {}, 0
    for name in names:
        pools = {}
        for size in sizes.tolist():
            pools[size] = list(range(position, position + trials))
            home.update(dict.fromkeys(pools[size], (name, size)))
            position += trials
        problems.append(Problem(name, pools))
    return problems, home


@pytest.mark.parametrize(("width", "seed"), [(1, 0), (7, 1), (64, 2), (1000, 3)])
def test_a_search_keeps_its_slots_full_and_runs_nothing_twice(width, seed):
    problems, home = several()
    rule = Rule(budget=60)
    search, rng = Search(problems, width=width, rule=rule, seed=seed), np.random.default_rng(seed)
    waiting, launched = search.start(), []
    launched += waiting
    while waiting:
        assert sorted(search.in_flight) == sorted(waiting)
        frontiers = search.frontiers
        flying = Counter(home[position][0] for position in waiting)
        room = [not f.done and f.trials + flying[name] < rule.budget for name, f in frontiers.items()]
        assert len(waiting) == width or not any(room)  # a slot is free only where nobody may have it
        position = waiting.pop(rng.integers(len(waiting)))
        name, size = home[position]
        more = search.finished(position, bool(rng.random() < expit(8 * math.log(size / (10 * name**0.4)))))
        launched += more
        waiting += more
    assert search.over() and all(f.done for f in search.frontiers.values())
    assert len(launched) == len(set(launched)) == search.trials <= 180
    assert search.positions == len(home)
    assert all(f.trials <= 60 for f in search.frontiers.values())
    for size_positions in (problem.pools[size] for problem in problems for size in SMALL.tolist()):
        used = [position for position in size_positions if position in set(launched)]
        assert used == size_positions[: len(used)]  # a pool is used in its order


def test_successes_that_come_first_decide_nothing_while_failures_are_on_their_way():
    problems, home = several(names=(100,))
    search = Search(problems, width=40)
    waiting = search.start()
    for position in sorted(waiting, key=lambda each: home[each][1])[:30]:
        more = search.finished(position, True)  # only what succeeds has reported yet
        waiting = [each for each in waiting if each != position] + more
    assert search.frontiers[100].done and search.in_flight and not search.over()
    before = search.frontiers[100].interval().high
    for position in list(search.in_flight):
        waiting += search.finished(position, False)
    assert search.frontiers[100].interval().high > before and search.frontiers[100].trials >= 40


def test_a_search_resumes_from_what_is_known_and_repeats_what_was_in_flight():
    problems, home = several(names=(100, 200))
    search, rng = Search(problems, width=24, seed=5), np.random.default_rng(5)
    waiting, known = search.start(), {}
    for _ in range(20):
        position = waiting.pop(rng.integers(len(waiting)))
        known[position] = bool(home[position][1] >= 60)
        waiting += search.finished(position, known[position])
    resumed = Search(problems, width=24, seed=6)
    started = resumed.start(known)
    assert len(started) == 24 and not set(started) & set(known)
    for name, frontier in resumed.frontiers.items():
        assert frontier.chances() == pytest.approx(search.frontiers[name].chances(), abs=1e-9)
    for problem in problems:
        for pool in problem.pools.values():
            reported = [place for place, position in enumerate(pool) if position in known]
            gaps = [position for position in pool[: max(reported, default=0)] if position not in known]
            assert set(gaps) <= set(waiting) and set(gaps) <= set(started)
    while started:
        position = started.pop()
        started += resumed.finished(position, bool(home[position][1] >= 60))
    assert resumed.over() and all(f.interval().contains(60) for f in resumed.frontiers.values())


def test_a_finished_search_starts_nothing():
    problems, home = several(names=(100,))
    known = {position: size >= 60 for position, (_, size) in home.items()}
    search = Search(problems, width=8)
    assert search.start(known) == [] and search.over() and search.over(100)


def test_a_search_ends_when_its_pools_are_empty():
    problems, home = several(trials=2, names=(100,))
    search = Search(problems, width=3)
    waiting, count = search.start(), 0
    while waiting:
        position = waiting.pop()
        count += 1
        waiting += search.finished(position, position % 2 == 0)
    assert search.over() and count <= len(home) and not search.frontiers[100].done


def test_results_that_come_together_are_taken_in_before_anything_is_proposed():
    problems, home = several(names=(100,))
    search, single = (Search(problems, width=30) for _ in range(2))
    results = {position: home[position][1] >= 60 for position in search.start()}
    assert search.frontiers[100].trials == 0
    more = search.report(results)
    for position, success in zip(single.start(), results.values(), strict=True):
        single.finished(position, success)
    assert search.frontiers[100].chances() == pytest.approx(single.frontiers[100].chances())
    near = [home[position][1] in (40, 60) for position in more]  # where the frontier is, as all thirty say
    assert len(more) == 30 and np.mean(near) > 0.6
    with pytest.raises(KroghError, match="not in flight"):
        search.report({**dict.fromkeys(more, True), -1: True})
    assert search.frontiers[100].trials == 30  # nothing of a bad report is taken in


def test_one_problem_may_be_kept_from_running_ahead():
    problems, _ = several(names=(100,))
    assert len(Search(problems, width=100, ahead=16).start()) == 16
    assert len(Search(problems, width=100).start()) == 100
    assert len(Search(problems, width=400).start()) == Rule().budget


# --- calibration --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "curve",
    [logistic(45, 0.03), logistic(45, 0.25), logistic(45, 0.15, 0, 0.88), weibull(50, 2), logistic(320, 0.1)],
    ids=["steep", "shallow", "lapse", "Weibull", "not reached"],
)
def test_the_interval_covers_at_a_quarter_of_the_grid(curve):
    rng, truth, rule = np.random.default_rng(1), true_size(curve, SMALL), Rule(budget=80)
    found = [simulate(curve, SMALL, rng, width=8, rule=rule, seed=seed)[0] for seed in range(16)]
    assert sum(frontier.interval().contains(truth) for frontier in found) >= 14
    assert max(frontier.trials for frontier in found) <= 80  # of 320


def staircase(frontier, rates, rng):
    """Up one size after a failure, down one with chance (1-p)/p after a success: it hovers about p."""
    place = rates.size // 2
    while not frontier.done:
        success = bool(rng.random() < rates[place])
        frontier.observe(frontier.sizes[place], success)
        move = 1 if not success else -1 if rng.random() < 0.25 else 0
        place = min(max(place + move, 0), rates.size - 1)


def bisection(frontier, rates, rng):
    """Halve the sizes, each tested until its rate differs from p at the 5% level, or by 40 trials."""
    low, high = -1, rates.size
    while high - low > 1 and frontier.trials < frontier.rule.budget:
        middle, hits, trials = (low + high) // 2, 0, 0
        while trials < 40 and frontier.trials < frontier.rule.budget:
            success = bool(rng.random() < rates[middle])
            frontier.observe(frontier.sizes[middle], success)
            hits, trials = hits + success, trials + 1
            if min(stats.binom.cdf(hits, trials, 0.8), stats.binom.sf(hits - 1, trials, 0.8)) < 0.025:
                break
        low, high = (low, middle) if hits / trials >= 0.8 else (middle, high)


def steps_wide(interval, sizes):
    return int(np.searchsorted(sizes, interval.high) - np.searchsorted(sizes, interval.low))


@pytest.mark.slow
@pytest.mark.parametrize(("width", "repetitions"), [(16, 60), (64, 40)])
def test_calibration_over_all_curves(width, repetitions):
    """Coverage, cost and agreement with the full grid of 16 × 40 trials; run with -s for the table."""
    print(f"\n{'curve':22s} {'m_p':>5s} cover trials steps error | grid: agree steps error  first-rule error")
    covers = []
    for name, curve in CURVES.items():
        rng, truth, rows = np.random.default_rng(7), true_size(curve, GRID), []
        at = int(np.searchsorted(GRID, truth))
        for seed in range(repetitions):
            frontier, outcomes = simulate(curve, GRID, rng, width=width, rule=Rule(), seed=seed)
            interval = frontier.interval()
            counts = {int(m): (int(row.sum()), 40) for m, row in zip(GRID, outcomes, strict=True)}
            full = crossing(counts, sample=f"{seed}")
            ends = np.searchsorted(GRID, [full.low, full.value, full.high])  # on the grid
            mine = np.searchsorted(GRID, [interval.low, interval.value, interval.high])
            agree = mine[0] <= ends[2] and ends[0] <= mine[2]
            rule = np.searchsorted(GRID, smallest_size(counts))
            ours = [interval.contains(truth), frontier.trials, mine[2] - mine[0], abs(mine[1] - at)]
            rows.append([*ours, agree, ends[2] - ends[0], abs(ends[1] - at), abs(rule - at)])
        cover, trials, steps, error, agreed, grid_steps, grid_error, rule_error = np.mean(rows, axis=0)
        print(
            f"{name:22s} {truth:5g} {cover:5.2f} {trials:6.0f} {steps:5.2f} {error:5.2f} |      "
            f"{agreed:6.2f} {grid_steps:5.2f} {grid_error:5.2f} {rule_error:11.2f}"
        )
        covers.append(cover)
        assert np.max([row[1] for row in rows]) <= 160
        assert agreed >= 0.9, name
    print(f"{'mean':22s} {np.mean(covers):11.2f}, least {min(covers):.2f}")
    assert np.mean(covers) >= 0.95 and min(covers) >= 0.88


@pytest.mark.slow
def test_simpler_searches_leave_wider_intervals():
    """A staircase and a bisection, read by the same posterior: as good a cover, a less sharp answer."""
    totals = {}
    for method in (staircase, bisection, None):
        cover, trials, steps = [], [], []
        for curve in CURVES.values():
            rng, truth = np.random.default_rng(3), true_size(curve, GRID)
            for seed in range(30):
                frontier = Frontier(GRID, seed=seed)
                if method is None:
                    while not frontier.done:
                        (size,) = frontier.propose(1)
                        frontier.observe(size, bool(rng.random() < curve(size)))
                else:
                    method(frontier, curve(GRID), rng)
                interval = frontier.interval()
                cover.append(interval.contains(truth))
                trials.append(frontier.trials)
                steps.append(steps_wide(interval, GRID))
        totals[method and method.__name__] = [float(np.mean(part)) for part in (cover, trials, steps)]
    print(f"\n{'search':12s} cover trials steps")
    for method_name, numbers in totals.items():
        print(f"{method_name or 'Thompson':12s} {numbers[0]:5.2f} {numbers[1]:6.0f} {numbers[2]:5.2f}")
    assert totals[None][0] >= 0.95
    assert totals["staircase"][2] > 1.15 * totals[None][2] and totals["bisection"][2] > 1.15 * totals[None][2]
    assert totals[None][1] < 1.1 * totals["staircase"][1]


# --- bad input ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("call", "echo"),
    [
        (lambda: Frontier([50]), r"\[50.0\]"),
        (lambda: Frontier([60, 50]), "ascending"),
        (lambda: Frontier([0, 50]), "positive"),
        (lambda: Frontier([50, INF]), "inf"),
        (lambda: Frontier(SMALL, 1.0), "p=1.0"),
        (lambda: Frontier(SMALL).observe(25, True), "size=25"),
        (lambda: Frontier(SMALL).observe(20, 0.7), "success=0.7"),
        (lambda: Frontier(SMALL).observe(20, True, -1), "trials=-1"),
        (lambda: Frontier(SMALL).interval(95), "level=95"),
        (lambda: Frontier(SMALL).propose(-1), "count=-1"),
        (lambda: Rule(ratio=0.5), "ratio=0.5"),
        (lambda: Rule(least=50, budget=40), "budget=40"),
        (lambda: Search([], width=4), "at least one problem"),
        (lambda: Search(several()[0], width=0), "width=0"),
        (lambda: Search(several()[0], width=4, ahead=0), "ahead=0"),
        (lambda: Search(several(names=(1, 1))[0], width=4), "named 1"),
        (lambda: Search([Problem(1, {20: [0], 30: [0]})], width=4), "position 0 is in two pools"),
        (lambda: Search(several()[0], width=4).start({-5: True}), "-5 is in no pool"),
        (lambda: Search(several()[0], width=4).finished(3, True), "3 is not in flight"),
        (lambda: Search(several()[0], width=4).over("x"), "'x'"),
    ],
)
def test_bad_input_is_echoed(call, echo):
    with pytest.raises(KroghError, match=echo):
        call()
