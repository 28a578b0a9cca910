"""Trial-steps per second of the standard workload against the number of networks trained at once.

python benchmarks/blocks.py 512 1024 2048 4096 8192
"""

from __future__ import annotations

import sys
import time

import jax
import numpy as np

from krogh.bench.workload import standard_trial
from krogh.engine import sweep
from krogh.engine.lane import Lane, Waiting
from krogh.engine.memory import Plan


def speed(block: int, seconds: float = 3.0) -> float:
    """Trial-steps per second with `block` networks at once, checks included."""
    cohort = sweep(standard_trial(1_000_000), seed=range(block))[0].fitted()
    lane = Lane(cohort, Plan(block, block), jax.local_devices()[0])
    lane.refill(Waiting(np.arange(block)))
    lane.advance()
    before, begun = lane.usage.executed_steps, time.perf_counter()
    while time.perf_counter() - begun < seconds:
        lane.advance()
    return (lane.usage.executed_steps - before) / (time.perf_counter() - begun)


if __name__ == "__main__":
    for text in sys.argv[1:] or ["1", "8", "64"]:
        print(f"{int(text):>7,} networks at once  {speed(int(text)):>14,.0f} trial-steps/s", flush=True)
