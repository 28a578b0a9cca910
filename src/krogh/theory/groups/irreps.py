"""Real orthogonal irreps of any finite group, and functions on the group in terms of them (sections 7.6.1 and D.8).

Over the reals, an irreducible character χ of dimension d belongs to an irreducible of

    real type           χ real, indicator +1       dimension d,   character χ
    complex type        χ and its conjugate        dimension 2d,  character χ + conj χ
    quaternionic type   χ real, indicator -1       dimension 2d,  character 2χ

Symmetric groups have Young's orthogonal form, characters of dimension 1 are their own matrices (rotations, where they
are complex). Everything else is cut out of the regular representation (L(a)f)(x) = f(a⁻¹x): the projector
Π[x, y] = (d/n) χ(x⁻¹y), summed over the characters that belong together, gives all copies of the irrep, and a random
symmetric matrix A[x, y] = c(x⁻¹y), c(g) = c(g⁻¹), which commutes with L, tells the copies apart by its eigenvalues.
An orthonormal basis E of one eigenspace gives R(a) = Eᵀ L(a) E. Every result is checked before it is returned.

A function u on the group is a vector of n numbers. The entries ρ = (R(g)_ij)_g of real irreps are orthogonal vectors
with Σ_g ρ(g)² = n/d (Lemma D.10), so that

    u(g) = Σ_R Σ_ij α_R[i, j] R(g)_ij,     α_R = (d/n) Σ_g u(g) R(g)        (M12)
    P_R(u) = uᵀ Π_R u = (n/d) ‖α_R‖²_F,    Π_R[g, h] = (d/n) χ_R(g⁻¹h)      (M10)
    ‖u‖² = Σ_R P_R(u)                                                       (Lemma D.12)

where d is the irrep's `weight`: its dimension for real type, half and a quarter of it for complex and quaternionic
type, whose matrix entries are linearly dependent. Irreps stand in the order of `real_irreps`.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from krogh.errors import KroghError, require
from krogh.programs.groups import Group, read_only
from krogh.theory.groups.characters import CharacterTable, character_table
from krogh.theory.groups.symmetric import young_orthogonal

Array = NDArray[np.float64]

KINDS = {1: "real", 0: "complex", -1: "quaternionic"}
COMMUTANT = {"real": 1, "complex": 2, "quaternionic": 4}
"""The real dimension of the matrices that commute with an irrep: those of ℝ, ℂ or ℍ."""

TRIES = 5
TOLERANCE = 1e-9
CHUNK = 2**22
"""How many numbers of translated bases are held at once."""


@dataclass(frozen=True, eq=False)
class Irrep:
    """A real irreducible representation: orthogonal matrices R(g) with R(ab) = R(a)R(b).

    `index` is the row of the character table, the first of two where the kind is complex; `character` is the trace of
    the matrices, at every element.
    """

    dimension: int
    matrices: Array
    character: Array
    kind: str
    index: int
    name: str

    @property
    def weight(self) -> float:
        """The factor d of the expansion u = Σ_R (d/n) Σ_g u(g) tr(R(g)ᵀR(·)): the dimension, for real type.

        Half the dimension for complex type and a quarter for quaternionic type, whose entries are dependent.
        """
        return self.dimension / COMMUTANT[self.kind]


@dataclass(frozen=True, eq=False)
class RealRow:
    """The characters that make one real irreducible: `rows` of the table, and the trace of its matrices per class."""

    kind: str
    rows: tuple[int, ...]
    dimension: int
    character: Array


def real_rows(table: CharacterTable) -> tuple[RealRow, ...]:
    """The real irreducibles of a group, by their characters, in the order of the table's rows."""
    return tuple(_real_rows(table))


def _real_rows(table: CharacterTable) -> Iterator[RealRow]:
    row = 0
    while row < len(table.dimensions):
        kind, dimension = KINDS[int(table.indicator[row])], int(table.dimensions[row])
        rows = (row, row + 1) if kind == "complex" else (row,)  # conjugate rows are neighbours
        copies = 1 if kind == "real" else 2
        yield RealRow(kind, rows, copies * dimension, copies * table.characters[row].real)
        row += len(rows)


@functools.lru_cache(maxsize=8)
def real_irreps(group: Group) -> tuple[Irrep, ...]:
    """All real irreducibles of a group with orthogonal matrices [n, d, d], in the order of the character table."""
    table = character_table(group)
    known = _young_by_character(group)
    irreps = []
    for real in real_rows(table):
        if known is not None:
            matrices = known[_key(real.character)]
        elif table.dimensions[real.rows[0]] == 1 and real.kind != "quaternionic":
            matrices = _linear(table.characters[real.rows[0]][group.class_of], real.kind)
        else:
            matrices = _from_regular(group, real)
        irreps.append(
            Irrep(
                dimension=real.dimension,
                matrices=read_only(matrices),
                character=read_only(real.character[group.class_of]),
                kind=real.kind,
                index=real.rows[0],
                name=table.irrep_names[real.rows[0]],
            )
        )
    return tuple(irreps)


