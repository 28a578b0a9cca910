"""Descents by gradients: flips of the dense network, never worse than sixty plain steps, done when they should be."""

from __future__ import annotations

import time
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from krogh.networks.automata import compile_automaton
from krogh.networks.circuits import compile_circuit
from krogh.networks.margins.attack import Effort, attack
from krogh.networks.margins.gradients import Start, least_flip
from krogh.networks.margins.report import margin_bounds
from krogh.networks.margins.search import unit_rows
from krogh.networks.relu import circuit_output, dense_parameters
from krogh.programs import circuits
from krogh.programs.automata.regex import from_regex
from krogh.programs.circuits.circuit import Gate
from krogh.programs.circuits.layers import Layer, LayeredCircuit
from krogh.theory.numerics import double_precision
from krogh.theory.programs.margin import flips, perturbation_norm

STEPS = 60
CIRCUITS = {
    "adder": circuits.adder(3),
    "comparator": circuits.comparator(3),
    "random": circuits.random_circuit(6, 10, 8, 3),
    "another": circuits.random_circuit(8, 16, 5, 4),
}


def sixty_gradients(layers: list[np.ndarray], x: np.ndarray, y: int, output: int, stride: float, away: float) -> float:
    """An attack as anyone would write it, on dense [W, b]: normalised steps, then the least share that flips."""
    sign = 2 * y - 1
    random = np.random.default_rng(0)
    delta = [away * random.standard_normal(layer.shape) for layer in layers]

    def passed(change):
        read, h = [], x
        for place, (layer, more) in enumerate(zip(layers, change, strict=True)):
            read.append(np.append(h, 1.0))
            z = (layer + more) @ read[-1]
            h = np.maximum(z, 0) if place < len(layers) - 1 else z
        return read, sign * h[output]

    for _ in range(STEPS):
        read, value = passed(delta)
        if value <= 0:
            break
        g, slopes = sign * np.eye(len(layers[-1]))[output], []
        for place in range(len(layers) - 1, -1, -1):
            slopes.insert(0, np.outer(g, read[place]))
            if place:
                g = ((layers[place] + delta[place]).T @ g)[:-1] * (read[place][:-1] > 0)
        norm = np.sqrt(sum(np.sum(slope**2) for slope in slopes))
        if norm > 0:
            delta = [part - stride * slope / norm for part, slope in zip(delta, slopes, strict=True)]
    if passed(delta)[1] > 0:
        return np.inf
    shares = np.linspace(0, 1, 201)[1:]
    least = next(share for share in shares if passed([share * part for part in delta])[1] <= 0)
    return least * float(np.sqrt(sum(np.sum(part**2) for part in delta)))


@pytest.mark.parametrize("correction", [True, False])
@pytest.mark.parametrize("name", CIRCUITS)
def test_a_reported_bound_is_not_above_what_sixty_gradients_find(name, correction):
    compiled = compile_circuit(CIRCUITS[name], correction=correction)
    bounds = margin_bounds(compiled, seconds=1)
    layers = [np.column_stack([layer.weight.toarray(), layer.bias]) for layer in compiled.network.layers]
    for decision, attacked in zip(compiled.decisions(), bounds.attacked, strict=True):
        x = np.asarray(decision.inputs, float)[0]
        plain = min(
            sixty_gradients(layers, x, attacked.label, decision.output, stride, away)
            for stride in (0.01, 0.05, 0.3)
            for away in (0.0, 0.001, 0.01)
        )
        assert bounds.certificate.value < attacked.upper <= 1.001 * plain


@pytest.mark.slow
def test_nor_is_that_of_a_recurrent_network():
    """By the search, which begins with such steps."""
    compiled = compile_automaton(from_regex("a*"))
    bounds = margin_bounds(compiled, restarts=2, refinements=0)
    (decision, *_), (attacked, *_) = compiled.decisions(), bounds.attacked
    subject = compiled.subject(decision.inputs)
    sign = 2 * subject.labels[0] - 1
    with double_precision():
        slope = jax.jit(jax.value_and_grad(lambda p: sign * jnp.reshape(subject.output(p, subject.inputs[0]), ())))
        moved = {name: jnp.asarray(array) for name, array in subject.parameters.items()}
        for _ in range(STEPS):
            value, found = slope(moved)
            if value <= 0:
                break
            norm = perturbation_norm(found)
            moved = {name: moved[name] - 0.03 * found[name] / norm for name in moved}
        change = {name: np.asarray(array) - subject.parameters[name] for name, array in moved.items()}
        assert value <= 0
    assert attacked.upper <= perturbation_norm(change)


