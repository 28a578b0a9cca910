"""How far attention moves when its weights or its inputs move: the layers, and the explicit bounds on them.

The layers are those of chapter 4's theory (no 1/sqrt(k), mask, residual or bias), in NumPy and float64: the
general head of Definition 4.3, one attention layer f(Z) = RowSoftmax(Z W_Q (Z W_K)^T) Z W_V, a block
Pi(s(Pi f(Z)) W_C) and a stack of blocks with a linear read-out. Each `*_bound` is the right-hand side of a
lemma; the left-hand side is a difference of two calls of a layer. Source: dissertation, section 4.4 and A.1.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from krogh.errors import require
from krogh.theory.numerics import attend, softmax, spectral_norm, token_norm, unit_ball

Array = NDArray[np.float64]
Activation = Callable[[Array], Array]

SOFTMAX_JACOBIAN = 2.0
"""C_Norm of the softmax: ||J||_{1,1} = 2 sum_i p_i (1 - p_i) <= 2 (Corollary A.7)."""


@dataclass(frozen=True)
class Weights:
    """One layer's matrices: `query`, `key`, `value` of shape (d, k), `output` of shape (k, d)."""

    query: Array
    key: Array
    value: Array
    output: Array

    @property
    def query_key(self) -> Array:
        """W_Q W_K^T, the only form in which queries and keys enter; shape (d, d)."""
        return self.query @ self.key.T

    def gain(self, lipschitz: float = 1.0) -> float:
        """L B_C B_V (1 + 4 B_QK): how much a block can stretch a change of its input (Lemma A.15)."""
        stretch = 1 + 4 * float(spectral_norm(self.query_key))
        return lipschitz * float(spectral_norm(self.output) * spectral_norm(self.value)) * stretch


def softmax_jacobian(scores: ArrayLike) -> Array:
    """J = diag(p) - p p^T at p = softmax(scores); shape (..., T, T)."""
    p = softmax(scores)
    return p[..., None] * (np.eye(p.shape[-1]) - p[..., None, :])


def general_head(
    tokens: Array,
    context: Array,
    score: Callable[[Array, Array], Array],
    phi_in: Callable[[Array], Array],
    phi_out: Callable[[Array], Array],
    norm: Callable[[Array], Array] = softmax,
) -> Array:
    """phi_out(phi_in(X)^T Norm(Score(x_1, z), ..., Score(x_T, z))), Definition 4.3.

    `tokens` is (T, d), `context` is (d,); `score(tokens, context)` gives (T,), `phi_in(tokens)` gives (T, k).
    """
    return phi_out(phi_in(tokens).T @ norm(score(tokens, context)))


def attention(tokens: Array, weights: Weights) -> Array:
    """f(Z) = RowSoftmax(Z W_Q (Z W_K)^T) Z W_V; tokens (T, d) to (T, k)."""
    return attend(tokens, tokens, weights.query, weights.key, weights.value)


def relu(values: Array) -> Array:
    """max(0, x): 1-Lipschitz with relu(0) = 0, as the bounds ask of an activation."""
    return np.maximum(values, 0.0)


def inner(tokens: Array, weights: Weights, activation: Activation = relu) -> Array:
    """s(Pi f(Z)): what the output matrix of a block reads; (T, d) to (T, k)."""
    return activation(unit_ball(attention(tokens, weights)))


def block(tokens: Array, weights: Weights, activation: Activation = relu) -> Array:
    """Pi(s(Pi f(Z)) W_C), each row projected onto the unit ball; (T, d) to (T, d)."""
    return unit_ball(inner(tokens, weights, activation) @ weights.output)


def network(tokens: Array, layers: Sequence[Weights], readout: Array, activation: Activation = relu) -> float:
    """w . g_CLS after all blocks; [CLS] is the last row of `tokens`."""
    for weights in layers:
        tokens = block(tokens, weights, activation)
    return float(readout @ tokens[-1])


def softmax_bound(scores: ArrayLike, others: ArrayLike) -> float:
    """2 ||a - b||_inf >= ||softmax(a) - softmax(b)||_1 (Lemma A.6, Corollary A.7)."""
    difference = np.asarray(scores, dtype=np.float64) - np.asarray(others, dtype=np.float64)
    return SOFTMAX_JACOBIAN * float(np.abs(difference).max())


