"""What a one-layer Transformer with as many heads as relevant tokens provably learns, and from how few samples.

Constrained empirical risk minimisation over merged query-key matrices and a two-layer head, H = q, m = m_g.
The sequence length enters through logarithms only, and those are hidden. Settings are those of `Prompts` and
`LinkNorms`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal

from krogh.errors import require
from krogh.theory.numerics import least_integer
from krogh.theory.prediction import (
    Variant,
    check_counts,
    check_not_negative,
    check_open,
    check_positive,
    check_variant,
    prediction,
)
from krogh.theory.tokens.prompts import LinkNorms, Prompts

_MOST_SAMPLES = 2**1000
"""A search for a number of samples ends here; twice as many would not fit a float's square."""


@dataclass(frozen=True)
class TransformerBound:
    """The estimation error of Theorems 4 and 10 as a function of the number of samples."""

    prompts: Prompts
    link_width: int
    link: LinkNorms
    moment: float = 1.0
    theorem: Literal[4, 10] = 10
    clipped: bool = False
    variant: Variant = "repaired"

    def __post_init__(self) -> None:
        check_counts(link_width=self.link_width)
        check_positive(moment=self.moment)
        known = self.theorem in (4, 10)
        require(known, f"theorem must be 4 or 10; got theorem={self.theorem!r} (try 10, the sharper one)")
        check_variant(self.variant)

    @property
    def feedforward(self) -> int:
        """m_g q (d+q): what the two-layer head adds to the complexity."""
        return self.link_width * self.prompts.sparsity * (self.prompts.dimension + self.prompts.sparsity)

    @property
    def parameter_radius_squared(self) -> float:
        """R^2 of Theorem 4."""
        q, d, width = self.prompts.sparsity, self.prompts.dimension, self.link_width
        attention = q**2 / d if self.variant == "printed" else max(q**2 / d, q**3 / d**2)
        return self.link.output_norm**2 / width + width * self.link.hidden_norm**2 + attention

    def token_radius(self, samples: int) -> float:
        return self.prompts.token_radius(samples, self.moment)

    def prompt_radius_squared(self, samples: int) -> float:
        return self.token_radius(samples) ** 2 + self.prompts.dimension * (1 + 1 / self.prompts.sparsity)

    def prefactor(self, samples: int) -> float:
        """C1."""
        if self.clipped:
            return 1.0
        if self.theorem == 10:
            return self.prompts.sparsity * self.link.slope**2 * self.prompt_radius_squared(samples)
        power = 1 if self.variant == "printed" else 2
        return self.parameter_radius_squared**power * self.prompts.sparsity * self.prompts.dimension

    def attention(self, samples: int) -> float:
        """What the query-key matrices add to the complexity."""
        q, d = self.prompts.sparsity, self.prompts.dimension
        by_size = q**3 + q * d**2
        if self.theorem == 4:
            return by_size
        return min(self.prompt_radius_squared(samples) ** 3 * (self.link.slope * q) ** 2, by_size)

    def estimation(self, samples: int) -> float:
        return self.prefactor(samples) * math.sqrt((self.feedforward + self.attention(samples)) / samples)

    def samples(self, target: float) -> float | int:
        """The least n from which on the estimation error is at most `target`."""
        # ln(nN)^5 / n, the fastest growth there can be, falls once ln(nN) >= 5: from there on bisection is sound.
        low = math.ceil(math.exp(5) / self.prompts.length)
        if self.estimation(low) <= target:
            while low > 1 and self.estimation(low - 1) <= target:
                low -= 1
            return low
        return least_integer(lambda n: self.estimation(n) <= target, low, _MOST_SAMPLES)


