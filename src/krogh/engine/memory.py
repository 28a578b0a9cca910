"""The memory plan: how many trials are in flight, and how many of them are trained at once.

Slots hold trials; a block of slots is trained at once and needs working memory beside its state. The model
counts the bytes of a trial's state and of every array its round computes (an upper bound: compilers fuse),
and gives the device as many slots as fit in a share of its memory.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np

from krogh.engine import checking, program, resident
from krogh.engine.devices import memory_of
from krogh.engine.round import GROUP_SHARE, train_round
from krogh.engine.shapes import EXAMPLES, checked_shapes, example_shapes, once_per_structure
from krogh.engine.trial import Trial
from krogh.errors import TooLarge
from krogh.models.base import Learner

SHARE = {"cpu": 0.25, "gpu": 0.35}  # of the device, per lane; a GPU has two lanes
CPU_SLOTS = 8
GPU_BLOCK = 8192
GPU_BLOCKS = 2
REFILLS = 4
FEW = 128
FEWEST = 8
FUSED = 16  # the model counts up to 7 times what programs were measured to take, since compilers fuse
BUSY_BYTES = 4 << 30  # a block whose steps compute so much keeps a GPU busy whatever its size


@dataclass(frozen=True)
class Plan:
    """Slots in flight on one lane, in blocks that are trained at once."""

    slots: int
    block: int
    resident: bool = False  # trained by the kernel (`krogh.engine.resident`), which needs no blocks

    def halved(self) -> Plan | None:
        """The next smaller plan, for when the device ran out of memory; None when there is none."""
        if self.slots == 1:
            return None
        block = max(1, self.block // 2) if self.block > 1 else 1
        slots = max(block, self.slots // 2 // block * block)
        return Plan(slots, block, self.resident)


@dataclass(frozen=True)
class Footprint:
    """Bytes that a trial occupies: in its slot, and while its block is trained, checked and probed; and those that a
    step computes, which say how busy it keeps a device."""

    state: int
    work: int
    step: int


def footprint(trial: Trial) -> Footprint:
    """The model of a trial's memory; tracing it takes a moment, so it is remembered for the structure."""
    return once_per_structure(_traced_footprint, trial)


def _traced_footprint(trial: Trial) -> Footprint:
    state = jax.eval_shape(program.start, trial)
    constants = jax.eval_shape(checking.constants_of, trial)
    kept = _bytes(state) + _bytes(trial)
    round_ = jax.make_jaxpr(train_round)(trial, constants, state)
    check = jax.make_jaxpr(checking.all_errors)(trial, state.params)
    # Old and new state live side by side while a block is trained.
    step = kept + _computed(round_.jaxpr) + _computed(check.jaxpr) // GROUP_SHARE
    return Footprint(kept, max(step, kept + _looked_at(trial, state)), step)


def _looked_at(trial: Trial, state: Any) -> int:
    """Bytes of the larger of two looks at all trials of a block at once: the prefix of a check, and the probes."""

    def prefix(trial: Trial, params: Any) -> Any:
        return checking.errors(trial, params, checking.prefix_of(trial))

    looks = [jax.make_jaxpr(prefix)(trial, state.params)]
    if trial.probes:
        looks.append(jax.make_jaxpr(program.probed)(trial, state))
    return max(_computed(look.jaxpr) for look in looks)


