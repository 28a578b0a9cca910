"""Small two-layer networks on a GPU: a kernel keeps a trial's weights in registers between two looks from the host.

Through XLA, weights, batch and activations pass through memory several times in every step. The kernel
(`kernels/two_layer.cu`) gives each trial a block of threads, or a cluster of blocks, which trains it, checks it by the
same rule as `krogh.engine.checking`, and ends it: no trial waits for another. Examples are those of the other path, bit
for bit, and weights agree as well as two orders of summation in float32 do. Probes and snapshots are taken by an XLA
program between visits of the kernel. `obstacle` says what a trial would need to be trained so; everything else goes
through XLA.

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
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int

from krogh.engine import program
from krogh.engine.checking import RUNNING, allowed_errors, likely_errors
from krogh.engine.round import State, frozen
from krogh.engine.trial import DATA, VALIDATION, Trial
from krogh.errors import require, unknown
from krogh.models.base import Learner
from krogh.models.two_layer import Mlp
from krogh.tasks.bits import SHUFFLE_ROUNDS, support_mask, words
from krogh.tasks.parity import DisjointParity, Parity, ParityControl
from krogh.training.optimisers import Constant, Sgd
from krogh.training.regimes import Offline, Online
from krogh.training.stopping import EXACT, Stopping
from krogh.training.training import Training

PATH, CHOICES = "KROGH_PATH", ("xla", "resident")
"""The environment's choice: the reference for all, or an error where the kernel cannot be used."""
TASKS = (Parity, DisjointParity, ParityControl)
LOSSES = ("hinge", "square", "logistic", "correlation")
MOST_INPUTS, LARGEST_BATCH = 319, 128
LAYERS = ("W", "b", "u", "c")
STATE = ("step", "status", "streak", "reached", "error", "loss")
REGISTERS, MOST_BLOCKS, MOST_WARPS, SHARED_BYTES = 65_536, 16, 24, 40_000
MOST_MEMBERS = 8  # blocks of a cluster that every device with clusters takes
SLOTS = 16_384  # many more than are trained at once (some 400): the others are in line, and the host has time to look
CAPABILITY, CLUSTERS = (8, 0), (9, 0)  # the first with mma.m16n8k16, and with clusters of blocks
PROBED_AT_ONCE = 64
MOST_STEPS = 1 << 30
FACTOR_BYTES = 256 << 20  # of a schedule's factors, one pair for each slot and step of a visit

_SAID: set[str] = set()
_TRIED: dict[int, str | None] = {}


def obstacle(trial: Trial) -> str | None:
    """Why the kernel cannot train trials of this structure; None if it can.

    Classes count exactly: one that inherits from these may draw, predict or move otherwise.
    """
    task: Any = trial.task
    model, training = trial.model, trial.training
    stopping, regime = training.stopping, training.regime
    if type(task) not in TASKS or task.n > MOST_INPUTS:
        return f"its task is no parity of at most {MOST_INPUTS} bits"
    if type(model) is not Mlp or model.activation != "relu":
        return "its model is no two-layer ReLU network"
    if type(training.optimiser) is not Sgd or training.loss not in LOSSES or training.penalty is not None:
        return f"it is not trained by SGD on one of the losses {', '.join(LOSSES)} without penalty"
    if type(regime) not in (Online, Offline) or regime.batch_size > LARGEST_BATCH:  # type: ignore[attr-defined]
        return f"its regime is not Online or Offline with batches of at most {LARGEST_BATCH}"
    if type(training) is not Training or type(stopping) is not Stopping:
        return "its training or its stopping rule is of another class"
    if stopping.restarts > 1 or trial.start.masks():
        return "it begins again, or has weights that stay zero"
    if layout(trial) is None:
        return (
            f"{model.width} neurons of {task.n} inputs need the registers of more than {MOST_MEMBERS} multiprocessors"
        )
    return None


def _needed(trial: Trial) -> tuple[int, int]:
    """The compute capability that the kernel of a structure needs."""
    shape = layout(trial)
    return CAPABILITY if shape is None or shape.members == 1 else CLUSTERS


def path_in_words(trial: Trial) -> str:
    """What trains trials of this structure, and why."""
    if isinstance(trial.model, Learner):
        return "the host (its model learns outside the engine)"
    hindrance = obstacle(trial)
    if hindrance is not None:
        return f"XLA ({hindrance})"
    needed = _needed(trial)
    return f"the resident kernel on a GPU of capability {needed[0]}.{needed[1]} or more, XLA otherwise"


def missing(trial: Trial, device: Any) -> str | None:
    """What this machine lacks for the kernel of a structure; None if nothing."""
    if device.platform != "gpu":
        return "no GPU"
    capability = tuple(int(part) for part in str(getattr(device, "compute_capability", "0.0")).split("."))
    needed = _needed(trial)
    if capability < needed:
        has, needs = (".".join(map(str, version)) for version in (capability, needed))
        return f"the GPU has compute capability {has}; the kernel needs {needs}"
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
        problem = hindrance or missing(trial, device)
        require(problem is None, f"the resident kernel was asked for ({PATH}=resident), but cannot be used: {problem}")
    if chosen == "xla" or device.platform != "gpu" or hindrance is not None:
        return False
    lacking = missing(trial, device) or _unbuildable(device)
    if lacking is not None and lacking not in _SAID:
        _SAID.add(lacking)
        print(f"krogh: small networks are trained through XLA: {lacking}", file=sys.stderr)
    return lacking is None


