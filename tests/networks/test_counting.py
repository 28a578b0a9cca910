"""Symmetric languages in one pass of attention, against the automaton on all words."""

from __future__ import annotations

import dataclasses
import math
import re

import jax
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from krogh.errors import KroghError
from krogh.networks.counting import compile_counting, counting_output
from krogh.programs.automata import asymmetry, from_table, words_of_length
from krogh.programs.automata.regex import from_regex
from krogh.theory.numerics import double_precision

PARITY = from_regex("(0*10*1)*0*")


@st.composite
def symmetric(draw) -> tuple:
    """An automaton whose states add up numbers, with any accepting states: what `from_table` makes one of."""
    symbols = draw(st.sampled_from(["0", "01", "abc"]))
    modulus = draw(st.integers(1, 6))
    steps = [draw(st.integers(0, modulus - 1)) for _ in symbols]
    saturating = draw(st.booleans())
    after = (lambda total: min(total, modulus - 1)) if saturating else (lambda total: total % modulus)
    table = [[after(q + step) for step in steps] for q in range(modulus)]
    return table, draw(st.sets(st.integers(0, modulus - 1))), symbols


@settings(database=None, deadline=None, max_examples=40)
@given(symmetric(), st.integers(1, 6))
def test_every_word_of_the_length(table, length):
    automaton = from_table(*table)
    compiled = compile_counting(automaton, length)
    words = words_of_length(len(automaton.alphabet), length)
    assert np.allclose(compiled.run(words), np.where(automaton.accept(words), 1.0, -1.0), rtol=0, atol=1e-12)
    k = max(1, len(automaton.alphabet) - 1)
    assert np.allclose(compiled.attended(words), [[row.count(a) for a in range(k)] for row in words.tolist()])
    checked = compiled.check()
    assert checked.holds and checked.exhaustive and checked.inputs == len(words) and checked.largest_error < 1e-12


@pytest.mark.parametrize(("pattern", "length"), [("([ac]*b[ac]*b)*[ac]*", 3), ("(aa)*", 3)])
def test_the_same_function_in_jax(pattern, length):
    automaton = from_regex(pattern)
    compiled = compile_counting(automaton, length)
    words = words_of_length(len(automaton.alphabet), length)
    parameters = compiled.dense_parameters()
    with double_precision():
        output = jax.jit(counting_output)
        found = np.asarray(output(parameters, words))
        assert found.dtype == np.float64 and np.allclose(found, compiled.run(words), rtol=0, atol=1e-12)
        rng = np.random.default_rng(0)
        moved = {name: value + 0.01 * rng.normal(size=value.shape) for name, value in parameters.items()}
        assert np.allclose(output(moved, words), by_hand(moved, words), rtol=0, atol=1e-9)


def by_hand(moved, words):
    """The definition with explicit rows, one word at a time."""
    found = []
    for word in words:
        rows = np.vstack([moved["E"][word], moved["cls"]])
        weights = np.exp(rows @ moved["K"] @ moved["Q"].T @ moved["cls"])
        read = weights / weights.sum() @ rows @ moved["V"]
        hidden = np.maximum(moved["f0.W1"] @ read + moved["f0.b1"], 0)
        hidden = np.maximum(moved["f0.W2"] @ hidden + moved["f0.b2"], 0)
        found.append((moved["out.W"] @ hidden + moved["out.b"])[0])
    return found


def test_long_words_by_their_counts():
    compiled = compile_counting(PARITY, 300)
    checked = compiled.check(count=50)
    assert checked.holds and not checked.exhaustive and checked.details["counts"] == 301 and checked.inputs == 301 + 50
    three = compile_counting(from_regex("([ac]*b[ac]*b)*[ac]*"), 40)
    checked = three.check(count=50)
    assert checked.holds and checked.details["counts"] == math.comb(42, 2) and checked.largest_error < 1e-12


