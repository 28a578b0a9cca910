"""Gradient flow of a disjoint-PolyNet, solved exactly.

The network is prod_i <w_i, x_{P_i}> over k blocks of the input; v_i is the one relevant weight of block i.
Under the correlation loss the irrelevant weights do not move, and dv_i/dt = prod_{j != i} v_j. All v_i^2 grow
by the same amount q(t), which turns the flow into one integral. Time here is the flow's own.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.integrate import quad
from scipy.optimize import brentq

from krogh.errors import require, require_integer
from krogh.theory.prediction import prediction
from krogh.theory.predictions.inputs import check_open, exp_or_inf

Array = NDArray[np.float64]


def flow_time(growth: float, initial: ArrayLike) -> float:
    """Exact time until every squared relevant weight has grown by `growth` (which may be infinite).

        t(q) = 1/2 int_0^q prod_i (s + v_i(0)^2)^(-1/2) ds

    The time to infinity is finite for k > 2. Source: dissertation, section B.2.3, proof of Lemma B.8.
    """
    require(growth >= 0, f"growth must be at least 0; got growth={growth!r}")
    return _elapsed(0.0, growth, initial)


def _elapsed(low: float, high: float, initial: ArrayLike) -> float:
    """Exact time in which the growth of the squares goes from `low` to `high`."""
    squares = _squares(initial)
    k, least = len(squares), float(squares.min())
    if math.isinf(high) and k <= 2:
        return math.inf
    offsets = squares / least - 1

    def integrand(z: float) -> float:
        # s = least (e^z - 1) spreads the scales out; a factor e^(-kz/2) taken out keeps it from overflowing.
        return math.exp((1 - k / 2) * z - 0.5 * float(np.log1p(offsets * math.exp(-z)).sum()))

    begin, end = math.log1p(low / least), math.inf if math.isinf(high) else math.log1p(high / least)
    value = quad(integrand, begin, end, epsabs=0.0, epsrel=1e-11, limit=400)[0]
    return 0.5 * least ** (1 - k / 2) * value


def flow_growth(time: float, initial: ArrayLike) -> float:
    """Exact growth q of every squared relevant weight at a time: the inverse of `flow_time`.

    Infinite from the blow-up on.
    """
    squares = _squares(initial)
    require(time >= 0, f"time must be at least 0; got time={time!r}")
    if time == 0:
        return 0.0
    if time >= flow_time(math.inf, initial):
        return math.inf
    least = float(squares.min())
    high = 1.0
    while flow_time(least * math.expm1(high), initial) < time:
        high *= 2
        require(high < 700, f"time={time!r} is too close to the blow-up to resolve")
    z = brentq(lambda z: flow_time(least * math.expm1(z), initial) - time, 0.0, high, xtol=1e-13, rtol=1e-13)
    return least * math.expm1(z)


def flow_weights(time: float, initial: ArrayLike) -> Array:
    """The relevant weights at a time: sign(v_i(0)) sqrt(v_i(0)^2 + q(t)); shape (k,)."""
    start = np.asarray(initial, dtype=np.float64)
    return np.sign(start) * np.sqrt(start**2 + flow_growth(time, start))


def growth_bounds(time: float, initial: ArrayLike) -> tuple[float, float]:
    """Closed-form lower and upper bound on q(t), equal where all |v_i(0)| are.

        k = 2: m (e^(2t) - 1);   k > 2: (m^(1-k/2) - (k-2) t)^(-2/(k-2)) - m

    with m the geometric mean of v_i(0)^2 for the lower and the arithmetic mean for the upper bound.
    Source: dissertation, section B.2.3, eq. (B.8).
    """
    arithmetic, geometric, k = _means(initial)
    return _growth_from_mean(time, geometric, k), _growth_from_mean(time, arithmetic, k)


def time_bounds(growth: float, initial: ArrayLike) -> tuple[float, float]:
    """Closed-form lower and upper bound on the time until the squares have grown by `growth`.

        (m^(1-k/2) - (m + growth)^(1-k/2)) / (k-2), k > 2;   log(1 + growth/m) / 2, k = 2

    with m the arithmetic mean of v_i(0)^2 for the lower and the geometric mean for the upper bound.
    """
    arithmetic, geometric, k = _means(initial)
    return _time_from_mean(growth, arithmetic, k), _time_from_mean(growth, geometric, k)


def remaining_bound(growth: float, initial: ArrayLike) -> float:
    """Bound on the time from a growth to the blow-up: (m + growth)^(1-k/2) / (k-2), m the geometric mean.

    Source: dissertation, section B.2.3, Lemma B.8; k > 2 (infinite for k <= 2).
    """
    _, geometric, k = _means(initial)
    return (geometric + growth) ** (1 - k / 2) / (k - 2) if k > 2 else math.inf


@prediction(
    "parity/polynet-flow",
    source="dissertation, section B.2.3, Lemma B.8 and eqs. (B.7)-(B.8)",
    constants="all explicit",
)
def polynet_flow(
    initial: tuple[float, ...] = (1.0, 1.0, 1.0),
    level: float = 10.0,
    block: int = 0,
    time: float | None = None,
) -> dict[str, Any]:
    """Times of gradient flow on a disjoint-PolyNet: exact by quadrature, with the lemma's bounds.

        T_i(b) = t(b^2 - v_i(0)^2), see `flow_time`;  blow-up by 1 / ((k-2) prod_i |v_i(0)|^(1-2/k))

    `initial` are the relevant weights v_i(0), one per block, with positive product; `level` is the magnitude
    b that the weight of `block` (counted from 0) is to reach, at least |v_i(0)|. With `time`, the weights and
    their growth at that time too.
    """
    start = np.asarray(initial, dtype=np.float64)
    squares = _squares(start)
    require_integer("block", block, 0, len(start) - 1)
    check_open("level", level, 0)
    least = math.sqrt(squares[block])
    require(level >= least, f"level must be at least |v_{block}(0)| = {least:g}; got level={level!r}")
    growth = level**2 - float(squares[block])
    lower, upper = time_bounds(growth, start)
    blow_up, (_, geometric, k) = flow_time(math.inf, start), _means(start)
    numbers: dict[str, Any] = {
        "time_to_level": flow_time(growth, start),
        "time_to_level_at_least": lower,
        "time_to_level_at_most": upper,
        "blow_up": blow_up,
        "blow_up_at_most": geometric ** (1 - k / 2) / (k - 2) if k > 2 else math.inf,
        "remaining_after_level": _elapsed(growth, math.inf, start),
        "remaining_after_level_at_most": remaining_bound(growth, start),
    }
    if time is not None:
        least_growth, most_growth = growth_bounds(time, start)
        numbers |= {
            "growth": flow_growth(time, start),
            "growth_at_least": least_growth,
            "growth_at_most": most_growth,
            "weights": flow_weights(time, start).tolist(),
        }
    return numbers


def _growth_from_mean(time: float, mean: float, k: int) -> float:
    if k == 2:
        return mean * (exp_or_inf(2 * time) - 1)
    if k == 1:
        return (math.sqrt(mean) + time) ** 2 - mean
    base = mean ** (1 - k / 2) - (k - 2) * time
    return base ** (-2 / (k - 2)) - mean if base > 0 else math.inf


def _time_from_mean(growth: float, mean: float, k: int) -> float:
    if k == 2:
        return 0.5 * math.log1p(growth / mean)
    return (mean ** (1 - k / 2) - (mean + growth) ** (1 - k / 2)) / (k - 2)


def _means(initial: ArrayLike) -> tuple[float, float, int]:
    """Arithmetic and geometric mean of the squared initial weights, and the number of blocks."""
    squares = _squares(initial)
    return float(squares.mean()), math.exp(float(np.log(squares).mean())), len(squares)


def _squares(initial: ArrayLike) -> Array:
    start = np.asarray(initial, dtype=np.float64)
    require(
        start.ndim == 1 and start.size > 0 and bool(np.isfinite(start).all()),
        f"initial must be one finite relevant weight per block; got {initial!r}",
    )
    positive = bool((start != 0).all()) and int((start < 0).sum()) % 2 == 0
    require(positive, f"the product of the initial relevant weights must be positive; got {start.tolist()}")
    return start**2
