"""Training as one value: loss, optimiser, data regime, budget and stopping rule; and the source's margin presets.

The presets (dissertation, D.2) are six trainings, each with its network's width. All are gradient descent without
momentum on cross-entropy with a penalty λ‖θ‖_{2,ν}^ν; the rate begins small and is doubled at stated steps. The
exponent of the norm is not stated; with ν the stated rates are stable. The networks have quadratic neurons unless
`activation` or `exponent` says otherwise.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import equinox as eqx
from jaxtyping import Array, Float

from krogh.errors import require, unknown
from krogh.models.base import Learner, Model, Parameters
from krogh.tasks.base import ClassificationTask, Task
from krogh.training.losses import NeuronNorm, Penalty, as_penalty, euclidean_norm, find_loss, reads_classes
from krogh.training.optimisers import Optimiser, Sgd, doublings
from krogh.training.regimes import Online, Population, Regime
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
        fits = not isinstance(task, ClassificationTask) or reads_classes(self.loss) or isinstance(model, Learner)
        require(fits, f"the task {task.kind!r} has classes: its loss is {OF_CLASSES!r}; got loss={self.loss!r}")
        if model is not None and isinstance(self.penalty, Penalty):
            self.penalty.check(model)


@dataclass(frozen=True)
class MarginPreset:
    """A row of the table of D.2; `batch` is None where every step reads the whole population."""

    task: str
    width: int
    steps: int
    rate: float
    doubled_at: tuple[int, ...]
    weight: float
    activation: str = "quadratic"
    exponent: int = 2
    batch: int | None = None

    @property
    def final_rate(self) -> float:
        """The rate after the last doubling."""
        return self.rate * 2 ** len(self.doubled_at)

    def training(self, check_every: int = 100) -> Training:
        """The whole run, without an early end, judged on every input each `check_every` steps."""
        regime: Regime = Population() if self.batch is None else Online(self.batch)
        return Training(
            Sgd(self.rate, schedule=doublings(self.doubled_at)),
            regime,
            Stopping(budget=self.steps, check_every=check_every, validation="exact", early=False),
            OF_CLASSES,
            NeuronNorm(self.weight),
        )


_THOUSANDS = tuple(range(1000, 10_001, 1000))
_EARLY = (*range(200, 2601, 200), 5000, 10_000)

MARGIN_PRESETS: dict[str, MarginPreset] = {
    "Z_71": MarginPreset("Z_71", 500, 40_000, 0.05, _THOUSANDS, 1e-4),
    "Z_71-relu": MarginPreset("Z_71", 500, 40_000, 0.05, _THOUSANDS, 1e-4, activation="relu"),
    "parity-10-4": MarginPreset("parity(10, 4)", 40, 30_000, 0.1, (), 1e-3, activation="power", exponent=4),
    "S_3": MarginPreset("S_3", 30, 50_000, 0.05, _EARLY, 1e-7),
    "S_4": MarginPreset("S_4", 200, 50_000, 0.05, _EARLY, 1e-7),
    "S_5": MarginPreset("S_5", 2000, 75_000, 0.05, tuple(range(3000, 24_001, 3000)), 1e-5, batch=1000),
}
