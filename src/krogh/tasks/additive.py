"""Functions that are sums over positions, F(x) = c + Σ_i α_i(x_i): the best of them, by squares and by mistakes.

What the concept class of *Can SGD learn recurrent neural networks with provable generalization?* has to offer where
there is one label at the end, and the class of the lower bounds of *Learning and generalization in RNNs* (equations 61
and 62, Theorem H.1). α_i ranges over polynomials of the token at i; for a token that has two values a polynomial of
degree 1 is any function of it.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from krogh.errors import require, require_integer

Floats = NDArray[np.float64]
THRESHOLD = 0.5
MOST_STRINGS = 600
"""Distinct inputs up to which the best number of mistakes is searched for exactly."""


def position_features(x: ArrayLike, degree: int = 1) -> Floats:
    """A column of ones and, of every position, the monomials of its coordinates: [size, 1 + positions · monomials].

    x is [size, positions, coordinates], or [size, positions] for strings of numbers.
    """
    require_integer("degree", degree, 1)
    given = np.asarray(x, np.float64)
    given = given[..., None] if given.ndim == 2 else given
    require(given.ndim == 3, f"inputs have the shape [size, positions, coordinates]; got {list(given.shape)}")
    size, _, coordinates = given.shape
    powers = [
        chosen
        for d in range(1, degree + 1)
        for chosen in itertools.combinations_with_replacement(range(coordinates), d)
    ]
    columns = [np.prod(given[:, :, list(chosen)], axis=-1) for chosen in powers]
    return np.concatenate([np.ones((size, 1)), np.stack(columns, axis=-1).reshape(size, -1)], axis=1)


def fit_squares(features: ArrayLike, y: ArrayLike, weights: ArrayLike | None = None) -> Floats:
    """The coefficients of least (weighted) squares; the smallest ones where several do.

    Columns may depend on each other up to the rounding of float32 (the squares of a unit token add up): directions
    below 10^-6 of the largest are left out, lest the rounding be fitted.
    """
    a, b = np.asarray(features, np.float64), np.asarray(y, np.float64)
    if weights is not None:
        root = np.sqrt(np.asarray(weights, np.float64))
        a, b = a * root[:, None], b * root
    return np.asarray(np.linalg.lstsq(a, b, rcond=1e-6)[0])


def unexplained(features: ArrayLike, y: ArrayLike, weights: ArrayLike | None = None) -> float:
    """The share of the variance of y that no combination of the features explains (FVU); 0 where y does not vary."""
    b = np.asarray(y, np.float64)
    p = np.full(len(b), 1 / len(b)) if weights is None else np.asarray(weights, np.float64) / np.sum(weights)
    variance = float(p @ (b - p @ b) ** 2)
    if variance <= 1e-15:
        return 0.0
    residual = b - np.asarray(features, np.float64) @ fit_squares(features, b, p)
    return float(p @ residual**2) / variance


@dataclass(frozen=True, eq=False)
class Fewest:
    """The coefficients with the fewest mistakes, their probability, and a lower bound that was proved for it."""

    coefficients: Floats
    error: float
    bound: float

    @property
    def exact(self) -> bool:
        return self.error - self.bound < 1e-9


def fewest_mistakes(
    features: ArrayLike, labels: ArrayLike, weights: ArrayLike | None = None, *, seconds: float = 120.0
) -> Fewest:
    """The least probability of sign(F(x) - 1/2) being wrong about labels 0 and 1, by a mixed-integer program.

    min Σ_q p_q e_q  with  s_q ⟨α, f_q⟩ ≥ 1 - M e_q,  e_q ∈ {0, 1},  |α| ≤ bound, over the distinct inputs q with their
    labels s_q = ±1. The first feature is the constant. A threshold function of n bits has integer weights up to
    2^-n (n+1)^((n+1)/2) (Muroga): where features are bits, or affine in them, the bound on α loses none.
    """
    from scipy import optimize, sparse

    f, y = np.asarray(features, np.float64), np.asarray(labels)
    require(bool(np.isin(y, (0, 1)).all()), f"labels must be 0 or 1; got {np.unique(y)[:5].tolist()}")
    p = np.full(len(y), 1 / len(y)) if weights is None else np.asarray(weights, np.float64) / np.sum(weights)
    rows, place = np.unique(np.column_stack([f, y]), axis=0, return_inverse=True)
    p = np.bincount(place.ravel(), p)
    require(
        len(rows) <= MOST_STRINGS,
        f"the fewest mistakes are searched for on at most {MOST_STRINGS} distinct inputs; got {len(rows)} "
        "(try fit_squares)",
    )
    sign = 2 * rows[:, -1] - 1
    chosen, low, span = _independent(rows[:, :-1])
    unit = np.column_stack([np.ones(len(rows)), (rows[:, chosen] - low) / span])
    columns = unit.shape[1]
    most = 2.0 * max(2.0, 2.0 ** -(columns - 1) * columns ** (columns / 2))
    large = 1 + most * float(np.max(unit.sum(axis=1)))
    solved = optimize.milp(
        c=np.concatenate([np.zeros(columns), p]),
        constraints=optimize.LinearConstraint(
            sparse.hstack([sparse.csr_matrix(sign[:, None] * unit), large * sparse.identity(len(unit))]), lb=1.0
        ),
        bounds=optimize.Bounds(
            np.concatenate([np.full(columns, -most), np.zeros(len(unit))]),
            np.concatenate([np.full(columns, most), np.ones(len(unit))]),
        ),
        integrality=np.concatenate([np.zeros(columns), np.ones(len(unit))]),
        # with presolve HiGHS prints a line of its own, among what a program may be reading
        options={"time_limit": seconds, "mip_rel_gap": 0.0, "presolve": False},
    )
    require(solved.x is not None, f"no additive function was found within {seconds:g} s: {solved.message}")
    found = np.asarray(solved.x[:columns], np.float64)
    error = float(p @ (sign * (unit @ found) <= 0))
    coefficients = np.zeros(f.shape[1])
    coefficients[chosen] = found[1:] / span / 2
    coefficients[0] = THRESHOLD + found[0] / 2 - float(low @ coefficients[chosen])  # F is compared with 1/2, not with 0
    bound = solved.mip_dual_bound
    return Fewest(coefficients, error, min(error, 0.0 if bound is None or not math.isfinite(bound) else float(bound)))


def _independent(features: Floats) -> tuple[NDArray[np.int64], Floats, Floats]:
    """Columns that, with the constant, span all others; where each begins, and how wide it is."""
    chosen: list[int] = []
    basis = np.ones((len(features), 1)) / math.sqrt(len(features))
    for column in range(features.shape[1]):
        rest = features[:, column] - basis @ (basis.T @ features[:, column])
        rest -= basis @ (basis.T @ rest)
        size = np.linalg.norm(rest)
        if size > 1e-6 * max(1.0, float(np.linalg.norm(features[:, column]))):
            chosen.append(column)
            basis = np.column_stack([basis, rest / size])
    kept = features[:, chosen]
    low = kept.min(axis=0, initial=np.inf)
    return np.array(chosen, np.int64), low, kept.max(axis=0, initial=-np.inf) - low


def mistakes(prediction: ArrayLike, labels: ArrayLike, weights: ArrayLike | None = None) -> float:
    """The probability that a prediction is on the wrong side of 1/2; one that is 1/2 is wrong."""
    far = (np.asarray(prediction, np.float64) - THRESHOLD) * (2 * np.asarray(labels, np.float64) - 1)
    p = np.full(len(far), 1 / len(far)) if weights is None else np.asarray(weights, np.float64) / np.sum(weights)
    return float(p @ (far <= 0))
