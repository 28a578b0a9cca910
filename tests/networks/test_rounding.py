"""Rounding by ReLUs (SM paper, Proposition 3.4)."""

from __future__ import annotations

from fractions import Fraction

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from krogh.errors import KroghError
from krogh.networks.relu import HIGH, LOW, Affine, Module, ReluNetwork, rounded, rounding_layers


def test_the_numbers_that_stand_for_thirds_are_thirds():
    assert 0 < Fraction(LOW) - Fraction(1, 3) < Fraction(1, 2**52)
    assert 0 < Fraction(HIGH) - Fraction(2, 3) < Fraction(1, 2**51)


def test_round_of_one_is_one_in_any_order_of_rounding():
    """3(1 - low) and 3(1 - high) are numbers of float64, and their exact difference rounds to 1."""
    first, second = 3 * (1 - Fraction(LOW)), 3 * (1 - Fraction(HIGH))
    assert Fraction(1.0 - LOW) * 3 == first == Fraction(float(first))
    assert Fraction(1.0 - HIGH) * 3 == second == Fraction(float(second))
    assert float(first - second) == 1.0  # what a fused multiply-add returns, whichever product it fuses
    # The numbers nearest to 1/3 and 2/3 have no such luck.
    assert float(Fraction(3 * (1 - 1 / 3)) - 3 * Fraction(1 - 2 / 3)) == 1 - 2**-53


def test_it_is_0_below_a_third_and_1_above_two_thirds_with_slope_3_between():
    z = np.linspace(-1, 2, 3001)
    expected = np.clip(3 * z - 1, 0, 1)
    assert np.abs(rounded(z) - expected).max() < 1e-14
    assert rounded([0.0, 1.0]).tolist() == [0.0, 1.0]
    assert (rounded(z[z < 1 / 3]) == 0).all()


@pytest.mark.parametrize("n", [1, 3, 8])
def test_the_module_corrects_errors_up_to_a_third(n):
    same = Affine(np.eye(n), np.zeros(n))
    modules = (Module("round", slice(0, 2)), Module("linear", slice(2, 3)))
    network = ReluNetwork((*rounding_layers(n), same), modules)
    random = np.random.default_rng(n)
    binary = random.integers(0, 2, (400, n)).astype(float)
    assert np.array_equal(network.run(binary), binary)
    noise = 1 / 3 * random.uniform(-1, 1, binary.shape)
    edge = 1 / 3 * random.choice([-1.0, 1.0], binary.shape)
    for disturbance in (noise, edge):
        assert np.abs(network.run(binary + disturbance) - binary).max() < 1e-14
    assert np.abs(network.run(binary + 1.05 * edge) - binary).max() > 0.049  # and no further


@pytest.mark.parametrize("n", [1, 2, 5])
def test_the_matrices_are_the_papers(n):
    (first, second) = rounding_layers(n)
    assert np.array_equal(first.weight.toarray(), np.vstack([np.eye(n), np.eye(n)]))
    assert np.allclose(first.bias, [-1 / 3] * n + [-2 / 3] * n, rtol=0, atol=1e-15)
    assert np.array_equal(second.weight.toarray(), np.hstack([3 * np.eye(n), -3 * np.eye(n)]))
    assert not second.bias.any()
    norm = sum(np.abs(layer.weight.data).sum() + np.abs(layer.bias).sum() for layer in (first, second))
    assert norm == pytest.approx(9.0 * n, rel=1e-14)


def test_it_is_exact_as_a_compiled_program_too():
    """XLA fuses products and sums as it likes."""
    with jax.enable_x64(True):
        first, second = ((jnp.asarray(part.weight.toarray()), jnp.asarray(part.bias)) for part in rounding_layers(4))

        @jax.jit
        def run(h):
            return jax.nn.relu(second[0] @ jax.nn.relu(first[0] @ h + first[1]) + second[1])

        bits = jnp.asarray([0.0, 1.0, 1.0, 0.0])
        assert run(bits).tolist() == bits.tolist()


def test_no_coordinates_cannot_be_rounded():
    with pytest.raises(KroghError, match="n must be an integer at least 1"):
        rounding_layers(0)
