"""Networks written by hand: programs compiled to weights, each with what it must compute and a check for it.

    circuits    `compile_circuit` (`circuits`, on `networks`, `affine`, `rounding`), a proof unit by unit
                (`gate_tables`), a check on inputs (`circuit_checks`), files (`network_files`)
    machines    `compile_machine` (`machines`, on `machine_layout`, `machine_layers`, `machine_adders`), the
                architecture for any weights (`transformer`), running by lookup (`machine_running`,
                `machine_lookup`, `machine_memory`), checks step by step against the interpreter (`machine_checks`),
                files (`machine_files`)
    automata    `compile_automaton`, a recurrent network (`automata`), `compile_counting`, one pass of attention
                (`counting`), checks (`automaton_checks`), files (`automaton_files`), outputs for margins
                (`automaton_margins`)

What does not live here: what is compiled (`krogh.tasks.{circuits, machines, automata}`), and how robust the weights are
(`krogh.theory.all_layer`).
"""

from krogh.theory.compilers.automata import CompiledAutomaton, compile_automaton
from krogh.theory.compilers.automaton_checks import check_automaton
from krogh.theory.compilers.circuit_checks import Check, check_circuit
from krogh.theory.compilers.circuits import CompiledCircuit, compile_circuit
from krogh.theory.compilers.counting import CompiledCounting, compile_counting
from krogh.theory.compilers.machine_checks import MachineCheck, TraceRow, check_machine, side_by_side
from krogh.theory.compilers.machine_files import load_machine_weights, save_machine_weights
from krogh.theory.compilers.machine_running import MachineRun, machine_hidden, machine_output, run_machine
from krogh.theory.compilers.machines import CompiledMachine, compile_machine
from krogh.theory.compilers.networks import Affine, Module, ReluNetwork, circuit_output, dense_parameters
from krogh.theory.compilers.rounding import rounded, rounding_layers
from krogh.theory.compilers.transformer import run_transformer

__all__ = [
    "Affine",
    "Check",
    "CompiledAutomaton",
    "CompiledCircuit",
    "CompiledCounting",
    "CompiledMachine",
    "MachineCheck",
    "MachineRun",
    "Module",
    "ReluNetwork",
    "TraceRow",
    "check_automaton",
    "check_circuit",
    "check_machine",
    "circuit_output",
    "compile_automaton",
    "compile_circuit",
    "compile_counting",
    "compile_machine",
    "dense_parameters",
    "load_machine_weights",
    "machine_hidden",
    "machine_output",
    "rounded",
    "rounding_layers",
    "run_machine",
    "run_transformer",
    "save_machine_weights",
    "side_by_side",
]
