"""Margins and norms against a network written out in loops, and laws that hold for every network."""

from __future__ import annotations

import itertools

import jax.numpy as jnp
import numpy as np
import pytest
from group_oracles import neuron_efficiency, shift_means

import krogh.networks.groups.arrays as networks
from krogh.errors import KroghError
from krogh.models.two_layer import PairNetwork, PowerNetwork
from krogh.networks.groups.arrays import PairArrays, PowerArrays, arrays_of, combination_factor, norm
from krogh.networks.groups.measures import (
    cross_entropy,
    dataset_margin,
    logit_flatness,
    margins,
    neuron_margins,
    normalised_margin,
    offset_means,
    weighted_margins,
)
from krogh.networks.groups.written import rotation_network
from krogh.programs.groups import load_group
from krogh.tasks.composition import GroupComposition
from krogh.tasks.parity import ParityClasses
from krogh.theory.boolean import fourier as boolean
from krogh.theory.groups.maximum import max_margin_group, max_margin_parity
from krogh.theory.groups.problems import ParityProblem
from krogh.theory.groups.weighted import default_offsets

ACTIVATIONS = [("quadratic", 2), ("relu", 2), ("power", 3), ("power", 4)]
SIGMA = {"quadratic": lambda z, k: z * z, "relu": lambda z, k: max(z, 0.0), "power": lambda z, k: z**k}


def pair(order: int, width: int = 7, seed: int = 0, activation: str = "quadratic", exponent: int = 2) -> PairArrays:
    parts = np.random.default_rng(seed).normal(size=(3, width, order))
    return PairArrays(*parts, activation=activation, exponent=exponent)


def power(n: int, exponent: int, width: int = 5, seed: int = 0) -> PowerArrays:
    random = np.random.default_rng(seed)
    return PowerArrays(random.normal(size=(width, n)), random.normal(size=(width, 2)), exponent)


def slow_logits(network: PairArrays, a: int, b: int) -> np.ndarray:
    """The formula, entry by entry."""
    sigma = SIGMA[network.activation]
    out = np.zeros(network.order)
    for i, c in itertools.product(range(network.width), range(network.order)):
        out[c] += sigma(network.U[i, a] + network.V[i, b], network.exponent) * network.W[i, c]
    return out


@pytest.mark.parametrize(("activation", "exponent"), ACTIVATIONS)
@pytest.mark.parametrize("entries", [2**22, 40, 7])
def test_margins_of_pair_networks(activation, exponent, entries, monkeypatch):
    """In blocks of any size, over every input in order."""
    monkeypatch.setattr(networks, "ENTRIES", entries)
    group = load_group("S_3")
    network = pair(6, activation=activation, exponent=exponent)
    found, entropy, spread = margins(network, group), [], []
    for a, b in itertools.product(range(6), repeat=2):
        logits = slow_logits(network, a, b)
        label = group.table[a, b]
        wrong = np.delete(logits, label)
        assert found[6 * a + b] == pytest.approx(logits[label] - wrong.max(), rel=1e-10, abs=1e-10)
        entropy.append(np.log(np.sum(np.exp(logits - logits[label]))))
        spread.append(wrong.max() - wrong.min())
    assert cross_entropy(network, group) == pytest.approx(np.mean(entropy), rel=1e-10)
    assert dataset_margin(network, group) == found.min()
    assert logit_flatness(network, group) == np.inf, "a random network has no margin"


def test_flatness_of_a_network_with_a_margin():
    p = 5
    network = rotation_network(p, 2)
    logits = np.cos(2 * np.pi * 2 * np.arange(p) / p)
    wrong = logits[1:]
    wanted = (wrong.max() - wrong.min()) / (1 - wrong.max())
    assert logit_flatness(network, p) == pytest.approx(wanted, rel=1e-10)


@pytest.mark.parametrize("k", [1, 2, 3])
@pytest.mark.parametrize("entries", [2**22, 10])
def test_margins_of_power_networks(k, entries, monkeypatch):
    monkeypatch.setattr(networks, "ENTRIES", entries)
    problem = ParityProblem(4, (3, 0, 1)[:k])
    network = power(4, k)
    x = boolean.cube(4)
    logits = sum(((x @ network.U[i]) ** k)[:, None] * network.W[i] for i in range(network.width))
    signs = np.prod(x[:, list(problem.support)], axis=1)
    np.testing.assert_allclose(margins(network, problem), signs * (logits[:, 0] - logits[:, 1]), atol=1e-12)
    np.testing.assert_allclose(weighted_margins(network, problem), margins(network, problem))


