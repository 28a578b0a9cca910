"""What a random ReLU Elman network of infinite width does: inner products of its states, and how many signs differ.

For sequences X and Y with n_l = Σ_{k≤l} ‖x_k‖², and G_{0,·} = G_{·,0} = 0,

    cos t_{l,l'} = (G_{l-1,l'-1} + ⟨x_l, y_l'⟩)/√(n_l n'_l')
    G_{l,l'}     = √(n_l n'_l') [sin t + (π - t) cos t]/π

is the limit of ⟨h_l(X), h_l'(Y)⟩ as the width grows, so that ‖h_l‖² = n_l, and t/π is the share of units whose signs
differ. It follows from the arc-cosine kernel and is in neither source (which bound these quantities instead).

At width m all of them fluctuate by a common factor. With a fresh matrix at every position that of ‖h_l‖² would have the
variance 5l/m. But W is the same at all of them, and states before different positions are not orthogonal, so that their
errors add up: to first order in 1/m

    m Var(‖h_l‖²/n_l) = Σ_{k,k'≤l} (n_k n_k'/n_l²) c(t_{k,k'}),   c(t) = (2/π)[3 sin t cos t + (π - t)(1 + 2cos² t)] - 1

where c(0) = 5, c(π/2) = 0 and t are the angles of the sequence with itself (arc-cosine kernel of degree 2).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


class Gram(NamedTuple):
    """`product[l, l']` = ⟨h_l(X), h_l'(Y)⟩ for l, l' = 0..L, and the angles t between the pre-activations."""

    product: Array
    angle: Array

    @property
    def flips(self) -> Array:
        """The share of units whose sign differs between X and Y at the same position, l = 1..L."""
        return np.diagonal(self.angle)[1:] / np.pi


def gram(x: Array, y: Array) -> Gram:
    """The recursion for two sequences [L, d] and [L', d] of inputs."""
    x, y = np.asarray(x, np.float64), np.asarray(y, np.float64)
    own, other = (np.concatenate([[0.0], np.cumsum(np.sum(z**2, axis=1))]) for z in (x, y))
    size = np.sqrt(np.outer(own, other))
    product, angle = np.zeros_like(size), np.zeros_like(size)
    inner = x @ y.T
    for i in range(1, len(own)):
        for j in range(1, len(other)):
            if size[i, j] == 0:
                continue
            cosine = np.clip((product[i - 1, j - 1] + inner[i - 1, j - 1]) / size[i, j], -1.0, 1.0)
            t = angle[i, j] = np.arccos(cosine)
            product[i, j] = size[i, j] * (np.sin(t) + (np.pi - t) * cosine) / np.pi
    return Gram(product, angle)


def norm_fluctuations(x: Array) -> Array:
    """√m times the standard deviation of ‖h_l‖²/n_l over random networks, l = 1..L, for a sequence [L, d]."""
    t = gram(x, x).angle[1:, 1:]
    shared = (2 / np.pi) * (3 * np.sin(t) * np.cos(t) + (np.pi - t) * (1 + 2 * np.cos(t) ** 2)) - 1
    sizes = np.cumsum(np.sum(np.asarray(x, np.float64) ** 2, axis=1))
    added = np.outer(sizes, sizes) * shared
    return np.array([np.sqrt(added[:l, :l].sum()) / sizes[l - 1] for l in range(1, len(sizes) + 1)])  # noqa: E741


def residual_scales(x: Array, base: Array, eps_x: float) -> Array:
    """σ_i = ‖h_{i-1} - its projection onto h⁰_{i-1}‖/ε_x for positions i = 1..L, where 0 marks the base sequence.

    Tokens are orthogonal to the base sequence's, so that σ_i is the same for all of them: about √(2(i-2)).
    """
    norms = np.diagonal(gram(x, x).product)[:-1]
    bases = np.diagonal(gram(base, base).product)[:-1]
    crossed = np.diagonal(gram(x, base).product)[:-1]
    along = np.divide(crossed**2, bases, out=np.zeros_like(bases), where=bases > 0)
    return np.sqrt(np.maximum(norms - along, 0.0)) / eps_x
