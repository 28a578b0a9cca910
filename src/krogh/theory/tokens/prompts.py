"""What the theorems on token regression share: prompts, their tokens' lengths, the network behind the link.

The letters of the source and the words used here: N = `length`, d = `dimension`, q = `sparsity`, H = `heads`,
n = `samples`; the link is within `link_error` = eps_2NN (a squared error) of a two-layer ReLU network of
`link_width` = m_g hidden units with |a| <= r_a/sqrt(m_g) and |(W, b)|_F <= r_w sqrt(m_g), where
r_a = `output_norm` and r_w = `hidden_norm`; tokens have moments E[|x|^r]^(1/r) <= sqrt(C_x d r) with
C_x = `moment` (1 for standard Gaussian tokens).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from krogh.errors import require
from krogh.theory.prediction import Variant, check_counts, check_not_negative, check_positive, prediction


@dataclass(frozen=True)
class Prompts:
    """Prompts of N = `length` tokens in R^d, d = `dimension`, of which q = `sparsity` matter at every position."""

    length: int
    dimension: int
    sparsity: int

    def __post_init__(self) -> None:
        check_counts(length=self.length, dimension=self.dimension, sparsity=self.sparsity)

    def token_radius(self, samples: int, moment: float) -> float:
        """r_x: all tokens of n = `samples` prompts are shorter, but for probability (nN)^(-1/2)."""
        return radius_of_tokens(samples * self.length, self.dimension, moment)


@dataclass(frozen=True)
class LinkNorms:
    """r_a = `output_norm` and r_w = `hidden_norm` of the two-layer network that stands for the link."""

    output_norm: float
    hidden_norm: float

    def __post_init__(self) -> None:
        check_positive(output_norm=self.output_norm, hidden_norm=self.hidden_norm)

    @property
    def slope(self) -> float:
        """r_a r_w, how steep the network is at most."""
        return self.output_norm * self.hidden_norm


def radius_of_tokens(tokens: float, dimension: int, moment: float) -> float:
    """sqrt(3 e C_x d ln(tokens)): all of so many tokens are shorter, but for probability tokens^(-1/2) (Lemma 12)."""
    return math.sqrt(3 * math.e * moment * dimension * math.log(tokens))


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
