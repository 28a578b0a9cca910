"""The generic network with corrections, and layer-based weight sharing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.typing import ArrayLike, NDArray

from krogh.errors import KroghError
from krogh.networks.margins.attack import Effort, attack
from krogh.networks.margins.corrected import (
    CorrectedNetwork,
    SharedNetwork,
    WeightSharing,
)
from krogh.theory.numerics import double_precision


def own_parameters(layers: Sequence[Mapping[str, ArrayLike]]) -> tuple[WeightSharing, NDArray[np.float64]]:
    """The sharing that shares nothing, and the vector of all parameters of `layers` one after the other."""
    indices, start, values = [], 0, [np.zeros(0)]
    for layer in layers:
        own = {}
        for name, array in layer.items():
            value = np.asarray(array, np.float64)
            own[name] = np.arange(start, start + value.size).reshape(value.shape)
            start += value.size
            values.append(value.ravel())
        indices.append(own)
    return WeightSharing(start, tuple(indices)), np.concatenate(values)


def corrected_circuit(
    parameters: Mapping[str, Any],
) -> tuple[CorrectedNetwork, tuple[dict[str, Any], ...], tuple[dict[str, Any], ...]]:
    """A compiled circuit as (D.1), with θ and ξ: f_i is its gate module i, ζ_i the rounding after it, f_d the end.

    `parameters` are those of `krogh.networks.relu.dense_parameters`; where a module has no rounding, ζ_i is the
    identity. Inputs and values are vectors [m] and [r_i], the output is [outputs].
    """
    count = sum(name.endswith(".W1") for name in parameters)
    passed = sum(name.startswith("p") and name.endswith(".W") for name in parameters)

    def own(*names: str) -> dict[str, Any]:
        return {name: parameters[name] for name in names}

    def two_layers(prefix: str, weight: str, bias: str) -> Any:
        names = [f"{prefix}.{letter}{k}" for k in (1, 2) for letter in (weight, bias)]

        def module(h: Any, p: Any) -> Any:
            return jax.nn.relu(p[names[2]] @ jax.nn.relu(p[names[0]] @ h + p[names[1]]) + p[names[3]])

        return module

    def end(h: tuple[Any, ...], p: Any) -> Any:
        value = h[-1]
        for place in range(passed):
            value = jax.nn.relu(p[f"p{place}.W"] @ value + p[f"p{place}.b"])
        return p["out.W"] @ value + p["out.b"]

    gates = [two_layers(f"f{place}", "W", "b") for place in range(count)]
    rounded = [f"z{place}.V1" in parameters for place in range(count)]
    later = [_reads_last(gate) for gate in gates[1:]]
    corrections = tuple(two_layers(f"z{place}", "V", "c") if rounded[place] else None for place in range(count))
    last = own("out.W", "out.b", *(f"p{place}.{part}" for place in range(passed) for part in ("W", "b")))
    theta = [own(*(f"f{place}.{part}" for part in ("W1", "b1", "W2", "b2"))) for place in range(count)]
    xi = [own(*(f"z{place}.{part}" for part in ("V1", "c1", "V2", "c2") if rounded[place])) for place in range(count)]
    return CorrectedNetwork(gates[0], (*later, end), corrections), (*theta, last), tuple(xi)


def _reads_last(module: Any) -> Any:
    return lambda h, p: module(h[-1], p)


def doubled():
    """f_0 = w x, f_1 = w h_0, f_2 = w (h_0 + h_1), corrections h ↦ g + c."""
    return CorrectedNetwork(
        lambda x, p: p["w"] * x,
        (lambda h, p: p["w"] * h[-1], lambda h, p: p["w"] * (h[0] + h[1])),
        (lambda g, p: g + p["c"], lambda g, p: g + p["c"]),
    )


def test_the_recursion_corrects_what_a_module_returns_and_later_modules_read_all_before():
    theta = [{"w": 2.0}, {"w": 3.0}, {"w": 5.0}]
    xi = [{"c": 0.5}, {"c": 0.25}]
    found = doubled().run(1.0, theta, xi)
    # g0 = 2, h0 = 2.5, g1 = 7.5, h1 = 7.75, g2 = 5·(2.5 + 7.75)
    assert found.before == (2.0, 7.5, 51.25) and found.after == (2.5, 7.75)
    assert found.output == 51.25 == doubled().output(1.0, theta, xi)


def test_no_correction_is_the_identity():
    plain = CorrectedNetwork(lambda x, p: x + p["b"], (lambda h, p: h[-1] * p["w"],), (None,))
    assert plain.output(1.0, [{"b": 1.0}, {"w": 4.0}], [{}]) == 8.0 and plain.depth == 1


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: CorrectedNetwork(lambda x, p: x, (lambda h, p: h[-1],), ()), "2 modules need 1 corrections; got 0"),
        (lambda: doubled().run(1.0, [{}, {}], [{}, {}]), "theta must have 3 dicts of parameters; got 2"),
        (lambda: doubled().run(1.0, [{}, {}, {}], [{}]), "xi must have 2 dicts of parameters; got 1"),
        (
            lambda: WeightSharing(3, ({"w": np.array([0, 1]), "b": np.array([1])},)),
            r"layer 0 uses the shared parameter 1 more than once \(in w, b\).*Definition D.5",
        ),
        (lambda: WeightSharing(3, ({"w": np.array([[0, 1], [2, 0]])},)), "shared parameter 0 more than once"),
        (lambda: WeightSharing(2, ({}, {"w": np.array([2])})), "layer 1 refers outside the 2 shared parameters"),
        (lambda: WeightSharing(2, ({"w": np.array([-1])},)), "refers outside"),
        (
            lambda: SharedNetwork(doubled(), WeightSharing(2, ()), WeightSharing(3, ())),
            r"share one vector; got the sizes \(2, 3\)",
        ),
    ],
)
def test_what_is_refused(call, message):
    with pytest.raises(KroghError, match=message):
        call()


def test_shared_weights_move_once_and_in_every_layer():
    """Three layers with the same w: F = w³ - 1/2; its margin is 1 - 2^(-1/3), and √3 times that for three numbers."""
    chain = CorrectedNetwork(
        lambda x, p: p["w"] * x, (lambda h, p: p["w"] * h[-1], lambda h, p: p["w"] * h[-1] - 0.5), (None, None)
    )
    layers = tuple({"w": np.array(0)} for _ in range(3))
    shared = SharedNetwork(chain, WeightSharing(1, layers), WeightSharing(1, ({}, {})))
    found = attack(shared.output, {"shared": np.ones(1)}, 1.0, 1, effort=Effort(2, 2))
    assert found.radius == pytest.approx(1 - 2 ** (-1 / 3), rel=1e-6)
    own, values = own_parameters([{"w": np.array(1.0)}] * 3)
    assert values.tolist() == [1.0, 1.0, 1.0] and [int(layer["w"]) for layer in own.layers] == [0, 1, 2]
    apart = SharedNetwork(chain, own, WeightSharing(3, ({}, {})))
    found = attack(apart.output, {"shared": values}, 1.0, 1, effort=Effort(2, 40))
    assert found.radius == pytest.approx(np.sqrt(3) * (1 - 2 ** (-1 / 3)), rel=1e-3)


def test_the_gradient_of_a_shared_weight_is_the_sum_over_its_layers():
    with double_precision():
        chain = CorrectedNetwork(lambda x, p: p["w"] * x, (lambda h, p: p["w"] * h[-1],), (lambda g, p: g + p["c"],))
        network = SharedNetwork(
            chain,
            WeightSharing(2, ({"w": np.array(0)}, {"w": np.array(0)})),
            WeightSharing(2, ({"c": np.array(1)},)),
        )
        slope = jax.grad(lambda v: network.output({"shared": v}, 1.0))(jnp.array([2.0, 3.0]))
    assert slope.tolist() == [2 * 2.0 + 3.0, 2.0], "F = w(w + c)"


@pytest.mark.parametrize("correction", [True, False])
def test_a_compiled_circuit_is_such_a_network(ladder, network, correction):
    parameters = ladder(5, 4, correction)
    generic, theta, xi = corrected_circuit(parameters)
    assert generic.depth == 3 and len(theta) == 4 and len(xi) == 3
    rng = np.random.default_rng(0)
    with double_precision():
        for _ in range(2):
            moved = {name: value + 0.1 * rng.normal(size=value.shape) for name, value in parameters.items()}
            x = rng.normal(size=5)
            generic, theta, xi = corrected_circuit(moved)
            assert float(generic.output(x, theta, xi)[0]) == pytest.approx(float(network(moved, x)), abs=1e-12)


def test_corrections_restore_what_is_within_their_radius(ladder):
    parameters = ladder(6, 4)
    generic, theta, xi = corrected_circuit(parameters)
    rng = np.random.default_rng(3)
    with double_precision():
        true = generic.run(np.ones(6), theta, xi)
        for g, h, correction, weights in zip(true.before, true.after, generic.corrections, xi, strict=False):
            off = rng.uniform(-1, 1, size=g.shape)
            off /= 3.0000001 * np.abs(off).max()
            np.testing.assert_allclose(correction(g + off, weights), h, atol=1e-14)
            np.testing.assert_array_equal(np.round(h, 12), np.round(g, 12))


def test_layers_that_hand_on_belong_to_the_last_module(ladder, network):
    parameters = ladder(4, 3)
    passed = parameters | {"p0.W": np.eye(1), "p0.b": np.zeros(1)}
    for name in ("out.W", "out.b"):
        passed[name] = passed.pop(name)
    generic, theta, xi = corrected_circuit(passed)
    assert set(theta[-1]) == {"out.W", "out.b", "p0.W", "p0.b"}
    with double_precision():
        assert float(generic.output(np.ones(4), theta, xi)[0]) == float(network(parameters, np.ones(4))) == 1.0
