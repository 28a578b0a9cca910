"""The most memory that this process has held.

Not `ru_maxrss`: in a new process it begins with what the process that started it had held, so that a difference of two
readings may be nothing whatever happens between them.
"""

from __future__ import annotations

import contextlib
from pathlib import Path


def peak_kilobytes() -> int:
    """Of Linux, which keeps it for the program that runs now."""
    return int(Path("/proc/self/status").read_text().split("VmHWM:")[1].split()[0])


def forget_peak() -> None:
    """From here on the peak is that of what follows, where the system allows it."""
    with contextlib.suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")
