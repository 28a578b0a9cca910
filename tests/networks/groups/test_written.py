"""Networks of maximum margin, and others, written down: executed by the models, and measured."""

from __future__ import annotations

import dataclasses
import itertools
import json
import math

import numpy as np
import pytest
import safetensors
from group_oracles import cyclic_neuron, group_neuron, neuron_efficiency, parity_neuron

from krogh.errors import KroghError
from krogh.networks.groups import written as algebra_groups
from krogh.networks.groups.arrays import PairArrays, norm
from krogh.networks.groups.measures import margins, neuron_margins, normalised_margin
from krogh.networks.groups.written import (
    QUARTERS,
    commutant_frame,
    cyclic_network,
    group_network,
    irrep_shares,
    logit_values,
    memoriser_network,
    memoriser_of,
    parity_network,
    rotation_network,
)
from krogh.networks.handmade import Construction, construct
from krogh.programs.groups import load_group
from krogh.registry import CONSTRUCTIONS
from krogh.theory.groups.irreps import real_irreps
from krogh.theory.groups.maximum import max_margin_cyclic, max_margin_group, max_margin_parity
from krogh.theory.groups.problems import ParityProblem

CASES = [
    *(("algebra/cyclic", {"p": p}) for p in (3, 5, 9, 11)),
    *(("algebra/group", {"group": name}) for name in ("Z_2", "S_3", "S_4", "A_5", "Q_8", "A_4", "Z_8", "D_4xZ_2")),
    *(("algebra/parity", {"n": n, "k": k}) for n, k in ((4, 1), (10, 4))),
    ("algebra/parity", {"n": 6, "support": (5, 0, 2)}),
    *(("algebra/rotation", {"p": p, "frequency": k}) for p, k in ((5, 2), (10, 3), (2, 1))),
    *(("algebra/memoriser", {"group": "D_3", "balanced": balanced}) for balanced in (True, False)),
]
GROUPS = {"S_3": 18, "S_4": 126, "S_5": 1190, "A_5": 2 * (27 + 27 + 64), "Q_8": 6 + 32, "Z_8": 2 + 3 * 8}


def logits_of(network: PairArrays) -> np.ndarray:
    """f(a,b)[c], [n, n, n]."""
    hidden = (network.U[:, :, None] + network.V[:, None, :]) ** 2
    return np.einsum("iab,ic->abc", hidden, network.W)


@pytest.mark.parametrize(("name", "settings"), CASES)
def test_the_models_compute_what_the_statement_says(name, settings):
    made = construct(name, **settings)
    checked = made.check()
    assert checked.holds and checked.exhaustive and checked.inputs == made.task.population_size
    examples = made.task.decode(made.task.population())
    outputs = made.run(np.asarray(examples.x))
    assert (np.argmax(outputs, axis=1) == np.asarray(examples.truth)).all(), "and solves the task"
    assert made.run(np.asarray(examples.x)[:1]).dtype == np.float64


@pytest.mark.parametrize(("name", "settings"), CASES[::3])
def test_a_corrupted_weight_is_noticed(name, settings):
    made = construct(name, **settings)
    for parameter, array in made.parameters.items():
        changed = array.copy()
        changed.flat[np.argmax(np.abs(changed))] *= 1.001
        assert not dataclasses.replace(made, parameters={**made.parameters, parameter: changed}).check().holds, (
            parameter
        )


def test_every_construction_is_executed_here():
    assert {name for name, _ in CASES} == {name for name in CONSTRUCTIONS if name.startswith("algebra/")}
    for name, settings in CASES[::4]:
        texts = {key: ",".join(map(str, v)) if isinstance(v, tuple) else str(v) for key, v in settings.items()}
        assert construct(name, **texts).statement == construct(name, **settings).statement


