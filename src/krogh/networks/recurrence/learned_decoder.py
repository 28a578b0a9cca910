"""The best linear decoder of a random network's states (*Learning and generalization in RNNs*, section I).

Ridge regression from states h [N, m] to sequences x [N, q], with states scaled to a mean square of 1 over all entries
and the penalty λ = 10⁻⁶ N:

    primal   B = (HᵀH + λI)⁻¹ Hᵀ X    [m, q], where m ≤ N
    dual     B = Hᵀ (HHᵀ + λI)⁻¹ X    the same matrix, where m > N

The source trains the decoder by SGD with momentum for an unknown number of steps; this is where that ends.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from krogh.errors import require
from krogh.networks.recurrence.random_network import Array

PENALTY = 1e-6
FORMS = ("primal", "dual")
AT_ONCE = 1024
"""Rows that are turned into float64 at once."""


class Deviations(NamedTuple):
    """The averages over sequences of ‖x̂ - x‖₂/‖x‖₂ and of ‖x̂ - x‖_∞."""

    relative_l2: float
    largest: float


def ridge(h: Array, x: Array, penalty: float = PENALTY, form: str | None = None) -> NDArray[np.float64]:
    """The decoder B [m, q] for states [N, m] as they are; the smaller system is solved unless `form` says which.

    In float64, whatever the states are: the largest eigenvalue of the system is some m/λ of the penalty, more than
    float32 can tell from it.
    """
    require(len(h) == len(x), f"states and sequences are as many; got {len(h)} and {len(x)}")
    require(penalty > 0, f"penalty must be above 0; got penalty={penalty!r}")
    require(form in (None, *FORMS), f"form must be 'primal' or 'dual'; got form={form!r}")
    rows, width = h.shape
    dual = width > rows if form is None else form == "dual"
    system = _squared(h.T if dual else h)
    square = float(np.trace(system)) / (rows * width)
    require(square > 0, "states must not all be 0")
    system.flat[:: len(system) + 1] += penalty * rows * square  # scaling the states, turned round
    right = x.astype(np.float64) if dual else _product(h, x)
    solved = scipy.linalg.solve(system, right, assume_a="pos", overwrite_a=True, overwrite_b=True, check_finite=False)
    return _product(h.T, solved, sums=False) if dual else np.asarray(solved)


def _squared(h: Array) -> NDArray[np.float64]:
    """hᵀh in float64, some rows at a time, so that no copy of h is held."""
    total = np.zeros((h.shape[1], h.shape[1]))
    for start in range(0, len(h), AT_ONCE):
        part = h[start : start + AT_ONCE].astype(np.float64)
        total += part.T @ part
    return total


def _product(h: Array, x: Array, sums: bool = True) -> NDArray[np.float64]:
    """hᵀx (where `sums`) or hx in float64, some rows of h at a time."""
    parts = range(0, len(h), AT_ONCE)
    if not sums:
        return np.concatenate([h[at : at + AT_ONCE].astype(np.float64) @ x for at in parts])
    total = np.zeros((h.shape[1], x.shape[1]))
    for at in parts:
        total += h[at : at + AT_ONCE].astype(np.float64).T @ x[at : at + AT_ONCE]
    return total


def deviations(decoded: Array, x: Array) -> Deviations:
    """Of decoded sequences [N, q] from what they were."""
    off = decoded.astype(np.float64) - x
    relative = np.linalg.norm(off, axis=1) / np.linalg.norm(x.astype(np.float64), axis=1)
    return Deviations(float(relative.mean()), float(np.abs(off).max(axis=1).mean()))
