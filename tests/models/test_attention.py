"""The heads of the theory, stacks of them, and the construction network, against loops over tokens in plain NumPy."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from krogh.errors import KroghError
from krogh.models.attention import (
    ACTIVATIONS,
    MAPPINGS,
    READOUTS,
    AttentionBlocks,
    AttentionMlp,
    activation_of,
    attend,
    attention_block,
    attention_blocks,
    attention_head,
    unit_ball,
    with_cls,
)
from krogh.networks import head_inputs as bases
from krogh.registry import MODELS
from krogh.tasks import Parity

T, D, K, HEADS = 6, 5, 4, 3
RANDOM = np.random.default_rng(0)


def normal(*shape: int) -> np.ndarray:
    return RANDOM.normal(size=shape).astype(np.float32)


X, Z, CLS, W = normal(T, D), normal(D), normal(D), normal(D)
Q, KEY, V, C = normal(D, K), normal(D, K), normal(D, K), normal(K, D)


def softmax(z: np.ndarray) -> np.ndarray:
    weights = np.exp(z - z.max())
    return weights / weights.sum()


def close(a, b) -> bool:
    a, b = np.asarray(a, np.float64), np.asarray(b, np.float64)
    return a.shape == b.shape and bool(np.all(np.abs(a - b) <= 1e-4 * (1 + np.abs(b))))


def bilinear_score(W_QK):
    """Score(x, z) = zᵀ W_QK x."""
    return lambda token, context: context @ jnp.asarray(W_QK) @ token


def simplified_head(tokens, query, W_V, W_QK) -> np.ndarray:
    """σ(W_Vᵀ Xᵀ softmax(X W_QKᵀ z)) as a general head."""
    head = attention_head(bilinear_score(W_QK), jax.nn.softmax, lambda token: token @ jnp.asarray(W_V), jax.nn.relu)
    return np.asarray(head(jnp.asarray(tokens), jnp.asarray(query)))


def test_the_general_head_mixes_values_by_normalised_scores():
    def hardest(scores):
        return (scores == jnp.max(scores)).astype(scores.dtype)

    head = attention_head(
        lambda token, context: -jnp.sum((token - context) ** 2),
        hardest,
        lambda token: token[:2] ** 3,
        lambda y: y * 2.0,
    )
    nearest = min(range(T), key=lambda t: float(np.sum((X[t] - Z) ** 2)))
    assert close(head(jnp.asarray(X), jnp.asarray(Z)), 2 * X[nearest, :2] ** 3)


@pytest.mark.parametrize("name", sorted(ACTIVATIONS))
def test_a_layer_is_a_general_head_at_every_token(name):
    sigma = activation_of(name)
    plain = {"identity": lambda z: z, "relu": lambda z: np.maximum(z, 0), "tanh": np.tanh}[name]
    layer = np.asarray(sigma(attend(*map(jnp.asarray, (X, X, Q, KEY, V)))) @ C)
    head = attention_head(
        bilinear_score(Q @ KEY.T),
        jax.nn.softmax,
        lambda token: token @ V,
        lambda y: sigma(y) @ jnp.asarray(C),
    )
    for place in range(T):
        scores = np.array([(X[place] @ Q) @ (X[t] @ KEY) for t in range(T)])  # neither a mask nor 1/√k
        mixed = sum(weight * (X[t] @ V) for t, weight in enumerate(softmax(scores)))
        assert close(layer[place], plain(mixed) @ C)
        assert close(layer[place], head(jnp.asarray(X), jnp.asarray(X[place])))


def test_the_scalar_readout_is_the_last_row_of_the_layer():
    tokens = with_cls(jnp.asarray(X), jnp.asarray(CLS))
    arrays = [jnp.asarray(a) for a in (Q, KEY, V)]
    layer = jax.nn.relu(attend(tokens, tokens, *arrays)) @ C
    value = jax.nn.relu(attend(jnp.asarray(CLS)[None], tokens, *arrays))[0] @ C @ W
    assert close(value, np.asarray(layer)[-1] @ W), "[CLS] is the only query that needs computing"
    rows = np.concatenate([X, CLS[None]])
    mixed = softmax(rows @ (KEY @ (Q.T @ CLS))) @ rows @ V
    assert close(value, np.maximum(mixed, 0) @ C @ W), "[CLS] attends to itself too"


def test_the_simplified_head_is_a_general_one():
    P, values, scores = normal(T, D), normal(HEADS, D, K), normal(HEADS, D, D)
    query = X[2]
    for W_V, W_QK in zip(values, scores, strict=True):
        weights = softmax(np.array([query @ W_QK @ (X[t] + P[t]) for t in range(T)]))
        assert close(simplified_head(X + P, query, W_V, W_QK), np.maximum(W_V.T @ ((X + P).T @ weights), 0))
        assert close(weights, softmax((X + P) @ (W_QK.T @ query)))


def test_the_simplified_head_has_the_scores_of_the_layer():
    mixed = attend(jnp.asarray(X), jnp.asarray(X), jnp.asarray(Q), jnp.asarray(KEY), jnp.asarray(V))
    assert close(simplified_head(X, X[1], V, Q @ KEY.T), np.maximum(np.asarray(mixed)[1], 0))


def test_a_head_without_scores_averages():
    zero = jnp.zeros((D, K))
    assert close(
        attend(jnp.asarray(X), jnp.asarray(X), zero, zero, jnp.asarray(V)), np.tile(X.mean(axis=0) @ V, (T, 1))
    )


def test_projection_onto_the_unit_ball():
    random = np.random.default_rng(1)
    u, v = (
        random.normal(size=(1000, 4)).astype(np.float32) * random.uniform(0, 3, (1000, 1)).astype(np.float32)
        for _ in "uv"
    )
    lengths = np.linalg.norm(u, axis=1, keepdims=True)
    assert (lengths > 1).any() and (lengths < 1).any()
    projected = np.asarray(unit_ball(jnp.asarray(u)))
    assert close(projected, np.where(lengths > 1, u / lengths, u))
    apart = np.linalg.norm(projected - np.asarray(unit_ball(jnp.asarray(v))), axis=1)
    assert np.all(apart <= np.linalg.norm(u - v, axis=1) + 1e-6)
    slope = jax.jacobian(unit_ball)(jnp.zeros(3))
    assert close(slope, np.eye(3)), "a row of zeros has a gradient"


@pytest.mark.parametrize("name", sorted(ACTIVATIONS))
def test_activations_vanish_at_0_and_have_lipschitz_constant_1(name):
    sigma, grid = activation_of(name), np.linspace(-4, 4, 801, dtype=np.float32)
    values = np.asarray(sigma(jnp.asarray(grid)))
    assert values[400] == 0
    steepest = np.max(np.abs(np.diff(values) / np.diff(grid)))
    assert steepest == pytest.approx(1, abs=1e-3)


def test_an_unknown_activation_is_refused():
    with pytest.raises(KroghError, match="unknown activation 'rleu'; did you mean 'relu'"):
        activation_of("rleu")


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


TASK = Parity(n=6, k=2)
NETWORK_KEY = jax.random.key(3)

init = jax.jit(lambda model, key: model.init(key, TASK), compiler_options=QUICK)
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


def network_params(model):
    random = np.random.default_rng(1)
    shapes = jax.eval_shape(lambda: model.init(NETWORK_KEY, TASK))
    return {name: jnp.asarray(0.7 * random.normal(size=leaf.shape), jnp.float32) for name, leaf in shapes.items()}


def small(**settings):
    return AttentionMlp(
        **{"embedding": 5, "heads": 2, "attention": 3, "first_hidden": 7, "second_hidden": 4, **settings}
    )


@pytest.mark.parametrize("mapping", MAPPINGS)
@pytest.mark.parametrize("readout", READOUTS)
def test_the_construction_network_follows_its_formula(mapping, readout):
    model = small(mapping=mapping, readout=readout, read=None if readout == "two-layer" else 2)
    params, x = network_params(model), signs(TASK.n)
    plain = {name: np.asarray(leaf, np.float64) for name, leaf in params.items()}
    expected = np.array([naive_attention_mlp(model, plain, row) for row in x])
    np.testing.assert_allclose(predict(model, params, x), expected, rtol=2e-4, atol=2e-5)
    assert expected.std() > 0


@pytest.mark.parametrize("mapping", MAPPINGS)
def test_attention_weights_are_those_of_the_formula(mapping):
    model = small(mapping=mapping)
    params, x = network_params(model), signs(TASK.n)
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
        shapes = jax.eval_shape(lambda model=model: model.init(NETWORK_KEY, TASK))
        assert {name: leaf.shape for name, leaf in shapes.items()} == {**heads, **extra}
    assert "E" not in jax.eval_shape(lambda: small(mapping="bag").init(NETWORK_KEY, TASK))


@pytest.mark.slow
@pytest.mark.parametrize("mapping", ["deterministic", "bag"])
def test_fixed_embeddings_start_as_a_basis_and_are_not_trained(mapping):
    model = small(mapping=mapping, embedding=19)
    params = init(model, NETWORK_KEY)
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
    params = {**network_params(model), "cls": basis.cls, "P": basis.positions}
    params = {**params, "E": basis.tokens} if mapping == "deterministic" else params
    params = {name: jnp.asarray(leaf, jnp.float32) for name, leaf in params.items()}
    tokens = getattr(bases, mapping)(((1 - x) / 2).astype(int), basis)
    for sequence, found in zip(tokens, np.asarray(attention(model, params, x)), strict=True):
        for head in range(2):
            scores = sequence @ np.asarray(params["K"])[head] @ (np.asarray(params["Q"])[head].T @ basis.cls)
            np.testing.assert_allclose(found[head], np.exp(scores) / np.exp(scores).sum(), rtol=1e-4)


def test_trainable_embeddings_are_trained():
    model = small(readout="two-layer")
    gradient = slope(model, network_params(model), signs(TASK.n))
    assert all(np.any(leaf) for leaf in gradient.values())


def test_a_bag_has_no_order():
    model = small(mapping="bag")
    params, x = network_params(model), signs(TASK.n)
    order = np.random.default_rng(0).permutation(TASK.n)
    moved = predict(model, {**params, "P": params["P"][order]}, x[:, order])
    np.testing.assert_allclose(moved, predict(model, params, x), rtol=1e-5, atol=1e-6)


def test_large_scores_stay_finite():
    model = small()
    params = network_params(model)
    params["Q"] = params["Q"] * 1e4
    assert np.isfinite(predict(model, params, signs(TASK.n))).all()


def test_a_vector_has_no_label_to_be_trained_on():
    model = small(readout="vector", read=2)
    assert "2 numbers" in model.obstacle(TASK) and small().obstacle(TASK) is None
    with pytest.raises(KroghError, match=r"'vector' gives 2 numbers .* \(try readout='mlp'\)"):
        model.forward(network_params(model), jnp.asarray(signs(TASK.n)), jnp.uint32(0))
    model = small(readout="scalar", read=2)
    params, x = network_params(model), signs(TASK.n)
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
def test_bad_settings_of_the_construction_network_are_refused(settings, echo):
    with pytest.raises(KroghError, match=echo):
        small(**settings)


def test_it_is_registered():
    model, task = MODELS["attention-mlp"].example()
    assert MODELS["attention-mlp"] is AttentionMlp
    model.check(task)
