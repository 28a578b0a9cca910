"""Predictions of statistically meaningful approximation, as they are asked for by name."""

from __future__ import annotations

import math

import numpy as np
import pytest

from krogh.errors import KroghError
from krogh.networks.circuits import compile_circuit
from krogh.networks.machines.compiled import compile_machine
from krogh.networks.margins.circuits import certify_circuit
from krogh.networks.margins.machines import certify_machine
from krogh.networks.margins.worst_cases import circuit_samples, machine_samples
from krogh.programs.circuits.generators import and_ladder, random_circuit
from krogh.programs.machines.library import load_machine
from krogh.theory import predict
from krogh.theory.programs.samples import n_SM, sm_samples


def test_proposition_2_2():
    found = predict("approximation/surrogate-risk", epsilon=0.02, samples=10_000)
    assert found["loss"] == pytest.approx(5 * 0.02 + 2 * math.sqrt(5.298 / 10_000), abs=2e-6)
    surer = predict("approximation/surrogate-risk", epsilon=0.02, samples=10_000, failure=1e-6)
    assert surer["confidence_term"] == pytest.approx(2 * math.sqrt(math.log(2e6) / 1e4))


def test_lemma_2_3():
    assert n_SM(0.1, 5334, 8.7e-5, 832_000) == pytest.approx((5334**2 * math.log(832_000) / 8.7e-5**2 + 1) / 0.01)
    found = sm_samples(0.1, 3.0, 0.5, 1000)
    assert found["complexity"] == pytest.approx(36 * math.log(1000))
    assert found["samples"] == pytest.approx(100 * (found["complexity"] + 1))
    assert found["log_covering"] == math.floor(100 * found["complexity"])
    wider = sm_samples(0.1, 3.0, 0.5, 1000**2)
    assert wider["complexity"] == pytest.approx(2 * found["complexity"]), "the square of the parameters costs twice"
    complexity = predict("approximation/rademacher", samples=10**6, one_norm=3.0, margin=0.5, parameters=1000)
    assert complexity["complexity"] == pytest.approx(6 * math.log(10**6) * math.sqrt(math.log(1000)) / 1000)


def test_corollary_a_1():
    margins = (0.5, 0.25, 0.125, 1.0)
    found = predict("approximation/margin-generalisation", one_norm=2.0, parameters=50, margins=margins)
    mean = np.sqrt(np.mean(1 / np.square(margins)))
    assert found["margin_term"] == pytest.approx(2 * math.sqrt(math.log(50)) / 2 * mean)
    assert found["low_order_term"] == pytest.approx((math.log(100) + math.log(4)) / 4)
    printed = predict(
        "approximation/margin-generalisation", one_norm=2.0, parameters=50, margins=margins, variant="printed"
    )
    assert printed["low_order_term"] == pytest.approx((math.log(100) + math.log(4)) / 2)
    assert printed["margin_term"] == found["margin_term"] < found["least_margin"]


def test_theorem_d_6(prediction_settings):
    given = prediction_settings["approximation/corrected-margin"]
    found = predict("approximation/corrected-margin", **given)
    assert found["binding"] == "σζ/(4λμκξ)" and found["margin"] == pytest.approx(2.724e-3, rel=1e-3)
    assert found["terms"]["σh/(2κξλ)"] is None and len(found["terms"]) == 9
    close = predict("approximation/corrected-margin", **given, sigma_h=1e-3)
    assert close["binding"] == "σh/(2κξλ)"


@pytest.mark.parametrize("seed", range(3))
def test_circuit_numbers_bound_those_of_compiled_circuits(seed):
    circuit = random_circuit(5, 8, 6, seed)
    compiled = compile_circuit(circuit)
    fan = max(
        int(np.bincount(np.concatenate([layer.first, layer.second[layer.kinds >= 2]])).max())
        for layer in circuit.layers
    )
    settings = {"inputs": 5, "depth": circuit.q, "width": circuit.r, "size": circuit.s}
    found, worst = circuit_samples(**settings, fan_out=fan), circuit_samples(**settings)
    assert compiled.network.one_norm <= found["one_norm"] and compiled.network.depth == found["hidden_layers"]
    assert worst["margin"] <= found["margin"] <= certify_circuit(compiled).theorem.value
    padded = compile_circuit(circuit, width=2 * circuit.r)
    assert padded.sizes().parameters == found["parameters"]


