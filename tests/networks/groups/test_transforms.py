"""Shares, phases and 3-D transforms, on networks whose structure is known."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from group_oracles import cyclic_neuron, cyclic_transform, group_neuron, group_transform, norm_shares

from krogh.errors import KroghError
from krogh.networks.groups.arrays import PairArrays, phase_residuals
from krogh.networks.groups.written import cyclic_network, group_network
from krogh.programs.groups import load_group
from krogh.theory.groups.irreps import real_irreps
from krogh.theory.groups.maximum import max_margin_cyclic, max_margin_group


@pytest.mark.parametrize("name", ["S_3", "S_4", "Q_8", "A_4", "A_5", "Z_8"])
def test_shares_of_maximum_margin_networks(name):
    found = norm_shares(group_network(name), name)
    trivial, *rest = found.values()
    assert trivial == 0 and rest == pytest.approx(list(max_margin_group(name).irrep_shares.values()), abs=1e-12)


def test_shares_of_frequencies_and_limits():
    p = 11
    assert norm_shares(cyclic_network(p), p) == pytest.approx(
        {"frequency 0": 0.0} | {f"frequency {z}": 2 / (p - 1) for z in range(1, 6)}
    )
    shares = {name: share for name, share in max_margin_group("S_5").irrep_shares.items()}
    wanted = {"4a": 0.121, "5a": 0.211, "6": 0.333, "5b": 0.211, "4b": 0.121, "sign": 0.004}
    assert shares == pytest.approx(wanted, abs=5e-4)
    assert list(max_margin_group("S_4").irrep_shares.values()) == pytest.approx([0.026, 0.150, 0.412, 0.412], abs=5e-4)


def test_phase_residuals():
    p = 7
    np.testing.assert_allclose(phase_residuals(cyclic_network(p), p), 0, atol=1e-12)
    neuron = cyclic_neuron(p, 2, 0.3, 1.1)
    np.testing.assert_allclose(phase_residuals(neuron, p), 0, atol=1e-12)
    turned = PairArrays(neuron.U, neuron.V, np.cos(1.9 + 2 * np.pi * 2 * np.arange(p) / p)[None])
    np.testing.assert_allclose(phase_residuals(turned, p), 0.3 + 1.1 - 1.9, atol=1e-12)
    silent = PairArrays(neuron.U, np.zeros((1, p)), neuron.W)
    assert np.isnan(phase_residuals(silent, p)).all()
    with pytest.raises(KroghError, match="phases belong to Z_p with p=7 columns; got p=9"):
        phase_residuals(neuron, 9)


def test_the_transform_of_any_network():
    p = 4
    network = PairArrays(*np.random.default_rng(0).normal(size=(3, 5, p)))
    found = cyclic_transform(network)
    for j, k, m in itertools.product(range(p), repeat=3):
        wanted = sum(
            ((network.U[:, a] + network.V[:, b]) ** 2 @ network.W[:, c])
            * np.exp(-2j * np.pi * (j * a + k * b + m * c) / p)
            for a, b, c in itertools.product(range(p), repeat=3)
        )
        assert found[j, k, m] == pytest.approx(wanted, abs=1e-10)


def test_a_neuron_of_one_frequency_has_little_support():
    p, z = 7, 2
    found = cyclic_transform(cyclic_neuron(p, z, 0.4, -1.3))
    for j, k, m in itertools.product(range(p), repeat=3):
        allowed = j == 0 or k == 0 or ({j, k, m} <= {z, p - z})
        assert allowed or abs(found[j, k, m]) < 1e-10


@pytest.mark.parametrize("p", [5, 9])
def test_the_transform_of_addition(p):
    found = cyclic_transform(cyclic_network(p))
    gamma = max_margin_cyclic(p).value
    for j, k, m in itertools.product(range(p), repeat=3):
        if j and k:
            matched = j == k and (j + m) % p == 0
            assert found[j, k, m] == pytest.approx(gamma * p**2 if matched else 0, abs=1e-12)


@pytest.mark.parametrize("name", ["S_3", "S_4"])
def test_the_transform_of_composition(name):
    """γ|G|²/d² on the index triples ((p,s), (s,q), (p,q)) of an irrep, and nothing else among non-trivial ones."""
    group = load_group(name)
    found = group_transform(group_network(name), name)
    gamma = max_margin_group(name).value
    places = [
        (number, i, j)
        for number, irrep in enumerate(real_irreps(group))
        for i, j in itertools.product(range(irrep.dimension), repeat=2)
    ]
    dimension = [irrep.dimension for irrep in real_irreps(group)]
    wanted = np.zeros_like(found)
    for (x, (r, p, s)), (y, (r2, s2, q)), (z, (r3, p2, q2)) in itertools.product(enumerate(places), repeat=3):
        if r and r == r2 == r3 and s == s2 and p == p2 and q == q2:
            wanted[x, y, z] = gamma * group.order**2 / dimension[r] ** 2
    np.testing.assert_allclose(found[1:, 1:, 1:], wanted[1:, 1:, 1:], atol=1e-12)


def test_a_neuron_of_one_irrep_has_little_support():
    group = load_group("S_4")
    irreps = real_irreps(group)
    random = np.random.default_rng(0)
    x, y, z = (vector / np.linalg.norm(vector) for vector in random.normal(size=(3, 3)))
    found = group_transform(group_neuron(irreps[3], x, y, z), group)
    start = sum(irrep.dimension**2 for irrep in irreps[:3])
    own = slice(start, start + 9)
    assert np.abs(found[own, own, own]).max() > 1e-3
    found[0], found[:, 0] = 0, 0
    found[own, own, own] = 0
    assert np.abs(found).max() < 1e-12
