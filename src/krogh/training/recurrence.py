"""How the sources train recurrent networks on sequences: rates for an objective that is a sum over labels.

*Can SGD learn recurrent neural networks with provable generalization?* (section 4, labels at every position) and
*Learning and generalization in RNNs* (section 3.3, one label at the end) take steps of size η along the gradient of

    Obj = Σ_j G(λ F_j, y*_j)    over the positions j that have a label,

while krogh's losses are *means* over all numbers of a label, and its square loss is (y-f)² and not half of it. With n
numbers per example (labels times outputs) a step of η on Obj is one of η n on the mean, and of η n/2 for half squares:
that factor is in the rates here (`mean_rate`), so that η means what it does in the source.

    practical        λ = 1, half squares, batches of 16, η = c d/(λ² m L) with c from 0.3 to 0.5: stable at every width
    first theorem    one example per step, of N with replacement; λ = c₁ε/(L²d), η = c₂/(ε L² d² m)      (Theorem 1)
    second theorem   one example per step; λ = ε/(10 L ρ), η = c/(ε ρ² m), ρ = 100 L d ln m   (Theorem D.5, Lemma D.3)

None has momentum, decay or a schedule. The first source trains W alone, the second W and A with one rate; B never is.
Constants of η are hidden in the sources. With the second theorem's values a step is so small that nothing is learned in
a lifetime, at any width that fits; what it asks of steps and samples is the prediction `recurrence/whole-training`.
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
from krogh.training.regimes import Online, Regime, Resampled
from krogh.training.stopping import Stopping
from krogh.training.training import Training

WEIGHTS = ("A", "B", "W")
W_ALONE, W_AND_A = ("A", "B"), ("B",)
"""What stays as it was drawn where the first source, and where the second source trains."""
C = 0.3
BATCH = 16


def mean_rate(eta: float, numbers: int, loss: str = "square") -> float:
    """The rate on a mean over `numbers` that makes the step of η on their sum; on half of it for squares."""
    require_integer("numbers", numbers, 1)
    return eta * numbers / (2 if loss == "square" else 1)


def practical_eta(c: float, width: int, length: int, outputs: int = 1, scale: float = 1.0) -> float:
    """η = c d/(λ² m L): λ²ηm stays where the width or λ changes."""
    require(c > 0, f"c must be positive; got c={c!r}")
    return c * outputs / (scale**2 * width * length)


def practical_training(
    c: float,
    width: int,
    length: int,
    stopping: Stopping,
    labels: int = 1,
    outputs: int = 1,
    scale: float = 1.0,
    regime: Regime | None = None,
    frozen: tuple[str, ...] = W_ALONE,
) -> Training:
    """Half squares, batches of 16 fresh examples unless another regime is given; `labels` are positions with one."""
    eta = practical_eta(c, width, length, outputs, scale)
    rate = mean_rate(eta, labels * outputs)
    return Training(Sgd(rate), Online(BATCH) if regime is None else regime, stopping, "square", frozen=frozen)


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
class TheoremValues:
    """λ and η of Theorem 1 for an error of ε, with its hidden constants c₁ and c₂ given: 1 unless you know them."""

    eps: float
    length: int
    outputs: int
    width: int
    c_scale: float = 1.0
    c_rate: float = 1.0

    def __post_init__(self) -> None:
        require(0 < self.eps < 1, f"eps must be between 0 and 1; got eps={self.eps!r}")

    @property
    def scale(self) -> float:
        """λ = c₁ ε/(L² d)."""
        return self.c_scale * self.eps / (self.length**2 * self.outputs)

    @property
    def eta(self) -> float:
        """η = c₂/(ε L² d² m)."""
        return self.c_rate / (self.eps * self.length**2 * self.outputs**2 * self.width)

    def training(self, samples: int, stopping: Stopping, labels: int, loss: str = "huber", **options: Any) -> Training:
        """One example per step, drawn with replacement from `samples`; W alone is trained unless `frozen` is given."""
        rate = mean_rate(self.eta, labels * self.outputs, loss)
        return Training(Sgd(rate), Resampled(samples), stopping, loss, **({"frozen": W_ALONE} | options))


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
