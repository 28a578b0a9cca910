"""The interpolator and the network that overfits with it: exact, of the stated norm, and blind to the sequence."""

from __future__ import annotations

import math

import jax
import numpy as np
import pytest

from krogh.errors import KroghError
from krogh.models.residual_rnn import LipschitzRnn
from krogh.networks.handmade import construct
from krogh.networks.tokens.interpolator import interpolator, separating_direction, token_interpolator
from krogh.theory.numerics import double_precision


def formula(z, y, t):
    """g(t) as printed, term by term."""
    order = np.argsort(z)
    z, y = z[order], y[order]
    s = [np.nan] + [(y[i] - y[i - 1]) / (z[i] - z[i - 1]) for i in range(1, len(z))]
    value = y[0] * max(t - z[0] + 1, 0)
    if len(z) > 1:
        value += (s[1] - y[0]) * max(t - z[0], 0)
    return value + sum((s[i] - s[i - 1]) * max(t - z[i - 1], 0) for i in range(2, len(z)))


@pytest.mark.parametrize("n", [1, 2, 3, 10, 100])
def test_the_interpolator_is_exact_and_as_printed(n):
    random = np.random.default_rng(n)
    z, y = random.normal(size=n), random.normal(size=n)
    made = interpolator(z, y)
    np.testing.assert_allclose(made(z), y, atol=1e-10)
    grid = np.linspace(-5, 5, 101)
    printed = [formula(z, y, t) for t in grid]
    np.testing.assert_allclose(made(grid), printed, rtol=1e-8, atol=1e-8)
    assert len(made.a) == len(made.w) == len(made.b) == n and np.ptp(made.w) == 0


def test_the_norm_is_what_the_rebalancing_makes_it():
    random = np.random.default_rng(0)
    constants = []
    for _ in range(200):
        n = int(random.integers(24, 200))
        z, y = np.sort(random.normal(size=n)), random.normal(size=n)
        made = interpolator(z, y)
        gap = min(1.0, np.diff(z).min())
        assert made.gap == gap
        scale = np.linalg.norm(y) * math.sqrt(n + z @ z) / gap
        assert made.squared_norm == pytest.approx(made.constant * scale)
        # Undone: input weights 1, biases 1 - z_1, -z_1, ..., -z_(n-1), and κ⁴ = (‖z‖² + n)ε²/‖y‖².
        kappa = 1 / made.w[0]
        assert kappa**4 == pytest.approx((z @ z + n) * gap**2 / (y @ y))
        np.testing.assert_allclose(made.b * kappa, np.r_[1 - z[0], -z[:-1]])
        constants.append(made.constant)
    assert min(constants) > 0.9 and np.quantile(constants, 0.95) < 2.5 and 1.0 < np.median(constants) < 1.5


def test_the_constant_is_at_most_20_and_can_be_17():
    """The reference's 1.0 to 2.5 is what Gaussian samples give; the lemma's constant is larger."""
    random = np.random.default_rng(0)
    for _ in range(500):
        n = int(random.integers(1, 12))
        gaps = random.choice([0.01, 0.1, 1.0, 5.0], n) * random.uniform(0.5, 1.5, n)
        z = 3 * random.normal() + np.cumsum(gaps)
        y = random.normal(size=n) * random.choice([1.0, 100.0])
        assert 0 < interpolator(z, y).constant <= 20
    alternating = interpolator(0.1 * np.arange(200) - 10, (-1.0) ** np.arange(200))
    assert 16.5 < alternating.constant <= 17.5


def test_no_labels_no_weights_and_bad_points_are_refused():
    nothing = interpolator([0.0, 1.0], [0.0, 0.0])
    assert nothing.squared_norm == 0 and math.isnan(nothing.constant)
    with pytest.raises(KroghError, match="the places must differ; got"):
        interpolator([1.0, 2.0, 1.0], [0.0, 1.0, 2.0])
    with pytest.raises(KroghError, match=r"n ≥ 1 points .*; got shapes \(2,\) and \(3,\)"):
        interpolator([1.0, 2.0], [0.0, 1.0, 2.0])


