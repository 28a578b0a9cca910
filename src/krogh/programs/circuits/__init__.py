"""Boolean circuits: any, layered, generated and from files (SM paper, section 3).

circuit.py       `Circuit`, gates in any acyclic arrangement; `evaluate` and `truth_table` say what it computes
layers.py        `LayeredCircuit`, gates in layers that read the layer before; `layered` makes one of any circuit
generators.py    `CircuitBuilder`; parity, addition, comparison, majority, multiplication; a ladder; random ones
sequential.py    `Sequential`, gates with latches, and the circuit that it is when unrolled in time
files.py         `load_circuit` and `save_circuit` by suffix: a readable text, AIGER (aiger.py) and BLIF (blif.py)
"""

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
    "parse_circuit",
    "random_circuit",
    "save_circuit",
    "truth_table",
    "without_constants",
    "write_circuit",
]
