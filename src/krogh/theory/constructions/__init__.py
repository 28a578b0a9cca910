"""Weights written down in closed form, each with the statement it satisfies and a checker for it.

What lives here: constructions, registered under names such as "parity/relu". `construct("parity/relu", n=12,
k=3)` writes one down; its `check()` executes the model against an oracle on every input, or on random ones
where there are too many, and its `save(path)` writes the weights to a file. What a construction is, and the
decorator that makes one, are in `base`.

What does not: numbers that a theorem predicts (`krogh.theory.predictions`), and anything that trains.
"""

from krogh.theory.constructions.algebra import (
    cyclic_addition,
    group_composition,
    parity_classes,
    rotation,
    table_memoriser,
)
from krogh.theory.constructions.base import (
    Checked,
    Construction,
    Constructor,
    Oracle,
    construct,
    construction,
)
from krogh.theory.constructions.monomial import monomial
from krogh.theory.constructions.parity import ParityTable, disjoint_polynet, one_neuron, polynet, relu
from krogh.theory.constructions.sparse_functions import averaging, general, head_alone, symmetric
from krogh.theory.constructions.token_interpolator import token_interpolator
from krogh.theory.constructions.token_retrieval import token_retrieval
from krogh.theory.constructions.token_rnn import token_rnn
from krogh.theory.constructions.token_storage import token_storage

__all__ = [
    "Checked",
    "Construction",
    "Constructor",
    "Oracle",
    "ParityTable",
    "averaging",
    "construct",
    "construction",
    "cyclic_addition",
    "disjoint_polynet",
    "general",
    "group_composition",
    "head_alone",
    "monomial",
    "one_neuron",
    "parity_classes",
    "polynet",
    "relu",
    "rotation",
    "symmetric",
    "table_memoriser",
    "token_interpolator",
    "token_retrieval",
    "token_rnn",
    "token_storage",
]
