"""Probes of visible and hidden progress (dissertation, §5.5, §B.3.3)."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from krogh.errors import KroghError, require
from krogh.models.base import Model, predict_judged
from krogh.models.parts import symbols_of
from krogh.models.two_layer import PowerNetwork
from krogh.probes.base import Moment, Probe, probe
from krogh.tasks.base import Task
from krogh.tasks.parity import AbstractParity

FIRST_LAYERS = ("W", "w")


def first_layer(model: Model, task: Task, params: dict[str, Array]) -> Float[Array, "neurons n"]:
    """The first layer's weights, one row per neuron."""
    names = ("U",) if isinstance(model, PowerNetwork) else FIRST_LAYERS
    return params[next(name for name in names if name in params)].reshape(-1, task.input_shape[0])


@probe("error")
class Error(Probe):
    """Mean error on the validation sample: the share that is wrong, or the mean squared error of a regression."""

    def columns(self, task: Task) -> tuple[str, ...]:
        return ("error",)

    def measure(self, moment: Moment) -> Float[Array, " 1"]:
        prediction = predict_judged(moment.model, moment.task, moment.params, moment.validation.x)
        return jnp.mean(moment.task.judge(prediction, moment.validation))[None]


@probe("training-error")
class TrainingError(Probe):
    """Mean error on the whole finite sample that a trial is trained on, against the labels that it sees."""

    def columns(self, task: Task) -> tuple[str, ...]:
        return ("training_error",)

    def measure(self, moment: Moment) -> Float[Array, " 1"]:
        sample = moment.sample
        if sample is None:
            raise KroghError("training-error needs a finite sample (try the regime Offline or FullBatch)")
        errors = moment.task.error(moment.model.predict(moment.params, sample.x), sample.y).astype(jnp.float32)
        return (jnp.mean(errors) if moment.weights is None else jnp.sum(errors * moment.weights))[None]


@probe("batch-loss")
class BatchLoss(Probe):
    """Mean training loss over the last round of steps."""

    def columns(self, task: Task) -> tuple[str, ...]:
        return ("batch_loss",)

    def measure(self, moment: Moment) -> Float[Array, " 1"]:
        return moment.batch_loss[None]


@probe("movement")
class Movement(Probe):
    """ρ = max_ij |W_t - W_0|_ij over the first layer: the source's measure of hidden progress."""

    def columns(self, task: Task) -> tuple[str, ...]:
        return ("movement",)

    def measure(self, moment: Moment) -> Float[Array, " 1"]:
        now = first_layer(moment.model, moment.task, moment.params)
        before = first_layer(moment.model, moment.task, moment.initial)
        return jnp.max(jnp.abs(now - before))[None]

    def check(self, task: Task, model: Model) -> None:
        shapes = jax.eval_shape(lambda key: model.init(key, task), jax.random.key(0))
        vectors = len(task.input_shape) == 1 and symbols_of(task) is None  # of symbols, W has other rows and columns
        named = vectors and any(name in shapes for name in FIRST_LAYERS)
        require(named, f"movement reads a first layer named W or w; {model.kind} has {sorted(shapes)}")


@probe("support-movement")
class SupportMovement(Probe):
    """How far the first layer has moved, max over neurons of |W_t - W_0|: at the relevant coordinate that moved least,
    and at the irrelevant one that moved most.

    The support is recovered, as the k coordinates that moved most, exactly where the first number is the larger.
    """

    def columns(self, task: Task) -> tuple[str, ...]:
        return ("relevant_movement", "irrelevant_movement")

    def measure(self, moment: Moment) -> Float[Array, " 2"]:
        task = moment.task
        assert isinstance(task, AbstractParity)
        now, before = (first_layer(moment.model, task, params) for params in (moment.params, moment.initial))
        moved = jnp.max(jnp.abs(now - before), axis=0)
        relevant = jnp.any(jnp.arange(task.n)[:, None] == task.support[None, :], axis=1)
        least = jnp.min(jnp.where(relevant, moved, jnp.inf))
        return jnp.stack([least, jnp.max(jnp.where(relevant, 0.0, moved))])

    def check(self, task: Task, model: Model) -> None:
        require(isinstance(task, AbstractParity), f"support-movement needs a parity; got {task.kind!r}")
        Movement().check(task, model)


@probe("support-weight")
class SupportWeight(Probe):
    """Largest |weight| on relevant and on irrelevant coordinates of the first layer."""

    def columns(self, task: Task) -> tuple[str, ...]:
        return ("relevant_weight", "irrelevant_weight")

    def measure(self, moment: Moment) -> Float[Array, " 2"]:
        task = moment.task
        assert isinstance(task, AbstractParity)
        size = jnp.max(jnp.abs(first_layer(moment.model, task, moment.params)), axis=0)
        relevant = jnp.any(jnp.arange(task.n)[:, None] == task.support[None, :], axis=1)
        on, off = jnp.where(relevant, size, 0.0), jnp.where(relevant, 0.0, size)
        return jnp.stack([jnp.max(on), jnp.max(off)])

    def check(self, task: Task, model: Model) -> None:
        require(isinstance(task, AbstractParity), f"support-weight needs a parity; got {task.kind!r}")
        Movement().check(task, model)
