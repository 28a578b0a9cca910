"""A trial: task + model + training + seed, one training run as a value."""

from __future__ import annotations

import functools
import operator
from collections.abc import Iterable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, PRNGKeyArray, UInt32

from krogh.engine.shapes import checked_shapes
from krogh.engine.start import Drawn, Start
from krogh.errors import require, require_integer
from krogh.models.base import Learner, Model, Parameters
from krogh.probes.base import Moment, Probe
from krogh.tasks.base import Examples, Raw, Task
from krogh.training.stopping import EXACT, Stopping
from krogh.training.training import Training
from krogh.values import Value, data, structure

INIT, DATA, VALIDATION, NOISE = 0, 1, 2, 3
PROBED = 1024
"""Of a larger validation sample probes see the first so many examples."""


class Trial(Value):
    """One training run.

    Its weights come from its `start`: drawn, given, or another trial's. All randomness comes from `seed` (examples,
    validation) and `init_seed` (weights; the same unless given), so a trial's weights and data depend on the trial
    alone. With `probes`, a curve is kept: one row at step 0, one every `probe_every` steps (every check unless given),
    and one at the step at which the trial ends.

    `snapshots` are steps at which the weights are kept, as far as the trial comes, and at which the curve has a row;
    with them and no `probe_every` it has no others between its first and its last.
    """

    task: Task
    model: Model
    training: Training
    start: Start
    probes: tuple[Probe, ...]
    seed: UInt32[Array, ""] = data(np.uint32)
    init_seed: UInt32[Array, ""] | None = data(np.uint32, optional=True)
    snapshots: tuple[int, ...] = structure()
    probe_every: int = structure()
    probe_rows: int = structure(internal=True)

    kind = "trial"

    def __init__(
        self,
        task: Task,
        model: Model,
        training: Training | None = None,
        seed: Any = 0,
        init_seed: Any = None,
        probes: tuple[Probe, ...] = (),
        probe_every: int = 0,
        snapshots: Iterable[int] = (),
        start: Start | None = None,
        probe_rows: int = 0,
    ):
        require(isinstance(task, Task), f"a trial needs a task; got {task!r}")
        require(isinstance(model, Model), f"a trial needs a model; got {model!r}")
        self.task, self.model = task, model
        self.training = Training() if training is None else training
        self.start = Drawn() if start is None else start
        require(isinstance(self.start, Start), f"start must be Drawn(), Given(...) or Inherited(...); got {start!r}")
        self.probes = tuple(probes)
        self.seed = _checked_seed("seed", seed)
        self.init_seed = None if init_seed is None else _checked_seed("init_seed", init_seed)
        self.snapshots = _checked_snapshots(snapshots, self.training.stopping)
        every = probe_every or (0 if self.snapshots else self.training.stopping.check_every)
        self.probe_every = every if self.probes else 0
        self.probe_rows = 1 + int(self.row(self.training.stopping.budget)) if self.probes else 0

    def __check_init__(self) -> None:
        self.model.check(self.task)
        require(
            self.model.causal or not self.task.causal,
            f"{type(self.task).__name__} asks for what comes next, and {type(self.model).__name__} looks ahead "
            f"(try CausalTransformer(), or where a model has it bidirectional=False or causal=True)",
        )
        self.training.check(self.task, self.model)
        stopping = self.training.stopping
        obstacle = self.model.obstacle(self.task)
        solvable = obstacle is None or float(stopping.threshold()) > 0.0
        require(solvable, f"{obstacle}; or ask for less than accuracy=1.0")
        for name, given in (("curve", self.probes), ("snapshot", self.snapshots)):
            once = not given or stopping.restarts == 1
            word = "probes" if name == "curve" else "snapshots"
            require(once, f"a {name} belongs to one run: give {word} or restarts={stopping.restarts}, not both")
        fresh = isinstance(self.start, Drawn) or stopping.restarts == 1
        require(fresh, f"later runs draw their weights: give a start or restarts={stopping.restarts}, not both")
        for probe in self.probes:
            probe.check(self.task, self.model)
        if self.probes:
            require_integer("probe_every", self.probe_every, 0 if self.snapshots else 1)
            whole = self.probe_every % stopping.check_every == 0
            require(
                whole,
                f"probe_every must be a multiple of check_every={stopping.check_every}; "
                f"got probe_every={self.probe_every}",
            )
        if isinstance(self.model, Learner):
            self._check_learner()
            return
        shapes = checked_shapes(self)
        self.training.check_names(shapes)
        self.start.check(shapes)

    def _check_learner(self) -> None:
        """An outside learner has no steps between which something could happen, and no parameters."""
        unwanted = {
            "probes": self.probes,
            "snapshots": self.snapshots,
            "frozen": self.training.frozen,
            "start": () if isinstance(self.start, Drawn) else self.start,
            "restarts": self.training.stopping.restarts - 1,
        }
        for name, given in unwanted.items():
            require(not given, f"{type(self.model).__name__} learns outside the engine: it has no {name}")
        regime = self.training.regime
        require(
            regime.finite,
            f"{type(self.model).__name__} learns from a finite sample; got the regime {type(regime).__name__} "
            f"(try FullBatch(m=1000) or Population())",
        )

    def key(self, stream: int) -> PRNGKeyArray:
        """The key of one of the trial's random streams."""
        seed = self.seed if stream not in (INIT, NOISE) or self.init_seed is None else self.init_seed
        return jax.random.fold_in(jax.random.key(seed), stream)

    def initial_params(self, attempt: Int[Array, ""] | None = None) -> Parameters:
        """The trial's weights before training, or before a later one of its runs (attempt = 1, 2, ...)."""
        key = self.key(INIT)
        drawn = self.model.init(key if attempt is None else jax.random.fold_in(key, attempt), self.task)
        return self.start.begin(drawn)

    def noise(self) -> UInt32[Array, ""]:
        """The word that a noisy model's randomness in training begins with: other weights, other noise."""
        return jax.random.bits(self.key(NOISE), (), jnp.uint32)  # folding it into INIT would hit a later run's weights

    def validation(self, size: int | None = None) -> Examples:
        """The trial's validation examples, or the first `size` of a sampled one."""
        stopping = self.training.stopping
        if size is None and stopping.validation == EXACT:
            return self.task.decode(self.task.population())
        wanted = stopping.size(self.task) if size is None else size
        return self.task.decode(self.task.test(self.key(VALIDATION), wanted))

    def moment(
        self, params: Parameters, initial: Parameters, loss: Float[Array, ""], step: Int[Array, ""], sample: Raw
    ) -> Moment:
        """What a probe sees of the trial when it has these weights; `sample` is what its regime keeps."""
        whole = self.training.stopping.size(self.task) <= PROBED
        seen, regime = self.validation(None if whole else PROBED), self.training.regime
        raw, weights = regime.kept(self.task, sample) if regime.finite else (None, None)
        trained_on = None if raw is None else self.task.decode(raw)
        return Moment(self.task, self.model, params, initial, seen, loss, step, trained_on, weights)

    @property
    def _lone_steps(self) -> tuple[int, ...]:
        """The steps of the curve's rows that are no multiples of `probe_every`."""
        return tuple(step for step in self.snapshots if not self.probe_every or step % self.probe_every)

    def scheduled(self, step: Any) -> Any:
        """Whether the curve has a row at `step` even if the trial goes on."""
        lone = (step == own for own in self._lone_steps)
        return functools.reduce(operator.or_, lone, step % self.probe_every == 0 if self.probe_every else step == 0)

    def row(self, step: Any) -> Any:
        """The curve's row for `step`: how many scheduled steps come before it."""
        numbers = jnp if isinstance(step, jax.Array) else np
        lone = {*self._lone_steps} if self.probe_every else {0, *self._lone_steps}
        passed = [numbers.asarray(step > own).astype(np.int32) for own in sorted(lone)]
        return sum(passed, -(-step // self.probe_every) if self.probe_every else 0)

    def scheduled_steps(self) -> list[int]:
        """The steps of the curve's rows, as far as a trial may come."""
        regular = (place * self.probe_every for place in range(self.probe_rows))
        return sorted({*regular, *self._lone_steps})

    def curve_columns(self) -> tuple[str, ...]:
        return tuple(name for probe in self.probes for name in probe.columns(self.task))


def _checked_snapshots(given: Iterable[int], stopping: Stopping) -> tuple[int, ...]:
    for step in (steps := tuple(given)):
        require_integer("a snapshot's step", step, 0, int(stopping.budget))
        whole = step % stopping.check_every == 0
        require(whole, f"snapshots must be multiples of check_every={stopping.check_every}; got {step}")
    return tuple(sorted({int(step) for step in steps}))


def _checked_seed(name: str, seed: Any) -> Any:
    if isinstance(seed, jax.Array):
        return seed
    require_integer(name, seed.item() if isinstance(seed, np.ndarray | np.generic) else seed, 0, 2**32 - 1)
    return seed
