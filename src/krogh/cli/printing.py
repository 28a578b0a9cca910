"""How commands print: tables that fit a terminal, whole lines where the output goes elsewhere, and one line on a fault.

exit code   0 done   1 a claim is not reproduced (--strict), a device disagrees   2 bad input   130 interrupted
            3 a file or folder cannot be read or written   4 no such device   5 out of memory   141 a closed pipe
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import sys
import traceback
from typing import Any, TextIO

FILES, DEVICE, MEMORY, PIPE = 3, 4, 5, 141
WIDEST = 10_000  # columns of what is no terminal: a line is never broken there

MARKS = {"reproduced": "[green]✓[/green]", "not reproduced": "[red]✗[/red]", "inconclusive": "[yellow]–[/yellow]"}
"""How a verdict is marked on a terminal."""


def console(*, stderr: bool = False) -> Any:
    """A Rich console: as wide as the terminal, or without an edge where there is none."""
    from rich.console import Console

    class KroghConsole(Console):
        def on_broken_pipe(self) -> None:
            """A closed pipe is `main`'s to see to, with an exit code of its own."""
            raise  # what Rich has caught

        def print(self, *objects: Any, **options: Any) -> None:
            """Without the blanks that fill the columns of a table, where nobody sees them."""
            if self.is_terminal:
                return super().print(*objects, **options)
            with self.capture() as captured:
                super().print(*objects, **options)
            self.file.write(re.sub(r" +(?=\n)", "", captured.get()))

    made = KroghConsole(stderr=stderr)
    return made if made.is_terminal else KroghConsole(stderr=stderr, width=WIDEST)


def make_printable() -> None:
    """Let a terminal that knows fewer letters print a question mark for the others instead of ending in an error."""
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors="replace")


def fault(problem: BaseException) -> tuple[int, str] | None:
    """The exit code and the one line for a fault that lies outside of krogh; None for one that does not."""
    if isinstance(problem, BrokenPipeError):
        return PIPE, ""
    if isinstance(problem, OSError) and problem.errno is not None:
        place = f": {problem.filename}" if problem.filename else ""
        remedy = " (free some space and run the same command again: it resumes)" if _full(problem) else ""
        return FILES, f"{problem.strerror}{place}{remedy}"
    if isinstance(problem, MemoryError) or "RESOURCE_EXHAUSTED" in str(problem):
        first = str(problem).partition("\n")[0]
        return MEMORY, f"out of memory{': ' + first if first else ''} (try a smaller width, batch or sample)"
    if _without_device(problem):
        asked = os.environ.get("JAX_PLATFORMS", "")
        wish = f"JAX_PLATFORMS={asked} asks for a device that JAX does not find" if asked else "JAX finds no device"
        return DEVICE, f"{wish} (unset it for the CPU; pip install 'krogh[cuda]' for NVIDIA GPUs)"
    return None


def _without_device(problem: BaseException) -> bool:
    """Whether JAX failed to find a device: some versions say so, others fail an assertion where they look for one."""
    last = traceback.extract_tb(problem.__traceback__)[-1:]
    looking = bool(last) and last[0].filename.endswith("xla_bridge.py")
    said = isinstance(problem, RuntimeError) and "Unable to initialize backend" in str(problem)
    return said or (looking and isinstance(problem, AssertionError | RuntimeError))


def _full(problem: OSError) -> bool:
    return problem.errno in (errno.ENOSPC, errno.EDQUOT)


def close_quietly(stream: TextIO) -> None:
    """Nobody reads on: what Python still flushes at its end goes nowhere."""
    with contextlib.suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
