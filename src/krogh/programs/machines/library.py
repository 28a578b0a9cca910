"""The library of machines: files of this package, each with what it does, its running time and examples."""

from __future__ import annotations

import functools
import importlib.resources
from collections.abc import Callable, Sequence
from pathlib import Path

from krogh.errors import require_integer, unknown
from krogh.programs import budgets
from krogh.programs.machines.files import MachineFile, parse_machine_file
from krogh.programs.machines.machine import Machine
from krogh.programs.reading import read_text

SUFFIXES = (".yaml", ".yml")


def load_machine(path_or_name: str | Path, missing: str | None = None, inputs: Sequence[str] = ()) -> Machine:
    """A machine from a file, or from the library by name.

    `missing` ("halt", "reject" or "error") says what a missing transition means, above what the file says. Symbols of
    `inputs` that the table does not name are symbols without instructions, as those of the file's own input are.
    """
    return load_machine_file(path_or_name, missing, inputs).machine


def load_machine_file(path_or_name: str | Path, missing: str | None = None, inputs: Sequence[str] = ()) -> MachineFile:
    """A machine with the examples and the summary of its file, which is one of the user's or of the library."""
    path, name = Path(path_or_name), str(path_or_name)
    if path.suffix.lower() in SUFFIXES or path.is_file():
        return parse_machine_file(read_text(path, "a machine", budgets.FILE), name, missing, inputs)
    if name not in library_names():
        raise unknown("machine", name, library_names())
    text = (_folder() / f"{name}.yaml").read_text(encoding="utf-8")
    return parse_machine_file(text, f"{name}.yaml", missing, inputs)


@functools.cache
def library_names() -> tuple[str, ...]:
    """The names of the machines of the library."""
    return tuple(
        sorted(entry.name.removesuffix(".yaml") for entry in _folder().iterdir() if entry.name.endswith(".yaml"))
    )


def library() -> dict[str, Machine]:
    """All machines of the library by name."""
    return {name: load_machine(name) for name in library_names()}


def library_steps(name: str, length: int) -> int:
    """A number of steps within which a machine of the library halts on every word of `length` input symbols."""
    require_integer("length", length, 0)
    if name not in STEPS:
        raise unknown("machine of the library", name, STEPS)
    return STEPS[name](length)


def _folder() -> importlib.resources.abc.Traversable:
    return importlib.resources.files("krogh.programs.machines") / "collection"


def _collatz_steps(n: int) -> int:
    """Σ (v + 2)² over Collatz's numbers v from n to 1."""
    total = 9
    while n > 1:
        total += (n + 2) ** 2
        n = 3 * n + 1 if n % 2 else n // 2
    return total


def _triangle(m: int) -> int:
    return (m + 1) * (m + 2) // 2


def _pairs(m: int) -> int:
    return (3 * m * m + 6 * m + 4) // 4


def _one_pass(m: int) -> int:
    return m + 1


# The least bounds that hold for all words of a length, as far as they have a simple form; tests try all short words.
STEPS: dict[str, Callable[[int], int]] = {
    "anbn": _triangle,
    "anbncn": lambda m: (m + 2) ** 2 // 2,
    "balanced-brackets": lambda m: (m + 2) ** 2 // 2,
    "binary-addition": lambda m: 2 * m * m + m + 2,
    "binary-comparison": lambda m: (m + 1) * (m + 2),
    "binary-decrement": lambda m: 2 * m + 2,
    "binary-increment": lambda m: 2 * m + 2,
    "binary-subtraction": lambda m: (m + 1) * (m + 2),
    "binary-to-unary": lambda m: 4**m + 3 * 2**m + m - 1,
    # Busy beavers are made for the empty tape; the rest bounds what they do on other tapes.
    "busy-beaver-2": lambda m: 6,
    "busy-beaver-2-3": lambda m: max(38, 3 * m * m + 8 * m + 8),
    "busy-beaver-3": lambda m: 21,
    "busy-beaver-3-ones": lambda m: 14,
    "busy-beaver-4": lambda m: 107 + 7 * m,
    "collatz": _collatz_steps,
    "complement": _one_pass,
    "contains-101": _one_pass,
    "copy": lambda m: 2 * (m + 1) * (m + 2),
    "counter": lambda m: 2 ** (m + 2) - 2,
    "divisible-by-seven": _one_pass,
    "divisible-by-three": _one_pass,
    "double": lambda m: 2 * (m + 1) ** 2,
    "equal-counts": _pairs,
    "equal-words": lambda m: (m + 1) ** 2 // 2 + 1,
    "gcd": lambda m: 2 * m * m + 8 * m + 4,
    "majority": _pairs,
    "palindrome": _triangle,
    "parity": _one_pass,
    "powers-of-two": lambda m: m * (2 * m.bit_length() + 1) + 1,
    "primes": lambda m: 3 * m**3 + 10 * m + 2,
    "reverse": lambda m: (m + 1) * (2 * m + 3),
    "sort": lambda m: (m * m + 4 * m + 3) // 2,
    "two-kinds-of-brackets": lambda m: (m + 2) ** 2 // 2,
    "unary-addition": lambda m: m + 2,
    "unary-multiplication": lambda m: (m + 2) ** 4 // 16 + 2 * m + 3,
    "unary-subtraction": lambda m: (m + 1) * (m + 4) // 2,
    "unary-to-binary": lambda m: m * m + 7 * m + 2,
}
