"""The SGD guarantee for disjoint-PolyNets at any batch size: horizon, rates and growth (Theorem 5.8)."""

from __future__ import annotations

import math
from typing import Any

from krogh.errors import require, require_integer
from krogh.theory.prediction import prediction
from krogh.theory.predictions.inputs import Variant, check_open, check_variant

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
