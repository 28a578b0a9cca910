"""Norms against sums written out, operator norms from above, softmax and attention."""

from __future__ import annotations

import math

import numpy as np
import pytest
import scipy.sparse as sparse

from krogh.errors import KroghError
from krogh.theory import numerics as norms
from krogh.theory.numerics import _power_bound, largest_row_norm, operator_norm_bound

M = np.array([[3.0, 0.0, -1.0], [4.0, 2.0, 1.0]])


def test_mixed_norms_take_columns_first():
    assert norms.mixed_norm(M, 2, 1) == pytest.approx(5 + 2 + math.sqrt(2))
    assert norms.mixed_norm(M.T, 2, 1) == pytest.approx(math.sqrt(10) + math.sqrt(21))
    assert norms.mixed_norm(M, 1, np.inf) == 7 and norms.mixed_norm(M, np.inf, 1) == 7
    assert norms.mixed_norm(M, 1, 1) == np.abs(M).sum()
    assert norms.token_norm(M) == pytest.approx(math.sqrt(21)), "the largest row, not the largest column"


def test_mixed_norms_against_loops():
    rng = np.random.default_rng(0)
    for _ in range(50):
        p, q = rng.uniform(1, 4, size=2)
        a = rng.standard_normal(rng.integers(1, 6, size=2))
        columns = [sum(abs(x) ** p for x in column) ** (1 / p) for column in a.T]
        assert norms.mixed_norm(a, p, q) == pytest.approx(sum(c**q for c in columns) ** (1 / q), rel=1e-12)


def test_norms_are_ordered_and_agree_with_singular_values():
    rng = np.random.default_rng(1)
    for _ in range(200):
        a = rng.standard_normal(rng.integers(1, 7, size=2)) * 10.0 ** rng.integers(-3, 4)
        singular = np.sqrt(np.linalg.eigvalsh(a.T @ a).clip(0))
        assert norms.spectral_norm(a) == pytest.approx(singular.max(), rel=1e-6)
        frobenius = norms.mixed_norm(a, 2, 2)
        assert frobenius == pytest.approx(math.sqrt((a**2).sum()))
        assert norms.spectral_norm(a) <= frobenius * (1 + 1e-12) <= norms.mixed_norm(a, 2, 1) * (1 + 2e-12)


def test_leading_axes_are_heads():
    stack = np.random.default_rng(2).standard_normal((4, 3, 5))
    for norm in (
        norms.spectral_norm,
        lambda a: norms.mixed_norm(a, 2, 2),
        norms.token_norm,
        lambda a: norms.mixed_norm(a, 2, 1),
    ):
        np.testing.assert_allclose(norm(stack), [norm(one) for one in stack])


def test_the_projection_is_onto_the_unit_ball_and_moves_nothing_apart():
    rng = np.random.default_rng(3)
    u, v = (rng.standard_normal((2000, 3)) * rng.choice([0.01, 0.3, 1, 30], size=(2000, 1)) for _ in range(2))
    v[:200] = u[:200] * (1 + 1e-3 * rng.standard_normal((200, 1)))
    pu, pv = norms.unit_ball(u), norms.unit_ball(v)
    assert np.linalg.norm(pu, axis=1).max() <= 1 + 1e-15
    inside = np.linalg.norm(u, axis=1) <= 1
    assert inside.any() and np.array_equal(pu[inside], u[inside])
    length = np.linalg.norm(u[~inside], axis=1, keepdims=True)
    np.testing.assert_allclose(pu[~inside] * length, u[~inside])
    before, after = np.linalg.norm(u - v, axis=1), np.linalg.norm(pu - pv, axis=1)
    assert (after <= before * (1 + 1e-9)).all()
    assert np.array_equal(norms.unit_ball(np.zeros(3)), np.zeros(3))


def test_attention_norms_are_those_the_bounds_ask_for():
    rng = np.random.default_rng(4)
    q, k, v, c = (rng.standard_normal(s) for s in ((5, 3), (5, 3), (5, 3), (3, 5)))
    found = norms.attention_norms(q, k, v, c)
    rows = [np.linalg.norm(row) for row in q @ k.T]
    assert found["query_key_21"] == pytest.approx(sum(rows)), "row norms of W_Q W_K^T"
    assert found["query_key"] == pytest.approx(np.linalg.svd(q @ k.T)[1][0])
    assert found["value_21"] == pytest.approx(sum(np.linalg.norm(v[:, j]) for j in range(3)))
    assert found["value"] == pytest.approx(np.linalg.svd(v)[1][0])
    assert found["output_21"] == pytest.approx(sum(np.linalg.norm(c[:, j]) for j in range(5)))
    assert "output" not in norms.attention_norms(q, k, v)


def test_mixed_norms_of_products_obey_hoelder():
    rng = np.random.default_rng(4)
    slack = []
    for _ in range(300):
        a, b = rng.standard_normal((4, 3)), rng.standard_normal((3, 5))
        r, s, p = rng.choice([1.0, 1.5, 2.0, 4.0], size=3)
        conjugate = np.inf if p == 1 else p / (p - 1)
        slack.append(norms.mixed_norm(a @ b, r, s) / (norms.mixed_norm(a, r, p) * norms.mixed_norm(b, conjugate, s)))
    assert 0.5 < max(slack) <= 1 + 1e-12
    a, b = np.array([[1.0, 2.0]]), np.array([[1.0], [2.0]])  # equality: aligned vectors
    assert norms.mixed_norm(a @ b, 2, 1) == pytest.approx(norms.mixed_norm(a, 2, 2) * norms.mixed_norm(b, 2, 1))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: norms.mixed_norm([1.0, 2.0], 2, 1), "at least two axes; got shape \\(2,\\)"),
        (lambda: norms.mixed_norm(M, 0.5, 1), "p must be at least 1 for a norm .* got p=0.5"),
        (lambda: norms.attention_norms(M, M.T, M), "query and key need one shape"),
    ],
)
def test_bad_input(call, message):
    with pytest.raises(KroghError, match=message):
        call()


