"""Probes of recurrent networks that stay near where they began, and of what they lose on sequences of real labels.

The theory of both sources on recurrent networks holds while W' = W_t - W_0 and A' are of norm Δ/√m: then few neurons
change their sign, and the network is a linear function of (W', A').
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from krogh.errors import require
from krogh.models.base import Model
from krogh.models.elman import ElmanRnn, elman_states
from krogh.probes.base import Moment, Probe, probe
from krogh.tasks.base import ClassificationTask, Task
from krogh.training.losses import find_loss, reads_classes
from krogh.values import structure

ROUNDS = 60
"""Steps of the power iteration for a spectral norm."""
SEEN = 64
"""Sequences on which signs are compared."""


def spectral_norm(matrix: Float[Array, "rows columns"]) -> Float[Array, ""]:
    """The largest singular value by power iteration, from below; 0 of nothing."""
    start = jnp.cos(
        jnp.arange(matrix.shape[1], dtype=jnp.float32) ** 2
    )  # no singular vector of anything that is trained

    def step(v: Array, _: None) -> tuple[Array, None]:
        after = matrix.T @ (matrix @ v)
        size = jnp.linalg.norm(after)
        return jnp.where(size > 0, after / jnp.where(size > 0, size, 1.0), v), None

    v = jax.lax.scan(step, start / jnp.linalg.norm(start), None, ROUNDS)[0]
    return jnp.linalg.norm(matrix @ v)


@probe("recurrent-movement")
class RecurrentMovement(Probe):
    """√m‖W'‖_F, √m‖W'‖_2 and the same of A', and the share of (sequence, position, neuron) whose sign has flipped.

    Signs are compared on up to 64 validation sequences; a state of exactly 0 counts as inactive.
    """

    def columns(self, task: Task) -> tuple[str, ...]:
        return ("moved_W", "moved_W_spectral", "moved_A", "moved_A_spectral", "flipped")

    def measure(self, moment: Moment) -> Float[Array, " 5"]:
        root = moment.params["W"].shape[0] ** 0.5
        sizes = []
        for name in ("W", "A"):
            moved = moment.params[name] - moment.initial[name]
            sizes += [root * jnp.sqrt(jnp.vdot(moved, moved)), root * spectral_norm(moved)]
        x = moment.validation.x[:SEEN]
        now, before = (elman_states(params["W"], params["A"], x) > 0 for params in (moment.params, moment.initial))
        return jnp.stack([*sizes, jnp.mean((now != before).astype(jnp.float32))])

    def check(self, task: Task, model: Model) -> None:
        require(isinstance(model, ElmanRnn), f"recurrent-movement reads an ElmanRnn; got {model.kind!r}")


@probe("objective")
class Objective(Probe):
    """The objective E Σ_j G(f_j, y_j) on the validation sample, and the share of variance that is not explained.

    The sum is over all numbers of a label, as the theory has it, against labels as they are observed, noise included;
    G is a loss of real labels, and half the square for "square". The share is Σ_j E(f_j - truth_j)²/Σ_j Var(truth_j),
    with the variance of the sample.
    """

    loss: str = structure(default="square")

    def __check_init__(self) -> None:
        find_loss(self.loss)
        require(not reads_classes(self.loss), f"an objective of real labels has no classes; got loss={self.loss!r}")

    def columns(self, task: Task) -> tuple[str, ...]:
        return ("objective", "unexplained")

    def measure(self, moment: Moment) -> Float[Array, " 2"]:
        seen = moment.validation
        prediction = moment.model.predict(moment.params, seen.x)
        losses = find_loss(self.loss)(prediction, seen.y).reshape(seen.y.shape[0], -1)
        truth = seen.truth.reshape(losses.shape)
        missed = jnp.sum(jnp.mean((prediction.reshape(losses.shape) - truth) ** 2, axis=0))
        half = 0.5 if self.loss == "square" else 1.0
        return jnp.stack([half * jnp.mean(jnp.sum(losses, axis=1)), missed / jnp.sum(jnp.var(truth, axis=0))])

    def check(self, task: Task, model: Model) -> None:
        real = task.regression and not isinstance(task, ClassificationTask)
        require(real, f"objective is of tasks with real labels such as 'token-sum'; got {task.kind!r}")
