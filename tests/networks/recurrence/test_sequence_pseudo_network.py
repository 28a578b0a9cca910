"""The shift A*: the expansion is the derivative, the formula holds by another way, the reference's sizes come out."""

from __future__ import annotations

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from krogh.errors import KroghError
from krogh.models.elman import elman_states
from krogh.networks.recurrence.decoders import base_of, some_sequences, token_decoder
from krogh.networks.recurrence.hermite import HermiteWeight
from krogh.networks.recurrence.pseudo_network import (
    PseudoNetwork,
    SequenceTarget,
    he,
    make_pseudo_network,
    random_target,
    shift_column,
)
from krogh.theory.numerics import double_precision

L, DX = 4, 3


def made(width=300, eps_x=0.3, seed=0, **target) -> PseudoNetwork:
    return make_pseudo_network(random_target(L, DX, seed=seed, **target), width, L, DX, eps_x, seed)


def test_the_target_is_what_it_says():
    target = random_target(L, DX, outputs=2, p=3, phi="z^2", seed=4)
    tokens = np.random.default_rng(0).standard_normal((5, L - 2, DX))
    expected = [[sum((w @ one.ravel()) ** 2 for w in target.w[s]) for s in range(2)] for one in tokens]
    assert np.allclose(target(tokens), expected)
    assert not target.w.reshape(2, 3, L - 2, DX)[..., -1].any(), "tokens' biases are left out"


def test_the_expansion_is_the_derivative_along_the_shift():
    network = made(60, outputs=2)
    x = some_sequences(6, L, DX, 0.3, seed=5)
    with double_precision():
        W, A, B, shift = (jnp.asarray(v) for v in (*(network.parameters[n] for n in "WAB"), network.shift))
        derivative = jax.jvp(lambda a: elman_states(W, a, jnp.asarray(x))[-1] @ B.T, (A,), (shift,))[1]
    assert np.allclose(network.run(x), derivative, atol=1e-12)
    assert np.allclose(network.run(x), network.network.run(x).pseudo(A=network.shift), atol=1e-12)


def test_only_the_last_column_moves():
    network = made(50)
    assert not network.shift[:, :-1].any()
    assert network.movement == pytest.approx(50**0.5 * np.linalg.norm(network.shift))


@pytest.mark.parametrize("phi", ["z", "z^2", "sin(1)"])
def test_the_formula_by_another_way(phi):
    network = made(80, phi=phi, outputs=2, p=2)
    checked = network.check()
    assert checked.holds and checked.details["off_formula"] < 1e-9, checked.words


def test_hermite_polynomials_by_recurrence():
    z = np.linspace(-3, 3, 7)
    assert np.allclose(he(0, z), 1) and np.allclose(he(1, z), z) and np.allclose(he(4, z), z**4 - 6 * z**2 + 3)


def test_the_mean_over_units_is_the_target_of_what_is_read():
    """Fresh rows for the last step alone: E over them of f's first part is F(⟨h, Vw⟩/ε_x), by 2·10^5 units."""
    network, eps_x = made(40, eps_x=0.5, seed=3), 0.5
    run, base = network.network.run(some_sequences(3, L, DX, eps_x, 1)), network.network.run(base_of(L, DX, eps_x))
    target, h = network.target, run.h[-2]
    v = token_decoder(base) @ target.w[0, 0]
    rng, units = np.random.default_rng(0), 200_000
    rows, bias = rng.standard_normal((units, 40)), rng.standard_normal(units)
    for own in h:  # the radius that makes the statement exact is that of this very state
        H = HermiteWeight(target.coefficients, np.linalg.norm(own), 1.0, np.linalg.norm(v) / eps_x)
        terms = (rows @ own + bias >= 0) * H(rows @ v / np.linalg.norm(v), bias)
        assert abs(terms.mean() - own @ v / eps_x) < 4 * terms.std() / units**0.5


def test_the_sizes_are_those_of_the_reference():
    """√m‖A*‖_F is the deviation of H, √(i!/Z_i) (r‖Vw‖/ε_x)^i for Φ = z^i: 33.4 and 11.7 at ε_x = .1 and .3 for z, 790
    and 105 for z², computed beforehand where ‖Vw‖ is about 1."""
    for phi, i, expected in (("z", 1, (33.4, 11.7)), ("z^2", 2, (790, 105))):
        for eps_x, size in zip((0.1, 0.3), expected, strict=True):
            radius = (1 + (L - 2) * eps_x**2) ** 0.5
            unit = HermiteWeight(random_target(L, DX, phi=phi).coefficients, radius, 1.0, 1 / eps_x)
            deviation = unit.factors()[i] * (math.factorial(i) * unit.normaliser(i)) ** 0.5
            assert deviation == pytest.approx(size, rel=0.1)
            ratios = []
            for seed in range(3):
                network = made(1000, eps_x, seed, phi=phi)
                v = token_decoder(network.network.run(base_of(L, DX, eps_x))) @ network.target.w[0, 0]
                ratios.append(network.movement / (deviation * np.linalg.norm(v) ** i))
            assert np.mean(ratios) == pytest.approx(1, abs=0.15)


@pytest.mark.slow
def test_the_target_is_found_at_width_two_thousand():
    network = made(2000, 0.3, seed=1)
    details = network.check().details
    assert details["correlation"] > 0.9 and details["rms"] < details["allowed"]


def test_the_shift_is_linear_in_the_target():
    network = made(50)
    base = network.network.run(base_of(L, DX, 0.3))
    double = SequenceTarget(network.target.w, 2 * network.target.b, "z")
    assert np.allclose(shift_column(base, double, 0.3), 2 * network.parameters["a"])


def test_bad_targets_are_said():
    with pytest.raises(KroghError, match="every w has norm 1; got one of norm 2"):
        SequenceTarget(np.full((1, 1, 4), 1.0), np.ones((1, 1)))
    with pytest.raises(KroghError, match="have 6 numbers; got 9"):
        make_pseudo_network(random_target(5, 3), 10, 4, 3)
