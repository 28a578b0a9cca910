"""What predictions share: checks of their settings, and binomials that do not overflow."""

from __future__ import annotations

import math
from typing import Literal, get_args

from krogh.errors import require, require_integer

Variant = Literal["printed", "repaired"]
"""A theorem as the source prints it, or with its errors repaired so that the proof goes through."""


def check_parity(n: int, k: int) -> None:
    """Require 1 <= k <= n."""
    require_integer("n", n, 1)
    require_integer("k", k, 1)
    require(k <= n, f"a parity of k bits needs n >= k coordinates; got n={n}, k={k} (try n={k} or more)")


def check_odd(name: str, value: int) -> None:
    """Require an odd positive integer, as majority does, which must not tie."""
    require_integer(name, value, 1)
    require(value % 2 == 1, f"{name} must be odd; got {name}={value} (try {value - 1} or {value + 1})")


def check_even(name: str, value: int) -> None:
    """Require an even positive integer."""
    require_integer(name, value, 1)
    require(value % 2 == 0, f"{name} must be even; got {name}={value} (try {value - 1 or 2} or {value + 1})")


def check_open(name: str, value: float, low: float, high: float = math.inf) -> None:
    """Require a number strictly between `low` and `high`."""
    allowed = f"greater than {low:g}" if high == math.inf else f"strictly between {low:g} and {high:g}"
    within = is_number(value) and low < value < high
    require(within, f"{name} must be a number {allowed}; got {name}={value!r}")


def check_noise(p: float) -> None:
    """Require a probability of flipping a label, between 0 and 1/2."""
    within = is_number(p) and 0 <= p <= 0.5
    require(within, f"noise is the probability of a flipped label, between 0 and 0.5; got noise={p!r}")


def check_variant(variant: str) -> None:
    """Require one of the two variants of a theorem."""
    allowed = get_args(Variant)
    require(variant in allowed, f"variant must be {' or '.join(map(repr, allowed))}; got variant={variant!r}")


def log_binomial(n: int, k: int) -> float:
    """log C(n, k), without overflow."""
    fewer = min(k, n - k)
    if fewer <= 1000:  # log-gamma would lose digits to cancellation where n is large and k is not
        return math.fsum(math.log((n - i) / (i + 1)) for i in range(fewer))
    return math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1)


def log_central_binomial(half: int) -> float:
    """log of 2^(-2m) C(2m, m) for m = `half`: the chance that 2m fair coins tie."""
    if half <= 500:
        return math.log(math.comb(2 * half, half)) - 2 * half * math.log(2)
    return -0.5 * math.log(math.pi * half) - 1 / (8 * half) + 1 / (192 * half**3) - 1 / (640 * half**5)


def exp_or_inf(logarithm: float) -> float:
    """exp, with infinity instead of an error where a float cannot hold the result."""
    return math.exp(logarithm) if logarithm < 709 else math.inf


def ceil_or_inf(value: float) -> float | int:
    """The least whole number not below `value`; infinity stays infinity."""
    return math.ceil(value) if math.isfinite(value) else math.inf


def is_number(value: object) -> bool:
    """Whether `value` is a real number (booleans and strings are not)."""
    return hasattr(value, "__float__") and not isinstance(value, (bool, str))
