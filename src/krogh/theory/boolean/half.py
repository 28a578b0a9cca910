"""The Fourier spectrum of Half, the indicator of a tie, and of thresholds on any number of bits (Lemma C.12).

    Half_N(x) = 1[sum x = 0], N even;    Maj_N(x) = sign(sum x), N odd: `krogh.theory.boolean.majority`

Both depend on a set through its size t alone, and they are one spectrum, Maj^_{N+1}(t+1) = Half^_N(t): what a
majority's derivative in one bit sees is whether the others tie. The gradients of sparse neurons are products of them.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

from krogh.errors import require, require_integer
from krogh.theory.boolean.majority import majority_coefficient, majority_coefficient_exact
from krogh.theory.numerics import exp_or_inf, log_binomial
from krogh.theory.prediction import Variant, check_odd, prediction


def half_coefficient_exact(n: int, degree: int) -> Fraction:
    """The Fourier coefficient of Half on n bits (n even, 0 allowed) at any set of the given size, as a fraction.

        Half^_n(t) = (-1)^(t/2) C(n/2, t/2) / C(n, t) 2^-n C(n, n/2), t even; 0, t odd

    The lemma is printed without 2^-n. Source: dissertation, section C.2.3, Lemma C.12.
    """
    _check_half(n, degree)
    if degree % 2 == 1:
        return Fraction(0)
    return majority_coefficient_exact(n + 1, degree + 1)


def half_coefficient(n: int, degree: int) -> float:
    """Half^_n(t) as a number; see `half_coefficient_exact`."""
    _check_half(n, degree)
    return majority_coefficient(n + 1, degree + 1) if degree % 2 == 0 else 0.0


def threshold_coefficient(n: int, degree: int) -> float:
    """The coefficient of sign(sum x) at a set of odd size, for any n: that of a majority of n, or of n+1, bits.

    Where n is even the sum may tie; sets of odd size do not see how ties are broken, so that half of this is also the
    coefficient of 1[sum x > 0]. Sets of even size have none where ties give 0.
    """
    require_integer("n", n, 1)
    require_integer("degree", degree, 0, n)
    return majority_coefficient(n + 1 - n % 2, degree) if degree % 2 == 1 else 0.0


def limiting_weight(degree: int, variant: Variant = "repaired") -> float:
    """rho(t), to which the weight C(n,t) Maj^_n(t)^2 of a majority's level t falls as n grows.

    4 / (pi t 2^t) C(t-1, (t-1)/2), t odd; printed with 2 instead of 4
    """
    check_odd("degree", degree)
    log_ties = log_binomial(degree - 1, (degree - 1) // 2) - degree * math.log(2)
    return (4.0 if variant == "repaired" else 2.0) / (math.pi * degree) * exp_or_inf(log_ties)


@prediction(
    "parity/half-spectrum",
    source="dissertation, section C.2.3, Lemma C.12",
    constants="all explicit; the limiting weight is a limit in n (printed: half of it)",
)
def half_spectrum(n: int, k: int, variant: Variant = "repaired") -> dict[str, Any]:
    """The Fourier coefficients of Half and of the threshold on n bits at every set of size k.

        Half for even n and even k, the threshold sign(sum x) for odd k; 0 otherwise

    `half` is printed without the factor 2^-n. `limiting_weight` is that of the threshold's level k, to which
    C(n,k) threshold^2 falls as n grows.
    """
    require_integer("n", n, 1)
    require_integer("k", k, 0, n)
    printed = 2.0**n if variant == "printed" and n < 1024 else 1.0
    coefficient = threshold_coefficient(n, k)
    return {
        "half": half_coefficient(n, k) * printed if n % 2 == 0 else math.nan,
        "threshold": coefficient,
        "threshold_weight": exp_or_inf(log_binomial(n, k)) * coefficient**2,
        "limiting_weight": limiting_weight(k, variant) if k % 2 == 1 else 0.0,
    }


def _check_half(n: int, degree: int) -> None:
    require_integer("n", n, 0)
    require(n % 2 == 0, f"n must be even for ties to exist; got n={n} (try {n - 1} or {n + 1})")
    require_integer("degree", degree, 0, n)
