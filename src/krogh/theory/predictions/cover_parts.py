"""Covers of networks, put together from covers of the linear maps inside them.

An error of at most e_i in the outputs of map i moves the network's output by at most sum_i weight_i e_i, so that
covers of the maps at scales e_i with sum_i weight_i e_i = eps make a cover of the network at eps, and the
logarithms add up. Every capacity bound of chapter 4 is such a list of parts: a head has two, H heads 2H, a
stack of L blocks 3L + 1.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from krogh.theory.predictions.covering import lagrangian_split, linear_log_cover, maurey_log_cover

Array = NDArray[np.float64]

_ROUNDS = 4
"""Rounds in which the shares are found; the logarithms that depend on them have then settled."""


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
