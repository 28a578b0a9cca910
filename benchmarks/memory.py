"""Peak resident memory of a study against its number of trials, each in a process of its own.

python benchmarks/memory.py 2000 20000
"""

from __future__ import annotations

import subprocess
import sys

CHILD = """
import sys, tempfile
from krogh import registry
from krogh.bench.table import peak_kilobytes
from krogh.lab import run_study

with tempfile.TemporaryDirectory() as folder:
    changes = {"trials": int(sys.argv[1]), "n": 12, "k": 2, "rate": 1.0, "budget": 2000}
    run_study(registry.EXPERIMENTS["parity/histogram"](), "paper", folder, changes=changes)
print(peak_kilobytes())
"""


def peak(trials: int) -> int:
    """KiB that a study of so many quick trials takes at its peak."""
    done = subprocess.run([sys.executable, "-c", CHILD, str(trials)], check=True, capture_output=True, text=True)
    return int(done.stdout.split()[-1])


if __name__ == "__main__":
    counts = [int(text) for text in sys.argv[1:]] or [2_000, 20_000]
    peaks = [peak(count) for count in counts]
    for count, size in zip(counts, peaks, strict=True):
        print(f"{count:>10,} trials  {size / 1024:>8,.0f} MiB")
    if len(counts) > 1:
        print(f"{1024 * (peaks[-1] - peaks[0]) / (counts[-1] - counts[0]):,.0f} bytes per further trial")
