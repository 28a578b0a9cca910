"""What a power network's weights look like on a parity (dissertation, Theorem 7.8 and Figure 7.5a).

In a network of maximum margin every neuron that is not zero has

    u[j] = 0 off the support,   |u[j]| = ‖w‖ on it,   w[0] + w[1] = 0,   (∏_{j in S} u[j]) (w[0] - w[1]) > 0

and every sign pattern σ of u on the support, up to a common sign, has the same share 2^{-(k-1)} of Σ‖ω_i‖^ν. With
shares p_σ the network's logits are in proportion to

    Σ_σ p_σ (∏σ) (σ·x)^k = Σ_{T ⊆ S} c_T p̂(S∖T) ∏_{j in T} x_j,   p̂(A) = Σ_σ p_σ ∏_{j in A} σ_j,   c_T > 0

on the cube, T of k, k-2, ... elements. All inputs are on the margin only where the terms of T ≠ S vanish, p̂(A) = 0 for
every even A but the empty one; shares of patterns up to a common sign have no coefficients but the even ones.

Spectra of trained weights on Z_p, and which neurons to look at (dissertation, section 7.4; Figures 7.1, 7.4, D.1).

    transform         û(j) = Σ_a u(a) e^{-2πi ja/p},   u(a) = (1/p) Σ_j û(j) e^{2πi ja/p},   Σ_j |û(j)|² = p‖u‖²
    power             P_0 = |û(0)|²,  P_j = |û(j)|² + |û(-j)|² for 0 < j < p/2,  P_{p/2} = |û(p/2)|² for even p
    largest power     max_j P_j/Σ_j P_j: 1 for a cosine (two-sided, |û(j)|² alone would give ½)
    interpolation     u(x) = (1/p) Σ_{|j|<p/2} û(j) e^{2πi jx/p} at real x; for even p with û(p/2) cos(πx)/p

Small neurons decay only polynomially and stay without structure: features are judged on the *kept* neurons, or with the
weights ‖ω_i‖^ν/Σ_k ‖ω_k‖^ν. Networks are `PairArrays` and `PowerArrays`. Spectra over the irreps of any group are in
`spectra_parts`, transforms of whole networks in `spectra_transforms`, the weights of parities in `spectra_parity`.

How a network's neurons spread over frequencies or irreps (dissertation, Figures 7.4, 7.6, D.1, D.2 and D.3).

    power     P_R(u) = uᵀ Π_R u = (D/(e|G|)) Σ_{i,j} ⟨u, R_ij⟩²,   Σ_R P_R(u) = ‖u‖²
    counts    kept neurons per part, of which theory says nothing
    shares    Σ_{i in part} ‖ω_i‖^ν / Σ_i ‖ω_i‖^ν, which is D^2.5/e over the sum of these in every maximum-margin
              network, where the condition of Theorem 7.9 holds

The parts are the real irreps of the group, D their dimension and e = 1, 2, 4 for real, complex, quaternionic type. On
Z_p they are the frequencies 0..⌊p/2⌋, and P_j here is `frequency_powers`/p.

Networks in the basis of irreps: coefficient matrices, and what of the function is signal (sections D.6.3 and D.9.1).

    coefficients    α_R = (D/(e|G|)) Σ_g u(g) R(g), and β_R, γ_R of v and w;   ‖u‖² = Σ_R (e|G|/D) ‖α_R‖²_F
    transform       f̂ = Σ_{a,b,c} f(a,b)[c] R(a)⊗R(b)⊗R(c) of a neuron (u(a)+v(b))² w(c), with R ≠ 1 for a and b, is
                    2 A⊗B⊗C,  A = Σ_g u(g) R(g), and B, C of v and w: the squares drop out
    signal          s_R = Σ_{a,b} ⟨f(a,b), R(a)R(b)R(·)⟩ / (D|G|²) = 2 Σ_i tr(A_i B_i C_iᵀ) / (D|G|²)

f = F(a,b) + s·1[c = ab], as in networks of maximum margin whose wrong logits are all alike, has s_R = s for every R: on
Z_p, f̂(j,j,-j) = s p².
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from krogh.errors import KroghError, require, require_integer
from krogh.networks.groups.arrays import Network, PairArrays, PowerArrays, check_fit
from krogh.theory.groups.irreps import COMMUTANT, Irrep, coefficient_matrices, irrep_powers, real_irreps
from krogh.theory.groups.problems import ParityProblem, characters_of, cyclic_order, group_of, problem_of

Array = NDArray[np.float64]

KEPT_PAIR = 0.1
KEPT_POWER = 0.5
"""Kept are neurons whose norm exceeds this share of the largest: on groups, and on parities."""


def dft(weights: ArrayLike) -> NDArray[np.complex128]:
    """û(j) of rows u [..., p], for j = 0..p-1."""
    return np.asarray(np.fft.fft(_rows(weights), axis=-1))


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
        share = KEPT_PAIR if isinstance(network, PairArrays) else KEPT_POWER
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


@dataclass(frozen=True, eq=False)
class Coefficients:
    """α_R, β_R, γ_R [m, D, D] of u, v and w of every neuron, for one irrep."""

    name: str
    irrep: Irrep
    alpha: Array
    beta: Array
    gamma: Array

    def powers(self) -> Array:
        """P_R(u) = (e|G|/D) ‖α_R‖²_F of u, v and w, [3, m]."""
        scale = len(self.irrep.matrices) / self.irrep.weight
        return scale * np.stack([np.sum(part**2, axis=(1, 2)) for part in (self.alpha, self.beta, self.gamma)])

    def rank_one(self) -> Array:
        """How far α_R, β_R, γ_R are of rank one, e σ_1²/Σ_k σ_k² [3, m]: 1 in optimal neurons, nan where they are zero.

        Over the complex numbers and quaternions for these types, where every singular value occurs e = 2 or 4 times.
        """
        values = [np.linalg.svd(part, compute_uv=False) ** 2 for part in (self.alpha, self.beta, self.gamma)]
        squares = np.stack(values)
        total = squares.sum(axis=-1)
        first = COMMUTANT[self.irrep.kind] * squares[..., 0]
        return np.asarray(np.divide(first, total, out=np.full(total.shape, np.nan), where=total > 0))


def network_coefficients(network: PairArrays, group: Any) -> tuple[Coefficients, ...]:
    """α_R, β_R, γ_R of every neuron for every real irrep, the trivial one first."""
    given = group_of(group)
    check_fit(network, given)
    named = zip(characters_of(given).irrep_names, real_irreps(given), strict=True)
    parts = (network.U, network.V, network.W)
    return tuple(
        Coefficients(name, irrep, *(coefficient_matrices(irrep, part) for part in parts)) for name, irrep in named
    )


def moments(irrep: Irrep, vectors: ArrayLike) -> Array:
    """A = Σ_g u(g) R(g) [..., D, D] of vectors u [..., n]."""
    return coefficient_matrices(irrep, vectors) * (len(irrep.matrices) / irrep.weight)


def irrep_signals(network: PairArrays, group: Any) -> dict[str, float]:
    """s_R of every non-trivial irrep; all alike in a network of maximum margin whose wrong logits are all alike.

    From the weights: no logit is computed. Only for the activation x².
    """
    given = group_of(group)
    check_fit(network, given)
    quadratic = network.homogeneity == 3 and network.activation != "relu"
    require(quadratic, f"the squares of a neuron drop out only for the activation x²; got {network.activation!r}")
    signals = {}
    for name, irrep in zip(characters_of(given).irrep_names[1:], real_irreps(given)[1:], strict=True):
        a, b, c = (moments(irrep, part) for part in (network.U, network.V, network.W))
        trace = float(np.sum((a @ b) * c))
        signals[name] = 2 * trace / (irrep.dimension * given.order**2)
    return signals


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
