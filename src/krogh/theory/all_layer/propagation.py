"""How far a perturbation of norm t reaches, layer by layer: the proof of Theorem D.6 with the constants of each layer.

Between two corrections every layer has parameters of its own, whose perturbations t_1, t_2, ... have Σ t_l² ≤ t². If
true values have norm at most A and perturbed ones are within g·√(Σ_{k<l} t_k²) of them, then after h ↦ φ(W h + b)

    ‖ĥ' - h'‖ ≤ ‖W‖ ‖ĥ - h‖ + ‖(ΔW, Δb)‖ √(‖ĥ‖² + 1) ≤ g' √(Σ_{k≤l} t_k²),   g' = √(‖W‖² g² + (A + g t)² + 1)

by Cauchy and Schwarz. Rounding forgets what came before it as long as no coordinate is off by more than its radius:
then only its own parameters matter, and the depth of the network does not. The largest t for which that holds
everywhere, and for which the output moves by less than 1, is a lower bound on the margin of a network whose outputs are
±1.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

ROUNDING_NORM = 3 * math.sqrt(2)
"""‖V_2‖ = ‖[3I, -3I]‖."""
HIDDEN_SHARE = math.sqrt(5) / 3
"""‖(2/3, 1/3)‖: what the two units of a rounding hold where its input is 1."""
SPLIT_NORM = math.sqrt(2)
"""‖V_1‖ = ‖[I; I]‖."""
_DIGITS = 60


@dataclass(frozen=True)
class Spread:
    """True values have norm at most `size`, and a perturbation of norm t moves them by at most `gain`·t."""

    size: float
    gain: float = 0.0

    def reach(self, t: float) -> float:
        """The largest norm of perturbed values."""
        return self.size + self.gain * t

    def own(self, t: float) -> float:
        """√(‖ĥ‖² + 1): by how much a layer's output moves, at most, for each unit that its own parameters move."""
        return math.hypot(self.reach(t), 1.0)


def after_layer(before: Spread, t: float, norm: float, size: float) -> Spread:
    """After h ↦ φ(W h + b) with ‖W‖ ≤ `norm`, whose true outputs have norm at most `size`."""
    return Spread(size, math.hypot(norm * before.gain, before.own(t)))


def after_rounding(before: Spread, t: float) -> Spread:
    """After rounding, where no coordinate was off by more than its radius: ζ(ĝ, ξ̂) against ζ(ĝ, ξ) = h.

    The units hold at most √5/3·‖h‖ + √2·‖ĝ - h‖, because those of coordinates with h = 0 are off.
    """
    hidden = HIDDEN_SHARE * before.size + SPLIT_NORM * before.gain * t + before.own(t) * t
    return Spread(before.size, math.hypot(ROUNDING_NORM * before.own(t), hidden, 1.0))


def largest(holds: Callable[[float], bool], most: float = 1.0) -> float:
    """The largest t up to `most`, to 1e-9 from below, for which `holds` is true of it and of everything below it.

    0 where it fails for every t down to 1e-300.
    """
    if holds(most):
        return most
    low, high = -300.0, math.log10(most)
    if not holds(10.0**low):
        return 0.0
    for _ in range(_DIGITS):
        middle = (low + high) / 2
        low, high = (middle, high) if holds(10.0**middle) else (low, middle)
    return 10.0**low * (1 - 1e-9)
