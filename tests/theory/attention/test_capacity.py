"""Capacity of heads and of stacks of blocks: formulas written out again, scaling laws, and misprints shown wrong."""

from __future__ import annotations

import math

import numpy as np
import pytest

from krogh.errors import KroghError
from krogh.theory.attention import lipschitz as al
from krogh.theory.attention.capacity import depth_capacity, general_head_log_cover, head_capacity, multi_head_capacity
from krogh.theory.attention.covering import matrix_log_cover
from krogh.theory.numerics import attention_norms, unit_ball

NORMS = {"value": 0.7, "value_21": 1.9, "query_key_21": 2.3, "activation_lipschitz": 1.3}
LAYERS = {
    "value": (0.5, 1.5),
    "value_21": (1.0, 2.0),
    "query_key": (0.2, 0.9),
    "query_key_21": (0.4, 1.1),
    "output": (0.8, 1.2),
    "output_21": (1.7, 1.4),
}


def test_general_head_finds_the_best_share():
    """For covers c/e^2 the optimum is the Lagrangian lemma's."""
    found, share = general_head_log_cover(
        lambda e: 5 / e**2,
        lambda e: 2 / e**2,
        0.3,
        input_bound=2.0,
        token_norm=1.5,
        out_lipschitz=0.5,
        norm_jacobian=3.0,
    )
    weight = 3.0 * 0.5 * 2.0 * 1.5
    gamma = 5 ** (1 / 3) * weight ** (2 / 3) + 2 ** (1 / 3) * 0.5 ** (2 / 3)
    assert found == pytest.approx(gamma**3 / 0.09, rel=1e-6)
    assert share == pytest.approx(5 ** (1 / 3) * weight ** (2 / 3) / gamma, abs=1e-3)
    scalar, _ = general_head_log_cover(
        lambda e: 5 / e**2, lambda e: 2 / e**2, 0.3, input_bound=2.0, token_norm=1.5, out_lipschitz=0.5,
        norm_jacobian=3.0, readout=4.0,
    )  # fmt: skip
    assert scalar == pytest.approx(16 * found, rel=1e-6)


def test_general_head_with_a_score_class_of_one_function_spends_nothing_on_it():
    found, share = general_head_log_cover(lambda e: 0.0, lambda e: 1 / e**2, 0.5, input_bound=1.0, token_norm=1.0)
    assert share < 0.02 and found == pytest.approx(4 / (1 - share) ** 2)


def test_head_shape_is_the_corollary():
    found = head_capacity(50, 20, 8, 0.25, **NORMS, token_norm=1.5)["shape"]
    bracket = 1.9 ** (2 / 3) + (2 * 2.3 * 0.7 * 1.5) ** (2 / 3)
    assert found == pytest.approx((1.3 * 1.5) ** 2 * bracket**3 * math.log(8 * 20 * 50) / 0.25**2)
    printed = head_capacity(50, 20, 8, 0.25, **NORMS, token_norm=1.5, variant="printed")["shape"]
    bracket = 1.9 ** (2 / 3) + (2.3 * 0.7) ** (2 / 3)
    assert printed == pytest.approx((1.3 * 1.5) ** 2 * bracket**3 * math.log(20 * 50) / 0.25**2)


def test_positions_and_queries_enter_through_their_norms():
    with_positions = head_capacity(50, 20, 8, 0.25, **NORMS, token_norm=1.0, position_norm=0.5)
    assert with_positions == head_capacity(50, 20, 8, 0.25, **NORMS, token_norm=1.5)
    query = head_capacity(50, 20, 8, 0.25, **NORMS, token_norm=1.5, query_norm=1.5)["shape"]
    bracket = 1.9 ** (2 / 3) + (2 * 2.3 * 0.7 * 1.5**2) ** (2 / 3)
    assert query == pytest.approx((1.3 * 1.5) ** 2 * bracket**3 * math.log(8 * 20 * 50) / 0.25**2)
    readout = head_capacity(50, 20, 8, 0.25, **NORMS, readout=3.0)
    plain = head_capacity(50, 20, 8, 0.25 / 3, **NORMS)
    assert readout["shape"] == pytest.approx(plain["shape"]) and readout["explicit"] == pytest.approx(plain["explicit"])


def test_head_explicit_is_the_two_covers_at_the_best_share():
    found = head_capacity(50, 20, 8, 0.25, **NORMS, token_norm=1.5, query_norm=1.2)
    totals = [
        matrix_log_cover(2.3 * 1.2, 1.5, a * 0.25 / (2 * 1.3 * 0.7 * 1.5), 1000, 8)[0]
        + matrix_log_cover(1.9, 1.5, (1 - a) * 0.25 / 1.3, 1000, 8)[0]
        for a in np.linspace(0, 1, 500)[1:-1]
    ]
    assert found["explicit"] <= min(totals) * (1 + 1e-6) and found["explicit"] >= min(totals) * 0.999