@pytest.mark.parametrize("seed", range(4))
def test_small_matrices_have_their_norm(seed):
    rng = np.random.default_rng(seed)
    matrix = rng.normal(size=(30, 50)) * (rng.random((30, 50)) < 0.2)
    norm = np.linalg.norm(matrix, 2)
    assert norm <= operator_norm_bound(matrix) <= norm * (1 + 1e-9)
    assert operator_norm_bound(sparse.csr_array(matrix.T)) == pytest.approx(norm, rel=1e-9)


@pytest.mark.parametrize("seed", range(8))
def test_the_bound_for_large_ones_is_one(seed, monkeypatch):
    monkeypatch.setattr(norms, "SMALL", 50)
    rng = np.random.default_rng(seed)
    matrix = sparse.random_array((90, 120), density=0.03, rng=rng, data_sampler=rng.standard_normal).tocsr()
    bound = operator_norm_bound(matrix)
    norm = np.linalg.norm(matrix.toarray(), 2)
    assert norm <= bound <= 2.5 * norm


def test_large_layers_of_gates_have_theirs_nearly_exactly(monkeypatch):
    """Rows of one sign, as in gates: |A| has the norm of A."""
    monkeypatch.setattr(norms, "SMALL", 50)
    rng = np.random.default_rng(0)
    n = 120
    rows, columns = np.repeat(np.arange(n), 2), rng.integers(0, n, 2 * n)
    matrix = sparse.csr_array((np.repeat(rng.choice([-1.0, 1.0], n), 2), (rows, columns)), shape=(n, n))
    norm = np.linalg.norm(matrix.toarray(), 2)
    assert norm <= operator_norm_bound(matrix) <= norm * 1.001


def test_special_cases():
    assert operator_norm_bound(np.zeros((3, 4))) == 0
    assert operator_norm_bound(np.diag([1.0, -7.0, 0.0])) == 7
    assert operator_norm_bound(np.vstack([np.eye(4), np.eye(4)])) == pytest.approx(np.sqrt(2), rel=1e-9)
    assert operator_norm_bound(3 * np.hstack([np.eye(4), -np.eye(4)])) == pytest.approx(3 * np.sqrt(2), rel=1e-9)
    assert operator_norm_bound(np.array([[0.0, 2.0, 0.0], [3.0, 0.0, 0.0]])) == 3
    two_blocks = sparse.block_diag([np.ones((3, 3)), 0.001 * np.ones((2, 2))]).tocsr()
    assert 3 <= _power_bound(abs(two_blocks)) <= 3 * (1 + 1e-9), "a small component must not spoil the bound"


def test_row_norms():
    assert largest_row_norm(np.array([[3.0, 4.0], [1.0, 0.0]])) == pytest.approx(5)
    assert largest_row_norm(sparse.csr_array((2, 2))) == 0


def test_the_norm_of_a_large_sparse_matrix_lies_below_its_bound():
    random = np.random.default_rng(5)
    for shape in ((30, 400), (300, 260)):
        weight = sparse.csr_array(sparse.random_array(shape, density=0.02, rng=random))
        exact = np.linalg.norm(weight.toarray(), 2)
        assert norms.operator_norm_bound(weight) >= exact


def test_softmax_does_not_overflow_and_attention_is_the_sum_written_out():
    rng = np.random.default_rng(6)
    scores = rng.standard_normal((3, 4))
    expected = np.exp(scores) / np.exp(scores).sum(axis=1, keepdims=True)
    np.testing.assert_allclose(norms.softmax(scores), expected, rtol=1e-14)
    assert norms.softmax([1e4, 0.0, -np.inf]).tolist() == [1, 0, 0]
    Z, X, W_Q, W_K, W_V = (rng.standard_normal(s) for s in ((2, 5), (4, 5), (5, 3), (5, 3), (5, 6)))
    weights = norms.softmax([[z @ W_Q @ W_K.T @ x for x in X] for z in Z])
    np.testing.assert_allclose(norms.attend(Z, X, W_Q, W_K, W_V), weights @ X @ W_V, rtol=1e-12)


def test_entropies_of_coins():
    assert norms.binary_entropy(0.5) == 1 and norms.binary_entropy(0) == norms.binary_entropy(1) == 0
    assert norms.binary_entropy(0.11) == pytest.approx(-0.11 * math.log2(0.11) - 0.89 * math.log2(0.89))


def test_bisection_finds_the_least_number():
    for least in (1, 2, 3, 7, 64, 1000, 12345):
        assert norms.least_integer(lambda m, least=least: m >= least) == least
        assert norms.least_integer(lambda m, least=least: m >= least, start=5) == max(5, least)
    assert norms.least_integer(lambda m: False) == math.inf
    assert norms.least_integer(lambda m: m >= 100, most=50) == math.inf
