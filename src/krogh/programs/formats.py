"""The formats of files that hold programs: what is said of each where it is read, with an example that loads.

`krogh show formats` prints them, `docs/formats.md` has the same text.
"""

from __future__ import annotations

import importlib
import inspect
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple


class Format(NamedTuple):
    """A format: what it holds, where it is read, an example and its file's name, and a command that reads it."""

    title: str
    module: str
    begins: str  # the words of the module's docstring with which the description of the format begins
    file: str
    example: str
    command: str
    loader: str

    @property
    def about(self) -> str:
        """How the file is written, as the module that reads it says."""
        text = inspect.getdoc(importlib.import_module(self.module)) or ""
        return text[text.index(self.begins) :].strip()

    def load(self, path: Path) -> Any:
        """What a file of this format holds."""
        place, _, name = self.loader.rpartition(".")
        function: Callable[[str], Any] = getattr(importlib.import_module(place), name)
        return function(str(path))


FORMATS = {
    "group-file": Format(
        "A finite group, by the table of its products",
        "krogh.programs.groups.families",
        "load_group",
        "klein.csv",
        """\
        *,e,a,b,c
        e,e,a,b,c
        a,a,e,c,b
        b,b,c,e,a
        c,c,b,a,e
        """,
        "krogh run algebra/group --set group=klein.csv --scale smoke",
        "krogh.programs.groups.load_group",
    ),
    "circuit-file": Format(
        "A Boolean circuit, as text or as AIGER",
        "krogh.programs.circuits.files",
        "Circuits from files",
        "half-adder.circuit",
        """\
        circuit half-adder
        inputs a b
        outputs sum carry=both
        either = OR a b
        both   = AND a b
        differ = NOT both
        sum    = AND either differ
        """,
        "krogh compile circuit half-adder.circuit --check",
        "krogh.programs.circuits.load_circuit",
    ),
    "machine-file": Format(
        "A Turing machine, in the YAML of turingmachine.io",
        "krogh.programs.machines.files",
        "Machine files",
        "increment.yaml",
        """\
        # Adds 1 to a binary number.
        name: binary increment
        input: '1011'
        blank: ' '
        start state: right
        table:
          right:
            [0, 1]: R
            ' ': {L: carry}
          carry:
            1: {write: 0, L}
            [0, ' ']: {write: 1, R: done}
          done:
        examples:
          - {input: '1011', result: halt, tape: '1100', steps: 8}
        """,
        "krogh compile machine increment.yaml --steps 8 --check",
        "krogh.programs.machines.load_machine",
    ),
    "automaton-file": Format(
        "A finite automaton, in YAML",
        "krogh.programs.automata.files",
        "Automata as text",
        "even.yaml",
        """\
        name: even number of ones
        alphabet: [0, 1]
        start state: even
        accept: [even]
        table:
          even: {0: even, 1: odd}
          odd: {0: odd, 1: even}
        """,
        "krogh compile automaton even.yaml --length 8 --check",
        "krogh.programs.automata.load_automaton",
    ),
    "language-file": Format(
        "Regular languages, one on each line",
        "krogh.programs.automata.words",
        "A file of languages",
        "languages.txt",
        """\
        # a name of the library, a regular expression, an automaton's file
        tomita-3
        (00)*(11)*
        brackets-2
        """,
        "krogh run languages/learnability --set language=languages.txt --scale smoke",
        "krogh.programs.automata.words.find_languages",
    ),
}
"""The formats by the names under which `krogh show` knows them."""


def example_of(name: str) -> str:
    """The example of a format, as it stands in a file."""
    return textwrap.dedent(FORMATS[name].example)


def as_markdown() -> str:
    """All formats, for the page of the documentation."""
    return "\n\n".join(
        f"## {one.title}\n\n`krogh show {name}`\n\n```text\n{one.about}\n```\n\n"
        f"For example `{one.file}`, read by `{one.command}`:\n\n```text\n{example_of(name)}```"
        for name, one in FORMATS.items()
    )
