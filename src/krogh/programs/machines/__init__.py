"""Turing machines: the type, the interpreter with full traces, files, a library, random machines and inputs.

machine.py   the type `Machine`: states, alphabet, total transition table
running.py   `run`, `trace`, `steps_needed`; `trace_batch` and `decide_batch` for many words; random words
files.py     the YAML of turingmachine.io, read and written
library.py   machines by name with examples, `load_machine`; random machines
"""

from krogh.programs.machines.files import parse_machine, write_machine
from krogh.programs.machines.library import (
    Example,
    check_examples,
    library,
    library_examples,
    library_names,
    library_steps,
    load_machine,
    parse_examples,
    random_machine,
    short_words,
)
from krogh.programs.machines.machine import Machine, Word
from krogh.programs.machines.running import (
    Decisions,
    LabelledWords,
    LeftTheTapeError,
    Run,
    Tape,
    Trace,
    TraceBatch,
    decide_batch,
    require_halts,
    run,
    sample_words,
    steps_needed,
    trace,
    trace_batch,
)

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
