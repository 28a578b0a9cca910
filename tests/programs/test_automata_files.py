"""Automata as YAML: what is read, what is written, and where a mistake is found."""

from __future__ import annotations

import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from krogh.errors import KroghError
from krogh.programs.automata.automaton import Automaton, from_table
from krogh.programs.automata.files import load_automaton, parse_automaton, write_automaton

EVEN = """\
name: even number of ones
alphabet: [0, 1]
start state: even
accept: even
table:
  even: {0: even, 1: odd}
  odd:
    0: odd
    1: even
"""


def test_a_document_is_read(tmp_path):
    expected = from_table([[0, 1], [1, 0]], [0], states=["even", "odd"])
    found = parse_automaton(EVEN)
    assert found == expected and found.name == "even number of ones"
    file = tmp_path / "ones.yaml"
    file.write_text("start state: n\naccept: [n, y]\ntable: {n: {[a, b]: y}, y: {a: n, b: y}}\n")
    short = load_automaton(file)
    assert short == from_table([[1, 1], [0, 1]], [0, 1], "ab", states=["n", "y"]) and short.name == "ones"
    assert parse_automaton(EVEN.replace("[0, 1]", "10")).alphabet == ("1", "0"), "a word of single characters"


def test_missing_transitions_are_refused_or_lead_to_a_state_that_rejects():
    text = EVEN.replace("    1: even\n", "")
    with pytest.raises(KroghError, match="<text>, line 7, column 3: the state 'odd' has no transition on '1'; add it"):
        parse_automaton(text, missing="error")
    found = parse_automaton(text.replace("odd", "dead"))
    assert found.states == ("even", "dead", "dead'")
    assert found.transitions.tolist() == [[0, 1], [1, 2], [2, 2]] and found.accepting == (0,)
    empty = parse_automaton("{start state: a, accept: a, alphabet: [0], table: {a: }}")
    assert empty.accepts("") and not empty.accepts("0")


@pytest.mark.slow
@settings(database=None, deadline=None, max_examples=60)
@given(st.data())
def test_what_is_written_is_read_back(data):
    texts = st.text(st.characters(codec="utf-8", exclude_categories=["Cs"]), min_size=1, max_size=4)
    alphabet = data.draw(st.lists(texts, min_size=1, max_size=3, unique=True))
    states = data.draw(st.lists(texts, min_size=1, max_size=4, unique=True))
    shape = (len(states), len(alphabet))
    numbers = st.integers(0, len(states) - 1)
    table = np.array(data.draw(st.lists(numbers, min_size=shape[0] * shape[1], max_size=shape[0] * shape[1])))
    accepting = tuple(data.draw(st.sets(numbers)))
    written = Automaton(
        data.draw(texts), tuple(alphabet), table.reshape(shape), data.draw(numbers), accepting, tuple(states)
    )
    found = parse_automaton(write_automaton(written))
    assert found == written and found.name == written.name


WRONG = {
    "": ("<text>: an automaton is a YAML document with name, alphabet, start state, accept, table"),
    "[a]": "<text>: an automaton is a YAML document",
    "a: [": "<text>, line 1, column 5: this is not YAML: ",
    "a: \x01": "<text>, line 1, column 4: the character '\\x01' is not allowed in YAML",
    EVEN.replace("accept", "acept"): "<text>, line 4, column 1: an automaton has no field 'acept'; did you mean",
    EVEN.replace("name: even number of ones", "accept: odd"): "line 4, column 1: 'accept' stands twice in an auto",
    EVEN.replace("start state: even\n", ""): "<text>, line 1, column 1: the field 'start state' is missing",
    EVEN.replace("accept: even", "accept: [oddd]"): "line 4, column 10: unknown state 'oddd'; did you mean 'odd'?",
    EVEN.replace("state: even", "state: evn"): "line 3, column 14: unknown state 'evn'",
    EVEN.replace("1: odd}", "1: od}"): "line 6, column 22: unknown state 'od'; did you mean 'odd'?",
    EVEN.replace("1: odd}", "2: odd}"): "line 6, column 19: unknown symbol '2'",
    EVEN.replace("1: odd}", "0: odd}"): "line 6, column 19: the state 'even' has a second transition on '0'",
    EVEN.replace("  odd:", "  even:"): "line 7, column 3: 'even' stands twice in the table, first on line 6",
    EVEN.replace("{0: even, 1: odd}", "odd"): "line 6, column 9: the row of state 'even' is a mapping",
    EVEN.replace("[0, 1]", "[0, 0]"): "line 2, column 11: the symbols of an alphabet differ; got ['0', '0']",
    EVEN.replace("[0, 1]", "[]"): "line 2, column 11: the symbols of an alphabet differ; got []",
    EVEN.replace("accept: even", "accept: {a: b}"): "line 4, column 9: a state is a single word or text, not a mapping",
    EVEN.replace("name: even number of ones", "name: []"): "line 1, column 7: a name is a single word or text",
    "start state: a\naccept: a\ntable: 3": "line 3, column 8: the table is a mapping (`key: value`), not a text ('3')",
    "start state: a\naccept: a\ntable: {}": "line 3, column 8: the table has a line for every state",
    "start state: a\naccept: a\ntable: {a: }": "line 3, column 8: the table has no transition, and no alphabet",
}  # fmt: skip


@pytest.mark.parametrize("text", WRONG)
def test_mistakes_are_named_with_line_and_column(text):
    with pytest.raises(KroghError, match=re.escape(WRONG[text])):
        parse_automaton(text)


def test_files_that_cannot_be_read(tmp_path):
    with pytest.raises(KroghError, match=r"no file '.*nowhere.yaml' with an automaton"):
        load_automaton(tmp_path / "nowhere.yaml")
    (tmp_path / "binary.yaml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(KroghError, match=r"binary.yaml' is no text in UTF-8: byte 0 cannot be read"):
        load_automaton(str(tmp_path / "binary.yaml"))
    with pytest.raises(KroghError, match="unknown choice for missing transitions 'accept'"):
        parse_automaton(EVEN, missing="accept")
