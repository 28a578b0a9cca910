"""Turing machines: the type, the interpreter with full traces, files, a library, machines and words at random.

machine.py     the type `Machine`: states, alphabet, total transition table
running.py     `run`, `trace`, `steps_needed`; `trace_batch` and `decide_batch` for many words
files.py       the YAML of turingmachine.io, read; writing.py writes it
library.py     machines by name, and `load_machine`
sampling.py    random machines, random words
"""

from krogh.programs.machines.files import Example, MachineFile, parse_machine
from krogh.programs.machines.library import library, library_names, library_steps, load_machine, load_machine_file
from krogh.programs.machines.machine import Machine, Word
from krogh.programs.machines.running import (
    LeftTheTapeError,
    Run,
    Trace,
    TraceBatch,
    require_halts,
    run,
    steps_needed,
    trace,
    trace_batch,
)
from krogh.programs.machines.sampling import ProperRuns, random_machine, sample_words, short_words
from krogh.programs.machines.writing import write_machine

__all__ = [
    "Example",
    "LeftTheTapeError",
    "Machine",
    "MachineFile",
    "ProperRuns",
    "Run",
    "Trace",
    "TraceBatch",
    "Word",
    "library",
    "library_names",
    "library_steps",
    "load_machine",
    "load_machine_file",
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
