"""Finite groups as arrays, against their laws written out."""

from __future__ import annotations

import itertools
import json
import math
import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from krogh.errors import KroghError
from krogh.programs import groups
from krogh.programs.groups import load_group

quiet = settings(database=None, deadline=None, max_examples=60)

NAMES = (
    "Z_1",
    "Z_6",
    "Z_2^3",
    "D_1",
    "D_2",
    "D_5",
    "D_6",
    "S_1",
    "S_3",
    "S_4",
    "A_3",
    "A_4",
    "Q_8",
    "Z_2xZ_4",
    "S_3xZ_2",
)


def is_group(table):
    """The definition, element by element."""
    elements = range(len(table))
    if not all(0 <= table[a][b] < len(table) for a in elements for b in elements):
        return False
    if any(table[table[a][b]][c] != table[a][table[b][c]] for a in elements for b in elements for c in elements):
        return False
    units = [e for e in elements if all(table[e][a] == a == table[a][e] for a in elements)]
    return bool(units) and all(any(table[a][b] == units[0] == table[b][a] for b in elements) for a in elements)


def relabelled(table, random):
    order = random.permutation(len(table))
    return np.argsort(order)[table[np.ix_(order, order)]]


def accepted(table):
    try:
        groups.from_table(table)
    except KroghError:
        return False
    return True


@pytest.mark.parametrize("name", NAMES)
def test_named_groups_obey_the_laws(name):
    group = load_group(name)
    assert is_group(group.table.tolist()) and group.name == name
    e, elements = group.identity, np.arange(group.order)
    assert np.array_equal(group.table[e], elements) and np.array_equal(group.table[:, e], elements)
    assert (group.table[elements, group.inverse] == e).all() and (group.table[group.inverse, elements] == e).all()
    assert len(set(group.labels)) == group.order == len(group.table)
    assert group.abelian == all(group.table[a, b] == group.table[b, a] for a in elements for b in elements)


@pytest.mark.parametrize("seed", [None, 0, 1])
@pytest.mark.parametrize("name", NAMES)
def test_orders_classes_and_generators_are_the_definitions(name, seed):
    group = load_group(name)
    if seed is not None:  # the identity need not be element 0
        group = groups.from_table(relabelled(group.table, np.random.default_rng(seed)))
    conjugates = [
        frozenset(int(group.table[group.table[g, a], group.inverse[g]]) for g in range(group.order))
        for a in range(group.order)
    ]
    expected = sorted(set(conjugates), key=lambda c: (group.identity not in c, len(c), min(c)))
    assert [frozenset(members.tolist()) for members in group.classes] == expected
    assert [expected[number] for number in group.class_of] == conjugates
    assert group.class_sizes.tolist() == [len(c) for c in expected]
    assert group.representatives.tolist() == [min(c) for c in expected]
    for element in range(group.order):
        powers = [group.identity]
        while (following := int(group.table[powers[-1], element])) != group.identity:
            powers.append(following)
        assert group.element_orders[element] == len(powers) and group.powers(element).tolist() == powers
    assert group.exponent == math.lcm(*group.element_orders.tolist())
    reached = {group.identity}
    while larger := {int(group.table[a, g]) for a in reached for g in group.generators} - reached:
        reached |= larger
    assert len(reached) == group.order


def test_permutations_compose_from_the_right():
    group = groups.symmetric(4)
    permutations = list(itertools.permutations(range(4)))
    for (a, p), (b, q) in itertools.product(enumerate(permutations), repeat=2):
        assert permutations[group.table[a, b]] == tuple(p[q[x]] for x in range(4))
    swap, turn = group.labels.index("(12)"), group.labels.index("(123)")
    assert group.labels[group.table[swap, turn]] == "(23)" and group.labels[group.table[turn, swap]] == "(13)"
    assert group.labels[0] == "e" and group.permutations.tolist() == [list(p) for p in permutations]
    assert groups.cycle_type(np.array([1, 0, 3, 4, 2, 5])) == (3, 2, 1)


def test_alternating_groups_are_the_even_permutations():
    group = groups.alternating(5)
    parity = [sum(p[i] > p[j] for i in range(5) for j in range(i, 5)) % 2 for p in group.permutations]
    assert group.order == 60 and not any(parity)
    assert [groups.alternating(n).order for n in (1, 2, 3, 4, 6)] == [1, 1, 3, 12, 360]


