"""Every gadget against the function it is made to compute, and chains of gadgets against composition."""

from __future__ import annotations

import numpy as np
import pytest

from krogh.errors import KroghError
from krogh.networks.tokens import rnn as gadgets

RANDOM = np.random.default_rng(0)


def inputs(n: int, scale: float = 3.0) -> np.ndarray:
    return scale * RANDOM.normal(size=(500, n))


def test_identity_addition_and_absolute_are_exact():
    x, y, z = inputs(4), inputs(4), inputs(4)
    np.testing.assert_array_equal(gadgets.identity(4)(x), x)
    np.testing.assert_array_equal(gadgets.absolute(4)(x), np.abs(x))
    np.testing.assert_allclose(gadgets.addition(4, 3)(np.hstack([x, y, z])), x + y + z, atol=1e-13)


def test_the_dead_zone_is_exactly_zero_inside_and_within_its_threshold_of_the_identity():
    x = np.concatenate([inputs(3, 1.0), np.array([[0.4, -0.4, 0.0]])])
    out = gadgets.dead_zone(3, 0.4)(x)
    inside = np.abs(x) <= 0.4
    assert 100 < inside.sum() < inside.size - 100
    assert not out[inside].any()
    np.testing.assert_allclose(out[~inside], (np.sign(x) * (np.abs(x) - 0.4))[~inside], atol=1e-14)
    assert np.abs(out - x).max() <= 0.4 + 1e-14


def test_the_gate_passes_a_match_and_nothing_else():
    x = inputs(2)
    strength = 2 * np.abs(x).max()
    gate = gadgets.gate(2, strength)
    np.testing.assert_allclose(gate(np.hstack([x, np.ones_like(x)])), x, atol=1e-13)
    for match in (0.499, 0.0, -1.0):
        assert not gate(np.hstack([x, np.full_like(x, match)])).any()
    half_open = gate(np.hstack([x, np.tile([1.0, 0.0], (len(x), 1))]))
    np.testing.assert_allclose(half_open, x * [1.0, 0.0], atol=1e-13)


@pytest.mark.parametrize("segments", [2, 4, 10])
@pytest.mark.parametrize("reach", [0.5, 2.0])
def test_the_square_interpolates_from_above(reach, segments):
    square = gadgets.square(reach, segments)
    knots = np.linspace(-reach, reach, segments + 1)
    np.testing.assert_allclose(square(knots[:, None])[:, 0], knots**2, atol=1e-14)
    u = np.linspace(-reach, reach, 2001)
    np.testing.assert_allclose(square(u[:, None])[:, 0], np.interp(u, knots, knots**2), atol=1e-13)
    excess = square(u[:, None])[:, 0] - u**2
    assert excess.min() >= -1e-14
    assert excess.max() == pytest.approx((reach / segments) ** 2, rel=1e-2)
    assert len(square.bias) == segments


@pytest.mark.parametrize("segments", [2, 8, 40])
def test_products_and_inner_products_are_as_close_as_stated(segments):
    pairs = RANDOM.uniform(-1, 1, (1000, 2))
    off = gadgets.product(2.0, segments)(pairs)[:, 0] - pairs[:, 0] * pairs[:, 1]
    assert 0.3 * (2 / segments) ** 2 / 4 < np.abs(off).max() <= (2 / segments) ** 2 / 4
    a, b = RANDOM.uniform(-1, 1, (2, 300, 5))
    found = gadgets.inner_product(5, 2.0, segments)(np.hstack([a, b]))[:, 0]
    assert np.abs(found - np.sum(a * b, axis=1)).max() <= 5 * (2 / segments) ** 2 / 4


def test_two_segments_make_the_inner_product_of_signs_exact():
    a, b = RANDOM.choice([-0.25, 0.25], (2, 200, 16))
    found = gadgets.inner_product(16, 0.5, 2)
    np.testing.assert_allclose(found(np.hstack([a, b]))[:, 0], np.sum(a * b, axis=1), atol=1e-15)
    assert len(found.bias) == 4 * 16


def test_gadgets_side_by_side_and_in_a_chain_are_composition():
    first = gadgets.together(gadgets.absolute(2).after(np.eye(2, 4)), gadgets.dead_zone(2, 0.5).after(np.eye(2, 4, 2)))
    second = gadgets.square(4.0, 6).after([[1.0, -1.0, 2.0, 0.5]], 0.25)
    third = gadgets.identity(1).times([[3.0]])
    x = inputs(4, 0.5)
    expected = 3 * second(first(x))
    weights, biases = gadgets.chained(first, second, third)
    value = x
    for weight, bias in zip(weights, biases, strict=False):
        value = np.maximum(value @ weight.T + bias, 0.0)
    assert len(weights) == 4 and len(biases) == 3
    np.testing.assert_allclose(value @ weights[-1].T, expected, atol=1e-12)
    middle = np.hstack([np.abs(x[:, :2]), gadgets.dead_zone(2, 0.5)(x[:, 2:])])
    np.testing.assert_allclose(first(x), middle, atol=1e-14)
    np.testing.assert_allclose(
        second(middle), gadgets.square(4.0, 6)(middle @ [[1.0], [-1.0], [2.0], [0.5]] + 0.25), atol=1e-12
    )


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: gadgets.square(1.0, 3), r"segments must be even; got segments=3 \(try 4\)"),
        (lambda: gadgets.square(0.0, 2), "reach must be a number greater than 0"),
        (lambda: gadgets.dead_zone(2, -1.0), "threshold of at least 0; got threshold=-1.0"),
        (lambda: gadgets.gate(2, 0.0), "strength must be a number greater than 0"),
        (lambda: gadgets.identity(0), "n must be an integer at least 1; got n=0"),
        (lambda: gadgets.together(gadgets.identity(1), gadgets.identity(2)), r"read one input; got inputs of \[1, 2\]"),
        (lambda: gadgets.Gadget(np.eye(2), np.zeros(3), np.eye(2)), "a gadget has weight"),
    ],
)
def test_bad_input_gets_one_clear_error(make, message):
    with pytest.raises(KroghError, match=message):
        make()
