"""Bases, input mappings and shattering inputs against loops over positions."""

from __future__ import annotations

import math

import numpy as np
import pytest

from krogh.errors import KroghError
from krogh.networks import head_inputs
from krogh.networks.head_inputs import (
    bag,
    basis,
    binary_digits,
    deterministic,
    required_dimension,
    shattered_length,
    shattering_inputs,
    token_norm,
    trainable,
)

CASES = {"exact": basis(6), "roomy": basis(6, 20), "signs": basis(12, 9, seed=3), "forced": basis(6, 40, exact=False)}


@pytest.fixture(params=CASES)
def made(request):
    return CASES[request.param]


def test_positions_are_unit_vectors_of_the_stated_coherence(made):
    v = made.positions
    assert np.allclose((v**2).sum(axis=1), 1.0, atol=1e-14)
    overlaps = [abs(v[i] @ v[j]) for i in range(len(v)) for j in range(len(v)) if i != j]
    assert made.coherence == pytest.approx(max(overlaps), abs=1e-15)
    assert (made.length, made.dimension) == v.shape


def test_the_reserved_vectors_are_exactly_orthonormal(made):
    reserved = np.concatenate([made.tokens, made.cls[None]])
    assert np.array_equal(reserved @ reserved.T, np.eye(3))
    assert not (reserved @ made.positions.T).any(), "exactly, not approximately"


def test_orthogonality_is_exact_where_there_is_room():
    assert CASES["exact"].dimension == 9 and CASES["exact"].coherence == CASES["roomy"].coherence == 0.0
    assert CASES["signs"].coherence > 0 and CASES["forced"].coherence > 0
    assert np.array_equal(np.unique(np.abs(CASES["signs"].positions[:, :6])), [1 / math.sqrt(6)])
    assert basis(1, 4, exact=False).coherence == 0.0


def test_a_seed_decides_the_random_signs():
    first, again, other = basis(12, 9, seed=1), basis(12, 9, seed=1), basis(12, 9, seed=2)
    assert np.array_equal(first.positions, again.positions) and not np.array_equal(first.positions, other.positions)


def test_the_coherence_of_the_reference():
    """REF: T=50, d=4000 gives Δ about 0.056; T=60, d=600 about 0.133."""
    assert np.mean([basis(50, 4000, seed, exact=False).coherence for seed in range(8)]) == pytest.approx(
        0.056, abs=0.01
    )
    assert np.mean([basis(60, 600, seed, exact=False).coherence for seed in range(8)]) == pytest.approx(0.133, abs=0.03)


