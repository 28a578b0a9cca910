"""What a trained power network's weights look like on a parity (dissertation, Theorem 7.8 and Figure 7.5a).

In a network of maximum margin every neuron that is not zero has

    u[j] = 0 off the support,   |u[j]| = ‖w‖ on it,   w[0] + w[1] = 0,   (∏_{j in S} u[j]) (w[0] - w[1]) > 0

and every sign pattern σ of u on the support, up to a common sign, has the same share 2^{-(k-1)} of Σ‖ω_i‖^ν. With
shares p_σ the network's logits are in proportion to

    Σ_σ p_σ (∏σ) (σ·x)^k = Σ_{T ⊆ S} c_T p̂(S∖T) ∏_{j in T} x_j,   p̂(A) = Σ_σ p_σ ∏_{j in A} σ_j,   c_T > 0

on the cube, T of k, k-2, ... elements. All inputs are on the margin only where the terms of T ≠ S vanish, p̂(A) = 0 for
every even A but the empty one; shares of patterns up to a common sign have no coefficients but the even ones.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from krogh.errors import KroghError
from krogh.networks.groups.arrays import PowerArrays, check_fit
from krogh.probes.features.spectra import kept_neurons, norm_weights
from krogh.theory.groups.problems import ParityProblem, problem_of

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class ParityStructure:
    """The four properties of Theorem 7.8 for every neuron, [m] each; nan where w is zero.

    `off_support` max_{j not in S} |u[j]|; `off_share` the same over the largest |u[j]| of the network; `least` and
    `most` of |u[j]|/‖w‖ over j in S; `imbalance` |w[0] + w[1]|/‖w‖; `sign` of (∏_{j in S} u[j])(w[0] - w[1]).
    `weights` are shares of Σ‖ω_i‖^ν, `kept` the neurons above half the largest norm, `patterns` [m, k] the signs of u
    on S, turned so that the first is +1.
    """

    off_support: Array
    off_share: Array
    least: Array
    most: Array
    imbalance: Array
    sign: Array
    weights: Array
    kept: NDArray[np.bool_]
    patterns: NDArray[np.int64]

    @property
    def deviation(self) -> Array:
        """max_{j in S} | |u[j]|/‖w‖ - 1 | of every neuron, [m]."""
        return np.maximum(np.abs(self.least - 1), np.abs(self.most - 1))

    def pattern_shares(self) -> dict[tuple[int, ...], float]:
        """The share of Σ‖ω_i‖^ν of every sign pattern that occurs, up to a common sign."""
        found, place = np.unique(self.patterns, axis=0, return_inverse=True)
        totals = np.bincount(place.ravel(), self.weights, minlength=len(found))
        return {tuple(pattern): float(total) for pattern, total in zip(found.tolist(), totals, strict=True)}

    def summary(self) -> dict[str, float]:
        """The worst of each property over kept neurons, and how much of Σ‖ω_i‖^ν these hold."""
        kept = self.kept
        return {
            "kept": float(kept.sum()),
            "kept_share": float(self.weights[kept].sum()),
            "off_share": float(self.off_share[kept].max()),
            "deviation": float(self.deviation[kept].max()),
            "imbalance": float(self.imbalance[kept].max()),
            "sign_rule": float(np.mean(self.sign[kept] > 0)),
            "patterns": float(len(np.unique(self.patterns[kept], axis=0))),
        }


def parity_structure(network: PowerArrays, problem: Any, kept: float | None = None) -> ParityStructure:
    """The structure of a power network's neurons on a parity, given as `ParityProblem` or task."""
    given = problem_of(problem)
    if not isinstance(given, ParityProblem):
        raise KroghError(f"expected a parity (a ParityProblem or a task 'parity-classes'); got {problem!r}")
    check_fit(network, given)
    support = list(given.support)
    inside, outside = network.U[:, support], np.delete(network.U, support, axis=1)
    off = np.abs(outside).max(axis=1, initial=0.0)
    size = np.linalg.norm(network.W, axis=1)
    relative = _over(np.abs(inside), size[:, None])
    signs = np.where(inside < 0, -1, 1)
    return ParityStructure(
        off_support=off,
        off_share=_over(off, np.abs(network.U).max()),
        least=relative.min(axis=1),
        most=relative.max(axis=1),
        imbalance=_over(np.abs(network.W.sum(axis=1)), size),
        # Of signs, not of the product: a product of many small numbers underflows.
        sign=np.prod(np.sign(inside), axis=1) * np.sign(network.W[:, 0] - network.W[:, 1]),
        weights=norm_weights(network),
        kept=kept_neurons(network, kept),
        patterns=signs * signs[:, :1],
    )


def _over(values: Array, scale: Any) -> Array:
    """values/scale, nan where the scale is zero."""
    divisor = np.broadcast_to(np.asarray(scale, np.float64), values.shape)
    return np.asarray(np.divide(values, divisor, out=np.full(values.shape, np.nan), where=divisor > 0))