@pytest.mark.parametrize("correction", [True, False])
def test_the_perturbation_flips_the_dense_network_and_has_the_norm(correction):
    compiled = compile_circuit(CIRCUITS["another"], correction=correction)
    x = np.random.default_rng(1).integers(0, 2, 8).astype(float)
    y = int(compiled.run(x[None])[0, 0] > 0)
    first, middle = (4 if correction else 2) * np.array([0, 2])
    for start in (None, Start(int(first), 1, True), Start(int(middle), 0, False)):
        found = least_flip(compiled.network, x, y, starts=[start])
        if start is None:
            assert found.perturbation is not None
        if found.perturbation is None:
            continue
        delta = {name: 1.000001 * array for name, array in found.perturbation.named().items()}
        output = lambda parameters, x: circuit_output(parameters, x)[0]  # noqa: E731
        parameters = dense_parameters(compiled.network)
        assert flips(output, parameters, delta, x, y)
        assert not flips(output, parameters, {name: 0.98 * array for name, array in delta.items()}, x, y)
        assert perturbation_norm(delta) == pytest.approx(found.radius, rel=1e-5) and found.descents == 1


@pytest.mark.parametrize("q", [3, 9])
def test_the_ladder_is_attacked_as_well_as_by_the_search(q):
    """2.7e-2 to 3.0e-2 with correction, whatever the depth (the reference's attack)."""
    places = np.arange(6)
    wide = Layer([Gate.AND] * 6, places, (places + 1) % 6)
    compiled = compile_circuit(LayeredCircuit("ladder", 6, (*[wide] * (q - 2), Layer([Gate.AND], [0], [1])), (0,)))
    found = least_flip(compiled.network, np.ones(6), 1, starts=[Start(0, 0, False), Start(4 * (q - 2), 0, False)])
    assert found.radius <= 3.05e-2 and found.descents == 2


def test_what_is_wrong_to_begin_with_has_no_margin():
    compiled = compile_circuit(CIRCUITS["adder"])
    x = np.zeros(6)
    assert least_flip(compiled.network, x, 0).radius > 0 and least_flip(compiled.network, x, 1).radius == 0


@pytest.mark.slow
def test_a_deadline_holds():
    compiled = compile_circuit(circuits.multiplier(8))
    compiled.certificate()
    certifying = time.monotonic()
    compiled.certificate()
    certifying = time.monotonic() - certifying
    for seconds in (0.5, 2.0):
        begun = time.monotonic()
        margin_bounds(compiled, seconds=seconds)
        taken = time.monotonic() - begun - certifying
        assert taken < 1.2 * seconds + 1.0  # a second for machines that do something else as well


@pytest.mark.slow
def test_a_search_stops_at_its_deadline():
    compiled = compile_circuit(CIRCUITS["adder"])
    subject = compiled.subject(np.ones((1, 6)))
    search = partial(attack, subject.output, subject.parameters, subject.inputs[0], subject.labels[0])
    effort = Effort(3, 2000, 0)
    search(effort=Effort(3, 1, 1))  # what is compiled
    begun = time.monotonic()
    found = search(effort=effort, deadline=begun + 1.0)
    assert time.monotonic() - begun < 4 and np.isfinite(found.radius)


def test_rows_are_scaled_whatever_their_size():
    rows = np.array([[3.0, 4.0], [3e200, -4e200], [3e-200, 4e-200], [0.0, 0.0], [np.inf, 1.0], [np.nan, 1.0]])
    other = np.full((6, 2), 7.0)
    expected = [[0.6, 0.8], [0.6, -0.8], [0.6, 0.8], [7, 7], [7, 7], [7, 7]]
    np.testing.assert_allclose(unit_rows(rows, other), expected, rtol=1e-15)
