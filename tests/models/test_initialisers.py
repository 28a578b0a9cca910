"""How parameters are drawn: bounds, moments, shapes."""

from __future__ import annotations

import math

import jax
import numpy as np
import pytest

from krogh.errors import KroghError
from krogh.models import Mlp
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
