"""Automata as recurrent networks: every hidden state, every size, and what a wrong weight does."""

from __future__ import annotations

import dataclasses
import itertools
import json

import jax
import numpy as np
import pytest
import safetensors.numpy
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors import safe_open

from krogh.errors import KroghError
from krogh.networks.automata import automaton_output, compile_automaton, longest_listed
from krogh.networks.handmade import load_network
from krogh.programs.automata.automaton import from_table, words_of_length
from krogh.programs.automata.regex import from_regex
from krogh.theory.numerics import double_precision

# The 14 languages of Table 1 as delta[q] = [on 0, on 1] and F; D_n are brackets of depth at most n.
BINARY = {
    "tomita-1": ([[1, 0], [1, 1]], [0]),
    "tomita-2": ([[2, 1], [0, 2], [2, 2]], [0]),
    "tomita-3": ([[0, 1], [3, 0], [3, 1], [2, 4], [4, 4]], [0, 1, 2]),
    "tomita-4": ([[1, 0], [2, 0], [3, 0], [3, 3]], [0, 1, 2]),
    "tomita-5": ([[1, 2], [0, 3], [3, 0], [2, 1]], [0]),
    "tomita-6": ([[2, 1], [0, 2], [1, 0]], [0]),
    "tomita-7": ([[0, 1], [2, 1], [2, 3], [4, 3], [4, 4]], [0, 1, 2, 3]),
    "parity": ([[0, 1], [1, 0]], [1]),
    "(0101)*": ([[1, 4], [4, 2], [3, 4], [4, 0], [4, 4]], [0]),
    "(00)*(11)*": ([[1, 2], [0, 4], [4, 3], [4, 2], [4, 4]], [0, 3]),
    **{
        f"D_{n}": ([[d + 1 if d < n else n + 1, d - 1 if d else n + 1] for d in range(n + 1)] + [[n + 1, n + 1]], [0])
        for n in (2, 3, 4)
    },
}
LANGUAGES = {name: from_table(*given, name=name) for name, given in BINARY.items()}
LANGUAGES["(00)*"] = from_table([[1], [0]], [0], "0", name="(00)*")


@st.composite
def tables(draw) -> tuple:
    symbols = draw(st.sampled_from(["0", "01", "abc"]))
    states = draw(st.integers(1, 5))
    number = st.integers(0, states - 1)
    row = st.lists(number, min_size=len(symbols), max_size=len(symbols))
    return draw(st.lists(row, min_size=states, max_size=states)), draw(st.sets(number)), symbols, draw(number)


@pytest.mark.parametrize("correction", [False, True])
@pytest.mark.parametrize("name", LANGUAGES)
def test_the_languages_of_table_1_exactly(name, correction):
    automaton = LANGUAGES[name]
    compiled = compile_automaton(automaton, correction=correction)
    checked = compiled.check(length=8, count=50)
    assert checked.holds and checked.exhaustive and checked.largest_error == 0.0
    assert checked.details["steps"] == compiled.width * len(automaton.alphabet)
    assert checked.inputs == sum(len(automaton.alphabet) ** length for length in range(9)) + 50
    for length in range(9):
        words = words_of_length(len(automaton.alphabet), length)
        assert np.array_equal(compiled.run(words), np.where(automaton.accept(words), 1.0, -1.0))


@settings(database=None, deadline=None, max_examples=60)
@given(tables(), st.booleans(), st.data())
def test_hidden_states_are_one_hot_in_state_and_symbol(table, correction, data):
    automaton = from_table(*table)
    compiled = compile_automaton(automaton, correction=correction)
    texts = data.draw(st.lists(st.text(alphabet="".join(automaton.alphabet), max_size=8), min_size=1, max_size=5))
    words = automaton.encode_words(texts)
    path = [automaton.start] * len(texts)
    expected = np.zeros((compiled.width, len(texts)))
    expected[-1] = 1.0
    for time, hidden in enumerate(compiled.hidden(words)):
        for place, text in enumerate(texts):
            if 1 <= time <= len(text):
                symbol = automaton.alphabet.index(text[time - 1])
                expected[:, place] = 0.0
                expected[path[place] * len(automaton.alphabet) + symbol, place] = 1.0
                path[place] = automaton.transitions[path[place], symbol]
        assert np.array_equal(hidden, expected)
    assert compiled.run(words).tolist() == [1.0 if automaton.accepts(text) else -1.0 for text in texts]


