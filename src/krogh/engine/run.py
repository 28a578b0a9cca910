"""Running cohorts: lanes on every device, their records as they come.

A lane is a thread: a compiled program releases the interpreter while it runs. On a CPU there is one per core; on
a GPU two per device, so that one lane's program runs while the other's records are read.
"""

from __future__ import annotations

import os
import queue
import threading
from collections.abc import Generator, Iterator
from typing import Any

import jax
import numpy as np

from krogh.engine.cohort import Trials
from krogh.engine.compiling import requested
from krogh.engine.lane import Finished, Lane, Usage, Waiting
from krogh.engine.memory import Plan, plan
from krogh.errors import KroghError

LANES_PER_GPU = 2
_OUT_OF_MEMORY = ("RESOURCE_EXHAUSTED", "Out of memory", "out of memory")


def lanes_here() -> list[Any]:
    """One entry per lane: the device it uses."""
    devices = jax.local_devices()
    if devices[0].platform == "cpu" and len(devices) == 1:
        return devices * max(1, len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 1)
    return [device for device in devices for _ in range(LANES_PER_GPU if device.platform != "cpu" else 1)]


def prepare(cohort: Trials, count: int) -> int:
    """Ask for the program with which `count` trials of the cohort will be trained; how many were new."""
    if not count:
        return 0
    fitted = cohort.fitted()
    devices = _lanes_for(count)
    return sum(
        requested(fitted.template, plan(fitted.template, -(-count // len(devices)), device), device)[1]
        for device in dict.fromkeys(devices)
    )


def _lanes_for(count: int) -> list[Any]:
    lanes = lanes_here()
    return lanes[:1] if count == 1 else lanes


def run_cohort(
    cohort: Trials,
    positions: np.ndarray | None = None,
    *,
    usage: Usage | None = None,
    keep_weights: bool = False,
    memory_limit: int | None = None,
    plan_override: Plan | None = None,
) -> Generator[Finished, None, None]:
    """Train the trials at `positions` (all unless given) and yield their records as they end.

    Closing the iterator stops the lanes after the chunk in flight.
    """
    wanted = np.arange(len(cohort)) if positions is None else np.asarray(positions)
    if not len(wanted):
        return
    usage = Usage() if usage is None else usage
    fitted = cohort.fitted()
    devices = _lanes_for(len(wanted))
    # A CPU's lane trains its slots one after the other: handing out half shares keeps the lanes level.
    waiting = Waiting(wanted, len(devices) * (2 if devices[0].platform == "cpu" else 1))
    results: queue.Queue[Finished | BaseException | None] = queue.Queue(maxsize=4 * len(devices))
    stop = threading.Event()
    share = -(-len(wanted) // len(devices))
    chosen = [plan_override or plan(fitted.template, share, device, memory_limit) for device in devices]
    threads = [
        threading.Thread(
            target=_work, args=(fitted, size, device, keep_weights, waiting, results, stop, usage), daemon=True
        )
        for device, size in zip(devices, chosen, strict=True)
    ]
    for thread in threads:
        thread.start()
    try:
        yield from _collected(results, len(threads))
    finally:
        stop.set()
        while any(thread.is_alive() for thread in threads):
            try:
                results.get(timeout=0.05)  # a lane may be waiting to hand over
            except queue.Empty:
                continue
        for thread in threads:
            thread.join()


def _collected(results: queue.Queue[Any], running: int) -> Iterator[Finished]:
    while running:
        try:
            item = results.get(timeout=0.2)  # an endless wait could not be interrupted
        except queue.Empty:
            continue
        if item is None:
            running -= 1
        elif isinstance(item, BaseException):
            raise item
        else:
            yield item


_ADDING = threading.Lock()


def _work(
    cohort: Trials,
    size: Plan,
    device: Any,
    keep_weights: bool,
    waiting: Waiting,
    results: queue.Queue[Any],
    stop: threading.Event,
    usage: Usage,
) -> None:
    own = Usage()
    try:
        lane: Lane | None = None
        while not stop.is_set():
            try:
                lane = Lane(cohort, size, device, keep_weights, own) if lane is None else lane
                lane.refill(waiting)
                if not len(lane.in_flight):
                    break
                finished = lane.advance()
            except jax.errors.JaxRuntimeError as cause:
                size = _smaller(size, lane, waiting, cause, own)
                lane = None
                continue
            if finished is not None:
                results.put(finished)
    except BaseException as cause:
        results.put(cause)
    finally:
        with _ADDING:
            usage.executed_steps += own.executed_steps
            usage.useful_steps += own.useful_steps
            usage.compilations += own.compilations
            usage.splits += own.splits
            usage.seconds += own.seconds
        results.put(None)


def _smaller(size: Plan, lane: Lane | None, waiting: Waiting, cause: Exception, usage: Usage) -> Plan:
    """After running out of memory: the trials in flight go back, and a smaller plan is tried."""
    if not any(sign in str(cause) for sign in _OUT_OF_MEMORY):
        raise cause
    if lane is not None:
        waiting.give_back(lane.in_flight)
    usage.splits += 1
    smaller = size.halved()
    if smaller is None:
        raise KroghError(
            "one trial alone does not fit into the device's memory; make the model, the batch or the "
            "finite sample smaller"
        ) from cause
    return smaller
