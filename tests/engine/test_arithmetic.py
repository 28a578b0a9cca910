"""A function in another arithmetic: exact in float64, off by as much as a device may be when it is rounded."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from krogh.engine.arithmetic import BF16, EXACT_LEAN, FLOAT32, TF32, carried_out, with_short_operands

RANDOM = np.random.default_rng(0)
LEFT = RANDOM.normal(size=(40, 300)).astype(np.float32)
RIGHT = RANDOM.normal(size=(300, 20)).astype(np.float32)


def product(a, b):
    return a @ b


def test_without_rounding_it_is_float64():
    (exact,) = carried_out(product, TF32, LEFT, RIGHT)((EXACT_LEAN,), LEFT, RIGHT)
    assert exact.dtype == np.float64
    assert np.allclose(exact, LEFT.astype(np.float64) @ RIGHT.astype(np.float64), rtol=1e-13, atol=1e-13)


def test_what_the_bits_can_hold_is_not_rounded():
    signs = np.sign(LEFT)
    drawn = carried_out(lambda a, b: 2.0 * (a * b), BF16, signs, signs)((0.0, 0.5, 1.0), signs, signs)
    assert np.array_equal(drawn, np.full((3, *signs.shape), 2.0))


@pytest.mark.parametrize("bits", [BF16, TF32, FLOAT32])
def test_operands_are_rounded_to_their_bits(bits):
    """Cut off, an operand is off by up to 2^(1-p) of itself; stochastically the mean of many draws is right."""
    one = np.ones((1, 1), np.float32)
    value = np.full((1, 1), 1.0 + 1 / 3, np.float32)
    leans = (EXACT_LEAN, 0.0, *[1.0] * 400)
    exact, cut, *drawn = carried_out(product, bits, value, one)(leans, value, one)[:, 0, 0]
    unit, sums = 2.0 ** (1 - bits), 8 * 2.0**-FLOAT32  # the product of one term counts as a sum
    assert abs(cut - np.floor(exact / unit) * unit) < sums
    places = (np.asarray(drawn) - np.floor(exact / unit) * unit) / unit
    assert np.all(np.minimum(np.abs(places), np.abs(places - 1)) < sums / unit)
    assert abs(np.mean(drawn) - exact) < 4 * unit / np.sqrt(400) + sums
    assert bits == FLOAT32 or len(np.unique(places.round())) == 2


def test_errors_of_float32_are_within_the_draws_and_not_far_below():
    exact, *drawn = carried_out(product, FLOAT32, LEFT, RIGHT)((EXACT_LEAN, 0.0, 0.5, 1.0), LEFT, RIGHT)
    device = np.abs(np.asarray(jax.jit(product)(LEFT, RIGHT)) - exact).max()
    draws = max(np.abs(one - exact).max() for one in drawn)
    assert 0.02 * draws < device < draws


def test_short_operands_are_those_of_the_device_that_has_them():
    short = np.asarray(jax.jit(with_short_operands(product, TF32))(LEFT, RIGHT))
    exact, *drawn = carried_out(product, TF32, LEFT, RIGHT)((EXACT_LEAN, 0.0, 0.5, 1.0), LEFT, RIGHT)
    draws = max(np.abs(one - exact).max() for one in drawn)
    assert 0.1 * draws < np.abs(short - exact).max() < draws
    full = with_short_operands(lambda a, b: jnp.matmul(a, b, precision="highest"), TF32)
    assert np.array_equal(full(LEFT, RIGHT), jnp.matmul(LEFT, RIGHT, precision="highest"))


def test_loops_branches_and_random_bits_are_carried_out_too():
    def function(start, seed):
        key = jax.random.key(seed)

        def step(carry, _):
            moved = jnp.tanh(carry @ jnp.eye(3, dtype=jnp.float32) * 0.9 + 0.1)
            return jax.lax.cond(jnp.sum(moved) > 0, lambda x: x, lambda x: -x, moved), jnp.max(moved)

        ended, tops = jax.lax.scan(step, start, None, length=5)
        ended = jax.lax.while_loop(lambda x: jnp.sum(x * x) > 0.01, lambda x: 0.5 * x, ended)
        return ended, tops, jax.random.bits(key, (4,)), jax.random.uniform(key, (4,))

    start = np.array([[0.3, -0.2, 0.5]], np.float32)
    here = jax.tree.map(np.asarray, jax.jit(function)(start, np.uint32(3)))
    there = carried_out(function, FLOAT32, start, np.uint32(3))((EXACT_LEAN,), start, np.uint32(3))
    assert (
        there[0].dtype == np.float64 and np.array_equal(there[2][0], here[2]) and np.array_equal(there[3][0], here[3])
    )
    assert all(np.allclose(a[0], b, atol=1e-6) for a, b in zip(there[:2], here[:2], strict=True))


def test_gradients_are_those_of_float64():
    def loss(w):
        return jnp.sum(jax.nn.relu(LEFT @ w) ** 2) / 40

    w = RIGHT[:, 0]
    (exact,) = carried_out(jax.grad(loss), TF32, w)((EXACT_LEAN,), w)
    left = LEFT.astype(np.float64)
    assert np.allclose(exact, left.T @ (2 * np.maximum(left @ w.astype(np.float64), 0)) / 40, rtol=1e-12)


def test_scattered_sums_are_carried_out_too():
    places = np.array([0, 2, 2, 1])

    def gathered(w):
        return jnp.sum(w[places] ** 2)

    w = RIGHT[:5, 0]
    exact, drawn = carried_out(jax.grad(gathered), TF32, w)((EXACT_LEAN, 1.0), w)
    assert np.array_equal(exact, 2 * w.astype(np.float64) * np.array([1, 1, 2, 0, 0]))
    assert np.allclose(drawn, exact, rtol=1e-6)
