"""Networks written by hand: programs compiled to weights, each with what it must compute and a check for it.

What lives here: ReLU networks as sparse layers (`networks`, `network_files`), rounding (`rounding`), and circuits:
`compile_circuit` (`circuits`), a proof unit by unit (`gate_tables`) and a check on inputs (`circuit_checks`).

What does not: what is compiled (`krogh.tasks.circuits`), and how robust the weights are (`krogh.theory.all_layer`).
"""

from krogh.theory.compilers.circuit_checks import Check, check_circuit
from krogh.theory.compilers.circuits import CompiledCircuit, compile_circuit
from krogh.theory.compilers.networks import (
    Affine,
    Module,
    ReluNetwork,
    circuit_output,
    dense_parameters,
)
from krogh.theory.compilers.rounding import rounded, rounding_layers

__all__ = [
    "Affine",
    "Check",
    "CompiledCircuit",
    "Module",
    "ReluNetwork",
    "check_circuit",
    "circuit_output",
    "compile_circuit",
    "dense_parameters",
    "rounded",
    "rounding_layers",
]
