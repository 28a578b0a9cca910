"""Automata against words read one symbol at a time, and languages against their definitions."""

from __future__ import annotations

import dataclasses
import itertools
import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from krogh.errors import KroghError
from krogh.programs.automata.automaton import PADDING, Automaton, from_table, pad_words, words_of_length
from krogh.programs.automata.languages import combine, distinguishing_word, minimise, shortest_word

quiet = settings(database=None, deadline=None, max_examples=35)

# The languages of Table 1 of the paper on learning in RNNs: transitions on 0 and 1, accepting states, definition.
TABLE_1 = {
    "tomita-1": ([[1, 0], [1, 1]], {0}, lambda w: "0" not in w),
    "tomita-2": ([[2, 1], [0, 2], [2, 2]], {0}, lambda w: re.fullmatch("(10)*", w)),
    "tomita-3": (
        [[0, 1], [3, 0], [3, 1], [2, 4], [4, 4]],
        {0, 1, 2},
        lambda w: not any(
            len(ones) % 2 and len(zeros) % 2 for ones, zeros in re.findall("(1+)(0+)", w)
        ),
    ),
    "tomita-4": ([[1, 0], [2, 0], [3, 0], [3, 3]], {0, 1, 2}, lambda w: "000" not in w),
    "tomita-5": ([[1, 2], [0, 3], [3, 0], [2, 1]], {0}, lambda w: w.count("0") % 2 == w.count("1") % 2 == 0),
    "tomita-6": ([[2, 1], [0, 2], [1, 0]], {0}, lambda w: (w.count("1") - w.count("0")) % 3 == 0),
    "tomita-7": ([[0, 1], [2, 1], [2, 3], [4, 3], [4, 4]], {0, 1, 2, 3}, lambda w: re.fullmatch("0*1*0*1*", w)),
    "parity": ([[0, 1], [1, 0]], {1}, lambda w: w.count("1") % 2 == 1),
    "(0101)*": ([[1, 4], [4, 2], [3, 4], [4, 0], [4, 4]], {0}, lambda w: re.fullmatch("(0101)*", w)),
    "(00)*(11)*": ([[1, 2], [0, 4], [4, 3], [4, 2], [4, 4]], {0, 3}, lambda w: re.fullmatch("(00)*(11)*", w)),
}  # fmt: skip


def words(alphabet: str, longest: int) -> list[str]:
    every = (itertools.product(alphabet, repeat=length) for length in range(longest + 1))
    return ["".join(word) for group in every for word in group]


def reads(automaton: Automaton, word: str) -> bool:
    """The definition, one symbol at a time."""
    state, table = automaton.start, automaton.transitions.tolist()
    for symbol in word:
        state = table[state][automaton.alphabet.index(symbol)]
    return state in automaton.accepting


@st.composite
def tables(draw, alphabet: str | None = None, most: int = 7) -> tuple:
    """What `from_table` makes an automaton of: transitions, accepting states, alphabet, start."""
    symbols = draw(st.sampled_from(["0", "01", "abc"])) if alphabet is None else alphabet
    states = draw(st.integers(1, most))
    number = st.integers(0, states - 1)
    row = st.lists(number, min_size=len(symbols), max_size=len(symbols))
    return draw(st.lists(row, min_size=states, max_size=states)), draw(st.sets(number)), symbols, draw(number)


# --- reading words -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", TABLE_1)
def test_the_languages_of_table_1(name):
    table, accepting, member = TABLE_1[name]
    automaton = from_table(table, accepting, name=name)
    every = words("01", 9)
    assert automaton.accepts("") == bool(member("")) and automaton.accepts("1011") == bool(member("1011"))
    assert automaton.accept(automaton.encode_words(every)).tolist() == [bool(member(word)) for word in every]


