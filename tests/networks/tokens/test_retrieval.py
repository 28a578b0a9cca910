"""The retrieval transformer: its certificate is computed by hand, and holds on every index tuple."""

from __future__ import annotations

import dataclasses
import itertools
import math

import numpy as np
import pytest

from krogh.errors import KroghError
from krogh.networks.handmade import construct
from krogh.networks.tokens.retrieval import retrieval, token_retrieval
from krogh.tasks.codes import coherence, sign_codes
from krogh.tasks.links import CentredSquareLink, LinearLink, TwoLayerLink, unit_vector
from krogh.tasks.token_regression import TokenRegression


def encoded(task, tokens, indices):
    """One prompt written out by hand: z_i = (x_i, √(d/q)(ω_i, ω_{t_i1}, ...))."""
    codes = math.sqrt(task.dimension / task.sparsity) * np.asarray(task.codes, np.float64)
    rows = [np.concatenate([tokens[i], codes[i], *(codes[t] for t in indices[i])]) for i in range(task.length)]
    return np.array(rows)


def test_every_index_tuple_is_retrieved_within_the_certificate():
    n, d, q = 4, 3, 2
    made = token_retrieval(n, d, q, reach=2.0, epsilon=1e-6)
    tuples = list(itertools.product(range(n), repeat=q))
    random = np.random.default_rng(0)
    a, weight, b = (np.asarray(part, np.float64) for part in (made.task.link.a, made.task.link.W, made.task.link.b))
    prompts, expected = [], []
    for shift in range(len(tuples)):
        tokens = random.normal(size=(n, d))
        tokens *= 2.0 / np.linalg.norm(tokens, axis=1, keepdims=True)
        indices = [tuples[(shift + 3 * i) % len(tuples)] for i in range(n)]
        prompts.append(encoded(made.task, tokens, indices))
        expected.append([a @ np.maximum(weight @ np.concatenate([tokens[t] for t in ts]) + b, 0) for ts in indices])
    error = np.abs(made.run(np.array(prompts)) - expected).max()
    assert error <= made.tolerance == made.promise.output_error == pytest.approx(1e-3)
    checked = made.check()
    assert checked.holds and checked.inputs == 16 and not checked.exhaustive

    measured, promised = made.measure(), made.certificate()
    assert 1 > measured.retrieval_weight >= promised.retrieval_weight > 0.99
    assert 0 < measured.token_error <= promised.token_error
    assert 0 < measured.output_error <= promised.output_error
    assert measured.output_error == checked.largest_error

    # A third of the strength, and the attention is no longer hard enough for the same statement.
    weak = dataclasses.replace(made, parameters={**made.parameters, "QK": made.parameters["QK"] / 3})
    assert not weak.check().holds and weak.measure().retrieval_weight < promised.retrieval_weight


def test_the_certificate_is_tight_where_the_coherence_is_one_half():
    """Two codes with product 1/2: the weight is 1/(1 + e^(-αd/2q)), and the token is off by (1 - weight)‖x_1 - x_2‖."""
    codes = np.array([[1.0, 1.0, 1.0, 1.0], [1.0, 1.0, 1.0, -1.0]]) / 2
    made = retrieval(TokenRegression(2, 3, LinearLink(unit_vector(3)), codes, scaled=True), reach=1.0, epsilon=1e-2)
    miss = math.exp(-made.promise.strength * 3 / 2)
    measured = made.measure()
    assert measured.retrieval_weight == pytest.approx(1 / (1 + miss), rel=1e-9)
    assert made.promise.retrieval_weight == pytest.approx(1 - miss, rel=1e-9)
    assert 0.1 * made.promise.token_error < measured.token_error <= made.promise.token_error / 2
    # r_a = 2 and r_w = 1 for a linear link: 2·2·1·1·2/0.1
    assert made.promise.strength == pytest.approx(2 / 3 * math.log(80), rel=1e-6)


def test_the_oracle_meets_every_tuple_at_every_position():
    made = token_retrieval(3, 2, 2, reach=2.0)
    seen = set()
    for tokens, indices in made.oracle.prompts(seed=0):
        assert np.linalg.norm(tokens, axis=-1).max() <= 2.0 * (1 + 1e-12)
        seen |= {(i, tuple(row[i])) for row in indices.tolist() for i in range(3)}
        x = made.oracle.encode(tokens, indices)
        np.testing.assert_allclose(x[5], encoded(made.task, tokens[5], indices[5]), atol=1e-15)
    assert len(seen) == 3 * 9


