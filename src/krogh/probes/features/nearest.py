"""The optimal neuron nearest to a given one (dissertation, sections D.6.1, D.7 and Lemma D.13).

Optimal neurons of norm 1, those that attain the maximum class-weighted margin:

    Z_p       u, v, w = √(2/(3p)) cos(t + 2πzx/p),  t_u + t_v = t_w,  0 < z < p/2
              and for even p  u, v, w = ±(-1)^x/√(3p),  the product of the three signs +1
    a group   u(g) = s xᵀR(g)y,  v(g) = s yᵀR(g)z,  w(g) = s xᵀR(g)z,  unit x, y, z in R^D,  s = √(D/(3|G|))
    parity    u[j] = ±1/√(k+1) on the support, 0 off it;  w = ±(1,-1)/√(2(k+1));  the product of all signs +1

R is a real irrep that attains the maximum: one of real type, or twice a complex or quaternionic one. Over ℂ and ℍ the
same bound |tr(αβγ*)| ≤ ‖α‖‖β‖‖γ‖, an equality only for matrices of rank one with common vectors, shows that there are
no others; a unit factor of ℂ or ℍ is part of the vectors. Z_p is the case of D = 2, where R(g) are rotations.

The inner product of an optimal neuron in R with a given one is s times

    Φ(x, y, z) = xᵀA y + yᵀB z + xᵀC z,   A = Σ_g u(g) R(g), and B, C of v and w

    D = 1            x, y, z are signs: `fit_signs`, in closed form
    D = 2, complex   R(g) are rotations and A, B, C complex numbers: `fit_phases`, by one monotone equation
    otherwise        `fit_vectors`: ascent from several starts, with a certificate of the global maximum
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from krogh.errors import require
from krogh.networks.groups.arrays import PairArrays, PowerArrays
from krogh.theory.groups.irreps import Irrep, from_coefficients, moments
from krogh.theory.groups.problems import ParityProblem
from krogh.theory.numerics import spectral_norm

Array = NDArray[np.float64]
Complex = NDArray[np.complex128]
Triple = tuple[Array, Array, Array]

HALVINGS = 80
ASCENTS = 2000
SETTLED = 1e-14
STARTS = 2
MORE_STARTS = 64
SEED = 20231


def fit_signs(values: Array) -> Array:
    """The signs s [..., r] with ∏ s = +1 that maximise Σ s_i values_i: those of the values, but for the least of them
    where their product is -1."""
    signs = np.where(values < 0, -1.0, 1.0)
    least = np.argmin(np.abs(values), axis=-1)[..., None]
    wrong = np.prod(signs, axis=-1, keepdims=True) < 0
    flipped = np.take_along_axis(signs, least, axis=-1) * np.where(wrong, -1.0, 1.0)
    np.put_along_axis(signs, least, flipped, axis=-1)
    return signs


def fit_phases(a: Complex, b: Complex, c: Complex) -> Triple:
    """Phases t_a, t_b, t_c with t_a + t_b = t_c that maximise Re(a e^{-i t_a} + b e^{-i t_b} + c e^{-i t_c}), [m] each.

    With the amplitudes sorted, A ≥ B ≥ C, and what the phases miss, Δ = |arg a + arg b - arg c| in [0, π], it is

        max A cos α + B cos β + C cos γ   over α + β + γ = Δ,   α = arg(A + B e^{i(Δ-γ)}) at given γ
        g(γ) = C cos γ + |A + B e^{i(Δ-γ)}|

    The maximum has 0 ≤ γ ≤ Δ: otherwise |γ|, 0 or Δ does no worse. There A sin α = B sin β = C sin γ = μ has one
    solution for Δ < π: at most one angle is obtuse, that of the least amplitude; with none the sum of the angles rises
    with μ, from 0 to some Σ at μ = C, and with one it is nowhere below min(π, Σ) and takes each value between the two
    once. So g' changes sign once, from + to -, and the interval of γ is halved.
    """
    numbers = np.stack([np.conj(a), np.conj(b), c], axis=-1)  # phases -t_a, -t_b, t_c add to zero
    miss = np.angle(np.exp(1j * np.angle(numbers).sum(axis=-1)))  # in (-π, π]; a zero counts as a phase of 0
    order = np.argsort(-np.abs(numbers), axis=-1)
    large, middle, small = np.moveaxis(np.take_along_axis(np.abs(numbers), order, axis=-1), -1, 0)
    delta = np.abs(miss)
    low, high = np.zeros_like(delta), delta.copy()
    for _ in range(HALVINGS):
        gamma = (low + high) / 2
        rest = delta - gamma
        length = np.abs(large + middle * np.exp(1j * rest))
        pull = np.divide(large * middle * np.sin(rest), length, out=np.zeros_like(delta), where=length > 0)
        rising = pull > small * np.sin(gamma)
        low, high = np.where(rising, gamma, low), np.where(rising, high, gamma)
    gamma = (low + high) / 2
    alpha = np.angle(large + middle * np.exp(1j * (delta - gamma)))
    turned = np.stack([alpha, delta - gamma - alpha, gamma], axis=-1) * np.where(miss < 0, -1.0, 1.0)[..., None]
    angles = np.empty_like(turned)
    np.put_along_axis(angles, order, turned, axis=-1)
    phases = np.angle(numbers) - angles
    t_a, t_b = -phases[..., 0], -phases[..., 1]
    return t_a, t_b, t_a + t_b


@dataclass(frozen=True, eq=False)
class VectorFit:
    """Unit vectors x, y, z [m, D], Φ of them [m], and a number [m] that Φ exceeds nowhere."""

    x: Array
    y: Array
    z: Array
    value: Array
    bound: Array


def fit_vectors(a: Array, b: Array, c: Array) -> VectorFit:
    """Unit vectors that maximise Φ = xᵀA y + yᵀB z + xᵀC z for matrices [m, D, D].

    Given two of the vectors the third is in closed form, so that Φ never falls. Ascent starts from the first two pairs
    of singular vectors of A, B and C. At a stationary point

        Ay + Cz = λ_1 x,   Aᵀx + Bz = λ_2 y,   Bᵀy + Cᵀx = λ_3 z,   2Φ = λ_1 + λ_2 + λ_3,

    and with μ = max(0, -λ_min) of the least eigenvalue of

        diag(λ_1 I, λ_2 I, λ_3 I) - [[0, A, C], [Aᵀ, 0, B], [Cᵀ, Bᵀ, 0]]

    no unit vectors have more than Φ + 3μ/2; where μ = 0 the maximum is global. Where it is not proved, ascent is tried
    again from many directions.
    """
    fit = _ascended(a, b, c, _singular_starts(a, b, c))
    open_ = np.flatnonzero(fit.bound > fit.value * (1 + 1e-9) + np.finfo(float).tiny)
    if len(open_) == 0:
        return fit
    drawn = np.random.default_rng(SEED).standard_normal((3, 1, MORE_STARTS, a.shape[1]))
    starts = np.broadcast_to(_unit(drawn), (3, len(open_), MORE_STARTS, a.shape[1]))
    again = _ascended(a[open_], b[open_], c[open_], (starts[0], starts[1], starts[2]))
    better = again.value > fit.value[open_]
    chosen = open_[better]
    merged = {name: getattr(fit, name).copy() for name in ("x", "y", "z", "value", "bound")}
    for name, array in merged.items():
        array[chosen] = getattr(again, name)[better]
    merged["bound"][open_] = np.minimum(fit.bound[open_], again.bound)
    return VectorFit(**merged)


def _ascended(a: Array, b: Array, c: Array, starts: Triple) -> VectorFit:
    """Ascent from starts [m, starts, D] each; the best of them, and the bound of its multipliers."""
    x, y, z = starts
    x, y, z = _climb(a, b, c, x, y, z, ASCENTS // 20)
    best = np.argmax(_value(a, b, c, x, y, z), axis=1)[:, None, None]
    x, y, z = (np.take_along_axis(vectors, best, axis=1) for vectors in (x, y, z))
    x, y, z = _climb(a, b, c, x, y, z, ASCENTS)
    first, second, third = (np.sum((left @ m) * right, axis=-1) for left, m, right in ((x, a, y), (y, b, z), (x, c, z)))
    multipliers = np.concatenate([first + third, first + second, second + third], axis=1)
    value = (first + second + third)[:, 0]
    least = np.linalg.eigvalsh(_hessian(a, b, c, multipliers))[:, 0]
    return VectorFit(x[:, 0], y[:, 0], z[:, 0], value, value + 1.5 * np.maximum(0.0, -least))


def _climb(a: Array, b: Array, c: Array, x: Array, y: Array, z: Array, steps: int) -> Triple:
    """Best x, y and z in turn, [m, starts, D]; those that no longer move are left alone."""
    x, y, z = x.copy(), y.copy(), z.copy()
    moving = np.arange(len(a))
    for _ in range(steps):
        a_, b_, c_ = a[moving], b[moving], c[moving]
        first = _unit(y[moving] @ np.swapaxes(a_, 1, 2) + z[moving] @ np.swapaxes(c_, 1, 2), x[moving])
        second = _unit(first @ a_ + z[moving] @ np.swapaxes(b_, 1, 2), y[moving])
        third = _unit(second @ b_ + first @ c_, z[moving])
        moved = np.abs(first - x[moving]).max(axis=(1, 2))
        x[moving], y[moving], z[moving] = first, second, third
        moving = moving[moved >= SETTLED]
        if len(moving) == 0:
            break
    return x, y, z


def _singular_starts(a: Array, b: Array, c: Array) -> Triple:
    """x, y, z [m, starts, D]: a pair of singular vectors of one matrix and the best third vector for them."""
    found: list[Triple] = []
    (ua, va), (ub, vb), (uc, vc) = (_singular_vectors(matrix) for matrix in (a, b, c))
    found.append((ua, va, _unit(va @ b + ua @ c, va)))
    found.append((_unit(ub @ np.swapaxes(a, 1, 2) + vb @ np.swapaxes(c, 1, 2), ub), ub, vb))
    found.append((uc, _unit(uc @ a + vc @ np.swapaxes(b, 1, 2), uc), vc))
    x, y, z = (np.concatenate(part, axis=1) for part in zip(*found, strict=True))
    return x, y, z


def _singular_vectors(matrix: Array) -> tuple[Array, Array]:
    """The first left and right singular vectors, [m, STARTS, D] each."""
    left, _, right = np.linalg.svd(matrix)
    return np.swapaxes(left, 1, 2)[:, :STARTS], right[:, :STARTS]


def _value(a: Array, b: Array, c: Array, x: Array, y: Array, z: Array) -> Array:
    return np.asarray(np.sum((x @ a) * y + (y @ b) * z + (x @ c) * z, axis=-1))


def _hessian(a: Array, b: Array, c: Array, multipliers: Array) -> Array:
    """diag(λ_1 I, λ_2 I, λ_3 I) - [[0, A, C], [Aᵀ, 0, B], [Cᵀ, Bᵀ, 0]], [m, 3D, 3D]."""
    count, size = a.shape[:2]
    upper = np.zeros((count, 3 * size, 3 * size))
    upper[:, :size, size : 2 * size] = a
    upper[:, :size, 2 * size :] = c
    upper[:, size : 2 * size, 2 * size :] = b
    diagonal = np.repeat(multipliers, size, axis=1)[:, :, None] * np.eye(3 * size)
    return np.asarray(diagonal - upper - np.swapaxes(upper, 1, 2))


def _unit(vectors: Array, otherwise: Array | None = None) -> Array:
    """The vectors over their lengths; `otherwise` in place of those of length zero."""
    lengths = np.linalg.norm(vectors, axis=-1, keepdims=True)
    out = np.zeros_like(vectors) if otherwise is None else np.array(otherwise)
    return np.asarray(np.divide(vectors, lengths, out=out, where=lengths > np.finfo(float).tiny))


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
    norms = [spectral_norm(moments(irrep, part)) for part in parts]
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
    return from_coefficients(irrep, left[:, :, None] * right[:, None, :])


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
