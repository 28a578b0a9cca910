"""The first two steps: closed forms against the tensor, leading orders against closed forms, and known numbers."""

from __future__ import annotations

import math

import numpy as np
import pytest

from krogh.errors import KroghError
from krogh.tasks import DirichletRows, DoublyStochastic
from krogh.theory import predict
from krogh.theory.chains.gradients import descent_direction, prior_tensor
from krogh.theory.chains.steps import (
    H_1,
    H_2,
    A,
    B,
    D,
    closed_diagonal,
    closed_first_positions,
    closed_first_weights,
    doubly_stochastic_positions,
    doubly_stochastic_weight,
    first_and_second,
    leading_constants,
    leading_first_step,
)


@pytest.mark.parametrize("t", [2, 7, 50])
def test_closed_forms_are_sums_of_the_tensor(t):
    T = prior_tensor(DirichletRows(), 2, t)
    assert np.allclose(closed_first_weights(t), T.sum(axis=2), rtol=1e-9, atol=1e-12)
    assert np.allclose(closed_first_positions(t), T.sum(axis=(0, 1)), rtol=1e-9, atol=1e-12)
    assert np.allclose(closed_diagonal(t), np.einsum("mmj->j", T), rtol=1e-9, atol=1e-12)


def test_the_second_step_is_what_the_lemma_composes():
    """v^(2) = v^(1) + (c'/c)(v^(1) - c) + η(ρ-c')H, from closed forms alone."""
    t, c, eta = 60, 0.02, 0.03
    W1 = c + eta * c * closed_first_weights(t)
    v1 = c + eta * c * closed_first_positions(t)
    composed = v1 + W1[0, 1] / c * (v1 - c) + eta * (W1[0, 0] - W1[0, 1]) * closed_diagonal(t)
    found = first_and_second(2, t, c, eta, 100, 0)
    assert np.allclose(found["v2"], composed, rtol=1e-9)


def test_the_numbers_of_the_first_step():
    """Fig E.1: c = 0.02, η = 0.03, t = 100."""
    found = predict("chains/first-step")
    assert abs(found["diagonal"] - 0.069022) < 1e-6 and abs(found["off_diagonal"] - 0.030984) < 1e-6
    assert abs(found["increment_ratio"] - 4.463) < 1e-3 and found["largest_v"] == 1
    assert np.allclose(found["v"][:3], [0.023506, 0.023437, 0.023369], atol=1e-6)
    v1 = first_and_second(2, 100, 0.02, 0.03, 100, 0)["v1"]
    assert abs(v1[49] - 0.020933) < 1e-6 and abs(v1[99] - 0.0200006) < 1e-7
    assert np.isclose(found["B"], 0.0454315, atol=1e-7) and np.isclose(found["A"], 0.0114214, atol=1e-7)
    assert np.isclose(found["D"], 0.113706, atol=1e-6) and abs(found["ratio_limit"] - 3.978) < 1e-3
    assert abs(found["margin"] - 0.02**2 * 100 * 101 / 2) < 1e-12


def test_the_numbers_of_the_second_step():
    """Fig E.2: v_2 is largest, and even distances lead."""
    found = predict("chains/second-step")
    expected = [0.034890, 0.035913, 0.033593, 0.034184, 0.033080, 0.033278]
    assert np.allclose(found["v"][:6], expected, atol=1.1e-6)
    from_diagonal = [0.005952, 0.007151, 0.005005, 0.005769, 0.004835, 0.005201]
    assert np.allclose(found["from_diagonal"][:6], from_diagonal, atol=1e-6)
    assert found["largest_v"] == 2 and found["largest_v_before"] == 1
    h = found["h"]
    assert np.allclose(h, [0.102284, 0.125127, 0.0889, 0.1048, 0.0894, 0.0984, 0.0899, 0.0955], atol=1e-4)
    assert all(h[j] > 0.090863 for j in (1, 3, 5, 7)) and all(h[j] < 0.090863 for j in (2, 4, 6))
    assert h[1] > h[3] > h[5] > h[7]


def test_constants_of_two_symbols_are_their_logarithms():
    found = leading_constants(2, 2)
    for name, exact in (("A", A), ("B", B), ("D", D)):
        assert abs(found[name] - exact) < 1e-9 and found[f"{name}_error"] == 0
    assert np.allclose(found["h"], [H_1, H_2], atol=1e-8)
    assert np.allclose(found["G"], [[B, A], [A, B]], atol=1e-9)


