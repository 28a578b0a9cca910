"""Truth tables against Python's own logic."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from krogh.errors import KroghError
from krogh.tasks import gates

LOGIC = {
    "and": all,
    "or": any,
    "nand": lambda bits: not all(bits),
    "nor": lambda bits: not any(bits),
    "xor": lambda bits: sum(bits) % 2 == 1,
    "majority": lambda bits: 2 * sum(bits) > len(bits),
    "threshold-1": any,
    "threshold-2": lambda bits: sum(bits) >= 2,
}


def rows(s: int) -> list[tuple[int, ...]]:
    """Bits in the order of a table: the first bit is the lowest digit of the index."""
    return [bits[::-1] for bits in itertools.product((0, 1), repeat=s)]


@pytest.mark.parametrize("s", [2, 3, 5])
@pytest.mark.parametrize("name", LOGIC)
def test_gates_are_their_logic(name, s):
    assert gates.gate_table(name, s).tolist() == [float(LOGIC[name](bits)) for bits in rows(s)]
    assert gates.gate_profile(name, s).tolist() == [float(LOGIC[name]([1] * r + [0] * (s - r))) for r in range(s + 1)]


def test_gates_of_one_bit():
    expected = {"and": [0, 1], "or": [0, 1], "xor": [0, 1], "majority": [0, 1], "nand": [1, 0], "nor": [1, 0]}
    assert {name: gates.gate_table(name, 1).tolist() for name in gates.GATES} == expected


def test_the_index_of_a_table_counts_the_first_bit_lowest():
    assert gates.weights(2).tolist() == [0, 1, 1, 2]
    assert gates.symmetric_table([5.0, -1.0, 7.0]).tolist() == [5.0, -1.0, -1.0, 7.0]
    values = np.random.default_rng(0).standard_normal(5)
    assert gates.symmetric_table(values).tolist() == [values[sum(bits)] for bits in rows(4)]
    assert gates.symmetric_table([3.0]).tolist() == [3.0]


@pytest.mark.parametrize("s", range(1, 8))
@pytest.mark.parametrize("name", ["and", "or", "nand", "nor", "xor", "majority", "threshold-1"])
def test_the_bias_balances_the_gate(name, s):
    bias = gates.balancing_bias(name, s)
    weighed = [math.prod(bias if bit else 1 - bias for bit in bits) for bits in rows(s)]
    assert np.dot(weighed, gates.gate_table(name, s)) == pytest.approx(0.5, abs=1e-12)
    assert np.allclose(gates.probabilities(s, bias), weighed, atol=1e-14)


@pytest.mark.parametrize("k", range(1, 7))
def test_the_bias_balances_every_threshold(k):
    bias = gates.balancing_bias(f"threshold-{k}", 6)
    assert gates.probabilities(6, bias) @ gates.gate_table(f"threshold-{k}", 6) == pytest.approx(0.5, abs=1e-12)


def test_the_bias_of_the_source():
    assert gates.balancing_bias("and", 3) == pytest.approx(0.793700526, abs=1e-9)
    assert gates.balancing_bias("or", 3) == pytest.approx(1 - 0.793700526, abs=1e-9)
    assert gates.balancing_bias("majority", 5) == 0.5


def test_symmetry_and_relevance_are_found_by_exchanging_bits():
    random = np.random.default_rng(1)
    for _ in range(200):
        s = int(random.integers(1, 4))
        table = random.integers(0, 2, 2**s).astype(float)
        value = dict(zip(rows(s), table, strict=True))
        symmetric = all(value[bits] == value[tuple(sorted(bits))] for bits in value)
        assert gates.is_symmetric(table) == symmetric
        flips = [[(*bits[:j], 1 - bits[j], *bits[j + 1 :]) for bits in value] for j in range(s)]
        relevant = [any(value[a] != value[b] for a, b in zip(value, flipped, strict=True)) for flipped in flips]
        assert gates.relevant_bits(table).tolist() == relevant


def test_values_become_labels():
    for given, labels, real in [
        ([0, 1, 1, 0], [-1, 1, 1, -1], False),
        ([-1, 1, 1, -1], [-1, 1, 1, -1], False),
        ([1, 1], [1, 1], False),
        ([0, 0], [-1, -1], False),
        ([0, -1], [0, -1], True),
        ([0.5, 1], [0.5, 1], True),
    ]:
        values, is_real = gates.as_labels(given)
        assert values.tolist() == labels and is_real == real


@pytest.mark.parametrize(
    ("build", "echo"),
    [
        (lambda: gates.gate_table("nxor", 3), "unknown gate 'nxor'; did you mean 'xor'"),
        (lambda: gates.balancing_bias("an", 3), "unknown gate 'an'; did you mean"),
        (lambda: gates.gate_table("threshold-4", 3), "k from 1 to 3; got 'threshold-4'"),
        (lambda: gates.gate_table("threshold-0", 3), "threshold-0"),
        (lambda: gates.gate_table("threshold-two", 3), "threshold-two"),
        (lambda: gates.gate_table("and", 0), "s=0"),
        (lambda: gates.gate_table("and", 21), "s=21"),
        (lambda: gates.symmetric_table([]), r"got \[\]"),
        (lambda: gates.bits_of(np.zeros(6)), r"got 6 \(try 8\)"),
        (lambda: gates.as_labels(["a", "b"]), "lists numbers"),
        (lambda: gates.as_labels([math.nan, 1.0]), "finite"),
    ],
)
def test_bad_values_are_refused_with_what_was_given(build, echo):
    with pytest.raises(KroghError, match=echo):
        build()