def test_the_required_dimension_keeps_the_coherence():
    assert required_dimension(50, 0.3, 0.1) == 3 + math.ceil((4 * math.log(50) + 2 * math.log(10)) / 0.09)
    dimension = required_dimension(20, 0.5, 0.5)
    kept = [basis(20, dimension, seed, exact=False).coherence <= 0.5 for seed in range(200)]
    assert np.mean(kept) > 0.5
    fewer = [basis(20, dimension // 3, seed, exact=False).coherence <= 0.5 for seed in range(200)]
    assert np.mean(fewer) < 0.5


@pytest.mark.parametrize("name", CASES)
def test_mappings_row_by_row(name):
    made = CASES[name]
    random = np.random.default_rng(0)
    bits = random.integers(0, 2, (5, made.length))
    P = random.standard_normal(made.positions.shape)
    for row, fixed, given, bagged in zip(
        bits, deterministic(bits, made), trainable(bits, made, P), bag(bits, made), strict=True
    ):
        assert fixed.shape == given.shape == bagged.shape == (made.length + 1, made.dimension)
        for t, bit in enumerate(row):
            assert np.allclose(fixed[t], made.tokens[bit] + made.positions[t])
            assert np.allclose(given[t], made.tokens[bit] + P[t])
            assert np.array_equal(bagged[t], made.positions[t] if bit else np.zeros(made.dimension))
        assert all(np.array_equal(X[-1], made.cls) for X in (fixed, given, bagged))
    assert np.array_equal(deterministic(bits[0], made), deterministic(bits, made)[0])


def test_a_bag_is_diag_b_v():
    made, b = CASES["signs"], np.array([1, 0, 1, 1, 0, 0, 1, 0, 1, 0, 0, 1])
    assert np.array_equal(bag(b, made)[:-1], np.diag(b) @ made.positions)


def test_token_norms(made):
    bits = np.random.default_rng(1).integers(0, 2, (4, made.length))
    rows = np.linalg.norm(deterministic(bits, made)[:, :-1], axis=-1)
    assert np.allclose(rows, math.sqrt(2)) and token_norm(deterministic(bits, made)) == pytest.approx(math.sqrt(2))
    assert token_norm(bag(bits, made)) == pytest.approx(1.0)
    half = np.zeros_like(made.positions)
    half[0] = made.positions[0] / 2
    assert token_norm(trainable(bits, made, half)) == pytest.approx(math.sqrt(1.25))


@pytest.mark.parametrize(
    ("build", "echo"),
    [
        (lambda: basis(0), "length=0"),
        (lambda: basis(5, 3), "dimension=3"),
        (lambda: basis(5, 7, exact=True), r"at least 8; got dimension=7 \(try dimension=8"),
        (lambda: required_dimension(5, 0.0), "got 0.0"),
        (lambda: required_dimension(5, 0.1, 1.0), "failure=1.0"),
        (lambda: bag([0, 1, 2, 0, 1, 1], CASES["exact"]), r"\[0, 1, 2, 0, 1, 1\]"),
        (lambda: bag([0, 1], CASES["exact"]), r"\[..., 6\]; got \[0, 1\]"),
        (lambda: deterministic(1, CASES["exact"]), "got 1"),
        (lambda: trainable([0] * 6, CASES["exact"], np.zeros((6, 8))), r"\[6, 9\]; got \[6, 8\]"),
    ],
)
def test_bad_values_are_refused_with_what_was_given(build, echo):
    with pytest.raises(KroghError, match=echo):
        build()


def test_the_largest_overlap_is_over_different_vectors():
    assert head_inputs.measured_coherence(np.array([[1.0, 0.0], [0.6, 0.8], [0.0, -1.0]])) == pytest.approx(0.8)


@pytest.mark.parametrize("length", [1, 2, 3, 4, 8, 11, 64])
def test_inputs_are_points_of_the_circle_with_a_digit(length):
    p = int(math.log2(length))
    X = shattering_inputs(length)
    assert shattered_length(length) == 2**p and X.shape == (p, 2**p, 3) and X.dtype == np.float64
    for i in range(p):
        for t in range(2**p):
            digit = int(format(t, f"0{p}b")[i])
            expected = [math.cos(2 * math.pi * t / 2**p), math.sin(2 * math.pi * t / 2**p), digit]
            assert np.allclose(X[i, t], expected, atol=1e-15)


@pytest.mark.parametrize("length", [2, 8, 128])
def test_heads_that_attend_to_a_position_realise_every_pattern(length):
    """Proposition 4.8: with w_QK = T²(cos, sin, 0) at angle 2πs/T the read-out is bin(s)."""
    X = shattering_inputs(length)
    patterns = set()
    for s in range(length):
        angle = 2 * math.pi * s / length
        scores = X @ (length**2 * np.array([math.cos(angle), math.sin(angle), 0.0]))
        attention = np.exp(scores - scores.max(axis=1, keepdims=True))
        attention /= attention.sum(axis=1, keepdims=True)
        assert (attention[:, s] > 0.999).all()
        pattern = (attention * X[:, :, 2]).sum(axis=1) > 0.5
        assert pattern.tolist() == binary_digits(length)[s].astype(bool).tolist()
        patterns.add(tuple(pattern.tolist()))
    assert len(patterns) == 2 ** len(X) == length


@pytest.mark.parametrize("length", [0, -4])
def test_a_length_below_one_is_refused(length):
    with pytest.raises(KroghError, match=f"length={length}"):
        shattering_inputs(length)
