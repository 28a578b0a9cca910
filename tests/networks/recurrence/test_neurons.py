"""Languages by smooth neurons, against plain counting and Python's own `in`; automata as networks for all fourteen."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from krogh.errors import KroghError
from krogh.networks.automata import CompiledAutomaton, compile_automaton
from krogh.networks.recurrence.neurons import (
    SmoothNeurons,
    contains,
    exactly_one,
    odd_ones,
    scaled_into_tokens,
    steepness,
)
from krogh.programs.automata.library import LANGUAGES, known_language
from krogh.tasks.token_sequences import bit_tokens


def every(n: int) -> np.ndarray:
    return np.array(list(itertools.product((0, 1), repeat=n)))


@pytest.mark.parametrize("tokens", [False, True])
@pytest.mark.parametrize("n", [1, 2, 7])
def test_one_quadratic_neuron_finds_a_single_one(n, tokens):
    made, words = exactly_one(n, tokens), every(n)
    ones = words.sum(axis=1)
    assert np.allclose(made.run(words), 2 * ones - ones**2, atol=1e-12)
    assert np.array_equal(made.run(words) > 0.5, ones == 1) and made.check().holds and made.check().exhaustive


def test_the_printed_shift_is_wrong():
    """Φ(n + 1/2) > 0 accepts the word of zeros."""
    z = 0.5
    assert 2 * z - z**2 > 0


@pytest.mark.parametrize("tokens", [False, True])
@pytest.mark.parametrize("n", [1, 6, 9])
def test_one_cosine_neuron_is_the_parity(n, tokens):
    made, words = odd_ones(n, tokens), every(n)
    assert np.allclose(made.run(words), words.sum(axis=1) % 2, atol=1e-12) and made.check().holds


@pytest.mark.parametrize(("n", "patterns"), [(5, ["1"]), (8, ["101"]), (7, ["01", "11"]), (6, ["110100"])])
def test_exponential_neurons_find_patterns(n, patterns):
    made, words = contains(n, patterns), every(n)
    inside = np.array([any(p in "".join(map(str, word)) for p in patterns) for word in words])
    output = made.run(words)
    assert output[inside].min() >= 1 - 1e-12 and output[~inside].max(initial=0) <= 1 / n + 1e-12
    assert made.check().holds and made.check().details["accepted"] == inside.sum()
    assert len(made.parameters["b"]) == len(patterns) * (n - len(patterns[0]) + 1)


def test_the_reference_s_pattern():
    """L = 12, pattern 101, c = 2.394: at least 1.009 inside, at most 1/12 outside."""
    made, words = contains(12, ["101"]), every(12)
    inside = np.array(["101" in "".join(map(str, word)) for word in words])
    output = made.run(words)
    assert float(made.parameters["gain"]) == pytest.approx(2.394, abs=1e-3) == steepness(12, 3)
    assert output[inside].min() == pytest.approx(1.009, abs=1e-3) and output[~inside].max() == pytest.approx(1 / 12)


def test_too_flat_neurons_would_not_do():
    made = contains(8, ["101"])
    flat = made.with_parameters(
        {**made.parameters, "gain": np.array(0.2), "c": np.full_like(made.parameters["c"], -0.6)}
    )
    assert not flat.check().holds


def test_long_words_are_drawn_and_both_answers_occur():
    for made in (exactly_one(40), odd_ones(40), contains(50, ["1011"])):
        checked = made.check()
        assert isinstance(made, SmoothNeurons) and not checked.exhaustive
        assert checked.holds and 0 < checked.details["accepted"] < checked.inputs


def test_ones_are_counted_off_unit_tokens_by_a_unit_vector():
    w, factor = scaled_into_tokens(6)
    words = every(6)
    tokens = np.asarray(bit_tokens(words), np.float64).reshape(len(words), -1)
    assert np.linalg.norm(w) == pytest.approx(1) and factor == pytest.approx(2 * math.sqrt(6 / 3))
    assert np.allclose(factor * tokens @ w, words.sum(axis=1), atol=1e-6)
    assert np.linalg.norm(exactly_one(6, tokens=True).parameters["w"]) == pytest.approx(1)


def test_bad_patterns_are_said():
    for given in ([], [""], ["12"], ["1", "10"], ["101010101"], ["1", "1"]):
        with pytest.raises(
            KroghError, match="patterns are different words over 0 and 1 of one length between 1 and n=8"
        ):
            contains(8, given)
    with pytest.raises(KroghError, match=r"c must be at least ½ ln\(P n\(n-k\+1\)\) = 1\.9"):
        contains(8, ["101"], c=1.0)
    with pytest.raises(KroghError, match=r"words of 4 bits 0 and 1, \[batch, 4\]; got shape \(1, 3\)"):
        odd_ones(4).run([[0, 1, 1]])


@pytest.mark.parametrize("name", LANGUAGES)
def test_every_language_of_the_table_is_an_exact_network(name):
    """B-K8 on all words up to length 8, against the automaton step by step: |Q||Σ| units, and one for the start."""
    automaton = known_language(name)
    made = compile_automaton(automaton)
    assert isinstance(made, CompiledAutomaton)
    symbols = len(automaton.alphabet)
    assert made.width == automaton.size * symbols + 1
    words = [word for n in range(9) for word in itertools.product(range(symbols), repeat=n)]
    padded = np.full((len(words), 8), -1, np.int32)
    expected = []
    for row, word in enumerate(words):
        padded[row, : len(word)], state = word, automaton.start
        for symbol in word:
            state = int(automaton.transitions[state, symbol])
        expected.append(1.0 if automaton.final[state] else -1.0)
    assert np.array_equal(made.run(padded), expected)
