"""What is learned: distributions over examples whose structure is known exactly.

A task lives in one module here and registers itself with `@task("name")`. The contract is `Task` in `base.py`; most of
it is done by `BooleanTask` (boolean.py) and `SymbolTask` (symbols.py). What a task is made of stands beside it: packed
bits, truth tables (gates.py) and the index sets that fit a sample (consistency.py), links and positional codes of
prompts, tables of data and where they come from (table_sources.py). Nothing here knows how a network is trained.
"""

from krogh.tasks.base import ClassificationTask, Examples, Task, margins, task
from krogh.tasks.bit_strings import SingleBlip, StringParity, Substring
from krogh.tasks.boolean import BooleanTask
from krogh.tasks.chains import (
    Curriculum,
    DirichletRows,
    DoublyStochastic,
    GivenRows,
    Hard,
    Interpolated,
    MarkovChains,
    Mixture,
    Prior,
    Unigram,
    context_of,
    gram_counts,
    kl,
    stationary,
)
from krogh.tasks.circuit_function import CircuitFunction, circuit_function
from krogh.tasks.codes import coherence, paper_dimension, sign_codes
from krogh.tasks.composition import GroupComposition
from krogh.tasks.inversion import Inversion
from krogh.tasks.languages import Language, RegularLanguage
from krogh.tasks.letters import LetterCount, LetterPositions
from krogh.tasks.links import CentredSquareLink, LinearLink, MeanLink, RidgeLink, TwoLayerLink
from krogh.tasks.parity import DisjointParity, Parity, ParityClasses, ParityControl
from krogh.tasks.sparse_boolean import SparseBoolean, gate, sparse_and, sparse_or, sparse_xor
from krogh.tasks.symbols import SymbolTask
from krogh.tasks.system import System
from krogh.tasks.table import Rows, Table, balanced, parity_rows, rows_of
from krogh.tasks.table_sources import find_tables, keep_table, read_csv
from krogh.tasks.token_regression import TokenRegression
from krogh.tasks.token_sums import TokenConvolution, TokenSum
from krogh.tasks.whole_sequence import WholeSequence

__all__ = [
    "BooleanTask",
    "CentredSquareLink",
    "CircuitFunction",
    "ClassificationTask",
    "Curriculum",
    "DirichletRows",
    "DisjointParity",
    "DoublyStochastic",
    "Examples",
    "GivenRows",
    "GroupComposition",
    "Hard",
    "Interpolated",
    "Inversion",
    "Language",
    "LetterCount",
    "LetterPositions",
    "LinearLink",
    "MarkovChains",
    "MeanLink",
    "Mixture",
    "Parity",
    "ParityClasses",
    "ParityControl",
    "Prior",
    "RegularLanguage",
    "RidgeLink",
    "Rows",
    "SingleBlip",
    "SparseBoolean",
    "StringParity",
    "Substring",
    "SymbolTask",
    "System",
    "Table",
    "Task",
    "TokenConvolution",
    "TokenRegression",
    "TokenSum",
    "TwoLayerLink",
    "Unigram",
    "WholeSequence",
    "balanced",
    "circuit_function",
    "coherence",
    "context_of",
    "find_tables",
    "gate",
    "gram_counts",
    "keep_table",
    "kl",
    "margins",
    "paper_dimension",
    "parity_rows",
    "read_csv",
    "rows_of",
    "sign_codes",
    "sparse_and",
    "sparse_or",
    "sparse_xor",
    "stationary",
    "task",
]
