"""Initialisers against their laws, activations of single neurons against their knots."""

from __future__ import annotations

import functools
import itertools
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from krogh.errors import KroghError
from krogh.models import DisjointPolyNet, Mlp, Neuron, PolyNet
from krogh.models import parts as activations
from krogh.models.parts import INITIALISERS, initialise
from krogh.tasks import Parity

KEY = jax.random.key(11)
SHAPE, FAN_IN, FAN_OUT = (400, 50), 50, 400
COUNT = math.prod(SHAPE)

VARIANCE = {
    "uniform": 1 / FAN_IN / 3,
    "glorot": 2 / (FAN_IN + FAN_OUT),
    "gaussian": 2 / FAN_IN,
    "bernoulli": 1 / FAN_IN,
    "normal": 1.0,
    "signs": 1.0,
    "ones": 0.0,
}
MEAN = {name: float(name == "ones") for name in INITIALISERS}
KURTOSIS = {"uniform": 9 / 5, "glorot": 9 / 5, "gaussian": 3, "normal": 3, "bernoulli": 1, "signs": 1}


def drawn(name: str, key=KEY) -> np.ndarray:
    return np.asarray(initialise(name, key, SHAPE, FAN_IN, FAN_OUT))


def test_the_table_is_complete():
    assert set(VARIANCE) == set(INITIALISERS)


@pytest.mark.parametrize("name", INITIALISERS)
def test_shape_and_type(name):
    assert drawn(name).shape == SHAPE and drawn(name).dtype == np.float32
    assert initialise(name, KEY, (), FAN_IN, 1).shape == ()


@pytest.mark.parametrize("name", INITIALISERS)
def test_mean_and_variance(name):
    sample = drawn(name).astype(np.float64)
    assert abs(sample.mean() - MEAN[name]) <= 4.5 * math.sqrt(VARIANCE[name] / COUNT)
    spread = VARIANCE[name] * math.sqrt(max(KURTOSIS.get(name, 1) - 1, 0) / COUNT)
    assert abs(sample.var() - VARIANCE[name]) <= 4.5 * spread + 1e-3 * VARIANCE[name]


@pytest.mark.parametrize("name", sorted(KURTOSIS))
def test_the_fourth_moment_tells_the_families_apart(name):
    sample = drawn(name).astype(np.float64)
    assert (sample**4).mean() / (sample**2).mean() ** 2 == pytest.approx(KURTOSIS[name], rel=0.05)


@pytest.mark.parametrize(
    ("name", "bound"), [("uniform", 1 / math.sqrt(FAN_IN)), ("glorot", math.sqrt(6 / (FAN_IN + FAN_OUT)))]
)
def test_uniform_draws_fill_their_interval(name, bound):
    sample = drawn(name)
    assert np.abs(sample).max() <= bound * (1 + 1e-6)
    assert sample.max() > 0.999 * bound and sample.min() < -0.999 * bound


@pytest.mark.parametrize(("name", "size"), [("bernoulli", 1 / math.sqrt(FAN_IN)), ("signs", 1.0)])
def test_coin_flips_have_two_values(name, size):
    values, counts = np.unique(drawn(name), return_counts=True)
    assert values == pytest.approx([-size, size], rel=1e-6)
    assert abs(counts[0] - COUNT / 2) < 4.5 * math.sqrt(COUNT / 4)


@pytest.mark.parametrize("name", INITIALISERS)
def test_draws_depend_on_the_key_alone(name):
    assert np.array_equal(drawn(name), drawn(name))
    other = drawn(name, jax.random.key(12))
    assert np.array_equal(drawn(name), other) == (name == "ones")


def test_layers_use_their_own_fan_in():
    """Biases are drawn like the weights beside them; the output layer by the width."""
    n, width = 400, 1600
    params = jax.jit(lambda: Mlp(width, output_bias=True).init(KEY, Parity(n=n, k=2)))()
    for name, fan_in in (("W", n), ("b", n), ("u", width)):
        largest = float(np.abs(np.asarray(params[name])).max())
        assert 0.98 / math.sqrt(fan_in) < largest <= (1 + 1e-6) / math.sqrt(fan_in), name
    assert abs(float(params["c"])) <= 1 / math.sqrt(width)


