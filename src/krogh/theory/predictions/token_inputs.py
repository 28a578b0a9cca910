"""What predictions about token regression share: checks of their settings, and how long a token can get.

The letters of the source and the words used here: N = `length`, d = `dimension`, q = `sparsity`, H = `heads`,
n = `samples`; the link is within `link_error` = eps_2NN (a squared error) of a two-layer ReLU network of
`link_width` = m_g hidden units with |a| <= r_a/sqrt(m_g) and |(W, b)|_F <= r_w sqrt(m_g), where
r_a = `output_norm` and r_w = `hidden_norm`; tokens have moments E[|x|^r]^(1/r) <= sqrt(C_x d r) with
C_x = `moment` (1 for standard Gaussian tokens).
"""

from __future__ import annotations

import math

from krogh.errors import require, require_integer
from krogh.theory.predictions.inputs import check_open, is_number


def check_counts(**counts: int) -> None:
    """Require every count to be an integer of at least 1."""
    for name, value in counts.items():
        require_integer(name, value, 1)


def check_positive(**values: float) -> None:
    """Require every value to be a number greater than 0."""
    for name, value in values.items():
        check_open(name, value, 0)


def check_not_negative(**values: float) -> None:
    """Require every value to be a finite number of at least 0."""
    for name, value in values.items():
        within = is_number(value) and 0 <= value < math.inf
        require(within, f"{name} must be a finite number of at least 0; got {name}={value!r}")


def radius_of_tokens(tokens: float, dimension: int, moment: float) -> float:
    """sqrt(3 e C_x d ln(tokens)): all of so many tokens are shorter, but for probability tokens^(-1/2)."""
    return math.sqrt(3 * math.e * moment * dimension * math.log(tokens))
