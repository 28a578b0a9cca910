"""The activations of single neurons, at their knots and between."""

from __future__ import annotations

import itertools
import math

import jax.numpy as jnp
import numpy as np
import pytest

from krogh.models import DisjointPolyNet, Neuron, PolyNet, activations
from krogh.tasks import Parity

DEGREES = range(1, 9)
WAVES = activations.NEURON_ACTIVATIONS
GRID = np.linspace(-12, 12, 4801, dtype=np.float32)


def wave(name: str, k: int, z, **options) -> np.ndarray:
    return np.asarray(Neuron(name, k, **options).activate(jnp.asarray(z, jnp.float32)), np.float64)


def knots(k: int) -> tuple[np.ndarray, np.ndarray]:
    j = np.arange(k + 1)
    return (k - 2 * j).astype(float), (-1.0) ** j


def slack(name: str) -> float:
    return 2e-4 if name == "polynomial" else 2e-5  # float32 cancels in high powers


@pytest.mark.parametrize("k", DEGREES)
@pytest.mark.parametrize("name", WAVES)
def test_every_activation_passes_through_the_knots(name, k):
    places, values = knots(k)
    assert np.abs(wave(name, k, places) - values).max() < slack(name)


@pytest.mark.parametrize("k", DEGREES)
@pytest.mark.parametrize("name", WAVES)
def test_the_solution_weights_compute_the_parity(name, k):
    """w_S = Σ_{i in S} e_i, b = 0 give chi_S on every input."""
    support = np.arange(k) if k == 8 else np.arange(k) + 1
    model, task = Neuron(name, k, output_weight=False), Parity(n=8, support=support)
    x = np.array(list(itertools.product((1.0, -1.0), repeat=8)), np.float32)
    w = np.zeros(8, np.float32)
    w[task.support] = 1.0
    out = np.asarray(model.predict({"w": jnp.asarray(w), "b": jnp.zeros(())}, jnp.asarray(x)))
    assert np.abs(out - x[:, support].prod(axis=1)).max() < slack(name)


@pytest.mark.parametrize("k", DEGREES)
def test_zigzag_interpolates_between_the_knots(k):
    places, values = knots(k)
    inside = GRID[np.abs(GRID) <= k]
    expected = np.interp(inside, places[::-1], values[::-1])
    for outer in ("extend", "clamp"):
        assert np.abs(wave("zigzag", k, inside, outer=outer) - expected).max() < 2e-5
    assert np.abs(wave("infinite-zigzag", k, inside) - expected).max() < 2e-5


@pytest.mark.parametrize("k", DEGREES)
def test_zigzag_goes_on_with_its_end_segments(k):
    right, left = GRID[GRID > k].astype(float), GRID[GRID < -k].astype(float)
    assert np.abs(wave("zigzag", k, right) - (1 + (right - k))).max() < 1e-5
    slope = -((-1.0) ** k)
    assert np.abs(wave("zigzag", k, left) - ((-1.0) ** k + slope * (left + k))).max() < 1e-5


@pytest.mark.parametrize("k", DEGREES)
def test_zigzag_can_be_clamped(k):
    assert np.abs(wave("zigzag", k, GRID[GRID > k], outer="clamp") - 1.0).max() < 1e-6
    assert np.abs(wave("zigzag", k, GRID[GRID < -k], outer="clamp") - (-1.0) ** k).max() < 1e-6


@pytest.mark.parametrize("k", DEGREES)
@pytest.mark.parametrize("name", ["zigzag", "infinite-zigzag", "sine"])
def test_waves_are_continuous(name, k):
    steepest = math.pi / 2 if name == "sine" else 1.0
    jumps = np.abs(np.diff(wave(name, k, GRID)))
    assert jumps.max() < steepest * float(np.diff(GRID).max()) + 2e-5


@pytest.mark.parametrize("k", DEGREES)
@pytest.mark.parametrize("name", ["infinite-zigzag", "sine"])
def test_waves_have_period_four_and_not_two(name, k):
    z = GRID[np.abs(GRID) < 4]
    assert np.abs(wave(name, k, z) - wave(name, k, z + 4)).max() < 2e-5
    assert np.abs(wave(name, k, z) + wave(name, k, z + 2)).max() < 2e-5


@pytest.mark.parametrize("k", DEGREES)
@pytest.mark.parametrize("name", WAVES)
def test_activations_have_the_parity_of_their_degree(name, k):
    z = GRID[np.abs(GRID) <= k].astype(float)
    tolerance = 1e-3 if name == "polynomial" else 2e-5
    assert np.abs(wave(name, k, -z) - (-1.0) ** k * wave(name, k, z)).max() < tolerance


def test_the_oscillating_polynomials_in_closed_form():
    assert np.allclose(wave("polynomial", 1, GRID), GRID, atol=1e-5)
    z = GRID.astype(float)
    assert np.allclose(wave("polynomial", 2, GRID), (z**2 - 2) / 2, rtol=1e-5, atol=1e-5)
    assert np.allclose(wave("polynomial", 3, GRID), (z**3 - 7 * z) / 6, rtol=1e-5, atol=1e-4)
    assert activations.oscillating_coefficients(2) == pytest.approx((-1.0, 0.0, 0.5), abs=1e-12)
    assert activations.oscillating_coefficients(3) == pytest.approx((0.0, -7 / 6, 0.0, 1 / 6), abs=1e-12)


@pytest.mark.parametrize("k", DEGREES)
def test_the_oscillating_polynomial_is_the_interpolant(k):
    places, values = knots(k)
    expected = np.polynomial.Polynomial(np.linalg.solve(np.vander(places, increasing=True), values))
    found = np.polynomial.Polynomial(activations.oscillating_coefficients(k))
    assert len(activations.oscillating_coefficients(k)) == k + 1
    assert np.allclose(found(np.linspace(-k, k, 101)), expected(np.linspace(-k, k, 101)), atol=1e-9)


@pytest.mark.parametrize("k", DEGREES)
def test_the_doubled_sine_has_the_solution_at_half_the_weights(k):
    places, values = knots(k)
    assert np.abs(wave("sine", k, places / 2, scale=2.0) - values).max() < 2e-5


def test_the_output_weight_multiplies_or_is_absent():
    x = jnp.asarray(np.array(list(itertools.product((1.0, -1.0), repeat=4)), np.float32))
    params = {"w": jnp.array([0.3, -0.2, 0.9, 0.1]), "b": jnp.float32(0.05)}
    for name in WAVES:
        plain = np.asarray(Neuron(name, 3, output_weight=False).predict(params, x))
        scaled = Neuron(name, 3).predict({**params, "u": jnp.float32(-2.5)}, x)
        assert np.allclose(scaled, -2.5 * plain, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("k", [1, 2, 4])
def test_products_hold_the_parity(k):
    x = np.array(list(itertools.product((1.0, -1.0), repeat=8)), np.float32)
    w = np.zeros((k, 8), np.float32)
    w[np.arange(k), np.arange(k) * 2] = 1.0
    out = PolyNet(k).predict({"w": jnp.asarray(w), "b": jnp.zeros(k)}, jnp.asarray(x))
    assert np.array_equal(out, x[:, np.arange(k) * 2].prod(axis=1))
    blocks = np.zeros((k, 8 // k), np.float32)
    blocks[:, 0] = 1.0
    out = DisjointPolyNet(k).predict({"w": jnp.asarray(blocks)}, jnp.asarray(x))
    assert np.array_equal(out, x[:, np.arange(k) * (8 // k)].prod(axis=1))
