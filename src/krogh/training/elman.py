"""How the ReLU Elman network is trained on functions of a whole sequence (*Learning and generalization in RNNs*).

The source's objective is G(λ F_L(x; W + W', A + A'), y), and SGD moves both shifts with one rate, one example per step.
B stays as it is drawn. Two presets:

    theorem      λ = ε/(10 L ρ),  η = c/(ε ρ² m),  T = c p² C² ρ^k/ε²,  ρ = 100 L d ln m      (section 3.3, Theorem D.5)
    practical    λ = 1, batches of 16, G = (1/2)(y - f)², η = c d/(λ² m L) with c = 0.3, stable at every width

The theorem hides the constants c and the power k; with its values a step is so small that nothing is learned within a
lifetime at any width that fits, which is what they are here to show. krogh's square loss is the *mean* of (y - f)² over
the numbers of a label, without the 1/2: a rate on (1/2) Σ (y - f)² is half as large, times as many numbers as the label
has (`practical_rate`).
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
from krogh.training.regimes import Online, Regime
from krogh.training.stopping import Stopping
from krogh.training.training import Training

WEIGHTS = ("A", "B", "W")
PRACTICAL = 0.3
BATCH = 16


def practical_rate(width: int, length: int, *, labels: int = 1, outputs: int = 1, scale: float = 1.0,
                   c: float = PRACTICAL) -> float:  # fmt: skip
    """c d/(λ² m L), for krogh's mean of squares over `labels` numbers of an example, `outputs` d at each position."""
    for name, number in (("width", width), ("length", length), ("labels", labels), ("outputs", outputs)):
        require_integer(name, number, 1)
    require(c > 0 and scale > 0, f"c and scale (λ) must be positive; got c={c!r}, scale={scale!r}")
    return c * outputs / (scale**2 * width * length) * labels / 2


def frozen_but(trained: Sequence[str]) -> tuple[str, ...]:
    """The weights of the network that are not trained."""
    for name in trained:
        if name not in WEIGHTS:
            raise unknown("trained weights", name, WEIGHTS)
    return tuple(name for name in WEIGHTS if name not in trained)


def practical_training(
    task: Task,
    model: ElmanRnn,
    stopping: Stopping,
    *,
    trained: Sequence[str] = ("A", "W"),
    c: float = PRACTICAL,
    regime: Regime | None = None,
) -> Training:
    """The practical preset for a network on a task; fresh batches of 16 unless a regime is given."""
    labels = labels_of(task)
    outputs = math.prod(labels[1:] if model.reads else labels)
    rate = practical_rate(
        model.width, task.input_shape[0], labels=math.prod(labels), outputs=outputs, scale=float(model.scale), c=c
    )
    return Training(Sgd(rate), Online(BATCH) if regime is None else regime, stopping, "square",
                    frozen=frozen_but(trained))  # fmt: skip


@dataclass(frozen=True)
class TheoremValues:
    """What the theorem asks for: ρ, λ, the rate on its objective, ε_x = 1/ρ^power, steps and samples (as logarithms,
    for most are beyond a float)."""

    rho: float
    scale: float
    rate: float
    eps_x: float
    log_steps: float
    log_samples: float

    def model(self, width: int, **options: Any) -> ElmanRnn:
        """The network with λ."""
        return ElmanRnn(width, scale=self.scale, **options)

    def training(self, stopping: Stopping, loss: str = "square", regime: Regime | None = None) -> Training:
        """One example per step, W and A with one rate; of the square loss half of it, for (1/2)(y - f)²."""
        rate = self.rate / 2 if loss == "square" else self.rate
        return Training(Sgd(rate), Online(1) if regime is None else regime, stopping, loss, frozen=("B",))


def theorem_values(
    epsilon: float,
    length: int,
    width: int,
    *,
    outputs: int = 1,
    terms: int = 1,
    log_complexity: float = 0.0,
    largest: float = 1.0,
    power: int = 1,
    constant: float = 1.0,
) -> TheoremValues:
    """λ, η, T and N of Theorem D.5 and Lemma D.3 for ε, L and m, with the complexity C_ε(Φ, O(1/ε_x)) as a logarithm.

    `largest` is C_Φ; `constant` and `power` (of poly(ρ)) are hidden in the source.
    """
    require(0 < epsilon < 1, f"epsilon must lie between 0 and 1; got epsilon={epsilon!r}")
    for name, number, least in (("length", length, 3), ("width", width, 2), ("outputs", outputs, 1), ("terms", terms, 1)):
        require_integer(name, number, least)
    rho = 100 * length * outputs * math.log(width)
    both = 2 * math.log(terms) - 2 * math.log(epsilon) + math.log(constant)
    return TheoremValues(
        rho=rho,
        scale=epsilon / (10 * length * rho),
        rate=constant / (epsilon * rho**2 * width),
        eps_x=rho**-power,
        log_steps=both + 2 * log_complexity + power * math.log(rho),
        log_samples=both - math.log(terms) + 3 * math.log(rho) + 2 * math.log(largest),
    )
