"""Losses against their formulas in float64, and their slopes against closed forms."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from krogh.errors import KroghError
from krogh.training import Training
from krogh.training.losses import LOSSES, find_loss

MARGINS = np.linspace(-6, 6, 97)
FORMULAS = {  # value and derivative in f, for a label y
    "hinge": (lambda f, y: np.maximum(1 - y * f, 0), lambda f, y: np.where(y * f < 1, -y, 0.0)),
    "square": (lambda f, y: (y - f) ** 2, lambda f, y: 2 * (f - y)),
    "logistic": (lambda f, y: np.log1p(np.exp(-y * f)), lambda f, y: -y / (1 + np.exp(y * f))),
    "cross-entropy": (lambda f, y: np.log1p(np.exp(-y * f)), lambda f, y: -y / (1 + np.exp(y * f))),
    "correlation": (lambda f, y: -y * f, lambda f, y: -y + 0 * f),
}


def both_labels() -> tuple[np.ndarray, np.ndarray]:
    return np.tile(MARGINS, 2), np.repeat([1.0, -1.0], len(MARGINS))


def evaluated(name: str) -> tuple[np.ndarray, np.ndarray]:
    f, y = (jnp.asarray(part, jnp.float32) for part in both_labels())

    @jax.jit
    def value_and_slope(f):
        values, pull = jax.vjp(lambda f: LOSSES[name](f, y), f)
        return values, pull(jnp.ones_like(values))[0]

    values, slopes = value_and_slope(f)
    assert values.dtype == jnp.float32 and values.shape == f.shape
    return np.asarray(values), np.asarray(slopes)


def test_every_loss_has_its_formula_here():
    assert set(FORMULAS) == set(LOSSES)


@pytest.mark.parametrize("name", sorted(LOSSES))
def test_values_and_slopes(name):
    f, y = both_labels()
    values, slopes = evaluated(name)
    value, slope = FORMULAS[name]
    assert np.abs(values - value(f, y)).max() < 1e-5
    smooth = np.abs(y * f - 1) > 1e-9 if name == "hinge" else np.full(f.shape, True)
    assert np.abs(slopes - slope(f, y))[smooth].max() < 1e-5


@pytest.mark.parametrize("name", sorted(LOSSES))
def test_losses_are_convex_and_treat_labels_alike(name):
    values, _ = evaluated(name)
    positive, negative = values[: len(MARGINS)], values[len(MARGINS) :]
    assert np.diff(positive, 2).min() > -1e-5
    assert np.allclose(positive, negative[::-1], atol=1e-6)


@pytest.mark.parametrize(("name", "scale"), [("hinge", 1.0), ("square", 1.0), ("logistic", np.log(2))])
def test_losses_bound_the_error_from_above(name, scale):
    f, y = both_labels()
    assert np.all(evaluated(name)[0] >= scale * (y * f <= 0) - 1e-6)


def test_the_logistic_loss_survives_huge_predictions():
    f = jnp.array([1e4, -1e4, 1e30, -1e30, 0.0], jnp.float32)
    y = jnp.ones(5, jnp.float32)
    assert LOSSES["logistic"](f, y).tolist() == pytest.approx([0.0, 1e4, 0.0, 1e30, np.log(2)], rel=1e-6)
    slopes = jax.grad(lambda f: jnp.sum(LOSSES["logistic"](f, y)))(f)
    assert slopes.tolist() == pytest.approx([0.0, -1.0, 0.0, -1.0, -0.5])


@pytest.mark.parametrize("name", sorted(LOSSES))
def test_nan_is_not_hidden(name):
    f, y = jnp.array([jnp.nan, 0.5], jnp.float32), jnp.ones(2, jnp.float32)
    assert np.isnan(LOSSES[name](f, y)).tolist() == [True, False]


def test_an_unknown_loss_is_refused_with_the_nearest():
    assert find_loss("hinge") is LOSSES["hinge"]
    with pytest.raises(KroghError, match="'hinges'; did you mean 'hinge'"):
        find_loss("hinges")
    with pytest.raises(KroghError, match="'focal'"):
        Training(loss="focal")


def test_cross_entropy_of_logits_is_minus_the_log_of_the_labels_probability():
    random = np.random.default_rng(0)
    logits, label = random.normal(size=(2, 7, 4)).astype(np.float32) * 5, random.integers(4, size=(2, 7))
    shares = np.exp(logits) / np.exp(logits).sum(-1, keepdims=True)
    expected = -np.log(np.take_along_axis(shares, label[..., None], -1)[..., 0])
    assert np.allclose(LOSSES["cross-entropy"](jnp.asarray(logits), jnp.asarray(label)), expected, atol=1e-5)


def test_two_logits_and_their_difference_have_the_same_cross_entropy():
    logits = np.random.default_rng(1).normal(size=(9, 2)).astype(np.float32)
    label = np.arange(9) % 2
    signs = jnp.asarray(2.0 * label - 1, jnp.float32)
    single = LOSSES["cross-entropy"](jnp.asarray(logits[:, 1] - logits[:, 0]), signs)
    assert np.allclose(LOSSES["cross-entropy"](jnp.asarray(logits), jnp.asarray(label)), single, atol=1e-6)