def test_dihedral_groups_are_the_symmetries_of_a_polygon():
    for n in (1, 2, 3, 4, 7, 8):
        group = groups.dihedral(n)
        angle = 2 * np.pi / n * np.arange(n)
        turns = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]]).transpose(2, 0, 1)
        matrices = np.concatenate([turns, turns @ np.diag([1.0, -1.0])])
        assert np.allclose(matrices[group.table], matrices[:, None] @ matrices[None, :])
    assert groups.dihedral(3).labels == ("e", "r", "r^2", "s", "rs", "r^2s")
    assert groups.dihedral(1).labels == ("e", "s")


def test_quaternions_multiply_as_matrices():
    i = np.array([[1j, 0], [0, -1j]])
    j = np.array([[0, 1], [-1, 0]], complex)
    units = [np.eye(2), i, j, i @ j]
    matrices = np.array([sign * unit for unit in units for sign in (1, -1)])
    group = groups.quaternion()
    assert np.allclose(matrices[group.table], matrices[:, None] @ matrices[None, :])
    assert group.labels[group.table[group.labels.index("i"), group.labels.index("j")]] == "k"


def test_products_act_in_every_factor():
    parts = (groups.symmetric(3), groups.cyclic(2), groups.quaternion())
    group = groups.product(*parts)
    elements = list(itertools.product(range(6), range(2), range(8)))
    random = np.random.default_rng(0)
    for a, b in random.integers(0, 96, (300, 2)):
        expected = tuple(int(p.table[x, y]) for p, x, y in zip(parts, elements[a], elements[b], strict=True))
        assert elements[group.table[a, b]] == expected
    assert group.name == "S_3xZ_2xQ_8" and group.labels[17] == "((23),0,-1)"
    assert groups.product(parts[0]) is parts[0]
    assert groups.power(groups.cyclic(2), 3).name == "Z_2^3"
    assert np.array_equal(load_group("Z_2^3").table, load_group("Z_2xZ_2xZ_2").table)
    assert load_group("Z_2^3").table.tolist() == [[a ^ b for b in range(8)] for a in range(8)]


@pytest.mark.parametrize("name", [*NAMES, "Z_71", "S_5", "A_5", "D_4xD_4", "D_4xZ_2^3", "Q_8^2"])
def test_a_name_loads_the_group_of_that_name(name):
    assert load_group(name).name == name
    assert load_group(f" {name.replace('_', '').replace('x', ' × ')} ") == load_group(name)


def test_groups_are_values():
    first, second = load_group("D_4"), load_group("D_4")
    assert first == second and hash(first) == hash(second) and len({first, second}) == 1
    assert first != load_group("Q_8") and first != "D_4"
    assert first != groups.from_table(first.table, name="D_4"), "other labels"
    assert load_group("S_3") != groups.from_table(load_group("S_3").table, load_group("S_3").labels, "S_3")
    with pytest.raises(ValueError, match="read-only"):
        first.table[0, 0] = 1
    with pytest.raises(AttributeError):
        first.name = "D_5"
    mine = np.array([[0, 1], [1, 0]])
    group = groups.from_table(mine)
    mine[0, 0] = 1
    assert group.table[0, 0] == 0


@quiet
@given(st.sampled_from(NAMES), st.integers(0, 2**32 - 1), st.integers(0, 2))
def test_tables_are_accepted_exactly_when_they_are_groups(name, seed, damage):
    """Relabelled groups are groups; with a few entries changed, or rows shuffled, the definition decides."""
    random = np.random.default_rng(seed)
    table = load_group(name).table
    table = relabelled(table, random)
    if damage == 1:
        for _ in range(random.integers(1, 3)):
            table[tuple(random.integers(0, len(table), 2))] = random.integers(0, len(table))
    if damage == 2:  # an isotope: a Latin square, rarely a group
        table = table[random.permutation(len(table))][:, random.permutation(len(table))]
    assert accepted(table) == is_group(table.tolist())
    assert damage or accepted(table)


LOOP = [[0, 1, 2, 3, 4], [1, 0, 3, 4, 2], [2, 4, 0, 1, 3], [3, 2, 4, 0, 1], [4, 3, 1, 2, 0]]


