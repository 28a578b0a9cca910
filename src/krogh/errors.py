"""The one exception a user meets, and how its message is made.

A message echoes what was given, says what is allowed, and names the nearest valid choice.
"""

from __future__ import annotations

import difflib
import operator
from collections.abc import Iterable
from typing import Any

MOST_LISTED, NEAREST = 24, 5
"""So many choices are all named; of more, only the nearest."""


class KroghError(ValueError):
    """Bad input: the command line prints the message and exits with `code`."""

    code = 2


class TooLarge(KroghError):
    """What was asked for does not fit into the memory at hand."""

    code = 5


class Unwritable(KroghError):
    """A folder cannot be written to."""

    code = 3


class ClusterLost(KroghError):
    """Nobody answers any more where work was given to; what is left of the connection cannot be closed either."""


def require(condition: object, message: str) -> None:
    """Raise `KroghError(message)` unless `condition` holds."""
    if not condition:
        raise KroghError(message)


def unknown(kind: str, given: str, allowed: Iterable[str]) -> KroghError:
    """The error for an unknown name: what was given, the nearest valid choice, and all choices or the nearest five."""
    choices = sorted(allowed)
    near = difflib.get_close_matches(given, choices, n=1, cutoff=0.4)
    hint = f"; did you mean {near[0]!r}?" if near else ""
    if len(choices) > MOST_LISTED:
        nearest = difflib.get_close_matches(given, choices, n=NEAREST, cutoff=0.0)
        return KroghError(f"unknown {kind} {given!r}{hint} (nearest of {len(choices)}: {', '.join(nearest)})")
    listed = ", ".join(choices) if choices else "none are registered"
    return KroghError(f"unknown {kind} {given!r}{hint} (known: {listed})")


def require_integer(name: str, value: Any, low: int, high: int | None = None) -> None:
    """Require `value` to be an integer in [low, high]."""
    try:
        number = None if isinstance(value, bool) else operator.index(value)
    except TypeError:
        number = None
    within = number is not None and low <= number and (high is None or number <= high)
    allowed = f"at least {low}" if high is None else f"between {low} and {high}"
    require(within, f"{name} must be an integer {allowed}; got {name}={value!r}")
