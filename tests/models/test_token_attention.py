"""Self-attention over tokens: formula, symmetry, what the softmax forgets, how it is drawn."""

from __future__ import annotations

import itertools
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from support import in_double, random_params

from krogh.errors import KroghError
from krogh.models.token_attention import TokenAttention
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
query_key = jax.jit(lambda model, params, x: model.query_key(params), compiler_options=QUICK)


def naive_attention_weights(model, p, x, head):
    """The probabilities of one head, query by query and key by key."""
    a = x.shape[1] // model.heads
    rows = slice(head * a, (head + 1) * a)
    weights = []
    for query in x:
        q = (p["Q"] @ query + p["b_Q"])[rows]
        scores = np.array([q @ (p["K"] @ key)[rows] for key in x]) / math.sqrt(a)
        raised = np.exp(scores - scores.max())
        weights.append(raised / raised.sum())
    return np.array(weights)


def naive_token_attention(model, p, x):
    """Heads one after the other, written into one row per position; then the read-out."""
    a = x.shape[1] // model.heads
    mixed = np.zeros_like(x)
    for head in range(model.heads):
        rows = slice(head * a, (head + 1) * a)
        for i, weights in enumerate(naive_attention_weights(model, p, x, head)):
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
    model = TokenAttention(hidden=7, heads=heads)
    params, x = some_params(model), some_x(length)
    expected = [naive_token_attention(model, params, row) for row in x]
    np.testing.assert_allclose(in_double(predict, model, params, x), expected, rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize("heads", HEADS)
def test_probabilities_are_those_that_average_the_values(heads):
    model = TokenAttention(hidden=7, heads=heads)
    params, x = some_params(model), some_x()
    weights = in_double(probabilities, model, params, x)
    assert weights.shape == (4, heads, LENGTH, LENGTH)
    np.testing.assert_allclose(weights.sum(axis=-1), 1.0, rtol=1e-12)
    for head in range(heads):
        expected = [naive_attention_weights(model, params, row, head) for row in x]
        np.testing.assert_allclose(weights[:, head], expected, rtol=1e-10, atol=1e-13)


def test_the_query_key_map_has_queries_in_its_rows():
    """⟨z_i, M z_j⟩/√a with M = W_Qᵀ W_K are the scores, up to what is the same for every key."""
    model = TokenAttention(hidden=7)
    params, x = some_params(model), some_x()
    params["b_Q"][:] = 0
    (merged,) = in_double(query_key, model, params, x)
    np.testing.assert_allclose(merged, params["Q"].T @ params["K"], rtol=1e-12, atol=1e-12)
    scores = np.einsum("bif,fg,bjg->bij", x, merged, x) / math.sqrt(FEATURES)
    expected = np.exp(scores) / np.exp(scores).sum(axis=-1, keepdims=True)
    np.testing.assert_allclose(in_double(probabilities, model, params, x)[:, 0], expected, rtol=1e-9)


def test_the_query_key_maps_of_several_heads_add_up():
    model = TokenAttention(hidden=7, heads=FEATURES)
    params, x = some_params(model), some_x()
    merged = in_double(query_key, model, params, x)
    np.testing.assert_allclose(merged[2], np.outer(params["Q"][2], params["K"][2]), rtol=1e-12)
    np.testing.assert_allclose(merged.sum(axis=0), params["Q"].T @ params["K"], rtol=1e-11, atol=1e-12)


@pytest.mark.parametrize("heads", HEADS)
def test_moving_positions_moves_answers(heads):
    """No mask and no positions of its own: equivariant under every permutation, and everyone sees everyone."""
    model = TokenAttention(hidden=7, heads=heads)
    params, x = some_params(model), some_x()
    order = np.random.default_rng(0).permutation(LENGTH)
    out = in_double(predict, model, params, x)
    np.testing.assert_allclose(in_double(predict, model, params, x[:, order]), out[:, order], rtol=1e-10, atol=1e-11)
    for place in range(LENGTH):
        changed = x.copy()
        changed[:, place] += 1.0
        assert (np.abs(in_double(predict, model, params, changed) - out).max(axis=0) > 1e-9).all()


def test_a_key_bias_would_change_nothing():
    """Why PyTorch's key bias is no parameter here: added to every key by hand, it is forgotten."""
    model = TokenAttention(hidden=7)
    q, k, v = np.random.default_rng(4).normal(size=(3, 2, LENGTH, 1, FEATURES))
    bias = np.random.default_rng(5).normal(size=FEATURES)
    with jax.enable_x64(True):
        without = model.mix(*map(jnp.asarray, (q, k, v)))
        given = model.mix(*map(jnp.asarray, (q, k + bias, v)))
        elsewhere = model.mix(*map(jnp.asarray, (q + bias, k, v)))
    np.testing.assert_allclose(given, without, rtol=1e-11, atol=1e-12)
    assert np.abs(np.asarray(elsewhere - without)).max() > 1e-3
    assert "b_K" not in some_params(model)


def test_large_scores_stay_finite():
    model = TokenAttention(hidden=7)
    params, x = some_params(model, np.float32), some_x(dtype=np.float32)
    params["Q"] *= np.float32(1e4)
    assert np.isfinite(predict(model, params, x)).all()


def test_parameters_are_drawn_as_pytorch_does():
    model = TokenAttention(hidden=300)
    task = TokenRegression(16, 10, LinearLink(unit_vector(10)))
    features = task.input_shape[1]
    params = jax.tree.map(np.asarray, jax.jit(lambda: model.init(KEY, task), compiler_options=QUICK)())
    bounds = {name: math.sqrt(6 / (4 * features)) for name in "QKV"}
    bounds |= dict.fromkeys(("O", "W", "b"), 1 / math.sqrt(features)) | dict.fromkeys("uc", 1 / math.sqrt(300))
    zeros = {"b_Q", "b_V", "b_O"}
    assert set(params) == set(bounds) | zeros
    assert all(params[name].shape == (features,) and not params[name].any() for name in zeros)
    for name, bound in bounds.items():
        leaf = params[name]
        assert np.abs(leaf).max() <= bound * (1 + 1e-6), name
        if leaf.size > 100:
            assert np.abs(leaf).max() > 0.97 * bound, name
            spread = 4.5 * math.sqrt(4 / 5 / leaf.size) * bound**2 / 3
            assert leaf.var() == pytest.approx(bound**2 / 3, abs=spread), name
    shapes = {name: leaf.shape for name, leaf in params.items() if name not in zeros}
    square = (features, features)
    assert shapes == dict.fromkeys("QKVO", square) | {"W": (300, features), "b": (300,), "u": (300,), "c": ()}


def test_gradients_are_finite_and_reach_every_parameter():
    model, x = TokenAttention(hidden=6), jnp.asarray(some_x(dtype=np.float32))
    gradient = jax.jit(jax.grad(lambda p: jnp.mean(model.predict(p, x) ** 2)), compiler_options=QUICK)(
        some_params(model, np.float32)
    )
    for name, leaf in gradient.items():
        assert np.isfinite(leaf).all() and np.abs(leaf).max() > 1e-6, name


def test_the_source_uses_one_head_and_a_hundred_neurons():
    assert TokenAttention() == TokenAttention(hidden=100, heads=1)


def test_bad_values_and_tasks_are_refused():
    with pytest.raises(KroghError, match="hidden=0"):
        TokenAttention(hidden=0)
    with pytest.raises(KroghError, match="heads=0"):
        TokenAttention(heads=0)
    with pytest.raises(KroghError, match=r"token-attention model reads sequences.*got the task 'parity'"):
        TokenAttention().check(Parity(n=8, k=2))
    with pytest.raises(
        KroghError, match=rf"divide the {FEATURES} features.*heads={FEATURES + 3} .try heads={FEATURES}"
    ):
        TokenAttention(heads=FEATURES + 3).check(TASK)
    TokenAttention(heads=FEATURES).check(TASK)


@pytest.mark.parametrize("causal", [False, True])
def test_symbols_are_read_as_one_hot_vectors_and_answered_by_a_logit_per_class(causal):
    """With a mask, what a position says is what it would say if it were the last."""
    task, model = MarkovChains(k=4, length=5), TokenAttention(hidden=7, heads=2, causal=causal)
    model.check(task)
    params, x = random_params(task, model), np.random.default_rng(4).integers(0, 4, (3, 5)).astype(np.int32)
    assert params["u"].shape == (4, 7) and params["c"].shape == (4,)
    out, weights = in_double(predict, model, params, x), in_double(probabilities, model, params, x)
    np.testing.assert_allclose(weights.sum(axis=-1), 1.0, rtol=1e-12)
    assert np.any(np.triu(weights, 1)) == (not causal)
    for c, (row, answers) in itertools.product(range(4), zip(x, out, strict=True)):
        of_class = {**params, "u": params["u"][c], "c": params["c"][c]}
        ends = range(1, 6) if causal else [5] * 5
        expected = [naive_token_attention(model, of_class, np.eye(4)[row[:end]]) for end in ends]
        last = [found[-1] for found in expected] if causal else expected[0]
        np.testing.assert_allclose(answers[:, c], last, rtol=1e-11, atol=1e-11)
