"""Whole distributions of censored times: step functions and their bands, against definitions and known laws."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from krogh.errors import KroghError
from krogh.lab.times import ecdf, kaplan_meier

INF = math.inf
some_times = st.lists(st.sampled_from([0.0, 1.0, 2.0, 3.0, 10.0, INF]), min_size=1, max_size=12)


@given(some_times)
def test_ecdf_counts_and_ends_at_the_success_rate(times):
    curve, given_times = ecdf(times), np.array(times)
    for t in (0.0, 0.5, 1.0, 2.5, 3.0, 10.0, 99.0):
        assert curve.at(t) == pytest.approx(np.mean(given_times <= t))
    assert curve.at(1e9) == pytest.approx(np.mean(np.isfinite(given_times)))
    assert np.all((curve.low <= curve.value) & (curve.value <= curve.high))


def test_ecdf_band_is_simultaneous():
    """The band itself holds the whole true law, before and at every step, in 95% of samples; half of it does not."""
    rng, misses, narrow = np.random.default_rng(2), 0, 0
    for _ in range(300):
        curve = ecdf(rng.exponential(size=50))
        at, before = stats.expon.cdf(curve.times), np.append(stats.expon.cdf(curve.times[1:]), 1.0)
        misses += bool(np.any(curve.low > at) or np.any(curve.high < before - 1e-12))
        low, high = (curve.value + curve.low) / 2, (curve.value + curve.high) / 2
        narrow += bool(np.any(low > at) or np.any(high < before - 1e-12))
    assert misses / 300 <= 0.07 and narrow / 300 > 0.2
    curve = ecdf(np.arange(1.0, 201.0))
    assert curve.high[99] - curve.value[99] == pytest.approx(math.sqrt(math.log(2 / 0.05) / 400))


def product_limit(times, observed, t):
    """Kaplan-Meier from its definition, one factor at a time."""
    survival = 1.0
    for at in sorted({u for u, seen in zip(times, observed, strict=True) if seen and u <= t}):
        events = sum(seen and u == at for u, seen in zip(times, observed, strict=True))
        survival *= 1 - events / sum(u >= at for u in times)
    return survival


@given(st.lists(st.tuples(st.sampled_from([0.0, 1.0, 2.0, 3.0, 5.0]), st.booleans()), min_size=1, max_size=12))
def test_kaplan_meier_is_the_product_limit(pairs):
    times, observed = map(list, zip(*pairs, strict=True))
    curve = kaplan_meier(times, observed)
    for t in (0.0, 0.5, 1.0, 2.0, 4.0, 9.0):
        assert curve.at(t) == pytest.approx(product_limit(times, observed, t))
    assert np.all((curve.low >= 0) & (curve.low <= curve.value + 1e-12))
    assert np.all((curve.value <= curve.high + 1e-12) & (curve.high <= 1))


def test_kaplan_meier_band_is_greenwoods():
    times, observed = (
        np.array([1.0, 2.0, 2.0, 3.0, 3.0, 5.0, 6.0]),
        np.array([1, 1, 0, 1, 0, 0, 1], dtype=bool),
    )
    curve = kaplan_meier(times, observed, level=0.9)
    survival = 6 / 7 * 5 / 6 * 3 / 4
    greenwood = 1 / (7 * 6) + 1 / (6 * 5) + 1 / (4 * 3)
    step = stats.norm.ppf(0.95) * math.sqrt(greenwood) / abs(math.log(survival))
    at = list(curve.times).index(3.0)
    assert curve.value[at] == pytest.approx(survival)
    assert curve.low[at] == pytest.approx(survival ** math.exp(step))
    assert curve.high[at] == pytest.approx(survival ** math.exp(-step))


def test_kaplan_meier_without_differing_budgets_is_one_minus_the_ecdf():
    times = np.random.default_rng(0).geometric(0.02, size=200).astype(float)
    budget, grid = 60.0, np.arange(0.0, 60.0)
    observed = times < budget
    curve = kaplan_meier(np.minimum(times, budget), observed)
    assert curve.at(grid) == pytest.approx(1 - ecdf(np.where(observed, times, INF)).at(grid))


def test_kaplan_meier_at_its_ends():
    never = kaplan_meier([10.0] * 20, [False] * 20)
    assert never.value == [1.0] and never.low == pytest.approx([0.025 ** (1 / 20)]) and never.high == [1.0]
    at_once = kaplan_meier([3.0], [True])
    assert at_once.value == [0.0] and at_once.low == [0.0] and at_once.high == pytest.approx([0.975])
    all_done = kaplan_meier([1.0, 2.0, 3.0], [True] * 3)
    assert all_done.value[-1] == 0.0 and all_done.high[-1] == all_done.high[-2]


@pytest.mark.parametrize(
    ("call", "echo"),
    [
        (lambda: kaplan_meier([1.0, INF], [True, False]), "inf"),
        (lambda: kaplan_meier([1.0, 2.0], [True]), r"\(1,\)"),
        (lambda: kaplan_meier([1.0, 2.0], [1, 0]), "int"),
        (lambda: ecdf([1.0], level=1.0), "level=1.0"),
    ],
)
def test_bad_input_is_echoed(call, echo):
    with pytest.raises(KroghError, match=echo):
        call()