def test_a_random_direction_separates_with_probability_a_third():
    random = np.random.default_rng(0)
    n, d, good = 20, 5, 0
    for _ in range(300):
        v = random.normal(size=d)
        z = random.normal(size=(n, d)) @ (v / np.linalg.norm(v))
        good += np.diff(np.sort(z)).min() >= math.sqrt(math.pi) / (3 * n**2) and z @ z <= 3 * n
    assert good / 300 >= 1 / 3
    tokens = random.normal(size=(n, d))
    found = separating_direction(tokens)
    assert found.separated and np.linalg.norm(found.direction) == pytest.approx(1)
    np.testing.assert_allclose(found.projections, tokens @ found.direction)
    assert np.diff(np.sort(found.projections)).min() >= math.sqrt(math.pi) / (3 * n**2)
    close = separating_direction(np.array([[0.0], [1e-9], [1.0]]))
    assert not close.separated


@pytest.mark.parametrize("depth", [2, 4])
def test_the_network_fits_one_label_per_prompt_and_ignores_the_sequence(depth):
    made = token_interpolator(samples=12, length=5, dimension=3, depth=depth, state=14)
    checked = made.check()
    assert checked.holds and checked.inputs == 12 and made.tolerance < 1e-9
    x, positions, rows = made.oracle.prompts, made.oracle.positions, np.arange(12)
    program = jax.jit(made.model.predict, compiler_options={"xla_backend_optimization_level": 0})
    shuffled = np.random.default_rng(0).normal(size=x.shape)
    shuffled[rows, positions, :3] = x[rows, positions, :3]
    with double_precision():
        out, again = (np.asarray(program(dict(made.parameters), batch)) for batch in (x, shuffled))
    # Labels by hand: the index is read off its code, the token gathered, and projected on u.
    codes, u = np.asarray(made.task.codes, np.float64), np.asarray(made.task.link.u, np.float64)
    size = codes.shape[1]
    asked = np.argmax(x[rows, positions, 3 + size :] @ codes.T, axis=1)
    np.testing.assert_allclose(out[rows, positions], x[rows, asked, :3] @ u, atol=1e-9)
    np.testing.assert_allclose(again[rows, positions], out[rows, positions], atol=1e-9)
    assert isinstance(made.model, LipschitzRnn) and made.model.readout_depth == depth
    assert not made.parameters["U_forward"].any() and not made.parameters["U_backward"].any()
    inside = made.interpolator
    copies = 0 if depth == 2 else np.sum(inside.a**2) + 2 * (depth - 3) + 2
    assert made.squared_norm == pytest.approx(inside.squared_norm + copies)


def test_the_squared_norm_grows_like_the_cube_of_the_sample_and_not_with_the_length():
    def norm(n, length):
        made = [token_interpolator(n, length, 4, code_dimension=12, seed=seed) for seed in range(5)]
        assert all(one.separated and one.squared_norm <= 170 * n**3 for one in made)
        return np.median([one.squared_norm for one in made])

    sizes = [8, 32, 128]
    slope = np.polyfit(np.log(sizes), np.log([norm(n, 4) for n in sizes]), 1)[0]
    assert 2.2 < slope < 3.8
    assert 0.2 < norm(32, 24) / norm(32, 4) < 5


def test_settings_may_be_text_and_bad_ones_get_one_clear_error():
    made = construct("qstr/overfitting-rnn", samples="1", length="2", dimension="1", depth="3")
    assert made.statement.startswith("ŷ = y at one position of each of 1 prompts of 2 tokens")
    with pytest.raises(KroghError, match=r"samples=5, state=4 \(try state=5\)"):
        token_interpolator(5, 3, 2, state=4)
    with pytest.raises(KroghError, match="depth must be an integer at least 2; got depth=1"):
        token_interpolator(5, 3, 2, depth=1)
    with pytest.raises(KroghError, match="samples must be an integer at least 1; got samples=0"):
        token_interpolator(0, 3, 2)
