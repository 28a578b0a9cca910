"""Linear attention: formula, its two sums against the length² weights, symmetry, how it is drawn."""

from __future__ import annotations

import itertools
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from support import in_double, random_params

from krogh.errors import KroghError
from krogh.models.token_attention import LinearAttention, positive
from krogh.tasks import MarkovChains, Parity
from krogh.tasks.links import LinearLink, unit_vector
from krogh.tasks.token_regression import TokenRegression

KEY = jax.random.key(5)
TASK = TokenRegression(6, 4, LinearLink(unit_vector(4)))
LENGTH, FEATURES = TASK.input_shape
HEADS = [1, 4]
QUICK = {"xla_backend_optimization_level": 0}  # compiling costs more here than running

predict = jax.jit(lambda model, params, x: model.predict(params, x), compiler_options=QUICK)
probabilities = jax.jit(lambda model, params, x: model.probabilities(params, x), compiler_options=QUICK)


def naive_features(t):
    """elu(t) + 1."""
    return np.array([s + 1 if s > 0 else math.exp(s) for s in t])


def naive_linear_weights(model, p, x, head):
    """The weights of one head, query by query and key by key."""
    a = x.shape[1] // model.heads
    rows = slice(head * a, (head + 1) * a)
    weights = []
    for query in x:
        q = naive_features((p["Q"] @ query + p["b_Q"])[rows])
        products = np.array([q @ naive_features((p["K"] @ key + p["b_K"])[rows]) for key in x])
        weights.append(products / products.sum())
    return np.array(weights)


def naive_linear_attention(model, p, x):
    """Heads one after the other, written into one row per position; then the read-out."""
    a = x.shape[1] // model.heads
    mixed = np.zeros_like(x)
    for head in range(model.heads):
        rows = slice(head * a, (head + 1) * a)
        for i, weights in enumerate(naive_linear_weights(model, p, x, head)):
            mixed[i, rows] = sum(w * (p["V"] @ z + p["b_V"])[rows] for w, z in zip(weights, x, strict=True))
    out = [p["O"] @ row + p["b_O"] for row in mixed]
    return np.array([p["u"] @ np.maximum(p["W"] @ row + p["b"], 0.0) + p["c"] for row in out])


def some_params(model, dtype=np.float64):
    return random_params(TASK, model, dtype)


def some_x(length=LENGTH, dtype=np.float64):
    return np.random.default_rng(2).normal(size=(4, length, FEATURES)).astype(dtype)