def test_the_size_of_a_network_by_hand():
    """Exactly one 1 among T bits: one vector of counts is listed, with one bump of four ReLUs, and two ReLUs round."""
    T = 9
    compiled = compile_counting(from_regex("0*10*"), T)
    assert compiled.size == {
        "layers": 4,
        "width": 4,
        # E 2×3, cls 3, Q and K 3×1, V 3×1; W1 4×1, b1 4, W2 2×4, b2 2, W3 1×2, b3 1
        "parameters": 6 + 3 + 3 + 3 + 3 + 4 + 4 + 8 + 2 + 2 + 1,
        # E 2, cls 1, V 1; W1 4, b1 4 (none is zero: 2, 1, -1, -2 minus 4·8), W2 8, b2 2, W3 2, b3 1
        "nonzeros": 2 + 1 + 1 + 4 + 4 + 8 + 2 + 2 + 1,
        # V is T+1; weights 4, biases 4(T-1) - (2, 1, -1, -2), signs ±1, thresholds 1/3 and 2/3, ±6, 1
        "one_norm": pytest.approx(2 + 1 + (T + 1) + 16 + 16 * (T - 1) + 8 + 1 + 12 + 1),
        "counts": T + 1,
        "states": 3,
        "symbols": 2,
    }
    majority = compile_counting(from_regex("(0*1){4,}0*"), 9)  # more than half of the counts are accepted
    assert majority.table.layers[-1].bias.tolist() == [1.0] and majority.size["width"] == 4 * 4


@pytest.mark.parametrize("pattern", ["[01]*", "2*3*", "(01)*"])
def test_constant_languages(pattern):
    automaton = from_regex(pattern, "0123")
    compiled = compile_counting(automaton, 1)
    words = words_of_length(4, 1)
    assert np.allclose(compiled.run(words), np.where(automaton.accept(words), 1.0, -1.0), rtol=0, atol=1e-12)
    none = compile_counting(from_regex("(01)*"), 3)
    assert none.size["width"] == 0 and (none.run(words_of_length(2, 3)) == -1).all() and none.check().holds


def test_a_language_in_which_order_matters_is_refused_with_two_words():
    automaton = from_regex("0*1*")
    with pytest.raises(KroghError) as refused:
        compile_counting(automaton, 5)
    message = str(refused.value)
    assert "'0*1*' is not symmetric at length 5" in message
    first, second = re.findall(r"'([01]{5})'", message)
    assert automaton.accepts(first) and not automaton.accepts(second) and sorted(first) == sorted(second)
    assert compile_counting(automaton, 1).run(np.array([[0], [1]], np.int32)).tolist() == [1.0, 1.0]


@pytest.mark.parametrize("name", ["E", "cls", "V"])
def test_a_check_finds_a_wrong_head(name):
    compiled = compile_counting(PARITY, 6)
    array = np.array(compiled.head[name])
    array.flat[0] += 1e-3
    head = {**compiled.head, name: array}
    if name == "cls":  # what is read at [CLS] counts only through Q
        head["Q"], head["K"] = np.ones_like(head["Q"]), np.ones_like(head["K"]) * np.arange(3)[:, None]
    assert not dataclasses.replace(compiled, head=head).check().holds


@pytest.mark.parametrize("layer", [0, 1, 2])
def test_a_check_finds_a_wrong_weight_of_the_table(layer):
    compiled = compile_counting(PARITY, 6)
    layers = list(compiled.table.layers)
    weight = layers[layer].weight.copy()
    weight.data[0] *= 1.5
    layers[layer] = dataclasses.replace(layers[layer], weight=weight)
    wrong = dataclasses.replace(compiled, table=dataclasses.replace(compiled.table, layers=tuple(layers)))
    assert not wrong.check().holds


def test_permuting_a_word_changes_nothing():
    compiled = compile_counting(from_regex("([ac]*b[ac]*b)*[ac]*"), 12)
    rng = np.random.default_rng(0)
    words = rng.integers(0, 3, (40, 12)).astype(np.int32)
    assert np.allclose(compiled.attended(words), compiled.attended(rng.permuted(words, axis=1)), rtol=0, atol=1e-13)


def test_what_is_refused():
    compiled = compile_counting(PARITY, 4)
    for words in (np.zeros((2, 3), np.int32), np.array([[0, 1, 0, -1]], np.int32)):
        with pytest.raises(KroghError, match="the network reads words of length 4; got an array of shape"):
            compiled.run(words)
    with pytest.raises(KroghError, match="words are numbers"):
        compiled.run(np.full((1, 4), 2, np.int32))
    with pytest.raises(KroghError, match="length must be an integer at least 1; got length=0"):
        compile_counting(PARITY, 0)
    wide = from_table([[0] * 26], [0], map(chr, range(97, 123)))
    assert asymmetry(wide, 30) is None
    with pytest.raises(KroghError, match="one for each vector of counts; at most 50,000,000 are allowed"):
        compile_counting(wide, 30)
