"""Networks in the basis of irreps: coefficient matrices, and what of the function is signal (sections D.6.3 and D.9.1).

    coefficients    α_R = (D/(e|G|)) Σ_g u(g) R(g), and β_R, γ_R of v and w;   ‖u‖² = Σ_R (e|G|/D) ‖α_R‖²_F
    transform       f̂ = Σ_{a,b,c} f(a,b)[c] R(a)⊗R(b)⊗R(c) of a neuron (u(a)+v(b))² w(c), with R ≠ 1 for a and b, is
                    2 A⊗B⊗C,  A = Σ_g u(g) R(g), and B, C of v and w: the squares drop out
    signal          s_R = Σ_{a,b} ⟨f(a,b), R(a)R(b)R(·)⟩ / (D|G|²) = 2 Σ_i tr(A_i B_i C_iᵀ) / (D|G|²)

f = F(a,b) + s·1[c = ab], as in networks of maximum margin whose wrong logits are all alike, has s_R = s for every R: on
Z_p, f̂(j,j,-j) = s p². The transforms of n³ logits themselves are `margins.cyclic_transform` and `group_transform`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from krogh.errors import require
from krogh.theory.margins.networks import PairArrays, check_fit
from krogh.theory.margins.problems import characters_of, group_of
from krogh.theory.representations import Irrep, coefficient_matrices, real_irreps
from krogh.theory.representations.irreps import COMMUTANT

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Coefficients:
    """α_R, β_R, γ_R [m, D, D] of u, v and w of every neuron, for one irrep."""

    name: str
    irrep: Irrep
    alpha: Array
    beta: Array
    gamma: Array

    def powers(self) -> Array:
        """P_R(u) = (e|G|/D) ‖α_R‖²_F of u, v and w, [3, m]."""
        scale = len(self.irrep.matrices) / self.irrep.weight
        return scale * np.stack([np.sum(part**2, axis=(1, 2)) for part in (self.alpha, self.beta, self.gamma)])

    def rank_one(self) -> Array:
        """How far α_R, β_R, γ_R are of rank one, e σ_1²/Σ_k σ_k² [3, m]: 1 in optimal neurons, nan where they are zero.

        Over the complex numbers and quaternions for these types, where every singular value occurs e = 2 or 4 times.
        """
        values = [np.linalg.svd(part, compute_uv=False) ** 2 for part in (self.alpha, self.beta, self.gamma)]
        squares = np.stack(values)
        total = squares.sum(axis=-1)
        first = COMMUTANT[self.irrep.kind] * squares[..., 0]
        return np.asarray(np.divide(first, total, out=np.full(total.shape, np.nan), where=total > 0))


def network_coefficients(network: PairArrays, group: Any) -> tuple[Coefficients, ...]:
    """α_R, β_R, γ_R of every neuron for every real irrep, the trivial one first."""
    given = group_of(group)
    check_fit(network, given)
    named = zip(characters_of(given).irrep_names, real_irreps(given), strict=True)
    parts = (network.U, network.V, network.W)
    return tuple(
        Coefficients(name, irrep, *(coefficient_matrices(irrep, part) for part in parts)) for name, irrep in named
    )


def moments(irrep: Irrep, vectors: ArrayLike) -> Array:
    """A = Σ_g u(g) R(g) [..., D, D] of vectors u [..., n]."""
    return coefficient_matrices(irrep, vectors) * (len(irrep.matrices) / irrep.weight)


def irrep_signals(network: PairArrays, group: Any) -> dict[str, float]:
    """s_R of every non-trivial irrep; all alike in a network of maximum margin whose wrong logits are all alike.

    From the weights: no logit is computed. Only for the activation x².
    """
    given = group_of(group)
    check_fit(network, given)
    quadratic = network.homogeneity == 3 and network.activation != "relu"
    require(quadratic, f"the squares of a neuron drop out only for the activation x²; got {network.activation!r}")
    signals = {}
    for name, irrep in zip(characters_of(given).irrep_names[1:], real_irreps(given)[1:], strict=True):
        a, b, c = (moments(irrep, part) for part in (network.U, network.V, network.W))
        trace = float(np.sum((a @ b) * c))
        signals[name] = 2 * trace / (irrep.dimension * given.order**2)
    return signals
