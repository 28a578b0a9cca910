"""The Fourier spectrum of majority, the gap it opens between relevant and irrelevant bits, and its price.

At a sign initialisation the gradient of a ReLU neuron is half of majority's spectrum, up to signs; that is
where the gap of the one-step theorem comes from.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

from krogh.errors import KroghError, require, require_integer
from krogh.theory.numerics import ceil_or_inf, log_binomial, log_central_binomial
from krogh.theory.prediction import Variant, check_noise, check_odd, check_open, check_parity, prediction

_EXACT_UP_TO = 1001
"""Up to this n coefficients are computed as exact fractions; beyond, through logarithms of gamma."""


def majority_coefficient_exact(n: int, degree: int) -> Fraction:
    """The Fourier coefficient of majority on n bits (n odd) at any set of the given size, as a fraction.

        xi_k = (-1)^((k-1)/2) C((n-1)/2, (k-1)/2) / C(n-1, k-1) 2^-(n-1) C(n-1, (n-1)/2), k odd; 0, k even

    Source: dissertation, section B.2.1, Lemma B.1.
    """
    _check_degree(n, degree)
    if degree % 2 == 0:
        return Fraction(0)
    half, middle = (degree - 1) // 2, (n - 1) // 2
    tie = Fraction(math.comb(n - 1, middle), 2 ** (n - 1))
    size = tie * Fraction(math.comb(middle, half), math.comb(n - 1, degree - 1))
    return size if half % 2 == 0 else -size


def log_majority_coefficient(n: int, degree: int) -> float:
    """log |xi_k| of majority on n bits, k odd, without underflow."""
    _check_degree(n, degree)
    require(degree % 2 == 1, f"majority has no coefficient of even degree; got degree={degree}")
    half, middle = (degree - 1) // 2, (n - 1) // 2
    ratio = log_binomial(middle, half) - log_binomial(n - 1, degree - 1)
    return ratio + log_central_binomial(middle)


def majority_coefficient(n: int, degree: int) -> float:
    """xi_k of majority on n bits: correctly rounded for small n, to about 12 digits for any other."""
    _check_degree(n, degree)
    if n <= _EXACT_UP_TO or degree % 2 == 0:
        return float(majority_coefficient_exact(n, degree))
    return math.copysign(math.exp(log_majority_coefficient(n, degree)), 1 - (degree - 1) // 2 % 2 * 2)


@prediction(
    "parity/majority-spectrum",
    source="dissertation, section B.2.1, Lemma B.1",
    constants="coefficients explicit; the asymptotic weight is a limit in n, then k (printed: order only)",
)
def majority_spectrum(n: int, k: int, variant: Variant = "repaired") -> dict[str, Any]:
    """The Fourier coefficient of majority on n bits (n odd) at every set of size k.

        xi_k as in `majority_coefficient_exact`;  weight C(n,k) xi_k^2, about (2/pi)^(3/2) k^(-3/2) for odd k

    Printed: the weight is of order k^(-2/3). `halfspace_magnitude` = |xi_k|/2 is the coefficient of
    1[w.x + b > 0] for any sign vector w and |b| < 1, whose sign is that of xi_k chi_S(w).
    """
    check_odd("n", n)
    _check_degree(n, k)
    xi = majority_coefficient(n, k)
    odd = k % 2 == 1
    weight = math.exp(log_binomial(n, k) + 2 * log_majority_coefficient(n, k)) if odd else 0.0
    factor, power = ((2 / math.pi) ** 1.5, -1.5) if variant == "repaired" else (1.0, -2 / 3)
    return {
        "coefficient": xi,
        "log_magnitude": log_majority_coefficient(n, k) if odd else -math.inf,
        "halfspace_magnitude": abs(xi) / 2,
        "weight": weight,
        "asymptotic_weight": factor * k**power if odd else 0.0,
    }


def majority_gap(n: int, k: int) -> float:
    """|xi_{k-1}| - |xi_{k+1}| of majority on n bits: its Fourier gap at every set of size k (0 for odd k)."""
    check_odd("n", n)
    check_parity(n, k)
    require(k < n, f"a gap needs an irrelevant coordinate, k < n; got n={n}, k={k}")
    if k % 2 == 1:
        return 0.0
    return abs(majority_coefficient(n, k - 1)) - abs(majority_coefficient(n, k + 1))


def relu_gap(n: int, k: int) -> float:
    """The Fourier gap of a ReLU's derivative at sign weights: half of majority's, and 1/2 for k = 1.

    For one relevant bit the gradient sees the mean of the derivative, 1/2, which majority does not have.
    """
    gap = majority_gap(n, k)
    return 0.5 if k == 1 else gap / 2


@prediction(
    "parity/fourier-gap",
    source="dissertation, section B.2.1, Lemma B.2; section 5.4.1",
    constants="all explicit; the bound's 0.03 is loose (0.64 holds for every even k up to 40 tried)",
)
def fourier_gap(n: int, k: int) -> dict[str, Any]:
    """The gap between relevant and irrelevant coordinates in the gradient of one neuron at sign weights.

        |xi_{k-1}| - |xi_{k+1}| >= 0.03 (n-1)^(-(k-1)/2), k even, n odd, n >= 4k;  ratio (n-k)/(k-1)

    A ReLU neuron's gradient carries half of it (`relu_gap`). For odd k the gap is 0, as majority has no
    coefficients of even degree; only at k = 1 does a ReLU still have one, its mean. Where n < 4k the lemma
    says nothing and `lower_bound` is undefined.
    """
    gap = majority_gap(n, k)
    even = k % 2 == 0
    scale = (n - 1) ** (-(k - 1) / 2) if n > 1 else 1.0
    return {
        "gap": gap,
        "relu_gap": relu_gap(n, k),
        "lower_bound": 0.03 * scale if even and n >= 4 * k else math.nan,
        "gap_over_scale": gap / scale if scale > 0 else math.nan,
        "ratio": (n - k) / (k - 1) if even else math.nan,
    }


@prediction(
    "parity/support-recovery",
    source="dissertation, section B.2.2, Proposition B.7",
    constants="repaired: all explicit (Hoeffding); printed: O(log(n)/gap^2), order only",
)
def support_recovery(
    n: int,
    k: int,
    failure: float = 0.05,
    noise: float = 0.0,
    gap: float | None = None,
    variant: Variant = "repaired",
) -> dict[str, Any]:
    """Gradients to average so that the k largest entries are exactly the support.

        m >= 8 log(2n/failure) / ((1-2p) gap)^2  for gradient entries in [-1, 1]

    `gap` is the Fourier gap of the neuron's derivative at the support; left out, it is that of a ReLU at sign
    weights (half of majority's; n odd, k even). Label noise p shrinks it by 1-2p.
    """
    check_parity(n, k)
    check_open("failure", failure, 0, 1)
    check_noise(noise)
    if gap is None:
        gap = relu_gap(n, k)
        if gap <= 0:
            why = "k is odd" if k % 2 else "n is below 2k"
            raise KroghError(f"a ReLU at sign weights has no Fourier gap at n={n}, k={k}: {why}; give a gap")
    check_open("gap", gap, 0)
    effective = (1 - 2 * noise) * gap
    constant = 8 * math.log(2 * n / failure) if variant == "repaired" else math.log(n)
    samples = constant / effective**2 if effective > 0 else math.inf
    samples = ceil_or_inf(samples)
    return {"gap": gap, "effective_gap": effective, "precision": effective / 2, "samples": samples}


def _check_degree(n: int, degree: int) -> None:
    check_odd("n", n)
    require_integer("degree", degree, 0, n)
