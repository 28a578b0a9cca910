"""Counts of words against lists of all words, and what a text names."""

from __future__ import annotations

import numpy as np
import pytest

from krogh.errors import KroghError
from krogh.programs.automata import (
    LANGUAGES,
    brackets,
    branch_shares,
    count_words,
    find_language,
    find_languages,
    from_regex,
    has_dead_state,
    is_infinite,
    known_language,
    live_states,
    possible_lengths,
    require_infinite,
    words_of_length,
    write_automaton,
)

LONGEST = 7


@pytest.mark.parametrize("name", LANGUAGES)
@pytest.mark.parametrize("accepted", [True, False])
def test_words_are_counted_as_they_are_listed(name, accepted):
    automaton = known_language(name)
    counts = count_words(automaton, LONGEST, accepted)
    for length in range(LONGEST + 1):
        words = words_of_length(len(automaton.alphabet), length)
        assert counts[length][automaton.start] == int((automaton.accept(words) == accepted).sum())
    listed = [length for length in range(2, LONGEST + 1) if counts[length][automaton.start]]
    assert possible_lengths(automaton, 2, LONGEST, accepted) == listed


def test_shares_of_symbols_make_all_words_of_a_length_equally_likely():
    automaton = known_language("tomita-3")
    steps = np.diff(branch_shares(automaton, 6), axis=-1, prepend=0.0)
    words = words_of_length(2, 6)
    words = words[automaton.accept(words)]
    chance = np.ones(len(words))
    for t, (states, symbols) in enumerate(zip(automaton.run(words).T[:-1], words.T, strict=True)):
        chance *= steps[6 - t, states, symbols]
    assert np.allclose(chance, 1 / len(words), rtol=1e-5)


def test_counts_are_exact_where_floats_are_not():
    assert count_words(from_regex("(0|1)*"), 200)[200][0] == 2**200
    shares = branch_shares(from_regex("0*|1(0|1)*"), 400)  # 1 word against 2^399
    assert shares[400, 0].tolist() == [0.0, 1.0] and np.isfinite(shares).all()


def test_dead_states_by_hand():
    dead = {name for name in LANGUAGES if has_dead_state(known_language(name))}
    assert dead == {*LANGUAGES} - {"tomita-5", "tomita-6", "parity", "(00)*"}
    assert live_states(known_language("tomita-2")).tolist() == [True, True, False]


@pytest.mark.parametrize(
    ("pattern", "infinite"), [("0*", True), ("0{3}", False), ("(0|1){2,5}", False), ("0(10)*", True)]
)
def test_infinite_languages(pattern, infinite):
    assert is_infinite(from_regex(pattern)) == infinite


def test_a_finite_language_is_refused_where_an_infinite_one_is_needed():
    require_infinite(from_regex("0*"), "this")
    with pytest.raises(KroghError, match="this needs an infinite language; '0101' is finite: its longest words have 4"):
        require_infinite(from_regex("0101"), "this")
    empty = from_regex("0*").__class__("nothing", ("0",), np.array([[0]]), 0, ())
    with pytest.raises(KroghError, match="'nothing' is empty"):
        require_infinite(empty, "this")


def test_a_text_names_a_language(tmp_path):
    assert find_language("tomita-4") == known_language("tomita-4")
    assert find_language("brackets-6") == brackets(6)
    assert find_language("(0|1)*1") == from_regex("(0|1)*1")
    (tmp_path / "own.yaml").write_text(write_automaton(known_language("parity")))
    assert find_language(str(tmp_path / "own.yaml")).accepts("0111")
    for wrong in ("tomita-8", "tomita", "brackets-0"):
        with pytest.raises(KroghError, match="unknown language"):
            find_language(wrong)
    with pytest.raises(KroghError, match="column 1"):
        find_language("(01")


def test_a_list_of_languages_names_its_lines(tmp_path):
    path = tmp_path / "mine.txt"
    path.write_text("# a comment\nparity\n\n(00)*(11)*\n")
    assert [one.name for one in find_languages(str(path))] == ["parity", "(00)*(11)*"]
    path.write_text("parity\n(0\n")
    with pytest.raises(KroghError, match=r"mine.txt, line 2: .*column 1"):
        find_languages(str(path))
    path.write_bytes(b"tomita-3\n# caf\xe9\n")
    with pytest.raises(KroghError, match="is no text in UTF-8: byte 14 cannot be read"):
        find_languages(str(path))
    path.write_text("parity\nparity\n")
    with pytest.raises(KroghError, match="twice"):
        find_languages(str(path))
    path.write_text("\n")
    with pytest.raises(KroghError, match="no language"):
        find_languages(str(path))
    with pytest.raises(KroghError, match=r"no file .* with a list of languages"):
        find_languages(str(tmp_path / "missing.txt"))
