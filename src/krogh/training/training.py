"""Training: loss, optimiser, data regime, budget and stopping rule, as one value."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import equinox as eqx
from jaxtyping import Array, Float

from krogh.errors import require, unknown
from krogh.models.base import Learner, Model, Parameters
from krogh.tasks.base import Task
from krogh.tasks.classification import ClassificationTask
from krogh.training.losses import find_loss
from krogh.training.optimisers import Optimiser, Sgd
from krogh.training.penalties import Penalty, as_penalty, euclidean_norm
from krogh.training.regimes import Online, Regime
from krogh.training.stopping import Stopping
from krogh.values import AnyArray, Value, structure

OF_CLASSES = "cross-entropy"


def _names(given: Any) -> tuple[str, ...]:
    """Names in one order, so that it is no part of what a training is."""
    return tuple(sorted({given} if isinstance(given, str) else {*given}))


class Training(Value):
    """How a model is trained; by default as the source does: hinge, vanilla SGD, fresh batches of 32.

    `penalty` is added to the loss: a number λ for λ‖θ‖, the norm over all parameters (dissertation, §3.3), or a
    penalty such as NeuronNorm(λ). Parameters named in `frozen` stay as they are at the start: no gradient is taken for
    them, and nothing decays.
    """

    optimiser: Optimiser = Sgd(rate=0.1)
    regime: Regime = Online()
    stopping: Stopping = Stopping()
    loss: str = structure(default="hinge")
    penalty: Penalty | Float[AnyArray, ""] | None = eqx.field(converter=as_penalty, default=None)
    frozen: tuple[str, ...] = structure(default=(), converter=_names)

    def __check_init__(self) -> None:
        find_loss(self.loss)

    def penalised(self, loss: Float[Array, ""], model: Model, params: Parameters) -> Float[Array, ""]:
        """The loss with the penalty added."""
        if self.penalty is None:
            return loss
        if isinstance(self.penalty, Penalty):
            return loss + self.penalty.of(model, params)
        return loss + self.penalty * euclidean_norm(params)

    def trained(self, params: Parameters) -> Parameters:
        """The parameters that training moves."""
        return {name: leaf for name, leaf in params.items() if name not in self.frozen}

    def check_names(self, names: Iterable[str]) -> None:
        """Refuse layers that a model with parameters of these names does not have, and training none of them."""
        known = set(names)
        for name in self.frozen:
            if name not in known:
                raise unknown("frozen parameter", name, known)
        require(known - {*self.frozen}, f"all parameters are frozen, so nothing is trained; got frozen={self.frozen}")
        self.optimiser.check(known)

    def check(self, task: Task, model: Model | None = None) -> None:
        """Refuse a task that the loss, the regime or the stopping rule cannot serve, a model without such a penalty."""
        self.regime.check(task)
        self.stopping.check(task)
        fits = not isinstance(task, ClassificationTask) or self.loss == OF_CLASSES or isinstance(model, Learner)
        require(fits, f"the task {task.kind!r} has classes: its loss is {OF_CLASSES!r}; got loss={self.loss!r}")
        if model is not None and isinstance(self.penalty, Penalty):
            self.penalty.check(model)
