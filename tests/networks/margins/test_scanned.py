"""The output of a circuit as a loop over its modules."""

from __future__ import annotations

import jax
import numpy as np
import pytest

from krogh.networks.circuits import compile_circuit
from krogh.networks.margins.report import scanned_output
from krogh.networks.relu import circuit_output, dense_parameters
from krogh.programs.circuits.generators import and_ladder
from krogh.theory.numerics import double_precision

CASES = {
    "same shapes": (and_ladder(3, 6), None),
    "handed on": (and_ladder(3, 3), 14),
}


@pytest.mark.parametrize("name", CASES)
def test_it_is_the_same_function_and_has_the_same_gradient(name):
    circuit, depth = CASES[name]
    compiled = compile_circuit(circuit, depth=depth)
    rng = np.random.default_rng(0)
    exact = dense_parameters(compiled.network)
    moved = {k: v + 0.05 * rng.normal(size=v.shape) for k, v in exact.items()}
    x = rng.integers(0, 2, compiled.circuit.inputs).astype(float)
    with double_precision():
        slopes = [
            jax.jit(jax.value_and_grad(f), compiler_options={"xla_backend_optimization_level": 0})
            for f in (lambda p: scanned_output(p, x).sum(), lambda p: circuit_output(p, x[None]).sum())
        ]
        for parameters in (exact, moved):
            (found, slope), (wanted, expected) = (program(parameters) for program in slopes)
            np.testing.assert_allclose(found, wanted, atol=1e-12)
            for key in parameters:
                np.testing.assert_allclose(slope[key], expected[key], atol=1e-12)
        assert slopes[0](exact)[0] == compiled.run(x[None]).sum()


def test_modules_alike_are_compiled_once():
    def length(q):
        parameters = dense_parameters(compile_circuit(and_ladder(4, q)).network)
        return len(
            str(jax.make_jaxpr(lambda p: scanned_output(p, np.ones(4, np.float32)))(parameters)).split("dot_general")
        )

    assert length(9) == length(17)
