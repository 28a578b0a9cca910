"""Rademacher complexity and influence, against brute force and closed forms."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from krogh.errors import KroghError
from krogh.theory.attention import complexity as capacity


def test_contexts_are_all_bit_strings_in_order():
    bits = capacity.contexts(4)
    assert [int(sum(b * 2**i for i, b in enumerate(row))) for row in bits] == list(range(16))


def count(members):
    return lambda bits: bits[:, members].sum(axis=1)


def test_influence_against_all_flips():
    rng = np.random.default_rng(1)
    table = rng.standard_normal((64, 2))
    found = capacity.influence(lambda b: table[(b @ 2.0 ** np.arange(6)).astype(int)], 6)
    for i in range(6):
        assert found[i] == pytest.approx(max(np.abs(table[r] - table[r ^ (1 << i)]).max() for r in range(64)))
    parity = capacity.influence(lambda b: 1 - 2 * (b[:, [0, 2]].sum(axis=1) % 2), 5)
    assert parity.tolist() == [2, 0, 2, 0, 0]


def test_sampled_influence_is_a_lower_estimate_that_finds_conjunctions():
    conjunction = lambda b: b[:, :30].prod(axis=1)  # noqa: E731
    found = capacity.influence(conjunction, 40, samples=20)
    assert (found[:30] == 1).all() and (found[30:] == 0).all(), "the all-one context is always looked at"
    weights = np.random.default_rng(2).standard_normal(10)
    tanh = lambda b: np.tanh(b @ weights)  # noqa: E731
    assert (capacity.influence(tanh, 10, samples=50) <= capacity.influence(tanh, 10) + 1e-15).all()


def test_rademacher_exactly_against_all_signs():
    values = np.random.default_rng(3).standard_normal((5, 6))
    expected = np.mean([max(np.dot(s, f) for f in values) for s in itertools.product((-1, 1), repeat=6)]) / 6
    found = capacity.rademacher(values)
    assert found.value == pytest.approx(expected) and found.standard_error == 0
    drawn = capacity.rademacher(values, draws=4000, seed=1)
    assert 0 < drawn.standard_error < 0.02 and abs(drawn.value - expected) < 4 * drawn.standard_error


def test_rademacher_of_all_sign_patterns_is_one_and_of_one_function_zero():
    assert capacity.rademacher(1 - 2 * capacity.contexts(5)).value == 1
    assert capacity.rademacher(np.ones((1, 5))).value == pytest.approx(0)


def test_rademacher_of_the_linear_class_has_its_closed_form():
    """E ||sum s_i x_i|| <= sqrt(sum ||x_i||^2), attained by orthogonal points."""
    points = np.eye(7) * 2
    found = capacity.rademacher_of(lambda s: 3 * np.linalg.norm(s @ points, axis=1), 7)
    assert found.value == pytest.approx(3 * 2 / math.sqrt(7))
    points = np.random.default_rng(4).standard_normal((40, 3))
    many = capacity.rademacher_of(lambda s: np.linalg.norm(s @ points, axis=1), 40, seed=5)
    ceiling = math.sqrt((points**2).sum()) / 40
    assert 0.85 * ceiling < many.value < ceiling and many.standard_error > 0
    directions = np.random.default_rng(6).standard_normal((500, 3))
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    sampled = capacity.rademacher(directions @ points.T, draws=2000, seed=5)
    assert 0.95 * many.value < sampled.value <= many.value + 1e-12, "a sampled class stays below the whole"


@pytest.mark.parametrize(("gate", "label"), [("and", np.min), ("xor", lambda b: b.sum() % 2)])
def test_sparse_functions_are_no_richer_than_massart_allows(gate, label):
    """Against all supports and signs, written out; with more samples the bound is nearer than a factor of three."""
    found = capacity.sparse_rademacher(5, 2, 4, gate, seed=2)
    bits = np.random.default_rng(2).integers(0, 2, size=(4, 5), dtype=np.int8)
    rows = [[2 * label(row[list(pair)]) - 1 for row in bits] for pair in itertools.combinations(range(5), 2)]
    signs = itertools.product((-1, 1), repeat=4)
    expected = np.mean([max(np.dot(sign, row) for row in rows) for sign in signs]) / 4
    assert found["complexity"] == pytest.approx(expected) and found["standard_error"] == 0
    many = capacity.sparse_rademacher(20, 3, 200, gate)
    assert (
        many["massart"] / 3 < many["complexity"] < many["massart"] == pytest.approx(math.sqrt(2 * math.log(1140) / 200))
    )


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: capacity.contexts(30), "length must be an integer between 1 and 20; got length=30"),
        (lambda: capacity.influence(count([0]), 30), "too many to enumerate .* give samples=1000"),
        (lambda: capacity.influence(lambda b: 1.0, 3), "one value or vector per context"),
        (lambda: capacity.sparse_rademacher(100, 8, 10), "at most 67108864 are held"),
        (lambda: capacity.rademacher(np.ones(3)), "shape \\(functions, m\\); got \\(3,\\)"),
    ],
)
def test_bad_input(call, message):
    with pytest.raises(KroghError, match=message):
        call()
