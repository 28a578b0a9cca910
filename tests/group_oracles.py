"""Single neurons, and what networks on groups consist of: oracles of tests (dissertation, sections D.6.3 and D.9.1).

    Z_p      f̂(j,k,l) = Σ_{a,b,c} f(a,b)[c] e^{-2πi(ja+kb+lc)/p}      (printed with j in all three places)
    a group  f̂(j,k,l) = Σ_{a,b,c} ρ_j(a) ρ_k(b) ρ_l(c) f(a,b)[c]      ρ the matrix entries of the real irreps

Of a neuron of one frequency z only j = 0, k = 0 or j, k, l all ±z are there. A network whose wrong logits are all
alike, f = F(a,b) + γ 1[c = ab], has f̂(j,j,-j) = γp² for j ≠ 0, and γ|G|²/D² at the entries ((p,s), (s,q), (p,q)) of one
irrep.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from krogh.networks.groups.arrays import Network, PairArrays, PowerArrays
from krogh.networks.groups.measures import check_exponent, neuron_margins, offset_means
from krogh.probes.features.spectra import cyclic_transform, group_transform  # noqa: F401 (tests take all from here)
from krogh.programs.groups import Group
from krogh.theory.groups.irreps import Irrep, irrep_powers
from krogh.theory.groups.maximum import max_margin_group, max_margin_parity
from krogh.theory.groups.problems import characters_of, group_of, problem_of

Array = NDArray[np.float64]


def cyclic_neuron(p: int, frequency: int, phase_u: float = 0.0, phase_v: float = 0.0) -> PairArrays:
    """One optimal neuron of Z_p, p odd: √(2/(3p)) cos(θ + 2πzx/p) with θ_w = θ_u + θ_v."""
    angles = 2 * np.pi * (frequency * np.arange(p) % p) / p
    parts = np.array([np.cos(phase + angles) for phase in (phase_u, phase_v, phase_u + phase_v)])
    return PairArrays(*(math.sqrt(2 / (3 * p)) * parts[:, None]))


def parity_neuron(n: int, support: Sequence[int], signs: ArrayLike) -> PowerArrays:
    """One optimal neuron of a parity: u = σ/√(k+1) on the support, w = (∏σ)/√(k+1) · (1,-1)/√2."""
    k, pattern = len(support), np.asarray(signs, np.float64)
    u = np.zeros((1, n))
    u[0, list(support)] = pattern / math.sqrt(k + 1)
    return PowerArrays(u, np.prod(pattern) / math.sqrt(2 * (k + 1)) * np.array([[1.0, -1.0]]), k)


def group_neuron(irrep: Irrep, x: ArrayLike, y: ArrayLike, z: ArrayLike) -> PairArrays:
    """One optimal neuron: u = s xᵀR(g)y, v = s yᵀR(g)z, w = s xᵀR(g)z for unit vectors, s = √(D/(3|G|))."""
    vectors = [np.asarray(vector, np.float64) for vector in (x, y, z)]
    first, middle, last = vectors
    scale = math.sqrt(irrep.dimension / (3 * len(irrep.matrices)))
    entries = [
        np.einsum("i,gij,j->g", left, irrep.matrices, right)
        for left, right in ((first, middle), (middle, last), (first, last))
    ]
    return PairArrays(*(scale * entry[None] for entry in entries))


def norm_shares(network: PairArrays, group: Any) -> dict[str, float]:
    """Σ ‖ω_i‖^ν over the neurons of each irrep, over the sum of all; a neuron belongs to the irrep of most power.

    In every maximum-margin network they are those of `MaxMargin.irrep_shares` where the sign condition is negative:
    2/(p-1) per frequency of an odd p, D^2.5/Σ D^2.5 per irrep of a group of real type.
    """
    given = group_of(group)
    powers = irrep_powers(given, np.stack([network.U, network.V, network.W])).sum(axis=0)
    sizes = np.linalg.norm(network.neurons, axis=1) ** network.homogeneity
    names = characters_of(given).irrep_names
    totals = np.bincount(np.argmax(powers, axis=1), sizes, minlength=len(names))
    return dict(zip(names, (totals / sizes.sum()).tolist(), strict=True))


def shift_means(network: PairArrays, p: int) -> Array:
    """η(δ) = E_{a,b}[σ(u(a) + v(b)) w(a+b-δ)] of every neuron on Z_p, [m, p]; h_{uvw}(c) = η(-c)."""
    return offset_means(network, p)[:, (-np.arange(p)) % p]


def neuron_efficiency(network: Network, problem: Any, tau: ArrayLike | None = None) -> Array:
    """e_i = E[ψ'(ω_i)]/(γ* ‖ω_i‖^ν) ≤ 1 of every neuron, [m]; 1 exactly for optimal ones, nan for zero ones.

    One number for what frequency or irrep, phases and norms a neuron must have. The mean with weights ‖ω_i‖^ν is
    E[g'(θ/‖θ‖)]/γ*. Only for x² on groups and x^k on parities of k bits, where γ* is known.
    """
    given = problem_of(problem)
    check_exponent(network, given)
    best = max_margin_group(given).value if isinstance(given, Group) else max_margin_parity(given.k).value
    sizes = np.linalg.norm(network.neurons, axis=1) ** network.homogeneity
    expected = neuron_margins(network, given, tau)
    return np.asarray(np.divide(expected, best * sizes, out=np.full(len(sizes), np.nan), where=sizes > 0))
