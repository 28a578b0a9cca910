"""Sample complexity from success counts and from online runs, against brute force and known curves."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import optimize

from krogh.errors import KroghError
from krogh.lab.sample_complexity import (
    as_cells,
    crossing,
    isotonic,
    run_success,
    smallest_size,
    success_rates,
    trial_success,
)

INF = math.inf
SIZES = np.arange(50, 201, 10)
some_counts = st.lists(st.tuples(st.integers(0, 10), st.just(10)), min_size=1, max_size=8).map(
    lambda cells: {10 * (place + 1): cell for place, cell in enumerate(cells)}
)


def sigmoid_counts(middle, width, trials=40, seed=0):
    """Success counts of trials whose chance is a logistic curve in ln m."""
    rates = 1 / (1 + np.exp(-(np.log(SIZES) - math.log(middle)) / width))
    hits = np.random.default_rng(seed).binomial(trials, rates)
    return {int(m): (int(h), trials) for m, h in zip(SIZES, hits, strict=True)}


# --- success ------------------------------------------------------------------------------------------------


def test_a_run_succeeds_by_its_best_evaluation_and_a_trial_by_its_best_restart():
    accuracy = [[0.5, 0.995, 0.6], [0.5, 0.99, 0.98], [0.5, math.nan, math.nan]]
    runs = run_success(accuracy)  # strictly above 0.99: the second never was
    assert runs.tolist() == [True, False, False]
    assert trial_success(np.array([[False, True], [False, False]])).tolist() == [True, False]


def test_success_rates_are_a_curve_of_rates():
    rates = success_rates({60: (32, 40), 50: np.array([True] * 3 + [False])})
    assert rates.x.tolist() == [50.0, 60.0] and rates.value.tolist() == [0.75, 0.8]
    assert [y.trials for y in rates.y] == [4, 40] and rates.at(60).low == pytest.approx(0.6435, abs=1e-4)


# --- the source's rules -------------------------------------------------------------------------------------


@given(some_counts, st.sampled_from([0.3, 0.5, 0.8]))
def test_smallest_size_is_the_first_hit_or_the_one_after_the_last_miss(counts, p):
    hits = [m for m, (s, n) in counts.items() if s / n >= p]
    assert smallest_size(counts, p) == min(hits, default=INF)
    safe = [m for m in counts if all(s / n >= p for larger, (s, n) in counts.items() if larger >= m)]
    assert smallest_size(counts, p, and_all_larger=True) == min(safe, default=INF)


def test_the_references_table_is_read_as_it_is_there():
    rows = {
        25: ({20: 6, 30: 5, 40: 8}, 40),
        50: ({30: 7, 40: 6, 50: 8, 60: 8, 80: 8, 100: 8}, 50),
        100: ({40: 1, 50: 4, 60: 6, 80: 8}, 80),
        200: ({40: 2, 50: 5, 60: 7, 80: 6, 100: 8}, 100),
    }
    for hits, expected in rows.values():
        counts = {m: (s, 8) for m, s in hits.items()}
        assert smallest_size(counts, and_all_larger=True) == expected
    assert smallest_size({m: (s, 8) for m, s in rows[50][0].items()}) == 30  # the noisy first hit
    assert smallest_size({50: (31, 40), 60: (32, 40)}) == 60  # 32/40 is 0.8 and counts
    assert smallest_size({50: (31, 40), 60: (31, 40)}) == INF


# --- the monotone estimate ----------------------------------------------------------------------------------


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10_000), st.integers(1, 9))
def test_isotonic_regression_agrees_with_scipy_row_by_row(seed, count):
    rng = np.random.default_rng(seed)
    rates, weights = rng.random((3, count)), rng.integers(1, 9, size=count).astype(float)
    fitted = isotonic(rates, weights)
    for row, result in zip(rates, fitted, strict=True):
        assert result == pytest.approx(optimize.isotonic_regression(row, weights=weights).x)


def test_crossing_of_exact_rates_is_where_the_line_in_log_m_meets_p():
    value = crossing({10: (0, 10), 100: (6, 10), 1000: (10, 10)}, 0.8).value
    assert value == pytest.approx(10**2.5)
    pooled = crossing({10: (2, 10), 20: (6, 10), 40: (4, 10), 80: (10, 10)}, 0.75).value
    assert pooled == pytest.approx(40 * 2**0.5)  # 20 and 40 are pooled at 0.5, 0.75 is half-way to 1
    assert crossing({10: (2, 10), 20: (8, 10)}, 0.8).value == pytest.approx(20)


def test_crossing_beyond_either_end():
    never = crossing({m: (0, 20) for m in (10, 20, 40)})
    assert (never.value, never.low, never.high) == (INF, 40, INF) and never.censored and never.horizon == 40
    assert never.trials == 60
    at_once = crossing({m: (40, 40) for m in (10, 20, 40)})
    assert (at_once.value, at_once.low, at_once.high) == (10, 0, 10)
    perhaps = crossing({10: (0, 20), 20: (16, 20)})
    assert perhaps.value == pytest.approx(20) and perhaps.high == INF and 10 < perhaps.low < 20


@pytest.mark.parametrize("reading", ["first", "all larger"])
def test_the_rules_of_the_source_have_intervals_on_the_grid(reading):
    counts = sigmoid_counts(85, 0.12)
    found = crossing(counts, reading=reading)
    assert found.value == smallest_size(counts, and_all_larger=reading == "all larger")
    assert set(found.most) <= {*SIZES.astype(float), INF}
    assert found.low <= found.value <= found.high


def test_one_cell_of_the_grid_has_a_crossing_too():
    assert crossing({30: (9, 10)}).value == 30
    assert crossing({30: (1, 10)}).value == INF


@pytest.mark.parametrize(("middle", "width", "trials"), [(85, 0.12, 40), (85, 0.12, 8), (75, 0.35, 40)])
def test_the_crossings_interval_covers(middle, width, trials):
    truth = middle * math.exp(width * math.log(4))  # logit 0.8 = ln 4
    found = [crossing(sigmoid_counts(middle, width, trials, seed), sample=f"{seed}") for seed in range(80)]
    assert np.mean([interval.contains(truth) for interval in found]) >= 0.9
    assert np.median([interval.value for interval in found]) == pytest.approx(truth, rel=0.03)


def test_the_draws_of_a_cell_are_jeffreys():
    """With two cells the crossing is a function of two rates: its draws are those of Beta(s + ½, f + ½)."""
    found = crossing({10: (0, 3), 1000: (3, 3)}, 0.5)
    rng = np.random.default_rng(0)
    low, high = np.sort([rng.beta(0.5, 3.5, 400_000), rng.beta(3.5, 0.5, 400_000)], axis=0)
    inside = (low < 0.5) & (high > 0.5)
    drawn = np.where(inside, 10 * 100 ** ((0.5 - low) / np.where(inside, high - low, 1)), np.where(high > 0.5, 5, INF))
    for level in (0.5, 0.8):  # 74 to 134 and 38 to 261; with Beta(s + 1, f + 1) 59 to 170 and 22 to 448
        expected = np.quantile(drawn, [(1 - level) / 2, (1 + level) / 2], method="inverted_cdf")
        assert found.interval(level) == pytest.approx(tuple(expected), rel=0.15)


def test_the_interval_is_not_fooled_by_small_cells_without_failures():
    """8 of 8 is no certainty: a literal bootstrap would give 100 an empty interval."""
    interval = crossing({50: (0, 8), 100: (8, 8), 200: (8, 8)})
    assert interval.high > interval.value + 1


# --- bad input ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("call", "echo"),
    [
        (lambda: as_cells({}), "{}"),
        (lambda: as_cells({"a": (1, 2)}), "'a'"),
        (lambda: as_cells({-3: (1, 2)}), "-3"),
        (lambda: as_cells({50: (3, 2)}), "=3"),
        (lambda: as_cells({50: (0, 0)}), "=0"),
        (lambda: as_cells({50: 0.8}), "0.8"),
        (lambda: as_cells({50: (0.5, 2)}), "0.5"),
        (lambda: smallest_size({50: (1, 2)}, 1.0), "p=1.0"),
        (lambda: crossing({50: (1, 2)}, reading="isotone"), "did you mean 'isotonic'"),
        (lambda: run_success([0.5], 99), "above=99"),
        (lambda: trial_success([1, 0]), "int"),
    ],
)
def test_bad_input_is_echoed(call, echo):
    with pytest.raises(KroghError, match=echo):
        call()
