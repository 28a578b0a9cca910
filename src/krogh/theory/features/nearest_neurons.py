"""The optimal neuron nearest to a given one (dissertation, sections D.6.1, D.7 and Lemma D.13).

Optimal neurons of norm 1, those that attain the maximum class-weighted margin:

    Z_p       u, v, w = √(2/(3p)) cos(t + 2πzx/p),  t_u + t_v = t_w,  0 < z < p/2
              and for even p  u, v, w = ±(-1)^x/√(3p),  the product of the three signs +1
    a group   u(g) = s xᵀR(g)y,  v(g) = s yᵀR(g)z,  w(g) = s xᵀR(g)z,  unit x, y, z in R^D,  s = √(D/(3|G|))
    parity    u[j] = ±1/√(k+1) on the support, 0 off it;  w = ±(1,-1)/√(2(k+1));  the product of all signs +1

R is a real irrep that attains the maximum: one of real type, or twice a complex or quaternionic one. Over ℂ and ℍ the
same bound |tr(αβγ*)| ≤ ‖α‖‖β‖‖γ‖, an equality only for matrices of rank one with common vectors, shows that there are
no others; a unit factor of ℂ or ℍ is part of the vectors. Z_p is the case of D = 2, where R(g) are rotations.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from krogh.errors import require
from krogh.theory.features.nearest_fits import Triple, fit_phases, fit_signs, fit_vectors
from krogh.theory.features.transforms import moments
from krogh.theory.margins.networks import PairArrays, PowerArrays
from krogh.theory.margins.problems import ParityProblem
from krogh.theory.representations import Irrep

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class NearestNeurons:
    """For every neuron the nearest optimal one of norm 1.

    `neurons` [m, weights] are the optimal neurons; `cosine` [m] their inner product with ω_i/‖ω_i‖, in [0, 1]; `bound`
    [m] is a number that the cosine with no optimal neuron exceeds, the same but where `fit_vectors` could not prove its
    maximum; `distance` [m] = ‖ω_i/‖ω_i‖ - nearest‖ = √(2(1 - cosine)). `part` [m] is the number of the irrep. Neurons
    of zeros have nan and part -1.
    """

    neurons: Array
    cosine: Array
    bound: Array
    distance: Array
    part: NDArray[np.int64]


def nearest_in_irreps(network: PairArrays, irreps: Sequence[Irrep], allowed: Sequence[int]) -> NearestNeurons:
    """The nearest optimal neurons of a pair network in the irreps whose numbers are `allowed`."""
    require(len(allowed) > 0, "a neuron is compared with those of at least one irrep; got none")
    units, alive = _unit_neurons(network)
    places = np.flatnonzero(alive)
    u, v, w = np.split(units[places], 3, axis=1)
    search = _Search(len(places), units.shape[1])
    reachable = np.stack([_reachable(irreps[number], (u, v, w)) for number in allowed], axis=1)
    likely = np.argmax(reachable, axis=1)
    # First the irrep in which most can be reached; afterwards the others, where they can still exceed what was found.
    for column, number in enumerate(allowed):
        search.enter(irreps[number], number, (u, v, w), np.flatnonzero(likely == column))
    for column, number in enumerate(allowed):
        open_ = (likely != column) & (reachable[:, column] > search.cosine)
        search.enter(irreps[number], number, (u, v, w), np.flatnonzero(open_))
    return _spread(units, places, search.neurons, search.bound, search.part)


class _Search:
    """What has been found so far, neuron by neuron."""

    def __init__(self, count: int, weights: int):
        self.neurons = np.zeros((count, weights))
        self.cosine = np.full(count, -np.inf)
        self.bound = np.full(count, -np.inf)
        self.part = np.full(count, -1)

    def enter(self, irrep: Irrep, number: int, parts: Triple, rows: NDArray[np.int64]) -> None:
        """Fit an irrep to some rows, and keep what is better than before."""
        if len(rows) == 0:
            return
        scale = math.sqrt(irrep.dimension / (3 * len(irrep.matrices)))
        u, v, w = (moments(irrep, part[rows]) for part in parts)
        (x, y, z), value, bound = _fit(irrep, (u, v, w))
        better = scale * value > self.cosine[rows]
        chosen = rows[better]
        self.cosine[chosen], self.part[chosen] = scale * value[better], number
        self.bound[rows] = np.maximum(self.bound[rows], scale * bound)
        pairs = ((x, y), (y, z), (x, z))
        entries = [_entries(irrep, left[better], right[better]) for left, right in pairs]
        self.neurons[chosen] = scale * np.concatenate(entries, axis=1)


def _reachable(irrep: Irrep, parts: Triple) -> Array:
    """s (‖A‖ + ‖B‖ + ‖C‖) in the operator norm, [m]: no neuron of the irrep has a larger cosine."""
    norms = [np.linalg.norm(moments(irrep, part), ord=2, axis=(1, 2)) for part in parts]
    return np.asarray(math.sqrt(irrep.dimension / (3 * len(irrep.matrices))) * sum(norms))


def _fit(irrep: Irrep, matrices: Triple) -> tuple[Triple, Array, Array]:
    """x, y, z [m, D], what they attain [m], and what none exceed [m]."""
    a, b, c = matrices
    if irrep.dimension == 1:
        signs = fit_signs(np.stack([a[:, 0, 0], b[:, 0, 0], c[:, 0, 0]], axis=1))
        x, y, z = np.ones((len(a), 1)), signs[:, :1], signs[:, 2:]  # xy, yz and xz are the signs of u, v and w
    elif irrep.dimension == 2 and irrep.kind == "complex":
        t_u, t_v, _ = fit_phases(*(matrix[:, 0, 0] + 1j * matrix[:, 1, 0] for matrix in (a, b, c)))
        # xᵀR(g)y = cos(φ_g + angle of y - angle of x)
        x, y, z = (np.stack([np.cos(t), np.sin(t)], axis=1) for t in (t_u + t_v, t_v, np.zeros_like(t_u)))
    else:
        fit = fit_vectors(a, b, c)
        return (fit.x, fit.y, fit.z), fit.value, fit.bound
    value = sum(np.einsum("mi,mij,mj->m", left, m, right) for left, m, right in ((x, a, y), (y, b, z), (x, c, z)))
    return (x, y, z), np.asarray(value), np.asarray(value)


def _entries(irrep: Irrep, left: Array, right: Array) -> Array:
    """leftᵀR(g)right for rows of vectors, [m, n]."""
    outer = left[:, :, None] * right[:, None, :]
    return np.tensordot(outer, irrep.matrices, axes=((1, 2), (1, 2)))


def nearest_for_parity(network: PowerArrays, problem: ParityProblem) -> NearestNeurons:
    """The nearest optimal neurons of a power network on a parity, in closed form.

    The cosine is (Σ_{j in S} |u[j]| + |w[0]-w[1]|/√2)/√(k+1), less twice the least of these numbers where the product
    of their signs is -1.
    """
    units, alive = _unit_neurons(network)
    places = np.flatnonzero(alive)
    n, k, support = problem.n, problem.k, list(problem.support)
    given = units[places]
    difference = (given[:, n] - given[:, n + 1]) / math.sqrt(2)
    signs = fit_signs(np.concatenate([given[:, support], difference[:, None]], axis=1)) / math.sqrt(k + 1)
    found = np.zeros_like(given)
    found[:, support] = signs[:, :k]
    found[:, n:] = signs[:, k:] * np.array([1.0, -1.0]) / math.sqrt(2)
    bound = np.sum(found * given, axis=1)
    return _spread(units, places, found, bound, np.zeros(len(places), np.int64))


def _unit_neurons(network: PairArrays | PowerArrays) -> tuple[Array, NDArray[np.bool_]]:
    """ω_i/‖ω_i‖, and which are not zero."""
    norms = np.linalg.norm(network.neurons, axis=1)
    alive = norms > 0
    require(alive.any(), "a network of zeros has no direction to compare")
    return network.neurons / np.where(alive, norms, 1.0)[:, None], alive


def _spread(
    units: Array, places: NDArray[np.int64], found: Array, bound: Array, part: NDArray[np.int64]
) -> NearestNeurons:
    """Rows of the neurons that are not zero among all of them."""
    count, weights = units.shape
    neurons, numbers = np.full((count, weights), np.nan), np.full((3, count), np.nan)
    parts = np.full(count, -1)
    cosine = np.sum(found * units[places], axis=1)
    neurons[places], parts[places] = found, part
    # The difference itself, not √(2(1 - cosine)), which rounding would leave at 1e-8.
    numbers[:, places] = cosine, np.maximum(bound, cosine), np.linalg.norm(units[places] - found, axis=1)
    return NearestNeurons(neurons, numbers[0], numbers[1], numbers[2], parts)
