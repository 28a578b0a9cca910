"""Tasks of symbols against loops over words; encoding symbols and discretising outputs."""

from __future__ import annotations

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from krogh.errors import KroghError
from krogh.tasks.symbols import SymbolTask, discretize, encode, features
from krogh.values import structure

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


class Largest(SymbolTask):
    """The largest symbol of a word."""

    n: int = structure()
    alphabet: int = structure()

    @property
    def classes(self) -> int:
        return self.alphabet

    def label(self, symbols):
        return jnp.max(symbols, axis=-1)

    @classmethod
    def example(cls) -> "Largest":
        return cls(n=3, alphabet=4)


@pytest.mark.parametrize("n,alphabet", [(3, 4), (5, 2), (1, 7)])
def test_a_task_of_symbols_is_its_label(n, alphabet):
    task = Largest(n, alphabet)
    every = task.decode(task.population())
    words = list(itertools.product(range(alphabet), repeat=n))
    assert task.population_size == len(words) and task.population().tolist() == [list(word) for word in words]
    assert np.asarray(every.truth).tolist() == [max(word) for word in words] and every.truth.dtype == jnp.int32
    assert np.array_equal(every.x, encode(np.array(words), alphabet)) and every.x.shape[1:] == task.input_shape
    share = max(np.bincount([max(word) for word in words])) / len(words)
    assert task.baselines() == {"guessing_accuracy": pytest.approx(share)} and task.limits() == {}


def test_words_are_drawn_uniformly_and_the_first_do_not_depend_on_how_many_follow():
    task, key = Largest.example(), jax.random.key(3)
    drawn = np.asarray(task.draw(key, 64_000))
    assert np.array_equal(np.asarray(task.draw(key, 100)), drawn[:100])
    counts = np.bincount(drawn @ [16, 4, 1], minlength=64)
    assert abs(float(((counts - 1000) ** 2 / 1000).sum()) - 63) < 5 * (2 * 63) ** 0.5


def test_words_that_are_too_many_to_be_listed():
    task = Largest(n=30, alphabet=3)
    assert task.population_size is None and task.baselines() == {}
    with pytest.raises(KroghError, match=r"at most 1,048,576 words can be listed; got 3\^30"):
        task.population()
