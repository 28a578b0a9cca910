"""Theorem 1: SGD on the recurrent matrix learns sums of smooth functions of single tokens.

The target at position j is Σ_{i<j} Σ_{r≤p} Φ_{i→j,r}(⟨w*_{i→j,r}, x*_i⟩), of complexity C = C_ε(Φ, √L). Near its start
the network is linear in the shift W' of its matrix, and one explicit shift W^> is nearly the target; SGD does as well
as that shift. Source: *Can SGD learn recurrent neural networks with provable generalization?*, sections 4 and 5.
`krogh.theory.recurrence.scales` says what is taken for hidden constants and what happens outside a theorem's range.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from krogh.errors import require, require_integer
from krogh.theory.numerics import exp_or_inf
from krogh.theory.prediction import check_not_negative, check_open, is_number, prediction
from krogh.theory.recurrence.complexity import Concepts, log_c_eps
from krogh.theory.recurrence.scales import Network, check_power, log_add, order

LEAST_NOISE = 0.1
"""Lemma 5.1 asks for σ of at least this."""


@prediction(
    "recurrence/sums-training",
    source="Can SGD learn RNNs, Theorem 1 (section 4)",
    constants="all hidden, and logarithms with them: taken as 1, poly(L, d) as (L d)^'power'",
)
def sums_training(eps: float, network: Network, concepts: Concepts, power: float = 1.0) -> dict[str, Any]:
    """Scale of the output, learning rate and steps with which SGD learns a sum of functions of tokens.

        lambda = eps/(L² d),   eta = 1/(eps L² d² m),   T = p² C² poly(L,d)/eps²,   C = C_eps(Φ, sqrt L)

    lambda² eta m does not depend on the width: rates for one width carry over to another by keeping it.
    """
    check_power(power)
    length, d = network.length, network.outputs
    log_c = concepts.log_c_eps(network.root_length, eps)
    scale, rate = eps / (length**2 * d), 1 / (eps * length**2 * d**2 * network.width)
    return {
        "scale_order": scale,
        "rate_order": rate,
        **order("steps", _log_steps(eps, network, concepts, log_c, power)),
        "log_complexity": log_c,
        "scale_squared_rate_width": scale**2 * rate * network.width,
    }


@prediction(
    "recurrence/sums-guarantee",
    source="Can SGD learn RNNs, Theorem 1 (section 4)",
    constants="polynomials hidden: poly(x, y) is taken as (x y)^'power'; the guarantee OPT + eps is explicit",
)
def sums_guarantee(
    eps: float, samples: int, network: Network, concepts: Concepts, optimum: float = 0.0, power: float = 1.0
) -> dict[str, Any]:
    """Average risk of the iterates of SGD on sums of functions of tokens, and what it asks of width and samples.

        E (1/T) Σ_t risk(W_t) <= OPT + eps  for  m >= poly(C, 1/eps),  N >= poly(C, 1/eps, ln m),
        eps < 1/(poly(L,d) p C_s(Φ, O(sqrt L)))

    Of the average over iterates, not of the last one. The width enters the samples only as ln m. An example is seen
    once per step, so the sample complexity is min(N, T).
    """
    check_power(power)
    require_integer("samples", samples, 1)
    check_not_negative(optimum=optimum)
    log_c = concepts.log_c_eps(network.root_length, eps)
    log_ratio = log_c - math.log(eps)
    log_width, log_samples = power * log_ratio, power * (log_ratio + math.log(network.log_width))
    log_allowed = -(
        power * math.log(network.length * network.outputs)
        + math.log(concepts.terms)
        + concepts.log_c_s(network.root_length)
    )
    return {
        "risk": optimum + eps,
        "log_width_needed": log_width,
        "wide_enough": network.log_width >= log_width,
        "log_samples_needed": log_samples,
        "enough_samples": math.log(samples) >= log_samples,
        "log_eps_allowed": log_allowed,
        "eps_small_enough": math.log(eps) < log_allowed,
        "log_sample_complexity": min(log_samples, _log_steps(eps, network, concepts, log_c, power)),
        "log_failure_order": -(network.rho**2),
    }


@prediction(
    "recurrence/sums-size",
    source="Can SGD learn RNNs, section 4.1 and Example 2.1",
    constants="polynomials hidden: poly(x) is taken as x^'power'; the factor in the exponent O(log 1/eps) as 1",
)
def sums_size(eps: float, network: Network, concepts: Concepts, power: float = 1.0) -> dict[str, Any]:
    """Width and samples for sums of functions of tokens: polynomial for polynomials, nearly so for sin and tanh.

        Φ of constant degree:  m = (L d p/eps)^power,  min(N,T) = p² (L d ln m)^power/eps²
        Φ with a good Taylor series:  C = L^O(log 1/eps)

    `polynomial`: whether all functions are polynomials, so that the first line is theirs. `log_complexity` is ln
    C_eps(Φ, sqrt L) with series cut off at degree ceil(ln(1/eps)), and `log_complexity_order` = ln(1/eps) ln L the
    second line's.
    """
    check_power(power)
    check_open("eps", eps, 0, 1)
    inside = network.log_length + math.log(network.outputs)
    cut = math.ceil(-math.log(eps))
    members = concepts.members
    exact = max(
        log_c_eps(phi, network.root_length, eps, c_star=concepts.c_star, degree=cut if phi.degree is None else None)
        for phi in members
    )
    log_samples = 2 * math.log(concepts.terms / eps) + power * (inside + math.log(network.log_width))
    return {
        "polynomial": all(phi.degree is not None for phi in members),
        **order("width", power * (inside + math.log(concepts.terms / eps))),
        **order("samples", log_samples),
        "log_complexity": exact,
        "log_complexity_order": -math.log(eps) * network.log_length,
    }


@prediction(
    "recurrence/off-target",
    source="Can SGD learn RNNs, Lemma 5.1 (section 5.1)",
    constants="the constant before C' is hidden and taken as 1",
)
def off_target(gamma: float, eps: float, concepts: Concepts, sigma: float = 1.0) -> dict[str, Any]:
    """What is left of a function behind an indicator when the noise inside it is gamma times larger.

        |E[1{<a,x> + gamma n >= 0} H(a)] - Φ(0)| <= eps + C' ln(gamma sigma)/(gamma sigma),   C' = C_eps(Φ, sigma)

    n ~ N(0, sigma²), |H| <= C'; at gamma = 1 the expectation is Φ(<w*,x>) within eps. So the leakage falls like
    1/gamma, up to a logarithm. Needs sigma >= 0.1, gamma > 1 and eps < 1/C_s(Φ, O(sigma)); `eps_small_enough` reports
    the last, with O(sigma) as sigma. The logarithm means nothing where gamma sigma <= 1.
    """
    check_open("gamma", gamma, 1)
    at_least = is_number(sigma) and LEAST_NOISE <= sigma < math.inf
    require(at_least, f"Lemma 5.1 needs sigma of at least {LEAST_NOISE}; got sigma={sigma!r} (try {LEAST_NOISE})")
    product = gamma * sigma
    require(
        product > 1,
        f"the bound needs gamma * sigma > 1; got gamma={gamma:g}, sigma={sigma:g} (try gamma={math.e / sigma:.3g})",
    )
    log_bound = concepts.log_c_eps(sigma, eps)
    log_leak = log_bound + math.log(math.log(product)) - math.log(product)
    return {
        **order("leakage", log_leak),
        **order("error", log_add(math.log(eps), log_leak)),
        "log_weight_bound": log_bound,
        "eps_small_enough": math.log(eps) < -concepts.log_c_s(sigma),
    }


class _Selector(NamedTuple):
    """Of Definition 5.3: ln C', ln of the largest ε_x allowed, ln ε_x, ln ε_c, ln C."""

    function: float
    allowed: float
    eps_x: float
    eps_c: float
    weight: float


