"""The inequalities behind the capacity bounds, each as the ratio of its two sides at random weights and inputs.

A ratio above 1 is a counterexample. Sizes vary over orders of magnitude, since an inequality is tight where one of its
terms is all there is.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from krogh.experiments.theorems import largest
from krogh.theory import attention_lipschitz as lipschitz
from krogh.theory.constructions.truncation import truncation_bounds, truncation_deviation
from krogh.theory.norms import mixed_norm, spectral_norm, token_norm, unit_ball
from krogh.theory.predictions.covering import lagrangian_split

ROUNDING = 1e-9

Array = NDArray[np.float64]


def _weights(random: np.random.Generator, d: int, k: int) -> lipschitz.Weights:
    """Weights of random size: small ones make a softmax flat, large ones make it pick one token."""
    size = np.exp(random.uniform(-2, 2, 4))
    shapes = ((d, k), (d, k), (d, k), (k, d))
    made = [scale * random.normal(size=shape) / math.sqrt(d) for scale, shape in zip(size, shapes, strict=True)]
    return lipschitz.Weights(*made)


def _near(random: np.random.Generator, weights: lipschitz.Weights) -> lipschitz.Weights:
    """The weights moved by a random amount, from hardly to altogether, each matrix by its own."""
    parts = (weights.query, weights.key, weights.value, weights.output)
    moved = [
        part + np.exp(random.uniform(-6, 1)) * float(random.integers(2)) * random.normal(size=part.shape)
        for part in parts
    ]
    return lipschitz.Weights(*moved)


def _tokens(random: np.random.Generator, T: int, d: int) -> Array:
    return unit_ball(np.exp(random.uniform(-1, 1)) * random.normal(size=(T, d)))


def _sizes(random: np.random.Generator) -> tuple[int, int, int]:
    """T, d and k: small, where inequalities are tightest; the softmax of one token is constant."""
    return int(random.integers(2, 7)), int(random.integers(1, 5)), int(random.integers(1, 5))


def _ratio(left: float, right: float) -> float:
    """left / right, and 0 where both vanish."""
    return left / right if right > 0 else (0.0 if left <= ROUNDING else math.inf)


def _softmax(random: np.random.Generator) -> float:
    T = int(random.integers(2, 8))
    a = np.exp(random.uniform(-2, 2)) * random.normal(size=T)
    b = a + np.exp(random.uniform(-6, 1)) * random.choice([-1.0, 1.0], size=T)
    return _ratio(float(np.abs(lipschitz.softmax(a) - lipschitz.softmax(b)).sum()), lipschitz.softmax_bound(a, b))


def _jacobian(random: np.random.Generator) -> float:
    scores = np.exp(random.uniform(-3, 2)) * random.normal(size=int(random.integers(2, 50)))
    return float(mixed_norm(lipschitz.softmax_jacobian(scores), 1, 1)) / lipschitz.SOFTMAX_JACOBIAN


def _lagrangian(random: np.random.Generator) -> float:
    """The least value over the best of 100 admissible shares: no share does better than the formula's."""
    count = int(random.integers(2, 6))
    alpha, beta = np.exp(random.normal(size=(2, count)))
    budget = float(np.exp(random.normal()))
    least, x = lagrangian_split(alpha, beta, budget)
    others = x[None] * np.exp(np.exp(random.uniform(-6, 0, (100, 1))) * random.normal(size=(100, count)))
    others *= budget / (others @ beta)[:, None]
    return float(least) / float((alpha / others**2).sum(axis=1).min())


def _projection(random: np.random.Generator) -> float:
    u, v = np.exp(random.uniform(-1, 2, (2, 1))) * random.normal(size=(2, int(random.integers(1, 5))))
    v = u + np.exp(random.uniform(-5, 1)) * v
    return _ratio(float(np.linalg.norm(unit_ball(u) - unit_ball(v))), float(np.linalg.norm(u - v)))


