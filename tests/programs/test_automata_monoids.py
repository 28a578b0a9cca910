"""Syntactic monoids: of languages whose algebra is known, and against definitions by brute force."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from krogh.errors import KroghError
from krogh.programs.automata import LANGUAGES, Automaton, known_language, minimise, syntactic_monoid
from krogh.programs.automata.monoids import generated, is_solvable

# Size of the monoid where it is known, and whether the language is star-free (Bhattamishra, Ahuja, Goyal 2020).
KNOWN = {
    "tomita-1": (2, True),
    "tomita-2": (6, True),  # Brandt's monoid with a unit
    "tomita-3": (None, False),
    "tomita-4": (None, True),
    "tomita-5": (4, False),
    "tomita-6": (3, False),
    "tomita-7": (None, True),
    "parity": (2, False),
    "brackets-2": (None, True),
    "brackets-3": (None, True),
    "brackets-4": (None, True),
    "(00)*": (2, False),
    "(0101)*": (None, False),
    "(00)*(11)*": (None, False),
}


def test_all_languages_of_the_library_are_tried():
    assert set(KNOWN) == set(LANGUAGES)


@pytest.mark.parametrize("name", KNOWN)
def test_star_free_languages_are_those_of_the_literature(name):
    size, star_free = KNOWN[name]
    monoid = syntactic_monoid(known_language(name))
    assert monoid.group_free == star_free and monoid.solvable
    assert size is None or monoid.size == size
    assert bool(monoid.groups) != star_free


def test_groups_are_groups_and_of_the_right_order():
    assert {len(group) for group in syntactic_monoid(known_language("(0101)*")).groups} == {2}
    assert [len(group) for group in syntactic_monoid(known_language("tomita-5")).groups] == [4]
    assert (
        syntactic_monoid(known_language("tomita-5")).is_group
        and syntactic_monoid(known_language("tomita-5")).commutative
    )
    assert (
        not syntactic_monoid(known_language("tomita-2")).commutative
        and not syntactic_monoid(known_language("tomita-2")).is_group
    )
    unary = syntactic_monoid(known_language("(00)*"))
    assert (unary.size, unary.group_free, unary.words) == (2, False, ("", "0"))


def permuting(*permutations):
    """The words that bring 0 back to its place."""
    rows = np.array(permutations).T
    return Automaton("back", tuple("abcdef"[: rows.shape[1]]), rows, 0, (0,))


@pytest.mark.parametrize(
    ("permutations", "order", "solvable"),
    [
        (((1, 0, 2, 3), (1, 2, 3, 0)), 24, True),  # S_4
        (((1, 0, 2, 3, 4), (1, 2, 3, 4, 0)), 120, False),  # S_5
        (((1, 2, 0, 3, 4), (0, 1, 3, 4, 2)), 60, False),  # A_5
        (((1, 2, 3, 4, 0), (0, 4, 3, 2, 1)), 10, True),  # the symmetries of a pentagon
    ],
)
def test_a_group_is_solvable_or_not(permutations, order, solvable):
    monoid = syntactic_monoid(permuting(*permutations))
    assert monoid.is_group and monoid.size == order and monoid.solvable == solvable
    (group,) = monoid.groups
    assert len(group) == order == len(generated(permutations)) and is_solvable(group) == solvable


def test_an_unsolvable_group_beside_a_sink_is_found():
    rows = np.array([[1, 1, 5], [0, 2, 1], [2, 3, 2], [3, 4, 3], [4, 0, 4], [5, 5, 5]])
    monoid = syntactic_monoid(Automaton("S_5 and more", ("a", "b", "c"), rows, 0, (0,)))
    assert not monoid.is_group and not monoid.group_free and not monoid.solvable
    assert 120 in {len(group) for group in monoid.groups}


tables = st.integers(1, 4).flatmap(
    lambda n: st.tuples(
        st.lists(st.lists(st.integers(0, n - 1), min_size=2, max_size=2), min_size=n, max_size=n),
        st.sets(st.integers(0, n - 1)),
    )
)


@settings(deadline=None, max_examples=60)
@given(tables)
def test_a_monoid_is_its_definition(given_table):
    table, accepting = given_table
    language = Automaton("any", ("0", "1"), np.array(table), 0, tuple(accepting))
    monoid, least = syntactic_monoid(language), minimise(language)
    # Words that act alike on all states are one element, and every element has its word.
    acting = {}
    for length in range(6):
        for word in itertools.product((0, 1), repeat=length):
            states = np.arange(least.size)
            for symbol in word:
                states = least.transitions[states, symbol]
            acting.setdefault(tuple(states.tolist()), "".join(map(str, word)))
    short = {e: w for e, w in zip(monoid.elements, monoid.words, strict=True) if len(w) < 6}
    assert short == acting
    product = monoid.table
    places = range(monoid.size)
    assert (product[0] == list(places)).all() and (product[:, 0] == list(places)).all()
    random = np.random.default_rng(0)
    for a, b, c in random.integers(0, monoid.size, (20, 3)):
        assert product[product[a, b], c] == product[a, product[b, c]]
        first, second = (np.array(monoid.elements[place]) for place in (a, b))
        assert monoid.elements[product[a, b]] == tuple(second[first].tolist())
    # Star-free: no word repeated changes anything for ever. By powers far beyond any index.
    powers = [(_power(product, place, 24), _power(product, place, 25)) for place in places]
    assert monoid.group_free == all(one == other for one, other in powers)
    # Members of groups: m = m·m^24 (24 is a multiple of every order of a group of permutations of four).
    inside = sum(product[place, _power(product, place, 24)] == place for place in places)
    idempotents = sum(product[place, place] == place for place in places)
    assert sum(map(len, monoid.groups)) == inside - (idempotents - len(monoid.groups))


def _power(product, place, exponent):
    power = place
    for _ in range(exponent - 1):
        power = product[power, place]
    return power


def test_a_monoid_that_is_too_large_is_refused():
    rows = np.array([[1, 1, 0], [0, 2, 0], [2, 3, 2], [3, 4, 3], [4, 0, 4]])
    full = Automaton("all maps", ("a", "b", "c"), rows, 0, (0,))
    with pytest.raises(KroghError, match=r"'all maps' .5 states. has more than 100 elements .*most=1000"):
        syntactic_monoid(full, most=100)
    assert syntactic_monoid(full).size == 5**5
