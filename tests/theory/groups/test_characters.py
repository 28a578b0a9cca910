"""Character tables by the general algorithm, against closed forms and against what defines them."""

from __future__ import annotations

import itertools
import time

import numpy as np
import pytest

from krogh.errors import KroghError
from krogh.programs.groups import cycle_type, cyclic, dihedral, from_table, load_group, product, symmetric
from krogh.theory.groups import characters
from krogh.theory.groups.characters import NotCharacters, character_table, lift, roots_of_unity, sum_of_roots
from krogh.theory.groups.symmetric import (
    _least_permutation,
    cycle_type_size,
    partitions,
    symmetric_character_table,
    symmetric_characters,
)

SMALL = (
    *("Z_1", "Z_2", "Z_12", "Z_12 shuffled", "Z_2xZ_4", "D_4", "D_4 shuffled", "D_7", "S_4", "A_4", "A_5", "Q_8"),
    *("SL(2,3)", "7:3", "Heis(3)", "Dic_3"),
)
LARGE = ("S_6", "S_6 shuffled", "A_6", "D_4xD_4", "S_4xS_3", "Heis(7)", "31:30", "Dic_250", "Z_10^3", "Z_1000")


def at_elements(group):
    return character_table(group).characters[:, group.class_of]


def same_rows(found, expected):
    """Whether two tables have the same rows in whatever order; rows of characters are matched by their products."""
    found, expected = np.asarray(found), np.asarray(expected)
    match = np.abs(found @ expected.conj().T).argmax(axis=1)
    whole = found.shape == expected.shape and len(set(match.tolist())) == len(found)
    return whole and np.abs(found - expected[match]).max() < 1e-12


@pytest.mark.parametrize("group", [*SMALL, *LARGE], indirect=True)
def test_both_orthogonality_relations(group):
    table = character_table(group)
    values, sizes, n = table.characters, table.class_sizes, group.order
    assert values.shape == (len(group.classes), len(group.classes)) and table.order == n
    rows = (values * sizes[None, :]) @ values.conj().T / n
    columns = values.T @ values.conj() * np.sqrt(np.outer(sizes, sizes)) / n
    assert np.abs(rows - np.eye(len(rows))).max() < 1e-12 and np.abs(columns - np.eye(len(rows))).max() < 1e-12
    assert (table.dimensions**2).sum() == n and (n % table.dimensions == 0).all()
    assert np.array_equal(values[:, 0], table.dimensions) and (values[0] == 1).all()
    assert (np.diff(table.dimensions) >= 0).all()


@pytest.mark.parametrize("group", SMALL, indirect=True)
def test_central_characters_multiply_as_class_sums_do(group):
    """ω(r) ω(t) = Σ_s a_{rts} ω(s) with ω(C) = |C|χ(C)/d, the structure constants counted product by product."""
    table, k = character_table(group), len(group.classes)
    counts = np.zeros((k, k, k))
    for x, y in itertools.product(range(group.order), repeat=2):
        s = group.class_of[group.table[x, y]]
        counts[group.class_of[x], group.class_of[y], s] += 1 / group.class_sizes[s]
    central = table.characters * table.class_sizes[None, :] / table.dimensions[:, None]
    expected = np.einsum("rts,is->irt", counts, central)
    assert np.allclose(central[:, :, None] * central[:, None, :], expected, atol=1e-10)


