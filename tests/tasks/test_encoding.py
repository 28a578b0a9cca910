"""Encoding symbols and discretising outputs against loops."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from krogh.errors import KroghError
from krogh.tasks.encoding import discretize, encode, features

RANDOM = np.random.default_rng(0)


def test_two_symbols_are_signs():
    assert encode(np.array([[0, 1, 1], [1, 0, 0]]), 2).tolist() == [[1.0, -1.0, -1.0], [-1.0, 1.0, 1.0]]


@pytest.mark.parametrize("alphabet", [3, 5])
def test_more_symbols_are_one_hot_vectors_in_a_row(alphabet):
    symbols = RANDOM.integers(0, alphabet, (4, 2, 6))
    result = np.asarray(encode(symbols, alphabet))
    assert result.shape == (4, 2, 6 * alphabet) == (4, 2, features(6, alphabet)) and result.dtype == np.float32
    for place in np.ndindex(4, 2):
        expected = [float(symbols[place][i] == a) for i in range(6) for a in range(alphabet)]
        assert result[place].tolist() == expected


def test_how_many_features():
    assert (features(7, 2), features(7, 3), features(1, 10)) == (7, 21, 10)
    assert encode(np.array([1, 0]), 2).shape == (2,)


def test_two_labels_are_the_sign():
    assert discretize(np.array([2.5, -0.1, 0.0], np.float32), 2).tolist() == [1.0, -1.0, 0.0]


def test_more_labels_are_the_largest_score():
    scores = RANDOM.standard_normal((3, 4, 5)).astype(np.float32)
    labels = np.asarray(discretize(scores, 5))
    assert labels.shape == (3, 4)
    assert all(labels[place] == max(range(5), key=lambda a, at=place: scores[at][a]) for place in np.ndindex(3, 4))


def test_discretising_an_encoding_gives_the_symbol_back():
    symbols = RANDOM.integers(0, 4, (9, 1))
    assert np.array_equal(discretize(encode(symbols, 4), 4), symbols[:, 0])
    assert np.array_equal(1 - 2 * np.array([0, 1]), discretize(encode(np.array([0, 1]), 2), 2))


def test_encoding_runs_inside_a_program():
    symbols = RANDOM.integers(0, 3, (2, 4))
    assert np.array_equal(jax.jit(lambda given: encode(given, 3))(jnp.asarray(symbols)), encode(symbols, 3))


@pytest.mark.parametrize(
    ("build", "echo"),
    [
        (lambda: encode(np.array([0, 2]), 2), r"0\.\.1; got \[2\]"),
        (lambda: encode(np.array([-1, 2]), 4), r"0\.\.3; got \[-1\]"),
        (lambda: encode(np.array([0]), 1), "alphabet=1"),
        (lambda: features(0, 2), "n=0"),
        (lambda: discretize(np.zeros((2, 3), np.float32), 4), r"4 labels .*got shape \[2, 3\]"),
        (lambda: discretize(np.zeros(2, np.float32), 1), "labels=1"),
    ],
)
def test_bad_values_are_refused_with_what_was_given(build, echo):
    with pytest.raises(KroghError, match=echo):
        build()
