"""Real irreps, and functions on a group in terms of them: Lemmas D.10 and D.12, and their extension to every type."""

from __future__ import annotations

import math
import time

import numpy as np
import pytest

from krogh.errors import KroghError
from krogh.programs.groups import Group, alternating, cyclic, load_group, symmetric
from krogh.theory.groups import irreps
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
from krogh.theory.groups.symmetric import neighbour_matrix, standard_tableaux, young_orthogonal

NAMES = (
    *("Z_1", "Z_7", "Z_2xZ_4", "S_4", "S_5", "A_4", "A_5", "D_12", "Q_8", "S_4xS_3", "D_4xD_4", "Q_8xA_4", "Z_3xS_3"),
    *("SL(2,3)", "7:3", "Heis(3)", "Dic_3", "Dic_5", "S_5 shuffled"),
)
COMMUTANT = {"real": 1, "complex": 2, "quaternionic": 4}


@pytest.mark.parametrize("group", NAMES, indirect=True)
def test_matrices_are_orthogonal_and_multiply_as_the_group_does(group):
    for irrep in real_irreps(group):
        d, matrices = irrep.dimension, irrep.matrices
        assert matrices.shape == (group.order, d, d) and matrices.dtype == np.float64
        assert np.abs(matrices @ matrices.transpose(0, 2, 1) - np.eye(d)).max() < 1e-12
        products = matrices[:, None] @ matrices[None, :]
        assert np.abs(products - matrices[group.table]).max() < 1e-12
        assert np.abs(np.trace(matrices, axis1=1, axis2=2) - irrep.character).max() < 1e-12


@pytest.mark.parametrize("group", NAMES, indirect=True)
def test_they_are_irreducible_of_their_kind_different_and_all(group):
    found, table = real_irreps(group), character_table(group)
    characters = np.array([irrep.character for irrep in found])
    kinds = np.array([COMMUTANT[irrep.kind] for irrep in found])
    assert np.allclose(characters @ characters.T / group.order, np.diag(kinds), atol=1e-10)
    assert sum(irrep.dimension**2 / COMMUTANT[irrep.kind] for irrep in found) == group.order
    for irrep in found:
        row, indicator = table.characters[irrep.index][group.class_of], table.indicator[irrep.index]
        expected = row if indicator == 1 else row + row.conj()
        assert irrep.kind == {1: "real", 0: "complex", -1: "quaternionic"}[int(indicator)]
        assert np.allclose(irrep.character, expected, atol=1e-12) and irrep.name == table.irrep_names[irrep.index]
        assert irrep.weight * COMMUTANT[irrep.kind] == irrep.dimension
    covered = [row for real in real_rows(table) for row in real.rows]
    assert covered == list(range(len(table.dimensions)))


@pytest.mark.parametrize("group", ["A_5", "Q_8", "7:3", "SL(2,3)"], indirect=True)
def test_what_commutes_with_an_irrep_has_dimension_1_2_or_4(group):
    """The commutant by brute force: the null space of X ↦ (R(g)X - XR(g))_g."""
    for irrep in real_irreps(group):
        d = irrep.dimension
        conditions = [np.kron(m, np.eye(d)) - np.kron(np.eye(d), m.T) for m in irrep.matrices]
        singular = np.linalg.svd(np.concatenate(conditions), compute_uv=False)
        assert (singular < 1e-9).sum() == COMMUTANT[irrep.kind]


@pytest.mark.slow
def test_order_720(build):
    """S_6, by Young's form and by the general construction: 16 dimensions, within seconds."""
    for group in (symmetric(6), build("S_6 shuffled")):
        start = time.perf_counter()
        found = real_irreps.__wrapped__(group)
        assert time.perf_counter() - start < 20
        assert [irrep.dimension for irrep in found] == [1, 1, 5, 5, 5, 5, 9, 9, 10, 10, 16]
        for irrep in found:
            matrices = irrep.matrices
            assert np.abs(np.trace(matrices, axis1=1, axis2=2) - irrep.character).max() < 1e-12
            assert np.abs(matrices @ matrices.transpose(0, 2, 1) - np.eye(irrep.dimension)).max() < 1e-12
            for element in (3, 100, 500):
                assert np.abs(matrices[element] @ matrices - matrices[group.table[element]]).max() < 1e-12


