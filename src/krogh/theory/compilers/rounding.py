"""Rounding by ReLUs, the correction after every module (SM paper, Proposition 3.4).

    round(z) = 3φ(z - 1/3) - 3φ(z - 2/3)        0 for z ≤ 1/3, 1 for z ≥ 2/3, slope 3 between

It returns exactly h for every h' within 1/3 of a binary h, so that errors of one module do not reach the next. As
layers on n coordinates: V_1 = [I; I], c_1 = (-1/3, …, -2/3, …), V_2 = [3I, -3I], c_2 = 0, and
ζ(h) = φ(V_2 φ(V_1 h + c_1) + c_2), of 1-norm 9 for each coordinate.
"""

from __future__ import annotations

import numpy as np
import scipy.sparse as sparse
from numpy.typing import ArrayLike

from krogh.errors import require_integer
from krogh.theory.compilers.networks import Affine, Array

# Neither 1/3 nor 2/3 is a number of float64, and of the two nearest ones round(1) is 1 only where 3·(2/3) and 3·(1/3)
# are rounded before they are subtracted; a fused multiply-add, which many processors use, gives 1 - 2^-53. With the
# numbers below, 3 and 2 units in the last place larger, 3(1 - low) = 2 - 2^-51 and 3(1 - high) = 1 - 5·2^-53 are exact,
# and their difference 1 + 2^-53 is rounded to 1 in whatever order it is computed.
LOW = 1.0 - 4 * ((2**52 - 1) // 3) * 2.0**-53
"""1/3, where rounding begins to rise."""
HIGH = 1.0 - ((2**54 - 10) // 3) * 2.0**-54
"""2/3, where it has reached 1."""

SLOPE = 3.0
RADIUS = 1 / 3
"""How far from 0 or 1 a number may be and still be corrected."""
COST = 9.0
"""1-norm for each coordinate: 1 + 1 + 1/3 + 2/3 + 3 + 3."""


def rounded(z: ArrayLike) -> Array:
    """round(z), entry by entry."""
    values = np.asarray(z, np.float64)
    return SLOPE * np.maximum(values - LOW, 0.0) - SLOPE * np.maximum(values - HIGH, 0.0)


def rounding_layers(n: int) -> tuple[Affine, Affine]:
    """(V_1, c_1) and (V_2, c_2) for n coordinates."""
    require_integer("n", n, 1)
    same = sparse.eye_array(n, format="csr")
    first = Affine(sparse.csr_array(sparse.vstack([same, same])), np.repeat([-LOW, -HIGH], n))
    second = Affine(sparse.csr_array(sparse.hstack([SLOPE * same, -SLOPE * same])), np.zeros(n))
    return first, second
