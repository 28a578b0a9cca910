"""Boolean circuits: any, layered, generated and from files (SM paper, section 3).

Circuit           gates in any acyclic arrangement; `evaluate` and `truth_table` say what it computes
LayeredCircuit    gates in layers that read the layer before; `layered` makes one of any circuit
generators        parity, addition, comparison, majority, multiplication; the AND-ladder; random circuits
files             a readable text, and AIGER, ASCII and binary; `load_circuit` goes by the suffix
"""

from krogh.programs.circuits.aiger import parse_aag, parse_aig, read_aiger, write_aag, write_aig
from krogh.programs.circuits.circuit import FALSE, TRUE, Circuit, Gate, all_inputs, evaluate, truth_table
from krogh.programs.circuits.files import load_circuit, parse_circuit, save_circuit, write_circuit
from krogh.programs.circuits.generators import (
    CircuitBuilder,
    adder,
    and_ladder,
    comparator,
    majority,
    multiplier,
    parity_circuit,
    random_circuit,
)
from krogh.programs.circuits.layers import Layer, LayeredCircuit, layered, without_constants

__all__ = [
    "FALSE",
    "TRUE",
    "Circuit",
    "CircuitBuilder",
    "Gate",
    "Layer",
    "LayeredCircuit",
    "adder",
    "all_inputs",
    "and_ladder",
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