def _head(random: np.random.Generator) -> float:
    """Lemma 4.7 for dot-product scores, linear φ_in and a ReLU as φ_out."""
    T, d, k = _sizes(random)
    X, z = _tokens(random, T, d), _tokens(random, 1, d)[0]
    before = _weights(random, d, k)
    after = _near(random, before)

    def output(weights: lipschitz.Weights) -> Array:
        return lipschitz.general_head(
            X, z, lambda x, c: x @ weights.query_key @ c, lambda x: x @ weights.value, lipschitz.relu
        )

    bound = lipschitz.head_bound(
        X @ (before.query_key - after.query_key) @ z,
        X @ (before.value - after.value),
        input_bound=float(spectral_norm(before.value)),
        token_bound=float(token_norm(X)),
    )
    return _ratio(float(np.linalg.norm(output(before) - output(after))), bound)


def _truncation(random: np.random.Generator) -> float:
    """Lemma A.24: s scores of at least R, the others at most 0, and what the others change."""
    length = int(random.integers(2, 50))
    kept, margin = int(random.integers(1, length)), float(random.uniform(0, 8))
    slack = random.exponential(random.uniform(0.01, 2), length)
    inside = np.arange(length) < kept
    scores = np.where(inside, margin + slack, -slack)
    return float(truncation_deviation(scores, inside)) / truncation_bounds(length, kept, margin)[0]


def _layer_weights(random: np.random.Generator) -> float:
    T, d, k = _sizes(random)
    X, before = _tokens(random, T, d), _weights(random, d, k)
    after = _near(random, before)
    moved = lipschitz.attention(X, before) - lipschitz.attention(X, after)
    return _ratio(float(token_norm(moved)), lipschitz.attention_weight_bound(X, before, after))


def _layer_inputs(random: np.random.Generator) -> float:
    T, d, k = _sizes(random)
    X, weights = _tokens(random, T, d), _weights(random, d, k)
    other = unit_ball(X + np.exp(random.uniform(-6, 1)) * random.normal(size=X.shape))
    moved = lipschitz.attention(X, weights) - lipschitz.attention(other, weights)
    return _ratio(float(token_norm(moved)), lipschitz.attention_input_bound(X, other, weights))


def _block(random: np.random.Generator) -> float:
    T, d, k = _sizes(random)
    X, before = _tokens(random, T, d), _weights(random, d, k)
    other, after = unit_ball(X + np.exp(random.uniform(-6, 1)) * random.normal(size=X.shape)), _near(random, before)
    moved = lipschitz.block(X, before) - lipschitz.block(other, after)
    return _ratio(float(token_norm(moved)), lipschitz.block_bound(X, other, before, after))


def _network(random: np.random.Generator) -> float:
    T, d, k = _sizes(random)
    X, layers = _tokens(random, T, d), [_weights(random, d, k) for _ in range(int(random.integers(1, 4)))]
    others = [_near(random, layer) for layer in layers]
    w = random.normal(size=d)
    v = w + float(random.integers(2)) * random.normal(size=d)
    moved = lipschitz.network(X, layers, w) - lipschitz.network(X, others, v)
    return _ratio(abs(moved), lipschitz.network_bound(X, layers, others, w, v))


RATIOS: dict[str, Callable[[np.random.Generator], float]] = {
    "head, Lemma 4.7": _head,
    "softmax, Lemma A.6": _softmax,
    "Jacobian, Cor. A.7": _jacobian,
    "shares, Lemma A.8": _lagrangian,
    "projection, Lemma A.9": _projection,
    "layer by weights, Lemma A.13": _layer_weights,
    "layer by inputs, Lemma A.14": _layer_inputs,
    "block, Lemma A.15": _block,
    "network, Lemma A.16": _network,
    "truncation, Lemma A.24": _truncation,
}
"""Each inequality as the ratio of its two sides at random weights and inputs: at most 1 where it holds."""


def worst_ratio(name: str, draws: int) -> float:
    """The largest ratio of an inequality over so many draws; the first of more draws are the same."""
    random = np.random.default_rng([list(RATIOS).index(name), 4])
    return largest([RATIOS[name](random) for _ in range(draws)])
