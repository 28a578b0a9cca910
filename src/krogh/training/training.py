"""Training: loss, optimiser, data regime, budget and stopping rule, as one value."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float

from krogh.errors import require
from krogh.tasks.base import Task
from krogh.training.losses import find_loss
from krogh.training.optimisers import Optimiser, Sgd
from krogh.training.regimes import Online, Regime
from krogh.training.stopping import Stopping
from krogh.values import AnyArray, Value, data, plain, structure


class Training(Value):
    """How a model is trained; by default as the source does: hinge, vanilla SGD, fresh batches of 32.

    `penalty` adds λ‖θ‖, the norm over all parameters, to the loss (dissertation, §3.3).
    """

    optimiser: Optimiser = Sgd(rate=0.1)
    regime: Regime = Online()
    stopping: Stopping = Stopping()
    loss: str = structure(default="hinge")
    penalty: Float[AnyArray, ""] | None = data(optional=True, default=None)

    def __check_init__(self) -> None:
        find_loss(self.loss)
        allowed = self.penalty is None or bool(np.all(np.asarray(self.penalty) >= 0))
        require(allowed, f"penalty must be a number ≥ 0, or None; got penalty={plain(self.penalty)}")

    def check(self, task: Task) -> None:
        """Refuse a task that the regime or the stopping rule cannot serve."""
        self.regime.check(task)
        self.stopping.check(task)
