"""Examples in machine files: inputs with what the machine makes of them.

    examples:
      - {input: '101', result: accept, steps: 4}
      - {input: '1011', result: halt, tape: '1100', steps: 8}

`result` is accept, reject or halt (without a decision). `tape` is what stands on it in the end, from the first to the
last symbol that is not blank, and `steps` the exact number of steps; both may be left out.
"""

from __future__ import annotations

from typing import NamedTuple

import yaml

from krogh.errors import require
from krogh.tasks.machines.machine import Machine
from krogh.tasks.machines.reading import machine_fields
from krogh.tasks.machines.running import run
from krogh.tasks.machines.yaml_nodes import Source, is_nothing, no_such

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
