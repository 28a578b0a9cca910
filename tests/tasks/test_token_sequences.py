"""Unit tokens, what a network is given of them, and the base sequence, in both conventions of the end."""

from __future__ import annotations

import math

import jax
import numpy as np
import pytest

from krogh.errors import KroghError
from krogh.tasks.token_sequences import (
    BIAS,
    REST,
    base_sequence,
    bit_tokens,
    check_sequences,
    check_tokens,
    draw_tokens,
    lift_tokens,
    normalise_tokens,
)


@pytest.mark.parametrize("dx", [2, 3, 7])
def test_draw_tokens_gives_unit_vectors_with_a_half_at_the_end(dx):
    tokens = np.asarray(draw_tokens(jax.random.key(0), 50, 4, dx), np.float64)
    assert tokens.shape == (50, 4, dx)
    check_tokens(tokens)
    np.testing.assert_allclose(tokens[..., -1], 0.5)
    np.testing.assert_allclose(np.linalg.norm(tokens, axis=-1), 1, atol=1e-6)
    if dx == 2:
        np.testing.assert_allclose(np.abs(tokens[..., 0]), math.sqrt(3) / 2, rtol=1e-6)


def test_draw_tokens_is_uniform_and_independent_over_positions():
    tokens = np.asarray(draw_tokens(jax.random.key(1), 20_000, 2, 3), np.float64)
    rest = tokens[..., :-1]
    error = 4 / math.sqrt(20_000)
    assert np.abs(rest.mean(axis=0)).max() < error
    covariance = np.einsum("bix,bjy->ixjy", rest, rest) / len(rest)
    np.testing.assert_allclose(covariance.reshape(4, 4), np.eye(4) * 3 / 8, atol=error)


def test_lift_tokens_pads_with_what_is_missing_from_three_quarters():
    u = np.array([[0.3, -0.4], [0.0, 0.0], [REST, 0.0]])
    tokens = lift_tokens(u)
    check_tokens(tokens)
    np.testing.assert_allclose(tokens[0], [0.3, -0.4, math.sqrt(0.75 - 0.25), 0.5])
    with pytest.raises(KroghError, match=r"norm at most √3/2 = 0\.8660 .* got one of norm 0\.9000"):
        lift_tokens(np.array([[0.9, 0.0]]))


def test_bit_tokens_are_the_two_corners():
    tokens = np.asarray(bit_tokens(np.array([1, 0])))
    np.testing.assert_allclose(tokens, [[REST, 0, 0.5], [0, REST, 0.5]], rtol=1e-6)
    check_tokens(tokens)


@pytest.mark.parametrize(("last", "end"), [("eps", 0.25), ("one", 1.0)])
def test_normalise_tokens_puts_ends_around_scaled_tokens(last, end):
    tokens = np.asarray(draw_tokens(jax.random.key(2), 3, 2, 3))
    x = np.asarray(normalise_tokens(tokens, 0.25, last))
    assert x.shape == (3, 4, 4)
    np.testing.assert_array_equal(x[:, 0], np.tile([0, 0, 0, 1], (3, 1)))
    np.testing.assert_allclose(x[:, 1:3, :3], 0.25 * tokens)
    np.testing.assert_array_equal(x[:, 1:3, 3], 0)
    np.testing.assert_allclose(x[:, 3], np.tile([0, 0, 0, end], (3, 1)))
    norms = np.linalg.norm(x, axis=-1)
    np.testing.assert_allclose(norms, np.tile([1, 0.25, 0.25, end], (3, 1)), rtol=1e-6)


@pytest.mark.parametrize(("last", "end"), [("eps", 0.1), ("one", 1.0)])
def test_base_sequence_is_orthogonal_to_every_token(last, end):
    base = np.asarray(base_sequence(5, 3, 0.1, last))
    np.testing.assert_allclose(base, [[0, 0, 0, 1], *[[0, 0, 0, 0.1]] * 3, [0, 0, 0, end]])
    x = np.asarray(normalise_tokens(draw_tokens(jax.random.key(0), 1, 3, 3), 0.1, last))[0]
    np.testing.assert_array_equal((x[1:-1] * base[1:-1]).sum(axis=1), 0)
    np.testing.assert_array_equal(x[[0, -1]], base[[0, -1]])


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ((2, 3, 0.1, "eps"), "length must be an integer at least 3; got length=2"),
        ((4, 1, 0.1, "eps"), "dx must be an integer at least 2; got dx=1"),
        ((4, 3, 0.0, "eps"), r"eps_x must be above 0 and at most 1; got eps_x=0\.0"),
        ((4, 3, 1.5, "eps"), r"eps_x must be above 0 and at most 1; got eps_x=1\.5"),
        ((4, 3, 0.1, "ones"), "unknown last 'ones'; did you mean 'one'"),
    ],
)
def test_check_sequences_refuses(given, message):
    with pytest.raises(KroghError, match=message):
        check_sequences(*given)


def test_check_tokens_refuses_what_is_off_the_sphere_or_has_another_bias():
    with pytest.raises(KroghError, match=r"unit sphere; got one of norm 1\.11803 "):
        check_tokens(np.array([[1.0, 0.5]]))
    with pytest.raises(KroghError, match=r"last coordinate of a token is 1/2; got 0\.6 "):
        check_tokens(np.array([[0.8, 0.6]]))
    assert pytest.approx(1) == BIAS**2 + REST**2