def head_bound(
    score_change: ArrayLike,
    input_change: ArrayLike,
    *,
    input_bound: float,
    token_bound: float,
    out_lipschitz: float = 1.0,
    norm_jacobian: float = SOFTMAX_JACOBIAN,
) -> float:
    """Change of a general head's output (Lemma 4.7).

        C_Norm L_out B_in B_X ||score change||_inf + L_out max_t ||phi_in change at token t||

    `score_change` is (T,), `input_change` is (T, k); B_in = `input_bound` is that of the first head.
    """
    scores = np.asarray(score_change, dtype=np.float64)
    moved = norm_jacobian * out_lipschitz * input_bound * token_bound * float(np.abs(scores).max())
    return moved + out_lipschitz * float(token_norm(input_change))


def attention_weight_bound(tokens: Array, before: Weights, after: Weights) -> float:
    """Largest change of a row of f(Z) when its weights change, rows of Z at most 1 (Lemma A.13).

    2 ||W_V|| ||(dQK) Z^T||_{2,inf} + ||dW_V^T Z^T||_{2,inf},  dQK = W_Q W_K^T - W'_Q W'_K^T
    """
    _require_unit(tokens)
    scores = token_norm(tokens @ (before.query_key - after.query_key).T)
    values = token_norm(tokens @ (before.value - after.value))
    return float(SOFTMAX_JACOBIAN * spectral_norm(before.value) * scores + values)


def attention_input_bound(tokens: Array, moved: Array, weights: Weights) -> float:
    """Largest change of a row of f when its input changes, rows of both at most 1 (Lemma A.14).

    ||W_V|| (1 + 4 ||W_K W_Q^T||) ||(Z - Z')^T||_{2,inf}
    """
    _require_unit(tokens)
    _require_unit(moved)
    stretch = 1 + 2 * SOFTMAX_JACOBIAN * spectral_norm(weights.query_key)
    return float(spectral_norm(weights.value) * stretch * token_norm(tokens - moved))


def block_bound(
    tokens: Array,
    moved: Array,
    before: Weights,
    after: Weights,
    activation: Activation = relu,
    lipschitz: float = 1.0,
) -> float:
    """Largest change of a row when a block's input changes from Z to Z' and its weights change (Lemma A.15).

        ||dW_C^T s(Pi f'(Z'))^T|| + L B_C B_V (1 + 4 B_QK) ||dZ^T|| + 2 L B_C B_V ||dQK Z'^T|| + L B_C ||dW_V^T Z'^T||

    with all norms over rows (2,inf) and B_C, B_V, B_QK the spectral norms of the weights `before`.
    """
    _require_unit(tokens)
    output = token_norm(inner(moved, after, activation) @ (before.output - after.output))
    stretched = before.gain(lipschitz) * token_norm(tokens - moved)
    weights = lipschitz * spectral_norm(before.output) * attention_weight_bound(moved, before, after)
    return float(output + stretched + weights)


def network_bound(
    tokens: Array,
    before: Sequence[Weights],
    after: Sequence[Weights],
    readout: Array,
    moved_readout: Array,
    activation: Activation = relu,
    lipschitz: float = 1.0,
) -> float:
    """Change of the read-out of a stack of blocks when all weights change: Lemma A.15 unrolled, then A.16.

    A change made in layer i is stretched by the gains of the layers after it, prod_{j>i}; the source prints j<i.
    """
    require(len(before) == len(after), f"the two networks need one depth; got {len(before)} and {len(after)}")
    moved, change = tokens, 0.0
    for old, new in zip(before, after, strict=True):
        change = old.gain(lipschitz) * change + block_bound(moved, moved, old, new, activation, lipschitz)
        moved = block(moved, new, activation)
    return float(np.linalg.norm(readout)) * change + abs(float((readout - moved_readout) @ moved[-1]))


def _require_unit(tokens: Array) -> None:
    largest = float(token_norm(tokens))
    require(
        largest <= 1 + 1e-9,
        f"the lemma asks for tokens of norm at most 1; got one of norm {largest:.6g} (project with unit_ball)",
    )
