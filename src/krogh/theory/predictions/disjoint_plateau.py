"""How long a disjoint-PolyNet's error stays near one half: gradient flow combined with the error's law."""

from __future__ import annotations

import math
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import brentq
from scipy.special import erfinv

from krogh.errors import require, require_integer
from krogh.theory.prediction import prediction
from krogh.theory.predictions.disjoint_error import BERRY_ESSEEN, block_law, check_blocks, network_error
from krogh.theory.predictions.disjoint_flow import flow_time
from krogh.theory.predictions.inputs import Variant, check_open, check_variant

Init = Literal["ones", "signs", "gaussian"]


def last_time_above(level: float, relevant: ArrayLike, irrelevant: ArrayLike) -> float:
    """The last time of gradient flow at which the error is at least `level`, 0 < level < 1/2.

    An output of 0 counts as half an error, so that the error never increases; counted as a whole one, the
    error would jump at single instants, when a growing weight passes a value of its block's noise.
    """
    check_open("level", level, 0, 0.5)
    start, noise = np.asarray(relevant, dtype=np.float64), np.atleast_2d(irrelevant)
    laws = [block_law(u) for u in noise]
    squares = start**2

    def excess(log_growth: float) -> float:
        weights = np.sign(start) * np.sqrt(squares + math.exp(log_growth))
        return network_error(weights, laws, ties="fair") - level

    # A tie at the very start does not count, so the search begins just after it.
    first, last = 1e-9 * float(squares.min()), _growth_to_zero_error(start, noise)
    if last <= first or excess(math.log(first)) < 0:
        return 0.0
    crossing = brentq(excess, math.log(first), math.log(last) + 1e-9, xtol=1e-13, rtol=1e-13)
    return flow_time(math.exp(crossing), start)


def zero_error_time(relevant: ArrayLike, irrelevant: ArrayLike) -> float:
    """The time of gradient flow from which the error is 0: every |v_i| then exceeds |u_i|_1."""
    start = np.asarray(relevant, dtype=np.float64)
    return flow_time(_growth_to_zero_error(start, np.atleast_2d(irrelevant)), start)


@prediction(
    "parity/plateau",
    source="dissertation, section B.2.3, Theorem 5.7 and Corollary B.10",
    constants="times and 'guaranteed_ratio' explicit; 'one_minus_ratio_order' order only",
)
def plateau(
    block_size: int,
    k: int = 3,
    gamma: float = 0.01,
    init: Init = "ones",
    seed: int = 0,
    variant: Variant = "repaired",
) -> dict[str, Any]:
    """The share of its time to zero error that gradient flow spends with error at least 1/2 - gamma.

        T(1/2-gamma) / T(0) = 1 - O(n'^(1-k/2) gamma^(2/k-1)), k >= 3, n' = `block_size`

    T(a) is the last time with error at least a, T(0) the time from which the error is 0. "ones" and "signs"
    give the same times; "gaussian" draws all weights from N(0,1) with `seed`. All are conditioned on a
    positive product of relevant weights. `guaranteed_ratio` (not for "gaussian") follows from the lower bound
    of Lemma B.9 alone, with its printed or repaired error term.
    """
    check_blocks(block_size, k, smallest=3, fewest=3)
    check_open("gamma", gamma, 0, 0.5)
    require_integer("seed", seed, 0)
    require(init in get_args(Init), f"init must be one of {', '.join(get_args(Init))}; got init={init!r}")
    check_variant(variant)
    if init == "gaussian":
        weights = np.random.default_rng(seed).standard_normal((k, block_size))
        weights[0, 0] *= np.sign(np.prod(weights[:, 0]))
    else:  # signs are symmetric, so that all-ones weights stand for any of positive product
        weights = np.ones((k, block_size))
    relevant, irrelevant = weights[:, 0], weights[:, 1:]
    plateau_end = last_time_above(0.5 - gamma, relevant, irrelevant)
    total = zero_error_time(relevant, irrelevant)
    numbers: dict[str, Any] = {
        "plateau_time": plateau_end,
        "zero_error_time": total,
        "ratio": plateau_end / total,
        "one_minus_ratio_order": block_size ** (1 - k / 2) * gamma ** (2 / k - 1),
    }
    if init != "gaussian":
        guaranteed = _guaranteed_plateau(block_size, k, gamma, variant)
        numbers["guaranteed_ratio"] = guaranteed / total
    return numbers


def _guaranteed_plateau(block_size: int, k: int, gamma: float, variant: Variant) -> float:
    """Time until which Lemma B.9 keeps the error above 1/2 - gamma, from weights of magnitude 1.

    (erf(b / sqrt(2(n'-1))) + excess)^k <= 2 gamma up to a magnitude b, reached at time (1 - b^(2-k))/(k-2).
    """
    noise = block_size - 1
    excess = 2 * BERRY_ESSEEN / math.sqrt(noise) if variant == "repaired" else BERRY_ESSEEN * noise**-1.5
    room = (2 * gamma) ** (1 / k) - excess
    magnitude = math.sqrt(2 * noise) * float(erfinv(room)) if room > 0 else 0.0
    return (1 - magnitude ** (2 - k)) / (k - 2) if magnitude > 1 else 0.0


def _growth_to_zero_error(start: np.ndarray, irrelevant: np.ndarray) -> float:
    return max(0.0, float((np.abs(irrelevant).sum(axis=1) ** 2 - start**2).max()))
