"""Covering numbers: of linear maps, and of networks put together from covers of the linear maps inside them.

N_inf(F; eps; x_1..x_N) is the least number of functions such that each f in F is within eps of one of them on
all N points at once. All bounds here are on its natural logarithm.

An error of at most e_i in the outputs of map i moves a network's output by at most sum_i weight_i e_i, so that
covers of the maps at scales e_i with sum_i weight_i e_i = eps make a cover of the network at eps, and the
logarithms add up. Every capacity bound of chapter 4 is such a list of parts: a head has two, H heads 2H, a
stack of L blocks 3L + 1.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from krogh.errors import require, require_integer
from krogh.theory.numerics import log_binomial
from krogh.theory.prediction import check_open, prediction

Array = NDArray[np.float64]

_SCANNED = 1000
"""Values of a ceiling that are tried one by one around its best value."""
_ROUNDS = 4
"""Rounds in which the shares are found; the logarithms that depend on them have then settled."""


def linear_log_cover(norm: float, inputs: float, scale: ArrayLike, points: float) -> Array:
    """log N_inf of x -> w.x with ||w|| <= B_1 on N points with ||x|| <= B_2 (Lemma A.10, Zhang 2002).

        36 (B_1 B_2 / eps)^2 log(2 ceil(4 B_1 B_2 / eps + 2) N + 1)

    `scale` = eps may be an array. The cover is proper: its functions have ||w|| <= B_1 themselves.
    """
    ratio = norm * inputs / np.asarray(scale, dtype=np.float64)
    return np.asarray(36 * ratio**2 * np.log(2 * np.ceil(4 * ratio + 2) * points + 1))


def maurey_log_cover(radius: float, dimension: int, scale: ArrayLike) -> Array:
    """log of an l2 cover of the l1 ball of radius B in R^d: ceil(B^2 / eps^2) log(2d + 1)."""
    draws = np.ceil((radius / np.asarray(scale, dtype=np.float64)) ** 2)
    return np.asarray(draws * math.log(2 * dimension + 1))


def matrix_log_cover(norm: float, inputs: float, scale: float, points: float, rows: int) -> tuple[float, float]:
    """log N_inf of x -> Wx, W with d_1 rows and ||W^T||_{2,1} <= B_W, and the share a of eps that Maurey gets.

        min over a in (0,1), e_1 = a eps / B_X, e_2 = (1-a) eps, of
        ceil(B_W^2/e_1^2) log(2 d_1 + 1) + 36 (B_W B_X/e_2)^2 log(2 ceil(4 B_W B_X/e_2 + 2) N + 1)

    The second term grows with a, so for each value K of the ceiling the smallest a is best, a = B_W B_X / (eps sqrt K);
    the minimum is sought over K (to about 1e-4 where K is large). Source: dissertation, Lemma 4.10, with the constants
    of its proof.
    """
    ratio = norm * inputs / scale
    if ratio == 0:
        return 0.0, 0.5
    least = math.floor(ratio**2) + 1
    draws = np.unique(np.floor(least * np.geomspace(1, 1e4, 256)))
    costs = _matrix_cost(draws, ratio, points, rows)
    # The ceiling inside the logarithm makes small steps in the cost: look at all that comes near the least.
    near = draws[costs <= costs.min() * 1.001]
    fine = np.linspace(near[0], near[-1], int(min(near[-1] - near[0] + 1, _SCANNED)))
    costs = _matrix_cost(np.floor(fine), ratio, points, rows)
    best = int(np.argmin(costs))
    return float(costs[best]), float(ratio / math.sqrt(math.floor(fine[best])))


def _matrix_cost(draws: Array, ratio: float, points: float, rows: int) -> Array:
    """The explicit bound where the ceiling of Maurey's term is K, an array of whole numbers above ratio^2."""
    left = 1 - ratio / np.sqrt(draws)
    return draws * math.log(2 * rows + 1) + linear_log_cover(ratio, 1.0, left, points)


def lagrangian_split(costs: ArrayLike, weights: ArrayLike, budget: ArrayLike) -> tuple[Array, Array]:
    """The least sum_i alpha_i / x_i^2 with sum_i beta_i x_i = C, and the x that attains it (Lemma A.8).

        gamma^3 / C^2 at x_i = (C / gamma) (alpha_i / beta_i)^(1/3),  gamma = sum_i alpha_i^(1/3) beta_i^(2/3)

    `costs` = alpha and `weights` = beta run along the first axis; further axes, and those of `budget` = C, are solved
    side by side. What costs nothing gets x = 0, what weighs nothing gets x = infinity; both add nothing to the sum.
    """
    alpha, beta = np.broadcast_arrays(np.asarray(costs, dtype=np.float64), np.asarray(weights, dtype=np.float64))
    total = np.asarray(budget, dtype=np.float64)
    require((alpha >= 0).all() and (beta >= 0).all(), "costs and weights must not be negative")
    require((total > 0).all(), f"budget must be greater than 0; got budget={budget!r}")
    gamma = (np.cbrt(alpha) * np.cbrt(beta) ** 2).sum(axis=0)
    require((gamma > 0).all(), "some part must have both a cost and a weight greater than 0")
    free = beta == 0
    share = np.cbrt(np.divide(alpha, beta, where=~free, out=np.zeros(alpha.shape)))
    x = np.where(free & (alpha > 0), np.inf, total / gamma * share)
    return np.asarray(gamma**3 / total**2), x