def test_a_loop_with_inverses_fails_at_a_triple_that_does_not_associate():
    with pytest.raises(
        KroghError, match=r"associativity fails: with a = 1, b = 1, c = 2, \(ab\)c is 2 but a\(bc\) is 4"
    ):
        groups.from_table(LOOP)
    assert LOOP[LOOP[1][1]][2] == 2 and LOOP[1][LOOP[1][2]] == 4


def test_one_bad_pair_of_products_in_a_large_group_is_found():
    """Two products exchanged in S_6: identity and inverses stay, and a triple among the 720³ that fails is named."""
    table = np.array(groups.symmetric(6).table)
    table[500, [300, 301]] = table[500, [301, 300]]
    with pytest.raises(KroghError, match="associativity fails") as caught:
        groups.from_table(table)
    words = str(caught.value).replace(",", "").split()
    a, b, c, left, right = (
        int(words[words.index(key) + shift])
        for key, shift in (("a", 2), ("b", 2), ("c", 2), ("(ab)c", 2), ("a(bc)", 2))
    )
    assert table[table[a, b], c] == left != right == table[a, table[b, c]]


def test_large_tables_are_checked_in_a_moment():
    random = np.random.default_rng(0)
    for name in ("S_6", "D_500", "Z_10^3"):
        table = relabelled(load_group(name).table, random)
        start = time.perf_counter()
        assert accepted(table)
        assert time.perf_counter() - start < 5


@pytest.mark.parametrize(
    ("table", "message"),
    [
        (
            [[0, 1], [1, 2]],
            r"closure fails: the product of 1 and 1 is 2, which is no element \(entries must be 0 to 1\)",
        ),
        ([[1, 2], [2, 1]], r"closure fails: the product of 0 and 1 is 2.*the entries run from 1: subtract 1"),
        ([[0, 1], [1, -1]], "closure fails: the product of 1 and 1 is -1"),
        ([[0, 0], [1, 1]], "identity fails: .*the nearest, 0, takes 1 to 0 from the left and to 1 from the right"),
        ([[0, 1], [0, 1]], "identity fails: .*takes 1 to 1 from the left and to 0 from the right"),
        ([[0, 1], [1, 1]], "inverses fail: element 1 has no two-sided inverse: no product of 1 with an element is 0"),
        (
            [[0, 1, 2, 3], [1, 2, 0, 3], [2, 1, 3, 0], [3, 0, 1, 2]],
            "inverses fail: element 1 .*times 2 it is 0, but 2 times 1 is 1",
        ),
        ([[0, 1], [1]], "rows of unequal length"),
        ([[0, 1, 2], [1, 2, 0]], r"square array \[n, n\] with n ≥ 1; got shape \[2, 3\]"),
        ([], r"got shape \[0\]"),
        ([[0, 1], [1, 0.5]], "whole numbers 0 to 1; got 0.5"),
        ([["e", "a"], ["a", "e"]], "whole numbers 0 to 1; got 'e'"),
        ([[False, True], [True, False]], "whole numbers 0 to 1; got False"),
        ([[0, 1], [1, math.nan]], "got nan"),
        (np.zeros((1025, 1025), int), "at most 1024 elements; the table has 1025"),
    ],
)
def test_what_is_no_group_is_refused_with_the_law_and_the_elements(table, message):
    with pytest.raises(KroghError, match=message):
        groups.from_table(table)


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: groups.from_table([[0, 1], [1, 1]], ["e", "a"]), r"element 1 \(a\) has no two-sided inverse"),
        (lambda: groups.from_table([[0, 1], [1, 0]], ["e"]), "2 elements need 2 labels; got 1"),
        (lambda: groups.from_table([[0, 1], [1, 0]], ["e", "e"]), "labels must differ; 'e'"),
        (lambda: groups.from_table([[0, 1], [1, 0]], ["e", " "]), "words that are not empty; got ' '"),
        (
            lambda: groups.Group("x", groups.cyclic(2).table, (), np.array([[0, 1]])),
            r"shape \[2, degree\]; got \[1, 2\]",
        ),
        (lambda: groups.Group("x", groups.cyclic(2).table, (), np.array([[0, 1], [1, 1]])), "list 0..degree-1 once"),
        (lambda: groups.Group("x", groups.cyclic(2).table, (), np.array([[0, 1], [0, 1]])), "must differ"),
        (
            lambda: groups.Group("x", groups.cyclic(3).table, (), np.array([[0, 1, 2], [1, 2, 0], [1, 0, 2]])),
            "follow the table",
        ),
        (lambda: groups.cyclic(0), "n=0"),
        (lambda: groups.cyclic(1025), "between 1 and 1024; got n=1025"),
        (lambda: groups.dihedral(True), "n=True"),
        (lambda: groups.symmetric(7), "between 1 and 6; got n=7"),
        (lambda: groups.product(), "at least one group"),
        (lambda: groups.product(groups.symmetric(6), groups.cyclic(2)), "S_6xZ_2 has 1440 elements"),
        (lambda: groups.power(groups.cyclic(2), 0), "times=0"),
        (lambda: load_group("Z_30^3"), "'Z_30\\^3': Z_30xZ_30xZ_30 has 27000 elements"),
        (lambda: load_group("s_5"), "unknown group 's_5'; did you mean 'S_5'"),
        (lambda: load_group("C_7"), "did you mean 'Z_7'"),
        (lambda: load_group("Q_16"), "did you mean 'Q_8'"),
        (lambda: load_group("S_5y"), "did you mean 'S_5'"),
        (lambda: load_group("Z_2^0"), r"unknown group 'Z_2\^0'; did you mean 'Z_2\^3'"),
        (lambda: load_group("monster"), "unknown group 'monster' .*Z_n, D_n, S_n, A_n, Q_8"),
        (lambda: load_group("S_9"), r"no table for the group 'S_9': .*got n=9 \(nearest: 'S_6'\)"),
        (lambda: load_group("Z_0"), "nearest: 'Z_1'"),
        (lambda: load_group("nowhere.csv"), "no file 'nowhere.csv'"),
    ],
)
def test_bad_values_are_refused_with_what_was_given(build, message):
    with pytest.raises(KroghError, match=message):
        build()


