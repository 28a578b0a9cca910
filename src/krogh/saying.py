"""A line on standard error for what a user should know and what stops nothing."""

from __future__ import annotations

import sys


def say(line: str) -> None:
    print(f"krogh: {line}", file=sys.stderr, flush=True)


def first_line(cause: BaseException) -> str:
    """What an error of another library says, in a few words."""
    return (str(cause).strip() or type(cause).__name__).splitlines()[0][:200]
