"""Networks of maximum margin for any finite group, as plain arrays (dissertation, Lemmas D.13–D.16 and section D.9.2).

For every real irrep R of dimension D, commutant e (1 real, 2 complex, 4 quaternionic) and share x_R > 0 of Σ‖ω_i‖³:

    u(g) = s x_iᵀR(g)e_j,  v(g) = ±s R(g)_{jk},  w(g) = ±s x_iᵀR(g)e_k     for all i ≤ D/e, j ≤ D, k ≤ D and both signs
    Σ over these of (u(a)+v(b))² w(c) = 4s³ χ_R(abc⁻¹)/e

where the x_i are orthonormal and their images under what commutes with R are a basis: the unit vectors for real type.
Shares ∝ D^2.5/e make all wrong logits equal, which is the maximum where Theorem 7.9's condition holds; the linear
program's shares are it elsewhere. The source treats real type, with 2D³ neurons each; it prints (i,j) for the last
index pair once, and omits the factor 4 and √D of the scale.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from krogh.errors import KroghError, require, unknown
from krogh.tasks.groups import Group
from krogh.theory.margins.maximum import max_margin_group
from krogh.theory.margins.networks import PairArrays
from krogh.theory.margins.problems import characters_of, group_of
from krogh.theory.representations import Irrep, real_irreps
from krogh.theory.representations.irreps import COMMUTANT

Array = NDArray[np.float64]

LARGEST_SIZE = 2**24
"""Numbers per weight matrix, 128 MiB: S_5 has 1190 neurons of 120 weights."""


def group_network(group: Any, shares: Mapping[str, float] | None = None) -> PairArrays:
    """A network with given shares x_R of Σ‖ω_i‖³ per irrep, of norm ‖θ‖_{2,3} = 1; those of maximum margin by default.

    `shares` are by the irreps' names in `characters_of(group)`, not negative and 1 together.
    """
    given = group_of(group)
    wanted = irrep_shares(given, shares)
    width = sum(neuron_count(irrep) for irrep, share in wanted if share > 0)
    require(
        width * given.order <= LARGEST_SIZE,
        f"the network of {given.name} has {width} neurons of 3·{given.order} weights, more than {LARGEST_SIZE:,} per "
        "matrix (try a smaller group)",
    )
    parts = [_irrep_neurons(irrep, share) for irrep, share in wanted if share > 0]
    u, v, w = (np.concatenate([part[place] for part in parts]) for place in range(3))
    return PairArrays(u, v, w)


def neuron_count(irrep: Irrep) -> int:
    """2D³/e neurons."""
    return 2 * irrep.dimension**3 // COMMUTANT[irrep.kind]


def irrep_shares(group: Group, shares: Mapping[str, float] | None = None) -> list[tuple[Irrep, float]]:
    """Each non-trivial real irrep with its share; those of maximum margin unless given."""
    characters = characters_of(group)
    names = characters.irrep_names[1:]
    by_name = max_margin_group(characters).irrep_shares if shares is None else dict(shares)
    for name in by_name:
        if name not in names:
            raise unknown("irrep", str(name), names)
    total, least = sum(by_name.values()), min(by_name.values(), default=0.0)
    good = abs(total - 1) <= 1e-9 and least >= 0
    require(good, f"shares must not be negative and must add to 1; got {by_name}, sum {total:g}")
    return [(irrep, by_name.get(name, 0.0)) for name, irrep in zip(names, real_irreps(group)[1:], strict=True)]


def logit_values(group: Group, shares: Mapping[str, float] | None = None) -> Array:
    """F(c) with f(a,b)[label] = F((ab)⁻¹label) for the network of these shares, [n], from characters alone.

    F(c) = Σ_R x_R · 2/(3|G|)^1.5 · χ_R(c)/D^1.5
    """
    unit = 2 / (3 * group.order) ** 1.5
    terms = [unit * share * irrep.character / irrep.dimension**1.5 for irrep, share in irrep_shares(group, shares)]
    return np.asarray(np.sum(terms, axis=0))


def group_neuron(irrep: Irrep, x: ArrayLike, y: ArrayLike, z: ArrayLike) -> PairArrays:
    """One optimal neuron: u = s xᵀR(g)y, v = s yᵀR(g)z, w = s xᵀR(g)z for unit vectors, s = √(D/(3|G|))."""
    vectors = [np.asarray(vector, np.float64) for vector in (x, y, z)]
    for vector in vectors:
        good = vector.shape == (irrep.dimension,) and abs(np.linalg.norm(vector) - 1) < 1e-9
        require(good, f"x, y and z must be unit vectors of {irrep.dimension} numbers; got {vector.tolist()}")
    first, middle, last = vectors
    scale = math.sqrt(irrep.dimension / (3 * len(irrep.matrices)))
    entries = [
        np.einsum("i,gij,j->g", left, irrep.matrices, right)
        for left, right in ((first, middle), (middle, last), (first, last))
    ]
    return PairArrays(*(scale * entry[None] for entry in entries))


def _irrep_neurons(irrep: Irrep, share: float) -> tuple[Array, Array, Array]:
    """u, v, w [2D³/e, n] of one irrep, with Σ‖ω_i‖³ = share."""
    order, size = len(irrep.matrices), irrep.dimension
    scale = (share / neuron_count(irrep)) ** (1 / 3) * math.sqrt(size / (3 * order))
    entries = scale * np.moveaxis(irrep.matrices, 0, -1)  # [j, k, g]
    framed = np.tensordot(commutant_frame(irrep), entries, axes=1)  # [i, j, g]: x_iᵀR(g)e_j
    shape = (len(framed), size, size, order)
    u = np.broadcast_to(framed[:, :, None, :], shape).reshape(-1, order)
    v = np.broadcast_to(entries[None], shape).reshape(-1, order)
    w = np.broadcast_to(framed[:, None, :, :], shape).reshape(-1, order)
    return np.concatenate([u, u]), np.concatenate([v, -v]), np.concatenate([w, -w])


def commutant_frame(irrep: Irrep) -> Array:
    """Orthonormal x_i [D/e, D] whose images under the matrices that commute with R span everything, at right angles.

    Σ_i x_iᵀR(g)x_i = χ_R(g)/e.
    """
    size, e = irrep.dimension, COMMUTANT[irrep.kind]
    if e == 1:
        return np.eye(size)
    random = np.random.default_rng(size)
    drawn = random.standard_normal((e, size, size))
    # The mean of R(g) M R(g)ᵀ over the group commutes with R; e random ones span what does.
    commuting = np.einsum("gij,mjk,glk->mil", irrep.matrices, drawn, irrep.matrices, optimize=True)
    frame: list[Array] = []
    reached = np.zeros((size, 0))
    for _ in range(size // e):
        rest = np.eye(size) - reached @ reached.T
        vector = rest[:, int(np.argmax(np.linalg.norm(rest, axis=0)))]
        vector = vector / np.linalg.norm(vector)
        frame.append(vector)
        images, triangle = np.linalg.qr((commuting @ vector).T)
        if np.abs(np.diag(triangle)).min() < 1e-9 * len(irrep.matrices):
            raise KroghError(f"no {e} independent matrices commute with the irrep {irrep.name}, which is {irrep.kind}")
        reached = np.hstack([reached, images])
    return np.array(frame)
