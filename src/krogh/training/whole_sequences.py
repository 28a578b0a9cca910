"""How networks are trained on functions of a whole sequence (*Learning and generalization in RNNs*, section 3.3).

The objective is G(λ F_L(x; W + W', A + A'), y), one label at the end; SGD moves both shifts with one rate, and B stays
as it was drawn. Rates are those of `krogh.training.recurrence` on the objective, for krogh's means of (y - f)².

    practical    η = c d/(λ² m L) with c = 0.3, half squares, batches of 16: stable at every width
    theorem      λ = ε/(10 L ρ),  η = c/(ε ρ² m),  ρ = 100 L d ln m,  one example per step      (Theorem D.5, Lemma D.3)

The constant of η is hidden in the source. With the theorem's values a step is so small that nothing is learned in a
lifetime, at any width that fits; what it asks of steps and samples is the prediction `recurrence/whole-training`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from krogh.errors import require, require_integer, unknown
from krogh.models.elman import ElmanRnn
from krogh.models.parts import labels_of
from krogh.tasks.base import Task
from krogh.training.optimisers import Sgd
from krogh.training.recurrence import W_AND_A, mean_rate, practical_training
from krogh.training.regimes import Online, Regime
from krogh.training.stopping import Stopping
from krogh.training.training import Training

WEIGHTS = ("A", "B", "W")
C = 0.3
BATCH = 16


def frozen_but(trained: Sequence[str]) -> tuple[str, ...]:
    """The weights of the network that are not trained."""
    for name in trained:
        if name not in WEIGHTS:
            raise unknown("trained weights", name, WEIGHTS)
    return tuple(name for name in WEIGHTS if name not in trained)


def whole_training(
    task: Task,
    model: ElmanRnn,
    stopping: Stopping,
    *,
    trained: Sequence[str] = ("A", "W"),
    c: float = C,
    regime: Regime | None = None,
) -> Training:
    """The practical preset for a network on a task, W and A trained; fresh batches of 16 unless a regime is given."""
    labels = labels_of(task)
    positions, outputs = (labels[0], labels[1:]) if model.reads else (1, labels)
    return practical_training(
        c,
        model.width,
        task.input_shape[0],
        stopping,
        labels=positions,
        outputs=math.prod(outputs),
        scale=float(model.scale),
        regime=regime,
        frozen=frozen_but(trained),
    )


@dataclass(frozen=True)
class WholeTheoremValues:
    """ρ, λ and η of Theorem D.5 for an error of ε; `c_rate` is the constant that η hides."""

    eps: float
    length: int
    width: int
    outputs: int = 1
    c_rate: float = 1.0

    def __post_init__(self) -> None:
        require(0 < self.eps < 1, f"eps must be between 0 and 1; got eps={self.eps!r}")
        for name, least in (("length", 3), ("width", 2), ("outputs", 1)):
            require_integer(name, getattr(self, name), least)

    @property
    def rho(self) -> float:
        """ρ = 100 L d ln m."""
        return 100 * self.length * self.outputs * math.log(self.width)

    @property
    def scale(self) -> float:
        """λ = ε/(10 L ρ)."""
        return self.eps / (10 * self.length * self.rho)

    @property
    def eta(self) -> float:
        """η = c/(ε ρ² m)."""
        return self.c_rate / (self.eps * self.rho**2 * self.width)

    def model(self, **options: Any) -> ElmanRnn:
        """The network with λ."""
        return ElmanRnn(self.width, scale=self.scale, **options)

    def training(self, stopping: Stopping, loss: str = "huber", regime: Regime | None = None) -> Training:
        """One example per step, W and A with one rate."""
        rate = mean_rate(self.eta, self.outputs, loss)
        return Training(Sgd(rate), Online(1) if regime is None else regime, stopping, loss, frozen=W_AND_A)
