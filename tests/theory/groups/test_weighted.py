"""V(τ): exact for every τ per offset, against optimised neurons and against Lemma D.13's formula."""

from __future__ import annotations

import math

import numpy as np
import pytest
from support import best_optimised_neuron

from krogh.errors import KroghError
from krogh.networks.groups.arrays import PairArrays
from krogh.networks.groups.measures import neuron_margins
from krogh.programs.groups import load_group
from krogh.theory.groups.irreps import coefficient_matrices, real_irreps
from krogh.theory.groups.maximum import max_margin_group
from krogh.theory.groups.problems import characters_of
from krogh.theory.groups.weighted import class_offsets, default_offsets, offset_maximum, weighted_maximum


def distribution(n: int, seed: int) -> np.ndarray:
    """A random distribution on the offsets 1..n-1 that is no class function."""
    return np.append(0.0, np.random.default_rng(seed).dirichlet(np.full(n - 1, 0.5)))


@pytest.mark.parametrize("name", ["S_3", "S_4", "S_5", "D_5"])
def test_uniform_weights_prove_too_little(name):
    """V = 2/(3√(3|G|)(|G|-1)), by one-dimensional irreps only."""
    order = characters_of(name).order
    found = weighted_maximum(name)
    assert found.value == pytest.approx(2 / (3 * math.sqrt(3 * order) * (order - 1)), rel=1e-12)
    assert all(characters_of(name).dimensions[characters_of(name).irrep_names.index(best)] == 1 for best in found.best)
    assert found.value > 1.1 * max_margin_group(name).value


def test_the_numbers_of_the_reference():
    assert weighted_maximum("S_3").value == pytest.approx(0.03143, abs=5e-6)
    assert weighted_maximum("S_5").value == pytest.approx(2.953e-4, abs=5e-8)
    assert weighted_maximum("S_3").best == ("sign",)


@pytest.mark.parametrize("name", ["S_3", "S_4", "A_5", "D_4xD_4", "Q_8", "A_4", "Z_9", "Z_8", "S_7"])
def test_the_proving_weights_prove_the_maximum_margin(name):
    best = max_margin_group(name)
    found = weighted_maximum(name, best.class_weights)
    assert found.value == pytest.approx(best.value, rel=1e-12)
    used = {irrep for irrep, share in best.irrep_shares.items() if share > 0}
    assert used <= set(found.best), "shares are complementary to what the weights leave optimal"


@pytest.mark.parametrize("name", ["S_3", "Z_5", "Z_6", "Q_8", "D_4"])
@pytest.mark.parametrize("seed", [0, 1])
def test_any_weights_per_offset(name, seed):
    """Also for weights that tell a class's elements, or an element and its inverse, apart."""
    group = load_group(name)
    tau = distribution(group.order, seed)
    assert offset_maximum(group, tau).value == pytest.approx(best_optimised_neuron(group.table, tau), rel=1e-6)


def test_weights_that_tell_inverse_classes_apart():
    group = load_group("A_4")
    tau = np.zeros(12)
    for members, mass in zip(group.classes, (0.0, 0.2, 0.7, 0.1), strict=True):
        tau[members] = mass / len(members)
    assert len(group.classes[2]) == len(group.classes[3]) == 4, "two classes of each other's inverses"
    assert offset_maximum(group, tau).value == pytest.approx(best_optimised_neuron(group.table, tau), rel=1e-6)
    symmetric = (tau + tau[group.inverse]) / 2
    assert offset_maximum(group, symmetric).value < offset_maximum(group, tau).value


@pytest.mark.parametrize("name", ["S_3", "S_4", "Q_8", "A_4"])
def test_class_weights_and_offsets_agree(name):
    group = load_group(name)
    masses = np.random.default_rng(5).dirichlet(np.ones(len(characters_of(group).class_sizes) - 1))
    short, long = weighted_maximum(group, masses), offset_maximum(group, class_offsets(group, masses))
    assert short.irreps == pytest.approx(long.irreps, rel=1e-10)


def test_the_identity_of_lemma_d_11_has_a_factor_2():
    """E[ψ'] = 2 Σ_R (1 - Σ_C τ_C|C|χ_R(C)/d) tr(α β γᵀ)/d² of random neurons; the source omits the 2."""
    group = load_group("S_4")
    random = np.random.default_rng(2)
    u, v, w = random.normal(size=(3, 5, 24))
    tau = default_offsets(group)
    expected = np.zeros(5)
    for irrep in real_irreps(group)[1:]:
        alpha, beta, gamma = (coefficient_matrices(irrep, part) for part in (u, v, w))
        factor = 1 - tau @ irrep.character / irrep.dimension
        expected += 2 * factor * np.einsum("mij,mjk,mik->m", alpha, beta, gamma) / irrep.dimension**2
    np.testing.assert_allclose(neuron_margins(PairArrays(u, v, w), group, tau), expected, rtol=1e-10)


def test_the_identity_of_theorem_7_7():
    """E[ψ'] = 2/((p-1)p²) Σ_{j≠0} û(j)v̂(j)ŵ(-j) with uniform weights."""
    p = 9
    u, v, w = np.random.default_rng(4).normal(size=(3, 6, p))
    transforms = np.fft.fft(u) * np.fft.fft(v) * np.fft.fft(w).conj()
    expected = 2 / ((p - 1) * p**2) * np.real(transforms[:, 1:].sum(1))
    uniform = np.append(0.0, np.full(p - 1, 1 / (p - 1)))
    np.testing.assert_allclose(neuron_margins(PairArrays(u, v, w), p, uniform), expected, rtol=1e-10)
    np.testing.assert_allclose(neuron_margins(PairArrays(u, v, w), p), expected, rtol=1e-10)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: weighted_maximum("S_3", [1.0]), r"each of the classes \(3\), \(2,1\); got 1 weights"),
        (lambda: weighted_maximum("S_3", [0.7, 0.7]), r"must add to 1; got \[0.7, 0.7\], sum 1.4"),
        (lambda: weighted_maximum("S_3", {"(3)": 1.5, "(2,1)": -0.5}), "must not be negative"),
        (lambda: weighted_maximum("S_3", {"(2)": 1.0}), r"unknown class '\(2\)'; did you mean '\(2,1\)'"),
        (lambda: offset_maximum("S_3", np.full(6, 1 / 6)), "0 at the identity; got the sum 1"),
        (lambda: offset_maximum("S_3", np.ones(5)), r"a weight per offset, 6 of them; got the shape \(5,\)"),
    ],
)
def test_bad_weights(call, message):
    with pytest.raises(KroghError, match=message):
        call()
