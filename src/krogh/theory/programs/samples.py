"""Statistically meaningful approximation: how many samples a margin, a norm and a number of parameters ask for.

A class F ε-SM-approximates G with n samples if minimising some surrogate loss over F on n labelled samples gives a true
loss of at most ε, with probability 0.99. The surrogate is the ramp loss of the all-layer margin
(`krogh.networks.margins`), the constraint ‖θ‖_1 ≤ α; α = `one_norm`, γ = `margin`, p = `parameters` here. Beside it
stand what other surrogates would ask for.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from krogh.errors import require, require_integer
from krogh.theory.numerics import exp_or_inf
from krogh.theory.prediction import Variant, check_open, check_positive, is_number, prediction
from krogh.theory.programs.margin import plain_margin, ramp_loss, rounded_margin
from krogh.theory.programs.theorem import Constants, theorem_bound

_ORDER = "an order: the leading constant is taken as 1, and factors polylogarithmic in α² ln p/(γ²ε²) are left out"


def n_SM(eps: float, alpha: float, gamma: float, p: int) -> float:
    """(α² ln p/γ² + 1)/ε² of Lemma 2.3; the constant and the polylogarithm that Õ hides are omitted."""
    check_positive(eps=eps, alpha=alpha, gamma=gamma)
    require_integer("p", p, 2)
    return (alpha**2 * math.log(p) / gamma**2 + 1) / eps**2


@prediction("approximation/surrogate-risk", source="SM paper, Proposition 2.2", constants="all explicit")
def surrogate_risk(epsilon: float, samples: int, failure: float = 0.01) -> dict[str, Any]:
    """True loss of the minimiser of a surrogate with Rademacher complexity and approximation error at most ε.

    5ε + 2√(ln(2/δ)/n) with probability 1 - δ;   δ = 0.01: 5ε + 2√(5.298/n)
    """
    check_open("epsilon", epsilon, 0)
    require_integer("samples", samples, 1)
    check_open("failure", failure, 0, 1)
    estimation = 2 * math.sqrt(math.log(2 / failure) / samples)
    return {"loss": 5 * epsilon + estimation, "complexity_term": 5 * epsilon, "confidence_term": estimation}


@prediction("approximation/ramp-loss", source="SM paper, (2.2)", constants="all explicit")
def mean_ramp_loss(margins: tuple[float, ...], gamma: float) -> dict[str, Any]:
    """The surrogate that is minimised: the mean ramp loss of all-layer margins ρ_i, one per sample.

        1 where ρ ≤ 0, 1 - ρ/γ where 0 < ρ ≤ γ, 0 beyond: never below the share of errors, which have ρ = 0

    `beyond` is the share of samples that cost nothing.
    """
    usable = len(margins) > 0 and all(is_number(margin) and 0 <= margin < math.inf for margin in margins)
    require(usable, f"margins are finite numbers of at least 0, one per sample; got {margins!r}")
    losses, given = ramp_loss(margins, gamma), np.asarray(margins, np.float64)
    return {
        "loss": float(losses.mean()),
        "errors": float(np.mean(given == 0)),
        "beyond": float(np.mean(given >= gamma)),
    }


@prediction("approximation/sample-size", source="SM paper, Lemma 2.3", constants=_ORDER)
def sm_samples(epsilon: float, one_norm: float, margin: float, parameters: int) -> dict[str, Any]:
    """Samples with which networks of 1-norm α ε-SM-approximate a class that they fit with all-layer margin γ.

        n = (α² ln p/γ² + 1)/ε²

    `log_covering` = ⌊α² ln p/(γ²ε²)⌋ is the order of the logarithm of the number of functions at distance ε that the
    ramp loss has. p enters through its logarithm: wider networks with zeros in the rest need hardly more.
    """
    samples = n_SM(epsilon, one_norm, margin, parameters)
    complexity = one_norm**2 * math.log(parameters) / margin**2
    return {"samples": samples, "complexity": complexity, "log_covering": float(np.floor(complexity / epsilon**2))}


@prediction(
    "approximation/rademacher",
    source="SM paper, proof of Lemma 2.3",
    constants="an order: the leading constant is taken as 1; ln n is explicit",
)
def ramp_rademacher(samples: int, one_norm: float, margin: float, parameters: int) -> dict[str, Any]:
    """Rademacher complexity of the all-layer margin's ramp loss over ‖θ‖_1 ≤ α, on n samples.

    α ln n √(ln p)/(γ√n)
    """
    require_integer("samples", samples, 1)
    require_integer("parameters", parameters, 2)
    check_open("one_norm", one_norm, 0)
    check_open("margin", margin, 0)
    bound = one_norm * math.log(samples) * math.sqrt(math.log(parameters)) / (margin * math.sqrt(samples))
    return {"complexity": bound, "trivial": bound >= 1}


@prediction(
    "approximation/margin-generalisation",
    source="SM paper, Corollary A.1",
    constants="an order: the leading constants of both terms are taken as 1",
)
def margin_generalisation(
    one_norm: float,
    parameters: int,
    margins: tuple[float, ...],
    failure: float = 0.01,
    variant: Variant = "repaired",
) -> dict[str, Any]:
    """True 0-1 loss of a network that fits n samples with the all-layer margins ρ_i, one per sample.

        α√(ln p)/√n · √((1/n) Σ 1/ρ_i²) + ξ

    ξ = (ln(1/δ) + ln n)/√n as printed. The lemma of Wei and Ma from which it comes has 1/n there: repaired.
    `least_margin` is the first term's value for the worst margin alone.
    """
    check_open("one_norm", one_norm, 0)
    require_integer("parameters", parameters, 2)
    check_open("failure", failure, 0, 1)
    positive = len(margins) > 0 and all(is_number(margin) and 0 < margin < math.inf for margin in margins)
    require(positive, f"margins are positive numbers, one per sample: all samples must be fitted; got {margins!r}")
    n = len(margins)
    scale = one_norm * math.sqrt(math.log(parameters) / n)
    mean = math.sqrt(math.fsum((1 / margin) ** 2 for margin in margins) / n)
    rest = (math.log(1 / failure) + math.log(n)) / (math.sqrt(n) if variant == "printed" else n)
    return {
        "error": scale * mean + rest,
        "margin_term": scale * mean,
        "low_order_term": rest,
        "least_margin": scale / min(margins),
    }


@prediction(
    "approximation/corrected-margin",
    source="SM paper, Theorem D.6",
    constants="all explicit, as functions of the constants of the network's modules",
)
def corrected_margin(
    lam: float,
    sigma_zeta: float,
    kappa_xi: float,
    kappa_theta: float,
    mu: float,
    mu_0: float,
    radius: float,
    sigma_h: float | None = None,
) -> dict[str, Any]:
    """All-layer margin, from below, of a network with corrections, whatever its depth.

    The least of λ/μ0, σζ/μ0, σθ, 1/(2κθ), σζ/(2κθλ), σξ, σh/(2κξλ), σζ/(4λμκξ), 1/(4μκξ), with σθ = σξ = `radius`;
    `sigma_h` is None for modules without attention, where it is infinite.
    """
    given = {"lam": lam, "sigma_zeta": sigma_zeta, "kappa_xi": kappa_xi, "kappa_theta": kappa_theta, "mu": mu}
    check_positive(**given, mu_0=mu_0, radius=radius)
    reach = math.inf if sigma_h is None else sigma_h
    found = theorem_bound(Constants(s=radius, sigma_h=reach, mu_0=mu_0, **given))
    return {"margin": found.value, "binding": found.binding, "terms": found.terms}


@prediction(
    "approximation/feedforward-vc",
    source="SM paper, section 3 (after Theorem 3.1); Harvey et al. 2017, Bartlett et al. 2019",
    constants="an order: p d ln p with constant 1; both the upper and the lower bound of the cited work have it",
)
def feedforward_vc(parameters: int, layers: int, epsilon: float = 0.1) -> dict[str, Any]:
    """VC dimension of ReLU networks of p parameters in d layers, and the samples that the 0-1 loss asks for by it.

    p d ln p;   n = p d ln p/ε²: polynomial in the width, where "approximation/sample-size" has its logarithm
    """
    require_integer("parameters", parameters, 2)
    require_integer("layers", layers, 1)
    check_open("epsilon", epsilon, 0)
    dimension = vc_order(parameters, layers)
    return {"vc_dimension": dimension, "samples": dimension / epsilon**2}


def vc_order(parameters: int, layers: int) -> float:
    return parameters * layers * math.log(parameters)


@prediction(
    "approximation/transformer-vc",
    source="SM paper, section 4 (after Theorem 4.1); Koiran and Sontag 1998",
    constants="an order: w T with constant 1, as a lower bound",
)
def transformer_vc(width: int, steps: int, epsilon: float = 0.1) -> dict[str, Any]:
    """VC dimension, from below, of transformers of width w that write T outputs, which can express recurrent networks.

    w T;   n = w T/ε: no fewer samples do for the 0-1 loss in the worst case
    """
    require_integer("width", width, 1)
    require_integer("steps", steps, 1)
    check_open("epsilon", epsilon, 0)
    return {"vc_floor": width * steps, "samples": width * steps / epsilon}


@prediction(
    "approximation/norm-product",
    source="SM paper, section 3 (after Theorem 3.1) and section 4; Bartlett et al. 2017",
    constants="an order: the square of the product over ε², with constant 1 and other norms left out",
)
def norm_product(norms: tuple[float, ...], repeats: int = 1, epsilon: float = 0.1) -> dict[str, Any]:
    """Samples by the output margin, whose bounds grow with the operator norms of all matrices an input passes.

        (Π‖W_i‖)^2/ε², and its T-th power for weights that are used in each of T = `repeats` steps

    Exponential in the depth wherever norms are above 1, as in circuits; in T for recurrent weights.
    """
    require(len(norms) > 0, f"norms are the operator norms of the matrices, at least one; got {norms!r}")
    for norm in norms:
        check_open("a norm", norm, 0)
    require_integer("repeats", repeats, 1)
    check_open("epsilon", epsilon, 0)
    logarithm = repeats * math.fsum(math.log(norm) for norm in norms)
    samples = 2 * logarithm - 2 * math.log(epsilon)
    return {
        "log10_product": logarithm / math.log(10),
        "product": exp_or_inf(logarithm),
        "log10_samples": samples / math.log(10),
        "samples": exp_or_inf(samples),
    }


@prediction(
    "approximation/linear-time",
    source="SM paper, section 4 (prior constructions: Siegelmann and Sontag 1995, Pérez et al. 2019)",
    constants="an order: T/ε² with constant 1",
)
def linear_time(steps: int, epsilon: float = 0.1) -> dict[str, Any]:
    """Samples that earlier constructions of Turing machines ask for: at least linear in the running time T.

    T/ε², where "approximation/machines" has a power of log T
    """
    require_integer("steps", steps, 1)
    check_open("epsilon", epsilon, 0)
    return {"samples": steps / epsilon**2, "order": float(steps)}


@prediction(
    "approximation/toy-chain",
    source="SM paper, Claim 3.5 and section 3.1; exact values derived",
    constants="all explicit; margins of the rounded chain are minima found to 1e-6",
)
def toy_chain(depth: int) -> dict[str, Any]:
    """All-layer margin of a chain of d weights 1, plain and with rounding between its layers.

        plain: √d (1 - 2^{-1/d}), at most 3/√d by the source's choice of δ_i = 3/d;   rounded: at least 1/3

    `rounded` keeps the parameters of the roundings frozen, as the claim does; `rounded_free` moves them too.
    """
    require_integer("depth", depth, 1)
    return {
        "plain": plain_margin(depth).value,
        "plain_source": 3 / math.sqrt(depth),
        "plain_limit": math.log(2) / math.sqrt(depth),
        "rounded": rounded_margin(depth).value,
        "rounded_source": 1 / 3,
        "rounded_free": rounded_margin(depth, free=True).value,
    }
