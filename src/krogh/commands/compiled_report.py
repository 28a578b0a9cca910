"""What `krogh compile` says of a network, whatever it was compiled from: size, check, margin, file."""

from __future__ import annotations

import json
import math
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from rich.console import Console

from krogh.commands.wanted import Wanted
from krogh.errors import require
from krogh.lab.claims import json_number
from krogh.theory.all_layer import attack, certify, subject_of

NAMES = {
    "one_norm": "1-norm",
    "q": "circuit's layers q",
    "r": "largest r",
    "s": "gates s",
    "counts": "vectors of counts",
}
"""How sizes are called for people."""
WAIT = 5.0
"""Seconds after which a line says what is going on where no spinner can."""
EFFORTS = ((12, 60, 12), (6, 20, 4), (3, 6, 0), (3, 2, 0), (2, 0, 0))
"""Restarts, refinements and projections of an attack, from thorough to quick."""
BUDGET = 5e8
"""Multiplications that an attack on one input may take unless it is asked for: some ten seconds."""
PATIENCE = 4
"""The quickest attack is made if it takes no more than so many budgets."""
DEEPEST = 300
"""Layers of a network that is attacked unless asked for: compiling the gradient of deeper ones takes minutes."""
LARGEST = 1 << 24
"""Entries of dense parameters that are attacked at all: 128 MiB in float64, and several times that in a search."""


class Checked(NamedTuple):
    """The outcome of a check: whether the statement holds, in words, and as numbers."""

    holds: bool
    words: str
    numbers: dict[str, Any]


class Example(NamedTuple):
    """An input that is attacked: as the network takes it, as it is shown, and the output it is about."""

    inputs: Any
    shown: str
    output: int = 0


@dataclass(frozen=True)
class Compiled:
    """A network with all that is said of it.

    An input goes `passes` times through the `layers`, whose dense parameters have `entries`; `examples` are what is
    attacked, and `certified` the inputs that the certificate is for, where that matters.
    """

    kind: str
    name: str
    network: Any
    statement: str
    size: Mapping[str, float]
    layers: int
    entries: int
    passes: int
    check: Callable[[], Checked]
    examples: Callable[[], Sequence[Example]]
    save: Callable[[Path], Path]
    certified: Any = None


def report(compiled: Compiled, wanted: Wanted) -> int:
    """Check, bound and write a network as asked, and say what was found; 1 where the statement does not hold."""
    found: dict[str, Any] = {
        "compiled": compiled.kind,
        "name": compiled.name,
        "statement": compiled.statement,
        "size": {key: json_number(value) for key, value in compiled.size.items()},
    }
    lines = [
        (compiled.kind, compiled.name),
        ("statement", compiled.statement),
        (
            "size",
            ", ".join(
                f"{NAMES.get(key, key.replace('_', ' '))} {number(value)}" for key, value in compiled.size.items()
            ),
        ),
    ]
    holds = True
    if wanted.check:
        with working(f"checking {compiled.kind} {compiled.name!r}"):
            checked = compiled.check()
        holds = checked.holds
        found["check"] = {"holds": holds, **{key: json_number(value) for key, value in checked.numbers.items()}}
        lines.append(("check", f"{'holds' if holds else 'FAILS'}: {checked.words}"))
    if wanted.margin:
        with working(f"bounding the margin of {compiled.kind} {compiled.name!r}"):
            numbers, words = margins(compiled, wanted)
        found["margin"] = numbers
        lines.append(("margin", words))
    if wanted.out is not None:
        with working(f"writing {wanted.out}"):
            found["out"] = str(compiled.save(wanted.out))
        lines.append(("written", found["out"]))
    if wanted.json:
        print(json.dumps(found, indent=2, ensure_ascii=False))
    else:
        width = max(len(key) for key, _ in lines)
        for key, text in lines:
            print(f"{key:<{width}}  {text}")
    return 0 if holds else 1


def margins(compiled: Compiled, wanted: Wanted) -> tuple[dict[str, Any], str]:
    """Lower and upper bound on the all-layer margin, as numbers and in words."""
    examples = compiled.examples()  # first, as there may be none
    certificate = certify(compiled.network, compiled.certified)
    theorem = None if certificate.theorem is None else certificate.theorem.value
    numbers: dict[str, Any] = {
        "lower": certificate.value,
        "certified_for": certificate.holds_for,
        "theorem": theorem,
        "upper": None,
        "attacked": [],
    }
    lower = f"at least {number(certificate.value)} ({certificate.holds_for})"
    effort = chosen_effort(compiled, wanted)
    if effort is None:
        return numbers, f"{lower}; too large to be attacked in seconds (ask for it by --restarts)"
    restarts, refinements, projections = effort
    for place, example in enumerate(examples):
        subject = subject_of(compiled.network, example.inputs, example.output)
        (x,), (y,) = subject.inputs, subject.labels
        made = attack(
            subject.output, subject.parameters, x, y,
            restarts=restarts, refinements=refinements, projections=projections, seed=place,
        )  # fmt: skip
        numbers["attacked"].append({"input": example.shown, "label": y, "upper": json_number(made.radius)})
    radii = [one["upper"] for one in numbers["attacked"] if one["upper"] is not None]
    if not radii:
        return numbers, f"{lower}; no perturbation that changes an output was found in {restarts} restarts"
    numbers["upper"] = min(radii)
    numbers |= {"restarts": restarts, "refinements": refinements}
    hardest = next(one["input"] for one in numbers["attacked"] if one["upper"] == min(radii))
    tried = f"attacked on {len(numbers['attacked'])} inputs, smallest on {hardest}"
    return numbers, f"{lower}, at most {number(min(radii))} ({tried})"


def chosen_effort(compiled: Compiled, wanted: Wanted) -> tuple[int, int, int] | None:
    """How thorough an attack is: as asked, or as a budget allows; None where even the quickest takes too long."""
    if wanted.restarts is not None or wanted.refinements is not None:
        require(
            compiled.entries <= LARGEST,
            f"the network has {compiled.entries:,} parameters as full matrices; at most {LARGEST:,} are attacked "
            "(leave out --restarts and --refinements for the lower bound alone)",
        )
        restarts, refinements, projections = EFFORTS[0]
        if wanted.refinements is not None:
            refinements, projections = wanted.refinements, min(wanted.refinements, projections)
        return wanted.restarts or restarts, refinements, projections
    if compiled.entries > LARGEST or compiled.layers > DEEPEST:
        return None
    cost = compiled.entries * compiled.passes
    allowed = [effort for effort in EFFORTS if cost * _evaluations(*effort) <= BUDGET]
    if allowed:
        return allowed[0]
    return EFFORTS[-1] if cost * _evaluations(*EFFORTS[-1]) <= PATIENCE * BUDGET else None


def _evaluations(restarts: int, refinements: int, projections: int) -> int:
    """About how often an attack runs the network."""
    return restarts * (130 + 75 * refinements + 60 * projections)


def number(value: float | None) -> str:
    """A whole number with commas, any other to six digits."""
    if value is None:
        return "none"
    if isinstance(value, float) and (not value.is_integer() or not math.isfinite(value) or abs(value) >= 1e15):
        return f"{value:.6g}"
    return f"{int(value):,}"


@contextmanager
def working(what: str) -> Iterator[None]:
    """A spinner on a terminal; elsewhere one line on the error stream if it takes a while."""
    console = Console(stderr=True)
    if console.is_terminal:
        with console.status(what):
            yield
        return
    timer = threading.Timer(WAIT, lambda: console.print(f"krogh: {what} ...", markup=False, highlight=False))
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
