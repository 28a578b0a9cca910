"""How far real predictions are from what they should be, as one vector per example.

*Learning and generalization in RNNs*, section I, measures learned inversion so: with ŷ and y all numbers of an example,
the averages of ‖ŷ - y‖₂/‖y‖₂ and of ‖ŷ - y‖_∞.
"""

from __future__ import annotations

import jax.numpy as jnp
from jaxtyping import Array, Float

from krogh.errors import require
from krogh.models.base import Model
from krogh.probes.base import Moment, Probe, probe
from krogh.tasks.base import ClassificationTask, Task


@probe("deviation")
class Deviation(Probe):
    """The mean relative L2 error and the mean L∞ error on the validation sample; 0/0 counts as 0."""

    def columns(self, task: Task) -> tuple[str, ...]:
        return ("relative_l2", "largest_deviation")

    def measure(self, moment: Moment) -> Float[Array, " 2"]:
        truth = moment.validation.truth
        rows = truth.shape[0]
        off = (moment.model.predict(moment.params, moment.validation.x) - truth).reshape(rows, -1)
        size = jnp.linalg.norm(truth.reshape(rows, -1), axis=1)
        relative = jnp.linalg.norm(off, axis=1) / jnp.where(size > 0, size, 1.0)
        return jnp.stack([jnp.mean(relative), jnp.mean(jnp.max(jnp.abs(off), axis=1))]).astype(jnp.float32)

    def check(self, task: Task, model: Model) -> None:
        name = task.kind or type(task).__name__
        real = task.regression and not isinstance(task, ClassificationTask)
        require(real, f"a deviation is one of real numbers, and the task {name!r} has classes")