@quiet
@given(tables(), st.data())
def test_a_batch_is_read_as_its_words_are(table, data):
    automaton = from_table(*table)
    texts = data.draw(st.lists(st.text(alphabet="".join(automaton.alphabet), max_size=9), max_size=6))
    batch = automaton.encode_words(texts)
    assert automaton.accept(batch).tolist() == [reads(automaton, text) for text in texts]
    assert [automaton.decode(row) for row in batch] == texts
    path = automaton.run(batch)
    assert path.shape == (len(texts), batch.shape[1] + 1) and path.dtype == np.int32
    for row, text in zip(path, texts, strict=True):
        for place, state in enumerate(row):
            assert (state in automaton.accepting) == reads(automaton, text[:place]), "after its end a word stays put"


def test_symbols_of_several_characters_are_cut_from_the_left_by_the_longest():
    automaton = from_table([[0, 1, 0], [1, 0, 1]], [1], ["a", "ab", "b"])
    assert automaton.encode("aabb").tolist() == [0, 1, 2]
    assert automaton.encode(["a", "b"]).tolist() == [0, 2]
    assert automaton.decode([0, 1, PADDING]) == "aab"
    with pytest.raises(KroghError, match=r"'c', character 2 of 'ac', is no symbol of the alphabet 'a', 'ab', 'b'"):
        automaton.encode("ac")


def test_all_words_of_a_length_in_lexicographic_order():
    assert words_of_length(3, 0).shape == (1, 0)
    assert words_of_length(3, 4).tolist() == [list(word) for word in itertools.product(range(3), repeat=4)]
    assert pad_words([np.array([1, 0]), np.array([], int)]).tolist() == [[1, 0], [PADDING, PADDING]]


def test_equal_automata_are_equal_whatever_their_names():
    one, other = (from_table([[0, 1], [1, 0]], [1], name=name) for name in ("a", "b"))
    assert one == other and hash(one) == hash(other) and len({one, other}) == 1
    assert (
        one != dataclasses.replace(one, accepting=()) and one != from_table([[0, 1], [1, 0]], [1], "ab") and one != "a"
    )
    assert repr(one) == "Automaton('a', states=2, alphabet='01')"
    with pytest.raises(ValueError, match="read-only"):
        one.transitions[0, 0] = 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([[0, 2]], [0]), "state '0' goes to 2 on '1'; states are 0..0"),
        (([[0, -1]], [0]), "goes to -1"),
        (([[0, 0]], [1]), "an accepting state must be an integer between 0 and 0"),
        (([[0, 0]], [0], "01", 1), "start must be an integer between 0 and 0; got start=1"),
        (([[0], [0, 1]], [0]), "rows of equally many numbers"),
        (([[0.5, 0]], [0]), "rows of equally many numbers"),
        (([], []), "rows of equally many numbers"),
        (([[0, 0]], [0], "abc"), "a column for each of the 3 symbols; got an array of shape [1, 2]"),
        (([[0, 0]], [0], "aa"), "the symbols of an alphabet differ; 'a' is twice in 'aa'"),
        (([[]], [0], ""), "an alphabet has at least one symbol"),
        (([[0, 0]], [0], ["a", ""]), "symbols are texts that are not empty; got ''"),
        (([[0, 0]], [0], "01", 0, "x", ["a", "b"]), "1 states need 1 names; got 2"),
        (([[0, 0], [0, 0]], [0], "01", 0, "x", ["a", "a"]), "names of states must differ"),
    ],
)
def test_what_is_no_automaton_is_refused(arguments, message):
    with pytest.raises(KroghError, match=re.escape(message)):
        from_table(*arguments)


def test_what_is_no_word_is_refused():
    automaton = from_table([[0, 1], [1, 0]], [1])
    with pytest.raises(KroghError, match=r"'2', number 3 of the word, is no symbol of the alphabet '01'"):
        automaton.accepts("012")
    with pytest.raises(KroghError, match=r"words are numbers 0..1 of symbols, and -1 behind their end; got \[2\]"):
        automaton.run(np.array([[0, 2]]))
    with pytest.raises(KroghError, match=r"a word goes on after -1, its end: rows \[1\]"):
        automaton.run(np.array([[0, 1], [-1, 1]]))


