"""Matrix norms: the column convention, against sums written out, and the projection onto the unit ball."""

from __future__ import annotations

import math

import numpy as np
import pytest

from krogh.errors import KroghError
from krogh.theory import numerics as norms

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
