"""Compiled programs: one per structure, plan and device, made when first asked for, or ahead of time.

A study asks for the next cohort's program while the present one trains, and a lane on a GPU for the smaller block
in which its last trials will go on, so that neither has to wait.

A program lives as long as somebody holds the future it was asked for with: the lanes of its structure, and beyond them
only the last few programs asked for. Each takes some 330 memory maps and 9.5 MiB on a CPU, and a process that runs out
of maps dies. What JAX remembers of how programs were traced is forgotten every few dozen of them.

What one process has compiled, the next one reads from disk. The cache is JAX's own. Its folder is `$KROGH_CACHE`, or
`krogh` in the user's cache folder (`$XDG_CACHE_HOME`, else `~/.cache`); `KROGH_CACHE=off` keeps nothing. A process that
has given JAX a folder already uses that one as it is.
"""

from __future__ import annotations

import contextlib
import hashlib
import math
import os
import platform
import re
import sys
import threading
import time
import zlib
from collections import OrderedDict
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary, WeakValueDictionary

import jax
import numpy as np

from krogh.engine import program
from krogh.engine.memory import Plan, require_compiled
from krogh.engine.resident import ResidentProgram
from krogh.engine.shapes import program_key
from krogh.engine.trial import Trial
from krogh.files import cache_folder
from krogh.models.two_layer import LONGEST_SUM
from krogh.values import handing, shared_of

# XLA merges two products that share a factor, with a concatenation of the other factors in front, and the kernel that
# it writes for that may be wrong (jaxlib 0.11.2: benchmarks/wrong_fusion.py): so products are left as they are.
TUNED: Any = {"xla_gpu_dot_merger_threshold_mb": 0}
# On a GPU trying out variants of every matrix product takes most of a compilation: 32 of 40 processor seconds for a GRU
# of 500 units, whose steps are no faster for it. Only for the blocks of thousands that fill a GPU is it worth its time.
UNTUNED: Any = TUNED | {"xla_gpu_autotune_level": 0}
# A kernel for each of an unrolled recurrence's products takes minutes to write, a call of the library nothing.
LIBRARY: Any = UNTUNED | {"xla_gpu_enable_triton_gemm": False}
TUNED_BLOCK = 1024
# A part of a product's sum is shared out along one dimension if that makes 16 tasks of 40,000 cycles by Eigen's
# reckoning, 16 multiplications a cycle; 4 where a dimension is narrower than its kernel.
LARGE_PART, NARROW, LARGE_NARROW_PART = 1 << 23, 32, 1 << 21
PART = 320  # the most terms of a sum that Eigen takes at once
_SHAPE = re.compile(r"%([\w.-]+) = \w+\[([\d,]*)\]")
_COMPUTATION = re.compile(r"(?:ENTRY )?%([\w.-]+) \(")
_LIBRARY = re.compile(r"calls=%([\w.-]+).*__ynn_fusion")
_PRODUCT = re.compile(r" = \w+\[([\d,]*)\]\S* dot\(%([\w.-]+),.*lhs_contracting_dims=\{([\d,]*)\}")
RECENT = 16  # programs kept for a second run of the same structure
FORGET_EVERY = 32  # programs; of each JAX keeps some 0.7 MiB in its caches
LARGEST = 1 << 30  # bytes; JAX's own limit needs another package
LEAST_SECONDS = 0.3  # what is compiled faster is not kept
_SETTLED = 60.0  # seconds after which nobody is writing an entry any more

_LOCK = threading.Lock()
_PROGRAMS: WeakValueDictionary[Any, Future[Any]] = WeakValueDictionary()
_TURNS: WeakKeyDictionary[Any, bool] = WeakKeyDictionary()
_RECENT: OrderedDict[Any, Future[Any]] = OrderedDict()
_WORKERS: list[ThreadPoolExecutor] = []
_ASKED = 0


