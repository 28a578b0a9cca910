"""Prints flags with which XLA compiles in half the time: short tests do little else.

A version of XLA that does not know a flag ends the process, so each is tried in a process of its own.
"""

from __future__ import annotations

import os
import subprocess
import sys

FLAGS = (
    "--xla_backend_optimization_level=0",
    "--xla_llvm_disable_expensive_passes=true",
    "--xla_cpu_use_fusion_emitters=false",
)


def known(flag: str) -> bool:
    program = [sys.executable, "-c", "import jaxlib.xla_client as client; client.make_cpu_client()"]
    return subprocess.run(program, env={**os.environ, "XLA_FLAGS": flag}, capture_output=True).returncode == 0


if __name__ == "__main__":
    print(" ".join(FLAGS) if known(" ".join(FLAGS)) else " ".join(filter(known, FLAGS)))
