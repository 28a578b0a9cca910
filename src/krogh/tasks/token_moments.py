"""Moments of linear forms in random unit tokens, exactly.

A token of `token_sequences.draw_tokens` is (√3/2·t, 1/2) with t uniform on the sphere of R^n, n = dx - 1. A linear form
of it is u = ⟨α, t⟩ + c. Moments of forms in t are those of a Gaussian vector g = |g| t over those of its length,

    E ⟨α, t⟩^a ⟨β, t⟩^b = E ⟨α, g⟩^a ⟨β, g⟩^b / E |g|^(a+b),    E |g|^(2k) = n (n+2) ... (n+2k-2)

    E X^a Y^b = Σ_j j! C(a, j) C(b, j) ρ^j μ_{a-j}(|α|) μ_{b-j}(|β|),    ρ = ⟨α, β⟩,  μ_k(s) = s^k (k-1)!! for even k

(of a Gaussian pair: j pairs are formed across, the rest within), and moments of a sum of independent forms are
binomial convolutions. All arrays [a, b] hold E u^a v^b for powers up to a degree.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from krogh.tasks.token_sequences import BIAS, REST

Floats = NDArray[np.float64]


def token_moments(u: Floats, v: Floats, degree: int) -> Floats:
    """E ⟨u, x⟩^a ⟨v, x⟩^b [degree+1, degree+1] of a random token x, for vectors u and v of dx numbers."""
    n = len(u) - 1
    centred = np.zeros((degree + 1, degree + 1))
    alpha, beta = REST * u[:-1], REST * v[:-1]
    sizes, across = (float(np.linalg.norm(alpha)), float(np.linalg.norm(beta))), float(alpha @ beta)
    for a in range(degree + 1):
        for b in range(a % 2, degree + 1, 2):
            length = math.prod(n + 2 * k for k in range((a + b) // 2))
            centred[a, b] = _gaussian_pair(a, b, sizes, across) / length
    return sum_moments(centred, _constants(BIAS * float(u[-1]), BIAS * float(v[-1]), degree))


def sum_moments(one: Floats, other: Floats) -> Floats:
    """The moments of (u + u', v + v') where the pairs are independent."""
    degree = len(one) - 1
    total = np.zeros_like(one)
    for a in range(degree + 1):
        for b in range(degree + 1):
            binomial = np.outer([math.comb(a, i) for i in range(a + 1)], [math.comb(b, j) for j in range(b + 1)])
            total[a, b] = np.sum(binomial * one[: a + 1, : b + 1] * other[a::-1, b::-1][: a + 1, : b + 1])
    return total


def no_moments(degree: int) -> Floats:
    """Those of the empty sum, (0, 0)."""
    return _constants(0.0, 0.0, degree)


def _constants(c: float, d: float, degree: int) -> Floats:
    powers = np.arange(degree + 1)
    return np.outer(c**powers, d**powers)


def _gaussian_pair(a: int, b: int, sizes: tuple[float, float], across: float) -> float:
    terms = (
        math.factorial(j) * math.comb(a, j) * math.comb(b, j) * across**j
        * _even(a - j) * sizes[0] ** (a - j) * _even(b - j) * sizes[1] ** (b - j)
        for j in range(a % 2, min(a, b) + 1, 2)
    )  # fmt: skip
    return math.fsum(terms)


def _even(k: int) -> int:
    """(k-1)!! for even k."""
    return math.prod(range(k - 1, 0, -2))
