"""Empirical gradients of one neuron against population gradients, and what counts as recovery."""

from __future__ import annotations

import numpy as np
import pytest

from krogh.errors import KroghError
from krogh.theory.boolean import recovery
from krogh.theory.boolean.fourier import fourier_gap, heaviside, population_gradient
from krogh.theory.boolean.recovery import (
    geometric_sizes,
    recovered,
    recovery_counts,
    sample_gradients,
    signal_and_noise,
)

W = np.array([1.0, 1, 1, 1, 1, 0, 0, 0, 0])


@pytest.mark.parametrize("scale", [1.0, 2.0])
def test_gradients_of_samples_are_unbiased_and_have_the_right_spread(scale):
    """Twice the weights and the bias have the same gate, and are summed and not counted."""
    support, m = (0, 3), 500
    found = sample_gradients(scale * W, -0.3 * scale, support, m, 400, np.random.default_rng(0))
    exact = population_gradient(W, support, heaviside, bias=-0.3)
    spread = np.sqrt((0.5 - exact**2) / m)  # entries are ±1 where the gate is open, which is half of the time
    assert np.abs(found.mean(axis=0) - exact).max() < 4 * spread.max() / 20
    assert np.abs(found.std(axis=0) / spread - 1).max() < 0.2


COUNTED = [  # weights and bias whose gate is a count, with an odd and an even number of small weights, and none
    (W, -0.3),
    (np.ones(9), 0.9),
    (np.where(np.arange(9) < 2, 1.0, 0.1), 0.0),
    (np.where(np.arange(9) < 4, 1.0, 0.1), -0.05),
    (np.where(np.arange(10) < 4, 1.0, 0.1), 0.0),
    (np.full(9, 0.1), 0.05),
]


@pytest.mark.parametrize(("weights", "bias"), COUNTED)
@pytest.mark.parametrize("rows", [1, 63, 64, 1000])
def test_counting_words_is_summing_signs(weights, bias, rows):
    ones, support = recovery._counted_ones(weights, bias), [0, 3, 5]
    assert ones is not None
    words = np.random.default_rng(1).integers(0, 2**64, (len(weights), -(-rows // 64)), dtype=np.uint64)
    bits = np.unpackbits(words.astype("<u8").view(np.uint8), axis=1, bitorder="little")[:, :rows]
    x = 1.0 - 2.0 * bits.T
    expected = ((np.round(x @ weights + bias, 12) > 0) * x[:, support].prod(axis=1)) @ x
    found = recovery._counted(np.random.default_rng(1), rows, ones, support)
    assert found.tolist() == expected.tolist()


@pytest.mark.parametrize(
    ("weights", "bias"),
    [(W, 1.0), (2 * W, 0.0), (W[1:], 0.0), (np.where(W == 1, 1.0, 0.3), 0.0), (np.linspace(0, 1, 9), 0.0)],
)
def test_other_neurons_are_not_counted(weights, bias):
    assert recovery._counted_ones(weights, bias) is None


def test_one_sample_written_out():
    rng = np.random.default_rng(5)
    bits = np.unpackbits(np.frombuffer(np.random.default_rng(5).bytes(8), np.uint8), count=7 * 9).reshape(7, 9)
    x = 1.0 - 2.0 * bits
    expected = ((x @ (2 * W) - 0.3 > 0) * x[:, 0] * x[:, 3]) @ x / 7
    assert sample_gradients(2 * W, -0.3, (0, 3), 7, 1, rng)[0] == pytest.approx(expected)


def test_chunks_are_counted_once(monkeypatch):
    monkeypatch.setattr("krogh.theory.boolean.recovery._ROWS", 8)
    gradient = sample_gradients(np.zeros(3), 1.0, (), 20, 1, np.random.default_rng(0))  # the gate is always open
    rng = np.random.default_rng(0)
    signs = [
        1.0 - 2.0 * np.unpackbits(np.frombuffer(rng.bytes(-(-rows * 3 // 8)), np.uint8), count=rows * 3)
        for rows in (8, 8, 4)
    ]
    assert gradient[0] == pytest.approx(np.concatenate([part.reshape(-1, 3) for part in signs]).mean(axis=0))


def test_recovery_is_a_positive_gap():
    gradients = np.array([[0.5, -0.4, 0.1, 0.3], [0.5, 0.2, 0.1, -0.3], [0.5, 0.3, 0.1, -0.3]])
    assert recovered(gradients, (0, 1)).tolist() == [True, False, False], "a tie is no recovery"
    relevant, irrelevant = signal_and_noise(gradients, (0, 1))
    assert (relevant - irrelevant).tolist() == pytest.approx([fourier_gap(g, (0, 1)) for g in gradients])
    assert recovered(gradients, (0, 1), ones=(1,)).tolist() == [True] * 3
    assert recovered(gradients, (0, 3), ones=(1,)).tolist() == [True] * 3


def test_counts_rise_and_stop_when_all_succeed():
    counts = dict(recovery_counts(W, 0.0, (0, 1), geometric_sizes(4, 10**6), 20, 0))
    sizes = [*counts]
    assert counts[4] < 10 and counts[sizes[-1]] == counts[sizes[-2]] == 20
    assert sizes[-1] < 10**6 and 20 not in [counts[m] for m in sizes[-4:-3]]
    assert dict(recovery_counts(W, 0.0, (0, 1), (64, 128), 20, 0)).keys() <= counts.keys() | {64, 128}
    again = dict(recovery_counts(W, 0.0, (0, 1), sizes, 20, 0))
    assert again == counts
    assert dict(recovery_counts(W, 0.0, (0, 1), sizes[:5], 20, 1)) != dict(list(counts.items())[:5])


def test_sizes():
    assert geometric_sizes(100, 1200) == (100, 141, 200, 282, 400, 565, 800, 1131)
    assert geometric_sizes(1, 4) == (1, 2, 4) and geometric_sizes(7, 7) == (7,)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: geometric_sizes(10, 5), "largest must be an integer at least 10; got largest=5"),
        (lambda: sample_gradients(W, 0.0, (9,), 5, 1, np.random.default_rng(0)), "element of the subset"),
        (lambda: recovered(np.ones(3), (0, 1, 2)), "coordinates on both sides"),
        (
            lambda: sample_gradients(W, 0.0, (0,), 0, 1, np.random.default_rng(0)),
            "samples must be an integer at least 1",
        ),
    ],
)
def test_bad_input(call, message):
    with pytest.raises(KroghError, match=message):
        call()