@pytest.mark.parametrize(
    ("k", "b", "a", "d", "h"),
    [
        (3, 0.01459, 0.00570, 0.0780, [0.0584, 0.0805, 0.0442, 0.0517, 0.0447, 0.0469]),
        (4, 0.00510, 0.00251, 0.0505, None),
        (8, None, None, 0.0141, [0.0046, 0.0139, 0.0024]),
    ],
)
def test_constants_of_more_symbols(k, b, a, d, h):
    found = leading_constants(k, 6, samples=20_000)
    for name, exact in (("B", b), ("A", a), ("D", d)):
        assert exact is None or abs(found[name] - exact) < 5 * found[f"{name}_error"] + 0.01 * exact, name
    if h is not None:
        known = slice(0, len(h))
        assert (np.abs(found["h"][known] - h) < 5 * found["h_error"][known] + 0.01 * np.array(h)).all()
    assert found["h"].argmax() == 1, "v_2 dominates for every k"
    if k == 8:
        assert abs(found["B"] / found["A"] - 1.36) < 0.02, "the diagonal bias weakens with k"


def test_leading_orders_are_approached_like_one_over_t():
    errors = []
    for t in (50, 100, 200):
        W, _ = leading_first_step(1.0, 1.0, t, {"G": [[B, A], [A, B]], "D": D})
        exact = 1 + closed_first_weights(t)
        errors.append(np.abs(exact - W).max() / (W - 1).max())
    assert errors[0] > errors[1] > errors[2] and errors[2] < 0.04
    assert errors[0] / errors[1] > 1.6 and errors[1] / errors[2] > 1.6
    t = 200
    _, v = leading_first_step(1.0, 1.0, t, {"G": [[B, A], [A, B]], "D": D})
    assert np.abs(1 + closed_first_positions(t) - v).max() < 0.2, "the remainder is O(1) in units of cη"


def test_doubly_stochastic_chains_move_only_the_diagonal():
    for t in (3, 20):
        T = prior_tensor(DoublyStochastic(), 2, t)
        for_W, for_v = descent_direction(np.ones((2, 2)), np.ones(t), T)
        assert np.allclose(for_W, doubly_stochastic_weight(t) * np.eye(2), atol=1e-12)
        assert np.allclose(for_v, doubly_stochastic_positions(t), atol=1e-12)


@pytest.mark.parametrize(
    ("t", "g", "v"), [(50, 6.224, 0.5876), (100, 16.015, 0.7433), (200, 39.735, 0.9061), (400, 95.634, 1.0733)]
)
def test_the_numbers_of_doubly_stochastic_chains(t, g, v):
    found = predict("chains/doubly-stochastic-step", t=t)
    assert abs(found["g"] - g) < 1e-3 and abs(found["v_increment"] - v) < 1e-4
    assert found["off_diagonal"] == 0.02 and abs(found["diagonal"] - 0.02 * (1 + 0.03 * found["g"])) < 1e-12
    assert 0 < found["preference"] < 0.2 * found["flat_preference"], "v_1 - v_2 is O(log t / t) instead of cηD"


def test_doubly_stochastic_growth_is_t_log_t():
    growth = [doubly_stochastic_weight(t) / t for t in (1000, 2000, 4000)]
    assert np.allclose(np.diff(growth), math.log(2) / 16, rtol=0.02)
    positions = [doubly_stochastic_positions(t)[0] for t in (500, 1000)]
    assert abs(positions[1] - positions[0] - math.log(2) / 4) < 0.01


@pytest.mark.parametrize(("k", "short", "long"), [(2, 40, 60), (3, 60, 120)])
def test_the_second_distance_takes_the_lead_once_sequences_are_long_enough(k, short, long):
    for t, lead in ((short, 1), (long, 2)):
        found = predict("chains/second-step", k=k, t=t, samples=2000)
        assert found["largest_v_before"] == 1 and found["largest_v"] == lead


def test_bad_settings_are_refused():
    with pytest.raises(KroghError, match="k must be an integer at least 2; got k=1"):
        predict("chains/first-step", k=1)
    with pytest.raises(KroghError, match="c must be a number greater than 0"):
        predict("chains/second-step", c=0)
    with pytest.raises(KroghError, match="t must be an integer at least 2"):
        predict("chains/doubly-stochastic-step", t=1)
