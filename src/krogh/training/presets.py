"""The source's settings for margin maximisation (dissertation, D.2): six trainings, each with its network's width.

All are gradient descent without momentum on cross-entropy with a penalty λ‖θ‖_{2,ν}^ν; the rate begins small and is
doubled at stated steps. The exponent of the norm is not stated; with ν the stated rates are stable. The networks have
quadratic neurons unless `activation` or `exponent` says otherwise.
"""

from __future__ import annotations

from dataclasses import dataclass

from krogh.training.optimisers import Sgd
from krogh.training.penalties import NeuronNorm
from krogh.training.regimes import Online, Population, Regime
from krogh.training.schedules import doublings
from krogh.training.stopping import Stopping
from krogh.training.training import Training


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
            "cross-entropy",
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
