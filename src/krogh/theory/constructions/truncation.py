"""How far a softmax is from its truncation to the largest scores (dissertation, Lemma A.24).

    z_t ≥ R on s kept positions, z_t ≤ 0 on the T - s others;  z' = z with the others at -∞:
    ‖softmax(z') - softmax(z)‖₁ ≤ 2(T-s)/(s e^R) < 2T e^{-R}

Every selection by attention in this folder rests on it. Where [CLS] is one more position there are T + 1 entries,
and 2T e^{-R} still holds for s ≥ 1.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray

from krogh.errors import require, require_integer

Array = NDArray[np.float64]


def truncated_softmax(scores: ArrayLike, kept: ArrayLike | None = None) -> Array:
    """The softmax along the last axis of the `kept` scores (all unless given), and 0 elsewhere."""
    z = np.asarray(scores, np.float64)
    if kept is not None:
        mask = np.asarray(kept, bool)
        require(np.all(np.any(mask, axis=-1)), "a softmax needs a position to keep; got none")
        z = np.where(mask, z, -np.inf)
    weights = np.exp(z - np.max(z, axis=-1, keepdims=True))
    return np.asarray(weights / np.sum(weights, axis=-1, keepdims=True))


def truncation_deviation(scores: ArrayLike, kept: ArrayLike) -> Array:
    """‖softmax(z') - softmax(z)‖₁: what the positions that are not kept change."""
    return np.asarray(np.sum(np.abs(truncated_softmax(scores, kept) - truncated_softmax(scores)), axis=-1))


def truncation_bounds(length: int, kept: int, margin: float) -> tuple[float, float]:
    """2(T-s)/(s e^R) and 2T e^{-R}, for T = `length` entries, s = `kept` and R = `margin`."""
    require_integer("length", length, 1)
    require_integer("kept", kept, 1, length)
    return 2 * (length - kept) / kept * math.exp(-margin), 2 * length * math.exp(-margin)
