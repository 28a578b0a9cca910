"""Random recurrent networks: states, backward matrices and expansion against loops and automatic differentiation."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from krogh.errors import KroghError
from krogh.models.elman import elman_states
from krogh.networks.recurrence.random_network import OuterProducts, RandomRnn, random_rnn
from krogh.tasks.token_sequences import draw_tokens, normalise_tokens

L, M, DX, D = 5, 24, 3, 2
NETWORK = random_rnn(M, DX + 1, D, seed=3)
X = np.asarray(normalise_tokens(draw_tokens(jax.random.key(0), 4, L - 2, DX), 0.4, "one"), np.float64)
RUN = NETWORK.run(X)
RNG = np.random.default_rng(0)


def outputs(W, A, B, x):
    """y_l [batch, L, outputs] of the model that is trained."""
    return jnp.einsum("lbm,om->blo", elman_states(W, A, x), B)


def derivative(W, A, x=X):
    """d/dt y_l(W + tW', A + tA') at t = 0, by JAX in float64."""
    with jax.enable_x64(True):
        at = tuple(jnp.asarray(part) for part in (NETWORK.W, NETWORK.A))
        along = tuple(jnp.asarray(part) for part in (W, A))
        return np.asarray(jax.jvp(lambda w, a: outputs(w, a, jnp.asarray(NETWORK.B), jnp.asarray(x)), at, along)[1])


def test_random_rnn_has_the_variances_of_the_sources():
    one = random_rnn(400, 300, 3, seed=1, spread=2.0)
    m = 400
    for part, variance in ((one.W, 2 / m), (one.A, 2 / m), (one.B, 2 / 3)):
        error = 5 * variance * np.sqrt(2 / part.size)
        assert abs(part.mean()) < 5 * np.sqrt(variance / part.size) and abs(part.var() - variance) < error
    assert random_rnn(4, 2, dtype=np.float32).W.dtype == np.float32
    np.testing.assert_array_equal(random_rnn(4, 2, seed=5).W, random_rnn(4, 2, seed=5).W)
    assert not np.array_equal(random_rnn(4, 2, seed=5).W, random_rnn(4, 2, seed=6).W)
    with pytest.raises(KroghError, match="width must be an integer at least 1; got width=0"):
        random_rnn(0, 3)


def test_states_and_signs_are_those_of_a_plain_loop():
    for b, sequence in enumerate(X):
        h = np.zeros(M)
        for place, one in enumerate(sequence, start=1):
            g = NETWORK.W @ h + NETWORK.A @ one
            h = np.maximum(g, 0)
            np.testing.assert_allclose(RUN.h[place, b], h, atol=1e-12)
            np.testing.assert_array_equal(RUN.active[place, b], g >= 0)
            np.testing.assert_allclose(RUN.output(place)[b], NETWORK.B @ h, atol=1e-12)
    np.testing.assert_array_equal(RUN.output(), RUN.output(L))


def test_backward_is_the_product_of_matrices_as_it_is_defined():
    for j in range(1, L + 1):
        found = dict(RUN.backward(j))
        assert list(found) == list(range(j, 0, -1))
        for i, back in found.items():
            for b in range(len(X)):
                expected = NETWORK.B
                for place in range(j, i, -1):
                    expected = expected @ np.diag(RUN.active[place, b].astype(float)) @ NETWORK.W
                np.testing.assert_allclose(back[b], expected, atol=1e-12)


def test_pseudo_is_the_derivative_of_the_model_to_rounding():
    W, A = RNG.standard_normal((M, M)), RNG.standard_normal((M, DX + 1))
    for given in ((W, A), (W, None), (None, A)):
        expected = derivative(*(np.zeros_like(one) if part is None else part for part, one in zip(given, (W, A))))
        for j in range(1, L + 1):
            np.testing.assert_allclose(RUN.pseudo(*given, j=j), expected[:, j - 1], rtol=1e-11, atol=1e-11)
    np.testing.assert_array_equal(RUN.pseudo(W, A), RUN.pseudo(W, A, j=L))


def test_outer_products_stand_for_their_matrix():
    shift = OuterProducts(RNG.standard_normal((3, M)), RNG.standard_normal((3, M)))
    dense, h = shift.dense(), RNG.standard_normal((2, 5, M))
    np.testing.assert_allclose(dense, sum(np.outer(a, b) for a, b in zip(shift.left, shift.right)))
    np.testing.assert_allclose(shift(h), h @ dense.T)
    np.testing.assert_allclose(shift.T.dense(), dense.T)
    np.testing.assert_allclose((shift * 2.5).dense(), 2.5 * dense)
    assert shift.norm() == pytest.approx(np.linalg.norm(dense))
    assert shift.spectral_norm() == pytest.approx(np.linalg.norm(dense, 2))
    np.testing.assert_allclose(RUN.pseudo(shift), RUN.pseudo(dense), atol=1e-10)


def test_a_network_moved_by_outer_products_is_the_one_moved_by_their_matrix():
    shift, A = OuterProducts(*RNG.standard_normal((2, 3, M)) / M), 0.1 * RNG.standard_normal((M, DX + 1))
    kept, whole = (NETWORK.moved(W, A).run(X) for W in (shift, shift.dense()))
    np.testing.assert_allclose(kept.h, whole.h, atol=1e-12)
    for (i, one), (j, other) in zip(kept.backward(), whole.backward(), strict=True):
        assert i == j
        np.testing.assert_allclose(one, other, atol=1e-12)
    assert kept.network.W is NETWORK.W, "outer products cost no second matrix"
    np.testing.assert_allclose(whole.network.W, NETWORK.W + shift.dense())
    with pytest.raises(KroghError, match="moved from where it started"):
        kept.network.moved(shift)


@pytest.mark.parametrize(("output", "j"), [(0, L), (1, 3)])
def test_gradient_is_that_of_the_model(output, j):
    along, inputs = RUN.gradient(example=2, output=output, j=j)
    with jax.enable_x64(True):
        B = jnp.asarray(NETWORK.B)
        value = lambda W, A: outputs(W, A, B, jnp.asarray(X))[2, j - 1, output]  # noqa: E731
        W, A = jax.grad(value, (0, 1))(jnp.asarray(NETWORK.W), jnp.asarray(NETWORK.A))
    np.testing.assert_allclose(along.dense(), W, atol=1e-12)
    np.testing.assert_allclose(inputs, A, atol=1e-12)


def test_rows_may_be_given_in_place_of_the_readout():
    rows = RNG.standard_normal((len(X), 1, M))
    own = RandomRnn(NETWORK.W, NETWORK.A, rows[1])
    np.testing.assert_allclose(dict(RUN.backward(4, rows))[2][1], dict(own.run(X).backward(4))[2][1], atol=1e-12)
