"""Operator norms from above."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sparse

from krogh.theory import numerics as operator_norms
from krogh.theory.numerics import _power_bound, largest_row_norm, operator_norm_bound


@pytest.mark.parametrize("seed", range(4))
def test_small_matrices_have_their_norm(seed):
    rng = np.random.default_rng(seed)
    matrix = rng.normal(size=(30, 50)) * (rng.random((30, 50)) < 0.2)
    norm = np.linalg.norm(matrix, 2)
    assert norm <= operator_norm_bound(matrix) <= norm * (1 + 1e-9)
    assert operator_norm_bound(sparse.csr_array(matrix.T)) == pytest.approx(norm, rel=1e-9)


@pytest.mark.parametrize("seed", range(8))
def test_the_bound_for_large_ones_is_one(seed, monkeypatch):
    monkeypatch.setattr(operator_norms, "SMALL", 50)
    rng = np.random.default_rng(seed)
    matrix = sparse.random_array((90, 120), density=0.03, rng=rng, data_sampler=rng.standard_normal).tocsr()
    bound = operator_norm_bound(matrix)
    norm = np.linalg.norm(matrix.toarray(), 2)
    assert norm <= bound <= 2.5 * norm


def test_large_layers_of_gates_have_theirs_nearly_exactly(monkeypatch):
    """Rows of one sign, as in gates: |A| has the norm of A."""
    monkeypatch.setattr(operator_norms, "SMALL", 50)
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
