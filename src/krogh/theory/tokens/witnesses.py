"""Numbers that witness two lower bounds on token regression, without training anything.

Feedforward networks see inputs through the span of what they were trained on (Theorem 6): given that span,
the best predictor and its risk are known. Transformers with few heads see the relevant tokens through few linear
functionals (Propositions 3 and 21): given those, the least mean squared error is known. Inputs are standard
Gaussian. Source: qSTR paper, appendices A.2 and B.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from krogh.errors import require, require_integer
from krogh.theory.prediction import check_counts, prediction

Matrix = NDArray[np.float64]


def span_basis(vectors: ArrayLike, *, tolerance: float = 1e-10) -> Matrix:
    """Orthonormal rows that span the rows of `vectors`; shape (rank, columns).

    Directions whose singular value is below `tolerance` times the largest do not count.
    """
    given = _matrix("vectors", vectors)
    _, values, rows = np.linalg.svd(given, full_matrices=False)
    rank = int((values > tolerance * max(values[0], np.finfo(np.float64).tiny)).sum())
    return rows[:rank]


def span_residual(weights: ArrayLike, basis: ArrayLike) -> float:
    """|W (I - V^T V)|_F^2 / |W|_F^2: how much of a first layer W [units, Nd] lies outside the span of V's rows.

    0 for a stationary point with weight decay, 1 for weights that never saw the data.
    """
    w, v = _matrix("weights", weights), _matrix("basis", basis)
    _require_columns("weights", w, v.shape[1])
    total = float((w**2).sum())
    require(total > 0, "weights that are all zero have no share outside the span")
    return float(((w - (w @ v.T) @ v) ** 2).sum()) / total


def span_coverage(basis: ArrayLike, dimension: int) -> Matrix:
    """(1/N) sum_t P_t^T V^T V P_t, shape (d, d): how much of each direction of a token the span sees.

    Columns of V [rank, Nd] run over positions t, then over the d coordinates of a token; P_t places a token at t.
    """
    v = _matrix("basis", basis)
    require_integer("dimension", dimension, 1)
    whole = v.shape[1] % dimension == 0
    require(whole, f"the basis has {v.shape[1]} columns, which dimension={dimension} does not divide")
    blocks = v.reshape(len(v), -1, dimension)
    return np.einsum("kti,ktj->ij", blocks, blocks) / blocks.shape[1]


def oracle_risk(basis: ArrayLike, direction: ArrayLike) -> float:
    """1 - (1/N) sum_t |V P_t u|^2: least risk on simple-1STR, y = <u, x_t>, of what sees x through V only."""
    u = _unit(direction)
    return float(1 - u @ span_coverage(basis, len(u)) @ u)


def average_oracle_risk(basis: ArrayLike, dimension: int) -> float:
    """The oracle risk averaged over u on the sphere: exactly 1 - rank(V)/(Nd)."""
    return float(1 - np.trace(span_coverage(basis, dimension)) / dimension)


def worst_oracle_risk(basis: ArrayLike, dimension: int) -> tuple[float, NDArray[np.float64]]:
    """The largest oracle risk, 1 - lambda_min of the coverage, and the direction u that has it."""
    values, vectors = np.linalg.eigh(span_coverage(basis, dimension))
    return float(1 - values[0]), vectors[:, 0]


def accessible_functionals(attention: ArrayLike, dimension: int, score_directions: ArrayLike | None = None) -> Matrix:
    """Orthonormal basis of the linear functionals of q tokens that H heads show; shape (rank, q d).

    `attention` [H, q] are the heads' weights on the relevant tokens: head h shows sum_j A_hj x_j, the d functionals
    A_h (x) e_r. Where scores read tokens, `score_directions` [H, d] are what head h compares every token with,
    which adds the q functionals e_j (x) w_h. Columns run over tokens, then over coordinates.
    """
    a = _matrix("attention", attention)
    require_integer("dimension", dimension, 1)
    rows = np.kron(a, np.eye(dimension))
    if score_directions is not None:
        w = _matrix("score_directions", score_directions)
        _require_columns("score_directions", w, dimension)
        rows = np.concatenate([rows, np.einsum("jk,hl->jhkl", np.eye(a.shape[1]), w).reshape(-1, rows.shape[1])])
    return span_basis(rows)


def head_label(tokens: ArrayLike) -> Matrix:
    """(1/sqrt(qd)) sum_j (|x_j|^2 - d) of relevant tokens [prompts, q, d]: variance 2."""
    x = np.asarray(tokens, np.float64)
    size = x.shape[1] * x.shape[2]
    return ((x**2).sum(axis=(1, 2)) - size) / math.sqrt(size)


def head_prediction(functionals: ArrayLike, tokens: ArrayLike) -> Matrix:
    """E[label | Vx] = (|Vx|^2 - rank V)/sqrt(qd): the best that can be made of what the heads show."""
    v, x = _matrix("functionals", functionals), np.asarray(tokens, np.float64)
    flat = x.reshape(len(x), -1)
    _require_columns("tokens", flat, v.shape[1])
    return (((flat @ v.T) ** 2).sum(axis=1) - len(v)) / math.sqrt(flat.shape[1])


def head_mmse(functionals: ArrayLike) -> float:
    """2 (qd - rank V)/(qd): the least mean squared error of the label given Vx, at positions of the null half."""
    v = _matrix("functionals", functionals)
    return 2 * (v.shape[1] - len(v)) / v.shape[1]


def head_risk(functionals: ArrayLike) -> float:
    """Half of `head_mmse`: a floor of the risk over all positions, of which half are in the null half."""
    return head_mmse(functionals) / 2


@prediction(
    "qstr/few-heads",
    source="qSTR paper, Propositions 3 and 21 (section 3.1, appendix A.2), by witness",
    constants="the least risk explicit; attention is random, and the simulated risk reproducible by the seed",
)
def few_heads(
    sparsity: int, dimension: int, heads: int, scores_read_tokens: bool = False, prompts: int = 10_000, seed: int = 0
) -> dict[str, Any]:
    """The least risk of what H heads with random attention show of q relevant tokens, and that of the best predictor.

        (qd - rank V)/(qd) for the functionals V that the heads show: the floors of "qstr/head-floor" are attained

    `scores_read_tokens` adds the functionals that scores show where they read tokens. `simulated` is the risk of
    E[label | Vx] on so many prompts.
    """
    check_counts(sparsity=sparsity, dimension=dimension, heads=heads, prompts=prompts)
    require_integer("seed", seed, 0)
    rng = np.random.default_rng(seed)
    attention = rng.random((heads, sparsity))
    directions = rng.standard_normal((heads, dimension)) if scores_read_tokens else None
    shown = accessible_functionals(attention, dimension, directions)
    tokens = rng.standard_normal((prompts, sparsity, dimension))
    errors = (head_label(tokens) - head_prediction(shown, tokens)) ** 2 / 2
    return {
        "functionals": len(shown),
        "least_risk": head_risk(shown),
        "simulated": float(errors.mean()),
        "standard_error": float(errors.std() / math.sqrt(prompts)),
    }


def _matrix(name: str, value: ArrayLike) -> Matrix:
    given = np.asarray(value, np.float64)
    filled = given.ndim == 2 and given.size > 0
    require(filled, f"{name} must be a matrix with at least one entry; got shape {given.shape}")
    return given


def _unit(direction: ArrayLike) -> NDArray[np.float64]:
    u = np.asarray(direction, np.float64)
    norm = float(np.linalg.norm(u))
    one = u.ndim == 1 and abs(norm - 1) < 1e-6
    require(one, f"direction must be a vector of norm 1; got shape {u.shape} and norm {norm:g} (divide by it)")
    return u


def _require_columns(name: str, value: Matrix, columns: int) -> None:
    require(value.shape[1] == columns, f"{name} must have {columns} columns; got {value.shape[1]}")
