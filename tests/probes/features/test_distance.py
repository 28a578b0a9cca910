"""How far a network is from those of maximum margin: zero for all of these, and found again by training."""

from __future__ import annotations

import itertools
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from group_oracles import group_neuron, neuron_efficiency

from krogh.errors import KroghError
from krogh.networks.groups.arrays import PairArrays, PowerArrays
from krogh.networks.groups.measures import normalised_margin
from krogh.networks.groups.written import cyclic_network, group_network, memoriser_network, parity_network
from krogh.probes.features.distance import margin_distance, nearest_mixture, optimal_shares
from krogh.probes.features.nearest import fit_phases, fit_signs, fit_vectors, nearest_for_parity, nearest_in_irreps
from krogh.programs.groups import load_group
from krogh.theory.groups.finite import finite_lambda
from krogh.theory.groups.game import solve_game
from krogh.theory.groups.irreps import real_irreps
from krogh.theory.groups.maximum import max_margin_group, max_margin_parity
from krogh.theory.groups.problems import ParityProblem, characters_of

ZERO = 1e-10
GROUPS = ["Z_5", "Z_9", "Z_8", "S_3", "S_4", "D_5", "Z_2^3", "A_4", "Q_8", "S_3xZ_3", "A_5"]


def random_network(width, n, seed=0):
    return PairArrays(*np.random.default_rng(seed).standard_normal((3, width, n)))


def distances(network, problem, lam=None):
    found = margin_distance(network, problem, lam)
    return np.array([found.cosine, found.neurons, found.shares, found.function])


# The three maximisations.


@pytest.mark.parametrize("count", [1, 3, 4])
def test_signs_of_product_one_against_all_of_them(count):
    values = np.random.default_rng(count).standard_normal((50, count))
    values[0, 0] = 0.0
    found = fit_signs(values)
    assert np.all(found.prod(axis=1) == 1)
    every = np.array([s for s in itertools.product((1, -1), repeat=count) if math.prod(s) == 1])
    assert np.allclose(np.sum(found * values, axis=1), (values @ every.T).max(axis=1))


def phase_cases():
    random = np.random.default_rng(0)
    drawn = random.standard_normal((3, 60)) + 1j * random.standard_normal((3, 60))
    corners = np.array(
        [(1, 1, 1), (1, 1, -1), (2, 2, -0.5), (1, -3, 0.2), (0, 1j, 2), (1, 0, 1j), (0, 0, 1), (3, 1, -1), (1, 1, 0)]
    ).T
    return np.concatenate([drawn, corners, corners * np.exp(1e-9j)], axis=1)


def test_phases_against_a_fine_grid():
    a, b, c = phase_cases()
    t_a, t_b, t_c = fit_phases(a, b, c)
    assert np.allclose(t_a + t_b, t_c)
    found = (a * np.exp(-1j * t_a) + b * np.exp(-1j * t_b) + c * np.exp(-1j * t_c)).real
    steps = 240
    first, second = np.meshgrid(*[2 * np.pi * np.arange(steps) / steps] * 2)
    for place, value in enumerate(found):
        grid = (
            a[place] * np.exp(-1j * first) + b[place] * np.exp(-1j * second) + c[place] * np.exp(-1j * (first + second))
        ).real.max()
        curvature = abs(a[place]) + abs(b[place]) + 4 * abs(c[place])  # of the function, at most
        assert grid - 1e-12 <= value <= grid + curvature * (np.pi / steps) ** 2


def test_aligned_phases_are_found_exactly():
    t_a, t_b = np.array([0.3, 2.0, -3.0]), np.array([1.0, 2.5, -2.0])
    found = fit_phases(2 * np.exp(1j * t_a), np.exp(1j * t_b), 0.5 * np.exp(1j * (t_a + t_b)))
    assert np.abs(np.exp(1j * found[0]) - np.exp(1j * t_a)).max() < 1e-14
    assert np.abs(np.exp(1j * found[1]) - np.exp(1j * t_b)).max() < 1e-14


def searched(a, b, c, starts=60):
    """Φ by plain loops over random starts: one matrix at a time, each vector replaced by the best in turn."""
    random = np.random.default_rng(1)
    best = -np.inf
    for _ in range(starts):
        y, z = (v / np.linalg.norm(v) for v in random.standard_normal((2, len(a))))
        for _ in range(40):
            x = a @ y + c @ z
            x = x / np.linalg.norm(x)
            y = a.T @ x + b @ z
            y = y / np.linalg.norm(y)
            z = b.T @ y + c.T @ x
            z = z / np.linalg.norm(z)
        best = max(best, x @ a @ y + y @ b @ z + x @ c @ z)
    return best