@pytest.mark.parametrize("key", ["shape", "explicit"])
def test_head_capacity_is_affine_in_log_length(key):
    logs = np.log(2.0) * np.arange(3, 21)
    values = np.array([head_capacity(2**p, 100, 16, 0.1)[key] for p in range(3, 21)])
    slope, intercept = np.polyfit(logs, values, 1)
    assert slope > 0 and np.abs(values - slope * logs - intercept).max() < 0.01 * (values[-1] - values[0])
    assert values[-1] / values[0] < 4, "131072 times the length"


def test_the_explicit_bound_is_above_the_shape():
    assert head_capacity(100, 50, 8, 0.1)["explicit"] > 30 * head_capacity(100, 50, 8, 0.1)["shape"]


def test_heads_cost_their_cube():
    one = multi_head_capacity(100, 50, 8, 1, 0.1)
    assert one["shape"] == pytest.approx(head_capacity(100, 50, 8, 0.1)["shape"])
    assert one["explicit"] == pytest.approx(head_capacity(100, 50, 8, 0.1)["explicit"], rel=0.01)
    for heads in (2, 4, 16):
        for variant in ("printed", "repaired"):
            many = multi_head_capacity(100, 50, 8, heads, 0.1, token_norm=2.0, variant=variant)["shape"]
            single = multi_head_capacity(100, 50, 8, 1, 0.1, token_norm=2.0, variant=variant)["shape"]
            assert many == pytest.approx(heads**3 * single)
        explicit = multi_head_capacity(100, 50, 8, heads, 0.1)["explicit"] / one["explicit"]
        assert heads**3 <= explicit < 1.25 * heads**3, "the logarithm of the smaller scales comes on top"


def test_unequal_heads_and_the_printed_form():
    settings = {"value": (0.5, 2.0), "value_21": (1.0, 3.0), "query_key_21": (0.1, 0.4), "token_norm": 1.5}
    terms = [(1.0, 2 * 0.1 * 0.5), (3.0, 2 * 0.4 * 2.0)]
    log = math.log(8 * 50 * 100) / 0.01
    printed = sum(v ** (2 / 3) + qk ** (2 / 3) for v, qk in terms) ** 3 * 1.5**2 * log
    repaired = sum(v ** (2 / 3) + (qk * 1.5) ** (2 / 3) for v, qk in terms) ** 3 * 1.5**2 * log
    assert multi_head_capacity(100, 50, 8, 2, 0.1, **settings, variant="printed")["shape"] == pytest.approx(printed)
    assert multi_head_capacity(100, 50, 8, 2, 0.1, **settings)["shape"] == pytest.approx(repaired)


def test_depth_shape_is_derived_from_the_proof():
    found = depth_capacity(100, 50, 8, 2, 0.1, head_dimension=3, **LAYERS, readout=2.0, activation_lipschitz=1.1)
    gains = [1.1 * 0.8 * 0.5 * 1.8, 1.1 * 1.2 * 1.5 * 4.6]
    assert found["gains"] == pytest.approx(gains)
    first = (1.1 * 1.7) ** (2 / 3) + (2 * 1.1 * 0.8 * 0.5 * 0.4) ** (2 / 3) + (1.1 * 0.8 * 1.0) ** (2 / 3)
    second = (1.1 * 1.4) ** (2 / 3) + (2 * 1.1 * 1.2 * 1.5 * 1.1) ** (2 / 3) + (1.1 * 1.2 * 2.0) ** (2 / 3)
    total = 2 ** (2 / 3) + (2 * gains[1]) ** (2 / 3) * first + 2 ** (2 / 3) * second
    log = math.log(8 * 50 * 100) / 0.01
    assert found["shape"] == pytest.approx(total**3 * log)
    assert found["simplified_shape"] == pytest.approx((1.5 * 1.1) ** 2 * 4 * 2**2 * log)


def test_depth_shape_as_printed():
    found = depth_capacity(
        100, 50, 8, 2, 0.1, head_dimension=3, **LAYERS, readout=2.0, activation_lipschitz=1.1, variant="printed"
    )
    gain = 1.1 * 0.8 * 0.5 * 1.8
    first = 1.7 ** (2 / 3) + (8 * 2 * 1.1 * 0.8 * 0.5 * 0.4) ** (2 / 3) + (3 * 1.1 * 0.8 * 1.0) ** (2 / 3)
    second = 1.4 ** (2 / 3) + (8 * 2 * 1.1 * 1.2 * 1.5 * 1.1) ** (2 / 3) + (3 * 1.1 * 1.2 * 2.0) ** (2 / 3)
    total = 2 ** (2 / 3) + first + gain ** (2 / 3) * second
    assert found["shape"] == pytest.approx(total**3 * math.log(8 * 50 * 100) / 0.01)


