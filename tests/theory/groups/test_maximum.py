"""Maximum margins: the source's numbers, and the best of many optimised neurons where no formula is trusted."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest
from support import best_optimised_neuron

from krogh.errors import KroghError
from krogh.programs.groups import cyclic, from_table, load_group
from krogh.theory.groups.characters import character_table
from krogh.theory.groups.game import solve_game
from krogh.theory.groups.maximum import (
    class_weights,
    closed_form,
    max_margin_cyclic,
    max_margin_group,
    max_margin_parity,
    sign_condition,
    theorem_7_7,
    theorem_7_9,
)
from krogh.theory.groups.problems import characters_of, cyclic_characters, real_characters
from krogh.theory.groups.weighted import default_offsets

ODD = {
    3: 7.8567420e-2,
    5: 3.0429031e-2,
    7: 1.7144817e-2,
    11: 8.2060994e-3,
    13: 6.2904280e-3,
    23: 2.5795652e-3,
    31: 1.6294124e-3,
    59: 6.1091265e-4,
    71: 4.6143008e-4,
    97: 2.8785648e-4,
    113: 2.2859981e-4,
}
EVEN = {4: 0.05026871, 6: 0.02360497, 8: 0.01434673}
PARITY = {1: 0.7071068, 2: 0.5443311, 3: 0.5303301, 4: 0.6071573, 5: 0.7856742, 6: 1.1220297}
THEOREM_7_9 = {
    "Z_2": 0.2721655,
    "Z_2^2": 0.06415003,
    "Z_2^3": 0.01944039,
    "S_3": 0.02360497,
    "D_4": 0.01571966,
    "D_5": 0.009884603,
    "D_6": 0.007762566,
    "S_4": 0.002076648,
    "S_5": 1.3259775e-4,
}
GAMES = {  # the value, and what Theorem 7.9's formula would give
    "A_5": (4.3157090e-4, 4.1729e-4),
    "S_6": (7.2663034e-6, 6.0600e-6),
    "S_7": (2.6889824e-7, 2.1533e-7),
    "D_4xD_4": (5.3157e-4, 5.2152e-4),
}


@pytest.mark.parametrize(("p", "value"), ODD.items())
def test_theorem_7_7(p, value):
    assert max_margin_cyclic(p).value == pytest.approx(value, rel=1e-7)
    assert theorem_7_7(p) == max_margin_cyclic(p).value
    assert "7.7" in max_margin_cyclic(p).theorem
    shares = max_margin_cyclic(p).irrep_shares
    np.testing.assert_allclose(list(shares.values()), 2 / (p - 1))
    assert list(shares) == [f"frequency {z}" for z in range(1, (p - 1) // 2 + 1)]
    np.testing.assert_allclose(list(max_margin_cyclic(p).class_weights.values()), 2 / (p - 1))
    assert max_margin_cyclic(p).width == 4 * (p - 1)


@pytest.mark.parametrize(("p", "value"), EVEN.items())
def test_even_p_has_its_own_formula(p, value):
    found = max_margin_cyclic(p)
    assert found.value == pytest.approx(value, rel=1e-6)
    assert found.value == pytest.approx(2 / (3 * math.sqrt(3 * p) * (1 + math.sqrt(2) * (p - 2))), rel=1e-14)
    assert sum(found.irrep_shares.values()) == pytest.approx(1)


@pytest.mark.parametrize(("k", "value"), PARITY.items())
def test_theorem_7_8(k, value):
    found = max_margin_parity(k)
    assert found.value == pytest.approx(value, rel=1e-7) and found.width == 2 ** (k - 1) and "7.8" in found.theorem


def test_a_long_parity_neither_overflows_nor_jumps():
    values = [max_margin_parity(k).value for k in range(1, 151)]
    logarithms = [
        0.5 * math.log(2) + sum(math.log(j) for j in range(1, k + 1)) - (k + 1) / 2 * math.log(k + 1)
        for k in range(1, 151)
    ]
    np.testing.assert_allclose(np.log(values), logarithms, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(("name", "value"), THEOREM_7_9.items())
def test_theorem_7_9(name, value):
    for found in (max_margin_group(name), theorem_7_9(name), max_margin_group(load_group(name))):
        assert found.value == pytest.approx(value, rel=1e-6)
        assert "Theorem 7.9" in found.theorem and found.gap < 1e-13 and not found.failing
    characters = characters_of(name)
    d = characters.dimensions[1:]
    np.testing.assert_allclose(list(max_margin_group(name).irrep_shares.values()), d**2.5 / np.sum(d**2.5))


def test_sums_of_dimensions():
    for name, total in {"S_3": 6.656854, "S_4": 37.833769, "S_5": 264.985030}.items():
        order = characters_of(name).order
        assert 2 / (3 * math.sqrt(3 * order) * max_margin_group(name).value) == pytest.approx(total, rel=1e-7)


@pytest.mark.parametrize(("name", "values"), GAMES.items())
def test_where_the_condition_fails_a_linear_program_decides(name, values):
    found = max_margin_group(name)
    value, formula = values
    assert found.value == pytest.approx(value, rel=1e-5 if name == "D_4xD_4" else 1e-7)
    assert closed_form(characters_of(name)) == pytest.approx(formula, rel=1e-4)
    assert "linear program" in found.theorem and found.gap <= 1e-12 and found.failing
    assert sum(found.irrep_shares.values()) == pytest.approx(1) == sum(found.class_weights.values())


def test_game_and_theorem_agree_where_both_hold():
    for name in ("S_3", "S_4", "S_5", "D_7", "Z_9", "Z_10", "A_4", "Q_8", "Z_2^3", "S_3xS_3"):
        characters = characters_of(name)
        game = solve_game(characters.payoff())
        assert characters.unit * game.lower == pytest.approx(max_margin_group(name).value, rel=1e-12)


def test_values_of_the_condition():
    values = sign_condition("S_5").values
    wanted = {
        "(2,1,1,1)": -1,
        "(2,2,1)": -6.033,
        "(3,1,1)": -5.361,
        "(4,1)": -1,
        "(5)": -0.303,
        "(3,2)": -1,
    }
    assert values == pytest.approx(wanted, abs=5e-4) and sign_condition("S_5").holds
    assert sign_condition("A_5").failing == ("(2,2,1)",)
    assert sign_condition("A_5").values["(2,2,1)"] == pytest.approx(0.788, abs=5e-4)
    six = sign_condition("S_6")
    assert {name: six.values[name] for name in six.failing} == pytest.approx({"(5,1)": 11.0, "(4,2)": 10.28}, abs=0.05)


@pytest.mark.parametrize(
    ("name", "failing"),
    [
        *(("S_2", 0), ("S_3", 0), ("S_4", 0), ("S_5", 0), ("S_6", 2), ("S_7", 2), ("S_8", 2)),
        *((f"D_{n}", 0) for n in range(4, 9)),
        *(("Z_2^4", 0), ("S_3xZ_2", 0), ("S_4xZ_2", 0), ("D_4xZ_2", 0), ("S_3xS_3", 0), ("D_5xD_5", 0)),
        *(("A_5", 1), ("D_4xD_4", 1), ("S_4xS_3", 1), ("S_3xS_3xS_3", 3)),
    ],
)
def test_where_the_condition_holds(name, failing):
    condition = sign_condition(name)
    assert len(condition.failing) == failing
    assert condition.holds == (failing == 0) and condition.real_type


def test_class_weights_of_lemma_d_14():
    characters = characters_of("S_5")
    tau = class_weights(characters)
    masses = dict(zip(characters.class_names, characters.class_sizes * tau, strict=True))
    wanted = {
        "(2,1,1,1)": 0.03774,
        "(2,2,1)": 0.34152,
        "(3,1,1)": 0.40460,
        "(4,1)": 0.11321,
        "(5)": 0.02745,
        "(3,2)": 0.07548,
    }
    assert {name: masses[name] for name in wanted} == pytest.approx(wanted, abs=1e-5)
    for name in ("S_3", "S_4", "A_4", "Q_8", "Z_9", "A_5", "D_4xD_4"):
        characters = characters_of(name)
        weights = class_weights(characters)
        assert weights[0] == 0 and characters.class_sizes @ weights == pytest.approx(1)
        assert (weights[1:] > 0).all() == sign_condition(name).holds


@pytest.mark.parametrize("name", ["Z_4", "Z_5", "Z_6", "S_3", "Q_8", "D_4", "Z_2^3", "Z_2xZ_4"])
def test_no_neuron_exceeds_the_maximum_margin(name):
    """Real, complex and quaternionic irreps: with the proving weights the best neuron has exactly γ*."""
    group = load_group(name)
    found = best_optimised_neuron(group.table, default_offsets(group))
    assert found == pytest.approx(max_margin_group(group).value, rel=1e-7)


def test_the_largest_margin_does_not_depend_on_the_numbering():
    table = load_group("D_5").table
    random = np.random.default_rng(3)
    order = random.permutation(len(table))
    renumbered = np.empty_like(table)
    renumbered[np.ix_(order, order)] = order[table]
    found, wanted = max_margin_group(from_table(renumbered)), max_margin_group("D_5")
    assert found.value == pytest.approx(wanted.value, rel=1e-14)
    assert sorted(found.irrep_shares.values()) == pytest.approx(sorted(wanted.irrep_shares.values()))


def test_cyclic_groups_are_recognised_by_their_table_and_agree_with_their_product():
    assert max_margin_group(cyclic(15)).theorem == max_margin_group(15).theorem == max_margin_group("Z_15").theorem
    assert max_margin_group("Z_3xZ_5").value == pytest.approx(max_margin_cyclic(15).value, rel=1e-14)
    assert max_margin_group("Z_4xZ_3").value == pytest.approx(max_margin_cyclic(12).value, rel=1e-14)


@pytest.mark.parametrize("p", [2, 3, 4, 9, 10, 71])
def test_characters_of_cyclic_groups_two_ways(p):
    short, long = cyclic_characters(p), characters_of(cyclic(p))
    np.testing.assert_allclose(short.characters, long.characters, atol=1e-12)
    assert short.kinds == long.kinds and short.class_names == long.class_names
    assert short.irrep_names == long.irrep_names


@pytest.mark.parametrize("name", ["S_4", "A_4", "Q_8", "Z_7", "A_5", "D_4xD_4", "Q_8xZ_3"])
def test_real_characters_are_orthogonal_and_as_many_as_real_classes(name):
    characters = characters_of(name)
    table = characters.characters
    gram = (table * characters.class_sizes) @ table.T / characters.order
    np.testing.assert_allclose(gram, np.diag(characters.commutants), atol=1e-9)
    assert len(table) == table.shape[1]
    assert np.sum(characters.dimensions**2 / characters.commutants) == pytest.approx(characters.order)


def test_tables_that_are_none_are_refused():
    table = character_table(load_group("S_3"))
    wrong = dataclasses.replace(table, characters=np.array([[1, 1, 1], [1, -1, 1], [2, 0, 1]], complex))
    with pytest.raises(KroghError, match="must add up to the regular representation of a group of order 6"):
        real_characters(wrong)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: theorem_7_7(8), r"needs an odd p; got p=8 \(try p=7 or 9"),
        (lambda: theorem_7_7(1), "p must be an integer at least 3; got p=1"),
        (lambda: max_margin_cyclic(1), "p must be an integer at least 2; got p=1"),
        (lambda: max_margin_cyclic(7.0), "p must be an integer"),
        (lambda: max_margin_parity(0), "k must be an integer between 1 and 150; got k=0"),
        (lambda: theorem_7_9("Z_7"), r"of real type; these are not: frequency 1 \(complex\)"),
        (lambda: theorem_7_9("Q_8"), r"these are not: 2 \(quaternionic\)"),
        (lambda: theorem_7_9("A_5"), r"is positive for \(2,2,1\) \(\+0\.788\)"),
        (lambda: max_margin_group("A_2"), "got the group of one element"),
        (lambda: max_margin_group("F_5"), "unknown group 'F_5'"),
        (lambda: max_margin_group(True), "a problem is a group"),
    ],
)
def test_bad_input(call, message):
    with pytest.raises(KroghError, match=message):
        call()
