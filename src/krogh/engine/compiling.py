"""Compiled programs: one per structure, plan and device, made when first asked for, or ahead of time.

A study asks for the next cohort's program while the present one trains, and a lane on a GPU for the smaller block
in which its last trials will go on, so that neither has to wait.

A program lives as long as somebody holds the future it was asked for with: the lanes of its structure, and beyond them
only the last few programs asked for. Each takes some 330 memory maps and 9.5 MiB on a CPU, and a process that runs out
of maps dies. What JAX remembers of how programs were traced is forgotten every few dozen of them.
"""

from __future__ import annotations

import functools
import os
import threading
from collections import OrderedDict
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any
from weakref import WeakValueDictionary

import jax
import numpy as np

from krogh.engine import program
from krogh.engine.disk import keep_programs
from krogh.engine.memory import Plan, program_key
from krogh.engine.trial import Trial

# On a GPU trying out variants of every matrix product takes most of a compilation: 32 of 40 processor seconds for a GRU
# of 500 units, whose steps are no faster for it. Only for the blocks of thousands that fill a GPU is it worth its time.
UNTUNED: Any = {"xla_gpu_autotune_level": 0}
# A kernel for each of an unrolled recurrence's products takes minutes to write, a call of the library nothing. But with
# this option (JAX 0.11.2) the sparse Transformer trains wrongly, at any precision: only models whose trials were
# compared with a CPU's have it (docs/performance.md). `krogh verify` compares the two devices.
LIBRARY: Any = UNTUNED | {"xla_gpu_enable_triton_gemm": False}
TUNED_BLOCK = 1024
RECENT = 16  # programs kept for a second run of the same structure
FORGET_EVERY = 32  # programs; of each JAX keeps some 0.7 MiB in its caches

_LOCK = threading.Lock()
_PROGRAMS: WeakValueDictionary[Any, Future[Any]] = WeakValueDictionary()
_RECENT: OrderedDict[Any, Future[Any]] = OrderedDict()
_WORKERS: list[ThreadPoolExecutor] = []
_ASKED = 0


def requested(template: Trial, plan: Plan, device: Any) -> tuple[Future[Any], bool]:
    """The program for `plan` as a future, which the caller holds as long as it may need it again, and whether it is
    compiled for this request."""
    global _ASKED
    key = (program_key(template), plan, device)
    with _LOCK:
        wanted = _PROGRAMS.get(key)
        first = wanted is None or (wanted.done() and wanted.exception() is not None)
        if wanted is None or first:
            if not _WORKERS:
                keep_programs()
                number = max(1, min(12, (os.cpu_count() or 1) * 3 // 4))  # on two cores one at a time is enough
                _WORKERS.append(ThreadPoolExecutor(number, thread_name_prefix="krogh-compile"))
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
    sharding = jax.sharding.SingleDeviceSharding(device)

    def shaped(shape: tuple[int, ...], dtype: Any) -> Any:
        return jax.ShapeDtypeStruct(shape, dtype, sharding=sharding)

    trials = jax.tree.map(lambda leaf: shaped((plan.slots, *np.shape(leaf)), leaf.dtype), template)
    empty = jax.eval_shape(lambda: program.empty_states(template, plan.slots))
    states = jax.tree.map(lambda leaf: shaped(leaf.shape, leaf.dtype), empty)
    fresh, number = shaped((plan.slots,), np.bool_), shaped((), np.int32)
    advance = functools.partial(program.advance, block=plan.block)
    lowered = jax.jit(advance, donate_argnums=1).lower(trials, states, fresh, number, number)
    return lowered.compile(compiler_options=compiler_options(template, plan, device))


def compiler_options(template: Trial, plan: Plan, device: Any) -> dict[str, Any] | None:
    """What the compiler of a program is told; None for its own choices."""
    if device.platform != "gpu" or plan.block >= TUNED_BLOCK:
        return None
    return LIBRARY if template.model.library_products else UNTUNED
