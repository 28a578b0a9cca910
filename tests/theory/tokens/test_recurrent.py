"""Bounds on recurrent networks: drift against simulated recursions, and the norm floor against a counterexample."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from krogh.errors import KroghError
from krogh.tasks.links import TwoLayer
from krogh.theory import predict
from krogh.theory.tokens.prompts import token_radius
from krogh.theory.tokens.recurrent import (
    error_propagation,
    norm_exponent,
    parameter_norm,
    recurrent_covering,
    recurrent_risk,
    recurrent_width,
    sign_storage,
    state_norms,
)


def drift(length, slope, error, *, radius=np.inf, seed=0):
    """Largest distance of two residual recursions, one with every transition off by `error`."""
    rng = np.random.default_rng(seed)
    rotation, _ = np.linalg.qr(rng.standard_normal((3, 3)))
    h = other = np.zeros(3)
    tokens = rng.standard_normal((length, 3))
    for x in tokens[1:]:
        push = rng.standard_normal(3)
        h = h + slope * np.tanh(rotation @ h) + x
        other = other + slope * np.tanh(rotation @ other) + x + error * push / np.linalg.norm(push)
        h, other = (v * min(1.0, radius / max(np.linalg.norm(v), 1e-300)) for v in (h, other))
    return np.linalg.norm(h - other)


@pytest.mark.parametrize("slope", [0.0, 0.02, 0.3])
@pytest.mark.parametrize("radius", [1.0, np.inf])
def test_no_recursion_drifts_further_than_the_factor(slope, radius):
    bound = error_propagation(20, slope, 1e-3)["drift"]
    worst = max(drift(20, slope, 1e-3, radius=radius, seed=seed) for seed in range(30))
    assert 0 < worst <= bound


@pytest.mark.parametrize(("length", "slope"), [(1, 0.5), (2, 0.5), (30, 0.0), (30, 1 / 30), (30, 0.4)])
def test_the_factor_is_attained_by_a_linear_recursion(length, slope):
    h = other = 0.0
    for _ in range(length - 1):
        h, other = h + slope * h, other + slope * other + 0.1
    found = error_propagation(length, slope, 0.1)
    assert found["drift"] == pytest.approx(other - h, rel=1e-12, abs=1e-15)


def test_small_slopes_keep_the_drift_linear_in_the_length():
    for length in (1, 2, 10, 1000, 10**6):
        found = error_propagation(length, 1 / length)
        assert found["within_limit"] and found["factor"] <= found["factor_simple"]
        assert found["factor"] >= error_propagation(length, 0.0)["factor"] == length - 1
    assert error_propagation(1000, 1e-14)["factor"] == pytest.approx(999, rel=1e-9)
    assert not error_propagation(10, 0.2)["within_limit"]
    assert error_propagation(10**6, 0.5)["factor"] == math.inf


def test_unit_states_hold_signs_that_functions_of_bounded_slope_read():
    storage = sign_storage(8)
    assert {tuple(row) for row in storage.signs} == set(itertools.product((1.0, -1.0), repeat=8))
    np.testing.assert_allclose(np.linalg.norm(storage.states, axis=1), 1)
    gaps = [np.linalg.norm(a - b) for a, b in itertools.combinations(storage.states[:80], 2)]
    assert min(gaps) >= storage.separation - 1e-12
    squared = 2 - 2 * storage.states @ storage.states.T + 4 * np.eye(256)
    assert math.sqrt(squared.min()) == pytest.approx(storage.separation)
    rng = np.random.default_rng(0)
    one, other = rng.standard_normal((2, 300, 32)) / math.sqrt(32)
    for position in range(8):
        np.testing.assert_allclose(storage.read(storage.states, position), storage.signs[:, position], atol=1e-6)
        rise = np.abs(storage.read(one, position) - storage.read(other, position))
        assert (rise <= storage.lipschitz * np.linalg.norm(one - other, axis=1) * (1 + 1e-12)).all()


def test_the_printed_norm_floor_demands_ever_more_where_bounded_norms_do():
    """L and |U| = 1 stay bounded as N grows, so N/(L^2 ln(1+d_h)) <= C |U|^2 holds with no constant C."""
    lengths = (4, 8, 12, 16)
    stored = [sign_storage(n) for n in lengths]
    assert max(s.lipschitz for s in stored) < 3
    printed = [
        recurrent_width(n, 4 * n, 1.0, s.lipschitz, variant="printed")["norm_ratio"]
        for n, s in zip(lengths, stored, strict=True)
    ]
    repaired = [recurrent_width(n, 4 * n, 1.0, s.lipschitz)["norm_ratio"] for n, s in zip(lengths, stored, strict=True)]
    assert printed[-1] > 1.5 * printed[0] and max(repaired) < 0.05
    # asymptotically: 2^d points of the unit ball are 1/2 apart, so L = 4 will do for N = d_h
    far = [recurrent_width(n, n, 1.0, 4.0, variant="printed")["norm_ratio"] for n in (10**3, 10**6, 10**9)]
    assert far[0] < far[1] / 100 < far[2] / 10**4


def test_width_and_norm_orders():
    found = recurrent_width(1000, 64, 3.0, 2.0, variant="printed")
    assert found["width_order"] == pytest.approx(1000 / math.log(37))
    assert found["norm_squared_order"] == pytest.approx(1000 / (4 * math.log(65)))
    repaired = recurrent_width(1000, 500, 3.0, 2.0)
    assert repaired["norm_order"] == pytest.approx((math.exp(2) - 1) / 2)
    assert recurrent_width(10**6, 10, 1.0, 1.0)["norm_order"] == math.inf
    # both halves are one inequality, d_h ln(1 + L|U|) >= N, up to ln(1+x^2) against ln(1+x)
    edge = repaired["norm_order"]
    assert 500 * math.log(1 + 2.0 * edge) == pytest.approx(1000)
    assert recurrent_width(1000, 500, edge, 2.0)["width_ratio"] == pytest.approx(
        math.log1p(2 * edge) / math.log1p(4 * edge**2)
    )


def test_norm_exponent_is_where_fitting_and_generalising_cost_the_same():
    for depth, growth in [(2, 0.1), (3, 0.5), (5, 0.9)]:
        length = 10**12
        n = round(norm_exponent(length, depth, growth)["samples_order"])
        found = norm_exponent(length, depth, growth, samples=n)
        assert found["exponent"] == pytest.approx((1 - growth) / (3 * depth)) and found["exponent"] < 1 - growth
        ratio = found["generalising_norm_squared_order"] / depth / found["fitting_norm_squared_order"]
        assert ratio == pytest.approx((found["samples_order"] / n) ** 3)
        assert found["log_width_allowed"] == pytest.approx(depth * found["log_norm_allowed"])
        assert found["width_proved"] == pytest.approx(length ** (1 - growth))


def test_norm_of_parameters_bounds_the_product_by_the_means_inequality():
    """(L |U|)^(2/L_y) <= |Theta|^2 / L_y for L_y matrices: the step that makes the exponent 1/L_y."""
    rng = np.random.default_rng(1)
    for depth in (2, 3, 4):
        for _ in range(50):
            matrices = rng.standard_normal((depth, 3, 3)) * rng.uniform(0.1, 3, size=(depth, 1, 1))
            product = math.prod(np.linalg.norm(m, 2) for m in matrices)
            assert product ** (2 / depth) <= (matrices**2).sum() / depth


def test_recurrent_risk():
    found = recurrent_risk(400, 25, 4, 2, 2.0, 1.0, 0.04, parameters=30, norm=5.0, truncation=2.0)
    r_x = token_radius(400, 25, 4)["radius"]
    assert found["state_radius"] == pytest.approx(math.sqrt(2) * r_x + 0.2 / 2)
    assert found["risk"] == pytest.approx(0.04 + 2 * math.sqrt(30 * math.log(5 * 25 * 400 * 2) / 400))
    assert found["lipschitz_limit"] == 1 / 25
    longer = recurrent_risk(400, 25**2, 4, 2, 2.0, 1.0, 0.04, parameters=30, norm=5.0, truncation=2.0)
    assert found["estimation"] < longer["estimation"] < 1.5 * found["estimation"]


def test_recurrent_covering():
    found = recurrent_covering(10, 3.0, 20, 0.5, samples=100, output_lipschitz=2.0, power=2.0)
    assert found["log_covering"] == pytest.approx(10 * math.log(1 + 9 * 20 / 0.5))
    assert found["transition_scale"] == pytest.approx(0.5 / (4 * math.e * 2 * 20))
    assert found["rademacher"] == pytest.approx(math.sqrt(10 * math.log(3 * 20 * 100) / 100))
    # both directions within the transition scale keep the output within half of the scale
    assert found["output_scale"] == 0.25
    propagated = 2 * error_propagation(20, 1 / 20, found["transition_scale"])["drift"] * 2.0
    assert propagated <= 0.5 - found["output_scale"] + 1e-12
    assert recurrent_covering(1, 1e200, 20, 1e-200)["log_covering"] == pytest.approx(400 * math.log(10) + math.log(20))


def test_a_cover_of_that_size_covers_a_ball_of_parameters():
    """Volume: a greedy cover of the ball of radius R in R^p within s has at most (1 + 2R/s)^p points."""
    rng = np.random.default_rng(2)
    points = rng.standard_normal((4000, 2))
    points *= 2 * np.sqrt(rng.random((4000, 1))) / np.linalg.norm(points, axis=1, keepdims=True)
    centres = []
    for point in points:
        if all(np.linalg.norm(point - c) > 0.5 for c in centres):
            centres.append(point)
    assert 20 < len(centres) <= recurrent_covering(2, 2 * 2.0, 1, 0.5)["covering"]


@pytest.mark.parametrize(
    ("name", "settings"),
    [
        ("qstr/recurrent-width", {"length": 20, "width": 10, "state_norm": 2.0, "lipschitz": 1.0}),
        ("qstr/norm-exponent", {"length": 20, "depth": 2, "growth": 0.5}),
        ("qstr/error-propagation", {"length": 20, "lipschitz": 0.05}),
        ("qstr/recurrent-covering", {"parameters": 10, "norm": 2.0, "length": 20, "scale": 0.1}),
    ],
)
def test_by_name(name, settings):
    numbers = predict(name, **settings)
    assert numbers == predict(name, **{k: str(v) for k, v in settings.items()}) and len(numbers) >= 4


def test_norms_of_a_head_and_of_everything():
    head = TwoLayer(np.array([3.0, 4.0]), np.array([[1.0, 2.0], [0.0, 2.0]]), np.array([0.0, 4.0]))
    assert head.output_radius == pytest.approx(5 * math.sqrt(2)) and head.input_radius == pytest.approx(
        5 / math.sqrt(2)
    )
    unit = TwoLayer(np.array([1.0, -1.0]), np.array([[0.6, 0.8], [-0.6, -0.8]]), np.zeros(2))
    linear = (unit.output_radius, unit.input_radius)
    assert linear == pytest.approx((2.0, 1.0)), "the linear link has r_a = 2 and r_w = 1"
    assert parameter_norm({"a": np.array([1.0, 2.0]), "w": np.full((2, 2), 2.0)}) == pytest.approx(math.sqrt(21))


def test_norms_of_a_state():
    u = np.diag([3.0, 1.0]) @ np.eye(2, 4)
    norms = state_norms(u, [2 * np.eye(2), np.array([0.0, 5.0])], length=50)
    assert norms.state == pytest.approx(3) and norms.lipschitz == pytest.approx(10) and norms.width == 2
    assert norms.ratio == pytest.approx(50 / (900 * math.log(3)))
    assert state_norms(np.zeros((2, 4)), [], 5).ratio == math.inf


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: recurrent_width(0, 1, 1.0, 1.0), "length must be an integer at least 1"),
        (lambda: recurrent_width(5, 1, 0.0, 1.0), "state_norm must be a number greater than 0"),
        (lambda: recurrent_width(5, 1, 1.0, 1.0, variant="mended"), "variant must be"),
        (lambda: norm_exponent(5, 1, 0.5), "depth must be an integer at least 2; got depth=1"),
        (lambda: norm_exponent(5, 2, 1.0), "growth must be a number strictly between 0 and 1"),
        (lambda: error_propagation(5, -0.1), "lipschitz must be a finite number of at least 0; got lipschitz=-0.1"),
        (lambda: recurrent_risk(4, 2, 1, 1, 1.0, 1.0, 0.0, 3, 1.0, truncation=0.5), "truncation must be at least 1"),
        (lambda: recurrent_risk(1, 1, 1, 1, 1.0, 1.0, 0.0, 3, 0.5), "try norm=1"),
        (lambda: sign_storage(17), "length must be an integer between 1 and 16; got length=17"),
    ],
)
def test_bad_input(call, message):
    with pytest.raises(KroghError, match=message):
        call()
