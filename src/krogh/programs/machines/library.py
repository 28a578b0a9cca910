"""Random machines: a random total table, drawn again until its runs are proper (sm-approximation, section 2, T2).

Examples in machine files: inputs with what the machine makes of them.

    examples:
      - {input: '101', result: accept, steps: 4}
      - {input: '1011', result: halt, tape: '1100', steps: 8}

`result` is accept, reject or halt (without a decision). `tape` is what stands on it in the end, from the first to the
last symbol that is not blank, and `steps` the exact number of steps; both may be left out.

The library of machines: files of this package, each with what it does, its running time and examples.
"""

from __future__ import annotations

import functools
import importlib.resources
import itertools
import math
import string
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import yaml

from krogh.errors import KroghError, require, require_integer, unknown
from krogh.programs.machines.files import Source, is_nothing, machine_fields, no_such, parse_machine, read_text
from krogh.programs.machines.machine import TAPES, Machine, Word
from krogh.programs.machines.running import run

RESULTS = ("accept", "reject", "halt")
FIELDS = ("input", "result", "tape", "steps")
PATIENT = 1_000_000
"""Steps after which an example whose number of steps is not given counts as one that does not halt."""


class Example(NamedTuple):
    """An input, what the machine decides on it, what it leaves on the tape and how many steps it takes."""

    word: str
    result: str
    output: str | None = None
    steps: int | None = None


def parse_examples(text: str, source: str = "<text>") -> tuple[Example, ...]:
    """The examples of a machine file; none where it has no such field."""
    where, fields, _ = machine_fields(text, source)
    if "examples" not in fields or is_nothing(fields["examples"].value):
        return ()
    node = fields["examples"].value
    if not isinstance(node, yaml.SequenceNode):
        raise where.error(node, "examples are a list, as in `- {input: '101', result: accept}`")
    return tuple(_read(where, entry) for entry in node.value)


def check_examples(machine: Machine, examples: tuple[Example, ...]) -> None:
    """An error where the machine does something else than an example says."""
    for example in examples:
        limit = PATIENT if example.steps is None else example.steps
        done = run(machine, example.word, limit)
        shown = f"{machine.name!r} on {example.word!r}"
        require(done.halted_at is not None, f"{shown} does not halt within {limit} steps")
        found = "halt" if done.label is None else RESULTS[1 - done.label]
        require(found == example.result, f"{shown}: the example says {example.result}; the machine says {found}")
        exact = example.steps in (None, done.halted_at)
        require(exact, f"{shown}: the example says {example.steps} steps; the machine takes {done.halted_at}")
        left = example.output in (None, done.output)
        require(left, f"{shown}: the example says tape {example.output!r}; the machine leaves {done.output!r}")


def _read(where: Source, entry: yaml.Node) -> Example:
    fields = where.fields(entry, "an example", FIELDS)
    for name in ("input", "result"):
        if name not in fields:
            raise where.error(entry, f"an example has the field {name!r}, as in `{{input: '101', result: accept}}`")
    result = where.text(fields["result"].value, "the result")
    if result not in RESULTS:
        raise where.error(fields["result"].value, no_such("unknown result", result, RESULTS))
    steps = where.text(fields["steps"].value, "the number of steps") if "steps" in fields else None
    if steps is not None and not steps.isdecimal():
        raise where.error(fields["steps"].value, f"the number of steps is a whole number; got {steps!r}")
    output = _line(where, fields["tape"].value) if "tape" in fields else None
    return Example(_line(where, fields["input"].value), result, output, None if steps is None else int(steps))


def _line(where: Source, node: yaml.Node) -> str:
    """A text that may be empty."""
    if not isinstance(node, yaml.ScalarNode):
        raise where.error(node, "inputs and tapes are texts")
    return str(node.value)


SUFFIXES = (".yaml", ".yml")


class MachineFile(NamedTuple):
    """What a file holds: a machine, examples, and the sentence that its comments begin with."""

    machine: Machine
    examples: tuple[Example, ...]
    summary: str


def load_machine(path_or_name: str | Path, missing: str | None = None) -> Machine:
    """A machine from a file, or from the library by name.

    `missing` ("refuse", "reject" or "halt") says what a missing transition means where the file does not.
    """
    return load_machine_file(path_or_name, missing).machine


def load_machine_file(path_or_name: str | Path, missing: str | None = None) -> MachineFile:
    """A machine with the examples and the summary of its file, which is one of the user's or of the library."""
    path, source = Path(path_or_name), str(path_or_name)
    own = path.suffix.lower() in SUFFIXES or path.is_file()
    text, source = (read_text(path), source) if own else (_text(source), f"{source}.yaml")
    comments = itertools.takewhile(lambda line: line[:1] == "#", text.splitlines())
    summary = " ".join(line.lstrip("# ").rstrip() for line in comments).partition(". ")[0].rstrip(".")
    return MachineFile(parse_machine(text, source, missing), parse_examples(text, source), summary)


@functools.cache
def library_names() -> tuple[str, ...]:
    """The names of the machines of the library."""
    return tuple(
        sorted(entry.name.removesuffix(".yaml") for entry in _folder().iterdir() if entry.name.endswith(".yaml"))
    )


def library() -> dict[str, Machine]:
    """All machines of the library by name."""
    return {name: load_machine(name) for name in library_names()}


