"""How a trained network's neurons spread over frequencies or irreps (dissertation, Figures 7.1, 7.4, 7.6, D.1 to D.3).

    transform         û(j) = Σ_a u(a) e^{-2πi ja/p},   u(a) = (1/p) Σ_j û(j) e^{2πi ja/p},   Σ_j |û(j)|² = p‖u‖²
    power on Z_p      P_0 = |û(0)|²,  P_j = |û(j)|² + |û(-j)|² for 0 < j < p/2,  P_{p/2} = |û(p/2)|² for even p
    power on a group  P_R(u) = uᵀ Π_R u = (D/(e|G|)) Σ_{i,j} ⟨u, R_ij⟩²,   Σ_R P_R(u) = ‖u‖²
    largest power     max_j P_j/Σ_j P_j: 1 for a cosine (two-sided, |û(j)|² alone would give ½)
    interpolation     u(x) = (1/p) Σ_{|j|<p/2} û(j) e^{2πi jx/p} at real x; for even p with û(p/2) cos(πx)/p
    counts            kept neurons per part, of which theory says nothing
    shares            Σ_{i in part} ‖ω_i‖^ν / Σ_i ‖ω_i‖^ν, which is D^2.5/e over the sum of these in every network of
                      maximum margin, where the condition of Theorem 7.9 holds

The parts are the real irreps of the group, D their dimension and e = 1, 2, 4 for real, complex, quaternionic type; on
Z_p they are the frequencies 0..⌊p/2⌋, and P_R is `frequency_powers`/p. Small neurons decay only polynomially and stay
without structure: features are judged on the *kept* neurons, or with the weights ‖ω_i‖^ν/Σ_k ‖ω_k‖^ν. While a network
trains, `krogh.probes.spectra` measures the same in the program.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from krogh.errors import require, require_integer
from krogh.networks.groups.arrays import Network, PairArrays, check_fit
from krogh.probes.margins import KEPT
from krogh.theory.groups.irreps import basis_vectors, irrep_powers
from krogh.theory.groups.problems import characters_of, cyclic_order, group_of

Array = NDArray[np.float64]

KEPT_POWER = 0.5
"""Kept on parities are neurons whose norm exceeds this share of the largest; on groups `KEPT`."""


def frequency_powers(weights: ArrayLike) -> Array:
    """The one-sided power P_j of rows u [..., p] for j = 0..⌊p/2⌋; a row's powers add to p‖u‖²."""
    rows = _rows(weights)
    p = rows.shape[-1]
    powers = np.abs(np.fft.rfft(rows, axis=-1)) ** 2
    powers[..., 1 : (p + 1) // 2] *= 2.0
    return np.asarray(powers)


def largest_power(powers: ArrayLike) -> Array:
    """max_j P_j/Σ_j P_j of powers [..., parts]; nan where all of them are zero."""
    given = np.asarray(powers, np.float64)
    total = given.sum(axis=-1)
    return np.asarray(np.divide(given.max(axis=-1), total, out=np.full(total.shape, np.nan), where=total > 0))


def dominant_part(powers: ArrayLike, first: int = 1) -> NDArray[np.int64]:
    """argmax_j P_j over j ≥ `first` of powers [..., parts]: the dominant frequency, of which 0 is none."""
    given = np.asarray(powers, np.float64)
    require_integer("first", first, 0, given.shape[-1] - 1)
    return np.asarray(first + np.argmax(given[..., first:], axis=-1), np.int64)


def interpolate(weights: ArrayLike, points: ArrayLike) -> Array:
    """The trigonometric interpolation of rows u [..., p] at real points [x], [..., x]: u itself at 0..p-1."""
    rows, at = _rows(weights), np.asarray(points, np.float64)
    require(at.ndim == 1, f"points are a list of real numbers; got the shape {at.shape}")
    p = rows.shape[-1]
    coefficients = np.fft.rfft(rows, axis=-1) / p
    coefficients[..., 1 : (p + 1) // 2] *= 2.0  # with its conjugate, which rfft leaves out
    angles = 2 * np.pi * np.arange(p // 2 + 1)[:, None] * at[None, :] / p
    return np.asarray(coefficients.real @ np.cos(angles) - coefficients.imag @ np.sin(angles))


def norm_weights(network: Network) -> Array:
    """‖ω_i‖^ν/Σ_k ‖ω_k‖^ν of every neuron, [m]: what it contributes to the norm, and to the margin if it is optimal."""
    norms = np.linalg.norm(network.neurons, axis=1)
    require(norms.max() > 0, "a network of zeros has no shares")
    sizes = (norms / norms.max()) ** network.homogeneity
    return np.asarray(sizes / sizes.sum())


def kept_neurons(network: Network, share: float | None = None) -> NDArray[np.bool_]:
    """Whether ‖ω_i‖ > share · max_k ‖ω_k‖ for every neuron, [m]; 0.1 for pairs and 0.5 for parities unless given."""
    if share is None:
        share = KEPT if isinstance(network, PairArrays) else KEPT_POWER
    require(0 <= share < 1, f"share must lie in [0, 1), else no neuron is kept; got share={share!r}")
    norms = np.linalg.norm(network.neurons, axis=1)
    require(norms.max() > 0, "of a network of zeros no neuron is kept")
    return np.asarray(norms > share * norms.max())


def norm_balance(network: PairArrays) -> Array:
    """√3 (‖u‖, ‖v‖, ‖w‖)/‖ω‖ of every neuron, [m, 3]: all 1 in an optimal one, nan for neurons of zeros."""
    parts = np.stack([np.linalg.norm(part, axis=1) for part in (network.U, network.V, network.W)], axis=1)
    norms = np.linalg.norm(parts, axis=1, keepdims=True)
    return np.sqrt(3) * np.divide(parts, norms, out=np.full(parts.shape, np.nan), where=norms > 0)


def weighted_mean(values: ArrayLike, weights: ArrayLike) -> Array:
    """Σ_i weights_i values_i of values [..., m] and weights [m] that add to 1; neurons of weight 0 may hold nan."""
    given, weight = np.asarray(values, np.float64), np.asarray(weights, np.float64)
    require(given.shape[-1:] == weight.shape, f"needs a weight per neuron; got {given.shape} values, {weight.shape}")
    return np.asarray(np.where(weight > 0, given, 0.0) @ weight)


def _rows(weights: ArrayLike) -> Array:
    rows = np.asarray(weights, np.float64)
    require(rows.ndim >= 1 and rows.shape[-1] >= 2, f"weights on Z_p have the shape [..., p], p ≥ 2; got {rows.shape}")
    return rows


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
    powers = frequency_powers(parts) / given.order if cyclic else irrep_powers(given, parts)
    return Spectrum(
        names=characters_of(given).irrep_names,
        powers=np.maximum(powers, 0.0),
        weights=norm_weights(network),
        kept=kept_neurons(network, kept),
        first=1 if cyclic else 0,
    )


# --- transforms of whole networks (sections D.6.3 and D.9.1) ------------------------------------------------------


def all_logits(network: PairArrays) -> Array:
    """f(a,b)[c] of every input, [n, n, n]; for small n."""
    n = network.order
    found = np.empty((n * n, n))
    for index, logits in network.blocks():
        found[index] = logits
    return found.reshape(n, n, n)


def cyclic_transform(network: PairArrays) -> NDArray[np.complex128]:
    """f̂(j,k,l) = Σ_{a,b,c} f(a,b)[c] e^{-2πi(ja+kb+lc)/p} on Z_p, [p, p, p] (printed with j in all three places).

    A network of maximum margin γ has f̂(j,j,-j) = γp² for j ≠ 0.
    """
    return np.asarray(np.fft.fftn(all_logits(network)))


def group_transform(network: PairArrays, group: Any) -> Array:
    """f̂(j,k,l) = Σ_{a,b,c} ρ_j(a) ρ_k(b) ρ_l(c) f(a,b)[c] on a group of real type, [n, n, n], in the order of
    `basis_vectors`, the matrix entries of its irreps."""
    given = group_of(group)
    check_fit(network, given)
    basis = basis_vectors(given)
    transform = all_logits(network)
    for _ in range(3):  # transform the last axis and bring it to the front: three times, and the order is as before
        transform = np.moveaxis(transform @ basis.T, -1, 0)
    return transform
