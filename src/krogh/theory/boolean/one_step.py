"""What the one-step theorem asks for: width, batch, dimension and iterations for SGD on a ReLU MLP.

One large-batch step from the symmetric sign initialisation exposes the support; training the top layer then
finishes. No instance that can be run meets the hypotheses: the numbers say how far away they are.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from krogh.errors import require
from krogh.theory.boolean.majority import log_majority_coefficient
from krogh.theory.numerics import ceil_or_inf, exp_or_inf, least_integer, log_binomial
from krogh.theory.prediction import Variant, check_even, check_odd, check_open, check_variant, prediction


@prediction(
    "parity/one-step-theorem",
    source="dissertation, section B.2.1, Theorem 5.5 and Lemmas B.3-B.5",
    constants="repaired: all explicit; printed: c_1, c_2 universal, not explicit (given as settings, 1 each)",
)
def one_step_theorem(
    n: int, k: int, epsilon: float = 0.1, variant: Variant = "repaired", c1: float = 1.0, c2: float = 1.0
) -> dict[str, Any]:
    """What Theorem 5.5 asks of width, batch, dimension and iterations for hinge loss at most epsilon.

    Repaired, with L = log(128 k^2 (k+1) n / epsilon):

        r   >= (2k-1) 2^k log(8(k+1)/epsilon)                    tau = |xi_{k-1}| / (16k sqrt(2nL))
        B   >= (2/tau^2) log(32 n r / epsilon)                   T - 1 >= 2^12 k^2 (k+1) r n^2 / epsilon^2
        n   :  (1+1/k) tau/|xi| + (k-1) sqrt(2nL) / (2k(n-k)) + tau sqrt(2nL) / (k|xi|) <= 1/(8k^2)

    k even, n odd. Printed: k in place of k+1 and 2k-1, B = 2^8 k^(7/6) n C(n,k-1) log log / c1,
    T = 2^9 k^3 r n^2 / epsilon^2, n >= 2^11 k^4 (c2/c1)^2 L; these do not follow from the proof as written.
    The conclusion is about the smallest loss over the iterations, in expectation: `loss_at_most` is what Theorem B.6
    leaves of the ideal top layer's epsilon/4 where all goes well, the rest of epsilon is for what may not.
    """
    check_odd("n", n)
    check_even("k", k)
    require(k < n, f"k must be less than n; got n={n}, k={k}")
    require(n <= 10**15 and k <= 100, f"the calculator goes up to n=10^15 and k=100; got n={n}, k={k}")
    check_open("epsilon", epsilon, 0, 0.5)
    check_open("c1", c1, 0)
    check_open("c2", c2, 0)
    repaired = variant == "repaired"
    log_xi = log_majority_coefficient(n, k - 1)
    logarithm = _log_term(n, k, epsilon, variant)
    neurons = k + 1 if repaired else k

    width = _even(good_neuron_width(k, epsilon, variant))
    union = math.log(32 * n * width / epsilon)
    log_tau = log_xi - math.log(16 * k * math.sqrt(2 * n * logarithm))
    if repaired:
        log_batch = math.log(2 * union) - 2 * log_tau
        iterations: float = ceil_or_inf(2**12 * k**2 * (k + 1) * width * n**2 / epsilon**2) + 1
        smallest_n = smallest_dimension(k, epsilon)
    else:
        log_batch = math.log(2**8 * k ** (7 / 6) * n * logarithm * union / c1) + log_binomial(n, k - 1)
        iterations = ceil_or_inf(2**9 * k**3 * width * n**2 / epsilon**2)
        factor = 2**11 * k**4 * (c2 / c1) ** 2
        smallest_n = _smallest_odd(lambda m: m >= factor * _log_term(m, k, epsilon, variant))
    return {
        "width": width,
        "tolerance": math.exp(log_tau),
        "batch": ceil_or_inf(exp_or_inf(log_batch)),
        "log10_batch": log_batch / math.log(10),
        "iterations": iterations,
        "smallest_n": smallest_n,
        "n_is_large_enough": n >= smallest_n,
        "bias_grid_suffices": k >= 4,
        "first_rate": exp_or_inf(-math.log(k) - log_xi),
        "first_weight_decay": 1.0,
        "top_rate": 4 * k * math.sqrt(neurons) / (n * math.sqrt(width * (iterations - 1))),
        "relevant_weight": 1 / (2 * k),
        "irrelevant_weight": (k - 1) / (2 * k * (n - k)),
        "relevant_to_irrelevant": (n - k) / (k - 1),
        "good_pair_probability": good_pair_probability(k, variant),
        "feature_bound": n + 1,
        "top_norm": 8 * k * math.sqrt(neurons),
        "loss_at_most": convex_sgd_bound(
            epsilon / 4, 8 * k * math.sqrt(neurons), 2 * n * math.sqrt(width), iterations - 1
        ),
        "main_text_iterations": k**3 * width**2 * n / epsilon**2,
    }


def good_pair_probability(k: int, variant: Variant = "repaired") -> float:
    """Probability that a symmetric pair of neurons supplies a good one with one prescribed bias.

        2^(1-k) / (2k-1);  printed 1/(k 2^(k-1)), about twice too large

    The k relevant signs must agree (then one of the pair has the right output sign), and the bias is one of
    2k-1. Source: dissertation, section B.2.1, Lemma B.5.
    """
    check_even("k", k)
    check_variant(variant)
    return 2.0 ** (1 - k) / (2 * k - 1) if variant == "repaired" else 1 / (k * 2.0 ** (k - 1))


def good_neuron_width(k: int, epsilon: float, variant: Variant = "repaired") -> float:
    """Width with which all needed good neurons are present except with probability epsilon/8.

    (2k-1) 2^k log(8(k+1)/epsilon);  printed k 2^k log(8k/epsilon)
    """
    needed = k + 1 if variant == "repaired" else k
    per_bias = 2 * k - 1 if variant == "repaired" else k
    return per_bias * 2.0**k * math.log(8 * needed / epsilon)


def feature_error(n: int, k: int, epsilon: float) -> float:
    """How far the features after the repaired first step may lie from the ideal ones.

        (1+1/k) tau/|xi| + (k-1) sqrt(2nL) / (2k(n-k)) + tau sqrt(2nL) / (k|xi|); it must not exceed 1/(8k^2)

    With tau as in the theorem, xi cancels, so that no universal constant is left.
    """
    root = math.sqrt(2 * n * _log_term(n, k, epsilon, "repaired"))
    tau_over_xi = 1 / (16 * k * root)
    return tau_over_xi * (1 + 1 / k) + (k - 1) * root / (2 * k * (n - k)) + tau_over_xi * root / k


def smallest_dimension(k: int, epsilon: float) -> int:
    """The least odd n from which the repaired theorem's condition on n holds."""
    check_even("k", k)
    check_open("epsilon", epsilon, 0, 0.5)
    # Below 4k the error still exceeds its limit, and from there on it decreases in n.
    return _smallest_odd(lambda n: n > 4 * k and feature_error(n, k, epsilon) <= 1 / (8 * k**2))


