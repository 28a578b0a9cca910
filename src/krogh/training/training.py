"""Training: loss, optimiser, data regime, budget and stopping rule, as one value."""

from __future__ import annotations

from krogh.tasks.base import Task
from krogh.training.losses import find_loss
from krogh.training.optimisers import Optimiser, Sgd
from krogh.training.regimes import Online, Regime
from krogh.training.stopping import Stopping
from krogh.values import Value, structure


class Training(Value):
    """How a model is trained; by default as the source does: hinge, vanilla SGD, fresh batches of 32."""

    optimiser: Optimiser = Sgd(rate=0.1)
    regime: Regime = Online()
    stopping: Stopping = Stopping()
    loss: str = structure(default="hinge")

    def __check_init__(self) -> None:
        find_loss(self.loss)

    def check(self, task: Task) -> None:
        """Refuse a task that the regime or the stopping rule cannot serve."""
        self.regime.check(task)
        self.stopping.check(task)
