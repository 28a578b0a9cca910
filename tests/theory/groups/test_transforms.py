"""Functions on a group in terms of its irreps: Lemmas D.10 and D.12, and their extension to every type."""

from __future__ import annotations

import numpy as np
import pytest

from krogh.errors import KroghError
from krogh.programs.groups import cyclic, load_group
from krogh.theory.groups.characters import character_table
from krogh.theory.groups.irreps import (
    basis_vectors,
    coefficient_matrices,
    from_coefficients,
    irrep_powers,
    isotypic_projector,
    real_irreps,
    real_rows,
)

REAL = ("S_3", "S_4", "S_5", "A_5", "D_6", "D_4xD_4", "Z_2^3")
OTHERS = ("Z_7", "A_4", "Q_8", "SL(2,3)", "7:3", "Dic_5")


def irrep_projectors(group):
    """Π_R [irreps, n, n]: orthogonal projectors that add up to the identity."""
    return np.stack([isotypic_projector(group, real) for real in real_rows(character_table(group))])


def functions(group, count=5):
    return np.random.default_rng(group.order).standard_normal((count, group.order))


@pytest.mark.parametrize("group", REAL, indirect=True)
def test_matrix_entries_are_an_orthogonal_basis_with_known_class_sums(group):
    """Lemma D.10: Σ_g ρ² = n/d; class sums are 0 off the diagonal and |C|χ(C)/d on it."""
    vectors = basis_vectors(group)
    lengths = np.concatenate([np.full(r.dimension**2, group.order / r.dimension) for r in real_irreps(group)])
    assert np.allclose(vectors @ vectors.T, np.diag(lengths), atol=1e-9)
    for irrep in real_irreps(group):
        for members in group.classes:
            total = irrep.matrices[members].sum(axis=0)
            mean = len(members) * irrep.character[members[0]] / irrep.dimension
            assert np.allclose(total, mean * np.eye(irrep.dimension), atol=1e-9)


@pytest.mark.parametrize("group", [*REAL, *OTHERS], indirect=True)
def test_projectors_split_the_space(group):
    projectors = irrep_projectors(group)
    assert projectors.shape == (len(real_irreps(group)), group.order, group.order)
    assert np.allclose(projectors.sum(axis=0), np.eye(group.order), atol=1e-10)
    assert np.allclose(projectors, projectors.transpose(0, 2, 1), atol=1e-12)
    for i, first in enumerate(projectors):
        for j, second in enumerate(projectors[: i + 1]):
            assert np.allclose(first @ second, first if i == j else 0, atol=1e-10)
    for irrep, projector in zip(real_irreps(group), projectors, strict=True):
        entries = irrep.matrices.reshape(group.order, -1)
        assert np.allclose(projector @ entries, entries, atol=1e-10), "the entries of the matrices lie in its range"
        assert round(np.trace(projector)) == round(irrep.weight * irrep.dimension)


@pytest.mark.parametrize("group", [*REAL, *OTHERS], indirect=True)
def test_powers_coefficients_and_the_norm_identity(group):
    """M10, M12 and Lemma D.12; u is the sum of its parts."""
    u = functions(group)
    powers, projectors = irrep_powers(group, u), irrep_projectors(group)
    assert np.allclose(powers, np.einsum("kg,rgh,kh->kr", u, projectors, u), atol=1e-10)
    assert np.allclose(powers.sum(axis=1), (u**2).sum(axis=1))
    rebuilt = np.zeros_like(u)
    for irrep, power, projector in zip(real_irreps(group), powers.T, projectors, strict=True):
        alpha = coefficient_matrices(irrep, u)
        expected = np.array([sum(f[g] * irrep.matrices[g] for g in range(group.order)) for f in u])
        assert np.allclose(alpha, expected * irrep.weight / group.order, atol=1e-12)
        assert np.allclose(group.order / irrep.weight * (alpha**2).sum((1, 2)), power, atol=1e-10)
        part = from_coefficients(irrep, alpha)
        assert np.allclose(part, u @ projector, atol=1e-10)
        rebuilt += part
    assert np.allclose(rebuilt, u, atol=1e-10)


def test_powers_of_real_type_are_sums_over_matrix_entries():
    """P_R(u) = (d/n) Σ_ij ⟨u, R_(ij)⟩², as printed for Figure 7.6."""
    group = load_group("S_4")
    u = functions(group)
    for irrep, power in zip(real_irreps(group), irrep_powers(group, u).T, strict=True):
        products = np.einsum("kg,gij->kij", u, irrep.matrices)
        assert np.allclose(irrep.dimension / group.order * (products**2).sum((1, 2)), power)


@pytest.mark.parametrize("n", [5, 8, 11])
def test_on_cyclic_groups_powers_are_the_one_sided_spectrum(n):
    u = functions(cyclic(n))
    spectrum = np.abs(np.fft.fft(u)) ** 2 / n
    one_sided = [spectrum[:, j] + (spectrum[:, n - j] if 0 < j < n - j else 0) for j in range(n // 2 + 1)]
    found = irrep_powers(cyclic(n), u)
    indices = [irrep.matrices[1, 0, 0] for irrep in real_irreps(cyclic(n))]
    frequencies = [round(np.arccos(np.clip(cosine, -1, 1)) * n / (2 * np.pi)) for cosine in indices]
    assert frequencies == list(range(n // 2 + 1))
    assert np.allclose(found, np.stack(one_sided, axis=1))


def test_leading_axes_are_kept():
    group = load_group("D_4")
    u = functions(group, 6).reshape(2, 3, 8)
    assert irrep_powers(group, u).shape == (2, 3, 5) and irrep_powers(group, u[0, 0]).shape == (5,)
    assert np.array_equal(irrep_powers(group, u)[1, 2], irrep_powers(group, u[1, 2]))
    assert coefficient_matrices(real_irreps(group)[4], u).shape == (2, 3, 2, 2)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: basis_vectors(cyclic(5)), "irrep 1a of Z_5 is complex"),
        (lambda: basis_vectors(load_group("Q_8")), "irrep 2 of Q_8 is quaternionic"),
        (lambda: irrep_powers(cyclic(5), np.ones(4)), r"shape \[..., 5\]; got \[4\]"),
        (lambda: coefficient_matrices(real_irreps(cyclic(5))[0], 1.0), r"shape \[..., 5\]; got \[\]"),
        (lambda: from_coefficients(real_irreps(cyclic(5))[1], np.ones((2, 3))), r"\[..., 2, 2\]; got shape \[2, 3\]"),
    ],
)
def test_bad_input(call, message):
    with pytest.raises(KroghError, match=message):
        call()
