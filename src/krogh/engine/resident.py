"""Small two-layer networks on a GPU: a kernel keeps a trial's weights in registers between two looks from the host.

Through XLA, weights, batch and activations pass through memory several times in every step. The kernel
(`kernels/two_layer.cu`) gives each trial a block of threads, which trains it, checks it by the same rule as
`krogh.engine.checking`, and ends it: no trial waits for another. Examples are those of the other path, bit for bit, and
weights agree as well as two orders of summation in float32 do. Probes and snapshots are taken by an XLA program between
visits of the kernel. `obstacle` says what a trial would need to be trained so; everything else goes through XLA.

The kernel is compiled when a structure is first met, by NVRTC through the package cuda-core (extra `cuda`), and kept on
disk beside JAX's programs. Hyperparameters are data.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import math
import os
import sys
import threading
from importlib import resources
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int

from krogh.engine import program
from krogh.engine.checking import RUNNING, allowed_errors, likely_errors
from krogh.engine.round import State, frozen
from krogh.engine.trial import DATA, VALIDATION, Trial
from krogh.errors import require, unknown
from krogh.models.two_layer import Mlp
from krogh.tasks.bits import support_mask, words
from krogh.tasks.parity import AbstractParity
from krogh.training.optimisers import Constant, Sgd
from krogh.training.regimes import SHUFFLE_ROUNDS, Offline, Online
from krogh.training.stopping import EXACT

PATH, CHOICES = "KROGH_PATH", ("xla", "resident")
"""The environment's choice: the reference for all, or an error where the kernel cannot be used."""
LOSSES = ("hinge", "square", "logistic", "correlation")
WIDEST, MOST_INPUTS, LARGEST_BATCH = 384, 128, 128
LAYERS = ("W", "b", "u", "c")
STATE = ("step", "status", "streak", "reached", "error", "loss")
REGISTERS, MOST_BLOCKS, SHARED_BYTES = 65_536, 16, 40_000
SLOTS = 16_384  # many more than are trained at once (some 400): the others are in line, and the host has time to look
CAPABILITY = (8, 0)  # the first with mma.m16n8k16
PROBED_AT_ONCE = 64
MOST_STEPS = 1 << 30
FACTOR_BYTES = 256 << 20  # of a schedule's factors, one pair for each slot and step of a visit

_SAID: set[str] = set()
_BUILDING = threading.Lock()


def obstacle(trial: Trial) -> str | None:
    """Why the kernel cannot train trials of this structure; None if it can."""
    task, model, training = trial.task, trial.model, trial.training
    stopping, regime = training.stopping, training.regime
    if not isinstance(task, AbstractParity) or task.n > MOST_INPUTS:
        return f"its task is no parity of at most {MOST_INPUTS} bits"
    if not isinstance(model, Mlp) or model.activation != "relu" or model.width > WIDEST:
        return f"its model is no two-layer ReLU network of width at most {WIDEST}"
    if not isinstance(training.optimiser, Sgd) or training.loss not in LOSSES or training.penalty is not None:
        return f"it is not trained by SGD on one of the losses {', '.join(LOSSES)} without penalty"
    if not isinstance(regime, Online | Offline) or regime.batch_size > LARGEST_BATCH:
        return f"its regime is not Online or Offline with batches of at most {LARGEST_BATCH}"
    if stopping.restarts > 1 or trial.start.masks():
        return "it begins again, or has weights that stay zero"
    return None


def missing(device: Any) -> str | None:
    """What this machine lacks for the kernel; None if nothing."""
    if device.platform != "gpu":
        return "no GPU"
    capability = tuple(int(part) for part in str(getattr(device, "compute_capability", "0.0")).split("."))
    if capability < CAPABILITY:
        return f"the GPU has compute capability {'.'.join(map(str, capability))}; the kernel needs 8.0"
    return _compiler()


@functools.cache
def _compiler() -> str | None:
    try:
        from cuda.core import Device, LaunchConfig, Program, ProgramOptions, launch  # noqa: F401
    except ImportError as cause:
        return f"the package cuda-core is not usable ({cause}); pip install 'krogh[cuda]'"
    return None


def covers(trial: Trial, device: Any) -> bool:
    """Whether trials of this structure are trained by the kernel on this device; says once why not where they could."""
    chosen = os.environ.get(PATH, "")
    if chosen not in ("", *CHOICES):
        raise unknown("path", chosen, CHOICES)
    hindrance = obstacle(trial)
    if chosen == "resident":
        problem = hindrance or missing(device)
        require(problem is None, f"the resident kernel was asked for ({PATH}=resident), but cannot be used: {problem}")
    if chosen == "xla" or device.platform != "gpu" or hindrance is not None:
        return False
    lacking = missing(device) or _unbuildable(trial)
    if lacking is not None and lacking not in _SAID:
        _SAID.add(lacking)
        print(f"krogh: small networks are trained through XLA: {lacking}", file=sys.stderr)
    return lacking is None


