"""How large networks must be to hold what the constructions of token regression need.

Attention that retrieves by matching codes, a two-layer network in place of a link, and the gadgets of an RNN.
Source: qSTR paper, appendices A.1, C.1 and D.
"""

from __future__ import annotations

import math
from typing import Any

from krogh.errors import require
from krogh.theory.numerics import exp_or_inf
from krogh.theory.prediction import Variant, check_counts, check_not_negative, check_positive, prediction
from krogh.theory.tokens.prompts import LinkNorms, Prompts


@prediction(
    "qstr/retrieval-scale",
    source="qSTR paper, Lemma 11 and (A.2) (appendix A.1)",
    constants="all explicit; codes are of unit norm, of coherence at most 1/2, and scaled by sqrt(d/q)",
)
def retrieval_scale(
    prompts: Prompts,
    code_dimension: int,
    token_radius: float,
    link: LinkNorms,
    tolerance: float,
    variant: Variant = "repaired",
) -> dict[str, Any]:
    """How strongly attention must match codes for the output to be off by at most sqrt(`tolerance`).

        a = (2q/d) ln(2 r_a r_w r_x N sqrt(q) / sqrt(eps));   weight on the right token >= 1 - (N-1) exp(-a d/(2q))

    eps = `tolerance`. The lemma's statement prints eps instead of its root under the logarithm; its proof has the
    root, which is what the error needs (`retrieval_error`, sqrt(eps) when repaired). `attention_norm` is the
    (2,1)-norm a d_e of the query-key matrix of one head, `frobenius_norm` is a sqrt(d_e).
    """
    check_counts(code_dimension=code_dimension)
    check_positive(token_radius=token_radius, tolerance=tolerance)
    length = prompts.length
    spread = 2 * link.slope * token_radius * length * math.sqrt(prompts.sparsity)
    allowed = tolerance if variant == "printed" else math.sqrt(tolerance)
    decay = max(0.0, math.log(spread / allowed))  # an error that needs no retrieval at all needs no negative scale
    scale = 2 * prompts.sparsity / prompts.dimension * decay
    return {
        "scale": scale,
        "retrieval_weight_at_least": max(0.0, 1 - (length - 1) * math.exp(-decay)),
        "token_error_at_most": 2 * length * token_radius * math.exp(-decay),
        "retrieval_error": spread * math.exp(-decay),
        "attention_norm": code_dimension * scale,
        "frobenius_norm": math.sqrt(code_dimension) * scale,
    }


@prediction(
    "qstr/approximation-width",
    source="qSTR paper, Lemma 42 (appendix D), after Bach (2017), Propositions 1 and 6",
    constants="the constant C_d, which depends on the dimension, is hidden and taken as 1",
)
def approximation_width(dimension: int, lipschitz: float, radius: float, error: float) -> dict[str, Any]:
    """Hidden units of a two-layer ReLU network that approximates every L-Lipschitz function on a ball.

        m = (LR (1 + ln(LR/eps)) / eps)^d,   |a| = LR/sqrt(m) (LR (1 + ln(LR/eps)) / eps)^((d+1)/2)

    The function is bounded by LR; hidden weights have norm at most 1/R, biases at most 1. eps = `error` is in
    the supremum norm and at most LR, beyond which the zero function will do.
    """
    check_counts(dimension=dimension)
    check_positive(lipschitz=lipschitz, radius=radius, error=error)
    size = lipschitz * radius
    require(error <= size, f"error must be at most lipschitz * radius = {size:g}; got error={error!r} (try {size:g})")
    log_ratio = math.log(size * (1 + math.log(size / error)) / error)
    log_width = dimension * log_ratio
    return {
        "width_order": exp_or_inf(log_width),
        "log_width": log_width,
        "output_norm_order": exp_or_inf(math.log(size) - log_width / 2 + (dimension + 1) / 2 * log_ratio),
        "output_norm_times_root_width": exp_or_inf(math.log(size) + (dimension + 1) / 2 * log_ratio),
        "hidden_norm_at_most": 1 / radius,
        "bias_at_most": 1.0,
    }


@prediction(
    "qstr/gate-width",
    source="qSTR paper, Lemmas 22, 24 and 25 (appendix C.1)",
    constants="orders: constants are taken as 1",
)
def gate_width(
    token_bound: float, error: float, code_dimension: int = 1, state_bound: float = 0.0, variant: Variant = "repaired"
) -> dict[str, Any]:
    """Hidden units of the two gadgets of the RNN construction: inner product of codes, and gated token.

        gate: R^4 (ln(R/eps)/eps)^2 (R^6 (ln(R/eps)/eps)^3 with a state);   codes: d_e^3 (ln(d_e/eps)/eps)^2

    The gate h + 2 x relu(z - 1/2) has |x| <= r_x = `token_bound`, |h| <= r_h = `state_bound`, |z| <= 1, and
    R^2 = 1 + r_x^2 + r_h^2. Printed in Lemma 25 for r_h = 0: exponent 3/2 of the logarithm over eps, and R^4 in
    the output norm. Repaired, as Lemma 24 has it and as Lemma 42 gives it in two dimensions with L = 2R: exponent
    2, and R^5 (with exponent 3/2) in the norm.
    """
    check_counts(code_dimension=code_dimension)
    check_positive(token_bound=token_bound, error=error)
    check_not_negative(state_bound=state_bound)
    bound = math.sqrt(1 + token_bound**2 + state_bound**2)
    require(error < min(1.0, bound), f"error must be below 1; got error={error!r} (try 0.1)")
    ratio = math.log(bound / error) / error
    if state_bound > 0:
        width, norm = bound**6 * ratio**3, bound**6 * ratio**2
    elif variant == "printed":
        width, norm = bound**4 * ratio**1.5, bound**4 * ratio**1.5
    else:
        width, norm = bound**4 * ratio**2, bound**5 * ratio**1.5
    product = math.log(code_dimension / error) / error
    return {
        "gate_width_order": width,
        "gate_norm_order": norm,
        "codes_width_order": code_dimension**3 * product**2,
        "codes_norm_order": code_dimension**2.5 * product**1.5,
    }
