"""The matrix game: against games whose value is known, and the subsets of section D.9.2."""

from __future__ import annotations

import numpy as np
import pytest

from krogh.errors import KroghError
from krogh.theory import predict
from krogh.theory.groups.game import GameSolution, _polished, solve_game, subset_certificate
from krogh.theory.groups.maximum import max_margin_group
from krogh.theory.groups.problems import characters_of


def index_of(names: tuple[str, ...], *wanted: str) -> list[int]:
    return [names.index(name) for name in wanted]


def test_games_of_known_value():
    stone = solve_game(np.array([[2, 1, 3], [3, 2, 1], [1, 3, 2]]))
    assert stone.lower == pytest.approx(2) == pytest.approx(stone.upper)
    np.testing.assert_allclose(stone.rows, 1 / 3)
    two = solve_game([[3.0, 0.0], [1.0, 2.0]])  # (ad - bc)/(a + d - b - c)
    assert two.lower == pytest.approx(6 / 4) and two.rows == pytest.approx([0.25, 0.75])
    assert two.columns == pytest.approx([0.5, 0.5])
    saddle = solve_game([[5.0, 4.0], [1.0, 9.0], [0.0, 3.0]])
    assert saddle.rows[2] == 0
    single = solve_game([[0.125]])
    assert single.lower == single.upper == 0.125


@pytest.mark.parametrize("shape", [(1, 7), (7, 1), (5, 5), (12, 8), (40, 40)])
def test_both_bounds_are_what_the_mixtures_prove(shape):
    for seed in range(5):
        a = np.random.default_rng(seed).exponential(size=shape)
        found = solve_game(a)
        assert found.lower == np.min(found.rows @ a) and found.upper == np.max(a @ found.columns)
        assert 0 <= found.upper - found.lower + 1e-15 <= 1e-12 * found.upper + 1e-15
        for mixture in (found.rows, found.columns):
            assert (mixture >= 0).all() and mixture.sum() == pytest.approx(1, abs=1e-14)


def test_rounding_of_a_solver_is_removed():
    a = characters_of("A_5").payoff()
    found = solve_game(a)
    noise = 1 + 1e-6 * np.random.default_rng(0).normal(size=(2, len(a)))
    rough = GameSolution(found.rows * noise[0], found.columns * noise[1], 0.0, np.inf)
    polished = _polished(a, rough)
    assert polished.lower == pytest.approx(found.lower, rel=1e-13) == pytest.approx(polished.upper, rel=1e-13)
    np.testing.assert_allclose(polished.rows, found.rows, atol=1e-12)


def test_the_subsets_of_a_5():
    characters = characters_of("A_5")
    irreps = index_of(characters.irrep_names, "3a", "3b", "4")
    classes = index_of(characters.class_names, "(3,1,1)", "(5)a", "(5)b")
    found = subset_certificate(characters, irreps, classes)
    assert found.failing == ()
    assert found.value == pytest.approx(4.3157090e-4, rel=1e-7) == pytest.approx(max_margin_group("A_5").value)
    np.testing.assert_allclose(found.logit_shares[np.array(irreps) - 1], [0.4, 0.4, 0.2], atol=1e-12)
    np.testing.assert_allclose(found.class_weights[np.array(classes) - 1], [0.41555, 0.29222, 0.29222], atol=1e-5)
    off = characters.class_names.index("(2,2,1)") - 1
    margins = found.irrep_shares @ characters.payoff() * characters.unit
    assert margins[off] > found.value * 1.01, "the class (12)(34) is strictly off the margin"
    assert max_margin_group("A_5").irrep_shares["5"] == 0


def test_one_solution_of_s_6():
    characters = characters_of("S_6")
    wanted = {"(3,3)": 0.07774, "(3,1,1,1)": 0.07774, "(2,2,1,1)": 0.84453}
    classes = index_of(characters.class_names, *wanted)
    dimensions = characters.dimensions.astype(int).tolist()
    solutions = []
    for ten in (i for i, d in enumerate(dimensions) if d == 10):
        fives = [i for i, d in enumerate(dimensions) if d == 5]
        for first in fives:
            for second in (i for i in fives if i > first):
                try:
                    found = subset_certificate(characters, [ten, first, second], classes)
                except KroghError:
                    continue  # dependent equations
                if not found.failing:
                    solutions.append(found)
                    np.testing.assert_allclose(found.logit_shares[ten - 1], 1 / 7)
                    np.testing.assert_allclose(found.logit_shares[[first - 1, second - 1]], 3 / 7)
    assert len(solutions) > 1, "the optimum is not unique"
    for found in solutions:
        assert found.value == pytest.approx(7.2663034e-6, rel=1e-7)
        np.testing.assert_allclose(found.class_weights[np.array(classes) - 1], list(wanted.values()), atol=1e-5)


def test_chosen_subsets_by_name():
    found = predict("algebra/subset-certificate", group="S_4", irreps="1,2,3,4", classes="1,2,3,4")
    assert found["proves_the_maximum"] and found["value"] == pytest.approx(max_margin_group("S_4").value, rel=1e-12)
    assert found["irrep_shares"] == pytest.approx(max_margin_group("S_4").irrep_shares)
    small = predict("algebra/subset-certificate", group="A_5", irreps=(3,), classes=(1,))
    assert not small["proves_the_maximum"] and any("smaller margin" in reason for reason in small["failing"])


def test_subsets_that_prove_nothing_say_why():
    characters = characters_of("A_5")
    everything = list(range(1, 5))
    whole = subset_certificate(characters, everything, everything)
    assert any("class (2,2,1) has the negative weight" in reason for reason in whole.failing)
    small = subset_certificate(characters, [3], [1])
    assert any("exceeds the common value" in reason for reason in small.failing)
    assert any("has a smaller margin" in reason for reason in small.failing)
    full = subset_certificate(characters_of("S_4"), everything, everything)
    assert full.failing == () and full.value == pytest.approx(max_margin_group("S_4").value, rel=1e-12)


@pytest.mark.parametrize(
    ("irreps", "classes", "message"),
    [
        ([0, 1], [1, 2], "irrep of the subset must be an integer between 1 and 4"),
        ([1, 1], [1, 2], "names each irrep once"),
        ([1, 2], [1], "as many classes as irreps; got 2 irreps, 1"),
        ([], [], "at least one"),
        ([1, 2], [3, 4], "are dependent"),
    ],
)
def test_bad_subsets(irreps, classes, message):
    with pytest.raises(KroghError, match=message):
        subset_certificate(characters_of("A_5"), irreps, classes)


def test_bad_games():
    with pytest.raises(KroghError, match=r"needs a matrix \[rows, columns\]; got the shape \(3,\)"):
        solve_game([1.0, 2.0, 3.0])
    with pytest.raises(KroghError, match="finite"):
        solve_game([[1.0, np.nan]])