@pytest.mark.parametrize("size", [2, 3, 5])
def test_vectors_against_random_search(size):
    a, b, c = np.random.default_rng(size).standard_normal((3, 8, size, size))
    a[0], b[0], c[0] = np.eye(size), np.eye(size), -np.eye(size)  # three vectors that cannot all agree: 3/2
    fit = fit_vectors(a, b, c)
    for x in (fit.x, fit.y, fit.z):
        assert np.allclose(np.linalg.norm(x, axis=1), 1)
    parts = ((fit.x, a, fit.y), (fit.y, b, fit.z), (fit.x, c, fit.z))
    assert np.allclose(sum(np.einsum("mi,mij,mj->m", *part) for part in parts), fit.value)
    assert np.isclose(fit.value[0], 1.5)
    wanted = np.array([searched(*matrices) for matrices in zip(a, b, c, strict=True)])
    assert np.all(fit.value >= wanted - 1e-6)
    assert np.all(fit.bound >= wanted - 1e-9) and np.all(fit.bound >= fit.value)


def test_the_maximum_is_proved_for_nearly_all_random_matrices_and_bounds_hold():
    a, b, c = np.random.default_rng(0).standard_normal((3, 200, 4, 4))
    fit = fit_vectors(a, b, c)
    proved = fit.bound <= fit.value * (1 + 1e-9)
    assert proved.mean() > 0.95
    x, y, z = np.random.default_rng(1).standard_normal((3, 200, 500, 4))
    x, y, z = (v / np.linalg.norm(v, axis=-1, keepdims=True) for v in (x, y, z))
    tried = np.sum((x @ a) * y + (y @ b) * z + (x @ c) * z, axis=-1).max(axis=1)
    assert np.all(tried <= fit.value)


def test_phases_and_vectors_agree_where_matrices_are_rotations():
    numbers = phase_cases()[:, :60]
    t = fit_phases(*numbers)
    wanted = sum((n * np.exp(-1j * phase)).real for n, phase in zip(numbers, t, strict=True))
    matrices = [np.stack([np.stack([n.real, -n.imag], 1), np.stack([n.imag, n.real], 1)], 1) for n in numbers]
    fit = fit_vectors(*matrices)
    assert np.allclose(fit.value, wanted) and np.allclose(fit.bound, wanted)


# The nearest optimal neurons.


@pytest.mark.parametrize("name", ["Z_7", "Z_6", "S_4", "A_4", "Q_8", "S_3xZ_3", "A_5"])
def test_nearest_neurons_are_optimal_and_as_near_as_they_say(name):
    group = load_group(name)
    network = random_network(12, group.order)
    nearest = margin_distance(network, group).nearest
    found = PairArrays(*np.split(nearest.neurons, 3, axis=1))
    assert np.allclose(np.linalg.norm(nearest.neurons, axis=1), 1)
    assert np.allclose(neuron_efficiency(found, group), 1), "they attain the maximum class-weighted margin"
    units = network.neurons / np.linalg.norm(network.neurons, axis=1, keepdims=True)
    assert np.allclose(np.sum(units * nearest.neurons, axis=1), nearest.cosine)
    assert np.allclose(nearest.distance, np.sqrt(2 * (1 - nearest.cosine)))
    assert np.all(nearest.cosine > 0) and np.all(nearest.bound >= nearest.cosine)


@pytest.mark.parametrize("name", ["Z_5", "Z_6", "S_3", "Q_8", "A_4"])
def test_no_optimal_neuron_drawn_at_random_is_nearer(name):
    group, random = load_group(name), np.random.default_rng(0)
    irreps = real_irreps(group)
    given = random_network(4, group.order, 5)
    allowed = list(range(1, len(irreps)))
    nearest = nearest_in_irreps(given, irreps, allowed)
    units = given.neurons / np.linalg.norm(given.neurons, axis=1, keepdims=True)
    best = np.full(4, -1.0)
    for irrep, _ in itertools.product(irreps[1:], range(800)):
        x, y, z = (v / np.linalg.norm(v) for v in random.standard_normal((3, irrep.dimension)))
        best = np.maximum(best, units @ group_neuron(irrep, x, y, z).neurons[0])
    assert np.all(best <= nearest.cosine + 1e-12)
    assert np.all(best >= nearest.cosine - 0.15), "the search comes near it"


