"""Compiled networks as the attack takes them: a pure function of a dict of arrays and of one input.

`subject_of` gives the output function of a compiled circuit (of one of its outputs), machine, automaton or counting
network, its parameters as dense arrays, and its inputs as arrays: bits, words of the machine's alphabet, or symbol
numbers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import jax.numpy as jnp
import numpy as np

from krogh.errors import KroghError, require, require_integer
from krogh.theory.all_layer.automaton_certificates import certify_automaton, certify_counting
from krogh.theory.all_layer.certificates import Certificate
from krogh.theory.all_layer.circuit_certificates import certify_circuit
from krogh.theory.all_layer.definition import Output, Parameters
from krogh.theory.all_layer.machine_certificates import certify_machine
from krogh.theory.all_layer.scanned import scanned_output
from krogh.theory.all_layer.sizes import Sizes, network_sizes
from krogh.theory.compilers.automata import CompiledAutomaton, automaton_output
from krogh.theory.compilers.circuits import CompiledCircuit
from krogh.theory.compilers.counting import CompiledCounting, counting_output
from krogh.theory.compilers.machine_running import run_machine
from krogh.theory.compilers.machines import CompiledMachine
from krogh.theory.compilers.networks import dense_parameters
from krogh.theory.compilers.transformer import classify, run_transformer

Compiled = CompiledCircuit | CompiledMachine | CompiledAutomaton | CompiledCounting


@dataclass(frozen=True, eq=False)
class Subject:
    """`output(parameters, x)` for x in `inputs`, with the `labels` 0 or 1 that the network gives them."""

    output: Output
    parameters: Parameters
    inputs: tuple[Any, ...]
    labels: tuple[int, ...]


def subject_of(network: Compiled, inputs: Any, output: int = 0) -> Subject:
    """The network and its inputs as `attack` and `trial_perturbations` take them; `output` is the number of an output.

    `inputs` are bits [batch, m] of a circuit, a list of words of a machine, or symbol numbers [batch, length].
    """
    if isinstance(network, CompiledCircuit):
        require_integer("output", output, 0, network.network.outputs - 1)
        function, parameters = _circuit_function(output), dense_parameters(network.network)
        rows: Sequence[Any] = list(np.atleast_2d(np.asarray(inputs, np.float64)))
        values = network.run(np.array(rows))[:, output]
    elif isinstance(network, CompiledMachine):
        function, parameters = machine_function(network), _float64(network.dense_parameters())
        require(not isinstance(inputs, str), f"give a list of words; got {inputs!r} (try [{inputs!r}])")
        rows = [network.tokens([word]) for word in inputs]
        values = run_machine(network, inputs).output
    elif isinstance(network, CompiledAutomaton | CompiledCounting):
        function = _automaton_function if isinstance(network, CompiledAutomaton) else _counting_function
        parameters, rows = network.dense_parameters(), list(np.atleast_2d(np.asarray(inputs, np.int32)))
        values = network.run(np.array(rows))
    else:
        raise KroghError(
            "margins are known of compiled circuits, machines, automata and counting networks; got a "
            f"{type(network).__name__}"
        )
    labels = tuple(_label(float(value), place) for place, value in enumerate(values))
    return Subject(function, parameters, tuple(rows), labels)


def certify(network: Compiled, inputs: Any = None) -> Certificate:
    """The certificate of a compiled network: of a circuit for the `inputs` given, else for all that it is for."""
    if isinstance(network, CompiledMachine):
        return certify_machine(network)
    if isinstance(network, CompiledAutomaton):
        length = None if inputs is None else np.atleast_2d(np.asarray(inputs)).shape[1]
        return certify_automaton(network, length)
    if isinstance(network, CompiledCounting):
        return certify_counting(network)
    return certify_circuit(network, None if inputs is None else np.atleast_2d(np.asarray(inputs, np.float64)))


def sizes_of(network: Compiled, inputs: Any = None) -> Sizes:
    """The sizes of a compiled network; those of an automaton depend on the length of words."""
    recurrent = isinstance(network, CompiledAutomaton) and inputs is not None
    return network_sizes(network, np.atleast_2d(np.asarray(inputs)).shape[1] if recurrent else None)


@lru_cache(maxsize=16)
def machine_function(compiled: CompiledMachine) -> Output:
    """cls·o_{T'} as a function of the parameters and of (tokens [1, m], lengths [1])."""

    def output(parameters: dict[str, Any], x: Any) -> Any:
        arrays = {name: jnp.asarray(value) for name, value in parameters.items()}
        tokens, lengths = (jnp.asarray(part) for part in x)
        steps = run_transformer(
            arrays,
            jnp.asarray(compiled.positions),
            tokens,
            lengths,
            compiled.decoder_steps,
            inverse_temperature=compiled.inverse_temperature,
        )
        return classify(arrays, steps.outputs)[0]

    return output


@lru_cache(maxsize=64)
def _circuit_function(place: int) -> Output:
    return lambda parameters, x: scanned_output(parameters, x)[place]


def _automaton_function(parameters: dict[str, Any], x: Any) -> Any:
    return automaton_output(parameters, jnp.asarray(x)[None, :])[0]


def _counting_function(parameters: dict[str, Any], x: Any) -> Any:
    return counting_output(parameters, jnp.asarray(x)[None, :])[0]


def _float64(arrays: Mapping[str, Any]) -> Parameters:
    return {name: np.asarray(array, np.float64) for name, array in arrays.items()}


def _label(value: float, place: int) -> int:
    require(
        abs(abs(value) - 1) <= 1e-6,
        f"the output on input {place} is {value:g}, not ±1, so it has no label (0: a machine that has not halted)",
    )
    return int(value > 0)
