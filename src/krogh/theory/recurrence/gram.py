"""What a random ReLU Elman network of infinite width does: inner products of its states, and how many signs differ.

For sequences X and Y with n_l = Σ_{k≤l} ‖x_k‖², and G_{0,·} = G_{·,0} = 0,

    cos t_{l,l'} = (G_{l-1,l'-1} + ⟨x_l, y_l'⟩)/√(n_l n'_l')
    G_{l,l'}     = √(n_l n'_l') [sin t + (π - t) cos t]/π

is the limit of ⟨h_l(X), h_l'(Y)⟩ as the width grows, so that ‖h_l‖² = n_l, and t/π is the share of units whose signs
differ. It follows from the arc-cosine kernel and is in neither source (which bound these quantities instead). At width
m all of them fluctuate by a common factor of about √(5l/m).
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


def residual_scales(x: Array, base: Array, eps_x: float) -> Array:
    """σ_i = ‖h_{i-1} - its projection onto h⁰_{i-1}‖/ε_x for positions i = 1..L, where 0 marks the base sequence.

    Tokens are orthogonal to the base sequence's, so that σ_i is the same for all of them: about √(2(i-2)).
    """
    norms = np.diagonal(gram(x, x).product)[:-1]
    bases = np.diagonal(gram(base, base).product)[:-1]
    crossed = np.diagonal(gram(x, base).product)[:-1]
    along = np.divide(crossed**2, bases, out=np.zeros_like(bases), where=bases > 0)
    return np.sqrt(np.maximum(norms - along, 0.0)) / eps_x
