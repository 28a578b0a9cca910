"""Positional codes against loops over pairs, and the probabilities that the reference gives."""

from __future__ import annotations

import math

import numpy as np
import pytest

from krogh.errors import KroghError
from krogh.tasks import codes


@pytest.mark.parametrize(("length", "dimension"), [(1, 1), (2, 1), (2, 3), (8, 3), (16, 4), (33, 17), (100, 23)])
def test_codes_are_different_unit_sign_vectors(length, dimension):
    for seed in range(5):
        table = codes.sign_codes(length, dimension, seed)
        assert table.shape == (length, dimension) and table.dtype == np.float32
        assert np.allclose(np.abs(table) * math.sqrt(dimension), 1.0, atol=1e-6)
        assert len({row.tobytes() for row in table}) == length


def test_a_seed_decides_the_codes():
    assert np.array_equal(codes.sign_codes(9, 10, seed=3), codes.sign_codes(9, 10, seed=3))
    assert not np.array_equal(codes.sign_codes(9, 10, seed=3), codes.sign_codes(9, 10, seed=4))


def test_entries_are_fair_and_uncorrelated():
    signs = np.concatenate([codes.sign_codes(40, 16, seed) for seed in range(100)]) * 4
    assert np.abs(signs.mean(axis=0)).max() < 4.5 / math.sqrt(len(signs))
    assert np.abs(signs.T @ signs / len(signs) - np.eye(16)).max() < 4.5 / math.sqrt(len(signs))


def test_coherence_is_the_largest_overlap_of_two():
    table = codes.sign_codes(7, 9, seed=2).astype(np.float64)
    overlaps = [abs(table[i] @ table[j]) for i in range(7) for j in range(7) if i != j]
    assert codes.coherence(table) == pytest.approx(max(overlaps), abs=1e-12)
    assert codes.coherence(np.eye(4)) == 0.0
    assert codes.coherence(-np.ones((2, 1))) == 1.0
    assert codes.coherence([[1.0, 0.0], [-0.6, 0.8]]) == pytest.approx(0.6)
    assert codes.coherence(np.ones((1, 3))) == 0.0


@pytest.mark.parametrize("bound", [0.25, 0.5, 2 / 3])
def test_a_bound_on_the_coherence_is_kept(bound):
    dimension = math.ceil(1.3 / bound**2 * math.log(20**2))  # below what the union bound asks
    table = codes.sign_codes(20, dimension, seed=1, coherence=bound)
    assert codes.coherence(table) <= bound + 1e-6
    unbounded = [codes.coherence(codes.sign_codes(20, dimension, seed)) for seed in range(10)]
    assert max(unbounded) > bound + 1e-6
    codes.require_coherence(table, bound)


def test_a_bound_may_be_met_exactly():
    """In dimension 4, overlaps are 0, ±1/2 and ±1: five codes cannot be orthogonal, but half is allowed."""
    assert codes.coherence(codes.sign_codes(5, 4, coherence=0.5)) == pytest.approx(0.5)


def test_the_dimension_of_the_experiments():
    lengths = [2, 4, 6, 8, 10, 12, 25, 27, 29, 31, 33, 100]
    assert [codes.paper_dimension(length) for length in lengths] == [3, 6, 8, 10, 11, 12, 16, 16, 16, 17, 17, 23]
    assert codes.paper_dimension(1) == 1


def test_assumption_3_fails_at_the_dimension_of_the_experiments_and_holds_at_four_times_it():
    def holding(length: int, factor: float) -> float:
        dimension = math.floor(factor * math.log(length))
        random = np.random.default_rng(0)
        drawn = 1.0 - 2 * random.integers(0, 2, (400, length, dimension))
        return float(np.mean([codes.coherence(table / math.sqrt(dimension)) <= 0.5 for table in drawn]))

    assert holding(8, 5) < 0.08 and holding(16, 5) < 0.01
    assert holding(8, 20) > 0.9 and holding(50, 20) > 0.95


def test_the_union_bound_dimension():
    assert codes.coherence_dimension(20) == math.ceil(8 * math.log(400 / 0.1))
    assert codes.coherence_dimension(20, bound=0.25, failure=0.01) == math.ceil(32 * math.log(400 / 0.01))
    dimension = codes.coherence_dimension(12, failure=0.3)
    random = np.random.default_rng(1)
    drawn = (1.0 - 2 * random.integers(0, 2, (400, 12, dimension))) / math.sqrt(dimension)
    assert np.mean([codes.coherence(table) > 0.5 for table in drawn]) < 0.3


def test_too_much_coherence_is_refused_with_the_measure_and_a_dimension():
    table = codes.sign_codes(20, 14)
    measured = f"{codes.coherence(table):.4g}"
    with pytest.raises(KroghError, match=rf"at most 0.5; got {measured} .*dimension 14 .*dimension 67"):
        codes.require_coherence(table, 0.5)
    assert codes.coherence_dimension(20) == 67
    with pytest.raises(KroghError, match=r"unit vectors; got one of norm 2"):
        codes.require_coherence(2 * np.eye(3))


@pytest.mark.parametrize(
    ("build", "echo"),
    [
        (lambda: codes.sign_codes(0, 3), "length=0"),
        (lambda: codes.sign_codes(3, 0), "dimension=0"),
        (lambda: codes.sign_codes(9, 3), "9 different sign codes need dimension 4; got dimension=3"),
        (lambda: codes.sign_codes(5, 3, coherence=0.2), r"coherence 0\.2 .*dimension 3.*dimension \d+ would do"),
        (lambda: codes.sign_codes(5, 30, coherence=1.5), r"\(0, 1\); got 1\.5"),
        (lambda: codes.coherence_dimension(5, failure=0.0), "failure=0.0"),
        (lambda: codes.coherence(np.zeros(3)), r"got shape \[3\]"),
        (lambda: codes.coherence(np.zeros((0, 3))), r"got shape \[0, 3\]"),
        (lambda: codes.coherence([[1.0, math.nan]]), "finite"),
        (lambda: codes.coherence([["a", "b"]]), "numbers of shape"),
        (lambda: codes.require_distinct([[1, 0], [0, 1], [1, 0]]), "codes 0 and 2 are equal"),
        (lambda: codes.paper_dimension(0), "length=0"),
    ],
)
def test_bad_values_are_refused_with_what_was_given(build, echo):
    with pytest.raises(KroghError, match=echo):
        build()
