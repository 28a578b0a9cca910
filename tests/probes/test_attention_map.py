"""Scores of attention maps and norms of parameters, on matrices made to have them."""

from __future__ import annotations

import math

import numpy as np
import pytest

from krogh.errors import KroghError
from krogh.probes.attention import attention_map, map_scores, retrieval_block, retrieval_weight
from krogh.theory.numerics import mixed_norm


def construction(d, d_e, q, slot, scale):
    """(A.2), entry by entry: query's index code number `slot` against the key's position code."""
    m = np.zeros((d + (q + 1) * d_e,) * 2)
    for k in range(d_e):
        m[d + slot * d_e + k, d + k] = scale
    return m


def test_the_map_gives_the_scores_of_queries_and_keys():
    rng = np.random.default_rng(0)
    w_q, w_k, z = rng.standard_normal((5, 7)), rng.standard_normal((5, 7)), rng.standard_normal((4, 7))
    queries, keys = np.stack([w_q @ token for token in z]), np.stack([w_k @ token for token in z])
    np.testing.assert_allclose(z @ attention_map(w_q, w_k) @ z.T, queries @ keys.T, atol=1e-12)


@pytest.mark.parametrize("slot", [1, 2])
def test_the_construction_scores_perfectly_and_its_transpose_not_at_all(slot):
    m = construction(3, 4, 2, slot, 30.0)
    scores = map_scores(m, 3, 4, slot)
    assert scores == (1.0, 30.0, 0.0, math.inf, 0.0)
    turned = map_scores(m.T, 3, 4, slot)
    assert turned.block_energy == 0 and turned.largest_outside == 30
    assert map_scores(m, 3, 4, 3 - slot).block_energy == 0
    np.testing.assert_array_equal(retrieval_block(m, 3, 4, slot), 30 * np.eye(4))


@pytest.mark.parametrize("seed", range(8))
def test_scores_by_the_reference_indices(seed):
    d, d_e = 2, 3
    m = np.random.default_rng(seed).standard_normal((d + 2 * d_e,) * 2)
    block = m[d + d_e : d + 2 * d_e, d : d + d_e]
    scores = map_scores(m, d, d_e)
    diagonal = np.mean([abs(block[k, k]) for k in range(3)])
    off = np.mean([abs(block[i, j]) for i in range(3) for j in range(3) if i != j])
    inside = {(i, j) for i in range(d + d_e, d + 2 * d_e) for j in range(d, d + d_e)}
    outside = max(abs(m[i, j]) for i in range(8) for j in range(8) if (i, j) not in inside)
    expected = ((block**2).sum() / (m**2).sum(), diagonal, off, diagonal / off, outside)
    np.testing.assert_allclose(scores, expected, rtol=1e-13)


def test_scores_do_not_depend_on_sign_or_scale_where_they_should_not():
    m = np.random.default_rng(2).standard_normal((11, 11))
    one, other = map_scores(m, 3, 4), map_scores(-7 * m, 3, 4)
    assert other.block_energy == pytest.approx(one.block_energy)
    assert other.diagonal_dominance == pytest.approx(one.diagonal_dominance)
    assert other.largest_outside == pytest.approx(7 * one.largest_outside)
    assert map_scores(np.ones((4, 4)), 2, 1).diagonal_dominance == math.inf


def test_retrieval_weight():
    weights = np.array([[[0.7, 0.2, 0.1], [0.0, 0.5, 0.5]], [[0.1, 0.1, 0.8], [0.25, 0.5, 0.25]]])
    found = retrieval_weight(weights, np.array([[0, 2], [2, 0]]))
    assert found.mean == pytest.approx((0.7 + 0.5 + 0.8 + 0.25) / 4) and found.least == 0.25


def test_retrieval_weight_of_hard_and_of_uniform_attention():
    indices = np.random.default_rng(3).integers(5, size=(6, 5))
    assert retrieval_weight(np.eye(5)[indices], indices) == (1.0, 1.0)
    assert retrieval_weight(np.full((6, 5, 5), 0.2), indices) == pytest.approx((0.2, 0.2))


def test_mixed_norm_is_columns_first():
    m = np.array([[3.0, 0.0, 1.0], [4.0, 2.0, 0.0]])
    assert mixed_norm(m, 2, 1) == pytest.approx(5 + 2 + 1) and mixed_norm(m.T, 2, 1) == pytest.approx(
        math.sqrt(10) + math.sqrt(20)
    )
    assert mixed_norm(m, 2, 2) == pytest.approx(np.linalg.norm(m))
    assert mixed_norm(m, 1, np.inf) == 7
    assert mixed_norm(construction(3, 4, 1, 1, 2.5), 2, 1) == pytest.approx(4 * 2.5), "d_e alpha, Lemma 11"


def test_mixed_norms_of_products_obey_hoelder():
    rng = np.random.default_rng(4)
    slack = []
    for _ in range(300):
        a, b = rng.standard_normal((4, 3)), rng.standard_normal((3, 5))
        r, s, p = rng.choice([1.0, 1.5, 2.0, 4.0], size=3)
        conjugate = np.inf if p == 1 else p / (p - 1)
        slack.append(mixed_norm(a @ b, r, s) / (mixed_norm(a, r, p) * mixed_norm(b, conjugate, s)))
    assert 0.5 < max(slack) <= 1 + 1e-12
    a, b = np.array([[1.0, 2.0]]), np.array([[1.0], [2.0]])  # equality: aligned vectors
    assert mixed_norm(a @ b, 2, 1) == pytest.approx(mixed_norm(a, 2, 2) * mixed_norm(b, 2, 1))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: map_scores(np.eye(10), 3, 4), r"10 features is not d \+ \(q\+1\) d_e with d=3, d_e=4"),
        (lambda: map_scores(np.eye(11), 3, 4, 2), "slot must be an integer between 1 and 1; got slot=2"),
        (lambda: map_scores(np.zeros((11, 11)), 3, 4), "all zero"),
        (lambda: map_scores(np.ones((3, 11)), 3, 4), "square matrix; got shape"),
        (lambda: retrieval_weight(np.full((1, 2, 3), 1 / 3), [[0, 3]]), "between 0 and 2; got 0 to 3"),
        (lambda: retrieval_weight(np.ones((1, 2, 3)), [[0, 1]]), "sum to 1 over keys; the sums run from 3"),
        (lambda: retrieval_weight(np.ones((2, 3)), [0, 1]), "got shapes"),
        (lambda: attention_map(np.ones((2, 3)), np.ones((3, 2))), "of one shape"),
        (lambda: mixed_norm([1.0, 2.0], 2, 1), "at least two axes"),
    ],
)
def test_bad_input(call, message):
    with pytest.raises(KroghError, match=message):
        call()
