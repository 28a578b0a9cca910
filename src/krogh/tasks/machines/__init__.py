"""Turing machines: the type, the interpreter with full traces, files, a library, random machines and inputs.

machine.py           the type `Machine`: states, alphabet, total transition table
running.py           `run`, `trace`, `steps_needed`, `require_halts`
reading.py           the YAML of turingmachine.io; table_reading.py its rows, building.py what rows become
writing.py           the same YAML written
collection.py        the library, `load_machine`; examples.py inputs with their results
batch.py             `trace_batch` and `decide_batch`: many inputs at once
random_machines.py   random tables; sampling.py random inputs, balanced between accepted and rejected
"""

from krogh.tasks.machines.batch import Decisions, TraceBatch, decide_batch, trace_batch
from krogh.tasks.machines.collection import library, library_examples, library_names, library_steps, load_machine
from krogh.tasks.machines.examples import Example, check_examples, parse_examples
from krogh.tasks.machines.machine import Machine, Word
from krogh.tasks.machines.random_machines import random_machine, short_words
from krogh.tasks.machines.reading import parse_machine
from krogh.tasks.machines.running import LeftTheTapeError, Run, Tape, Trace, require_halts, run, steps_needed, trace
from krogh.tasks.machines.sampling import LabelledWords, sample_words
from krogh.tasks.machines.writing import write_machine

__all__ = [
    "Decisions",
    "Example",
    "LabelledWords",
    "LeftTheTapeError",
    "Machine",
    "Run",
    "Tape",
    "Trace",
    "TraceBatch",
    "Word",
    "check_examples",
    "decide_batch",
    "library",
    "library_examples",
    "library_names",
    "library_steps",
    "load_machine",
    "parse_examples",
    "parse_machine",
    "random_machine",
    "require_halts",
    "run",
    "sample_words",
    "short_words",
    "steps_needed",
    "trace",
    "trace_batch",
    "write_machine",
]
