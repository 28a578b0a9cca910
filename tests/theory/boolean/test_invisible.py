"""The adversary's trajectory: exact where the target is invisible, and elsewhere another."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from krogh.errors import KroghError
from krogh.theory.boolean.fourier import cube, subset_mask
from krogh.theory.boolean.invisible import (
    adversarial_descent,
    invisible_at_least,
    invisible_parities,
    relu_neuron,
    subset_sizes,
    target_free_gradient,
    target_free_trajectory,
    uniform_start,
    visibility,
)

N, RATE, STEPS = 8, 0.3, 5
NEURON, START = relu_neuron(N), uniform_start(N, 1)
PATH = target_free_trajectory(NEURON, START, RATE, STEPS)


def loss(w, target):
    return 0.5 * np.mean((target - np.maximum(cube(N) @ w, 0)) ** 2)


def test_the_gradient_is_that_of_the_square_loss_to_zero():
    for i in range(N):
        step = 1e-6 * np.eye(N)[i]
        slope = (loss(START + step, 0.0) - loss(START - step, 0.0)) / 2e-6
        assert target_free_gradient(NEURON, START)[i] == pytest.approx(slope, abs=1e-8)
    assert PATH.shape == (STEPS + 1, N) and np.array_equal(PATH[0], START)
    assert np.linalg.norm(PATH[-1]) < np.linalg.norm(START)


def test_visibility_by_enumeration():
    found = visibility(NEURON, PATH[:-1])
    for size in range(N + 1):
        for subset in itertools.combinations(range(N), size):
            parity = cube(N)[:, list(subset)].prod(axis=1)
            signals = [np.abs(NEURON(theta)[1] @ parity / 2**N).max() for theta in PATH[:-1]]
            assert found[subset_mask(subset, N)] == pytest.approx(max(signals), abs=1e-14)
    assert subset_sizes(N)[subset_mask((0, 2, 5), N)] == 3


@pytest.mark.parametrize("k", [2, 4])
def test_iterates_are_the_target_free_ones_exactly_for_invisible_parities(k):
    seen = visibility(NEURON, PATH[:-1])
    subsets = [*itertools.combinations(range(N), k)]
    signals = np.array([seen[subset_mask(subset, N)] for subset in subsets])
    tolerance = float(np.median(signals))
    apart = np.array(
        [np.abs(adversarial_descent(NEURON, START, s, RATE, STEPS, tolerance) - PATH).max() for s in subsets]
    )
    assert np.all(apart[signals <= tolerance] < 1e-12)
    assert np.all(apart[signals > tolerance + 1e-9] > 1e-9)
    assert (signals > tolerance + 1e-9).any()


def test_odd_parities_are_never_seen_without_a_bias():
    assert visibility(NEURON, PATH[:-1])[subset_sizes(N) == 3].max() < 1e-15


def test_samples_count_within_the_tolerance_too():
    support, m = (0, 1, 2, 3), 4000
    tight = adversarial_descent(NEURON, START, support, RATE, STEPS, 0.5, samples=m)
    loose = adversarial_descent(NEURON, START, support, RATE, STEPS, 1e-4, samples=m)
    assert np.abs(tight - PATH).max() < 1e-12 < np.abs(loose - PATH).max()


def test_without_noise_it_is_plain_gradient_descent():
    target = cube(N)[:, :2].prod(axis=1)
    path = adversarial_descent(NEURON, START, (0, 1), RATE, STEPS, 0.0)
    losses = [loss(w, target) for w in path]
    assert losses == sorted(losses, reverse=True) and losses[-1] < loss(PATH[-1], target)


def test_few_parities_correlate_with_a_slope():
    """Lemma C.1: the squared coefficients of a slope over all S sum to at most its largest square, 1."""
    n, k = 12, 4
    function = relu_neuron(n)
    slopes = function(uniform_start(n, 0))[1]
    assert np.abs(slopes).max() <= 1
    points, subsets = cube(n), [*itertools.combinations(range(n), k)]
    squares = sum((slopes @ points[:, list(s)].prod(axis=1) / 2**n) ** 2 for s in subsets)
    assert np.all(squares <= 1) and np.all(squares / len(subsets) <= 1 / math.comb(n, k))


def test_the_bound_is_kept_at_every_tolerance():
    found = [invisible_parities(10, 4, tolerance, steps=3) for tolerance in (0.01, 0.05, 0.2, 0.5, 0.9)]
    shares = [numbers["invisible"] for numbers in found]
    assert shares == sorted(shares) and shares[0] < shares[-1] == 1
    assert all(numbers["invisible"] >= numbers["at_least"] for numbers in found) and found[-1]["at_least"] > 0
    assert invisible_at_least(10, 3, 0.5, 10, 4) == pytest.approx(1 - 30 / (0.25 * 210))
    assert found[0]["parities"] == 210 and found[0]["largest_signal"] > 0.01


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: invisible_parities(19, 3), "n must be an integer between 1 and 18; got n=19"),
        (lambda: invisible_parities(9, 3, 0.0), "tolerance must be a number greater than 0"),
        (lambda: adversarial_descent(NEURON, START, (0,), RATE, 1, -0.1), "at least 0; got tolerance=-0.1"),
        (lambda: adversarial_descent(NEURON, START, (N,), RATE, 1, 0.1), "element of the subset"),
    ],
)
def test_bad_input(call, message):
    with pytest.raises(KroghError, match=message):
        call()