def compilers_here() -> int:
    """How many programs are compiled at a time; on two cores one is enough."""
    return max(1, min(12, (os.cpu_count() or 1) * 3 // 4))


def request_program(template: Trial, plan: Plan, device: Any) -> tuple[Future[Any], bool]:
    """The program for `plan` as a future, which the caller holds as long as it may need it again, and whether it is
    compiled for this request."""
    global _ASKED
    key = (program_key(template), plan, device, getattr(jax.config, "jax_default_matmul_precision", None))
    with _LOCK:
        wanted = _PROGRAMS.get(key)
        first = wanted is None or (wanted.done() and wanted.exception() is not None)
        if wanted is None or first:
            if not _WORKERS:
                keep_programs()
                _WORKERS.append(ThreadPoolExecutor(compilers_here(), thread_name_prefix="krogh-compile"))
            _ASKED += 1
            if _ASKED % FORGET_EVERY == 0:
                _WORKERS[0].submit(jax.clear_caches)
            wanted = _PROGRAMS[key] = _WORKERS[0].submit(_compile, template, plan, device)
        _RECENT[key] = wanted
        _RECENT.move_to_end(key)
        while len(_RECENT) > RECENT:
            _RECENT.popitem(last=False)
        return wanted, first


def release() -> None:
    """Forget every program that nobody holds, and all that JAX has compiled or traced in this process.

    What is needed again is compiled again, or read from disk.
    """
    with _LOCK:
        _RECENT.clear()
    jax.clear_caches()


def _compile(template: Trial, plan: Plan, device: Any) -> Any:
    if plan.resident:
        return ResidentProgram(template, plan.slots, device)
    sharding = jax.sharding.SingleDeviceSharding(device)

    def shaped(shape: tuple[int, ...], dtype: Any) -> Any:
        return jax.ShapeDtypeStruct(shape, dtype, sharding=sharding)

    trials = jax.tree.map(lambda leaf: shaped((plan.slots, *np.shape(leaf)), leaf.dtype), template)
    empty = jax.eval_shape(lambda: program.empty_states(template, plan.slots))
    states = jax.tree.map(lambda leaf: shaped(leaf.shape, leaf.dtype), empty)
    fresh, number = shaped((plan.slots,), np.bool_), shaped((), np.int32)
    shared = {
        checksum: {name: shaped(array.shape, array.dtype) for name, array in found.arrays.items()}
        for checksum, found in shared_of(template).items()
    }

    def advance(trials: Any, states: Any, fresh: Any, rounds: Any, blocks: Any, *handed: Any) -> Any:
        with handing(*handed) if handed else contextlib.nullcontext():
            return program.advance(trials, states, fresh, rounds, blocks, block=plan.block)

    arguments = (trials, states, fresh, number, number, *([shared] if shared else []))
    lowered = jax.jit(advance, donate_argnums=1).lower(*arguments)
    compiled = lowered.compile(compiler_options=compiler_options(template, plan, device))
    if plan.block == 1:  # nothing smaller could be tried
        require_compiled(compiled, plan, device)
    return compiled


def compiler_options(template: Trial, plan: Plan, device: Any) -> dict[str, Any] | None:
    """What the compiler of a program is told; None for its own choices."""
    if device.platform != "gpu":
        return None
    if plan.block >= TUNED_BLOCK:
        return TUNED
    return LIBRARY if template.model.library_products else UNTUNED


def takes_turns(program: Any, device: Any) -> bool:
    """Whether no other program may run on a CPU while this one does."""
    with _LOCK:
        if program not in _TURNS:
            _TURNS[program] = device.platform == "cpu" and bool(long_sums(program.as_text()))
        return _TURNS[program]


def long_sums(compiled: str) -> list[str]:
    """The products of a CPU's compiled program, as text, that may come out wrong when the pool's threads are all busy.

    These are Eigen's (YNNPACK's are fusions of their own), sums of more than `LONGEST_SUM` terms, and large enough for
    each of two threads to have eight shares of them: see benchmarks/full_queue.py.
    """
    shapes = {name: _numbers(shape) for name, shape in _SHAPE.findall(compiled)}
    elsewhere = set(_LIBRARY.findall(compiled))
    found, computation = [], ""
    for line in compiled.splitlines():
        if opening := _COMPUTATION.match(line):
            computation = opening.group(1)
        elif (product := _PRODUCT.search(line)) and computation not in elsewhere:
            result, left, dimensions = product.groups()
            terms = math.prod(shapes[left][place] for place in _numbers(dimensions))
            matrix = _numbers(result)[-2:]
            large = LARGE_PART if min(matrix, default=0) >= NARROW else LARGE_NARROW_PART
            if terms > LONGEST_SUM and len(matrix) == 2 and math.prod(matrix) * min(terms, PART) >= large:
                found.append(line.strip())
    return found


def _numbers(text: str) -> list[int]:
    return [int(number) for number in text.split(",") if number]


# --- programs on disk ---------------------------------------------------------------------------------------------


def keep_programs() -> Path | None:
    """Let JAX read and write programs on disk from now on; the folder, or None if nothing is kept."""
    chosen = cache_folder()
    if chosen is None or getattr(jax.config, "jax_compilation_cache_dir", None) is not None:
        return None
    folder = chosen / f"programs-{_machine()}"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        tidy(folder)
    except OSError as cause:
        _say(f"compiled programs are not kept: {folder} cannot be used ({cause.strerror}); KROGH_CACHE names another")
        return None
    if "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS" not in os.environ:
        jax.config.update("jax_persistent_cache_min_compile_time_secs", LEAST_SECONDS)
    jax.config.update("jax_compilation_cache_dir", str(folder))
    return folder


def kernel_folder() -> Path | None:
    """Where compiled kernels are kept; None for nowhere."""
    chosen = cache_folder()
    return None if chosen is None else chosen / "kernels"


def _machine() -> str:
    """A name for what a CPU's programs run on: a home may be shared by machines with different instructions."""
    known = [platform.machine(), platform.processor()]
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
        known += sorted({line for line in lines if line.startswith(("model name", "flags", "Features", "CPU part"))})
    except OSError:
        pass
    return hashlib.blake2b("\n".join(known).encode(), digest_size=4).hexdigest()


def tidy(folder: Path, largest: int = LARGEST) -> None:
    """Remove damaged entries that were written since this was last done, then the oldest above `largest` bytes.

    JAX writes an entry in place and never writes it again: one whose writer died would be met with a warning for ever.
    """
    stamp = folder / "checked"
    since = stamp.stat().st_mtime if stamp.exists() else 0.0
    until = time.time() - _SETTLED
    kept = []
    for path in folder.glob("*-cache"):
        try:
            size, written = path.stat().st_size, path.stat().st_mtime
            if since <= written < until and not _sound(path):
                _say(f"{path} is damaged and was removed; its program is compiled again")
                path.unlink()
            else:
                kept.append((written, size, path))
        except FileNotFoundError:  # another process was faster
            continue
    stamp.touch()
    os.utime(stamp, (until, until))
    total = sum(size for _, size, _ in kept)
    for _, size, path in sorted(kept, key=lambda entry: entry[0]):
        if total <= largest:
            break
        path.unlink(missing_ok=True)
        total -= size


def _sound(path: Path) -> bool:
    """Whether an entry can be unpacked; one packed with zstandard is left to JAX."""
    packed = path.read_bytes()
    if packed.startswith(b"\x28\xb5\x2f\xfd"):
        return True
    try:
        zlib.decompress(packed)
    except zlib.error:
        return False
    return True


def _say(line: str) -> None:
    print(f"krogh: {line}", file=sys.stderr)
