"""Two steps on two priors: flat chains, then chains near the uniform one, with all weights decayed (Proposition E.3).

Step 1 has η_1 = κ_1/t² on flat chains of two symbols from W = w_init 11ᵀ, v = v_init 1; step 2 has η_2 = κ_2/t on
Hard(ε) with weight decay 1, which erases what was there. As t → ∞,

    W → v_init κ_2 w(ε) I        w(ε) = (1/(32ε)) ln((1/2+ε)/(1/2-ε)) - 1/8 = ε²/6 + O(ε⁴)
    v_j → κ_2 (ρ-c') 2^{j-3} ε^j/(j+1) for even j, 0 for odd j;      ρ-c' = v_init κ_1 (B-A)/6

(with the density 1/(2ε) that the print drops). So f = C ε⁴ · bigram counts + O(ε⁶), C = κ_2² v_init² κ_1 (B-A)/216, is
what the source concludes. But every v_j also has a background of order 1/t,

    (κ_2/t) ((t-j+1)/t) w(ε) (4c' + 2(ρ-c')),      c' = w_init + v_init κ_1 A/6,

and t of them add up: f has a unigram-like term of the same order. It cancels where W after step 1 has mean zero, with
w_init = -v_init κ_1 (A+B)/12, the *balanced* start.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from krogh.errors import require, require_integer
from krogh.tasks.chains import Curriculum, DirichletRows
from krogh.theory.chains.gradients import Step, descend, linear_margin
from krogh.theory.chains.steps import A, B
from krogh.theory.prediction import check_open, check_positive, is_number, prediction

Array = NDArray[np.float64]
BALANCED = "balanced"


def limit_weight(eps: float) -> float:
    """w(ε) = (1/(32ε)) ln((1/2+ε)/(1/2-ε)) - 1/8, which is ε²/6 + O(ε⁴)."""
    if eps < 1e-3:  # ln((1+x)/(1-x)) = 2(x + x³/3 + x⁵/5 + …) with x = 2ε: the difference would cancel
        x = 2 * eps
        return (x**2 / 3 + x**4 / 5) / 8
    return math.log((0.5 + eps) / (0.5 - eps)) / (32 * eps) - 1 / 8


def limit_positions(eps: float, gap: float, kappa2: float, places: int) -> Array:
    """κ_2 (ρ-c') 2^{j-3} ε^j/(j+1) for even j and 0 for odd j, at j = 1..places."""
    j = np.arange(1, places + 1)
    return np.where(j % 2 == 0, kappa2 * gap * 2.0 ** (j - 3) * eps**j / (j + 1), 0.0)


def background(t: int, eps: float, off: float, gap: float, kappa2: float) -> Array:
    """(κ_2/t)((t-j+1)/t) w(ε) (4c' + 2(ρ-c')) at j = 1..t: what each v_j has besides its limit.

    On Hard(ε), T_ml(j) = (1/(8t)) Σ_n (t-j+1-n) E[± λ^j + λ^{n+1}] with + on the diagonal; the second term is the
    background, and Σ_n E λ^{n+1} → 8 w(ε). To leading order in ε it is ε² (2c'/3 + (ρ-c')/3).
    """
    j = np.arange(1, t + 1)
    return kappa2 / t * (t - j + 1) / t * limit_weight(eps) * (4 * off + 2 * gap)


def balanced_start(v_init: float, kappa1: float) -> float:
    """w_init = -v_init κ_1 (A+B)/12, with which W after step 1 has mean zero as t → ∞."""
    return -v_init * kappa1 * (A + B) / 12


def two_steps(
    t: int, w_init: float, v_init: float, kappa1: float, kappa2: float, eps: float | None
) -> list[tuple[Array, Array]]:
    """(W, v) at the start and after each step, exactly; `eps` None is the control, whose step 2 is on flat chains."""
    priors = Curriculum((DirichletRows(),)) if eps is None else Curriculum.two_steps(eps)
    steps = [Step(priors.at(0), kappa1 / t**2), Step(priors.at(1), kappa2 / t, decay=1.0)]
    return descend(np.full((2, 2), w_init), np.full(t, v_init), steps)


@prediction(
    "chains/curriculum",
    source="dissertation, Propositions 8.5 and E.3 (E.50-E.59, with the density 1/(2 eps) and the background of v)",
    constants="all explicit; limits in t, beside the exact two steps at this t",
)
def curriculum(
    t: int = 200,
    eps: float = 0.25,
    w_init: str = "1",
    v_init: float = 1.0,
    kappa1: float = 6.0,
    kappa2: float = 1.0,
    places: int = 8,
) -> dict[str, Any]:
    """Two steps on two priors end near the bigram counter, exactly and in the limit of long sequences.

    `w_init` is a number or "balanced". `background_ratio` is Σ_{j≠2,4} v_j / v_2: what the print leaves out. It tends
    to a constant unless the start is balanced. `margin` is the Δ from which both steps are exact.
    """
    require_integer("t", t, 4)
    check_open("eps", eps, 0, 0.5)
    check_positive(v_init=v_init, kappa1=kappa1, kappa2=kappa2)
    start = balanced_start(v_init, kappa1) if w_init == BALANCED else _number(w_init)
    path = two_steps(t, start, v_init, kappa1, kappa2, eps)
    W1, (W2, v2) = path[1][0], path[2]
    off, gap = start + v_init * kappa1 * A / 6, v_init * kappa1 * (B - A) / 6
    limits = limit_positions(eps, gap, kappa2, places)
    rest = np.delete(v2, [1, 3])
    return {
        "w_init": start,
        "W_diagonal": float(np.trace(W2) / 2),
        "W_off_diagonal": float((W2[0, 1] + W2[1, 0]) / 2),
        "W_limit": v_init * kappa2 * limit_weight(eps),
        "v": v2[:places],
        "v_limit": limits,
        "v_background": background(t, eps, off, gap, kappa2)[:places],
        "largest_v": int(np.argmax(v2)) + 1,
        "v4_to_v2": float(v2[3] / v2[1]),
        "v4_to_v2_limit": 12 * eps**2 / 5,
        "background_ratio": float(rest.sum() / v2[1]),
        "gap": float(np.trace(W1) / 2 - (W1[0, 1] + W1[1, 0]) / 2),
        "gap_limit": gap,
        "count_weight": float(W2[0, 0] * v2[1]),
        "count_weight_limit": kappa2**2 * v_init**2 * kappa1 * (B - A) / 216 * eps**4,
        "margin": max(linear_margin(W, v) for W, v in path[:2]),
    }


def _number(given: str | float) -> float:
    try:
        value = float(given)
    except ValueError:
        value = math.nan
    known = is_number(value) and math.isfinite(value)
    require(known, f"w_init must be a number or {BALANCED!r}; got w_init={given!r}")
    return value
