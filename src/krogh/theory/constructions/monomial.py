"""The parity in k neurons of activation z^k (dissertation, §B.4.1, where its existence is stated).

The weights are computed in rational arithmetic and rounded once, to float64. What remains is the cancellation
in the network itself, which grows with k: about 1e-11 at k = 8, and 1e-7 at k = 16.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

import numpy as np

from krogh.errors import require
from krogh.models import power_mlp
from krogh.models.interpolation import from_roots, oscillating_interpolant
from krogh.theory.constructions.base import Construction, construction
from krogh.theory.constructions.parity import indicator, parity_construction, parity_task
from krogh.theory.predictions.inputs import check_open


@construction("parity/monomial", source="dissertation, section B.4.1 (existence; the weights are derived)")
def monomial(
    n: int, k: int | None = None, support: tuple[int, ...] | None = None, spacing: float = 4.0
) -> Construction:
    """A two-layer network of width k with activation z^k.

        chi_S(x) = Σ_i u_i (w_S·x + b_i)^k

    The oscillating polynomial p(s) = Σ_j p_j s^j of degree k has p(w_S·x) = chi_S(x). Comparing powers of s,
    the sum is p exactly when Σ_i u_i b_i^j = m_j := p_{k-j}/C(k,j) for j = 0..k: with M the linear functional
    z^j -> m_j on polynomials, a quadrature of k nodes for M. The first k-1 nodes are free, an even grid of
    the given `spacing` here; with q = ∏_{i<k} (z - b_i) the last is b_k = M(zq)/M(q), and u_i = M(L_i) for
    the Lagrange polynomials L_i of the nodes.
    """
    task = parity_task(n, k, support)
    check_open("spacing", spacing, 0)
    nodes, weights = quadrature(task.k, Fraction(float(spacing)))
    params = {
        "W": np.tile(indicator(task), (task.k, 1)),
        "b": np.array([float(node) for node in nodes]),
        "u": np.array([float(weight) for weight in weights]),
    }
    model = power_mlp(task.k, task.k)
    return parity_construction("parity/monomial", task, model, params, task.k, f"u·(Wx + b)^{task.k}", tolerance=1e-6)


def quadrature(k: int, spacing: Fraction) -> tuple[list[Fraction], list[Fraction]]:
    """Nodes b_1..b_k and weights u_1..u_k with Σ_i u_i b_i^j = m_j for j = 0..k, exactly."""
    p = oscillating_interpolant(k)
    moments = [p[k - j] / math.comb(k, j) for j in range(k + 1)]

    def functional(polynomial: Sequence[Fraction]) -> Fraction:
        return sum((a * m for a, m in zip(polynomial, moments, strict=False)), Fraction(0))

    # The grid of k centred points without its first: for odd k the formula below puts that one back.
    nodes = [spacing * Fraction(2 * j - (k - 1), 2) for j in range(1, k)]
    q = from_roots(nodes)
    below = functional(q)
    last = functional((Fraction(0), *q)) / below if below else None
    require(
        last is not None and last not in nodes,
        f"the nodes spaced by {float(spacing)} leave no place for the last one at k={k}; try another spacing",
    )
    nodes.append(last)  # type: ignore[arg-type]
    weights = []
    for i, node in enumerate(nodes):
        others = nodes[:i] + nodes[i + 1 :]
        weights.append(functional(from_roots(others)) / math.prod(node - other for other in others))
    return nodes, weights
