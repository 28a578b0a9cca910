"""The ReLU Elman network at random initialisation: states, signs, backward matrices, and its first-order expansion.

    g_l = W h_{l-1} + A x_l,    h_l = relu(g_l) = D_l g_l,    D_l = diag(1[g_l ≥ 0])
    Back_{i→j} = B D_j W D_{j-1} W ... D_{i+1} W,    Back_{j→j} = B
    f_j(W', A') = Σ_{i≤j} Back_{i→j} D_i (W' h_{i-1} + A' x_i)

(*Can SGD learn recurrent neural networks with provable generalization?*, Definition 4.1 and equation 5.1; *Learning and
generalization in RNNs*, equations 4 and 5). There is no D_i on the right of Back_{i→j}. f is the derivative of y_j =
B h_j in the direction (W', A'): the *pseudo-network*. NumPy, so that a width of 10^4 fits (400 MB for W
in float32). A shift W' that is a sum of a few outer products (a gradient, the good shift) is kept as these
(`OuterProducts`), and never becomes a second matrix of that size.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from krogh.errors import require, require_integer

Array = NDArray[np.floating[Any]]


@dataclass(frozen=True, eq=False)
class OuterProducts:
    """The matrix Σ_i left_i right_iᵀ of shape [m, m], from left [k, m] and right [k, m]."""

    left: Array
    right: Array

    def __call__(self, h: Array) -> Array:
        """The matrix times vectors h [*batch, m]."""
        return (h @ self.right.T) @ self.left

    @property
    def T(self) -> OuterProducts:
        return OuterProducts(self.right, self.left)

    def __mul__(self, factor: float) -> OuterProducts:
        return replace(self, left=(factor * self.left).astype(self.left.dtype))

    def dense(self) -> Array:
        return self.left.T @ self.right

    def norm(self) -> float:
        """‖·‖_F, from the k×k Gram matrices of both sides."""
        left, right = (np.asarray(side, np.float64) for side in (self.left, self.right))
        return float(np.sqrt(max(0.0, float(np.sum((left @ left.T) * (right @ right.T))))))

    def spectral_norm(self) -> float:
        """‖·‖_2, that of the k×k matrix between orthonormal bases of both sides."""
        left, right = (np.linalg.qr(np.asarray(side, np.float64).T).R for side in (self.left, self.right))
        return float(np.linalg.norm(left @ right.T, 2))


Shift = Array | OuterProducts
"""W' as a matrix, or as the outer products that it is the sum of."""


@dataclass(frozen=True, eq=False)
class RandomRnn:
    """W [m, m], A [m, d], B [outputs, m]; where `shift` is given, the recurrent matrix is W + shift."""

    W: Array
    A: Array
    B: Array
    shift: OuterProducts | None = None

    @property
    def width(self) -> int:
        return len(self.W)

    def recur(self, h: Array) -> Array:
        """The recurrent matrix times h [*batch, m]."""
        return h @ self.W.T if self.shift is None else h @ self.W.T + self.shift(h)

    def recur_back(self, v: Array) -> Array:
        """The transposed recurrent matrix times v [*batch, m]."""
        return v @ self.W if self.shift is None else v @ self.W + self.shift.T(v)

    def run(self, x: Array) -> Run:
        """Read sequences x [batch, L, d]."""
        x = np.asarray(x, self.W.dtype)
        h = np.zeros((x.shape[1] + 1, len(x), self.width), self.W.dtype)
        active = np.zeros((x.shape[1] + 1, len(x), self.width), bool)
        for l in range(1, x.shape[1] + 1):  # noqa: E741  (the sources' letter)
            g = self.recur(h[l - 1]) + x[:, l - 1] @ self.A.T
            active[l] = g >= 0
            np.maximum(g, 0, out=h[l])
        return Run(self, x, h, active)

    def moved(self, W: Shift | float = 0.0, A: Array | float = 0.0) -> RandomRnn:
        """The network with weights W + W' and A + A'; outer products are kept beside W, which is then not copied."""
        require(self.shift is None, "a network that was moved by outer products is moved from where it started")
        if isinstance(W, OuterProducts):
            return replace(self, A=self.A + A, shift=W)
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
            back = self.network.recur_back(back * self.active[i + 1][:, None, :])
            yield i, back

    def gradient(self, example: int = 0, output: int = 0, j: int | None = None) -> tuple[OuterProducts, Array]:
        """The gradient of y_j[output] for one sequence: with respect to W as outer products, and to A [m, d]."""
        own = Run(self.network, self.x[[example]], self.h[:, [example]], self.active[:, [example]])
        read = self.network.B[None, [output]]
        backs = [(i, back[0, 0] * own.active[i, 0]) for i, back in own.backward(j, read)]
        left = np.stack([back for _, back in backs])
        along = OuterProducts(left, np.stack([own.h[i - 1, 0] for i, _ in backs]))
        return along, left.T @ np.stack([own.x[0, i - 1] for i, _ in backs])

    def pseudo(self, W: Shift | None = None, A: Array | None = None, j: int | None = None) -> Array:
        """f_j(W', A') [batch, outputs]: the change of y_j to first order, with states and signs as they are."""
        total = np.zeros((len(self.x), len(self.network.B)), self.h.dtype)
        for i, back in self.backward(j):
            moved = np.zeros_like(self.h[0])
            if W is not None:
                moved += W(self.h[i - 1]) if isinstance(W, OuterProducts) else self.h[i - 1] @ W.T
            if A is not None:
                moved += self.x[:, i - 1] @ A.T
            total += np.einsum("bom,bm->bo", back, moved * self.active[i])
        return total


def random_rnn(
    width: int,
    inputs: int,
    outputs: int = 1,
    seed: int | Sequence[int] = 0,
    dtype: DTypeLike = np.float64,
    spread: float = 1.0,
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