def _key(character: Array) -> tuple[int, ...]:
    return tuple(np.rint(character).astype(int).tolist())


def _young_by_character(group: Group) -> dict[tuple[int, ...], Array] | None:
    """Young's matrices by their characters, where the elements are all permutations of the points."""
    if group.permutations is None or group.order != math.factorial(group.permutations.shape[1]):
        return None
    # Young's matrices are in lexicographic order; the elements of the group may be in any.
    order = np.argsort(np.lexsort(group.permutations.T[::-1]))
    irreps = [matrices[order] for matrices in young_orthogonal(group.permutations.shape[1]).values()]
    return {_key(np.trace(irrep[group.representatives], axis1=1, axis2=2)): irrep for irrep in irreps}


def _linear(character: NDArray[np.complex128], kind: str) -> Array:
    """A character of dimension 1 as signs [n, 1, 1], or as rotations [n, 2, 2]."""
    cosine, sine = character.real, character.imag
    if kind == "real":
        return np.array(cosine[:, None, None])
    return np.stack([np.stack([cosine, -sine], axis=1), np.stack([sine, cosine], axis=1)], axis=1)


def _from_regular(group: Group, real: RealRow) -> Array:
    for attempt in range(TRIES):
        random = np.random.default_rng([group.order, real.rows[0], attempt])
        basis = _one_copy(group, real, random)
        if basis is None:
            continue  # two copies had nearly the same eigenvalue: draw another matrix
        matrices = _matrices(group, basis)
        if _is_irrep(group, real, matrices):
            return matrices
    raise KroghError(f"no matrices of the irrep of dimension {real.dimension} of {group.name} found in {TRIES} draws")


def irrep_kernels(group: Group) -> Array:
    """κ_R(c) = (D/(e|G|)) χ_R(c) [irreps, n]: the identity's row of the projector onto each real irrep."""
    return np.stack([_kernel(group, real) for real in real_rows(character_table(group))])


def isotypic_projector(group: Group, real: RealRow) -> Array:
    """Π[x, y] = κ(x⁻¹y) [n, n], the projector onto the span of the irrep's matrix entries."""
    return _kernel(group, real)[_quotients(group)]


def _kernel(group: Group, real: RealRow) -> Array:
    return (real.dimension / COMMUTANT[real.kind] / group.order * real.character)[group.class_of]


@functools.lru_cache(maxsize=2)
def _quotients(group: Group) -> NDArray[np.int64]:
    """x⁻¹y [n, n]."""
    return group.table[group.inverse]


def _one_copy(group: Group, real: RealRow, random: np.random.Generator) -> Array | None:
    """An orthonormal basis [n, D] of one copy of the irrep in the regular representation; None if none stands out."""
    size = real.dimension**2 // COMMUTANT[real.kind]
    projector = isotypic_projector(group, real)
    spanning, _ = np.linalg.qr(projector @ random.standard_normal((group.order, size)))
    everything, _ = np.linalg.qr(projector @ spanning)  # once more: the first pass lost digits to its conditioning
    drawn = random.standard_normal(group.order)
    commuting = (drawn + drawn[group.inverse])[_quotients(group)]
    values, vectors = np.linalg.eigh(everything.T @ (commuting @ everything))
    copies = values.reshape(-1, real.dimension)
    below = np.concatenate([[np.inf], copies[1:, 0] - copies[:-1, -1]])
    gaps = np.minimum(below, np.append(below[1:], np.inf))
    best = int(np.argmax(gaps))
    if not gaps[best] > 1e-4 * np.abs(values).max():
        return None
    return everything @ vectors[:, best * real.dimension : (best + 1) * real.dimension]


def _matrices(group: Group, basis: Array) -> Array:
    """R(a) = Eᵀ L(a) E [n, D, D], where row x of L(a)E is row a⁻¹x of E."""
    order, dimension = basis.shape
    matrices = np.empty((order, dimension, dimension))
    rows = max(1, CHUNK // basis.size)
    for start in range(0, order, rows):
        elements = slice(start, start + rows)
        matrices[elements] = basis.T @ basis[_quotients(group)[elements]]
    return matrices


def _is_irrep(group: Group, real: RealRow, matrices: Array) -> bool:
    """Orthogonal, of the right traces, and R(sa) = R(s)R(a) for generators s and all a, hence R(ab) = R(a)R(b)."""
    worst = np.abs(np.trace(matrices, axis1=1, axis2=2) - real.character[group.class_of]).max()
    worst = max(worst, np.abs(matrices @ matrices.transpose(0, 2, 1) - np.eye(real.dimension)).max())
    for generator in group.generators:
        worst = max(worst, np.abs(matrices[generator] @ matrices - matrices[group.table[generator]]).max())
    return bool(worst < TOLERANCE)


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


def moments(irrep: Irrep, vectors: ArrayLike) -> Array:
    """Σ_g u(g) R(g) [..., D, D] of vectors u [..., n]."""
    return coefficient_matrices(irrep, vectors) * (len(irrep.matrices) / irrep.weight)


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