@pytest.mark.parametrize("key", ["shape", "explicit"])
def test_depth_capacity_is_affine_in_log_length_and_logarithmic_in_dimension(key):
    logs = np.log(2.0) * np.arange(3, 21)
    values = np.array([depth_capacity(2**p, 100, 16, 3, 0.1)[key] for p in range(3, 21)])
    slope, intercept = np.polyfit(logs, values, 1)
    assert slope > 0 and np.abs(values - slope * logs - intercept).max() < 0.01 * (values[-1] - values[0])
    wide = depth_capacity(100, 100, 16 * 2**10, 3, 0.1)[key] / depth_capacity(100, 100, 16, 3, 0.1)[key]
    assert wide < 2.5
    printed = [depth_capacity(100, 100, d, 3, 0.1, variant="printed")["shape"] for d in (16, 16 * 2**10)]
    assert printed[1] / printed[0] > 1e5, "the printed factors make it polynomial in the dimension"


def test_unit_norms_still_cost_a_factor_of_25_per_layer():
    """Gains are 1 + 4 = 5 at unit spectral norms; capacity goes with their square."""
    values = [depth_capacity(100, 100, 16, depth, 0.1)["shape"] for depth in (8, 9, 10)]
    assert values[1] / values[0] == pytest.approx(25, rel=1e-2) and values[2] / values[1] == pytest.approx(25, rel=1e-2)
    flat = [depth_capacity(100, 100, 16, depth, 0.1)["simplified_shape"] for depth in (2, 9)]
    assert flat[0] == flat[1], "Theorem 4.11's simplification hides it"


def test_weights_of_the_derived_bound_hold_in_networks_and_the_printed_ones_do_not():
    """Moving one matrix by an error e in its outputs moves the network by at most weight * e, layer by layer."""
    rng, worst_printed = np.random.default_rng(0), 0.0
    for _ in range(300):
        d, k, length = 3, 2, 4
        layers = [al.Weights(*(rng.standard_normal(s) for s in ((d, k), (d, k), (d, k), (k, d)))) for _ in range(3)]
        layers = [al.Weights(w.query * 0.1, w.key * 0.1, w.value, w.output * 3) for w in layers]
        z, w = unit_ball(rng.standard_normal((length, d))) * 0.02, rng.standard_normal(d)
        gains = [one.gain() for one in layers]
        i = int(rng.integers(3))
        moved = al.Weights(layers[i].query, layers[i].key, layers[i].value * 1.01, layers[i].output)
        other = [*layers[:i], moved, *layers[i + 1 :]]
        seen = z
        for one in layers[:i]:
            seen = al.block(seen, one)
        error = np.linalg.norm(seen @ (moved.value - layers[i].value), axis=1).max()
        spectral = float(attention_norms(moved.query, moved.key, moved.value, moved.output)["output"])
        change = abs(al.network(z, layers, w) - al.network(z, other, w))
        through = np.linalg.norm(w) * spectral * error
        assert change <= through * math.prod(gains[i + 1 :]) * (1 + 1e-9) + 1e-15
        if error > 0:  # a layer of dead units passes nothing on
            worst_printed = max(worst_printed, change / (through * math.prod(gains[:i])))
    assert worst_printed > 1, "prod_{j<i} is violated"


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: head_capacity(0, 1, 1, 0.1), "length must be an integer at least 1; got length=0"),
        (lambda: head_capacity(5, 1, 1, 0.1, value=-1.0), "value must be a number greater than 0; got value=-1.0"),
        (lambda: head_capacity(5, 1, 1, 0.1, position_norm=-1.0), "position_norm must be a number, 0 without"),
        (lambda: head_capacity(5, 1, 1, 0.1, variant="mended"), "variant must be 'printed' or 'repaired'"),
        (
            lambda: multi_head_capacity(5, 1, 1, 3, 0.1, value=(1.0, 2.0)),
            "value needs one number, or one per head \\(3\\); got 2",
        ),
        (lambda: multi_head_capacity(5, 1, 1, 3, 0.1, variant="mended"), "variant must be 'printed' or 'repaired'"),
        (lambda: depth_capacity(5, 1, 1, 0, 0.1), "depth must be an integer at least 1"),
        (lambda: depth_capacity(5, 1, 1, 2, 0.1, output=(1.0, 2.0, 3.0)), "one per layer \\(2\\); got 3"),
        (lambda: depth_capacity(5, 1, 1, 2, 0.1, variant="mended"), "variant must be 'printed' or 'repaired'"),
        (lambda: depth_capacity(5, 1, 1, 2, 0.1, readout=0.0), "readout must be a number greater than 0"),
    ],
)
def test_bad_input(call, message):
    with pytest.raises(KroghError, match=message):
        call()
