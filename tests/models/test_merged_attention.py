"""Merged attention against its formula, position by position, and what the frozen blocks keep attention from seeing."""

from __future__ import annotations

import jax
import numpy as np
import pytest
from support import random_params

from krogh.errors import KroghError
from krogh.models.token_attention import MergedAttention
from krogh.registry import MODELS
from krogh.tasks import Parity
from krogh.tasks.codes import sign_codes
from krogh.tasks.links import MeanLink, unit_vector
from krogh.tasks.token_regression import TokenRegression

KEY = jax.random.key(3)
D, Q, SIZE, N = 3, 2, 5, 4
TASK = TokenRegression(N, D, MeanLink(unit_vector(D)), sign_codes(N, SIZE), Q)
FEATURES = TASK.features
QUICK = {"xla_backend_optimization_level": 0}

draw = jax.jit(lambda model: model.init(KEY, TASK), compiler_options=QUICK)
predict = jax.jit(lambda model, params, x: model.predict(params, x), compiler_options=QUICK)
attend = jax.jit(lambda model, params, x: model.attention(params, x), compiler_options=QUICK)


def naive_merged_attention(model, p, z):
    """ŷ of one prompt z [N, De], head by head and position by position."""
    blocks = p.get("QK")
    out = []
    for i in range(len(z)):
        brought = []
        for h in range(model.heads):
            if blocks is None:
                d = p["QK_data"].shape[1]
                scores = [
                    z[i, :d] @ p["QK_data"][h] @ z[j, :d] + z[i, d:] @ p["QK_position"][h] @ z[j, d:]
                    for j in range(len(z))
                ]
            else:
                scores = [z[i] @ blocks[h] @ z[j] for j in range(len(z))]
            weight = np.exp(np.array(scores) - np.max(scores))
            weight /= weight.sum()
            brought.append(sum(weight[j] * z[j] for j in range(len(z))))
        hidden = p["W"] @ np.concatenate(brought) + p["b"]
        out.append(p["a"] @ np.maximum(hidden, 0.0))
    return np.array(out)


def some_params(model, scale=0.5, seed=1):
    return random_params(TASK, model, np.float32, scale, seed)


def some_prompts(size=5, seed=2):
    return np.random.default_rng(seed).normal(size=(size, N, FEATURES)).astype(np.float32) / 2


@pytest.mark.parametrize("frozen", [False, True])
@pytest.mark.parametrize("heads", [1, 3])
def test_predictions_follow_the_formula(heads, frozen):
    model = MergedAttention(heads, hidden=6, frozen_data_blocks=frozen)
    params, x = some_params(model), some_prompts()
    double = {name: value.astype(np.float64) for name, value in params.items()}
    expected = [naive_merged_attention(model, double, row.astype(np.float64)) for row in x]
    np.testing.assert_allclose(predict(model, params, x), expected, rtol=2e-4, atol=2e-5)


def test_names_shapes_and_draws():
    model = MergedAttention(heads=2, hidden=7)
    params = jax.tree.map(np.asarray, draw(model))
    assert {name: leaf.shape for name, leaf in params.items()} == {
        "QK": (2, FEATURES, FEATURES),
        "W": (7, 2 * FEATURES),
        "b": (7,),
        "a": (7,),
    }
    assert np.std(params["QK"]) * FEATURES == pytest.approx(1, rel=0.1)
    for name, fan_in in (("W", 2 * FEATURES), ("b", 2 * FEATURES), ("a", 7)):
        assert np.abs(params[name]).max() <= fan_in**-0.5
    assert np.abs(params["W"]).max() > 0.9 * (2 * FEATURES) ** -0.5
    wider = draw(MergedAttention(2, 7, attention_scale=3.0))
    np.testing.assert_allclose(wider["QK"], 3 * params["QK"], rtol=1e-6)
    np.testing.assert_array_equal(wider["W"], params["W"])
    assert MODELS["merged-attention"] is MergedAttention


def test_rows_of_the_matrix_are_queries_and_scores_are_not_scaled():
    model, x = MergedAttention(1, 2), some_prompts()
    weights = np.zeros((1, FEATURES, FEATURES), np.float32)
    weights[0, 1, 4] = 1.7
    attention = np.asarray(attend(model, {"QK": weights}, x))[:, 0]
    scores = 1.7 * x[:, :, None, 1] * x[:, None, :, 4]
    expected = np.exp(scores) / np.exp(scores).sum(-1, keepdims=True)
    np.testing.assert_allclose(attention, expected, rtol=1e-4)
    np.testing.assert_allclose(attention.sum(-1), 1, rtol=1e-5)


def test_large_scores_stay_finite():
    model = MergedAttention(2, 4)
    params = some_params(model)
    params["QK"] = params["QK"] * np.float32(1000)
    out = np.asarray(predict(model, params, some_prompts()))
    assert np.isfinite(out).all()


def test_frozen_blocks_are_zero_and_hide_the_tokens_from_positions_without_one():
    """What Proposition 21 assumes: where x_i = 0, attention is a function of the indices alone."""
    frozen, free = MergedAttention(2, 4, frozen_data_blocks=True), MergedAttention(2, 4)
    params = some_params(frozen)
    whole = np.asarray(jax.jit(frozen.query_key)(params))
    np.testing.assert_array_equal(whole[:, :D, :D], params["QK_data"])
    np.testing.assert_array_equal(whole[:, D:, D:], params["QK_position"])
    assert not whole[:, :D, D:].any() and not whole[:, D:, :D].any()

    x = some_prompts()
    x[:, 2:, :D] = 0.0
    changed = x.copy()
    changed[:, :2, :D] += 1.0
    for model, weights, blind in ((frozen, params, True), (free, some_params(free), False)):
        before, after = (np.asarray(attend(model, weights, z))[:, :, 2:] for z in (x, changed))
        assert np.array_equal(before, after) == blind
    assert np.any(
        np.asarray(attend(frozen, params, x))[:, :, :2] != np.asarray(attend(frozen, params, changed))[:, :, :2]
    )


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: MergedAttention(0, 4), "heads must be an integer at least 1; got heads=0"),
        (lambda: MergedAttention(1, 0), "hidden must be an integer at least 1; got hidden=0"),
        (lambda: MergedAttention(1, 4, attention_scale=0.0), "attention_scale must be greater than 0"),
        (
            lambda: MergedAttention(1, 4).check(Parity(8, 2)),
            r"reads sequences of shape .*; got the task 'parity'",
        ),
    ],
)
def test_bad_input_gets_one_clear_error(make, message):
    with pytest.raises(KroghError, match=message):
        make()