def _unbuildable(trial: Trial) -> str | None:
    try:
        build(trial)
    except Exception as cause:
        return f"the kernel cannot be compiled ({str(cause).splitlines()[0] if str(cause) else cause!r})"
    return None


def slots(count: int, room: int) -> int:
    """How many slots a lane has for `count` trials, with room for so many."""
    number = max(1, min(SLOTS, count, room))
    return number if number <= PROBED_AT_ONCE else number // PROBED_AT_ONCE * PROBED_AT_ONCE


# --- the kernel ---------------------------------------------------------------------------------------------------


def constants(trial: Trial) -> dict[str, int]:
    """The kernel's compile-time constants for a structure."""
    task: Any = trial.task
    model: Any = trial.model
    training = trial.training
    regime: Any = training.regime
    optimiser: Any = training.optimiser
    stopping = training.stopping
    n, width, batch, every = task.n, model.width, regime.batch_size, stopping.check_every
    held = n // 32 + 1  # words that hold the inputs and the bias
    in_last = n - 32 * (held - 1) + 1
    tiles = 4 * (held - 1) + min(4, 2 * -(-in_last // 8))
    groups = -(-batch // 32)
    parts = 1 if training.loss in ("hinge", "correlation") else 2
    deep = 2 if width > 16 and tiles <= 8 and groups * parts == 1 else 1
    warps = -(-width // (16 * deep))
    rows = -(-tiles // 4)
    registers = 4 * deep * tiles + 16 * deep + 8 * deep * groups * parts + 56
    step_bytes = groups * (128 * held + 128 * rows + 4)
    size = stopping.size(task)
    return {
        "N": n,
        "NW": held,
        "NWR": words(n),
        "TILES": tiles,
        "MT": deep,
        "WARPS": warps,
        "BLOCKS": max(1, min(MOST_BLOCKS, REGISTERS // (32 * warps * min(registers, 255)))),
        "WIDTH": width,
        "BATCH": batch,
        "GROUPS": groups,
        "EVERY": every,
        "CHUNK": max(1, min(every, SHARED_BYTES // step_bytes)),
        "LOSS": LOSSES.index(training.loss),
        "OFFLINE": int(isinstance(regime, Offline)),
        "SHUFFLE": SHUFFLE_ROUNDS,
        "NOISY": int(task.label_noise is not None),
        "OUTPUT_BIAS": int(model.output_bias),
        "SCHEDULED": int(not all(isinstance(s, Constant) for s in (optimiser.schedule, optimiser.decay_schedule))),
        "LISTED": int(stopping.validation == EXACT),
        "VALIDATION": size,
        "PREFIX": min(stopping.prefix, size),
        "EARLY": int(stopping.early),
    }


def source() -> str:
    """The kernel's text, part of the package."""
    return resources.files("krogh.engine").joinpath("kernels", "two_layer.cu").read_text(encoding="utf-8")


def build(trial: Trial) -> Any:
    """The compiled kernel of a structure."""
    return _built(tuple(constants(trial).items()))


@functools.cache
def _built(macros: tuple[tuple[str, int], ...]) -> Any:
    from cuda.core import Device, ObjectCode, Program, ProgramOptions

    with _BUILDING:
        device = Device()
        device.set_current()
        architecture = "sm_{}{}".format(*device.compute_capability)
        text = source()
        kept = _kept_at(text, macros, architecture)
        code = _read(kept)
        if code is None:
            options = ProgramOptions(
                arch=architecture, std="c++17", define_macro=[(name, str(value)) for name, value in macros]
            )
            code = Program(text, "c++", options).compile("cubin").code
            _keep(kept, code)
        return ObjectCode.from_cubin(code).get_kernel("train")


def _kept_at(text: str, macros: tuple[tuple[str, int], ...], architecture: str) -> Path | None:
    """Where a compiled kernel is kept: a name that stands for all that it is made of."""
    from cuda.bindings import nvrtc

    from krogh.engine.compiling import kernel_folder

    folder = kernel_folder()
    made_of = repr((text, macros, architecture, nvrtc.nvrtcVersion()))
    return None if folder is None else folder / f"{hashlib.blake2b(made_of.encode(), digest_size=16).hexdigest()}.cubin"


def _read(path: Path | None) -> bytes | None:
    """A kept kernel, if the file is the user's own and as it was written: its digest comes first."""
    try:
        if path is None or path.stat().st_uid != os.getuid() or path.stat().st_mode & 0o022:
            return None
        content = path.read_bytes()
    except OSError:
        return None
    return content[32:] if hashlib.blake2b(content[32:], digest_size=32).digest() == content[:32] else None


def _keep(path: Path | None, code: bytes) -> None:
    from krogh.files import write_atomically

    if path is not None:
        with contextlib.suppress(OSError):
            path.parent.mkdir(parents=True, exist_ok=True)
            write_atomically(path, hashlib.blake2b(code, digest_size=32).digest() + code)


# --- a visit ------------------------------------------------------------------------------------------------------


def numbers_of(trial: Trial) -> dict[str, Array]:
    """What the kernel reads of one trial beside its state."""
    task: Any = trial.task
    optimiser: Any = trial.training.optimiser
    regime: Any = trial.training.regime
    stopping = trial.training.stopping
    frozen_names = trial.training.frozen
    noise = task.label_noise
    key = trial.key(DATA)

    def of_layers(of: Any) -> Array:
        return jnp.stack([jnp.asarray(0.0 if name in frozen_names else of(name), jnp.float32) for name in LAYERS])

    numbers = {
        "key": jax.random.key_data(key),
        "validation_key": jax.random.key_data(trial.key(VALIDATION)),
        "support": support_mask(task.support, task.n),
        "flips": (jnp.asarray(0.0 if noise is None else noise, jnp.float32) * 2.0**32).astype(jnp.uint32),
        "rate": of_layers(optimiser.rate_of),
        "decay": of_layers(optimiser.decay_of),
        "allowed": allowed_errors(trial),
        "likely": likely_errors(trial, min(stopping.prefix, stopping.size(task))),
        "budget": jnp.asarray(stopping.budget, jnp.int32),
        "consecutive": jnp.asarray(stopping.consecutive, jnp.int32),
    }
    if isinstance(regime, Offline):
        numbers["size"] = jnp.asarray(regime.m).astype(jnp.uint32)
        numbers["seeds"] = jax.random.bits(jax.random.fold_in(key, 1), (SHUFFLE_ROUNDS, 2), jnp.uint32)
    return numbers


def next_stop(trial: Trial, state: State, last: Int[Array, ""], horizon: int) -> Int[Array, ""]:
    """The step at which a visit ends: `last`, `horizon` steps on, the budget, or where a probe or a snapshot is due."""
    stop = jnp.minimum(jnp.minimum(last, state.step + horizon), trial.training.stopping.budget)
    if trial.probes and trial.probe_every:
        stop = jnp.minimum(stop, (state.step // trial.probe_every + 1) * trial.probe_every)
    for step in trial.snapshots:
        stop = jnp.where(state.step < step, jnp.minimum(stop, step), stop)
    return stop.astype(jnp.int32)


def look(trial: Trial, state: State, step: Int[Array, ""], status: Int[Array, ""]) -> State:
    """The state with what is due written down, of a trial that stood at `step` with `status` before the visit."""
    moved = (status == RUNNING) & (state.step > step)
    if trial.snapshots:
        state = jax.tree.map(lambda new, old: jnp.where(moved, new, old), program.snapped(trial, state), state)
    if trial.probes:
        due = moved & (trial.scheduled(state.step) | (state.status != RUNNING))
        state = jax.tree.map(lambda new, old: jnp.where(due, new, old), program.probed(trial, state), state)
    return state


def factors(trial: Trial, step: Int[Array, ""], horizon: int) -> Array:
    """Of rate and decay, at `horizon` steps from `step` on."""
    optimiser: Any = trial.training.optimiser
    steps = step + jnp.arange(horizon, dtype=jnp.int32)
    both = jax.vmap(lambda t: jnp.stack([optimiser.schedule.factor(t), optimiser.decay_schedule.factor(t)]))
    return both(steps).astype(jnp.float32)


class ResidentProgram:
    """The counterpart of `program.advance` for a cohort that the kernel trains; called in the same way.

    The kernel changes the parameters and the state of the slots where they lie: both belong to the lane alone.
    """

    def __init__(self, template: Trial, slots: int, device: Any):
        self.template, self.slots, self.device = template, slots, device
        self.kernel, self.constants = build(template), constants(template)
        every = template.training.stopping.check_every
        self.watched = bool(template.probes or template.snapshots)
        self.horizon = MOST_STEPS
        if self.constants["SCHEDULED"]:
            self.horizon = max(1, FACTOR_BYTES // (8 * slots) // every) * every
        self._begin = jax.jit(_begun, donate_argnums=1)
        self._numbers = jax.jit(jax.vmap(numbers_of))
        self._stop = jax.jit(jax.vmap(functools.partial(next_stop, horizon=self.horizon)))
        self._look = jax.jit(_watched)
        self._copied = jax.jit(lambda tree: jax.tree.map(jnp.copy, tree))
        self._factors = jax.jit(jax.vmap(factors, in_axes=(0, 0, None)), static_argnums=2)
        self._own = threading.local()  # several lanes share a program: each thread has its trials' numbers and a stream
        self._places = self._put(_first_places(template))
        self._nothing = self._put(np.zeros(1, np.uint32))

    def _put(self, tree: Any) -> Any:
        return jax.device_put(tree, self.device)

    def __call__(self, trials: Trial, states: State, fresh: Any, rounds: Any, blocks: Any) -> tuple[State, int]:
        every = self.template.training.stopping.check_every
        if np.asarray(fresh).any():
            states = self._begin(trials, states, fresh)
        if getattr(self._own, "trials", None) is not trials:
            self._own.trials, self._own.numbers = trials, self._numbers(trials)
        begun = states
        last = states.step + np.int32(int(rounds) * every)
        while True:
            was = states
            # What the kernel changes is copied first: arrays that others hold, or have read, stay as they are.
            states = was._replace(**self._copied(_changed(was)))
            states = self._visit(trials, states, self._stop(trials, was, last))
            if self.watched:
                states = self._look(trials, states, was.step, was.status)
            elif self.horizon == MOST_STEPS:
                break
            if not bool(jnp.any((states.status == RUNNING) & (states.step < last))):
                break
        return states, int(np.sum(np.asarray(states.step) - np.asarray(begun.step), dtype=np.int64))

    def _visit(self, trials: Trial, states: State, until: Array) -> State:
        """Train every running trial until its stop; what `_changed` names is changed in place."""
        from cuda.core import Device, LaunchConfig, launch

        arrays: dict[str, Any] = {name: states.params.get(name, self._nothing) for name in LAYERS}
        arrays |= (
            {name: getattr(states, name) for name in STATE}
            | self._own.numbers
            | {"until": until, "places": self._places}
        )
        capacity = 0
        if self.constants["OFFLINE"]:
            sample = states.sample
            arrays |= {"sample": sample.bits, "noise": self._nothing if sample.noise is None else sample.noise}
            capacity = sample.bits.shape[1]
        if self.constants["SCHEDULED"]:
            arrays["factors"] = self._factors(trials, states.step, self.horizon)
        jax.block_until_ready(arrays)
        device = Device(self.device.local_hardware_id)
        device.set_current()
        stream = getattr(self._own, "stream", None) or device.create_stream()
        self._own.stream = stream
        pointers = [arrays.get(name, self._nothing).unsafe_buffer_pointer() for name in ARGUMENTS]
        shape = LaunchConfig(grid=self.slots, block=32 * self.constants["WARPS"])
        launch(stream, shape, self.kernel, *pointers, np.int32(self.horizon), np.int32(capacity))
        stream.sync()
        return states


ARGUMENTS = (
    *LAYERS, *STATE, "until", "key", "validation_key", "support", "flips", "rate", "decay", "factors", "sample",
    "noise", "size", "seeds", "allowed", "likely", "budget", "consecutive", "places",
)  # fmt: skip
"""The kernel's arrays, in its order."""


def _begun(trials: Trial, states: State, fresh: Any) -> State:
    return frozen(fresh, jax.vmap(program.start)(trials), states)


def _watched(trials: Trial, states: State, step: Array, status: Array) -> State:
    """`look` at every slot, in blocks: a probe may read thousands of examples for each."""
    slots = step.shape[0]
    block = slots if slots <= PROBED_AT_ONCE else math.gcd(slots, PROBED_AT_ONCE)

    def one(place: Array, seen: State) -> State:
        first = place * block
        part = jax.tree.map(
            lambda leaf: jax.lax.dynamic_slice_in_dim(leaf, first, block, 0), (trials, seen, step, status)
        )
        return jax.tree.map(
            lambda leaf, new: jax.lax.dynamic_update_slice_in_dim(leaf, new, first, 0), seen, jax.vmap(look)(*part)
        )

    return jax.lax.fori_loop(0, slots // block, one, states)


def _changed(states: State) -> dict[str, Any]:
    """What the kernel changes of the slots' states."""
    return {"params": states.params} | {name: getattr(states, name) for name in STATE}


def _first_places(template: Trial) -> np.ndarray:
    """Which of the listed inputs are looked at first, as `checking` chooses them."""
    stopping = template.training.stopping
    if stopping.validation != EXACT:
        return np.zeros(1, np.uint32)
    size = stopping.size(template.task)
    return np.random.default_rng(0).choice(size, min(stopping.prefix, size), replace=False).astype(np.uint32)
