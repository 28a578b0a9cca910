"""The recursion for infinite width against wide random networks, and the values that were computed beforehand."""

from __future__ import annotations

import jax
import numpy as np
import pytest

from krogh.networks.recurrence.random_network import random_rnn
from krogh.tasks.token_sequences import base_sequence, draw_tokens, normalise_tokens
from krogh.theory.recurrence.gram import gram, norm_fluctuations, residual_scales

L, DX = 6, 3


def sequences(eps_x: float, last: str = "eps") -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    x, y = np.asarray(normalise_tokens(draw_tokens(jax.random.key(0), 2, L - 2, DX), eps_x, last), np.float64)
    return x, y, np.asarray(base_sequence(L, DX, eps_x, last), np.float64)


@pytest.mark.parametrize("last", ["eps", "one"])
@pytest.mark.slow
def test_gram_is_that_of_wide_networks(last):
    """Forty networks of width 1000: means have an error of about √(5L/m)/√40 = 2.7%."""
    x, y, base = sequences(0.5, last)
    pairs = {"own": (0, 0), "other": (0, 1), "base": (0, 2)}
    found: dict[str, list] = {name: [] for name in pairs} | {"flips": []}
    for seed in range(40):
        run = random_rnn(1000, DX + 1, seed=seed, dtype=np.float32).run(np.stack([x, y, base]))
        h = run.h.astype(np.float64)
        for name, (one, other) in pairs.items():
            found[name].append(h[:, one] @ h[:, other].T)
        found["flips"].append((run.active[1:, 0] != run.active[1:, 2]).mean(axis=-1))
    given = (x, y, base)
    for name, (one, other) in pairs.items():
        expected = gram(given[one], given[other]).product
        measured = np.mean(found[name], axis=0)
        np.testing.assert_allclose(measured[1:, 1:], expected[1:, 1:], rtol=0.1)
        np.testing.assert_array_equal(expected[0], 0)
    np.testing.assert_allclose(np.mean(found["flips"], axis=0), gram(x, base).flips, rtol=0.08, atol=1e-12)


def test_squared_norms_add_up_and_products_are_symmetric():
    x, y, _ = sequences(0.3)
    own = gram(x, x)
    np.testing.assert_allclose(np.diagonal(own.product)[1:], np.cumsum((x**2).sum(axis=1)))
    np.testing.assert_allclose(own.flips, 0, atol=1e-7)
    np.testing.assert_allclose(gram(x, y).product, gram(y, x).product.T)


def test_flips_are_those_computed_beforehand():
    x, _, base = sequences(0.1)
    np.testing.assert_allclose(gram(x, base).flips[:5], [0, 0.045, 0.063, 0.076, 0.086], atol=6e-4)


def test_residual_scales_are_those_computed_beforehand_and_the_same_for_all_tokens():
    x, y, base = sequences(0.05)
    found = residual_scales(x, base, 0.05)
    np.testing.assert_allclose(found[1:6], [0, 1.403, 1.969, 2.391, 2.734], atol=6e-4)
    np.testing.assert_allclose(found, residual_scales(y, base, 0.05), atol=1e-7)
    small = residual_scales(*(sequences(1e-3)[k] for k in (0, 2)), 1e-3)
    np.testing.assert_allclose(small[1:], np.sqrt(2 * np.arange(5)), rtol=0.01, atol=1e-4)


def test_sequences_of_other_lengths_and_zeros_are_allowed():
    x, y, _ = sequences(0.3)
    short = gram(x[:2], y)
    assert short.product.shape == (3, L + 1)
    np.testing.assert_allclose(short.product, gram(x, y).product[:3])
    assert np.all(gram(np.zeros((3, 2)), np.ones((3, 2))).product == 0)


@pytest.mark.slow
def test_norm_fluctuations_are_those_of_random_networks_and_more_than_of_fresh_matrices():
    """150 networks of width 1000: a standard deviation has an error of about 6%; higher orders add 8% at the end."""
    x, _, _ = sequences(0.1)
    sizes = np.cumsum((x**2).sum(axis=1))
    norms = []
    for seed in range(150):
        h = random_rnn(1000, DX + 1, seed=seed, dtype=np.float32).run(x[None]).h[1:, 0].astype(np.float64)
        norms.append((h**2).sum(axis=1) / sizes)
    found, fresh = norm_fluctuations(x), np.sqrt(5 * np.arange(1, L + 1))
    np.testing.assert_allclose(np.std(norms, axis=0) * np.sqrt(1000), found, rtol=0.25)
    assert found[0] == pytest.approx(np.sqrt(5)) and found[-1] > 1.4 * fresh[-1]
