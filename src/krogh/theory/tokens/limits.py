"""How large networks must be to hold what the constructions of token regression need.

What no training can mend: too few heads, and a first layer that saw too few samples.

Gaussian and sub-Gaussian tokens: how long the longest is, and how much a squared norm varies.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from krogh.errors import require
from krogh.theory.numerics import exp_or_inf
from krogh.theory.prediction import (
    Variant,
    check_counts,
    check_not_negative,
    check_positive,
    check_variant,
    is_number,
    prediction,
)
from krogh.theory.tokens.prompts import LinkNorms, Prompts, radius_of_tokens


@prediction(
    "qstr/head-floor",
    source="qSTR paper, Proposition 3 (section 3.1) and Proposition 21 (appendix A.2)",
    constants="all explicit; 'floor_sharper' is derived from the proof of Proposition 3",
)
def head_floor(sparsity: int, dimension: int, heads: int) -> dict[str, Any]:
    """Risk that a one-layer Transformer of H heads cannot go below, whatever its weights and its head.

        any attention: 1 - H(q+d)/(qd);   no attention between data and codes: 1 - H/q

    Label: centred squared norms of q tokens over sqrt(qd); tokens of the second half are zero, where the indices
    are (1..q). Each head shows d functionals of the relevant tokens and, through scores that read tokens, q
    more. Derived and sharper: the H d functionals a_h (x) e_r and the H q functionals e_j (x) w_h leave out
    the product of two orthogonal complements, of dimension (q-H)(d-H) for H < min(q, d), so the floor is
    (1 - H/q)(1 - H/d), positive for every H < min(q, d), where the printed one ends at H = qd/(q+d).
    Proposition 21 is stated for d = 1; its proof gives the same floor for every d. Floors are cut off at 0.
    """
    check_counts(sparsity=sparsity, dimension=dimension, heads=heads)
    q, d = sparsity, dimension
    return {
        "floor": max(0.0, 1 - heads * (q + d) / (q * d)),
        "floor_sharper": max(0.0, 1 - heads / q) * max(0.0, 1 - heads / d),
        "floor_separated": max(0.0, 1 - heads / q),
        "vacuous": heads * (q + d) >= q * d,
        "heads_needed": -(-q * d // (q + d)),
        "heads_needed_sharper": min(q, d),
        "heads_needed_separated": q,
    }


@prediction(
    "qstr/feedforward-floor",
    source="qSTR paper, Theorem 6 (section 4, appendix B)",
    constants="all explicit; for the worst (or the average) direction u, with probability 1 over the samples",
)
def feedforward_floor(samples: int, length: int, dimension: int, target: float = 0.0) -> dict[str, Any]:
    """Risk of every feedforward network trained to a stationary point with weight decay, on simple-1STR.

        risk >= 1 - n/(Nd) for some u (and on average over u);  0 beyond n = Nd

    The first layer, of any width, lies in the span of the training inputs, and the best predictor that sees
    only that span has this risk. Holds too for minimum-norm solutions. `samples_needed` are those below which
    no such network reaches the risk `target`.
    """
    check_counts(samples=samples, length=length, dimension=dimension)
    within = is_number(target) and 0 <= target < 1
    require(within, f"target must be a risk in [0, 1), where 1 is that of the zero predictor; got target={target!r}")
    size = length * dimension
    return {
        "floor": max(0.0, 1 - samples / size),
        "inputs": size,
        "samples_needed": math.ceil((1 - target) * size * (1 - 1e-12)),
    }


@prediction(
    "qstr/token-radius",
    source="qSTR paper, Lemma 12 (appendix A.1)",
    constants="all explicit, given the moment constant C_x",
)
def token_radius(
    samples: int,
    length: int,
    dimension: int,
    moment: float = 1.0,
    radius: float | None = None,
    variant: Variant = "repaired",
) -> dict[str, Any]:
    """Probability that any token of any of n prompts is at least as long as `radius`.

        P(max |x| >= r) <= nN exp(-r^2 / (2e C_x d));   r_x = sqrt(3e C_x d ln(nN)) gives (nN)^(-1/2)

    C_x = `moment` with E[|x|^r]^(1/r) <= sqrt(C_x d r) for r >= 1. `radius` is r_x by default. Printed: for
    every r > 0. The proof takes the moment of order r^2/(e C_x d), which must be at least 1, and below that a
    token of constant norm sqrt(C_x d) contradicts the bound for nN = 1. Repaired: 1 there, and never above 1.
    """
    check_counts(samples=samples, length=length, dimension=dimension)
    check_positive(moment=moment)
    check_variant(variant)
    typical = radius_of_tokens(samples * length, dimension, moment)
    chosen = typical if radius is None else radius
    check_not_negative(radius=chosen)
    order = chosen**2 / (math.e * moment * dimension)
    probability = samples * length * math.exp(-order / 2)
    if variant == "repaired":
        probability = min(1.0, probability) if order >= 1 else 1.0
    return {"radius": chosen, "probability": probability, "moment_order": order, "radius_typical": typical}


@prediction("qstr/variance", source="qSTR paper, Lemma 40 (appendix D)", constants="all explicit")
def squared_norm_variance(mean: tuple[float, ...], variances: tuple[float, ...]) -> dict[str, Any]:
    """Mean and variance of the squared norm of a Gaussian vector.

        E|x|^2 = |m|^2 + tr(S),   Var|x|^2 = 2 tr(S^2) + 4 m^T S m

    The covariance S is diagonal with `variances`, which loses nothing: rotate to its eigenvectors, `mean` too.
    """
    m, s = np.asarray(mean, np.float64), np.asarray(variances, np.float64)
    same = m.ndim == s.ndim == 1 and len(m) == len(s) > 0
    require(same, f"mean and variances need one number per coordinate each; got mean={mean!r}, variances={variances!r}")
    require((s >= 0).all(), f"variances must be at least 0; got variances={variances!r}")
    return {"mean": float(m @ m + s.sum()), "variance": float(2 * (s**2).sum() + 4 * (m**2 * s).sum())}


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
    check_variant(variant)
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
    check_variant(variant)
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