@pytest.mark.parametrize("name", ["Z_8", "S_4", "A_4"])
def test_the_nearest_neuron_is_the_best_of_all_irreps(name):
    irreps = real_irreps(load_group(name))
    network = random_network(40, load_group(name).order, 6)
    each = [nearest_in_irreps(network, irreps, [number]) for number in range(1, len(irreps))]
    nearest = nearest_in_irreps(network, irreps, range(1, len(irreps)))
    cosines = np.array([one.cosine for one in each])
    assert np.allclose(nearest.cosine, cosines.max(axis=0))
    assert np.array_equal(nearest.part, 1 + cosines.argmax(axis=0)) and len(set(nearest.part.tolist())) > 1


def test_nearest_parity_neurons_against_all_of_them():
    problem = ParityProblem(6, support=(0, 2, 5))
    random = np.random.default_rng(0)
    network = PowerArrays(random.standard_normal((30, 6)), random.standard_normal((30, 2)), 3)
    nearest = nearest_for_parity(network, problem)
    every = []
    for signs in itertools.product((1, -1), repeat=3):
        neuron = np.zeros(8)
        neuron[[0, 2, 5]] = np.array(signs) / 2
        neuron[6:] = math.prod(signs) / 2 * np.array([1, -1]) / math.sqrt(2)
        every.append(neuron)
    units = network.neurons / np.linalg.norm(network.neurons, axis=1, keepdims=True)
    assert np.allclose(nearest.cosine, (units @ np.array(every).T).max(axis=1))
    assert np.allclose(neuron_efficiency(PowerArrays(nearest.neurons[:, :6], nearest.neurons[:, 6:], 3), problem), 1)


# Zero on the whole family.


@pytest.mark.parametrize("name", GROUPS)
def test_constructed_networks_are_at_distance_zero(name):
    assert distances(group_network(name), name).max() < ZERO


@pytest.mark.parametrize("p", [3, 5, 7, 9, 11, 15])
def test_the_cyclic_construction_is_at_distance_zero(p):
    found = margin_distance(cyclic_network(p), p)
    assert max(found.cosine, found.neurons, found.shares, found.function, found.worst, found.unproved) < ZERO


@pytest.mark.parametrize(("n", "k"), [(4, 1), (5, 2), (6, 3), (8, 5)])
def test_the_parity_construction_is_at_distance_zero(n, k):
    assert distances(parity_network(n, k=k), ParityProblem(n, k=k)).max() < ZERO
    network, random = parity_network(n, k=k), np.random.default_rng(0)
    parts = random.dirichlet((1.0, 2.0), network.width).T[:, :, None] ** (1 / (k + 1))
    # Each neuron split in two, one of them with u turned, and for odd k w with it.
    split = PowerArrays(
        np.concatenate([parts[0] * network.U, -parts[1] * network.U]),
        np.concatenate([parts[0] * network.W, (-1) ** k * parts[1] * network.W]),
        k,
    )
    assert distances(split, ParityProblem(n, k=k)).max() < ZERO


@pytest.mark.parametrize("name", ["Z_9", "Z_8", "S_4", "Q_8", "A_5"])
def test_permuting_scaling_and_splitting_neurons_changes_nothing(name):
    network, random = group_network(name), np.random.default_rng(0)
    order = random.permutation(network.width)
    shares = random.dirichlet((1.0, 2.0, 3.0), network.width)[order] ** (1 / 3)
    parts = [
        np.concatenate([7.3 * shares[:, [k]] * part[order] for k in range(3)])
        for part in (network.U, network.V, network.W)
    ]
    assert distances(PairArrays(*parts), name).max() < ZERO


@pytest.mark.parametrize(("p", "unit", "first", "second"), [(11, 3, 4, 9), (9, 2, 1, 5), (8, 5, 3, 6)])
def test_relabelling_by_a_unit_and_shifting_inputs_and_outputs_stays_in_the_family(p, unit, first, second):
    network, a = group_network(p), np.arange(p)
    moved = PairArrays(
        network.U[:, (unit * a + first) % p],
        network.V[:, (unit * a + second) % p],
        network.W[:, (unit * a + first + second) % p],
    )
    assert np.isclose(normalised_margin(moved, p), normalised_margin(network, p))
    assert distances(moved, p).max() < ZERO
    wrong = PairArrays(moved.U, moved.V, network.W[:, (unit * a + first) % p])
    assert margin_distance(wrong, p).neurons > 0.1, "outputs must be shifted by both"


