"""Gradient flow on a disjoint-PolyNet, against integration of its differential equation."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.integrate import solve_ivp

from krogh.errors import KroghError
from krogh.theory.boolean.disjoint_flow import (
    flow_growth,
    flow_time,
    flow_weights,
    growth_bounds,
    polynet_flow,
    remaining_bound,
    time_bounds,
)

magnitudes = st.lists(st.floats(0.05, 5.0), min_size=2, max_size=6)
quiet = settings(database=None, deadline=None, max_examples=40)


def integrate(initial, time):
    def velocity(_, v):
        return np.array([np.prod(np.delete(v, i)) for i in range(len(v))])

    return solve_ivp(velocity, (0, time), initial, rtol=1e-11, atol=1e-12).y[:, -1]


@pytest.mark.parametrize(
    "initial",
    [(1.0, 1.0), (0.3, 2.0), (1.0, 1.0, 1.0), (0.5, -1.5, -0.7), (1.0, -2.0, 0.5, -0.1), (2.0,), (0.9,) * 6],
)
def test_weights_solve_the_differential_equation(initial):
    end = flow_time(math.inf, initial)
    time = 0.8 * end if math.isfinite(end) else 1.5
    assert flow_weights(time, initial) == pytest.approx(integrate(initial, time), rel=1e-7)


@pytest.mark.parametrize("k", [3, 4, 5, 8])
def test_equal_weights_have_the_closed_form(k):
    ones = np.ones(k)
    for v in (1.5, 3.0, 100.0):
        assert flow_time(v**2 - 1, ones) == pytest.approx((1 - v ** (2 - k)) / (k - 2), rel=1e-10)
    assert flow_time(math.inf, ones) == pytest.approx(1 / (k - 2), rel=1e-10)
    time = 0.9 / (k - 2)
    assert flow_weights(time, ones) == pytest.approx((1 - (k - 2) * time) ** (-1 / (k - 2)), rel=1e-9)


def test_two_equal_weights_grow_exponentially():
    assert flow_weights(3.0, [1.0, 1.0]) == pytest.approx(math.exp(3), rel=1e-10)
    assert flow_time(math.inf, [1.0, 1.0]) == math.inf


@quiet
@given(magnitudes, st.floats(0.01, 100.0))
def test_the_bounds_hold(initial, growth):
    k, exact = len(initial), flow_time(growth, initial)
    lower, upper = time_bounds(growth, initial)
    slack = 1 + 1e-9
    assert lower <= exact * slack and exact <= upper * slack
    least, most = growth_bounds(exact, initial)
    assert least <= growth * slack + 1e-9 and growth <= most * slack + 1e-9
    assert flow_growth(exact, initial) == pytest.approx(growth, rel=1e-5)
    if k > 2:
        blow_up = flow_time(math.inf, initial)
        assert blow_up - exact <= remaining_bound(growth, initial) * slack + 1e-9 * blow_up
        assert blow_up <= remaining_bound(0.0, initial) * slack
        product = math.prod(initial)
        assert remaining_bound(0.0, initial) == pytest.approx(1 / ((k - 2) * product ** (1 - 2 / k)))


def test_time_is_monotone_and_uneven_scales_are_resolved():
    initial = [1e-4, 3.0, 1e3]
    times = [flow_time(q, initial) for q in (0.0, 1e-12, 1e-8, 1e-3, 1.0, 1e6, math.inf)]
    assert times[0] == 0 and times == sorted(times)
    assert times[1] < time_bounds(1e-12, initial)[1]


def test_the_prediction_puts_it_together():
    numbers = polynet_flow((0.5, -1.5, -0.7), level=4.0, block=1, time=0.5)
    assert numbers["time_to_level_at_least"] <= numbers["time_to_level"] <= numbers["time_to_level_at_most"]
    assert numbers["blow_up"] <= numbers["blow_up_at_most"]
    remaining = numbers["blow_up"] - numbers["time_to_level"]
    assert numbers["remaining_after_level"] == pytest.approx(remaining)
    assert numbers["remaining_after_level"] <= numbers["remaining_after_level_at_most"]
    assert abs(flow_weights(numbers["time_to_level"], (0.5, -1.5, -0.7))[1]) == pytest.approx(4.0)
    assert numbers["growth_at_least"] <= numbers["growth"] <= numbers["growth_at_most"]
    assert polynet_flow((1.0, 2.0))["blow_up"] == math.inf
    assert flow_growth(5.0, (1.0, 1.0, 1.0)) == math.inf and flow_growth(0.0, (1.0, 1.0, 1.0)) == 0


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: polynet_flow((1.0, -1.0, 1.0)), "must be positive; got \\[1.0, -1.0, 1.0\\]"),
        (lambda: polynet_flow((1.0, 0.0, 1.0)), "must be positive"),
        (lambda: polynet_flow(()), "one finite relevant weight per block"),
        (lambda: polynet_flow((1.0, 2.0), block=2), "block must be an integer between 0 and 1; got block=2"),
        (
            lambda: polynet_flow((1.0, 2.0), level=1.5, block=1),
            "at least \\|v_1\\(0\\)\\| = 2; got level=1.5",
        ),
        (lambda: flow_time(-1.0, [1.0]), "growth must be at least 0"),
        (lambda: flow_growth(-1.0, [1.0]), "time must be at least 0"),
    ],
)
def test_bad_input(call, message):
    with pytest.raises(KroghError, match=message):
        call()
