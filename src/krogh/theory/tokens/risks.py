"""Squared-error risks of predictions at every position of a prompt: population, averaged and point-wise.

Arrays are [prompts, positions]. The averaged risk is what the experiments minimise and report as test MSE; the
point-wise risk, one position per prompt, is what the Transformer and RNN theorems minimise. In expectation over
the positions they agree; on one sample they agree only if the errors do not depend on the position.
Source: qSTR paper, (2.1)-(2.3).
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from krogh.errors import require, require_integer
from krogh.theory.prediction import check_counts, prediction


def averaged_risk(predictions: ArrayLike, labels: ArrayLike) -> float:
    """(1/(nN)) sum_i sum_j (yhat_ij - y_ij)^2, the averaged empirical risk (2.2); test MSE on a test set."""
    return float(_squared_errors(predictions, labels).mean())


def population_risk(predictions: ArrayLike, labels: ArrayLike) -> tuple[float, float]:
    """(1/N) E|yhat - y|^2, the population risk (2.1), estimated from fresh prompts, and its standard error.

    Positions of one prompt share tokens, so the error bar treats prompts, not positions, as independent; with
    one prompt it is infinite.
    """
    per_prompt = _squared_errors(predictions, labels).mean(axis=1)
    count = len(per_prompt)
    error = float(per_prompt.std(ddof=1)) / math.sqrt(count) if count > 1 else math.inf
    return float(per_prompt.mean()), error


def pointwise_risk(predictions: ArrayLike, labels: ArrayLike, positions: ArrayLike) -> float:
    """(1/n) sum_i (yhat_i - y_i)^2 at position j(i) of prompt i, the point-wise empirical risk (2.3).

    `positions` are whole numbers in [0, N), one per prompt; see `draw_positions`.
    """
    errors = _squared_errors(predictions, labels)
    chosen = np.asarray(positions)
    n, length = errors.shape
    whole = chosen.shape == (n,) and np.issubdtype(chosen.dtype, np.integer)
    require(whole, f"positions must be one whole number per prompt, shape ({n},); got shape {chosen.shape}")
    within = ((chosen >= 0) & (chosen < length)).all()
    require(within, f"positions must lie between 0 and {length - 1}; got {chosen.min()} to {chosen.max()}")
    return float(errors[np.arange(n), chosen].mean())


def draw_positions(prompts: int, length: int, *, seed: int = 0) -> NDArray[np.int64]:
    """One uniformly drawn position per prompt; shape (prompts,)."""
    require_integer("prompts", prompts, 1)
    require_integer("length", length, 1)
    return np.random.default_rng(seed).integers(length, size=prompts)


@prediction(
    "qstr/risk-noise",
    source="qSTR paper, (2.1)-(2.3); deviations derived",
    constants="deviations explicit; the risks of one sample are reproducible by the seed",
)
def risk_noise(samples: int, length: int, shared: bool = False, seed: int = 0) -> dict[str, Any]:
    """How far empirical risks of the zero predictor scatter around its population risk, 1, on simple-1STR.

        averaged sqrt((4N-2)/(n N^2)) with free indices, sqrt(2/n) with `shared` ones;   point-wise sqrt(2/n)

    Labels are standard Gaussian numbers y_ij = z_{t_ij}, with t_ij uniform on 1..N at every position, or one t_i per
    prompt. `averaged`, `pointwise` and `population` (with its error bar) are those of one sample of n prompts.
    """
    check_counts(samples=samples, length=length)
    require_integer("seed", seed, 0)
    rng = np.random.default_rng(seed)
    indices = rng.integers(length, size=(samples, 1 if shared else length))
    labels = np.take_along_axis(rng.standard_normal((samples, length)), indices, axis=1)
    labels = np.broadcast_to(labels, (samples, length))
    zero = np.zeros_like(labels)
    risk, error = population_risk(zero, labels)
    one_position = math.sqrt(2 / samples)
    return {
        "averaged_deviation": one_position if shared else math.sqrt((4 * length - 2) / samples) / length,
        "pointwise_deviation": one_position,
        "averaged": averaged_risk(zero, labels),
        "pointwise": pointwise_risk(zero, labels, draw_positions(samples, length, seed=seed)),
        "population": risk,
        "population_error": error,
    }


def _squared_errors(predictions: ArrayLike, labels: ArrayLike) -> NDArray[np.float64]:
    """(yhat - y)^2 of two arrays of the same shape [prompts, positions]."""
    given, truth = np.asarray(predictions, np.float64), np.asarray(labels, np.float64)
    same = given.shape == truth.shape and given.ndim == 2 and given.size > 0
    require(
        same, f"predictions and labels must both be [prompts, positions]; got shapes {given.shape} and {truth.shape}"
    )
    return (given - truth) ** 2
