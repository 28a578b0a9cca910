"""The output of a circuit as a loop over its modules."""

from __future__ import annotations

import jax
import numpy as np
import pytest

from krogh.networks.circuits import compile_circuit
from krogh.networks.relu import circuit_output, dense_parameters
from krogh.programs.circuits.generators import and_ladder
from krogh.theory.numerics import double_precision

CASES = {
    "same shapes": (and_ladder(3, 6), None),
    "handed on": (and_ladder(3, 3), 14),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_it_is_the_same_function_and_has_the_same_gradient(name, network):
    circuit, depth = CASES[name]
    compiled = compile_circuit(circuit, depth=depth)
    rng = np.random.default_rng(0)
    exact = dense_parameters(compiled.network)
    moved = {k: v + 0.05 * rng.normal(size=v.shape) for k, v in exact.items()}
    x = rng.integers(0, 2, compiled.circuit.inputs).astype(float)
    with double_precision():
        looped, plain = (
            jax.jit(jax.value_and_grad(f), compiler_options={"xla_backend_optimization_level": 0})
            for f in (lambda p: circuit_output(p, x)[0], lambda p: network(p, x))
        )
        for parameters in (exact, moved):
            (found, slope), (expected, slopes) = looped(parameters), plain(parameters)
            np.testing.assert_allclose(found, expected, atol=1e-12)
            for key in parameters:
                np.testing.assert_allclose(slope[key], slopes[key], atol=1e-12)
        assert looped(exact)[0] == compiled.run(x[None])[0, 0]
        batch = rng.integers(0, 2, (5, compiled.circuit.inputs)).astype(float)
        np.testing.assert_array_equal(circuit_output(exact, batch), compiled.run(batch))


def test_modules_alike_are_compiled_once():
    def length(q):
        parameters = dense_parameters(compile_circuit(and_ladder(4, q)).network)
        program = jax.make_jaxpr(lambda p: circuit_output(p, np.ones(4, np.float32)))(parameters)
        return len(str(program).split("dot_general"))

    assert length(9) == length(17)
