"""Momentum step by step against Optax."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from krogh.errors import KroghError
from krogh.training import Momentum, Piecewise, Sgd

STEPS = 40
GRADIENTS = {
    "W": np.random.default_rng(0).standard_normal((STEPS, 3, 2)).astype(np.float32),
    "b": np.random.default_rng(1).standard_normal((STEPS, 3)).astype(np.float32),
}
START = {name: jnp.ones(leaf.shape[1:], jnp.float32) for name, leaf in GRADIENTS.items()}


@jax.jit
def ours(optimiser):
    def step(carry, inputs):
        params, memory = carry
        params, memory = optimiser.update(inputs[1], memory, params, inputs[0])
        return (params, memory), params

    steps = jnp.arange(STEPS, dtype=jnp.int32)
    return jax.lax.scan(step, (START, optimiser.init(START)), (steps, GRADIENTS))[1]


def theirs(rate, beta):
    transform = optax.sgd(rate, momentum=beta)
    params, state, seen = START, transform.init(START), []
    for step in range(STEPS):
        updates, state = transform.update({name: leaf[step] for name, leaf in GRADIENTS.items()}, state, params)
        params = optax.apply_updates(params, updates)
        seen.append(params)
    return jax.tree.map(lambda *leaves: np.stack(leaves), *seen)


def distance(a, b):
    return max(float(np.abs(np.asarray(a[name]) - np.asarray(b[name])).max()) for name in a)


@pytest.mark.parametrize(("rate", "beta"), [(0.1, 0.9), (0.02, 0.5)])
def test_momentum_is_optax_sgd_with_momentum(rate, beta):
    assert distance(ours(Momentum(rate, beta)), theirs(rate, beta)) < 1e-5
    assert distance(ours(Momentum(rate, beta)), theirs(rate, beta / 2)) > 1e-2


def test_without_momentum_it_is_sgd():
    assert distance(ours(Momentum(0.1, 0.0)), ours(Sgd(0.1))) < 1e-6


def test_a_schedule_scales_the_rate_and_not_the_velocity():
    halved = ours(Momentum(0.1, 0.9, Piecewise([10], [1.0, 0.5])))
    plain = ours(Momentum(0.1, 0.9))
    moves, whole = (np.diff(np.asarray(found["W"]), axis=0) for found in (halved, plain))
    assert np.allclose(moves[:9], whole[:9], atol=1e-6) and np.allclose(moves[9:], whole[9:] / 2, atol=1e-6)


def test_many_rates_share_a_program():
    many = jax.tree.map(lambda *leaves: np.stack(leaves), *[Momentum(rate, 0.9) for rate in (0.01, 0.1)])
    found = jax.jit(jax.vmap(ours))(many)
    for place, rate in enumerate((0.01, 0.1)):
        assert distance({name: leaf[place] for name, leaf in found.items()}, ours(Momentum(rate, 0.9))) < 1e-6


def test_bad_numbers_are_said():
    with pytest.raises(KroghError, match=r"beta must be in \[0, 1\); got beta=1"):
        Momentum(0.1, 1.0)
    with pytest.raises(KroghError, match=r"rate must be a finite number ≥ 0; got rate=-0\.1"):
        Momentum(-0.1)
