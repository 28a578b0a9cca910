"""Boolean circuits: any, layered, generated, from files, and as functions to learn (SM paper, section 3).

Circuit           gates in any acyclic arrangement; `evaluate` and `truth_table` say what it computes
LayeredCircuit    gates in layers that read the layer before; `layered` makes one of any circuit
generators        parity, addition, comparison, majority, multiplication; the AND-ladder; random circuits
files             a readable text, and AIGER, ASCII and binary; `load_circuit` goes by the suffix
CircuitFunction   a circuit of at most 16 inputs as a task, "circuit"
"""

from krogh.tasks.circuits.aiger import parse_aag, parse_aig, read_aiger, write_aag, write_aig
from krogh.tasks.circuits.builder import CircuitBuilder
from krogh.tasks.circuits.circuit import FALSE, TRUE, Circuit, Gate
from krogh.tasks.circuits.evaluation import all_inputs, evaluate, truth_table
from krogh.tasks.circuits.files import load_circuit, save_circuit
from krogh.tasks.circuits.folding import without_constants
from krogh.tasks.circuits.function import CircuitFunction, circuit_function
from krogh.tasks.circuits.generators import (
    adder,
    and_ladder,
    comparator,
    majority,
    multiplier,
    parity_circuit,
    random_circuit,
)
from krogh.tasks.circuits.layers import Layer, LayeredCircuit, layered
from krogh.tasks.circuits.text import parse_circuit, write_circuit

__all__ = [
    "FALSE",
    "TRUE",
    "Circuit",
    "CircuitBuilder",
    "CircuitFunction",
    "Gate",
    "Layer",
    "LayeredCircuit",
    "adder",
    "all_inputs",
    "and_ladder",
    "circuit_function",
    "comparator",
    "evaluate",
    "layered",
    "load_circuit",
    "majority",
    "multiplier",
    "parity_circuit",
    "parse_aag",
    "parse_aig",
    "parse_circuit",
    "random_circuit",
    "read_aiger",
    "save_circuit",
    "truth_table",
    "without_constants",
    "write_aag",
    "write_aig",
    "write_circuit",
]