def test_an_unknown_initialiser_is_refused_with_the_nearest():
    with pytest.raises(KroghError, match="'gausian'; did you mean 'gaussian'"):
        initialise("gausian", KEY, SHAPE, FAN_IN)


DEGREES = range(1, 9)
WAVES = activations.NEURON_ACTIVATIONS
STEP = 1 / 128  # an exact float, so that shifts by whole numbers stay on the grid
GRID = np.arange(-12 * 128, 12 * 128 + 1) * STEP
CUBE = np.array(list(itertools.product((1.0, -1.0), repeat=8)), np.float32)


@functools.cache
def wave(name: str, k: int, **options) -> np.ndarray:
    """An activation on the grid."""
    activate = jax.jit(Neuron(name, k, **options).activate)
    return np.asarray(activate(GRID.astype(np.float32)), np.float64)


def at(places) -> np.ndarray:
    """Positions of numbers on the grid."""
    return np.rint((np.asarray(places) + 12) / STEP).astype(int)


def knots(k: int) -> tuple[np.ndarray, np.ndarray]:
    j = np.arange(k + 1)
    return (k - 2 * j).astype(float), (-1.0) ** j


def slack(name: str) -> float:
    return 2e-4 if name == "polynomial" else 2e-5  # float32 cancels in high powers


@pytest.mark.parametrize("k", DEGREES)
@pytest.mark.parametrize("name", WAVES)
def test_every_activation_passes_through_the_knots(name, k):
    places, values = knots(k)
    assert np.abs(wave(name, k)[at(places)] - values).max() < slack(name)


@pytest.mark.parametrize("k", [1, 2, 3, 8])
@pytest.mark.parametrize("name", WAVES)
def test_the_solution_weights_compute_the_parity(name, k):
    """w_S = Σ_{i in S} e_i, b = 0 give chi_S on every input."""
    support = np.arange(8)[-k:]
    w = np.zeros(8, np.float32)
    w[support] = 1.0
    model = Neuron(name, k, output_weight=False)
    out = np.asarray(jax.jit(model.predict)({"w": w, "b": np.float32(0)}, CUBE))
    assert np.abs(out - CUBE[:, support].prod(axis=1)).max() < slack(name)


@pytest.mark.parametrize("k", DEGREES)
def test_zigzag_interpolates_between_the_knots(k):
    places, values = knots(k)
    inside = np.abs(GRID) <= k
    expected = np.interp(GRID[inside], places[::-1], values[::-1])
    for found in (wave("zigzag", k), wave("zigzag", k, outer="clamp"), wave("infinite-zigzag", k)):
        assert np.abs(found[inside] - expected).max() < 2e-5


@pytest.mark.parametrize("k", DEGREES)
def test_zigzag_goes_on_with_its_end_segments(k):
    right, left = k < GRID, -k > GRID
    assert np.abs(wave("zigzag", k)[right] - (1 + (GRID[right] - k))).max() < 1e-5
    beyond = (-1.0) ** k * (1 - (GRID[left] + k))
    assert np.abs(wave("zigzag", k)[left] - beyond).max() < 1e-5


@pytest.mark.parametrize("k", DEGREES)
def test_zigzag_can_be_clamped(k):
    clamped = wave("zigzag", k, outer="clamp")
    assert np.abs(clamped[k < GRID] - 1.0).max() < 1e-6
    assert np.abs(clamped[-k > GRID] - (-1.0) ** k).max() < 1e-6


@pytest.mark.parametrize("k", DEGREES)
@pytest.mark.parametrize("name", ["zigzag", "infinite-zigzag", "sine"])
def test_waves_are_continuous(name, k):
    steepest = math.pi / 2 if name == "sine" else 1.0
    assert np.abs(np.diff(wave(name, k))).max() < steepest * STEP + 2e-5


@pytest.mark.parametrize("k", DEGREES)
@pytest.mark.parametrize("name", ["infinite-zigzag", "sine"])
def test_waves_have_period_four_and_not_two(name, k):
    found, two = wave(name, k), int(2 / STEP)
    assert np.abs(found[2 * two :] - found[: -2 * two]).max() < 2e-5
    assert np.abs(found[two:] + found[:-two]).max() < 2e-5


