"""Attention profiles against sums written out, and trained norms against the network itself."""

from __future__ import annotations

import math

import jax
import numpy as np
import pytest

from krogh.errors import KroghError
from krogh.models.transformer import SparseTransformer
from krogh.probes.attention import attention_masses, attention_profile, profile_by_label, weight_by_bit
from krogh.tasks.sparse_boolean import sparse_and
from krogh.theory.attention.capacity import multi_head_capacity
from krogh.theory.attention.generalisation import (
    TrainedNorms,
    generalisation,
    samples_promised,
    trained_gap,
    trained_norms,
)

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


# --- norms of a trained network -------------------------------------------------------------------------------


def trained(
    seed: int, embedding: int = 8, heads: int = 2, n: int = 6, tied: bool = False
) -> tuple[SparseTransformer, dict[str, np.ndarray]]:
    """A network whose every parameter is random, biases and norms too."""
    model = SparseTransformer(embedding, heads, tied=tied)
    params = jax.eval_shape(lambda: model.init(jax.random.key(seed), sparse_and(n, 2)))
    rng = np.random.default_rng(seed)
    return model, {name: (rng.standard_normal(leaf.shape) * 0.7).astype(np.float32) for name, leaf in params.items()}


def test_the_norms_bound_the_scores_and_outputs_of_the_network():
    """|score| <= ||x_q|| ||W_QK|| ||x|| per head, and the attended output is at most Σ_h ||W_V W_C|| B_X long."""
    tables = jax.jit(trained(0)[0]._tables)
    for seed in range(20):
        _, params = trained(seed)
        norms = trained_norms(params, 2)
        score, own, value, _ = tables(params)
        reach = norms.query_norm * norms.query_key * norms.token_norm
        assert np.all(np.abs(np.asarray(score)).max(axis=(0, 1)) <= reach * 1.0001)
        assert np.all(np.abs(np.asarray(own)) <= reach * 1.0001)
        output = np.einsum("sthk,hkd->sthd", np.asarray(value), params["Wo"].T.reshape(2, 4, 8))
        longest = np.linalg.norm(output, axis=3).max(axis=(0, 1))
        assert np.all(longest <= norms.value * norms.token_norm * 1.0001)
        assert np.all(norms.query_key <= norms.query_key_21 * 1.0001) and np.all(norms.value <= norms.value_21 * 1.0001)


def test_the_norms_are_those_of_the_matrices_written_out():
    _, params = trained(3)
    norms = trained_norms(params, 2)
    p = {name: leaf.astype(np.float64) for name, leaf in params.items()}
    for head in range(2):
        rows = slice(4 * head, 4 * head + 4)
        query, key, value = (np.column_stack([p["W" + name], p["b" + name]])[rows] for name in "qkv")
        scores = query.T @ key / math.sqrt(4)  # x_q^T (W_Q W_K^T) x
        assert norms.query_key_21[head] == pytest.approx(sum(np.linalg.norm(row) for row in scores))
        assert norms.query_key[head] == pytest.approx(np.linalg.svd(scores, compute_uv=False)[0])
        moved = value.T @ p["Wo"][:, rows].T
        assert norms.value_21[head] == pytest.approx(sum(np.linalg.norm(column) for column in moved.T))
    assert norms.readout == pytest.approx(np.linalg.norm(p["U"][1] - p["U"][0])) and norms.dimension == 9
    z = p["E"][2] + p["P"][-1]
    seen = (z - z.mean()) / math.sqrt(z.var() + 1e-5) * p["g1"] + p["h1"]
    assert norms.query_norm == pytest.approx(math.hypot(np.linalg.norm(seen), 1.0))
    assert norms.token_norm >= norms.query_norm


def test_tied_read_outs_use_the_tokens():
    _, params = trained(4, tied=True)
    assert "U" not in params
    assert trained_norms(params, 2).readout == pytest.approx(np.linalg.norm(params["E"][1] - params["E"][0]), rel=1e-6)


def test_one_head_gets_the_gap_of_the_theorem():
    _, params = trained(5, heads=1)
    norms = trained_norms(params, 1)
    found = trained_gap(norms, 7, 100)
    alone = {name: float(getattr(norms, name)[0]) for name in ("value", "value_21", "query_key_21")}
    alone |= {name: getattr(norms, name) for name in ("token_norm", "query_norm", "readout")}
    expected = generalisation(7, 100, norms.dimension, **alone)
    for name in ("capacity_shape", "prediction_bound", "gap_shape", "gap_explicit"):
        assert found[name] == pytest.approx(expected[name], rel=1e-9)
    assert expected["vacuous"]


def test_several_heads_get_the_capacity_of_the_lemma():
    norms = TrainedNorms(
        np.array([0.3, 0.2]), np.array([0.5, 0.4]), np.array([1.0, 2.0]), np.array([2.0, 3.0]), 1.5, 1.2, 1.0, 9
    )
    lemma = multi_head_capacity(7, 100, 9, 2, 1.0, (0.3, 0.2), (0.5, 0.4), (2.0, 3.0), token_norm=1.5, query_norm=1.2)
    found = trained_gap(norms, 7, 100)
    assert found["capacity_shape"] == pytest.approx(lemma["shape"])
    assert found["prediction_bound"] == pytest.approx(0.5 * 1.5)


def test_the_gap_falls_with_samples_and_grows_with_the_logarithm_of_the_length():
    _, params = trained(6)
    small = {name: leaf * 0.01 for name, leaf in params.items()}
    norms = trained_norms(small, 2)
    gaps = [trained_gap(norms, 100, m)["gap_explicit"] for m in (10**3, 10**6, 10**9)]
    assert gaps[0] > gaps[1] > gaps[2] > 0
    shapes = [trained_gap(norms, 10**e, 1000)["capacity_shape"] for e in (1, 2, 3)]
    assert shapes[2] - shapes[1] == pytest.approx(shapes[1] - shapes[0])


def test_the_samples_promised_are_the_fewest():
    _, params = trained(7)
    norms = trained_norms({name: leaf * 0.01 for name, leaf in params.items()}, 2)
    m = int(samples_promised(norms, 7, 0.5))
    assert trained_gap(norms, 7, m)["gap_explicit"] <= 0.5 < trained_gap(norms, 7, m - 1)["gap_explicit"]
    with pytest.raises(KroghError, match="target"):
        samples_promised(norms, 7, 0.0)


def test_heads_must_divide_the_embedding():
    with pytest.raises(KroghError, match="must divide the embedding 8"):
        trained_norms(trained(0)[1], 3)