def test_the_instance_of_the_reference():
    """N=20, d=6, q=3, d_e=60, m=7, ε=1e-4: α ≈ 13.7, error about 1e-5 where 1e-2 is allowed."""
    n, d, q, size, m = 20, 6, 3, 60, 7
    random = np.random.default_rng(1)
    link = TwoLayerLink(random.normal(size=m), random.normal(size=(m, q * d)), random.normal(size=m))
    made = retrieval(TokenRegression(n, d, link, sign_codes(n, size, 0, 0.5), q, scaled=True), epsilon=1e-4, reach=4.5)
    strength = made.promise.strength
    r_a = np.linalg.norm(link.a) * math.sqrt(m)
    r_w = math.sqrt((np.sum(link.W**2) + np.sum(link.b**2)) / m)
    assert strength == pytest.approx(2 * q / d * math.log(2 * r_a * r_w * 4.5 * n * math.sqrt(q) / 1e-2), rel=1e-6)
    assert 13.0 < strength < 14.4
    measured = made.measure()
    assert measured.retrieval_weight > 0.99999 and 1e-7 < measured.output_error < 5e-5
    for h in range(q):
        matrix = made.parameters["QK"][h]
        assert np.linalg.norm(matrix, axis=1).sum() == pytest.approx(size * strength) == made.promise.query_key_norm
        assert np.sum(matrix**2) == pytest.approx(size * strength**2)
        asked = slice(d + (h + 1) * size, d + (h + 2) * size)
        np.testing.assert_array_equal(matrix[asked, d : d + size], strength * np.eye(size))
    miss = math.exp(-strength * d / (2 * q))
    assert made.promise.retrieval_weight == pytest.approx(1 - 19 * miss)
    assert made.promise.token_error == pytest.approx(2 * n * 4.5 * miss)


@pytest.mark.parametrize(
    "settings",
    [
        {"length": "3", "dimension": "2", "link": "linear", "epsilon": "1e-8"},
        {"length": 3, "dimension": 2, "sparsity": 2, "link": "mean", "heads": 4},
        {"length": 1, "dimension": 1, "link": "linear"},
    ],
    ids=["text", "more heads", "one token"],
)
def test_other_settings_hold_too(settings):
    made = construct("qstr/retrieval", **settings)
    assert made.check().holds and made.tolerance == pytest.approx(math.sqrt(float(settings.get("epsilon", 1e-4))))


def test_a_crude_goal_needs_no_attention_at_all():
    made = token_retrieval(2, 2, link="linear", reach=0.1, epsilon=4.0)
    assert made.promise.strength == 0 and not made.parameters["QK"].any() and made.check().holds


def test_bad_settings_get_one_clear_error():
    codes = sign_codes(20, 12, seed=0)
    task = TokenRegression(20, 3, LinearLink(unit_vector(3)), codes, scaled=True)
    measured = coherence(codes)
    assert measured > 0.5
    with pytest.raises(
        KroghError, match=rf"coherence at most 0.5; got {measured:.4g} .*in dimension 12 .*dimension \d+"
    ):
        retrieval(task)
    with pytest.raises(KroghError, match=r"2 tokens need 2 heads; got heads=1 \(try heads=2\)"):
        token_retrieval(4, 3, 2, heads=1)
    good = sign_codes(4, 40, 0, 0.5)
    with pytest.raises(KroghError, match="scaled by √"):
        retrieval(TokenRegression(4, 3, LinearLink(unit_vector(3)), good))
    with pytest.raises(KroghError, match=r"'centred-square' is no two-layer ReLU network.*'linear'"):
        retrieval(TokenRegression(4, 3, CentredSquareLink(), good, 2, scaled=True))
    with pytest.raises(KroghError, match="a linear link reads one token; got sparsity=2"):
        token_retrieval(4, 3, 2, link="linear")
    with pytest.raises(KroghError, match="epsilon must be a number greater than 0"):
        token_retrieval(4, 3, epsilon=0.0)
    with pytest.raises(KroghError, match="reach must be a number greater than 0"):
        token_retrieval(4, 3, reach=-1.0)
    with pytest.raises(KroghError, match="unknown link 'cubic'"):
        token_retrieval(4, 3, link="cubic")
