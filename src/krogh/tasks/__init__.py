"""What is learned: distributions over examples whose structure is known exactly.

A task lives in one module here and registers itself with `@task("name")`. Nothing here knows how a
network is trained. The contract is `Task` in `base.py`.
"""

from krogh.tasks.base import Examples, Task, task
from krogh.tasks.boolean import BooleanTask
from krogh.tasks.circuits import Circuit, CircuitFunction, LayeredCircuit, circuit_function, load_circuit
from krogh.tasks.classification import ClassificationTask, margins
from krogh.tasks.codes import coherence, paper_dimension, sign_codes
from krogh.tasks.composition import GroupComposition
from krogh.tasks.groups import Group, load_group
from krogh.tasks.links import CentredSquareLink, LinearLink, MeanLink, RidgeLink, TwoLayerLink
from krogh.tasks.parity import DisjointParity, Parity, ParityControl
from krogh.tasks.parity_classes import ParityClasses
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