def convex_sgd_bound(optimum: float, norm: float, gradient_norm: float, steps: float) -> float:
    """Bound on the average loss of SGD on a convex loss: F(u*) + M rho / sqrt(T), at rate M/(rho sqrt(T)).

    Source: dissertation, section B.2.1, Theorem B.6. The one-step theorem uses M = 8k sqrt(k+1) (printed
    8k sqrt(k)) and rho = 2n sqrt(r).
    """
    check_open("norm", norm, 0)
    check_open("gradient_norm", gradient_norm, 0)
    check_open("steps", steps, 0)
    return optimum + norm * gradient_norm / math.sqrt(steps)


def _log_term(n: int, k: int, epsilon: float, variant: Variant) -> float:
    """log(2 neurons / eps') with eps' = epsilon / (64 k^2 n): the union bound over the needed neurons."""
    return math.log(128 * k**2 * (k + 1 if variant == "repaired" else k) * n / epsilon)


def _even(width: float) -> int:
    """The least even whole number not below `width`: neurons come in pairs."""
    return 2 * math.ceil(width / 2)


def _smallest_odd(holds: Callable[[int], bool]) -> int:
    """The least odd number above 1 from which a condition holds, given that it stays true once true."""
    return 2 * int(least_integer(lambda half: holds(2 * half + 1))) + 1
