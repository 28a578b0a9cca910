"""Both bounds on the all-layer margin of a compiled network, from below by certificate and from above by attack.

The output of a compiled circuit as a loop over its modules: the same function as `circuit_output`, compiled faster.

Modules that follow each other and have the same shapes run as one `lax.scan`, so that a circuit of a hundred layers is
compiled in the time of a few. Searching for perturbations is otherwise spent mostly on compilation.

Compiled networks as the attack takes them: a pure function of a dict of arrays and of one input.

`subject_of` gives the output function of a compiled circuit (of one of its outputs), machine, automaton or counting
network, its parameters as dense arrays, and its inputs as arrays: bits, words of the machine's alphabet, or symbol
numbers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import groupby
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from krogh.errors import KroghError, require, require_integer
from krogh.networks.automata import CompiledAutomaton, automaton_output
from krogh.networks.circuits import CompiledCircuit
from krogh.networks.counting import CompiledCounting, counting_output
from krogh.networks.machines.compiled import CompiledMachine
from krogh.networks.machines.running import classify, run_machine, run_transformer
from krogh.networks.margins.attack import Attack, attack
from krogh.networks.margins.automata import certify_automaton, certify_counting
from krogh.networks.margins.circuits import certify_circuit
from krogh.networks.margins.layers import Sizes, network_sizes
from krogh.networks.margins.machines import certify_machine
from krogh.networks.margins.search import Scan
from krogh.networks.relu import dense_parameters
from krogh.theory.programs.margin import Output, Parameters
from krogh.theory.programs.theorem import Certificate

_GATES, _ROUND = ("W1", "b1", "W2", "b2"), ("V1", "c1", "V2", "c2")
_FEWEST = 3
"""Modules that are worth a loop."""


def scanned_output(parameters: Mapping[str, Any], x: Any) -> jax.Array:
    """F(x) [outputs] for one input [m], of parameters by the names of `dense_parameters`, whatever their values."""
    modules, place = [], 0
    while f"f{place}.W1" in parameters:
        names = [f"f{place}.{name}" for name in _GATES]
        names += [f"z{place}.{name}" for name in _ROUND if f"z{place}.{name}" in parameters]
        modules.append(tuple(jnp.asarray(parameters[name]) for name in names))
        place += 1
    place = 0
    while f"p{place}.W" in parameters:
        modules.append((jnp.asarray(parameters[f"p{place}.W"]), jnp.asarray(parameters[f"p{place}.b"])))
        place += 1
    last = jnp.asarray(parameters["out.W"])
    h = jnp.asarray(x, last.dtype)
    for _, group in groupby(modules, key=lambda module: tuple(array.shape for array in module)):
        alike = list(group)
        # a loop carries one vector, so it can only run where a module returns as many numbers as it reads
        if len(alike) >= _FEWEST and alike[0][-1].shape[0] == alike[0][0].shape[1]:
            stacked = tuple(jnp.stack(arrays) for arrays in zip(*alike, strict=True))
            h, _ = jax.lax.scan(lambda h, module: (_run(module, h), None), h, stacked)
        else:
            for module in alike:
                h = _run(module, h)
    return last @ h + jnp.asarray(parameters["out.b"])


def _run(module: tuple[jax.Array, ...], h: jax.Array) -> jax.Array:
    for weight, bias in zip(module[::2], module[1::2], strict=True):
        h = jax.nn.relu(weight @ h + bias)
    return h


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


@dataclass(frozen=True, eq=False)
class MarginReport:
    """`lower` ≤ min over the inputs of the all-layer margin ≤ `upper`.

    `certificate` proves the first, `attacks`, one per input, the second; `hardest` is the number of the input whose
    attack was smallest. `labels` are those that the network gives the inputs.
    """

    lower: float
    upper: float
    hardest: int
    labels: tuple[int, ...]
    certificate: Certificate
    attacks: tuple[Attack, ...]
    sizes: Sizes

    @property
    def ratio(self) -> float:
        """upper/lower: how much the two leave open."""
        return self.upper / self.lower if self.lower > 0 else float("inf")


def margin_report(
    network: Compiled,
    inputs: Any,
    *,
    output: int = 0,
    restarts: int = 12,
    refinements: int = 60,
    projections: int = 12,
    scan: Scan = Scan(),
    seed: int = 0,
) -> MarginReport:
    """Certificate, attacks and sizes of a compiled circuit, machine, automaton or counting network on the inputs given.

    `inputs` are bits [batch, m], words of a machine, or symbol numbers [batch, length]; `output` is that of a circuit.
    The attack moves all parameters as dense arrays: a machine has some 10^6, and wants fewer restarts and refinements.
    """
    subject = subject_of(network, inputs, output)
    certificate = certify(network, inputs)
    attacks = tuple(
        attack(
            subject.output,
            subject.parameters,
            x,
            y,
            restarts=restarts,
            refinements=refinements,
            projections=projections,
            scan=scan,
            seed=seed + place,
        )
        for place, (x, y) in enumerate(zip(subject.inputs, subject.labels, strict=True))
    )
    hardest = min(range(len(attacks)), key=lambda place: attacks[place].radius)
    return MarginReport(
        certificate.value,
        attacks[hardest].radius,
        hardest,
        subject.labels,
        certificate,
        attacks,
        sizes_of(network, inputs),
    )