@pytest.mark.parametrize("p", [7, 11])
def test_turning_the_phases_of_each_frequency_stays_in_the_family(p):
    network, random = cyclic_network(p), np.random.default_rng(0)
    turns = random.uniform(0, 2 * np.pi, (2, p))
    spectra = [np.fft.rfft(part, axis=1) for part in (network.U, network.V, network.W)]
    half = turns[:, : p // 2 + 1]
    for spectrum, angle in zip(spectra, (half[0], half[1], half.sum(axis=0)), strict=True):
        spectrum *= np.exp(1j * angle)[None, :]
    assert distances(PairArrays(*(np.fft.irfft(s, p, axis=1) for s in spectra)), p).max() < ZERO


@pytest.mark.parametrize("name", ["S_4", "D_5", "A_4", "Q_8", "A_5"])
def test_rotating_the_bases_and_translating_stays_in_the_family(name):
    """x, y, z run through other orthonormal bases than the unit vectors; elements are moved by g from the left, h from
    the right and t in between: u(ga t⁻¹), v(tb h), w(gch)."""
    group, random = load_group(name), np.random.default_rng(0)
    best = max_margin_group(group).irrep_shares
    parts = []
    for irrep, share in zip(real_irreps(group)[1:], best.values(), strict=True):
        d = irrep.dimension
        bases = [np.linalg.qr(random.standard_normal((d, d)))[0] for _ in range(3)]
        for i, j, k in itertools.product(range(d), repeat=3) if share > 0 else ():
            neuron = group_neuron(irrep, bases[0][i], bases[1][j], bases[2][k])
            scale = (share / (2 * d**3)) ** (1 / 3)
            parts += [scale * neuron.neurons[0], scale * neuron.neurons[0] * np.repeat([1, -1, -1], group.order)]
    u, v, w = np.split(np.array(parts), 3, axis=1)
    g, t, h = random.integers(0, group.order, 3)
    table, everything = group.table, np.arange(group.order)
    u = u[:, table[table[g, everything], group.inverse[t]]]
    v = v[:, table[table[t, everything], h]]
    w = w[:, table[table[g, everything], h]]
    network = PairArrays(u, v, w)
    assert np.isclose(normalised_margin(network, group), max_margin_group(group).value)
    assert distances(network, group).max() < ZERO


# Positive elsewhere, and each number for its own reason.


@pytest.mark.parametrize("name", ["Z_7", "S_3", "Q_8"])
def test_the_memoriser_computes_the_function_with_other_neurons(name):
    group = load_group(name)
    for balanced in (True, False):
        found = margin_distance(memoriser_network(group.table, balanced), group)
        assert found.function < ZERO, "1[c = ab] is the function of maximum margin"
        assert found.neurons > 0.5 and found.cosine > 0.1 and found.worst > 0.5
    assert (
        f"neurons {found.neurons:.3g}" in found.summary
        and f"of {group.name}" in found.summary
        and "\n" not in found.summary
    )


@pytest.mark.parametrize("name", ["Z_7", "Z_8", "S_4", "Q_8"])
def test_random_networks_are_far(name):
    n = load_group(name).order
    for seed in range(3):
        cosine, neurons, shares, function = distances(random_network(40, n, seed), name)
        assert neurons > 0.5 and cosine > 0.1 and shares > 0.01 and function > 0.5


def test_optimal_neurons_in_wrong_proportions_are_seen_by_shares_and_function_alone():
    p, network = 7, cyclic_network(7)
    scale = np.where(np.arange(network.width) < 8, 1.5, 1.0)[:, None]  # frequency 1 has 1.5³ of what it should
    found = margin_distance(PairArrays(scale * network.U, scale * network.V, scale * network.W), p)
    assert found.neurons < ZERO
    assert np.isclose(found.shares, 1.5**3 / (1.5**3 + 2) - 1 / 3)
    coefficients = np.array([1.5**3, 1, 1])  # f̃ of cosines of three frequencies, all of one norm
    assert np.isclose(found.function, 1 - coefficients.sum() / math.sqrt(3) / np.linalg.norm(coefficients))


def test_optimal_neurons_that_do_not_cancel_are_seen_by_the_function_alone():
    network = cyclic_network(7)
    half = slice(0, None, 2)  # without the partner that cancels the squares
    found = margin_distance(PairArrays(network.U[half], network.V[half], network.W[half]), 7)
    assert max(found.neurons, found.shares) < ZERO and found.function > 0.1


def test_parities_with_missing_and_unequal_patterns():
    network, problem = parity_network(5, k=3), ParityProblem(5, k=3)
    found = margin_distance(PowerArrays(network.U[1:], network.W[1:], 3), problem)
    assert found.neurons < ZERO and np.isclose(found.shares, 1 / 4) and found.function > 0.01
    assert found.parts == ("++-", "+-+", "+--", "missing patterns")
    doubled = PowerArrays(np.concatenate([network.U, network.U[:1]]), np.concatenate([network.W, network.W[:1]]), 3)
    assert np.isclose(margin_distance(doubled, problem).shares, 2 / 5 - 1 / 4)
    flipped = PowerArrays(network.U, -network.W, 3)
    found = margin_distance(flipped, problem)
    assert np.isclose(found.cosine, 1 - 1 / 2), "one of four equal entries must change sign"
    assert np.isclose(found.function, 2)


@pytest.mark.parametrize("name", ["Z_7", "S_3", "Q_8"])
def test_distances_rise_from_the_construction_to_a_random_network(name):
    group = load_group(name)
    network = group_network(group)
    noise = random_network(network.width, group.order)
    size = np.linalg.norm(network.neurons) / np.linalg.norm(noise.neurons)
    steps = np.linspace(0, 0.8, 9)
    mixed = [
        PairArrays(
            *(
                (1 - t) * a + t * size * b
                for a, b in zip((network.U, network.V, network.W), (noise.U, noise.V, noise.W), strict=True)
            )
        )
        for t in steps
    ]
    found = np.array([distances(one, group) for one in mixed])
    assert np.all(np.diff(found[:, [0, 1, 3]], axis=0) > 0)


def test_zero_neurons_do_not_count():
    network = cyclic_network(5)
    padded = PairArrays(*(np.concatenate([part, np.zeros((3, 5))]) for part in (network.U, network.V, network.W)))
    found = margin_distance(padded, 5)
    assert max(found.cosine, found.neurons, found.shares, found.function) < ZERO
    assert np.isnan(found.nearest.distance[-3:]).all() and (found.nearest.part[-3:] == -1).all()
    assert np.isfinite(found.worst) and np.isfinite(found.unproved)


# Shares at finite λ and of games with many optima.


@pytest.mark.parametrize("name", ["S_3", "S_4"])
def test_the_optimum_at_finite_lambda_is_the_target_when_asked_for(name):
    optimum = finite_lambda(name, 1e-3)
    network = group_network(name, {part: share for part, share in optimum.shares.items() if share > 0})
    assert distances(network, name, 1e-3).max() < ZERO
    limit = margin_distance(network, name)
    best = max_margin_group(name).irrep_shares
    wanted = 0.5 * sum(abs(best[part] - share) for part, share in optimum.shares.items())
    assert np.isclose(limit.shares, wanted) and wanted > 0.02 and limit.function > 1e-4
    assert "lambda=0.001" in margin_distance(network, name, 1e-3).summary


def test_irreps_that_the_optimum_does_not_use_are_not_in_its_family():
    irrep = real_irreps(load_group("S_5"))[-1]
    assert irrep.dimension == 6 and finite_lambda("S_5", 1e-5).shares["6"] == 0
    x, y, z = np.eye(6)[:3]
    neuron = group_neuron(irrep, x, y, z)
    assert margin_distance(neuron, "S_5").neurons < ZERO
    assert np.isclose(margin_distance(neuron, "S_5", 1e-5).neurons, math.sqrt(2)), "at right angles to all others"


def test_the_irrep_that_a_5_does_not_need_is_not_in_its_family():
    group = load_group("A_5")
    used = {name: value for name, value in max_margin_group(group).irrep_shares.items() if value > 1e-9}
    for irrep in real_irreps(group)[1:]:
        x, y, z = np.eye(irrep.dimension)[:3]
        distance = margin_distance(group_neuron(irrep, x, y, z), group).neurons
        assert (distance < ZERO) == (irrep.name in used)


def test_the_nearest_of_many_optimal_mixtures():
    characters = characters_of("S_6")
    payoff = characters.payoff()
    solution = solve_game(payoff)
    value = solution.lower
    assert np.array_equal(nearest_mixture(payoff, value, solution.rows), solution.rows)
    pushed = np.random.default_rng(0).dirichlet(np.ones(len(payoff)))
    near = nearest_mixture(payoff, value, pushed)
    assert np.isclose(near.sum(), 1) and near.min() >= 0 and np.min(near @ payoff) >= value * (1 - 1e-8)
    assert np.abs(near - pushed).sum() < np.abs(solution.rows - pushed).sum() - 1e-3, "another optimum is nearer"
    halfway = (near + solution.rows) / 2  # on the face: it is its own nearest
    assert np.abs(nearest_mixture(payoff, value, halfway) - halfway).sum() < 1e-6
    found = np.concatenate([[0.25], 0.75 * halfway])
    assert np.isclose(0.5 * np.abs(found - optimal_shares(characters, found)).sum(), 0.25, atol=1e-6)


# Trained networks.


def trained(table, width, lam, steps, every, doublings, seed=0):
    """Full-batch gradient descent on cross-entropy + λ Σ‖ω_i‖³, the rate 0.05 doubled `doublings` times."""
    n = len(table)
    keys = jax.random.split(jax.random.key(seed), 3)
    spans = (1 / math.sqrt(2 * n), 1 / math.sqrt(2 * n), 1 / math.sqrt(width))
    start = tuple(
        jax.random.uniform(key, (width, n), minval=-span, maxval=span) for key, span in zip(keys, spans, strict=True)
    )
    labels = jax.nn.one_hot(jnp.asarray(table), n)

    def loss(weights):
        u, v, w = weights
        hidden = (u[:, :, None] + v[:, None, :]) ** 2
        logits = jnp.tensordot(hidden, w, axes=((0,), (0,)))
        norms = jnp.sqrt(jnp.sum(u**2 + v**2 + w**2, axis=1))
        return -jnp.mean(jnp.sum(jax.nn.log_softmax(logits) * labels, axis=-1)) + lam * jnp.sum(norms**3)

    def step(weights, number):
        rate = 0.05 * 2.0 ** jnp.minimum(number // every, doublings).astype(jnp.float32)
        return jax.tree.map(lambda value, slope: value - rate * slope, weights, jax.grad(loss)(weights)), None

    final, _ = jax.jit(lambda weights: jax.lax.scan(step, weights, jnp.arange(steps)))(start)
    return PairArrays(*map(np.asarray, start)), PairArrays(*map(np.asarray, final))


@pytest.mark.slow
def test_gradient_descent_on_z_11_finds_the_family():
    p = 11
    start, end = trained(load_group("Z_11").table, 80, 1e-4, 10_000, 250, 10)
    before, after = margin_distance(start, p), margin_distance(end, p)
    assert before.neurons > 0.9 and before.function > 0.5
    assert normalised_margin(end, p) / max_margin_group(p).value > 0.999
    assert after.neurons < 1e-3 and after.worst < 1e-3 and after.shares < 1e-3 and after.function < 1e-5


def test_gradient_descent_on_s_3_finds_the_optimum_at_its_lambda():
    _, end = trained(load_group("S_3").table, 30, 1e-3, 8_000, 200, 7)
    found, limit = margin_distance(end, "S_3", 1e-3), margin_distance(end, "S_3")
    assert found.neurons < 0.02 and found.shares < 0.005 and found.function < 1e-3
    assert limit.shares > 0.04 and limit.function > 2 * found.function


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: margin_distance(PairArrays(*np.zeros((3, 2, 5))), 5), "network of zeros"),
        (lambda: margin_distance(cyclic_network(5), 7), "needs 7 columns"),
        (lambda: margin_distance(PairArrays(*np.ones((3, 2, 5)), activation="relu"), 5), "activation x²; got ν=2"),
        (lambda: margin_distance(parity_network(4, k=2), ParityProblem(4, k=3)), "k=3 bits needs"),
        (lambda: margin_distance(cyclic_network(5), ParityProblem(5, k=2)), "PairArrays for a ParityProblem"),
        (lambda: margin_distance(cyclic_network(5), 5, lam=1.0), "at lambda=1 the zero network is optimal"),
        (lambda: margin_distance(parity_network(4, k=2), ParityProblem(4, k=2), 9.0), "zero network is optimal"),
        (lambda: nearest_in_irreps(cyclic_network(5), real_irreps(load_group("Z_5")), []), "at least one irrep"),
    ],
)
def test_bad_input(call, message):
    with pytest.raises(KroghError, match=message):
        call()


def test_a_parity_at_a_lambda_below_its_threshold_has_the_same_family():
    problem, network = ParityProblem(4, k=2), parity_network(4, k=2)
    assert distances(network, problem, 0.1 * max_margin_parity(2).value).max() < ZERO
