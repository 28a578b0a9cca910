"""What is learned: distributions over examples whose structure is known exactly.

A task lives in one module here and registers itself with `@task("name")`. Nothing here knows how a
network is trained. The contract is `Task` in `base.py`.
"""

from krogh.programs.circuits.circuit import Circuit
from krogh.programs.circuits.files import load_circuit
from krogh.programs.circuits.layers import LayeredCircuit
from krogh.programs.groups import Group, load_group
from krogh.tasks.base import ClassificationTask, Examples, Task, margins, task
from krogh.tasks.boolean import BooleanTask
from krogh.tasks.circuit_function import CircuitFunction, circuit_function
from krogh.tasks.codes import coherence, paper_dimension, sign_codes
from krogh.tasks.composition import GroupComposition
from krogh.tasks.links import CentredSquareLink, LinearLink, MeanLink, RidgeLink, TwoLayerLink
from krogh.tasks.parity import DisjointParity, Parity, ParityClasses, ParityControl
from krogh.tasks.sparse_boolean import SparseBoolean, gate, sparse_and, sparse_or, sparse_xor
from krogh.tasks.token_regression import TokenRegression

__all__ = [
    "BooleanTask",
    "CentredSquareLink",
    "Circuit",
    "CircuitFunction",
    "ClassificationTask",
    "DisjointParity",
    "Examples",
    "Group",
    "GroupComposition",
    "LayeredCircuit",
    "LinearLink",
    "MeanLink",
    "Parity",
    "ParityClasses",
    "ParityControl",
    "RidgeLink",
    "SparseBoolean",
    "Task",
    "TokenRegression",
    "TwoLayerLink",
    "circuit_function",
    "coherence",
    "gate",
    "load_circuit",
    "load_group",
    "margins",
    "paper_dimension",
    "sign_codes",
    "sparse_and",
    "sparse_or",
    "sparse_xor",
    "task",
]
