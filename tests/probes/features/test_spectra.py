"""Spectra of networks against sums written out, and against what is known of networks of maximum margin."""

from __future__ import annotations

import math

import numpy as np
import pytest
from group_oracles import cyclic_neuron, cyclic_transform, group_neuron, group_transform, norm_shares

from krogh.errors import KroghError
from krogh.networks.groups.arrays import PairArrays, PowerArrays, phase_residuals
from krogh.networks.groups.measures import dataset_margin
from krogh.networks.groups.written import cyclic_network, group_network, memoriser_network
from krogh.probes.features.spectra import (
    dominant_part,
    frequency_powers,
    interpolate,
    kept_neurons,
    largest_power,
    network_spectrum,
    norm_balance,
    norm_weights,
    weighted_mean,
)
from krogh.programs.groups import load_group
from krogh.theory.groups.irreps import COMMUTANT, coefficient_matrices, irrep_powers, moments, real_irreps
from krogh.theory.groups.maximum import max_margin_group
from krogh.theory.groups.problems import ParityProblem, group_of


def random_network(width, n, seed=0):
    draw = np.random.default_rng(seed).standard_normal((3, width, n))
    return PairArrays(*draw)


@pytest.mark.parametrize("p", [2, 3, 6, 7])
def test_the_transform_is_the_sum_and_powers_are_one_sided(p):
    u = np.random.default_rng(p).standard_normal((4, p))
    j, a = np.arange(p)[:, None], np.arange(p)[None, :]
    wanted = u @ np.exp(-2j * np.pi * j * a / p).T
    powers = frequency_powers(u)
    assert np.allclose(powers.sum(axis=1), p * np.sum(u**2, axis=1)), "Plancherel"
    assert powers.shape == (4, p // 2 + 1)
    for part in range(p // 2 + 1):
        both = {part, -part % p}  # one frequency for 0 and p/2, two for the others
        assert np.allclose(powers[:, part], sum(np.abs(wanted[:, k]) ** 2 for k in both))


@pytest.mark.parametrize(("p", "z"), [(11, 3), (12, 5), (12, 6)])
def test_a_cosine_has_all_of_its_power_at_its_frequency(p, z):
    u = np.cos(2 * np.pi * z * np.arange(p) / p + (0.0 if 2 * z == p else 0.7))
    assert np.isclose(largest_power(frequency_powers(u)), 1.0)
    assert dominant_part(frequency_powers(u + 10.0)) == z, "a constant is no frequency"
    assert dominant_part(frequency_powers(u + 10.0), first=0) == 0
    assert np.isnan(largest_power(np.zeros(4)))


def test_random_weights_have_the_power_of_the_largest_of_so_many_exponentials():
    half = 35  # of 2K+1 = 71: the largest of K exponentials over their sum has the mean H_K/K
    mean = largest_power(frequency_powers(np.random.default_rng(0).standard_normal((4000, 71)))).mean()
    assert abs(mean - sum(1 / k for k in range(1, half + 1)) / half) < 0.004


@pytest.mark.parametrize("p", [5, 6])
def test_interpolation_passes_through_the_weights_and_is_the_sum_of_least_frequencies(p):
    u = np.random.default_rng(p).standard_normal((3, p))
    assert np.allclose(interpolate(u, np.arange(p)), u)
    x = np.linspace(-1, p, 23)
    hat, half = np.fft.fft(u), (p - 1) // 2
    wanted = sum(hat[:, [j % p]] * np.exp(2j * np.pi * j * x / p) for j in range(-half, half + 1)) / p
    if p % 2 == 0:
        wanted = wanted + hat[:, [p // 2]] * np.cos(np.pi * x) / p
    assert np.allclose(interpolate(u, x), wanted.real) and np.abs(wanted.imag).max() < 1e-12
    assert np.allclose(interpolate(np.cos(2 * np.pi * np.arange(p) / p), x), np.cos(2 * np.pi * x / p))


def test_kept_neurons_exceed_a_share_of_the_largest_norm_and_weights_are_powers_of_norms():
    sizes = np.array([1.0, 0.6, 0.5, 0.4, 0.1, 0.05, 0.0])
    pair = PairArrays(np.outer(sizes, [0.6, 0.0]), np.outer(sizes, [0.0, 0.0]), np.outer(sizes, [0.0, 0.8]))
    assert kept_neurons(pair).tolist() == [True, True, True, True, False, False, False]
    assert kept_neurons(pair, 0.5).tolist() == [True, True, False, False, False, False, False]
    power = PowerArrays(np.outer(sizes, [0.6, 0.0]), np.outer(sizes, [0.0, 0.8]), 4)
    assert kept_neurons(power).tolist() == [True, True, False, False, False, False, False]
    assert np.allclose(norm_weights(pair), sizes**3 / np.sum(sizes**3))
    assert np.allclose(norm_weights(power), sizes**5 / np.sum(sizes**5))
    assert np.allclose(norm_weights(pair.scaled(1e-150)), norm_weights(pair)), "no underflow"
    assert np.allclose(norm_balance(pair)[:-1], np.sqrt(3) * np.array([0.6, 0.0, 0.8]))
    assert np.isnan(norm_balance(pair)[-1]).all()
    values = np.array([2.0, 1, 1, 1, 1, 1, np.nan])
    assert np.isclose(weighted_mean(values, norm_weights(pair)), 1 + 1 / np.sum(sizes**3))


def test_the_maximum_margin_network_of_z_p_has_its_frequencies_alone():
    p = 11
    spectrum = network_spectrum(cyclic_network(p), p)
    assert np.allclose(spectrum.largest, 1) and spectrum.agreement == 1
    assert np.allclose(spectrum.mean_largest, 1) and np.allclose(spectrum.median_largest, 1)
    assert spectrum.counts() == {f"frequency {z}": 8 for z in range(1, 6)}
    assert np.allclose(list(spectrum.shares().values()), 2 / (p - 1))
    assert np.allclose(norm_balance(cyclic_network(p)), 1)
    assert np.allclose(phase_residuals(cyclic_network(p), p), 0)


def test_the_memoriser_has_a_flat_spectrum():
    p = 7
    network = memoriser_network(load_group("Z_7").table)
    spectrum = network_spectrum(network, p)
    assert np.allclose(spectrum.largest, 2 / p)
    assert np.allclose(spectrum.powers[:, :, 0] * 2, spectrum.powers[:, :, 1])


def test_small_neurons_and_weights_decide_means_counts_and_agreement():
    p, large = 7, cyclic_network(7)
    noise = random_network(5, p, 1)
    small = 0.05 * np.linalg.norm(large.neurons[0]) / np.linalg.norm(noise.neurons, axis=1)[:, None]
    parts = [np.concatenate([a, small * b]) for a, b in ((large.U, noise.U), (large.V, noise.V), (large.W, noise.W))]
    spectrum = network_spectrum(PairArrays(*parts), p)
    assert spectrum.kept.sum() == 24 and sum(spectrum.counts().values()) == 24 and spectrum.agreement == 1
    expected = 1 - np.sum(spectrum.weights * (1 - spectrum.largest), axis=1)
    assert np.allclose(spectrum.mean_largest, expected) and np.all(expected > 0.999) and np.all(expected < 1 - 1e-6)
    everything = network_spectrum(PairArrays(*parts), p, kept=0.0)
    assert everything.kept.all() and everything.agreement < 1
    assert np.isclose(sum(spectrum.shares().values()), 1)


def test_agreement_asks_all_three_vectors():
    cosines = np.cos(2 * np.pi * np.outer([1, 2, 3], np.arange(7)) / 7)
    triples = np.array([(0, 0, 0), (0, 0, 1), (1, 0, 1), (1, 2, 2)])
    network = PairArrays(*(cosines[triples[:, place]] for place in range(3)))
    spectrum = network_spectrum(network, 7)
    assert spectrum.agreement == 0.25
    assert np.array_equal(spectrum.dominant, triples.T + 1)
    assert spectrum.part.tolist() == [1, 1, 2, 3] and spectrum.counts()["frequency 1"] == 2


@pytest.mark.parametrize("name", ["S_4", "D_5", "A_4", "Q_8", "Z_6"])
def test_powers_are_squared_entries_of_the_irreps_and_add_to_the_norm(name):
    group = load_group(name)
    network = random_network(6, group.order)
    spectrum = network_spectrum(network, name)
    assert np.allclose(spectrum.powers.sum(axis=2), [np.sum(m**2, axis=1) for m in (network.U, network.V, network.W)])
    for number, irrep in enumerate(real_irreps(group)):
        entries = np.einsum("mg,gij->mij", network.V, irrep.matrices)
        wanted = irrep.weight / group.order * np.sum(entries**2, axis=(1, 2))
        assert np.allclose(spectrum.powers[1, :, number], wanted)
    assert np.allclose(spectrum.powers, irrep_powers(group, np.stack([network.U, network.V, network.W])))


def test_irreps_of_a_group_network_have_their_counts_and_shares():
    spectrum = network_spectrum(group_network("S_4"), "S_4")
    dimensions = [irrep.dimension for irrep in real_irreps(load_group("S_4"))]
    assert list(spectrum.counts().values()) == [0, *(2 * d**3 for d in dimensions[1:])]
    shares = np.array([0, *(d**2.5 for d in dimensions[1:])])
    assert np.allclose(list(spectrum.shares().values()), shares / shares.sum())
    assert spectrum.shares() == pytest.approx(norm_shares(group_network("S_4"), "S_4"))
    assert spectrum.first == 0 and network_spectrum(cyclic_network(5), 5).first == 1


def rank_one(irrep, vectors):
    """e σ_1²/Σ_k σ_k² of coefficient matrices: over ℂ and ℍ every singular value occurs e = 2 or 4 times."""
    squares = np.linalg.svd(coefficient_matrices(irrep, vectors), compute_uv=False) ** 2
    return COMMUTANT[irrep.kind] * squares[..., 0] / squares.sum(axis=-1)


@pytest.mark.parametrize("name", ["S_3", "S_4", "A_4", "Q_8", "S_3xZ_3", "Q_8xS_3"])
def test_coefficients_of_optimal_neurons_have_rank_one_over_their_field(name):
    group, random = load_group(name), np.random.default_rng(3)
    for number, irrep in enumerate(real_irreps(group)[1:], start=1):
        x, y, z = (v / np.linalg.norm(v) for v in random.standard_normal((3, irrep.dimension)))
        neuron = group_neuron(irrep, x, y, z)
        assert all(np.allclose(rank_one(irrep, part), 1) for part in (neuron.U, neuron.V, neuron.W))
        powers = network_spectrum(neuron, group).powers
        assert np.delete(powers, number, axis=2).max() < 1e-15, "the others hold rounding alone"
    loose = random_network(5, group.order).neurons.reshape(-1, group.order)
    many = [irrep for irrep in real_irreps(group) if irrep.weight > 1]
    assert all(rank_one(irrep, loose).mean() < 0.97 for irrep in many), "random matrices are not of rank one"


def irrep_signals(network, group):
    """s_R = 2 Σ_i tr(A_i B_i C_iᵀ) / (D|G|²) of every non-trivial irrep: the squares of a neuron drop out.

    It is Σ_{a,b} ⟨f(a,b), R(a)R(b)R(·)⟩ / (D|G|²) of the logits f, hence s where f = F(a,b) + s·1[c = ab].
    """
    group = group_of(group)
    signals = []
    for irrep in real_irreps(group)[1:]:
        a, b, c = (moments(irrep, part) for part in (network.U, network.V, network.W))
        signals.append(2 * np.sum((a @ b) * c) / (irrep.dimension * group.order**2))
    return signals


@pytest.mark.parametrize("p", [7, 8])
def test_a_neuron_of_one_frequency_has_its_transform_on_zero_and_on_that_frequency(p):
    z = 2
    angles = 2 * np.pi * z * np.arange(p) / p
    neuron = PairArrays(*(np.cos(t + angles)[None] for t in (0.3, 1.1, 0.2)))
    found = np.abs(cyclic_transform(neuron))
    j, k, m = np.meshgrid(*[np.arange(p)] * 3, indexing="ij")
    own = np.isin(j, (z, p - z)) & np.isin(k, (z, p - z)) & np.isin(m, (z, p - z))
    outside = (j != 0) & (k != 0) & ~own
    assert found[outside].max() < 1e-9 * found.max()
    assert found[own].min() > 0.1 * found.max()


@pytest.mark.parametrize("p", [5, 9, 11])
def test_the_maximum_margin_network_of_z_p_has_the_same_signal_at_every_frequency(p):
    network = cyclic_network(p)
    gamma, found = dataset_margin(network, p), cyclic_transform(network)
    j = np.arange(1, p)
    assert np.allclose(found[j, j, -j], gamma * p**2)
    matched = np.zeros((p, p, p), bool)
    matched[j, j, -j] = True
    elsewhere = found[1:, 1:][~matched[1:, 1:]]
    assert np.abs(elsewhere).max() < 1e-12, "nothing off the triples (j, j, -j)"
    assert np.allclose(irrep_signals(network, p), gamma)


def test_signals_are_the_matched_part_of_the_transform():
    p, network = 6, random_network(5, 6)
    found = cyclic_transform(network)
    wanted = [found[j, j, -j].real / p**2 for j in range(1, p // 2 + 1)]
    assert np.allclose(irrep_signals(network, p), wanted)


def test_the_transform_of_a_neuron_on_a_group_stays_in_its_irrep():
    group = load_group("S_3")
    irrep = real_irreps(group)[2]
    x, y, z = (v / np.linalg.norm(v) for v in np.random.default_rng(4).standard_normal((3, 2)))
    found = np.abs(group_transform(group_neuron(irrep, x, y, z), group))
    block = [0, 1, 2, 2, 2, 2]  # irreps of dimension 1, 1 and 2: one, one and four basis vectors
    j, k, m = np.meshgrid(block, block, block, indexing="ij")
    assert found[(j != 0) & (k != 0) & ~((j == 2) & (k == 2) & (m == 2))].max() < 1e-12
    assert found[(j == 2) & (k == 2) & (m == 2)].max() > 0.01


@pytest.mark.parametrize("name", ["S_3", "D_4", "S_4"])
def test_the_maximum_margin_network_of_a_group_has_its_signal_on_matched_entries(name):
    group, network = load_group(name), group_network(name)
    gamma, found = dataset_margin(network, group), group_transform(network, group)
    offset = 0
    for irrep in real_irreps(group):
        d = irrep.dimension
        if offset:
            cube = found[offset : offset + d * d, offset : offset + d * d, offset : offset + d * d]
            matched = np.einsum("jk,ip,lq->ijklpq", *[np.eye(d)] * 3).reshape(cube.shape)  # ((i,j), (j,l), (i,l))
            assert np.allclose(cube, gamma * group.order**2 / d**2 * matched, rtol=0, atol=1e-12)
        offset += d * d
    assert np.allclose(irrep_signals(network, group), gamma)


@pytest.mark.parametrize("name", ["A_4", "Q_8", "Z_8"])
def test_signals_are_alike_for_irreps_of_every_type(name):
    network = group_network(name)
    assert np.allclose(irrep_signals(network, name), dataset_margin(network, name))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: frequency_powers(np.array(3.0)), r"\[..., p\]"),
        (lambda: interpolate(np.ones(5), np.array(2.0)), "list of real numbers"),
        (lambda: dominant_part(np.ones((2, 3)), first=3), "between 0 and 2; got first=3"),
        (lambda: kept_neurons(cyclic_network(5), 1.0), "no neuron is kept; got share=1.0"),
        (lambda: norm_weights(PairArrays(*np.zeros((3, 2, 4)))), "network of zeros"),
        (lambda: network_spectrum(cyclic_network(5), 7), "needs 7 columns"),
        (lambda: network_spectrum(cyclic_network(5), ParityProblem(5, k=2)), "expected a group"),
        (lambda: weighted_mean(np.ones(3), np.ones(2)), "weight per neuron"),
    ],
)
def test_bad_input(call, message):
    with pytest.raises(KroghError, match=message):
        call()


def test_the_shares_of_the_maximum_margin_are_those_of_the_closed_form():
    best = max_margin_group("D_5").irrep_shares
    shares = network_spectrum(group_network("D_5"), "D_5").shares()
    assert {name: shares[name] for name in best} == pytest.approx(best)


@pytest.mark.parametrize("miss", [-2.0, 0.0, 0.4])
def test_phases_of_a_neuron_miss_what_they_were_given(miss):
    p, z = 11, 4
    angles = 2 * np.pi * z * np.arange(p) / p
    neuron = PairArrays(*(size * np.cos(t + angles)[None] for size, t in ((1.0, 0.5), (2.0, 0.9), (0.5, 1.4 - miss))))
    assert np.allclose(phase_residuals(neuron, p), miss)
    assert np.allclose(phase_residuals(cyclic_neuron(p, z, 1.0, 2.5), p), 0)
    assert np.allclose(norm_balance(neuron), np.sqrt(3) * np.array([1, 2, 0.5]) / math.sqrt(5.25))