@pytest.mark.parametrize("accepting", [[], [0], [1], [0, 1]])
def test_the_empty_word_and_an_empty_batch(accepting):
    compiled = compile_automaton(from_table([[1, 1], [1, 1]], accepting))
    assert compiled.run(np.zeros((3, 0), np.int32)).tolist() == [1.0 if 0 in accepting else -1.0] * 3
    assert compiled.run(np.array([[-1, -1], [0, -1]], np.int32)).tolist() == [
        1.0 if 0 in accepting else -1.0,
        1.0 if 1 in accepting else -1.0,
    ]
    assert compiled.run(np.zeros((0, 4), np.int32)).shape == (0,)


@pytest.mark.parametrize("name", LANGUAGES)
def test_sizes_in_closed_form(name):
    automaton = LANGUAGES[name]
    q, a = automaton.transitions.shape
    m = q * a + 1
    plain, rounded = compile_automaton(automaton).size, compile_automaton(automaton, correction=True).size
    assert plain["width"] == rounded["width"] == m
    assert plain["one_norm"] == plain["nonzeros"] == q * a * a + 3 * q * a + a + 3
    assert plain["parameters"] == m * m + m * a + 3 * m
    assert rounded["one_norm"] == pytest.approx(plain["one_norm"] + 9 * m, abs=1e-12)
    assert rounded["parameters"] == plain["parameters"] + 2 * m * (2 * m) + 2 * m + m


def test_the_same_function_in_jax():
    automaton = from_regex("(ab|c)*a?")
    for correction in (False, True):
        compiled = compile_automaton(automaton, correction=correction)
        words = automaton.encode_words(["".join(word) for n in range(5) for word in itertools.product("abc", repeat=n)])
        with double_precision():
            found = np.asarray(jax.jit(automaton_output)(compiled.dense_parameters(), words))
        assert found.dtype == np.float64 and np.array_equal(found, compiled.run(words))
    rng = np.random.default_rng(0)
    moved = {name: value + 0.01 * rng.normal(size=value.shape) for name, value in compiled.dense_parameters().items()}
    with double_precision():
        found = np.asarray(jax.jit(automaton_output)(moved, words))
    assert 0 < np.abs(found - compiled.run(words)).max() < 1
    assert np.allclose(found, [by_hand(moved, word[word >= 0]) for word in words], rtol=0, atol=1e-12)


def by_hand(moved, word):
    hidden = moved["h0"]
    for symbol in word:
        hidden = np.maximum(moved["W"] @ hidden + moved["A"][:, symbol] + moved["b"], 0)
        hidden = np.maximum(moved["V1"] @ hidden + moved["c1"], 0)
        hidden = np.maximum(moved["V2"] @ hidden + moved["c2"], 0)
    return moved["r"] @ hidden


@pytest.mark.parametrize("what", ["recurrent", "symbols", "bias", "initial", "readout"])
def test_a_check_finds_a_single_wrong_weight(what):
    """Each of the three parts of a check would be enough for weights that short words use."""
    compiled = compile_automaton(LANGUAGES["tomita-5"])
    if what == "recurrent":
        changed = compiled.recurrent.copy()
        changed.data[7] = 0.5
        wrong = dataclasses.replace(compiled, recurrent=changed)
    elif what in ("symbols", "bias"):
        weight, bias = compiled.symbols.weight.copy(), np.array(compiled.symbols.bias)
        weight.data[1], bias[2] = (0.5, bias[2]) if what == "symbols" else (1.0, -0.5)
        wrong = dataclasses.replace(compiled, symbols=dataclasses.replace(compiled.symbols, weight=weight, bias=bias))
    else:
        array = np.array(getattr(compiled, what))
        array[-1] *= -1
        wrong = dataclasses.replace(compiled, **{what: array})
    found = wrong.check(length=5, count=20)
    assert not found.holds and found.largest_error >= 0.5
    assert compiled.check(length=5, count=20).holds


