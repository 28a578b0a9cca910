"""Which languages are symmetric at a length, against all words of that length."""

from __future__ import annotations

import itertools
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from krogh.errors import KroghError
from krogh.programs.automata import asymmetry, count_table, from_table, words_of_length
from krogh.programs.automata.regex import from_regex

quiet = settings(database=None, deadline=None, max_examples=100)


@st.composite
def tables(draw) -> tuple:
    """What `from_table` makes an automaton of; half of them commute, so that symmetric languages are there too."""
    symbols = draw(st.sampled_from(["0", "01", "abc"]))
    if draw(st.booleans()):  # addition modulo a number: only counts matter
        modulus = draw(st.integers(1, 5))
        steps = [draw(st.integers(0, modulus - 1)) for _ in symbols]
        table = [[(q + step) % modulus for step in steps] for q in range(modulus)]
    else:
        states = draw(st.integers(1, 5))
        row = st.lists(st.integers(0, states - 1), min_size=len(symbols), max_size=len(symbols))
        table = draw(st.lists(row, min_size=states, max_size=states))
    return table, draw(st.sets(st.integers(0, len(table) - 1))), symbols, draw(st.integers(0, len(table) - 1))


def labels_by_counts(automaton, length: int) -> dict[tuple[int, ...], set[bool]]:
    """The labels that occur among the words with the same counts, by brute force."""
    words, symbols = words_of_length(len(automaton.alphabet), length), range(len(automaton.alphabet))
    found: dict[tuple[int, ...], set[bool]] = {}
    for word, label in zip(words.tolist(), automaton.accept(words).tolist(), strict=True):
        found.setdefault(tuple(word.count(symbol) for symbol in symbols), set()).add(label)
    return found


@quiet
@given(tables(), st.integers(0, 6))
def test_symmetric_languages_and_two_words_where_one_is_not(table, length):
    automaton = from_table(*table)
    labels, words = labels_by_counts(automaton, length), asymmetry(automaton, length)
    assert (words is None) == all(len(both) == 1 for both in labels.values())
    if words is not None:
        first, second = words
        assert len(first) == len(second) == length and Counter(first) == Counter(second)
        assert automaton.accepts(first) and not automaton.accepts(second)
        places = [place for place in range(length) if first[place] != second[place]]
        assert len(places) == 2 and places[1] == places[0] + 1, "an exchange of neighbours"


@quiet
@given(tables(), st.integers(0, 6))
def test_the_table_of_counts(table, length):
    automaton = from_table(*table)
    counts, accepted = count_table(automaton, length)
    labels = labels_by_counts(automaton, length)
    assert sorted(map(tuple, counts.tolist())) == sorted(labels)
    for row, label in zip(counts.tolist(), accepted.tolist(), strict=True):
        ordered = "".join(symbol * n for symbol, n in zip(automaton.alphabet, row, strict=True))
        assert automaton.accepts(ordered) == label
        if asymmetry(automaton, length) is None:
            assert labels[tuple(row)] == {label}


@pytest.mark.parametrize(
    ("pattern", "symmetric"),
    [("(0*10*1)*0*", {0, 1, 2, 3, 9, 40}), ("0*1*", {0, 1}), ("(01|10)*", {0, 1, 2, 3, 9}), ("(01)*", {0, 1, 3, 9})],
)
def test_symmetry_depends_on_the_length(pattern, symmetric):
    automaton = from_regex(pattern)
    assert {length for length in (0, 1, 2, 3, 9, 40) if asymmetry(automaton, length) is None} == symmetric


def test_a_large_length_and_alphabet_are_decided_without_listing_counts():
    parity = from_table([[q ^ (symbol % 2) for symbol in range(26)] for q in (0, 1)], [1], map(chr, range(97, 123)))
    assert asymmetry(parity, 500) is None
    with pytest.raises(KroghError, match=r"length 500 over 26 symbols have [\d,]+ vectors of counts; at most 100,000"):
        count_table(parity, 500)
    words = asymmetry(from_regex("[01]*11[01]*"), 300)
    assert words is not None and "11" in words[0] and "11" not in words[1] and len(words[0]) == 300


def test_all_vectors_of_counts():
    counts, accepted = count_table(from_regex("a*", "abc"), 4)
    expected = [row for row in itertools.product(range(5), repeat=3) if sum(row) == 4]
    assert sorted(map(tuple, counts.tolist())) == expected
    assert counts[accepted].tolist() == [[4, 0, 0]] and counts.dtype == np.int64
    assert count_table(from_regex("a*"), 7)[0].tolist() == [[7]]
    with pytest.raises(KroghError, match="length must be an integer at least 0; got length=-1"):
        asymmetry(from_regex("a"), -1)
