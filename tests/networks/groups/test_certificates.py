"""Certificates: the maximum-margin networks close the gap, everything else says what keeps it open."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from scipy.optimize import minimize
from support import best_optimised_neuron

from krogh.errors import KroghError
from krogh.networks.groups.arrays import PairArrays, PowerArrays
from krogh.networks.groups.certificates import certify
from krogh.networks.groups.written import (
    cyclic_network,
    group_network,
    memoriser_network,
    parity_network,
    rotation_network,
)
from krogh.programs.groups import load_group
from krogh.tasks.composition import GroupComposition
from krogh.tasks.parity import ParityClasses
from krogh.theory.groups.maximum import closed_form, max_margin_group, max_margin_parity
from krogh.theory.groups.problems import ParityProblem, characters_of


def uniform_offsets(n: int) -> np.ndarray:
    return np.append(0.0, np.full(n - 1, 1 / (n - 1)))


@pytest.mark.parametrize("p", [3, 5, 7, 9, 11, 13, 15])
def test_addition_closes_the_gap(p):
    found = certify(cyclic_network(p), p)
    assert found.closed and found.exact and abs(found.gap) <= 1e-12
    assert found.upper == pytest.approx(max_margin_group(p).value, rel=1e-12)
    assert certify(cyclic_network(p), p, tau=uniform_offsets(p)).upper == pytest.approx(found.upper, rel=1e-12)


@pytest.mark.parametrize("name", ["S_3", "S_4", "S_5", "A_5", "D_4xD_4", "Q_8", "A_4", "Z_8", "Z_2^3"])
def test_composition_closes_the_gap(name):
    found = certify(group_network(name), name)
    assert found.closed and abs(found.gap) <= 1e-12 and abs(found.gap) <= 1e-11 * found.upper


@pytest.mark.parametrize("k", [1, 2, 3, 4, 5])
def test_parity_closes_the_gap(k):
    support = tuple(range(1, k + 1))
    found = certify(parity_network(k + 2, support), ParityClasses(k + 2, support=support))
    assert found.closed and found.exact and abs(found.gap) <= 1e-12
    assert found.upper == max_margin_parity(k).value


def test_scale_does_not_matter_and_tasks_are_understood():
    network = group_network("S_3")
    found = certify(network.scaled(17.0), GroupComposition("S_3"))
    assert found.closed and found.lower == pytest.approx(max_margin_group("S_3").value, rel=1e-12)


def test_uniform_weights_leave_the_gap_open():
    found = certify(group_network("S_3"), "S_3", tau=uniform_offsets(6))
    assert (found.lower, found.upper) == pytest.approx((0.02360, 0.03143), abs=1e-5)
    assert [failure.condition for failure in found.failing] == ["Eq 7.3"] and not found.closed


def test_an_input_off_the_margin_is_named():
    network = memoriser_network(load_group("Z_5").table)
    u = network.U.copy()
    u[7] *= 1.5  # one of the two neurons of the pair (1, 2)
    found = certify(PairArrays(u, network.V, network.W), 5)
    by_name = {failure.condition: failure for failure in found.failing}
    assert "Eq 7.1" in by_name and "the input (1, 2)" in by_name["Eq 7.1"].where
    assert found.lower < found.upper and "fails" in str(by_name["Eq 7.1"])


def test_labels_below_the_largest_wrong_logit_are_counted():
    p = 5
    found = certify(rotation_network(p), p)
    (labels,) = (failure for failure in found.failing if failure.condition == "C.1")
    assert labels.count == p * p * 2, "two of four wrong labels per pair have the smaller cosine"
    assert not any(failure.condition == "Eq 7.1" for failure in found.failing), "all inputs are alike"
    assert not any(failure.condition == "Eq 7.3" for failure in found.failing), "its neurons are optimal"
    drop = math.cos(2 * math.pi / 5) - math.cos(4 * math.pi / 5)
    size = 8 * (4 ** (-1 / 3) * math.sqrt(3 * p / 2)) ** 3
    assert labels.worst == pytest.approx(drop / size / found.upper, rel=1e-9)


def test_the_formula_of_theorem_7_9_is_not_maximal_where_its_condition_fails():
    characters = characters_of("A_5")
    flat = characters.dimensions[1:] ** 2.5
    shares = dict(zip(characters.irrep_names[1:], flat / flat.sum(), strict=True))
    found = certify(group_network("A_5", shares), "A_5")
    assert found.lower == pytest.approx(closed_form(characters), rel=1e-10)
    assert [failure.condition for failure in found.failing] == ["Eq 7.3"]


def test_memorising_is_far_from_maximal():
    found = certify(memoriser_network(load_group("Z_11").table), 11)
    assert found.lower / found.upper == pytest.approx(0.3876, abs=1e-4) and not found.closed
    assert certify(memoriser_network(load_group("Z_11").table, balanced=False), 11).lower == pytest.approx(
        0.16880 / 121, rel=1e-4
    )


@pytest.mark.parametrize("seed", range(6))
def test_weak_duality_for_any_network_and_any_weights(seed):
    random = np.random.default_rng(seed)
    group = load_group(("S_3", "Z_5", "Q_8")[seed % 3])
    n = group.order
    network = PairArrays(*random.normal(size=(3, 9, n)))
    best = max_margin_group(group).value
    q = random.dirichlet(np.ones(n * n)).reshape(n, n)
    tau = np.append(0.0, random.dirichlet(np.ones(n - 1)))
    whole = random.dirichlet(np.ones(n - 1), size=(n, n))
    whole = np.stack([[np.insert(whole[a, b], group.table[a, b], 0.0) for b in range(n)] for a in range(n)])
    for settings in ({}, {"tau": tau}, {"q": q}, {"q": q, "tau": tau}, {"tau": whole}, {"q": q, "tau": whole}):
        found = certify(network, group, **settings)
        assert found.lower <= found.expected + 1e-12 <= found.upper + 1e-12
        assert found.upper >= best - 1e-12, "every bound is one on the maximum margin"
        assert found.exact == ("q" not in settings and settings.get("tau") is not whole)


@pytest.mark.parametrize("name", ["S_3", "Z_5"])
def test_other_input_weights_get_a_bound_that_optimised_neurons_respect(name):
    group = load_group(name)
    random = np.random.default_rng(0)
    n = group.order
    q = random.dirichlet(np.ones(n * n)).reshape(n, n)
    tau = np.append(0.0, random.dirichlet(np.ones(n - 1)))
    found = certify(group_network(name), group, q=q, tau=tau)
    best = best_optimised_neuron(group.table, tau, q)
    assert best <= found.upper <= 3 * best and not found.exact


@pytest.mark.parametrize(("seed", "smaller"), [(0, "inputs"), (1, "inputs"), (3, "labels")])
def test_the_bound_is_the_smaller_singular_value_of_two_flattenings(seed, smaller):
    group = load_group("S_3")
    n = group.order
    random = np.random.default_rng(seed)
    q = random.dirichlet(np.full(n * n, 0.05 if seed > 1 else 1.0)).reshape(n, n)
    tau = np.append(0.0, random.dirichlet(np.full(n - 1, 0.1)))
    form = np.zeros((2 * n, 2 * n, n))  # of (u, v), (u, v), w
    for a, b, c in itertools.product(range(n), repeat=3):
        entry = q[a, b] * ((c == 0) - tau[c])
        label = group.table[group.table[a, b], c]
        for left, right in itertools.product((a, n + b), repeat=2):
            form[left, right, label] += entry
    values = {
        "labels": np.linalg.norm(form.reshape(-1, n), ord=2),
        "inputs": np.linalg.norm(form.reshape(2 * n, -1), ord=2),
    }
    assert min(values, key=lambda name: values[name]) == smaller
    bound = 2 / (3 * math.sqrt(3)) * values[smaller]
    assert certify(group_network("S_3"), group, q=q, tau=tau).upper == pytest.approx(bound, rel=1e-10)


@pytest.mark.parametrize(("n", "k"), [(3, 1), (3, 2), (4, 3), (4, 4)])
def test_parity_bounds_for_other_input_weights(n, k):
    random = np.random.default_rng(n + k)
    problem = ParityProblem(n, k=k)
    q = random.dirichlet(np.full(2**n, 0.3))
    found = certify(parity_network(n, k=k), problem, q=q)
    x = np.array([[1 - 2 * (row >> i & 1) for i in range(n)] for row in range(2**n)])
    y = np.prod(x[:, :k], axis=1)

    def negative(omega):
        unit = omega / np.linalg.norm(omega)
        return -(q * y) @ ((x @ unit[:n]) ** k) * (unit[n] - unit[n + 1])

    best = max(-minimize(negative, start).fun for start in random.normal(size=(20, n + 2)))
    assert best <= found.upper * (1 + 1e-9) <= 2.5 * best and not found.exact
    if k <= 2:
        assert found.upper == pytest.approx(best, rel=1e-4), "matrices have no gap"
    uniform = certify(parity_network(n, k=k), problem, q=np.full(2**n, 2.0**-n))
    assert uniform.exact and uniform.closed


def test_an_input_that_q_ignores_need_not_be_on_the_margin():
    network = memoriser_network(load_group("Z_5").table)
    u = network.U.copy()
    u[7] *= 1.5
    q = np.full((5, 5), 1 / 24)
    q[1, 2] = 0
    found = certify(PairArrays(u, network.V, network.W), 5, q=q)
    assert not any("(1, 2)" in failure.where for failure in found.failing if failure.condition == "Eq 7.1")


def test_other_norms_across_neurons():
    network = group_network("S_3")
    for b in (1.0, 2.0, 4.0, np.inf):
        found = certify(network, "S_3", b=b)
        factor = 1.0 if b <= 3 else 18 ** (1 - 3 / b)
        assert found.upper == pytest.approx(factor * max_margin_group("S_3").value, rel=1e-12)
        assert found.lower <= found.upper
    # Many equal neurons attain the factor: of one irrep's neurons all have the same norm.
    wide = certify(cyclic_network(7), 7, b=6.0)
    assert wide.closed and wide.lower == pytest.approx(24**0.5 * max_margin_group(7).value, rel=1e-10)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: certify(PairArrays(*np.zeros((3, 2, 6))), "S_3"), "a network of zeros"),
        (lambda: certify(PairArrays(*np.ones((3, 2, 6)), activation="relu"), "S_3"), "known for the activation x²"),
        (lambda: certify(PowerArrays(np.ones((1, 4)), np.ones((1, 2)), 2), ParityProblem(4, k=3)), "needs exponent=3"),
        (lambda: certify(group_network("S_3"), "S_3", q=np.ones((5, 5))), "each of the 36 inputs; got 25"),
        (lambda: certify(group_network("S_3"), "S_3", q=np.ones((6, 6))), "must add to 1; got least 1 and sum 36"),
        (lambda: certify(group_network("S_3"), "S_3", b=0.5), "b must be at least 1"),
        (lambda: certify(group_network("S_3"), "S_4"), "needs 24 columns for the group S_4; got 6"),
        (lambda: certify(group_network("S_3"), object()), "a problem is a group, its name"),
    ],
)
def test_bad_input(call, message):
    with pytest.raises(KroghError, match=message):
        call()


def test_all_pairs_are_seen():
    """A single wrong pair of a large table makes the lower bound negative."""
    group = load_group("S_4")
    network = memoriser_network(group.table)
    for a, b in itertools.islice(itertools.product(range(24), repeat=2), 0, 576, 97):
        w = network.W.copy()
        w[[24 * a + b, 576 + 24 * a + b]] = 0.0
        assert certify(PairArrays(network.U, network.V, w), group).lower == pytest.approx(0, abs=1e-15)
