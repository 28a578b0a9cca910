"""Polynomials through given knots, in exact rational arithmetic."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from fractions import Fraction

Polynomial = tuple[Fraction, ...]
"""Coefficients, lowest first."""


@functools.cache
def oscillating_interpolant(k: int) -> Polynomial:
    """The polynomial of degree k through (k-2j, (-1)^j), j = 0..k, exactly, by Lagrange's formula.

    k = 2: (z²-2)/2; k = 3: (z³-7z)/6.
    """
    knots = [Fraction(k - 2 * j) for j in range(k + 1)]
    total = [Fraction(0)] * (k + 1)
    for j, knot in enumerate(knots):
        others = knots[:j] + knots[j + 1 :]
        height = (-1) ** j / math.prod((knot - other for other in others), start=Fraction(1))
        total = [a + height * b for a, b in zip(total, from_roots(others), strict=True)]
    return tuple(total)


def from_roots(roots: Sequence[Fraction]) -> Polynomial:
    """The coefficients of ∏ (z - root)."""
    polynomial = [Fraction(1)]
    for root in roots:
        shifted = [Fraction(0), *polynomial]
        polynomial = [a - root * b for a, b in zip(shifted, [*polynomial, Fraction(0)], strict=True)]
    return tuple(polynomial)