def test_models_tasks_and_arrays_agree():
    """The trained networks' own logits and labels are those of the arrays and problems here."""
    group = load_group("D_4")
    task, model = GroupComposition(group), PairNetwork(6, activation="relu")
    random = np.random.default_rng(3)
    params = {name: jnp.asarray(random.normal(size=(6, 8)), jnp.float32) for name in "UVW"}
    arrays = arrays_of(model, params)
    examples = task.decode(task.population())
    logits = np.asarray(model.predict(params, examples.x))
    np.testing.assert_allclose(np.concatenate([block for _, block in arrays.blocks()]), logits, rtol=1e-4, atol=1e-4)
    np.testing.assert_array_equal(networks.labels_of(task), np.asarray(examples.truth))
    assert arrays.homogeneity == model.homogeneity and norm(arrays, 2, 2) == pytest.approx(
        np.linalg.norm(np.asarray(model.neurons(params))), rel=1e-5
    )
    task, model = ParityClasses(5, support=(4, 1)), PowerNetwork(3, 2)
    params = {"U": random.normal(size=(3, 5)), "W": random.normal(size=(3, 2))}
    arrays = arrays_of(model, params)
    problem = ParityProblem(5, (4, 1))
    np.testing.assert_array_equal(networks.labels_of(task), networks.labels_of(problem))
    assert dataset_margin(arrays, task) == dataset_margin(arrays, problem)
    x = boolean.cube(5)
    np.testing.assert_array_equal(networks.labels_of(task), (1 - np.prod(x[:, [1, 4]], axis=1)) / 2)


def test_norms():
    network = pair(4, width=3)
    omega = np.hstack([network.U, network.V, network.W])
    sizes = np.sqrt((omega**2).sum(1))
    assert norm(network) == pytest.approx((sizes**3).sum() ** (1 / 3))
    assert norm(network, 2, 2) == pytest.approx(np.linalg.norm(omega))
    assert norm(network, 1, 1) == pytest.approx(np.abs(omega).sum())
    assert norm(network, np.inf, np.inf) == np.abs(omega).max()
    with pytest.raises(KroghError, match="b must be at least 1 for a norm"):
        norm(network, 2, 0.5)


@pytest.mark.parametrize(("activation", "exponent"), ACTIVATIONS)
def test_the_normalised_margin_ignores_scale(activation, exponent):
    network = pair(6, activation=activation, exponent=exponent)
    assert normalised_margin(network.scaled(3.7), "S_3") == pytest.approx(normalised_margin(network, "S_3"), rel=1e-10)
    assert normalised_margin(network, "S_3", 2, 2) == pytest.approx(
        dataset_margin(network, "S_3") / norm(network, 2, 2) ** network.homogeneity
    )


@pytest.mark.parametrize("b", [1.0, 2.0, 3.0, 4.0, np.inf])
def test_what_combining_neurons_gains(b):
    """max ‖s‖_ν^ν on ‖s‖_b ≤ 1, against random points and the two extreme ones."""
    random = np.random.default_rng(0)
    for width in (1, 2, 5):
        points = np.vstack([random.exponential(size=(2000, width)), np.ones(width), np.eye(width)])
        points /= np.linalg.norm(points, ord=b, axis=1, keepdims=True)
        assert combination_factor(3, b, width) == pytest.approx((points**3).sum(1).max(), rel=1e-9)


@pytest.mark.parametrize("name", ["S_3", "Q_8", "Z_7"])
def test_class_weighted_margins(name):
    group = load_group(name)
    n = group.order
    network = pair(n)
    tau = np.append(0.0, np.random.default_rng(8).dirichlet(np.ones(n - 1)))
    found, whole = weighted_margins(network, group, tau), np.zeros((n, n, n))
    for a, b, c in itertools.product(range(n), repeat=3):
        whole[a, b, group.table[group.table[a, b], c]] = tau[c]
    expected = [
        slow_logits(network, a, b)[group.table[a, b]] - whole[a, b] @ slow_logits(network, a, b)
        for a, b in itertools.product(range(n), repeat=2)
    ]
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(weighted_margins(network, group, whole), found, rtol=1e-12)
    assert (found >= margins(network, group) - 1e-12).all()
    assert neuron_margins(network, group, tau).sum() == pytest.approx(np.mean(found), rel=1e-9)


@pytest.mark.parametrize(("activation", "exponent"), ACTIVATIONS)
def test_offset_means(activation, exponent):
    group = load_group("S_3")
    network = pair(6, width=3, activation=activation, exponent=exponent)
    sigma, t = SIGMA[activation], group.table
    expected = np.zeros((3, 6))
    for i, a, b, c in itertools.product(range(3), *[range(6)] * 3):
        hidden = sigma(network.U[i, a] + network.V[i, b], exponent)
        expected[i, c] += hidden * network.W[i, t[t[a, b], c]] / 36
    np.testing.assert_allclose(offset_means(network, group), expected, rtol=1e-10, atol=1e-12)


def test_shift_means_of_cyclic_groups():
    p = 5
    network = pair(p, width=2)
    expected = np.zeros((2, p))
    for i, a, b, delta in itertools.product(range(2), *[range(p)] * 3):
        expected[i, delta] += (network.U[i, a] + network.V[i, b]) ** 2 * network.W[i, (a + b - delta) % p] / p**2
    np.testing.assert_allclose(shift_means(network, p), expected, rtol=1e-10)
    margin = expected[:, 0] - expected[:, 1:].mean(1)
    np.testing.assert_allclose(neuron_margins(network, p), margin, rtol=1e-10)