@dataclass(frozen=True)
class Part:
    """One linear map of a network, W with ||W^T||_{2,1} <= norm, read at inputs of norm at most `inputs`.

    `weight` says how much an error of 1 in the map's outputs can move the network's output, `points` on how many
    vectors the map is read, `rows` how many rows W has; `rows` = None is a single linear function, ||w|| <= norm.
    """

    weight: float
    norm: float
    inputs: float
    points: float
    rows: int | None

    @property
    def reach(self) -> float:
        """weight * norm * inputs, at least the largest effect of the map."""
        return self.weight * self.norm * self.inputs


def shape_constant(parts: Sequence[Part]) -> float:
    """(sum_i (weight_i norm_i inputs_i)^(2/3))^3: the capacity without log / eps^2.

    This is Lemma A.8 for sum_i (norm_i inputs_i)^2 / e_i^2 with sum_i weight_i e_i = 1.
    """
    return math.fsum(part.reach ** (2 / 3) for part in parts) ** 3


def explicit_log_cover(parts: Sequence[Part], scale: ArrayLike) -> Array:
    """log of the cover of the network at eps = `scale` (an array is allowed), every constant explicit.

    Each matrix is covered by a Maurey cover of its row norms and linear covers of its rows; the scales are shared
    out by Lemma A.8, again and again, with the logarithms of the round before. Any shares give a valid bound, and
    these are near the best ones.
    """
    eps = np.atleast_1d(np.asarray(scale, dtype=np.float64))
    active = [part for part in parts if part.reach > 0]
    if not active:
        return np.zeros(np.shape(scale))
    matrices = [part for part in active if part.rows is not None]
    weights = np.array([part.weight * part.inputs for part in matrices] + [part.weight for part in active])[:, None]
    maurey = [part.norm**2 * math.log(2 * (part.rows or 0) + 1) for part in matrices]
    costs = np.array(maurey + [36 * (part.norm * part.inputs) ** 2 for part in active])[:, None] * np.ones_like(eps)
    size, shares, logs = len(matrices), np.empty(0), costs.copy()
    for _ in range(_ROUNDS):
        shares = lagrangian_split(logs, weights, eps)[1]
        for row, part in enumerate(active, start=size):
            log_cover = linear_log_cover(part.norm, part.inputs, shares[row], part.points)
            logs[row] = log_cover * shares[row] ** 2
    total = sum(maurey_log_cover(part.norm, part.rows or 0, shares[row]) for row, part in enumerate(matrices))
    for row, part in enumerate(active, start=size):
        total = total + linear_log_cover(part.norm, part.inputs, shares[row], part.points)
    return np.asarray(total).reshape(np.shape(scale))


@prediction("attention/linear-covering", source="dissertation, Lemma A.10", constants="all explicit")
def linear_covering(scale: float, points: int, norm: float = 1.0, inputs: float = 1.0) -> dict[str, Any]:
    """Log covering number of bounded linear functions: logarithmic in the number of points.

        log N <= 36 (B_1 B_2 / eps)^2 log(2 ceil(4 B_1 B_2 / eps + 2) N + 1)

    `norm` = B_1 bounds ||w||, `inputs` = B_2 bounds ||x||, `scale` = eps. From eps = B_1 B_2 on the zero function
    covers the class, and the logarithm is 0.
    """
    _check_cover(scale, points, norm, inputs)
    bound = float(linear_log_cover(norm, inputs, scale, points))
    return {"log_covering": bound, "log_covering_or_trivial": 0.0 if scale >= norm * inputs else bound}


@prediction("attention/maurey-covering", source="dissertation, proof of Lemma 4.10", constants="all explicit")
def maurey_covering(scale: float, dimension: int, radius: float = 1.0) -> dict[str, Any]:
    """Log of an l2 cover of the l1 ball, by Maurey's sparsification.

    ceil(B^2 / eps^2) log(2d + 1);  exactly counted, log C(2d + k, k) centres, k = ceil(B^2 / eps^2)
    """
    check_open("scale", scale, 0)
    check_open("radius", radius, 0)
    require_integer("dimension", dimension, 1)
    draws = math.ceil((radius / scale) ** 2)
    return {
        "draws": draws,
        "log_covering": float(maurey_log_cover(radius, dimension, scale)),
        "log_centres": log_binomial(2 * dimension + draws, draws),
    }


@prediction(
    "attention/matrix-covering",
    source="dissertation, Lemma 4.10",
    constants="'explicit' has every constant of the proof; 'shape' has constant 1 and hides logarithms",
)
def matrix_covering(scale: float, points: int, rows: int, norm: float = 1.0, inputs: float = 1.0) -> dict[str, Any]:
    """Log covering number of bounded linear maps x -> Wx on N points: logarithmic in N and in the rows of W.

        shape (B_X B_W / eps)^2 log(d_1 N);  explicit: a Maurey cover of the row norms and linear covers of the rows

    `norm` = B_W bounds ||W^T||_{2,1}, the sum of W's row norms; `rows` = d_1. `share` is the part of eps that the
    cover of row norms gets at the optimum. Far above any realistic sample size: to be used for scaling.
    """
    _check_cover(scale, points, norm, inputs)
    require_integer("rows", rows, 1)
    explicit, share = matrix_log_cover(norm, inputs, scale, points, rows)
    return {
        "shape": (norm * inputs / scale) ** 2 * math.log(rows * points),
        "explicit": explicit,
        "share": share,
    }


def _check_cover(scale: float, points: int, norm: float, inputs: float) -> None:
    check_open("scale", scale, 0)
    require_integer("points", points, 1)
    check_open("norm", norm, 0)
    check_open("inputs", inputs, 0)
