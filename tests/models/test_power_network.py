"""Power networks: formula, homogeneity, and what their exponents can represent."""

from __future__ import annotations

import itertools
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from krogh.engine.trial import Trial
from krogh.errors import KroghError
from krogh.models import PowerNetwork
from krogh.tasks import Parity, ParityClasses
from krogh.training import Population, Sgd, Stopping, Training

KEY = jax.random.key(5)
QUICK = {"xla_backend_optimization_level": 0}  # compiling costs more here than running

predict = jax.jit(lambda model, params, x: model.predict(params, x), compiler_options=QUICK)


def naive_logits(exponent: int, p: dict, x: np.ndarray) -> np.ndarray:
    total = np.zeros(2)
    for u, w in zip(p["U"], p["W"], strict=True):
        total += math.prod([float(u @ x)] * exponent) * w
    return total


def some_params(width: int, n: int) -> dict:
    random = np.random.default_rng(2)
    return {"U": random.normal(size=(width, n)), "W": random.normal(size=(width, 2))}


def cube(n: int) -> np.ndarray:
    return np.array(list(itertools.product([1.0, -1.0], repeat=n)))


@pytest.mark.parametrize("exponent", [1, 2, 3, 4, 5])
def test_predictions_follow_the_formula_and_odd_powers_keep_signs(exponent):
    model, params, x = PowerNetwork(5, exponent), some_params(5, 4), cube(4)
    with jax.enable_x64(True):
        found = np.asarray(predict(model, params, x))
        scaled = np.asarray(predict(model, {name: 1.3 * leaf for name, leaf in params.items()}, x))
        flipped = np.asarray(predict(model, params, -x))
    assert found.dtype == np.float64
    np.testing.assert_allclose(found, [naive_logits(exponent, params, row) for row in x], rtol=1e-11)
    np.testing.assert_allclose(scaled, 1.3 ** (exponent + 1) * found, rtol=1e-10)
    np.testing.assert_allclose(flipped, (-1) ** exponent * found, rtol=1e-10)
    assert model.homogeneity == exponent + 1


def test_weights_are_drawn_by_their_fan_in():
    params = jax.tree.map(np.asarray, PowerNetwork(2000, 3).init(KEY, ParityClasses(9, 3)))
    for name, fan_in in (("U", 9), ("W", 2000)):
        bound = 1 / math.sqrt(fan_in)
        assert 0.98 * bound < np.abs(params[name]).max() <= bound * (1 + 1e-6), name
    assert PowerNetwork(3, 2).neurons({"U": jnp.ones((3, 4)), "W": jnp.zeros((3, 2))}).shape == (3, 6)


def best_agreement(exponent: int, k: int, n: int) -> float:
    """How much of the k-parity the monomials of (u·x)^exponent hold: the norm of its projection onto their span."""
    x = cube(n)
    random = np.random.default_rng(0)
    functions = np.stack([(x @ u) ** exponent for u in random.normal(size=(200, n))], axis=1)
    target = x[:, :k].prod(axis=1)
    fitted = functions @ np.linalg.lstsq(functions, target, rcond=None)[0]
    return float(np.mean(fitted * target))


@pytest.mark.parametrize(("exponent", "k"), [(1, 2), (2, 2), (2, 3), (3, 2), (3, 3), (4, 2), (4, 3), (5, 3), (3, 4)])
def test_an_exponent_that_cannot_represent_the_parity_is_an_obstacle(exponent, k):
    """Against least squares: the parity is in the span of the neurons, or orthogonal to all of it."""
    said = PowerNetwork(4, exponent).obstacle(ParityClasses(5, k))
    held = best_agreement(exponent, k, 5)
    assert held == pytest.approx(0.0 if said else 1.0, abs=1e-9)
    if said:
        assert f"exponent={exponent}" in said and f"try exponent={k}" in said


def test_a_trial_that_cannot_succeed_is_refused_unless_less_will_do():
    def trial(accuracy):
        stopping = Stopping(budget=10, validation="exact", accuracy=accuracy)
        training = Training(Sgd(0.1), Population(), stopping, "cross-entropy")
        return Trial(ParityClasses(5, 3), PowerNetwork(4, 2), training)

    with pytest.raises(KroghError, match=r"exponent must be at least k=3.*got exponent=2"):
        trial(1.0)
    trial(0.75)


def test_what_is_refused():
    for build, echo in (
        (lambda: PowerNetwork(0, 2), "width=0"),
        (lambda: PowerNetwork(3, 0), "exponent=0"),
        (lambda: PowerNetwork(3, 2, "glorott"), "did you mean 'glorot'"),
        (lambda: PowerNetwork(3, 2).check(Parity(4, 2)), "'parity-classes'.*got 'parity'"),
    ):
        with pytest.raises(KroghError, match=echo):
            build()
