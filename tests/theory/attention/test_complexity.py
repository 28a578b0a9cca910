"""Rademacher complexity, function properties, influence and softmax deviation, against brute force and closed forms."""

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


def test_properties_of_an_average_of_bits():
    members, s = [1, 3, 4], 3
    found = capacity.function_properties(lambda b: 2 * count(members)(b) / s - 1, 6, members)
    assert found.monotonicity_gap == pytest.approx(2 / s) and found.bound == 1 and found.symmetric
    assert found.leakage == 0 and found.injectivity_gap == 0, "an average forgets which bits are set"
    falling = capacity.function_properties(lambda b: 1 - 2 * count(members)(b) / s, 6, members)
    assert falling.monotonicity_gap == pytest.approx(-2 / s), "the head of Lemma A.19 decreases"


def test_properties_of_the_bag_of_vectors_heads():
    """Lemma A.21: (r-s)/(r+1) has increments of at least 1/s; (b-1)/(r+1) is 1/s-injective and 1-bounded."""
    for s in (1, 2, 3, 4):
        members = list(range(1, s + 1))
        scalar = capacity.function_properties(
            lambda b, s=s, i=members: (count(i)(b) - s) / (count(i)(b) + 1), s + 2, members
        )
        steps = [(r + 1 - s) / (r + 2) - (r - s) / (r + 1) for r in range(s)]
        assert scalar.monotonicity_gap == pytest.approx(min(steps)) and scalar.monotonicity_gap >= 1 / s - 1e-12
        assert scalar.bound == s
        vector = capacity.function_properties(
            lambda b, i=members: (b[:, i] - 1) / (count(i)(b)[:, None] + 1), s + 2, members
        )
        assert (vector.monotonicity_gap is None) == (s > 1) and vector.bound == 1 and vector.leakage == 0
        assert vector.injectivity_gap >= 1 / s - 1e-12
        points = [(np.array(b) - 1) / (sum(b) + 1) for b in itertools.product((0, 1), repeat=s)]
        apart = min(np.abs(a - b).max() for a, b in itertools.combinations(points, 2))
        assert vector.injectivity_gap == pytest.approx(apart)


def test_properties_see_what_leaks_in_from_other_positions():
    members = [0, 2]
    noisy = capacity.function_properties(lambda b: b[:, 0] + b[:, 2] + 0.25 * b[:, 1], 3, members)
    assert noisy.leakage == pytest.approx(0.25) and not noisy.symmetric
    assert noisy.monotonicity_gap == pytest.approx(0.75), "1 less what the other bit can add before"
    first = capacity.function_properties(lambda b: b[:, 0] + 0.5 * b[:, 2], 3, members)
    assert first.leakage == 0 and not first.symmetric and first.injectivity_gap == pytest.approx(0.5)


def test_properties_against_all_pairs():
    rng = np.random.default_rng(0)
    table = rng.standard_normal((32, 2))
    members = [0, 3, 4]
    bits = capacity.contexts(5)
    found = capacity.function_properties(lambda b: table[(b @ 2.0 ** np.arange(5)).astype(int)], 5, members)
    differ = [
        np.abs(table[i] - table[j]).max()
        for i, j in itertools.combinations(range(32), 2)
        if (bits[i, members] != bits[j, members]).any()
    ]
    assert found.injectivity_gap == pytest.approx(min(differ)) and found.bound == pytest.approx(np.abs(table).max())


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


def test_softmax_deviation_stays_below_its_bound():
    """Lemma A.24, and its bound is attained where all kept scores are R and all others 0, as R grows."""
    rng = np.random.default_rng(7)
    for _ in range(1000):
        length = rng.integers(1, 30)
        s = rng.integers(1, length + 1)
        kept = rng.choice(length, size=s, replace=False)
        z = -np.abs(rng.standard_normal(length)) * 10.0 ** rng.uniform(-3, 1)
        z[kept] = rng.uniform(0, 12) + np.abs(rng.standard_normal(s)) * 10.0 ** rng.uniform(-3, 1)
        found = capacity.softmax_deviation(z, kept)
        assert found["deviation"] <= found["bound"] * (1 + 1e-9) + 1e-15
        assert found["bound"] <= found["loose_bound"]
    flat = np.zeros(10)
    flat[:3] = 12.0
    found = capacity.softmax_deviation(flat, [0, 1, 2])
    out = 7 / (3 * math.exp(12) + 7)
    assert found["deviation"] == pytest.approx(2 * out) and found["margin"] == 12
    assert found["bound"] == pytest.approx(2 * 7 / (3 * math.exp(12))) and found["deviation"] > 0.9999 * found["bound"]
    assert capacity.softmax_deviation([1.0, 2.0], [0, 1])["deviation"] == 0


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: capacity.contexts(30), "length must be an integer between 1 and 20; got length=30"),
        (lambda: capacity.influence(count([0]), 30), "too many to enumerate .* give samples=1000"),
        (lambda: capacity.function_properties(count([0]), 3, []), "at least one index; got none"),
        (lambda: capacity.function_properties(lambda b: 1.0, 3, [0]), "one value or vector per context"),
        (lambda: capacity.rademacher(np.ones(3)), "shape \\(functions, m\\); got \\(3,\\)"),
        (lambda: capacity.softmax_deviation([1.0], []), "at least one position must be kept"),
    ],
)
def test_bad_input(call, message):
    with pytest.raises(KroghError, match=message):
        call()
