"""What `krogh construct` and `krogh compile` say of a handmade network: statement, size, check, margin, file."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from rich.console import Console

from krogh.cli.compile import NetworkOptions
from krogh.errors import KroghError, Unwritable, require, require_integer
from krogh.files import destination
from krogh.networks.compiled import Compiled
from krogh.networks.handmade import Handmade
from krogh.networks.margins.report import Bounds, margin_bounds
from krogh.networks.weight_files import require_writable
from krogh.numbers import json_number, precise

if TYPE_CHECKING:
    from krogh.cli.evaluating import Finding

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


def present(
    kind: str,
    source: str,
    make: Callable[[], Handmade],
    options: NetworkOptions,
    about: Callable[[Any], Sequence[Finding]] = lambda network: (),
) -> int:
    """Make, check, bound and write a network as asked, and say what came of it; 1 where the statement does not hold.

    What else there is to say of it, such as what it makes of some inputs, is asked of `about`.
    """
    require_possible(options)
    out, torch = (None if path is None else destination(path) for path in (options.out, options.torch))
    options = replace(options, out=out, torch=torch)
    with working(f"writing the weights of {source}"):
        network = make()
    size = network.size
    answer: dict[str, Any] = {
        "kind": kind,
        "name": network.name,
        "statement": network.statement,
        "size": {key: json_number(value) for key, value in size.items()},
    }
    sizes = ", ".join(f"{NAMES.get(key, key.replace('_', ' '))} {precise(value)}" for key, value in size.items())
    lines = [(kind, network.name), ("statement", network.statement), ("size", sizes)]
    holds = True
    for finding in about(network):
        lines.append((finding.key, finding.text))
        if finding.key == "input":
            answer.setdefault("inputs", []).append(finding.numbers)
        else:
            answer[finding.key] = finding.numbers
        holds = holds and finding.holds
    if options.check:
        with working(f"checking {kind} {network.name!r}"):
            checked = network.check()
        holds = holds and checked.holds
        answer["check"] = {key: json_number(value) for key, value in checked.numbers.items()}
        lines.append(("check", checked.words))
    if options.margin:
        assert isinstance(network, Compiled)
        with working(f"bounding the margin of {kind} {network.name!r}"):
            bounds = margin_bounds(network, options.restarts, options.refinements, options.seconds)
        answer["margin"] = _as_numbers(bounds)
        lines.append(("margin", bounds.words))
    if options.out is not None:
        with working(f"writing {options.out}"), _unwritable():
            answer["out"] = str(network.save(options.out))
        lines.append(("written", answer["out"]))
    if options.torch is not None:
        from krogh.networks.torch_export import write_torch

        with working(f"writing {options.torch}"), _unwritable():
            answer["torch"] = [str(path) for path in write_torch(network, options.torch)]
        lines.append(("torch", " and ".join(answer["torch"])))
    if options.json:
        print(json.dumps(answer, indent=2, ensure_ascii=False))
    else:
        width = max(len(key) for key, _ in lines)
        for key, text in lines:
            print(f"{key:<{width}}  {text}")
    return 0 if holds else 1


def require_possible(options: NetworkOptions) -> None:
    """Refuse what cannot work before anything is computed."""
    for name, least in (("restarts", 1), ("refinements", 0)):
        value = getattr(options, name)
        if value is not None:
            require_integer(name, value, least)
            require(options.margin, f"--{name} belongs to --margin; got {name}={value}")
    if options.seconds is not None:
        require(options.margin, f"--seconds belongs to --margin; got seconds={options.seconds:g}")
        require(options.seconds > 0, f"seconds must be positive; got seconds={options.seconds:g}")
    if options.out is not None:
        require_writable(options.out)
    if options.torch is not None:
        destination(options.torch.with_suffix(".py"))
        from krogh.networks.torch_export import require_torch_file

        require_torch_file(options.torch)


@contextmanager
def _unwritable() -> Iterator[None]:
    """A fault of the file system has its own exit code, in which words it may be told."""
    try:
        yield
    except KroghError as problem:
        if isinstance(problem.__context__, OSError):
            raise Unwritable(str(problem)) from None
        raise


def _as_numbers(bounds: Bounds) -> dict[str, Any]:
    certificate, hardest, effort = bounds.certificate, bounds.hardest, bounds.effort
    numbers: dict[str, Any] = {
        "lower": certificate.value,
        "certified_for": certificate.holds_for,
        "certified_by": certificate.proof,
        "theorem": None if certificate.theorem is None else certificate.theorem.value,
        "upper": None if hardest is None else hardest.upper,
        "layers": "all" if bounds.whole else "last",
        "attacked": [
            {"input": one.input, "label": one.label, "upper": json_number(one.upper)} for one in bounds.attacked
        ],
    }
    return numbers if effort is None else numbers | {"restarts": effort.restarts, "refinements": effort.refinements}


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
