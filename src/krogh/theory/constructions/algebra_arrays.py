"""Weights of networks that add, compose, multiply bits or memorise a table, as plain arrays (dissertation, D.4–D.7).

    cyclic_network      addition modulo an odd p, maximum margin, 4(p-1) neurons          D.6.2
    rotation_network    the same by one frequency: logits cos(2πk(a+b-c)/p), 8 neurons    section 7.1
    parity_network      parity of k bits, maximum margin, 2^(k-1) neurons                 D.7
    memoriser_network   any table, without any Fourier structure, 2n² neurons             D.4

and single neurons of norm 1 that attain the maximum class-weighted margin. Networks of maximum margin have norm
‖θ‖_{2,ν} = 1. Those of groups are in `algebra_groups`.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from krogh.errors import require, require_integer
from krogh.tasks.group_laws import whole_table
from krogh.theory.margins.networks import PairArrays, PowerArrays
from krogh.theory.margins.problems import ParityProblem

Array = NDArray[np.float64]

QUARTERS = np.array([(0, 0, 0), (0, 2, 2), (1, -1, 0), (1, 1, 2), (-1, 0, -1), (-1, 2, 1), (0, -1, -1), (0, 1, 1)])
"""Phases of u, v and w in quarter turns, that of w the sum of the others. Each pair of rows leaves 4·cos·cos·cos of
(A+B)²C - (A-B)²C; the four pairs are the terms of cos(x+y-z)."""

LARGEST_CYCLIC = 1024
LARGEST_MEMORISED = 128
LARGEST_K = 16


def cyclic_network(p: int) -> PairArrays:
    """The maximum-margin network of addition modulo an odd p: 8 neurons for each frequency 1..(p-1)/2.

        u(a) = s cos(θ_u + 2πza/p), v and w alike,  s = √(2/(3p)) (4(p-1))^{-1/3}
        logits = 4s³ Σ_z cos(2πz(a+b-c)/p) = 4s³·(p-1)/2 at c = a+b, and 4s³·(-1/2) elsewhere

    The source prints 0 for -1/2. It names primes; every odd p ≥ 3 will do.
    """
    require_integer("p", p, 3, LARGEST_CYCLIC)
    require(p % 2 == 1, f"needs an odd p; got p={p} (try p={p - 1} or {p + 1}, or group_network for an even p)")
    scale = math.sqrt(2 / (3 * p)) * (4 * (p - 1)) ** (-1 / 3)
    parts = [_octet(p, z) for z in range(1, (p - 1) // 2 + 1)]
    return _pair(scale * np.concatenate(parts))


def rotation_network(p: int, frequency: int = 1) -> PairArrays:
    """Addition by rotations of one frequency: logits cos(2πk(a+b-c)/p), by 8 neurons.

    The largest is that of c = a+b where k and p have no common factor; for others several c tie.
    """
    require_integer("p", p, 2, LARGEST_CYCLIC)
    require_integer("frequency", frequency, 1, p - 1)
    common = math.gcd(p, frequency)
    require(
        common == 1,
        f"frequency must have no factor in common with p; got frequency={frequency}, p={p} (try frequency=1)",
    )
    return _pair(4 ** (-1 / 3) * _octet(p, frequency))


def _octet(p: int, z: int) -> Array:
    """cos(θ + 2πzx/p) for the eight triples of phases, [8, 3, p]."""
    turns = (z * np.arange(p) % p) / p + QUARTERS[:, :, None] / 4
    return np.cos(2 * np.pi * turns)


def _pair(parts: Array) -> PairArrays:
    return PairArrays(parts[:, 0], parts[:, 1], parts[:, 2])


def cyclic_neuron(p: int, frequency: int, phase_u: float = 0.0, phase_v: float = 0.0) -> PairArrays:
    """One optimal neuron of Z_p, p odd: √(2/(3p)) cos(θ + 2πzx/p) with θ_w = θ_u + θ_v."""
    require_integer("p", p, 3, LARGEST_CYCLIC)
    require(p % 2 == 1, f"needs an odd p; got p={p} (try p={p - 1} or {p + 1}, or group_neuron for an even p)")
    require_integer("frequency", frequency, 1, p - 1)
    angles = 2 * np.pi * (frequency * np.arange(p) % p) / p
    parts = np.array([np.cos(phase + angles) for phase in (phase_u, phase_v, phase_u + phase_v)])
    return _pair(math.sqrt(2 / (3 * p)) * parts[None])


def parity_network(n: int, support: Sequence[int] | None = None, k: int | None = None) -> PowerArrays:
    """The maximum-margin network of a parity of k bits for x^k, one neuron per sign pattern σ with σ_1 = +1.

    u = t σ/√(k+1) on the support,  w = t (∏σ)/√(k+1) · (1,-1)/√2,  t = 2^{-(k-1)/(k+1)}
    f(x) = k! (k+1)^{-(k+1)/2}/√2 · ∏_{i in S} x_i · (1,-1)   for all x in R^n
    """
    problem = ParityProblem(n, support, k)
    require_integer("k", problem.k, 1, LARGEST_K)
    patterns = np.array([(1, *rest) for rest in itertools.product((1, -1), repeat=problem.k - 1)], np.float64)
    scale = 2 ** (-(problem.k - 1) / (problem.k + 1))
    return _parity(problem, scale, patterns)


def parity_neuron(n: int, support: Sequence[int], signs: ArrayLike) -> PowerArrays:
    """One optimal neuron of a parity: u = σ/√(k+1) on the support, w = (∏σ)/√(k+1) · (1,-1)/√2."""
    problem = ParityProblem(n, support)
    pattern = np.asarray(signs, np.float64)
    good = pattern.shape == (problem.k,) and (np.abs(pattern) == 1).all()
    require(good, f"signs must be k={problem.k} numbers +1 or -1; got {signs!r}")
    return _parity(problem, 1.0, pattern[None])


def _parity(problem: ParityProblem, scale: float, patterns: Array) -> PowerArrays:
    entry = scale / math.sqrt(problem.k + 1)
    u = np.zeros((len(patterns), problem.n))
    u[:, list(problem.support)] = entry * patterns
    w = entry * np.prod(patterns, axis=1)[:, None] * np.array([1.0, -1.0]) / math.sqrt(2)
    return PowerArrays(u, w, problem.k)


def memoriser_network(table: ArrayLike, balanced: bool = True) -> PairArrays:
    """f(a,b)[c] = 1[c = r(a,b)] for any table r, by two neurons per pair: (e_a + e_b)² - (e_a - e_b)² = 4 e_a e_b.

    As printed u = e_a, v = ±e_b, w = ±e_r/4, with normalised margin 1/(2n²·2.0625^1.5); `balanced` gives all three
    vectors the length (1/4)^{1/3}, and the larger margin 2/(3√3 n²). Each vector's Fourier transform is flat.
    """
    entries = whole_table(np.asarray(table))
    n = len(entries)
    require(2 <= n <= LARGEST_MEMORISED, f"a table of 2..{LARGEST_MEMORISED} elements is memorised; got {n}")
    within = (entries >= 0).all() and (entries < n).all()
    require(within, f"entries must lie in 0..{n - 1}; got {int(entries.min())}..{int(entries.max())}")
    unit = np.eye(n)
    a, b = np.divmod(np.arange(n * n), n)
    u, v, w = unit[a], unit[b], unit[entries.ravel()]
    inner, outer = (4 ** (-1 / 3), 4 ** (-1 / 3)) if balanced else (1.0, 0.25)
    return PairArrays(inner * np.concatenate([u, u]), inner * np.concatenate([v, -v]), outer * np.concatenate([w, -w]))
