"""What sums of functions of single tokens cannot do: F(w) = Σ_i α_i(w_i) on a single blip, on PARITY, on a square.

On two bits with everything else fixed, α(a) + α'(b) takes values with F(0,0) + F(1,1) = F(0,1) + F(1,0). So an F above
a threshold at both of (0,1), (1,0) and at or below it at both of (0,0), (1,1) does not exist. Source: *Learning and
generalization in RNNs*, Theorem H.1 and appendix H; this is the first document's concept class (61). Accepting means F
> 1/2; the source asks |F - 1| < 1/3 or |F| < 1/3, which is more, so that floors hold for both.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from krogh.errors import require, require_integer
from krogh.theory.numerics import exp_or_inf, log_binomial
from krogh.theory.prediction import prediction

Array = NDArray[np.float64]


def blip_law(length: int) -> tuple[NDArray[np.int64], Array]:
    """The strings 0^q a b 0^{L-q-2} [4(L-1), L] of the law D_L1, each drawn as (q, a, b), and their labels a ≠ b.

    Every row has the same probability; the string of zeros is L-1 of the rows, a quarter of the mass.
    """
    require_integer("length", length, 2)
    draws = [(q, a, b) for q in range(length - 1) for a in (0, 1) for b in (0, 1)]
    strings = np.zeros((len(draws), length), np.int64)
    for row, (q, a, b) in enumerate(draws):
        strings[row, q : q + 2] = a, b
    return strings, np.array([float(a != b) for _, a, b in draws])


@prediction(
    "recurrence/single-blip-floor",
    source="Learning in RNNs, Theorem H.1 (appendix H)",
    constants="all explicit; attained",
)
def single_blip_floor(length: int) -> dict[str, Any]:
    """Error that no sum of functions of single tokens goes below on "exactly one 1" under the law D_L1.

        P(error) >= 1/4,  attained by F = 2 - #ones, wrong on the string of zeros alone;   best squared error = variance

    For every q one of the four strings (a, b) is wrong. The law draws (q, a, b); uniform over the 2L distinct strings,
    F errs with probability `distinct_error` = 1/(2L) only. The label is uncorrelated with every bit, so least squares
    predicts 1/2 and explains nothing: `fvu` = 1, a mean square of 1/4.
    """
    strings, labels = blip_law(length)
    ones = strings.sum(axis=1)
    wrong = (2 - ones > 0.5) != (labels > 0.5)
    return {
        "error_floor": 0.25,
        "witness_error": float(np.mean(wrong)),
        "distinct_error": 1 / (2 * length),
        "fvu": 1.0,
        "mean_square": 0.25,
    }


@prediction(
    "recurrence/parity-floor",
    source="Learning in RNNs, appendix H; the 0-1 error derived",
    constants="all explicit; attained",
)
def parity_floor(length: int) -> dict[str, Any]:
    """What sums of functions of single bits can know of the PARITY of L uniform bits: nothing, in squares.

        correlation 0, so FVU = 1 for L >= 2;   0-1 error of an accepted half-space >= 1/2 - C(L-1, floor(L/2))/2^L

    The source has the first line. The second is derived: up to flips of bits, F > 1/2 is an up-set; in a symmetric
    chain its members alternate in parity, so only chains whose top has one parity count, C(L-1, floor(L/2)) of them at
    most. A threshold on the number of ones attains it. The advantage over guessing falls like 1/sqrt(2πL).
    """
    require_integer("length", length, 1)
    if length == 1:
        return {"correlation": 1.0, "fvu": 0.0, "error_floor": 0.0, "advantage": 0.5}
    advantage = exp_or_inf(log_binomial(length - 1, length // 2) - length * math.log(2))
    return {"correlation": 0.0, "fvu": 1.0, "error_floor": 0.5 - advantage, "advantage": advantage}


def square_floor(
    variances: ArrayLike,
    fourth_cumulants: ArrayLike,
    means: ArrayLike | None = None,
    third_cumulants: ArrayLike | None = None,
) -> float:
    """FVU of the best sum of functions of single u_i for the target (Σ_i u_i)², where the u_i are independent.

        4 Σ_{i<j} Var u_i Var u_j / Var((Σ u)²),   Var((Σ u)²) = 2V² + κ_4 + 4M κ_3 + 4M² V

    with M, V, κ_3, κ_4 the sums of means, variances, third and fourth cumulants. What is left is 2 Σ_{i<j} of the
    products of the centred u_i: all else in the square is a sum of functions of single ones.
    """
    v = np.asarray(variances, np.float64)
    given = [np.zeros_like(v) if part is None else np.asarray(part, np.float64) for part in (means, third_cumulants)]
    fourth = np.asarray(fourth_cumulants, np.float64)
    same = v.ndim == 1 and all(part.shape == v.shape for part in (*given, fourth))
    require(same, f"variances, cumulants and means are one number per u_i; got {v.shape} variances")
    require(bool(np.all(v >= 0)) and v.sum() > 0, f"variances are at least 0, and not all 0; got {v.tolist()}")
    total, mean, third = float(v.sum()), float(given[0].sum()), float(given[1].sum())
    square = 2 * total**2 + float(fourth.sum()) + 4 * mean * third + 4 * mean**2 * total
    if square <= 1e-12 * total**2:  # one sign: its square is constant
        return 0.0
    return min(1.0, 2 * (total**2 - float(np.sum(v**2))) / square)


def token_square_floor(block_norms: ArrayLike, dx: int) -> float:
    """`square_floor` for u_l = <w_l, x*_l> with uniform unit tokens of dx coordinates, the last of them 1/2.

    `block_norms` are ||w_l|| without the last coordinates. With k = dx - 1, r² = 3/4: Var u = r² ||w||²/k and
    κ_4 = 3 r⁴ ||w||⁴ (1/(k(k+2)) - 1/k²).
    """
    require_integer("dx", dx, 2)
    squares = 0.75 * np.asarray(block_norms, np.float64) ** 2
    k = dx - 1
    return square_floor(squares / k, 3 * squares**2 * (1 / (k * (k + 2)) - 1 / k**2))


@prediction(
    "recurrence/square-floor",
    source="Learning in RNNs, Definition 3.3 and equation (61); derived",
    constants="all explicit",
)
def square_target_floor(dx: int, block_norms: tuple[float, ...]) -> dict[str, Any]:
    """Share of the variance of <w, x>² that no sum of functions of single tokens explains.

        4 Σ_{i<j} Var u_i Var u_j / Var((Σ u)²),   u_l = <w_l, x_l>,  tokens uniform, unit, last coordinate 1/2

    `block_norms` = ||w_l|| for l = 2..L-1, last coordinates 0. `equal` is the floor where so many norms are all
    equal; it tends to 1 as tokens become many.
    """
    equal = token_square_floor(np.ones(len(block_norms)), dx)
    return {"floor": token_square_floor(block_norms, dx), "equal": equal, "tokens": len(block_norms)}
