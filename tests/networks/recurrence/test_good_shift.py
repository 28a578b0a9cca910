"""The good shift: its target, its outer products against the matrix of the definition, what it computes, how large."""

from __future__ import annotations

import math

import jax
import numpy as np
import pytest

from krogh.errors import KroghError
from krogh.networks.recurrence.good_shift import (
    GoodShift,
    TokenSums,
    counting_sums,
    good_shift,
    random_good_shift,
    random_sums,
    shifted_outputs,
)
from krogh.networks.recurrence.measures import construction_error, movement
from krogh.networks.recurrence.random_network import random_rnn
from krogh.networks.recurrence.selector import sigma_at, token_weight, weigh_tokens
from krogh.tasks.token_sequences import base_sequence, bit_tokens, draw_tokens, normalise_tokens


def test_token_sums_are_those_of_a_plain_loop():
    target = random_sums(5, 4, "[1, 0.5, -2]", seed=3, terms=2, outputs=3)
    tokens = np.asarray(draw_tokens(jax.random.key(0), 4, 3, 4), np.float64)
    found = target(tokens)
    assert found.shape == (4, 3, 3) and target.length == 5 and target.outputs == 3
    for b, j, s in np.ndindex(4, 3, 3):
        expected = 0.0
        for i in range(j + 1):  # tokens 2..j-1 in the source's counting
            for r in range(2):
                z = target.directions[i, j, r, s] @ tokens[b, i]
                expected += z + 0.5 * z**2 - 2 * z**3
        assert found[b, j, s] == pytest.approx(expected)


def test_counting_sums_count_exactly_on_all_strings():
    """A-K4: #a - #b before every label, for all strings of eight letters."""
    letters = 8
    bits = (np.arange(2**letters)[:, None] >> np.arange(letters)) & 1
    found = counting_sums(letters + 2)(np.asarray(bit_tokens(bits), np.float64))[..., 0]
    for j in range(letters):
        a = [sum(string[: j + 1]) for string in bits.tolist()]
        np.testing.assert_allclose(found[:, j], [2 * count - (j + 1) for count in a], atol=1e-5)


def test_good_shift_is_the_matrix_of_definition_5_3():
    """Row by row, as it is printed, with Back by explicit products."""
    m, length, dx, eps = 40, 5, 3, 0.3
    network, target = random_rnn(m, dx + 1, 2, seed=1), random_sums(length, dx, "[1, 0.4]", 1, terms=2, outputs=2)
    shift = good_shift(network, target, eps, 0.5)
    base = np.asarray(base_sequence(length, dx, eps, "eps"), np.float64)
    h, D = [np.zeros(m)], [np.eye(m)]
    for one in base:
        g = network.W @ h[-1] + network.A @ one
        h.append(np.maximum(g, 0))
        D.append(np.diag((g >= 0).astype(float)))
    expected, sigma = np.zeros((m, m)), sigma_at(length, dx, eps)
    for i in range(2, length):
        P = math.erf(0.5 / (2 * np.linalg.norm(h[i - 1])))
        for j in range(i + 1, length + 1):
            back = network.B
            for place in range(j, i, -1):
                back = back @ D[place] @ network.W
            for s, r in np.ndindex(2, 2):
                C = (back[s] @ back[s]) * (h[i - 1] @ h[i - 1]) / m
                weight = token_weight(target.coefficients[i - 2, j - 3, r, s], sigma[i])
                H = weigh_tokens(weight, math.sqrt(m / 2) * network.A[:, :dx], target.directions[i - 2, j - 3, r, s])
                for k in range(m):
                    if abs(network.W[k] @ h[i - 1]) <= 0.5 / math.sqrt(m):
                        expected[k] += back[s, k] / (m * C) * H[k] / P * h[i - 1]
    assert shift.left.shape == shift.right.shape == (length - 2, m)
    np.testing.assert_allclose(shift.dense(), expected, atol=1e-10 * np.abs(expected).max())
    x = np.asarray(normalise_tokens(draw_tokens(jax.random.key(1), 2, length - 2, dx), eps, "eps"), np.float64)
    run = network.run(x)
    np.testing.assert_allclose(shifted_outputs(network, shift, x)[:, 1], run.pseudo(expected, j=4), rtol=1e-8)


@pytest.mark.slow
def test_good_shift_computes_its_target_and_does_not_grow_with_the_width():
    """m = 2000, ε = 0.1: beforehand correlations of 0.95 and 0.93 and a size of 23.0."""
    made = [random_good_shift(2000, seed=seed, dtype=np.float32) for seed in range(3)]
    errors = [one.error() for one in made]
    assert np.mean([error.correlation for error in errors], axis=0).min() > 0.85
    assert np.mean([error.deviation for error in errors]) < 0.45
    sizes = [movement(one.shift).frobenius for one in made]
    assert np.mean(sizes) == pytest.approx(23.0, rel=0.1) and made[0].size["movement"] == pytest.approx(sizes[0])
    narrow = [movement(random_good_shift(500, seed=seed, dtype=np.float32).shift).frobenius for seed in range(6)]
    assert np.mean(narrow) == pytest.approx(23.0, rel=0.15)


def test_a_good_shift_counts():
    """Both kinds of letters are told apart by the shift that A-K4's sum asks for."""
    network, target = random_rnn(2000, 4, seed=0, dtype=np.float32), counting_sums(4)
    bits = (np.arange(4)[:, None] >> np.arange(2)) & 1
    tokens = np.asarray(bit_tokens(bits), np.float64)
    found = shifted_outputs(network, good_shift(network, target, 0.1, 0.1), normalise_tokens(tokens, 0.1, "eps"))
    assert construction_error(found, target(tokens)).correlation.min() > 0.9


@pytest.mark.slow
def test_the_check_of_a_good_shift_asks_for_correlation_and_for_the_definition():
    made = random_good_shift(1500, seed=0)
    checked = made.check()
    assert isinstance(made, GoodShift) and checked.holds and checked.details["departure_from_definition"] < 1e-9
    assert "at least 0.8 is asked" in checked.scope
    off = made.parameters["left"].copy()
    off[0, np.argmax(np.abs(off[0]))] *= 1.001
    wrong = made.with_parameters({**made.parameters, "left": off}).check()
    assert not wrong.holds and wrong.details["departure_from_definition"] > 1e-9
    narrow = random_good_shift(30, seed=0).check()
    assert not narrow.holds and narrow.details["departure_from_definition"] < 1e-9


def test_token_sums_refuse_directions_with_a_bias_and_functions_with_a_constant():
    good = random_sums(4, 3, "z", 0)
    with pytest.raises(KroghError, match="unit vector of 3 numbers"):
        TokenSums(2 * good.directions, good.coefficients)
    with pytest.raises(KroghError, match=r"have φ\(0\) = 0; got c_0"):
        TokenSums(good.directions, good.coefficients + 1)
    with pytest.raises(KroghError, match=r"directions are \[L-2, L-2, p, d, dx\]"):
        TokenSums(good.directions[0], good.coefficients)
    with pytest.raises(KroghError, match="terms must be an integer at least 1; got terms=0"):
        random_good_shift(20, terms=0)
