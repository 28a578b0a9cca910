"""The tangent kernel of the ReLU Elman network at initialisation, and regression with it.

The gradients of y_{j,o} = (B h_j)_o by W and by A are sums of outer products, ∂_W = Σ_{i≤j} g_i h_{i-1}ᵀ and ∂_A =
Σ_{i≤j} g_i x_iᵀ with g_i = D_i Back_{i→j}ᵀ e_o, so that for two sequences and any two of their outputs

    K_W = Σ_{i,i'} <g_i, g'_{i'}> <h_{i-1}, h'_{i'-1}>        K_A = Σ_{i,i'} <g_i, g'_{i'}> <x_i, x'_{i'}>

and no matrix of weights' size is formed. Terms with unequal j-i and j'-i' are of relative size O(1/√m), since backward
matrices of different depth decorrelate (*Learning and generalization in RNNs*, Lemma F.11); for one position j these
are the terms i ≠ i' (`aligned=True` leaves them out).

Training W alone (*Can SGD learn recurrent neural networks with provable generalization?*), or W and A (the other
source), from y_init with steps so small that signs keep, is regression with K_W, or K_W + K_A, on y - y_init.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from krogh.errors import require, require_integer, unknown
from krogh.networks.recurrence.random_network import RandomRnn, Run

Array = NDArray[np.floating[Any]]
TRAINED = ("A", "W")


@dataclass(frozen=True, eq=False)
class Kernels:
    """K_W and K_A, each [batch, outputs, batch', outputs']."""

    W: Array
    A: Array

    def of(self, trained: Sequence[str]) -> Array:
        """The kernel of training the weights of these names: the sum of theirs."""
        return np.sum([getattr(self, name) for name in _names(trained)], axis=0)


def tangent_kernels(
    run: Run, other: Run, j: int | None = None, other_j: int | None = None, aligned: bool = False
) -> Kernels:
    """K_W and K_A between y_j of one batch and y_{j'} of another, of one network; at the end unless places are given.

    `aligned` keeps only the terms with j-i = j'-i', which stay as the width grows.
    """
    require(run.network is other.network, "a tangent kernel compares two batches of one network; got two networks")
    last, other_last = run.length if j is None else j, other.length if other_j is None else other_j
    for name, place, most in (("j", last, run.length), ("other_j", other_last, other.length)):
        require_integer(name, place, 1, most)
    rows, columns = _errors(run, last), _errors(other, other_last)
    outputs = len(run.network.B)
    shape = (len(run.x), outputs, len(other.x), outputs)
    by_W, by_A = np.zeros(shape, run.h.dtype), np.zeros(shape, run.h.dtype)
    for i, left in rows.items():
        for k, right in columns.items():
            if aligned and last - i != other_last - k:
                continue
            product = (left @ right.T).reshape(shape)
            by_W += product * (run.h[i - 1] @ other.h[k - 1].T)[:, None, :, None]
            by_A += product * (run.x[:, i - 1] @ other.x[:, k - 1].T)[:, None, :, None]
    return Kernels(by_W, by_A)


def _errors(run: Run, j: int) -> dict[int, Array]:
    """g_i = D_i Back_{i→j}ᵀ e_o for every i ≤ j, as rows [batch · outputs, m]."""
    return {i: (back * run.active[i][:, None, :]).reshape(-1, run.network.width) for i, back in run.backward(j)}


def kernel_between(run: Run, other: Run, positions: Sequence[int], trained: Sequence[str] = ("W",)) -> Array:
    """The kernel of all answers at these positions: [batch · positions · outputs, batch' · positions · outputs]."""
    blocks = [[tangent_kernels(run, other, j, k).of(trained) for k in positions] for j in positions]
    stacked = np.array(blocks)  # [j, j', batch, outputs, batch', outputs]
    rows, columns = (len(one.x) * len(positions) * len(run.network.B) for one in (run, other))
    return stacked.transpose(2, 0, 3, 4, 1, 5).reshape(rows, columns)


@dataclass(frozen=True, eq=False)
class KernelRegression:
    """y_init(x) + K(x, X) α, the minimiser of Σ (y - y_init - <∂y, θ>)² + ρ‖θ‖² over shifts θ of the weights.

    `norm` is ‖θ‖_F = √(αᵀKα), how far the weights move.
    """

    data: Run
    positions: tuple[int, ...]
    trained: tuple[str, ...]
    alpha: Array
    norm: float

    def predict(self, x: Array) -> Array:
        """Answers [batch, positions, outputs] to sequences x [batch, L, d]."""
        return kernel_predictions([self], x)[0]


def initial_outputs(run: Run, positions: Sequence[int]) -> Array:
    """y_j at these positions: [batch, positions, outputs]."""
    return np.stack([run.output(j) for j in positions], axis=1)


def kernel_predictions(fits: Sequence[KernelRegression], x: Array) -> list[Array]:
    """What several fits to the same data, of other ridges, answer to sequences x: the kernel is computed once."""
    first = fits[0]
    alike = all(one.data is first.data for one in fits)
    require(alike, "predictions are made together for fits to the same data; got fits to other data")
    run = first.data.network.run(x)
    cross = kernel_between(run, first.data, first.positions, first.trained)
    start = initial_outputs(run, first.positions)
    return [start + (cross @ one.alpha).reshape(start.shape) for one in fits]


def kernel_regression(
    network: RandomRnn,
    x: Array,
    y: Array,
    positions: Sequence[int] | None = None,
    trained: Sequence[str] = ("W",),
    ridge: float = 1e-4,
) -> KernelRegression:
    """The fit for one ridge: see `kernel_regressions`."""
    return kernel_regressions(network, x, y, positions, trained, (ridge,))[0]


def kernel_regressions(
    network: RandomRnn,
    x: Array,
    y: Array,
    positions: Sequence[int] | None = None,
    trained: Sequence[str] = ("W",),
    ridges: Sequence[float] = (1e-4,),
) -> list[KernelRegression]:
    """Fit labels y [n, positions, outputs] of sequences x [n, L, d]; `ridges` are in units of K's mean diagonal."""
    run = network.run(x)
    places = tuple([run.length] if positions is None else positions)
    shape = (len(run.x), len(places), len(network.B))
    require(np.shape(y) == shape, f"labels have the shape {list(shape)}; got {list(np.shape(y))}")
    for ridge in ridges:
        require(0 <= ridge < math.inf, f"ridge must be a number ≥ 0; got ridge={ridge!r}")
    K = kernel_between(run, run, places, trained).astype(np.float64)
    residual = (np.asarray(y, np.float64) - initial_outputs(run, places)).reshape(-1)
    fits = []
    for ridge in ridges:
        alpha = np.linalg.solve(K + ridge * np.mean(np.diagonal(K)) * np.eye(len(K)), residual)
        norm = math.sqrt(max(0.0, float(alpha @ K @ alpha)))
        fits.append(KernelRegression(run, places, _names(trained), alpha, norm))
    return fits


def _names(trained: Sequence[str]) -> tuple[str, ...]:
    names = tuple(sorted({*trained}))
    for name in names:
        if name not in TRAINED:
            raise unknown("trained weights", name, TRAINED)
    require(names, "a tangent kernel needs weights that are trained: 'W', 'A' or both; got none")
    return names
