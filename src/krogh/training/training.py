"""Training: loss, optimiser, data regime, budget and stopping rule, as one value."""

from __future__ import annotations

import equinox as eqx
from jaxtyping import Array, Float

from krogh.errors import require
from krogh.models.base import Model, Parameters
from krogh.tasks.base import Task
from krogh.tasks.classification import ClassificationTask
from krogh.training.losses import find_loss
from krogh.training.optimisers import Optimiser, Sgd
from krogh.training.penalties import Penalty, as_penalty, euclidean_norm
from krogh.training.regimes import Online, Regime
from krogh.training.stopping import Stopping
from krogh.values import AnyArray, Value, structure

OF_CLASSES = "cross-entropy"


class Training(Value):
    """How a model is trained; by default as the source does: hinge, vanilla SGD, fresh batches of 32.

    `penalty` is added to the loss: a number λ for λ‖θ‖, the norm over all parameters (dissertation, §3.3), or a
    penalty such as NeuronNorm(λ).
    """

    optimiser: Optimiser = Sgd(rate=0.1)
    regime: Regime = Online()
    stopping: Stopping = Stopping()
    loss: str = structure(default="hinge")
    penalty: Penalty | Float[AnyArray, ""] | None = eqx.field(converter=as_penalty, default=None)

    def __check_init__(self) -> None:
        find_loss(self.loss)

    def penalised(self, loss: Float[Array, ""], model: Model, params: Parameters) -> Float[Array, ""]:
        """The loss with the penalty added."""
        if self.penalty is None:
            return loss
        if isinstance(self.penalty, Penalty):
            return loss + self.penalty.of(model, params)
        return loss + self.penalty * euclidean_norm(params)

    def check(self, task: Task, model: Model | None = None) -> None:
        """Refuse a task that the loss, the regime or the stopping rule cannot serve, a model without such a penalty."""
        self.regime.check(task)
        self.stopping.check(task)
        fits = not isinstance(task, ClassificationTask) or self.loss == OF_CLASSES
        require(fits, f"the task {task.kind!r} has classes: its loss is {OF_CLASSES!r}; got loss={self.loss!r}")
        if model is not None and isinstance(self.penalty, Penalty):
            self.penalty.check(model)
