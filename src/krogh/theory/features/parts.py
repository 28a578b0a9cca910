"""How a network's neurons spread over frequencies or irreps (dissertation, Figures 7.4, 7.6, D.1, D.2 and D.3).

    power     P_R(u) = uᵀ Π_R u = (D/(e|G|)) Σ_{i,j} ⟨u, R_ij⟩²,   Σ_R P_R(u) = ‖u‖²
    counts    kept neurons per part, of which theory says nothing
    shares    Σ_{i in part} ‖ω_i‖^ν / Σ_i ‖ω_i‖^ν, which is D^2.5/e over the sum of these in every maximum-margin
              network, where the condition of Theorem 7.9 holds

The parts are the real irreps of the group, D their dimension and e = 1, 2, 4 for real, complex, quaternionic type. On
Z_p they are the frequencies 0..⌊p/2⌋, and P_j here is `frequency_powers`/p.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from krogh.theory import representations
from krogh.theory.features.spectra import (
    dominant_part,
    frequency_powers,
    kept_neurons,
    largest_power,
    norm_weights,
    weighted_mean,
)
from krogh.theory.margins.networks import PairArrays, check_fit
from krogh.theory.margins.problems import characters_of, cyclic_order, group_of

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Spectrum:
    """The powers [3, m, parts] of u, v and w of every neuron, what the parts are called, and which neurons count.

    `weights` [m] are the neurons' shares of Σ‖ω_i‖^ν; `kept` [m] those large enough to be judged; `first` is the first
    part that may dominate: 1 on Z_p, whose frequency 0 is no frequency, 0 on other groups, whose trivial irrep is one.
    """

    names: tuple[str, ...]
    powers: Array
    weights: Array
    kept: NDArray[np.bool_]
    first: int

    @property
    def largest(self) -> Array:
        """The largest normalised power of u, v and w, [3, m]."""
        return largest_power(self.powers)

    @property
    def dominant(self) -> NDArray[np.int64]:
        """The dominant part of u, v and w, [3, m]."""
        return dominant_part(self.powers, self.first)

    @property
    def part(self) -> NDArray[np.int64]:
        """The part with most of the power of u, v and w together, [m]."""
        return dominant_part(self.powers.sum(axis=0), self.first)

    @property
    def agreement(self) -> float:
        """The share of kept neurons whose u, v and w have the same dominant part."""
        u, v, w = self.dominant[:, self.kept]
        return float(np.mean((u == v) & (v == w)))

    @property
    def mean_largest(self) -> Array:
        """The largest normalised power of u, v and w averaged with the neurons' weights, [3]."""
        return weighted_mean(self.largest, self.weights)

    @property
    def median_largest(self) -> Array:
        """Its median over kept neurons, [3]; a kept neuron whose u, v or w is zero makes it nan."""
        return np.asarray(np.median(self.largest[:, self.kept], axis=1))

    def counts(self) -> dict[str, int]:
        """How many kept neurons each part has."""
        found = np.bincount(self.part[self.kept], minlength=len(self.names))
        return dict(zip(self.names[self.first :], found[self.first :].tolist(), strict=True))

    def shares(self) -> dict[str, float]:
        """Each part's share of Σ‖ω_i‖^ν."""
        found = np.bincount(self.part, self.weights, minlength=len(self.names))
        return dict(zip(self.names[self.first :], found[self.first :].tolist(), strict=True))


def network_spectrum(network: PairArrays, group: Any, kept: float | None = None) -> Spectrum:
    """The spectrum of a pair network on a group, given as a `Group`, by name, or as an integer p for Z_p.

    `kept` is the share of the largest norm that a neuron must exceed to be kept, 0.1 unless given.
    """
    given = group_of(group)
    check_fit(network, given)
    parts = np.stack([network.U, network.V, network.W])
    cyclic = cyclic_order(given) is not None
    # Rounding may leave a power of -1e-17 where a projection is zero.
    powers = frequency_powers(parts) / given.order if cyclic else representations.irrep_powers(given, parts)
    return Spectrum(
        names=characters_of(given).irrep_names,
        powers=np.maximum(powers, 0.0),
        weights=norm_weights(network),
        kept=kept_neurons(network, kept),
        first=1 if cyclic else 0,
    )
