"""Functions on a group in terms of its irreps: projectors, powers, coefficient matrices, basis vectors.

A function u on the group is a vector of n numbers. The entries ρ = (R(g)_ij)_g of real irreps are orthogonal vectors
with Σ_g ρ(g)² = n/d (Lemma D.10), so that

    u(g) = Σ_R Σ_ij α_R[i, j] R(g)_ij,     α_R = (d/n) Σ_g u(g) R(g)        (M12)
    P_R(u) = uᵀ Π_R u = (n/d) ‖α_R‖²_F,    Π_R[g, h] = (d/n) χ_R(g⁻¹h)      (M10)
    ‖u‖² = Σ_R P_R(u)                                                       (Lemma D.12)

where d is the irrep's `weight`: its dimension for real type, half and a quarter of it for complex and quaternionic
type, whose matrix entries are linearly dependent. Irreps stand in the order of `real_irreps`.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from krogh.errors import require
from krogh.tasks.group_base import Group
from krogh.theory.representations.characters import character_table
from krogh.theory.representations.irreps import Irrep, isotypic_projector, real_irreps, real_rows

Array = NDArray[np.float64]

MOST_NUMBERS = 2**27
"""The most entries of projectors that are built at once: 1 GiB."""


def irrep_projectors(group: Group) -> Array:
    """Π_R [irreps, n, n]: orthogonal projectors that add up to the identity."""
    rows = real_rows(character_table(group))
    size = len(rows) * group.order**2
    require(
        size <= MOST_NUMBERS,
        f"projectors of {group.name} are {len(rows)} matrices of {group.order}², more than {MOST_NUMBERS:,} numbers "
        f"(irrep_powers({group.name}, vectors) needs none of them)",
    )
    return np.stack([isotypic_projector(group, real) for real in rows])


def irrep_powers(group: Group, vectors: ArrayLike) -> Array:
    """P_R(u) = uᵀ Π_R u [..., irreps] of vectors u [..., n]; they add up to ‖u‖²."""
    given = _checked(group.order, vectors)
    flat = given.reshape(-1, group.order)
    powers = [((flat @ isotypic_projector(group, real)) * flat).sum(1) for real in real_rows(character_table(group))]
    return np.stack(powers, axis=-1).reshape(*given.shape[:-1], -1)


def coefficient_matrices(irrep: Irrep, vectors: ArrayLike) -> Array:
    """α_R = (d/n) Σ_g u(g) R(g) [..., D, D] of vectors u [..., n]."""
    given = _checked(len(irrep.matrices), vectors)
    return np.tensordot(given, irrep.matrices, axes=1) * (irrep.weight / len(irrep.matrices))


def from_coefficients(irrep: Irrep, matrices: ArrayLike) -> Array:
    """The vectors u(g) = Σ_ij α[i, j] R(g)_ij [..., n] of coefficient matrices [..., D, D]."""
    given = np.asarray(matrices, np.float64)
    d = irrep.dimension
    fits = given.shape[-2:] == (d, d)
    require(fits, f"coefficients of {irrep.name} are matrices [..., {d}, {d}]; got shape {list(given.shape)}")
    return np.tensordot(given, irrep.matrices, axes=((-2, -1), (1, 2)))


def basis_vectors(group: Group) -> Array:
    """The n vectors ρ = (R(g)_ij)_g as rows [n, n]: irrep after irrep, (i, j) in order; orthogonal, Σ_g ρ² = n/d."""
    irreps = real_irreps(group)
    for irrep in irreps:
        require(
            irrep.kind == "real",
            f"matrix entries are a basis where all irreps are of real type; irrep {irrep.name} of {group.name} is "
            f"{irrep.kind} (coefficient_matrices and irrep_powers work for every type)",
        )
    return np.concatenate([irrep.matrices.reshape(group.order, -1).T for irrep in irreps])


def _checked(order: int, vectors: ArrayLike) -> Array:
    given = np.asarray(vectors, np.float64)
    fits = given.ndim >= 1 and given.shape[-1] == order
    require(fits, f"functions on a group of {order} elements have shape [..., {order}]; got {list(given.shape)}")
    return given
