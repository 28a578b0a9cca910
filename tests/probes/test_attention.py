"""Attention profiles against sums written out, and scores of maps on matrices made to have them."""

from __future__ import annotations

import math

import jax
import numpy as np
import pytest

from krogh.errors import KroghError
from krogh.models.transformer import SparseTransformer
from krogh.probes.attention import (
    attention_map,
    attention_masses,
    attention_profile,
    map_scores,
    profile_by_label,
    retrieval_block,
    retrieval_weight,
    weight_by_bit,
)
from krogh.tasks.sparse_boolean import sparse_and

# --- profiles -------------------------------------------------------------------------------------------------

BY_HAND = np.array([[[0.5, 0.1, 0.2, 0.05, 0.15]], [[0.0, 0.3, 0.3, 0.4, 0.0]], [[0.1, 0.1, 0.1, 0.1, 0.6]]])
SUPPORT = (0, 2)


def random_weights(rng: np.random.Generator, samples: int = 7, heads: int = 3, positions: int = 6) -> np.ndarray:
    raw = rng.exponential(size=(samples, heads, positions + 1))
    return raw / raw.sum(axis=2, keepdims=True)


def test_masses_by_hand():
    masses = attention_masses(BY_HAND, SUPPORT)
    np.testing.assert_allclose(masses.relevant[:, 0], [0.7, 0.3, 0.2])
    np.testing.assert_allclose(masses.irrelevant[:, 0], [0.15, 0.7, 0.2])
    np.testing.assert_allclose(masses.own[:, 0], [0.15, 0.0, 0.6])
    np.testing.assert_allclose(masses.largest_irrelevant[:, 0], [0.1, 0.4, 0.1])


def test_the_largest_irrelevant_weight_is_neither_a_relevant_one_nor_that_of_cls():
    profile = attention_profile(BY_HAND[[0, 2]], SUPPORT)
    assert profile["largest_irrelevant"] == pytest.approx(0.1)
    assert profile["irrelevant_weight"] == pytest.approx((0.15 + 0.2) / 2 / 2), "two irrelevant positions"


def test_masses_against_loops():
    rng = np.random.default_rng(0)
    for _ in range(30):
        positions = int(rng.integers(2, 9))
        support = rng.choice(positions, size=int(rng.integers(0, positions)), replace=False)
        a = random_weights(rng, positions=positions)
        masses = attention_masses(a, support)
        profile = attention_profile(a, support)
        for i, h in np.ndindex(a.shape[:2]):
            others = [a[i, h, t] for t in range(positions) if t not in support]
            assert masses.relevant[i, h] == pytest.approx(sum(a[i, h, t] for t in support), abs=1e-12)
            assert masses.irrelevant[i, h] == pytest.approx(sum(others))
            assert masses.largest_irrelevant[i, h] == max(others)
        total = profile["relevant_mass"] + profile["irrelevant_mass"] + profile["own_weight"]
        assert total == pytest.approx(1)
        assert profile["irrelevant_weight"] == pytest.approx(profile["irrelevant_mass"] / (positions - len(support)))


def test_profiles_by_label_split_the_samples():
    rng = np.random.default_rng(1)
    a, labels = random_weights(rng), np.array([1, -1, -1, 1, 1, 1, -1])
    found = profile_by_label(a, SUPPORT, labels)
    assert found == profile_by_label(a, SUPPORT, (labels + 1) // 2), "labels may be 0 and 1"
    assert found[0] == attention_profile(a[[1, 2, 6]], SUPPORT) and found[0]["samples"] == 3
    assert found[1] == attention_profile(a[[0, 3, 4, 5]], SUPPORT)
    assert set(profile_by_label(a, SUPPORT, np.ones(7))) == {1}, "a label that does not occur has no profile"


def test_weight_by_bit_reads_relevant_positions_alone():
    bits = np.array([[0, 0, 1, 0], [1, 0, 0, 1], [1, 1, 1, 0]])
    found = weight_by_bit(BY_HAND, SUPPORT, bits)
    assert found[0] == pytest.approx((0.5 + 0.3) / 2) and found[1] == pytest.approx((0.2 + 0.0 + 0.1 + 0.1) / 4)
    assert math.isnan(weight_by_bit(BY_HAND, SUPPORT, np.ones((3, 4)))[0])


def test_a_profile_of_the_model_finds_the_position_it_was_made_to_look_at():
    """A key along what is P_3's alone: every other token, and [CLS], has score 0."""
    model, task = SparseTransformer(16, 1), sparse_and(5, 2)
    params = {
        name: np.array(leaf) for name, leaf in jax.jit(lambda key: model.init(key, task))(jax.random.key(0)).items()
    }
    others = np.vstack([params["E"], np.delete(params["P"], 3, axis=0), np.ones((1, 16))])
    alone = params["P"][3] - np.linalg.pinv(others) @ (others @ params["P"][3])
    params |= {"Wq": np.zeros((16, 16), np.float32), "bq": np.eye(16, dtype=np.float32)[0]}
    params["Wk"] = np.outer(np.eye(16)[0], 100 * alone / np.linalg.norm(alone)).astype(np.float32)
    x = task.decode(task.draw(jax.random.key(1), 8)).x
    weights = jax.jit(model.attention)(params, x)
    assert attention_profile(weights, [3])["relevant_mass"] > 0.999
    assert attention_profile(weights, [2])["largest_irrelevant"] > 0.999


@pytest.mark.parametrize(
    ("weights", "support", "message"),
    [
        (np.ones((2, 5)) / 5, (0,), "samples, heads"),
        (np.ones((2, 1, 5)), (0,), "distribution"),
        (BY_HAND, (4,), "0..3"),
        (BY_HAND, (0, 0), "different positions"),
        (BY_HAND, (0.5,), "different positions"),
    ],
)
def test_what_is_no_attention_is_refused(weights, support, message):
    with pytest.raises(KroghError, match=message):
        attention_masses(weights, support)


def test_labels_and_bits_must_fit_the_samples():
    with pytest.raises(KroghError, match="one per sample, 3"):
        profile_by_label(BY_HAND, SUPPORT, [1, 0])
    with pytest.raises(KroghError, match=r"\[3, 4\]"):
        weight_by_bit(BY_HAND, SUPPORT, np.ones((3, 5)))
    with pytest.raises(KroghError, match="0 or 1"):
        weight_by_bit(BY_HAND, SUPPORT, -np.ones((3, 4)))


# --- maps -----------------------------------------------------------------------------------------------------


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
    ],
)
def test_what_is_no_map_is_refused(call, message):
    with pytest.raises(KroghError, match=message):
        call()
