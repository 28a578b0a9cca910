"""The two forms of the recurrence, of which a machine only ever runs one."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from krogh.models import recurrent as recurrence
from krogh.models.recurrent import GATES


@pytest.mark.parametrize("cell", ["gru", "relu", pytest.param("lstm", marks=pytest.mark.slow)])
@pytest.mark.parametrize("length", [2, *(pytest.param(length, marks=pytest.mark.slow) for length in (1, 7))])
def test_the_form_for_a_gpu_has_the_states_and_the_gradients_of_the_plain_loop(cell, length):
    with jax.enable_x64(True):
        directions, batch, hidden = 2, 3, 5
        keys = jax.random.split(jax.random.key(length), 4)
        gates = GATES[cell] * hidden
        given = jax.random.normal(keys[0], (length, directions, batch, gates), jnp.float64)
        U = jax.random.normal(keys[1], (directions, hidden, gates), jnp.float64)
        b_U = jax.random.normal(keys[2], (directions, gates), jnp.float64)
        weights = jax.random.normal(keys[3], (length, directions, batch, hidden), jnp.float64)

        def plain(*inputs):
            return recurrence._run(cell, 1, *inputs)[0]

        def unrolled(*inputs):
            return recurrence._unrolled(cell, *inputs)

        def weighed(form):
            return lambda *inputs: jnp.vdot(weights, form(*inputs) ** 2)

        np.testing.assert_allclose(unrolled(given, U, b_U), plain(given, U, b_U), atol=1e-12)
        expected = jax.grad(weighed(plain), argnums=(0, 1, 2))(given, U, b_U)
        found = jax.grad(weighed(unrolled), argnums=(0, 1, 2))(given, U, b_U)
        for one, other in zip(found, expected, strict=True):
            np.testing.assert_allclose(one, other, atol=1e-10)
        batched = jax.vmap(jax.grad(weighed(unrolled), argnums=1))(*(jnp.stack([x, 2 * x]) for x in (given, U, b_U)))
        np.testing.assert_allclose(batched[0], expected[1], atol=1e-10)


def test_the_state_of_a_loop_written_out_is_the_state():
    given = np.random.default_rng(0).normal(size=(4, 1, 2, 6))
    U, b_U = np.random.default_rng(1).normal(size=(1, 2, 6)), np.random.default_rng(2).normal(size=(1, 6))
    h, found = np.zeros((1, 2, 2)), []
    for i in range(4):
        m = h @ U + b_U[:, None]
        a, m = np.split(given[i], 3, -1), np.split(m, 3, -1)
        r, z = (1 / (1 + np.exp(-(a[j] + m[j]))) for j in (0, 1))
        h = (1 - z) * np.tanh(a[2] + r * m[2]) + z * h
        found.append(h)
    with jax.enable_x64(True):
        form = recurrence._unrolled("gru", *(jnp.asarray(x) for x in (given, U, b_U)))
    np.testing.assert_allclose(form, np.stack(found), atol=1e-12)
