"""Certificates of circuits: the reference's values, attacks and trials that do not refute them, what is refused."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from krogh.errors import KroghError
from krogh.networks.circuits import compile_circuit
from krogh.networks.compiled import Subject
from krogh.networks.margins.attack import Effort, attack, trial_perturbations
from krogh.networks.margins.circuits import certify_circuit
from krogh.networks.margins.layers import blocks_of, true_sizes
from krogh.networks.margins.report import margin_report
from krogh.networks.relu import dense_parameters
from krogh.programs.circuits.generators import adder, and_ladder, comparator, majority, parity_circuit, random_circuit

# r: certificate of Theorem D.6 for the AND-ladder, any depth
REFERENCE = {4: 3.3e-3, 6: 2.7e-3, 8: 2.35e-3, 16: 1.66e-3, 32: 1.2e-3, 64: 8.3e-4}
CIRCUITS = {
    "parity": parity_circuit(4),
    "adder": adder(2),
    "comparator": comparator(3),
    "majority": majority(5),
    "random": random_circuit(4, 5, 5, 0),
}


@pytest.mark.parametrize(("r", "value"), REFERENCE.items())
def test_reference_values(ladder, r, value):
    found = certify_circuit(ladder(r, 5))
    assert found.theorem.value == pytest.approx(value, rel=0.02)
    assert found.theorem.binding == "σζ/(4λμκξ)"
    c = found.theorem.constants
    assert c.lam == pytest.approx(np.sqrt(r)) and c.mu == pytest.approx(2, abs=0.02)
    assert c.kappa_xi == pytest.approx(6.25, abs=0.01) and c.sigma_zeta == pytest.approx(1 / 3)
    assert c.mu_0 == pytest.approx(np.sqrt(2 + (2 + 2 * c.s) ** 2 + 1) * np.sqrt(r)), "AND has no positive bias"
    assert 4 * found.theorem.value < found.refined == found.value < 10 * found.theorem.value


def test_the_depth_does_not_matter(ladder):
    found = [certify_circuit(ladder(6, q)) for q in (5, 9, 33)]
    assert all(f.theorem.value == pytest.approx(2.7e-3, rel=0.01) for f in found)
    assert found[2].refined == pytest.approx(found[0].refined, rel=0.02)
    without = [certify_circuit(ladder(6, q, False)) for q in (5, 9, 33)]
    assert all(f.theorem is None for f in without)
    assert without[0].refined > 10 * without[1].refined > 1e6 * without[2].refined > 0


def test_the_network_and_its_parameters_have_one_certificate():
    compiled = compile_circuit(CIRCUITS["random"])
    one, other = (certify_circuit(x) for x in (compiled, dense_parameters(compiled.network)))
    assert one.theorem == other.theorem and one.refined == other.refined
    padded = certify_circuit(dense_parameters(compiled.network, width=40))
    assert padded.theorem.value == pytest.approx(one.theorem.value) and padded.refined == pytest.approx(one.refined)


@pytest.mark.parametrize("name", CIRCUITS)
@pytest.mark.parametrize("correction", [True, False])
def test_sizes_are_those_of_true_values(name, correction):
    compiled = compile_circuit(CIRCUITS[name], correction=correction)
    m = compiled.circuit.inputs
    x = (np.arange(2**m)[:, None] >> np.arange(m)) & 1
    blocks = blocks_of(compiled.parameters)
    everywhere, given = true_sizes(blocks, None), true_sizes(blocks, x)
    found = [np.linalg.norm(a, axis=1).max() for a in compiled.network.activations(x)]
    np.testing.assert_allclose(np.concatenate(given[1:]), found, atol=1e-12)
    assert np.all(np.concatenate(everywhere)[:-1] >= np.concatenate(given)[:-1] - 1e-12)
    certificate, local = certify_circuit(compiled), certify_circuit(compiled, x)
    assert local.refined >= certificate.refined * (1 - 1e-6) and local.holds_for == f"the {2**m} inputs given"
    one = certify_circuit(compiled, x[:1])
    assert one.refined >= local.refined * (1 - 1e-6)


@pytest.mark.parametrize("correction", [True, False])
def test_lower_bounds_are_below_attacks(correction):
    compiled = compile_circuit(parity_circuit(2), correction=correction)
    x = np.array([[1, 0], [1, 1]])
    report = margin_report(compiled, x, effort=Effort(6, 20, 4))
    assert report.labels == (1, 0) and 0 < report.lower <= report.upper
    assert report.upper == min(a.radius for a in report.attacks) == report.attacks[report.hardest].radius
    assert report.ratio < 3 and report.sizes.one_norm == compiled.network.one_norm


def test_perturbations_of_half_the_certified_size_change_nothing(ladder, network):
    for correction in (True, False):
        parameters = ladder(4, 3, correction)
        certificate = certify_circuit(parameters)
        inputs, labels = (np.ones(4), np.array([1.0, 1.0, 0.0, 1.0])), (1, 0)
        found = trial_perturbations(
            Subject(network, parameters, inputs, labels), certificate.value / 2, random=500, adversarial=8, steps=15
        )
        assert found.flips == 0 and found.random == 500 and found.adversarial == 8
        assert 0 < found.least < 1, "perturbations of the size do move the output"


def test_trials_do_find_flips_where_there_are(ladder, network):
    subject = Subject(network, ladder(4, 3, False), (np.ones(4),), (1,))
    found = trial_perturbations(subject, 1.0, random=64, adversarial=4, steps=15)
    assert found.flips >= 4 and found.least <= 0
    only = trial_perturbations(subject, 1.0, random=64, adversarial=0)
    assert 0 < only.flips < 64 and only.least <= 0 and only.adversarial == 0
    hunted = trial_perturbations(subject, 1.0, random=0, adversarial=4, steps=15)
    assert hunted.flips == 4 and hunted.random == 0
    with pytest.raises(KroghError, match="as many labels; got 1 and 2"):
        trial_perturbations(dataclasses.replace(subject, labels=(1, 0)), 1.0)
    with pytest.raises(KroghError, match="radius must be a positive number"):
        trial_perturbations(subject, 0.0)


@pytest.mark.slow
@pytest.mark.parametrize("name", CIRCUITS)
@pytest.mark.parametrize("correction", [True, False])
def test_ten_thousand_random_and_a_hundred_adversarial_trials(name, correction):
    compiled = compile_circuit(CIRCUITS[name], correction=correction)
    m = compiled.circuit.inputs
    x = np.random.default_rng(0).integers(0, 2, (4, m))
    subject = compiled.subject(x)
    radius = certify_circuit(compiled).value / 2
    found = trial_perturbations(subject, radius)
    assert found.flips == 0 and found.random == 10_000 and found.adversarial == 100 and found.least > 0.3
    report = margin_report(compiled, x, effort=Effort(12, 40))
    assert 2 * radius <= report.upper


@pytest.mark.slow
def test_width_does_not_matter(ladder, network):
    compiled = compile_circuit(and_ladder(4, 4))
    base = certify_circuit(compiled)
    radii = []
    for width in (8, 16, 64):
        parameters = dense_parameters(compiled.network, width)
        assert certify_circuit(parameters).value == pytest.approx(base.value, rel=1e-6)
        radii.append(attack(network, parameters, np.ones(4), 1, effort=Effort(12, 60)).radius)
    assert max(radii) <= 1.05 * min(radii) and base.value <= min(radii)


def test_depth_padding_and_several_outputs():
    deep = compile_circuit(adder(2), depth=30)
    assert any(module.kind == "pass" for module in deep.network.modules)
    shallow = compile_circuit(adder(2))
    one, other = certify_circuit(deep), certify_circuit(shallow)
    assert one.theorem.value <= other.theorem.value and one.refined <= other.refined * (1 + 1e-9)
    assert one.refined > 0.5 * other.refined
    subject = deep.subject([[1, 0, 1, 1]], output=2)
    assert subject.labels == (int(deep.run([[1, 0, 1, 1]])[0, 2] > 0),)


def broken(ladder, name, place, value):
    parameters = ladder(4, 3)
    parameters[name] = parameters[name].copy()
    parameters[name][place] = value
    return parameters


@pytest.mark.parametrize(
    ("name", "place", "value", "message"),
    [
        ("z0.c1", 1, -0.3, "z0 is not a rounding"),
        ("z0.V2", (0, 0), 2.9, "z0 is not a rounding"),
        ("z0.V1", (0, 1), 1.0, "z0 is not a rounding"),
        ("z0.c2", 0, 0.1, "z0 is not a rounding"),
        ("f1.b1", 0, -0.5, "row 0 of f1 is not a gate: on bits it must be 0 or 1"),
        ("f0.W2", (0, 1), 1.0, "f0 is not a layer of gates"),
        ("f0.W1", (0, 3), 1.0, "f0 is not a layer of gates"),
        ("out.b", 0, -0.5, "out must be z ↦ 2z - 1"),
        ("out.W", (0, 0), 1.0, "out must be z ↦ 2z - 1"),
    ],
)
def test_networks_that_are_not_what_the_proof_needs_get_no_certificate(ladder, name, place, value, message):
    with pytest.raises(KroghError, match=message):
        certify_circuit(broken(ladder, name, place, value))


def test_what_else_is_refused(ladder):
    parameters = ladder(4, 3)
    with pytest.raises(KroghError, match="a network ends with"):
        certify_circuit({"f0.W1": parameters["f0.W1"]})
    with pytest.raises(KroghError, match="numbered from 0; 1 are not"):
        certify_circuit(parameters | {"g0.W": np.ones(1)})
    with pytest.raises(KroghError, match=r"bits of the shape \(batch, 4\); got \(1, 3\)"):
        certify_circuit(parameters, np.ones((1, 3)))
    with pytest.raises(KroghError, match="bits"):
        certify_circuit(parameters, np.full((1, 4), 0.5))
    unrounded = dict(parameters)
    for part, value in (("V1", 0.0), ("c1", 0.0), ("V2", 0.0)):
        unrounded[f"z0.{part}"] = value * unrounded[f"z0.{part}"]
    with pytest.raises(KroghError, match="z0 does not round all that f0 returns"):
        certify_circuit(unrounded)


def test_large_sparse_circuits_are_certified():
    circuit = random_circuit(32, 300, 5, 1)
    found = certify_circuit(compile_circuit(circuit))
    assert 1e-5 < found.theorem.value < found.refined < 1e-1
