"""Which index sets fit a data set: the device against enumeration, enumeration against loops."""

from __future__ import annotations

import itertools
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from krogh.errors import KroghError
from krogh.tasks import consistency
from krogh.tasks import sparse_boolean as gates
from krogh.tasks.consistency import consistent_sets, identifies, unique_probability

SIZE, N = 12, 7
QUICK = {"xla_backend_optimization_level": 0}  # compiling costs more here than running


def by_hand(bits: np.ndarray, labels: np.ndarray, s: int, table: np.ndarray) -> list[tuple[int, ...]]:
    fitting = []
    for chosen in itertools.combinations(range(bits.shape[1]), s):
        values = [table[sum(int(row[i]) << j for j, i in enumerate(chosen))] for row in bits]
        if all(value == label for value, label in zip(values, labels, strict=True)):
            fitting.append(chosen)
    return fitting


@pytest.mark.parametrize("s", [1, 2, 3])
def test_the_enumerator_against_loops(s):
    random = np.random.default_rng(s)
    found = 0
    for trial in range(40):
        bits = random.random((random.integers(0, 8), 6)) < 0.7
        table = random.integers(0, 2, 2**s) * 2.0 - 1
        if trial % 2:
            table = 2 * gates.gate_table("and", s) - 1
        truth = np.array([table[sum(int(row[i]) << i for i in range(s))] for row in bits])
        sets = consistent_sets(1.0 - 2.0 * bits, truth, s, table)
        assert [tuple(row) for row in sets.tolist()] == by_hand(bits, truth, s, table)
        found += len(sets) > 1
    assert found > 3


def test_labels_that_nothing_explains_leave_no_set():
    x, y = -np.ones((2, 4)), np.array([1.0, -1.0])
    assert consistent_sets(x, y, 2, gates.gate_table("and", 2)).shape == (0, 2)


def test_zero_one_labels_and_tables_read_as_signs():
    random = np.random.default_rng(5)
    bits = random.random((9, 6)) < 0.7
    label = bits[:, [1, 3]].all(axis=1)
    tables, labels = [gates.gate_table("and", 2)], [label.astype(float)]
    tables.append(2 * tables[0] - 1)
    labels.append(2 * labels[0] - 1)
    results = [consistent_sets(1.0 - 2.0 * bits, y, 2, table).tolist() for y in labels for table in tables]
    assert [1, 3] in results[0] and all(result == results[0] for result in results)


def test_real_tables_are_matched_by_value():
    bits = np.array([[0, 0, 1], [1, 0, 0], [0, 1, 1]], bool)
    table = np.array([0.0, 1.0, 2.0, 3.0])
    y = table[bits[:, 0] + 2 * bits[:, 2]]
    assert consistent_sets(1.0 - 2.0 * bits, y, 2, table).tolist() == [[0, 2]]


@pytest.mark.parametrize("s", [1, 2, 3])
def test_the_device_agrees_with_the_enumerator(s):
    """Random examples and labels of a conjunction, some spoiled so that nothing fits, any number m of them used."""
    random = np.random.default_rng(10 + s)
    count = 400
    bits = random.random((count, SIZE, N)) < random.uniform(0.4, 0.95, (count, 1, 1))
    positive = bits[:, :, :s].all(axis=2)
    spoiled = random.random((count, SIZE)) < 0.05 * (random.random((count, 1)) < 0.3)
    positive, m = positive ^ spoiled, random.integers(0, SIZE + 1, count)
    noise = random.integers(0, 2, (count, SIZE, 32 - N))  # what fills the word is not read
    words = (np.concatenate([bits, noise], axis=2) @ (1 << np.arange(32)))[:, :, None].astype(np.uint32)
    many = jax.vmap(lambda bits, positive, m: identifies(bits, positive, m, N, s))
    result = np.asarray(jax.jit(many, compiler_options=QUICK)(words, positive, m))
    table = gates.gate_table("and", s)
    for case in range(count):
        used = slice(0, int(m[case]))
        sets = consistent_sets(1.0 - 2.0 * bits[case, used], 2.0 * positive[case, used] - 1, s, table)
        assert result[case] == (len(sets) == 1), (case, len(sets))
    assert 0.05 < result.mean() < 0.95


