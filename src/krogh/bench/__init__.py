"""Throughput of the standard workload beside what one would write instead."""

from krogh.bench.table import run_benchmark

__all__ = ["run_benchmark"]