def test_the_margin_of_circuits_falls_with_the_width_and_with_the_fan_out():
    ladder = circuit_samples(inputs=6, depth=5, width=6, size=25, fan_out=2)
    assert ladder["margin"] == pytest.approx(certify_circuit(compile_circuit(and_ladder(6, 5))).theorem.value, rel=1e-6)
    margins = {
        (r, fan): circuit_samples(inputs=8, depth=5, width=r, size=30, fan_out=fan)["margin"]
        for r in (64, 256)
        for fan in (2, 32)
    }
    assert margins[64, 2] / margins[256, 2] == pytest.approx(2, rel=0.01), "1/√r"
    assert margins[64, 2] / margins[64, 32] == pytest.approx(4, rel=0.02), "1/√fan_out"
    wide = circuit_samples(inputs=6, depth=5, width=6, size=25, fan_out=2, network_width=64 * 6)
    assert wide["samples"] < 2 * ladder["samples"] and wide["vc_samples"] > 500 * ladder["vc_samples"]


@pytest.mark.parametrize("name", ["palindrome", "parity", "counter"])
def test_machine_numbers_bound_those_of_compiled_machines(name):
    machine = load_machine(name)
    compiled = compile_machine(machine, 40)
    found = machine_samples(len(machine.states), len(machine.alphabet), 40, tape=machine.tape)
    assert (found["width"], found["layers"]) == (compiled.width, compiled.depth)
    assert found["parameters"] == compiled.parameter_count and compiled.one_norm <= found["one_norm"]
    certificate = certify_machine(compiled)
    assert found["margin"] <= certificate.theorem.value and found["margin_refined"] <= certificate.refined


def test_samples_grow_polylogarithmically_with_time_while_others_grow_linearly():
    short, long = (machine_samples(9, 3, 2**k, tape="one-way") for k in (4, 16))
    assert short["samples"] / 100 == pytest.approx(5.0e16, rel=0.1), "per 1/ε² = 100"
    assert 500 < long["samples"] / short["samples"] < 10**4
    linear = [predict("approximation/linear-time", steps=2**k)["samples"] for k in (4, 16)]
    assert linear[1] / linear[0] == 4096
    floors = [predict("approximation/transformer-vc", width=96, steps=2**k)["vc_floor"] for k in (4, 16)]
    assert floors[1] / floors[0] == 4096


def test_comparators():
    vc = predict("approximation/feedforward-vc", parameters=1000, layers=5, epsilon=0.5)
    assert vc["vc_dimension"] == pytest.approx(5000 * math.log(1000)) and vc["samples"] == 4 * vc["vc_dimension"]
    product = predict("approximation/norm-product", norms=(2.0, 3.0), repeats=2, epsilon=0.1)
    assert product["product"] == pytest.approx(36) and product["samples"] == pytest.approx(36**2 * 100)
    large = predict("approximation/norm-product", norms=(2.0,), repeats=10_000)
    assert large["product"] is None and large["log10_product"] == pytest.approx(10_000 * math.log10(2))


def test_the_toy_chain():
    found = predict("approximation/toy-chain", depth=16)
    assert found["plain"] == pytest.approx(0.1696, abs=5e-5) and found["plain"] < found["plain_source"] == 0.75
    assert found["rounded"] == pytest.approx(0.4907, abs=5e-5) and found["rounded"] >= found["rounded_source"] == 1 / 3
    assert found["rounded_free"] == pytest.approx(0.07758, abs=5e-6)
    assert predict("approximation/toy-chain", depth=1)["plain"] == 0.5


CIRCUIT = {"inputs": 2, "depth": 3, "width": 4, "size": 9}


@pytest.mark.parametrize(
    ("name", "changed", "message"),
    [
        ("sample-size", {"epsilon": 0}, "eps must be a number"),
        ("sample-size", {"margin": -1.0}, "gamma must be a number"),
        ("surrogate-risk", {"failure": 1.0}, "failure must be a number strictly"),
        ("margin-generalisation", {"margins": "0.1,0"}, "margins are positive numbers, one per sample"),
        ("margin-generalisation", {"margins": ()}, "margins are positive numbers, one per sample"),
        ("circuits", CIRCUIT | {"width": 1}, "width must be an integer at least 2"),
        ("circuits", CIRCUIT | {"size": 13}, "size must be an integer between 4 and 12"),
        ("circuits", CIRCUIT | {"network_width": 7}, "network_width must be an integer at least 8"),
        ("circuits", CIRCUIT | {"fan_out": 9}, "fan_out must be an integer between 1 and 8"),
        ("machines", {"states": 0}, "states must be an integer at least 1"),
        ("norm-product", {"norms": "1,-2"}, "a norm must be a number greater than 0"),
        ("toy-chain", {"depth": 0}, "depth must be an integer at least 1"),
        ("corrected-margin", {"sigma_zeta": 1.5}, "sigma_zeta must be below 1"),
    ],
)
def test_bad_settings(name, changed, message, prediction_settings):
    with pytest.raises(KroghError, match=message):
        predict(f"approximation/{name}", **(prediction_settings[f"approximation/{name}"] | changed))