@pytest.mark.slow
@pytest.mark.parametrize("name", ["D_500", "31:30", "Dic_250", "Z_10^3"])
def test_orders_near_1000(name, build):
    group = build(name)
    found = real_irreps(group)
    assert sum(irrep.dimension**2 / COMMUTANT[irrep.kind] for irrep in found) == group.order
    for irrep in found:
        for element in group.generators:
            products = irrep.matrices[element] @ irrep.matrices
            assert np.abs(products - irrep.matrices[group.table[element]]).max() < 1e-11


def test_results_do_not_depend_on_what_was_asked_before():
    first = real_irreps.__wrapped__(load_group("A_5"))
    real_irreps.__wrapped__(load_group("D_12"))
    again = real_irreps.__wrapped__(load_group("A_5"))
    assert all(np.array_equal(a.matrices, b.matrices) for a, b in zip(first, again, strict=True))


def test_youngs_form_of_s_3_by_hand():
    forms = young_orthogonal(3)
    assert list(forms) == [(3,), (2, 1), (1, 1, 1)]
    group = symmetric(3)
    swap, other = group.labels.index("(12)"), group.labels.index("(23)")
    root = math.sqrt(3) / 2
    assert np.allclose(forms[2, 1][swap], [[1, 0], [0, -1]])
    assert np.allclose(forms[2, 1][other], [[-1 / 2, root], [root, 1 / 2]])
    assert forms[1, 1, 1].ravel().tolist() == [1, -1, -1, 1, 1, -1] and (forms[3,] == 1).all()


@pytest.mark.parametrize("n", range(1, 6))
def test_youngs_generators_satisfy_the_relations_of_the_symmetric_group(n):
    for shape, matrices in young_orthogonal(n).items():
        d = len(standard_tableaux(shape))
        hooks = [
            shape[row] - column + sum(length > column for length in shape[row + 1 :])
            for row in range(len(shape))
            for column in range(shape[row])
        ]
        assert d == math.factorial(n) // math.prod(hooks) == matrices.shape[1], "the hook length formula"
        steps = [neighbour_matrix(shape, i) for i in range(n - 1)]
        for i, s in enumerate(steps):
            assert np.allclose(s @ s, np.eye(d)) and np.allclose(s, s.T)
            for j, t in enumerate(steps):
                if abs(i - j) == 1:
                    assert np.allclose(s @ t @ s, t @ s @ t)
                elif i != j:
                    assert np.allclose(s @ t, t @ s)


def test_permutations_in_another_order_still_get_youngs_form():
    plain = symmetric(4)
    order = np.random.default_rng(1).permutation(24)
    table = np.argsort(order)[plain.table[np.ix_(order, order)]]
    group = Group("S_4", table, tuple(plain.labels[i] for i in order), plain.permutations[order])
    for a, b in zip(real_irreps(group), real_irreps(plain), strict=True):
        assert np.array_equal(a.matrices, b.matrices[order])
    assert len(real_irreps(alternating(4))) == 3, "even permutations alone are not S_n"


def test_copies_that_do_not_stand_apart_are_drawn_again(monkeypatch):
    group, drawn = load_group("A_5"), []
    honest = irreps._one_copy

    def refused_at_first(group, real, random):
        drawn.append(real.dimension)
        basis = honest(group, real, random)
        if len(drawn) == 1:
            return None
        return np.roll(basis, 1, axis=0) if len(drawn) == 2 else basis  # no copy of it, which the check must see

    monkeypatch.setattr(irreps, "_one_copy", refused_at_first)
    found = real_irreps.__wrapped__(group)
    assert drawn == [3, 3, 3, 3, 4, 5]
    assert np.abs(found[1].matrices[:, None] @ found[1].matrices[None] - found[1].matrices[group.table]).max() < 1e-12
    monkeypatch.setattr(irreps, "_one_copy", lambda *_: None)
    with pytest.raises(KroghError, match="irrep of dimension 3 of A_5 found in 5 draws"):
        real_irreps.__wrapped__(group)


def test_youngs_form_is_kept_to_s_6():
    with pytest.raises(KroghError, match="between 1 and 6; got n=7"):
        young_orthogonal(7)


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
    np.testing.assert_allclose(
        irrep_powers(group, u)[1, 2], irrep_powers(group, u[1, 2]), rtol=1e-14
    )  # products of another size
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
