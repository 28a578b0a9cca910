"""The depth-L model against its formula, row by row in plain NumPy."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from krogh.errors import KroghError
from krogh.models.attention import AttentionBlocks, attention_block, attention_blocks
from krogh.registry import MODELS
from krogh.tasks import Parity

QUICK = {"xla_backend_optimization_level": 0}  # compiling costs more here than running

predict = jax.jit(lambda model, params, x: model.predict(params, x), compiler_options=QUICK)

SIGMA = {"identity": lambda z: z, "relu": lambda z: np.maximum(z, 0), "tanh": np.tanh}


def naive_projection(rows):
    return np.array([row / max(1.0, np.linalg.norm(row)) for row in rows])


def naive_attention_blocks(model, p, x):
    """g⁽ⁱ⁺¹⁾ = Π(σ(Π(RowSoftmax(g Q (g K)ᵀ) g V)) C), read at [CLS]; bit 1 is x = -1."""
    g = np.stack([*(p["E"][1 if sign < 0 else 0] + place for sign, place in zip(x, p["P"], strict=True)), p["cls"]])
    for layer in range(model.depth):
        scores = (g @ p["Q"][layer]) @ (g @ p["K"][layer]).T
        weights = np.exp(scores - scores.max(axis=1, keepdims=True))
        weights /= weights.sum(axis=1, keepdims=True)
        mixed = naive_projection(weights @ g @ p["V"][layer])
        g = naive_projection(SIGMA[model.activation](mixed) @ p["C"][layer])
    return p["w"] @ g[-1]


def some_params(model, task, scale=0.5):
    random = np.random.default_rng(1)
    shapes = jax.eval_shape(lambda: model.init(jax.random.key(0), task))
    return {name: jnp.asarray(scale * random.normal(size=leaf.shape), jnp.float32) for name, leaf in shapes.items()}


def signs(n, size=9):
    return np.random.default_rng(n).choice([-1.0, 1.0], (size, n)).astype(np.float32)


@pytest.mark.parametrize(
    ("model", "scale"),
    [
        (AttentionBlocks(6, 1, 4), 0.5),
        (AttentionBlocks(6, 3, 4), 1.5),  # rows leave the unit ball
        (AttentionBlocks(6, 2, 4, "tanh"), 1.0),
        (AttentionBlocks(5, 2, 8, "identity"), 0.3),
    ],
)
def test_predictions_follow_the_formula(model, scale):
    task = Parity(n=5, k=2)
    params, x = some_params(model, task, scale), signs(5)
    expected = [
        naive_attention_blocks(model, {k: np.asarray(v, np.float64) for k, v in params.items()}, row) for row in x
    ]
    np.testing.assert_allclose(predict(model, params, x), expected, rtol=2e-4, atol=2e-5)
    assert np.std(expected) > 0


def test_the_plain_function_gives_every_row_and_keeps_it_in_the_unit_ball():
    model, task = AttentionBlocks(6, 2, 4), Parity(n=5, k=2)
    params = {name: jnp.asarray(value) for name, value in some_params(model, task, 2.0).items()}
    x = jnp.asarray(signs(5, 1))
    tokens = jnp.concatenate([params["E"][(x[0] < 0).astype(int)] + params["P"], params["cls"][None, :]])
    weights = [params[name] for name in "QKVC"]
    rows = jax.jit(attention_blocks)(tokens, *weights)
    norms = np.linalg.norm(rows, axis=1)
    assert np.all(norms <= 1 + 1e-6) and np.any(norms > 0.99)
    np.testing.assert_allclose(rows[-1] @ params["w"], predict(model, params, x)[0], rtol=1e-4, atol=1e-5)
    block = jax.jit(attention_block)
    once = block(tokens, tokens, *(weight[0] for weight in weights))
    twice = block(once, once, *(weight[1] for weight in weights))
    np.testing.assert_allclose(rows, twice, rtol=1e-4, atol=1e-5)


def test_the_prediction_is_bounded_by_the_norm_of_w():
    model, task = AttentionBlocks(6, 2, 4), Parity(n=5, k=2)
    params = some_params(model, task, 30.0)
    assert np.all(np.abs(predict(model, params, signs(5, 32))) <= np.linalg.norm(params["w"]) * (1 + 1e-5))


def test_names_shapes_and_registration():
    model, task = MODELS["attention-blocks"].example()
    shapes = jax.eval_shape(lambda: model.init(jax.random.key(0), task))
    assert {name: leaf.shape for name, leaf in shapes.items()} == {
        "E": (2, 16),
        "cls": (16,),
        "P": (8, 16),
        "Q": (2, 16, 8),
        "K": (2, 16, 8),
        "V": (2, 16, 8),
        "C": (2, 8, 16),
        "w": (16,),
    }
    assert MODELS["attention-blocks"] is AttentionBlocks


@pytest.mark.parametrize(
    ("settings", "echo"),
    [
        ({"embedding": 0}, "embedding=0"),
        ({"depth": 0}, "depth=0"),
        ({"attention": -1}, "attention=-1"),
        ({"activation": "tan"}, "'tan'; did you mean 'tanh'"),
        ({"initialiser": "x"}, "'x'"),
        ({"embedding_initialiser": "y"}, "'y'"),
    ],
)
def test_bad_settings_are_refused(settings, echo):
    with pytest.raises(KroghError, match=echo):
        AttentionBlocks(**settings)
