"""The heads of the theory, against loops over tokens in plain NumPy."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from krogh.errors import KroghError
from krogh.models.attention import ACTIVATIONS, activation_of, attend, attention_head, unit_ball, with_cls

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
