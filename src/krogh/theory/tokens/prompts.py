"""The settings that the theorems on token regression share: prompts, and the two-layer network behind the link.

The letters of the source and the words used here: N = `length`, d = `dimension`, q = `sparsity`, H = `heads`,
n = `samples`; the link is within `link_error` = eps_2NN (a squared error) of a two-layer ReLU network of
`link_width` = m_g hidden units with |a| <= r_a/sqrt(m_g) and |(W, b)|_F <= r_w sqrt(m_g), where
r_a = `output_norm` and r_w = `hidden_norm`; tokens have moments E[|x|^r]^(1/r) <= sqrt(C_x d r) with
C_x = `moment` (1 for standard Gaussian tokens).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from krogh.theory.prediction import check_counts, check_positive


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