@pytest.mark.parametrize("k", DEGREES)
@pytest.mark.parametrize("name", WAVES)
def test_activations_have_the_parity_of_their_degree(name, k):
    found = wave(name, k)[np.abs(GRID) <= k]
    tolerance = 1e-3 if name == "polynomial" else 2e-5
    assert np.abs(found[::-1] - (-1.0) ** k * found).max() < tolerance


def test_the_oscillating_polynomials_in_closed_form():
    assert np.allclose(wave("polynomial", 1), GRID, atol=1e-5)
    assert np.allclose(wave("polynomial", 2), (GRID**2 - 2) / 2, rtol=1e-5, atol=1e-5)
    assert np.allclose(wave("polynomial", 3), (GRID**3 - 7 * GRID) / 6, rtol=1e-5, atol=1e-4)
    assert activations.oscillating_coefficients(2) == pytest.approx((-1.0, 0.0, 0.5), abs=1e-12)
    assert activations.oscillating_coefficients(3) == pytest.approx((0.0, -7 / 6, 0.0, 1 / 6), abs=1e-12)


@pytest.mark.parametrize("k", DEGREES)
def test_the_oscillating_polynomial_is_the_interpolant(k):
    places, values = knots(k)
    expected = np.polynomial.Polynomial(np.linalg.solve(np.vander(places, increasing=True), values))
    found = np.polynomial.Polynomial(activations.oscillating_coefficients(k))
    between = np.linspace(-k, k, 101)
    assert len(activations.oscillating_coefficients(k)) == k + 1
    assert np.allclose(found(between), expected(between), atol=1e-9)


@pytest.mark.parametrize("k", DEGREES)
def test_the_doubled_sine_has_the_solution_at_half_the_weights(k):
    places, values = knots(k)
    assert np.abs(wave("sine", k, scale=2.0)[at(places / 2)] - values).max() < 2e-5


def test_the_output_weight_multiplies_or_is_absent():
    params = {"w": np.linspace(-0.3, 0.9, 8, dtype=np.float32), "b": np.float32(0.05)}
    for name in WAVES:
        plain = np.asarray(jax.jit(Neuron(name, 3, output_weight=False).predict)(params, CUBE))
        scaled = jax.jit(Neuron(name, 3).predict)({**params, "u": np.float32(-2.5)}, CUBE)
        assert np.allclose(scaled, -2.5 * plain, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("k", [1, 2, 4])
def test_products_hold_the_parity(k):
    w = np.zeros((k, 8), np.float32)
    w[np.arange(k), np.arange(k) * 2] = 1.0
    out = PolyNet(k).predict({"w": jnp.asarray(w), "b": jnp.zeros(k)}, jnp.asarray(CUBE))
    assert np.array_equal(out, CUBE[:, np.arange(k) * 2].prod(axis=1))
    blocks = np.zeros((k, 8 // k), np.float32)
    blocks[:, 0] = 1.0
    out = DisjointPolyNet(k).predict({"w": jnp.asarray(blocks)}, jnp.asarray(CUBE))
    assert np.array_equal(out, CUBE[:, np.arange(k) * (8 // k)].prod(axis=1))


def test_sparse_rows_are_uniform_subsets():
    """Every row has s ones; of all pairs of places none is favoured; nothing else changes with it."""
    task, dense, sparse = Parity(6, 2), Mlp(3000, output_bias=True), Mlp(3000, output_bias=True, sparsity=2)
    drawn_dense, drawn_sparse = dense.init(KEY, task), sparse.init(KEY, task)
    rows = np.asarray(drawn_sparse["W"])
    assert set(np.unique(rows)) == {0.0, 1.0} and np.all(rows.sum(1) == 2)
    counts = np.bincount((rows @ 2 ** np.arange(6)).astype(int), minlength=64)
    pairs = [2**i + 2**j for i, j in itertools.combinations(range(6), 2)]
    expected = 3000 / len(pairs)
    assert np.sum((counts[pairs] - expected) ** 2 / expected) < 36.1  # chi-squared with 14 degrees of freedom, 0.1%
    for name in ("b", "u", "c"):
        np.testing.assert_array_equal(drawn_dense[name], drawn_sparse[name])


@pytest.mark.parametrize("s", [-1, 7])
def test_no_row_has_more_ones_than_places(s):
    with pytest.raises(KroghError, match=f"sparsity={s}"):
        Mlp(10, sparsity=s).check(Parity(6, 2))