@pytest.mark.parametrize("heads", HEADS)
@pytest.mark.parametrize("length", [1, 5])
def test_predictions_follow_the_formula(heads, length):
    model = LinearAttention(hidden=7, heads=heads)
    params, x = some_params(model), some_x(length)
    expected = [naive_linear_attention(model, params, row) for row in x]
    np.testing.assert_allclose(in_double(predict, model, params, x), expected, rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize("heads", HEADS)
def test_probabilities_are_those_that_average_the_values(heads):
    model = LinearAttention(hidden=7, heads=heads)
    params, x = some_params(model), some_x()
    weights = in_double(probabilities, model, params, x)
    assert weights.shape == (4, heads, LENGTH, LENGTH) and (weights > 0).all()
    np.testing.assert_allclose(weights.sum(axis=-1), 1.0, rtol=1e-12)
    for head in range(heads):
        expected = [naive_linear_weights(model, params, row, head) for row in x]
        np.testing.assert_allclose(weights[:, head], expected, rtol=1e-10, atol=1e-13)


def test_moving_positions_moves_answers():
    model = LinearAttention(hidden=7)
    params, x = some_params(model), some_x()
    order = np.random.default_rng(0).permutation(LENGTH)
    out = in_double(predict, model, params, x)
    np.testing.assert_allclose(in_double(predict, model, params, x[:, order]), out[:, order], rtol=1e-10, atol=1e-11)
    changed = x.copy()
    changed[:, LENGTH - 1] += 1.0
    assert (np.abs(in_double(predict, model, params, changed) - out).max(axis=0) > 1e-9).all(), "nobody is masked"


def test_positive_features_are_elu_plus_one():
    t = np.linspace(-8, 8, 401)
    with jax.enable_x64(True):
        np.testing.assert_allclose(positive(jnp.asarray(t)), jax.nn.elu(jnp.asarray(t)) + 1, rtol=1e-12, atol=1e-13)
        slope = jax.vmap(jax.grad(positive))(jnp.asarray(t[t != 0]))
    np.testing.assert_allclose(slope, np.where(t > 0, 1, np.exp(t))[t != 0], rtol=1e-12)


def test_features_far_below_zero_still_weigh():
    """elu(t) + 1 in single precision is 0 below -17, and the weights 0/0."""
    q, k, v = np.random.default_rng(4).normal(size=(3, 2, LENGTH, 1, FEATURES)).astype(np.float32)
    model = LinearAttention()
    far, near = (np.asarray(model.mix(*map(jnp.asarray, (q - 9, k - shift, v)))) for shift in (30, 20))
    assert np.isfinite(far).all()
    np.testing.assert_allclose(far, near, rtol=2e-4, atol=1e-5)  # both are exp: the shift cancels


def test_parameters_are_drawn_as_for_softmax_attention():
    model = LinearAttention(hidden=16)
    params = jax.tree.map(np.asarray, jax.jit(lambda: model.init(KEY, TASK), compiler_options=QUICK)())
    zeros = {"b_Q", "b_K", "b_V", "b_O"}
    assert set(params) == {*"QKVOWbuc", *zeros}
    assert all(params[name].shape == (FEATURES,) and not params[name].any() for name in zeros)
    for name in "QKV":
        bound = math.sqrt(6 / (4 * FEATURES))
        assert 0.95 * bound < np.abs(params[name]).max() <= bound * (1 + 1e-6)


def test_gradients_are_finite_and_reach_every_parameter():
    model, x = LinearAttention(hidden=6), jnp.asarray(some_x(dtype=np.float32))
    gradient = jax.jit(jax.grad(lambda p: jnp.mean(model.predict(p, x) ** 2)), compiler_options=QUICK)(
        some_params(model, np.float32)
    )
    for name, leaf in gradient.items():
        assert np.isfinite(leaf).all() and np.abs(leaf).max() > 1e-6, name


def test_bad_values_and_tasks_are_refused():
    with pytest.raises(KroghError, match="heads=0"):
        LinearAttention(heads=0)
    with pytest.raises(KroghError, match=r"linear-attention model reads sequences.*got the task 'parity'"):
        LinearAttention().check(Parity(n=8, k=2))


@pytest.mark.parametrize("causal", [False, True])
def test_symbols_are_read_as_one_hot_vectors_and_answered_by_a_logit_per_class(causal):
    """With a mask, what a position says is what it would say if it were the last."""
    task, model = MarkovChains(k=4, length=5), LinearAttention(hidden=7, heads=2, causal=causal)
    model.check(task)
    params, x = random_params(task, model), np.random.default_rng(4).integers(0, 4, (3, 5)).astype(np.int32)
    assert params["u"].shape == (4, 7) and params["c"].shape == (4,)
    out, weights = in_double(predict, model, params, x), in_double(probabilities, model, params, x)
    np.testing.assert_allclose(weights.sum(axis=-1), 1.0, rtol=1e-12)
    assert np.any(np.triu(weights, 1)) == (not causal)
    for c, (row, answers) in itertools.product(range(4), zip(x, out, strict=True)):
        of_class = {**params, "u": params["u"][c], "c": params["c"][c]}
        ends = range(1, 6) if causal else [5] * 5
        expected = [naive_linear_attention(model, of_class, np.eye(4)[row[:end]]) for end in ends]
        last = [found[-1] for found in expected] if causal else expected[0]
        np.testing.assert_allclose(answers[:, c], last, rtol=1e-11, atol=1e-11)