def _selector(eps: float, network: Network, concepts: Concepts, eps_x: float | None) -> _Selector:
    """ε_c = ε_e ε_x/(4C') and C = 4C'²/(ε_e ε_x), for an ε_x within the range of Lemma 5.2."""
    log_c = concepts.log_c_eps(network.root_length, eps)
    log_allowed = -(4 * network.log_rho + log_c)
    if eps_x is None:
        log_x = log_allowed - math.log(2)
    else:
        check_open("eps_x", eps_x, 0)
        log_x = math.log(eps_x)
        allowed = exp_or_inf(log_allowed)
        near = f"try {allowed / 2:.3g}" if allowed > 0 else "leave eps_x out, a smaller c_star helps"
        require(
            log_x < log_allowed,
            f"eps_x is outside the range of Lemma 5.2: eps_x < 1/(rho^4 C') = e^{log_allowed:.4g} for rho = "
            f"{network.rho:.4g}, C' = C_eps(Φ, sqrt L) = e^{log_c:.4g}; got eps_x={eps_x:g} ({near})",
        )
    log_weight = math.log(4) + 2 * log_c - math.log(eps) - log_x
    return _Selector(log_c, log_allowed, log_x, math.log(eps / 4) + log_x - log_c, log_weight)


@prediction(
    "recurrence/good-shift",
    source="Can SGD learn RNNs, Lemmas 5.2 and 5.4, Definition 5.3, end of section 5.3",
    constants="O() hidden, taken as 1; C', C, eps_c and the range of eps_x explicit given C*",
)
def good_shift(eps: float, network: Network, concepts: Concepts, eps_x: float | None = None) -> dict[str, Any]:
    """How far the linearised network with the shift W^> is from the target, and how large W^> is.

        |f - F*| <= p rho^11 (eps + C_s(Φ,1) eps_x^(1/3) + C m^-0.05),   ||W^>||_F <= p rho^3 C/sqrt(m)
        C = 4C'²/(eps eps_x),   C' = C_eps(Φ, sqrt L),   eps_c = eps eps_x/(4C'),   eps_x < 1/(rho^4 C')

    `eps_x` is half of what is allowed unless given. `log_norm_times_root_width` = ln(sqrt(m) ||W^>||) depends on the
    width through rho alone. `eps_small_enough`: eps < 1/C_s(Φ, O(sqrt L)), with O() as 1.
    """
    s = _selector(eps, network, concepts, eps_x)
    front = math.log(concepts.terms) + 11 * network.log_rho
    parts = {
        "fit": math.log(eps),
        "token": concepts.log_c_s(1.0) + s.eps_x / 3,
        "width": s.weight - 0.05 * network.log_width,
    }
    norm = math.log(concepts.terms) + 3 * network.log_rho + s.weight - network.log_width / 2
    return {
        **order("error", front + log_add(*parts.values())),
        **{f"log_{name}_error_order": front + part for name, part in parts.items()},
        **order("norm", norm),
        "log_norm_times_root_width": norm + network.log_width / 2,
        "log_weight_bound": s.weight,
        "log_eps_x": s.eps_x,
        "log_eps_x_allowed": s.allowed,
        "log_eps_c": s.eps_c,
        "eps_small_enough": math.log(eps) < -concepts.log_c_s(network.root_length),
    }


def _log_steps(eps: float, network: Network, concepts: Concepts, log_c: float, power: float) -> float:
    """ln T for T = p² C² (L d)^power/ε²."""
    return 2 * (math.log(concepts.terms) + log_c - math.log(eps)) + power * math.log(network.length * network.outputs)
