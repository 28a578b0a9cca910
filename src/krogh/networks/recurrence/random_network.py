"""The ReLU Elman network at random initialisation: states, signs, backward matrices, and its first-order expansion.

    g_l = W h_{l-1} + A x_l,    h_l = relu(g_l) = D_l g_l,    D_l = diag(1[g_l ≥ 0])
    Back_{i→j} = B D_j W D_{j-1} W ... D_{i+1} W,    Back_{j→j} = B
    f_j(W', A') = Σ_{i≤j} Back_{i→j} D_i (W' h_{i-1} + A' x_i)

(*Can SGD learn recurrent neural networks with provable generalization?*, Definition 4.1 and equation 5.1; *Learning and
generalization in RNNs*, equations 4 and 5). There is no D_i on the right of Back_{i→j}. f is the derivative of y_j =
B h_j in the direction (W', A'): the *pseudo-network*. NumPy, so that a width of 10^4 fits (400 MB for W
in float32).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from krogh.errors import require_integer

Array = NDArray[np.floating[Any]]


@dataclass(frozen=True, eq=False)
class RandomRnn:
    """W [m, m], A [m, d], B [outputs, m]."""

    W: Array
    A: Array
    B: Array

    @property
    def width(self) -> int:
        return len(self.W)

    def run(self, x: Array) -> Run:
        """Read sequences x [batch, L, d]."""
        x = np.asarray(x, self.W.dtype)
        h = np.zeros((x.shape[1] + 1, len(x), self.width), self.W.dtype)
        active = np.zeros((x.shape[1] + 1, len(x), self.width), bool)
        for l in range(1, x.shape[1] + 1):  # noqa: E741  (the sources' letter)
            g = h[l - 1] @ self.W.T + x[:, l - 1] @ self.A.T
            active[l] = g >= 0
            np.maximum(g, 0, out=h[l])
        return Run(self, x, h, active)

    def moved(self, W: Array | float = 0.0, A: Array | float = 0.0) -> RandomRnn:
        """The network with weights W + W' and A + A'."""
        return replace(self, W=self.W + W, A=self.A + A)


@dataclass(frozen=True, eq=False)
class Run:
    """What a network does on a batch: x [batch, L, d], states h [L+1, batch, m] from h_0 = 0, signs alike.

    `active[0]` means nothing, so that positions count from 1 as in the sources.
    """

    network: RandomRnn
    x: Array
    h: Array
    active: NDArray[np.bool_]

    @property
    def length(self) -> int:
        return len(self.h) - 1

    def output(self, j: int | None = None) -> Array:
        """y_j = B h_j [batch, outputs], at the end unless a position is given."""
        return self.h[self.length if j is None else j] @ self.network.B.T

    def backward(self, j: int | None = None, rows: Array | None = None) -> Iterator[tuple[int, Array]]:
        """i and Back_{i→j} [batch, outputs, m] for i = j, j-1, ..., 1; `rows` [batch, outputs, m] in place of B."""
        j = self.length if j is None else j
        B = self.network.B
        back = np.broadcast_to(B[None], (len(self.x), *B.shape)) if rows is None else rows
        yield j, back
        for i in range(j - 1, 0, -1):
            back = (back * self.active[i + 1][:, None, :]) @ self.network.W
            yield i, back

    def pseudo(self, W: Array | None = None, A: Array | None = None, j: int | None = None) -> Array:
        """f_j(W', A') [batch, outputs]: the change of y_j to first order, with states and signs as they are."""
        total = np.zeros((len(self.x), len(self.network.B)), self.h.dtype)
        for i, back in self.backward(j):
            moved = np.zeros_like(self.h[0])
            if W is not None:
                moved += self.h[i - 1] @ W.T
            if A is not None:
                moved += self.x[:, i - 1] @ A.T
            total += np.einsum("bom,bm->bo", back, moved * self.active[i])
        return total


def random_rnn(
    width: int, inputs: int, outputs: int = 1, seed: int | Sequence[int] = 0, dtype: DTypeLike = np.float64, spread: float = 1.0
) -> RandomRnn:
    """W_ij, A_ij ~ N(0, 2/m) and B_ij ~ N(0, spread/outputs); the numbers after each other are variances."""
    for name, number in (("width", width), ("inputs", inputs), ("outputs", outputs)):
        require_integer(name, number, 1)
    rng = np.random.default_rng(seed)

    def normal(rows: int, columns: int, variance: float) -> Array:
        drawn = rng.standard_normal((rows, columns), np.float32 if dtype == np.float32 else np.float64)
        drawn *= variance**0.5
        return drawn.astype(dtype, copy=False)

    return RandomRnn(
        normal(width, width, 2 / width), normal(width, inputs, 2 / width), normal(outputs, width, spread / outputs)
    )