@pytest.mark.parametrize("name", ["S_3", "A_5", "Q_8", "Z_9"])
def test_no_neuron_is_more_than_efficient(name):
    group = load_group(name)
    network = pair(group.order, width=50)
    efficiency = neuron_efficiency(network, group)
    assert (efficiency <= 1).all()
    sizes = np.linalg.norm(network.neurons, axis=1) ** 3
    unit = network.scaled(1 / norm(network))
    expected = weighted_margins(unit, group, default_offsets(group)).mean()
    mean = np.sum(efficiency * sizes) / sizes.sum()
    assert mean == pytest.approx(expected / max_margin_group(group).value, rel=1e-9)


def test_efficiency_of_parity_neurons_and_of_zeros():
    problem = ParityProblem(4, (0, 2))
    network = PowerArrays(np.vstack([power(4, 2).U, np.zeros(4)]), np.vstack([power(4, 2).W, np.zeros(2)]), 2)
    efficiency = neuron_efficiency(network, problem)
    u, w = network.U[:-1], network.W[:-1]
    identity = 2 * u[:, 0] * u[:, 2] * (w[:, 0] - w[:, 1])  # √2 k! (∏ u_i) β
    sizes = np.linalg.norm(network.neurons[:-1], axis=1) ** 3
    np.testing.assert_allclose(efficiency[:-1], identity / sizes / max_margin_parity(2).value, rtol=1e-10)
    assert np.isnan(efficiency[-1]) and (efficiency[:-1] <= 1).all()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: PairArrays(np.ones((2, 3)), np.ones((2, 4)), np.ones((2, 3))), "V must have 3 columns"),
        (
            lambda: PairArrays(np.ones((2, 3)), np.ones((1, 3)), np.ones((2, 3))),
            "a row per neuron; got 2, 1 and 2 rows",
        ),
        (lambda: PairArrays(*np.full((3, 2, 3), np.nan)), "must hold finite numbers; got 6 that are not"),
        (lambda: PairArrays(*np.ones((3, 2, 3)), activation="cubic"), "unknown activation 'cubic'"),
        (lambda: PairArrays(*np.ones((3, 2, 3)), activation="relu", exponent=3), "belongs to the activation 'power'"),
        (lambda: PairArrays(*np.ones((3, 3))), r"must be \[neurons, columns\]; got the shape \(3,\)"),
        (lambda: PowerArrays(np.ones((2, 3)), np.ones((2, 3)), 2), "W must have 2 columns"),
        (lambda: PowerArrays(np.ones((2, 3)), np.ones((2, 2)), 0), "exponent must be an integer at least 1"),
        (lambda: margins(pair(5), "S_3"), "needs 6 columns for the group S_3; got 5"),
        (lambda: margins(power(4, 2), ParityProblem(5, k=2)), "needs 5 columns for this parity; got 4"),
        (lambda: margins(power(4, 2), "S_3"), "pair networks compose groups and power networks multiply bits"),
        (lambda: normalised_margin(pair(6).scaled(0.0), "S_3"), "a network of zeros cannot be normalised"),
        (lambda: neuron_efficiency(pair(6, activation="relu"), "S_3"), "known for the activation x²; got ν=2"),
        (
            lambda: neuron_efficiency(power(4, 2), ParityProblem(4, k=3)),
            r"k=3 bits needs exponent=3; got exponent=2 \(\(u·x\)\^2 has degree below k\)",
        ),
        (lambda: neuron_efficiency(power(4, 4), ParityProblem(4, k=2)), "a larger one is outside Theorem 7.8"),
        (lambda: weighted_margins(power(4, 2), ParityProblem(4, k=2), [1.0]), "with two labels"),
        (lambda: weighted_margins(pair(6), "S_3", np.ones((6, 6))), r"with n=6; got the shape \(6, 6\)"),
        (lambda: weighted_margins(pair(6), "S_3", np.full((6, 6, 6), 1 / 6)), "with 0 on the right one"),
        (lambda: ParityProblem(4, (0, 0)), r"repeats none; got \[0, 0\]"),
        (lambda: ParityProblem(4, (0,), 1), "either a support or k"),
        (lambda: ParityProblem(4, k=5), "k must be an integer between 1 and 4; got k=5"),
        (lambda: ParityProblem(4, (4,)), "must be an integer between 0 and 3"),
        (lambda: dataset_margin(power(25, 2), ParityProblem(25, k=2)), "only for n <= 24; got n=25"),
        (lambda: offset_means(pair(6), ParityProblem(4, k=2)), "expected a group .* got a parity of 2 bits"),
        (lambda: arrays_of(None, {"U": np.ones((1, 2))}), "has the parameters U, V, W or U, W; got U"),
    ],
)
def test_bad_input(call, message):
    with pytest.raises(KroghError, match=message):
        call()
