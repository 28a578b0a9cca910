"""Spectra of trained weights on Z_p, and which neurons to look at (dissertation, section 7.4; Figures 7.1, 7.4, D.1).

    transform         û(j) = Σ_a u(a) e^{-2πi ja/p},   u(a) = (1/p) Σ_j û(j) e^{2πi ja/p},   Σ_j |û(j)|² = p‖u‖²
    power             P_0 = |û(0)|²,  P_j = |û(j)|² + |û(-j)|² for 0 < j < p/2,  P_{p/2} = |û(p/2)|² for even p
    largest power     max_j P_j/Σ_j P_j: 1 for a cosine (two-sided, |û(j)|² alone would give ½)
    interpolation     u(x) = (1/p) Σ_{|j|<p/2} û(j) e^{2πi jx/p} at real x; for even p with û(p/2) cos(πx)/p

Small neurons decay only polynomially and stay without structure: features are judged on the *kept* neurons, or with the
weights ‖ω_i‖^ν/Σ_k ‖ω_k‖^ν. Networks are `PairArrays` and `PowerArrays`. Spectra over the irreps of any group are in
`spectra_parts`, transforms of whole networks in `spectra_transforms`, the weights of parities in `spectra_parity`.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from krogh.errors import require, require_integer
from krogh.theory.margins.networks import Network, PairArrays

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