def test_the_steps_decide_words_that_are_not_listed():
    """A weight that only words of 40 symbols reach: neither short nor random words would find it."""
    automaton = from_regex("0{40}1")
    compiled = compile_automaton(automaton)
    far = compiled.recurrent.copy()
    unit = 2 * int(automaton.run(np.zeros((1, 39), np.int32))[0, -1])  # the state after 39 zeros, and another zero
    column = far.tocsc()
    column.data[column.indptr[unit] : column.indptr[unit + 1]] = 0.0
    wrong = dataclasses.replace(compiled, recurrent=column.tocsr())
    found = wrong.check(length=8, count=5)
    assert not found.holds and found.largest_error == 1.0
    right = np.array([[0] * 40 + [1]], np.int32)
    assert wrong.run(right).tolist() != compiled.run(right).tolist() == [1.0]


def test_nan_is_an_error():
    compiled = compile_automaton(LANGUAGES["parity"])
    wrong = dataclasses.replace(compiled, readout=np.full(compiled.width, np.nan))
    assert not wrong.check(length=2, count=1).holds


def test_lengths_that_are_listed():
    assert longest_listed(2, 2**15) == 14 and longest_listed(2, 2**15 - 1) == 14 and longest_listed(2, 2**15 - 2) == 13
    assert longest_listed(1, 10_000) == 200 and longest_listed(3, 1) == 0


def test_what_is_refused():
    compiled = compile_automaton(LANGUAGES["parity"])
    with pytest.raises(KroghError, match=r"words are numbers 0..1 of symbols"):
        compiled.run(np.array([[2]], np.int32))
    with pytest.raises(KroghError, match="length must be an integer at least 0; got length=-1"):
        compiled.check(length=-1)
    with pytest.raises(KroghError, match="count must be an integer at least 0; got count=-1"):
        compiled.check(count=-1)
    with pytest.raises(KroghError, match=r"words up to length 22 are listed for this network; got length=23"):
        compiled.check(length=23)
    wide = from_table([[0] * 26] * 800, [0], map(chr, range(97, 123)))
    with pytest.raises(KroghError, match="800 states and 26 symbols has 20,801 units; at most 20,000 are allowed"):
        compile_automaton(wide)


PARITY = from_regex("(0*10*1)*0*", name="even")


@pytest.mark.parametrize("correction", [False, True])
def test_a_recurrent_network_is_read_back(tmp_path, correction):
    compiled = compile_automaton(PARITY, correction=correction)
    file = compiled.save(tmp_path / "even.safetensors")
    found = load_network(file)
    assert found.automaton == PARITY and found.automaton.name == "even" and found.correction == correction
    assert found.size == compiled.size and found.check(length=6, count=5).holds
    for name, value in compiled.dense_parameters().items():
        assert np.array_equal(found.dense_parameters()[name], value)
    assert [path.name for path in tmp_path.iterdir()] == ["even.safetensors"]
    with safe_open(file, framework="numpy") as opened:
        header = json.loads(opened.metadata()["krogh"])
    assert header["statement"] == compiled.statement and header["size"] == compiled.size


def test_the_file_decides_the_values(tmp_path):
    """Weights that were changed are read as they are, and fail their check."""
    file = compile_automaton(PARITY).save(tmp_path / "even.safetensors")
    with safe_open(file, framework="numpy") as opened:
        header, tensors = opened.metadata(), {name: opened.get_tensor(name) for name in opened.keys()}  # noqa: SIM118
    tensors["r"] = -tensors["r"]
    safetensors.numpy.save_file(tensors, file, header)
    found = load_network(file)
    assert found.readout[-1] == -1 and not found.check(length=2, count=1).holds
    tensors["r"] = tensors["r"][:-1]
    safetensors.numpy.save_file(tensors, file, header)
    with pytest.raises(KroghError, match=r"is damaged: parameter 'r' should have the shape \(5,\) and has \(4,\)"):
        load_network(file)