@pytest.mark.parametrize("p", [3, 5, 7, 9, 11, 15])
def test_addition(p):
    network = cyclic_network(p)
    assert network.width == 4 * (p - 1) and norm(network) == pytest.approx(1, abs=1e-14)
    np.testing.assert_allclose(margins(network, p), max_margin_cyclic(p).value, rtol=1e-12)
    scale = math.sqrt(2 / (3 * p)) * (4 * (p - 1)) ** (-1 / 3)
    logits = logits_of(network)
    for a, b, c in itertools.product(range(p), repeat=3):
        cosines = sum(math.cos(2 * math.pi * z * (a + b - c) / p) for z in range(1, (p - 1) // 2 + 1))
        assert cosines == pytest.approx((p - 1) / 2 if (a + b - c) % p == 0 else -1 / 2)
        assert logits[a, b, c] == pytest.approx(4 * scale**3 * cosines, abs=1e-15)
    assert logits[0, 0, 0] / logits[0, 0, 1] == pytest.approx(-(p - 1))
    assert ((QUARTERS[:, 0] + QUARTERS[:, 1] - QUARTERS[:, 2]) % 4 == 0).all()


@pytest.mark.parametrize(
    ("n", "support"), [(4, (2,)), (5, (0, 3)), (6, (1, 2, 5)), (10, (0, 1, 2, 3)), (8, (7, 0, 1, 4, 5))]
)
def test_parity(n, support):
    k = len(support)
    network = parity_network(n, support)
    problem = ParityProblem(n, support)
    assert network.width == 2 ** (k - 1) and norm(network) == pytest.approx(1, abs=1e-14)
    np.testing.assert_allclose(margins(network, problem), max_margin_parity(k).value, rtol=1e-12)
    x = np.random.default_rng(0).normal(size=(50, n))  # not only signs
    value = math.factorial(k) * (k + 1) ** (-(k + 1) / 2) / math.sqrt(2) * np.prod(x[:, list(support)], axis=1)
    np.testing.assert_allclose(network.hidden(x) @ network.W, np.stack([value, -value], axis=1), atol=1e-12)
    assert not network.U[:, [j for j in range(n) if j not in support]].any()


@pytest.mark.parametrize(("name", "width"), GROUPS.items())
def test_groups(name, width):
    group = load_group(name)
    network = group_network(group)
    best = max_margin_group(group)
    assert network.width == width == best.width and norm(network) == pytest.approx(1, abs=1e-13)
    found = margins(network, group)
    np.testing.assert_allclose(found, best.value, rtol=1e-10)
    np.testing.assert_allclose(neuron_efficiency(network, group), 1, rtol=1e-10)


@pytest.mark.parametrize("name", ["S_3", "S_4"])
def test_the_logits_of_lemma_d_16(name):
    group = load_group(name)
    logits = logits_of(group_network(group))
    irreps = real_irreps(group)[1:]
    cubed = 2 * sum(irrep.dimension**2.5 for irrep in irreps)
    unit = 4 / ((3 * group.order) ** 1.5 * cubed)
    for a, b, c in itertools.product(range(group.order), repeat=3):
        quotient = group.table[group.table[a, b], group.inverse[c]]
        wanted = unit * sum(irrep.dimension * irrep.character[quotient] for irrep in irreps)
        assert logits[a, b, c] == pytest.approx(wanted, abs=1e-15)
        assert wanted == pytest.approx(unit * (group.order - 1) if c == group.table[a, b] else -unit, abs=1e-15)
    np.testing.assert_allclose(logit_values(group)[group.identity], unit * (group.order - 1))


def test_composition_is_in_the_order_of_the_table():
    """ab and not ba: on a group that is not abelian the two differ."""
    group = load_group("S_3")
    labels = np.argmax(logits_of(group_network(group)), axis=2)
    np.testing.assert_array_equal(labels, group.table)
    assert (group.table != group.table.T).any()


def test_subset_networks_use_only_their_irreps():
    group = load_group("A_5")
    used = [irrep.name for irrep, share in irrep_shares(group) if share > 0]
    assert used == ["3a", "3b", "4"]
    logits = logit_values(group)
    by_class = {
        name: logits[members[0]] for name, members in zip(("e", "5a", "5b", "22", "3"), group.classes, strict=True)
    }
    assert by_class["5a"] == pytest.approx(by_class["5b"]) == pytest.approx(by_class["3"])
    assert by_class["22"] < by_class["3"] - 1e-5, "strictly off the margin"


def test_networks_too_large_to_hold_are_refused(monkeypatch):
    monkeypatch.setattr(algebra_groups, "LARGEST_SIZE", 1000)
    with pytest.raises(KroghError, match=r"the network of S_4 has 126 neurons of 3·24 weights, more than 1,000"):
        group_network("S_4")


def test_shares_may_be_chosen():
    network = group_network("S_3", {"2": 0.25, "sign": 0.75})
    sizes = np.linalg.norm(network.neurons, axis=1) ** 3
    assert sizes[:2].sum() == pytest.approx(0.75) and sizes.sum() == pytest.approx(1)
    assert group_network("S_3", {"sign": 1.0}).width == 2
    assert normalised_margin(network, "S_3") < max_margin_group("S_3").value


@pytest.mark.parametrize("name", ["Q_8", "A_4", "Q_8xZ_2", "Z_5", "Q_8xZ_3"])
def test_frames_of_irreps_that_are_not_real(name):
    for irrep in real_irreps(load_group(name)):
        frame = commutant_frame(irrep)
        e = {"real": 1, "complex": 2, "quaternionic": 4}[irrep.kind]
        assert frame.shape == (irrep.dimension // e, irrep.dimension)
        np.testing.assert_allclose(frame @ frame.T, np.eye(len(frame)), atol=1e-12)
        traces = np.einsum("ij,gjk,ik->g", frame, irrep.matrices, frame)
        np.testing.assert_allclose(traces, irrep.character / e, atol=1e-9)


@pytest.mark.parametrize("name", ["S_3", "S_4", "Q_8", "A_4", "Z_8"])
def test_optimal_neurons_of_groups(name):
    """Rank-one neurons with shared random vectors reach γ*, of every irrep; of unshared ones none does."""
    group = load_group(name)
    best = max_margin_group(group).value
    random = np.random.default_rng(1)
    for irrep in real_irreps(group)[1:]:
        x, y, z, other = (v / np.linalg.norm(v) for v in random.normal(size=(4, irrep.dimension)))
        neuron = group_neuron(irrep, x, y, z)
        assert norm(neuron) == pytest.approx(1) and neuron_margins(neuron, group)[0] == pytest.approx(best, rel=1e-10)
        if irrep.dimension > 1:
            mixed = PairArrays(neuron.U, group_neuron(irrep, x, other, z).V, neuron.W)
            assert neuron_efficiency(mixed, group)[0] < 1 - 1e-6


def test_optimal_neurons_of_addition():
    p = 9
    for z in range(1, p):
        neuron = cyclic_neuron(p, z, 0.7 * z, -1.9)
        assert norm(neuron) == pytest.approx(1) and neuron_efficiency(neuron, p)[0] == pytest.approx(1, rel=1e-12)
        for part in (neuron.U, neuron.V, neuron.W):
            transform = np.abs(np.fft.fft(part[0]))
            assert (
                transform[[z, p - z]] == pytest.approx(math.sqrt(p / 6))
                and np.delete(transform, [z, p - z]).max() < 1e-12
            )
    turned = PairArrays(neuron.U, neuron.V, cyclic_neuron(p, 8, 0.0, 0.0).W)
    assert neuron_efficiency(turned, p)[0] < 0.99


def test_optimal_neurons_of_parity():
    support = (1, 3, 4)
    for signs in itertools.product((1, -1), repeat=3):
        neuron = parity_neuron(5, support, signs)
        assert norm(neuron) == pytest.approx(1)
        assert neuron_efficiency(neuron, ParityProblem(5, support))[0] == pytest.approx(1, rel=1e-12)
        assert np.prod(neuron.U[0, list(support)]) * (neuron.W[0, 0] - neuron.W[0, 1]) > 0


@pytest.mark.parametrize("n", [2, 5, 7])
def test_memorising_any_table(n):
    table = np.random.default_rng(n).integers(0, n, (n, n))
    for balanced, margin in ((False, 1 / (2 * n**2 * 2.0625**1.5)), (True, 2 / (3 * math.sqrt(3) * n**2))):
        network = memoriser_network(table, balanced)
        assert network.width == 2 * n**2
        np.testing.assert_allclose(logits_of(network), np.eye(n)[table], atol=1e-12)
        assert 1 / norm(network) ** 3 == pytest.approx(margin, rel=1e-12), "all margins are 1 before normalisation"
        transform = np.abs(np.fft.fft(network.U, axis=1))
        np.testing.assert_allclose(transform, transform[:, :1] @ np.ones((1, n)), rtol=1e-12)
        made = memoriser_of(table, balanced)
        assert made.check().holds and made.width == 2 * n**2


def test_rotations_interfere():
    p = 7
    logits = [logits_of(rotation_network(p, k)) for k in range(1, p)]
    sums = np.arange(p)[:, None] + np.arange(p)[None, :]
    for one in logits:
        np.testing.assert_array_equal(np.argmax(one, axis=2), sums % p)
    wanted = np.where((sums[:, :, None] - np.arange(p)) % p == 0, p - 1.0, -1.0)
    np.testing.assert_allclose(sum(logits), wanted, atol=1e-12)
    assert rotation_network(p, 3).width == 8


def test_files_say_what_they_hold(tmp_path):
    made = construct("algebra/group", group="S_3")
    path = made.save(tmp_path / "weights.safetensors")
    with safetensors.safe_open(path, "np") as file:
        header = json.loads(file.metadata()["krogh"])
    assert header["name"] == "algebra/group" and header["recipe"]["model"]["kind"] == "pair-network"
    assert header["statement"] == made.statement and "γ* = 0.023605 (Theorem 7.9)" in made.statement
    assert isinstance(made, Construction) and made.size["width"] == 18


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: construct("algebra/cyclic", p=8), r"needs an odd p; got p=8 \(try p=7 or 9"),
        (lambda: construct("algebra/cyclic", p=1), "p must be an integer between 3 and 1024; got p=1"),
        (lambda: construct("algebra/group", group="S_9"), "no table for the group 'S_9'"),
        (lambda: construct("algebra/rotation", p=10, frequency=4), r"in common with p; got frequency=4, p=10 \(try"),
        (lambda: construct("algebra/rotation", p=5, frequency=5), "frequency must be an integer between 1 and 4"),
        (lambda: construct("algebra/parity", n=3, k=4), "k must be an integer between 1 and 3; got k=4"),
        (lambda: construct("algebra/parity", n=3), "either a support or k"),
        (lambda: construct("algebra/parity", n=4, k=3, support=(0, 1)), "either a support or k"),
        (lambda: group_network("S_3", {"3": 1.0}), "unknown irrep '3'"),
        (lambda: group_network("S_3", {"2": 0.5}), "must add to 1; got .*, sum 0.5"),
        (lambda: memoriser_network([[0, 2], [0, 1]]), r"entries must lie in 0..1; got 0..2"),
        (lambda: construct("algebra/cyclic", p=5).run([[0.5, 1]]), "pairs of whole numbers"),
        (lambda: construct("algebra/cyclic", p=5).run([[0, 5]]), "pairs of numbers in 0..4"),
    ],
)
def test_bad_input(call, message):
    with pytest.raises(KroghError, match=message):
        call()
