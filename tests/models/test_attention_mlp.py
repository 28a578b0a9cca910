"""The construction network against its formula, with the tokens of `head_inputs` where they are fixed."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from krogh.errors import KroghError
from krogh.models.attention import MAPPINGS, READOUTS, AttentionMlp
from krogh.networks import head_inputs as bases
from krogh.registry import MODELS
from krogh.tasks import Parity

TASK = Parity(n=6, k=2)
KEY = jax.random.key(3)
QUICK = {"xla_backend_optimization_level": 0}  # compiling costs more here than running

init = jax.jit(lambda model, key: model.init(key, TASK), compiler_options=QUICK)
predict = jax.jit(lambda model, params, x: model.predict(params, x), compiler_options=QUICK)
attention = jax.jit(lambda model, params, x: model.weights(params, x), compiler_options=QUICK)
slope = jax.jit(
    lambda model, params, x: jax.grad(lambda params: jnp.sum(model.predict(params, x) ** 2))(params),
    compiler_options=QUICK,
)


def naive_weights(model, p, x, head):
    """The tokens X with [CLS] last, and how [CLS] attends to them."""
    if model.mapping == "bag":
        rows = [(1.0 if sign < 0 else 0.0) * vector for sign, vector in zip(x, p["P"], strict=True)]
    else:
        rows = [p["E"][1 if sign < 0 else 0] + place for sign, place in zip(x, p["P"], strict=True)]
    sequence = np.stack([*rows, p["cls"]])
    scores = np.array([p["cls"] @ p["Q"][head] @ p["K"][head].T @ row for row in sequence])
    weights = np.exp(scores - scores.max())
    return sequence, weights / weights.sum()


def naive_attention_mlp(model, p, x):
    """Heads summed, the first q coordinates read, two layers of ReLUs whose last rows are biases; bit 1 is x = -1."""
    y = np.zeros(model.embedding)
    for head in range(model.heads):
        sequence, weights = naive_weights(model, p, x, head)
        y += weights @ sequence @ p["V"][head] @ p["C"][head]
    y = y[: model.coordinates]
    if model.readout in ("scalar", "vector"):
        return y[0] if model.readout == "scalar" else y
    hidden = np.maximum(np.append(y, 1.0) @ p["W1"], 0.0)
    if model.readout == "mlp":
        hidden = np.maximum(np.append(hidden, 1.0) @ p["W2"], 0.0)
    return hidden @ p["w"]


def some_params(model):
    random = np.random.default_rng(1)
    shapes = jax.eval_shape(lambda: model.init(KEY, TASK))
    return {name: jnp.asarray(0.7 * random.normal(size=leaf.shape), jnp.float32) for name, leaf in shapes.items()}


def signs(n, size=9):
    return np.random.default_rng(n).choice([-1.0, 1.0], (size, n)).astype(np.float32)


def small(**settings):
    return AttentionMlp(
        **{"embedding": 5, "heads": 2, "attention": 3, "first_hidden": 7, "second_hidden": 4, **settings}
    )


@pytest.mark.parametrize("mapping", MAPPINGS)
@pytest.mark.parametrize("readout", READOUTS)
def test_predictions_follow_the_formula(mapping, readout):
    model = small(mapping=mapping, readout=readout, read=None if readout == "two-layer" else 2)
    params, x = some_params(model), signs(TASK.n)
    plain = {name: np.asarray(leaf, np.float64) for name, leaf in params.items()}
    expected = np.array([naive_attention_mlp(model, plain, row) for row in x])
    np.testing.assert_allclose(predict(model, params, x), expected, rtol=2e-4, atol=2e-5)
    assert expected.std() > 0


@pytest.mark.parametrize("mapping", MAPPINGS)
def test_attention_weights_are_those_of_the_formula(mapping):
    model = small(mapping=mapping)
    params, x = some_params(model), signs(TASK.n)
    found = np.asarray(attention(model, params, x))
    assert found.shape == (len(x), 2, TASK.n + 1)
    plain = {name: np.asarray(leaf, np.float64) for name, leaf in params.items()}
    for row, weights in zip(x, found, strict=True):
        for head in range(2):
            np.testing.assert_allclose(weights[head], naive_weights(model, plain, row, head)[1], rtol=1e-4, atol=1e-6)


def test_the_three_readouts_have_the_weights_they_use():
    heads = {"E": (2, 5), "cls": (5,), "P": (6, 5), "Q": (2, 5, 3), "K": (2, 5, 3), "V": (2, 5, 3), "C": (2, 3, 5)}
    layers = {
        "mlp": {"W1": (3, 7), "W2": (8, 4), "w": (4,)},
        "two-layer": {"W1": (3, 7), "w": (7,)},
        "scalar": {},
        "vector": {},
    }
    for readout, extra in layers.items():
        model = small(readout=readout, read=2)
        shapes = jax.eval_shape(lambda model=model: model.init(KEY, TASK))
        assert {name: leaf.shape for name, leaf in shapes.items()} == {**heads, **extra}
    assert "E" not in jax.eval_shape(lambda: small(mapping="bag").init(KEY, TASK))


@pytest.mark.slow
@pytest.mark.parametrize("mapping", ["deterministic", "bag"])
def test_fixed_embeddings_start_as_a_basis_and_are_not_trained(mapping):
    model = small(mapping=mapping, embedding=19)
    params = init(model, KEY)
    basis = bases.basis(TASK.n, 19)
    np.testing.assert_array_equal(params["cls"], basis.cls)
    np.testing.assert_allclose(np.linalg.norm(params["P"], axis=1), 1, rtol=1e-6)
    np.testing.assert_allclose(np.abs(np.asarray(params["P"])[:, :16]), 0.25)
    assert not np.any(np.asarray(params["P"])[:, 16:]), "exactly orthogonal to E_0, E_1 and [CLS]"
    assert np.any(np.asarray(params["P"]) != np.asarray(init(model, jax.random.key(4))["P"]))
    if mapping == "deterministic":
        np.testing.assert_array_equal(params["E"], basis.tokens)
    gradient = slope(model, params, signs(TASK.n))
    fixed = {"E", "cls", "P"} & set(params)
    assert all(not np.any(gradient[name]) for name in fixed)
    assert all(np.any(gradient[name]) for name in set(params) - fixed)


@pytest.mark.parametrize("mapping", ["deterministic", "bag"])
def test_tokens_are_those_of_the_input_mappings(mapping):
    model, basis, x = small(mapping=mapping, embedding=9), bases.basis(TASK.n, 9), signs(TASK.n)
    params = {**some_params(model), "cls": basis.cls, "P": basis.positions}
    params = {**params, "E": basis.tokens} if mapping == "deterministic" else params
    params = {name: jnp.asarray(leaf, jnp.float32) for name, leaf in params.items()}
    tokens = getattr(bases, mapping)(((1 - x) / 2).astype(int), basis)
    for sequence, found in zip(tokens, np.asarray(attention(model, params, x)), strict=True):
        for head in range(2):
            scores = sequence @ np.asarray(params["K"])[head] @ (np.asarray(params["Q"])[head].T @ basis.cls)
            np.testing.assert_allclose(found[head], np.exp(scores) / np.exp(scores).sum(), rtol=1e-4)


def test_trainable_embeddings_are_trained():
    model = small(readout="two-layer")
    gradient = slope(model, some_params(model), signs(TASK.n))
    assert all(np.any(leaf) for leaf in gradient.values())


def test_a_bag_has_no_order():
    model = small(mapping="bag")
    params, x = some_params(model), signs(TASK.n)
    order = np.random.default_rng(0).permutation(TASK.n)
    moved = predict(model, {**params, "P": params["P"][order]}, x[:, order])
    np.testing.assert_allclose(moved, predict(model, params, x), rtol=1e-5, atol=1e-6)


def test_large_scores_stay_finite():
    model = small()
    params = some_params(model)
    params["Q"] = params["Q"] * 1e4
    assert np.isfinite(predict(model, params, signs(TASK.n))).all()


def test_a_vector_has_no_label_to_be_trained_on():
    model = small(readout="vector", read=2)
    assert "2 numbers" in model.obstacle(TASK) and small().obstacle(TASK) is None
    with pytest.raises(KroghError, match=r"'vector' gives 2 numbers .* \(try readout='mlp'\)"):
        model.forward(some_params(model), jnp.asarray(signs(TASK.n)), jnp.uint32(0))
    model = small(readout="scalar", read=2)
    params, x = some_params(model), signs(TASK.n)
    forward = jax.jit(lambda params, x: model.forward(params, x, jnp.uint32(0)), compiler_options=QUICK)
    np.testing.assert_allclose(forward(params, x), predict(model, params, x), rtol=1e-5)


@pytest.mark.parametrize(
    ("settings", "echo"),
    [
        ({"mapping": "bags"}, "'bags'; did you mean 'bag'"),
        ({"readout": "mpl"}, "'mpl'; did you mean 'mlp'"),
        ({"embedding": 0}, "embedding=0"),
        ({"embedding": 3, "mapping": "bag"}, "at least 4; got embedding=3"),
        ({"heads": 0}, "heads=0"),
        ({"attention": 0}, "attention=0"),
        ({"first_hidden": 0}, "first_hidden=0"),
        ({"second_hidden": -1}, "second_hidden=-1"),
        ({"read": 6}, "between 1 and 5; got read=6"),
        ({"initialiser": "x"}, "'x'"),
        ({"embedding_initialiser": "y"}, "'y'"),
    ],
)
def test_bad_settings_are_refused(settings, echo):
    with pytest.raises(KroghError, match=echo):
        small(**settings)


def test_it_is_registered():
    model, task = MODELS["attention-mlp"].example()
    assert MODELS["attention-mlp"] is AttentionMlp
    model.check(task)