@pytest.mark.parametrize("group", [*SMALL, "Dic_5", "Heis(7)"], indirect=True)
def test_the_indicator_is_the_mean_over_squares(group):
    squares = group.table[np.arange(group.order), np.arange(group.order)]
    means = at_elements(group)[:, squares].mean(axis=1)
    table = character_table(group)
    assert np.allclose(means, table.indicator, atol=1e-10)
    assert table.indicator @ table.dimensions == (squares == group.identity).sum(), "square roots of the identity"
    real = np.abs(table.characters.imag).max(axis=1) == 0
    assert np.array_equal(real, table.indicator != 0), "real values are real to the last digit"
    assert table.real_type == (table.indicator == 1).all()
    conjugates = np.flatnonzero(~real)
    assert np.array_equal(table.characters[conjugates[1::2]], table.characters[conjugates[::2]].conj())
    assert np.array_equal(np.diff(conjugates)[::2], np.ones(len(conjugates) // 2)), "conjugate rows are neighbours"


@pytest.mark.parametrize("n", range(1, 7))
def test_symmetric_groups_follow_murnaghan_and_nakayama(n):
    found, expected = character_table(symmetric(n)), symmetric_character_table(n)
    assert np.array_equal(found.characters, expected.characters)
    for part in ("dimensions", "class_sizes", "indicator"):
        assert np.array_equal(getattr(found, part), getattr(expected, part))
    assert (found.group, found.class_names, found.irrep_names) == (
        expected.group,
        expected.class_names,
        expected.irrep_names,
    )


@pytest.mark.parametrize("name", ["S_5", "S_6"])
def test_the_order_of_the_elements_does_not_matter(name, build):
    group = build(f"{name} shuffled")
    table, plain = character_table(group), character_table(load_group(name))
    assert group.permutations is None and sorted(table.class_sizes) == sorted(plain.class_sizes)
    assert sorted(map(sorted, table.characters.real.tolist())) == sorted(map(sorted, plain.characters.real.tolist()))


S5 = {
    "1": [1, 1, 1, 1, 1, 1, 1],
    "sign": [1, -1, 1, 1, -1, 1, -1],
    "4a": [4, 2, 0, 1, 0, -1, -1],
    "4b": [4, -2, 0, 1, 0, -1, 1],
    "5a": [5, 1, 1, -1, -1, 0, 1],
    "5b": [5, -1, 1, -1, 1, 0, -1],
    "6": [6, 0, -2, 0, 0, 1, 0],
}


def test_table_d1():
    """The characters of S_5 as tabled; 4a is the standard representation, fixed points - 1 (the print has it as 4b)."""
    group = symmetric(5)
    table = character_table(group)
    columns = [group.class_of[group.labels.index(c)] for c in ("e", "(12)", "(12)(34)", "(123)", "(1234)", "(12345)")]
    columns.append(group.class_of[group.labels.index("(12)(345)")])
    assert table.class_sizes[columns].tolist() == [1, 10, 15, 20, 30, 24, 20]
    assert table.irrep_names == tuple(S5)
    assert np.array_equal(table.characters[:, columns], list(S5.values()))
    fixed = (group.permutations == np.arange(5)[None, :]).sum(axis=1)
    assert np.array_equal(at_elements(group)[2], fixed - 1)
    names = ("(1,1,1,1,1)", "(2,1,1,1)", "(2,2,1)", "(3,1,1)", "(4,1)", "(5)", "(3,2)")
    assert tuple(table.class_names[column] for column in columns) == names


def test_alternating_5_has_the_golden_ratio():
    group, golden = load_group("A_5"), (1 + 5**0.5) / 2
    table = character_table(group)
    assert table.class_names == ("(1,1,1,1,1)", "(5)a", "(5)b", "(2,2,1)", "(3,1,1)")
    assert table.class_sizes.tolist() == [1, 12, 12, 15, 20] and table.irrep_names == ("1", "3a", "3b", "4", "5")
    expected = [
        [1, 1, 1, 1, 1],
        [3, golden, 1 - golden, -1, 0],
        [3, 1 - golden, golden, -1, 0],
        [4, -1, -1, 0, 1],
        [5, 0, 0, 1, -1],
    ]
    assert np.allclose(table.characters, expected, atol=1e-15, rtol=0)


@pytest.mark.parametrize("n", [1, 2, 3, 4, 5, 6, 7, 8, 12, 30])
def test_dihedral_groups_in_closed_form(n):
    turns = np.arange(n)
    signs = [(1, 1), (1, -1)] + ([(-1, 1), (-1, -1)] if n % 2 == 0 else [])
    rows = [np.concatenate([turn**turns, flip * turn**turns]) for turn, flip in signs]
    rows += [np.concatenate([2 * np.cos(2 * np.pi * j * turns / n), np.zeros(n)]) for j in range(1, (n + 1) // 2)]
    assert same_rows(at_elements(dihedral(n)), rows)
    assert character_table(dihedral(n)).real_type


@pytest.mark.parametrize("n", [1, 2, 3, 8, 15, 71])
def test_cyclic_groups_in_closed_form(n):
    group = cyclic(n)
    frequencies = np.outer(np.arange(n), np.arange(n))
    assert same_rows(at_elements(group), np.exp(2j * np.pi * frequencies / n))
    found = character_table(group).characters[:, 1 % n]
    waves = [0, *itertools.chain(*((j, -j) for j in range(1, n))), n][:n]
    assert np.allclose(found, np.exp(2j * np.pi * np.array(waves) / n)), "frequencies 0, 1, -1, 2, -2, ..."


@pytest.mark.parametrize("seed", range(5))
def test_characters_of_abelian_groups_extend_from_any_subgroup(seed):
    """Elements in any order: some generators have powers that reach earlier elements before they reach the identity."""
    plain = load_group("Z_4xZ_6")
    order = np.random.default_rng(seed).permutation(24)
    group = from_table(np.argsort(order)[plain.table[np.ix_(order, order)]])
    first, second = np.divmod(order, 6)
    rows = [1j ** (j * first) * np.exp(2j * np.pi * k * second / 6) for j in range(4) for k in range(6)]
    assert same_rows(at_elements(group), rows)


@pytest.mark.parametrize("names", [("S_3", "D_4"), ("A_4", "Q_8"), ("Z_3", "S_3", "Z_4"), ("Z_6", "Z_4")])
def test_tables_of_products_are_kronecker_products(names):
    factors = [load_group(name) for name in names]
    rows = [np.ones(1)]
    for factor in factors:
        rows = [np.outer(a, b).ravel() for a, b in itertools.product(rows, at_elements(factor))]
    assert same_rows(at_elements(product(*factors)), rows)


def test_quaternions_and_the_dihedral_group_of_order_8_share_a_table_but_not_their_types():
    q, d = character_table(load_group("Q_8")), character_table(load_group("D_4"))
    assert q.indicator.tolist() == [1, 1, 1, 1, -1] and d.indicator.tolist() == [1, 1, 1, 1, 1]
    assert q.irrep_names == ("1", "1a", "1b", "1c", "2") and q.class_names == ("1", "-1", "i", "j", "k")
    assert q.characters[4].tolist() == [2, -2, 0, 0, 0]


def test_sl_2_3(build):
    """Characters 1, ω, ω² of Z_3, the 3-dimensional one of A_4, and 2, 2ω, 2ω² with trace of the matrices on Q_8."""
    group = build("SL(2,3)")
    table = character_table(group)
    assert table.dimensions.tolist() == [1, 1, 1, 2, 2, 2, 3]
    assert sorted(table.indicator[3:6].tolist()) == [-1, 0, 0] and table.indicator[6] == 1
    assert sorted(group.element_orders[group.representatives].tolist()) == [1, 2, 3, 3, 4, 6, 6]
    faithful = table.characters[int(np.flatnonzero(table.indicator == -1)[0])]
    by_order = {1: 2, 2: -2, 3: -1, 4: 0, 6: 1}
    assert faithful.tolist() == [by_order[int(order)] for order in group.element_orders[group.representatives]]
    quotient = np.round(table.characters[:3] ** 3, 12)
    assert (quotient == 1).all() and np.abs(table.characters[1].imag).max() > 0.8, "cube roots of unity"
    assert same_rows(table.characters[3:6], table.characters[:3] * faithful[None, :])
    by_order = {1: 3, 2: 3, 3: 0, 4: -1, 6: 0}
    assert table.characters[6].tolist() == [by_order[int(o)] for o in group.element_orders[group.representatives]]


def test_heisenberg_groups_in_closed_form(build):
    """p² characters of the quotient by the centre, and p ω^{kz} on the centre, 0 elsewhere, for k = 1..p-1."""
    group = build("Heis(7)")
    entries = np.array([list(map(int, label.split())) for label in group.labels])
    x, y, z = entries[:, 1], entries[:, 5], entries[:, 2]
    root = np.exp(2j * np.pi / 7)
    rows = [root ** (a * x + b * y) for a, b in itertools.product(range(7), repeat=2)]
    rows += [np.where((x == 0) & (y == 0), 7 * root ** (k * z), 0) for k in range(1, 7)]
    assert same_rows(at_elements(group), rows)


def test_a_frobenius_group_of_order_930_in_closed_form(build):
    """x ↦ ax + b modulo 31: 30 characters of a, and fixed points - 1."""
    group = build("31:30")
    entries = np.array([list(map(int, label.split())) for label in group.labels])
    a, b = entries[:, 0], entries[:, 1]
    logarithm = {pow(3, k, 31): k for k in range(30)}
    powers = np.array([logarithm[int(value)] for value in a])
    rows = [np.exp(2j * np.pi * j * powers / 30) for j in range(30)]
    rows.append(np.where(a == 1, np.where(b == 0, 30, -1), 0))
    assert same_rows(at_elements(group), rows)


@pytest.mark.parametrize("group", ["Dic_3", "Dic_5", "Dic_250"], indirect=True)
def test_dicyclic_groups_in_closed_form(group):
    n = group.order // 4
    turns = np.arange(2 * n)
    i = 1j**n
    flips = [(1, 1), (1, -1), (-1, i), (-1, -i)]
    rows = [np.concatenate([turn**turns, flip * turn**turns]) for turn, flip in flips]
    rows += [np.concatenate([2 * np.cos(np.pi * j * turns / n), np.zeros(2 * n)]) for j in range(1, n)]
    assert same_rows(at_elements(group), rows)
    quaternionic = character_table(group).indicator == -1
    assert quaternionic.sum() == n // 2, "the odd frequencies"


@pytest.mark.slow
@pytest.mark.parametrize("name", ["D_250xZ_2", "D_500", "D_4xZ_2^7", "Z_2^10", "Z_1000", "S_6"])
def test_large_tables_take_seconds(name):
    group = load_group(name)
    start = time.perf_counter()
    character_table.__wrapped__(group)
    assert time.perf_counter() - start < 10


def test_the_rule_on_hooks_that_can_be_counted_by_hand():
    names, values = symmetric_characters(7)
    assert len(names) == 15 and names[:3] == ((7,), (6, 1), (5, 2)) and names[-1] == (1,) * 7
    for column, lengths in enumerate(names):
        fixed = lengths.count(1)
        assert values[0, column] == 1 and values[-1, column] == (-1) ** (7 - len(lengths))
        assert values[1, column] == fixed - 1
        assert values[2, column] == fixed * (fixed - 1) // 2 + lengths.count(2) - fixed, "pairs kept - points kept"
    sizes = [cycle_type_size(lengths) for lengths in names]
    assert sum(sizes) == 5040 and np.array_equal((values * sizes) @ values.T, 5040 * np.eye(15))
    assert [len(partitions(n)) for n in range(9)] == [1, 1, 2, 3, 5, 7, 11, 15, 22]


@pytest.mark.parametrize("n", [5, 6])
def test_the_least_permutation_of_a_cycle_type(n):
    least: dict[tuple[int, ...], tuple[int, ...]] = {}
    for permutation in itertools.permutations(range(n)):
        least.setdefault(cycle_type(np.array(permutation)), permutation)
    assert {lengths: _least_permutation(lengths) for lengths in partitions(n)} == least


def test_s_8_needs_no_cayley_table():
    table = symmetric_character_table(8)
    assert table.order == 40320 and table.real_type and (table.dimensions**2).sum() == 40320
    assert table.irrep_names[:4] == ("1", "sign", "7a", "7b") and table.class_names[1] == "(2,1,1,1,1,1,1)"


def test_names_go_on_after_z():
    names = character_table(cyclic(60)).irrep_names
    assert names[:3] == ("1", "1a", "1b") and names[26:29] == ("1z", "1aa", "1ab") and len(set(names)) == 60


def test_sums_of_roots_are_exact_where_they_are_whole_or_real():
    for order in (1, 2, 3, 4, 7, 12, 60, 499):
        roots = roots_of_unity(order)
        assert np.allclose(roots, np.exp(2j * np.pi * np.arange(order) / order), atol=5e-15, rtol=0)
        assert np.array_equal(roots[-np.arange(order) % order], roots.conj())
    assert roots_of_unity(4).tolist() == [1, 1j, -1, -1j]
    random = np.random.default_rng(0)
    multiplicities = random.integers(0, 5, (6, 15)).astype(float)
    multiplicities[1] = multiplicities[0][-np.arange(15) % 15]
    multiplicities[2] = multiplicities[0] + multiplicities[1]
    multiplicities[3] = [7, *(3 if j % 3 and j % 5 else 1 if j % 3 else 2 for j in range(1, 15))]
    values = sum_of_roots(multiplicities, np.array([1, 2, 7, 14]))
    expected = multiplicities @ np.exp(2j * np.pi * np.outer(np.arange(15), [1, 2, 7, 14]) / 15)
    assert np.allclose(values, expected, atol=1e-12, rtol=0)
    assert np.array_equal(values[1], values[0].conj()) and not values[2].imag.any()
    assert (values[3] == np.rint(expected[3].real)).all() and values[3].real[0] % 1 == 0


def test_rows_that_are_no_characters_are_not_rounded():
    group = load_group("S_4")
    rough = np.array(character_table(group).characters)
    assert np.array_equal(lift(rough + 1e-3, group), character_table(group).characters)
    rough[3, 1] += 0.2
    with pytest.raises(NotCharacters, match="off by"):
        lift(rough, group)


def test_an_unlucky_combination_is_drawn_again(monkeypatch):
    """Two equal eigenvalues mix their eigenvectors: the mixture is refused and another combination drawn."""
    group, attempts = load_group("S_4"), []
    honest = characters._rough_characters

    def mixed_at_first(group, random):
        rows = honest(group, random)
        attempts.append(1)
        if len(attempts) < 3:
            rows[:2] = np.array([[0.6, 0.8], [0.8, -0.6]]) @ rows[:2]
        return rows

    monkeypatch.setattr(characters, "_rough_characters", mixed_at_first)
    assert np.array_equal(character_table.__wrapped__(group).characters, character_table(group).characters)
    assert len(attempts) == 3
    monkeypatch.setattr(characters, "_rough_characters", lambda group, random: np.ones((5, 5), complex))
    with pytest.raises(KroghError, match="no character table of S_4 was found in 5 draws"):
        character_table.__wrapped__(group)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: symmetric_characters(0), "n=0"),
        (lambda: symmetric_character_table(17), "between 1 and 16; got n=17"),
        (lambda: partitions(-1), "n=-1"),
        (lambda: character_table(from_table([[0, 1], [1, 1]])), "inverses fail"),
    ],
)
def test_bad_input(call, message):
    with pytest.raises(KroghError, match=message):
        call()
