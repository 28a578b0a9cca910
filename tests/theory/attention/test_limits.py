"""Lower bounds and norms for sparse functions of a context: tables of the reference, networks built and executed."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from krogh.errors import KroghError
from krogh.theory.attention import complexity as capacity
from krogh.theory.attention.limits import (
    construction_norms,
    influence_limit,
    information_floor,
    pseudo_dimension,
    statistical_queries,
)
from krogh.theory.attention.lipschitz import softmax


@pytest.mark.parametrize("length", [1, 2, 3, 4, 8, 15, 16, 64])
def test_so_many_sequences_are_shattered(length):
    """Proposition 4.8 executed: heads that look at position q realise every pattern of the bits of q."""
    found = pseudo_dimension(length)
    p, total = found["at_least"], found["shattered_length"]
    assert p == math.floor(math.log2(length)) and total == 2**p <= length
    t = np.arange(total)
    circle = np.stack([np.cos(2 * np.pi * t / total), np.sin(2 * np.pi * t / total)], axis=1)
    patterns = set()
    for q in range(total):
        attention = softmax(circle @ (found["query_key_norm"] * circle[q]))
        patterns.add(tuple(bool(attention @ ((t >> i) & 1) > 0.5) for i in range(p)))
    assert len(patterns) == 2**p, "all sign patterns occur"


def test_the_floor_has_the_reference_table():
    table = {100: 17.3, 300: 22.1, 800: 26.3, 1100: 27.7}
    for length, bits in table.items():
        found = information_floor(length, 3)
        assert found["bits"] == pytest.approx(math.log2(math.comb(length, 3))) == pytest.approx(bits, abs=0.05)
        assert found["samples"] == math.ceil(found["bits"]) and found["fano"] == math.ceil(found["bits"] - 1)
    assert information_floor(1100, 3)["bits"] / information_floor(100, 3)["bits"] == pytest.approx(1.60, abs=0.005)
    assert information_floor(16, 1)["samples"] == 4 and information_floor(17, 1)["samples"] == 5
    assert information_floor(8, 8)["samples"] == 0


def test_fano_and_counting_with_a_chance_of_failure():
    found = information_floor(300, 3, success=0.8)
    assert found["fano"] == math.ceil(0.8 * found["bits"] - 1)
    assert found["counting"] == math.ceil(found["bits"] + math.log2(0.8))
    for success in (0.01, 0.3, 0.8, 1.0):
        numbers = information_floor(1000, 4, success=success)
        assert numbers["fano"] <= numbers["counting"] <= numbers["samples"]


def test_no_learner_of_conjunctions_beats_the_floor():
    """With m samples the best learner is right for as many supports as there are label vectors, at most 2^m."""
    length, s, m = 6, 2, 3
    supports = list(itertools.combinations(range(length), s))
    rng, right = np.random.default_rng(0), []
    for _ in range(200):
        x = rng.random((m, length)) < 2 ** (-1 / s)
        right.append(len({tuple(x[:, i].all(axis=1)) for i in supports}) / len(supports))
    assert max(right) > 0.3, "the bound is nearly reached by lucky samples"
    assert information_floor(length, s, success=float(np.mean(right)))["counting"] <= m
    assert information_floor(length, s, success=max(right))["counting"] <= m
    assert information_floor(length, s, success=2**m / len(supports) + 0.01)["counting"] > m


def test_queries():
    found = statistical_queries(15, 3)
    assert found["subsets"] == 455 and found["order"] == pytest.approx(15**3)
    assert statistical_queries(10, 3)["log10_subsets"] == pytest.approx(math.log10(120))
    assert statistical_queries(10**5, 400)["subsets"] == math.inf == statistical_queries(10**5, 400)["order"]
    assert statistical_queries(10**5, 400)["log10_order"] == pytest.approx(2000)


def averaging_head(length, members, score, bits):
    """The head of Lemma A.19 with orthonormal embeddings, as matrices: tokens E_b + v_t and a [CLS] row."""
    basis = np.eye(length + 3)
    positions, e0, e1, cls = basis[:length], basis[length], basis[length + 1], basis[length + 2]
    query = score * np.outer(cls, [1.0])
    key, value = np.outer(positions[members].sum(axis=0), [1.0]), np.outer(e0 - e1, [1.0])
    out = []
    for b in bits:
        tokens = np.vstack([np.where(b[:, None] == 1, e1, e0) + positions, cls])
        out.append(softmax(cls @ query @ key.T @ tokens.T) @ tokens @ value)
    return np.array(out)[:, 0]


@pytest.mark.parametrize(("length", "s", "score"), [(6, 3, 2.0), (8, 1, None), (7, 4, None), (5, 5, 0.3)])
def test_influence_is_that_of_the_head(length, s, score):
    found = influence_limit(length, s, score)
    members = list(range(s))
    measured = capacity.influence(lambda bits: averaging_head(length, members, found["score"], bits), length)
    np.testing.assert_allclose(measured[:s], found["influence"], rtol=1e-9)
    rest = 2 * math.exp(-found["score"]) * found["attention_weight"]
    np.testing.assert_allclose(measured[s:], rest, rtol=1e-9)


def test_influence_has_the_reference_table():
    lengths = (10, 100, 1000, 10**4)
    fixed = [influence_limit(t, 3, score=2.0)["influence"] for t in lengths]
    assert fixed == pytest.approx([0.490, 0.123, 0.0145, 0.00147], rel=4e-3)
    growing = [influence_limit(t, 3, gap=2 / 3) for t in lengths]
    assert [g["influence"] for g in growing] == pytest.approx([0.652, 0.649, 0.6487, 0.6487], abs=5e-4)
    assert growing[0]["limit"] == pytest.approx(2 / (3 + 1 / 12))
    assert influence_limit(10**9, 3)["influence"] == pytest.approx(growing[0]["limit"], rel=1e-8)
    assert influence_limit(10**9, 3, score=2.0)["limit"] == 0
    for length in (10, 10**3, 10**5):
        r, gap = math.log(8 * length / 0.5), 0.5
        exact = 2 * math.exp(r) / (4 * math.exp(r) + length + 1 - 4)
        assert influence_limit(length, 4, gap=gap)["influence"] == pytest.approx(exact, rel=1e-9)
    assert (
        influence_limit(10, 3, score=-1000.0)["influence"] == 0
        and influence_limit(10, 3, score=1000.0)["influence"] == 2 / 3
    )


def memoriser(points, delta):
    """W_1 and W_2 of the exact ReLU memoriser (Lemma A.25), biases in the last rows."""
    n, features = points.shape
    offsets, signs = (2, 1, -1, -2), (1, -1, -1, 1)
    first = np.zeros((features + 1, 4 * n * features))
    second = np.zeros((4 * n * features + 1, 2 * n))
    for column, (beta, i, j) in enumerate(itertools.product(range(4), range(n), range(features))):
        first[j, column], first[-1, column] = 1 / delta, -points[i, j] / delta + offsets[beta]
        second[column, [i, n + i]] = signs[beta] / delta
    second[-1, :n], second[-1, n:] = 1 - features / delta, -features / delta
    return first, second


def attention_matrices(length, s, mapping, target):
    """W_Q, W_K, W_V, W_C of one head (Lemmas A.19-A.21), orthonormal embeddings, written out."""
    basis, e = np.eye(length + 3), np.eye(s)
    v, e0, e1, cls = basis[:length], *basis[length:]
    if mapping == "bag":
        key = np.outer(v[:s].sum(axis=0) + cls, e[0])
        value = v[:s].T @ e - np.outer(cls, np.ones(s))
        symmetric = np.outer(np.ones(s), basis[0])
        return math.log(8 * length * s * s), key, value, symmetric if target == "symmetric" else e.T @ basis[:s]
    gap = min(1, 2 / s) if target == "symmetric" else 1.0
    spread = v[:s].sum(axis=0) if (mapping, target) == ("deterministic", "symmetric") else v[0]
    return math.log(8 * length / gap), np.outer(spread, e[0]), np.outer(e0 - e1, e[0]), np.outer(e[0], basis[0])


@pytest.mark.parametrize("mapping", ["deterministic", "trainable", "bag"])
@pytest.mark.parametrize("target", ["symmetric", "general"])
@pytest.mark.parametrize("s", [1, 2, 3, 4])
def test_norms_are_those_of_matrices_written_out(mapping, target, s):
    found = construction_norms(12, s, mapping, target)
    query, *others = attention_matrices(12, s, mapping, target)
    assert found["query"] == pytest.approx(query)
    for name, matrix in zip(("key", "value", "output"), others, strict=True):
        assert found[name] == pytest.approx(np.linalg.norm(matrix)), name
    assert found["heads"] == (s if target == "general" and mapping != "bag" else 1)
    bits = np.array(list(itertools.product((0, 1), repeat=s)))
    ones = np.arange(s + 1)[:, None]
    if target == "symmetric":
        points = (ones - s) / (ones + 1) if mapping == "bag" else 1 - 2 * ones / s
    else:
        points = (bits - 1) / (bits.sum(axis=1, keepdims=True) + 1) if mapping == "bag" else 1.0 - 2 * bits
    first, second = memoriser(points, found["gap"] / 4)
    assert found["first"] == pytest.approx(np.linalg.norm(first))
    assert found["second"] == pytest.approx(np.linalg.norm(second))
    assert (found["points"], found["hidden"], found["mlp_width"]) == (len(points), first.shape[1], second.shape[1])
    assert found["readout"] == pytest.approx(math.sqrt(2 * len(points)))
    values = np.sin(7.0 * np.arange(len(points)))  # the matrices do memorise, so these are the right ones
    hidden = np.maximum(np.column_stack([points, np.ones(len(points))]) @ first, 0)
    out = np.maximum(np.column_stack([hidden, np.ones(len(points))]) @ second, 0) @ np.concatenate([values, -values])
    np.testing.assert_allclose(out, values, atol=1e-9)


def test_norms_scale_as_the_proposition_says():
    for mapping in ("deterministic", "trainable", "bag"):
        query = [construction_norms(2**p, 3, mapping)["query"] for p in range(3, 13)]
        np.testing.assert_allclose(np.diff(query), math.log(2))
        for name in ("key", "value", "output", "first", "second"):
            assert construction_norms(8, 3, mapping)[name] == construction_norms(4096, 3, mapping)[name], name
        for s in range(1, 9):
            numbers = construction_norms(100, s, mapping, "general")
            assert max(numbers["key"], numbers["value"], numbers["output"]) <= 2 * numbers["order_attention"]
    symmetric = [construction_norms(1000, s)["second"] for s in (4, 8, 16, 32, 64)]
    assert max(np.log2(np.divide(symmetric[1:], symmetric[:-1]))) < 2, "polynomial in s"
    general = [math.log2(construction_norms(1000, s, target="general")["second"] / s) for s in (20, 40)]
    assert (general[1] - general[0]) / 20 == pytest.approx(0.5, abs=0.02), "2^(s/2) apart from a polynomial"
    assert construction_norms(10**6, 2)["sparse_enough"] == pytest.approx(2 / math.log(10**6))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: pseudo_dimension(0), "length must be an integer at least 1"),
        (lambda: information_floor(5, 6), "context of length >= s; got length=5, s=6 \\(try s=5\\)"),
        (lambda: information_floor(5, 2, success=0.0), "success is a probability greater than 0"),
        (lambda: information_floor(5, 2, success="1"), "got success='1'"),
        (lambda: statistical_queries(5, 0), "s must be an integer at least 1"),
        (lambda: influence_limit(5, 2, score=math.inf), "score must be a finite number; got score=inf"),
        (lambda: influence_limit(5, 2, gap=-1.0), "gap must be a number greater than 0"),
        (lambda: construction_norms(5, 2, mapping="fixed"), "mapping must be one of deterministic, trainable, bag"),
        (lambda: construction_norms(5, 2, target="all"), "target must be one of symmetric, general; got target='all'"),
    ],
)
def test_bad_input(call, message):
    with pytest.raises(KroghError, match=message):
        call()