# --- languages -----------------------------------------------------------------------------------------------


def fewest_states(automaton: Automaton) -> int:
    """Moore's refinement, written independently: classes of reachable states by their futures."""
    reachable, frontier = {automaton.start}, [automaton.start]
    while frontier:
        frontier = [int(t) for q in frontier for t in automaton.transitions[q] if int(t) not in reachable]
        reachable.update(frontier)
    future = {q: (q in automaton.accepting,) for q in reachable}
    for _ in range(automaton.size):
        future = {q: (future[q][0], *(hash(future[int(t)]) for t in automaton.transitions[q])) for q in reachable}
    return len(set(future.values()))


@quiet
@given(tables())
def test_the_least_automaton(table):
    automaton = from_table(*table)
    least = minimise(automaton)
    every = words("".join(automaton.alphabet), 4 if len(automaton.alphabet) > 2 else 6)
    assert least.accept(least.encode_words(every)).tolist() == [reads(automaton, word) for word in every]
    assert least.size == fewest_states(automaton)
    assert minimise(least) == least and least.start == 0


@quiet
@given(tables("01"), st.randoms(use_true_random=False))
def test_the_least_automaton_does_not_depend_on_the_numbering(given_table, random):
    automaton = from_table(*given_table)
    order = list(range(automaton.size))
    random.shuffle(order)
    table = np.empty_like(automaton.transitions)
    table[order] = np.array(order)[automaton.transitions]
    other = from_table(table, [order[q] for q in automaton.accepting], start=order[automaton.start])
    assert minimise(other) == minimise(automaton)


@quiet
@given(tables("01"), tables("10"))
def test_combinations_and_the_word_that_tells_two_languages_apart(one, other):
    first, second = from_table(*one), from_table(*other)
    every = words("01", 6)
    in_first, in_second = (np.array([reads(one, word) for word in every]) for one in (first, second))
    members = {
        "and": in_first & in_second,
        "or": in_first | in_second,
        "minus": in_first & ~in_second,
        "xor": in_first ^ in_second,
    }
    for how, expected in members.items():
        combined = combine(first, second, how)
        assert [reads(combined, word) for word in every] == expected.tolist()
        found = shortest_word(combined)
        if expected.any():
            assert found == every[int(np.argmax(expected))], "the first of the shortest words"
        else:
            assert found is None or len(found) > 6
    apart = distinguishing_word(first, second)
    assert (apart is None) == (minimise(combine(first, second, "and")) == minimise(combine(first, second, "or")))
    assert apart == shortest_word(combine(first, second, "xor"))
    assert distinguishing_word(first, minimise(first)) is None
    others = dataclasses.replace(first, accepting=tuple(np.flatnonzero(~first.final).tolist()))
    assert distinguishing_word(first, others) == "", "the empty word is in a language or in its complement"


def test_a_long_chain_is_minimised_in_time():
    """Moore's method would take a round per state; Hopcroft's needs n log n."""
    states = 3_000
    table = [[min(q + 1, states - 1), q] for q in range(states)]
    automaton = from_table(table, [states - 1])
    assert minimise(automaton).size == states
    assert shortest_word(automaton) == "0" * (states - 1)


def test_languages_over_different_alphabets_are_not_compared():
    one, other = from_table([[0, 0]], [0], name="bits"), from_table([[0, 0]], [0], "ab", name="letters")
    with pytest.raises(KroghError, match="over one alphabet; 'bits' has '01' and 'letters' has 'ab'"):
        combine(one, other, "and")
    with pytest.raises(KroghError, match="unknown combination 'nand'; did you mean 'and'"):
        combine(one, one, "nand")