def test_the_device_reads_positions_beyond_a_word_and_examples_beyond_a_word():
    random = np.random.default_rng(3)
    n, size, outcomes = 70, 40, []
    decide = jax.jit(lambda bits, positive: identifies(bits, positive, size, n, 3), compiler_options=QUICK)
    for _ in range(60):
        bits = random.random((size, n)) < 0.79
        positive = bits[:, [2, 33, 69]].all(axis=1)
        padded = np.concatenate([bits, np.ones((size, 96 - n), bool)], axis=1).reshape(size, 3, 32)
        words = (padded @ (1 << np.arange(32))).astype(np.uint32)
        sets = consistent_sets(1.0 - 2.0 * bits, 2.0 * positive - 1, 3, gates.gate_table("and", 3))
        outcomes.append(bool(decide(words, jnp.asarray(positive))))
        assert [2, 33, 69] in sets.tolist() and outcomes[-1] == (len(sets) == 1)
    assert 0.3 < np.mean(outcomes) < 1


def test_too_many_candidates_count_as_not_identified(monkeypatch):
    """With room for all of them the sets are counted, with less the answer is no."""
    words = ((~np.eye(6, dtype=bool))[:3] @ (1 << np.arange(6)))[:, None].astype(np.uint32)

    def decide() -> bool:  # three negatives with one zero each: the set must hold those three of six candidates
        return bool(jax.jit(lambda bits: identifies(bits, jnp.zeros(3, bool), 3, 6, 3), compiler_options=QUICK)(words))

    assert decide()
    monkeypatch.setattr(consistency, "CANDIDATES", 5)
    assert not decide()


def test_how_often_a_sample_identifies_against_the_enumerator():
    """The same question asked through `consistent_sets`, on draws of another generator."""
    random, n, s, m, draws = np.random.default_rng(8), 12, 2, 12, 400
    hits = 0
    for _ in range(draws):
        bits = random.random((m, n)) < 2**-0.5
        sets = consistent_sets(1.0 - 2.0 * bits, 2.0 * bits[:, :s].all(axis=1) - 1, s, gates.gate_table("and", s))
        hits += len(sets) == 1
    rate = hits / draws
    assert 0.2 < rate < 0.9
    assert abs(unique_probability(n, s, m, draws) - rate) < 4.5 * math.sqrt(2 * 0.25 / draws)


def test_samples_that_cannot_or_must_identify():
    assert unique_probability(3, 3, 1, 5) == 1.0, "there is one set alone"
    assert unique_probability(40, 3, 1, 20) == 0.0
    assert unique_probability(20, 3, 200, 20) == 1.0


@pytest.mark.parametrize(("n", "m"), [(50, 28), pytest.param(800, 40, marks=pytest.mark.slow)])
def test_the_threshold_of_uniqueness(n, m):
    """REF (60 draws): uniqueness ≥ 0.8 first at m = 28 for T = 50 and m = 40 for T = 800; ≥ 0.98 at m = 50."""
    at = unique_probability(n, 3, m, 400)
    below = unique_probability(n, 3, m - 10, 400)
    assert 0.75 < at < 0.95 and below < 0.65
    assert unique_probability(n, 3, 50, 400) > 0.96


@pytest.mark.parametrize(
    ("build", "echo"),
    [
        (lambda: consistent_sets(np.ones((2, 3)), np.ones(2), 4, np.ones(16)), "s=4"),
        (lambda: consistent_sets(np.ones((2, 3)), np.ones(2), 2, np.ones(8)), r"4 values; got shape \[8\]"),
        (lambda: consistent_sets(np.ones((1, 2000)), np.ones(1), 3, np.ones(8)), r"C\(2000,3\) = 1331334000"),
        (lambda: unique_probability(5, 6, 10), "s=6"),
        (lambda: unique_probability(5, 2, 0), "m=0"),
    ],
)
def test_bad_values_are_refused_with_what_was_given(build, echo):
    with pytest.raises(KroghError, match=echo):
        build()