def _unbuildable(device: Any) -> str | None:
    """Why kernels cannot be compiled here, tried once with a small one; None if they can."""
    number = device.local_hardware_id
    if number not in _TRIED:
        try:
            build(_small(), device)
            _TRIED[number] = None
        except Exception as cause:
            said = str(cause).splitlines()[0] if str(cause) else repr(cause)
            _TRIED[number] = f"the kernel cannot be compiled ({said})"
    return _TRIED[number]


def _small() -> Trial:
    return Trial(Parity(4, 2), Mlp(4), Training(Sgd(0.1), Online(1), Stopping(budget=10, validation=EXACT)))


def slots(count: int, room: int) -> int:
    """How many slots a lane has for `count` trials, with room for so many."""
    number = max(1, min(SLOTS, count, room))
    return number if number <= PROBED_AT_ONCE else number // PROBED_AT_ONCE * PROBED_AT_ONCE


# --- the kernel ---------------------------------------------------------------------------------------------------


class Layout(NamedTuple):
    """How a trial lies in registers: `members` blocks of `warps` warps, each with `deep` times 16 neurons."""

    words: int  # that hold a sample's inputs and the bias
    tiles: int  # of 8 inputs
    deep: int
    members: int
    warps: int
    blocks: int  # on one multiprocessor at a time


def layout(trial: Trial) -> Layout | None:
    """The layout with the fewest blocks for a trial; None if its weights do not fit into the most.

    A thread holds 4·deep·tiles weights and some 80 numbers beside them. Smaller blocks, several of them on a
    multiprocessor, were tried for clusters, and are slower.
    """
    task: Any = trial.task
    model: Any = trial.model
    regime: Any = trial.training.regime
    held = task.n // 32 + 1
    in_last = task.n - 32 * (held - 1) + 1
    tiles = 4 * (held - 1) + min(4, 2 * -(-in_last // 8))
    pieces = -(-regime.batch_size // 32) * _parts(trial)
    deep = 2 if model.width > 16 and tiles <= 8 and pieces == 1 else 1
    registers = 4 * deep * tiles + 16 * deep + 8 * deep * pieces + 56
    at_once = REGISTERS // (32 * min(registers, 255))  # warps for which a multiprocessor has registers
    in_all = -(-model.width // (16 * deep))
    for members in range(1, MOST_MEMBERS + 1):
        warps = -(-in_all // members)
        if warps <= min(at_once, MOST_WARPS):
            return Layout(held, tiles, deep, members, warps, min(MOST_BLOCKS, at_once // warps))
    return None


def _parts(trial: Trial) -> int:
    """Of the slope of a loss, in half precision."""
    return 1 if trial.training.loss in ("hinge", "correlation") else 2


def constants(trial: Trial) -> dict[str, int]:
    """The kernel's compile-time constants for a structure."""
    task: Any = trial.task
    model: Any = trial.model
    training = trial.training
    regime: Any = training.regime
    optimiser: Any = training.optimiser
    stopping = training.stopping
    shape = layout(trial)
    assert shape is not None
    groups, rows = -(-regime.batch_size // 32), -(-shape.tiles // 4)
    step_bytes = groups * (128 * shape.words + 128 * rows + 4)
    size = stopping.size(task)
    return {
        "N": task.n,
        "NW": shape.words,
        "NWR": words(task.n),
        "TILES": shape.tiles,
        "MT": shape.deep,
        "MEMBERS": shape.members,
        "WARPS": shape.warps,
        "BLOCKS": shape.blocks,
        "WIDTH": model.width,
        "BATCH": regime.batch_size,
        "GROUPS": groups,
        "EVERY": stopping.check_every,
        "CHUNK": max(1, min(stopping.check_every, SHARED_BYTES // step_bytes)),
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


def build(trial: Trial, device: Any) -> Any:
    """The compiled kernel of a structure, loaded on a device."""
    return _built(tuple(constants(trial).items()), device.local_hardware_id)


@functools.cache
def _built(macros: tuple[tuple[str, int], ...], number: int) -> Any:
    from cuda.core import Device, ObjectCode, Program, ProgramOptions

    device = Device(number)
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
        self.kernel, self.constants = build(template, device), constants(template)
        every = template.training.stopping.check_every
        self.watched = bool(template.probes or template.snapshots)
        self.horizon = MOST_STEPS
        if self.constants["SCHEDULED"]:
            self.horizon = max(1, FACTOR_BYTES // (8 * slots) // every) * every
        # Programs are made where this is made, ahead of the lane that will need them.
        sharding = jax.sharding.SingleDeviceSharding(device)

        def shapes(tree: Any, *leading: int) -> Any:
            return jax.tree.map(
                lambda leaf: jax.ShapeDtypeStruct((*leading, *np.shape(leaf)), leaf.dtype, sharding=sharding), tree
            )

        trials, states = shapes(template, slots), shapes(jax.eval_shape(lambda: program.empty_states(template, slots)))
        fresh, last = shapes(np.bool_(), slots), shapes(np.int32(), slots)
        stop = jax.vmap(functools.partial(next_stop, horizon=self.horizon))
        self._begin = jax.jit(_begun, donate_argnums=1).lower(trials, states, fresh).compile()
        self._numbers = jax.jit(jax.vmap(numbers_of)).lower(trials).compile()
        self._stop = jax.jit(stop).lower(trials, states, last).compile()
        self._copied = jax.jit(lambda tree: jax.tree.map(jnp.copy, tree)).lower(_changed(states)).compile()
        self._look = jax.jit(_watched)
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
        shape = LaunchConfig(grid=self.slots * self.constants["MEMBERS"], block=32 * self.constants["WARPS"])
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
