"""Circuits as functions to learn."""

from __future__ import annotations

import jax
import numpy as np
import pytest

from krogh.errors import KroghError
from krogh.programs import circuits
from krogh.programs.circuits.circuit import all_inputs
from krogh.registry import TASKS
from krogh.tasks.circuit_function import CircuitFunction, circuit_function
from krogh.values import describe, replaced, structure_of


def listed(task):
    return jax.tree.map(np.asarray, task.decode(task.population()))


def test_it_is_registered():
    assert TASKS["circuit"] is CircuitFunction and CircuitFunction.example().kind == "circuit"


@pytest.mark.parametrize("n", [1, 2, 4, 5, 6, 9])
def test_labels_are_the_truth_table(n):
    values = np.random.default_rng(n).integers(0, 2, 2**n)
    every = listed(CircuitFunction(n, values))
    index = ((every.x < 0) * 2 ** np.arange(n)).sum(axis=1)
    assert np.array_equal(every.truth, 2.0 * values[index] - 1) and sorted(index) == list(range(2**n))
    assert np.array_equal(CircuitFunction(n, values).values, values == 1)


def test_an_output_is_chosen_by_place_or_name():
    comparator = circuits.comparator(3)
    bits = all_inputs(6)
    a, b = bits[:, :3] @ [1, 2, 4], bits[:, 3:] @ [1, 2, 4]
    for output, expected in ((0, a < b), ("equal", a == b), (2, a > b)):
        assert np.array_equal(circuit_function(comparator, output).values, expected)
    ladder = circuits.and_ladder(4, 4)
    assert np.array_equal(circuit_function(ladder).values, all_inputs(4).all(axis=1))


def test_drawn_examples_follow_the_circuit():
    task = circuit_function(circuits.majority(16))
    drawn = jax.tree.map(np.asarray, task.batch(jax.random.key(0), 512))
    assert drawn.x.shape == (512, 16) and np.array_equal(drawn.truth > 0, (drawn.x < 0).sum(axis=1) > 8)
    share = 26333 / 65536  # Σ_{j>8} C(16,j) / 2^16
    assert task.baselines() == {"guessing_accuracy": pytest.approx(1 - share)}


def test_circuits_of_one_size_share_a_program_and_a_description():
    one, other = circuit_function(circuits.majority(6)), circuit_function(circuits.parity_circuit(6))
    assert structure_of(one) == structure_of(other)
    fields = describe(one)
    assert fields.pop("kind") == "circuit"
    assert np.array_equal(CircuitFunction(**fields).values, one.values)
    assert np.array_equal(replaced(one, "table", other.table).values, other.values)


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: CircuitFunction(17, [0]), "n must be an integer between 1 and 16"),
        (lambda: CircuitFunction(2, [0, 1, 2, 1]), r"lists 0 and 1; got \[0, 1, 2\]"),
        (lambda: CircuitFunction(2, [0, 1, 1]), r"2\^2 = 4 values, or of 1 words"),
        (lambda: CircuitFunction(2, [16]), "words that hold these"),
        (lambda: CircuitFunction(2, [0.5, 0, 0, 1]), "words that hold these"),
        (lambda: CircuitFunction(2, [[0, 1], [1]]), "whole numbers"),
        (lambda: circuit_function(circuits.parity_circuit(17)), "1 to 16 inputs; 'parity-17' has 17"),
        (lambda: circuit_function(circuits.adder(2), 3), "output must be an integer between 0 and 2"),
        (lambda: circuit_function(circuits.adder(2), "carrie"), "outputs s0, s1, carry; got output='carrie'"),
    ],
)
def test_tables_that_fit_no_function_are_refused(build, message):
    with pytest.raises(KroghError, match=message):
        build()
