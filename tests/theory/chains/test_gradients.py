"""The population gradient against automatic differentiation of the population margin loss, by enumeration."""

from __future__ import annotations

import itertools
import math

import chain_oracles as oracle
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from krogh.errors import KroghError
from krogh.tasks import DirichletRows, DoublyStochastic, Hard, MarkovChains
from krogh.theory.chains.gradients import (
    Step,
    descend,
    descent_direction,
    gradient_tensor,
    in_linear_regime,
    linear_loss,
    linear_margin,
    prior_tensor,
)
from krogh.theory.chains.laws import Law, law_of
from krogh.theory.numerics import double_precision
from krogh.training.losses import find_loss


def weights(k: int, t: int):
    random = np.random.default_rng([k, t])
    return random.normal(size=(k, k)), random.normal(size=t)


RANDOM = np.random.default_rng(0)
LAWS = {
    "tables of two symbols": (Law(RANDOM.dirichlet(np.ones(2), (3, 2)), np.array([0.2, 0.3, 0.5]), True), 6),
    "tables of three symbols": (Law(RANDOM.dirichlet(np.ones(3), (2, 3)), np.array([0.4, 0.6]), True), 4),
    "flat chains": (law_of(DirichletRows(), 2, nodes=6), 5),
    "doubly stochastic chains": (law_of(DoublyStochastic(), 2, nodes=6), 5),
    "hard chains": (law_of(Hard(0.3), 2, nodes=6), 5),
}


@pytest.mark.parametrize("name", LAWS)
def test_the_tensor_is_the_gradient_of_the_population_loss(name):
    law, t = LAWS[name]
    W, v = weights(law.k, t)
    delta = linear_margin(W, v)
    T = gradient_tensor(law, t)
    value, for_W, for_v = oracle.value_and_gradients(law, t, W, v, delta)
    exact_W, exact_v = descent_direction(W, v, T)
    assert np.abs(exact_W + for_W).max() < 1e-12 and np.abs(exact_v + for_v).max() < 1e-12
    assert abs(linear_loss(W, v, T, delta) - value) < 1e-10 * delta


def test_the_oracle_is_the_formula_of_the_model():
    W, v = weights(3, 5)
    for word in ([0, 1, 2, 0, 0], [2, 2, 1, 0, 1]):
        with double_precision():
            found = np.asarray(oracle.logits(jnp.asarray(W), jnp.asarray(v), np.array([word])))[0]
        assert np.abs(found - oracle.plain_logits(W, v, word)).max() < 1e-12


def test_the_tensor_does_not_depend_on_how_it_is_cut(monkeypatch):
    law = law_of(DirichletRows(), 3, samples=50)
    whole = gradient_tensor(law, 7)
    monkeypatch.setattr("krogh.theory.chains.gradients.CHUNK", 200)
    assert np.allclose(gradient_tensor(law, 7), whole, atol=1e-15)


def test_a_sample_of_tables_approaches_the_quadrature():
    exact = prior_tensor(DirichletRows(), 2, 10)
    tables = np.random.default_rng(0).dirichlet(np.ones(2), (20_000, 2))
    sampled = gradient_tensor(Law(tables, np.full(20_000, 1 / 20_000), False), 10)
    assert np.abs(sampled - exact).max() < 0.05 * np.abs(exact).max()


@pytest.mark.parametrize(("k", "t"), [(2, 5), (3, 4)])
def test_from_the_linear_margin_on_every_hinge_is_active(k, t):
    """|f_i - f_y| never exceeds it on any input, at any weights; constant inputs reach it at constant weights."""
    words = np.array(list(itertools.product(range(k), repeat=t)))
    for W, v in (weights(k, t), (np.full((k, k), 0.3), np.full(t, 0.3)), (np.eye(k), np.eye(t)[1])):
        spans = [np.ptp(oracle.plain_logits(W, v, word), axis=-1).max() for word in words]
        assert max(spans) <= linear_margin(W, v) + 1e-12
        assert in_linear_regime(W, v, max(spans) * 2 + linear_margin(W, v))
    c = 0.3
    constant = (np.full((k, k), c), np.full(t, c))
    assert abs(linear_margin(*constant) - c**2 * t * (t + 1) / 2) < 1e-12
    assert abs(np.ptp(oracle.plain_logits(*constant, [0] * t)[-1]) - linear_margin(*constant)) < 1e-12
    assert in_linear_regime(*constant, linear_margin(*constant))
    assert not in_linear_regime(*constant, 0.99 * linear_margin(*constant))


def test_below_the_linear_margin_the_loss_is_another():
    law, t = LAWS["flat chains"]
    W, v = np.full((2, 2), 0.5), np.full(t, 0.5)
    delta = 0.5 * linear_margin(W, v)
    value, _, _ = oracle.value_and_gradients(law, t, W, v, delta)
    assert value > linear_loss(W, v, gradient_tensor(law, t), delta) + 1e-3


def test_descent_takes_a_prior_a_rate_and_a_decay_for_each_step():
    W, v = weights(2, 6)
    path = descend(W, v, [Step(DirichletRows(), 0.1), Step(Hard(0.3), 0.2, decay=1.0), Step(Hard(0.1), 0.5, decay=0.5)])
    assert len(path) == 4 and np.array_equal(path[0][0], W)
    for (prior, rate, decay), (before, after) in zip(
        [(DirichletRows(), 0.1, 0), (Hard(0.3), 0.2, 1), (Hard(0.1), 0.5, 0.5)], itertools.pairwise(path), strict=True
    ):
        for_W, for_v = descent_direction(*before, prior_tensor(prior, 2, 6))
        assert np.allclose(after[0], (1 - decay) * before[0] + rate * for_W)
        assert np.allclose(after[1], (1 - decay) * before[1] + rate * for_v)
    with pytest.raises(KroghError, match=r"W must be \[k, k\] and v \[t\]"):
        descend(np.zeros((2, 3)), v, [])


@pytest.mark.slow
@pytest.mark.parametrize("k", [2, 3])
def test_simulated_data_agree_within_sampling_error(k):
    """Automatic differentiation on the task's own sequences at t = 100, Δ = 10 t²c² (section 8.6 of the reference)."""
    t, c, size, blocks = 100, 0.02, 1000, 30
    task, W, v = MarkovChains(k, t), jnp.full((k, k), c), jnp.full(t, c)
    loss = find_loss(f"multiclass-margin({10 * t**2 * c**2})")

    def mean(W, v, key):
        examples = task.batch(key, size)
        return jnp.mean(loss(oracle.logits(W, v, examples.x), examples.y))

    slopes = jax.jit(jax.grad(mean, argnums=(0, 1)))
    drawn = [slopes(W, v, key) for key in jax.random.split(jax.random.key(3), blocks)]
    exact = descent_direction(np.full((k, k), c), np.full(t, c), prior_tensor(DirichletRows(), k, t, samples=40_000))
    for found, expected in zip(zip(*drawn, strict=True), exact, strict=True):
        found = -np.array(found, np.float64)
        error = found.std(axis=0, ddof=1) / math.sqrt(blocks)
        assert (np.abs(found.mean(axis=0) - expected) < 5 * error + 0.01 * np.abs(expected)).all()
