"""Measures of random and moved networks against plain NumPy and against what is known of Gaussian matrices."""

from __future__ import annotations

import math

import jax
import numpy as np
import pytest

from krogh.errors import KroghError
from krogh.networks.recurrence.measures import (
    construction_error,
    flip_shares,
    linearisation,
    movement,
    operator_gains,
    spectral_norm,
)
from krogh.networks.recurrence.random_network import OuterProducts, random_rnn
from krogh.tasks.token_sequences import draw_tokens, normalise_tokens

RNG = np.random.default_rng(0)
NETWORK = random_rnn(60, 4, 2, seed=1)
X = np.asarray(normalise_tokens(draw_tokens(jax.random.key(0), 3, 3, 3), 0.3, "one"), np.float64)


def test_construction_error_is_by_place_and_output():
    target = RNG.standard_normal((50, 2, 3))
    found = 0.5 * target + 1.5 + 0.1 * RNG.standard_normal((50, 2, 3))
    error = construction_error(found, target)
    for j, s in np.ndindex(2, 3):
        own, other = found[:, j, s], target[:, j, s]
        assert error.correlation[j, s] == pytest.approx(np.corrcoef(own, other)[0, 1])
        assert error.offset[j, s] == pytest.approx((own - other).mean())
        assert error.deviation[j, s] == pytest.approx((own - other).std())
        assert error.target_deviation[j, s] == pytest.approx(other.std())
    assert construction_error(np.ones((4, 1)), target[:4, 0, :1]).correlation[0] == 0
    with pytest.raises(KroghError, match=r"of one shape with two inputs or more; got \(1,\) and \(1,\)"):
        construction_error([1.0], [2.0])


def test_operator_gains_are_those_of_gaussian_matrices():
    W = random_rnn(1000, 1, seed=2, dtype=np.float32).W
    gains = operator_gains(W)
    assert gains.typical == pytest.approx(1, abs=0.02)
    assert gains.worst == pytest.approx(1 + math.sqrt(2), rel=0.03)
    assert gains.norm == pytest.approx(2 * math.sqrt(2), rel=0.03)
    assert spectral_norm(W) == pytest.approx(np.linalg.norm(W, 2), rel=0.01)


def test_operator_gains_of_small_matrices_by_hand():
    gains = operator_gains(np.diag([3.0, -4.0, 1.0]))
    assert gains.worst == pytest.approx(4) and gains.norm == pytest.approx(4)
    signed = operator_gains(np.array([[1.0, 0.0], [-1.0, 0.0]]))
    assert signed.worst == pytest.approx(1) and signed.norm == pytest.approx(math.sqrt(2))


def test_movement_is_the_norm_times_the_root_of_the_width():
    shift = OuterProducts(*RNG.standard_normal((2, 3, 60)))
    for given in (shift, shift.dense()):
        found = movement(given)
        assert found.frobenius == pytest.approx(math.sqrt(60) * np.linalg.norm(shift.dense()))
        assert found.spectral == pytest.approx(math.sqrt(60) * np.linalg.norm(shift.dense(), 2))


def test_flip_shares_count_signs_that_changed():
    one, other = NETWORK.run(X), NETWORK.moved(0.3 * RNG.standard_normal((60, 60))).run(X)
    found = flip_shares(one, other)
    assert found.shape == (3, 5) and np.all(found[:, 0] == 0) and found[:, 1:].max() > 0
    assert found[1, 3] == np.mean(one.active[4, 1] != other.active[4, 1])
    assert np.all(flip_shares(one, one) == 0)


def test_linearisation_is_the_difference_from_the_expansion():
    W, A = 0.05 * RNG.standard_normal((60, 60)), 0.05 * RNG.standard_normal((60, 4))
    before, after = NETWORK.run(X), NETWORK.moved(W, A).run(X)
    found = linearisation(NETWORK, X, W, A)
    first = before.pseudo(W, A)
    np.testing.assert_allclose(found.error, np.linalg.norm(after.output() - before.output() - first, axis=1))
    np.testing.assert_allclose(found.linear, np.linalg.norm(first, axis=1))
    np.testing.assert_array_equal(found.flips, flip_shares(before, after))


def test_linearisation_error_vanishes_faster_than_the_movement():
    """Where no sign changes the output is a polynomial in the shift, and the error is quadratic."""
    W = RNG.standard_normal((60, 60)) / 60
    small, smaller = (linearisation(NETWORK, X, scale * W) for scale in (1e-4, 1e-5))
    assert small.flips.max() == 0
    np.testing.assert_allclose(small.error / smaller.error, 100, rtol=0.05)
    np.testing.assert_allclose(small.linear / smaller.linear, 10, rtol=1e-6)
