"""What no fixed embedding can do: a floor under the hinge loss of every kernel method on some parity."""

from __future__ import annotations

import math
from typing import Any

from krogh.errors import require_integer
from krogh.theory.prediction import prediction
from krogh.theory.predictions.inputs import check_open, check_parity, exp_or_inf, log_binomial


@prediction(
    "parity/kernel-floor",
    source="dissertation, section 5.4.1, Theorem 5.6",
    constants="all explicit; hinge loss only (for the 0-1 loss the statement fails below error 1/2)",
)
def kernel_floor(n: int, k: int, dimension: int, radius: float, epsilon: float = 0.5) -> dict[str, Any]:
    """The hinge loss that linear functions of a fixed embedding cannot go below on some k-parity.

        D R^2 < epsilon^2 C(n,k)  implies  loss > 1 - epsilon for some S;  floor 1 - R sqrt(D/C(n,k))

    The embedding has D = `dimension` coordinates and norm at most 1 everywhere, the function norm at most
    R = `radius`. Derived and sharper, for any dimension: 1 - R/sqrt(C(n,k)), since hinge >= 1 - y f and the
    squared norms of the embedding's coefficients sum to at most 1 over all S. Floors are cut off at 0.
    """
    check_parity(n, k)
    require_integer("dimension", dimension, 1)
    check_open("radius", radius, 0)
    check_open("epsilon", epsilon, 0)
    log_subsets = log_binomial(n, k)
    share = math.exp(-log_subsets / 2)
    return {
        "applies": math.log(dimension) + 2 * math.log(radius) < 2 * math.log(epsilon) + log_subsets,
        "loss_above": 1 - epsilon,
        "floor": max(0.0, 1 - radius * math.sqrt(dimension) * share),
        "floor_any_dimension": max(0.0, 1 - radius * share),
        "coefficient_norm_at_most": share,
        "dimension_needed": exp_or_inf(2 * math.log(epsilon / radius) + log_subsets),
    }
