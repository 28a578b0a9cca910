"""A line on standard error for what a user should know and what stops nothing."""

from __future__ import annotations

import re
import sys
from typing import Any

_UNPRINTABLE = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


def say(line: str) -> None:
    print(f"krogh: {printable(line)}", file=sys.stderr, flush=True)


def printable(found: Any) -> Any:
    """Text, or data of JSON, in which nothing moves a cursor, turns words round, or cannot be written."""
    if isinstance(found, str):
        return _UNPRINTABLE.sub("\N{REPLACEMENT CHARACTER}", found)
    if isinstance(found, dict):
        return {printable(key): printable(value) for key, value in found.items()}
    return [printable(item) for item in found] if isinstance(found, list) else found


def first_line(cause: BaseException) -> str:
    """What an error of another library says, in a few words."""
    return (str(cause).strip() or type(cause).__name__).splitlines()[0][:200]