@prediction(
    "qstr/transformer-risk",
    source="qSTR paper, Theorem 4 (section 3.2) and Theorem 10 (appendix A.1)",
    constants="an order: leading constants and logarithms of N and n are taken as 1, except ln(nN) within r_x",
)
def transformer_risk(samples: int, bound: TransformerBound, link_error: float = 0.0) -> dict[str, Any]:
    """Population risk of the constrained empirical risk minimiser among Transformers with q heads.

        Theorem 10:  eps + C1 sqrt((m_g q (d+q) + min(r_z^6 r_a^2 r_w^2 q^2, q (q^2+d^2))) / n)
        Theorem 4:   eps + C1 sqrt((m_g q (d+q) + q^3 + q d^2) / n)

    r_z^2 = r_x^2 + d(1 + 1/q), r_x^2 = 3e C_x d ln(nN), and C1 = q r_a^2 r_w^2 r_z^2 in Theorem 10. Printed
    for Theorem 4: C1 = R^2 q d with R^2 = r_a^2/m_g + m_g r_w^2 + q^2/d. Repaired, twice. The construction's
    attention has squared norm of order q^3/d^2, above q^2/d where q > d, so the larger of the two enters R^2.
    And C1 is H |a|^2 |W|^2 r_z^2, where |a| |W| <= R^2/2 by the means' inequality: R^4 q d, not R^2 q d.
    `clipped`: the output is clipped at a large constant, which makes C1 = 1.
    """
    check_counts(samples=samples)
    check_not_negative(link_error=link_error)
    estimation = bound.estimation(samples)
    return {
        "risk": link_error + estimation,
        "estimation": estimation,
        "approximation": link_error,
        "prefactor": bound.prefactor(samples),
        "feedforward_complexity": bound.feedforward,
        "attention_complexity": bound.attention(samples),
        "token_radius": bound.token_radius(samples),
        "prompt_radius": math.sqrt(bound.prompt_radius_squared(samples)),
        "parameter_radius": math.sqrt(bound.parameter_radius_squared),
    }


@prediction(
    "qstr/transformer-samples",
    source="qSTR paper, Theorems 4 and 10 solved for n; the floor from the remarks after Theorem 4",
    constants="orders: leading constants and logarithms are taken as 1 in 'samples' and in 'information_floor'",
)
def transformer_samples(target: float, bound: TransformerBound) -> dict[str, Any]:
    """Samples from which on the estimation error of "qstr/transformer-risk" stays below `target`.

        n >= C1^2 (m_g q (d+q) + q^3 + q d^2) / target^2;   no method does with fewer than order q d

    `target` is the risk beyond the link's own approximation error. In Theorem 10 the radius r_x inside C1
    grows with ln(nN), so n is the solution of an equation rather than a quotient.
    """
    check_open("target", target, 0)
    floor = bound.prompts.sparsity * bound.prompts.dimension
    return {"samples": bound.samples(target), "information_floor": floor}


@prediction(
    "qstr/regime",
    source="qSTR paper, second remark after Theorem 4",
    constants="the two terms and their ratio explicit; from which ratio on one dominates is the setting 'margin'",
)
def regime(link_width: int, dimension: int, sparsity: int, margin: float = 10.0) -> dict[str, Any]:
    """Whether learning the link or learning to retrieve costs a Transformer more samples.

        feedforward if m_g >= margin (d+q);  attention if m_g <= (d+q)/margin;  balanced between

    `feedforward_term` = m_g q (d+q) and `attention_term` = q^3 + q d^2 are what the bound adds up.
    """
    check_counts(link_width=link_width, dimension=dimension, sparsity=sparsity)
    require(margin >= 1, f"margin must be a number of at least 1; got margin={margin!r}")
    ratio = link_width / (dimension + sparsity)
    dominant = "feedforward" if ratio >= margin else "attention" if ratio <= 1 / margin else "balanced"
    return {
        "dominant": dominant,
        "ratio": ratio,
        "feedforward_term": link_width * sparsity * (dimension + sparsity),
        "attention_term": sparsity**3 + sparsity * dimension**2,
    }