def library_examples(name: str) -> tuple[Example, ...]:
    """Inputs of a machine of the library with their results."""
    return parse_examples(_text(name), f"{name}.yaml")


def library_steps(name: str, length: int) -> int:
    """A number of steps within which a machine of the library halts on every word of `length` input symbols."""
    require_integer("length", length, 0)
    if name not in STEPS:
        raise unknown("machine of the library", name, STEPS)
    return STEPS[name](length)


def _folder() -> importlib.resources.abc.Traversable:
    return importlib.resources.files("krogh.programs.machines") / "collection"


def _text(name: str) -> str:
    if name not in library_names():
        raise unknown("machine", name, library_names())
    return (_folder() / f"{name}.yaml").read_text(encoding="utf-8")


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


SYMBOLS = "_" + string.digits + string.ascii_letters
MOST_WORDS = 100_000


def random_machine(
    states: int,
    symbols: int,
    seed: int,
    *,
    tape: str = "one-way",
    halting: float | None = None,
    words: Sequence[Word] | None = None,
    length: int = 3,
    steps: int = 200,
    least_steps: int = 2,
    attempts: int = 10_000,
) -> Machine:
    """A machine with `states` working states and the states accept and reject.

    Every entry of its table halts with probability `halting` (2/(states + 2) where it is not given), to accept or
    reject at even odds, and goes to a random working state otherwise; symbols and moves are uniform. A table is
    drawn again, up to `attempts` times, unless the machine halts within `steps` steps on every one of `words` (all
    words of up to `length` symbols without the blank where none are given), never leaves a one-way tape, and takes
    `least_steps` on one of them. The same arguments give the same machine.
    """
    require_integer("states", states, 1)
    require_integer("symbols", symbols, 2, len(SYMBOLS))
    require_integer("seed", seed, 0)
    require_integer("steps", steps, 1)
    require_integer("attempts", attempts, 1)
    require(tape in TAPES, f"tape must be {TAPES[0]!r} or {TAPES[1]!r}; got tape={tape!r}")
    chance = 2 / (states + 2) if halting is None else halting
    require(0 < chance <= 1, f"halting is a probability above 0; got halting={halting!r}")
    rng = np.random.default_rng(seed)
    name = f"random-{states}-{symbols}-{seed}"
    first = _machine(name, states, tape, *_draw(states, symbols, chance, rng))
    tried = short_words(first, length) if words is None else [first.encode(word).tolist() for word in words]
    lowest = 0.0 if tape == "one-way" else -math.inf
    for _ in range(attempts):
        tables = _draw(states, symbols, chance, rng)
        longest = _longest_run([table.tolist() for table in tables], tried, steps, lowest)
        if longest is not None and longest >= min(least_steps, steps):
            return _machine(name, states, tape, *tables)
    raise KroghError(
        f"none of {attempts} random machines of {states} states and {symbols} symbols halts on all {len(tried)} words "
        f"within {steps} steps and takes {least_steps} on one of them; allow more steps or shorter words, or another "
        f"chance of halting than {chance:.3g}"
    )


def short_words(machine: Machine, length: int) -> list[tuple[int, ...]]:
    """All words of up to `length` input symbols, as numbers, the shorter first."""
    require_integer("length", length, 0)
    letters = len(machine.input_symbols)
    count = sum(letters**size for size in range(length + 1))
    require(count <= MOST_WORDS, f"{machine.name!r} has {count} words of up to {length} symbols; at most {MOST_WORDS}")
    return [word for size in range(length + 1) for word in itertools.product(machine.input_symbols, repeat=size)]


def _draw(
    states: int, symbols: int, chance: float, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Next states (numbers `states` and `states` + 1 halt), symbols to write and moves."""
    shape = (states + 2, symbols)
    working, ends = rng.integers(states, size=shape), rng.integers(states, states + 2, size=shape)
    next_state = np.where(rng.random(shape) < chance, ends, working)
    return next_state, rng.integers(symbols, size=shape), 2 * rng.integers(2, size=shape) - 1


def _machine(name: str, states: int, tape: str, next_state: np.ndarray, write: np.ndarray, move: np.ndarray) -> Machine:
    return Machine(
        name=name,
        states=(*(f"q{number}" for number in range(states)), "accept", "reject"),
        alphabet=tuple(SYMBOLS[: next_state.shape[1]]),
        start=0,
        next_state=next_state,
        write=write,
        move=move,
        accept=(states,),
        reject=(states + 1,),
        tape=tape,
    )


def _longest_run(
    tables: list[list[list[int]]], words: Sequence[Sequence[int]], steps: int, lowest: float
) -> int | None:
    """The most steps any word takes; None where one does not halt or goes to the left of cell `lowest`.

    Most tables are drawn in vain: this plain loop ends with the first bad word.
    """
    next_state, write, move = tables
    states, longest = len(next_state) - 2, 0
    for word in words:
        tape = dict(enumerate(word, start=1))
        state, cell, time = 0, 1, 0
        while state < states:
            if time == steps:
                return None
            symbol = tape.get(cell, 0)
            tape[cell] = write[state][symbol]
            cell += move[state][symbol]
            state = next_state[state][symbol]
            time += 1
            if cell < lowest:
                return None
        longest = max(longest, time)
    return longest
