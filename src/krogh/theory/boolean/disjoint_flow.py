"""Training of a disjoint-PolyNet: gradient flow solved exactly, its plateau, and what SGD guarantees.

The network is prod_i <w_i, x_{P_i}> over k blocks of the input; v_i is the one relevant weight of block i.
Under the correlation loss the irrelevant weights do not move, and dv_i/dt = prod_{j != i} v_j. All v_i^2 grow
by the same amount q(t), which turns the flow into one integral. Time here is the flow's own. Combined with the law of
the error (`disjoint_error`) it says how long the error stays near one half (Theorem 5.7). For SGD at any batch size
there are a horizon, rates and growth (Theorem 5.8).
"""

from __future__ import annotations

import math
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.integrate import quad
from scipy.optimize import brentq
from scipy.special import erfinv

from krogh.errors import require, require_integer
from krogh.theory.boolean.disjoint_error import BERRY_ESSEEN, block_law, check_blocks, network_error
from krogh.theory.numerics import exp_or_inf
from krogh.theory.prediction import Variant, check_open, check_variant, prediction

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


RATE_DIVISOR = {"printed": 2.0, "repaired": 4.0}
"""C in the learning rate; 4 is what Azuma-Hoeffding needs to keep the martingale within 1/2."""

HORIZON_FACTOR = {"printed": 6.0, "repaired": 48.0}
"""K in the horizon; repaired by 4 for C and by 2 for the exponent of Lemma B.9."""


def sgd_horizon(block_size: int, k: int, epsilon: float, delta: float, variant: Variant = "repaired") -> float:
    """The least T with T >= K log(2nT/delta) log(2k/epsilon) (3n'-2)^(2k-1), n = k n'; as a whole number."""
    require_integer("block_size", block_size, 2)
    require_integer("k", k, 1)
    check_open("epsilon", epsilon, 0, 0.5)
    check_open("delta", delta, 0, 1)
    check_variant(variant)
    log_scale = math.log(HORIZON_FACTOR[variant] * math.log(2 * k / epsilon))
    log_scale += (2 * k - 1) * math.log(3 * block_size - 2)
    log_inside = math.log(2 * block_size * k / delta)
    log_horizon = log_scale
    for _ in range(200):  # T -> A log(2nT/delta) contracts by 1/log(2nT/delta) near its larger fixed point
        log_horizon = log_scale + math.log(log_inside + log_horizon)
    if log_horizon > 700:
        return math.inf
    return math.ceil(math.exp(log_horizon) * (1 - 1e-13))


def sgd_rate_scale(horizon: float, n: int, delta: float, variant: Variant = "repaired") -> float:
    """The numerator of the adaptive rate: eta_i(t) = scale / prod_{l != i} |w_l(t)|_1.

        scale = 1 / (C sqrt(2T log(2nT/delta)))

    Source: dissertation, section B.2.4.
    """
    check_variant(variant)
    check_open("horizon", horizon, 0)
    check_open("delta", delta, 0, 1)
    return 1 / (RATE_DIVISOR[variant] * math.sqrt(2 * horizon * math.log(2 * n * horizon / delta)))


def relevant_growth(
    steps: float, horizon: float, block_size: int, k: int, delta: float, variant: Variant = "repaired"
) -> float:
    """What the magnitude of every relevant weight is at least after a number of steps.

        1/2 + t / (C sqrt(2T log(2nT/delta)) (3n'-2)^(k-1))

    With probability 1 - delta. Source: dissertation, section B.2.4, Claim B.12 (as its proof derives it).
    """
    require(0 <= steps <= horizon, f"steps must be between 0 and the horizon {horizon:g}; got {steps!r}")
    scale = sgd_rate_scale(horizon, block_size * k, delta, variant)
    return 0.5 + steps * scale / (3 * block_size - 2.0) ** (k - 1)


@prediction(
    "parity/polynet-sgd",
    source="dissertation, section B.2.4, Theorem 5.8",
    constants="all explicit (K=48, C=4 repaired; K=6, C=2 printed); 'order' of the main text order only",
)
def polynet_sgd(
    block_size: int, k: int, epsilon: float = 0.1, delta: float = 0.1, variant: Variant = "repaired"
) -> dict[str, Any]:
    """Steps after which SGD on a disjoint-PolyNet has error at most epsilon, at any batch size.

        T >= K log(2nT/delta) log(2k/epsilon) (3n'-2)^(2k-1)   (fixed point in T), n' = `block_size`, n = k n'

    Sign initialisation with positive product of relevant weights (probability 1/2), correlation loss,
    adaptive rates eta_i = rate_scale / prod_{l != i} |w_l|_1. With probability 1 - delta over the samples,
    irrelevant weights stay within 3/2 and relevant ones reach `relevant_at_least`; `relevant_needed` is the
    magnitude from which Lemma B.9 bounds the error by epsilon.
    """
    horizon = sgd_horizon(block_size, k, epsilon, delta, variant)
    finite = math.isfinite(horizon)
    reached = relevant_growth(horizon, horizon, block_size, k, delta, variant) if finite else math.nan
    exponent = 2.0 if variant == "repaired" else 1.0  # the 2 of Hoeffding that the printed Lemma B.9 lacks
    needed = math.sqrt(exponent * 9 / 4 * (block_size - 1) * math.log(2 * k / epsilon))
    log_order = (2 * k - 1) * math.log(block_size) + math.log(math.log(1 / epsilon))
    return {
        "horizon": horizon,
        "rate_scale": sgd_rate_scale(horizon, block_size * k, delta, variant) if finite else 0.0,
        "irrelevant_at_most": 1.5,
        "relevant_at_least": reached,
        "relevant_needed": needed,
        "initialisation_probability": 0.5,
        "log10_order": log_order / math.log(10),
    }
