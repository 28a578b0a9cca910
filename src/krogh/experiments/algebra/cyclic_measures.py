"""What trained networks are measured by, in float64: addition modulo p and parity (Figures 7.1, 7.4, 7.5 and D.1).

    features    largest normalised power of u, v and w, the dominant frequencies, their shares of Σ‖ω_i‖^ν
    margin      normalised margin over γ*, and the certificate's gap γ* - margin with its two parts
    distance    from the family of maximum-margin networks: neurons, shares, function (`theory.features.distance`)

The gap is (V - E[g']) + (E[g'] - h), both divided by ‖θ‖^ν: neurons that are not optimal (Eq 7.3), and inputs or labels
off the margin (Eq 7.1, C.1). For ReLU neurons no maximum margin is known: the margin and the gap are left out, and the
distance says how far their weights and their function are from those of quadratic networks of maximum margin.

`fewest` is the least number of kept neurons that a frequency has: with few, its terms u²w and v²w cannot cancel.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from krogh.theory.features.distance import function_distance, margin_distance
from krogh.theory.features.nearest_neurons import nearest_in_irreps
from krogh.theory.features.parity import parity_structure
from krogh.theory.features.parts import Spectrum, network_spectrum
from krogh.theory.features.spectra import norm_balance, norm_weights, weighted_mean
from krogh.theory.margins import (
    PairArrays,
    ParityProblem,
    PowerArrays,
    certify,
    cross_entropy,
    dataset_margin,
    logit_flatness,
    max_margin_cyclic,
    normalised_margin,
    offset_maximum,
    phase_residuals,
)
from krogh.theory.margins.networks import Network
from krogh.theory.margins.problems import characters_of, group_of
from krogh.theory.representations import irrep_powers, real_irreps

Array = NDArray[np.float64]

EVEN = 0.2
"""A frequency's share is as it should be within this factor of the share in a maximum-margin network."""

MEASURES = (
    "margin", "normalised_margin", "ratio", "cross_entropy", "flatness",
    "power", "power_median", "power_least", "agreement", "kept", "fewest", "present",
    "even_shares",
    "phase", "balance", "neurons", "worst_neuron", "shares", "function",
    "gap", "gap_of_neurons", "gap_of_logits",
)  # fmt: skip

PARITY_MEASURES = (
    "margin", "cross_entropy", "ratio", "kept", "kept_share", "off_share", "deviation", "imbalance", "sign_rule",
    "patterns", "neurons", "worst_neuron", "shares", "function", "gap", "gap_of_neurons", "gap_of_logits",
)  # fmt: skip


@dataclass(frozen=True)
class FamilyDistance:
    """Distance from the family of maximum-margin networks; `worst` is that of the worst kept neuron."""

    neurons: float
    worst: float
    shares: float
    function: float


def network_measures(network: Network | None, p: int) -> dict[str, float]:
    """Everything, by name (`MEASURES`); nan where training diverged and where theory says nothing."""
    found = dict.fromkeys(MEASURES, math.nan)
    if network is None or not np.any(network.neurons):
        return found
    assert isinstance(network, PairArrays)
    spectrum = network_spectrum(network, p)
    kept = spectrum.kept
    powers = spectrum.largest[:, kept]
    counts = np.array(list(spectrum.counts().values()))
    distance = family_distance(network, p)
    found |= {
        "margin": dataset_margin(network, p),
        "normalised_margin": normalised_margin(network, p),
        "cross_entropy": cross_entropy(network, p),
        "flatness": logit_flatness(network, p),
        "power": float(spectrum.mean_largest.min()),
        "power_median": float(np.median(powers)),
        "power_least": float(powers.min()),
        "agreement": spectrum.agreement,
        "kept": float(kept.sum()),
        "fewest": float(counts.min()),
        "present": float(np.mean(counts > 0)),
        "even_shares": float(np.mean(np.abs(relative_shares(spectrum, p) - 1) <= EVEN)),
        "phase": float(np.max(np.abs(phase_residuals(network, p)[kept]))),
        "balance": float(np.max(np.abs(norm_balance(network)[kept] - 1))),
        "neurons": distance.neurons,
        "worst_neuron": distance.worst,
        "shares": distance.shares,
        "function": distance.function,
    }
    if network.activation == "quadratic":
        proof = certify(network, p)
        found |= {
            "ratio": proof.lower / proof.upper,
            "gap": proof.gap / proof.upper,
            "gap_of_neurons": (proof.upper - proof.expected) / proof.upper,
            "gap_of_logits": (proof.expected - proof.lower) / proof.upper,
        }
    return found


def relative_shares(spectrum: Spectrum, p: int) -> Array:
    """Each frequency's share of Σ‖ω_i‖^ν over its share in a maximum-margin network, [⌊p/2⌋]."""
    found = np.array(list(spectrum.shares().values()))
    return np.asarray(found / np.array(list(max_margin_cyclic(p).irrep_shares.values())))


def family_distance(network: PairArrays, p: int) -> FamilyDistance:
    """The distance from maximum-margin networks of Z_p, of ReLU networks by weights and function alone."""
    if network.activation == "quadratic":
        found = margin_distance(network, p)
        return FamilyDistance(found.neurons, found.worst, found.shares, found.function)
    group = group_of(p)
    names = characters_of(group).irrep_names
    best = offset_maximum(group).best
    allowed = [number for number, name in enumerate(names) if name in best]
    nearest = nearest_in_irreps(network, real_irreps(group), allowed)
    weights, kept = norm_weights(network), network_spectrum(network, p).kept
    powers = irrep_powers(group, np.stack([network.U, network.V, network.W])).sum(axis=0)
    shares = np.bincount(np.argmax(powers, axis=1), weights, len(names))
    wanted = np.array([0.0, *max_margin_cyclic(p).irrep_shares.values()])
    return FamilyDistance(
        neurons=math.sqrt(float(weighted_mean(nearest.distance**2, weights))),
        worst=float(np.max(nearest.distance[kept])),
        shares=0.5 * float(np.abs(shares - wanted).sum()),
        function=function_distance(network, group, np.eye(p)),
    )


def parity_measures(network: Network | None, problem: ParityProblem) -> dict[str, float]:
    """Margin, the four properties of Theorem 7.8 over kept neurons, and distances; nan where training diverged."""
    found = dict.fromkeys(PARITY_MEASURES, math.nan)
    if network is None or not np.any(network.neurons):
        return found
    assert isinstance(network, PowerArrays)
    distance, proof = margin_distance(network, problem), certify(network, problem)
    return found | {
        "margin": dataset_margin(network, problem),
        "cross_entropy": cross_entropy(network, problem),
        "ratio": proof.lower / proof.upper,
        **parity_structure(network, problem).summary(),
        "neurons": distance.neurons,
        "worst_neuron": distance.worst,
        "shares": distance.shares,
        "function": distance.function,
        "gap": proof.gap / proof.upper,
        "gap_of_neurons": (proof.upper - proof.expected) / proof.upper,
        "gap_of_logits": (proof.expected - proof.lower) / proof.upper,
    }