def test_tables_in_files(tmp_path):
    group = groups.quaternion()
    table, labels = group.table.tolist(), list(group.labels)
    np.save(tmp_path / "plain.npy", group.table)
    (tmp_path / "plain.json").write_text(json.dumps(table))
    (tmp_path / "named.json").write_text(json.dumps({"table": table, "labels": labels, "name": "Q_8"}))
    (tmp_path / "plain.CSV").write_text("\n".join(",".join(map(str, row)) for row in table) + "\n\n")
    words = [["*", *labels], *([labels[a], *(labels[b] for b in table[a])] for a in range(8))]
    (tmp_path / "words.csv").write_text("\n".join(", ".join(row) for row in words))
    for file in ("plain.npy", "plain.json", "plain.CSV"):
        assert load_group(tmp_path / file) == groups.from_table(table, name="plain")
    assert load_group(str(tmp_path / "named.json")) == group
    assert load_group(tmp_path / "words.csv") == groups.from_table(table, labels, "words")


@pytest.mark.parametrize(
    ("file", "content", "message"),
    [
        ("a.csv", "0,1\n1,1\n", "inverses fail"),
        ("a.csv", "0,1\n1\n", "row 2 of .* has 1 entries, the first has 2"),
        ("a.csv", "\n", "it is empty"),
        ("a.csv", "0,x\nx,0\n", "closure fails: '0' in row 2"),
        ("a.csv", ",e,a\ne,e,a\na,a,b\n", "closure fails: 'b' in row 3"),
        ("a.csv", ",e,a\na,e,a\ne,a,e\n", r"got \['e', 'a'\] and \['a', 'e'\]"),
        ("a.json", "[[0, 1], [1, 0", "cannot be read as JSON"),
        ("a.json", '{"tables": [[0]]}', "must hold a list of lists or"),
        ("a.json", '{"table": [[0]], "labels": [1]}', r"list of words; got \[1\]"),
        ("a.json", '{"table": [[0]], "name": 3}', "name in .* must be a word; got 3"),
        ("a.json", "[[0, 1], [1]]", "rows of unequal length"),
        ("a.npy", "not an array", "cannot be read as NPY"),
    ],
)
def test_bad_files_are_refused_with_what_is_in_them(tmp_path, file, content, message):
    (tmp_path / file).write_text(content)
    with pytest.raises(KroghError, match=message):
        load_group(tmp_path / file)