def plan(trial: Trial, count: int, device: Any, limit: int | None = None) -> Plan:
    """How many slots a lane on `device` has for `count` trials, within `limit` bytes if given."""
    size = footprint(trial)
    if limit is None:
        _require_fit(size, device)
    room = available(device) if limit is None else limit
    if resident.covers(trial, device):
        return Plan(resident.slots(count, room // max(1, size.state)), 1, resident=True)
    if device.platform == "cpu":
        # Whatever the count: empty slots cost nothing, and one structure then has one program.
        slots = min(CPU_SLOTS, (room - size.work) // max(1, size.state))
        return Plan(int(max(1, slots)), 1)
    most = min(GPU_BLOCK, room // (size.work + GPU_BLOCKS * size.state))
    if not trial.training.stopping.early:
        # Trials that run their whole budget end together: no slot is left empty in between, and each further block is
        # a further pass over all steps. So as few blocks as there is room for, with equally many trials in each.
        passes = -(-count // max(1, most))
        block = -(-count // passes)
        return Plan(int(block * min(GPU_BLOCKS, passes)), int(block))
    block = _power_of_two_below(most)
    # Fewer slots than trials, so that finished trials are replaced and do not run on; but not so few that the device
    # waits for launches: a step of a hundred small networks takes it about as long as a step of one. Of large ones a
    # few will do, and smaller blocks then leave less empty when the last trials run on.
    few = min(FEW, max(FEWEST, _power_of_two_below(BUSY_BYTES // size.step)))
    refills = REFILLS if few == FEW else 2 * REFILLS
    block = min(block, max(few, _power_of_two_below(count // refills)), max(1, count))
    blocks = min(GPU_BLOCKS, -(-count // block))
    return Plan(int(block * blocks), int(block))


def available(device: Any) -> int:
    """Bytes that the engine allows itself on a device."""
    cores = (os.cpu_count() or 1) if device.platform == "cpu" else 1
    return int(SHARE["cpu" if device.platform == "cpu" else "gpu"] * memory_of(device) / cores)


def require_room(trials: Iterable[Trial], device: Any) -> None:
    """Refuse trials of which one would not fit into the device.

    Parameters and examples are counted for all, which takes no time; only the largest trial is traced.
    """
    largest, most = None, -1
    for trial in trials:
        learner = isinstance(trial.model, Learner)
        parameters = 0 if learner else _bytes(checked_shapes(trial))
        regime = trial.training.regime
        at_once = int(getattr(regime, "batch_size", 0) or getattr(regime, "room", 0))
        least = parameters + at_once * (_bytes(example_shapes(trial.task)) // EXAMPLES)
        _require_within(least, device, f"parameters ({in_bytes(parameters)}) and {at_once:,} examples take")
        if not learner and least > most:
            largest, most = trial, least
    if largest is not None:
        _require_fit(footprint(largest), device)


def _require_fit(size: Footprint, device: Any) -> None:
    """Refuse before anything is compiled: with numbers that large, compilers abort rather than report."""
    _require_within(size.state, device, "its weights, optimiser and sample take")
    _require_within(size.work // FUSED, device, f"a step computes {in_bytes(size.work)}, which take at least")


def require_compiled(program: Any, plan: Plan, device: Any) -> None:
    """Refuse a compiled program of single trials that would not fit, by the compiler's own count, if there is one."""
    try:
        counted = program.memory_analysis()
        needed = counted.temp_size_in_bytes + counted.argument_size_in_bytes // plan.slots
    except (AttributeError, NotImplementedError, jax.errors.JaxRuntimeError):
        return
    _require_within(needed, device, "by the compiler's count its program takes")


def _require_within(needed: int, device: Any, what: str) -> None:
    there = memory_of(device)
    if needed > there:
        raise TooLarge(
            f"one trial alone does not fit: {what} {in_bytes(needed)} and the device has {in_bytes(there)}; "
            "make the model, the batch or the sample smaller"
        )


def in_bytes(number: float) -> str:
    """A number of bytes in words.

    >>> in_bytes(999), in_bytes(3 * 2**30)
    ('999 B', '3.0 GiB')
    """
    for unit in ("B", "KiB", "MiB", "GiB", "TiB", "PiB"):
        if number < 1024 or unit == "PiB":
            break
        number /= 1024
    return f"{number:,.0f} B" if unit == "B" else f"{number:,.1f} {unit}"


def _bytes(tree: Any) -> int:
    return sum(int(np.prod(leaf.shape)) * _itemsize(leaf.dtype) for leaf in jax.tree.leaves(tree))


def _itemsize(dtype: Any) -> int:
    return 8 if jax.dtypes.issubdtype(dtype, jax.dtypes.prng_key) else np.dtype(dtype).itemsize


def _computed(jaxpr: Any) -> int:
    """Bytes of everything a program computes, loops counted once."""
    total = 0
    for equation in jaxpr.eqns:
        total += _bytes([variable.aval for variable in equation.outvars])
        total += sum(_computed(inner) for inner in _inner(list(equation.params.values())))
    return total


def _inner(parameter: Any) -> Iterator[Any]:
    """The programs inside an operation's parameters (bodies of loops, branches, calls)."""
    if isinstance(parameter, list | tuple):
        for part in parameter:
            yield from _inner(part)
    elif hasattr(parameter, "eqns"):
        yield getattr(parameter, "jaxpr", parameter)


def _power_of_two_below(number: int) -> int:
    return 1 << max(0, int(number).bit_length() - 1)
