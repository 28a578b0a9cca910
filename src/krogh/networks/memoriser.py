"""A ReLU network that repeats given values near given points, exactly (dissertation, Lemma A.25).

    ψ(x; x_0) = (u+2)₊ - (u+1)₊ - (u-1)₊ + (u-2)₊,  u = (x-x_0)/δ:  1 on |x-x_0| ≤ δ, 0 on |x-x_0| ≥ 2δ
    f(x) = Σ_i f(x_i) · [1 - (d_f - Σ_j ψ(x_j; x_ij))/δ]₊

for points that are 4δ apart, in the sup norm: whatever is within δ of a point gets that point's value. Three layers
hold it; in one dimension Σ_i f(x_i) ψ(x; x_i) needs only two.

The source's bump has (x_0-x)/δ in its last two terms: it is 0 at the centre and -1 or 1 far away. The variant "printed"
has it, and does not memorise.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from krogh.errors import require
from krogh.theory.prediction import Variant, check_variant

Array = NDArray[np.float64]

SIGNS = np.array([1.0, -1.0, -1.0, 1.0])
"""Of the four ReLUs of a bump."""

_SLACK = 1e-12
"""Of a comparison of distances that are equal up to rounding."""


@dataclass(frozen=True, eq=False)
class Memoriser:
    """The weights: W1 [d_f+1, 4 n d_f], W2 [4 n d_f + 1, 2n] or None, w; the biases are the last rows.

    `points` [n, d_f] and `values` [n] are what is memorised, `delta` how far from a point its value is still repeated.
    """

    W1: Array
    W2: Array | None
    w: Array
    points: Array
    values: Array
    delta: float

    def __call__(self, x: ArrayLike) -> Array:
        """The network's output for each row of x [batch, d_f]."""
        hidden = _affine_relu(np.asarray(x, np.float64), self.W1)
        if self.W2 is not None:
            hidden = _affine_relu(hidden, self.W2)
        return np.asarray(hidden @ self.w)

    @property
    def parameters(self) -> dict[str, Array]:
        """The weights by name."""
        layers = {"W1": self.W1, "w": self.w}
        return layers if self.W2 is None else {**layers, "W2": self.W2}

    def entry_bounds(self) -> dict[str, float]:
        """The largest magnitude each layer may have: max(1/δ, B/δ+2), d_f/δ and max|f|, with B = max|x_i|.

        The source prints max(1, B)/δ for W1, which the biases exceed.
        """
        largest = float(np.max(np.abs(self.values)))
        first = max(1 / self.delta, boundedness(self.points) / self.delta + 2)
        bounds = {"W1": first, "w": largest}
        return bounds if self.W2 is None else {**bounds, "W2": self.points.shape[1] / self.delta}


def memoriser(
    points: ArrayLike,
    values: ArrayLike,
    delta: float | None = None,
    layers: int = 3,
    variant: Variant = "repaired",
) -> Memoriser:
    """The memoriser of `values` at the rows of `points`; δ is a quarter of their gap unless given, and at most 1."""
    x, f = np.asarray(points, np.float64), np.asarray(values, np.float64)
    check_variant(variant)
    require(x.ndim == 2 and x.size > 0, f"points must be rows of an array [n, d_f]; got the shape {x.shape}")
    require(f.shape == x.shape[:1], f"values must be one per point, {x.shape[:1]}; got the shape {f.shape}")
    require(layers in (2, 3), f"a memoriser has 2 or 3 layers; got layers={layers!r}")
    n, dimension = x.shape
    require(
        layers == 3 or dimension == 1,
        f"two layers memorise numbers, and these points have {dimension} coordinates (try layers=3)",
    )
    gap = injectivity_gap(x)
    reach = min(1.0, gap / 4) if delta is None else float(delta)
    require(0 < reach <= 1, f"delta must be positive and at most 1; got delta={reach!r}")
    require(
        gap >= 4 * reach * (1 - _SLACK),
        f"points must be 4·delta={4 * reach:g} apart in the sup norm; the nearest two are {gap:g} apart "
        f"(try delta={gap / 4:g})",
    )
    W1 = _bumps(x, reach, variant)
    if layers == 2:
        return Memoriser(W1, None, np.outer(SIGNS, f).ravel(), x, f, reach)
    W2 = np.zeros((4 * n * dimension + 1, 2 * n))
    inside = W2[:-1].reshape(4, n, dimension, 2, n)  # (β, i, j, β', i')
    for i in range(n):
        inside[:, i, :, :, i] = SIGNS[:, None, None] / reach
    W2[-1] = np.repeat([1 - dimension / reach, -dimension / reach], n)
    return Memoriser(W1, W2, np.concatenate([f, -f]), x, f, reach)


def _bumps(points: Array, delta: float, variant: Variant) -> Array:
    """The first layer: columns (β, i, j) hold the four ReLUs of the bump of coordinate j of point i."""
    n, dimension = points.shape
    if variant == "repaired":
        slopes, shifts = np.array([1.0, 1.0, 1.0, 1.0]), np.array([2.0, 1.0, -1.0, -2.0])
    else:
        slopes, shifts = np.array([1.0, 1.0, -1.0, -1.0]), np.array([2.0, 1.0, 2.0, 1.0])
    weights = np.zeros((dimension + 1, 4, n, dimension))
    for j in range(dimension):
        weights[j, :, :, j] = slopes[:, None] / delta
    weights[-1] = -slopes[:, None, None] * points[None] / delta + shifts[:, None, None]
    return weights.reshape(dimension + 1, -1)


def _affine_relu(x: Array, W: Array) -> Array:
    return np.maximum(x @ W[:-1] + W[-1], 0.0)


def injectivity_gap(points: ArrayLike) -> float:
    """The least ‖p - p'‖_∞ between two rows, infinite for one row: f is γ-injective where its values have gap ≥ γ."""
    x = np.asarray(points, np.float64)
    distances = np.max(np.abs(x[:, None] - x[None]), axis=-1)
    return float(np.min(distances, where=~np.eye(len(x), dtype=bool), initial=np.inf))


def monotonicity_gap(values: ArrayLike) -> float:
    """The least increment f(r+1) - f(r) of values over r = 0..s: f is γ-strictly monotone where it is ≥ γ."""
    return float(np.min(np.diff(np.asarray(values, np.float64)), initial=np.inf))


def boundedness(points: ArrayLike) -> float:
    """The largest ‖p‖_∞ of the rows: f is B-bounded where it is ≤ B."""
    return float(np.max(np.abs(np.asarray(points, np.float64))))
