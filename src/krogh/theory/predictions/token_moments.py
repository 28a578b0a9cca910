"""Gaussian and sub-Gaussian tokens: how long the longest is, and how much a squared norm varies."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from krogh.errors import require
from krogh.theory.prediction import prediction
from krogh.theory.predictions.inputs import Variant, check_variant
from krogh.theory.predictions.token_inputs import check_counts, check_not_negative, check_positive, radius_of_tokens


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
